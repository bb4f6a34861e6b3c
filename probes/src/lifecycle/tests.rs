//! Tests of state changes: after each registration, removal, switch or freed text, the guest's text must be right.

use crate::guest::Answer;
use crate::notes::Notes;
use crate::probe::{Jprobe, Kprobe, Kretprobe};
use crate::slots::SLOT;
use crate::toy::guest::{INIT, in_window};
use crate::toy::isa::{BREAK, TOY};
use crate::toy::{Stop, ToyGuest, sample};
use crate::{Engine, Errno};
use alloc::vec::Vec;
use proptest::prelude::*;

fn new() -> (ToyGuest, Engine) {
    (sample::kernel(1), Engine::new(&TOY, 1))
}

fn run(guest: &mut ToyGuest, engine: &mut Engine) {
    guest.start(0, "main");
    assert_eq!(guest.run(engine, 0), Stop::Halted);
}

/// KP-11
#[test]
fn a_probe_can_be_registered_disabled_and_enabled() {
    let (mut guest, mut engine) = new();
    let original = guest.text_bytes();
    let notes = Notes::default();
    let probe = notes.probe("it", "vfs_read", 0).disabled();
    for unknown in [engine.enable_kprobe(&mut guest, &probe), engine.disable_kprobe(&mut guest, &probe)] {
        assert_eq!(unknown.expect_err("not registered").errno, Errno::EINVAL);
    }
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    assert_eq!((guest.text_bytes() == original, probe.is_disabled()), (true, true));
    run(&mut guest, &mut engine);
    engine.enable_kprobe(&mut guest, &probe).expect("registered");
    run(&mut guest, &mut engine);
    assert_eq!(notes.take(), ["pre it", "post it"], "only the second run is seen");
    for _ in 0..2 {
        engine.disable_kprobe(&mut guest, &probe).expect("registered; twice is no error");
        assert_eq!(guest.text_bytes(), original);
    }
    run(&mut guest, &mut engine);
    assert_eq!((notes.take().len(), probe.hits()), (0, 1));
}

/// KP-11, KP-8: the breakpoint stays while one of several probes is enabled.
#[test]
fn the_breakpoint_stays_while_any_probe_is_enabled() {
    let (mut guest, mut engine) = new();
    let address = guest.address("vfs_read");
    let armed = |guest: &ToyGuest| guest.peek(address, 1)[0] == BREAK;
    let (one, two) = (Kprobe::at("vfs_read").disabled(), Kprobe::at("vfs_read").disabled());
    engine.register_kprobes(&mut guest, &[one.clone(), two.clone()]).expect("may be probed");
    assert!(!armed(&guest));
    engine.enable_kprobe(&mut guest, &two).expect("registered");
    assert!(armed(&guest));
    let three = Kprobe::at("vfs_read");
    engine.register_kprobe(&mut guest, &three).expect("may be probed");
    engine.disable_kprobe(&mut guest, &two).expect("registered");
    assert!(armed(&guest), "the third is enabled");
    engine.unregister_kprobe(&mut guest, &three);
    assert!(!armed(&guest), "what is left is disabled");
}

/// KP-13
#[test]
fn unregistering_restores_the_exact_bytes() {
    let (mut guest, mut engine) = new();
    let original = guest.text_bytes();
    let probes = [0, 3, 6, 11, 14].map(|offset| Kprobe::at("vfs_read").offset(offset));
    let again = Kprobe::at("vfs_read").offset(3);
    engine.register_kprobes(&mut guest, &probes).expect("may be probed");
    engine.register_kprobe(&mut guest, &again).expect("may be probed");
    engine.unregister_kprobes(&mut guest, &probes);
    assert_ne!(guest.text_bytes(), original, "one is left");
    engine.unregister_kprobe(&mut guest, &again);
    assert_eq!(guest.text_bytes(), original);
    assert!(guest.window.is_empty(), "and every slot was given back");
}

/// KP-13: while taken out, the text has no byte of ours; afterwards the probes are as before.
#[test]
fn taking_out_restores_the_text_until_putting_back() {
    let (mut guest, mut engine) = new();
    let original = guest.text_bytes();
    let probes = [0, 3, 6].map(|offset| Kprobe::at("vfs_read").offset(offset));
    engine.register_kprobes(&mut guest, &probes).expect("may be probed");
    engine.disable_kprobe(&mut guest, &probes[1]).expect("registered");
    let probed = guest.text_bytes();
    let taken = engine.take_out(&mut guest);
    assert_eq!(guest.text_bytes(), original);
    engine.put_back(&mut guest, taken);
    assert_eq!(guest.text_bytes(), probed, "the disabled one stays out");
    assert!(engine.enabled() && !engine.has_log_lines(), "the switch and the log are unchanged");

    engine.set_enabled(&mut guest, false);
    let taken = engine.take_out(&mut guest);
    engine.put_back(&mut guest, taken);
    assert_eq!((engine.enabled(), guest.text_bytes()), (false, original), "what was switched off stays off");
}

/// KP-13: bytes that the guest has written over a breakpoint stay.
#[test]
fn text_changed_by_the_guest_is_left_alone() {
    let (mut guest, mut engine) = new();
    let probe = Kprobe::at("vfs_read");
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    let address = guest.address("vfs_read");
    guest.poke(address, &[0x90]);
    engine.unregister_kprobe(&mut guest, &probe);
    assert_eq!(guest.peek(address, 1), [0x90]);
    let lines = engine.take_log_lines();
    assert!(lines.iter().any(|line| line.contains("has changed the text")), "{lines:?}");
}

/// KP-1: a probe must not run its old copy instead of the guest's new instruction.
#[test]
fn a_probe_is_not_armed_on_changed_text() {
    let (mut guest, mut engine) = new();
    let probe = Kprobe::at("vfs_read").disabled();
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    let address = guest.address("vfs_read");
    guest.poke(address + 2, &[9]);
    let refusal = engine.enable_kprobe(&mut guest, &probe).expect_err("the text is another");
    assert_eq!((refusal.errno, refusal.why.contains("register it anew")), (Errno::EINVAL, true));
    assert_eq!((guest.peek(address, 3), probe.is_disabled()), (&[1, 0, 9][..], true));
    engine.unregister_kprobe(&mut guest, &probe);
    engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read")).expect("the new text may be probed");
    run(&mut guest, &mut engine);
    assert_eq!(guest.cpus[0].registers[0], 5 + 9 + 2 + 4);
}

/// KP-19: a probe is removed while a CPU is in its slot. No handler runs afterwards, the slot is not reused, and the
/// CPU leaves it correctly.
#[test]
fn a_slot_is_kept_while_a_cpu_is_in_it() {
    for (what, offset, post) in [("stepped", 3, true), ("boosted", 0, false), ("boosted, with post-handler", 0, true)] {
        let (mut guest, mut engine) = new();
        let original = guest.text_bytes();
        let notes = Notes::default();
        let mut probe = Kprobe::at("vfs_read").offset(offset).pre(notes.pre("pre"));
        if post {
            probe = probe.post(notes.post("post"));
        }
        engine.register_kprobe(&mut guest, &probe).expect(what);
        assert!(guest.run_to(&mut engine, 0, in_window), "{what}");
        let slot = crate::toy::guest::WINDOW.start;
        engine.unregister_kprobe(&mut guest, &probe);
        assert_eq!(guest.text_bytes(), original, "{what}: the text is clean at once");
        assert_eq!(engine.slots_in_use_by_leavers(), 1, "{what}");
        let other = Kprobe::at("helper");
        engine.register_kprobe(&mut guest, &other).expect(what);
        assert!(guest.window_free.is_empty() && guest.window.contains_key(&(slot + 32)), "{what}: the slot is still its own");
        assert_eq!((guest.run(&mut engine, 0), guest.cpus[0].registers[0]), (Stop::Halted, 12), "{what}");
        assert_eq!(notes.take(), ["pre"], "{what}: no handler after the removal");
        engine.collect(&mut guest);
        assert_eq!((engine.slots_in_use_by_leavers(), guest.window_free.contains(&(slot, SLOT))), (0, true), "{what}");
    }
}

/// KP-19: the same for a CPU that will return to the slot, because a jprobe's handler runs in the guest.
#[test]
fn a_slot_is_kept_while_a_guest_handler_runs() {
    let (mut guest, mut engine) = new();
    let probe = Jprobe::at("vfs_read").guest("handler");
    engine.register_jprobe(&mut guest, &probe).expect("functions");
    guest.cpus[0].registers[4] = 0x6800;
    let handler = guest.address("handler");
    assert!(guest.run_to(&mut engine, 0, |pc| pc == handler));
    engine.unregister_jprobe(&mut guest, &probe);
    assert_eq!(engine.slots_in_use_by_leavers(), 1);
    assert_eq!((guest.run(&mut engine, 0), guest.cpus[0].registers[0]), (Stop::Halted, 12));
    engine.collect(&mut guest);
    assert_eq!(engine.slots_in_use_by_leavers(), 0);
}

/// The probed text is freed while a jprobe's handler runs in the guest. The CPU continues with the new text.
#[test]
fn text_freed_during_a_guest_handler_is_not_touched() {
    let (mut guest, mut engine) = new();
    engine.register_jprobe(&mut guest, &Jprobe::at("init_setup").guest("handler")).expect("functions");
    guest.cpus[0].registers[4] = 0x6800;
    guest.start(0, "init_setup");
    let handler = guest.address("handler");
    assert!(guest.run_to(&mut engine, 0, |pc| pc == handler));
    let range = guest.free_init();
    engine.kill_range(&mut guest, range);
    // add r0, 9; halt
    guest.reuse_init(&[0x01, 0, 9, 0x21]);
    assert_eq!((guest.run(&mut engine, 0), guest.cpus[0].registers[0]), (Stop::Halted, 9));
}

/// KP-19: a probe is disabled while a CPU is in its slot.
#[test]
fn a_probe_disabled_during_a_hit_runs_no_more_handlers() {
    let (mut guest, mut engine) = new();
    let notes = Notes::default();
    let probe = notes.probe("it", "vfs_read", 3);
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    assert!(guest.run_to(&mut engine, 0, in_window));
    engine.disable_kprobe(&mut guest, &probe).expect("registered");
    assert_eq!((guest.run(&mut engine, 0), guest.cpus[0].registers[0]), (Stop::Halted, 12));
    assert_eq!(notes.take(), ["pre it"]);
}

/// DV-2: unlike Linux, a probe enabled while the global switch is off is armed when the switch is on again.
#[test]
fn the_global_switch_keeps_each_probes_own_state() {
    let (mut guest, mut engine) = new();
    let original = guest.text_bytes();
    let address = guest.address("vfs_read");
    let armed = |guest: &ToyGuest, offset: u64| guest.peek(address + offset, 1)[0] == BREAK;
    let on = Kprobe::at("vfs_read");
    let off = Kprobe::at("vfs_read").offset(3).disabled();
    let switched = Kprobe::at("vfs_read").offset(6).disabled();
    engine.register_kprobes(&mut guest, &[on.clone(), off.clone(), switched.clone()]).expect("may be probed");
    for _ in 0..2 {
        engine.set_enabled(&mut guest, false);
    }
    assert_eq!((guest.text_bytes() == original, engine.enabled(), engine.enabled_view()), (true, false, "0\n"));
    assert_eq!([on.is_disabled(), off.is_disabled()], [false, true], "their own states are as they were");
    let late = Kprobe::at("vfs_read").offset(11);
    engine.register_kprobe(&mut guest, &late).expect("may be probed");
    engine.enable_kprobe(&mut guest, &switched).expect("registered");
    assert_eq!(guest.text_bytes(), original, "neither is armed while all is off");
    engine.set_enabled(&mut guest, true);
    assert_eq!([0, 3, 6, 11].map(|offset| armed(&guest, offset)), [true, false, true, true]);
    assert_eq!(engine.enabled_view(), "1\n");
    assert_eq!(engine.take_log_lines(), ["Kprobes globally disabled", "Kprobes globally enabled"]);
    engine.set_enabled(&mut guest, false);
    engine.unregister_kprobes(&mut guest, &[on, off, switched, late]);
    engine.set_enabled(&mut guest, true);
    assert_eq!(guest.text_bytes(), original, "those that went while all was off do not come back");
}

/// Probes in freed text stay registered and are never armed again.
#[test]
fn probes_in_freed_text_are_gone_and_never_written() {
    let (mut guest, mut engine) = new();
    let (probe, other) = (Kprobe::at_address(INIT), Kprobe::at("vfs_read"));
    let returns = Kretprobe::at_address(INIT);
    engine.register_kprobes(&mut guest, &[probe.clone(), other.clone()]).expect("init text can be probed");
    engine.register_kretprobe(&mut guest, &returns).expect("may be probed");
    let range = guest.free_init();
    let freed = guest.peek(INIT, 4).to_vec();
    engine.kill_range(&mut guest, range.clone());
    engine.kill_range(&mut guest, range);
    assert_eq!([probe.is_gone(), returns.kprobe().is_gone(), other.is_gone()], [true, true, false]);
    assert_eq!(engine.disable_kprobe(&mut guest, &probe), Ok(()), "as Linux says");
    let refusal = engine.enable_kprobe(&mut guest, &probe).expect_err("there is nothing to enable");
    assert_eq!((refusal.errno, refusal.why.contains("gone")), (Errno::EINVAL, true));
    engine.set_enabled(&mut guest, false);
    engine.set_enabled(&mut guest, true);
    guest.cpus[0].pc = INIT;
    guest.poke(INIT, &[BREAK]);
    assert_eq!(engine.breakpoint(&mut guest.cpu(0)), Answer::NotOurs, "a breakpoint there is not ours any more");
    guest.poke(INIT, &freed);
    assert!(engine.list(&guest).contains("[GONE]"));
    engine.unregister_kprobe(&mut guest, &probe);
    engine.unregister_kretprobe(&mut guest, &returns);
    assert_eq!(guest.peek(INIT, 4), freed, "nothing was written");
    assert!(!engine.list(&guest).contains("[GONE]"));
}

/// A new probe is registered at an address whose old probes are gone.
#[test]
fn a_gone_point_revives_for_a_new_probe_only() {
    let (mut guest, mut engine) = new();
    let notes = Notes::default();
    let old = Kprobe::at_address(INIT).pre(notes.pre("old"));
    engine.register_kprobe(&mut guest, &old).expect("init text can be probed");
    let range = guest.free_init();
    engine.kill_range(&mut guest, range);
    let new = Kprobe::at_address(INIT).pre(notes.pre("new"));
    assert_eq!(engine.register_kprobe(&mut guest, &new).expect_err("no text there").errno, Errno::EINVAL);
    // add r0, 9; halt
    guest.reuse_init(&[0x01, 0, 9, 0x21]);
    engine.register_kprobe(&mut guest, &new).expect("text again");
    assert_eq!([old.is_gone(), new.is_gone()], [true, false]);
    guest.cpus[0].pc = INIT;
    assert_eq!((guest.run(&mut engine, 0), guest.cpus[0].registers[0], notes.take().join(",")), (Stop::Halted, 9, "new".into()));
    engine.unregister_kprobes(&mut guest, &[old, new]);
    assert_eq!(guest.peek(INIT, 4), [0x01, 0, 9, 0x21]);
}

/// One step of the model test.
#[derive(Clone, Debug)]
enum Step {
    Register(usize),
    RegisterMirror(usize),
    Unregister(usize),
    Enable(usize),
    Disable(usize),
    Switch(bool),
    Kill,
    Run,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..PROBES).prop_map(Step::Register),
        1 => (0..PROBES).prop_map(Step::RegisterMirror),
        3 => (0..PROBES).prop_map(Step::Unregister),
        2 => (0..PROBES).prop_map(Step::Enable),
        2 => (0..PROBES).prop_map(Step::Disable),
        1 => any::<bool>().prop_map(Step::Switch),
        1 => Just(Step::Kill),
        1 => Just(Step::Run),
    ]
}

/// Two probe objects per place, so that points are shared.
const PROBES: usize = 12;
const PLACES: [(&str, u32); PROBES / 2] =
    [("vfs_read", 0), ("vfs_read", 3), ("vfs_read", 6), ("helper", 0), ("init_setup", 0), ("init_setup", 3)];

#[derive(Clone, Copy, Default)]
struct Expected {
    registered: bool,
    disabled: bool,
    gone: bool,
}

proptest! {
    /// KP-13, KP-11, DV-2: after any sequence of steps the text and the list agree with a simple model. After
    /// unregistering everything, all original bytes are back.
    #[test]
    fn text_and_list_follow_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let (mut guest, mut engine) = new();
        let mut original = guest.text_bytes();
        let place = |index: usize| PLACES[index / 2];
        let probes: Vec<Kprobe> = (0..PROBES).map(|index| Kprobe::at(place(index).0).offset(place(index).1)).collect();
        let mirrors: Vec<Jprobe> = (0..PROBES).map(|index| Jprobe::at(place(index).0).host(|_| {})).collect();
        let has_text = |freed: bool, index: usize| !freed || place(index).0 != "init_setup";
        let mut model = [Expected::default(); 2 * PROBES];
        let (mut enabled, mut freed) = (true, false);
        for step in steps {
            match step {
                Step::Register(index) => {
                    let answer = engine.register_kprobe(&mut guest, &probes[index]).is_ok();
                    let expected = !model[index].registered && has_text(freed, index);
                    prop_assert_eq!(answer, expected);
                    if expected {
                        model[index] = Expected { registered: true, ..Expected::default() };
                    }
                }
                Step::RegisterMirror(index) => {
                    // A jprobe is at its function's entry, so its neighbours' offsets do not matter.
                    let taken = (0..PROBES).any(|other| place(other).0 == place(index).0 && model[PROBES + other].registered);
                    let answer = engine.register_jprobe(&mut guest, &mirrors[index]).is_ok();
                    let expected = !taken && has_text(freed, index);
                    prop_assert_eq!(answer, expected);
                    if expected {
                        model[PROBES + index] = Expected { registered: true, ..Expected::default() };
                    }
                }
                Step::Unregister(index) => {
                    engine.unregister_kprobe(&mut guest, &probes[index]);
                    engine.unregister_jprobe(&mut guest, &mirrors[index]);
                    model[index].registered = false;
                    model[PROBES + index].registered = false;
                }
                Step::Enable(index) => {
                    let answer = engine.enable_kprobe(&mut guest, &probes[index]).is_ok();
                    prop_assert_eq!(answer, model[index].registered && !model[index].gone);
                    model[index].disabled &= !answer;
                }
                Step::Disable(index) => {
                    let answer = engine.disable_kprobe(&mut guest, &probes[index]).is_ok();
                    prop_assert_eq!(answer, model[index].registered);
                    model[index].disabled |= answer && !model[index].gone;
                }
                Step::Switch(on) => {
                    engine.set_enabled(&mut guest, on);
                    enabled = on;
                }
                Step::Kill => {
                    let range = guest.free_init();
                    engine.kill_range(&mut guest, range);
                    freed = true;
                    original.retain(|address, _| *address < INIT);
                    for (index, expected) in model.iter_mut().enumerate() {
                        expected.gone |= expected.registered && place(index % PROBES).0 == "init_setup";
                    }
                }
                Step::Run => run(&mut guest, &mut engine),
            }
            let mut text = original.clone();
            let mut listed = 0;
            for (index, expected) in model.iter().enumerate().filter(|(_, expected)| expected.registered) {
                listed += 1;
                let (symbol, offset) = place(index % PROBES);
                let offset = if index < PROBES { offset } else { 0 };
                if enabled && !expected.disabled && !expected.gone {
                    text.insert(guest.address(symbol) + u64::from(offset), BREAK);
                }
            }
            prop_assert_eq!(guest.text_bytes(), text);
            let list = engine.list(&guest);
            prop_assert_eq!(list.lines().count(), listed);
            prop_assert_eq!(list.matches("[GONE]").count(), model.iter().filter(|it| it.registered && it.gone).count());
            prop_assert_eq!(list.matches("[DISABLED]").count(), model.iter().filter(|it| it.registered && it.disabled && !it.gone).count());
        }
        engine.unregister_kprobes(&mut guest, &probes);
        engine.unregister_jprobes(&mut guest, &mirrors);
        prop_assert_eq!(guest.text_bytes(), original);
        prop_assert!(guest.window.is_empty());
    }
}
