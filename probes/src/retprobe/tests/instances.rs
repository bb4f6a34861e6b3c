//! How many calls a return probe can follow: the default, the limit of the user, and pools that grow. Every entry is accounted for.

use super::{new, run};
use crate::notes::Notes;
use crate::probe::{Flow, Kretprobe};
use crate::toy::guest::STACKS;
use crate::toy::isa::{STACK, TOY};
use crate::toy::{Op, Stop, ToyGuest, sample};
use crate::{Engine, Errno, Policy};
use alloc::format;
use alloc::vec::Vec;

/// RP-2
#[test]
fn maxactive_defaults_to_linuxs_value() {
    for (asked, cpus, expected) in [(0, 1, 10), (-5, 1, 10), (0, 8, 16), (3, 8, 3)] {
        let (mut guest, mut engine) = new(cpus);
        let probe = Kretprobe::at("vfs_read").maxactive(asked);
        engine.register_kretprobe(&mut guest, &probe).expect("a function");
        assert_eq!(probe.active_limit(), expected, "asked for {asked} with {cpus} CPUs");
    }
}

/// RP-2: a request for too much memory is refused before anything has changed.
#[test]
fn too_much_memory_is_refused() {
    let (mut guest, mut engine) = new(1);
    let text = guest.text_bytes();
    let cases = [
        (Kretprobe::at("vfs_read").data_size(4097), Errno::E2BIG),
        (Kretprobe::at("vfs_read").data_size(4096).maxactive(i32::MAX), Errno::ENOMEM),
    ];
    for (probe, errno) in cases {
        assert_eq!(engine.register_kretprobe(&mut guest, &probe).expect_err("too much").errno, errno);
    }
    assert_eq!(guest.text_bytes(), text);
    engine.register_kretprobe(&mut guest, &Kretprobe::at("vfs_read").data_size(4096)).expect("just enough");
}

/// Recurses that deep from a call that the caller has set up. The engine's worker runs after every `every` instructions.
/// Returns whether the guest has halted.
fn recurse(guest: &mut ToyGuest, engine: &mut Engine, depth: u64, every: usize) -> bool {
    guest.cpus[0].registers[1] = depth;
    let sp = guest.cpus[0].registers[8] - 8;
    guest.cpus[0].registers[8] = sp;
    let halt = guest.address("main") + 17;
    guest.poke(sp, &halt.to_le_bytes());
    guest.start(0, "recurse");
    for step in 0..10_000 {
        if guest.run_steps(engine, 0, 1) == Stop::Halted {
            return true;
        }
        // Each level decrements r1 by adding 255. The recursion ends at 0.
        guest.cpus[0].registers[1] &= 0xff;
        if step % every == 0 {
            engine.tick(guest, 0);
        }
    }
    false
}

/// RP-2, RP-3: a probe without a limit loses no return, however deep the recursion is.
#[test]
fn a_probe_without_a_limit_loses_no_return() {
    for depth in [5, 9, 10, 11, 40, 100] {
        let (mut guest, mut engine) = new(1);
        let probe = Kretprobe::at("recurse").data_size(8).entry(|call| {
            let level = call.arg(1);
            call.data().copy_from_slice(&level.to_le_bytes());
            Flow::Continue
        });
        let notes = Notes::default();
        let back = notes.clone();
        let probe = probe.handler(move |call| back.add(format!("{}", call.data()[0])));
        engine.register_kretprobe(&mut guest, &probe).expect("a function");
        assert!(recurse(&mut guest, &mut engine, depth, 3), "{depth}");
        let expected: Vec<_> = (0..=depth).map(|level| format!("{level}")).collect();
        assert_eq!(notes.take(), expected, "each level has its own data");
        let calls = engine.calls();
        assert_eq!((calls.entries, calls.returns, calls.missed, calls.in_flight), (depth + 1, depth + 1, 0, 0), "{depth}");
        assert!(calls.add_up() && probe.active_limit() == 10, "{calls:?}");
    }
}

/// RP-2, RP-3: each jump of a function to its own start is an entry, and has its return. Entries without private data share an
/// instance, so that a loop of millions needs no memory.
#[test]
fn a_loop_to_the_functions_start_loses_no_return() {
    const TIMES: u64 = 200;
    for (sizes, grows) in [(&[0][..], false), (&[0, 0], false), (&[8], true), (&[0, 8], true)] {
        let back = -((Op::Add(1, 255).length() + Op::Jnz(1, 0).length()) as i32);
        let delay = [Op::Add(1, 255), Op::Jnz(1, back), Op::Ret];
        let start = [Op::Mov(1, TIMES as u32), Op::Call("delay"), Op::Halt];
        let functions: Vec<_> =
            [("start", &start[..]), ("delay", &delay)].into_iter().chain(sample::FUNCTIONS.iter().copied()).collect();
        let (mut guest, mut engine) = (ToyGuest::new(&TOY, 1, &functions), Engine::new(&TOY, 1));
        let (entered, left) = (Notes::default(), Notes::default());
        for size in sizes {
            let (enters, leaves) = (entered.clone(), left.clone());
            let probe = Kretprobe::at("delay").data_size(*size).entry(move |_| {
                enters.add("in");
                Flow::Continue
            });
            let probe = probe.handler(move |call| leaves.add(format!("{:#x}", call.ret_addr())));
            engine.register_kretprobe(&mut guest, &probe).expect("a function");
        }
        while guest.run_steps(&mut engine, 0, 1) != Stop::Halted {
            guest.cpus[0].registers[1] &= 0xff;
            engine.tick(&mut guest, 0);
        }
        let expected = TIMES * sizes.len() as u64;
        let calls = engine.calls();
        assert_eq!((calls.entries, calls.returns, calls.missed, calls.in_flight), (expected, expected, 0, 0), "{sizes:?}");
        assert_eq!((entered.take().len() as u64, left.take().len() as u64), (expected, expected), "{sizes:?}");
        let members: usize = engine.returns.pools.iter().flatten().map(|pool| pool.members.len()).sum();
        assert_eq!(members > 10 * sizes.len(), grows, "{sizes:?}: {members} instances");
        assert_eq!(engine.counts().mismatched_returns, 0, "{sizes:?}");
    }
}

/// RP-3, RP-8: the entries of a loop that share an instance are all given up with their task, and may be in flight.
#[test]
fn shared_entries_of_a_task_that_exits_are_accounted_for() {
    let back = -((Op::Add(1, 255).length() + Op::Jnz(1, 0).length()) as i32);
    let functions =
        [("start", &[Op::Mov(1, 9), Op::Call("delay"), Op::Halt][..]), ("delay", &[Op::Add(1, 255), Op::Jnz(1, back), Op::Ret])];
    let functions: Vec<_> = functions.into_iter().chain(sample::FUNCTIONS.iter().copied()).collect();
    let (mut guest, mut engine) = (ToyGuest::new(&TOY, 1, &functions), Engine::new(&TOY, 1));
    let probe = Kretprobe::at("delay");
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    while engine.calls().entries < 7 {
        guest.run_steps(&mut engine, 0, 1);
    }
    assert_eq!(engine.calls().in_flight, 7);
    engine.task_exited(0x100);
    let calls = engine.calls();
    assert_eq!((calls.in_flight, calls.abandoned, probe.abandoned()), (0, 7, 7), "{calls:?}");
    assert!(calls.add_up());
    engine.unregister_kretprobe(&mut guest, &probe);
    assert!(engine.returns.pools.iter().all(Option::is_none), "its pool is freed");
}

/// RP-2: Linux's policy keeps Linux's number.
#[test]
fn linuxs_policy_follows_ten_calls() {
    let mut guest = sample::kernel(1);
    let mut engine = Engine::new(&TOY, 1).with_policy(Policy::LINUX_6_1);
    let probe = Kretprobe::at("recurse");
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    assert!(recurse(&mut guest, &mut engine, 30, 1));
    let calls = engine.calls();
    assert_eq!((calls.entries, calls.returns, calls.missed), (31, 10, 21));
    assert!(calls.add_up(), "{calls:?}");
}

/// RP-3: without a stop of the machine, calls beyond the reserve are missed and counted. Then the pool grows.
#[test]
fn calls_before_the_machine_stops_use_the_reserve() {
    let (mut guest, mut engine) = new(1);
    let probe = Kretprobe::at("recurse");
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    assert!(recurse(&mut guest, &mut engine, 30, usize::MAX));
    let calls = engine.calls();
    // The first tick comes before the first call.
    assert_eq!((calls.entries, calls.returns, calls.missed), (31, 10, 21), "{calls:?}");
    engine.tick(&mut guest, 0);
    assert!(recurse(&mut guest, &mut engine, 19, usize::MAX));
    let after = engine.calls();
    assert_eq!((after.entries, after.missed), (51, 21), "{after:?}");
    assert!(after.add_up());
}

/// RP-3: calls of a task that exits, and calls that an entry handler declines, are accounted for.
#[test]
fn every_entry_is_accounted_for() {
    let (mut guest, mut engine) = new(1);
    let declines = Kretprobe::at("helper").entry(|_| Flow::Redirected);
    let probe = Kretprobe::at("vfs_read");
    engine.register_kretprobes(&mut guest, &[declines.clone(), probe.clone()]).expect("functions");
    run(&mut guest, &mut engine, "main");
    guest.start(0, "vfs_read");
    guest.run_steps(&mut engine, 0, 1);
    let calls = engine.calls();
    assert!(calls.in_flight == 1 && calls.declined > 0 && calls.add_up(), "{calls:?}");
    engine.task_exited(0x100);
    let calls = engine.calls();
    assert_eq!((calls.in_flight, calls.abandoned, probe.abandoned()), (0, 1, 1), "{calls:?}");
    assert!(calls.add_up() && declines.declined() == calls.declined, "{calls:?}");
    engine.unregister_kretprobe(&mut guest, &probe);
    assert!(engine.calls().add_up());
}

/// RP-2: probes that are unregistered while their pool waits for more instances leave nothing behind.
#[test]
fn a_pool_that_waits_for_room_may_be_unregistered() {
    let (mut guest, mut engine) = new(1);
    let probe = Kretprobe::at("recurse");
    for _ in 0..3 {
        engine.register_kretprobe(&mut guest, &probe).expect("a function");
        assert!(recurse(&mut guest, &mut engine, 30, usize::MAX));
        engine.unregister_kretprobe(&mut guest, &probe);
        let other = Kretprobe::at("helper");
        engine.register_kretprobe(&mut guest, &other).expect("a function");
        engine.tick(&mut guest, 0);
        engine.unregister_kretprobe(&mut guest, &other);
    }
}

/// RP-3, RP-7: in a recursion the innermost calls get no instance.
#[test]
fn calls_beyond_maxactive_are_missed_and_return_normally() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let entry = notes.clone();
    let back = notes.clone();
    let probe = Kretprobe::at("recurse")
        .maxactive(3)
        .entry(move |call| {
            entry.add(format!("in {}", call.arg(1)));
            Flow::Continue
        })
        .handler(move |call| back.add(format!("out {:#x}", call.sp())));
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    let mut plain = sample::kernel(1);
    let mut calls = Vec::new();
    for (guest, engine) in [(&mut guest, &mut engine), (&mut plain, &mut Engine::new(&TOY, 1))] {
        guest.cpus[0].registers[1] = 4;
        let sp = guest.cpus[0].registers[8] - 8;
        guest.cpus[0].registers[8] = sp;
        let halt = guest.address("main") + 17;
        guest.poke(sp, &halt.to_le_bytes());
        guest.start(0, "recurse");
        // Each level decrements r1 by adding 255. The recursion ends at 0.
        for _ in 0..200 {
            if guest.run_steps(engine, 0, 1) == Stop::Halted {
                break;
            }
            guest.cpus[0].registers[1] &= 0xff;
        }
        assert_eq!(guest.cpus[0].pc, halt, "every level has returned");
        calls.push(guest.cpus[0].registers);
    }
    assert_eq!(calls[0], calls[1], "as without the probe");
    let top = STACKS + STACK - 64;
    let expected = ["in 4", "in 3", "in 2"].map(Into::into).into_iter();
    let expected: Vec<_> = expected.chain([2, 1, 0].map(|level| format!("out {:#x}", top - 8 * level))).collect();
    assert_eq!(notes.take(), expected, "the three outermost, newest first");
    assert_eq!((probe.hits(), probe.nmissed(), probe.returns(), probe.kprobe().nmissed()), (5, 2, 3, 0));
}
