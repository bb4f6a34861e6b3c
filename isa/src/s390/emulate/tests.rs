//! Registers before and after, worked out by hand from the Principles of Operation.

#![allow(clippy::type_complexity)] // tables of cases

use super::super::abi::{LINK as R14, r};
use super::super::decode::decode;
use super::super::rules;
use super::*;
use crate::arch::Emulation;
use crate::mem::ByteOrder;
use crate::plan::{Plan, Policy};
use crate::regs::Reg;
use crate::testing::{NoMemory, Toy};

const HERE: u64 = 0x10_0ff0;

/// Runs a branch with these registers. Returns the new pc, and checks that only the expected registers changed.
fn goes(what: &str, bytes: &[u8], before: &[(Reg, u64)], after: &[(Reg, u64)]) -> u64 {
    let mut cpu = Toy::<18> { regs: core::array::from_fn(|number| 0x1111_0000_0000_0000 | number as u64), pc: HERE };
    before.iter().for_each(|(reg, value)| cpu.set(*reg, *value));
    let mut expected = cpu.clone();
    let insn = decode(HERE, bytes).expect("an instruction");
    let Ok(Plan::Emulate(Emulation::S390(computed))) = rules::plan(&insn, Policy::Best) else { panic!("{what} is computed") };
    emulate(&computed, &insn, &mut cpu, &mut NoMemory(ByteOrder::Big)).unwrap_or_else(|fault| panic!("{what}: {fault}"));
    after.iter().for_each(|(reg, value)| expected.set(*reg, *value));
    expected.pc = cpu.pc;
    assert_eq!(cpu, expected, "{what}");
    cpu.pc
}

const R1: Reg = r(1);
const R2: Reg = r(2);
const R3: Reg = r(3);
const ONE: u64 = 0x1111_0000_0000_0001;

/// KP-2: each mask with each condition code.
#[test]
fn a_conditional_branch_tests_the_bit_of_the_condition_code() {
    for mask in 1..=15_u8 {
        for cc in 0..4_u64 {
            let is_taken = mask & 8 >> cc != 0;
            #[rustfmt::skip]
            let cases: [(&str, &[u8], u64); 4] = [
                ("bcr",  &[0x07, mask << 4 | 1],                  ONE),
                ("bc",   &[0x47, mask << 4 | 1, 0x20, 0x10],      2 * ONE + 0x11),
                ("brc",  &[0xa7, mask << 4 | 4, 0xff, 0xff],      HERE - 2),
                ("brcl", &[0xc0, mask << 4 | 4, 0, 1, 0, 0],      HERE + 0x2_0000),
            ];
            for (what, bytes, target) in cases {
                let expected = if is_taken { target } else { HERE + bytes.len() as u64 };
                assert_eq!(goes(what, bytes, &[(CC, cc)], &[]), expected, "{what}, mask {mask:x}, code {cc}");
            }
        }
    }
    assert_eq!(goes("bc without registers", &[0x47, 0xf0, 0x0f, 0xff], &[], &[]), 0xfff);
}

/// KP-2: the link register gets the next address. The target is computed before it changes.
#[test]
fn a_call_links_to_the_next_instruction() {
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], u64)] = &[
        ("balr %r14,%r1",        &[0x05, 0xe1],                         ONE),
        ("basr %r14,%r1",        &[0x0d, 0xe1],                         ONE),
        ("basr %r14,%r14",       &[0x0d, 0xee],                         ONE + 13),
        ("basr %r14,0",          &[0x0d, 0xe0],                         HERE + 2),
        ("bal %r14,4(%r1)",      &[0x45, 0xe0, 0x10, 0x04],             ONE + 4),
        ("bas %r14,4(%r14,%r1)", &[0x4d, 0xee, 0x10, 0x04],             2 * ONE + 17),
        ("bras %r14,.-2",        &[0xa7, 0xe5, 0xff, 0xff],             HERE - 2),
        ("brasl %r14,.+2^17",    &[0xc0, 0xe5, 0, 1, 0, 0],             HERE + 0x2_0000),
    ];
    for (what, bytes, target) in cases {
        assert_eq!(goes(what, bytes, &[], &[(R14, HERE + bytes.len() as u64)]), *target, "{what}");
    }
}

/// KP-2: a 32-bit count leaves the other half unchanged. With register 0 as target it counts and does not branch.
#[test]
fn a_count_branches_until_it_is_zero() {
    const NEAR: u64 = HERE + 8;
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], u64, u64, Option<u64>)] = &[
        // what            bytes                                  before                 after                  where
        ("brct",           &[0xa7, 0x16, 0, 4],                   0x5_0000_0002,         0x5_0000_0001,         Some(NEAR)),
        ("brct, the last", &[0xa7, 0x16, 0, 4],                   0x5_0000_0001,         0x5_0000_0000,         None),
        ("brct of 0",      &[0xa7, 0x16, 0, 4],                   0x5_0000_0000,         0x5_ffff_ffff,         Some(NEAR)),
        ("brctg",          &[0xa7, 0x17, 0, 4],                   0x5_0000_0000,         0x4_ffff_ffff,         Some(NEAR)),
        ("brctg, last",    &[0xa7, 0x17, 0, 4],                   1,                     0,                     None),
        ("brcth",          &[0xcc, 0x16, 0, 0, 0, 4],             0x2_0000_0005,         0x1_0000_0005,         Some(NEAR)),
        ("brcth, last",    &[0xcc, 0x16, 0, 0, 0, 4],             0x1_0000_0005,         0x0_0000_0005,         None),
        ("bctr",           &[0x06, 0x12],                         0x5_0000_0002,         0x5_0000_0001,         Some(ONE + 1)),
        ("bctr, nowhere",  &[0x06, 0x10],                         0x5_0000_0002,         0x5_0000_0001,         None),
        ("bctgr",          &[0xb9, 0x46, 0, 0x12],                0x5_0000_0000,         0x4_ffff_ffff,         Some(ONE + 1)),
        ("bctgr, nowhere", &[0xb9, 0x46, 0, 0x10],                0,                     u64::MAX,              None),
        ("bct 4(%r2)",     &[0x46, 0x10, 0x20, 0x04],             0x5_0000_0002,         0x5_0000_0001,         Some(ONE + 5)),
        ("bctg -4(%r2)",   &[0xe3, 0x10, 0x2f, 0xfc, 0xff, 0x46], 0x5_0000_0002,         0x5_0000_0001,         Some(ONE - 3)),
    ];
    for (what, bytes, before, after, target) in cases {
        let target = target.unwrap_or(HERE + bytes.len() as u64);
        assert_eq!(goes(what, bytes, &[(R1, *before)], &[(R1, *after)]), target, "{what}");
    }
    assert_eq!(goes("bctr of its own target", &[0x06, 0x11], &[(R1, 9)], &[(R1, 8)]), 9);
}

/// KP-2: the sum is compared as a signed number. An odd register is both step and limit.
#[test]
fn an_index_branch_compares_with_its_limit() {
    const NEAR: u64 = HERE + 8;
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], [u64; 3], u64, bool)] = &[
        // what                         bytes                       r1, r2 (step), r3 (limit)              r1 after     
        // taken
        ("brxle: below",                &[0x85, 0x12, 0, 4],        [5, 1, 7],                             6,              true),
        ("brxle: equal",                &[0x85, 0x12, 0, 4],        [6, 1, 7],                             7,              true),
        ("brxle: above",                &[0x85, 0x12, 0, 4],        [7, 1, 7],                             8,              false),
        ("brxh: above",                 &[0x84, 0x12, 0, 4],        [7, 1, 7],                             8,              true),
        ("brxh: equal",                 &[0x84, 0x12, 0, 4],        [6, 1, 7],                             7,              false),
        ("brxh of 32 bits, with a sign", &[0x84, 0x12, 0, 4],       [0x9_0000_0000, 0xffff_ffff, 0xffff_fff0], 0x9_ffff_ffff, true),
        ("brxhg",                       &[0xec, 0x12, 0, 4, 0, 0x44], [0, 1 << 40, 0],                     1 << 40,        true),
        ("brxlg",                       &[0xec, 0x12, 0, 4, 0, 0x45], [0, 1 << 40, 0],                     1 << 40,        false),
        ("brxlg, with a sign",          &[0xec, 0x12, 0, 4, 0, 0x45], [0, u64::MAX, 0],                    u64::MAX,       true),
    ];
    for (what, bytes, [first, increment, limit], after, taken) in cases {
        let before = [(R1, *first), (R2, *increment), (R3, *limit)];
        let target = if *taken { NEAR } else { HERE + bytes.len() as u64 };
        assert_eq!(goes(what, bytes, &before, &[(R1, *after)]), target, "{what}");
    }
    let odd = [(R1, 3), (R3, 5)];
    assert_eq!(goes("bxh %r1,%r3: 8 > 5", &[0x86, 0x13, 0x20, 0x08], &odd, &[(R1, 8)]), ONE + 9);
    assert_eq!(goes("bxle %r1,%r3: 8 > 5", &[0x87, 0x13, 0x20, 0x08], &odd, &[(R1, 8)]), HERE + 4);
    assert_eq!(goes("bxhg %r1,%r3", &[0xeb, 0x13, 0x20, 0x08, 0, 0x44], &odd, &[(R1, 8)]), ONE + 9);
    assert_eq!(goes("bxleg %r1,%r3", &[0xeb, 0x13, 0x20, 0x08, 0, 0x45], &odd, &[(R1, 8)]), HERE + 6);
    let same = goes("bxh %r3,%r3: with what it was", &[0x86, 0x33, 0x20, 0x08], &[(R3, 5)], &[(R3, 10)]);
    assert_eq!(same, ONE + 9);
}

/// KP-2: every form of compare-and-branch, with each outcome and each mask.
#[test]
fn compare_and_branch_tests_the_bit_of_the_outcome() {
    const MINUS: u64 = 0xffff_ffff_ffff_fffb;
    /// First, second; outcome of the 64-bit comparison, signed and unsigned; then of the 32-bit comparison.
    type Values = (u64, u64, [u8; 4]);
    const VALUES: &[Values] = &[
        (5, 5, [EQUAL; 4]),
        (4, 5, [LOW; 4]),
        (6, 5, [HIGH; 4]),
        (MINUS, 5, [LOW, HIGH, LOW, HIGH]),
        (5, MINUS, [HIGH, LOW, HIGH, LOW]),
        (0x1_0000_0005, 5, [HIGH, HIGH, EQUAL, EQUAL]),
        (0x8000_0000, 5, [HIGH, HIGH, LOW, HIGH]),
    ];
    for mask in [0, 2, 4, 6, 8, 10, 12, 14_u8] {
        for (first, second, outcomes) in VALUES {
            let registers = [(R1, *first), (R2, *second)];
            for (number, outcome) in outcomes.iter().enumerate() {
                let relative = [0xec, 0x12, 0, 4, mask << 4, [0x64, 0x65, 0x76, 0x77][number]];
                let absolute = [0xec, 0x12, 0x30, 0x08, mask << 4, [0xe4, 0xe5, 0xf6, 0xf7][number]];
                let taken = mask & outcome != 0;
                let next = HERE + 6;
                let what = alloc::format!("{number}: {first:#x} with {second:#x}, mask {mask}");
                assert_eq!(goes(&what, &relative, &registers, &[]), if taken { HERE + 8 } else { next }, "{what}");
                assert_eq!(goes(&what, &absolute, &registers, &[]), if taken { ONE + 10 } else { next }, "{what}");
                // The immediate has 8 bits, sign-extended in signed comparisons.
                let is_signed = number & 1 == 0;
                if *second == 5 || is_signed {
                    let relative = [0xec, 0x10 | mask, 0, 4, *second as u8, [0x7c, 0x7d, 0x7e, 0x7f][number]];
                    let absolute = [0xec, 0x10 | mask, 0x30, 0x08, *second as u8, [0xfc, 0xfd, 0xfe, 0xff][number]];
                    assert_eq!(goes(&what, &relative, &registers, &[]), if taken { HERE + 8 } else { next }, "{what}");
                    assert_eq!(goes(&what, &absolute, &registers, &[]), if taken { ONE + 10 } else { next }, "{what}");
                }
            }
        }
    }
    let above = goes("clgijh %r1,255", &[0xec, 0x12, 0, 4, 0xff, 0x7d], &[(R1, 256)], &[]);
    assert_eq!(above, HERE + 8, "without a sign it is 255");
}

/// KP-2
#[test]
fn larl_gives_the_address_of_the_original() {
    assert_eq!(goes("larl %r1,.-2", &[0xc0, 0x10, 0xff, 0xff, 0xff, 0xff], &[], &[(R1, HERE - 2)]), HERE + 6);
}

/// KP-9: an `Emulation` of another ISA is left to the CPU.
#[test]
fn an_emulation_of_another_isa_changes_nothing() {
    let insn = decode(HERE, &[0x18, 0x12]).expect("an instruction");
    let mut cpu = Toy { regs: [7; 18], pc: HERE };
    assert!((super::super::S390X.emulate)(&Emulation::AsWritten, &insn, &mut cpu, &mut NoMemory(ByteOrder::Big)).is_err());
    assert_eq!(cpu, Toy { regs: [7; 18], pc: HERE });
}
