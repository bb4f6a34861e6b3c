//! Compares decoding, emulation and relocation of ARM with capstone, on random words.

mod bench;

use bench::state::Toy;
use capstone::arch::arm::{ArchExtraMode, ArchMode};
use capstone::arch::{BuildsCapstone, BuildsCapstoneExtraMode};
use capstone::{Capstone, InsnGroupType};
use proptest::prelude::*;
use std::cell::RefCell;
use trapline_isa::arch::Isa;
use trapline_isa::arm::{ARM, LENGTH, THUMB2};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::plan::{Plan, Policy, Tail};

const HERE: u64 = 0xc030_0ff0;
const SLOT: u64 = 0xbf60_0040;

/// Random words. Half of them have the condition "always", as most code has.
fn words() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), any::<u32>().prop_map(|word| word | 0xe000_0000)]
}

fn insn(isa: &Isa, word: u32) -> Insn {
    (isa.decode)(HERE, &word.to_le_bytes()).expect("four bytes are enough")
}

/// capstone's view of an instruction.
#[derive(Clone, Debug)]
struct Opinion {
    name: String,
    operands: String,
    length: usize,
    jumps: bool,
}

fn opinion(isa: &Isa, word: u32) -> Option<Opinion> {
    fn build(mode: ArchMode) -> Capstone {
        let modes = [ArchExtraMode::V8].into_iter();
        Capstone::new().arm().mode(mode).extra_mode(modes).detail(true).build().expect("capstone knows ARM")
    }
    thread_local! {
        static A32: RefCell<Capstone> = RefCell::new(build(ArchMode::Arm));
        static THUMB: RefCell<Capstone> = RefCell::new(build(ArchMode::Thumb));
    }
    let which = if isa.variable_length { &THUMB } else { &A32 };
    which.with_borrow(|capstone| {
        let found = capstone.disasm_count(&word.to_le_bytes(), HERE, 1).expect("capstone runs");
        let first = found.iter().next()?;
        let detail = capstone.insn_detail(first).expect("detail is on");
        let jumps = detail
            .groups()
            .iter()
            .any(|group| [InsnGroupType::CS_GRP_JUMP, InsnGroupType::CS_GRP_CALL].contains(&u32::from(group.0)));
        let (name, operands) = (first.mnemonic().unwrap_or_default(), first.op_str().unwrap_or_default());
        Some(Opinion { name: name.into(), operands: operands.into(), length: first.bytes().len(), jumps })
    })
}

/// Memory in every second block of 4 KiB, in which each byte holds the low byte of its address.
struct Patches;

impl Memory for Patches {
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let there = address >> 12 & 1 == 0;
        into.iter_mut().zip(address..).for_each(|(byte, at)| *byte = at as u8);
        there.then_some(()).ok_or(Fault { address, write: false })
    }
    fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Fault> {
        (address >> 12 & 1 == 0).then_some(()).ok_or(Fault { address, write: true })
    }
}

/// Whether the instruction is copied unmodified under `best`. Linux also copies a few UNPREDICTABLE words.
fn is_copied(isa: &Isa, insn: &Insn) -> bool {
    matches!((isa.plan)(insn, Policy::Best), Ok(Plan::Boost | Plan::Step))
}

proptest! {
    #![proptest_config(bench::config("tests/arm_second_opinion.regressions"))]

    /// KP-1, KP-2: nothing panics. Emulations give 32-bit values, and a fault changes nothing.
    #[test]
    fn any_word_is_handled_without_a_panic(word in words(), thumb in any::<bool>(), regs in any::<[u32; 32]>()) {
        let isa = if thumb { &THUMB2 } else { &ARM };
        let insn = insn(isa, word);
        prop_assert!(insn.length() == 4 || thumb && insn.length() == 2);
        let over = (isa.breakpoint_over)(&insn);
        prop_assert!((isa.is_breakpoint)(0, &over) && over.len() as u64 == insn.length());
        for policy in [Policy::LINUX_6_1, Policy::Best] {
            let plan = (isa.plan)(&insn, policy);
            if let Err(refusal) = &plan {
                prop_assert!(isa.rule_of(refusal).is_some(), "{refusal}");
                continue;
            }
            for tail in [Tail::Breakpoint, Tail::JumpBack] {
                match (isa.copy)(&insn, SLOT, tail) {
                    Ok(copy) => prop_assert_eq!((copy.displaced as u64, copy.len > copy.displaced), (insn.length(), true)),
                    Err(refusal) => prop_assert!(tail == Tail::JumpBack && isa.rule_of(&refusal).is_some()),
                }
            }
            if let Ok(Plan::Emulate(what)) = plan {
                let before = regs.map(u64::from);
                let mut toy = Toy { regs: before, pc: HERE };
                let done = (isa.emulate)(&what, &insn, &mut toy, &mut Patches);
                prop_assert!(toy.pc >> 32 == 0 && toy.regs.iter().all(|value| value >> 32 == 0));
                prop_assert!(done.is_ok() || toy.regs == before && toy.pc == HERE);
            }
        }
    }

    /// KP-1: a copied instruction does not use the pc and has the right length.
    #[test]
    fn capstone_knows_copied_instructions_and_sees_no_pc(word in words(), thumb in any::<bool>()) {
        let isa = if thumb { &THUMB2 } else { &ARM };
        let insn = insn(isa, word);
        if is_copied(isa, &insn) && let Some(opinion) = opinion(isa, word) {
            prop_assert_eq!(opinion.length as u64, insn.length(), "{:#010x} {:?}", word, opinion);
            let names_pc = opinion.operands.split(|letter: char| !letter.is_alphanumeric()).any(|part| part == "pc");
            let as_number = ["mrc", "vmrs", "mrc2", "mcr", "cdp", "mrrc"].iter().any(|name| opinion.name.starts_with(name));
            prop_assert!(!names_pc && !opinion.jumps || as_number, "{:#010x} {:?}", word, opinion);
        }
    }

    /// KP-2: the decoded target is capstone's.
    #[test]
    fn targets_are_capstones(word in words(), thumb in any::<bool>()) {
        let isa = if thumb { &THUMB2 } else { &ARM };
        let insn = insn(isa, word);
        let (Some(target), Some(opinion)) = (insn.flow.target(), opinion(isa, word)) else { return Ok(()) };
        let named = opinion.operands.rsplit_once("#0x").and_then(|(_, number)| u64::from_str_radix(number, 16).ok());
        prop_assert!(opinion.jumps && named == Some(target), "{:#010x} {:#x} {:?}", word, target, opinion);
    }
}

/// KP-1: a table that accepts or refuses almost nothing would pass the other tests.
#[test]
fn the_tables_accept_and_refuse_enough_to_compare() {
    let mut state = 1_u32;
    let mut count = [[0; 2]; 2];
    for _ in 0..20_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for (number, isa) in [&ARM, &THUMB2].into_iter().enumerate() {
            let accepted = (isa.plan)(&insn(isa, state.rotate_left(7)), Policy::LINUX_6_1).is_ok();
            count[number][usize::from(accepted)] += 1;
        }
    }
    assert!(count.iter().flatten().all(|count| *count > 1_000), "{count:?}");
    assert_eq!(LENGTH, 4);
    assert!(matches!(insn(&ARM, 0xe12f_ff1e).flow, Flow::Return));
}
