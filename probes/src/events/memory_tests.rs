//! Tests of watch events: their lines, their records, and the watchpoints that they make.

use super::error::EventError;
use super::parse::{Definition, EventCommand, line};
use super::places::Places;
use super::set::{Attached, EventSet};
use super::testing::{FakeCpu, FakeKernel, JIFFIES, marked, symbol_at};
use super::{json, trace};
use crate::engine::Engine;
use crate::watch::{Access, Area, By};
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use trapline_isa::arch::Arch;

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
