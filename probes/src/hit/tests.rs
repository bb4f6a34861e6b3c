//! Tests of the hit path on the toy guest, which takes real traps and runs the slots.

use crate::Engine;
use crate::context::Phase;
use crate::guest::{Guest, WindowUse};
use crate::notes::Notes;
use crate::probe::{Flow, Jprobe, Kprobe};
use crate::slots::SLOT;
use crate::toy::guest::{BREAKPOINT, DATA, PAGE_FAULT, in_window};
use crate::toy::isa::{BREAK, TOY};
use crate::toy::{Stop, ToyGuest, sample};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

fn new(cpus: usize) -> (ToyGuest, Engine) {
    (sample::kernel(cpus), Engine::new(&TOY, cpus))
}

/// The value that `main` leaves in r0 if nothing interferes: 5 + 1 + 2 + 4.
const RESULT: u64 = 12;

/// KP-1
#[test]
fn registering_arms_the_text_and_writes_a_slot() {
    let (mut guest, mut engine) = new(1);
    let address = guest.address("vfs_read") + 3;
    let original = guest.peek(address, 3).to_vec();
    engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read").offset(3)).expect("may be probed");
    assert_eq!(guest.peek(address, 3), [&[BREAK], &original[1..]].concat(), "only the breakpoint's bytes change");
    let copies: Vec<u64> = guest.window.keys().copied().collect();
    assert_eq!(copies.len(), 1, "a step has one copy");
    assert_eq!(guest.peek(copies[0], 4), [&original[..], &[BREAK]].concat(), "the copy and the second breakpoint");
    assert_eq!(guest.window[&copies[0]], WindowUse::Copy { origin: address, displaced: 3, in_front: 0 });
    assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
    assert_eq!((guest.cpus[0].registers[0], guest.cpus[0].traps), (RESULT, 2));
}

/// KP-2, KP-3: with every plan and any set of handlers, the instruction runs once, out of line.
#[test]
fn each_plan_runs_the_instruction_once_between_its_handlers() {
    #[rustfmt::skip]
    let cases = [
        // plan                  where              traps without post-handler, with
        ("boosted",              ("vfs_read", 0),   (1, 2)),
        ("stepped",              ("vfs_read", 3),   (2, 2)),
        ("emulated call",        ("vfs_read", 6),   (1, 1)),
        ("emulated return",      ("vfs_read", 14),  (1, 1)),
        ("boosted push",         ("helper", 0),     (1, 2)),
    ];
    for (what, (symbol, offset), traps) in cases {
        for (with_pre, with_post) in [(false, false), (true, false), (false, true), (true, true)] {
            let case = format!("{what}, pre {with_pre}, post {with_post}");
            let (mut guest, mut engine) = new(1);
            let notes = Notes::default();
            let mut probe = Kprobe::at(symbol).offset(offset);
            if with_pre {
                probe = probe.pre(notes.pre("pre"));
            }
            if with_post {
                probe = probe.post(notes.post("post"));
            }
            engine.register_kprobe(&mut guest, &probe).expect(&case);
            let probed_text = guest.text_bytes();
            assert_eq!(guest.run(&mut engine, 0), Stop::Halted, "{case}");
            assert_eq!(guest.cpus[0].registers[0], RESULT, "{case}");
            assert_eq!(guest.cpus[0].traps, if with_post { traps.1 } else { traps.0 }, "{case}: traps");
            let expected: Vec<&str> = [with_pre.then_some("pre"), with_post.then_some("post")].into_iter().flatten().collect();
            assert_eq!(notes.take(), expected, "{case}");
            assert_eq!(probe.hits(), 1, "{case}");
            assert_eq!(guest.text_bytes(), probed_text, "{case}: the breakpoint stays in place");
        }
    }
}

/// KP-2: the handler's pc is the same on every ISA, and Linux's pc is available, too.
#[test]
fn handlers_see_the_right_pc_before_and_after() {
    for (offset, next) in [(0, 3), (3, 6), (6, 0x10)] {
        let (mut guest, mut engine) = new(1);
        let notes = Notes::default();
        let (pre, post) = (notes.clone(), notes.clone());
        let base = guest.address("vfs_read");
        let probe = Kprobe::at("vfs_read")
            .offset(offset)
            .pre(move |hit| {
                pre.add(format!("{:?} {:#x} {:#x}", hit.phase(), hit.pc() - base, hit.linux_pc() - base));
                Flow::Continue
            })
            .post(move |hit| {
                assert_eq!(hit.address(), base + u64::from(offset));
                post.add(format!("{:?} {:#x} {:#x}", hit.phase(), hit.pc() - base, hit.linux_pc() - base));
            });
        engine.register_kprobe(&mut guest, &probe).expect("may be probed");
        guest.run(&mut engine, 0);
        let before = format!("{:?} {offset:#x} {:#x}", Phase::Before, offset + 1);
        assert_eq!(notes.take(), [before, format!("{:?} {next:#x} {next:#x}", Phase::After)]);
    }
}

/// KP-6
#[test]
fn changes_by_handlers_take_effect() {
    let (mut guest, mut engine) = new(1);
    let probe = Kprobe::at("vfs_read")
        .pre(|hit| {
            assert_eq!((hit.arg(0), hit.arg(1), hit.reg("r1"), hit.reg("eax")), (5, 7, Some(7), None));
            hit.write(DATA.start, b"vfs\0").expect("data can be written");
            let mut name = [0; 8];
            assert_eq!(hit.read_string(DATA.start, &mut name), Ok(3));
            assert!(hit.set_reg("r0", 1000));
            Flow::Continue
        })
        .post(|hit| assert!(hit.set_reg("r5", hit.reg("r0").expect("r0 is a register"))));
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    guest.run(&mut engine, 0);
    assert_eq!((guest.cpus[0].registers[0], guest.cpus[0].registers[5]), (1007, 1001));
    assert_eq!(guest.peek(DATA.start, 4), b"vfs\0");
}

/// KP-7
#[test]
fn a_redirecting_pre_handler_ends_the_hit() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let to = guest.address("vfs_read") + 14;
    let redirecting = move |hit: &mut crate::probe::Hit<'_>| {
        hit.set_pc(to);
        Flow::Redirected
    };
    let probe = Kprobe::at("vfs_read").pre(redirecting).post(notes.post("post"));
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
    assert_eq!((guest.cpus[0].registers[0], guest.cpus[0].traps), (5, 1), "the function was skipped");
    assert_eq!(notes.take(), Vec::<&str>::new());
    assert_eq!(probe.hits(), 1);
}

/// KP-7: a changed pc counts only with `Redirected`. `Redirected` without a changed pc does not trap for ever.
#[test]
fn a_redirection_needs_both_pc_and_answer() {
    for (moves, flow) in [(true, Flow::Continue), (false, Flow::Redirected)] {
        for offset in [0, 3, 6] {
            let (mut guest, mut engine) = new(1);
            let probe = Kprobe::at("vfs_read").offset(offset).pre(move |hit| {
                if moves {
                    hit.set_pc(0x6000);
                }
                flow
            });
            engine.register_kprobe(&mut guest, &probe).expect("may be probed");
            assert_eq!((guest.run(&mut engine, 0), guest.cpus[0].registers[0]), (Stop::Halted, RESULT), "{flow:?} at +{offset}");
        }
    }
}

/// KP-8
#[test]
fn probes_run_newest_first_and_the_jprobe_last() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let (first, second) = (notes.probe("first", "vfs_read", 0), notes.probe("second", "vfs_read", 0));
    let mirror_notes = notes.clone();
    let mirror = Jprobe::at("vfs_read").host(move |_| mirror_notes.add("mirror"));
    let third = notes.probe("third", "vfs_read", 0);
    engine.register_kprobe(&mut guest, &first).expect("first");
    engine.register_jprobe(&mut guest, &mirror).expect("mirror");
    engine.register_kprobes(&mut guest, &[second.clone(), third.clone()]).expect("second and third");
    let hit = |guest: &mut ToyGuest, engine: &mut Engine| {
        guest.start(0, "main");
        assert_eq!((guest.run(engine, 0), guest.cpus[0].registers[0]), (Stop::Halted, RESULT));
        notes.take().join(", ")
    };
    assert_eq!(hit(&mut guest, &mut engine), "pre third, pre second, pre first, mirror, post third, post second, post first");
    engine.disable_kprobe(&mut guest, &second).expect("is registered");
    assert_eq!(hit(&mut guest, &mut engine), "pre third, pre first, mirror, post third, post first", "a disabled one is skipped");
    engine.unregister_kprobe(&mut guest, &third);
    assert_eq!(hit(&mut guest, &mut engine), "pre first, mirror, post first", "the others stay");
    assert_eq!([first.hits(), second.hits(), third.hits(), mirror.hits()], [3, 1, 2, 3]);
}

/// KP-8: a redirection skips the older probes, which count it.
#[test]
fn a_redirection_stops_the_older_probes() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let old = notes.probe("old", "vfs_read", 0);
    let to = guest.address("vfs_read") + 14;
    let new = Kprobe::at("vfs_read").pre(move |hit| {
        hit.set_pc(to);
        Flow::Redirected
    });
    engine.register_kprobe(&mut guest, &old).expect("old");
    engine.register_kprobe(&mut guest, &new).expect("new");
    guest.run(&mut engine, 0);
    assert_eq!((notes.take().len(), old.hits(), old.skipped(), new.hits()), (0, 0, 1, 1));
}

/// KP-9: the probed instruction faults. If `fixes`, the fault handler repairs the cause and returns "handled".
#[test]
fn a_fault_goes_to_the_fault_handler_then_to_the_guest() {
    #[rustfmt::skip]
    let cases = [
        // what                        where             plain stack
        ("a boosted load",             ("vfs_write", 0), true),
        ("a stepped store",            ("vfs_write", 3), true),
        ("an emulated call",           ("vfs_read", 6),  false),
    ];
    for (what, (symbol, offset), good_stack) in cases {
        for fixes in [true, false] {
            let case = format!("{what}, fixed: {fixes}");
            let (mut guest, mut engine) = new(1);
            let notes = Notes::default();
            let asked = notes.clone();
            let probe = notes.probe("it", symbol, offset).fault(move |hit, fault| {
                asked.add(format!("fault {} at +{}", fault.trapnr, hit.pc() - hit.address()));
                if fixes {
                    hit.set_reg("r3", DATA.start);
                    hit.set_reg("sp", 0x8f00);
                }
                fixes
            });
            engine.register_kprobe(&mut guest, &probe).expect(&case);
            let sp = if good_stack { 0x8f00 } else { 0x10 };
            guest.cpus[0].registers[3] = if offset == 3 { 0x10 } else { 0 };
            guest.cpus[0].registers[8] = sp;
            guest.cpus[0].pc = guest.address(symbol) + u64::from(offset);
            let address = guest.cpus[0].pc;
            let stop = guest.run_steps(&mut engine, 0, 5);
            let text = notes.take().join(", ");
            if fixes {
                assert_eq!(stop, Stop::Steps, "{case}");
                assert!(text.starts_with("pre it, fault 14 at +0, pre it, post it"), "{case}: hit again when repaired: {text}");
            } else {
                assert_eq!(stop, Stop::Exception { trapnr: PAGE_FAULT, pc: address }, "{case}: as if it had run in place");
                assert_eq!(text, "pre it, fault 14 at +0", "{case}");
                // The guest repairs the cause and returns to the faulting instruction.
                guest.cpus[0].registers[3] = DATA.start;
                guest.cpus[0].registers[8] = 0x8f00;
                guest.run_steps(&mut engine, 0, 4);
                assert_eq!(notes.take().join(", "), "pre it, post it", "{case}: and the CPU was not left in the middle of a hit");
            }
            assert_eq!(probe.nmissed(), 0, "{case}");
        }
    }
}

/// KP-9: a handler's own access faults.
#[test]
fn a_fault_in_a_handler_goes_to_its_fault_handler() {
    for fixes in [true, false] {
        let (mut guest, mut engine) = new(1);
        let notes = Notes::default();
        let (pre, asked) = (notes.clone(), notes.clone());
        let probe = Kprobe::at("vfs_read")
            .pre(move |hit| {
                let read = hit.read_word(0x10);
                pre.add(format!("read {}", read.is_ok()));
                Flow::Continue
            })
            .fault(move |hit, fault| {
                // A fault inside the fault handler does not call it again.
                assert!(hit.read_word(0x18).is_err());
                asked.add(format!("fault {} at {:#x}", fault.trapnr, fault.access.map_or(0, |access| access.address)));
                fixes
            });
        engine.register_kprobe(&mut guest, &probe).expect("may be probed");
        assert_eq!((guest.run(&mut engine, 0), guest.cpus[0].registers[0]), (Stop::Halted, RESULT));
        assert_eq!(
            notes.take(),
            ["fault 14 at 0x10", "read false"],
            "the fault handler claims a repair, but nothing is mapped there"
        );
        assert_eq!(probe.nmissed(), 1, "as Linux counted it");
    }
}

/// KP-10: a jprobe's handler in the guest reaches a probed instruction, with each plan.
#[test]
fn a_nested_hit_runs_no_handler_but_the_instruction() {
    for (what, offset) in [("boosted", 0), ("stepped", 3), ("emulated", 6)] {
        let (mut guest, mut engine) = new(1);
        let notes = Notes::default();
        // `handler` calls `helper`. This jprobe uses `vfs_read` as its handler instead.
        let inner = [notes.probe("inner", "vfs_read", offset), notes.probe("other", "vfs_read", offset).disabled()];
        engine.register_kprobes(&mut guest, &inner).expect(what);
        let outer = Jprobe::at("outer").guest("vfs_read").returns_in(0x6000..0x6001);
        engine.register_jprobe(&mut guest, &outer).expect(what);
        guest.start(0, "outer");
        guest.cpus[0].registers[0] = 5;
        // vfs_read, run as the handler, reaches its return. The test ends it there, as jprobe_return would.
        let end = guest.address("vfs_read") + 14;
        assert!(guest.run_to(&mut engine, 0, |pc| pc == end), "{what}");
        assert_eq!(guest.cpus[0].registers[0], RESULT, "{what}: all of it was executed");
        assert_eq!(notes.take(), Vec::<&str>::new(), "{what}");
        assert_eq!(inner.each_ref().map(Kprobe::nmissed), [1, 1], "{what}: disabled ones miss it too");
        assert_eq!(engine.counts().reentered, 1);
        guest.cpus[0].pc = 0x6000;
        let answer = engine.breakpoint(&mut guest.cpu(0));
        assert!(matches!(answer, crate::guest::Answer::Resume(resume) if !resume.frozen), "{what}: {answer:?}");
        assert_eq!(guest.cpus[0].registers[0], 5, "{what}: as it was before the handler");
    }
}

/// KP-9, KP-10: a fault inside a nested hit goes to the guest without asking a fault handler, and the outer hit
/// continues.
#[test]
fn a_fault_in_a_nested_hit_goes_to_the_guest() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let asked = notes.clone();
    let inner = notes.probe("inner", "vfs_write", 3).fault(move |_, _| {
        asked.add("asked");
        true
    });
    engine.register_kprobe(&mut guest, &inner).expect("may be probed");
    let outer = Jprobe::at("outer").guest("vfs_write").returns_in(0x6000..0x6001);
    engine.register_jprobe(&mut guest, &outer).expect("functions");
    guest.start(0, "outer");
    guest.cpus[0].registers[3] = DATA.start;
    let store = guest.address("vfs_write") + 3;
    assert!(guest.run_to(&mut engine, 0, |pc| pc == store));
    guest.cpus[0].registers[3] = 0x10;
    assert_eq!(guest.run(&mut engine, 0), Stop::Exception { trapnr: PAGE_FAULT, pc: store });
    guest.cpus[0].registers[3] = DATA.start;
    assert!(guest.run_to(&mut engine, 0, |pc| pc == store + 3), "repaired, it runs");
    assert_eq!((notes.take().len(), inner.nmissed()), (0, 2));
    guest.cpus[0].pc = 0x6000;
    assert!(matches!(engine.breakpoint(&mut guest.cpu(0)), crate::guest::Answer::Resume(resume) if !resume.frozen));
}

/// KP-14, KP-18: interrupts come at the same times and addresses as without probes, and never inside a hit. The
/// interrupt handler is probed at every instruction, too.
#[test]
fn a_fully_probed_run_ends_like_an_unprobed_one() {
    let run = |probed: bool, with_post: bool| {
        let (mut guest, mut engine) = new(1);
        let notes = Notes::default();
        let mut probes = Vec::new();
        for (symbol, offsets) in [
            ("main", vec![0, 6, 12]),
            ("vfs_read", vec![0, 3, 6, 11, 14]),
            ("helper", vec![0, 2, 4]),
            ("irq_handler", vec![0, 3]),
            ("vfs_irq", vec![0, 3]),
            ("fill", vec![0, 6, 12, 18]),
        ] {
            for offset in offsets {
                let probe = Kprobe::at(symbol).offset(offset).pre(notes.pre("hit"));
                probes.push(if with_post { probe.post(|_| {}) } else { probe });
            }
        }
        if probed {
            engine.register_kprobes(&mut guest, &probes).expect("all may be probed");
        }
        guest.interrupt(0, 4, Some(17));
        assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
        guest.start(0, "fill");
        assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
        assert!(probed || notes.take().is_empty());
        let fill = &probes[probes.len() - 1];
        assert_eq!(fill.hits(), u64::from(probed), "one repeated instruction is one hit, however often it was interrupted");
        guest.cpus[0].traps = 0;
        (guest.cpus[0].clone(), guest.ram().to_vec(), engine.counts().continued > 0)
    };
    let (cpu, ram, _) = run(false, false);
    assert!(cpu.interrupts.len() > 15, "there are interrupts to compare");
    for with_post in [false, true] {
        let (probed_cpu, probed_ram, continued) = run(true, with_post);
        assert_eq!(probed_cpu, cpu, "registers, time, and each interrupt's time and place; post-handlers: {with_post}");
        assert!(probed_ram == ram, "the same memory; post-handlers: {with_post}");
        assert!(continued, "an interrupt came inside the repeated instruction");
    }
}

/// KP-17
#[test]
fn each_cpu_has_its_own_current_probe() {
    let (mut guest, mut engine) = new(2);
    let notes = Notes::default();
    let probe = notes.probe("it", "vfs_read", 3);
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    assert!(guest.run_to(&mut engine, 0, in_window), "the first CPU is in the slot");
    assert!(guest.run_to(&mut engine, 1, in_window), "and the second comes into the same one");
    assert_eq!(guest.cpus[0].pc, guest.cpus[1].pc);
    assert_eq!(notes.take(), ["pre it", "pre it"], "it is a separate hit, not one nested in the first");
    assert_eq!([guest.run(&mut engine, 1), guest.run(&mut engine, 0)], [Stop::Halted; 2]);
    assert_eq!(notes.take(), ["post it", "post it"]);
    assert_eq!([guest.cpus[0].registers[0], guest.cpus[1].registers[0], probe.nmissed()], [RESULT, RESULT, 0]);
}

#[test]
fn a_breakpoint_of_the_guest_goes_to_the_guest() {
    let (mut guest, mut engine) = new(1);
    engine.register_kprobe(&mut guest, &Kprobe::at("own_breakpoint").offset(1).disabled()).expect_err("a halt");
    guest.start(0, "own_breakpoint");
    let pc = guest.cpus[0].pc;
    assert_eq!(guest.run(&mut engine, 0), Stop::Exception { trapnr: BREAKPOINT, pc });
}

/// The breakpoint was removed after the trap and before the engine looked at it.
#[test]
fn a_stale_breakpoint_runs_the_instruction_again() {
    let (mut guest, mut engine) = new(1);
    let probe = Kprobe::at("vfs_read");
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    let address = guest.address("vfs_read");
    assert!(guest.run_to(&mut engine, 0, |pc| pc == address));
    engine.unregister_kprobe(&mut guest, &probe);
    let answer = engine.breakpoint(&mut guest.cpu(0));
    assert!(matches!(answer, crate::guest::Answer::Resume(resume) if resume.counted == 0 && resume.falls_through));
    assert_eq!((guest.cpus[0].pc, probe.hits()), (address, 0));
    assert_eq!((guest.run(&mut engine, 0), guest.cpus[0].registers[0]), (Stop::Halted, RESULT));
}

/// An interrupted repeated instruction is recognised by task, stack pointer and progress. Any other execution is a
/// separate hit.
#[test]
fn only_the_same_execution_continues_without_a_hit() {
    let (mut guest, mut engine) = new(2);
    let notes = Notes::default();
    let probe = notes.probe("fill", "fill", 18);
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    for cpu in [0, 1] {
        guest.start(cpu, "fill");
    }
    guest.interrupt(0, 25, None);
    let handler = guest.address("irq_handler");
    assert!(guest.run_to(&mut engine, 0, |pc| pc == handler));
    assert_eq!(guest.run(&mut engine, 1), Stop::Halted, "meanwhile another CPU runs it from start to end");
    assert_eq!(notes.take(), ["pre fill", "pre fill", "post fill"]);
    assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
    assert_eq!((notes.take().join(", "), probe.hits(), probe.nmissed()), ("post fill".into(), 2, 0));
    assert_eq!(engine.counts().continued, 1);
}

#[test]
fn a_slot_that_collides_in_the_jump_cache_is_skipped() {
    let (mut guest, mut engine) = new(1);
    let first = guest.window_take(0, SLOT).expect("there is room");
    guest.window_give(first, SLOT);
    guest.colliding.push(first);
    engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read")).expect("may be probed");
    assert!(!guest.window.contains_key(&first));
    assert!(guest.window_free.contains(&(first, SLOT)), "and is free for others");
}
