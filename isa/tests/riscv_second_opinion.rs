//! Compares decoding, emulation and copies of RISC-V with capstone, on random words, in both widths.

mod bench;

use bench::Opinion;
use bench::state::{NoMemory, Toy};
use capstone::{Arch, Capstone, Endian, ExtraMode, Mode};
use proptest::prelude::*;
use std::cell::RefCell;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::ByteOrder;
use trapline_isa::plan::{Plan, Policy, Tail};
use trapline_isa::riscv::{Set, slot};

const HERE: u64 = 0x8020_0ffe;
const NEAR: u64 = HERE + 0x8_0002;

/// Random words. Half of them are jumps, branches, system or atomic instructions, which are rare otherwise. Three of four
/// random words are compressed.
fn words() -> impl Strategy<Value = u32> {
    const STARTS: &[(u32, u32)] = &[
        (0x0000_007f, 0x0000_006f),
        (0x0000_007f, 0x0000_0067),
        (0x0000_007f, 0x0000_0063),
        (0x0000_007f, 0x0000_0017),
        (0x0000_007f, 0x0000_0073),
        (0x000f_ffff, 0x0000_0073),
        (0x0000_007f, 0x0000_002f),
        (0x0000_007f, 0x0000_000f),
        (0x0000_0003, 0x0000_0003),
        (0x0000_e003, 0x0000_2001),
        (0x0000_e003, 0x0000_a001),
        (0x0000_c003, 0x0000_c001),
        (0x0000_e07f, 0x0000_8002),
    ];
    bench::words(STARTS)
}

fn sets() -> impl Strategy<Value = Set> {
    prop::sample::select(&Set::ALL[..])
}

fn insn(set: Set, word: u32, address: u64) -> Insn {
    (set.isa().decode)(address, &word.to_le_bytes()).expect("whole bytes")
}

/// capstone's view of a word, if it knows it.
fn opinion(set: Set, word: u32) -> Option<Opinion> {
    let of = |mode| Capstone::new_raw(Arch::RISCV, mode, [ExtraMode::RiscVC].into_iter(), Some(Endian::Little));
    thread_local! {
        static CAPSTONES: RefCell<Vec<Capstone>> = const { RefCell::new(Vec::new()) };
    }
    CAPSTONES.with_borrow_mut(|both| {
        if both.is_empty() {
            both.extend([Mode::RiscV32, Mode::RiscV64].map(|mode| of(mode).expect("capstone knows RISC-V")));
        }
        bench::opinion(&both[usize::from(set == Set::Rv64)], &word.to_le_bytes(), HERE)
    })
}

/// Whether capstone's mnemonic is that of a jump or branch.
fn leads(name: &str) -> bool {
    let name = name.strip_prefix("c.").unwrap_or(name);
    let branches = ["beq", "bne", "blt", "bge", "bltu", "bgeu", "beqz", "bnez", "blez", "bgez", "bltz", "bgtz"];
    ["j", "jal", "jr", "jalr", "ret"].contains(&name) || branches.contains(&name)
}

proptest! {
    #![proptest_config(bench::config("tests/riscv_second_opinion.regressions"))]

    /// KP-2, KP-5: length, control flow and target are capstone's. Words unknown to it are not compared.
    #[test]
    fn targets_are_capstones(set in sets(), word in words()) {
        let (insn, Some(second)) = (insn(set, word, HERE), opinion(set, word)) else { return Ok(()) };
        prop_assert_eq!(insn.bytes().len(), second.length, "{:08x} {:?}", word, second);
        match insn.flow {
            Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) => {
                prop_assert!(leads(&second.name), "{:08x} {:?}", word, second);
                // capstone prints distances.
                let there = second.target.map(|distance| set.cut(HERE.wrapping_add(distance)));
                prop_assert_eq!(there, Some(target), "{:08x} {:?}", word, second);
            }
            Flow::Return | Flow::IndirectJump | Flow::IndirectCall => prop_assert!(leads(&second.name), "{:08x} {:?}", word, second),
            Flow::IndirectBranch => prop_assert!(false, "there is none"),
            Flow::Trap => {
                const TRAPS: &[&str] = &["ecall", "ebreak", "c.ebreak", "uret", "sret", "mret", "dret", "c.unimp"];
                prop_assert!(TRAPS.contains(&&*second.name), "{:08x} {:?}", word, second);
            }
            Flow::Next => prop_assert!(!leads(&second.name), "{:08x} {:?}", word, second),
        }
    }

    /// KP-1: a copy is the same instruction, followed by a breakpoint or a jump behind the original.
    #[test]
    fn a_copy_is_the_same_instruction(set in sets(), word in words(), back in any::<bool>()) {
        let original = insn(set, word, HERE);
        let copy = (set.isa().copy)(&original, NEAR, if back { Tail::JumpBack } else { Tail::Breakpoint }).expect("in reach");
        let (displaced, tail) = copy.bytes().split_at(copy.displaced);
        prop_assert_eq!(displaced, original.bytes());
        match back {
            true => {
                let tail = u32::from_le_bytes(tail.try_into().expect("a word"));
                prop_assert_eq!(insn(set, tail, NEAR + original.length()).flow, Flow::Jump(original.next()));
            }
            false => prop_assert_eq!(tail, &slot::EBREAK[..]),
        }
    }

    /// KP-1, KP-2: nothing panics. Refusals have a rule; jumps and branches are emulated and go to their decoded target.
    #[test]
    fn any_word_is_handled_without_a_panic(set in sets(), word in words(), address in any::<u64>(), at in any::<u64>(), seed in any::<u64>()) {
        let isa = set.isa();
        let address = set.cut(address & !1);
        let original = insn(set, word, address);
        for policy in [Policy::Best, Policy::LINUX_6_12, Policy::LINUX_7_2] {
            match (isa.plan)(&original, policy) {
                Err(refusal) => prop_assert!(isa.rule_of(&refusal).is_some(), "{refusal}"),
                Ok(Plan::Emulate(what)) => {
                    let regs: [u64; 40] = std::array::from_fn(|number| set.cut(seed.rotate_left(number as u32)));
                    let mut cpu = Toy { regs, pc: address };
                    (isa.emulate)(&what, &original, &mut cpu, &mut NoMemory(ByteOrder::Little)).expect("no memory is accessed");
                    let next = set.cut(original.next());
                    let may_go = match original.flow {
                        Flow::Next => cpu.pc == next,
                        Flow::Branch(target) => cpu.pc == target || cpu.pc == next,
                        Flow::Jump(target) | Flow::Call(target) => cpu.pc == target,
                        _ => cpu.pc & 1 == 0 && set.cut(cpu.pc) == cpu.pc,
                    };
                    prop_assert!(may_go, "{word:08x} goes to {:#x}", cpu.pc);
                    let changed: Vec<usize> = (0..40).filter(|number| cpu.regs[*number] != regs[*number]).collect();
                    prop_assert!(changed.len() <= 1 && !changed.contains(&0), "{word:08x} changes {changed:?}");
                }
                Ok(_) if policy == Policy::Best => prop_assert_eq!(original.flow, Flow::Next, "{:08x}", word),
                Ok(_) => {}
            }
        }
        for tail in [Tail::Breakpoint, Tail::JumpBack] {
            let _ = (isa.copy)(&original, at & !1, tail);
        }
    }
}

/// KP-1: the tests above compare only words that both know, so those must be many.
#[test]
fn capstone_knows_enough_instructions_to_compare() {
    let words = (0..60_000_u32).map(|number| number.wrapping_mul(0x9e37_79b1));
    let known = words.filter(|word| opinion(Set::Rv64, *word).is_some()).count();
    assert!(known > 20_000, "{known} of 60,000");
}
