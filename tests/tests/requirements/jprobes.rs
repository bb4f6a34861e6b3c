//! Requirements of jprobes: registration, handlers and removal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trapline::machine::Stop;
use trapline::probed::Session;
use trapline_isa::call::Type;
use trapline_isa::plan::Errno;
use trapline_probes::probe::{Jprobe, Kprobe};
use trapline_tests::{GUESTS, assert_same, boundaries, run, session};

/// JP-4: jprobes are registered, enabled, disabled and removed one by one and in batches, while the guest runs. A batch
/// with an error leaves nothing behind.
#[test]
fn jprobes_can_be_changed_while_the_guest_runs() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        let mut until = 0;
        let mut go_on = |session: &mut Session| {
            until += 150_000;
            assert_eq!(session.run_until(until), Stop::Limit, "{name}");
        };
        let ran = Arc::new(AtomicU64::new(0));
        let host = |at: &str| {
            let count = Arc::clone(&ran);
            Jprobe::at(at).host(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
        };
        let mut batch = vec![
            host("vfs_write"),
            host("schedule_timeout"),
            Jprobe::at("vfs_read").guest("jprobe_vfs_read"),
            Jprobe::at("schedule"),
        ];
        let refused = session.with_engine(|engine, guest| engine.register_jprobes(guest, &batch));
        assert_eq!(refused.map_err(|refusal| refusal.errno), Err(Errno::EINVAL), "{name}: the last has no handler");
        assert!(session.with_engine(|engine, guest| engine.list(guest)).is_empty(), "{name}");
        batch.pop();
        session.with_engine(|engine, guest| engine.register_jprobes(guest, &batch)).unwrap_or_else(|why| panic!("{name}: {why}"));
        let hits = |batch: &[Jprobe]| batch.iter().map(Jprobe::hits).collect::<Vec<_>>();
        go_on(&mut session);
        let first = hits(&batch);
        session
            .with_engine(|engine, guest| engine.disable_jprobe(guest, &batch[0]))
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        session.unregister_jprobe(&batch[1]);
        go_on(&mut session);
        let second = hits(&batch);
        assert!(first[0] > 0 && first[2] > 0 && second[2] > first[2], "{name}: {first:?}, {second:?}");
        assert_eq!(second[..2], first[..2], "{name}: disabled, and gone");
        session.with_engine(|engine, guest| engine.enable_jprobe(guest, &batch[0])).unwrap_or_else(|why| panic!("{name}: {why}"));
        go_on(&mut session);
        let third = hits(&batch);
        assert!(third[0] > second[0], "{name}: {second:?}, {third:?}");
        session.with_engine(|engine, guest| engine.unregister_jprobes(guest, &batch));
        assert!(session.with_engine(|engine, guest| engine.list(guest)).is_empty(), "{name}");
        assert_same(name, &plain, &run(&mut session));
        assert_eq!(ran.load(Ordering::Relaxed), third[0] + third[1], "{name}: each hit ran the handler once");
    }
}

/// JP-3: places that a jprobe cannot be at, and things that cannot be its handler.
#[test]
fn bad_jprobe_places_and_handlers_are_refused() {
    for (_, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        let address = |session: &Session, symbol: &str| session.kernel().symbols.address_of(symbol).expect("a symbol");
        let entry = address(&session, "vfs_read");
        let middle = boundaries(session.kernel()).into_iter().find(|at| *at > entry).expect("an instruction");
        let data = address(&session, "jprobes_seen");
        #[rustfmt::skip]
        let cases = [
            ("inside a function",      Jprobe::at_address(middle).host(|_| {}),                       Errno::EINVAL, "not the first instruction"),
            ("without a handler",      Jprobe::at("vfs_read"),                                        Errno::EINVAL, "without a handler"),
            ("an unknown handler",     Jprobe::at("vfs_read").guest("no_such_handler"),               Errno::EINVAL, "no symbol"),
            ("a handler's middle",     Jprobe::at("vfs_read").guest_address(middle),                  Errno::EINVAL, "not the first instruction"),
            ("data as a handler",      Jprobe::at("vfs_read").guest_address(data),                    Errno::EINVAL, "no code"),
            ("an empty end range",     Jprobe::at("vfs_read").guest("jprobe_vfs_read").returns_in(0..0), Errno::EINVAL, "never end"),
            ("a blacklisted function", Jprobe::at("count_blacklisted_calls").host(|_| {}),            Errno::EINVAL, "blacklisted"),
            ("an unknown function",    Jprobe::at("no_such_function").host(|_| {}),                   Errno::ENOENT, "no_such_function"),
            ("both names",             Jprobe::on(Kprobe::at("vfs_read").with_address(entry)).host(|_| {}), Errno::EINVAL, ""),
        ];
        for (what, probe, errno, words) in cases {
            let refusal = session.register_jprobe(&probe).expect_err(what);
            assert!(refusal.errno == errno && refusal.why.contains(words), "{name}, {what}: {refusal}");
        }
        assert!(session.with_engine(|engine, guest| engine.list(guest)).is_empty(), "{name}");
    }
}

/// JP-2: arguments by type: 64 bits in two 32-bit words, and sign extension.
#[test]
fn a_host_handler_gets_typed_arguments() {
    // exit_inside(u32 depth, u64 sum, int for_good)
    const TYPES: &[Type] = &[Type::Unsigned(4), Type::Unsigned(8), Type::Signed(4)];
    let mut first: Option<Vec<[u64; 3]>> = None;
    for (_, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let probe = Jprobe::at("exit_inside").host(move |hit| {
            let arguments = [0, 1, 2].map(|number| hit.typed_arg(TYPES, number));
            notes.lock().expect("no handler panics").push(arguments);
        });
        session.register_jprobe(&probe).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(run(&mut session).stop, Stop::PowerOff(0), "{name}");
        let mut seen = std::mem::take(&mut *seen.lock().expect("no handler panics"));
        // The order of the tasks depends on the ISA.
        seen.sort_unstable();
        assert!(seen.len() > 8 && seen.iter().any(|[_, sum, _]| *sum >> 32 != 0), "{name}: {seen:x?}");
        assert!(seen.iter().all(|[depth, _, for_good]| *depth < 4 && *for_good < 2), "{name}: {seen:x?}");
        let expected = first.get_or_insert_with(|| seen.clone());
        assert_eq!(seen, *expected, "{name}: the same arguments as on the first ISA");
    }
}
