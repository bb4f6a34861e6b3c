//! Registers before and after, worked out by hand from the Arm Architecture Reference Manual.

#![allow(clippy::type_complexity)] // tables of cases

use super::super::ARM64;
use super::super::abi::{FP, SP, V0};
use super::*;
use crate::arch::Emulation;
use crate::mem::ByteOrder;
use crate::plan::{Plan, Policy};
use crate::regs::Reg;
use crate::testing::Toy;
use alloc::vec::Vec;

const HERE: u64 = 0xffff_8000_0801_0ff0;
/// The literals behind the instruction.
const LITERALS: [u8; 16] = [0xfe, 0xff, 0xff, 0x8f, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff];
const N: u64 = 1 << 31;
const Z: u64 = 1 << 30;
const C: u64 = 1 << 29;
const V: u64 = 1 << 28;
/// PSTATE: EL1 with its own stack pointer.
const EL1H: u64 = 5;

/// Memory with the literals, 8 bytes behind the instruction. All other addresses fault.
struct Text;

impl Memory for Text {
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let from = address.wrapping_sub(HERE + 8) as usize;
        let held = from.checked_add(into.len()).and_then(|end| LITERALS.get(from..end));
        into.copy_from_slice(held.ok_or(Fault { address, write: false })?);
        Ok(())
    }
    fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Fault> {
        Err(Fault { address, write: true })
    }
}

/// A CPU with a different value in each register.
fn toy() -> Toy<128> {
    let mut regs = [0; 128];
    for (number, value) in regs.iter_mut().enumerate() {
        *value = 0x1111_0000_0000_0000 | number as u64;
    }
    regs[usize::from(PSTATE.0)] = EL1H;
    regs[usize::from(TAGS.0)] = 0;
    Toy { regs, pc: HERE }
}

fn run(word: u32, toy: &mut Toy<128>) -> Result<(), Fault> {
    let insn = (ARM64.decode)(HERE, &word.to_le_bytes()).expect("a whole word");
    let Ok(Plan::Emulate(what)) = (ARM64.plan)(&insn, Policy::Best) else { panic!("{word:08x} is computed") };
    (ARM64.emulate)(&what, &insn, toy, &mut Text).map(|_| ())
}

/// Runs an instruction with these registers set; checks that only the registers of `after` change; returns the distance
/// that the pc moves.
fn goes(what: &str, word: u32, before: &[(Reg, u64)], after: &[(Reg, u64)]) -> i64 {
    let mut cpu = toy();
    before.iter().for_each(|(reg, value)| cpu.set(*reg, *value));
    let mut expected = cpu.clone();
    run(word, &mut cpu).unwrap_or_else(|fault| panic!("{what}: {fault}"));
    after.iter().for_each(|(reg, value)| expected.set(*reg, *value));
    expected.pc = cpu.pc;
    assert_eq!(cpu, expected, "{what}");
    cpu.pc.wrapping_sub(HERE) as i64
}

/// KP-2: branches.
#[test]
fn branches_go_to_the_architectures_target() {
    const X5: Reg = x(5);
    let target = HERE + 0x1000;
    let tagged = target ^ 0xa5 << 56;
    #[rustfmt::skip]
    let cases: &[(&str, u32, &[(Reg, u64)], &[(Reg, u64)], i64)] = &[
        // what                                    word         before                     after                                 by
        ("b .+8",                                  0x1400_0002, &[],                       &[],                                  8),
        ("b, the farthest back",                   0x1600_0000, &[],                       &[],                                  -0x800_0000),
        ("bl .+8",                                 0x9400_0002, &[],                       &[(LR, HERE + 4)],                    8),
        ("cbz x5, 0",                              0xb400_0085, &[(X5, 0)],                &[],                                  16),
        ("cbz x5, high bits",                      0xb400_0085, &[(X5, 1 << 32)],          &[],                                  4),
        ("cbz w5, high bits",                      0x3400_0085, &[(X5, 1 << 32)],          &[],                                  16),
        ("cbnz w5, high bits",                     0x3500_0085, &[(X5, 1 << 32)],          &[],                                  4),
        ("cbnz x5, high bits",                     0xb500_0085, &[(X5, 1 << 32)],          &[],                                  16),
        ("cbz xzr, whatever the stack pointer is", 0xb400_009f, &[(SP, 0x1234)],           &[],                                  16),
        ("tbz w5, #31, clear",                     0x36f8_0085, &[(X5, !(1 << 31))],       &[],                                  16),
        ("tbz w5, #31, set",                       0x36f8_0085, &[(X5, 1 << 31)],          &[],                                  4),
        ("tbnz x5, #63, set",                      0xb7f8_0085, &[(X5, 1 << 63)],          &[],                                  16),
        ("tbnz x5, #32, clear",                    0xb700_0085, &[(X5, !(1 << 32))],       &[],                                  4),
        ("tbnz xzr, #0",                           0x3700_009f, &[(SP, 1)],                &[],                                  4),
        ("br x5",                                  0xd61f_00a0, &[(X5, target)],           &[],                                  0x1000),
        ("br x5, a tag is dropped",                0xd61f_00a0, &[(X5, tagged), (TAGS, 2)], &[],           0x1000),
        ("br x5, tags off in this half",           0xd61f_00a0, &[(X5, tagged), (TAGS, 1)], &[],           0x5b00_0000_0000_1000),
        ("blr x5",                                 0xd63f_00a0, &[(X5, target)],           &[(LR, HERE + 4)],                    0x1000),
        ("blr x30: reads before writing",          0xd63f_03c0, &[(LR, target)],           &[(LR, HERE + 4)],                    0x1000),
        ("ret",                                    0xd65f_03c0, &[(LR, target)],           &[],                                  0x1000),
        ("ret x5",                                 0xd65f_00a0, &[(X5, target)],           &[],                                  0x1000),
        ("br xzr",                                 0xd61f_03e0, &[],                       &[],                                  0u64.wrapping_sub(HERE) as i64),
    ];
    for (what, word, before, after, by) in cases {
        assert_eq!(goes(what, *word, before, after), *by, "{what}");
    }
}

/// KP-2: the manual's table of conditions, with all 16 combinations of flags.
#[test]
fn conditions_are_evaluated_as_in_the_manual() {
    #[rustfmt::skip]
    let conditions: [(&str, fn(bool, bool, bool, bool) -> bool); 16] = [
        ("eq", |_, z, _, _| z),              ("ne", |_, z, _, _| !z),
        ("cs", |_, _, c, _| c),              ("cc", |_, _, c, _| !c),
        ("mi", |n, _, _, _| n),              ("pl", |n, _, _, _| !n),
        ("vs", |_, _, _, v| v),              ("vc", |_, _, _, v| !v),
        ("hi", |_, z, c, _| c && !z),        ("ls", |_, z, c, _| !c || z),
        ("ge", |n, _, _, v| n == v),         ("lt", |n, _, _, v| n != v),
        ("gt", |n, z, _, v| !z && n == v),   ("le", |n, z, _, v| z || n != v),
        ("al", |_, _, _, _| true),           ("nv", |_, _, _, _| true),
    ];
    for (code, (name, holds)) in conditions.iter().enumerate() {
        for flags in 0..16_u64 {
            let is = |flag: u64| flags << 28 & flag != 0;
            let expected = if holds(is(N), is(Z), is(C), is(V)) { -8 } else { 4 };
            for bc in [0, 0x10] {
                let word = 0x54ff_ffc0 | bc | code as u32;
                let went = goes(name, word, &[(PSTATE, EL1H | flags << 28)], &[]);
                assert_eq!(went, expected, "b.{name} with flags {flags:04b}");
            }
        }
    }
}

/// KP-2: addresses and literals; writes to register 31 are dropped.
#[test]
fn literal_loads_and_adr_give_the_architectures_values() {
    const X7: Reg = x(7);
    let page = HERE & !0xfff;
    let [low, high] = vector(7);
    #[rustfmt::skip]
    let cases: &[(&str, u32, &[(Reg, u64)])] = &[
        ("adr x7, .+9",                      0x3000_0047, &[(X7, HERE + 9)]),
        ("adr, the farthest back",           0x1080_0007, &[(X7, HERE - 0x10_0000)]),
        ("adrp x7, the page behind",         0xb000_0007, &[(X7, page + 0x1000)]),
        ("adrp, the farthest",               0xf07f_ffe7, &[(X7, page + 0xffff_f000)]),
        ("adr xzr",                          0x1000_005f, &[]),
        ("ldr w7, .+8",                      0x1800_0047, &[(X7, 0x8fff_fffe)]),
        ("ldr x7, .+8",                      0x5800_0047, &[(X7, 0x0706_0504_8fff_fffe)]),
        ("ldrsw x7, .+8",                    0x9800_0047, &[(X7, 0xffff_ffff_8fff_fffe)]),
        ("ldrsw x7, .+12: positive",         0x9800_0067, &[(X7, 0x0706_0504)]),
        ("ldr xzr, .+8",                     0x5800_005f, &[]),
        ("ldr s7, .+8: clears the rest",     0x1c00_0047, &[(low, 0x8fff_fffe), (high, 0)]),
        ("ldr d7, .+8",                      0x5c00_0047, &[(low, 0x0706_0504_8fff_fffe), (high, 0)]),
        ("ldr q7, .+8",                      0x9c00_0047, &[(low, 0x0706_0504_8fff_fffe), (high, 0xff0e_0d0c_0b0a_0908)]),
        ("ldr q31, .+8",                     0x9c00_005f, &[(Reg(V0.0 + 31), 0x0706_0504_8fff_fffe), (Reg(V0.0 + 63), 0xff0e_0d0c_0b0a_0908)]),
        ("prfm pldl1keep, .+8",              0xd800_0040, &[]),
        ("prfm of what is not there",        0xd880_0000, &[]),
    ];
    for (what, word, after) in cases {
        assert_eq!(goes(what, *word, &[], after), 4, "{what}");
    }
}

/// KP-2: the interrupt masks.
#[test]
fn mask_instructions_change_only_the_masks() {
    const X3: Reg = x(3);
    let all = EL1H | N | C | MASKS;
    #[rustfmt::skip]
    let cases: &[(&str, u32, &[(Reg, u64)], &[(Reg, u64)])] = &[
        ("msr daifset, #2",                     0xd503_42df, &[(PSTATE, EL1H | N)],               &[(PSTATE, EL1H | N | 1 << 7)]),
        ("msr daifset, #15",                    0xd503_4fdf, &[(PSTATE, EL1H | N | C)],           &[(PSTATE, all)]),
        ("msr daifclr, #2",                     0xd503_42ff, &[(PSTATE, all)],                    &[(PSTATE, all & !(1 << 7))]),
        ("msr daifclr, #3: was clear",          0xd503_43ff, &[(PSTATE, EL1H | Z)],               &[]),
        ("mrs x3, daif: only the masks",        0xd53b_4223, &[(PSTATE, EL1H | N | 3 << 6)],      &[(X3, 0xc0)]),
        ("mrs xzr, daif",                       0xd53b_423f, &[(PSTATE, all)],                    &[]),
        ("msr daif, x3: only the masks",        0xd51b_4223, &[(PSTATE, all), (X3, !(3 << 6))],   &[(PSTATE, all & !(3 << 6))]),
        ("msr daif, xzr",                       0xd51b_423f, &[(PSTATE, all)],                    &[(PSTATE, EL1H | N | C)]),
    ];
    for (what, word, before, after) in cases {
        assert_eq!(goes(what, *word, before, after), 4, "{what}");
    }
}

/// KP-2: a literal that cannot be read. The CPU then runs the copy, which raises the fault.
#[test]
fn a_fault_changes_nothing() {
    let literals: Vec<u32> = Vec::from([0x1800_0007, 0x5800_00c7, 0x9800_00c7, 0x5c00_00c7, 0x9c00_0067]);
    for word in literals {
        let mut cpu = toy();
        let fault = run(word, &mut cpu).expect_err("it cannot be read");
        assert!(!fault.write);
        assert_eq!(cpu, toy(), "{word:08x}");
    }
    let insn = (ARM64.decode)(HERE, &[0; 4]).expect("a whole word");
    assert!((ARM64.emulate)(&Emulation::AsWritten, &insn, &mut toy(), &mut Text).is_err(), "what is no computation of ours");
    assert_eq!(FP, x(29));
}
