//! Tests of the registration's address checks: each errno equals Linux 6.1's, and each message helps.

use crate::guest::Site;
use crate::probe::{Jprobe, Kprobe, Kretprobe};
use crate::toy::guest::{DATA, INIT, TEXT};
use crate::toy::isa::{BASE, TOY};
use crate::toy::{Op, ToyGuest, sample};
use crate::{Engine, Errno, Policy, Refusal};
use alloc::vec::Vec;
use trapline_isa::arch::Isa;
use trapline_isa::linux::Linux;

fn new() -> (ToyGuest, Engine) {
    (sample::kernel(1), Engine::new(&TOY, 1))
}

/// KP-4, KP-5, KP-15
#[test]
fn registration_refuses_what_linux_refuses() {
    let at = Kprobe::at;
    #[rustfmt::skip]
    let cases = [
        // what is asked                      where                                     answer, and words of its
        // sentence
        ("a function's entry",                at("vfs_read"),                           Ok(())),
        ("an instruction inside it",          at("vfs_read").offset(3),                 Ok(())),
        ("by address",                        Kprobe::at_address(TEXT),                 Ok(())),
        ("by address and offset",             Kprobe::at_address(TEXT).offset(6),       Ok(())),
        ("init text",                         Kprobe::at_address(INIT),                 Ok(())),
        ("an entry behind a landing pad",     at("landing"),                            Ok(())),
        ("an ftrace site",                    at("tail"),                               Ok(())),
        ("both symbol and address",           at("vfs_read").with_address(TEXT),        Err((Errno::EINVAL, "give one of them"))),
        ("neither",                           Kprobe::new(),                            Err((Errno::EINVAL, "neither"))),
        ("a name that no symbol has",         at("vfs_raed"),                           Err((Errno::ENOENT, "did you mean `vfs_read`?"))),
        ("a name like no other",              at("xyz"),                                Err((Errno::ENOENT, "trapline symbols"))),
        ("an address in no symbol",           Kprobe::at_address(0x4f00),               Err((Errno::ENOENT, "no function"))),
        ("an offset out of all symbols",      at("vfs_read").offset(0x3f00),            Err((Errno::ENOENT, "no function"))),
        ("data",                              Kprobe::at_address(DATA.start),           Err((Errno::EINVAL, "not in the text"))),
        ("the middle of an instruction",      at("vfs_read").offset(4),                 Err((Errno::EILSEQ, "vfs_read+0x3 and vfs_read+0x6"))),
        ("a blacklisted function",            at("probe_core"),                         Err((Errno::EINVAL, "blacklisted as part of probe_core"))),
        ("the middle of one",                 at("probe_core").offset(1),               Err((Errno::EINVAL, "probe_core+0x1 is blacklisted"))),
        ("the compiler's part of one",        at("probe_core.constprop.0"),             Err((Errno::EINVAL, "as part of probe_core"))),
        ("padding",                           at("__pfx_vfs_read"),                     Err((Errno::EINVAL, "padding"))),
        ("a trapping instruction",            at("traps"),                              Err((Errno::EOPNOTSUPP, "out of line"))),
        ("a foreign breakpoint",              at("own_breakpoint"),                     Err((Errno::EINVAL, "not ours"))),
        ("a gate page",                       at("recurse"),                            Err((Errno::EINVAL, "user space"))),
        ("a static key",                      at("outer"),                              Err((Errno::EINVAL, "static key"))),
        ("a static call",                     at("fill"),                               Err((Errno::EINVAL, "static call"))),
        ("a BUG()",                           at("helper"),                             Err((Errno::EINVAL, "BUG()"))),
        ("a LOCK prefix",                     at("vfs_write"),                          Err((Errno::EINVAL, "LOCK prefix"))),
        ("a constant behind a function",      at("stdcall"),                            Err((Errno::EINVAL, "data among the code"))),
    ];
    for (what, probe, expected) in cases {
        let (mut guest, mut engine) = new();
        for (name, site) in [
            ("tail", Site::Ftrace),
            ("recurse", Site::Gate),
            ("outer", Site::JumpLabel),
            ("fill", Site::StaticCall),
            ("helper", Site::Bug),
            ("vfs_write", Site::SmpLock),
            ("stdcall", Site::Data),
        ] {
            guest.sites.insert(guest.address(name), site);
        }
        let text = guest.text_bytes();
        let answer = engine.register_kprobe(&mut guest, &probe);
        match (&answer, expected) {
            (Ok(()), Ok(())) => assert_ne!(guest.text_bytes(), text, "{what}: the text after it"),
            (Err(refusal), Err((errno, words))) => {
                assert_eq!(refusal.errno, errno, "{what}: {refusal}");
                assert!(refusal.why.contains(words), "{what}: {refusal}");
                assert_eq!(guest.text_bytes(), text, "{what}: the text after it");
                assert!(guest.window.is_empty(), "{what}: a slot was left");
                assert!(engine.summary(&guest).is_empty(), "{what}");
            }
            _ => panic!("{what}: {answer:?}, not {expected:?}"),
        }
    }
}

/// KP-5: Linux does not check instruction boundaries in some code, such as Thumb. The Linux policy does not either,
/// ours does.
#[test]
fn boundaries_are_checked_where_the_policy_does() {
    static LOOKS_FOR_NONE: Isa = Isa { linux: Linux { finds_boundaries: false, ..BASE.linux }, ..BASE };
    // The last byte of an instruction, first as an immediate, then patched to look like an instruction.
    let middle = Kprobe::at("vfs_read").offset(5);
    for (isa, policy, expected) in [
        (&TOY, Policy::LINUX_6_1, Err(Errno::EILSEQ)),
        (&LOOKS_FOR_NONE, Policy::LINUX_6_1, Ok(())),
        (&LOOKS_FOR_NONE, Policy::Best, Err(Errno::EILSEQ)),
    ] {
        let (mut guest, mut engine) = (sample::kernel(1), Engine::new(isa, 1).with_policy(policy));
        let nop = *guest.peek(guest.address("outer"), 1).first().expect("a nop");
        guest.poke(guest.address("vfs_read") + 5, &[nop]);
        let answer = engine.register_kprobe(&mut guest, &middle).map_err(|refusal| refusal.errno);
        assert_eq!(answer, expected, "{policy:?}");
    }
}

/// KP-4: for an address with two faults, Linux's order of checks decides the errno.
#[test]
fn the_first_failing_check_decides_the_errno() {
    let (mut guest, mut engine) = new();
    guest.sites.insert(guest.address("vfs_read") + 4, Site::Bug);
    let twice = Kprobe::at("vfs_read").offset(4);
    let refusal = engine.register_kprobe(&mut guest, &twice).expect_err("inside an instruction, and a BUG()");
    assert_eq!(refusal.errno, Errno::EINVAL, "sites come before boundaries: {refusal}");
    guest.sites.clear();
    engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read")).expect("may be probed");
    let refusal = engine.register_kprobe(&mut guest, &twice).expect_err("inside an instruction");
    assert_eq!(refusal.errno, Errno::EILSEQ);
}

/// KP-5: boundaries are those of the original text, even if other probes stand before the address.
#[test]
fn earlier_probes_do_not_hide_the_boundaries() {
    let (mut guest, mut engine) = new();
    let probes = [0, 3, 6, 11, 14].map(|offset| Kprobe::at("vfs_read").offset(offset));
    engine.register_kprobes(&mut guest, &probes).expect("each is on a boundary");
    let mut original = [0; 15];
    engine.read_original(&guest, guest.address("vfs_read"), &mut original).expect("it is text");
    assert_eq!(original, *sample::kernel(1).peek(guest.address("vfs_read"), 15));
    for offset in 0..15 {
        let answer = engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read").offset(offset)).map_err(|refusal| refusal.errno);
        let expected = if [0, 3, 6, 11, 14].contains(&offset) { Ok(()) } else { Err(Errno::EILSEQ) };
        assert_eq!(answer, expected, "+{offset}");
    }
}

/// KP-5: boundaries are computed from the present text, not from a cached one.
#[test]
fn changed_text_is_decoded_again() {
    let (mut guest, mut engine) = new();
    let inside = Kprobe::at("vfs_read").offset(4);
    let refusal = engine.register_kprobe(&mut guest, &inside).expect_err("inside an instruction");
    assert_eq!(refusal.errno, Errno::EILSEQ);
    let nop = Op::Nop.encode(0, |_| 0);
    guest.poke(guest.address("vfs_read") + 3, &nop.repeat(3 / nop.len()));
    engine.register_kprobe(&mut guest, &inside).expect("an instruction begins there now");
}

/// KP-4: a function with a landing pad has its entry after the pad. A probe at either is at the entry.
#[test]
fn a_probe_at_a_landing_pad_moves_to_the_entry() {
    let (mut guest, mut engine) = new();
    let entry = guest.address("landing") + 2;
    let (pad, behind) = (Kprobe::at("landing"), Kretprobe::at_address(entry));
    engine.register_kprobe(&mut guest, &pad).expect("a function");
    engine.register_kretprobe(&mut guest, &behind).expect("the entry counts as one");
    assert_eq!([pad.address(), behind.kprobe().address()], [Some(entry); 2]);
}

/// KP-4
#[test]
fn a_probe_object_can_be_registered_only_once() {
    let (mut guest, mut engine) = new();
    for probe in [Kprobe::at("vfs_read"), Kprobe::at_address(TEXT).offset(6)] {
        engine.register_kprobe(&mut guest, &probe).expect("new");
        let address = probe.address();
        let refusal = engine.register_kprobe(&mut guest, &probe.clone()).expect_err("the same object");
        assert_eq!((refusal.errno, refusal.why.contains("already")), (Errno::EINVAL, true));
        engine.disable_kprobe(&mut guest, &probe).expect("it is registered");
        engine.unregister_kprobe(&mut guest, &probe);
        engine.register_kprobe(&mut guest, &probe).expect("it may come back");
        assert_eq!((probe.address(), probe.is_disabled()), (address, false), "at the same place, and as it was made");
        engine.unregister_kprobe(&mut guest, &probe);
    }
    assert_eq!(guest.text_bytes(), sample::kernel(1).text_bytes());
}

/// KP-12
#[test]
fn a_batch_is_registered_entirely_or_not_at_all() {
    let (mut guest, mut engine) = new();
    let text = guest.text_bytes();
    let good = |symbol: &str| Kprobe::at(symbol);
    let batch = [good("vfs_read"), good("helper"), good("vfs_raed"), good("tail")];
    let refusal = engine.register_kprobes(&mut guest, &batch).expect_err("the third is no symbol");
    assert_eq!((refusal.errno, guest.text_bytes()), (Errno::ENOENT, text.clone()));
    assert!(engine.summary(&guest).is_empty());
    assert_eq!(batch[3].address(), None, "later ones were not looked at");
    let returns = [Kretprobe::at("vfs_read"), Kretprobe::at("__switch_to")];
    assert_eq!(engine.register_kretprobes(&mut guest, &returns).expect_err("a stack switch").errno, Errno::EINVAL);
    let mirrors = [Jprobe::at("vfs_read").host(|_| {}), Jprobe::at("vfs_read").host(|_| {})];
    assert_eq!(engine.register_jprobes(&mut guest, &mirrors).expect_err("two on one function").errno, Errno::EEXIST);
    assert_eq!(guest.text_bytes(), text);
    assert_eq!(engine.register_kprobes(&mut guest, &[]).expect_err("nothing").errno, Errno::EINVAL);
}

/// KP-12
#[test]
fn a_batch_removal_accepts_unknown_probes_and_waits_once() {
    let (mut guest, mut engine) = new();
    let text = guest.text_bytes();
    let offsets = [0, 3, 6, 11, 14];
    let probes = offsets.map(|offset| Kprobe::at("vfs_read").offset(offset));
    engine.register_kprobes(&mut guest, &probes).expect("all may be probed");
    let stranger = Kprobe::at_address(TEXT);
    let mut batch = probes.to_vec();
    batch.insert(2, stranger.clone());
    guest.looks.set(0);
    engine.unregister_kprobes(&mut guest, &batch);
    assert_eq!((guest.looks.get(), stranger.address()), (1, None), "one wait for all, and the wrong one's address is cleared");
    assert_eq!((guest.text_bytes(), engine.slots_in_use_by_leavers()), (text, 0));
    assert_eq!(engine.register_kprobe(&mut guest, &stranger).expect_err("it has no place any more").errno, Errno::EINVAL);

    engine.register_kprobes(&mut guest, &probes).expect("all may be probed");
    guest.looks.set(0);
    probes.iter().for_each(|probe| engine.unregister_kprobe(&mut guest, probe));
    assert_eq!(guest.looks.get(), offsets.len(), "one by one each waits");
}

/// KP-15
#[test]
fn the_user_can_add_to_the_blacklist() {
    let (mut guest, mut engine) = new();
    let start = guest.address("vfs_read");
    engine.blacklist_add(start..start + 16, "vfs_read");
    let refusal = engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read").offset(3)).expect_err("the user forbade it");
    assert_eq!((refusal.errno, refusal.why.contains("as part of vfs_read")), (Errno::EINVAL, true));
}

#[test]
fn a_full_window_is_refused_with_enomem() {
    let (mut guest, mut engine) = new();
    while crate::guest::Guest::window_take(&mut guest, 0, 32).is_some() {}
    let text = guest.text_bytes();
    let refusals = [
        engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read")),
        engine.register_kretprobe(&mut guest, &Kretprobe::at("vfs_read")),
        engine.register_jprobe(&mut guest, &Jprobe::at("vfs_read").guest("handler")),
    ]
    .map(|answer| answer.expect_err("no room").errno);
    assert_eq!((refusals, guest.text_bytes()), ([Errno::ENOMEM; 3], text));
}

/// KP-4, KP-15: with Linux's policy a probe by name is placed where Linux places it, at the ftrace call if there is
/// one. Return probes and addresses are not moved. On ISAs without kprobes on ftrace such a place is refused.
#[test]
fn a_probe_by_name_is_placed_where_linux_places_it() {
    fn named(beginning: &trapline_isa::entry::Beginning<'_>) -> u64 {
        if (beginning.is_ftrace)(2) { 2 } else { 1 }
    }
    const ENTRY: trapline_isa::entry::Entry = |_, asked, _| (asked <= 2).then_some(asked);
    static NAMES: Isa = Isa { entry: ENTRY, linux: Linux { named_entry: named, ..BASE.linux }, ..BASE };
    static CARRIES_NONE: Isa =
        Isa { entry: ENTRY, linux: Linux { named_entry: named, ftrace_carries: false, ..BASE.linux }, ..BASE };
    let functions: &[(&str, &[Op])] = &[("main", &[Op::Halt]), ("f", &[Op::Nop, Op::Nop, Op::Nop, Op::Nop, Op::Ret])];
    for (isa, policy, is_ftrace, expected) in [
        (&NAMES, Policy::LINUX_6_1, true, [Ok(2), Ok(0), Ok(1)]),
        (&NAMES, Policy::LINUX_6_1, false, [Ok(1), Ok(0), Ok(1)]),
        (&NAMES, Policy::Best, true, [Ok(0), Ok(0), Ok(0)]),
        (&CARRIES_NONE, Policy::LINUX_6_1, true, [Err(Errno::EINVAL), Ok(0), Ok(1)]),
        (&CARRIES_NONE, Policy::Best, true, [Ok(0), Ok(0), Ok(0)]),
    ] {
        let answers = [0, 1, 2].map(|kind| {
            let mut guest = ToyGuest::new(&TOY, 1, functions);
            let mut engine = Engine::new(isa, 1).with_policy(policy);
            let start = guest.address("f");
            if is_ftrace {
                guest.sites.insert(start + 2, Site::Ftrace);
            }
            let answer = match kind {
                0 => engine.register_kprobe(&mut guest, &Kprobe::at("f")),
                1 => engine.register_kprobe(&mut guest, &Kprobe::at_address(start)),
                _ => engine.register_kretprobe(&mut guest, &Kretprobe::at("f")),
            };
            answer.map(|()| engine.summary(&guest)[0].address - start).map_err(|refusal| refusal.errno)
        });
        assert_eq!(answers, expected, "{policy:?}, {is_ftrace}, {}", isa.linux.ftrace_carries);
    }
}

/// With Linux's policy an ftrace site is left to ftrace. Our own policy has no need of that.
#[test]
fn only_the_linux_policy_uses_ftrace() {
    for (policy, expected) in [(Policy::LINUX_6_1, true), (Policy::Best, false)] {
        let mut guest = sample::kernel(1);
        guest.sites.insert(guest.address("vfs_read"), Site::Ftrace);
        let mut engine = Engine::new(&TOY, 1).with_policy(policy);
        engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read")).expect("may be probed");
        let uses_ftrace = engine.summary(&guest)[0].uses_ftrace;
        assert_eq!((uses_ftrace, engine.list(&guest).contains("[FTRACE]")), (expected, expected), "{policy:?}");
    }
}

/// KP-4, BY-1: an address takes `MOST_MEMBERS` probes and no more. Other addresses have room, and this one has room again when
/// a probe is removed.
#[test]
fn an_address_takes_a_bounded_number_of_probes() {
    let (mut guest, mut engine) = new();
    let probes: Vec<Kprobe> = (0..super::MOST_MEMBERS).map(|_| Kprobe::at("vfs_read")).collect();
    engine.register_kprobes(&mut guest, &probes).expect("so many may be there");
    let one_more = Kprobe::at("vfs_read");
    let refusal = engine.register_kprobe(&mut guest, &one_more).expect_err("one too many");
    assert!(refusal.errno == Errno::ENOMEM && refusal.why.contains("8192 probes already"), "{refusal}");
    assert_eq!(engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read").offset(3)), Ok(()), "elsewhere there is room");
    engine.unregister_kprobe(&mut guest, &probes[500]);
    assert_eq!(engine.register_kprobe(&mut guest, &one_more), Ok(()));
}

/// KP-4, DV-1: a probe of the engine's own stands where Linux's rules refuse one, and a user's probe there is still refused.
#[test]
fn internal_probes_are_not_subject_to_the_users_policy() {
    static STRICT: Isa = Isa {
        plan: |insn, policy| match policy.is_linux() {
            true => Err(Refusal::new(Errno::EINVAL, "Linux refuses every instruction here")),
            false => (BASE.plan)(insn, policy),
        },
        linux: Linux { ftrace_carries: false, ..BASE.linux },
        ..BASE
    };
    for site in [None, Some(Site::Ftrace)] {
        let mut guest = sample::kernel(1);
        if let Some(site) = site {
            guest.sites.insert(guest.address("vfs_read"), site);
        }
        let mut engine = Engine::new(&STRICT, 1).with_policy(Policy::LINUX_6_12);
        let own = Kprobe::at("vfs_read").internal();
        assert_eq!(engine.register_kprobe(&mut guest, &own), Ok(()), "{site:?}");
        let text = guest.text_bytes();
        for answer in [
            engine.register_kprobe(&mut guest, &Kprobe::at("vfs_read")),
            engine.register_kretprobe(&mut guest, &Kretprobe::at("vfs_read")),
        ] {
            assert_eq!(answer.map_err(|refusal| refusal.errno), Err(Errno::EINVAL), "{site:?}");
        }
        assert_eq!(guest.text_bytes(), text, "{site:?}");
        let blacklisted = engine.register_kprobe(&mut guest, &Kprobe::at("probe_core").internal());
        assert_eq!(blacklisted.map_err(|refusal| refusal.errno), Err(Errno::EINVAL), "{site:?}");
        engine.unregister_kprobe(&mut guest, &own);
        engine.collect(&mut guest);
        assert_eq!(guest.text_bytes(), sample::kernel(1).text_bytes(), "{site:?}");
    }
}
