//! Tests of withdrawn text: the guest changes its text meanwhile, and each probe adapts to what it finds.

use crate::guest::Answer;
use crate::notes::Notes;
use crate::probe::{Flow, Kprobe};
use crate::toy::guest::{BREAKPOINT, INIT};
use crate::toy::isa::{BREAK, TOY};
use crate::toy::{Stop, ToyGuest, sample};
use crate::withdraw::Withdrawn;
use crate::{Engine, Errno};

fn new() -> (ToyGuest, Engine) {
    (sample::kernel(1), Engine::new(&TOY, 1))
}

fn probe(guest: &mut ToyGuest, engine: &mut Engine, symbol: &str, offset: u32) -> Kprobe {
    let probe = Kprobe::at(symbol).offset(offset).pre(|_| Flow::Continue);
    engine.register_kprobe(guest, &probe).expect("may be probed");
    probe
}

fn run(guest: &mut ToyGuest, engine: &mut Engine) -> u64 {
    guest.start(0, "main");
    assert_eq!(guest.run(engine, 0), Stop::Halted);
    guest.cpus[0].registers[0]
}

/// While the guest patches its text, the text is the guest's own byte for byte. This includes probes registered
/// meanwhile.
#[test]
fn withdrawn_probes_leave_no_byte_and_come_back() {
    let (mut guest, mut engine) = new();
    let original = guest.text_bytes();
    let probes = [0, 3, 6].map(|offset| probe(&mut guest, &mut engine, "vfs_read", offset));
    let armed = guest.text_bytes();
    engine.withdraw(&mut guest, Withdrawn::everywhere());
    assert_eq!((guest.text_bytes(), engine.withdrawn().all), (original.clone(), true));
    let meanwhile = probe(&mut guest, &mut engine, "helper", 0);
    assert_eq!(guest.text_bytes(), original);
    assert_eq!(run(&mut guest, &mut engine), 12);
    engine.withdraw(&mut guest, Withdrawn::default());
    let behind = guest.text_bytes();
    assert!(armed.iter().all(|(at, byte)| behind[at] == *byte || *at == guest.address("helper")));
    run(&mut guest, &mut engine);
    assert_eq!([&probes[0], &probes[1], &probes[2], &meanwhile].map(Kprobe::hits), [1; 4]);
    for probe in probes.iter().chain([&meanwhile]) {
        engine.unregister_kprobe(&mut guest, probe);
    }
    assert_eq!(guest.text_bytes(), original);
    assert_eq!(engine.counts().withdrawals, 1);
}

/// A probe whose instruction has changed runs the new one, and frees the old copies.
#[test]
fn a_probe_adapts_to_a_changed_instruction() {
    let (mut guest, mut engine) = new();
    let probe = probe(&mut guest, &mut engine, "vfs_read", 0);
    let at = guest.address("vfs_read");
    engine.withdraw(&mut guest, Withdrawn::everywhere());
    guest.poke(at, &[1, 0, 50]);
    engine.withdraw(&mut guest, Withdrawn::default());
    assert_eq!(guest.peek(at, 1), [BREAK]);
    assert_eq!((run(&mut guest, &mut engine), probe.hits()), (12 + 49, 1));
    engine.unregister_kprobe(&mut guest, &probe);
    assert_eq!((guest.peek(at, 3), guest.window.is_empty()), (&[1, 0, 50][..], true));
}

/// A probe that cannot stand on the new text reports it and waits for the next change.
#[test]
fn a_probe_that_lost_its_instruction_waits() {
    let (mut guest, mut engine) = new();
    let probe = probe(&mut guest, &mut engine, "vfs_read", 3);
    let at = guest.address("vfs_read");
    engine.withdraw(&mut guest, Withdrawn::everywhere());
    let before = guest.peek(at, 6).to_vec();
    guest.poke(at, &[0x15, 0, 30, 0, 0, 0]);
    engine.withdraw(&mut guest, Withdrawn::default());
    assert_eq!((run(&mut guest, &mut engine), probe.hits()), (34, 0));
    let summary = engine.summary(&guest);
    let waits = summary[0].waits.as_ref().expect("it waits");
    assert_eq!(waits.errno, Errno::EILSEQ);
    assert!(waits.why.contains("the guest has changed the text") && waits.why.contains("inside"), "{waits}");
    assert!(!probe.is_gone());
    engine.withdraw(&mut guest, Withdrawn::everywhere());
    guest.poke(at, &before);
    engine.withdraw(&mut guest, Withdrawn::default());
    assert_eq!((run(&mut guest, &mut engine), probe.hits(), engine.summary(&guest)[0].waits.clone()), (12, 1, None));
}

/// The guest writes its own breakpoint at a probed address. Our handlers run, then the guest gets its trap. Removing
/// the probe leaves the breakpoint.
#[test]
fn a_breakpoint_of_the_guest_is_shared() {
    let (mut guest, mut engine) = new();
    let notes = Notes::default();
    let probe = notes.probe("ours", "vfs_read", 0);
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    let at = guest.address("vfs_read");
    engine.withdraw(&mut guest, Withdrawn::everywhere());
    let before = guest.peek(at, 3).to_vec();
    guest.poke(at, &[BREAK]);
    engine.withdraw(&mut guest, Withdrawn::default());
    guest.start(0, "main");
    assert_eq!(guest.run(&mut engine, 0), Stop::Exception { trapnr: BREAKPOINT, pc: at });
    assert_eq!((notes.take(), probe.hits(), engine.summary(&guest)[0].shared), (["pre ours".into()].to_vec(), 1, true));
    engine.unregister_kprobe(&mut guest, &probe);
    assert_eq!(guest.peek(at, 1), [BREAK], "it is the guest's");
    assert_eq!(engine.breakpoint(&mut guest.cpu(0)), Answer::NotOurs);
    engine.withdraw(&mut guest, Withdrawn::everywhere());
    guest.poke(at, &before);
    engine.withdraw(&mut guest, Withdrawn::default());
    assert_eq!(guest.peek(at, 3), before);
}

/// KP-10: a withdrawn probe that is reached counts a miss.
#[test]
fn withdrawn_probes_that_are_reached_count_a_miss() {
    let (mut guest, mut engine) = new();
    let probes = [0, 3, 6].map(|offset| probe(&mut guest, &mut engine, "vfs_read", offset));
    engine.disable_kprobe(&mut guest, &probes[1]).expect("registered");
    let at = guest.address("vfs_read");
    engine.passed_by(at..at + 6);
    engine.withdraw(&mut guest, Withdrawn::everywhere());
    assert!(!engine.stands_in(at..at + 1));
    engine.passed_by(at..at + 6);
    engine.passed_by(at + 3..at + 7);
    engine.withdraw(&mut guest, Withdrawn::default());
    assert!(engine.stands_in(at..at + 1) && !engine.stands_in(at + 11..at + 13));
    assert_eq!(probes.each_ref().map(Kprobe::passed), [1, 0, 1], "neither a disabled one nor one that is armed is missed");
}

/// KP-13: freed init text is left as the guest made it.
#[test]
fn freed_text_gets_its_original_bytes_first() {
    let (mut guest, mut engine) = new();
    let original = guest.text_bytes();
    let probe = probe(&mut guest, &mut engine, "init_setup", 0);
    engine.give_up_range(&mut guest, INIT..INIT + 0x100);
    assert_eq!((guest.text_bytes(), probe.is_gone()), (original, true));
}

/// Only probes with bytes in the withdrawn part leave the text.
#[test]
fn only_probes_in_the_withdrawn_part_leave() {
    let (mut guest, mut engine) = new();
    let at = guest.address("vfs_read");
    let probes = [0, 3, 6, 11].map(|offset| probe(&mut guest, &mut engine, "vfs_read", offset));
    let armed = |guest: &ToyGuest| [0, 3, 6, 11].map(|offset| guest.peek(at + offset, 1)[0] == BREAK);
    let parts = |parts: &[(u64, u64)]| Withdrawn { all: false, parts: parts.iter().map(|(start, end)| *start..*end).collect() };
    #[rustfmt::skip]
    let cases = [
        ("one that begins there",               parts(&[(at, at + 1)]),                       [false, true, true, true]),
        ("one whose instruction ends there",    parts(&[(at + 5, at + 7)]),                   [true, false, false, true]),
        ("two parts",                           parts(&[(at, at + 1), (at + 12, at + 13)]),     [false, true, true, false]),
        ("text without a probe",                parts(&[(at + 14, at + 99)]),                 [true; 4]),
        ("all",                                 Withdrawn::everywhere(),                    [false; 4]),
        ("nothing",                             Withdrawn::default(),                       [true; 4]),
    ];
    for (what, from, expected) in cases {
        engine.withdraw(&mut guest, from);
        assert_eq!(armed(&guest), expected, "{what}");
    }
    run(&mut guest, &mut engine);
    assert_eq!(probes.each_ref().map(Kprobe::hits), [1; 4]);
}
