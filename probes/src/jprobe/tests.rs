//! Tests of jprobes with handlers on the host and in the guest.

use crate::guest::Answer;
use crate::notes::Notes;
use crate::probe::{Jprobe, Kprobe};
use crate::toy::guest::{DATA, PAGE_FAULT};
use crate::toy::isa::TOY;
use crate::toy::{Stop, ToyGuest, sample};
use crate::{Engine, Errno};
use alloc::format;

const RESULT: u64 = 12;

fn new() -> (ToyGuest, Engine) {
    (sample::kernel(1), Engine::new(&TOY, 1))
}

/// JP-1, JP-2, JP-3: a host closure sees the function's arguments, and its changes do not reach the function.
#[test]
fn a_host_handler_sees_the_arguments_and_changes_nothing() {
    let (mut guest, mut engine) = new();
    let notes = Notes::default();
    let seen = notes.clone();
    let function = guest.address("vfs_read");
    let probe = Jprobe::at("vfs_read").host(move |hit| {
        seen.add(format!("{} {}", hit.arg(0), hit.arg(1)));
        assert_eq!(hit.pc(), function);
        for (register, value) in [("r0", 900), ("r1", 901), ("flags", 0)] {
            assert!(hit.set_reg(register, value));
        }
        let sp = hit.sp();
        hit.write(sp, &[0xff; 64]).expect("a stack");
        hit.set_reg("sp", 0x10);
        hit.set_pc(0x20);
    });
    engine.register_jprobe(&mut guest, &probe).expect("a function");
    assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
    let mut plain = sample::kernel(1);
    plain.run(&mut Engine::new(&TOY, 1), 0);
    guest.cpus[0].traps = 0;
    assert_eq!(guest.cpus, plain.cpus, "as if nothing had happened");
    assert!(guest.ram() == plain.ram());
    assert_eq!((notes.take().join(","), probe.hits()), ("5 7".into(), 1));
}

/// JP-1, JP-2: a handler in guest code pushes, calls, changes registers, and ends in the guest's `jprobe_return`. No
/// time passes meanwhile.
#[test]
fn a_guest_handler_leaves_only_what_it_stored() {
    let start = || {
        let mut guest = sample::kernel(1);
        guest.cpus[0].registers[4] = 0x6800;
        guest.interrupt(0, 14, Some(30));
        guest
    };
    let mut plain = start();
    plain.run(&mut Engine::new(&TOY, 1), 0);
    assert!(!plain.cpus[0].interrupts.is_empty(), "there are interrupts to compare");
    for with_post in [false, true] {
        let (mut guest, mut engine) = (start(), Engine::new(&TOY, 1));
        let notes = Notes::default();
        let place = Kprobe::at("vfs_read");
        let place = if with_post { place.post(notes.post("post")) } else { place };
        engine.register_jprobe(&mut guest, &Jprobe::on(place).guest("handler")).expect("a function, and a function");
        assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
        assert_eq!(guest.peek(0x6800, 1), [105], "it ran, with the function's argument");
        guest.cpus[0].traps = 0;
        assert_eq!(guest.cpus, plain.cpus, "registers, time and interrupts as without it");
        assert_eq!(notes.take().len(), usize::from(with_post), "the post-handler runs after the step");
    }
}

/// JP-2: a guest without `jprobe_return`.
#[test]
fn a_guest_handler_may_return_normally() {
    let functions: alloc::vec::Vec<_> =
        sample::FUNCTIONS.iter().copied().filter(|(name, _)| !["jprobe_return", "handler"].contains(name)).collect();
    let mut guest = ToyGuest::new(&TOY, 1, &functions);
    let mut engine = Engine::new(&TOY, 1);
    let probe = Jprobe::at("vfs_read").guest("handler_that_returns");
    engine.register_jprobe(&mut guest, &probe).expect("a function, and a function");
    assert_eq!((guest.run(&mut engine, 0), guest.cpus[0].registers[0], probe.hits()), (Stop::Halted, RESULT, 1));
    assert!(guest.window.values().any(|stands_for| *stands_for == crate::guest::WindowUse::JprobeReturn));
}

/// JP-3
#[test]
fn bad_jprobe_places_and_handlers_are_refused() {
    let (mut guest, mut engine) = new();
    let text = guest.text_bytes();
    let middle = guest.address("handler") + 3;
    for (probe, errno, words) in [
        (Jprobe::on(Kprobe::at("vfs_read").offset(3)).host(|_| {}), Errno::EINVAL, "not the first instruction"),
        (Jprobe::at("vfs_read"), Errno::EINVAL, "without a handler"),
        (Jprobe::at("vfs_read").guest("no_such_handler"), Errno::EINVAL, "no symbol"),
        (Jprobe::at("vfs_read").guest_address(middle), Errno::EINVAL, "not the first instruction"),
        (Jprobe::at("vfs_read").guest_address(DATA.start), Errno::EINVAL, "no code of the guest's"),
        (Jprobe::at("vfs_read").guest("handler").returns_in(7..7), Errno::EINVAL, "would never end"),
        (Jprobe::at("probe_core").host(|_| {}), Errno::EINVAL, "blacklisted"),
        (Jprobe::at("vfs_raed").host(|_| {}), Errno::ENOENT, "did you mean"),
    ] {
        let refusal = engine.register_jprobe(&mut guest, &probe).expect_err(words);
        assert_eq!((refusal.errno, refusal.why.contains(words)), (errno, true), "{refusal}");
    }
    assert_eq!(guest.text_bytes(), text);
    let first = Jprobe::at("vfs_read").host(|_| {});
    engine.register_jprobe(&mut guest, &first).expect("the first");
    let refusal = engine.register_jprobe(&mut guest, &Jprobe::at("vfs_read").host(|_| {})).expect_err("the second");
    assert_eq!(refusal.errno, Errno::EEXIST);
    engine.unregister_jprobe(&mut guest, &first);
    engine.register_jprobe(&mut guest, &Jprobe::at("vfs_read").host(|_| {})).expect("the place is free again");
}

/// JP-4
#[test]
fn jprobes_can_be_registered_one_by_one_and_in_batches() {
    let (mut guest, mut engine) = new();
    let original = guest.text_bytes();
    let notes = Notes::default();
    let probes = ["vfs_read", "helper"].map(|name| {
        let notes = notes.clone();
        Jprobe::at(name).host(move |_| notes.add(name))
    });
    engine.register_jprobes(&mut guest, &probes).expect("functions");
    let run = |guest: &mut ToyGuest, engine: &mut Engine| {
        guest.start(0, "main");
        assert_eq!((guest.run(engine, 0), guest.cpus[0].registers[0]), (Stop::Halted, RESULT));
        notes.take().join(" ")
    };
    assert_eq!(run(&mut guest, &mut engine), "vfs_read helper");
    engine.disable_jprobe(&mut guest, &probes[0]).expect("registered");
    assert_eq!(run(&mut guest, &mut engine), "helper");
    engine.enable_jprobe(&mut guest, &probes[0]).expect("registered");
    engine.unregister_jprobe(&mut guest, &probes[1]);
    assert_eq!(run(&mut guest, &mut engine), "vfs_read");
    assert_eq!(engine.disable_jprobe(&mut guest, &probes[1]).expect_err("not registered").errno, Errno::EINVAL);
    engine.unregister_jprobes(&mut guest, &probes);
    assert_eq!(guest.text_bytes(), original);
    let disabled = Jprobe::at("vfs_read").host(|_| {}).disabled();
    engine.register_jprobe(&mut guest, &disabled).expect("a function");
    assert_eq!(guest.text_bytes(), original);
}

/// KP-9, JP-1: a fault in a guest handler goes to the fault handler, then to the guest.
#[test]
fn a_fault_in_a_guest_handler_goes_to_the_fault_handler_first() {
    for fixes in [true, false] {
        let (mut guest, mut engine) = new();
        let notes = Notes::default();
        let asked = notes.clone();
        let place = Kprobe::at("vfs_read").fault(move |hit, fault| {
            asked.add(fault.trapnr);
            hit.set_reg("r4", 0x6800);
            fixes
        });
        engine.register_jprobe(&mut guest, &Jprobe::on(place).guest("handler")).expect("functions");
        guest.cpus[0].registers[4] = 0x10;
        let pc = guest.address("handler") + 10;
        let stop = guest.run(&mut engine, 0);
        assert_eq!(notes.take(), [format!("{PAGE_FAULT}")]);
        if fixes {
            assert_eq!((stop, guest.peek(0x6800, 1)), (Stop::Halted, &[105][..]));
            assert_eq!(guest.cpus[0].registers[0], RESULT);
        } else {
            assert_eq!(stop, Stop::Exception { trapnr: PAGE_FAULT, pc });
        }
    }
}

/// A `jprobe_return` outside a handler is the guest's own breakpoint.
#[test]
fn jprobe_return_outside_a_handler_is_not_ours() {
    let (mut guest, mut engine) = new();
    engine.register_jprobe(&mut guest, &Jprobe::at("vfs_read").guest("handler")).expect("functions");
    guest.start(0, "jprobe_return");
    assert_eq!(engine.breakpoint(&mut guest.cpu(0)), Answer::NotOurs);
}
