//! Bad input: kernels, places and events that make no sense, and guests that crash or hang. Each ends with a message;
//! nothing panics.
//!
//! `damaged.rs` tests damaged kernels. `emu/tests/command_line.rs` tests the command line's messages and exit status.

use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_isa::plan::Errno;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::facts::facts;
use trapline_tests::{GUESTS, kernel, run, session, session_with};

/// The description of a request, the probe, the expected error, and a word that its text must contain.
type Case = (&'static str, fn() -> Kprobe, Errno, &'static str);

/// KP-4, KP-5, KP-15: probes that a real kernel refuses are refused with the errno and a helpful message.
#[test]
fn places_that_cannot_be_probed_are_refused_with_a_reason() {
    #[rustfmt::skip]
    let cases: &[Case] = &[
        ("a name that no symbol has",   || Kprobe::at("vfs_raed"),                          Errno::ENOENT, "vfs_read"),
        ("inside an instruction",       || Kprobe::at("vfs_read").offset(3),                Errno::EILSEQ, "vfs_read+0x0"),
        ("a blacklisted section",       || Kprobe::at("do_int3"),                           Errno::EINVAL, "blacklisted"),
        ("blacklisted by name",         || Kprobe::at("count_blacklisted_calls"),           Errno::EINVAL, "blacklisted"),
        ("both symbol and address",     || Kprobe::at("vfs_read").with_address(0x1000),     Errno::EINVAL, "both"),
        ("neither",                     Kprobe::new,                                        Errno::EINVAL, "neither"),
        ("data",                        || Kprobe::at("jprobes_seen"),                      Errno::EINVAL, "text"),
        ("no symbol there",             || Kprobe::at_address(0x10),                        Errno::ENOENT, "symbol"),
    ];
    for (arch, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        for (what, probe, errno, word) in cases {
            let refusal = session.register_kprobe(&probe().pre(|_| Flow::Continue)).expect_err(what);
            let of_boundaries = *errno == Errno::EILSEQ;
            let errno = if of_boundaries { arch.isa().linux.boundary_errno } else { *errno };
            assert_eq!(refusal.errno, errno, "{name}: {what}: {refusal}");
            let word = if of_boundaries && arch.isa().alignment > 1 { "multiple" } else { word };
            assert!(refusal.why.contains(word), "{name}: {what}: {refusal}");
        }
        let middle = Kretprobe::on(Kprobe::at("vfs_read").offset(4)).handler(|_| {});
        assert_eq!(session.register_kretprobe(&middle).map_err(|refusal| refusal.errno), Err(Errno::EINVAL), "{name}");
    }
}

/// A guest that crashes, panics or hangs ends its run with the reason, at the latest at the time limit. Its state can
/// be read afterwards.
#[test]
fn guests_that_crash_or_hang_end_with_a_reason() {
    for (arch, name) in GUESTS.iter() {
        let facts = facts(*arch);
        let end = |command_line: &str| {
            let config = Config { command_line: command_line.into(), ..Config::default() };
            let mut session = session_with(name, &config);
            let probe = Kprobe::at("vfs_read").pre(|_| Flow::Continue);
            session.register_kprobe(&probe).expect("it may be probed");
            let stop = session.run_until(3_000_000);
            let report = session.report();
            // The pc itself may be 0: RISC-V enters its handler at the base of the vectors, which this guest has set to 0.
            let has_pc = report.registers.iter().any(|(register, _)| *register == facts.pc);
            assert!(has_pc && report.registers.iter().any(|(_, value)| *value != 0), "{name}, {command_line}");
            (stop, report.cpus[0].1.clone(), report.calls.len())
        };
        let (stop, place, _) = end("crash=1");
        assert!(matches!(&stop, Stop::Dead(why) if why.contains(facts.past_help.0)), "{name}: {stop:?}");
        assert!(place.starts_with(facts.past_help.1), "{name}: {place}");
        let (stop, place, calls) = end("spin=1");
        assert_eq!(stop, Stop::Limit, "{name}");
        assert!(place.starts_with("do_what_tests_want") && calls > 1, "{name}: {place}");
        assert_eq!(end("oops=1").0, Stop::Panic(Box::new(Stop::PowerOff(1))), "{name}");
    }
}

/// An impossible machine is refused with a message.
#[test]
fn machines_that_cannot_be_are_refused() {
    let (_, name) = GUESTS[0];
    let refuse = |config: Config| match Session::new(kernel(name), &config) {
        Ok(_) => panic!("{config:?} was accepted"),
        Err(error) => error.to_string(),
    };
    assert!(refuse(Config { cpus: 0, ..Config::default() }).contains("1 to 2 CPUs"));
    assert!(refuse(Config { cpus: 99, ..Config::default() }).contains("99 CPUs"));
    assert!(refuse(Config { command_line: "x".repeat(10_000), ..Config::default() }).contains("command line"));
}

/// KP-1: if the window is full, registration fails with a message and changes nothing.
#[test]
fn a_full_window_refuses_further_probes() {
    let (_, name) = GUESTS[0];
    let mut session = session_with(name, &Config { window: 1, ..Config::default() });
    let mut refused = None;
    // The smallest window holds tens of thousands of probes, more than the kernel has instructions: fill it by hand.
    session.with_engine(|_, guest| while guest.window_take(0, 64).is_some() {});
    let probe = Kprobe::at("vfs_read").pre(|_| Flow::Continue);
    if let Err(refusal) = session.register_kprobe(&probe) {
        refused = Some(refusal.errno);
    }
    assert_eq!(refused, Some(Errno::ENOMEM));
    assert_eq!(run(&mut session).stop, Stop::PowerOff(0));
}
