//! Registers before and after, worked out by hand from the PA-RISC manuals.

use super::super::abi;
use super::super::decode::decode;
use super::super::{PARISC, rules};
use super::*;
use crate::arch::Emulation;
use crate::mem::ByteOrder;
use crate::plan::{Plan, Policy};
use crate::testing::{NoMemory, Toy};
use alloc::vec::Vec;

const HERE: u64 = 0x0010_1ff0;

fn cpu(set: &[(Reg, u64)]) -> Toy<80> {
    let mut regs = [0; 80];
    for (number, value) in regs.iter_mut().enumerate().take(32).skip(1) {
        *value = 0x1111_0000 | (4 * number as u64);
    }
    for (reg, value) in [(NPC, HERE + 4), (SPACE, 7), (NEXT_SPACE, 7)].iter().chain(set) {
        regs[usize::from(reg.0)] = *value;
    }
    Toy { regs, pc: HERE }
}

/// The new pc, the next step, and the changed registers.
type Done = (u64, Then, Vec<(Reg, u64)>);

/// Runs a word by its plan.
fn does(word: u32, set: &[(Reg, u64)]) -> Done {
    let insn = decode(HERE, &word.to_be_bytes()).expect("a whole word");
    let Ok(Plan::Emulate(what)) = rules::plan(&insn, Policy::Best) else { panic!("{word:08x} is not computed") };
    let before = cpu(set);
    let mut cpu = before.clone();
    let then = (PARISC.emulate)(&what, &insn, &mut cpu, &mut NoMemory(ByteOrder::Big)).expect("it does not fault");
    let changed = (0..80).filter(|number| cpu.regs[*number] != before.regs[*number]);
    (cpu.pc, then, changed.map(|number| (Reg(number as u8), cpu.regs[number])).collect())
}

/// The outcome of a branch over `distance` bytes from its own address, in words.
fn goes(word: u32, distance: i64, set: &[(Reg, u64)]) -> &'static str {
    let target = HERE.wrapping_add_signed(distance);
    match does(word, set) {
        (pc, Then::DelaySlot { then }, _) if pc == HERE + 4 && then == target => "taken",
        (pc, Then::DelaySlot { then }, _) if pc == HERE + 4 && then == HERE + 8 => "not",
        (pc, Then::Onwards, _) if pc == target => "taken at once",
        (pc, Then::Onwards, _) if pc == HERE + 8 => "over its slot",
        other => panic!("{word:08x}: {other:x?}"),
    }
}

/// KP-2: a taken branch nullifies forwards, one that is not taken backwards.
#[test]
fn a_conditional_branch_nullifies_by_its_direction() {
    const FORWARDS: u32 = 0x80a4_2010;
    const BACK: u32 = 0x80a4_3fd5;
    let (equal, other) = ([(r(4), 9), (r(5), 9)], [(r(4), 9), (r(5), 8)]);
    #[rustfmt::skip]
    let cases = [
        (FORWARDS,     16,  equal, "taken"),
        (FORWARDS,     16,  other, "not"),
        (FORWARDS | 2, 16,  equal, "taken at once"),
        (FORWARDS | 2, 16,  other, "not"),
        (BACK,         -16, equal, "taken"),
        (BACK,         -16, other, "not"),
        (BACK | 2,     -16, equal, "taken"),
        (BACK | 2,     -16, other, "over its slot"),
    ];
    for (word, distance, set, expected) in cases {
        assert_eq!(goes(word, distance, &set), expected, "{word:08x}");
    }
}

/// KP-2: each group of conditional branches decides by its operands, and changes the register that it names.
#[test]
fn conditional_branches_follow_the_manual() {
    let of = |word: u32, set: &[(Reg, u64)]| (goes(word, 16, set) == "taken", does(word, set).2);
    let minus = |number: u32| u64::from(number.wrapping_neg());
    assert_eq!(of(0x80a4_8010, &[(r(4), 1), (r(5), 2)]), (true, [].to_vec()), "cmpb,<< r4,r5");
    assert_eq!(of(0x88a4_8010, &[(r(4), 1), (r(5), 2)]), (false, [].to_vec()), "cmpb,>>= r4,r5");
    assert_eq!(of(0x849f_4010, &[(r(4), 0)]), (true, [].to_vec()), "cmpib,< -1,r4");
    assert_eq!(of(0x849f_4010, &[(r(4), minus(1))]), (false, [].to_vec()), "cmpib,< -1,r4");
    assert_eq!(of(0xa485_2010, &[(r(4), 0)]), (false, [(r(4), minus(14))].to_vec()), "addib,= -14,r4: nonzero");
    assert_eq!(of(0xa49f_2010, &[(r(4), 1)]), (true, [(r(4), 0)].to_vec()), "addib,= -1,r4");
    assert_eq!(of(0xa085_2010, &[(r(4), 3), (r(5), minus(3))]), (true, [(r(4), 0)].to_vec()), "addb,= r5,r4");
    assert_eq!(of(0xc885_2010, &[(r(4), 3), (r(5), 0)]), (true, [(r(4), 0)].to_vec()), "movb,= r5,r4");
    assert_eq!(of(0xcc85_2010, &[(r(4), 3)]), (false, [(r(4), minus(14))].to_vec()), "movib,= -14,r4");
    assert_eq!(of(0xc4a4_4010, &[(r(4), 1 << 26)]), (true, [].to_vec()), "bb,< r4,5");
    assert_eq!(of(0xc4a4_c010, &[(r(4), 1 << 26)]), (false, [].to_vec()), "bb,>= r4,5");
    assert_eq!(of(0xc004_4010, &[(r(4), 1 << 26), (SAR, 5)]), (true, [].to_vec()), "bb,< r4,sar");
    assert_eq!(of(0xa41f_2010, &[]), (false, [].to_vec()), "r0 stays 0");
}

/// KP-2, RP-1: jumps, links, spaces and privilege levels.
#[test]
fn jumps_go_to_their_sum_and_link_behind_their_slot() {
    let to = 0x0060_0000;
    let slot = |then| Then::DelaySlot { then };
    let back = HERE + 4;
    let linked = |reg: Reg| [(reg, HERE + 8)].to_vec();
    assert_eq!(does(0xe840_0010, &[]), (back, slot(HERE + 16), linked(RP)), "b,l .+16,rp");
    assert_eq!(does(0xe840_0012, &[]), (HERE + 16, Then::Onwards, linked(RP)), "b,l,n");
    assert_eq!(does(0xe800_a010, &[]), (back, slot(HERE + 16), linked(RP)), "b,l of 22 bits");
    assert_eq!(does(0xe840_c000, &[(RP, to)]), (back, slot(to), Vec::new()), "bv r0(rp)");
    assert_eq!(does(0xe840_c002, &[(RP, to)]), (to, Then::Onwards, Vec::new()), "bv,n r0(rp)");
    assert_eq!(does(0xe844_c000, &[(RP, to), (r(4), 3)]), (back, slot(to + 24), Vec::new()), "bv r4(rp)");
    assert_eq!(does(0xebe4_4000, &[(r(4), 2)]), (back, slot(HERE + 24), linked(r(31))), "blr r4,r31");
    let lowered = [(NEXT_LEVEL, 3)].to_vec();
    assert_eq!(does(0xe840_c000, &[(RP, to + 3)]), (back, slot(to), lowered), "bv to a program");
    let far = [(NEXT_SPACE, 5)].to_vec();
    assert_eq!(does(0xe020_2000, &[(r(1), to), (abi::sr(4), 5)]), (back, slot(to), far), "be 0(sr4,r1)");
    let both = [(SPACE, 5), (NEXT_SPACE, 5)].to_vec();
    assert_eq!(does(0xe020_2002, &[(r(1), to), (abi::sr(4), 5)]), (to, Then::Onwards, both), "be,n 0(sr4,r1)");
    let call = [(r(31), HERE + 8), (NEXT_SPACE, 5), (abi::sr(0), 7)].to_vec();
    assert_eq!(does(0xe420_2000, &[(r(1), to), (abi::sr(4), 5)]), (back, slot(to), call), "be,l 0(sr4,r1)");
    let by_base = [(NEXT_SPACE, 6)].to_vec();
    assert_eq!(does(0xe840_d000, &[(RP, 0x4060_0000), (abi::sr(5), 6)]), (back, slot(0x4060_0000), by_base), "bve (rp)");
}

/// KP-2: a branch in a delay slot has its own slot where the first branch leads.
#[test]
fn a_branch_in_a_delay_slot_continues_at_the_back_of_the_queue() {
    let back = 0x0050_0000;
    let linked = [(RP, back + 4)].to_vec();
    assert_eq!(does(0xe840_0010, &[(NPC, back)]), (back, Then::DelaySlot { then: HERE + 16 }, linked));
    assert_eq!(does(0x80a4_2010, &[(NPC, back)]), (back, Then::DelaySlot { then: back + 4 }, Vec::new()));
}

/// KP-2: `mfia` and delay slots.
#[test]
fn mfia_and_delay_slots_are_emulated() {
    assert_eq!(does(0x0000_14a4, &[]), (HERE + 4, Then::Onwards, [(r(4), HERE)].to_vec()));
    assert_eq!(does(0x0000_14a0, &[(NPC, 0x40)]), (0x40, Then::Onwards, Vec::new()), "mfia r0");
    let insn = decode(HERE, &[0x0a, 0x05, 0x06, 0x04]).expect("a whole word");
    let mut cpu = cpu(&[(NPC, 0x40)]);
    assert_eq!(emulate(&Computation::InDelaySlot, &insn, &mut cpu), Ok(Then::Copy { undo: None }));
    assert_eq!(cpu.pc, 0x40);
}

/// KP-2: `rfi` restores the saved queue and PSW, and `rfi,r` seven registers too.
#[test]
fn rfi_restores_the_saved_state() {
    let set =
        [(IPSW, 0x0024_000f), (SAVED_PC, 0x43), (SAVED_NPC, 0x83), (SAVED_SPACES[0], 1), (SAVED_SPACES[1], 2), (SHADOWS[0], 99)];
    let left = [(PSW, 0x0024_000f), (SPACE, 1), (NEXT_SPACE, 2), (LEVEL, 3), (NEXT_LEVEL, 3)];
    assert_eq!(does(0x0000_0c00, &set), (0x40, Then::DelaySlot { then: 0x80 }, left.to_vec()));
    let (_, _, changed) = does(0x0000_0ca0, &set);
    let shadowed: Vec<_> = abi::SHADOWED.iter().map(|reg| (*reg, if *reg == r(1) { 99 } else { 0 })).collect();
    assert_eq!(changed, [shadowed.as_slice(), &left].concat());
}

/// KP-2: an `Emulation` of another ISA is left to the CPU and changes nothing.
#[test]
fn an_emulation_of_another_isa_changes_nothing() {
    let insn = decode(HERE, &[0; 4]).expect("a word");
    let mut toy = cpu(&[]);
    let before = toy.clone();
    assert!((PARISC.emulate)(&Emulation::AsWritten, &insn, &mut toy, &mut NoMemory(ByteOrder::Big)).is_err());
    assert_eq!(toy, before);
}
