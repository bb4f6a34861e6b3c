//! The jump of an optimised probe: `ba,a`, which replaces one instruction. Linux has none on SPARC.
//!
//! Some instructions are not replaced. Branches are relative to their own address. `save` and `restore` may raise a
//! spill or fill exception, which must come before the hit. In a delay slot a jump would be a branch in a delay slot.

use super::slot::{BREAKPOINT, breakpoint_over};
use super::{LENGTH, rules};
use crate::detour::{Detour, JUMP_MOST};
use crate::insn::{Flow, Insn};
use crate::plan::{Plan, Policy};

/// `nop`
const NOP: u32 = 0x0100_0000;

/// The jump reaches 8 MiB in each direction.
pub static DETOUR: Detour = Detour {
    in_linux: false,
    instructions_are_whole: true,
    jump_length: LENGTH as u64,
    lead: &NOP.to_be_bytes(),
    // retl; nop
    return_pad: &[0x81, 0xc3, 0xe0, 0x08, 0x01, 0, 0, 0],
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

/// Encodes `ba,a` from one address to another; `None` if it does not reach.
pub(super) fn jump_word(from: u64, to: u64) -> Option<u32> {
    const REACH: i64 = 8 << 20;
    let distance = to.wrapping_sub(from) as i64;
    let is_near = (-REACH..REACH).contains(&distance) && distance % LENGTH as i64 == 0;
    is_near.then_some(0x3080_0000 | (distance >> 2) as u32 & 0x003f_ffff)
}

fn may_move(insn: &Insn, policy: Policy) -> bool {
    insn.flow == Flow::Next && breakpoint_over(insn) == BREAKPOINT && matches!(rules::plan(insn, policy), Ok(Plan::Boost))
}

#[cfg(test)]
mod tests {
    use super::super::SPARC64;
    use super::*;
    use crate::detour::lean;
    use crate::mem::ByteOrder;
    use crate::plan::Refusal;
    use crate::region::{PlainText, Region, Rule, region};
    use alloc::vec::Vec;

    const START: u64 = 0x0040_1000;
    const ADD: u32 = 0x9002_2001;

    fn answer(policy: Policy, words: &[u32], at: usize) -> Result<Region, Refusal> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let function = START..START + bytes.len() as u64;
        let mut text = PlainText { start: START, bytes, fixups: Vec::from([(START, START + 4)]), ..PlainText::default() };
        region(&SPARC64, policy, function, START + 4 * at as u64, &mut text)
    }

    /// OP-2, OP-3, OP-11: an instruction is replaced if it can run elsewhere and is in no delay slot.
    #[test]
    fn one_instruction_is_replaced_if_it_can_run_elsewhere() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u32], usize, Option<Rule>)] = &[
            ("a sum",                          &[NOP, ADD, NOP],                1, None),
            ("a load",                         &[NOP, 0xd05b_a7ff, NOP],        1, None),
            ("the last of its function",       &[NOP, ADD],                     1, None),
            ("expected to fault",              &[ADD, NOP],                     0, Some(Rule::ExpectedFault)),
            ("where execution goes on after a fault", &[NOP, ADD],              1, None),
            ("in a function with an indirect jump", &[NOP, ADD, NOP, 0x81c0_4000, NOP], 1, None),
            ("where a branch leads",           &[NOP, ADD, NOP, 0x12bf_fffe, NOP], 1, None),
            ("in a delay slot",                &[NOP, 0x1280_0004, ADD],        2, Some(Rule::DelaySlot)),
            ("behind a branch that annuls it", &[NOP, 0x3080_0004, ADD],        2, None),
            ("a branch",                       &[NOP, 0x1280_0004, ADD],        1, Some(Rule::Unmovable)),
            ("save",                           &[NOP, 0x9de3_bf40, ADD],        1, Some(Rule::Unmovable)),
            ("restore",                        &[NOP, 0x81e8_0000, ADD],        1, Some(Rule::Unmovable)),
            ("flushw",                         &[NOP, 0x8158_0000, ADD],        1, Some(Rule::Unmovable)),
            ("rd %pc",                         &[NOP, 0x9341_4000, ADD],        1, Some(Rule::Unmovable)),
            ("retry",                          &[NOP, 0x83f0_0000, ADD],        1, Some(Rule::Unmovable)),
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
        let code = lean(&SPARC64, &DETOUR, &region, START + 0x1000).expect("in reach");
        let words: Vec<u32> = code.bytes().chunks(4).map(|word| ByteOrder::Big.word(word)).collect();
        assert_eq!(words, [NOP, ADD, 0x30bf_fc00]);
        assert!(lean(&SPARC64, &DETOUR, &region, START + 0x90_0000).is_err(), "too far");
    }

    /// OP-11: the jump and its reach.
    #[test]
    fn the_jump_reaches_8_mebibytes() {
        let at = Insn::new(START, &[0; LENGTH], Flow::Next);
        #[rustfmt::skip]
        let cases = [
            (START,                0x3080_0000),
            (START + 0x7f_fffc,    0x309f_ffff),
            (START - 0x40_0000,    0x30b0_0000),
        ];
        for (to, expected) in cases {
            let found = (DETOUR.jump)(&at, to).map(|bytes| ByteOrder::Big.word(&bytes[..4]));
            assert_eq!(found, Some(expected), "{to:#x}");
        }
        for to in [START + 0x80_0000, START + 2, START.wrapping_sub(0x80_0004)] {
            assert_eq!((DETOUR.jump)(&at, to), None, "{to:#x}");
        }
    }
}
