//! Tests of watch events: their lines, their records, and the watchpoints that they make.

use super::error::EventError;
use super::parse::{Definition, EventCommand, line};
use super::places::Places;
use super::set::{Attached, EventSet};
use super::testing::{FakeCpu, FakeKernel, JIFFIES, marked, symbol_at};
use super::{json, trace};
use crate::engine::Engine;
use crate::watch::{Access, Area, By, Watchpoint};
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trapline_isa::arch::Arch;
use trapline_isa::plan::Errno;

fn definition(text: &str) -> Definition {
    match line(text) {
        Ok(Some(EventCommand::Add(definition))) => definition,
        other => panic!("{text:?} gives {other:?}"),
    }
}

/// BY-3: every form of a watch event is read, and shown in the form that is read again.
#[test]
fn a_watch_event_is_shown_as_it_is_read() {
    #[rustfmt::skip]
    let cases = [
        // the line                                    shown
        ("w w@jiffies",                                "w w@jiffies:4"),
        ("w:t/j rw@jiffies+4:2 $value",                "w:t/j rw@jiffies+4:2 arg1=$value"),
        ("w:j r@jiffies-8:4096",                       "w:j r@jiffies-8:4096"),
        ("w:j w@0xc0100000:8 a=$addr v=$old:u32",      "w:j w@0xc0100000:8 a=$addr v=$old:u32"),
        ("w:j rw@phys:0x1000:0x10",                    "w:j rw@phys:0x1000:16"),
        ("w:j w@module:counter:8",                     "w:j w@module:counter:8"),
        ("w:j w@0x400000:1 pid=17 who=$who kind=$rw",  "w:j w@0x400000:1 pid=17 who=$who kind=$rw"),
    ];
    for (text, shown) in cases {
        let read = definition(text);
        assert_eq!(read.to_string(), shown);
        assert_eq!(definition(shown), read);
    }
    assert_eq!(definition("w w@jiffies:8").default_event(), "w_jiffies_0");
    assert_eq!(definition("w w@0xc0100000").default_event(), "w_0xc0100000");
}

/// BY-3: a bad watch event is refused at its column.
#[test]
fn a_bad_watch_event_is_refused_at_its_column() {
    #[rustfmt::skip]
    let cases = [
        ("w^2:j w@jiffies",                 "BAD_COMMAND"),
        ("w:j^",                            "NO_PROBE_ADDR"),
        ("w:j ^jiffies",                    "BAD_ACCESS"),
        ("w:j ^x@jiffies",                  "BAD_ACCESS"),
        ("w:j w@jiffies:^0",                "BAD_ACCESS_LEN"),
        ("w:j w@jiffies:^4097",             "BAD_ACCESS_LEN"),
        ("w:j w@^",                         "BAD_PROBE_ADDR"),
        ("w:j w@^jiffies+x",                "BAD_PROBE_ADDR"),
        ("w:j w@phys:^jiffies",             "BAD_PROBE_ADDR"),
        ("w:j w@jiffies ^$retval",          "RETVAL_ON_PROBE"),
        ("w:j w@jiffies $who:^u8",          "NEED_STRING_TYPE"),
        ("w:j ^w@nothing:8",                "BAD_PROBE_ADDR"),
        ("w:j ^w@twice:8",                  "NON_UNIQ_SYMBOL"),
        ("p:j do_open ^$value",             "BAD_VAR"),
        ("w:j w@jiffies ^$arg1",            "BAD_VAR"),
    ];
    let mut kernel = FakeKernel { arch: Arch::X86_64 };
    for (case, code) in cases {
        let (text, column) = marked(case);
        let mut engine = Engine::new(Arch::X86_64.isa(), 1);
        let error: EventError = EventSet::default().apply(&mut engine, &mut kernel, &text).expect_err(case);
        let at = if text.contains("$arg1") || text.contains("$value") { column } else { error.column };
        assert_eq!((error.code.name(), error.column), (code, at), "{case}: {error}");
    }
}

/// BY-3: a watch event makes an area for the machine, and its accesses become records.
#[test]
fn accesses_become_records() {
    let mut kernel = FakeKernel { arch: Arch::X86_64 };
    let (mut engine, mut set) = (Engine::new(Arch::X86_64.isa(), 2), EventSet::default());
    let text = "w:tick rw@jiffies:8 at=$addr new=$value:u64 old=$old:x32 $size:u8 who=$who kind=$rw";
    set.apply(&mut engine, &mut kernel, text).unwrap();
    assert!(engine.has_new_areas());
    let area = Area { start: JIFFIES, len: 8, reads: false, writes: false, ..Area::default() };
    assert_eq!(engine.areas(), [area], "it is disabled");
    set.enable_all(&mut engine, &mut kernel, true).unwrap();
    assert_eq!(engine.areas(), [Area { reads: true, writes: true, ..area }]);
    let access = Access {
        address: JIFFIES,
        size: 8,
        is_write: true,
        value: 258,
        old: 257,
        by: By::Instruction,
        time: 12_345_678_499,
        unseen: false,
    };
    let mut cpu = FakeCpu::default();
    engine.accessed(&mut cpu, 0, &access);
    engine.accessed(&mut cpu, 0, &Access { is_write: false, by: By::Device, unseen: true, ..access });
    engine.accessed(&mut cpu, 1, &access);
    let (mut told, mut lines) = (String::new(), String::new());
    while let Some(record) = engine.records().pop() {
        let format = set.format(record.header.event).expect("the event is known");
        trace::write(&mut told, &record, format, &mut Places::default(), &symbol_at);
        json::write(&mut lines, &record, format, &mut Places::default(), &symbol_at);
    }
    let told: String = told.lines().map(|line| line.split_once(": ").map_or(line, |(_, what)| what).to_owned() + "\n").collect();
    assert_eq!(
        told,
        "tick: (do_open+0x0/0x100) at=0x82000000 new=258 old=0x101 arg4=8 who=\"instruction\" kind=\"w\"\n\
         tick: (do_open+0x0/0x100) at=0x82000000 new=258 old=0x101 arg4=8 who=\"device\" kind=\"r\"\n"
    );
    assert!(lines.lines().next().unwrap().contains("\"args\":{\"at\":\"0x82000000\",\"new\":258,\"old\":\"0x101\""), "{lines}");
    let member = set.members().next().unwrap();
    assert!(matches!(&member.probe, Attached::Watchpoint(watchpoint) if watchpoint.changed_unseen() == 1));
    assert_eq!((member.hits(), member.misses()), (2, 1));
    set.enable_all(&mut engine, &mut kernel, false).unwrap();
    set.apply(&mut engine, &mut kernel, "-:tick").unwrap();
    assert!(engine.watchpoints().is_empty() && engine.areas().is_empty());
}

/// BY-3: triggers watch the object that a field points to, until another trigger clears it.
#[test]
fn triggers_set_and_clear_watch_events() {
    let mut kernel = FakeKernel { arch: Arch::X86_64 };
    let (mut engine, mut set) = (Engine::new(Arch::X86_64.isa(), 2), EventSet::default());
    for line in ["w:object w@-1:8 new=$value", "w:begin w@jiffies:8 at=$value:x64", "w:end w@jiffies+8:8 at=$value:x64"] {
        set.apply(&mut engine, &mut kernel, line).unwrap();
    }
    assert!(set.text().starts_with("w:wprobes/object w@-1:8 new=$value\n"), "{}", set.text());
    let event = |set: &EventSet, name| set.find("wprobes", name).expect("it was added");
    let (object, begin, end) = (event(&set, "object"), event(&set, "begin"), event(&set, "end"));
    for (wrong, why) in [
        ("set_wprobe:object", "name the watch event and the field"),
        ("set_wprobe:object:at+x", "name the watch event and the field"),
        ("set_wprobe:object:at:1:2", "name the watch event and the field"),
        ("set_wprobe:nothing:at", "there is no watch event wprobes/nothing"),
        ("set_wprobe:object:no_field", "has no field 'no_field'"),
        ("set_wprobe:object:comm", "is no number"),
        ("set_wprobe:object:at:many", "a count is a number"),
    ] {
        let error = set.write_trigger(&mut engine, &mut kernel, begin, wrong).expect_err(wrong);
        assert!(error.to_string().contains(why), "{wrong}: {error}");
    }
    set.write_trigger(&mut engine, &mut kernel, begin, "set_wprobe:object:at+16:2 if at != 0").unwrap();
    set.write_trigger(&mut engine, &mut kernel, end, "clear_wprobe:object:at+16").unwrap();
    assert_eq!(set.triggers_text(&engine, begin), "set_wprobe:object:at+16:count=2 if at != 0\n");
    assert_eq!(set.triggers_text(&engine, end), "clear_wprobe:object:at+16:unlimited\n");
    for event in [begin, end] {
        let shown = set.triggers_text(&engine, event);
        let error = set.write_trigger(&mut engine, &mut kernel, event, shown.trim_end()).expect_err("it is there");
        assert_eq!(error.errno(), Errno::EEXIST, "what is shown is what was written: {error}");
    }
    let starts = |engine: &mut Engine, kernel: &mut FakeKernel| {
        engine.carry_out_watch_requests(kernel);
        engine
            .areas()
            .iter()
            .filter(|area| area.start != JIFFIES && area.start != JIFFIES + 8)
            .map(|area| area.start)
            .collect::<Vec<_>>()
    };
    assert_eq!(starts(&mut engine, &mut kernel), [0; 0], "it begins nowhere");
    let access = Access { address: 0, size: 8, is_write: true, value: 0, old: 0, by: By::Instruction, time: 0, unseen: false };
    let mut cpu = FakeCpu::default();
    // The list begins with the two events that have an address.
    let mut told = |engine: &mut Engine, number: usize, value| engine.accessed(&mut cpu, number, &Access { value, ..access });
    for value in [0x1000, 0, 0x2000, 0x1000, 0x3000] {
        told(&mut engine, 0, value);
    }
    assert_eq!(starts(&mut engine, &mut kernel), [0x1010, 0x2010], "0 does not pass the filter, and the count is 2");
    told(&mut engine, 2, 77);
    told(&mut engine, 1, 0x1000);
    assert_eq!(starts(&mut engine, &mut kernel), [0x2010]);
    told(&mut engine, 2, 78);
    let mut values = Vec::new();
    while let Some(record) = engine.records().pop() {
        values.push((record.header.event, u64::from_le_bytes(record.payload[..8].try_into().expect("a number"))));
    }
    assert_eq!(values, [(object, 77), (object, 78)], "the others are not enabled");
    set.write_trigger(&mut engine, &mut kernel, begin, "!set_wprobe:object:at+16").unwrap();
    assert_eq!(starts(&mut engine, &mut kernel), [0; 0], "nothing sets it any more");
    assert!(set.members().all(|member| member.misses() == 0));
}

/// BY-3: a watch event has filters and triggers like any other.
#[test]
fn a_filter_holds_records_of_accesses_back() {
    let mut kernel = FakeKernel { arch: Arch::X86_64 };
    let (mut engine, mut set) = (Engine::new(Arch::X86_64.isa(), 2), EventSet::default());
    let event = set.apply(&mut engine, &mut kernel, "w:tick w@jiffies:8 new=$value:u64").unwrap().expect("it was added");
    set.enable_all(&mut engine, &mut kernel, true).unwrap();
    set.write_filter(&mut engine, event, "new > 5").unwrap();
    engine.areas();
    let access =
        Access { address: JIFFIES, size: 8, is_write: true, value: 0, old: 0, by: By::Instruction, time: 0, unseen: false };
    for value in [4, 5, 6, 7] {
        engine.accessed(&mut FakeCpu::default(), 0, &Access { value, ..access });
    }
    let mut written = 0;
    while engine.records().pop().is_some() {
        written += 1;
    }
    assert_eq!((written, set.members().next().map(|member| member.hits())), (2, Some(4)));
}

/// BY-3: a limited number of changes wait for the machine, and those beyond it are counted.
#[test]
fn too_many_changes_at_once_are_counted() {
    let mut kernel = FakeKernel { arch: Arch::X86_64 };
    let mut engine = Engine::new(Arch::X86_64.isa(), 1);
    let object = Watchpoint::at(0..8);
    let there = object.clone();
    let sets = Watchpoint::at(0x10..0x18).on_hit(move |hit| {
        let address = hit.access().value;
        hit.watch_at(&there, address);
    });
    engine.register_watchpoint(&mut kernel, &sets).unwrap();
    engine.areas();
    let access = Access { address: 0x10, size: 8, is_write: true, value: 0, old: 0, by: By::Instruction, time: 0, unseen: false };
    for round in 0..2 {
        for number in 0..300 {
            engine.accessed(&mut FakeCpu::default(), 0, &Access { value: 0x1000 + number * 8, ..access });
        }
        engine.carry_out_watch_requests(&mut kernel);
        let expected = [(1 + 256, 44), (1 + 300, 44)][round];
        assert_eq!((engine.areas().len(), object.not_set()), expected, "those that are set already are not asked for again");
    }
}
