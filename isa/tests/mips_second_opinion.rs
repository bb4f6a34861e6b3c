//! Compares decoding, emulation and relocation of MIPS with capstone, on random words, in all four variants.

mod bench;

use bench::Opinion;
use bench::state::{NoMemory, Toy};
use capstone::{Arch, Capstone, Endian, Mode};
use proptest::prelude::*;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::ByteOrder;
use trapline_isa::mips::{LENGTH, Set, decode, slot};
use trapline_isa::plan::{Plan, Policy, Tail, Then};

const HERE: u64 = 0xffff_ffff_8010_0ff0;
const WINDOW: u64 = 0xffff_ffff_8f00_0040;

/// Random words. Half of them are branches, traps or system instructions, which are rare otherwise.
fn words() -> impl Strategy<Value = u32> {
    const STARTS: &[(u32, u32)] = &[
        (0xfc00_003f, 0x0000_0008),
        (0xfc00_003f, 0x0000_0009),
        (0xfc00_003f, 0x0000_000c),
        (0xfc00_003f, 0x0000_000d),
        (0xfc00_0000, 0x0400_0000),
        (0xfc00_0000, 0x0800_0000),
        (0xf000_0000, 0x1000_0000),
        (0xfc1f_0000, 0x1800_0000),
        (0xfc1f_0000, 0x1c00_0000),
        (0xf000_0000, 0x5000_0000),
        (0xffe0_0000, 0x4500_0000),
        (0xfc00_0000, 0x4400_0000),
        (0xfe00_003f, 0x4200_0018),
        (0xfc00_0000, 0xc000_0000),
        (0xfc00_0000, 0xe000_0000),
        (0xfc00_0000, 0x0000_0000),
        (0xfc00_0000, 0x7c00_0000),
    ];
    bench::words(STARTS)
}

fn sets() -> impl Strategy<Value = Set> {
    prop::sample::select(&Set::ALL)
}

fn insn(set: Set, words: [u32; 2], address: u64) -> Insn {
    (set.isa().decode)(set.cut(address), &words.map(|word| set.bytes(word)).concat()).expect("whole words")
}

/// capstone's view of a word, if it knows it.
fn opinion(set: Set, word: u32) -> Option<Opinion> {
    let endian = if set.order() == ByteOrder::Big { Endian::Big } else { Endian::Little };
    let mode = if set.is_64() { Mode::Mips64 } else { Mode::Mips32 };
    let capstone = Capstone::new_raw(Arch::MIPS, mode, std::iter::empty(), Some(endian)).expect("capstone knows MIPS");
    let found = bench::opinion(&capstone, &set.bytes(word), set.cut(HERE))?;
    Some(Opinion { target: found.target.map(|target| set.cut(target)), ..found })
}

/// capstone's mnemonics of instructions with a delay slot.
const BRANCHES: &[&str] = &[
    "b", "bal", "beq", "beql", "beqz", "beqzl", "bgez", "bgezal", "bgezall", "bgezl", "bgtz", "bgtzl", "blez", "blezl", "bltz",
    "bltzal", "bltzall", "bltzl", "bne", "bnel", "bnez", "bnezl", "bc1f", "bc1fl", "bc1t", "bc1tl", "j", "jal", "jr", "jalr",
    "jr.hb", "jalr.hb", "jalx", "bposge32", "bc1any2f", "bc1any2t", "bc1any4f", "bc1any4t", "bz.b", "bz.h", "bz.w", "bz.d",
    "bz.v", "bnz.b", "bnz.h", "bnz.w", "bnz.d", "bnz.v", "bc2f", "bc2t", "bc2fl", "bc2tl",
];
/// Mnemonics that always raise an exception, or return from one.
const TRAPS: &[&str] = &["syscall", "break", "sdbbp", "eret", "deret"];

proptest! {
    #![proptest_config(bench::config("tests/mips_second_opinion.regressions"))]

    /// KP-2, KP-5: control flow, target and delay slot are capstone's. Words unknown to it (release 6) are not
    /// compared.
    #[test]
    fn targets_are_capstones(word in words(), set in sets()) {
        let (insn, Some(second)) = (insn(set, [word, 0], HERE), opinion(set, word)) else { return Ok(()) };
        let is_branch = BRANCHES.contains(&&*second.name);
        prop_assert_eq!(insn.bytes().len() == 2 * LENGTH, is_branch, "{:08x} {:?}", word, second);
        match insn.flow {
            Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) => {
                prop_assert_eq!(second.target, Some(target), "{:08x} {:?}", word, second);
            }
            Flow::Return | Flow::IndirectJump | Flow::IndirectCall => prop_assert!(second.name.starts_with('j'), "{:08x} {:?}", word, second),
            Flow::IndirectBranch => prop_assert!(false, "there is none"),
            Flow::Trap => prop_assert!(TRAPS.contains(&&*second.name), "{:08x} {:?}", word, second),
            Flow::Next => prop_assert!(!TRAPS.contains(&&*second.name), "{:08x} {:?}", word, second),
        }
    }

    /// KP-1: a copy is the same word, or the branch's delay slot, followed by a breakpoint or the jump back.
    #[test]
    fn a_copy_is_the_instruction_or_its_delay_slot(word in words(), rest in any::<u32>(), set in sets(), back in any::<bool>()) {
        let (at, tail) = (set.cut(WINDOW), if back { Tail::JumpBack } else { Tail::Breakpoint });
        let original = insn(set, [word, rest], HERE);
        let copy = (set.isa().copy)(&original, at, tail).expect("in the same 256 MiB");
        let word_at = |from: usize| set.word(&copy.bytes()[from..from + LENGTH]);
        let runs = if original.bytes().len() > LENGTH { rest } else { word };
        prop_assert_eq!((copy.displaced, word_at(0)), (LENGTH, runs));
        match tail {
            Tail::JumpBack => {
                let behind = insn(set, [word_at(LENGTH), word_at(2 * LENGTH)], at + LENGTH as u64);
                prop_assert_eq!((behind.flow, copy.bytes().len()), (Flow::Jump(set.cut(original.next())), 3 * LENGTH));
                prop_assert_eq!(word_at(2 * LENGTH), 0);
            }
            Tail::Breakpoint => prop_assert_eq!((word_at(LENGTH), copy.bytes().len()), (slot::BREAK, 2 * LENGTH)),
        }
    }

    /// KP-1, KP-2: nothing panics. Refusals have a rule; branches are emulated and go to their decoded target; their
    /// delay slot runs or is nullified.
    #[test]
    fn any_word_is_handled_without_a_panic(
        word in words(), rest in words(), set in sets(), address in any::<u64>(), at in any::<u64>(), seed in any::<u64>(),
    ) {
        let original = insn(set, [word, rest], address & !3);
        for policy in [Policy::Best, Policy::LINUX_6_1] {
            match (set.isa().plan)(&original, policy) {
                Err(refusal) => prop_assert!(set.isa().rule_of(&refusal).is_some(), "{refusal}"),
                Ok(Plan::Emulate(what)) => {
                    let mut regs: [u64; 64] = std::array::from_fn(|number| set.cut(seed.rotate_left(number as u32)));
                    regs[0] = 0;
                    let mut cpu = Toy { regs, pc: original.address };
                    let then = (set.isa().emulate)(&what, &original, &mut cpu, &mut NoMemory(set.order()));
                    let runs = Ok(Then::Copy { undo: None });
                    prop_assert!(then == Ok(Then::Onwards) || then == runs);
                    let next = set.cut(original.next());
                    let places = [Some(next), original.flow.target()];
                    let is_indirect = original.flow.target().is_none();
                    prop_assert!(is_indirect || places.contains(&Some(cpu.pc)), "{word:08x} goes to {:x}", cpu.pc);
                    let linked = cpu.regs.iter().zip(regs).filter(|(after, before)| *after != before);
                    prop_assert!(linked.clone().count() <= 1 && linked.clone().all(|(after, _)| *after == next));
                }
                Ok(_) if policy == Policy::Best => prop_assert_eq!(original.flow, Flow::Next, "{:08x}", word),
                Ok(_) => {}
            }
        }
        for tail in [Tail::Breakpoint, Tail::JumpBack] {
            let _ = (set.isa().copy)(&original, at & !3, tail);
        }
        prop_assert_eq!(decode::has_delay_slot(word), original.bytes().len() == 2 * LENGTH);
    }
}

/// KP-1: the tests above compare only words that both know, so those must be many.
#[test]
fn capstone_knows_enough_instructions_to_compare() {
    let words = (0..60_000_u32).map(|number| number.wrapping_mul(0x9e37_79b1));
    let known = words.filter(|word| opinion(Set::Little64, *word).is_some()).count();
    assert!(known > 20_000, "{known} of 60,000");
}
