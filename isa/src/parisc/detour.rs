//! The jump of an optimised probe: `b,n`, which replaces one instruction. Linux has none on PA-RISC.
//!
//! Some instructions are not replaced. Branches are relative to their own address. In a delay slot a jump would not lead
//! to the detour alone.
//!
//! The jump is one word, so an instruction in front of it that nullifies the next one nullifies the whole jump: then the
//! probed instruction does not run, and the probe is not hit. An instruction in the detour that may nullify the next one has
//! two jumps back behind it ([`super::slot::copy`]).

use super::fields::with_distance17;
use super::{LENGTH, rules};
use crate::detour::{Detour, JUMP_MOST};
use crate::insn::{Flow, Insn};
use crate::plan::{Plan, Policy};

/// `or r0,r0,r0`
const NOP: u32 = 0x0800_0240;
/// `b,n` with no distance.
const JUMP: u32 = 0xe800_0002;
/// The bit of a jump that nullifies its delay slot.
pub(super) const NULLIFIES_SLOT: u32 = 2;

/// The jump reaches 256 KiB in each direction.
pub static DETOUR: Detour = Detour {
    in_linux: false,
    instructions_are_whole: true,
    jump_length: LENGTH as u64,
    lead: &NOP.to_be_bytes(),
    // bv,n r0(rp)
    return_pad: &[0xe8, 0x40, 0xc0, 0x02],
    jump: |over, to| {
        let mut bytes = [0; JUMP_MOST];
        bytes[..LENGTH].copy_from_slice(&jump_word(over.address, to)?.to_be_bytes());
        Some(bytes)
    },
    may_move,
    flow: |insn, _| insn.flow,
    faithful: None,
    far: None,
};

/// Encodes `b,n` from one address to another; `None` if it does not reach.
pub(super) fn jump_word(from: u64, to: u64) -> Option<u32> {
    with_distance17(JUMP, to.wrapping_sub(from).wrapping_sub(8) as i64)
}

fn may_move(insn: &Insn, policy: Policy) -> bool {
    insn.flow == Flow::Next && matches!(rules::plan(insn, policy), Ok(Plan::Boost))
}

#[cfg(test)]
mod tests {
    use super::super::PARISC;
    use super::super::slot::NULLIFY_NEXT;
    use super::*;
    use crate::detour::lean;
    use crate::mem::ByteOrder;
    use crate::plan::Refusal;
    use crate::region::{PlainText, Region, Rule, region};
    use alloc::vec::Vec;

    const START: u64 = 0x0010_1000;
    const ADD: u32 = 0x0a05_0604;
    /// `b,n` over -0x1000 bytes.
    const JUMP_BACK: u32 = 0xe81f_1ff3;

    fn answer(policy: Policy, words: &[u32], at: usize) -> Result<Region, Refusal> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let function = START..START + bytes.len() as u64;
        let mut text = PlainText { start: START, bytes, fixups: Vec::from([(START, START + 4)]), ..PlainText::default() };
        region(&PARISC, policy, function, START + 4 * at as u64, &mut text)
    }

    /// OP-2, OP-3, OP-11: an instruction is replaced if it can run elsewhere and is in no delay slot.
    #[test]
    fn one_instruction_is_replaced_if_it_can_run_elsewhere() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u32], usize, Option<Rule>)] = &[
            ("a sum",                             &[NOP, ADD, NOP],               1, None),
            ("a load",                            &[NOP, 0x4885_0000, NOP],       1, None),
            ("the last of its function",          &[NOP, ADD],                    1, None),
            ("expected to fault",                 &[ADD, NOP],                    0, Some(Rule::ExpectedFault)),
            ("in a function with an indirect jump", &[NOP, ADD, 0xe804_4000, NOP], 1, None),
            ("where a branch leads",              &[NOP, ADD, NOP, 0x80a4_3fe5, NOP], 1, None),
            ("in a delay slot",                   &[NOP, 0x80a4_2010, ADD],       2, Some(Rule::DelaySlot)),
            ("behind a branch that nullifies it", &[NOP, 0xe800_0012, ADD],       2, None),
            ("behind a branch that nullifies it if taken", &[NOP, 0x80a4_2012, ADD], 2, None),
            ("in the delay slot of a loop",       &[NOP, 0x80a4_3fd7, ADD],       2, Some(Rule::DelaySlot)),
            ("a branch",                          &[NOP, 0x80a4_2010, ADD],       1, Some(Rule::Unmovable)),
            ("a sum that may nullify",            &[NOP, 0x0a05_2604, ADD],       1, None),
            ("comclr",                            &[NOP, 0x0a05_2884, ADD],       1, None),
            ("a sum that may be nullified",       &[NOP, 0x0a05_2604, ADD],       2, None),
            ("in a delay slot, and may nullify",  &[NOP, 0x80a4_2010, 0x0a05_2604], 2, Some(Rule::DelaySlot)),
            ("mfia",                              &[NOP, 0x0000_14a4, ADD],       1, Some(Rule::Unmovable)),
            ("rfi",                               &[NOP, 0x0000_0c00, ADD],       1, Some(Rule::Unmovable)),
            ("a read of the clock",               &[NOP, 0x0200_08a4, ADD],       1, Some(Rule::Unmovable)),
        ];
        for (what, words, at, expected) in cases {
            let found = answer(Policy::Best, words, *at).map_err(|refusal| Rule::of(&refusal).expect("a named rule"));
            assert_eq!(found.as_ref().err(), expected.as_ref(), "{what}");
            let linux = answer(Policy::LINUX_6_1, words, *at).map_err(|refusal| Rule::of(&refusal));
            assert_eq!(linux.err(), Some(Some(Rule::NoDetours)), "{what}");
        }
    }

    /// OP-4
    #[test]
    fn a_lean_detour_runs_the_instruction_and_jumps_back() {
        let region = answer(Policy::Best, &[NOP, ADD, NOP], 1).expect("a jump may stand there");
        let code = lean(&PARISC, &DETOUR, &region, START + 0x1000).expect("in reach");
        let words: Vec<u32> = code.bytes().chunks(4).map(|word| ByteOrder::Big.word(word)).collect();
        assert_eq!(words, [NOP, ADD, JUMP_BACK]);
        assert!(lean(&PARISC, &DETOUR, &region, START + 0x5_0000).is_err(), "too far");
    }

    /// OP-4: an instruction that may nullify the next one has a jump back for each case. The second one nullifies the
    /// instruction that it leads to.
    #[test]
    fn a_detour_may_nullify_the_instruction_behind_it() {
        const ADD_IF_ZERO: u32 = 0x0a05_2604;
        let region = answer(Policy::Best, &[NOP, ADD_IF_ZERO, NOP], 1).expect("a jump may stand there");
        let code = lean(&PARISC, &DETOUR, &region, START + 0x1000).expect("in reach");
        let words: Vec<u32> = code.bytes().chunks(4).map(|word| ByteOrder::Big.word(word)).collect();
        let second = jump_word(START + 0x100c, START + 8).expect("in reach") & !NULLIFIES_SLOT;
        assert_eq!(words, [NOP, ADD_IF_ZERO, JUMP_BACK, second, NULLIFY_NEXT]);
    }

    /// OP-11: the jump and its reach.
    #[test]
    fn the_jump_reaches_256_kibibytes() {
        let at = Insn::new(START, &[0; LENGTH], Flow::Next);
        let jump = |to: u64| (DETOUR.jump)(&at, to).map(|bytes| ByteOrder::Big.word(&bytes[..4]));
        for to in [START + 8, START, START + 0x4_0004, START + 8 - 0x4_0000] {
            let word = jump(to).expect("in reach");
            assert_eq!((PARISC.decode)(START, &word.to_be_bytes()).map(|insn| insn.flow), Ok(Flow::Jump(to)));
            assert_eq!(word & 0xffe0_e002, JUMP, "no link, and the next instruction is nullified");
        }
        for to in [START + 0x4_0008, START + 2, START + 4 - 0x4_0000] {
            assert_eq!(jump(to), None, "{to:#x}");
        }
    }
}
