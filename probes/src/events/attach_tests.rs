//! Tests of events on a running toy guest: a line is added, hits are printed as trace lines, and removal restores the
//! text.

use super::error::EventError;
use super::places::Places;
use super::set::EventSet;
use super::trace;
use crate::engine::Engine;
use crate::guest::{Guest, Site};
use crate::records::EventId;
use crate::toy::isa::TOY;
use crate::toy::{Op, ToyGuest};
use alloc::string::String;
use alloc::vec::Vec;
use trapline_isa::plan::Policy;

const FUNCTIONS: &[(&str, &[Op])] = &[
    ("main", &[Op::Mov(1, 5), Op::Call("double"), Op::Mov(1, 7), Op::Call("double"), Op::Halt]),
    ("double", &[Op::Nop, Op::Add(1, 100), Op::Mov(0, 42), Op::Ret]),
    ("fixed", &[Op::Trap]),
];

const WITH_MODULE: &[(&str, &[Op])] = &[
    ("main", &[Op::Mov(1, 5), Op::Call("late:double"), Op::Mov(1, 7), Op::Call("late:double"), Op::Halt]),
    ("late:double", &[Op::Nop, Op::Add(1, 100), Op::Mov(0, 42), Op::Ret]),
    ("fixed", &[Op::Trap]),
    ("shelf", &[Op::Nop, Op::Ret]),
];

struct Bench {
    guest: ToyGuest,
    engine: Engine,
    set: EventSet,
}

impl Bench {
    fn new() -> Bench {
        Bench { guest: ToyGuest::new(&TOY, 1, FUNCTIONS), engine: Engine::new(&TOY, 1), set: EventSet::default() }
    }

    fn apply(&mut self, line: &str) -> Result<Option<EventId>, EventError> {
        self.set.apply(&mut self.engine, &mut self.guest, line)
    }

    fn enable(&mut self, enabled: bool) {
        self.set.enable_all(&mut self.engine, &mut self.guest, enabled).expect("the events can be switched");
    }

    fn hit(&mut self) {
        self.guest.start(0, "main");
        self.guest.run(&mut self.engine, 0);
    }

    fn run(&mut self) -> String {
        self.hit();
        let mut text = String::new();
        while let Some(record) = self.engine.records().pop() {
            let format = self.set.format(record.header.event).expect("the event is known");
            trace::write(&mut text, &record, format, &mut Places::default(), &|address| self.guest.symbol_at(address));
        }
        // Drop the columns in front of the event: they show the toy's time and tasks.
        text.lines().map(|line| line.split_once(": ").map_or(line, |(_, what)| what)).collect::<Vec<_>>().join("\n")
    }
}

/// DV-4: lines become probes, hits become trace lines, and removal restores the text.
#[test]
fn events_are_hit_printed_and_removed() {
    let mut bench = Bench::new();
    let untouched = bench.guest.text_bytes();
    for line in ["p:in double a=%r1:u32 b=$arg2", "p:mid double+1 %r1:u8", "r:out double n=$retval:s32 $stack", "# nothing", ""] {
        bench.apply(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    assert_eq!(bench.run(), "", "events are added disabled");
    bench.enable(true);
    let expected = [
        "in: (double+0x0/0x10) a=5 b=0x5",
        "mid: (double+0x1/0x10) arg1=5",
        "out: (main+0xb/0x20 <- double) n=42 arg2=0x8fc0",
        "in: (double+0x0/0x10) a=7 b=0x7",
        "mid: (double+0x1/0x10) arg1=7",
        "out: (main+0x16/0x20 <- double) n=42 arg2=0x8fc0",
    ];
    assert_eq!(bench.run(), expected.join("\n"));
    let profile = bench.set.profile();
    let profile: Vec<Vec<&str>> = profile.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(profile, [["in", "2", "0"], ["mid", "2", "0"], ["out", "2", "0"]]);
    assert!(bench.set.text().contains("r10:kprobes/out double n=$retval:s32 arg2=$stack\n"), "{}", bench.set.text());
    assert!(bench.apply("-:in").is_err(), "it is enabled");
    bench.enable(false);
    for line in ["-:in", "-:mid", "-:kprobes/out"] {
        bench.apply(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    assert_eq!(bench.run(), "");
    assert_eq!(bench.guest.text_bytes(), untouched);
}

/// DV-4: formats of removed events are kept for the last 256 events and for unread records, and no longer.
#[test]
fn formats_of_removed_events_are_kept_only_while_needed() {
    let mut bench = Bench::new();
    let mut ids = Vec::new();
    for round in 0..1000 {
        let id = bench.apply(&alloc::format!("p:ev{round} double")).expect("fine").expect("an event");
        ids.push(id);
        if round == 3 {
            bench.enable(true);
            bench.hit();
            bench.enable(false);
        }
        bench.apply("-:kprobes/").expect("it exists");
    }
    let known = |bench: &Bench, id: &EventId| bench.set.format(*id).is_some();
    assert!(known(&bench, &ids[3]) && known(&bench, &ids[999]) && !known(&bench, &ids[2]) && !known(&bench, &ids[4]));
    let kept = ids.iter().filter(|id| known(&bench, id)).count();
    assert!((200..300).contains(&kept), "{kept} formats are kept");
    assert_eq!(bench.engine.records().pop().map(|record| record.header.event), Some(ids[3]));
}

/// DV-4: with Linux 6.1's policy, events in notrace functions are refused. Suffixes such as `.isra.0` are ignored. A
/// kernel without ftrace sites has no such rule.
#[test]
fn events_in_notrace_functions_are_refused_as_in_linux() {
    let functions: &[(&str, &[Op])] = &[FUNCTIONS, &[("double.isra.0", &[Op::Nop, Op::Ret])]].concat();
    let guest = || ToyGuest::new(&TOY, 1, functions);
    let inside = guest().address("double") + 1;
    for (policy, sites, refused) in
        [(Policy::LINUX_6_1, true, true), (Policy::LINUX_6_1, false, false), (Policy::Best, true, false)]
    {
        let mut bench = Bench { guest: guest(), engine: Engine::new(&TOY, 1).with_policy(policy), ..Bench::new() };
        if sites {
            bench.guest.sites.insert(inside, Site::Ftrace);
        }
        for line in ["p:a double", "p:b double.isra.0"] {
            bench.apply(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        let answer = bench.apply("p:c main").map_err(|error| (error.code.name(), error.errno.name(), error.column));
        match refused {
            true => assert_eq!(answer, Err(("FAIL_REG_PROBE", "EINVAL", 4))),
            false => assert!(answer.is_ok(), "{answer:?}"),
        }
    }
}

/// JP-2, JP-3, DV-4: an event can be a jprobe. It sees the arguments at the function's entry, runs after other probes
/// there, and a function takes only one.
#[test]
fn an_event_can_be_a_jprobe() {
    let mut bench = Bench::new();
    let untouched = bench.guest.text_bytes();
    for line in ["j:args double a=$arg1 b=$arg2:u32", "p:in double"] {
        bench.apply(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    bench.enable(true);
    let expected = ["in: (double+0x0/0x10)", "args: (double+0x0/0x10) a=0x0 b=5", "in: (double+0x0/0x10)"];
    let seen = bench.run();
    assert!(seen.starts_with(&expected.join("\n")), "{seen}");
    assert!(bench.engine.list(&bench.guest).contains("  j  double+0x0"));
    assert!(bench.set.text().starts_with("j:kprobes/args double a=$arg1 b=$arg2:u32\n"), "{}", bench.set.text());
    let profile = bench.set.profile();
    assert_eq!(
        profile.lines().next().map(|line| line.split_whitespace().collect::<Vec<_>>()),
        Some(Vec::from(["args", "2", "0"]))
    );
    #[rustfmt::skip]
    let cases = [
        ("j:two double",           "FAIL_REG_PROBE",  "EEXIST"),
        ("j:mid double+1",         "BAD_JPROBE",      "EINVAL"),
        ("j:back double%return",   "BAD_JPROBE",      "EINVAL"),
        ("j7:many double",         "MAXACT_NO_KPROBE", "EINVAL"),
        ("j:in double",            "DIFF_PROBE_TYPE", "EEXIST"),
        ("j:ret double n=$retval", "RETVAL_ON_PROBE", "EINVAL"),
    ];
    for (line, rule, errno) in cases {
        let error = bench.apply(line).expect_err(line);
        assert_eq!((error.code.name(), error.errno.name()), (rule, errno), "{line}: {error}");
    }
    bench.enable(false);
    bench.apply("-:kprobes/").expect("all of them");
    assert_eq!(bench.guest.text_bytes(), untouched);
}

/// DV-4: a refusal by the engine is reported at the location's column, with Linux's error code.
#[test]
fn refusals_of_the_engine_point_at_the_location() {
    #[rustfmt::skip]
    let cases = [
        // the line                 rule               errno      column
        ("p:ev double+2 %r1",       "BAD_INSN_BNDRY",  "EILSEQ",  5),
        ("p:ev fixed",              "FAIL_REG_PROBE",  "EOPNOTSUPP", 5),
        ("p 0x6000",                "FAIL_REG_PROBE",  "EINVAL",  2),
        ("p 0x7",                   "BAD_PROBE_ADDR",  "ENOENT",  2),
        ("p:ev missing",            "BAD_PROBE_ADDR",  "ENOENT",  5),
    ];
    let mut bench = Bench::new();
    let untouched = bench.guest.text_bytes();
    for (line, rule, errno, column) in cases {
        let error = bench.apply(line).expect_err(line);
        assert_eq!((error.code.name(), error.errno.name(), error.column), (rule, errno, column), "{line}: {error}");
        assert!(bench.set.members().len() == 0 && bench.guest.text_bytes() == untouched, "{line}");
    }
}

/// DV-4: a probe in a module that is not loaded waits. When the module is loaded, it is enabled with its event.
#[test]
fn a_probe_in_a_module_waits_for_it() {
    let mut bench = Bench::new();
    bench.apply("p:ev late:double a=%r1:u32").expect("it may wait");
    bench.enable(true);
    assert_eq!(bench.run(), "");
    // The kernel after the module was loaded.
    bench.guest = ToyGuest::new(&TOY, 1, WITH_MODULE);
    assert!(bench.set.module_came(&mut bench.engine, &mut bench.guest).is_empty());
    assert_eq!(bench.run().lines().count(), 2);
    // The module is unloaded and loaded again with fresh text: the probe is registered again.
    let range = bench.guest.address("late:double")..bench.guest.address("fixed");
    bench.engine.kill_range(&mut bench.guest, range.clone());
    bench.guest.poke(range.start, &Op::Nop.encode(range.start, |_| 0));
    assert!(bench.set.module_came(&mut bench.engine, &mut bench.guest).is_empty());
    let hits = |bench: &Bench| bench.set.members().map(|member| member.hits()).sum::<u64>();
    assert_eq!(hits(&bench), 2, "what was counted stays, as in Linux");
    assert_eq!((bench.run().lines().count(), hits(&bench)), (2, 4));
}

/// DV-4: a waiting probe may fetch what lies at a symbol of its module. The address is that of the newest load.
#[test]
fn a_waiting_probe_fetches_at_symbols_of_its_module() {
    let mut bench = Bench::new();
    bench.apply("p:ev late:double at=@shelf:x8").expect("it may wait");
    bench.enable(true);
    bench.guest = ToyGuest::new(&TOY, 1, WITH_MODULE);
    assert!(bench.set.module_came(&mut bench.engine, &mut bench.guest).is_empty());
    let text = bench.run();
    assert!(text.contains(" at=0x") && !text.contains(" at=0x0"), "{text}");
    let unknown = bench.apply("p:other late:double at=@nowhere").expect_err("the module is there");
    assert_eq!(unknown.code.name(), "BAD_MEM_ADDR");
}

/// DV-4: a probe added to an enabled event is enabled. Clearing removes enabled events, too.
#[test]
fn a_probe_joins_an_enabled_event_enabled() {
    let mut bench = Bench::new();
    let untouched = bench.guest.text_bytes();
    let event = bench.apply("p:ev double").expect("a good line");
    bench.enable(true);
    assert_eq!(bench.apply("p:ev double+1").expect("a good line"), event);
    assert_eq!(bench.run().lines().count(), 4);
    bench.set.clear(&mut bench.engine, &mut bench.guest);
    assert_eq!((bench.run(), bench.set.text()), (String::new(), String::new()));
    assert_eq!(bench.guest.text_bytes(), untouched);
}
