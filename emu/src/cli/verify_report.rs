//! The result of `trapline verify`, for people and as JSON.

use super::Failure;
use super::assembly::{Syntax, Writer};
use super::end::End;
use super::last_words::LastWords;
use super::output::{self, Paint, thousands};
use crate::boot::Kernel;
use crate::machine::{Happening, What};
use crate::verify::{Compared, Difference, Instruction, Outcome, Parted, Place, Seen, Verdict, nanoseconds};
use serde_json::{Value, json};
use std::fmt::Write;

/// The probes of the probed run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// The number of probes.
    pub probes: u64,
    /// Runs of their handlers.
    pub hits: u64,
    /// Hits at which a handler should have run and did not.
    pub missed: u64,
}

/// The text for people.
pub fn text(outcome: &Outcome, hits: Hits, kernel: &Kernel, paint: Paint) -> Result<String, Failure> {
    let mut text = match &outcome.verdict {
        Verdict::Identical(hash) => format!("{}\n{:<14}{hash}\n", paint.good("identical"), "hash"),
        Verdict::Different(difference) => {
            format!("{}\n{}", paint.error("different"), difference_text(difference, kernel)?)
        }
    };
    let compared = &outcome.compared;
    let is_identical = matches!(outcome.verdict, Verdict::Identical(_));
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<14}{value}");
    };
    if is_identical {
        row("ended", End::of(outcome.stop.clone(), &LastWords::default()).reason());
        row("guest time", format!("{} ns", thousands(nanoseconds(compared.ticks))));
    }
    row(if is_identical { "events" } else { "equal events" }, events(compared));
    row(if is_identical { "console" } else { "equal console" }, format!("{} bytes", thousands(compared.console)));
    if is_identical {
        let cpus = if compared.cpus == 1 { "1 CPU".into() } else { format!("{} CPUs", compared.cpus) };
        row("registers", format!("{} of {cpus}", thousands(compared.registers)));
        row("memory", format!("{} bytes", thousands(compared.memory)));
        for (count, what) in accounted(outcome).into_iter().filter(|(count, _)| *count > 0) {
            row("accounted", format!("{} {what}", thousands(count)));
        }
    }
    row("probes", format!("{}: {} hits, {} missed", thousands(hits.probes), thousands(hits.hits), thousands(hits.missed)));
    Ok(text)
}

fn events(compared: &Compared) -> String {
    let [all, interrupts, exceptions, calls] =
        [compared.events, compared.interrupts, compared.exceptions, compared.system_calls].map(thousands);
    format!(
        "{all}, each at the same instruction and time: {interrupts} interrupts, {exceptions} exceptions, {calls} system calls, sleeps, clock reads"
    )
}

/// The differences that the probes are known to make.
fn accounted(outcome: &Outcome) -> [(u64, &'static str); 4] {
    let known = &outcome.accounted;
    [
        (known.text, "bytes of breakpoints and jumps in the text, whose originals are equal"),
        (known.pads, "words and registers with the return pad's address for a return address"),
        (known.links, "words and registers with an old return address, from the link register or its stack slot"),
        (known.tables, "page-table and TLB entries for the probe window"),
    ]
}

fn difference_text(difference: &Difference, kernel: &Kernel) -> Result<String, Failure> {
    let mut text =
        format!("{:<14}{} (at {} ns of guest time)\n", "seen", seen(&difference.seen, kernel), thousands(difference.at));
    let place = match &difference.parted {
        Parted::At(place) => place,
        Parted::Nowhere => return Ok(text + "parted        nowhere: the runs are equal when they are run again\n"),
        Parted::AtStart(first) => {
            let first = seen(first, kernel);
            return Ok(text + &format!("{:<14}before the guests ran: {first}\n", "parted"));
        }
    };
    let shown = Shown::new(kernel)?;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:<14}at {} ns of guest time, on CPU {}", "parted", thousands(place.nanoseconds()), place.cpu);
    match place.is_exact {
        true => {
            let _ = writeln!(text, "{:<14}{}", "in", shown.line(&place.here));
        }
        false => {
            for (number, insn) in place.line.iter().enumerate() {
                let _ = writeln!(text, "{:<14}{}", if number == 0 { "in one of" } else { "" }, shown.line(insn));
            }
        }
    }
    for (side, next) in ["unprobed then", "probed then"].iter().zip(&place.next) {
        let next = next.as_ref().map_or_else(|| "no instruction of the guest's own".into(), |insn| shown.line(insn));
        let _ = writeln!(text, "{side:<14}{next}");
    }
    for (name, unprobed, probed) in &place.registers {
        let _ = writeln!(text, "{:<14}{name}: {unprobed:#x} unprobed, {probed:#x} probed", "register");
    }
    if let Some(word) = &place.memory {
        let _ = writeln!(text, "{:<14}{}", "memory", seen(&Seen::Memory(*word), kernel));
    }
    Ok(text)
}

/// The first thing that was seen to differ, as a sentence.
fn seen(seen: &Seen, kernel: &Kernel) -> String {
    let event = |event: &Option<Happening>| match event {
        None => "nothing".to_string(),
        Some(Happening { cpu, what, pc, time }) => {
            let what = match what {
                What::Interrupt(number) => format!("interrupt {number}"),
                What::Exception(vector, error) => {
                    format!("exception {vector:#x}{}", error.map_or(String::new(), |error| format!(" with error {error:#x}")))
                }
                What::SystemCall => "a system call".into(),
                What::Halt => "sleep".into(),
                What::ClockRead => "a clock read".into(),
            };
            format!("{what} at {} on CPU {cpu} at {} ns", kernel.symbols.describe(*pc), thousands(nanoseconds(*time)))
        }
    };
    let reason = |stop: &crate::machine::Stop| End::of(stop.clone(), &LastWords::default()).reason();
    match seen {
        Seen::Stop(one, other) => format!("the end: unprobed {}, probed {}", reason(one), reason(other)),
        Seen::Time([one, other], cpus) => {
            format!("the clock: {one} ticks on CPU {} unprobed, {other} ticks on CPU {} probed", cpus[0], cpus[1])
        }
        Seen::Event(number, one, other) => {
            format!("event {}: unprobed {}, probed {}", thousands(*number), event(one), event(other))
        }
        Seen::Console(byte) => format!("the console, from byte {} on", thousands(*byte)),
        Seen::Places(one, other) => format!("the pcs of the CPUs: {one:#x?} unprobed, {other:#x?} probed"),
        Seen::Register { cpu, name, values: [one, other] } => {
            format!("register {name} of CPU {cpu}: {one:#x} unprobed, {other:#x} probed")
        }
        Seen::Registers([one, other]) => {
            let said = |why: &Option<String>| why.clone().unwrap_or_else(|| "they have names".into());
            format!("the registers: unprobed {}, probed {}", said(one), said(other))
        }
        Seen::Memory(word) => {
            let symbol = symbol_of(word.physical, kernel).map_or(String::new(), |name| format!(" ({name})"));
            format!("memory at {:#x}{symbol}: {:#x} unprobed, {:#x} probed", word.physical, word.unprobed, word.probed)
        }
    }
}

/// The name of the kernel's data at a physical address.
fn symbol_of(physical: u64, kernel: &Kernel) -> Option<String> {
    let around = |segment: &&crate::boot::Segment| (segment.physical..segment.physical + segment.size).contains(&physical);
    let segment = kernel.segments.iter().find(around)?;
    Some(kernel.symbols.describe(segment.virtual_address + (physical - segment.physical)))
}

/// Shows instructions.
struct Shown<'k> {
    writer: Writer<'k>,
    kernel: &'k Kernel,
}

impl<'k> Shown<'k> {
    fn new(kernel: &'k Kernel) -> Result<Shown<'k>, Failure> {
        Ok(Shown { writer: Writer::new(kernel.arch, Syntax::default(), &kernel.symbols)?, kernel })
    }

    /// The disassembly.
    fn instruction(&self, insn: &Instruction) -> String {
        match (self.kernel.arch.isa().decode)(insn.address, &insn.code) {
            Ok(decoded) => self.writer.text(&decoded),
            Err(_) => "no instruction that trapline knows".into(),
        }
    }

    fn name(&self, insn: &Instruction) -> String {
        self.kernel.symbols.describe(insn.address)
    }

    fn line(&self, insn: &Instruction) -> String {
        let address = output::hex_address(insn.address, self.kernel.arch.isa().word);
        let probed = if insn.is_probed { "  (probed)" } else { "" };
        format!("{address} <{}>  {}{probed}", self.name(insn), self.instruction(insn))
    }

    fn json(&self, insn: &Instruction) -> Value {
        json!({
            "address": format!("{:#x}", insn.address),
            "symbol": self.name(insn),
            "instruction": self.instruction(insn),
            "probed": insn.is_probed,
        })
    }
}

/// The result as JSON.
pub fn json(image: &str, outcome: &Outcome, hits: Hits, kernel: &Kernel) -> Result<Value, Failure> {
    let compared = &outcome.compared;
    let [text, pads, links, tables] = accounted(outcome).map(|(count, _)| count);
    let mut value = json!({
        "image": image,
        "verdict": "identical",
        "ended": End::of(outcome.stop.clone(), &LastWords::default()).reason(),
        "virtual_ns": nanoseconds(compared.ticks),
        "ticks": compared.ticks,
        "events": compared.events,
        "interrupts": compared.interrupts,
        "exceptions": compared.exceptions,
        "system_calls": compared.system_calls,
        "console_bytes": compared.console,
        "cpus": compared.cpus,
        "registers": compared.registers,
        "memory_bytes": compared.memory,
        "accounted": { "text_bytes": text, "pads": pads, "links": links, "window_entries": tables },
        "probes": hits.probes,
        "hits": hits.hits,
        "missed": hits.missed,
    });
    match &outcome.verdict {
        Verdict::Identical(hash) => value["hash"] = json!(hash),
        Verdict::Different(difference) => {
            value["verdict"] = json!("different");
            let place = match &difference.parted {
                Parted::At(place) => place_json(place, kernel)?,
                Parted::Nowhere => Value::Null,
                Parted::AtStart(first) => json!({ "start": seen(first, kernel) }),
            };
            value["difference"] = json!({ "seen": seen(&difference.seen, kernel), "seen_ns": difference.at, "place": place });
        }
    }
    Ok(value)
}

fn place_json(place: &Place, kernel: &Kernel) -> Result<Value, Failure> {
    let shown = Shown::new(kernel)?;
    let hex = |value: u64| format!("{value:#x}");
    let registers: Vec<Value> = place
        .registers
        .iter()
        .map(|(name, unprobed, probed)| json!({ "name": name, "unprobed": hex(*unprobed), "probed": hex(*probed) }))
        .collect();
    let next = place.next.each_ref().map(|next| next.as_ref().map(|insn| shown.json(insn)));
    let memory = place
        .memory
        .map(|word| json!({ "physical": hex(word.physical), "unprobed": hex(word.unprobed), "probed": hex(word.probed) }));
    Ok(json!({
        "cpu": place.cpu,
        "virtual_ns": place.nanoseconds(),
        "exact": place.is_exact,
        "instruction": shown.json(&place.here),
        "line": place.line.iter().map(|insn| shown.json(insn)).collect::<Vec<_>>(),
        "unprobed_next": next[0],
        "probed_next": next[1],
        "registers": registers,
        "memory": memory,
    }))
}
