//! The jump of an optimised probe: one `b` that replaces one instruction.
//!
//! The displaced instruction runs in the detour, so it may be a load or a store. It may not be `bl`, which would leave
//! a return address in the detour. (Linux 6.1 emulates it. Between the probe's being disabled and its jump's removal,
//! Linux does that with a stale pc.)

use super::slot::field;
use super::{LENGTH, Set, linux, rules};
use crate::detour::{Detour, JUMP_MOST};
use crate::insn::{Flow, Insn};
use crate::plan::{Plan, Policy};

/// `nop`.
const NOP: u32 = 0x6000_0000;
/// `blr`.
const BLR: u32 = 0x4e80_0020;

/// The jump reaches 32 MiB in each direction.
pub static BIG_32: Detour = Detour {
    jump: |over, to| jump(Set::Big32, over, to),
    may_move: |insn, policy| may_move(Set::Big32, insn, policy),
    lead: &NOP.to_be_bytes(),
    return_pad: &BLR.to_be_bytes(),
    ..LITTLE
};

/// Like [`BIG_32`], 64-bit.
pub static BIG_64: Detour = Detour {
    jump: |over, to| jump(Set::Big64, over, to),
    may_move: |insn, policy| may_move(Set::Big64, insn, policy),
    lead: &NOP.to_be_bytes(),
    return_pad: &BLR.to_be_bytes(),
    ..LITTLE
};

/// Like [`BIG_64`], little-endian.
pub static LITTLE_64: Detour = LITTLE;

const LITTLE: Detour = Detour {
    in_linux: true,
    instructions_are_whole: false,
    jump_length: LENGTH as u64,
    lead: &NOP.to_le_bytes(),
    return_pad: &BLR.to_le_bytes(),
    jump: |over, to| jump(Set::Little64, over, to),
    may_move: |insn, policy| may_move(Set::Little64, insn, policy),
    flow: |insn, _| insn.flow,
    faithful: None,
    far: None,
};

/// Encodes `b` from one address to another; `None` if it does not reach.
pub(super) fn branch(set: Set, from: u64, to: u64) -> Option<u32> {
    let distance = set.distance(from, to);
    field(distance, 26).filter(|distance| distance & 3 == 0).map(|distance| HERE | distance)
}

/// `b .`
const HERE: u32 = 0x4800_0000;

fn jump(set: Set, over: &Insn, to: u64) -> Option<[u8; JUMP_MOST]> {
    let mut bytes = [0; JUMP_MOST];
    bytes[..LENGTH].copy_from_slice(&set.bytes(branch(set, over.address, to)?));
    Some(bytes)
}

fn may_move(set: Set, insn: &Insn, policy: Policy) -> bool {
    match policy {
        Policy::Best | Policy::Outside => insn.flow == Flow::Next && matches!(rules::plan(set, insn, policy), Ok(Plan::Boost)),
        Policy::Linux(_) => linux::optimises(set, insn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detour::lean;
    use crate::plan::Refusal;
    use crate::region::{PlainText, Region, Rule, region};
    use alloc::vec::Vec;

    const START: u64 = 0xc000_0000_0001_0000;

    /// Description, text, number of the probed word, and the refusing rules of `best` and of Linux 6.1.
    type Case = (&'static str, &'static [u32], usize, Option<Rule>, Option<Rule>);

    fn answer(set: Set, policy: Policy, words: &[u32], at: usize) -> Result<Region, Refusal> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| set.bytes(*word)).collect();
        let function = START..START + bytes.len() as u64;
        let mut text = PlainText { start: START, bytes, fixups: Vec::from([(START, START + 4)]), ..PlainText::default() };
        region(set.isa(), policy, function, START + 4 * at as u64, &mut text)
    }

    /// OP-3, OP-11: the jump replaces one instruction, so nothing can enter its middle; only the instruction itself
    /// matters.
    #[test]
    fn one_instruction_is_replaced_if_it_can_run_elsewhere() {
        const OK: Option<Rule> = None;
        const NO: Option<Rule> = Some(Rule::Unmovable);
        #[rustfmt::skip]
        let cases: &[Case] = &[
            // what                             text                                     at best                      Linux 6.1
            ("a nop",                           &[0x7c63_1b78, NOP, BLR],                 1, OK,                       OK),
            ("in a function with bctr",         &[0x7c63_1b78, NOP, 0x4e80_0420],         1, OK,                       OK),
            ("where a branch leads",            &[0x7c63_1b78, NOP, 0x4bff_fffc],         1, OK,                       OK),
            ("where execution goes on after a fault", &[0x8063_0000, NOP, BLR],           1, OK,                       OK),
            ("the last of its function",        &[0x7c63_1b78, NOP],                      1, OK,                       OK),
            ("expected to fault",               &[0x7c63_1b78, NOP],                      0, Some(Rule::ExpectedFault), OK),
            ("a load",                          &[0x7c63_1b78, 0xe863_0000],              1, OK,                       NO),
            ("a store with update",             &[0x7c63_1b78, 0xf821_ffd1],              1, OK,                       NO),
            ("addo: sets overflow",             &[0x7c63_1b78, 0x7c63_2614],              1, OK,                       NO),
            ("mflr",                            &[0x7c63_1b78, 0x7c08_02a6],              1, OK,                       OK),
            ("mfmsr",                           &[0x7c63_1b78, 0x7c60_00a6],              1, OK,                       NO),
            ("a return",                        &[0x7c63_1b78, BLR],                      1, NO,                       NO),
            ("a conditional branch",            &[0x7c63_1b78, 0x4082_fffc],              1, NO,                       NO),
            ("b",                               &[0x7c63_1b78, 0x4bff_fffc],              1, NO,                       OK),
            ("bl",                              &[0x7c63_1b78, 0x4bff_fffd],              1, NO,                       OK),
            ("bctrl",                           &[0x7c63_1b78, 0x4e80_0421],              1, NO,                       NO),
            ("lwarx",                           &[0x7c63_1b78, 0x7c60_2028],              1, NO,                       NO),
            ("mftb",                            &[0x7c63_1b78, 0x7c6c_42a6],              1, NO,                       NO),
            ("darn 1",                          &[0x7c63_1b78, 0x7c61_05e6],              1, NO,                       OK),
            ("darn 3",                          &[0x7c63_1b78, 0x7c63_05e6],              1, NO,                       NO),
            ("pld r3,16(r4)",                   &[0x7c63_1b78, 0x0400_0000, 0xe464_0010], 1, OK,                       NO),
        ];
        for (what, words, at, best, linux) in cases {
            for (policy, expected) in [(Policy::Best, best), (Policy::LINUX_6_1, linux)] {
                for set in [Set::Little64, Set::Big64] {
                    let found = answer(set, policy, words, *at).map_err(|refusal| Rule::of(&refusal).expect("a named rule"));
                    assert_eq!(found.as_ref().err(), expected.as_ref(), "{what}, {policy:?}, {set:?}");
                }
            }
        }
    }

    /// OP-4
    #[test]
    fn a_lean_detour_runs_the_instruction_and_jumps_back() {
        let at = START + 0x10_0000;
        for set in [Set::Little64, Set::Big64] {
            let code = |policy, words: &[u32]| {
                let region = answer(set, policy, words, 1).expect("a jump may stand there");
                let table = set.isa().detour.expect("there are detours");
                let code = lean(set.isa(), table, &region, at).expect("in reach");
                code.bytes().chunks(4).map(|word| set.word(word)).collect::<Vec<u32>>()
            };
            assert_eq!(code(Policy::Best, &[NOP, 0xe863_0000]), [NOP, 0xe863_0000, 0x4bf0_0000]);
            let load = code(Policy::Best, &[NOP, 0x0410_0000, 0xe460_0010]);
            assert_eq!(load, [NOP, 0x0413_fff0, 0xe460_0010, 0x4bf0_0000], "the same place from 1 MiB further on");
            assert_eq!(code(Policy::LINUX_6_1, &[NOP, 0x4bff_fffd])[1], 0x4bef_fffd, "bl of the same place");
        }
    }

    /// OP-11: the jump and its reach.
    #[test]
    fn the_jump_reaches_32_mebibytes_either_way() {
        let to = |distance: i64| START.wrapping_add_signed(distance);
        assert_eq!(branch(Set::Little64, START, to(-8)), Some(0x4bff_fff8));
        let here = Insn::new(START, &[0; LENGTH], Flow::Next);
        for set in [Set::Little64, Set::Big64] {
            assert_eq!(jump(set, &here, to(8)).map(|bytes| set.word(&bytes[..4])), Some(0x4800_0008));
            for (distance, reached) in
                [(0x1ff_fffc, true), (0x200_0000, false), (-0x200_0000, true), (-0x200_0004, false), (2, false)]
            {
                assert_eq!(jump(set, &here, to(distance)).is_some(), reached, "{distance:#x}");
            }
        }
    }

    /// OP-3: Linux 6.1 emulates doubleword instructions only on 64-bit CPUs.
    #[test]
    fn linux_emulates_doublewords_only_on_64_bits() {
        let optimises = |set: Set, word: u32| linux::optimises(set, &Insn::new(START, &set.bytes(word), Flow::Next));
        for (what, word) in [("extsw", 0x7c63_07b4), ("rldicl", 0x7863_0020), ("mulld", 0x7c63_21d2), ("maddld", 0x1063_2133)] {
            assert_eq!([Set::Little64, Set::Big64, Set::Big32].map(|set| optimises(set, word)), [true, true, false], "{what}");
        }
        assert!(optimises(Set::Big32, 0x7c63_1b78), "mr");
    }
}
