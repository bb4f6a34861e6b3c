//! Copies, rules and emulation of PA-RISC on random words. Capstone does not know this ISA; `tests/tests/binutils.rs`
//! compares the disassembly with binutils.

mod bench;

use bench::state::{NoMemory, Toy};
use proptest::prelude::*;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::ByteOrder;
use trapline_isa::parisc::{PARISC, abi, decode, disasm, slot};
use trapline_isa::plan::{Plan, Policy, Tail, Then};
use trapline_isa::regs::Reg;

const HERE: u64 = 0x0010_1000;
const WINDOW: u64 = 0x0011_0040;

fn insn(word: u32, address: u64) -> Insn {
    (PARISC.decode)(address, &word.to_be_bytes()).expect("a whole word")
}

/// Random words. Half of them are branches or system instructions, which are rare otherwise.
fn words() -> impl Strategy<Value = u32> {
    const STARTS: &[(u32, u32)] = &[
        (0xfc00_1fe0, 0x0000_0000),
        (0xffff_ffff, 0x0000_0c00),
        (0xffff_ffff, 0x0000_0ca0),
        (0xffff_ffe0, 0x0000_14a0),
        (0xf000_0000, 0x8000_0000),
        (0xf000_0000, 0xa000_0000),
        (0xf000_0000, 0xc000_0000),
        (0xf800_0000, 0xe000_0000),
        (0xfc00_e000, 0xe800_0000),
        (0xfc00_e000, 0xe800_4000),
        (0xfc00_e000, 0xe800_a000),
        (0xfc00_f000, 0xe800_c000),
        (0xfc00_d000, 0xe800_d000),
        (0xfc00_f000, 0x0800_0000),
    ];
    bench::words(STARTS)
}

proptest! {
    #![proptest_config(bench::config("tests/parisc_soundness.regressions"))]

    /// KP-1: a copy is the same word, followed by two breakpoints or the jump back. If it may nullify that jump, a second one
    /// follows, with an instruction in its delay slot.
    #[test]
    fn a_copy_is_the_same_word(word in words(), back in any::<bool>()) {
        let original = insn(word, HERE);
        let copy = (PARISC.copy)(&original, WINDOW, if back { Tail::JumpBack } else { Tail::Breakpoint }).expect("in reach");
        let word_at = |from: usize| ByteOrder::Big.word(&copy.bytes()[from..from + 4]);
        prop_assert_eq!((copy.displaced, word_at(0)), (4, word));
        match back {
            true => {
                let is_long = copy.bytes().len() == 16;
                prop_assert!(is_long || copy.bytes().len() == 8);
                prop_assert_eq!(insn(word_at(4), WINDOW + 4).flow, Flow::Jump(original.next()));
                prop_assert!(!decode::has_delay_slot(word_at(4)));
                if is_long {
                    prop_assert_eq!(insn(word_at(8), WINDOW + 8).flow, Flow::Jump(original.next()));
                    prop_assert!(decode::has_delay_slot(word_at(8)));
                }
            }
            false => prop_assert_eq!([word_at(4), word_at(8)], [slot::STEP_END, slot::STEP_NULLIFIED]),
        }
    }

    /// KP-1, KP-2: nothing panics. Refusals have a rule; branches are emulated and go to their decoded target.
    #[test]
    fn any_word_is_handled_without_a_panic(word in words(), address in any::<u32>(), at in any::<u64>(), seed in any::<u64>()) {
        let original = insn(word, u64::from(address & !3));
        let _ = disasm::text(original.address, word);
        for policy in [Policy::Best, Policy::LINUX_6_1] {
            match (PARISC.plan)(&original, policy) {
                Err(refusal) => prop_assert!(PARISC.rule_of(&refusal).is_some(), "{refusal}"),
                Ok(Plan::Emulate(what)) => {
                    let mut regs: [u64; 80] = std::array::from_fn(|number| seed.rotate_left(number as u32) & 0xffff_fffc);
                    regs[0] = 0;
                    regs[usize::from(abi::NPC.0)] = original.next() & 0xffff_ffff;
                    let mut cpu = Toy { regs, pc: original.address };
                    let then = (PARISC.emulate)(&what, &original, &mut cpu, &mut NoMemory(ByteOrder::Big)).expect("it does not fault");
                    prop_assert_eq!(cpu.regs[0], 0);
                    prop_assert!((0..80).all(|number| cpu.regs[number] >> 32 == 0), "{:08x}", word);
                    if original.flow == Flow::Trap {
                        continue;
                    }
                    let (next, behind) = (original.next() & 0xffff_ffff, (original.next() + 4) & 0xffff_ffff);
                    let leads_to = match then {
                        Then::DelaySlot { then } => {
                            prop_assert_eq!(cpu.pc, next);
                            then
                        }
                        _ => cpu.pc,
                    };
                    let reads_pc = original.flow == Flow::Next && leads_to == next;
                    prop_assert!(
                        reads_pc || leads_to == behind || original.flow.target().is_none_or(|target| target == leads_to),
                        "{word:08x} leads to {leads_to:x}"
                    );
                    let general = (1..32).filter(|number| cpu.regs[*number] != regs[*number]).count();
                    prop_assert!(general <= 1, "{:08x}", word);
                    prop_assert_eq!(cpu.regs[usize::from(Reg(39).0)], regs[39], "the shift amount stays");
                }
                Ok(_) if policy == Policy::Best => {
                    prop_assert!(matches!(original.flow, Flow::Next | Flow::Trap), "{:08x}", word);
                }
                Ok(_) => {}
            }
        }
        for tail in [Tail::Breakpoint, Tail::JumpBack] {
            let _ = (PARISC.copy)(&original, at & !3, tail);
        }
    }
}
