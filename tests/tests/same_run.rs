//! Tests that probes do not change the guest's run. A probed guest must take every interrupt at the same instruction
//! and time as an unprobed one, and end the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trapline::machine::{Config, Stop, What};
use trapline::probed::Session;
use trapline::verify;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::{GUESTS, LONG, assert_same, boundaries, functions, kernel, run, session, session_with};

/// BY-4: with no, one and all probes, every interrupt, exception, system call and clock read has the same pc and time,
/// on one CPU and on two.
#[test]
fn probes_leave_time_and_interrupts_unchanged() {
    for (_, name) in GUESTS.iter() {
        for cpus in [1, 2] {
            let plain = run(&mut session(name, cpus));
            assert_eq!(plain.stop, Stop::PowerOff(0), "{name}, {cpus} CPUs");
            assert!(plain.happenings.len() > 200, "{name}: the log is kept");
            assert_same(&format!("{name}, {cpus} CPUs, again"), &plain, &run(&mut session(name, cpus)));

            let mut one = session(name, cpus);
            let probe = Kprobe::at("vfs_read").pre(|_| Flow::Continue);
            one.register_kprobe(&probe).expect("vfs_read can be probed");
            assert_same(&format!("{name}, {cpus} CPUs, one probe"), &plain, &run(&mut one));
            assert!(probe.hits() > 10, "{name}: vfs_read was hit {} times", probe.hits());

            for post in [false, true] {
                let mut all = session(name, cpus);
                let probes = register_everywhere(&mut all, post);
                assert_same(
                    &format!("{name}, {cpus} CPUs, {} probes, post-handlers: {post}", probes.len()),
                    &plain,
                    &run(&mut all),
                );
                let hits: u64 = probes.iter().map(Kprobe::hits).sum();
                assert!(hits > 100_000, "{name}: {hits} hits");
            }
        }
    }
}

/// BY-4: an idle CPU sleeps, by an instruction or through the board.
#[test]
fn one_of_two_cpus_sleeps_now_and_then() {
    for (_, name) in GUESTS.iter() {
        let happenings = run(&mut session(name, 2)).happenings;
        assert!(happenings.iter().any(|one| one.what == What::Halt), "{name}");
    }
}

/// BY-4, RP-1: return probes on every function leave the run unchanged.
#[test]
fn return_probes_leave_time_and_interrupts_unchanged() {
    for (_, name) in GUESTS.iter() {
        for cpus in [1, 2] {
            let plain = run(&mut session(name, cpus));
            let mut probed = session(name, cpus);
            let returns = Arc::new(AtomicU64::new(0));
            for (function, start, _) in functions(&kernel(name)) {
                let count = Arc::clone(&returns);
                let probe = Kretprobe::at_address(start).maxactive(64).handler(move |_| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
                // Refusals are tested elsewhere.
                let _ = (function, probed.register_kretprobe(&probe));
            }
            assert_same(&format!("{name}, {cpus} CPUs"), &plain, &run(&mut probed));
            assert!(returns.load(Ordering::Relaxed) > 1000, "{name}: {} returns", returns.load(Ordering::Relaxed));
        }
    }
}

/// BY-4, KP-13: after all probes are removed, memory is that of a guest without any probe, except for what the machine's
/// internal probes are known to change.
#[test]
fn memory_is_the_same_after_the_probes_are_removed() {
    for (_, name) in GUESTS.iter() {
        let mut plain = Session::unprobed(kernel(name), &Config::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        plain.run_until(LONG);
        let mut probed = session(name, 1);
        let probes = register_everywhere(&mut probed, false);
        run(&mut probed);
        let (differing, armed) = verify::different_memory(&plain, &mut probed, 20);
        assert!(differing.is_empty(), "{name}: with probes, words that differ: {differing:x?}");
        for probe in probes.iter().filter(|probe| !probe.is_gone()) {
            probed.unregister_kprobe(probe);
        }
        let (differing, known) = verify::different_memory(&plain, &mut probed, 20);
        assert!(differing.is_empty(), "{name}: words that differ: {differing:x?}");
        assert!(known.text * 20 < armed.text && known.pads == 0 && known.links == 0, "{name}: {armed:?}, then {known:?}");
    }
}

/// Runs in steps of given lengths. Returns the CPU states at each stop, and the run.
fn stopped_at(name: &str, cpus: usize, every_block: bool, probed: bool, steps: &[u64]) -> (Vec<String>, trapline_tests::Run) {
    let mut session = session_with(name, &Config { cpus, every_block, record_events: true, ..Config::default() });
    if probed {
        for (number, (_, start, _)) in functions(&kernel(name)).into_iter().enumerate() {
            // Refusals are tested elsewhere.
            let _ = match number % 3 {
                0 => session.register_kprobe(&Kprobe::at_address(start).pre(|_| Flow::Continue)),
                1 => session.register_kretprobe(&Kretprobe::at_address(start).handler(|_| ())),
                _ => Ok(()),
            };
        }
        session.with_engine(|engine, _| engine.set_optimization_delay(0));
    }
    let mut stops = Vec::new();
    for step in steps {
        let stop = session.run_until(session.machine().now() + step);
        let machine = session.machine_mut();
        stops.push(format!("{stop:?} at {} of CPU {}: {:x?}", machine.time(), machine.current_cpu(), machine.pcs()));
    }
    (stops, run(&mut session))
}

/// BY-4: at every stop, time and pcs are the same whether blocks count themselves or each block calls the machine.
#[test]
fn self_counting_blocks_leave_time_unchanged() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for (_, name) in GUESTS.iter() {
        for (cpus, probed) in [(1, false), (2, false), (1, true), (2, true)] {
            // Step lengths from a few instructions to most of the run.
            let steps: Vec<u64> = (0..300).map(|_| 1 << next(15)).collect::<Vec<_>>().into_iter().map(&mut next).collect();
            let [(told, expected), (counted, seen)] =
                [true, false].map(|every_block| stopped_at(name, cpus, every_block, probed, &steps));
            let what = format!("{name}, {cpus} CPUs, probes: {probed}");
            for (number, (told, counted)) in told.iter().zip(&counted).enumerate() {
                assert_eq!(told, counted, "{what}: stop {number}");
            }
            assert_same(&what, &expected, &seen);
        }
    }
}

fn register_everywhere(session: &mut Session, post: bool) -> Vec<Kprobe> {
    let mut probes = Vec::new();
    for address in boundaries(session.kernel()) {
        let mut probe = Kprobe::at_address(address).pre(|_| Flow::Continue);
        if post {
            probe = probe.post(|_| {});
        }
        if session.register_kprobe(&probe).is_ok() {
            probes.push(probe);
        }
    }
    probes
}
