//! Fuzzes the PowerPC rules with arbitrary words. Nothing may panic. A copy must decode to its original. An emulated
//! branch must go where the decoder says, and a jump may be written only if its detour has the same effect.
//! (`isa/tests/ppc_second_opinion.rs` compares the decoder with capstone.)
//!
//! Input: a byte that selects the set (modulo 3) and the addresses (the quotient), then the text. The first instruction
//! is tested. The bytes of the text also fill the registers.
#![no_main]

#[allow(dead_code, reason = "only other targets use the stack functions")]
mod toys;

use libfuzzer_sys::fuzz_target;
use toys::{ToyMemory, ToyRegisters};
use trapline_isa::arch::Emulation;
use trapline_isa::detour;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::plan::{Copy, Plan, Policy, Tail};
use trapline_isa::ppc::emulate::Computation;
use trapline_isa::ppc::{LENGTH, Set, abi, slot};
use trapline_isa::region::{PlainText, region};

/// Addresses of the original and of the copy, truncated to 32 bits on 32-bit sets.
const PLACES: &[(u64, u64)] = &[
    (0xc000_0000_0101_0ff0, 0xc000_0000_0200_0040),
    (0xc000_0000_0101_0ff0, 0xc000_0000_0001_0ff0),
    (0xc000_0000_0101_0ff0, 0xc000_0000_0301_0ff0),
    (0xc000_0000_0101_0ff0, 0xc000_0000_0401_0ff0), // out of reach of the jump back
    (0x0000_0000_0000_1000, 0x0000_0000_ffff_f000),
    (0xffff_ffff_ffff_ffe0, 0x0000_0000_0000_0020), // addresses wrap around after the original
];

fuzz_target!(|data: &[u8]| {
    let [choice, text @ ..] = data else { return };
    let set = [Set::Big32, Set::Big64, Set::Little64][usize::from(choice % 3)];
    let (address, at) = PLACES[usize::from(choice / 3) % PLACES.len()];
    let (address, at) = (set.cut(address), set.cut(at));
    let isa = set.isa();
    let Ok(insn) = (isa.decode)(address, text) else { return };
    assert!(text.starts_with(insn.bytes()) && matches!(insn.length(), 4 | 8), "not the bytes that were given: {insn:x?}");
    let function = address..address.saturating_add(text.len() as u64);
    for policy in [Policy::Best, Policy::LINUX_6_1] {
        let mut around = PlainText { start: address, bytes: text.to_vec(), ..PlainText::default() };
        let _ = (isa.check_context)(&insn, policy, function.clone(), &mut around);
        match (isa.plan)(&insn, policy) {
            Err(refusal) => assert!(isa.rule_of(&refusal).is_some(), "{refusal}"),
            Ok(Plan::Emulate(what)) => computes(set, &insn, &what, text),
            Ok(_) if policy == Policy::Best => assert_eq!(insn.flow, Flow::Next, "it would leave its copy: {insn:x?}"),
            Ok(_) => {}
        }
        if let Ok(region) = region(isa, policy, function.clone(), address, &mut around) {
            let table = isa.detour.expect("a region is one of a detour");
            assert_eq!((region.start(), region.end()), (address, address.wrapping_add(insn.length())));
            if let Ok(code) = detour::lean(isa, table, &region, at) {
                let rest = code.bytes().strip_prefix(table.lead).expect("the lead comes first");
                let inside = at.wrapping_add(table.lead.len() as u64);
                comes_back(set, &insn, &(isa.copy)(&insn, inside, Tail::JumpBack).expect("in reach"), inside, Tail::JumpBack);
                assert_eq!(rest.len(), insn.bytes().len() + LENGTH);
            }
        }
    }
    for tail in [Tail::Breakpoint, Tail::JumpBack] {
        let Ok(copy) = (isa.copy)(&insn, at, tail) else { continue };
        comes_back(set, &insn, &copy, at, tail);
        let copied = (isa.decode)(at, copy.bytes()).expect("a copy is an instruction");
        // A branch whose target is out of reach is copied as an invalid instruction.
        let is_none = set.word(&copy.bytes()[..LENGTH]) == 0;
        assert!(is_none || copied.flow == insn.flow, "{insn:x?} at {at:#x} is {:02x?}", copy.bytes());
    }
});

/// After its instruction, a copy must have the trap or a jump back to the next original instruction.
fn comes_back(set: Set, insn: &Insn, copy: &Copy, at: u64, tail: Tail) {
    assert_eq!(copy.displaced, insn.bytes().len(), "the copy has another length: {insn:x?}");
    let behind = &copy.bytes()[copy.displaced..];
    match tail {
        Tail::Breakpoint => assert_eq!(set.word(behind), slot::TRAP),
        Tail::JumpBack => {
            let from = set.cut(at.wrapping_add(insn.length()));
            let back = (set.isa().decode)(from, behind).expect("the jump back is an instruction");
            assert_eq!(back.flow, Flow::Jump(set.cut(insn.next())), "the jump back leads elsewhere: {insn:x?} at {at:#x}");
        }
    }
}

/// An emulated branch must go to its target or continue, may change only what a branch may change, and must not touch
/// memory.
fn computes(set: Set, insn: &Insn, what: &Emulation, seed: &[u8]) {
    let mut regs = ToyRegisters::new(seed, insn.address);
    regs.values.iter_mut().for_each(|value| *value = set.cut(*value));
    let before = regs.clone();
    let mut mem = ToyMemory::new(seed);
    (set.isa().emulate)(what, insn, &mut regs, &mut mem).expect("none of these touches memory");
    assert!(mem.is_untouched());
    let pointer = |reg: trapline_isa::regs::Reg| before.values[usize::from(reg.0)] & !3;
    let next = set.cut(insn.next());
    let Emulation::Ppc(what) = what else { panic!("{what:?} is another ISA's") };
    let target = match what {
        Computation::Branch(..) => insn.flow.target().expect("it has a target"),
        Computation::BranchRegister(_, reg) => pointer(*reg),
        Computation::Address(..) => next,
    };
    assert!(regs.pc == target || regs.pc == next, "{insn:x?} went to {:#x}", regs.pc);
    let may_change = |number: usize| match what {
        Computation::Address(reg, _) => number == usize::from(reg.0),
        _ => [abi::LR, abi::CTR].iter().any(|reg| usize::from(reg.0) == number),
    };
    let changed = |number: &usize| regs.values[*number] != before.values[*number];
    assert!((0..64).filter(changed).all(may_change), "{insn:x?} changed more than it may");
}
