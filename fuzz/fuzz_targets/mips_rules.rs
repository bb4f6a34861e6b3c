//! Fuzzes the MIPS rules with arbitrary words. Nothing may panic. A copy must be the instruction or its delay slot. An
//! emulated branch must go where the decoder says, and a jump may be written only if its detour runs the same.
//! (`isa/tests/mips_second_opinion.rs` compares the decoder with capstone.)
//!
//! Input: a byte that selects the instruction set (modulo 4) and the addresses (the quotient), then the text. The third
//! instruction is tested. The bytes of the text also fill the registers.
#![no_main]

#[allow(dead_code, reason = "only other targets use the stack functions")]
mod toys;

use libfuzzer_sys::fuzz_target;
use toys::{ToyMemory, ToyRegisters};
use trapline_isa::arch::Emulation;
use trapline_isa::detour;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mips::emulate::{Computation, Target};
use trapline_isa::mips::{LENGTH, Set, decode, slot};
use trapline_isa::plan::{Copy, Plan, Policy, Tail, Then};
use trapline_isa::region::{PlainText, Rule, region};

/// Addresses of the text and of the copy, truncated to 32 bits on 32-bit sets.
const PLACES: &[(u64, u64)] = &[
    (0xffff_ffff_8010_0000, 0xffff_ffff_8f00_0040),
    (0xffff_ffff_8fff_fff8, 0xffff_ffff_9000_0040), // at the end of a segment
    (0xffff_ffff_c000_0000, 0xffff_ffff_8f00_0040), // out of reach
    (0x0000_0000_0000_1000, 0x0000_0000_0fff_f000),
    (0xffff_ffff_ffff_fff0, 0x0000_0000_0000_0020), // addresses wrap around after the original
];

/// Number of words in front of the tested one.
const BEFORE: usize = 2;

fuzz_target!(|data: &[u8]| {
    let [choice, text @ ..] = data else { return };
    let set = Set::ALL[usize::from(choice % 4)];
    let (start, at) = PLACES[usize::from(choice / 4) % PLACES.len()];
    let (start, at) = (set.cut(start), set.cut(at));
    let isa = set.isa();
    let (Some(own), address) = (text.get(BEFORE * LENGTH..), set.cut(start.wrapping_add((BEFORE * LENGTH) as u64))) else {
        return;
    };
    let Ok(insn) = (isa.decode)(address, own) else { return };
    assert!(own.starts_with(insn.bytes()) && matches!(insn.length(), 4 | 8), "not the bytes that were given: {insn:x?}");
    let function = start..start.saturating_add(text.len() as u64);
    for policy in [Policy::Best, Policy::LINUX_6_1] {
        let mut around = PlainText { start, bytes: text.to_vec(), ..PlainText::default() };
        let checked = (isa.check_context)(&insn, policy, function.clone(), &mut around);
        let before = set.word(&text[(BEFORE - 1) * LENGTH..BEFORE * LENGTH]);
        if policy == Policy::Best && address > start && decode::has_delay_slot(before) {
            assert!(checked.is_err(), "in a delay slot: {insn:x?}");
        }
        match (isa.plan)(&insn, policy) {
            Err(refusal) => assert!(isa.rule_of(&refusal).is_some(), "{refusal}"),
            Ok(Plan::Emulate(Emulation::Mips(what))) => computes(set, &insn, what, text),
            Ok(Plan::Emulate(other)) => panic!("another ISA's: {other:?}"),
            Ok(_) if policy == Policy::Best => assert_eq!(insn.flow, Flow::Next, "it would leave its copy: {insn:x?}"),
            Ok(_) => {}
        }
        match region(isa, policy, function.clone(), address, &mut around) {
            Ok(region) => {
                assert_eq!((policy, region.start(), region.insns().len()), (Policy::Best, address, 2));
                let table = isa.detour.expect("a region is one of a detour");
                if let Ok(code) = detour::lean(isa, table, &region, at) {
                    let rest = code.bytes().strip_prefix(table.lead).and_then(|rest| rest.strip_prefix(region.bytes()));
                    let from = set.cut(at.wrapping_add((table.lead.len() + region.bytes().len()) as u64));
                    goes_back(set, from, rest.expect("the lead, and both instructions"), region.end());
                }
            }
            Err(refusal) => assert!(Rule::of(&refusal).is_some(), "{refusal}"),
        }
    }
    for tail in [Tail::Breakpoint, Tail::JumpBack] {
        let Ok(copy) = (isa.copy)(&insn, at, tail) else { continue };
        runs_the_same(set, &insn, &copy, at, tail);
    }
});

fn runs_the_same(set: Set, insn: &Insn, copy: &Copy, at: u64, tail: Tail) {
    let (copied, behind) = copy.bytes().split_at(copy.displaced);
    assert_eq!(copied, &insn.bytes()[insn.bytes().len() - LENGTH..], "another instruction: {insn:x?}");
    match tail {
        Tail::Breakpoint => assert_eq!(set.word(behind), slot::BREAK),
        Tail::JumpBack => goes_back(set, set.cut(at.wrapping_add(LENGTH as u64)), behind, insn.next()),
    }
}

fn goes_back(set: Set, from: u64, bytes: &[u8], to: u64) {
    let back = (set.isa().decode)(from, bytes).expect("the jump back is an instruction");
    assert_eq!((back.flow, back.bytes()), (Flow::Jump(set.cut(to)), bytes), "the jump back leads elsewhere");
    assert_eq!(bytes[LENGTH..], [0; LENGTH], "its slot is empty");
}

/// An emulated branch must go to its target or continue, may change its link register only, and must not touch memory.
fn computes(set: Set, insn: &Insn, what: Computation, seed: &[u8]) {
    let mut regs = ToyRegisters::new(seed, insn.address);
    regs.values.iter_mut().for_each(|value| *value = set.cut(*value));
    regs.values[0] = 0;
    let before = regs.clone();
    let mut mem = ToyMemory::new(seed);
    let then = (set.isa().emulate)(&Emulation::Mips(what), insn, &mut regs, &mut mem).expect("none of these touches memory");
    assert!(mem.is_untouched() && matches!(then, Then::Onwards | Then::Copy { undo: None }));
    let next = set.cut(insn.next());
    let target = match what.target {
        Target::Written => insn.flow.target().expect("the flow names what is written"),
        Target::Register(reg) => before.values[usize::from(reg.0)],
    };
    assert!(insn.flow.target().is_none_or(|decoded| decoded == target), "{insn:x?}");
    assert!(regs.pc == target || regs.pc == next, "{insn:x?} went to {:#x}", regs.pc);
    let changed: Vec<usize> = (0..64).filter(|number| regs.values[*number] != before.values[*number]).collect();
    let links = |number: &usize| what.link.is_some_and(|link| usize::from(link.0) == *number) && regs.values[*number] == next;
    assert!(changed.iter().all(links), "{insn:x?}");
}
