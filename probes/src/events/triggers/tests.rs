//! Tests of triggers and histograms on a running toy guest, and of their texts.

use super::super::filter::FilterCode;
use super::super::hist::{HistCode, Lookup};
use super::super::places::Places;
use super::super::set::EventSet;
use super::super::trace;
use super::super::watch::SNAPSHOT;
use super::TriggerError;
use crate::engine::Engine;
use crate::guest::Guest;
use crate::records::EventId;
use crate::toy::isa::TOY;
use crate::toy::{Op, ToyGuest};
use crate::unwind::Stacks;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trapline_isa::plan::Errno;

const FUNCTIONS: &[(&str, &[Op])] = &[
    (
        "main",
        &[Op::Mov(1, 5), Op::Call("double"), Op::Mov(1, 7), Op::Call("double"), Op::Mov(1, 5), Op::Call("double"), Op::Halt],
    ),
    ("double", &[Op::Nop, Op::Add(1, 100), Op::Mov(0, 42), Op::Ret]),
];

struct Bench {
    guest: ToyGuest,
    engine: Engine,
    set: EventSet,
}

impl Bench {
    /// Events `in` (n = 5, 7, 5) and `out`, not enabled.
    fn new() -> Bench {
        let mut bench =
            Bench { guest: ToyGuest::new(&TOY, 1, FUNCTIONS), engine: Engine::new(&TOY, 1), set: EventSet::default() };
        let stacks = Stacks { text: core::iter::once(0..u64::MAX).collect(), rule: None };
        bench.set.stacks_for_triggers(&mut bench.engine, stacks);
        for line in ["p:in double n=%r1:s32", "r:out double m=$retval:u32"] {
            bench.set.apply(&mut bench.engine, &mut bench.guest, line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        bench
    }

    fn event(&self, name: &str) -> EventId {
        self.set.find("kprobes", name).unwrap_or_else(|| panic!("there is an event {name}"))
    }

    fn enable(&mut self, name: &str, enabled: bool) {
        let event = self.event(name);
        self.set.enable(&mut self.engine, &mut self.guest, event, enabled).expect("it can be switched");
    }

    fn try_trigger(&mut self, name: &str, text: &str) -> Result<(), TriggerError> {
        let event = self.event(name);
        self.set.write_trigger(&mut self.engine, &mut self.guest, event, text)
    }

    fn trigger(&mut self, name: &str, text: &str) {
        self.try_trigger(name, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    fn filter(&mut self, name: &str, text: &str) {
        let event = self.event(name);
        self.set.write_filter(&mut self.engine, event, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    fn state(&self, name: &str) -> &'static str {
        self.set.enable_text(&self.engine, self.event(name))
    }

    fn triggers(&self, name: &str) -> String {
        self.set.triggers_text(&self.engine, self.event(name))
    }

    fn hist(&self, name: &str) -> String {
        let symbols = |address| self.guest.symbol_at(address);
        let lookup = Lookup { symbols: &symbols, system_call: &|number| (number == 42).then(|| "sys_answer".to_string()) };
        self.set.hist_text(&self.engine, self.event(name), &lookup)
    }

    /// Runs the guest. Returns a word for each record: the event's name and its value.
    fn run(&mut self) -> String {
        self.guest.start(0, "main");
        self.guest.run(&mut self.engine, 0);
        let mut words = Vec::new();
        while let Some(record) = self.engine.records().pop() {
            if record.header.event == SNAPSHOT {
                words.push("SNAPSHOT".to_string());
                continue;
            }
            let format = self.set.format(record.header.event).expect("the event is known");
            let mut text = String::new();
            trace::write(&mut text, &record, format, &mut Places::default(), &|address| self.guest.symbol_at(address));
            let line = text.lines().next().unwrap_or_default();
            let shown = line.split_once(": ").map_or(line, |(_, what)| what);
            words.push(match shown.split_once('=') {
                Some((_, value)) => alloc::format!("{}{value}", format.event),
                None => shown.replace(' ', ""),
            });
        }
        words.join(" ")
    }
}

/// DV-4: a filter holds records back, and the profile counts the hits all the same.
#[test]
fn a_filter_decides_which_records_are_written() {
    let mut bench = Bench::new();
    bench.enable("in", true);
    bench.enable("out", true);
    bench.filter("in", "n > 5");
    assert_eq!(bench.run(), "out42 in7 out42 out42");
    let event = bench.event("in");
    assert_eq!(bench.set.filter_text(&bench.engine, event).as_deref(), Some("n > 5"));
    assert_eq!(bench.set.profile().split_whitespace().nth(1), Some("3"));
    let error = bench.set.write_filter(&mut bench.engine, event, "m == 1").map_err(|error| error.code);
    assert_eq!(error, Err(FilterCode::FieldNotFound), "and the wrong filter removes the old one");
    assert_eq!(bench.run(), "in5 out42 in7 out42 in5 out42");
    bench.filter("in", "n == 5");
    bench.filter("in", "0");
    assert_eq!(bench.set.filter_text(&bench.engine, event), None);
    assert_eq!(bench.run(), "in5 out42 in7 out42 in5 out42");
}

/// DV-4: a filter holds for all probes of an event, for later ones too.
#[test]
fn a_filter_holds_for_all_probes_of_an_event() {
    let mut bench = Bench::new();
    bench.enable("in", true);
    bench.filter("in", "n == 7 || n == 107");
    bench.set.apply(&mut bench.engine, &mut bench.guest, "p:in double+4 n=%r1:s32").expect("another probe");
    assert_eq!(bench.run(), "in7 in107");
}

/// DV-4: traceoff acts behind the record that stops the trace, traceon in front of it.
#[test]
fn traceoff_and_traceon_switch_the_recording() {
    let mut bench = Bench::new();
    bench.enable("in", true);
    bench.enable("out", true);
    bench.trigger("in", "traceoff:1 if n == 7");
    assert_eq!(bench.triggers("in"), "traceoff:count=1 if n == 7\n");
    assert_eq!(bench.run(), "in5 out42 in7");
    assert_eq!(bench.triggers("in"), "traceoff:count=0 if n == 7\n");
    assert_eq!((bench.run(), bench.engine.records().is_on(), bench.engine.records().dropped()), (String::new(), false, 0));
    bench.trigger("out", "traceon");
    assert_eq!(bench.run(), "out42 in7 out42 in5 out42", "the count is used up");
    assert_eq!(bench.try_trigger("in", "traceon").map_err(|error| error.errno()), Err(Errno::EEXIST));
    bench.trigger("in", "!traceoff:1 if n == 7");
    assert_eq!(bench.triggers("in"), "");
    bench.trigger("in", "!traceoff");
}

/// DV-4: a trigger fires although its event is not enabled, and keeps the probes armed.
#[test]
fn triggers_keep_the_probes_armed() {
    let mut bench = Bench::new();
    assert_eq!((bench.state("in"), bench.run()), ("0", String::new()));
    bench.trigger("in", "stacktrace:2");
    assert_eq!(bench.state("in"), "0*");
    assert_eq!(bench.run(), "<stacktrace> <stacktrace>");
    let removal = bench.set.apply(&mut bench.engine, &mut bench.guest, "-:in").map_err(|error| error.errno);
    assert_eq!(removal, Err(Errno::EBUSY));
    bench.enable("in", true);
    assert_eq!((bench.state("in"), bench.run()), ("1*", "in5 in7 in5".to_string()));
    bench.enable("in", false);
    assert_eq!((bench.state("in"), bench.run()), ("0*", String::new()));
    bench.trigger("in", "!stacktrace");
    assert_eq!(bench.state("in"), "0");
    bench.set.apply(&mut bench.engine, &mut bench.guest, "-:in").expect("nothing needs it any more");
}

/// DV-4: enable_event and disable_event switch the records of another event.
#[test]
fn one_event_switches_another() {
    let mut bench = Bench::new();
    bench.trigger("in", "enable_event:kprobes:out if n == 7");
    assert_eq!((bench.state("in"), bench.state("out")), ("0*", "0*"));
    assert_eq!(bench.run(), "out42 out42");
    assert_eq!(bench.state("out"), "1*");
    bench.enable("out", false);
    bench.trigger("in", "!enable_event:kprobes:out");
    assert_eq!((bench.state("in"), bench.state("out")), ("0", "0"));
    bench.enable("out", true);
    bench.trigger("in", "disable_event:kprobes:out:1 if n == 7");
    assert_eq!(bench.triggers("in"), "disable_event:kprobes:out:count=1 if n == 7\n");
    assert_eq!(bench.run(), "out42");
    bench.enable("out", true);
    assert_eq!(bench.run(), "out42 out42 out42", "the count is used up");
    assert_eq!(bench.try_trigger("in", "enable_event:kprobes:none").map_err(|error| error.errno()), Err(Errno::EINVAL));
    assert_eq!(bench.try_trigger("in", "enable_event:kprobes:out").map_err(|error| error.errno()), Err(Errno::EEXIST));
}

/// DV-4: snapshot leaves a mark in front of the record.
#[test]
fn a_snapshot_is_marked_in_front_of_the_record() {
    let mut bench = Bench::new();
    bench.enable("in", true);
    bench.trigger("in", "snapshot:1 if n == 7");
    assert_eq!(bench.run(), "in5 SNAPSHOT in7 in5");
    assert_eq!(bench.run(), "in5 in7 in5");
}

/// DV-4: lines that are no triggers are refused.
#[test]
fn wrong_triggers_are_refused() {
    let mut bench = Bench::new();
    #[rustfmt::skip]
    let cases = [
        "", "trace", "traceoff:x", "traceoff if", "traceoff:1 when n == 7", "enable_event", "enable_event:kprobes", "hist", "traceoff if n === 7",
        "hist:vals=n", "hist:keys=x", "hist:keys=n.foo", "hist:keys=n:sort=x", "hist:keys=n:size=1", "hist:keys=n,n,n,n", "hist:keys=n:x=1", "hist:keys=",
        "hist:keys=n:vals=n.sym", "hist:keys=n.execname", "hist:keys=n.buckets=0", "hist:keys=n:sort=n.up", "hist:keys=n:sort=n,n,n", "hist:keys=n:onmax(n)",
    ];
    for text in cases {
        assert_eq!(bench.try_trigger("in", text).map_err(|error| error.errno()), Err(Errno::EINVAL), "{text}");
    }
    assert_eq!(bench.triggers("in"), "");
    let wrong = |code| Err(Some(code));
    let code = |result: Result<(), TriggerError>| {
        result.map_err(|error| if let TriggerError::Hist(error) = error { Some(error.code) } else { None })
    };
    assert_eq!(code(bench.try_trigger("in", "hist:keys=n:clear")), wrong(HistCode::DoesNotExist));
    bench.trigger("in", "hist:keys=n");
    assert_eq!(code(bench.try_trigger("in", "hist:keys=n:size=4096")), wrong(HistCode::Exists));
}

/// DV-4: a histogram counts, sorts, pauses, continues and is cleared.
#[test]
fn a_histogram_counts() {
    let mut bench = Bench::new();
    bench.trigger("in", "hist:keys=n:vals=n:sort=hitcount.descending");
    bench.run();
    let expected = "\
# event histogram
#
# trigger info: hist:keys=n:vals=hitcount,n:sort=hitcount.descending:size=2048 [active]
#

{ n:          5 } hitcount:          2  n:         10
{ n:          7 } hitcount:          1  n:          7

Totals:
    Hits: 3
    Entries: 2
    Dropped: 0
";
    assert_eq!(bench.hist("in"), expected);
    bench.trigger("in", "hist:keys=n:vals=n:sort=hitcount.descending:pause");
    bench.run();
    assert_eq!(bench.hist("in"), expected.replace("[active]", "[paused]"));
    bench.trigger("in", "hist:keys=n:vals=n:sort=hitcount.descending:clear");
    bench.trigger("in", "hist:keys=n:vals=n:sort=hitcount.descending:cont");
    bench.run();
    assert_eq!(bench.hist("in"), expected);
    bench.trigger("in", "!hist:keys=n:vals=n:sort=hitcount.descending");
    assert_eq!((bench.hist("in"), bench.state("in")), (String::new(), "0"));
}

/// DV-4: keys have modifiers, and two histograms of one event are two texts.
#[test]
fn keys_are_shown_by_their_modifiers() {
    let mut bench = Bench::new();
    #[rustfmt::skip]
    let cases = [
        ("keys=n.hex if n == 7",             "{ n: 7 } hitcount:          1"),
        ("keys=n.log2 if n == 7",            "{ n: ~ 2^3  } hitcount:          1"),
        ("keys=n.buckets=4 if n == 7",       "{ n: ~ 4-7 } hitcount:          1"),
        ("keys=n,common_cpu if n == 7",      "{ n:          7, common_cpu:          0 } hitcount:          1"),
        ("keys=n.syscall if n == 7",         "{ n: unknown_syscall               [  7] } hitcount:          1"),
        ("keys=common_pid:vals=n.percent",   " hitcount:          3  n (%): 100.00"),
        ("keys=n:vals=n.graph:sort=n",       "{ n:          7 } hitcount:          1  n: ##############      "),
        ("keys=stacktrace if n == 7",        "{ stacktrace:\n         double+0x0/0x10\n"),
        ("keys=__probe_ip.sym if n == 7",    "] double                                        } hitcount:          1"),
        ("keys=__probe_ip.sym-offset if n == 7", "] double+0x0/0x10      "),
    ];
    for (text, _) in cases {
        bench.trigger("in", &alloc::format!("hist:{text}"));
    }
    bench.run();
    let text = bench.hist("in");
    for (definition, entry) in cases {
        assert!(text.contains(entry), "{definition}: {entry:?} is not in\n{text}");
    }
    assert_eq!(text.matches("# event histogram\n").count(), cases.len());
    assert_eq!(text.matches("Dropped: 0\n\n\n# event").count(), cases.len() - 1);
}

/// DV-4: histograms of the same name share their counts, and full tables count what they drop.
#[test]
fn named_histograms_share_their_counts() {
    let mut bench = Bench::new();
    bench.trigger("in", "hist:name=both:keys=common_pid");
    bench.trigger("out", "hist:name=both:keys=common_pid if m == 42");
    bench.run();
    assert!(bench.hist("in").contains("Hits: 6\n") && bench.hist("out").contains("Hits: 6\n"), "{}", bench.hist("in"));
    let error = bench.try_trigger("out", "hist:name=both:keys=m");
    assert!(matches!(error, Err(TriggerError::Hist(ref error)) if error.code == HistCode::NamedMismatch), "{error:?}");
    bench.trigger("in", "disable_hist:kprobes:out");
    bench.run();
    // `out` fires behind `in`, which pauses it first.
    assert!(bench.hist("in").contains("Hits: 9\n"), "{}", bench.hist("in"));
}

/// DV-4: all histograms together take a bounded amount of memory.
#[test]
fn histograms_take_bounded_memory() {
    let mut bench = Bench::new();
    let mut error = None;
    for number in 1..20 {
        let line = alloc::format!("hist:keys=stacktrace,n.buckets={number}:size=131072");
        error = bench.try_trigger("in", &line).err();
        if error.is_some() {
            assert!(number > 5, "a few have room");
            break;
        }
    }
    assert_eq!(error.map(|error| error.errno()), Some(Errno::ENOMEM));
}
