//! Tests of jump optimisation on the toy guest: which points get a jump, when, and what takes it away. The tests run
//! the worker at its due times.

use super::LEAST_WAIT;
use crate::engine::Engine;
use crate::guest::Site;
use crate::notes::Notes;
use crate::point::Mode;
use crate::probe::{Flow, Jprobe, Kprobe, Kretprobe};
use crate::toy::guest::{DATA, ToyGuest};
use crate::toy::isa::{FLAGS, REGISTERS, SP};
use crate::toy::program::{Function, Op::*};
use crate::toy::{Stop, TOY};
use crate::withdraw::Withdrawn;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use trapline_isa::plan::Policy;

const DELAY: u64 = 1000;

#[rustfmt::skip]
const FUNCTIONS: &[Function<'static>] = &[
    ("main", &[Mov(0, 5), Mov(1, 7), Mov(3, DATA.start as u32), Call("work"), Halt]),
    //         +0         +3         +6         +9          +12   +14  +17
    ("work", &[Add(0, 1), Add(1, 2), Add(0, 4), Load(2, 3), Push(0), Pop(4), Ret]),
    //             +0         +3         +6 (back to +3)
    ("looping", &[Add(0, 1), Add(1, 255), Jnz(1, -9), Ret]),
    ("short", &[Add(0, 1), Ret]),
    ("patched", &[Nop, Add(0, 1), Add(0, 2), Ret]),
    ("entry", &[Add(5, 1), Add(5, 2), Ret]),
    //            +0         +3         +6         +9 .. +15
    ("edited", &[Add(0, 1), Add(1, 2), Add(2, 0), Nop, Nop, Nop, Nop, Nop, Nop, Ret]),
    ("irq_handler", &[AddStep(6, 1), Iret]),
];

fn new() -> (ToyGuest, Engine) {
    let mut engine = Engine::new(&TOY, 1);
    engine.set_optimization_delay(DELAY);
    (ToyGuest::new(&TOY, 1, FUNCTIONS), engine)
}

/// Runs the optimizer's worker at its due time.
fn work(guest: &mut ToyGuest, engine: &mut Engine) {
    let due = engine.wants_attention_at().expect("something waits");
    engine.tick(guest, due);
}

fn modes(guest: &ToyGuest, engine: &Engine) -> Vec<Mode> {
    engine.summary(guest).iter().map(|line| line.mode).collect()
}

fn run(guest: &mut ToyGuest, engine: &mut Engine) -> [u64; 5] {
    guest.start(0, "main");
    assert_eq!(guest.run(engine, 0), Stop::Halted);
    core::array::from_fn(|number| guest.cpus[0].registers[number])
}

/// The result of an unprobed run: registers and time.
fn plain() -> ([u64; 5], u64) {
    let (mut guest, mut engine) = new();
    (run(&mut guest, &mut engine), guest.cpus[0].time)
}

/// OP-1, OP-4, OP-6, OP-7: first a breakpoint, whose hits run the region in the detour. After the delay a jump, and no
/// traps.
#[test]
fn a_breakpoint_becomes_a_jump_after_the_delay() {
    let (mut guest, mut engine) = new();
    let before = guest.text_bytes();
    let probe = Kprobe::at("work").pre(|_| Flow::Continue);
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    let address = guest.address("work");
    assert_eq!(guest.peek(address, 5), [0xcc, 0, 1, 1, 1]);
    assert_eq!(modes(&guest, &engine), [Mode::Boosted]);
    assert!(engine.list(&guest).contains("work+0x0    [OPTIMIZED]"), "it has the flag while it waits: {}", engine.list(&guest));
    assert_eq!((run(&mut guest, &mut engine), guest.cpus[0].time), plain());
    assert_eq!((probe.hits(), guest.cpus[0].traps), (1, 1), "the trap, and no step");

    engine.tick(&mut guest, DELAY - 1);
    assert_eq!(guest.peek(address, 1), [0xcc], "not yet");
    work(&mut guest, &mut engine);
    assert_eq!((guest.peek(address, 1)[0], guest.peek(address + 5, 1)[0]), (0x10, 2), "the jump, and behind it what was there");
    assert_eq!((modes(&guest, &engine), engine.wants_attention_at()), (vec![Mode::Optimized], None));
    (guest.cpus[0].time, guest.cpus[0].registers) = (0, [0; REGISTERS]);
    guest.become_task(0, 0);
    assert_eq!((run(&mut guest, &mut engine), guest.cpus[0].time), plain(), "the same work in the same time");
    assert_eq!((probe.hits(), guest.cpus[0].traps), (2, 1), "and no trap");

    engine.unregister_kprobe(&mut guest, &probe);
    assert_eq!(guest.text_bytes(), before);
}

/// OP-2, OP-3: a place that cannot be optimised keeps its breakpoint, and the summary has the reason.
#[test]
fn a_place_that_cannot_be_optimised_says_why() {
    #[rustfmt::skip]
    let cases = [
        ("looping", 0, "jump leads into"),
        ("work",   14, "cannot run in a detour"),
        ("patched", 0, "a static key's jump"),
    ];
    for (name, offset, why) in cases {
        let (mut guest, mut engine) = new();
        let site = guest.address("patched") + 1;
        guest.sites.insert(site, Site::JumpLabel);
        engine.register_kprobe(&mut guest, &Kprobe::at(name).offset(offset)).expect("may be probed");
        let summary = engine.summary(&guest);
        assert_eq!((summary[0].optimized, engine.wants_attention_at()), (false, None), "{name}");
        let said = summary[0].obstacle.as_ref().expect("a reason").to_string();
        assert!(said.contains(why), "{name}: {said}");
    }
    // The function is padded to 16 bytes, so there is room for a jump.
    let (mut guest, mut engine) = new();
    engine.register_kprobe(&mut guest, &Kprobe::at("short")).expect("may be probed");
    assert!(engine.summary(&guest)[0].obstacle.is_some(), "a return does not move");
}

/// OP-2, OP-8: a change elsewhere in the function decides anew, both ways; text that comes back unchanged keeps its jump.
#[test]
fn a_change_elsewhere_in_the_function_decides_anew() {
    let (mut guest, mut engine) = new();
    engine.register_kprobe(&mut guest, &Kprobe::at("edited")).expect("may be probed");
    work(&mut guest, &mut engine);
    let at = guest.address("edited") + 9;
    // A conditional jump to +3, into the instructions under the probe's jump.
    let into = [0x14, 2, 0xf4, 0xff, 0xff, 0xff];
    let (nops, others) = ([0x90; 6], [0x90, 0x90, 0x90, 0x01, 0x02, 0x00]);
    for (bytes, mode) in [(nops, Mode::Optimized), (into, Mode::Boosted), (into, Mode::Boosted), (others, Mode::Optimized)] {
        engine.withdraw(&mut guest, Withdrawn::everywhere());
        guest.poke(at, &bytes);
        engine.withdraw(&mut guest, Withdrawn::default());
        if engine.wants_attention_at().is_some() {
            work(&mut guest, &mut engine);
        }
        assert_eq!(modes(&guest, &engine), [mode], "{bytes:x?}");
        let obstacle = engine.summary(&guest)[0].obstacle.as_ref().map(ToString::to_string);
        assert_eq!(obstacle.is_some_and(|why| why.contains("jump leads into")), mode == Mode::Boosted, "{bytes:x?}");
    }
}

/// OP-5, OP-8: each temporary obstacle removes the jump. When it ends, the jump comes back.
#[test]
fn a_temporary_obstacle_removes_the_jump_for_its_duration() {
    type Change = fn(&mut Engine, &mut ToyGuest, &Others);
    struct Others {
        probe: Kprobe,
        post: Kprobe,
        inside: Kprobe,
        jprobe: Jprobe,
    }
    #[rustfmt::skip]
    let causes: [(&str, Change, Change); 6] = [
        ("a post-handler",       |e, g, o| e.register_kprobe(g, &o.post).expect("may be"),   |e, g, o| e.unregister_kprobe(g, &o.post)),
        ("a probe under it",     |e, g, o| e.register_kprobe(g, &o.inside).expect("may be"), |e, g, o| e.unregister_kprobe(g, &o.inside)),
        ("a jprobe",             |e, g, o| e.register_jprobe(g, &o.jprobe).expect("may be"), |e, g, o| e.unregister_jprobe(g, &o.jprobe)),
        ("disabling",            |e, g, o| e.disable_kprobe(g, &o.probe).expect("is there"), |e, g, o| e.enable_kprobe(g, &o.probe).expect("is there")),
        ("the global switch",    |e, g, _| e.set_enabled(g, false),                          |e, g, _| e.set_enabled(g, true)),
        ("the knob",             |e, g, _| e.set_optimization(g, false),                     |e, g, _| e.set_optimization(g, true)),
    ];
    for queued in [false, true] {
        for (what, begin, end) in causes {
            let (mut guest, mut engine) = new();
            let others = Others {
                probe: Kprobe::at("work").pre(|_| Flow::Continue),
                post: Kprobe::at("work").post(|_| {}),
                inside: Kprobe::at("work").offset(3),
                jprobe: Jprobe::at("work").host(|_| {}),
            };
            engine.register_kprobe(&mut guest, &others.probe).expect("may be probed");
            let address = guest.address("work");
            if !queued {
                work(&mut guest, &mut engine);
                assert_eq!(guest.peek(address, 1), [0x10], "{what}");
            }
            begin(&mut engine, &mut guest, &others);
            let armed = guest.peek(address, 1) == [0xcc];
            assert_eq!(armed, !["disabling", "the global switch"].contains(&what), "{what}");
            assert_eq!(guest.peek(address + 1, 2), [0, 1], "{what}: the bytes behind the breakpoint");
            assert!(!engine.list(&guest).contains("work+0x0    [OPTIMIZED]"), "{what}");
            if let Some(due) = engine.wants_attention_at() {
                engine.tick(&mut guest, due);
                assert_ne!(guest.peek(address, 1), [0x10], "{what}: it lasts");
            }
            assert_eq!(run(&mut guest, &mut engine), plain().0, "{what}");
            end(&mut engine, &mut guest, &others);
            work(&mut guest, &mut engine);
            assert_eq!(guest.peek(address, 1), [0x10], "{what}, queued: {queued}: when the cause has gone");
        }
    }
}

/// OP-10: while the switch is off, no point is queued. The log reports both switches.
#[test]
fn the_optimization_switch_prevents_new_jumps() {
    let (mut guest, mut engine) = new();
    engine.set_optimization(&mut guest, false);
    engine.register_kprobe(&mut guest, &Kprobe::at("work")).expect("may be probed");
    assert_eq!((engine.wants_attention_at(), engine.optimization()), (None, false));
    engine.set_optimization(&mut guest, true);
    work(&mut guest, &mut engine);
    assert_eq!(modes(&guest, &engine), [Mode::Optimized]);
    let lines = engine.take_log_lines();
    let told: Vec<&str> = lines.iter().filter_map(|line| line.split('.').next()).collect();
    assert_eq!(told, ["kprobe jump-optimization is disabled", "kprobe jump-optimization is enabled"]);
}

/// OP-7: a sleeping task that was interrupted under the jump postpones it. When the task has moved on, the jump is
/// written.
#[test]
fn a_sleeping_task_under_the_jump_postpones_it() {
    let (mut guest, mut engine) = new();
    engine.set_optimization_delay(LEAST_WAIT);
    let address = guest.address("work");
    // Interrupted in front of work+3. The handler has not returned.
    guest.start(0, "work");
    guest.interrupt(0, 1, None);
    let handler = guest.address("irq_handler");
    assert!(guest.run_to(&mut engine, 0, |pc| pc == handler));
    assert_eq!(guest.cpus[0].interrupts, [(3, address + 3)]);

    let probe = Kprobe::at("work").pre(|_| Flow::Continue);
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    let mut waits = Vec::new();
    for postponed in 1..4 {
        let due = engine.wants_attention_at().expect("it waits on");
        engine.tick(&mut guest, due);
        waits.push(engine.wants_attention_at().expect("it waits on") - due);
        assert_eq!((guest.peek(address, 1), engine.counts().postponed), (&[0xcc][..], postponed));
    }
    assert_eq!(waits, [LEAST_WAIT, 2 * LEAST_WAIT, 4 * LEAST_WAIT], "longer each time");
    assert!(guest.run_to(&mut engine, 0, |pc| pc == address + 6), "the task goes on");
    // The saved frame lies below the stack pointer now, where it would be overwritten soon.
    let sp = guest.cpus[0].registers[usize::from(SP.0)];
    guest.poke(sp - 16, &[0; 16]);
    work(&mut guest, &mut engine);
    assert_eq!(guest.peek(address, 1), [0x10]);
}

/// OP-7: CPUs have separate clocks. A tick with an earlier time does not change the waiting points. A restored snapshot
/// with an earlier time does.
#[test]
fn a_tick_with_an_earlier_time_changes_nothing() {
    let (mut guest, mut engine) = new();
    engine.set_optimization_delay(LEAST_WAIT);
    let inside = guest.address("work") + 3;
    guest.cpus[0].pc = inside;
    engine.tick(&mut guest, 50 * LEAST_WAIT);
    engine.register_kprobe(&mut guest, &Kprobe::at("work")).expect("may be probed");
    for _ in 0..3 {
        work(&mut guest, &mut engine);
    }
    let due = engine.wants_attention_at();
    assert!(due > Some(53 * LEAST_WAIT), "{due:?}");
    engine.tick(&mut guest, 10 * LEAST_WAIT);
    engine.tick(&mut guest, 12 * LEAST_WAIT);
    assert_eq!((engine.wants_attention_at(), engine.counts().postponed), (due, 3));
    engine.time_starts_over(10 * LEAST_WAIT);
    assert_eq!(engine.wants_attention_at(), Some(11 * LEAST_WAIT));
    work(&mut guest, &mut engine);
    assert_eq!(engine.counts().postponed, 4, "no point waits until a time from before the restore");
}

/// OP-7: a CPU under the jump postpones it, too.
#[test]
fn a_cpu_under_the_jump_postpones_it() {
    let (mut guest, mut engine) = new();
    let address = guest.address("work");
    guest.cpus[0].pc = address + 3;
    engine.register_kprobe(&mut guest, &Kprobe::at("work")).expect("may be probed");
    work(&mut guest, &mut engine);
    assert_eq!((guest.peek(address, 1), engine.counts().postponed), (&[0xcc][..], 1));
    for there in [address, address + 6] {
        let (mut guest, mut engine) = new();
        guest.cpus[0].pc = there;
        engine.register_kprobe(&mut guest, &Kprobe::at("work")).expect("may be probed");
        work(&mut guest, &mut engine);
        assert_eq!(guest.peek(address, 1), [0x10], "a CPU in front of or behind the jump does not prevent it");
    }
}

/// OP-9: handlers of optimised probes change registers, but not pc and stack pointer. All handlers run.
#[test]
fn an_optimised_handler_changes_registers_but_not_the_pc() {
    let (mut guest, mut engine) = new();
    let notes = Notes::default();
    let older = Kprobe::at("work").pre(notes.pre("older"));
    let newer = Kprobe::at("work").pre(|hit| {
        assert_eq!(hit.pc(), hit.address());
        hit.set_reg("r0", 100);
        hit.set_reg("sp", 1);
        hit.set_pc(0);
        Flow::Redirected
    });
    for probe in [&older, &newer] {
        engine.register_kprobe(&mut guest, probe).expect("may be probed");
    }
    work(&mut guest, &mut engine);
    assert_eq!(run(&mut guest, &mut engine)[0], 100 + 1 + 4);
    assert_eq!((notes.take(), older.hits(), newer.hits()), (vec!["older".to_string()], 1, 1));
}

/// OP-8, OP-4: a fault in the detour is reported at the original instruction, counts as one hit, and removes the jump.
#[test]
fn a_fault_in_the_detour_is_reported_at_the_original() {
    let (mut guest, mut engine) = new();
    let probe = Kprobe::at("work").offset(6).pre(|_| Flow::Continue);
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    work(&mut guest, &mut engine);
    let address = guest.address("work") + 6;
    assert_eq!(guest.peek(address, 1), [0x10]);
    guest.start(0, "main");
    guest.mapped.remove(0);
    assert_eq!(guest.run(&mut engine, 0), Stop::Exception { trapnr: 14, pc: address + 3 });
    assert_eq!((probe.hits(), guest.peek(address, 6)), (1, &[0xcc, 0, 4, 3, 2, 3][..]));
    guest.mapped.push(DATA);
    assert_eq!(guest.run(&mut engine, 0), Stop::Halted, "the guest repairs the cause and continues");
    assert_eq!((probe.hits(), guest.cpus[0].time), (1, plain().1));
    work(&mut guest, &mut engine);
    assert_eq!(guest.peek(address, 1), [0x10], "and it is optimised again");
}

/// OP-5: a probe reached during another hit is missed, optimised or not, and its instructions run.
#[test]
fn an_optimised_probe_in_a_jprobe_handler_is_missed() {
    let (mut guest, mut engine) = new();
    let jprobe = Jprobe::at("entry").guest("work");
    let probe = Kprobe::at("work").pre(|_| Flow::Continue);
    engine.register_jprobe(&mut guest, &jprobe).expect("may be probed");
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    work(&mut guest, &mut engine);
    guest.cpus[0].registers[3] = DATA.start;
    guest.start(0, "entry");
    let sp = usize::from(SP.0);
    guest.cpus[0].registers[sp] -= 8;
    let (top, halt) = (guest.cpus[0].registers[sp], guest.address("main") + 23);
    guest.poke(top, &halt.to_le_bytes());
    assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
    assert_eq!((probe.hits(), probe.nmissed()), (0, 1));
    assert_eq!(guest.cpus[0].registers[5], 3);
}

/// OP-11, RP-1: the entry of a return probe is optimised, too.
#[test]
fn a_return_probe_is_entered_by_a_jump() {
    let (mut guest, mut engine) = new();
    let probe = Kretprobe::at("work").handler(|_| {});
    engine.register_kretprobe(&mut guest, &probe).expect("may be probed");
    work(&mut guest, &mut engine);
    assert_eq!((run(&mut guest, &mut engine), guest.cpus[0].time), plain());
    assert_eq!((probe.hits(), probe.returns(), guest.cpus[0].traps), (1, 1, 1), "one trap, at the return");
}

/// OP-7: an interrupt at any time is taken at the same address as without the probe, never in the detour.
#[test]
fn interrupts_are_taken_at_the_same_addresses() {
    for at in 0..40 {
        let taken = |probed: bool| {
            let (mut guest, mut engine) = new();
            if probed {
                engine.register_kprobe(&mut guest, &Kprobe::at("work").offset(3).pre(|_| Flow::Continue)).expect("may be probed");
                work(&mut guest, &mut engine);
            }
            guest.interrupt(0, at, None);
            let registers = run(&mut guest, &mut engine);
            assert_eq!(guest.cpus[0].registers[usize::from(FLAGS.0)] & 1, 1);
            (registers, guest.cpus[0].interrupts.len(), guest.cpus[0].time)
        };
        assert_eq!(taken(true), taken(false), "at {at}");
    }
}

/// OP-2: with Linux 6.1's policy the list shows Linux's flag, but only safe jumps are written.
#[test]
fn the_linux_policy_shows_linuxs_flag() {
    let (mut guest, engine) = new();
    let mut engine = engine.with_policy(Policy::LINUX_6_1);
    let at = guest.address("patched");
    guest.sites.insert(at, Site::Ftrace);
    engine.register_kprobe(&mut guest, &Kprobe::at("patched")).expect("may be probed");
    assert_eq!(engine.wants_attention_at(), None, "an ftrace site is ftrace's");
    engine.register_kprobe(&mut guest, &Kprobe::at("work")).expect("may be probed");
    work(&mut guest, &mut engine);
    assert!(engine.list(&guest).contains("work+0x0    [OPTIMIZED]"), "{}", engine.list(&guest));
}

/// OP-2, KP-15: a LOCK prefix that the kernel may patch prevents a jump. Linux forgets the prefixes if only one CPU is
/// possible.
#[test]
fn lock_prefixes_are_ignored_only_where_linux_forgets_them() {
    for (policy, cpus, forgotten) in
        [(Policy::Best, 1, false), (Policy::Best, 2, false), (Policy::LINUX_6_1, 1, true), (Policy::LINUX_6_1, 2, false)]
    {
        let mut guest = ToyGuest::new(&TOY, cpus, FUNCTIONS);
        let mut engine = Engine::new(&TOY, cpus).with_policy(policy);
        guest.sites.insert(guest.address("work") + 3, Site::SmpLock);
        engine.register_kprobe(&mut guest, &Kprobe::at("work")).expect("may be probed");
        let obstacle = engine.summary(&guest)[0].obstacle.clone();
        assert_eq!(obstacle.is_none(), forgotten, "{policy:?}, {cpus} CPUs: {obstacle:?}");
    }
}

/// OP-8: bytes that the guest has written over the jump stay.
#[test]
fn a_jump_overwritten_by_the_guest_is_left_alone() {
    let (mut guest, mut engine) = new();
    let probe = Kprobe::at("work");
    engine.register_kprobe(&mut guest, &probe).expect("may be probed");
    work(&mut guest, &mut engine);
    let address = guest.address("work");
    guest.poke(address, &[0x90; 5]);
    engine.unregister_kprobe(&mut guest, &probe);
    assert_eq!(guest.peek(address, 5), [0x90; 5]);
    let lines = engine.take_log_lines();
    assert!(lines.iter().any(|line| line.contains("has changed the text")), "{lines:?}");
}

/// OP-7: no jump is written if the guest has changed the text while the probe waited.
#[test]
fn no_jump_is_written_over_changed_text() {
    let (mut guest, mut engine) = new();
    engine.register_kprobe(&mut guest, &Kprobe::at("work")).expect("may be probed");
    let address = guest.address("work");
    guest.poke(address + 3, &[0x12]);
    work(&mut guest, &mut engine);
    assert_eq!(guest.peek(address, 4), [0xcc, 0, 1, 0x12]);
}

/// OP-4: after any change at an optimised address, exactly the handlers of enabled probes run. The fast path is used
/// for a lone probe only.
#[test]
fn the_fast_path_runs_exactly_the_enabled_probes() {
    let (mut guest, mut engine) = new();
    let [one, other, own] = core::array::from_fn(|_| Kprobe::at("work").pre(|_| Flow::Continue));
    let (post, own, returns) = (Kprobe::at("work").post(|_| ()), own.internal(), Kretprobe::at("work"));
    type Step<'a> = &'a dyn Fn(&mut ToyGuest, &mut Engine) -> Result<(), crate::Refusal>;
    let undo = |probe: &Kprobe| {
        let probe = probe.clone();
        move |guest: &mut ToyGuest, engine: &mut Engine| {
            engine.unregister_kprobe(guest, &probe);
            Ok(())
        }
    };
    #[rustfmt::skip]
    let steps: &[(&str, Step<'_>, bool, [u64; 5])] = &[
        // what                     how                                                     lone?  hits of one, other,
        // own, post, returns
        ("one",                     &|guest, engine| engine.register_kprobe(guest, &one),     true,  [1, 0, 0, 0, 0]),
        ("two",                     &|guest, engine| engine.register_kprobe(guest, &other),   false, [1, 1, 0, 0, 0]),
        ("one disabled",            &|guest, engine| engine.disable_kprobe(guest, &one),      false, [0, 1, 0, 0, 0]),
        ("only the other",          &undo(&one),                                              true,  [0, 1, 0, 0, 0]),
        ("disabled",                &|guest, engine| engine.disable_kprobe(guest, &other),    false, [0, 0, 0, 0, 0]),
        ("enabled again",           &|guest, engine| engine.enable_kprobe(guest, &other),     true,  [0, 1, 0, 0, 0]),
        ("and a post-handler",      &|guest, engine| engine.register_kprobe(guest, &post),    false, [0, 1, 0, 1, 0]),
        ("gone again",              &undo(&post),                                             true,  [0, 1, 0, 0, 0]),
        ("and an internal probe",   &|guest, engine| engine.register_kprobe(guest, &own),     false, [0, 1, 1, 0, 0]),
        ("only that",               &undo(&other),                                            false, [0, 0, 1, 0, 0]),
        ("and a return probe",      &|guest, engine| engine.register_kretprobe(guest, &returns), false, [0, 0, 1, 0, 1]),
        ("only that",               &undo(&own),                                              false, [0, 0, 0, 0, 1]),
    ];
    let all = [&one, &other, &own, &post, returns.kprobe()];
    for (what, step, is_lone, expected) in steps {
        step(&mut guest, &mut engine).expect(what);
        if engine.wants_attention_at().is_some() {
            work(&mut guest, &mut engine);
        }
        let number = engine.points.at(guest.address("work")).expect("it is registered");
        assert_eq!(engine.points.lone(number).is_some(), *is_lone, "{what}");
        let before = all.map(Kprobe::hits);
        (guest.cpus[0].time, guest.cpus[0].registers) = (0, [0; REGISTERS]);
        guest.become_task(0, 0);
        assert_eq!((run(&mut guest, &mut engine), guest.cpus[0].time), plain(), "{what}");
        let hits: Vec<u64> = all.iter().zip(before).map(|(probe, before)| probe.hits() - before).collect();
        assert_eq!(hits, expected, "{what}");
    }
}
