//! The jump of an optimised probe: one `b` that replaces one instruction. Linux 6.1 has none on arm64.

use super::slot::field;
use super::{LENGTH, decode, rules};
use crate::detour::{Detour, JUMP_MOST};
use crate::insn::{Flow, Insn};
use crate::plan::{Plan, Policy};

/// `nop`.
const NOP: u32 = 0xd503_201f;

/// `ret`, which uses x30.
const RET: u32 = 0xd65f_03c0;

/// The jump reaches 128 MiB in each direction.
pub static DETOUR: Detour = Detour {
    in_linux: false,
    instructions_are_whole: false,
    jump_length: LENGTH as u64,
    lead: &NOP.to_le_bytes(),
    return_pad: &RET.to_le_bytes(),
    jump,
    may_move,
    flow: |insn, _| insn.flow,
    faithful: None,
    far: None,
};

/// Encodes `b` from one address to another; `None` if it does not reach.
pub(super) fn branch(from: u64, to: u64) -> Option<u32> {
    let distance = to.wrapping_sub(from) as i64;
    let aligned = distance & 3 == 0;
    field(distance >> 2, 26).filter(|_| aligned).map(|words| 0x1400_0000 | words)
}

fn jump(over: &Insn, to: u64) -> Option<[u8; JUMP_MOST]> {
    let mut bytes = [0; JUMP_MOST];
    bytes[..LENGTH].copy_from_slice(&branch(over.address, to)?.to_le_bytes());
    Some(bytes)
}

/// Instructions that may be boosted, and `adr` and `adrp`. Copies of those two are refused if they cannot reach the
/// address.
fn may_move(insn: &Insn, policy: Policy) -> bool {
    let names_a_place = decode::word(insn) & 0x1f00_0000 == 0x1000_0000;
    insn.flow == Flow::Next && (names_a_place || matches!(rules::plan(insn, policy), Ok(Plan::Boost)))
}

#[cfg(test)]
mod tests {
    use super::super::ARM64;
    use super::*;
    use crate::detour::lean;
    use crate::plan::Refusal;
    use crate::region::{PlainText, Region, Rule, region};
    use alloc::vec::Vec;

    const START: u64 = 0xffff_8000_0801_0000;

    fn answer(policy: Policy, words: &[u32], at: usize) -> Result<Region, Refusal> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let function = START..START + bytes.len() as u64;
        let mut text = PlainText { start: START, bytes, fixups: Vec::from([(START, START + 4)]), ..PlainText::default() };
        region(&ARM64, policy, function, START + 4 * at as u64, &mut text)
    }

    /// OP-3, OP-11: the jump replaces one instruction, so nothing can enter its middle; only the instruction itself
    /// matters.
    #[test]
    fn one_instruction_is_replaced_if_it_can_run_elsewhere() {
        const OK: Option<Rule> = None;
        #[rustfmt::skip]
        let cases: &[(&str, &[u32], usize, Option<Rule>)] = &[
            ("a nop",                              &[0xaa00_03e1, 0xd503_201f, 0xd65f_03c0], 1, OK),
            ("in a function with br",              &[0xaa00_03e1, 0xd503_201f, 0xd61f_0200], 1, OK),
            ("where a branch leads",               &[0xaa00_03e1, 0xd503_201f, 0x17ff_ffff], 1, OK),
            ("where execution goes on after a fault", &[0xf940_0000, 0xd503_201f, 0xd65f_03c0], 1, OK),
            ("the last of its function",           &[0xaa00_03e1, 0xd503_201f],              1, OK),
            ("expected to fault",                  &[0xf940_0000, 0xd503_201f],              0, Some(Rule::ExpectedFault)),
            ("adrp",                               &[0xaa00_03e1, 0x9000_0000],              1, OK),
            ("a return",                           &[0xaa00_03e1, 0xd65f_03c0],              1, Some(Rule::Unmovable)),
            ("a branch",                           &[0xaa00_03e1, 0x5400_0040],              1, Some(Rule::Unmovable)),
            ("a literal load",                     &[0xaa00_03e1, 0x5800_0000],              1, Some(Rule::Unmovable)),
            ("a load-exclusive",                   &[0xaa00_03e1, 0xc85f_7c00],              1, Some(Rule::Unmovable)),
            ("a masking of interrupts",            &[0xaa00_03e1, 0xd503_42df],              1, Some(Rule::Unmovable)),
            ("a read of a system register",        &[0xaa00_03e1, 0xd538_4100],              1, Some(Rule::Unmovable)),
        ];
        for (what, words, at, expected) in cases {
            let found = answer(Policy::Best, words, *at).map_err(|refusal| Rule::of(&refusal).expect("a named rule"));
            assert_eq!(found.as_ref().err(), expected.as_ref(), "{what}");
            let linux = answer(Policy::LINUX_6_1, words, *at).expect_err("Linux 6.1 has no jumps here");
            assert_eq!(Rule::of(&linux), Some(Rule::NoDetours), "{what}");
        }
    }

    /// OP-4
    #[test]
    fn a_lean_detour_runs_the_instruction_and_jumps_back() {
        let at = START + 0x10_0000;
        let code = |words: &[u32]| {
            let region = answer(Policy::Best, words, 1).expect("a jump may stand there");
            lean(&ARM64, &DETOUR, &region, at)
        };
        let words = |code: crate::detour::Code| -> Vec<u32> {
            code.bytes().chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("whole words"))).collect()
        };
        let add = code(&[NOP, 0x9100_0400]).expect("in reach");
        assert_eq!(words(add), [NOP, 0x9100_0400, 0x17fc_0000]);
        let adrp = code(&[NOP, 0x9000_0000]).expect("in reach");
        assert_eq!(words(adrp), [NOP, 0x90ff_f800, 0x17fc_0000], "the same page from 256 pages further on");
        let adr = code(&[NOP, 0x10ff_ffe0]).expect_err("1 MiB and 4 bytes away");
        assert!(adr.why.contains("128 MiB"), "{adr}");
    }

    /// OP-11: the jump and its reach.
    #[test]
    fn the_jump_reaches_128_mebibytes_either_way() {
        let to = |distance: i64| START.wrapping_add_signed(distance);
        assert_eq!(branch(START, to(-8)), Some(0x17ff_fffe));
        let here = Insn::new(START, &[0; LENGTH], Flow::Next);
        assert_eq!(jump(&here, to(8)).map(|bytes| bytes[..4].to_vec()), Some(0x1400_0002_u32.to_le_bytes().to_vec()));
        for (distance, reached) in
            [(0x7ff_fffc, true), (0x800_0000, false), (-0x800_0000, true), (-0x800_0004, false), (2, false)]
        {
            assert_eq!(jump(&here, to(distance)).is_some(), reached, "{distance:#x}");
        }
    }
}
