//! Fuzzes the SPARC rules with arbitrary words. Nothing may panic. A copy must be the instruction. An emulated branch
//! must go where the decoder says, and delay slots must be recognised. A jump may be written only if its detour runs
//! the same. (`isa/tests/sparc64_second_opinion.rs` compares the decoder with capstone.)
//!
//! Input: a byte that selects the addresses, then the text. The third instruction is tested. The bytes of the text also
//! fill the registers.
#![no_main]

#[allow(dead_code, reason = "only other targets use the stack functions")]
mod toys;

use libfuzzer_sys::fuzz_target;
use toys::{ToyMemory, ToyRegisters};
use trapline_isa::arch::Emulation;
use trapline_isa::detour;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::ByteOrder;
use trapline_isa::plan::{Copy, Plan, Policy, Tail, Then};
use trapline_isa::region::{PlainText, Rule, region};
use trapline_isa::sparc64::emulate::{Computation, Target};
use trapline_isa::sparc64::{LENGTH, SPARC64, abi, decode, slot};

/// Addresses of the text and of the copy.
const PLACES: &[(u64, u64)] = &[
    (0x0000_0000_0040_0000, 0x0000_0000_0060_0040),
    (0x0000_0000_0040_0000, 0x0000_0000_0100_0040), // out of reach
    (0xffff_ffff_ffff_fff0, 0x0000_0000_0000_0020), // addresses wrap around after the original
];

/// Number of words in front of the tested one.
const BEFORE: usize = 2;

fuzz_target!(|data: &[u8]| {
    let [choice, text @ ..] = data else { return };
    let (start, at) = PLACES[usize::from(*choice) % PLACES.len()];
    let (Some(own), address) = (text.get(BEFORE * LENGTH..), start.wrapping_add((BEFORE * LENGTH) as u64)) else {
        return;
    };
    let Ok(insn) = (SPARC64.decode)(address, own) else { return };
    assert!(own.starts_with(insn.bytes()) && insn.length() == 4, "not the bytes that were given: {insn:x?}");
    let function = start..start.saturating_add(text.len() as u64);
    for policy in [Policy::Best, Policy::LINUX_6_1] {
        let mut around = PlainText { start, bytes: text.to_vec(), ..PlainText::default() };
        let before = ByteOrder::Big.word(&text[(BEFORE - 1) * LENGTH..BEFORE * LENGTH]);
        let follows = address > start && decode::has_delay_slot(before);
        let in_slot = (SPARC64.in_delay_slot)(&insn, &mut around);
        assert!(in_slot.is_none() || follows, "in no delay slot: {insn:x?}");
        let checked = (SPARC64.check_context)(&insn, policy, function.clone(), &mut around).is_ok();
        match (SPARC64.plan)(&insn, policy) {
            Err(refusal) => assert!(SPARC64.rule_of(&refusal).is_some(), "{refusal}"),
            Ok(Plan::Emulate(Emulation::Sparc64(what))) => {
                let is_branch = matches!(what, Computation::Branch(_));
                assert_eq!(checked, !(is_branch && follows && policy == Policy::Best), "{insn:x?}");
                computes(&insn, what, text);
            }
            Ok(Plan::Emulate(other)) => panic!("another ISA's: {other:?}"),
            Ok(_) => {
                assert_eq!(in_slot.is_some(), follows, "{insn:x?}");
                let stays = matches!(insn.flow, Flow::Next | Flow::Trap);
                assert!(policy.is_linux() || stays, "it would leave its copy: {insn:x?}");
            }
        }
        match region(&SPARC64, policy, function.clone(), address, &mut around) {
            Ok(region) => {
                assert_eq!((policy, region.start(), region.insns().len()), (Policy::Best, address, 1));
                assert!(!follows, "a jump in a delay slot: {insn:x?}");
                let table = SPARC64.detour.expect("a region is one of a detour");
                if let Ok(code) = detour::lean(&SPARC64, table, &region, at) {
                    let rest = code.bytes().strip_prefix(table.lead).and_then(|rest| rest.strip_prefix(region.bytes()));
                    let from = at.wrapping_add((table.lead.len() + region.bytes().len()) as u64);
                    goes_back(from, rest.expect("the lead, and the instruction"), region.end());
                }
            }
            Err(refusal) => assert!(Rule::of(&refusal).is_some(), "{refusal}"),
        }
    }
    for tail in [Tail::Breakpoint, Tail::JumpBack] {
        let Ok(copy) = (SPARC64.copy)(&insn, at, tail) else { continue };
        runs_the_same(&insn, &copy, at, tail);
    }
});

/// A copy must be the instruction itself, followed by a breakpoint or a jump back.
fn runs_the_same(insn: &Insn, copy: &Copy, at: u64, tail: Tail) {
    let (copied, behind) = copy.bytes().split_at(copy.displaced);
    assert_eq!(copied, insn.bytes(), "another instruction: {insn:x?}");
    match tail {
        Tail::Breakpoint => assert_eq!(ByteOrder::Big.word(behind), slot::STEP_END),
        Tail::JumpBack => goes_back(at.wrapping_add(LENGTH as u64), behind, insn.next()),
    }
}

/// The bytes must be a jump to `to` that needs no delay slot.
fn goes_back(from: u64, bytes: &[u8], to: u64) {
    let back = (SPARC64.decode)(from, bytes).expect("the jump back is an instruction");
    assert_eq!((back.flow, back.bytes()), (Flow::Jump(to), bytes), "the jump back leads elsewhere");
    assert!(!decode::has_delay_slot(ByteOrder::Big.word(bytes)), "it has no slot");
}

/// An emulated instruction must go to its target or continue, may change its link register and the window registers
/// only, and must not touch memory.
fn computes(insn: &Insn, what: Computation, seed: &[u8]) {
    let mut regs = ToyRegisters::new(seed, insn.address);
    regs.values[0] = 0;
    let before = regs.clone();
    let mut mem = ToyMemory::new(seed);
    let answer = (SPARC64.emulate)(&Emulation::Sparc64(what), insn, &mut regs, &mut mem);
    assert!(mem.is_untouched());
    let changed = |number: &usize| regs.values[*number] != before.values[*number];
    let Ok(then) = answer else {
        assert!(!(0..64).any(|number| changed(&number)) && regs.pc == before.pc, "a fault has changed something: {insn:x?}");
        return;
    };
    let (next, behind_slot) = (insn.next(), insn.next().wrapping_add(LENGTH as u64));
    let place = if what == Computation::Retry { before.values[usize::from(abi::TPC.0)] } else { next };
    let leads_to = match then {
        Then::Onwards => regs.pc,
        Then::DelaySlot { then } => {
            assert_eq!(regs.pc, place, "{insn:x?}");
            then
        }
        Then::Copy { undo } => {
            // The copy raises the fault: `done` or `retry` outside a trap, or a misaligned jump target.
            let kept = undo.is_none_or(|(reg, value)| before.values[usize::from(reg.0)] == value);
            let is_one = match what {
                Computation::Done | Computation::Retry => before.values[usize::from(abi::TL.0)] == 0,
                Computation::Branch(branch) => branch.link.is_some(),
                _ => false,
            };
            assert!(is_one && kept && !(0..64).any(|number| changed(&number)), "{insn:x?}");
            return;
        }
    };
    match what {
        Computation::Branch(branch) => {
            let target = match branch.target {
                Target::Written => insn.flow.target().unwrap_or(behind_slot),
                Target::Sum(one, other) => before.values[usize::from(one.0)].wrapping_add(before.values[usize::from(other.0)]),
                Target::Off(reg, by) => before.values[usize::from(reg.0)].wrapping_add_signed(by.into()),
            };
            assert!(leads_to == target || leads_to == behind_slot, "{insn:x?} leads to {leads_to:#x}");
        }
        Computation::Done | Computation::Retry => assert_eq!(leads_to, before.values[usize::from(abi::TNPC.0)], "{insn:x?}"),
        _ => assert_eq!(leads_to, next, "{insn:x?}"),
    }
    if matches!(what, Computation::Done | Computation::Retry) {
        let [state, level] = [abi::TSTATE, abi::TL].map(|reg| regs.values[usize::from(reg.0)]);
        let [saved, before] = [abi::TRAPPED, abi::TL].map(|reg| before.values[usize::from(reg.0)]);
        assert_eq!((state, level), (saved, before - 1), "{insn:x?}");
        return;
    }
    let windows = [abi::CWP, abi::CANSAVE, abi::CANRESTORE].map(|reg| usize::from(reg.0));
    let others: Vec<usize> = (0..64).filter(|number| changed(number) && !windows.contains(number)).collect();
    assert!(others.len() <= 1 && others.iter().all(|number| regs.values[*number] == insn.address), "{insn:x?}");
}
