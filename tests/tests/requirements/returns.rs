//! Requirements of return probes: instances, entry handlers, private data, registration and removal.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trapline::machine::Stop;
use trapline::probed::Session;
use trapline_isa::plan::Errno;
use trapline_probes::probe::{Flow, Kretprobe};
use trapline_tests::{GUESTS, assert_same, run, session};

fn register(name: &str, session: &mut Session, probe: &Kretprobe) {
    session.register_kretprobe(probe).unwrap_or_else(|why| panic!("{name}: {probe:?}: {why}"));
}

/// RP-2, RP-3: the number of instances begins with Linux's and grows with a recursion, so that no return is lost. A given
/// number is kept: a call without an instance is missed and returns normally.
#[test]
fn calls_are_followed_up_to_the_number_of_instances() {
    for (_, name) in GUESTS.iter() {
        for cpus in [1, 2] {
            let plain = run(&mut session(name, cpus));
            let mut session = session(name, cpus);
            let (default, one) =
                (Kretprobe::at("ackermann").handler(|_| {}), Kretprobe::at("fibonacci").maxactive(1).handler(|_| {}));
            let never = Kretprobe::at("doze").maxactive(-1).handler(|_| {});
            [&default, &one, &never].iter().for_each(|probe| register(name, &mut session, probe));
            assert_eq!((default.active_limit(), one.active_limit(), never.active_limit()), (10, 1, 10), "{name}");
            assert_same(name, &plain, &run(&mut session));
            // Both functions recurse deeper than that.
            assert!(one.nmissed() > 0, "{name}, {cpus} CPUs");
            assert_eq!(one.returns() + one.nmissed(), one.hits(), "{name}, {cpus} CPUs");
            for probe in [&default, &never] {
                assert_eq!((probe.nmissed(), probe.returns()), (0, probe.hits()), "{name}, {cpus} CPUs: {probe:?}");
            }
            let calls = session.engine().calls();
            assert!(calls.add_up() && calls.missed == one.nmissed(), "{name}, {cpus} CPUs: {calls:?}");
        }
    }
}

/// RP-4: a call that the entry handler declines is not followed. The return handler runs for the others.
#[test]
fn an_entry_handler_decides_for_each_call() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        let accepted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&accepted);
        let probe = Kretprobe::at("fibonacci")
            .maxactive(64)
            .entry(move |call| match call.arg(0) % 2 {
                0 => Flow::Redirected,
                _ => {
                    count.fetch_add(1, Ordering::Relaxed);
                    Flow::Continue
                }
            })
            .handler(|_| {});
        register(name, &mut session, &probe);
        assert_same(name, &plain, &run(&mut session));
        let accepted = accepted.load(Ordering::Relaxed);
        assert!(accepted > 50 && accepted < probe.hits(), "{name}: {accepted} of {}", probe.hits());
        assert_eq!((probe.returns(), probe.nmissed()), (accepted, 0), "{name}");
    }
}

/// RP-5, RP-6: entry and return handler of one call share its data through recursion and sleep. The return handler sees
/// the call's return address, task and result.
#[test]
fn the_handlers_of_one_call_share_its_data() {
    for (_, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        let results = Arc::new(Mutex::new(BTreeMap::new()));
        let seen = Arc::clone(&results);
        let probe = Kretprobe::at("fibonacci")
            .maxactive(64)
            .data_size(24)
            .entry(|call| {
                let words = [call.arg(0) & 0xffff_ffff, call.ret_addr(), call.task()];
                for (place, word) in call.data().chunks_exact_mut(8).zip(words) {
                    place.copy_from_slice(&word.to_le_bytes());
                }
                Flow::Continue
            })
            .handler(move |call| {
                let word = |call: &mut trapline_probes::probe::ReturnHit<'_>, n: usize| {
                    u64::from_le_bytes(call.data()[8 * n..][..8].try_into().expect("eight bytes"))
                };
                let (n, ret_addr, task) = (word(call, 0), word(call, 1), word(call, 2));
                assert_eq!((call.data().len(), call.ret_addr(), call.task()), (24, ret_addr, task));
                let result = call.return_value() & 0xffff_ffff;
                let known = seen.lock().map(|mut seen| *seen.entry(n).or_insert(result));
                assert_eq!(known.ok(), Some(result), "fibonacci({n}) has one result");
            });
        register(name, &mut session, &probe);
        assert_eq!(run(&mut session).stop, Stop::PowerOff(0), "{name}");
        let results = results.lock().expect("no handler panics").clone();
        assert!(results.len() > 10, "{name}: {results:?}");
        for (n, result) in results.iter().filter(|(n, _)| **n >= 2) {
            let both = results.get(&(n - 1)).zip(results.get(&(n - 2)));
            assert_eq!(both.map(|(one, other)| one + other), Some(*result), "{name}: fibonacci({n})");
        }
    }
}

/// RP-8: calls that a dead task was in when it was last switched away from are freed, too: `__schedule` never returns
/// in a dead task.
#[test]
fn calls_of_a_dead_task_are_freed() {
    for (_, name) in GUESTS.iter() {
        for cpus in [1, 2] {
            let plain = run(&mut session(name, cpus));
            let mut session = session(name, cpus);
            let exits = Kretprobe::at("do_exit").maxactive(4).handler(|_| {});
            let switches = Kretprobe::at("__schedule").maxactive(200).handler(|_| {});
            [&exits, &switches].iter().for_each(|probe| register(name, &mut session, probe));
            assert_same(name, &plain, &run(&mut session));
            let in_flight = session.engine().calls_in_flight();
            assert_eq!(switches.nmissed(), 0, "{name}");
            assert!(
                exits.hits() > 10 && in_flight <= 4 + cpus as u64,
                "{name}, {cpus} CPUs: {} exits, {in_flight}",
                exits.hits()
            );
        }
    }
}

/// RP-12: return probes are registered and removed one by one and in batches. A batch with an error leaves nothing
/// behind.
#[test]
fn return_probes_can_be_changed_while_the_guest_runs() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        let mut until = 0;
        let mut go_on = |session: &mut Session| {
            until += 150_000;
            assert_eq!(session.run_until(until), Stop::Limit, "{name}");
        };
        let mut batch: Vec<Kretprobe> = ["vfs_read", "vfs_write", "sys_open", "schedule"]
            .iter()
            .map(|at| Kretprobe::at(*at).maxactive(40).handler(|_| {}))
            .collect();
        batch.push(Kretprobe::at("vfs_read+4"));
        let refused = session.with_engine(|engine, guest| engine.register_kretprobes(guest, &batch));
        assert_eq!(refused.map_err(|refusal| refusal.errno), Err(Errno::ENOENT), "{name}");
        assert!(session.with_engine(|engine, guest| engine.list(guest)).is_empty(), "{name}");
        batch.pop();
        session
            .with_engine(|engine, guest| engine.register_kretprobes(guest, &batch))
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        let hits = |batch: &[Kretprobe]| batch.iter().map(Kretprobe::hits).collect::<Vec<_>>();
        go_on(&mut session);
        let first = hits(&batch);
        session
            .with_engine(|engine, guest| engine.disable_kretprobe(guest, &batch[0]))
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        session.unregister_kretprobe(&batch[3]);
        go_on(&mut session);
        let second = hits(&batch);
        assert!(first.iter().sum::<u64>() > 0 && second[1..3] > first[1..3], "{name}: {first:?}, {second:?}");
        assert_eq!((second[0], second[3]), (first[0], first[3]), "{name}: disabled, and gone");
        session
            .with_engine(|engine, guest| engine.enable_kretprobe(guest, &batch[0]))
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        go_on(&mut session);
        assert!(hits(&batch)[0] > second[0], "{name}");
        session.with_engine(|engine, guest| engine.unregister_kretprobes(guest, &batch));
        assert!(session.with_engine(|engine, guest| engine.list(guest)).is_empty(), "{name}");
        assert_same(name, &plain, &run(&mut session));
        for probe in &batch {
            assert_eq!(probe.nmissed(), 0, "{name}: {probe:?}");
        }
    }
}
