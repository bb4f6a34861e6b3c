//! Compares decoding, emulation and relocation of AArch64 with capstone, on random words.

mod bench;

use bench::state::{NoMemory, Toy};
use capstone::arch::BuildsCapstone;
use capstone::arch::arm64::ArchMode;
use capstone::{Capstone, InsnGroupType};
use proptest::prelude::*;
use std::cell::RefCell;
use trapline_isa::arch::Emulation;
use trapline_isa::arm64::emulate::Computation;
use trapline_isa::arm64::{ARM64, LENGTH};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::ByteOrder;
use trapline_isa::plan::{Plan, Policy, Tail};

const HERE: u64 = 0xffff_8000_0801_0ff0;
const NEAR: u64 = HERE + 0x7f0;
const FAR: u64 = HERE - 0x400_0000;

/// Random words. Half of them are branches, system instructions or pc-relative, which are rare otherwise.
fn words() -> impl Strategy<Value = u32> {
    const STARTS: &[(u32, u32)] = &[
        (0xfc00_0000, 0x1400_0000),
        (0xfc00_0000, 0x9400_0000),
        (0xff00_0000, 0x5400_0000),
        (0x7e00_0000, 0x3400_0000),
        (0x7e00_0000, 0x3600_0000),
        (0xfff0_0000, 0xd610_0000),
        (0xfffc_0000, 0xd658_0000),
        (0x1f00_0000, 0x1000_0000),
        (0x3b00_0000, 0x1800_0000),
        (0xffff_f000, 0xd503_2000),
        (0xffff_f000, 0xd503_3000),
        (0xfff8_0000, 0xd500_0000),
        (0xffc0_0000, 0xd500_0000),
        (0xff00_0000, 0xd400_0000),
        (0x3f00_0000, 0x0800_0000),
    ];
    bench::words(STARTS)
}

fn insn(word: u32, address: u64) -> Insn {
    (ARM64.decode)(address, &word.to_le_bytes()).expect("a whole word")
}

/// capstone's view of a word: mnemonic, groups, and last immediate operand.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Opinion {
    name: String,
    operands: String,
    jumps: bool,
    target: Option<u64>,
}

fn opinion(word: u32, address: u64) -> Option<Opinion> {
    thread_local! {
        static CAPSTONE: RefCell<Capstone> =
            RefCell::new(Capstone::new().arm64().mode(ArchMode::Arm).detail(true).build().expect("capstone knows arm64"));
    }
    CAPSTONE.with_borrow(|capstone| {
        let found = capstone.disasm_count(&word.to_le_bytes(), address, 1).expect("capstone runs");
        let first = found.iter().next()?;
        let detail = capstone.insn_detail(first).expect("detail is on");
        let jumps = detail.groups().iter().any(|group| {
            [InsnGroupType::CS_GRP_JUMP, InsnGroupType::CS_GRP_CALL, InsnGroupType::CS_GRP_RET].contains(&u32::from(group.0))
        });
        // Parsed from the text, because the binding's operand list is not memory-safe here.
        let operands = first.op_str().unwrap_or_default();
        let hexadecimal = operands.rsplit_once("#0x").map(|(_, number)| number);
        let decimal = operands.rsplit_once('#').map(|(_, number)| number);
        let target = match hexadecimal {
            Some(number) => u64::from_str_radix(number, 16).ok(),
            None => decimal.and_then(|number| number.parse().ok()),
        };
        Some(Opinion { name: first.mnemonic().unwrap_or_default().into(), operands: operands.into(), jumps, target })
    })
}

proptest! {
    #![proptest_config(bench::config("tests/arm64_second_opinion.regressions"))]

    /// KP-2: the decoded target is capstone's.
    #[test]
    fn targets_are_capstones(word in words()) {
        let (insn, Some(second)) = (insn(word, HERE), opinion(word, HERE)) else { return Ok(()) };
        match insn.flow {
            Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) => {
                prop_assert_eq!(second.target, Some(target), "{:08x} {:?}", word, second);
            }
            Flow::IndirectJump => prop_assert!(second.name.starts_with("br"), "{:08x} {:?}", word, second),
            Flow::IndirectBranch => prop_assert!(false, "{:08x}: there is none on a condition", word),
            Flow::IndirectCall => prop_assert!(second.name.starts_with("blr"), "{:08x} {:?}", word, second),
            Flow::Return => prop_assert!(second.name.starts_with("ret"), "{:08x} {:?}", word, second),
            Flow::Trap => {
                const TRAPS: &[&str] = &["eret", "eretaa", "eretab", "drps", "svc", "hvc", "smc", "brk", "hlt", "udf", "dcps1", "dcps2", "dcps3", "tcancel"];
                prop_assert!(TRAPS.contains(&&*second.name), "{:08x} {:?}", word, second);
            }
            Flow::Next => prop_assert!(!second.jumps, "{:08x} {:?}", word, second),
        }
    }

    /// KP-1: capstone sees the same mnemonic, operands and target in the copy.
    #[test]
    fn capstone_sees_the_same_instruction_in_a_copy(word in words(), near in any::<bool>(), back in any::<bool>()) {
        let (at, tail) = (if near { NEAR } else { FAR }, if back { Tail::JumpBack } else { Tail::Breakpoint });
        let original = insn(word, HERE);
        let names_a_place = original.flow.target().is_some() || word & 0x1f00_0000 == 0x1000_0000 || word & 0x3b00_0000 == 0x1800_0000;
        let Ok(copy) = (ARM64.copy)(&original, at, tail) else {
            prop_assert!(names_a_place && back, "{word:08x} is refused");
            return Ok(());
        };
        let word_at = |from: usize| u32::from_le_bytes(copy.bytes()[from..from + LENGTH].try_into().expect("a word"));
        prop_assert_eq!((copy.displaced, copy.bytes().len()), (LENGTH, 2 * LENGTH));
        let moved = insn(word_at(0), at);
        // A copy that cannot reach its target is an undefined instruction.
        if !(names_a_place && word_at(0) == 0) {
            prop_assert_eq!(moved.flow, original.flow, "{:08x} {:08x}", word, word_at(0));
            prop_assert_eq!(opinion(word_at(0), at), opinion(word, HERE), "{:08x} {:08x}", word, word_at(0));
        }
        if !names_a_place {
            prop_assert_eq!(word_at(0), word);
        }
        let behind = insn(word_at(LENGTH), at + LENGTH as u64);
        match tail {
            Tail::JumpBack => prop_assert_eq!(behind.flow, Flow::Jump(original.next())),
            Tail::Breakpoint => prop_assert_eq!(word_at(LENGTH), 0xd420_00c0),
        }
    }

    /// KP-2: emulated branches, loads and addresses are those that capstone prints.
    #[test]
    fn emulated_targets_are_capstones(word in words()) {
        let original = insn(word, HERE);
        let (Ok(Plan::Emulate(what)), Some(second)) = ((ARM64.plan)(&original, Policy::Best), opinion(word, HERE)) else { return Ok(()) };
        let Emulation::Arm64(what) = what else { panic!("{what:?} is another ISA's") };
        let (place, loaded) = match what {
            Computation::Jump(at) | Computation::Call(at) => (Some(at), None),
            Computation::Branch { target: at, .. } | Computation::Compare { target: at, .. } | Computation::Test { target: at, .. } => {
                (Some(at), None)
            }
            Computation::Address { value, .. } => (Some(value), None),
            Computation::Load { bytes, from, .. } | Computation::LoadVector { bytes, from, .. } => (Some(from), Some(bytes)),
            _ => (None, None),
        };
        if place.is_some() {
            prop_assert_eq!(second.target, place, "{:08x} {:?}", word, second);
        }
        if let Some(loaded) = loaded {
            let size = match second.operands.as_bytes().first() {
                Some(b'w' | b's') => 4,
                Some(b'x') if second.name == "ldrsw" => 4,
                Some(b'x' | b'd') => 8,
                _ => 16,
            };
            prop_assert_eq!(loaded, size, "{:08x} {:?}", word, second);
        }
    }

    /// KP-1: nothing panics. Refusals have a rule; instructions with control flow are not copied; a fault of an
    /// emulation changes nothing.
    #[test]
    fn any_word_is_handled_without_a_panic(word in words(), address in any::<u64>(), at in any::<u64>(), seed in any::<u64>()) {
        let address = address & !3;
        let original = insn(word, address);
        for policy in [Policy::Best, Policy::LINUX_6_1] {
            match (ARM64.plan)(&original, policy) {
                Err(refusal) => prop_assert!(ARM64.rule_of(&refusal).is_some(), "{refusal}"),
                Ok(Plan::Emulate(what)) => {
                    let regs: [u64; 128] = std::array::from_fn(|number| seed.rotate_left(number as u32));
                    let mut cpu = Toy { regs, pc: address };
                    if (ARM64.emulate)(&what, &original, &mut cpu, &mut NoMemory(ByteOrder::Little)).is_err() {
                        prop_assert_eq!((cpu.regs, cpu.pc), (regs, address));
                    }
                }
                Ok(_) if policy == Policy::Best => prop_assert_eq!(original.flow, Flow::Next, "{:08x}", word),
                Ok(_) => {}
            }
        }
        for tail in [Tail::Breakpoint, Tail::JumpBack] {
            let _ = (ARM64.copy)(&original, at, tail);
        }
    }
}

/// KP-1: the tests above compare only words that both know, so those must be many.
#[test]
fn capstone_knows_enough_instructions_to_compare() {
    let words = (0..60_000_u32).map(|number| number.wrapping_mul(0x9e37_79b1));
    let known = words.filter(|word| opinion(*word, HERE).is_some()).count();
    assert!(known > 20_000, "{known} of 60,000");
}
