//! Optimised probes in the running machine: jumps in real text, hits without traps, and an unchanged run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_isa::arch::Arch;
use trapline_isa::detour::Form;
use trapline_isa::plan::Policy;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::facts::facts;
use trapline_tests::{Run, assert_same, boundaries, functions, jumping_guests, kernel, run, session};

/// Every guest with each detour form of its ISA.
fn guests_and_forms() -> impl Iterator<Item = (Arch, &'static str, Form)> {
    let has = |arch: Arch, form| form == Form::Lean || arch.isa().detour.is_some_and(|detour| detour.faithful.is_some());
    let forms = [Form::Lean, Form::Faithful].into_iter();
    forms.flat_map(move |form| {
        jumping_guests().filter(move |(arch, _)| has(*arch, form)).map(move |(arch, name)| (arch, name, form))
    })
}

/// A session with detours of this form.
fn session_in(form: Form, name: &str, cpus: usize) -> Session {
    let mut session = session(name, cpus);
    session.set_detour_form(form).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    session
}

/// Runs the optimizer now. Returns the number of optimised probes.
fn optimise(session: &mut Session) -> usize {
    session.with_engine(|engine, _| engine.set_optimization_delay(0));
    optimised(session)
}

/// The address of a frequently called function of the tiny kernel that can be optimised at its entry.
fn favourable(name: &str) -> u64 {
    let mut probed = session(name, 1);
    let probes: Vec<Kprobe> = functions(&kernel(name)).iter().map(|(_, start, _)| Kprobe::at_address(*start)).collect();
    let registered: Vec<&Kprobe> = probes.iter().filter(|probe| probed.register_kprobe(probe).is_ok()).collect();
    optimise(&mut probed);
    run(&mut probed);
    let summary = probed.with_engine(|engine, guest| engine.summary(guest));
    let jumps =
        |probe: &&&Kprobe| summary.iter().any(|line| Some(line.address) == probe.address() && line.mode == Mode::Optimized);
    let best = registered.iter().filter(jumps).max_by_key(|probe| probe.hits()).expect("one has a jump");
    best.address().expect("registered")
}

fn optimised(session: &mut Session) -> usize {
    session.with_engine(|engine, guest| engine.summary(guest)).iter().filter(|line| line.mode == Mode::Optimized).count()
}

/// OP-7, OP-11, BY-4: with a jump wherever one is possible, interrupts, exceptions and clock reads have the same pcs
/// and times as without.
#[test]
fn jumps_everywhere_leave_time_and_interrupts_unchanged() {
    for (arch, name, form) in guests_and_forms() {
        for cpus in [1, 2] {
            let plain = run(&mut session(name, cpus));
            // A jump prevents jumps on the instructions that it covers. Other phases probe those.
            for phase in 0..3 {
                let parts = facts(arch).parts_in_reach;
                let of_part = |part| jumps_in_a_part((arch, name, form, cpus), phase, part..parts, &plain);
                let all = (0..parts).map(of_part).reduce(|one, other| (one.0 + other.0, one.1 + other.1));
                let (hits, traps) = all.expect("there is a part");
                assert!(hits > traps, "{name}, phase {phase}: {hits} hits, {traps} traps");
            }
        }
    }
}

/// Probes the instructions from the `phase`th of each function on, of the functions of one part of this number of parts.
/// Returns the number of hits and of traps.
fn jumps_in_a_part(
    (arch, name, form, cpus): (Arch, &'static str, Form, usize),
    phase: usize,
    part: std::ops::Range<usize>,
    plain: &Run,
) -> (u64, u64) {
    let mut probed = session_in(form, name, cpus);
    let mut probes = Vec::new();
    let (mut free, starts) = (0, functions(&kernel(name)));
    let starts: BTreeSet<u64> = starts.into_iter().map(|(_, start, _)| start).collect();
    let (mut behind_start, mut function) = (0, 0);
    for address in boundaries(&kernel(name)) {
        let is_start = starts.contains(&address);
        function += usize::from(is_start);
        behind_start = if is_start { 0 } else { behind_start + 1 };
        if address < free || behind_start < phase || function % part.end != part.start {
            continue;
        }
        let probe = Kprobe::at_address(address).pre(|_| Flow::Continue);
        if probed.register_kprobe(&probe).is_ok() {
            probes.push(probe);
            free = address + arch.isa().detour.map_or(1, |detour| detour.jump_length);
        }
    }
    let count = optimise(&mut probed);
    let what = format!("{name}, {form:?}, {cpus} CPUs, {count} of {} optimised, phase {phase}, part {part:?}", probes.len());
    assert_same(&what, plain, &run(&mut probed));
    let (hits, traps) = (probes.iter().map(Kprobe::hits).sum(), probed.machine().counts().claimed);
    println!("{what}: {hits} hits, {traps} traps");
    assert!(count > 200, "{what}");
    (hits, traps)
}

/// OP-1, OP-6, OP-7: jumps that are written and removed while the guest runs change nothing.
#[test]
fn writing_and_removing_jumps_while_running_changes_nothing() {
    for (_, name, form) in guests_and_forms() {
        for cpus in [1, 2] {
            // Stop the unprobed run at the same times, because sleeping CPUs are examined at each stop.
            let cut = |jumps: bool| {
                let mut probed = session_in(form, name, cpus);
                probed.with_engine(|engine, guest| {
                    engine.set_optimization_delay(50_000);
                    engine.set_optimization(guest, jumps);
                });
                for (_, start, _) in functions(&kernel(name)) {
                    // Refusals are tested elsewhere.
                    let _ = probed.register_kprobe(&Kprobe::at_address(start).pre(|_| Flow::Continue));
                }
                assert_eq!(optimised(&mut probed), 0, "{name}: breakpoints first");
                let (mut stop, mut most, mut on, mut until) = (Stop::Limit, 0, true, 0);
                while stop == Stop::Limit {
                    until += 200_000;
                    stop = probed.run_until(until);
                    most = most.max(optimised(&mut probed));
                    on = !on;
                    probed.with_engine(|engine, guest| engine.set_optimization(guest, jumps && on));
                    assert!(on || optimised(&mut probed) == 0, "{name}: the knob takes all jumps back");
                }
                let machine = probed.machine_mut();
                let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
                (Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() }, most)
            };
            let ((without, none), (with, most)) = (cut(false), cut(true));
            assert!(none == 0 && most > 20, "{name}: {most} were optimised");
            assert_same(&format!("{name}, {form:?}, {cpus} CPUs"), &without, &with);
        }
    }
}

/// OP-11, RP-1: optimised return probes on every function.
#[test]
fn optimised_return_probes_change_nothing() {
    for (_, name, form) in guests_and_forms() {
        let plain = run(&mut session(name, 1));
        let mut probed = session_in(form, name, 1);
        let returns = Arc::new(AtomicU64::new(0));
        for (_, start, _) in functions(&kernel(name)) {
            let count = Arc::clone(&returns);
            let probe = Kretprobe::at_address(start).maxactive(64).handler(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            // Refusals are tested elsewhere.
            let _ = probed.register_kretprobe(&probe);
        }
        let count = optimise(&mut probed);
        assert_same(&format!("{name}, {form:?}"), &plain, &run(&mut probed));
        assert!(count > 20 && returns.load(Ordering::Relaxed) > 1000, "{name}: {count} jumps, {returns:?} returns");
    }
}

/// OP-9, OP-4: a handler of an optimised probe reads and changes the function's registers, but cannot change the pc.
#[test]
fn an_optimised_handler_sees_and_changes_live_registers() {
    for (arch, name, form) in guests_and_forms() {
        let place = favourable(name);
        let seen = |jump: bool| {
            let mut session = session_in(form, name, 1);
            session.with_engine(|engine, guest| engine.set_optimization(guest, jump));
            let sum = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&sum);
            let accumulator = facts(arch).scratch;
            let jump_length = arch.isa().detour.map_or(1, |detour| detour.jump_length);
            let probe = Kprobe::at_address(place).pre(move |hit| {
                let arguments = (0..3).fold(0, |all: u64, n| all.rotate_left(7) ^ hit.arg(n));
                let flags = hit.reg("flags").or_else(|| hit.reg("pstate")).unwrap_or(0);
                count.fetch_add(arguments ^ hit.pc() ^ hit.now() ^ flags << 40 ^ hit.reg("sp").unwrap_or(0), Ordering::Relaxed);
                hit.set_reg(accumulator, 0x1234);
                hit.set_pc(hit.pc());
                Flow::Continue
            });
            session.register_kprobe(&probe).expect("may be probed");
            let behind = Arc::new(AtomicU64::new(0));
            let held = Arc::clone(&behind);
            // The next instruction after the region sees the value that the handler has set, unless code in between
            // changes it.
            let region_end =
                boundaries(session.kernel()).into_iter().find(|at| *at >= probe.address().expect("registered") + jump_length);
            let after = Kprobe::at_address(region_end.expect("an instruction")).pre(move |hit| {
                held.fetch_add(hit.reg(accumulator).unwrap_or(0), Ordering::Relaxed);
                Flow::Continue
            });
            session.register_kprobe(&after).expect("may be probed");
            optimise(&mut session);
            let mode = session.with_engine(|engine, guest| engine.summary(guest))[0].mode;
            assert_eq!(mode == Mode::Optimized, jump, "{name}");
            let console = run(&mut session).console;
            (console, probe.hits(), sum.load(Ordering::Relaxed), behind.load(Ordering::Relaxed))
        };
        let (jumped, trapped) = (seen(true), seen(false));
        assert_eq!(jumped, trapped, "{name}, {form:?}");
        assert!(jumped.1 > 10, "{name}: {} hits", jumped.1);
    }
}

/// OP-10, DV-1: the list shows the flag of optimised probes.
#[test]
fn the_list_of_a_running_kernel_shows_the_flag() {
    let place = favourable("tiny/x86_64");
    let mut session = session("tiny/x86_64", 1);
    session.register_kprobe(&Kprobe::at_address(place).pre(|_| Flow::Continue)).expect("may be probed");
    optimise(&mut session);
    let list = session.with_engine(|engine, guest| engine.list(guest));
    assert!(list.starts_with(&format!("{place:x}  k  ")) && list.ends_with(" [OPTIMIZED]\n"), "{list}");
}

/// OP-4, OP-7, OP-11, BY-4: the timer expires at each possible time from before a function's entry to after its return.
/// With breakpoints, copies, a jump with its detour, and the return pad, each interrupt is taken at the address and
/// time of an unprobed guest.
#[test]
fn an_interrupt_due_in_our_code_is_taken_after_it() {
    /// Time before and after the function, in bytes.
    const AROUND: u64 = 12;
    /// Longest function to test, in bytes of time. A longer one would only take longer.
    const MOST: u64 = 260;
    for (_, name) in jumping_guests() {
        let place = favourable(name);
        // The times at which the function is entered and left, some way into the run.
        let (mut first, times) = (session(name, 1), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&times);
        let (entered, left) = (noted.clone(), noted);
        let probe = Kretprobe::at_address(place).entry(move |hit| {
            entered.lock().expect("one thread").push(hit.now());
            Flow::Continue
        });
        first
            .register_kretprobe(&probe.handler(move |hit| left.lock().expect("one thread").push(hit.now())))
            .expect("may be probed");
        run(&mut first);
        let times = times.lock().expect("one thread").clone();
        let calls = times.windows(2).skip(times.len() / 3);
        let call = calls.min_by_key(|call| call[1] - call[0]).expect("a call");
        assert!(call[1] - call[0] < MOST / 4, "{name}: a short call");
        let (from, to) = (call[0] * 4 - AROUND, call[1] * 4 + 4 + AROUND);

        let mut plain = session(name, 1);
        let before = call[0] - 300;
        assert_eq!(plain.run_until(before), Stop::Limit, "{name}");
        let snapshot = plain.snapshot().expect("a snapshot");
        let at = |tick: u64| {
            let mut snapshot = snapshot.clone();
            snapshot.state.devices["cpus"][0]["timer"]["next"] = tick.into();
            snapshot
        };
        let happened = |session: &mut Session, tick: u64| {
            session.restore(&at(tick)).expect("it fits");
            optimise(session);
            session.run_until(call[1] + 500);
            session.machine().happenings().to_vec()
        };
        let expected: Vec<_> = (from..to).map(|tick| happened(&mut plain, tick)).collect();
        let interrupted: BTreeSet<u64> = expected.iter().flatten().map(|happening| happening.pc).collect();
        let has_faithful = kernel(name).arch.isa().detour.is_some_and(|detour| detour.faithful.is_some());
        let forms = [Form::Lean, Form::Faithful].into_iter().filter(|form| *form == Form::Lean || has_faithful);
        let ways = forms.flat_map(|form| [(form, true, false), (form, true, true)]);
        for (form, jump, returns) in [(Form::Lean, false, false), (Form::Lean, false, true)].into_iter().chain(ways) {
            let mut probed = session_in(form, name, 1);
            probed.with_engine(|engine, guest| engine.set_optimization(guest, jump));
            let entry = Kprobe::at_address(place).pre(|_| Flow::Continue);
            let back = Kretprobe::at_address(place).handler(|_| ());
            let registered = if returns { probed.register_kretprobe(&back) } else { probed.register_kprobe(&entry) };
            registered.expect("may be probed");
            for (tick, expected) in (from..to).zip(&expected) {
                let seen = happened(&mut probed, tick);
                assert_eq!(optimised(&mut probed) == 1, jump, "{name}");
                assert!(!seen.is_empty(), "{name}: no interrupt at {tick}");
                assert_eq!(&seen, expected, "{name}: jump {jump} {form:?}, return probe {returns}, asked for at {tick}");
            }
            let hits = if returns { back.kprobe().hits() } else { entry.hits() };
            assert!(hits >= to - from, "{name}: {hits} hits");
        }
        println!("{name}: {} start times from {from}, {} places of interrupts", to - from, interrupted.len());
    }
}

/// OP-2, OP-11: with Linux's policy a probe on PowerPC's `bl` is reported as optimised, as Linux does. Linux's detour
/// computes the call with a stale pc once the probe is disabled. We make no such detour: the calls use their
/// breakpoints and return correctly, enabled or disabled.
#[test]
fn calls_that_linux_optimises_on_powerpc_return_correctly() {
    for (arch, name) in jumping_guests().filter(|(arch, _)| matches!(arch, Arch::Ppc | Arch::Ppc64 | Arch::Ppc64le)) {
        let plain = run(&mut session(name, 1));
        let config = Config { record_events: true, ..Config::default() };
        let mut probed = Session::with_policy(kernel(name), &config, Policy::LINUX_6_1).expect("a machine");
        let image = kernel(name);
        let is_call = |address: &u64| {
            let mut bytes = [0; 4];
            image.read(*address, &mut bytes).is_ok() && arch.isa().order.word(&bytes) & 0xfc00_0003 == 0x4800_0001
        };
        let probes: Vec<Kprobe> =
            boundaries(&image).into_iter().filter(is_call).map(|at| Kprobe::at_address(at).pre(|_| Flow::Continue)).collect();
        let probes: Vec<&Kprobe> = probes.iter().filter(|probe| probed.register_kprobe(probe).is_ok()).collect();
        assert!(probes.len() > 100, "{name}: {} calls", probes.len());
        let by_jump = optimise(&mut probed);
        let summary = probed.with_engine(|engine, guest| engine.summary(guest));
        let called = summary.iter().filter(|line| line.optimized).count();
        assert_eq!((called, by_jump), (probes.len(), 0), "{name}: called optimised, and with a jump");
        for probe in probes.iter().step_by(2) {
            probed.with_engine(|engine, guest| engine.disable_kprobe(guest, probe)).expect("it is registered");
        }
        assert_same(name, &plain, &run(&mut probed));
        let hits = |first: usize| probes.iter().skip(first).step_by(2).map(|probe| probe.hits()).sum::<u64>();
        assert!(hits(0) == 0 && hits(1) > 100, "{name}: {} and {} hits", hits(0), hits(1));
    }
}
