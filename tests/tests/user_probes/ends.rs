//! Probes a program whose calls end in every way: by returns, tail calls, longjmp, in signal handlers, threads and a forked
//! child. It also has USDT probes. Its source is images/programs/calls.c.

use crate::{Ended, LONG, Stock, assert_same, run};
use std::path::Path;
use trapline::boot::guest_files::GuestFiles;
use trapline::machine::Stop;
use trapline::probed::scripts::{Facts, How, Script};
use trapline_probes::user::{Place, UserProbe};

/// The functions of the program, each with the number of its calls and of its returns.
const FUNCTIONS: [(&str, u64, u64); 11] = [
    // A call with depth N makes N + 1 calls. There is one of depth 20, one of depth 2 in each of 5 signal handlers, and
    // each of 3 threads makes 4 of depth 3, 4 or 5.
    ("recursive", 21 + 15 + 4 * (4 + 5 + 6), 21 + 15 + 4 * (4 + 5 + 6)),
    ("tail_first", 1, 1),
    ("tail_middle", 1, 1),
    ("tail_last", 1, 1),
    // It is left by longjmp, and does not return.
    ("leaves", 24, 0),
    ("catches", 6, 6),
    ("handler", 5, 5),
    ("interrupted", 5, 5),
    // It returns in the parent and in the child.
    ("forks", 1, 2),
    ("works", 3, 3),
    ("marks", 5, 5),
];

const SCRIPT: &str = "\
usdt:/calls:trapline:marked { printf(\"marked %d %d %d %d %d\\n\", arg0, arg1, arg2, arg3, arg4); }
usdt:/calls:first { @first = sum(arg0); }
uprobe:/calls:tail_* { @tails = count(); @[usym(uaddr(\"tail_first\"))] = count(); printf(\"at %s%s\", func, ustack(1)); }
";

/// The program's line on the console.
const LINE: &str = "calls: recursive 21 tail 4 caught 6 handled 15 status 0 threads 3";

/// The guest with the program for that ISA, and the bytes of the program.
pub fn guest(name: &str, isa: &str) -> (Stock, Vec<u8>) {
    let programs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../images/programs/prebuilt"));
    let program = std::fs::read(programs.join(format!("calls-{isa}"))).expect("it is in the tree");
    (Stock::with_files(name, b"/calls; echo status=$?\n", &[("calls".to_string(), program.clone())]), program)
}

/// BY-2: each call and each return is a hit of its probe, with recursion, tail calls, longjmp, signal handlers, threads
/// and forks. USDT probes read the arguments that the program passes, and addresses of the program have names. The run
/// is the same as without probes.
pub fn calls_that_end_in_any_way_are_seen([name, program]: [&'static str; 2]) {
    let (stock, _) = guest(name, program);
    let plain = run(&mut stock.session());
    assert_eq!(plain.stop, Stop::PowerOff(0), "{}", plain.console);
    assert!(plain.console.contains(LINE) && plain.console.contains("status=0"), "{name}: {}", plain.console);

    let mut session = stock.session();
    let place = |function: &str| Place::Symbol(function.to_string(), 0);
    let probes = FUNCTIONS.map(|(function, ..)| {
        [UserProbe::at("/calls", place(function), |_| ()), UserProbe::returning("/calls", place(function), |_| ())]
    });
    for probe in probes.iter().flatten() {
        session.register_user(probe).unwrap_or_else(|refusal| panic!("{name}: {probe}: {refusal}"));
    }
    let mut facts = Facts::of(session.kernel());
    facts.know_files(GuestFiles::new(stock.config.initrd.clone(), stock.config.files.clone()));
    let isa = session.kernel().arch.isa();
    let script = Script::compile(SCRIPT, &facts, &Default::default()).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    drop(facts);
    let mut tracing = session.start_script(script, &How::default()).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let stop = session.trace_until(std::slice::from_mut(&mut tracing), LONG);
    session.end_script(&mut tracing);
    let printed = String::from_utf8_lossy(&session.take_script_output(&tracing).0).into_owned();
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    let probed = Ended { stop, now: machine.now(), console, happenings: machine.take_happenings() };
    assert_same(name, &plain, &probed);

    let seen: Vec<(&str, u64, u64)> =
        FUNCTIONS.iter().zip(&probes).map(|((function, ..), [entry, ret])| (*function, entry.hits(), ret.hits())).collect();
    for (seen, expected) in seen.iter().zip(FUNCTIONS) {
        assert_eq!(*seen, expected, "{name}: {:?}", session.engine().user_counts());
    }
    let marks: Vec<String> = (0..5).map(|n| format!("marked {n} {} -7 {} {}", 1_000_000 + n, 7 - n, n - 100)).collect();
    let printed_marks: Vec<&str> = printed.lines().filter(|line| line.starts_with("marked")).collect();
    assert_eq!(printed_marks, marks, "{name}: {printed}");
    assert!(printed.contains("@first: 10\n") && printed.contains("@tails: 3\n"), "{name}: {printed}");
    assert!(printed.contains("@[tail_first]: 3\n"), "{name}: {printed}");
    // Without `program`, the user's stack is not known for this ISA.
    for function in ["tail_first", "tail_middle", "tail_last"] {
        let framed = format!("at {function}\n        {function}+0\n");
        assert!(printed.contains(&framed) || isa.linux.program.is_none(), "{name}: {printed}");
    }
}
