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
        lean(&RISCV64, &DETOUR_64, &region, at).expect("in reach").bytes().to_vec()
    };
    let back = |from: u64, to: u64| jump(from, to).expect("in reach").to_le_bytes();
    assert_eq!(code(&[ADDI, C_RET]), [C_NOP, ADDI, &back(at + 6, START + 4)].concat());
    assert_eq!(code(&[C_ADDI, C_NOP, C_RET]), [C_NOP, C_ADDI, C_NOP, &back(at + 6, START + 4)].concat());
    assert_eq!(code(&[C_ADDI, ADDI, C_RET]), [C_NOP, C_ADDI, ADDI, &back(at + 8, START + 6)].concat());
    let region = answer(Policy::Best, &[ADDI, C_RET], 0).expect("a jump may stand there");
    assert!(lean(&RISCV64, &DETOUR_64, &region, START + 0x20_0000).is_err(), "out of the jump's reach");
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
    assert_eq!((DETOUR_64.jump)(&over, to(4)), Some([0x6f, 0x00, 0x40, 0x00, 0, 0, 0, 0]));
}

/// OP-3, OP-4, OP-11: out of the reach of `jal`, a far jump of 8 bytes goes through a free register, and back through
/// another.
#[test]
fn a_far_jump_goes_through_free_registers() {
    use crate::region::region_to;
    const NOP: &[u8] = &[0x13, 0, 0, 0];
    let far = START - 0x4000_0000;
    let answer = |pieces: &[&[u8]], detour: u64| {
        let bytes: Vec<u8> = pieces.concat();
        let function = START..START + bytes.len() as u64;
        let mut text = PlainText { start: START, bytes, ..PlainText::default() };
        region_to(&RISCV64, Policy::Best, function, START, detour, &mut text)
    };
    let entry = answer(&[NOP, NOP, C_RET], far).expect("both nops can run elsewhere");
    assert_eq!((entry.bytes().len(), entry.far().map(|far| far.map(|reg| reg.0))), (8, Some([5, 5])));
    let code = lean(&RISCV64, &DETOUR_64, &entry, far).expect("in reach");
    let back = [&[C_NOP, NOP, NOP][..], &[&[0x97, 0x02, 0x00, 0x40], &[0x67, 0x80, 0xe2, 0xff]]].concat();
    assert_eq!(code.bytes(), back.concat(), "auipc t0, 0x40000; jalr x0, -2(t0)");
    let there = DETOUR_64.jump_through(&entry.insns()[0], far, entry.far().map(|[through, _]| through));
    assert_eq!(there, Some([0x97, 0x02, 0x00, 0xc0, 0x67, 0x80, 0x02, 0x00]), "auipc t0, -0x40000; jalr x0, 0(t0)");
    let near = answer(&[NOP, NOP, C_RET], START + 0x1000).expect("in reach of the first jump");
    assert_eq!((near.bytes().len(), near.far()), (4, None));
    let name = |refused: Result<Region, Refusal>| Rule::of(&refusal_of(refused));
    assert_eq!(name(answer(&[NOP, C_NOP, C_RET], far)), Some(Rule::Unmovable), "the return is one of the 8 bytes");
    assert_eq!(name(answer(&[NOP, C_RET], far)), Some(Rule::NoRoom));
    assert_eq!(name(answer(&[NOP, NOP, &[0x6f, 0, 0, 0x10]], far)), Some(Rule::NoRegister), "it may need every register");
}

fn refusal_of(refused: Result<Region, Refusal>) -> Refusal {
    refused.expect_err("no jump may stand there")
}

/// OP-11: the far jump and its reach.
#[test]
fn the_far_jump_reaches_2_gibibytes_either_way() {
    let through = Reg(5);
    for set in Set::ALL {
        for distance in [0_i64, 2, -2, 0x7fe, 0x800, -0x800, -0x802, 0x1234_5678, -0x1234_5678, 0x7fff_f7fe, -0x8000_0000] {
            let (from, to) = (set.cut(START), set.cut(START.wrapping_add_signed(distance)));
            let bytes = far_jump(set, from, to, through).unwrap_or_else(|| panic!("{distance:#x} is reached"));
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a word"));
            let pages = from.wrapping_add_signed(i64::from((word(0) & 0xffff_f000) as i32));
            assert_eq!(set.cut(pages.wrapping_add_signed(i64::from(word(4) as i32 >> 20))), to, "{distance:#x}, {set:?}");
            assert_eq!((word(0) & 0xfff, word(4) & 0xf_ffff), (0x297, 0x2_8067), "auipc t0; jalr x0, (t0)");
        }
    }
    for distance in [0x7fff_f800, -0x8000_0802, 1, 1 << 40] {
        assert_eq!(far_jump(Set::Rv64, START, START.wrapping_add_signed(distance), through), None, "{distance:#x}");
    }
}
