use super::super::ARM;
use super::*;
use crate::detour::lean;
use crate::plan::Refusal;
use crate::region::{PlainText, Region, Rule, region};
use alloc::vec::Vec;

const START: u64 = 0xc030_0000;

fn answer(policy: Policy, words: &[u32], at: usize) -> Result<Region, Refusal> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let function = START..START + bytes.len() as u64;
    let mut text = PlainText { start: START, bytes, ..PlainText::default() };
    region(&ARM, policy, function, START + 4 * at as u64, &mut text)
}

/// OP-3, OP-11: Linux optimises everything that it accepts. `best` leaves branches to the breakpoint.
#[test]
fn one_instruction_is_replaced_by_a_jump() {
    const OK: Option<Rule> = None;
    #[rustfmt::skip]
    let cases: &[(&str, u32, Option<Rule>, Option<Rule>)] = &[
        // what                        word         Linux 6.1              best
        ("add",                        0xe280_0001, OK,                    OK),
        ("addne",                      0x1280_0001, OK,                    OK),
        ("push",                       0xe92d_4010, OK,                    OK),
        ("bl",                         0xebff_fffe, OK,                    Some(Rule::Unmovable)),
        ("pop with the pc",            0xe8bd_8010, OK,                    Some(Rule::Unmovable)),
        ("ldr of a literal",           0xe59f_0004, OK,                    Some(Rule::Unmovable)),
        ("mrc",                        0xee1d_2f70, Some(Rule::Unmovable), OK),
        ("ldrex",                      0xe193_0f9f, Some(Rule::Unmovable), Some(Rule::Unmovable)),
        ("a store 68 bytes down",      0xe52d_2044, Some(Rule::Unmovable), OK),
    ];
    for (what, word, linux, best) in cases {
        for (policy, expected) in [(Policy::LINUX_6_1, linux), (Policy::Best, best)] {
            let found = answer(policy, &[0xe1a0_0000, *word, 0x1aff_fffd, 0xe12f_ff1e], 1);
            let found = found.map(|region| region.bytes().to_vec()).map_err(|refusal| refusal.errno);
            let expected = expected.map_or(Ok(word.to_le_bytes().to_vec()), |rule| Err(rule.refusal().errno));
            assert_eq!(found, expected, "{what}, {policy:?}");
        }
    }
}

/// OP-11: a detour is a no-op, the instruction and a jump back. The jump to it has the instruction's condition.
#[test]
fn the_jump_has_the_condition_of_the_instruction() {
    const AT: u64 = START - 0x100_0000;
    let region = answer(Policy::Best, &[0x1280_0001, 0xe12f_ff1e], 0).expect("it can move");
    let code = lean(&ARM, &DETOUR, &region, AT).expect("in reach");
    let words: Vec<u32> =
        code.bytes().chunks_exact(4).filter_map(|word| Some(u32::from_le_bytes(*word.first_chunk()?))).collect();
    assert_eq!(words, [0xe1a0_0000, 0x1280_0001, 0xea3f_fffd]);
    let jump = (DETOUR.jump)(&region.insns()[0], AT).map(|bytes| bytes[..4].to_vec());
    assert_eq!(jump, Some(0x1abf_fffe_u32.to_le_bytes().to_vec()));
}

/// OP-11
#[test]
fn the_jump_reaches_32_mebibytes_either_way() {
    let from = 0x1000;
    let cases = [(0x200_1004, true), (0x200_1008, false), (0xfe00_1008, true), (0xfe00_1004, false), (0x2002, false)];
    for (to, reached) in cases {
        assert_eq!(branch(ALWAYS, from, to).is_some(), reached, "{to:#x}: addresses wrap");
    }
}
