//! Requirements of kprobes: which handlers run, in which order, and when not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trapline::machine::{Stop, What};
use trapline::probed::Session;
use trapline_isa::plan::Errno;
use trapline_probes::probe::{Flow, Jprobe, Kprobe};
use trapline_probes::withdraw::Withdrawn;
use trapline_tests::{GUESTS, assert_same, boundaries, entry_of, functions, run, session, stands_alone};

/// The handlers that ran, in order.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<&'static str>>>);

impl Notes {
    fn add(&self, what: &'static str) {
        self.0.lock().expect("no handler panics").push(what);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock().expect("no handler panics"))
    }

    /// A probe at `vfs_read` that notes both its handlers.
    fn probe(&self, pre_name: &'static str, post_name: &'static str, flow: Flow) -> Kprobe {
        let (pre, post) = (self.clone(), self.clone());
        Kprobe::at("vfs_read")
            .pre(move |_| {
                pre.add(pre_name);
                flow
            })
            .post(move |hit| {
                assert_eq!(hit.flags(), 0);
                post.add(post_name);
            })
    }
}

/// Runs the guest until `probe` has been hit this often.
fn until_hit(name: &str, session: &mut Session, probe: &Kprobe, hits: u64) {
    let mut limit = session.machine().now();
    while probe.hits() < hits {
        limit += 500;
        assert_eq!(session.run_until(limit), Stop::Limit, "{name}: {} hits of {probe}", probe.hits());
    }
}

fn register(name: &str, session: &mut Session, probe: &Kprobe) {
    session.register_kprobe(probe).unwrap_or_else(|why| panic!("{name}: {probe}: {why}"));
}

/// KP-2, KP-3: with any combination of handlers the guest's run is the same, and each hit is counted.
#[test]
fn any_handler_may_be_absent() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        let (pre, post) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (pres, posts) = (Arc::clone(&pre), Arc::clone(&post));
        let probes = [
            Kprobe::at("vfs_write"),
            Kprobe::at("sys_open").pre(move |_| {
                pres.fetch_add(1, Ordering::Relaxed);
                Flow::Continue
            }),
            Kprobe::at("vfs_read").post(move |hit| {
                posts.fetch_add(1 + hit.flags(), Ordering::Relaxed);
            }),
            Kprobe::at("do_fork").fault(|_, _| false),
        ];
        probes.iter().for_each(|probe| register(name, &mut session, probe));
        assert_same(name, &plain, &run(&mut session));
        let hits = probes.each_ref().map(Kprobe::hits);
        assert!(hits.iter().all(|hits| *hits > 5), "{name}: {hits:?}");
        assert_eq!((pre.load(Ordering::Relaxed), post.load(Ordering::Relaxed)), (hits[1], hits[2]), "{name}");
    }
}

/// KP-8: several probes at one address run newest first, a jprobe last, and post-handlers in the same order. A
/// redirection skips the older probes, a disabled probe is skipped, and removing one leaves the others.
#[test]
fn probes_at_one_address_run_newest_first() {
    for (_, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        let notes = Notes::default();
        let mirror = notes.clone();
        let jprobe = Jprobe::at("vfs_read").host(move |_| mirror.add("jprobe"));
        session.register_jprobe(&jprobe).unwrap_or_else(|why| panic!("{name}: {why}"));
        let old = notes.probe("pre old", "post old", Flow::Continue);
        let middle = notes.probe("pre middle", "post middle", Flow::Continue);
        let new = notes.probe("pre new", "post new", Flow::Continue);
        [&old, &middle, &new].iter().for_each(|probe| register(name, &mut session, probe));
        until_hit(name, &mut session, &old, 2);
        let all = ["pre new", "pre middle", "pre old", "jprobe", "post new", "post middle", "post old"];
        assert_eq!(notes.take()[..all.len()], all, "{name}");

        session.with_engine(|engine, guest| engine.disable_kprobe(guest, &middle)).unwrap_or_else(|why| panic!("{name}: {why}"));
        session.unregister_kprobe(&new);
        let hits = old.hits();
        until_hit(name, &mut session, &old, hits + 2);
        assert_eq!(notes.take()[..4], ["pre old", "jprobe", "post old", "pre old"], "{name}");
        assert_eq!((new.hits(), middle.hits()), (hits, hits), "{name}");

        // A probe redirects to the next instruction, so no other probe runs.
        let address = old.address().expect("registered");
        let next = boundaries(session.kernel()).into_iter().find(|at| *at > address).expect("an instruction");
        session.unregister_jprobe(&jprobe);
        session.with_engine(|engine, guest| engine.enable_kprobe(guest, &middle)).unwrap_or_else(|why| panic!("{name}: {why}"));
        let (leaves, over) = (notes.clone(), AtomicBool::new(false));
        let redirecting = Kprobe::at("vfs_read").pre(move |hit| {
            leaves.add("redirected");
            // Redirect only once. The instruction is skipped then.
            match over.swap(true, Ordering::Relaxed) {
                true => Flow::Continue,
                false => {
                    hit.set_pc(next);
                    Flow::Redirected
                }
            }
        });
        register(name, &mut session, &redirecting);
        let skipped = old.skipped();
        until_hit(name, &mut session, &redirecting, 1);
        assert_eq!((&notes.take()[..1], old.skipped() - skipped), (&["redirected"][..], 1), "{name}");
    }
}

/// KP-10: a probe inside a guest handler's code runs no handlers. Each such hit counts as a miss, and the code runs.
#[test]
fn a_probe_hit_inside_a_handler_is_missed() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        let jprobe = Jprobe::at("do_fork").guest("jprobe_do_fork");
        session.register_jprobe(&jprobe).unwrap_or_else(|why| panic!("{name}: {why}"));
        let (_, start, size) =
            functions(session.kernel()).into_iter().find(|(name, _, _)| name == "jprobe_do_fork").expect("it is there");
        let ran = Arc::new(AtomicU64::new(0));
        let mut inside = Vec::new();
        for at in boundaries(session.kernel()).into_iter().filter(|at| (start..start + size).contains(at)) {
            let (pre, post) = (Arc::clone(&ran), Arc::clone(&ran));
            let probe = Kprobe::at_address(at)
                .pre(move |_| {
                    pre.fetch_add(1, Ordering::Relaxed);
                    Flow::Continue
                })
                .post(move |_| {
                    post.fetch_add(1, Ordering::Relaxed);
                });
            if stands_alone(&mut session, &probe, at) {
                inside.push(probe);
            }
        }
        assert_same(name, &plain, &run(&mut session));
        let entry = &inside[0];
        assert!(jprobe.hits() > 10 && inside.len() > 5, "{name}: {} hits, {} probes", jprobe.hits(), inside.len());
        assert_eq!((entry.hits(), entry.nmissed()), (0, jprobe.hits()), "{name}");
        assert_eq!((ran.load(Ordering::Relaxed), inside.iter().map(Kprobe::hits).sum::<u64>()), (0, 0), "{name}");
        let counted = session.engine().counts().reentered;
        assert_eq!(inside.iter().map(Kprobe::nmissed).sum::<u64>(), counted, "{name}: each is counted");
        assert_eq!(u64::from(super::seen_by_guest(&session, "jprobes_seen")), jprobe.hits(), "{name}: the handler did its work");
    }
}

/// KP-11, KP-13: the text holds a breakpoint exactly while the probe is enabled. An unregistered probe cannot be
/// enabled or disabled.
#[test]
fn a_probe_can_be_disabled_and_enabled() {
    for (arch, name) in GUESTS.iter() {
        let breakpoint = arch.isa().breakpoint;
        let mut session = session(name, 1);
        let stands = |session: &mut Session, probe: &Kprobe| {
            session.with_engine(|_, guest| {
                let mut bytes = vec![0; breakpoint.len()];
                guest.read_text(probe.address().expect("registered"), &mut bytes).expect("text");
                (arch.isa().is_breakpoint)(probe.address().expect("registered"), &bytes)
            })
        };
        let probe = Kprobe::at("vfs_read").pre(|_| Flow::Continue).post(|_| {}).disabled();
        let clock = Kprobe::at("do_timer_interrupt").pre(|_| Flow::Continue);
        register(name, &mut session, &clock);
        register(name, &mut session, &probe);
        until_hit(name, &mut session, &clock, 5);
        assert_eq!((probe.hits(), probe.nmissed(), stands(&mut session, &probe)), (0, 0, false), "{name}");
        session.with_engine(|engine, guest| engine.enable_kprobe(guest, &probe)).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(stands(&mut session, &probe), "{name}");
        until_hit(name, &mut session, &probe, 3);
        for _ in 0..2 {
            // Disabling twice is no error.
            session
                .with_engine(|engine, guest| engine.disable_kprobe(guest, &probe))
                .unwrap_or_else(|why| panic!("{name}: {why}"));
        }
        let hits = probe.hits();
        let ticks = clock.hits();
        until_hit(name, &mut session, &clock, ticks + 5);
        assert_eq!((probe.hits(), stands(&mut session, &probe), probe.is_disabled()), (hits, false, true), "{name}");
        session.unregister_kprobe(&probe);
        for enable in [true, false] {
            let refused = session.with_engine(|engine, guest| match enable {
                true => engine.enable_kprobe(guest, &probe),
                false => engine.disable_kprobe(guest, &probe),
            });
            assert_eq!(refused.map_err(|refusal| refusal.errno), Err(Errno::EINVAL), "{name}");
        }
    }
}

/// KP-18: no interrupt is taken between the pre-handler and the end of the step, although interrupts become due there.
#[test]
fn no_interrupt_comes_between_trap_and_end_of_step() {
    for (_, name) in GUESTS.iter() {
        for cpus in [1, 2] {
            let mut session = session(name, cpus);
            // For each CPU, whether it is between the two handlers of a probe.
            let between = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let mut probes = Vec::new();
            let handler = functions(session.kernel()).into_iter().find(|(name, _, _)| name == "do_timer_interrupt");
            let (_, handler, _) = handler.expect("it is there");
            let clock_between = Arc::clone(&between);
            let clock = Kprobe::at_address(handler).pre(move |hit| {
                assert!(!clock_between[hit.cpu()].load(Ordering::Relaxed), "an interrupt was taken inside a step");
                Flow::Continue
            });
            register(name, &mut session, &clock);
            let wanted = ["fibonacci", "ackermann", "quicksort", "vfs_read", "run_bytecode", "mix", "doze"];
            let ranges: Vec<_> = functions(session.kernel())
                .into_iter()
                .filter(|(name, _, _)| wanted.contains(&name.as_str()))
                .map(|(_, start, size)| start..start + size)
                .collect();
            for at in boundaries(session.kernel()).into_iter().filter(|at| ranges.iter().any(|range| range.contains(at))) {
                let (begins, faults, ends) = (Arc::clone(&between), Arc::clone(&between), Arc::clone(&between));
                let probe = Kprobe::at_address(at)
                    // After a fault the instruction is hit again, once the guest has mapped the memory.
                    .fault(move |hit, _| {
                        faults[hit.cpu()].store(false, Ordering::Relaxed);
                        false
                    })
                    .pre(move |hit| {
                        assert!(!begins[hit.cpu()].swap(true, Ordering::Relaxed), "the step before has not ended");
                        Flow::Continue
                    })
                    .post(move |hit| {
                        assert!(ends[hit.cpu()].swap(false, Ordering::Relaxed), "an end without a beginning");
                    });
                // Refusals are tested elsewhere.
                if stands_alone(&mut session, &probe, at) {
                    probes.push(probe);
                }
            }
            let seen = run(&mut session);
            assert_eq!(seen.stop, Stop::PowerOff(0), "{name}");
            let due = seen.happenings.iter().filter(|happening| matches!(happening.what, What::Interrupt(_)));
            let due = due.filter(|happening| ranges.iter().any(|range| range.contains(&happening.pc))).count();
            let hits: u64 = probes.iter().map(Kprobe::hits).sum();
            assert!(due > 3 && hits > 1000, "{name}, {cpus} CPUs: {due} interrupts in the probed code, {hits} hits");
            assert!(clock.hits() > 50, "{name}");
        }
    }
}

/// KP-13: the guest's own breakpoint of the probed instruction's length is shared, and stays behind the probe.
#[test]
fn a_guests_breakpoint_of_any_length_is_shared() {
    for (arch, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        let at = entry_of(&mut session, "vfs_read");
        let probe = Kprobe::at_address(at).pre(|_| Flow::Continue);
        let mut original = vec![0; arch.isa().longest.max(arch.isa().group as usize)];
        session.with_engine(|_, guest| guest.read_text(at, &mut original)).expect("text");
        let insn = (arch.isa().decode)(at, &original).unwrap_or_else(|why| panic!("{name}: {why:?}"));
        let theirs = (arch.isa().breakpoint_over)(&insn);
        session.register_kprobe(&probe).unwrap_or_else(|why| panic!("{name}: {why}"));
        session.with_engine(|engine, guest| {
            engine.withdraw(guest, Withdrawn::everywhere());
            guest.patch_text(at, &theirs).expect("text");
            engine.withdraw(guest, Withdrawn::default());
            let line = engine.summary(guest).into_iter().find(|line| line.address == at).expect("it is registered");
            assert!(line.shared && line.waits.is_none(), "{name}: {:?}", line.waits);
            engine.unregister_kprobe(guest, &probe);
            let mut now = vec![0; theirs.len()];
            guest.read_text(at, &mut now).expect("text");
            assert_eq!(now, *theirs, "{name}: it is the guest's");
        });
    }
}
