//! Registers before and after, worked out by hand from the Power ISA.

#![allow(clippy::type_complexity)] // tables of cases

use super::super::decode::decode;
use super::super::rules;
use super::*;
use crate::plan::{Plan, Policy};
use crate::ppc::abi::{CFAR, TAR, r};
use crate::testing::{NoMemory, Toy};

const HERE: u64 = 0xc000_0000_0101_0ff0;

/// A CPU with a different value in each register; the first and the last bit of the condition register are set.
fn toy(set: Set) -> Toy<64> {
    let mut regs = [0; 64];
    for (number, value) in regs.iter_mut().enumerate() {
        *value = set.cut(0x1111_0000_0000_0000 | number as u64);
    }
    regs[usize::from(CR.0)] = 0x8000_0001;
    Toy { regs, pc: set.cut(HERE) }
}

/// `bcl 20,31,.+4`: it is taken, and leads to the next instruction.
const TO_THE_NEXT: u32 = 0x429f_0005;

/// Runs a branch with these registers changed. Returns the new pc, and checks that no other register changed but CFAR, which
/// 64-bit CPUs set if the branch is taken.
fn goes(set: Set, what: &str, word: u32, before: &[(Reg, u64)], after: &[(Reg, u64)]) -> u64 {
    let mut cpu = toy(set);
    before.iter().for_each(|(reg, value)| cpu.set(*reg, *value));
    let mut expected = cpu.clone();
    let insn = decode(set, set.cut(HERE), &set.bytes(word)).expect("a whole word");
    let Ok(Plan::Emulate(computed)) = rules::plan(set, &insn, Policy::Best) else { panic!("{what} is computed") };
    (set.isa().emulate)(&computed, &insn, &mut cpu, &mut NoMemory(set.order())).unwrap_or_else(|fault| panic!("{what}: {fault}"));
    after.iter().for_each(|(reg, value)| expected.set(*reg, *value));
    expected.pc = cpu.pc;
    if set.is_64() && (cpu.pc != HERE + 4 || word == TO_THE_NEXT) {
        expected.set(CFAR, HERE);
    }
    assert_eq!(cpu, expected, "{what}");
    cpu.pc
}

/// KP-2: branches to fixed addresses and to registers, with and without a link.
#[test]
fn branches_go_to_the_architectures_target() {
    let target = 0xc000_0000_0200_0000;
    let link = (LR, HERE + 4);
    #[rustfmt::skip]
    let cases: &[(&str, u32, &[(Reg, u64)], &[(Reg, u64)], u64)] = &[
        // what                                      word         before                             after              
        // to
        ("b .+8",                                    0x4800_0008, &[],                               &[],                      HERE + 8),
        ("b, the farthest back",                     0x4a00_0000, &[],                               &[],                      HERE - 0x200_0000),
        ("ba 0x100",                                 0x4800_0102, &[],                               &[],                      0x100),
        ("bl .+8",                                   0x4800_0009, &[],                               &[link],                  HERE + 8),
        ("bcl 20,31,.+4: reads the pc",              TO_THE_NEXT, &[],                               &[link],                  HERE + 4),
        ("blt .+16, taken",                          0x4180_0010, &[],                               &[],                      HERE + 16),
        ("bge .+16, not taken",                      0x4080_0010, &[],                               &[],                      HERE + 4),
        ("bso cr7,.+16: the last bit",               0x419f_0010, &[],                               &[],                      HERE + 16),
        ("bns cr7,.+16",                             0x409f_0010, &[],                               &[],                      HERE + 4),
        ("bgel .+16: not taken, but LR is set",      0x4080_0011, &[],                               &[link],                  HERE + 4),
        ("bdnz .-16",                                0x4200_fff0, &[(CTR, 2)],                       &[(CTR, 1)],              HERE - 16),
        ("bdnz .-16, the last time",                 0x4200_fff0, &[(CTR, 1)],                       &[(CTR, 0)],              HERE + 4),
        ("bdnz .-16, CTR 0",                         0x4200_fff0, &[(CTR, 0)],                       &[(CTR, u64::MAX)],       HERE - 16),
        ("bdnz: CTR has 64 bits",                    0x4200_fff0, &[(CTR, (1 << 32) + 1)],           &[(CTR, 1 << 32)],        HERE - 16),
        ("bdz .+16",                                 0x4240_0010, &[(CTR, 1)],                       &[(CTR, 0)],              HERE + 16),
        ("bdz .+16, not yet",                        0x4240_0010, &[(CTR, 2)],                       &[(CTR, 1)],              HERE + 4),
        ("bdnzt lt: both hold",                      0x4100_0010, &[(CTR, 2)],                       &[(CTR, 1)],              HERE + 16),
        ("bdnzt lt: CTR reaches 0",                  0x4100_0010, &[(CTR, 1)],                       &[(CTR, 0)],              HERE + 4),
        ("bdnzf lt: bit is set, CTR still counts",   0x4000_0010, &[(CTR, 2)],                       &[(CTR, 1)],              HERE + 4),
        ("bdzf gt: both hold",                       0x4041_0010, &[(CTR, 1)],                       &[(CTR, 0)],              HERE + 16),
        ("blr",                                      0x4e80_0020, &[(LR, target)],                   &[],                      target),
        ("blr: the low bits are ignored",            0x4e80_0020, &[(LR, target | 3)],               &[],                      target),
        ("blrl: LR is read first",                   0x4e80_0021, &[(LR, target)],                   &[link],                  target),
        ("bltlr",                                    0x4d80_0020, &[(LR, target)],                   &[],                      target),
        ("bgelr: not taken",                         0x4c80_0020, &[(LR, target)],                   &[],                      HERE + 4),
        ("bdnzlr",                                   0x4e00_0020, &[(LR, target), (CTR, 9)],         &[(CTR, 8)],              target),
        ("bctr",                                     0x4e80_0420, &[(CTR, target)],                  &[],                      target),
        ("bctrl",                                    0x4e80_0421, &[(CTR, target)],                  &[link],                  target),
        ("bgectrl: not taken",                       0x4c80_0421, &[(CTR, target)],                  &[link],                  HERE + 4),
        ("bctar",                                    0x4e80_0460, &[(TAR, target)],                  &[],                      target),
        ("bctarl",                                   0x4e80_0461, &[(TAR, target)],                  &[link],                  target),
        ("addpcis r3,0",                             0x4c60_0004, &[],                               &[(r(3), HERE + 4)],      HERE + 4),
        ("addpcis r3,-1",                            0x4c7f_ffc5, &[],                               &[(r(3), HERE - 0xfffc)], HERE + 4),
        ("addpcis r31,0x7fff",                       0x4fff_7fc5, &[],                               &[(r(31), HERE + 0x7fff_0004)], HERE + 4),
    ];
    for (what, word, before, after, to) in cases {
        for set in [Set::Little64, Set::Big64] {
            assert_eq!(goes(set, what, *word, before, after), *to, "{what}");
        }
    }
}

/// KP-2: 32-bit registers wrap at 32 bits.
#[test]
fn branches_of_32_bits_wrap() {
    let here = Set::Big32.cut(HERE);
    #[rustfmt::skip]
    let cases: &[(&str, u32, &[(Reg, u64)], &[(Reg, u64)], u64)] = &[
        ("bl .+8",             0x4800_0009, &[],                  &[(LR, here + 4)],     here + 8),
        ("bdnz .-16, CTR 0",   0x4200_fff0, &[(CTR, 0)],          &[(CTR, 0xffff_ffff)], here - 16),
        ("bdz, the last time", 0x4240_fff0, &[(CTR, 1)],          &[(CTR, 0)],           here - 16),
        ("blr",                0x4e80_0020, &[(LR, 0xc000_1000)], &[],                   0xc000_1000),
        ("ba to the top",      0x4bff_fffe, &[],                  &[],                   0xffff_fffc),
    ];
    for (what, word, before, after, to) in cases {
        assert_eq!(goes(Set::Big32, what, *word, before, after), *to, "{what}");
    }
}

/// KP-2: every BO field with every state of the counter and of the tested bit.
#[test]
fn every_bo_field_is_evaluated_as_in_the_manual() {
    for condition in 0..32_u32 {
        for (count, is_set) in [(1, false), (1, true), (2, false), (2, true)] {
            let counts = condition & 4 == 0;
            let count_says = !counts || (count == 1) == (condition & 2 != 0);
            let bit_says = condition & 16 != 0 || is_set == (condition & 8 != 0);
            let cr = if is_set { 1 << 29 } else { !(1 << 29) & 0xffff_ffff };
            let after: &[(Reg, u64)] = if counts { &[(CTR, count - 1)] } else { &[] };
            // bc on bit 2 of the condition register, 64 bytes on.
            let word = 0x4002_0040 | condition << 21;
            let to = goes(Set::Little64, "bc", word, &[(CTR, count), (CR, cr)], after);
            let expected = if count_says && bit_says { HERE + 0x40 } else { HERE + 4 };
            assert_eq!(to, expected, "condition {condition}, count {count}, bit {is_set}");
        }
    }
}
