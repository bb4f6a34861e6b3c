//! Tests of return probes on the toy guest: calls that return, recurse, sleep or overlap.

mod instances;
mod lost;

use crate::guest::Guest;
use crate::notes::Notes;
use crate::probe::{Flow, Frame, Jprobe, Kprobe, Kretprobe};
use crate::toy::guest::STACKS;
use crate::toy::isa::{STACK, TOY, TOY_LINK};
use crate::toy::{Op, Stop, ToyCpu, ToyGuest, sample};
use crate::{Engine, Errno};
use alloc::format;
use alloc::vec::Vec;

const RESULT: u64 = 12;

fn new(cpus: usize) -> (ToyGuest, Engine) {
    (sample::kernel(cpus), Engine::new(&TOY, cpus))
}

/// A return probe that notes the function's entries and its returns with their values.
fn noting(notes: &Notes, name: &'static str, symbol: &str) -> Kretprobe {
    let (entry, back) = (notes.clone(), notes.clone());
    Kretprobe::at(symbol)
        .entry(move |call| {
            entry.add(format!("{name}({})", call.arg(0)));
            Flow::Continue
        })
        .handler(move |call| back.add(format!("{name} = {}", call.return_value())))
}

fn run(guest: &mut ToyGuest, engine: &mut Engine, function: &str) {
    guest.start(0, function);
    assert_eq!(guest.run(engine, 0), Stop::Halted);
}

/// RP-1, RP-6: with both calling conventions, stack and link register.
#[test]
fn a_return_reaches_the_pad_and_then_the_caller() {
    for isa in [&TOY, &TOY_LINK] {
        let mut guest = sample::kernel_on(isa, 1);
        let mut engine = Engine::new(isa, 1);
        let notes = Notes::default();
        let back = notes.clone();
        let caller = guest.address("main") + 17;
        let function = guest.address("vfs_irq");
        let probe = Kretprobe::at("vfs_irq").handler(move |call| {
            let seen = (call.ret_addr(), call.pc(), call.address(), call.return_value(), call.task());
            assert_eq!(seen, (caller, caller, function, 5, 0x100));
            call.set_return_value(77);
            // Neither change takes effect.
            call.set_pc(0);
            call.set_reg("sp", 0);
            back.add(call.probe().kind().letter());
        });
        engine.register_kretprobe(&mut guest, &probe).expect("a function");
        let program = [Op::Mov(0, 5), Op::Mov(1, 7), Op::Call("vfs_irq"), Op::Halt];
        let mut at = guest.address("main");
        for op in program {
            let bytes = op.encode(at, |name| guest.address(name));
            guest.poke(at, &bytes);
            at += bytes.len() as u64;
        }
        let sp = guest.cpus[0].registers[8];
        run(&mut guest, &mut engine, "main");
        assert_eq!((notes.take().join(""), guest.cpus[0].registers[0], guest.cpus[0].registers[8]), ("r".into(), 77, sp));
        assert_eq!((probe.hits(), probe.returns(), probe.nmissed(), guest.cpus[0].traps), (1, 1, 0, 2));
        assert!(engine.return_pad().is_some_and(|pad| guest.window.contains_key(&pad)));
    }
}

/// RP-1: a run with return probes ends like one without, including the memory below the stack pointer.
#[test]
fn no_pad_address_is_left_on_the_stack() {
    let run = |probed: bool| {
        let (mut guest, mut engine) = new(1);
        if probed {
            let probes = ["vfs_read", "helper", "vfs_irq"].map(Kretprobe::at);
            engine.register_kretprobes(&mut guest, &probes).expect("functions");
        }
        guest.interrupt(0, 4, Some(17));
        guest.start(0, "main");
        assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
        guest.cpus[0].traps = 0;
        (guest.cpus[0].clone(), guest.ram().to_vec())
    };
    let ((cpu, ram), (probed_cpu, probed_ram)) = (run(false), run(true));
    assert_eq!(probed_cpu, cpu);
    assert!(probed_ram == ram);
}

/// RP-1: the number of followed calls tells whether stacks hold pad addresses.
#[test]
fn calls_in_flight_are_counted_until_return_or_forgotten() {
    let (mut guest, mut engine) = new(1);
    let probe = Kretprobe::at("vfs_read");
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    assert_eq!(engine.calls_in_flight(), 0);
    guest.start(0, "vfs_read");
    guest.run_steps(&mut engine, 0, 1);
    assert_eq!(engine.calls_in_flight(), 1);
    engine.forget_calls();
    assert_eq!(engine.calls_in_flight(), 0);
    engine.unregister_kretprobe(&mut guest, &probe);
}

/// RP-4
#[test]
fn a_call_declined_by_the_entry_handler_is_not_followed() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let probe = Kretprobe::at("vfs_read").entry(|_| Flow::Redirected).handler({
        let notes = notes.clone();
        move |_| notes.add("return")
    });
    engine.register_kretprobe(&mut guest, &probe.clone().maxactive(1)).expect("a function");
    for _ in 0..3 {
        run(&mut guest, &mut engine, "main");
    }
    assert_eq!((notes.take().len(), guest.cpus[0].traps, probe.nmissed()), (0, 3, 0), "no trap but at the entry");
    assert_eq!(guest.cpus[0].registers[0], RESULT);
}

/// RP-5
#[test]
fn the_handlers_of_one_call_share_its_data() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let (entry, back) = (notes.clone(), notes.clone());
    let probe = Kretprobe::at("vfs_read")
        .data_size(16)
        .maxactive(2)
        .entry(move |call| {
            let argument = call.arg(0);
            entry.add(format!("found {}", call.data()[0]));
            call.data()[..8].copy_from_slice(&argument.to_le_bytes());
            Flow::Continue
        })
        .handler(move |call| {
            let kept = call.data().first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            back.add(format!("{} became {}, {} bytes", kept.unwrap_or(0), call.return_value(), call.data().len()));
        });
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    run(&mut guest, &mut engine, "main");
    assert_eq!(notes.take(), ["found 0", "5 became 12, 16 bytes"]);
    run(&mut guest, &mut engine, "main");
    assert_eq!(notes.take()[0], "found 5", "cleared once, not for each call");
}

/// RP-7: tasks sleep in the function and continue in another order, on another CPU.
#[test]
fn calls_of_several_tasks_are_matched() {
    let (mut guest, mut engine) = new(2);
    let notes = Notes::default();
    let entry = notes.clone();
    let back = notes.clone();
    let probe = Kretprobe::at("vfs_read")
        .data_size(8)
        .entry(move |call| {
            let task = call.task();
            call.data()[0] = task as u8;
            entry.add(format!("in {task:#x}"));
            Flow::Continue
        })
        .handler(move |call| back.add(format!("out {:#x} {}", call.task(), call.data()[0])));
    engine.register_kretprobe(&mut guest, &probe).expect("a function");
    let helper = guest.address("helper");
    let mut sleeping: Vec<ToyCpu> = Vec::new();
    for task in 0..4 {
        guest.become_task(0, task);
        guest.start(0, "main");
        assert!(guest.run_to(&mut engine, 0, |pc| pc == helper), "each task sleeps in the middle of vfs_read");
        sleeping.push(guest.cpus[0].clone());
    }
    for task in [2, 0, 3, 1] {
        let cpu = task % 2;
        guest.cpus[cpu] = sleeping[task].clone();
        assert_eq!(guest.run(&mut engine, cpu), Stop::Halted);
        assert_eq!(guest.cpus[cpu].registers[0], RESULT);
    }
    let expected = ["in 0x100", "in 0x101", "in 0x102", "in 0x103", "out 0x102 2", "out 0x100 0", "out 0x103 3", "out 0x101 1"];
    assert_eq!(notes.take(), expected);
    assert_eq!(engine.counts().mismatched_returns, 0);
}

/// RP-7: nested functions, a tail call that shares its caller's return address, several probes on one function, and a
/// callee that pops its arguments.
#[test]
fn nested_shared_and_popping_returns_are_matched() {
    #[rustfmt::skip]
    let cases = [
        // what           called      arguments on the stack, probes                                       what their
        // handlers note
        ("nested",        "outer",    0, &[("o", "outer"), ("v", "vfs_read"), ("h", "helper")][..], "o(5) v(5) h(8) h = 8 v = 12 o = 12"),
        ("a tail call",   "tail",     0, &[("t", "tail"), ("h", "helper")],                        "t(5) h(6) h = 6 t = 6"),
        ("two on one",    "vfs_read", 0, &[("old", "vfs_read"), ("new", "vfs_read")],              "new(5) old(5) old = 12 new = 12"),
        ("callee pops",   "stdcall",  2, &[("s", "stdcall")],                                      "s(5) s = 6"),
    ];
    for (what, called, arguments, probes, expected) in cases {
        let mut program = Vec::from([Op::Mov(0, 5)]);
        program.extend((0..arguments).map(|_| Op::Push(0)));
        program.extend([Op::Call(called), Op::Halt]);
        let functions: Vec<_> = [("start", &program[..])].into_iter().chain(sample::FUNCTIONS.iter().copied()).collect();
        let mut guest = ToyGuest::new(&TOY, 1, &functions);
        let mut engine = Engine::new(&TOY, 1);
        let notes = Notes::default();
        for (name, symbol) in probes {
            engine.register_kretprobe(&mut guest, &noting(&notes, name, symbol)).expect(what);
        }
        let sp = guest.cpus[0].registers[8];
        assert_eq!(guest.run(&mut engine, 0), Stop::Halted, "{what}");
        assert_eq!(notes.take().join(" "), expected, "{what}");
        assert_eq!(guest.cpus[0].registers[8], sp, "{what}: the stack pointer");
        assert_eq!((engine.counts().mismatched_returns, engine.counts().left_behind), (0, 0), "{what}");
    }
}

/// RP-9
#[test]
fn a_backtrace_shows_true_and_raw_addresses() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    for name in ["vfs_read", "helper"] {
        engine.register_kretprobe(&mut guest, &Kretprobe::at(name)).expect("a function");
    }
    let pad = engine.return_pad().expect("there are return probes");
    let (from, to) = (crate::toy::guest::TEXT, guest.symbol("init_setup").map_or(0, |init| init.start));
    let seen = notes.clone();
    let probe = Kprobe::at("helper").offset(2).pre(move |hit| {
        let mut frames = [Frame::default(); 8];
        let count = hit.backtrace(&mut frames, |address| (from..to).contains(&address));
        for frame in &frames[..count] {
            seen.add(format!("{:#x}{}", frame.address, if frame.raw == pad { " pad" } else { "" }));
        }
        Flow::Continue
    });
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    let (entry_notes, read) = (notes.clone(), guest.address("vfs_read"));
    let entry = Kprobe::at("helper").pre(move |hit| {
        entry_notes.add(format!("called from {:#x}", hit.caller().unwrap_or(0)));
        Flow::Continue
    });
    engine.register_kprobe(&mut guest, &entry).expect("may be probed");
    run(&mut guest, &mut engine, "main");
    let (in_read, in_main) = (read + 11, guest.address("main") + 17);
    let here = guest.address("helper") + 2;
    let expected =
        [format!("called from {in_read:#x}"), format!("{here:#x}"), format!("{in_read:#x} pad"), format!("{in_main:#x} pad")];
    assert_eq!(notes.take(), expected);
}

/// RP-9: the engine resolves pads of any task, by stack word or by count.
#[test]
fn pads_of_any_task_can_be_resolved() {
    let (mut guest, mut engine) = new(1);
    engine
        .register_kretprobes(&mut guest, &[Kretprobe::at("vfs_read"), Kretprobe::at("vfs_read"), Kretprobe::at("helper")])
        .expect("all");
    let inside = guest.address("helper") + 2;
    assert!(guest.run_to(&mut engine, 0, |pc| pc == inside));
    let (in_read, in_main) = (guest.address("vfs_read") + 11, guest.address("main") + 17);
    assert_eq!([0, 1, 2].map(|nth| engine.resolve_pad(0x100, nth)), [Some(in_read), Some(in_main), None]);
    let top = STACKS + STACK - 64;
    let by_slot = [top - 8, top - 16, top - 24].map(|slot| engine.real_return_address(0x100, slot));
    assert_eq!(by_slot, [Some(in_main), Some(in_read), None]);
    assert_eq!(engine.real_return_address(0x101, top - 8), None, "another task");
}

/// RP-10
#[test]
fn stack_switching_functions_and_non_entries_are_refused() {
    let (mut guest, mut engine) = new(1);
    let text = guest.text_bytes();
    for (probe, words) in [
        (Kretprobe::at("__switch_to"), "another stack"),
        (Kretprobe::on(Kprobe::at("vfs_read").offset(3)), "not the first instruction"),
        (Kretprobe::at("probe_core"), "blacklisted"),
    ] {
        let refusal = engine.register_kretprobe(&mut guest, &probe).expect_err(words);
        assert_eq!((refusal.errno, refusal.why.contains(words)), (Errno::EINVAL, true), "{refusal}");
    }
    assert_eq!(guest.text_bytes(), text);
    engine.register_kprobe(&mut guest, &Kprobe::at("__switch_to")).expect("a plain probe may stand there");
}

/// RP-11
#[test]
fn a_kprobe_beside_a_return_probe_adds_no_trap() {
    let traps = |with_kprobe: bool| {
        let (mut guest, mut engine) = new(1);
        engine.register_kretprobe(&mut guest, &Kretprobe::at("vfs_read")).expect("a function");
        if with_kprobe {
            engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read").pre(|_| Flow::Continue)).expect("may be probed");
        }
        run(&mut guest, &mut engine, "main");
        guest.cpus[0].traps
    };
    assert_eq!([traps(false), traps(true)], [2, 2]);
}

/// RP-12: calls in flight return correctly after their probe was removed, without its handler.
#[test]
fn return_probes_can_be_registered_singly_and_in_batches() {
    let (mut guest, mut engine) = new(1);
    let original = guest.text_bytes();
    let notes = Notes::default();
    let probes = [noting(&notes, "v", "vfs_read"), noting(&notes, "h", "helper")];
    engine.register_kretprobes(&mut guest, &probes).expect("functions");
    assert_eq!(engine.register_kretprobe(&mut guest, &probes[0]).expect_err("it is registered").errno, Errno::EINVAL);
    engine.disable_kretprobe(&mut guest, &probes[0]).expect("registered");
    run(&mut guest, &mut engine, "main");
    assert_eq!(notes.take().join(" "), "h(8) h = 8");
    engine.enable_kretprobe(&mut guest, &probes[0]).expect("registered");
    let inside = guest.address("helper") + 2;
    guest.start(0, "main");
    assert!(guest.run_to(&mut engine, 0, |pc| pc == inside));
    engine.disable_kretprobe(&mut guest, &probes[1]).expect("registered");
    engine.unregister_kretprobe(&mut guest, &probes[0]);
    assert_eq!(guest.text_bytes(), original);
    assert_eq!((guest.run(&mut engine, 0), guest.cpus[0].registers[0]), (Stop::Halted, RESULT));
    assert_eq!(
        notes.take().join(" "),
        "v(5) h(8) h = 8",
        "a disabled one's call is followed to its return, a removed one's is not"
    );
    engine.unregister_kretprobes(&mut guest, &probes);
    let fresh = noting(&notes, "new", "vfs_read").maxactive(1);
    engine.register_kretprobe(&mut guest, &fresh).expect("a function");
    run(&mut guest, &mut engine, "main");
    assert_eq!(notes.take().join(" "), "new(5) new = 12", "the instances are at others' disposal");
}

/// JP-1, RP-1: a kprobe, a jprobe and a return probe on one function ("jr" and "kr" in kprobes.txt).
#[test]
fn all_kinds_of_probes_can_share_a_function() {
    let (mut guest, mut engine) = new(1);
    let notes = Notes::default();
    let mirror = notes.clone();
    engine.register_jprobe(&mut guest, &Jprobe::at("vfs_read").host(move |_| mirror.add("mirror"))).expect("a function");
    engine.register_kretprobe(&mut guest, &noting(&notes, "v", "vfs_read")).expect("a function");
    engine.register_kprobe(&mut guest, &notes.probe("it", "vfs_read", 0)).expect("may be probed");
    run(&mut guest, &mut engine, "main");
    assert_eq!(notes.take().join(" "), "pre it v(5) mirror post it v = 12");
    assert_eq!(guest.cpus[0].registers[0], RESULT);
}

/// RP-2: a `.cold` part is jumped to, so the word at its stack pointer is no return address. Linux uses it as one.
#[test]
fn a_cold_part_of_a_function_cannot_be_followed() {
    let functions: &[(&str, &[Op])] = &[("main", &[Op::Halt]), ("f.cold", &[Op::Nop, Op::Ret])];
    for (policy, expected) in [(crate::Policy::Best, Err(Errno::EINVAL)), (crate::Policy::LINUX_6_1, Ok(()))] {
        let mut guest = ToyGuest::new(&TOY, 1, functions);
        let mut engine = Engine::new(&TOY, 1).with_policy(policy);
        let answer = engine.register_kretprobe(&mut guest, &Kretprobe::at("f.cold"));
        assert_eq!(answer.map_err(|refusal| refusal.errno), expected, "{policy:?}");
    }
}
