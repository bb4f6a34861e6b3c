//! Fuzzes the PA-RISC rules with arbitrary words. Nothing may panic. A copy must be the instruction. An emulated branch
//! must go where the decoder says, and delay slots must be recognised. A jump may be written only if its detour runs
//! the same. (`tests/tests/binutils.rs` compares the disassembly with binutils.)
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
use trapline_isa::parisc::emulate::Computation;
use trapline_isa::parisc::{LENGTH, PARISC, abi, decode, disasm, slot};
use trapline_isa::plan::{Copy, Plan, Policy, Tail, Then};
use trapline_isa::region::{PlainText, Rule, region};

/// Addresses of the text and of the copy.
const PLACES: &[(u64, u64)] = &[
    (0x0040_0000, 0x0042_0040),
    (0x0040_0000, 0x0100_0040), // out of reach
    (0xffff_ff00, 0xffff_0020), // at the end of the address space
];

/// Number of words in front of the tested one.
const BEFORE: usize = 2;

fuzz_target!(|data: &[u8]| {
    let [choice, text @ ..] = data else { return };
    let (start, at) = PLACES[usize::from(*choice) % PLACES.len()];
    let (Some(own), address) = (text.get(BEFORE * LENGTH..), start.wrapping_add((BEFORE * LENGTH) as u64)) else {
        return;
    };
    let Ok(insn) = (PARISC.decode)(address, own) else { return };
    assert!(own.starts_with(insn.bytes()) && insn.length() == 4, "not the bytes that were given: {insn:x?}");
    let _ = disasm::of(&insn);
    let function = start..start.saturating_add(text.len() as u64);
    for policy in [Policy::Best, Policy::LINUX_6_1] {
        let mut around = PlainText { start, bytes: text.to_vec(), ..PlainText::default() };
        let before = ByteOrder::Big.word(&text[(BEFORE - 1) * LENGTH..BEFORE * LENGTH]);
        let follows = address > start && decode::has_delay_slot(before);
        let in_slot = (PARISC.in_delay_slot)(&insn, &mut around);
        assert!(in_slot.is_none() || follows, "in no delay slot: {insn:x?}");
        let checked = (PARISC.check_context)(&insn, policy, function.clone(), &mut around);
        let leaves = follows && decode::may_change_space(before) && policy == Policy::Best;
        match (PARISC.plan)(&insn, policy) {
            Err(refusal) => assert!(PARISC.rule_of(&refusal).is_some(), "{refusal}"),
            Ok(Plan::Emulate(Emulation::Parisc(what))) => {
                assert!(checked.is_ok(), "{insn:x?}");
                computes(&insn, what, text);
            }
            Ok(Plan::Emulate(other)) => panic!("another ISA's: {other:?}"),
            Ok(_) => {
                assert_eq!((in_slot.is_some(), checked.is_err()), (follows, leaves), "{insn:x?}");
                let stays = matches!(insn.flow, Flow::Next | Flow::Trap);
                assert!(policy.is_linux() || stays, "it would leave its copy: {insn:x?}");
            }
        }
        match region(&PARISC, policy, function.clone(), address, &mut around) {
            Ok(region) => {
                assert_eq!((policy, region.start(), region.insns().len()), (Policy::Best, address, 1));
                assert!(!follows, "a jump in a delay slot: {insn:x?}");
                let table = PARISC.detour.expect("a region is one of a detour");
                if let Ok(code) = detour::lean(&PARISC, table, &region, at) {
                    let rest = code.bytes().strip_prefix(table.lead).and_then(|rest| rest.strip_prefix(region.bytes()));
                    let from = at.wrapping_add((table.lead.len() + region.bytes().len()) as u64);
                    ways_back(from, rest.expect("the lead, and the instruction"), region.end());
                }
            }
            Err(refusal) => assert!(Rule::of(&refusal).is_some(), "{refusal}"),
        }
    }
    for tail in [Tail::Breakpoint, Tail::JumpBack] {
        let Ok(copy) = (PARISC.copy)(&insn, at, tail) else { continue };
        runs_the_same(&insn, &copy, at, tail);
    }
});

/// A copy must be the instruction itself, followed by two breakpoints or a jump back, and by a second jump if the instruction may
/// nullify the first one.
fn runs_the_same(insn: &Insn, copy: &Copy, at: u64, tail: Tail) {
    let (copied, behind) = copy.bytes().split_at(copy.displaced);
    assert_eq!(copied, insn.bytes(), "another instruction: {insn:x?}");
    match tail {
        Tail::Breakpoint => {
            assert_eq!(behind, [slot::STEP_END.to_be_bytes(), slot::STEP_NULLIFIED.to_be_bytes()].concat());
        }
        Tail::JumpBack => ways_back(at.wrapping_add(LENGTH as u64), behind, insn.next()),
    }
}

/// The bytes must be a jump to `to`, and behind an instruction that may nullify it a second one.
fn ways_back(from: u64, bytes: &[u8], to: u64) {
    let (first, second) = bytes.split_at(LENGTH);
    goes_back(from, first, to);
    if !second.is_empty() {
        nullifies_and_goes_back(from.wrapping_add(LENGTH as u64), second, to);
    }
}

/// The bytes must be a jump to `to` that needs no delay slot.
fn goes_back(from: u64, bytes: &[u8], to: u64) {
    let back = (PARISC.decode)(from, bytes).expect("the jump back is an instruction");
    assert_eq!((back.flow, back.bytes()), (Flow::Jump(to), bytes), "the jump back leads elsewhere");
    assert!(!decode::has_delay_slot(ByteOrder::Big.word(bytes)), "it has no slot");
}

/// The bytes must be a jump to `to` whose delay slot nullifies the instruction that it leads to.
fn nullifies_and_goes_back(from: u64, bytes: &[u8], to: u64) {
    let (jump, in_slot) = bytes.split_at(LENGTH);
    let back = (PARISC.decode)(from, jump).expect("the second jump back is an instruction");
    assert_eq!(back.flow, Flow::Jump(to), "the second jump back leads elsewhere");
    assert!(decode::has_delay_slot(ByteOrder::Big.word(jump)), "it has a slot");
    assert_eq!(in_slot, slot::NULLIFY_NEXT.to_be_bytes());
}

/// An emulated instruction must go to its target or continue, may change one general register, and must not touch
/// memory.
fn computes(insn: &Insn, what: Computation, seed: &[u8]) {
    let mut regs = ToyRegisters::new(seed, insn.address);
    regs.values.iter_mut().for_each(|value| *value &= 0xffff_fffc);
    regs.values[0] = 0;
    let next = insn.next() & 0xffff_ffff;
    regs.values[usize::from(abi::NPC.0)] = next;
    let before = regs.clone();
    let mut mem = ToyMemory::new(seed);
    let then = (PARISC.emulate)(&Emulation::Parisc(what), insn, &mut regs, &mut mem).expect("it does not fault");
    assert!(mem.is_untouched());
    let changed = (0..32).filter(|number| regs.values[*number] != before.values[*number]).count();
    assert_eq!(regs.values[0], 0, "{insn:x?}");
    let leads_to = match then {
        Then::Onwards => regs.pc,
        Then::DelaySlot { then } => {
            assert!(regs.pc == next || matches!(what, Computation::Return { .. }), "{insn:x?}");
            then
        }
        Then::Copy { .. } => panic!("no copy is left: {insn:x?}"),
    };
    match what {
        Computation::Branch(_) => {
            let behind_slot = next.wrapping_add(LENGTH as u64) & 0xffff_ffff;
            let target = insn.flow.target().unwrap_or(leads_to);
            assert!(leads_to == target || leads_to == behind_slot, "{insn:x?} leads to {leads_to:#x}");
            assert!(changed <= 1, "{insn:x?}");
        }
        Computation::Return { restores } => assert!(changed <= if restores { 7 } else { 0 }, "{insn:x?}"),
        _ => assert!(leads_to == next && changed <= 1, "{insn:x?}"),
    }
}
