//! Compares decoding, emulation and relocation of SPARC with capstone, on random words.

mod bench;

use bench::Opinion;
use bench::state::{NoMemory, Toy};
use capstone::{Arch, Capstone, Endian, ExtraMode, Mode};
use proptest::prelude::*;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::ByteOrder;
use trapline_isa::plan::{Plan, Policy, Tail, Then};
use trapline_isa::sparc64::{SPARC64, abi, decode, slot};

const HERE: u64 = 0x0040_1000;
const WINDOW: u64 = 0x0060_0040;

/// Random words. Half of them are branches, traps or window instructions, which are rare otherwise.
fn words() -> impl Strategy<Value = u32> {
    const STARTS: &[(u32, u32)] = &[
        (0xc000_0000, 0x0000_0000),
        (0xc1c0_0000, 0x0040_0000),
        (0xc1c0_0000, 0x0080_0000),
        (0xc1c0_0000, 0x00c0_0000),
        (0xc1c0_0000, 0x0140_0000),
        (0xc1c0_0000, 0x0180_0000),
        (0xc000_0000, 0x4000_0000),
        (0xc1f8_0000, 0x81c0_0000),
        (0xc1f8_0000, 0x81c8_0000),
        (0xc1f8_1000, 0x81d0_0000),
        (0xc1e0_0000, 0x81e0_0000),
        (0xfdf8_0000, 0x81f0_0000),
        (0xc1f8_0000, 0x8140_0000),
        (0xffff_ff80, 0x91d0_2000),
    ];
    bench::words(STARTS)
}

fn insn(word: u32, address: u64) -> Insn {
    (SPARC64.decode)(address, &word.to_be_bytes()).expect("a whole word")
}

/// capstone's view of a word, if it knows it.
fn opinion(word: u32) -> Option<Opinion> {
    let capstone = Capstone::new_raw(Arch::SPARC, Mode::V9, std::iter::empty::<ExtraMode>(), Some(Endian::Big));
    bench::opinion(&capstone.expect("capstone knows SPARC"), &word.to_be_bytes(), HERE)
}

/// Whether capstone's mnemonic is that of a branch: it begins with b, br or fb, or names a register jump.
fn is_branch(name: &str) -> bool {
    let first = name.split(',').next().unwrap_or_default();
    let others = ["call", "jmp", "jmpl", "ret", "retl", "rett", "return"];
    others.contains(&first) || first.starts_with('b') && first != "bshuffle" && first != "bmask" || first.starts_with("fb")
}

proptest! {
    #![proptest_config(bench::config("tests/sparc64_second_opinion.regressions"))]

    /// KP-2, KP-5: control flow and target are capstone's. Words unknown to it are not compared.
    #[test]
    fn targets_are_capstones(word in words()) {
        let (insn, Some(second)) = (insn(word, HERE), opinion(word)) else { return Ok(()) };
        let leads = is_branch(&second.name);
        match insn.flow {
            // A branch that is never taken and annuls its delay slot. It goes to pc + 8, so ours decodes it as a jump.
            Flow::Jump(target) if target == HERE + 8 && decode::annuls(word) && word >> 25 & 15 == 0 => prop_assert!(leads),
            Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) => {
                prop_assert!(leads, "{:08x} {:?}", word, second);
                prop_assert_eq!(second.target, Some(target), "{:08x} {:?}", word, second);
            }
            Flow::Return | Flow::IndirectJump | Flow::IndirectCall => prop_assert!(leads, "{:08x} {:?}", word, second),
            Flow::IndirectBranch => prop_assert!(false, "there is none"),
            Flow::Trap => prop_assert!(second.name.starts_with('t') || ["done", "retry"].contains(&&*second.name), "{:08x} {:?}", word, second),
            Flow::Next => {
                let never = word >> 30 == 0 && word >> 25 & 15 == 0;
                prop_assert!(!leads || never, "{:08x} {:?}", word, second);
            }
        }
    }

    /// KP-1: a copy is the same word, followed by a breakpoint or the jump back.
    #[test]
    fn a_copy_is_the_same_word(word in words(), back in any::<bool>()) {
        let original = insn(word, HERE);
        let copy = (SPARC64.copy)(&original, WINDOW, if back { Tail::JumpBack } else { Tail::Breakpoint }).expect("in reach");
        let word_at = |from: usize| ByteOrder::Big.word(&copy.bytes()[from..from + 4]);
        prop_assert_eq!((copy.displaced, word_at(0), copy.bytes().len()), (4, word, 8));
        match back {
            true => {
                prop_assert_eq!(insn(word_at(4), WINDOW + 4).flow, Flow::Jump(original.next()));
                prop_assert!(!decode::has_delay_slot(word_at(4)));
            }
            false => prop_assert_eq!(word_at(4), slot::STEP_END),
        }
    }

    /// KP-1, KP-2: nothing panics. Refusals have a rule; branches are emulated and go to their decoded target.
    #[test]
    fn any_word_is_handled_without_a_panic(word in words(), address in any::<u64>(), at in any::<u64>(), seed in any::<u64>()) {
        let original = insn(word, address & !3);
        for policy in [Policy::Best, Policy::LINUX_6_1] {
            match (SPARC64.plan)(&original, policy) {
                Err(refusal) => prop_assert!(SPARC64.rule_of(&refusal).is_some(), "{refusal}"),
                Ok(Plan::Emulate(what)) => {
                    let mut regs: [u64; 64] = std::array::from_fn(|number| seed.rotate_left(number as u32) & !3);
                    regs[0] = 0;
                    let before = Toy { regs, pc: original.address };
                    let mut cpu = before.clone();
                    let Ok(then) = (SPARC64.emulate)(&what, &original, &mut cpu, &mut NoMemory(ByteOrder::Big)) else {
                        prop_assert_eq!(cpu, before, "a fault changes nothing");
                        continue;
                    };
                    if original.flow == Flow::Trap {
                        // `done` and `retry` restore the trap's state; the emulator's unit tests check that.
                        continue;
                    }
                    let (next, behind) = (original.next(), original.next().wrapping_add(4));
                    let leads_to = match then {
                        Then::DelaySlot { then } => {
                            prop_assert_eq!(cpu.pc, next);
                            then
                        }
                        Then::Onwards => cpu.pc,
                        // A fault at the instruction's own address; the emulator's unit tests check that.
                        Then::Copy { .. } => continue,
                    };
                    let reads_pc = original.flow == Flow::Next && leads_to == next;
                    prop_assert!(
                        reads_pc || leads_to == behind || original.flow.target().is_none_or(|target| target == leads_to),
                        "{word:08x} leads to {leads_to:x}"
                    );
                    let windows = [abi::CWP, abi::CANSAVE, abi::CANRESTORE].map(|reg| usize::from(reg.0));
                    let changed = (0..64).filter(|number| cpu.regs[*number] != regs[*number] && !windows.contains(number));
                    prop_assert!(changed.clone().all(|number| cpu.regs[number] == original.address) && changed.count() <= 1);
                }
                Ok(_) if policy == Policy::Best => {
                    prop_assert!(matches!(original.flow, Flow::Next | Flow::Trap), "{:08x}", word);
                }
                Ok(_) => {}
            }
        }
        for tail in [Tail::Breakpoint, Tail::JumpBack] {
            let _ = (SPARC64.copy)(&original, at & !3, tail);
        }
    }
}

/// KP-1: the tests above compare only words that both know, so those must be many.
#[test]
fn capstone_knows_enough_instructions_to_compare() {
    let words = (0..60_000_u32).map(|number| number.wrapping_mul(0x9e37_79b1));
    let known = words.filter(|word| opinion(*word).is_some()).count();
    assert!(known > 20_000, "{known} of 60,000");
}
