//! Registers before and after, worked out by hand from the MIPS manuals.

use super::super::abi::RA;
use super::super::decode::decode;
use super::super::rules;
use super::*;
use crate::arch::Emulation;
use crate::plan::{Plan, Policy};
use crate::testing::{NoMemory, Toy};
use alloc::vec::Vec;

const HERE: u64 = 0xffff_ffff_8010_0ff0;

/// Runs a branch: the new pc, whether the delay slot runs, and the registers that changed.
fn does(set: Set, word: u32, slot: u32, values: [u64; 2]) -> (u64, Then, Vec<(u8, u64)>) {
    let bytes = [set.bytes(word), set.bytes(slot)].concat();
    let insn = decode(set, set.cut(HERE), &bytes).expect("whole words");
    let Ok(Plan::Emulate(Emulation::Mips(what))) = rules::plan(set, &insn, Policy::Best) else {
        panic!("{word:08x} is not computed")
    };
    let mut regs = [0; 64];
    for (number, value) in regs.iter_mut().enumerate().skip(1) {
        *value = set.cut(0x1111_0000_0000_0000 | number as u64);
    }
    (regs[2], regs[3]) = (set.cut(values[0]), set.cut(values[1]));
    let before = Toy { regs, pc: set.cut(HERE) };
    let mut cpu = before.clone();
    let then = emulate(set, &what, &insn, &mut cpu);
    let changed = (0..64).filter(|number| cpu.regs[*number] != before.regs[*number]);
    (cpu.pc, then, changed.map(|number| (number as u8, cpu.regs[number])).collect())
}

const SUM: u32 = 0x2442_0001;
const RUNS: Then = Then::Copy { undo: None };
const MINUS: u64 = u64::MAX;

/// KP-2: each condition taken and not taken, with signed values of full width. A branch-likely that is not taken
/// nullifies its delay slot.
#[test]
fn branches_are_taken_by_their_condition() {
    #[rustfmt::skip]
    let cases: &[(&str, u32, [u64; 2], bool)] = &[
        // what                word         v0, v1      taken
        ("b",                  0x1000_0010, [1, 2],     true),
        ("beq, equal",         0x1043_0010, [5, 5],     true),
        ("beq, not",           0x1043_0010, [5, 6],     false),
        ("bne, equal",         0x1443_0010, [5, 5],     false),
        ("bne, not",           0x1443_0010, [5, 6],     true),
        ("blez of 1",          0x1840_0010, [1, 0],     false),
        ("blez of 0",          0x1840_0010, [0, 0],     true),
        ("blez of -1",         0x1840_0010, [MINUS, 0], true),
        ("bgtz of 1",          0x1c40_0010, [1, 0],     true),
        ("bgtz of 0",          0x1c40_0010, [0, 0],     false),
        ("bgtz of -1",         0x1c40_0010, [MINUS, 0], false),
        ("bltz of 0",          0x0440_0010, [0, 0],     false),
        ("bltz of -1",         0x0440_0010, [MINUS, 0], true),
        ("bgez of 0",          0x0441_0010, [0, 0],     true),
        ("bgez of -1",         0x0441_0010, [MINUS, 0], false),
        ("beql, equal",        0x5043_0010, [5, 5],     true),
        ("beql, not",          0x5043_0010, [5, 6],     false),
        ("bnel, equal",        0x5443_0010, [5, 5],     false),
        ("bnel, not",          0x5443_0010, [5, 6],     true),
        ("blezl of 1",         0x5840_0010, [1, 0],     false),
        ("blezl of -1",        0x5840_0010, [MINUS, 0], true),
        ("bgtzl of 1",         0x5c40_0010, [1, 0],     true),
        ("bgtzl of -1",        0x5c40_0010, [MINUS, 0], false),
        ("bltzl of 0",         0x0442_0010, [0, 0],     false),
        ("bltzl of -1",        0x0442_0010, [MINUS, 0], true),
        ("bgezl of 0",         0x0443_0010, [0, 0],     true),
        ("bgezl of -1",        0x0443_0010, [MINUS, 0], false),
        ("bltzal of 0",        0x0450_0010, [0, 0],     false),
        ("bltzal of -1",       0x0450_0010, [MINUS, 0], true),
        ("bltzal of zero: not taken, but taken in Linux 6.1",   0x0410_0010, [1, 2], false),
        ("bgezal of 0",        0x0451_0010, [0, 0],     true),
        ("bgezal of -1",       0x0451_0010, [MINUS, 0], false),
        ("bal",                0x0411_0010, [1, 2],     true),
        ("bltzall of 0",       0x0452_0010, [0, 0],     false),
        ("bltzall of -1",      0x0452_0010, [MINUS, 0], true),
        ("bgezall of 0",       0x0453_0010, [0, 0],     true),
        ("bgezall of -1",      0x0453_0010, [MINUS, 0], false),
        // Conditions that never hold, or always, whatever the registers are: the delay slot runs all the same.
        ("bne zero,zero",      0x1400_0010, [1, 2],     false),
        ("bgtz zero",          0x1c00_0010, [1, 2],     false),
        ("bltz zero",          0x0400_0010, [1, 2],     false),
        ("blez zero",          0x1800_0010, [1, 2],     true),
        ("bgez zero",          0x0401_0010, [1, 2],     true),
        ("bnel zero,zero",     0x5400_0010, [1, 2],     false),
        ("bgtzl zero",         0x5c00_0010, [1, 2],     false),
        ("bltzl zero",         0x0402_0010, [1, 2],     false),
        ("blezl zero",         0x5800_0010, [1, 2],     true),
        ("bgezl zero",         0x0403_0010, [1, 2],     true),
        ("bltzall of zero",    0x0412_0010, [1, 2],     false),
    ];
    for (what, word, values, is_taken) in cases {
        for set in Set::ALL {
            let (behind, target) = (set.cut(HERE + 8), set.cut(HERE + 0x44));
            let is_likely = word >> 28 == 5 || word & 0xfc0e_0000 == 0x0402_0000;
            let links = word & 0xfc10_0000 == 0x0410_0000;
            let (pc, then, changed) = does(set, *word, SUM, *values);
            assert_eq!(pc, if *is_taken { target } else { behind }, "{what}, {set:?}");
            assert_eq!(then, if is_likely && !is_taken { Then::Onwards } else { RUNS }, "{what}, {set:?}");
            let expected = if links { [(RA.0, behind)].to_vec() } else { Vec::new() };
            assert_eq!(changed, expected, "{what}, {set:?}: a return address, taken or not");
            assert_eq!(does(set, *word, 0, *values), (pc, Then::Onwards, changed), "{what}: nothing is to be run of a nop");
        }
    }
}

/// KP-2: 64-bit variants compare 64 bits, 32-bit variants 32.
#[test]
fn conditions_compare_whole_registers() {
    for set in Set::ALL {
        let is_taken = |word, values| does(set, word, SUM, values).0 == set.cut(HERE + 0x44);
        let wide = set.is_64();
        assert_eq!(is_taken(0x1043_0010, [1 << 40, 0]), !wide, "beq");
        assert_eq!(is_taken(0x0440_0010, [1 << 31, 0]), !wide, "bltz");
        assert_eq!(is_taken(0x1c40_0010, [1 << 40, 0]), wide, "bgtz");
    }
}

/// KP-2, RP-1: jumps and their link register.
#[test]
fn jumps_lead_to_their_target_or_their_register() {
    for set in Set::ALL {
        let behind = set.cut(HERE + 8);
        let (to, value) = (set.cut(0xffff_ffff_8040_0000), 0xffff_ffff_8040_0000);
        assert_eq!(does(set, 0x0810_0000, SUM, [0, 0]), (to, RUNS, Vec::new()), "j");
        assert_eq!(does(set, 0x0c10_0000, SUM, [0, 0]), (to, RUNS, [(31, behind)].to_vec()), "jal");
        assert_eq!(does(set, 0x0040_0008, SUM, [value, 0]), (to, RUNS, Vec::new()), "jr v0");
        assert_eq!(does(set, 0x0040_f809, SUM, [value, 0]), (to, RUNS, [(31, behind)].to_vec()), "jalr v0");
        assert_eq!(does(set, 0x0040_1809, SUM, [value, 0]), (to, RUNS, [(3, behind)].to_vec()), "jalr v1,v0");
        assert_eq!(does(set, 0x0040_0009, SUM, [value, 0]), (to, RUNS, Vec::new()), "jalr zero,v0");
        assert_eq!(does(set, 0x0040_0008, 0, [value, 0]), (to, Then::Onwards, Vec::new()), "jr v0, and a nop");
    }
}

/// KP-2: an `Emulation` of another ISA is left to the CPU and changes nothing.
#[test]
fn an_emulation_of_another_isa_changes_nothing() {
    for set in Set::ALL {
        let insn = decode(set, set.cut(HERE), &[0; 4]).expect("a word");
        let mut cpu = Toy { regs: [7; 64], pc: set.cut(HERE) };
        let before = cpu.clone();
        let answer = (set.isa().emulate)(&Emulation::AsWritten, &insn, &mut cpu, &mut NoMemory(set.order()));
        assert!(answer.is_err());
        assert_eq!(cpu, before);
    }
}
