//! The jump: where it may be written, its reach, and the content of the detour.

#![allow(clippy::type_complexity)] // tables of cases

use super::super::S390X;
use super::*;
use crate::detour::lean;
use crate::plan::Refusal;
use crate::region::{PlainText, Region, Rule, region};
use alloc::vec::Vec;

const START: u64 = 0x10_0000;

const NOP6: &[u8] = &[0xc0, 0x04, 0, 0, 0, 0];
const STMG: &[u8] = &[0xeb, 0xef, 0xf0, 0x88, 0x00, 0x24];
const LR: &[u8] = &[0x18, 0x12];
const AHI: &[u8] = &[0xa7, 0x1a, 0, 5];
const BR: &[u8] = &[0x07, 0xfe];
const LARL: &[u8] = &[0xc0, 0x10, 0, 0, 0x10, 0x00];

fn answer(policy: Policy, pieces: &[&[u8]], at: usize) -> Result<Region, Refusal> {
    let bytes: Vec<u8> = pieces.concat();
    let address = START + pieces[..at].concat().len() as u64;
    let function = START..START + bytes.len() as u64;
    let mut text = PlainText { start: START, bytes, ..PlainText::default() };
    region(&S390X, policy, function, address, &mut text)
}

/// OP-2, OP-3, OP-11: six bytes are replaced if all their instructions can run elsewhere and nothing jumps into them.
#[test]
fn instructions_are_replaced_if_all_can_run_elsewhere() {
    const OK: Result<u64, Rule> = Ok(6);
    #[rustfmt::skip]
    let cases: &[(&str, &[&[u8]], usize, Result<u64, Rule>)] = &[
        ("the entry",                           &[NOP6, STMG, BR],                                      0, OK),
        ("a store of 6 bytes",                  &[NOP6, STMG, BR],                                      1, OK),
        ("larl",                                &[NOP6, LARL, BR],                                      1, OK),
        ("three of 2 bytes",                    &[NOP6, LR, LR, LR, BR],                                1, OK),
        ("2, 2 and 6 bytes",                    &[NOP6, LR, LR, STMG, BR],                              1, Ok(10)),
        ("4 and 4 bytes",                       &[NOP6, AHI, AHI, BR],                                  1, Ok(8)),
        ("the function ends",                   &[NOP6, LR, LR],                                        1, Err(Rule::NoRoom)),
        ("a return in it",                      &[NOP6, LR, BR, LR, LR],                                1, Err(Rule::Unmovable)),
        ("a call in it",                        &[NOP6, &[0xc0, 0xe5, 0, 0, 0x10, 0], BR],              1, Err(Rule::Unmovable)),
        ("a branch in it",                      &[NOP6, &[0xec, 0x18, 0x10, 0, 5, 0x7e], BR],           1, Err(Rule::Unmovable)),
        ("basr of its own address",             &[NOP6, &[0x0d, 0x10], LR, LR, BR],                     1, Err(Rule::Unmovable)),
        ("stosm in it",                         &[NOP6, LR, &[0xad, 3, 0xf0, 0xa0], BR],                1, Err(Rule::Unmovable)),
        ("a branch to its start",               &[NOP6, LR, LR, LR, &[0xa7, 0x84, 0xff, 0xfd], BR],     1, OK),
        ("a branch into it",                    &[NOP6, LR, LR, LR, &[0xa7, 0x84, 0xff, 0xfe], BR],     1, Err(Rule::JumpInto)),
        ("a count into it",                     &[NOP6, LR, LR, LR, &[0xa7, 0x16, 0xff, 0xfe], BR],     1, Err(Rule::JumpInto)),
        ("a comparison into it",                &[NOP6, LR, LR, LR, &[0xec, 0x18, 0xff, 0xfe, 5, 0x7c], BR], 1, Err(Rule::JumpInto)),
        ("a call into it",                      &[NOP6, LR, LR, LR, &[0xa7, 0xe5, 0xff, 0xfe], BR],     1, Err(Rule::CallInto)),
        ("exrl of what is in it",               &[NOP6, LR, LR, LR, &[0xc6, 0, 0xff, 0xff, 0xff, 0xfe], BR], 1, Err(Rule::JumpInto)),
        ("ex may execute anything",             &[NOP6, LR, LR, LR, &[0x44, 0, 0x10, 0], BR],           1, Err(Rule::IndirectJump)),
        ("a jump through a table",              &[NOP6, LR, LR, LR, &[0x07, 0xf1]],                     1, Err(Rule::IndirectJump)),
        ("a return on a condition elsewhere",   &[NOP6, LR, LR, LR, &[0x07, 0x8e], BR],                 1, OK),
        ("a return on a condition in it",       &[NOP6, LR, &[0x07, 0x8e], LR, BR],                     1, Err(Rule::Unmovable)),
        ("a branch on a condition, anywhere",   &[NOP6, LR, LR, LR, &[0x07, 0x81], BR],                 1, Err(Rule::IndirectJump)),
        ("a branch between instructions",       &[NOP6, STMG, &[0xa7, 0x84, 0xff, 0xfb], BR],              1, Err(Rule::JumpBetween)),
        ("data, of which nobody knows how long", &[NOP6, STMG, BR, &[0, 0, 0, 0]],                      1, Err(Rule::Undecodable)),
    ];
    for (what, pieces, at, expected) in cases {
        let found = answer(Policy::Best, pieces, *at).map(|region| region.end() - region.start());
        assert_eq!(found.map_err(|refusal| Rule::of(&refusal).expect("a named rule")), *expected, "{what}");
        let linux = answer(Policy::LINUX_6_1, pieces, *at).map_err(|refusal| Rule::of(&refusal));
        assert_eq!(linux.map(|_| ()), Err(Some(Rule::NoDetours)), "{what}: Linux has none");
    }
}

/// OP-4
#[test]
fn a_lean_detour_runs_the_instructions_and_jumps_back() {
    let at = START + 0x10_0000;
    let code = |pieces: &[&[u8]]| {
        let region = answer(Policy::Best, pieces, 1).expect("a jump may stand there");
        lean(&S390X, &DETOUR, &region, at).expect("in reach").bytes().to_vec()
    };
    let back: &[u8] = &[0xc0, 0xf4, 0xff, 0xf8, 0x00, 0x02];
    assert_eq!(code(&[NOP6, STMG, BR]), [&NOP, STMG, &[0xc0, 0xf4, 0xff, 0xf8, 0x00, 0x02]].concat());
    assert_eq!(code(&[NOP6, LR, AHI, BR]), [&NOP, LR, AHI, back].concat());
    let moved: &[u8] = &[0xc0, 0x10, 0xff, 0xf8, 0x10, 0x02];
    assert_eq!(code(&[NOP6, LARL, BR]), [&NOP, moved, back].concat(), "the same place from there");
}

/// OP-11: the jump and its reach.
#[test]
fn the_jump_reaches_4_gibibytes_either_way() {
    let from = 1 << 36;
    assert_eq!(jump(from, from + 8), Some([0xc0, 0xf4, 0, 0, 0, 4]));
    assert_eq!(jump(from, from - 8), Some([0xc0, 0xf4, 0xff, 0xff, 0xff, 0xfc]));
    for (to, reached) in [
        (from + 0xffff_fffe, true),
        (from + 0x1_0000_0000, false),
        (from - 0x1_0000_0000, true),
        (from - 0x1_0000_0002, false),
        (from + 1, false),
    ] {
        assert_eq!(jump(from, to).is_some(), reached, "{to:#x}");
    }
}
