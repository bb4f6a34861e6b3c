//! Requirements of optimised probes: the causes that remove a jump, and its return afterwards.

use trapline::machine::Stop;
use trapline::probed::Session;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Jprobe, Kprobe};
use trapline_tests::{assert_same, boundaries, entry_of, functions, jumping_guests, run, session};

/// The text at the probe's address, of the length of a jump.
fn text(session: &mut Session, probe: &Kprobe, length: usize) -> Vec<u8> {
    session.with_engine(|_, guest| {
        let mut bytes = vec![0; length];
        guest.read_text(probe.address().expect("registered"), &mut bytes).expect("text");
        bytes
    })
}

fn mode(session: &mut Session, probe: &Kprobe) -> Option<Mode> {
    let summary = session.with_engine(|engine, guest| engine.summary(guest));
    summary.into_iter().find(|line| Some(line.address) == probe.address()).map(|line| line.mode)
}

/// A frequently called function whose jump covers a second instruction that can be probed, and that instruction's
/// address.
fn place(name: &str, jump_length: u64) -> Option<(String, u64)> {
    let mut session = session(name, 1);
    session.with_engine(|engine, _| engine.set_optimization_delay(0));
    let boundaries = boundaries(session.kernel());
    // On ISAs whose jump is one instruction long, a jump covers nothing else.
    for (function, start, _) in functions(session.kernel()) {
        let under = boundaries.iter().copied().find(|at| *at > start && *at < start + jump_length);
        let probe = Kprobe::at_address(start).pre(|_| Flow::Continue);
        if !["vfs_read", "vfs_write", "sys_open", "do_sys_open", "schedule", "mix", "tcp_v4_rcv"].contains(&function.as_str())
            || session.register_kprobe(&probe).is_err()
        {
            continue;
        }
        if mode(&mut session, &probe) == Some(Mode::Optimized) {
            return Some((function, under.or(probe.address())?));
        }
    }
    None
}

type Change = Box<dyn Fn(&mut Session)>;

/// A name, whether a breakpoint stays, and the functions that make and remove the obstacle.
type Obstacle = (&'static str, bool, Change, Change);

/// The obstacles to the jump of a probe on a function. `under` is an instruction under the jump other than the first.
fn obstacles(function: &str, under: Option<u64>, probe: &Kprobe) -> Vec<Obstacle> {
    let post = Kprobe::at(function).post(|_| {});
    let jprobe = Jprobe::at(function).host(|_| {});
    let change =
        |change: fn(&mut Session, &Kprobe), probe: Kprobe| -> Change { Box::new(move |session| change(session, &probe)) };
    let register = |session: &mut Session, probe: &Kprobe| session.register_kprobe(probe).expect("may be probed");
    let unregister = |session: &mut Session, probe: &Kprobe| session.unregister_kprobe(probe);
    let disable = |session: &mut Session, probe: &Kprobe| {
        session.with_engine(|engine, guest| engine.disable_kprobe(guest, probe)).expect("it is registered");
    };
    let enable = |session: &mut Session, probe: &Kprobe| {
        session.with_engine(|engine, guest| engine.enable_kprobe(guest, probe)).expect("it is registered");
    };
    let mut causes: Vec<Obstacle> = vec![
        ("a post-handler", true, change(register, post.clone()), change(unregister, post.clone())),
        (
            "a jprobe",
            true,
            Box::new({
                let jprobe = jprobe.clone();
                move |session| session.register_jprobe(&jprobe).expect("a function")
            }),
            Box::new(move |session| session.unregister_jprobe(&jprobe)),
        ),
        ("disabling", false, change(disable, probe.clone()), change(enable, probe.clone())),
        (
            "the knob",
            true,
            Box::new(|session| session.with_engine(|engine, guest| engine.set_optimization(guest, false))),
            Box::new(|session| session.with_engine(|engine, guest| engine.set_optimization(guest, true))),
        ),
        (
            "the global switch",
            false,
            Box::new(|session| session.with_engine(|engine, guest| engine.set_enabled(guest, false))),
            Box::new(|session| session.with_engine(|engine, guest| engine.set_enabled(guest, true))),
        ),
    ];
    if let Some(under) = under {
        let inside = Kprobe::at_address(under).pre(|_| Flow::Continue);
        causes.push(("a probe under it", true, change(register, inside.clone()), change(unregister, inside.clone())));
    }
    causes
}

/// OP-5, OP-8, KP-13: while an obstacle exists there is a breakpoint or nothing, and the rest of the text is original.
/// When it ends, the jump comes back. The guest's run is the same throughout.
#[test]
fn a_temporary_obstacle_removes_the_jump_for_its_duration() {
    for (arch, name) in jumping_guests() {
        let (isa, plain) = (arch.isa(), run(&mut session(name, 1)));
        let length = isa.detour.map_or(0, |detour| detour.jump_length);
        let (function, under) = place(name, length).unwrap_or_else(|| panic!("{name}: no function has a jump"));
        let mut session = session(name, 1);
        session.with_engine(|engine, _| engine.set_optimization_delay(1000));
        let probe = Kprobe::at(function.as_str()).pre(|_| Flow::Continue);
        let at = entry_of(&mut session, &function);
        let mut original = vec![0; length as usize];
        session.with_engine(|_, guest| guest.read_text(at, &mut original)).expect("text");
        session.register_kprobe(&probe).unwrap_or_else(|why| panic!("{name}: {why}"));

        let mut until = 0;
        let mut go_on = |session: &mut Session| {
            until += 60_000;
            assert_eq!(session.run_until(until), Stop::Limit, "{name}");
        };
        let causes = obstacles(&function, (under != at).then_some(under), &probe);
        let first = (isa.decode)(at, &original).unwrap_or_else(|why| panic!("{name}: {why:?}"));
        let breakpoint = (isa.breakpoint_over)(&first);
        for (what, is_armed, come, go) in &causes {
            // A CPU or a task under the jump may delay it for a while.
            let mut rounds = 0;
            while mode(&mut session, &probe) != Some(Mode::Optimized) {
                go_on(&mut session);
                rounds += 1;
                assert!(rounds < 30, "{name}: no jump before {what}");
            }
            let jump = text(&mut session, &probe, length as usize);
            assert_ne!(jump, original, "{name}: the jump is in the text");
            come(&mut session);
            let now = text(&mut session, &probe, length as usize);
            assert_ne!(mode(&mut session, &probe), Some(Mode::Optimized), "{name}: {what}");
            if *is_armed {
                assert_eq!(now[..breakpoint.len()], *breakpoint, "{name}: {what} leaves the breakpoint");
            } else {
                assert_eq!(now, original, "{name}: {what} leaves nothing");
            }
            if *what != "a probe under it" {
                assert_eq!(now[breakpoint.len()..], original[breakpoint.len()..], "{name}: {what}");
            }
            go_on(&mut session);
            assert_ne!(mode(&mut session, &probe), Some(Mode::Optimized), "{name}: {what} keeps it away");
            go(&mut session);
        }
        session.unregister_kprobe(&probe);
        session.with_engine(|_, guest| {
            let mut bytes = vec![0; length as usize];
            guest.read_text(at, &mut bytes).expect("text");
            assert_eq!(bytes, original, "{name}");
        });
        assert_same(name, &plain, &run(&mut session));
        assert!(probe.hits() > 5, "{name}");
    }
}
