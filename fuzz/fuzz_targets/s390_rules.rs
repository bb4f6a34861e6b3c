//! Fuzzes the z/Architecture rules with arbitrary bytes. Nothing may panic. A copy must decode to its original. An
//! emulated branch must go where the decoder says, and a jump may be written only if its detour means the same.
//! (`isa/tests/s390_second_opinion.rs` compares the decoder with capstone.)
//!
//! Input: a byte that selects the addresses, then the text. The first instruction is tested. The bytes of the text also
//! fill the registers.
#![no_main]

#[allow(dead_code, reason = "only other targets use the stack functions")]
mod toys;

use libfuzzer_sys::fuzz_target;
use toys::{ToyMemory, ToyRegisters};
use trapline_isa::arch::Emulation;
use trapline_isa::detour;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::plan::{Copy, Plan, Policy, Tail};
use trapline_isa::region::{PlainText, region};
use trapline_isa::s390::emulate::{Computation, Target};
use trapline_isa::s390::{S390X, slot};

/// Addresses of the original and of the copy.
const PLACES: &[(u64, u64)] = &[
    (0x0000_0000_0010_0ff0, 0x0000_0000_0010_4ff0),
    (0x0000_0000_0010_0ff0, 0x0000_0000_00a3_2000),
    (0x0000_0000_0010_0ff0, 0x0000_0000_4110_0ff0),
    (0x0000_03ff_8000_0ff0, 0x0000_03ff_0000_0040),
    (0x0000_03ff_8000_0ff0, 0x0000_0000_0010_0040), // out of reach of the jump back
    (0xffff_ffff_ffff_ffe0, 0x0000_0000_0000_0020), // addresses wrap around after the original
];

fuzz_target!(|data: &[u8]| {
    let [choice, text @ ..] = data else { return };
    let (address, at) = PLACES[usize::from(*choice) % PLACES.len()];
    let Ok(insn) = (S390X.decode)(address, text) else { return };
    assert!(text.starts_with(insn.bytes()) && matches!(insn.length(), 2 | 4 | 6), "not the bytes that were given: {insn:x?}");
    let function = address..address.saturating_add(text.len() as u64);
    for policy in [Policy::Best, Policy::LINUX_6_1] {
        let mut around = PlainText { start: address, bytes: text.to_vec(), ..PlainText::default() };
        let _ = (S390X.check_context)(&insn, policy, function.clone(), &mut around);
        match (S390X.plan)(&insn, policy) {
            Err(refusal) => assert!(S390X.rule_of(&refusal).is_some(), "{refusal}"),
            Ok(Plan::Emulate(what)) => computes(&insn, &what, text),
            Ok(_) if policy == Policy::Best => assert_eq!(insn.flow, Flow::Next, "it would leave its copy: {insn:x?}"),
            Ok(_) => {}
        }
        if let Ok(region) = region(&S390X, policy, function.clone(), address, &mut around) {
            let table = S390X.detour.expect("a region is one of a detour");
            assert_eq!(region.start(), address);
            assert!(matches!(region.end().wrapping_sub(address), 6 | 8 | 10), "{region:x?}");
            if let Ok(code) = detour::lean(&S390X, table, &region, at) {
                let rest = code.bytes().strip_prefix(table.lead).expect("the lead comes first");
                let mut place = at.wrapping_add(table.lead.len() as u64);
                for insn in region.insns() {
                    let (_, rest) = rest.split_at(place.wrapping_sub(at) as usize - table.lead.len());
                    let moved = (S390X.decode)(place, rest).expect("an instruction");
                    assert_eq!((moved.flow, moved.length()), (insn.flow, insn.length()), "{insn:x?}");
                    place = moved.next();
                }
                let back = (S390X.decode)(place, &code.bytes()[place.wrapping_sub(at) as usize..]).expect("a jump");
                assert_eq!(back.flow, Flow::Jump(region.end()));
            }
        }
    }
    for tail in [Tail::Breakpoint, Tail::JumpBack] {
        let Ok(copy) = (S390X.copy)(&insn, at, tail) else { continue };
        comes_back(&insn, &copy, at, tail);
        // An instruction whose operand is out of reach is copied as an invalid instruction.
        let Ok(copied) = (S390X.decode)(at, copy.bytes()) else {
            assert!(copy.bytes()[..copy.displaced].iter().all(|byte| *byte == 0) && tail == Tail::Breakpoint);
            continue;
        };
        assert_eq!(copied.flow, insn.flow, "{insn:x?} at {at:#x} is {:02x?}", copy.bytes());
    }
});

fn comes_back(insn: &Insn, copy: &Copy, at: u64, tail: Tail) {
    assert_eq!(copy.displaced, insn.bytes().len(), "the copy has another length: {insn:x?}");
    let behind = &copy.bytes()[copy.displaced..];
    match tail {
        Tail::Breakpoint => assert_eq!(behind, slot::PROBE),
        Tail::JumpBack => {
            let back = (S390X.decode)(at.wrapping_add(insn.length()), behind).expect("the jump back is an instruction");
            assert_eq!(back.flow, Flow::Jump(insn.next()), "the jump back leads elsewhere: {insn:x?} at {at:#x}");
        }
    }
}

/// An emulated branch must go to its target or continue, may change at most one register, and must not touch memory.
fn computes(insn: &Insn, what: &Emulation, seed: &[u8]) {
    let mut regs = ToyRegisters::new(seed, insn.address);
    let before = regs.clone();
    let mut mem = ToyMemory::new(seed);
    (S390X.emulate)(what, insn, &mut regs, &mut mem).expect("none of these touches memory");
    assert!(mem.is_untouched());
    let next = insn.next();
    if matches!(what, Emulation::S390(Computation::Branch(_, Target::Written) | Computation::Address(..))) {
        assert!(regs.pc == next || Some(regs.pc) == insn.flow.target(), "{insn:x?} went to {:#x}", regs.pc);
    }
    let changed = (0..128).filter(|number| regs.values[*number] != before.values[*number]).count();
    assert!(changed <= 1, "{insn:x?} changed more than it may");
}
