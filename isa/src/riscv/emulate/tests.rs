//! Registers before and after, worked out by hand from the manual.

#![allow(clippy::type_complexity)] // tables of cases

use super::super::abi::{RA, T0, x};
use super::super::decode::decode;
use super::super::rules;
use super::*;
use crate::arch::Emulation;
use crate::plan::{Plan, Policy};
use crate::regs::Reg;
use crate::testing::Toy;

const HERE: u64 = 0xffff_ffff_8020_0ffe;

/// Runs an instruction with these registers. Returns the new pc, and checks that only the expected registers changed.
fn goes(set: Set, what: &str, word: u32, before: &[(Reg, u64)], after: &[(Reg, u64)]) -> u64 {
    let mut cpu =
        Toy::<40> { regs: core::array::from_fn(|number| set.cut(0x1111_0000_0000_0000 | number as u64)), pc: set.cut(HERE) };
    before.iter().for_each(|(reg, value)| cpu.set(*reg, *value));
    let mut expected = cpu.clone();
    let insn = decode(set, cpu.pc, &word.to_le_bytes()).expect("an instruction");
    let Ok(Plan::Emulate(Emulation::Riscv(computed))) = rules::plan(set, &insn, Policy::Best) else {
        panic!("{what} is computed")
    };
    assert_eq!(emulate(set, &computed, &insn, &mut cpu), Then::Onwards);
    after.iter().for_each(|(reg, value)| expected.set(*reg, *value));
    expected.pc = cpu.pc;
    assert_eq!(cpu, expected, "{what}");
    cpu.pc
}

const A0: Reg = x(10);
const A1: Reg = x(11);

/// KP-2: jumps, in both widths, and their link registers.
#[test]
fn a_jump_stores_the_next_address_in_its_link_register() {
    for set in Set::ALL {
        let at = |distance: i64| set.cut(HERE.wrapping_add_signed(distance));
        assert_eq!(goes(set, "c.j .+2046", 0xaffd, &[], &[]), at(2046));
        assert_eq!(goes(set, "j .-0x100000", 0x8000_006f, &[], &[]), at(-0x10_0000));
        assert_eq!(goes(set, "jal .+0x800", 0x0010_00ef, &[], &[(RA, at(4))]), at(0x800));
        assert_eq!(goes(set, "jal t0, .-2", 0xffff_f2ef, &[], &[(T0, at(4))]), at(-2));
    }
    let next = (HERE & 0xffff_ffff) + 2;
    assert_eq!(goes(Set::Rv32, "c.jal .+2046", 0x2ffd, &[], &[(RA, next)]), next + 2044);
}

/// KP-2: bit 0 of the target is cleared, and the base is read before the link register changes.
#[test]
fn a_jump_by_register_reads_its_base_first() {
    let set = Set::Rv64;
    let (c_next, next) = (HERE + 2, HERE + 4);
    assert_eq!(goes(set, "c.jr t1", 0x8302, &[(x(6), 0x4001)], &[]), 0x4000);
    assert_eq!(goes(set, "c.jalr a5", 0x9782, &[(x(15), 0x4000)], &[(RA, c_next)]), 0x4000);
    assert_eq!(goes(set, "c.jalr ra", 0x9082, &[(RA, 0x4000)], &[(RA, c_next)]), 0x4000);
    assert_eq!(goes(set, "ret", 0x0000_8067, &[(RA, 0x4000)], &[]), 0x4000);
    assert_eq!(goes(set, "jalr 4(ra)", 0x0040_80e7, &[(RA, 0x4000)], &[(RA, next)]), 0x4004);
    assert_eq!(goes(set, "jalr t0, -8(t1)", 0xff83_02e7, &[(x(6), 0x4001)], &[(T0, next)]), 0x3ff8);
    assert_eq!(goes(set, "jalr -1(zero)", 0xfff0_00e7, &[], &[(RA, next)]), u64::MAX - 1, "x0 reads as zero");
    assert_eq!(goes(Set::Rv32, "jalr -1(zero)", 0xfff0_0067, &[], &[]), 0xffff_fffe);
}

/// KP-2: every comparison, with numbers whose order depends on their sign and width.
#[test]
fn a_branch_compares_as_its_mnemonic_says() {
    /// Mnemonic, funct3, and the comparison of signed and of unsigned numbers.
    type Row = (&'static str, u32, fn(i64, i64) -> bool, fn(u64, u64) -> bool);
    const BRANCHES: [Row; 6] = [
        ("beq", 0, |a, b| a == b, |_, _| true),
        ("bne", 1, |a, b| a != b, |_, _| true),
        ("blt", 4, |a, b| a < b, |_, _| true),
        ("bge", 5, |a, b| a >= b, |_, _| true),
        ("bltu", 6, |_, _| true, |a, b| a < b),
        ("bgeu", 7, |_, _| true, |a, b| a >= b),
    ];
    const VALUES: [i64; 6] = [0, 1, -1, i64::MIN, i32::MIN as i64, i32::MAX as i64];
    for set in Set::ALL {
        for (what, funct3, signed, unsigned) in BRANCHES {
            for (a, b) in VALUES.iter().flat_map(|a| VALUES.map(|b| (*a, b))) {
                let (left, right) = (set.cut(a as u64), set.cut(b as u64));
                let taken = signed(set.signed(left), set.signed(right)) && unsigned(left, right);
                let word = 0x00b5_0463 | funct3 << 12;
                let expected = set.cut(HERE + if taken { 8 } else { 4 });
                assert_eq!(goes(set, what, word, &[(A0, left), (A1, right)], &[]), expected, "{what} {a:#x}, {b:#x}, {set:?}");
            }
        }
        for (value, zero) in [(0, true), (1, false), (1 << 31, false)] {
            let to = |taken: bool, distance: i64| set.cut(HERE.wrapping_add_signed(if taken { distance } else { 2 }));
            assert_eq!(goes(set, "c.beqz a0, .+254", 0xcd7d, &[(A0, value)], &[]), to(zero, 254));
            assert_eq!(goes(set, "c.bnez s1, .-256", 0xf081, &[(x(9), value)], &[]), to(!zero, -256));
        }
        let to = |taken: bool| set.cut(HERE + if taken { 8 } else { 4 });
        assert_eq!(goes(set, "beq a0, zero", 0x0005_0463, &[(A0, 0)], &[]), to(true), "x0 reads as zero");
        assert_eq!(goes(set, "bltu zero, a0", 0x00a0_6463, &[(A0, 0)], &[]), to(false));
    }
}

/// KP-2
#[test]
fn auipc_adds_its_pages_to_the_pc() {
    for set in Set::ALL {
        let at = |distance: i64| set.cut(HERE.wrapping_add_signed(distance));
        assert_eq!(goes(set, "auipc t0, 1", 0x0000_1297, &[], &[(T0, at(0x1000))]), at(4));
        assert_eq!(goes(set, "auipc ra, -1", 0xffff_f097, &[], &[(RA, at(-0x1000))]), at(4));
        assert_eq!(goes(set, "auipc a0, -0x80000", 0x8000_0517, &[], &[(A0, at(-0x8000_0000))]), at(4));
        assert_eq!(goes(set, "auipc zero, 1: a hint", 0x0000_1017, &[], &[]), at(4), "x0 is never set");
    }
}
