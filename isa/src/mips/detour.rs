//! The jump of an optimised probe on MIPS: `j` with a `nop` in its delay slot, which replaces two instructions. Linux
//! has none on MIPS.
//!
//! Branches are not replaced: they are relative to their own address, and a call in a detour would leave a return
//! address in the detour.

use super::decode::SEGMENT;
use super::{LENGTH, Set, rules};
use crate::detour::{Detour, JUMP_MOST};
use crate::insn::{Flow, Insn};
use crate::plan::{Plan, Policy};

/// `nop`.
pub const NOP: u32 = 0;
/// `jr ra` with a `nop` in its delay slot.
const RETURN_BIG: [u8; 2 * LENGTH] = [0x03, 0xe0, 0x00, 0x08, 0, 0, 0, 0];
const RETURN_LITTLE: [u8; 2 * LENGTH] = [0x08, 0x00, 0xe0, 0x03, 0, 0, 0, 0];

/// The jump reaches the 256 MiB segment of its delay slot.
pub static BIG_32: Detour = Detour {
    jump: |over, to| jump(Set::Big32, over, to),
    may_move: |insn, policy| may_move(Set::Big32, insn, policy),
    return_pad: &RETURN_BIG,
    ..LITTLE
};

/// Like [`BIG_32`], little-endian.
pub static LITTLE_32: Detour = Detour {
    jump: |over, to| jump(Set::Little32, over, to),
    may_move: |insn, policy| may_move(Set::Little32, insn, policy),
    ..LITTLE
};

/// Like [`BIG_32`], 64-bit.
pub static BIG_64: Detour = Detour {
    jump: |over, to| jump(Set::Big64, over, to),
    may_move: |insn, policy| may_move(Set::Big64, insn, policy),
    return_pad: &RETURN_BIG,
    ..LITTLE
};

/// Like [`BIG_64`], little-endian.
pub static LITTLE_64: Detour = LITTLE;

const LITTLE: Detour = Detour {
    in_linux: false,
    instructions_are_whole: false,
    jump_length: 2 * LENGTH as u64,
    lead: &NOP.to_le_bytes(),
    return_pad: &RETURN_LITTLE,
    jump: |over, to| jump(Set::Little64, over, to),
    may_move: |insn, policy| may_move(Set::Little64, insn, policy),
    flow: |insn, _| insn.flow,
    faithful: None,
    far: None,
};

/// Encodes `j` from one address to another; `None` if they are in different 256 MiB segments.
pub(super) fn jump_word(set: Set, from: u64, to: u64) -> Option<u32> {
    let (slot, to) = (set.cut(from.wrapping_add(LENGTH as u64)), set.cut(to));
    let is_near = slot & !(SEGMENT - 1) == to & !(SEGMENT - 1);
    (is_near && to & 3 == 0).then_some(J | (to >> 2) as u32 & 0x03ff_ffff)
}

const J: u32 = 0x0800_0000;

fn jump(set: Set, over: &Insn, to: u64) -> Option<[u8; JUMP_MOST]> {
    let mut bytes = [0; JUMP_MOST];
    bytes[..LENGTH].copy_from_slice(&set.bytes(jump_word(set, over.address, to)?));
    Some(bytes)
}

fn may_move(set: Set, insn: &Insn, policy: Policy) -> bool {
    insn.flow == Flow::Next && matches!(rules::plan(set, insn, policy), Ok(Plan::Boost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detour::lean;
    use crate::plan::Refusal;
    use crate::region::{PlainText, Region, Rule, region};
    use alloc::vec::Vec;

    const START: u64 = 0xffff_ffff_8010_0000;

    fn answer(set: Set, policy: Policy, words: &[u32], at: usize) -> Result<Region, Refusal> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| set.bytes(*word)).collect();
        let start = set.cut(START);
        let function = start..start + bytes.len() as u64;
        let mut text = PlainText { start, bytes, fixups: Vec::from([(start, start + 32)]), ..PlainText::default() };
        region(set.isa(), policy, function, start + 4 * at as u64, &mut text)
    }

    const MOVE: u32 = 0x0080_1025;
    const ADD: u32 = 0x2442_0001;
    const RETURN: [u32; 2] = [0x03e0_0008, NOP];

    /// OP-2, OP-3, OP-11: two instructions are replaced if both can run elsewhere and nothing jumps to the second.
    #[test]
    fn two_instructions_are_replaced_if_nothing_jumps_between_them() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u32], usize, Option<Rule>)] = &[
            ("a move and a sum",              &[NOP, MOVE, ADD, RETURN[0], RETURN[1]],      1, None),
            ("a store",                       &[NOP, 0xafbf_001c, ADD],                     1, None),
            ("the last two of its function",  &[NOP, MOVE, ADD],                            1, None),
            ("the last of its function",      &[NOP, MOVE, ADD],                            2, Some(Rule::NoRoom)),
            ("expected to fault",             &[MOVE, ADD, NOP, NOP],                       0, Some(Rule::ExpectedFault)),
            ("execution goes on at the second after a fault", &[NOP, NOP, NOP, NOP, NOP, NOP, NOP, NOP, NOP], 7, Some(Rule::Fixup)),
            ("a return",                      &[NOP, NOP, NOP, RETURN[0], RETURN[1]],       3, Some(Rule::Unmovable)),
            ("in front of a return",          &[NOP, NOP, NOP, ADD, RETURN[0], RETURN[1]],  3, Some(Rule::Unmovable)),
            ("where a branch leads",          &[NOP, NOP, NOP, ADD, 0x1440_fffe, NOP],      2, Some(Rule::JumpInto)),
            ("a branch to its start",         &[NOP, NOP, NOP, ADD, MOVE, 0x1440_fffd, NOP], 3, None),
            ("a branch over it",              &[0x1440_0005, NOP, NOP, ADD, MOVE, NOP, NOP], 3, None),
            ("a branch into a delay slot",    &[0x1440_0006, NOP, NOP, ADD, MOVE, NOP, 0x1000_0001, NOP, NOP], 3, Some(Rule::JumpBetween)),
            ("in a function with jr v0",      &[NOP, NOP, NOP, ADD, MOVE, 0x0040_0008, NOP], 3, Some(Rule::IndirectJump)),
            ("mfc0 of the clock",             &[NOP, NOP, NOP, ADD, 0x4002_4800],           3, Some(Rule::Unmovable)),
            ("ll",                            &[NOP, NOP, NOP, ADD, 0xc082_0000],           3, Some(Rule::Unmovable)),
        ];
        for (what, words, at, expected) in cases {
            for set in Set::ALL {
                let found = answer(set, Policy::Best, words, *at).map_err(|refusal| Rule::of(&refusal).expect("a named rule"));
                assert_eq!(found.as_ref().err(), expected.as_ref(), "{what}, {set:?}");
                let linux = answer(set, Policy::LINUX_6_1, words, *at).map_err(|refusal| Rule::of(&refusal));
                assert_eq!(linux.err(), Some(Some(Rule::NoDetours)), "{what}");
            }
        }
    }

    /// OP-4
    #[test]
    fn a_lean_detour_runs_both_instructions_and_jumps_back() {
        for set in Set::ALL {
            let region = answer(set, Policy::Best, &[NOP, NOP, NOP, MOVE, ADD, NOP], 3).expect("a jump may stand there");
            let table = set.isa().detour.expect("there are detours");
            let code = lean(set.isa(), table, &region, set.cut(0xffff_ffff_8f00_0000)).expect("in reach");
            let words: Vec<u32> = code.bytes().chunks(4).map(|word| set.word(word)).collect();
            assert_eq!(words, [NOP, MOVE, ADD, 0x0804_0005, NOP]);
            let refusal = lean(set.isa(), table, &region, set.cut(0xffff_ffff_9000_0000));
            assert!(refusal.is_err(), "in the next 256 MiB");
        }
    }

    /// OP-11: the jump, and its reach at both ends of the segment.
    #[test]
    fn the_jump_reaches_the_segment_of_its_delay_slot() {
        for set in Set::ALL {
            let at = |address: u64| Insn::new(set.cut(address), &[0; LENGTH], Flow::Next);
            #[rustfmt::skip]
            let cases = [
                (START,                 0xffff_ffff_8000_0000, Some(0x0800_0000)),
                (START,                 0xffff_ffff_8fff_fffc, Some(0x0bff_ffff)),
                (START,                 0xffff_ffff_9000_0000, None),
                (START,                 0xffff_ffff_7fff_fffc, None),
                (START,                 0xffff_ffff_8000_0002, None),
                (0xffff_ffff_8fff_fffc, 0xffff_ffff_9000_0010, Some(0x0800_0004)),
                (0xffff_ffff_8fff_fffc, 0xffff_ffff_8fff_fff0, None),
            ];
            for (from, to, expected) in cases {
                let found = jump(set, &at(from), set.cut(to));
                assert_eq!(found.map(|bytes| set.word(&bytes[..4])), expected, "{from:#x} {to:#x}");
                assert!(found.is_none_or(|bytes| bytes[4..] == [0; 4]), "and nothing in its slot");
            }
        }
    }
}
