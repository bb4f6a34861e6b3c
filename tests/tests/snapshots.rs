//! Tests of snapshots. A run that continues from a snapshot must equal the uninterrupted run, bit for bit: the same
//! memory, console, time and interrupts. A snapshot with an impossible state is refused.

use std::process::ExitCode;
use trapline::booted::PROMPT;
use trapline::machine::{Config, Machine, Stop};
use trapline::probed::Session;
use trapline::snapshot::{Snapshot, SnapshotError};
use trapline_harness::{self as harness, each, guests, on, tests};
use trapline_isa::plan::Policy;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::stock::at_shell;
use trapline_tests::{GUESTS, LONG, Run, assert_same, boundaries, kernel, saved_guests, session_with};

/// Times at which the tiny kernel is stopped, in nanoseconds: during its boot and during its work.
const STOPS: &[u64] = &[20_000, 200_000, 500_000];

fn config(cpus: usize) -> Config {
    Config { cpus, record_events: true, ..Config::default() }
}

/// The rest of a run, without the events before it.
fn rest<L: trapline::machine::Listener>(machine: &mut Machine<L>, run: impl FnOnce(&mut Machine<L>) -> Stop) -> (Run, Vec<u8>) {
    let before = machine.happenings().len();
    let stop = run(machine);
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    let mut ram = vec![0; machine.guest_ram_bytes() as usize];
    assert!(machine.ram().read(machine.ram().base(), &mut ram));
    (Run { stop, console, time: machine.time(), happenings: machine.happenings()[before..].to_vec() }, ram)
}

fn to_the_end<L: trapline::machine::Listener>(machine: &mut Machine<L>) -> (Run, Vec<u8>) {
    rest(machine, |machine| machine.run_until(LONG))
}

fn assert_equal(what: &str, expected: &(Run, Vec<u8>), seen: &(Run, Vec<u8>)) {
    assert_same(what, &expected.0, &seen.0);
    let first = expected.1.iter().zip(&seen.1).position(|(one, other)| one != other);
    assert_eq!(first, None, "{what}: the first byte of RAM that differs");
}

/// BY-4: four runs are equal: one that continues after a snapshot, one of the same machine restored, one of a new
/// machine restored, and one without a snapshot. On one CPU and on two.
fn a_restored_run_equals_the_continued_run() {
    for name in saved_guests() {
        let kernel = kernel(name);
        for cpus in [1, 2] {
            for stop in STOPS {
                let what = format!("{name}, {cpus} CPUs, at {stop} ns");
                let new = || Machine::new(&kernel, &config(cpus), |_| ()).expect("a machine");
                let mut never = new();
                assert_eq!(never.run_until(*stop), Stop::Limit, "{what}");
                let never = to_the_end(&mut never);
                assert_eq!(never.0.stop, Stop::PowerOff(0), "{what}");

                let mut machine = new();
                assert_eq!(machine.run_until(*stop), Stop::Limit, "{what}");
                let snapshot = machine.snapshot().expect("a snapshot");
                let continued = to_the_end(&mut machine);
                assert_equal(&format!("{what}, with and without a snapshot"), &never, &continued);
                machine.restore(&snapshot).expect("it fits");
                assert_equal(&format!("{what}, put back"), &continued, &to_the_end(&mut machine));
                let mut other = Machine::from_snapshot(&kernel, &config(cpus), &snapshot, |_| ()).expect("a machine");
                assert_eq!(
                    other.snapshot().expect("a snapshot"),
                    snapshot,
                    "{what}: a snapshot of what was restored is the same"
                );
                assert_equal(&format!("{what}, in a new machine"), &continued, &to_the_end(&mut other));
            }
        }
    }
}

/// BY-4: probes registered after a restore see the same hits as in the continued run.
fn probes_are_hit_equally_in_restored_and_continued_runs() {
    for name in saved_guests() {
        for cpus in [1, 2] {
            let mut session = session_with(name, &config(cpus));
            assert_eq!(session.run_until(300_000), Stop::Limit, "{name}");
            let snapshot = session.snapshot().expect("a snapshot");
            let probed = |session: &mut Session| {
                let places: Vec<u64> = boundaries(session.kernel()).into_iter().step_by(5).collect();
                let probes: Vec<Kprobe> = places.into_iter().map(|at| Kprobe::at_address(at).pre(|_| Flow::Continue)).collect();
                let probes: Vec<Kprobe> = probes.into_iter().filter(|probe| session.register_kprobe(probe).is_ok()).collect();
                let before = session.machine().happenings().len();
                let stop = session.run_until(LONG);
                for probe in probes.iter().filter(|probe| !probe.is_gone()) {
                    session.unregister_kprobe(probe);
                }
                let machine = session.machine_mut();
                let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
                let run = Run { stop, console, time: machine.time(), happenings: machine.happenings()[before..].to_vec() };
                (run, probes.iter().map(Kprobe::hits).collect::<Vec<u64>>())
            };
            let continued = probed(&mut session);
            assert!(continued.1.iter().sum::<u64>() > 10_000, "{name}: {} hits", continued.1.iter().sum::<u64>());
            session.restore(&snapshot).expect("it fits");
            let back = probed(&mut session);
            let mut other = Session::from_snapshot(kernel(name), &config(cpus), Policy::Best, &snapshot).expect("a session");
            let new = probed(&mut other);
            for (how, seen) in [("put back", back), ("in a new machine", new)] {
                assert_same(&format!("{name}, {cpus} CPUs, {how}"), &continued.0, &seen.0);
                assert_eq!(continued.1, seen.1, "{name}, {cpus} CPUs, {how}: hits");
            }
        }
    }
}

/// KP-13: probes stay registered while a snapshot is taken, and the snapshot contains nothing of them.
fn a_snapshot_contains_no_trace_of_probes() {
    for name in saved_guests() {
        let taken = |probes: &[Kprobe]| {
            let mut session = session_with(name, &config(1));
            for probe in probes {
                session.register_kprobe(probe).expect("may be probed");
            }
            assert_eq!(session.run_until(300_000), Stop::Limit, "{name}");
            (session.snapshot().expect("a snapshot"), session)
        };
        let probes = ["vfs_read", "vfs_write"].map(|name| Kprobe::at(name).pre(|_| Flow::Continue));
        let (mut plain, _) = taken(&[]);
        let (mut probed, mut session) = taken(&probes);
        assert!(probes[0].hits() > 0, "{name}");
        // The number of calls into the engine is not part of the guest's state.
        for state in [&mut plain.state, &mut probed.state] {
            (state.counts.claimed, state.counts.window_faults) = (0, 0);
        }
        assert_eq!(plain.state, probed.state, "{name}");
        assert!(plain.memory == probed.memory, "{name}: memory");
        let before = probes[0].hits();
        session.restore(&probed).expect("it fits");
        session.run_until(LONG);
        assert!(probes[0].hits() > before, "{name}: it is armed again");
    }
}

/// RP-1: a followed call has the pad's address on a stack that only the guest knows, so no snapshot is possible.
fn no_snapshot_is_taken_during_a_followed_call() {
    for name in saved_guests() {
        let mut session = session_with(name, &config(1));
        let probe = Kretprobe::at("vfs_read");
        session.register_kretprobe(&probe).expect("a function");
        let mut stop = 0;
        while session.engine().calls_in_flight() == 0 {
            stop += 1_000;
            assert_eq!(session.run_until(stop), Stop::Limit, "{name}");
        }
        let refused = session.snapshot().expect_err("a call is under way");
        assert!(matches!(&refused, SnapshotError::NotNow(why) if why.contains("have not returned")), "{name}: {refused}");
        while session.engine().calls_in_flight() > 0 {
            stop += 1_000;
            assert_eq!(session.run_until(stop), Stop::Limit, "{name}");
        }
        session.snapshot().expect("it has returned");
    }
}

/// A snapshot that does not fit or has invalid values is refused, and the machine continues unchanged.
fn an_invalid_snapshot_is_refused_and_changes_nothing() {
    let (_, name) = GUESTS[0];
    let kernel = kernel(name);
    let mut machine = Machine::new(&kernel, &config(1), |_| ()).expect("a machine");
    machine.run_until(300_000);
    let snapshot = machine.snapshot().expect("a snapshot");
    let json = |snapshot: &Snapshot| serde_json::to_value(&snapshot.state).expect("values");
    type Change = fn(&mut serde_json::Value);
    #[rustfmt::skip]
    let cases: &[(&str, Change, &str)] = &[
        ("another board",       |state| state["shape"]["board"] = "pc".into(),                      "the board is pc"),
        ("more CPUs",           |state| state["shape"]["cpus"] = 2.into(),                          "the number of CPUs is 2"),
        ("no such CPU",         |state| state["current"] = 1.into(),                                "number 1 runs"),
        ("a register more",     |state| state["cpus"][0]["registers"]["zz"] = "0x1".into(),         "`zz` is unknown"),
        ("top of the x87",      |state| state["cpus"][0]["registers"]["x87.top"] = "0x8".into(),    "`x87.top` cannot be 0x8"),
        ("a reserved flag",     |state| state["cpus"][0]["registers"]["hidden"] = "0x100000".into(), "`hidden` cannot be"),
        ("the end of time",     |state| state["cpus"][0]["clock"]["time"] = u64::MAX.into(),        "beyond all times"),
        ("a timer's period",    |state| {
            state["devices"]["cpus"][0]["timer"]["period"] = 0.into();
            state["devices"]["cpus"][0]["timer"]["next"] = 5.into();
        },                                                                                          "that cannot be"),
        ("a CPU of the board",  |state| state["devices"]["cpus"] = serde_json::json!([]),           "that cannot be"),
        ("no devices",          |state| state["devices"] = serde_json::json!({}),                   "its devices"),
    ];
    for (what, change, why) in cases {
        let mut state = json(&snapshot);
        change(&mut state);
        let state = serde_json::from_value(state).unwrap_or_else(|error| panic!("{what}: {error}"));
        let refused = machine.restore(&Snapshot { state, memory: snapshot.memory.clone() }).expect_err(what);
        assert!(refused.to_string().contains(why), "{what}: {refused}");
        assert!(machine.snapshot().expect("a snapshot") == snapshot, "{what}: nothing has changed");
    }
    let mut state = json(&snapshot);
    state["cpus"][0]["registers"].as_object_mut().expect("registers").remove("cr3");
    let state = serde_json::from_value(state).expect("values");
    let refused = machine.restore(&Snapshot { state, memory: snapshot.memory.clone() }).expect_err("a register is missing");
    assert!(refused.to_string().contains("`cr3` is missing"), "{refused}");
}

/// Typed at the shell: forks, reads, writes, sleeps, then ends the guest. Since Linux 6.5 a serial port that was quiet for half
/// a second is woken by a worker, and the hangup of a session's end drops bytes that the worker has not sent: hence the
/// second sleep.
const TYPED: &[u8] = b"i=0; while [ $i -lt 5 ]; do cat /proc/version /proc/stat >/tmp/out; i=$((i+1)); done\n\
    sleep 1; echo $((6*7)) done; sleep 0.1; exit 5\n";

fn typed(session: &mut Session) -> (Run, Vec<u8>) {
    session.machine_mut().console_input(TYPED);
    let before = session.machine().happenings().len();
    let stop = session.run_until(60 * LONG);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    let mut ram = vec![0; machine.guest_ram_bytes() as usize];
    assert!(machine.ram().read(machine.ram().base(), &mut ram));
    let run = Run { stop, console, time: machine.time(), happenings: machine.happenings()[before..].to_vec() };
    (run, ram)
}

/// BY-4, DV-4: stock kernels continue equally after a snapshot, after a restore, and in a new machine.
fn a_stock_kernel_continues_from_its_shell(name: &'static str) {
    let stock = at_shell(name);
    let mut first = stock.session();
    assert_eq!(first.run_until(first.machine().now() + 1_000_000), Stop::Limit, "{name}");
    first.machine_mut().take_console();
    let snapshot = first.snapshot().expect("a snapshot");
    let continued = typed(&mut first);
    assert_eq!(continued.0.stop, Stop::PowerOff(5), "{name}: {}", continued.0.console);
    assert!(
        continued.0.console.contains("42 done") && !continued.0.console.contains("WARNING:"),
        "{name}: {}",
        continued.0.console
    );
    first.restore(&snapshot).expect("it fits");
    let back = typed(&mut first);
    assert_equal(&format!("{name}, put back"), &continued, &back);
    let mut other = Session::from_snapshot(stock.kernel.clone(), &stock.config, Policy::Best, &snapshot).expect("a session");
    assert_equal(&format!("{name}, in a new machine"), &continued, &typed(&mut other));
}

/// BY-4: the cached snapshot on disk equals the state of a booted guest.
fn a_cached_snapshot_equals_the_booted_guest() {
    let stock = at_shell("debian/amd64");
    let mut booted = Machine::new(&stock.kernel, &stock.config, |_| ()).expect("a machine");
    booted.stop_at_console_text(Some(PROMPT));
    assert_eq!(booted.run_until(60 * LONG), Stop::ConsoleText);
    let mut restored = Machine::from_snapshot(&stock.kernel, &stock.config, &stock.snapshot, |_| ()).expect("a machine");
    for machine in [&mut booted, &mut restored] {
        machine.take_console();
        machine.console_input(TYPED);
    }
    let booted = rest(&mut booted, |machine| machine.run_until(60 * LONG));
    assert_eq!(booted.0.stop, Stop::PowerOff(5), "{}", booted.0.console);
    assert_equal("booted and restored", &booted, &rest(&mut restored, |machine| machine.run_until(60 * LONG)));
}

/// A number of kilobytes from `/proc/self/smaps_rollup`.
fn memory_of_process(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux has it");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("the field is there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// CPU time of this thread in nanoseconds, which other work on the computer does not change much.
fn cpu_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    text.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Kilobytes that a further machine may take, with what it has translated.
const MOST_FURTHER: u64 = 40 << 10;

/// DV-4: machines of one process share the snapshot's pages, and each has only those that its guest has written.
fn a_further_machine_shares_the_snapshot(name: &'static str) {
    let stock = at_shell(name);
    let busy = || {
        let mut session = stock.session();
        session.machine_mut().console_input(b"cat /proc/version | md5sum\n");
        let until = session.machine().now() + 100_000_000;
        session.run_until(until);
        assert!(session.machine_mut().take_console().len() > 40, "{name}: it runs");
        session
    };
    let first = busy();
    let (before, others) = (memory_of_process("Pss"), [busy(), busy(), busy()]);
    let each = (memory_of_process("Pss") - before) / others.len() as u64;
    println!("{name}: {each} kB for each further machine");
    assert!(each <= MOST_FURTHER, "{name}: {each} kB");
    drop((first, others));
}

/// Repetitions in the test, and nanoseconds of CPU time that a return to the snapshot may take on average: the host's count goes
/// in ticks of some milliseconds.
const REPETITIONS: usize = 25;
const MOST_RETURN: u64 = 10_000_000;

/// DV-4: a machine returns to a snapshot again and again. Each repetition of the same input runs the same code, prints the
/// same, and ends in the same memory.
fn repetitions_are_the_same(name: &'static str) {
    let stock = at_shell(name);
    let config = Config { coverage: true, ..stock.config.clone() };
    let session = Session::from_snapshot(stock.kernel.clone(), &config, Policy::Best, &stock.snapshot);
    let mut session = session.expect("it was made for it");
    let (mut first, mut returns) = (None, 0);
    for repetition in 0..REPETITIONS {
        let before = cpu_time();
        session.restore(&stock.snapshot).expect("it fits");
        returns += cpu_time() - before;
        session.machine_mut().console_input(b"cd /proc; cd /; echo $((6*7))\n");
        let until = session.machine().now() + 1_500_000;
        assert_eq!(session.run_until(until), Stop::Limit, "{name}");
        let seen = (session.covered(), session.machine_mut().take_console(), session.machine().time());
        let is_first = first.is_none();
        let first = first.get_or_insert_with(|| seen.clone());
        assert!(is_first || *first == seen, "{name}: repetition {repetition}");
    }
    let (blocks, console, _) = first.expect("there is one");
    let each = returns / REPETITIONS as u64;
    println!("{name}: {} blocks, {} bytes printed, {each} ns for a return", blocks.len(), console.len());
    assert!(blocks.len() > 300, "{name}: {} blocks", blocks.len());
    assert!(each <= MOST_RETURN, "{name}: {each} ns");
}

fn main() -> ExitCode {
    harness::run([
        each!(["debian/amd64"], a_further_machine_shares_the_snapshot),
        each!(["debian/amd64", "debian/arm64"], repetitions_are_the_same),
        tests![
            a_restored_run_equals_the_continued_run,
            probes_are_hit_equally_in_restored_and_continued_runs,
            a_snapshot_contains_no_trace_of_probes,
            no_snapshot_is_taken_during_a_followed_call,
            an_invalid_snapshot_is_refused_and_changes_nothing
        ],
        on("debian/amd64", tests![a_cached_snapshot_equals_the_booted_guest]),
        each!(guests::stock(), a_stock_kernel_continues_from_its_shell),
    ])
}
