//! Calls that never return: of tasks that exit, and those that a longjmp leaves. Also returns that fit no call.

use super::{new, noting, run};
use crate::guest::Answer;
use crate::notes::Notes;
use crate::toy::Stop;
use crate::toy::guest::STACKS;
use crate::toy::isa::STACK;
use alloc::format;

/// RP-8
#[test]
fn an_exiting_task_frees_its_instances() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let probe = noting(&notes, "v", "vfs_read").maxactive(1);
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    let helper = guest.address("helper");
    for task in 0..3 {
        guest.become_task(0, task);
        guest.start(0, "main");
        assert!(guest.run_to(&mut engine, 0, |pc| pc == helper));
        assert!(engine.resolve_pad(0x100 + task, 0).is_some());
        engine.task_exited(0x100 + task);
        assert_eq!(engine.resolve_pad(0x100 + task, 0), None);
    }
    assert_eq!((notes.take().join(" "), probe.nmissed()), ("v(5) v(5) v(5)".into(), 0), "each found the one instance free");
}

/// RP-8: calls that a dying task still makes and never returns from are freed when its CPU runs another task.
#[test]
fn calls_of_a_dying_task_are_freed_too() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let probe = noting(&notes, "v", "vfs_read").maxactive(1);
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    let helper = guest.address("helper");
    for task in 0..4 {
        guest.become_task(0, task);
        engine.task_dies(0, 0x100 + task);
        guest.start(0, "main");
        assert!(guest.run_to(&mut engine, 0, |pc| pc == helper));
        assert!(engine.resolve_pad(0x100 + task, 0).is_some(), "it is in the function, and stays there");
    }
    assert_eq!((probe.hits(), probe.nmissed()), (4, 0));
    // A live task keeps its instances.
    guest.become_task(0, 5);
    guest.start(0, "main");
    assert!(guest.run_to(&mut engine, 0, |pc| pc == helper));
    guest.become_task(0, 6);
    run(&mut guest, &mut engine, "main");
    assert_eq!((probe.nmissed(), engine.calls_in_flight()), (1, 1));
    engine.task_exited(0x105);
    assert_eq!(engine.calls_in_flight(), 0);
}

/// RP-8: a longjmp skips a followed call. The abandoned call is found when an older one returns.
#[test]
fn an_abandoned_call_is_reported_and_its_instance_freed() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let inner = noting(&notes, "v", "vfs_read").maxactive(1);
    engine.register_kretprobe(&mut guest, &noting(&notes, "o", "outer")).expect("a function");
    engine.register_kretprobe(&mut guest, &inner).expect("a function");
    let functions: [(&str, u64); 2] = [("outer", 6), ("helper", 0)];
    let [end_of_outer, helper] = functions.map(|(name, offset)| guest.address(name) + offset);
    let address = guest.address("vfs_read");
    for round in 1..=2 {
        let sp = STACKS + STACK - 72;
        let halt = guest.address("main") + 17;
        guest.poke(sp, &halt.to_le_bytes());
        guest.cpus[0].registers[8] = sp;
        guest.cpus[0].registers[0] = 5;
        guest.start(0, "outer");
        assert!(guest.run_to(&mut engine, 0, |pc| pc == helper));
        // Leave helper and vfs_read at once, to outer's return.
        (guest.cpus[0].pc, guest.cpus[0].registers[8]) = (end_of_outer, sp);
        assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
        assert_eq!(guest.cpus[0].pc, halt);
        assert_eq!(notes.take().join(" "), "o(5) v(5) o = 8", "the call that was left has no return, round {round}");
        assert_eq!(engine.counts().left_behind, round);
        assert_eq!(engine.take_log_lines(), [format!("kretprobe BUG!: Processing kretprobe vfs_read @ {address:016x}")]);
        assert_eq!(inner.nmissed(), 0);
    }
}

/// RP-8: for a return that fits no call, the guest continues at the likeliest call's return address, or gets its trap.
#[test]
fn a_return_that_fits_no_call_does_not_crash_the_guest() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let probe = noting(&notes, "v", "vfs_read");
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    let (pad, caller) = (engine.return_pad().expect("there is a return probe"), guest.address("main") + 17);
    let helper = guest.address("helper");
    let address = guest.address("vfs_read");
    for (what, task, sp) in
        [("its stack pointer is odd", 0x100, STACKS + 0x10), ("its task is another", 0x999, STACKS + STACK - 0x100)]
    {
        guest.become_task(0, 0);
        guest.start(0, "main");
        assert!(guest.run_to(&mut engine, 0, |pc| pc == helper), "{what}");
        let before = engine.counts().mismatched_returns;
        (guest.cpus[0].pc, guest.cpus[0].task, guest.cpus[0].registers[8]) = (pad, task, sp);
        assert!(matches!(engine.breakpoint(&mut guest.cpu(0)), Answer::Resume(_)), "{what}");
        assert_eq!(guest.cpus[0].pc, caller, "{what}");
        assert_eq!(engine.counts().mismatched_returns, before + 1, "{what}");
        assert_eq!(
            engine.take_log_lines(),
            [format!("kretprobe BUG!: Processing kretprobe vfs_read @ {address:016x}")],
            "{what}"
        );
    }
    guest.cpus[0].pc = pad;
    assert_eq!(engine.breakpoint(&mut guest.cpu(0)), Answer::NotOurs, "no call of the function is in flight");
    let bug = format!("kretprobe BUG!: Processing kretprobe (none) @ {pad:016x}: ");
    let lines = engine.take_log_lines();
    assert!(lines.len() == 1 && lines[0].starts_with(&bug), "{lines:?}");
    assert_eq!(engine.counts().mismatched_returns, 3);
}

/// RP-8: a call that was given up returns after all. Its true address is still known.
#[test]
fn a_given_up_call_still_returns_correctly() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let probe = noting(&notes, "v", "vfs_read");
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    let (helper, address) = (guest.address("helper"), guest.address("vfs_read"));
    guest.start(0, "main");
    assert!(guest.run_to(&mut engine, 0, |pc| pc == helper));
    engine.forget_calls();
    assert_eq!(guest.run(&mut engine, 0), Stop::Halted, "it goes on where it was called");
    assert_eq!(notes.take().join(" "), "v(5)", "no handler runs for its return");
    assert_eq!(engine.take_log_lines(), [format!("kretprobe BUG!: Processing kretprobe vfs_read @ {address:016x}")]);
    assert_eq!(engine.counts().mismatched_returns, 1);
}
