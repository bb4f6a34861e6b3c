//! Tests of the ISA-dependent parts of the engine, on variants of the toy ISA: link register, big-endian, function
//! descriptors, delay slots.

use crate::Engine;
use crate::guest::{Guest, WindowUse};
use crate::notes::Notes;
use crate::point::Mode;
use crate::probe::{Flow, Jprobe, Kprobe, Kretprobe};
use crate::toy::guest::PAGE_FAULT;
use crate::toy::guest::{DATA, DESCRIPTORS, INIT, WINDOW};
use crate::toy::isa::{TOY, TOY_BIG, TOY_DELAYS, TOY_DESCRIPTORS, TOY_LINK};
use crate::toy::program::{Function, Op::*};
use crate::toy::{Op, Stop, ToyGuest};
use alloc::format;
use alloc::vec::Vec;
use trapline_isa::arch::Isa;

/// The variants of the toy ISA that all tests here use.
static TOYS: [(&str, &Isa); 4] =
    [("plain", &TOY), ("link register", &TOY_LINK), ("big endian", &TOY_BIG), ("descriptors", &TOY_DESCRIPTORS)];

/// A leaf function, because a link register holds one return address only. It has stores, loads, branches and a use of
/// the hidden condition flag.
#[rustfmt::skip]
const WORK: &[Op] = &[
    Mov(2, 3), Mov(3, 0x6100), Mov(4, 0x0102_0304), Store(3, 4), Load(5, 3), AddStep(5, 1), Jnz(2, 0),
    Mov(4, 0), Add(4, 0), Jz(3), Add(0, 64), Add(0, 8), Nop, Ret,
];

const FUNCTIONS: &[Function<'static>] = &[
    ("main", &[Mov(0, 5), Mov(1, 0x6200), Call("work"), Halt]),
    ("work", WORK),
    ("mirror", &[Add(0, 100), Store(1, 0), Load(5, 6), Mov(4, 0), Add(4, 0), Ret]),
    ("irq_handler", &[Push(0), Pop(0), Iret]),
];

fn start(isa: &'static Isa) -> ToyGuest {
    let mut guest = ToyGuest::new(isa, 1, FUNCTIONS);
    guest.interrupt(0, 20, Some(25));
    guest
}

/// Runs to the halt and clears the trap count, which differs between probed and unprobed runs.
fn end(guest: &mut ToyGuest, engine: &mut Engine) {
    assert_eq!(guest.run(engine, 0), Stop::Halted);
    guest.cpus[0].traps = 0;
}

/// KP-1, RP-1, OP-1, BY-4: with a probe on every instruction (boosted, stepped or optimised) and one on the return,
/// registers, memory and time equal those of an unprobed run.
#[test]
fn every_toy_runs_the_same_with_every_instruction_probed() {
    for (what, isa) in TOYS {
        let mut plain = start(isa);
        end(&mut plain, &mut Engine::new(isa, 1));
        for optimise in [false, true] {
            let (mut guest, mut engine) = (start(isa), Engine::new(isa, 1));
            let notes = Notes::default();
            let seen = notes.clone();
            let function = guest.address("work");
            let mut at = function;
            for op in WORK {
                engine.register_kprobe(&mut guest, &Kprobe::at_address(at).pre(notes.pre("hit"))).expect(what);
                at += op.length();
            }
            let returns = Kretprobe::at("work").handler(move |hit| seen.add(format!("returns {:#x}", hit.return_value())));
            engine.register_kretprobe(&mut guest, &returns).expect(what);
            while let Some(due) = engine.wants_attention_at().filter(|_| optimise) {
                engine.tick(&mut guest, due);
            }
            let optimised = engine.summary(&guest).iter().filter(|line| line.mode == Mode::Optimized).count();
            assert!((optimised > 3) == optimise, "{what}: {optimised} by jumps");
            end(&mut guest, &mut engine);
            assert_eq!(guest.cpus, plain.cpus, "{what}, optimised: {optimise}");
            assert!(guest.ram() == plain.ram(), "{what}, optimised: {optimise}");
            let notes = notes.take();
            assert_eq!(notes.last().map(|last| last.as_str()), Some("returns 0xd"), "{what}");
            assert_eq!(notes.len(), WORK.len(), "{what}: each once, except the one that is jumped over");
        }
    }
}

/// KP-2, JP-2, DV-4: handlers read numbers in big-endian guest memory correctly.
#[test]
fn handlers_read_big_endian_numbers() {
    let (mut guest, mut engine) = (start(&TOY_BIG), Engine::new(&TOY_BIG, 1));
    guest.poke_word(DATA.start, 0x1122_3344_5566_7788);
    let notes = Notes::default();
    let seen = notes.clone();
    let probe = Kprobe::at("work").pre(move |hit| {
        let sp = hit.sp();
        let caller = hit.read_word(sp).expect("a stack");
        seen.add(format!("{:#x} {}", hit.read_word(DATA.start).expect("data"), Some(caller) == hit.caller()));
        Flow::Continue
    });
    engine.register_kprobe(&mut guest, &probe).expect("a function");
    end(&mut guest, &mut engine);
    assert_eq!(notes.take(), ["0x1122334455667788 true"]);
    assert_eq!(guest.peek(DATA.start, 2), [0x11, 0x22], "big-endian");
}

/// KP-4, JP-2: a function is named by its descriptor. Probes are placed on its code, and a jprobe handler gets its own
/// data pointer.
#[test]
fn descriptors_resolve_to_code_and_data_pointer() {
    let isa = &TOY_DESCRIPTORS;
    let (mut guest, mut engine) = (start(isa), Engine::new(isa, 1));
    let (code, descriptor) = (guest.address("work"), guest.symbol("work").expect("its descriptor").start);
    assert!(code != descriptor && descriptor >= DESCRIPTORS);
    for probe in [Kprobe::at("work"), Kprobe::at(".work"), Kprobe::at_address(code), Kprobe::at_address(descriptor)] {
        engine.register_kprobe(&mut guest, &probe).expect("a function");
        assert_eq!(probe.address(), Some(code), "{probe}");
    }
    let refusal = engine.register_kprobe(&mut guest, &Kprobe::at_address(DATA.start)).expect_err("data");
    assert_eq!(refusal.errno, crate::Errno::EINVAL);

    // Each function has one word of data. The handler loads it through its data pointer.
    let data = guest.peek(guest.symbol("mirror").expect("its descriptor").start + 8, 8);
    let data = isa.order.number(data);
    guest.poke_word(data, 0xabcd);
    let loaded = |guest: &ToyGuest| guest.cpus[0].registers[5];
    for by_name in [true, false] {
        let handler = Jprobe::at("work");
        let pointer = guest.symbol("mirror").expect("its descriptor").start;
        let handler = if by_name { handler.guest("mirror") } else { handler.guest_address(pointer) };
        engine.register_jprobe(&mut guest, &handler).expect("a function, and a function");
        guest.start(0, "main");
        guest.cpus[0].registers[6] = 0x1234;
        let end_of_handler = guest.address("mirror") + 9;
        assert!(guest.run_to(&mut engine, 0, |pc| pc == end_of_handler), "the handler runs");
        assert_eq!(loaded(&guest), 0xabcd, "its own data");
        end(&mut guest, &mut engine);
        assert_eq!(guest.cpus[0].registers[6], 0x1234, "and the function what its caller left");
        engine.unregister_jprobe(&mut guest, &handler);
    }
}

/// JP-2: changes that a guest handler makes to a register that events cannot name are undone, too.
#[test]
fn a_jprobe_restores_hidden_registers_too() {
    const BRANCHES: &[Function<'static>] = &[
        ("main", &[Mov(6, 0x6300), Mov(1, 0x6100), Mov(4, 0), Add(4, 1), Call("branches"), Halt]),
        ("branches", &[Jz(3), Add(0, 64), Add(0, 8), Ret]),
        ("mirror", FUNCTIONS[2].1),
    ];
    for (what, isa) in TOYS {
        let run = |engine: &mut Engine, guest: &mut ToyGuest| {
            end(guest, engine);
            guest.cpus[0].registers
        };
        let plain = run(&mut Engine::new(isa, 1), &mut ToyGuest::new(isa, 1, BRANCHES));
        assert_eq!(plain[0], 72, "the last sum was 1");
        let (mut guest, mut engine) = (ToyGuest::new(isa, 1, BRANCHES), Engine::new(isa, 1));
        let probe = Jprobe::at("branches").guest("mirror");
        engine.register_jprobe(&mut guest, &probe).expect(what);
        assert_eq!((run(&mut engine, &mut guest), probe.hits()), (plain, 1), "{what}");
        assert_ne!(guest.peek(0x6100, 8), [0; 8], "{what}: the handler ran, and its last sum was 0");
    }
}

/// KP-1, OP-1: if the kernel's text lies in distant places, each with its own window, copies and detours are allocated
/// from the near one.
#[test]
fn each_copy_lies_in_the_window_near_its_original() {
    const FUNCTIONS: &[Function<'static>] = &[
        ("main", &[Mov(0, 5), Mov(1, 0x6200), Call("init_work"), Call("work"), Halt]),
        ("work", WORK),
        ("init_work", &[Add(0, 3), Store(1, 0), Add(0, 4), Ret]),
    ];
    let mut plain = ToyGuest::new(&TOY, 1, FUNCTIONS);
    end(&mut plain, &mut Engine::new(&TOY, 1));
    let (mut guest, mut engine) = (ToyGuest::new(&TOY, 1, FUNCTIONS), Engine::new(&TOY, 1));
    let split = WINDOW.start + 0x4000;
    guest.init_window = Some(split);
    let probes = [Kprobe::at("work"), Kprobe::at("init_work"), Kprobe::at("init_work").offset(6).post(|_| {})];
    for probe in &probes {
        engine.register_kprobe(&mut guest, probe).expect("an instruction");
    }
    while let Some(due) = engine.wants_attention_at() {
        engine.tick(&mut guest, due);
    }
    let mut seen = [0, 0];
    for (at, stands_for) in &guest.window {
        if let WindowUse::Copy { origin, .. } | WindowUse::Detour { origin, .. } = stands_for {
            assert_eq!(*at >= split, *origin >= INIT, "{at:#x} stands for {origin:#x}");
            seen[usize::from(*at >= split)] += 1;
        }
    }
    assert!(seen[0] > 1 && seen[1] > 2, "copies and detours in both: {seen:?}");
    end(&mut guest, &mut engine);
    assert_eq!(guest.cpus, plain.cpus);
    assert!(guest.ram() == plain.ram() && probes.iter().all(|probe| probe.hits() == 1));
}

/// KP-5: an address that is no multiple of the ISA's alignment is refused.
#[test]
fn misaligned_addresses_are_refused() {
    static ALIGNED: Isa = Isa { alignment: 4, variable_length: false, ..crate::toy::isa::BASE };
    let mut guest = ToyGuest::new(&ALIGNED, 1, &[("main", &[Nop; 16])]);
    let mut engine = Engine::new(&ALIGNED, 1);
    let refused: Vec<u64> = (0..9)
        .filter(|offset| {
            let probe = Kprobe::at("main").offset(*offset as u32);
            engine.register_kprobe(&mut guest, &probe).is_err_and(|refusal| refusal.why.contains("no multiple of 4"))
        })
        .collect();
    assert_eq!(refused, [1, 2, 3, 5, 6, 7]);
}

/// Each entry is an instruction or a branch with its delay slot.
#[rustfmt::skip]
const DELAYED: &[&[Op]] = &[
    &[Push(7)], &[Mov(2, 3)], &[Mov(3, 0x6100)],
    // The slot changes the register that the branch tests.
    &[Jnz(2, 6), Mov(2, 0)], &[Jnz(2, 9), Add(0, 1)], &[Mov(2, 1)],
    // A likely branch: its slot runs only if the branch is taken.
    &[JnzLikely(4, 64), Add(0, 2)], &[JnzLikely(2, 6), Add(0, 4)], &[Add(0, 128)],
    // The slot sees the new return address.
    &[Call("leaf"), Store(3, 7)], &[Pop(7)], &[Ret, Add(0, 8)],
];

fn delayed_guest() -> ToyGuest {
    let work: Vec<Op> = DELAYED.concat();
    let functions: [Function<'_>; 5] = [
        ("main", &[Mov(0, 0), Call("work"), Nop, Halt]),
        ("work", &work),
        ("leaf", &[Ret, Add(0, 16)]),
        ("faults", &[Call("leaf"), Load(5, 4), Halt]),
        ("irq_handler", &[Push(0), Pop(0), Iret]),
    ];
    let mut guest = ToyGuest::new(&TOY_DELAYS, 1, &functions);
    guest.interrupt(0, 20, Some(25));
    guest
}

/// KP-1, KP-2, RP-1, BY-4: with delay slots, registers, memory and time equal those of an unprobed run. Each
/// pre-handler runs before the branch, each post-handler at its target.
#[test]
fn branches_are_computed_and_their_delay_slots_run_out_of_line() {
    let mut plain = delayed_guest();
    end(&mut plain, &mut Engine::new(&TOY_DELAYS, 1));
    assert_eq!(plain.cpus[0].registers[0], 1 + 4 + 8 + 16);
    for optimise in [false, true] {
        let (mut guest, mut engine) = (delayed_guest(), Engine::new(&TOY_DELAYS, 1));
        let notes = Notes::default();
        let mut at = guest.address("work");
        for ops in DELAYED {
            let seen = notes.clone();
            let probe = Kprobe::at_address(at).pre(notes.pre("pre"));
            // A probe with a post-handler is not optimised.
            let probe = if optimise { probe } else { probe.post(move |hit| seen.add(format!("{:#x}", hit.pc()))) };
            engine.register_kprobe(&mut guest, &probe).expect("no delay slot");
            at += ops.iter().map(|op| op.length()).sum::<u64>();
        }
        engine.register_kretprobe(&mut guest, &Kretprobe::at("leaf").handler(|_| {})).expect("a function");
        while let Some(due) = engine.wants_attention_at().filter(|_| optimise) {
            engine.tick(&mut guest, due);
        }
        let optimised = engine.summary(&guest).iter().filter(|line| line.mode == Mode::Optimized).count();
        assert!((optimised > 1) == optimise, "{optimised} by jumps");
        end(&mut guest, &mut engine);
        let notes = notes.take();
        assert_eq!(guest.cpus, plain.cpus, "{notes:?}");
        assert!(guest.ram() == plain.ram());
        let hits = notes.iter().filter(|note| *note == "pre").count();
        assert_eq!(hits, DELAYED.len() - 1, "each once, except the one that is jumped over: {notes:?}");
        if !optimise {
            let leaf = format!("{:#x}", guest.address("leaf"));
            assert_eq!(notes.iter().filter(|note| **note == leaf).count(), 1, "at the call's target: {notes:?}");
        }
    }
}

/// KP-5: an instruction in a delay slot belongs to the branch in front of it and cannot be probed.
#[test]
fn no_probe_stands_in_a_delay_slot() {
    let (mut guest, mut engine) = (delayed_guest(), Engine::new(&TOY_DELAYS, 1));
    let refusal = engine.register_kprobe(&mut guest, &Kprobe::at("faults").offset(5)).expect_err("a delay slot");
    assert!(refusal.why.contains("inside the instruction at faults+0x0"), "{refusal}");
}

/// KP-9: a fault in a delay slot is raised at the branch, with the branch's effects undone, a call's return address
/// included.
#[test]
fn a_fault_in_a_delay_slot_undoes_the_branch() {
    let run = |engine: &mut Engine, guest: &mut ToyGuest| {
        guest.start(0, "faults");
        guest.cpus[0].registers[7] = 0x77;
        let stop = guest.run(engine, 0);
        guest.cpus[0].traps = 0;
        (stop, guest.cpus.clone())
    };
    let plain = run(&mut Engine::new(&TOY_DELAYS, 1), &mut delayed_guest());
    let (mut guest, mut engine) = (delayed_guest(), Engine::new(&TOY_DELAYS, 1));
    let probe = Kprobe::at("faults").pre(|_| Flow::Continue);
    engine.register_kprobe(&mut guest, &probe).expect("a call");
    assert_eq!(run(&mut engine, &mut guest), plain);
    assert_eq!(plain.0, Stop::Exception { trapnr: PAGE_FAULT, pc: guest.address("faults") });
    assert!(plain.1[0].in_slot, "and the guest is told that it was in the slot");
    assert_eq!((probe.hits(), engine.counts().faults), (1, 1));
}
