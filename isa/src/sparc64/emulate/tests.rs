//! Registers before and after, worked out by hand from the SPARC V9 manual.

use super::super::abi::{self, o};
use super::super::decode::decode;
use super::super::{SPARC64, rules};
use super::*;
use crate::arch::Emulation;
use crate::mem::ByteOrder;
use crate::plan::{Plan, Policy};
use crate::testing::{NoMemory, Toy};
use alloc::vec::Vec;

const HERE: u64 = 0x0040_1ff0;
/// The npc of the toy CPU.
const KNOWN: u64 = 0x0050_0000;

fn cpu(set: &[(Reg, u64)]) -> Toy<64> {
    let mut regs = [0; 64];
    for (number, value) in regs.iter_mut().enumerate().take(32).skip(1) {
        *value = 0x1111_0000_0000_0000 | number as u64;
    }
    for (reg, value) in [(NPC, KNOWN), (CANSAVE, 4), (CANRESTORE, 2), (CWP, 3)].iter().chain(set) {
        regs[usize::from(reg.0)] = *value;
    }
    Toy { regs, pc: HERE }
}

/// The new pc, the next step, and the changed registers.
type Done = (u64, Then, Vec<(u8, u64)>);

/// Runs the emulation of a word.
fn does(what: &Computation, word: u32, set: &[(Reg, u64)]) -> Result<Done, Fault> {
    let insn = decode(HERE, &word.to_be_bytes()).expect("a whole word");
    let before = cpu(set);
    let mut cpu = before.clone();
    let then = emulate(what, &insn, &mut cpu).inspect_err(|_| assert_eq!(cpu, before, "a fault changes nothing"))?;
    let changed = (0..64).filter(|number| cpu.regs[*number] != before.regs[*number]);
    Ok((cpu.pc, then, changed.map(|number| (number as u8, cpu.regs[number])).collect()))
}

fn computed(word: u32) -> Computation {
    let insn = decode(HERE, &word.to_be_bytes()).expect("a whole word");
    match rules::plan(&insn, Policy::Best) {
        Ok(Plan::Emulate(Emulation::Sparc64(what))) => what,
        other => panic!("{word:08x} is not computed: {other:?}"),
    }
}

/// The outcome of a branch with a target 16 bytes ahead, in words.
fn goes(word: u32, set: &[(Reg, u64)]) -> &'static str {
    let (pc, then, changed) = does(&computed(word), word, set).expect("it does not fault");
    assert_eq!(changed, [], "{word:08x}");
    match (pc - HERE, then) {
        (4, Then::DelaySlot { then }) if then == HERE + 16 => "taken",
        (4, Then::DelaySlot { then }) if then == HERE + 8 => "not",
        (16, Then::Onwards) => "taken at once",
        (8, Then::Onwards) => "over its slot",
        other => panic!("{word:08x}: {other:x?}"),
    }
}

/// KP-2: each condition with every value of the codes, for icc and xcc.
#[test]
fn branches_on_condition_codes_follow_the_manual() {
    for codes in 0..16_u64 {
        let [n, z, v, c] = [8, 4, 2, 1].map(|bit| codes & bit != 0);
        #[rustfmt::skip]
        let holds = [
            false, z, z || (n ^ v), n ^ v, c || z, c, n, v,
            true, !z, !(z || (n ^ v)), !(n ^ v), !(c || z), !c, !n, !v,
        ];
        for (condition, holds) in (0..).zip(holds) {
            let cond: u32 = condition << 25;
            // Both sets of codes, with opposite values.
            let low = [(CCR, codes | (!codes & 15) << 4)];
            let high = [(CCR, codes << 4 | !codes & 15)];
            let plain = if holds { "taken" } else { "not" };
            let annulling = match (holds, condition) {
                (true, 8) => "taken at once",
                (true, _) => "taken",
                (false, _) => "over its slot",
            };
            for (word, codes) in [(0x0080_0004, low), (0x0048_0004, low), (0x0068_0004, high), (0x0060_0004, high)] {
                assert_eq!(goes(word | cond, &codes), plain, "{condition} of {codes:x?}");
                assert_eq!(goes(word | cond | 1 << 29, &codes), annulling, "{condition} of {codes:x?}");
            }
        }
    }
}

/// KP-2: a register's value is a signed number.
#[test]
fn branches_on_registers_follow_the_manual() {
    #[rustfmt::skip]
    let cases: &[(&str, u32, [bool; 4])] = &[
        // what            word         of -1, 0, 1, 1 << 40
        ("brz %o0",        0x02c2_0004, [false, true,  false, false]),
        ("brlez %o0",      0x04c2_0004, [true,  true,  false, false]),
        ("brlz %o0",       0x06c2_0004, [true,  false, false, false]),
        ("brnz %o0",       0x0ac2_0004, [true,  false, true,  true]),
        ("brgz %o0",       0x0cc2_0004, [false, false, true,  true]),
        ("brgez %o0",      0x0ec2_0004, [false, true,  true,  true]),
    ];
    for (what, word, expected) in cases {
        for (value, taken) in [u64::MAX, 0, 1, 1 << 40].into_iter().zip(expected) {
            assert_eq!(goes(*word, &[(o(0), value)]), if *taken { "taken" } else { "not" }, "{what} of {value:x}");
            let annulling = if *taken { "taken" } else { "over its slot" };
            assert_eq!(goes(word | 1 << 29, &[(o(0), value)]), annulling, "{what} of {value:x}");
        }
    }
}

/// KP-2, KP-9: floating-point conditions on all four sets of codes. With the unit disabled, the copy raises the
/// exception.
#[test]
fn floating_point_branches_follow_the_manual() {
    // Equal, less, greater, unordered.
    #[rustfmt::skip]
    let cases: &[(&str, u32, [bool; 4])] = &[
        ("fbn",   0,  [false, false, false, false]),
        ("fbne",  1,  [false, true,  true,  true]),
        ("fblg",  2,  [false, true,  true,  false]),
        ("fbul",  3,  [false, true,  false, true]),
        ("fbl",   4,  [false, true,  false, false]),
        ("fbug",  5,  [false, false, true,  true]),
        ("fbg",   6,  [false, false, true,  false]),
        ("fbu",   7,  [false, false, false, true]),
        ("fba",   8,  [true,  true,  true,  true]),
        ("fbe",   9,  [true,  false, false, false]),
        ("fbue",  10, [true,  false, false, true]),
        ("fbge",  11, [true,  false, true,  false]),
        ("fbuge", 12, [true,  false, true,  true]),
        ("fble",  13, [true,  true,  false, false]),
        ("fbule", 14, [true,  true,  false, true]),
        ("fbo",   15, [true,  true,  true,  false]),
    ];
    let on = [(TSTATE, TSTATE_PEF), (FPRS, FPRS_FEF)];
    for (what, condition, expected) in cases {
        for (value, holds) in (0..).zip(expected) {
            for (word, up) in [(0x0180_0004, 10), (0x0148_0004, 10), (0x0158_0004, 32), (0x0168_0004, 34), (0x0178_0004, 36)] {
                let (word, fsr) = (word | condition << 25, !(3 << up) & 0xaa_aaaa_aaaa | value << up);
                let set = [on[0], on[1], (FSR, fsr)];
                assert_eq!(goes(word, &set), if *holds { "taken" } else { "not" }, "{what} of {value}, {word:08x}");
                let annulling = match (*holds, condition) {
                    (true, 8) => "taken at once",
                    (true, _) => "taken",
                    (false, _) => "over its slot",
                };
                assert_eq!(goes(word | 1 << 29, &set), annulling, "{what},a of {value}");
                for off in [[on[0], (FPRS, 3)], [(TSTATE, !TSTATE_PEF), on[1]]] {
                    assert!(does(&computed(word), word, &off).is_err(), "{what}");
                }
            }
        }
    }
}

/// KP-2, RP-1: jumps, the register that gets the jump's own address, and the window that `return` restores.
#[test]
fn jumps_go_to_their_sum_and_link_their_own_address() {
    let to = 0x0060_0000;
    let slot = |then| Then::DelaySlot { then };
    let of = |word, set: &[(Reg, u64)]| does(&computed(word), word, set);
    assert_eq!(of(0x4000_0004, &[]), Ok((HERE + 4, slot(HERE + 16), [(o(7).0, HERE)].to_vec())), "call");
    assert_eq!(of(0x81c3_e008, &[(o(7), to)]), Ok((HERE + 4, slot(to + 8), Vec::new())), "retl");
    assert_eq!(of(0x9fc2_0000, &[(o(0), to)]), Ok((HERE + 4, slot(to), [(o(7).0, HERE)].to_vec())), "call %o0");
    assert_eq!(of(0x81c2_0009, &[(o(0), to), (o(1), 12)]), Ok((HERE + 4, slot(to + 12), Vec::new())), "jmp %o0+%o1");
    assert_eq!(of(0x91c2_3ffc, &[(o(0), to)]), Ok((HERE + 4, slot(to - 4), [(o(0).0, HERE)].to_vec())), "jmpl %o0-4,%o0");
    assert!(of(0x81c2_0000, &[(o(0), to + 2)]).is_err(), "no place for an instruction");
    let undo = Some((o(7), 7));
    let raised = of(0x9fc2_0000, &[(o(0), to + 2), (o(7), 7)]);
    assert_eq!(raised, Ok((KNOWN, Then::Copy { undo }, Vec::new())), "nor is its own address left then");
    let window = [(CWP.0, 2), (CANSAVE.0, 5), (CANRESTORE.0, 1)].to_vec();
    assert_eq!(of(0x81cf_e008, &[(r(31), to)]), Ok((HERE + 4, slot(to + 8), window)), "return");
    let around = [(r(31), to), (CWP, 0), (CANSAVE, 0), (CANRESTORE, 6)];
    let window = [(CWP.0, WINDOWS - 1), (CANSAVE.0, 1), (CANRESTORE.0, 5)].to_vec();
    assert_eq!(of(0x81cf_e008, &around), Ok((HERE + 4, slot(to + 8), window)), "return from the first window");
    assert!(of(0x81cf_e008, &[(r(31), to), (CANRESTORE, 0)]).is_err(), "the caller's window is not in the CPU");
    assert!(of(0x81cf_e008, &[(r(31), to + 1)]).is_err(), "no place for an instruction");
}

/// KP-2: `done` and `retry` restore the state of their trap level and continue behind or at the trapped instruction.
/// Outside of a trap the copy raises the exception.
#[test]
fn done_and_retry_restore_the_saved_state() {
    const DONE: u32 = 0x81f0_0000;
    const RETRY: u32 = 0x83f0_0000;
    let (from, next, state) = (0x0060_0000, 0x0060_4000, 0x99_8000_1604);
    let set = [(TL, 2), (TPC, from), (TNPC, next), (TRAPPED, state)];
    let left = [(TSTATE.0, state), (TL.0, 1)].to_vec();
    assert_eq!(does(&computed(DONE), DONE, &set), Ok((next, Then::Onwards, left.clone())));
    assert_eq!(does(&computed(RETRY), RETRY, &set), Ok((from, Then::DelaySlot { then: next }, left)));
    for word in [DONE, RETRY] {
        let from_none = does(&computed(word), word, &[(TL, 0), set[1], set[2], set[3]]);
        assert_eq!(from_none, Ok((KNOWN, Then::Copy { undo: None }, Vec::new())), "{word:x}");
    }
}

/// KP-2: `rd %pc` reads its own address, and an instruction in a delay slot continues at npc.
#[test]
fn rd_pc_and_delay_slots_are_emulated() {
    let word = 0x9341_4000;
    assert_eq!(does(&computed(word), word, &[]), Ok((HERE + 4, Then::Onwards, [(o(1).0, HERE)].to_vec())), "rd %pc,%o1");
    assert_eq!(does(&computed(0x8141_4000), word, &[]), Ok((HERE + 4, Then::Onwards, Vec::new())), "rd %pc,%g0");
    let in_slot = does(&Computation::InDelaySlot, 0x9002_2001, &[]);
    assert_eq!(in_slot, Ok((KNOWN, Then::Copy { undo: None }, Vec::new())));
    let both = does(&Computation::ReadPcInDelaySlot(o(1)), word, &[]);
    assert_eq!(both, Ok((KNOWN, Then::Onwards, [(o(1).0, HERE)].to_vec())));
}

/// KP-2: an `Emulation` of another ISA is left to the CPU and changes nothing.
#[test]
fn an_emulation_of_another_isa_changes_nothing() {
    let insn = decode(HERE, &[0; 4]).expect("a word");
    let mut toy = cpu(&[]);
    let before = toy.clone();
    let answer = (SPARC64.emulate)(&Emulation::AsWritten, &insn, &mut toy, &mut NoMemory(ByteOrder::Big));
    assert!(answer.is_err());
    assert_eq!(toy, before);
    assert_eq!(abi::r(8), o(0));
}
