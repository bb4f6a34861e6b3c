//! Fuzzes `kprobe_events` scripts. An error must point into its line. An accepted line must read back as the same
//! definition. Its values, fetched from memory with holes, must print as one line in each format.
//!
//! Lines `filter TEXT` and `trigger TEXT` write these files of the newest event.
//!
//! Input: a byte that selects the kernel and the missing pages, then the script.
#![no_main]

#[allow(dead_code)] // its other half is for x86_rules
mod toys;

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use toys::{ToyMemory, ToyRegisters};
use trapline::boot::Kernel;
use trapline::still::StillGuest;
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers};
use trapline_probes::Engine;
use trapline_probes::events::error::EventError;
use trapline_probes::events::hist::Lookup;
use trapline_probes::events::parse::{self, Definition, EventCommand};
use trapline_probes::events::places::Places;
use trapline_probes::events::set::EventSet;
use trapline_probes::events::{json, trace};
use trapline_probes::guest::{Cpu, Guest};
use trapline_probes::records::{EventId, Flags, Header, Ring};

static KERNELS: LazyLock<[Kernel; 2]> = LazyLock::new(|| {
    ["tiny/x86_64", "tiny/i386"].map(|name| {
        let builtin = trapline_images::find(name).expect("it is built in");
        Kernel::from_bytes(builtin.bytes).expect("it is a kernel")
    })
});

fuzz_target!(|data: &[u8]| {
    let [choice, text @ ..] = data else { return };
    let Ok(text) = core::str::from_utf8(text) else { return };
    let kernel = &KERNELS[usize::from(choice & 1)];
    let mut guest = StillGuest::new(kernel);
    let mut engine = Engine::new(kernel.arch.isa(), 1).with_record_bytes(8192);
    let mut events = EventSet::default();
    let mut seen = 0;
    for line in parse::script(text) {
        seen += line.text.len();
        // A line that begins with `filter ` or `trigger ` is for the newest event.
        if let Some((file @ ("filter" | "trigger"), text)) = line.text.split_once(' ') {
            is_watched(&mut events, &mut engine, &mut guest, (file, text));
            continue;
        }
        assert!(text.is_char_boundary(line.offset), "a line that begins inside a character");
        if let Ok(Some(EventCommand::Add(definition))) = parse::line(&line.text) {
            reads_back(&definition);
        }
        match events.apply(&mut engine, &mut guest, &line.text) {
            Ok(Some(event)) => prints(&events, event, &guest, *choice),
            Ok(None) => {}
            Err(error) => points_into(&error, &line.text),
        }
    }
    assert!(seen <= text.len(), "the lines are longer than the script");
    assert_eq!(events.text().lines().count(), events.members().len(), "the list has a line for each probe");
    let _ = (events.profile(), engine.list(&guest), events.enable_all(&mut engine, &mut guest, true));
    events.clear(&mut engine, &mut guest);
    assert_eq!(events.members().len(), 0);
    is_untouched(kernel, &guest);
});

/// Writes a filter or a trigger of the newest event. An error must point into the text.
fn is_watched(events: &mut EventSet, engine: &mut Engine, guest: &mut StillGuest<'_>, (file, text): (&str, &str)) {
    let Some(event) = events.members().last().map(|member| member.event) else { return };
    let lookup = Lookup { symbols: &|_| None, system_call: &|_| None };
    match file {
        "filter" => match events.write_filter(engine, event, text) {
            Ok(()) => assert_eq!(events.filter_text(engine, event).is_none(), text.trim() == "0"),
            Err(error) => assert!(error.at <= text.trim().len() + 1 || text.len() > 4095, "{error:?} is beyond {text:?}"),
        },
        _ => match events.write_trigger(engine, guest, event, text) {
            Ok(()) if text.trim_start().starts_with('!') => {}
            Ok(()) => assert!(!events.triggers_text(engine, event).is_empty(), "{text:?} is not listed"),
            Err(error) => assert!(!error.to_string().is_empty()),
        },
    }
    let _ = (events.hist_text(engine, event, &lookup), events.enable_text(engine, event));
}

/// Whether no byte of ours is left in the text.
fn is_untouched(kernel: &Kernel, guest: &StillGuest<'_>) {
    let text = kernel.tables.text.clone();
    let mut before = vec![0; (text.end - text.start) as usize];
    let mut now = before.clone();
    kernel.read(text.start, &mut before).expect("text can be read");
    guest.read_text(text.start, &mut now).expect("text can be read");
    assert!(before == now, "probes have left something behind");
}

fn points_into(error: &EventError, line: &str) {
    let end = error.column + error.length;
    assert!(end <= line.len(), "{error:?} is beyond the end of {line:?}");
    assert!(line.is_char_boundary(error.column) && line.is_char_boundary(end), "{error:?} cuts a character of {line:?}");
    assert!(!error.message.is_empty());
}

fn reads_back(definition: &Definition) {
    let text = definition.to_string();
    match parse::line(&text) {
        Ok(Some(EventCommand::Add(again))) => assert_eq!(&again, definition, "{text:?}"),
        other => panic!("{text:?} reads back as {other:?}"),
    }
}

/// Simulates one hit of the newest probe and prints its record.
fn prints(events: &EventSet, id: EventId, guest: &dyn Guest, choice: u8) {
    let (Some(member), Some(format)) = (events.members().last(), events.format(id)) else { return };
    reads_back(&member.definition);
    let mut cpu = ToyCpu { regs: ToyRegisters::new(&[choice, 0x81, 7], 0), mem: ToyMemory::new(&[choice & !1]) };
    let mut ring = Ring::with_capacity(8192);
    let (flags, comm) = (Flags::NONE, *b"a \"task\"\\\n\xff\0\0\0\0\0");
    let ip = guest.symbol("vfs_read").map_or(0, |symbol| symbol.start);
    let header = Header { event: id, cpu: 0, flags, pid: 1, comm, time: 1_234_567_891, ip, return_ip: ip };
    assert!(ring.push(&header, |payload| member.programs.run(&mut cpu, None, payload)), "one record has room");
    let record = ring.pop().expect("it was pushed");
    let symbol_at = |address| guest.symbol_at(address);
    let (mut shown, mut lines) = (String::new(), String::new());
    let mut places = Places::default();
    trace::write(&mut shown, &record, format, &mut places, &symbol_at);
    json::write(&mut lines, &record, format, &mut places, &symbol_at);
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(&lines);
    assert!(parsed.is_ok() && lines.trim_end().lines().count() == 1, "not one line of JSON: {lines:?}");
}

struct ToyCpu {
    regs: ToyRegisters,
    mem: ToyMemory,
}

impl Registers for ToyCpu {
    fn get(&self, reg: Reg) -> u64 {
        self.regs.get(reg)
    }
    fn set(&mut self, reg: Reg, value: u64) {
        self.regs.set(reg, value);
    }
    fn pc(&self) -> u64 {
        self.regs.pc()
    }
    fn set_pc(&mut self, pc: u64) {
        self.regs.set_pc(pc);
    }
}

impl Memory for ToyCpu {
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.mem.read(address, into)
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.mem.write(address, bytes)
    }
}

impl Cpu for ToyCpu {
    fn number(&self) -> usize {
        0
    }
    fn task(&mut self) -> u64 {
        1
    }
    fn pid(&mut self) -> u32 {
        1
    }
    fn comm(&mut self) -> [u8; 16] {
        *b"toy\0\0\0\0\0\0\0\0\0\0\0\0\0"
    }
    fn now(&self) -> u64 {
        0
    }
    fn interrupts_off(&self) -> bool {
        false
    }
}
