//! The jump: where it may be written, its reach, and the content of the detour.

#![allow(clippy::type_complexity)] // tables of cases

use super::super::RISCV64;
use super::*;
use crate::detour::lean;
use crate::plan::Refusal;
use crate::region::{PlainText, Region, Rule, region};
use alloc::vec::Vec;

const START: u64 = 0xffff_ffff_8020_0000;

const C_NOP: &[u8] = &[0x01, 0x00];
const C_ADDI: &[u8] = &[0x05, 0x05];
const ADDI: &[u8] = &[0x13, 0x05, 0x15, 0x00];
const AUIPC: &[u8] = &[0x97, 0x12, 0x00, 0x00];
const C_RET: &[u8] = &[0x82, 0x80];
const C_JR_A5: &[u8] = &[0x82, 0x87];
const CALL_BACK: &[u8] = &[0xef, 0xf0, 0xdf, 0xff];

fn answer(policy: Policy, pieces: &[&[u8]], at: usize) -> Result<Region, Refusal> {
    let bytes: Vec<u8> = pieces.concat();
    let address = START + pieces[..at].concat().len() as u64;
    let function = START..START + bytes.len() as u64;
    let mut text = PlainText { start: START, bytes, ..PlainText::default() };
    region(&RISCV64, policy, function, address, &mut text)
}

/// OP-2, OP-3, OP-11: four bytes are replaced if all their instructions can run elsewhere and nothing jumps into them.
#[test]
fn instructions_are_replaced_if_all_can_run_elsewhere() {
    #[rustfmt::skip]
    let cases: &[(&str, &[&[u8]], usize, Result<u64, Rule>)] = &[
        ("one of 4 bytes",                     &[C_NOP, ADDI, C_RET],                           1, Ok(4)),
        ("two of 2 bytes",                     &[C_NOP, C_ADDI, C_ADDI, C_RET],                 1, Ok(4)),
        ("2 and 4 bytes",                      &[C_NOP, C_ADDI, ADDI, C_RET],                   1, Ok(6)),
        ("the function ends",                  &[C_NOP, C_ADDI],                                1, Err(Rule::NoRoom)),
        ("a return in it",                     &[C_NOP, C_ADDI, C_RET],                         1, Err(Rule::Unmovable)),
        ("auipc",                              &[C_NOP, AUIPC, C_RET],                          1, Err(Rule::Unmovable)),
        ("a system instruction in it",         &[C_ADDI, &[0x73, 0x00, 0x00, 0x12], C_RET],     0, Err(Rule::Unmovable)),
        ("a branch to its start",              &[C_NOP, C_ADDI, C_ADDI, &[0x75, 0xdd], C_RET],  1, Ok(4)),
        ("a branch into it",                   &[C_NOP, C_ADDI, C_ADDI, &[0x7d, 0xdd], C_RET],  1, Err(Rule::JumpInto)),
        ("a branch behind it",                 &[C_NOP, C_ADDI, C_ADDI, C_NOP, &[0x7d, 0xdd], C_RET], 1, Ok(4)),
        ("a call to its start",                &[C_NOP, C_ADDI, C_ADDI, CALL_BACK, C_RET],      1, Ok(4)),
        ("a call into it",                     &[C_ADDI, C_ADDI, &[0xef, 0xf0, 0xff, 0xff], C_RET], 0, Err(Rule::CallInto)),
        ("a switch, under two instructions",   &[C_NOP, C_ADDI, C_ADDI, C_JR_A5],               1, Err(Rule::IndirectJump)),
        ("a switch, under one instruction",    &[C_NOP, ADDI, C_JR_A5],                         1, Ok(4)),
        ("a branch between instructions",      &[C_NOP, C_ADDI, C_ADDI, ADDI, &[0x7d, 0xdd], C_RET], 1, Err(Rule::JumpBetween)),
    ];
    for (what, pieces, at, expected) in cases {
        let found = answer(Policy::Best, pieces, *at).map(|region| region.end() - region.start());
        assert_eq!(found.map_err(|refusal| Rule::of(&refusal).expect("a named rule")), *expected, "{what}");
        let linux = answer(Policy::LINUX_6_12, pieces, *at).map_err(|refusal| Rule::of(&refusal));
        assert_eq!(linux.map(|_| ()), Err(Some(Rule::NoDetours)), "{what}: Linux has none");
    }
}

/// OP-4
#[test]
fn a_lean_detour_runs_the_instructions_and_jumps_back() {
    let at = START + 0x8_0000;
    let code = |pieces: &[&[u8]]| {
        let region = answer(Policy::Best, pieces, 0).expect("a jump may stand there");
        lean(&RISCV64, &DETOUR, &region, at).expect("in reach").bytes().to_vec()
    };
    let back = |from: u64, to: u64| jump(from, to).expect("in reach").to_le_bytes();
    assert_eq!(code(&[ADDI, C_RET]), [C_NOP, ADDI, &back(at + 6, START + 4)].concat());
    assert_eq!(code(&[C_ADDI, C_NOP, C_RET]), [C_NOP, C_ADDI, C_NOP, &back(at + 6, START + 4)].concat());
    assert_eq!(code(&[C_ADDI, ADDI, C_RET]), [C_NOP, C_ADDI, ADDI, &back(at + 8, START + 6)].concat());
    let region = answer(Policy::Best, &[ADDI, C_RET], 0).expect("a jump may stand there");
    assert!(lean(&RISCV64, &DETOUR, &region, START + 0x20_0000).is_err(), "out of the jump's reach");
}

/// OP-11: the jump and its reach.
#[test]
fn the_jump_reaches_1_mebibyte_either_way() {
    let to = |distance: i64| START.wrapping_add_signed(distance);
    assert_eq!(jump(START, to(4)), Some(0x0040_006f));
    assert_eq!(jump(START, to(0xf_fffe)), Some(0x7fff_f06f));
    assert_eq!(jump(START, to(-0x10_0000)), Some(0x8000_006f));
    for distance in [0x10_0000, -0x10_0002, 1, 3, 1 << 32] {
        assert_eq!(jump(START, to(distance)), None, "{distance:#x}");
    }
    let over = Insn::new(START, &[0x01, 0x00], Flow::Next);
    assert_eq!((DETOUR.jump)(&over, to(4)), Some([0x6f, 0x00, 0x40, 0x00, 0, 0, 0, 0]));
}
