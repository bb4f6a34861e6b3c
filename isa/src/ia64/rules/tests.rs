use super::*;

const NOP: u64 = 1 << 27;

/// The bundle of a template with a word in one slot and `nop` in the others.
fn bundle(template: u8, slot: usize, word: u64) -> Bundle {
    let mut words = [NOP; 3];
    // The B unit has another `nop`.
    for (place, other) in words.iter_mut().enumerate() {
        if Template::of(template).is_some_and(|template| template.units[place] == Unit::B) {
            *other = 2 << 37;
        }
    }
    words[slot] = word;
    Bundle::new(template, words)
}

/// KP-2: a case for each rule, for both policies.
#[test]
fn each_rule_decides_for_both_policies() {
    use Runs::{Computed, Stepped};
    const MII: u8 = 0;
    const MLX: u8 = 4;
    const MFI: u8 = 0xc;
    const BBB: u8 = 0x16;
    let compare = 0xe << 37 | 9 << 27 | 5 << 20 | 4 << 13 | 8 << 6;
    let (unc, predicated) = (compare | 1 << 12, compare | 1 << 12 | 6);
    let ok = |runs: Runs| Ok(runs);
    let no = |rule: &Rule| Err(rule.refusal());
    #[rustfmt::skip]
    let cases: &[(&str, u8, usize, u64, _, _)] = &[
        //                       template slot word                     Linux 6.1              best
        ("nop",                  MII, 0, NOP,                           ok(Stepped),           ok(Stepped)),
        ("cmp",                  MII, 1, compare | 6,                   ok(Stepped),           ok(Stepped)),
        ("cmp.unc",              MII, 1, unc,                           ok(Stepped),           ok(Stepped)),
        ("(p6) cmp.unc",         MII, 1, predicated,                    no(&MIDDLE),           ok(Stepped)),
        ("(p6) cmp.unc",         MII, 0, predicated,                    ok(Stepped),           ok(Stepped)),
        ("(p6) cmp.unc",         MII, 2, predicated,                    ok(Stepped),           ok(Stepped)),
        ("(p6) fcmp.unc",        MFI, 1, 4 << 37 | 1 << 12 | 6,         no(&MIDDLE),           ok(Stepped)),
        ("(p6) frcpa",           MFI, 1, 1 << 33 | 8 << 6 | 6,          no(&MIDDLE),           ok(Stepped)),
        ("chk.s.i",              MII, 1, 1 << 33,                       no(&CHECK),            ok(Computed)),
        ("chk.s.m",              MII, 0, 1 << 37 | 1 << 33,             ok(Computed),          ok(Computed)),
        ("chk.a",                MII, 0, 4 << 33,                       ok(Computed),          ok(Computed)),
        ("mov r8=ip",            MII, 1, 0x30 << 27 | 8 << 6,           no(&READS_IP),         ok(Computed)),
        ("brp",                  BBB, 1, 7 << 37,                       no(&PREDICTION),       ok(Computed)),
        ("brp.ret",              BBB, 2, 2 << 37 | 0x11 << 27,          no(&PREDICTION),       ok(Computed)),
        ("br.cond",              BBB, 1, 4 << 37,                       ok(Computed),          ok(Computed)),
        ("(p6) br.wtop",         BBB, 1, 4 << 37 | 3 << 6 | 6,          ok(Computed),          ok(Computed)),
        ("br.call",              BBB, 0, 5 << 37,                       ok(Computed),          ok(Computed)),
        ("br.ret",               BBB, 0, 0x21 << 27 | 4 << 6,           ok(Computed),          ok(Computed)),
        ("rfi",                  BBB, 2, 8 << 27,                       ok(Computed),          ok(Computed)),
        ("cover",                BBB, 2, 2 << 27,                       ok(Stepped),           ok(Stepped)),
        ("epc",                  BBB, 2, 0x10 << 27,                    ok(Stepped),           no(&GATE)),
        ("break.m",              MII, 0, 0x8_1000 << 6,                 ok(Stepped),           no(&BREAKPOINT)),
        ("break.b",              BBB, 0, 0,                             ok(Stepped),           no(&BREAKPOINT)),
        ("movl",                 MLX, 2, 6 << 37 | 8 << 6,              no(&LONG),             ok(Stepped)),
        ("brl",                  MLX, 2, 0xc << 37,                     no(&LONG),             ok(Computed)),
        ("no instruction",       MII, 1, 6 << 37,                       no(&NO_INSTRUCTION),   no(&NO_INSTRUCTION)),
        ("no template",          6,   0, NOP,                           no(&NO_INSTRUCTION),   no(&NO_INSTRUCTION)),
    ];
    for (what, template, slot, word, linux, best) in cases {
        let bundle = bundle(*template, *slot, *word);
        let decided = |policy: Policy| decide(bundle, *slot, policy).map(|accepted| accepted.runs);
        assert_eq!(decided(Policy::LINUX_6_1), *linux, "{what} in slot {slot}, Linux");
        assert_eq!(decided(Policy::Best), *best, "{what} in slot {slot}");
        assert_eq!(decided(Policy::Outside), *best, "{what} in slot {slot}");
    }
    let movl = bundle(MLX, 2, 6 << 37 | 8 << 6);
    for policy in [Policy::Best, Policy::LINUX_6_1] {
        assert_eq!(decide(movl, 1, policy), Ok(Accepted { slot: 2, runs: Stepped }), "slot 1 is the long instruction");
        assert_eq!(decide(movl, 3, policy), Err(NO_SLOT.refusal()));
    }
}

/// KP-2: every refusal is in the list of rules.
#[test]
fn every_refusal_is_a_rule() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut refused = 0;
    for _ in 0..20_000 {
        let bundle = Bundle([random() & !0x1e | random() >> 59, random()]);
        for slot in 0..4 {
            for policy in [Policy::Best, Policy::LINUX_6_1] {
                if let Err(refusal) = decide(bundle, slot, policy) {
                    refused += 1;
                    assert!(RULES.iter().any(|rule| rule.refusal() == refusal), "{refusal}");
                }
            }
        }
    }
    assert!(refused > 1000);
}

/// OP-2: no bundle gets a jump, and the refusal says why.
#[test]
fn a_bundle_gets_no_jump() {
    use super::super::IA64;
    use crate::region::{PlainText, Rule, region};
    const START: u64 = 0xe000_0000_0010_0000;
    let bytes = [bundle(0, 0, NOP).bytes(), bundle(0, 0, NOP).bytes()].concat();
    for (slot, policy) in [0, 6, 12].into_iter().flat_map(|slot| [(slot, Policy::Best), (slot, Policy::LINUX_6_1)]) {
        let mut text = PlainText { start: START, bytes: bytes.clone(), ..PlainText::default() };
        let refusal = region(&IA64, policy, START..START + 32, START + slot, &mut text).expect_err("no jump");
        assert_eq!(Rule::of(&refusal), Some(Rule::NoDetours));
        assert!(refusal.why.contains("return into its middle"), "{refusal}");
    }
}
