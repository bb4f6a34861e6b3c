//! Compares decoding, emulation and relocation of PowerPC with capstone, on random words, in all three variants.

mod bench;

use bench::Opinion;
use bench::state::{NoMemory, Toy};
use capstone::{Arch, Capstone, Endian, Mode};
use proptest::prelude::*;
use trapline_isa::arch::Emulation;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::ByteOrder;
use trapline_isa::plan::{Plan, Policy, Tail};
use trapline_isa::ppc::emulate::Computation;
use trapline_isa::ppc::{LENGTH, Set, slot};

const HERE: u64 = 0xc000_0000_0101_0ff0;
const NEAR: u64 = HERE + 0x7f0;
const FAR: u64 = HERE - 0x140_0000;

/// Random words. Half of them are branches, traps or system instructions, which are rare otherwise.
fn words() -> impl Strategy<Value = u32> {
    const STARTS: &[(u32, u32)] = &[
        (0xfc00_0000, 0x4800_0000),
        (0xfc00_0000, 0x4000_0000),
        (0xfc00_07fe, 0x4c00_0020),
        (0xfc00_07fe, 0x4c00_0420),
        (0xfc00_0000, 0x4c00_0000),
        (0xfc00_003e, 0x4c00_0004),
        (0xfc00_0000, 0x4400_0000),
        (0xfc00_0000, 0x0800_0000),
        (0xfc00_0000, 0x0c00_0000),
        (0xfc00_07fe, 0x7c00_0008),
        (0xfc00_07fe, 0x7c00_02a6),
        (0xfc00_07fe, 0x7c00_03a6),
        (0xfc00_0000, 0x7c00_0000),
        (0xfc00_0000, 0x0400_0000),
    ];
    bench::words(STARTS)
}

fn sets() -> impl Strategy<Value = Set> {
    prop_oneof![Just(Set::Big32), Just(Set::Big64), Just(Set::Little64)]
}

fn insn(set: Set, words: [u32; 2], address: u64) -> Insn {
    (set.isa().decode)(set.cut(address), &words.map(|word| set.bytes(word)).concat()).expect("whole words")
}

/// capstone's view of a word, if it knows it.
fn opinion(set: Set, word: u32, address: u64) -> Option<Opinion> {
    let endian = if set.order() == ByteOrder::Big { Endian::Big } else { Endian::Little };
    let mode = if set.is_64() { Mode::Mode64 } else { Mode::Mode32 };
    let capstone = Capstone::new_raw(Arch::PPC, mode, std::iter::empty(), Some(endian)).expect("capstone knows PowerPC");
    let found = bench::opinion(&capstone, &set.bytes(word), set.cut(address))?;
    // capstone prints no operands of a `bc` with a reserved hint.
    let is_whole = word >> 26 != 16 || found.target.is_some() || !found.operands.is_empty();
    is_whole.then(|| Opinion { target: found.target.map(|target| set.cut(target)), ..found })
}

proptest! {
    #![proptest_config(bench::config("tests/ppc_second_opinion.regressions"))]

    /// KP-2: the decoded target is capstone's.
    #[test]
    fn targets_are_capstones(word in words(), set in sets()) {
        let (insn, Some(second)) = (insn(set, [word, 0], HERE), opinion(set, word, HERE)) else { return Ok(()) };
        let is_branch = second.name.starts_with('b') && !NO_BRANCHES.iter().any(|no| second.name.starts_with(no));
        match insn.flow {
            Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) => {
                prop_assert!(is_branch, "{:08x} {:?}", word, second);
                prop_assert_eq!(second.target, Some(target), "{:08x} {:?}", word, second);
            }
            Flow::Return | Flow::IndirectJump | Flow::IndirectBranch | Flow::IndirectCall => {
                let name = second.name.trim_end_matches(['+', '-']);
                let calls = name.ends_with("lrl") || name.ends_with("ctrl");
                prop_assert!(is_branch && (calls || name.ends_with("lr") || name.ends_with("ctr")), "{:08x} {:?}", word, second);
                prop_assert_eq!(calls, insn.flow == Flow::IndirectCall, "{:08x} {:?}", word, second);
            }
            Flow::Trap => prop_assert!(TRAPS.contains(&&*second.name), "{:08x} {:?}", word, second),
            Flow::Next => prop_assert!(!is_branch && !ALWAYS_TRAP.contains(&&*second.name), "{:08x} {:?}", word, second),
        }
    }

    /// KP-1: capstone sees the same mnemonic, operands and target in the copy.
    #[test]
    fn capstone_sees_the_same_instruction_in_a_copy(word in words(), rest in any::<u32>(), set in sets(), near in any::<bool>(), back in any::<bool>()) {
        let (at, tail) = (set.cut(if near { NEAR } else { FAR }), if back { Tail::JumpBack } else { Tail::Breakpoint });
        let original = insn(set, [word, rest], HERE);
        let length = original.bytes().len();
        let is_prefixed = length > LENGTH;
        let is_addpcis = set.is_64() && word & 0xfc00_003e == 0x4c00_0004;
        let names_a_place = (original.flow.target().is_some() && word & 2 == 0) || is_addpcis;
        let Ok(copy) = (set.isa().copy)(&original, at, tail) else {
            prop_assert!(is_prefixed || names_a_place && back, "{word:08x} is refused");
            return Ok(());
        };
        let word_at = |from: usize| set.word(&copy.bytes()[from..from + LENGTH]);
        prop_assert_eq!((copy.displaced, copy.bytes().len()), (length, length + LENGTH));
        let moved = insn(set, [word_at(0), word_at(LENGTH)], at);
        // A copy that cannot reach its target is an illegal instruction.
        if names_a_place && word_at(0) != 0 {
            prop_assert_eq!(moved.flow, original.flow, "{:08x} {:08x}", word, word_at(0));
            if original.flow.target().is_some() {
                prop_assert_eq!(opinion(set, word_at(0), at), opinion(set, word, HERE), "{:08x} {:08x}", word, word_at(0));
            }
        }
        if is_prefixed && word_at(0) != 0 {
            let relative = word & 0x0d10_0000 == 0x0410_0000;
            let number = |words: [u32; 2]| (i64::from(words[0] & 0x3_ffff) << 16 | i64::from(words[1] & 0xffff)) << 30 >> 30;
            let base = |address: u64| if relative { address } else { 0 };
            let place = |words, address| base(address).wrapping_add_signed(number(words));
            prop_assert_eq!(place([word_at(0), word_at(LENGTH)], at), place([word, rest], HERE), "{:08x}", word);
            prop_assert_eq!((word_at(0) >> 18, word_at(LENGTH) >> 16), (word >> 18, rest >> 16));
        }
        if !names_a_place && !is_prefixed {
            prop_assert_eq!(word_at(0), word);
        }
        match tail {
            Tail::JumpBack => {
                let behind = insn(set, [word_at(length), 0], at + length as u64);
                prop_assert_eq!(behind.flow, Flow::Jump(set.cut(original.next())));
            }
            Tail::Breakpoint => prop_assert_eq!(word_at(length), slot::TRAP),
        }
    }

    /// KP-2: an emulated branch that is taken goes to capstone's target.
    #[test]
    fn emulated_targets_are_capstones(word in words(), set in sets()) {
        let original = insn(set, [word, 0], HERE);
        let (Ok(Plan::Emulate(what)), Some(second)) = ((set.isa().plan)(&original, Policy::Best), opinion(set, word, HERE)) else { return Ok(()) };
        if let Emulation::Ppc(Computation::Branch(_, target)) = what {
            prop_assert_eq!(second.target, Some(target), "{:08x} {:?}", word, second);
        }
    }

    /// KP-1: nothing panics. Refusals have a rule; instructions with control flow are not copied; an emulation sets the
    /// pc, or changes nothing.
    #[test]
    fn any_word_is_handled_without_a_panic(
        word in words(), rest in any::<u32>(), set in sets(), address in any::<u64>(), at in any::<u64>(), seed in any::<u64>(),
    ) {
        let original = insn(set, [word, rest], address & !3);
        for policy in [Policy::Best, Policy::LINUX_6_1] {
            match (set.isa().plan)(&original, policy) {
                Err(refusal) => prop_assert!(set.isa().rule_of(&refusal).is_some(), "{refusal}"),
                Ok(Plan::Emulate(what)) => {
                    let regs: [u64; 64] = std::array::from_fn(|number| set.cut(seed.rotate_left(number as u32)));
                    let mut cpu = Toy { regs, pc: original.address };
                    let done = (set.isa().emulate)(&what, &original, &mut cpu, &mut NoMemory(set.order()));
                    prop_assert!(done.is_ok());
                    prop_assert!(cpu.pc == set.cut(cpu.pc) && cpu.regs.iter().all(|value| *value == set.cut(*value)));
                }
                Ok(_) if policy == Policy::Best => prop_assert_eq!(original.flow, Flow::Next, "{:08x}", word),
                Ok(_) => {}
            }
        }
        for tail in [Tail::Breakpoint, Tail::JumpBack] {
            let _ = (set.isa().copy)(&original, at & !3, tail);
        }
    }
}

/// Mnemonics that begin with b but are no branches.
const NO_BRANCHES: &[&str] = &["bpermd", "brinc", "bcd"];
/// capstone's mnemonics of instructions that raise an exception or return from one.
const TRAPS: &[&str] = &[
    "trap", "td", "tdi", "tdu", "tdui", "tw", "twi", "twu", "twui", "sc", "rfid", "rfi", "rfci", "rfdi", "rfmci", "rfebb",
    "hrfid", "attn",
];
/// Instructions that always trap.
const ALWAYS_TRAP: &[&str] =
    &["trap", "tdu", "tdui", "twu", "twui", "sc", "rfid", "rfi", "rfci", "rfdi", "rfmci", "rfebb", "hrfid", "attn"];

/// KP-1: the tests above compare only words that both know, so those must be many.
#[test]
fn capstone_knows_enough_instructions_to_compare() {
    let words = (0..60_000_u32).map(|number| number.wrapping_mul(0x9e37_79b1));
    let known = words.filter(|word| opinion(Set::Little64, *word, HERE).is_some()).count();
    assert!(known > 20_000, "{known} of 60,000");
}
