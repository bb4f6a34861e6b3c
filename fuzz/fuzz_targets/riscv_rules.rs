//! Fuzzes the RISC-V rules with arbitrary bytes, in both widths. Nothing may panic. A copy must decode to its original.
//! An emulated branch must go where the decoder says, and a jump may be written only if its detour means the same.
//! (`isa/tests/riscv_second_opinion.rs` compares the decoder with capstone.)
//!
//! Input: a byte that selects the width and the addresses, then the text. The first instruction is tested. The bytes of
//! the text also fill the registers.
#![no_main]

#[allow(dead_code, reason = "only other targets use the stack functions")]
mod toys;

use libfuzzer_sys::fuzz_target;
use toys::{ToyMemory, ToyRegisters};
use trapline_isa::arch::{Emulation, Isa};
use trapline_isa::detour;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::plan::{Copy, Plan, Policy, Tail};
use trapline_isa::region::{PlainText, region};
use trapline_isa::riscv::{Set, slot};

/// Addresses of the original and of the copy.
const PLACES: &[(Set, u64, u64)] = &[
    (Set::Rv64, 0xffff_ffff_8020_0ffe, 0xffff_ffff_8020_4ff0),
    (Set::Rv64, 0xffff_ffff_8020_0ffe, 0xffff_ffff_8010_1000),
    (Set::Rv64, 0xffff_ffff_8020_0ffe, 0xffff_ffff_4020_0040), // out of reach of the jump back
    (Set::Rv64, 0xffff_ffff_ffff_fff0, 0x0000_0000_0000_0020), // addresses wrap around after the original
    (Set::Rv32, 0x0000_0000_c001_0ffe, 0x0000_0000_bfff_0000),
    (Set::Rv32, 0x0000_0000_ffff_fff0, 0x0000_0000_0000_0020),
];

fuzz_target!(|data: &[u8]| {
    let [choice, text @ ..] = data else { return };
    let (set, address, at) = PLACES[usize::from(*choice) % PLACES.len()];
    let isa = set.isa();
    let Ok(insn) = (isa.decode)(address, text) else { return };
    assert!(text.starts_with(insn.bytes()) && matches!(insn.length(), 2 | 4), "not the bytes that were given: {insn:x?}");
    let function = address..address.saturating_add(text.len() as u64);
    for policy in [Policy::Best, Policy::LINUX_6_12, Policy::LINUX_7_2] {
        let mut around = PlainText { start: address, bytes: text.to_vec(), ..PlainText::default() };
        let stands = (isa.check_context)(&insn, policy, function.clone(), &mut around);
        assert!(stands.is_ok() || policy == Policy::Best, "Linux does not look around: {insn:x?}");
        match (isa.plan)(&insn, policy) {
            Err(refusal) => assert!(isa.rule_of(&refusal).is_some(), "{refusal}"),
            Ok(Plan::Emulate(what)) => computes(set, &insn, &what, text),
            Ok(_) if policy == Policy::Best => assert_eq!(insn.flow, Flow::Next, "it would leave its copy: {insn:x?}"),
            Ok(_) => {}
        }
        if let Ok(region) = region(isa, policy, function.clone(), address, &mut around) {
            let table = isa.detour.expect("a region is one of a detour");
            assert_eq!((policy, region.start()), (Policy::Best, address));
            assert!(matches!(region.end().wrapping_sub(address), 4 | 6), "{region:x?}");
            if let Ok(code) = detour::lean(isa, table, &region, at) {
                let rest = code.bytes().strip_prefix(table.lead).expect("the lead comes first");
                let rest = rest.strip_prefix(region.bytes()).expect("nothing is relocated");
                let place = at.wrapping_add((table.lead.len() + region.bytes().len()) as u64);
                let back = (isa.decode)(place, rest).expect("a jump");
                assert_eq!(back.flow, Flow::Jump(set.cut(region.end())));
            }
        }
    }
    for tail in [Tail::Breakpoint, Tail::JumpBack] {
        let Ok(copy) = (isa.copy)(&insn, at, tail) else { continue };
        comes_back(isa, set, &insn, &copy, at, tail);
    }
});

fn comes_back(isa: &Isa, set: Set, insn: &Insn, copy: &Copy, at: u64, tail: Tail) {
    let (copied, behind) = copy.bytes().split_at(copy.displaced);
    assert_eq!(copied, insn.bytes(), "another instruction: {insn:x?}");
    match tail {
        Tail::Breakpoint => assert_eq!(behind, slot::EBREAK),
        Tail::JumpBack => {
            let back = (isa.decode)(at.wrapping_add(insn.length()), behind).expect("the jump back is an instruction");
            assert_eq!(back.flow, Flow::Jump(set.cut(insn.next())), "the jump back leads elsewhere: {insn:x?} at {at:#x}");
        }
    }
}

/// An emulated instruction must go to its target or continue, may change at most one register, never x0, and must not
/// touch memory.
fn computes(set: Set, insn: &Insn, what: &Emulation, seed: &[u8]) {
    let mut regs = ToyRegisters::new(seed, insn.address);
    regs.values.iter_mut().for_each(|value| *value = set.cut(*value));
    let before = regs.clone();
    let mut mem = ToyMemory::new(seed);
    (set.isa().emulate)(what, insn, &mut regs, &mut mem).expect("none of these touches memory");
    assert!(mem.is_untouched());
    let next = set.cut(insn.next());
    let goes = match insn.flow {
        Flow::Jump(target) | Flow::Call(target) => regs.pc == target,
        Flow::Branch(target) => regs.pc == target || regs.pc == next,
        Flow::Next => regs.pc == next,
        _ => regs.pc == set.cut(regs.pc) & !1,
    };
    assert!(goes, "{insn:x?} went to {:#x}", regs.pc);
    let changed: Vec<usize> = (0..128).filter(|number| regs.values[*number] != before.values[*number]).collect();
    assert!(changed.len() <= 1 && !changed.contains(&0), "{insn:x?} changed {changed:?}");
}
