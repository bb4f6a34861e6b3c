//! Fuzzes the A32, Thumb and A64 rules with arbitrary words. Nothing may panic, and every refusal must come from a
//! named rule. A copy must be its original, or an invalid instruction if only its fault is needed. An emulated
//! instruction must go where the decoder says.
//!
//! Input: a byte that selects the ISA (modulo 3) and the addresses (the quotient), then the instruction, then the
//! register contents.
#![no_main]

mod toys;

use libfuzzer_sys::fuzz_target;
use toys::{ToyMemory, ToyRegisters};
use trapline_isa::arch::{Arch, Emulation, Isa};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::plan::{Copy, Plan, Policy, Tail};
use trapline_isa::{arm, arm64};

/// Addresses of the original and of the copy.
const PLACES_32: &[(u64, u64)] = &[
    (0xc030_1230, 0xbf60_0040),
    (0xc030_1232, 0xbf60_0020), // not a multiple of 4, as Thumb allows
    (0x0000_1000, 0x01ff_0000),
    (0xc030_1230, 0x1000_0000), // out of reach
    (0xffff_fff8, 0xff00_0000), // addresses wrap around after the original
];
const PLACES_64: &[(u64, u64)] = &[
    (0xffff_8000_0801_0ff0, 0xffff_8000_0700_0040),
    (0x0000_0000_0000_1000, 0x0000_0000_0100_0000),
    (0xffff_8000_0801_0ff0, 0xffff_0000_0000_0000), // out of reach
    (0xffff_ffff_ffff_fff8, 0xffff_ffff_ff00_0000), // addresses wrap around after the original
];

fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    let (arch, places) = match choice % 3 {
        0 => (Arch::Arm, PLACES_32),
        1 => (Arch::Thumb2, PLACES_32),
        _ => (Arch::Arm64, PLACES_64),
    };
    let (isa, (address, at)) = (arch.isa(), places[usize::from(choice / 3) % places.len()]);
    let address = address & !(isa.alignment - 1);
    let Ok(insn) = (isa.decode)(address, rest) else { return };
    assert!(insn.length() >= 2 && rest.starts_with(insn.bytes()), "not the bytes that were given: {insn:x?}");
    let over = (isa.breakpoint_over)(&insn);
    assert!(over.len() as u64 <= insn.length() && (isa.is_breakpoint)(0, &over), "its breakpoint: {insn:x?} {over:x?}");

    for policy in [Policy::Best, Policy::LINUX_6_1] {
        let plan = match (isa.plan)(&insn, policy) {
            Ok(plan) => plan,
            Err(refusal) => {
                assert!(isa.rule_of(&refusal).is_some(), "refused by no rule: {insn:x?} {refusal}");
                continue;
            }
        };
        for tail in [Tail::Breakpoint, Tail::JumpBack] {
            match (isa.copy)(&insn, at, tail) {
                // The Linux policy may emulate other instructions.
                Ok(copy) if policy == Policy::Best => comes_back(isa, &insn, plan, &copy, at, tail),
                Ok(_) => {}
                Err(refusal) => assert!(isa.rule_of(&refusal).is_some(), "no copy by no rule: {insn:x?} {refusal}"),
            }
        }
        if let Plan::Emulate(what) = plan {
            computes(isa, &insn, &what, policy, &rest[insn.bytes().len()..]);
        }
    }
    jumps_there(isa, &insn, at);
});

fn comes_back(isa: &Isa, insn: &Insn, plan: Plan, copy: &Copy, at: u64, tail: Tail) {
    assert_eq!(copy.displaced as u64, insn.length(), "the copy has another length: {insn:x?}");
    let (copied, behind) = copy.bytes().split_at(copy.displaced);
    let is_trap = (isa.is_breakpoint)(0, copied) || copied.iter().all(|byte| *byte == 0) && isa.arch == Arch::Arm64;
    // In A64, branches and literal loads of the copy are adjusted to reach the same target.
    let is_relocated = || isa.arch == Arch::Arm64 && (isa.decode)(at, copied).is_ok_and(|copied| copied.flow == insn.flow);
    // The copy of an emulated instruction runs only to raise a fault.
    let is_computed = matches!(plan, Plan::Emulate(_));
    assert!(copied == insn.bytes() || is_computed && (is_trap || is_relocated()), "another instruction: {insn:x?} {copied:x?}");
    match tail {
        Tail::Breakpoint => assert!((isa.is_breakpoint)(0, behind), "{behind:x?} is no breakpoint: {insn:x?}"),
        Tail::JumpBack => {
            let back = (isa.decode)(at.wrapping_add(copy.displaced as u64), behind).expect("the jump back is an instruction");
            assert_eq!(back.flow, Flow::Jump(cut(isa, insn.next())), "the jump back leads elsewhere: {insn:x?} at {at:#x}");
        }
    }
}

/// The jump of an optimised probe must lead to the detour.
fn jumps_there(isa: &Isa, insn: &Insn, at: u64) {
    let Some(table) = isa.detour else { return };
    let Some(jump) = (table.jump)(insn, at) else { return };
    let jump = (isa.decode)(insn.address, &jump[..table.jump_length as usize]).expect("the jump is an instruction");
    assert_eq!(jump.flow.target(), Some(at), "the jump leads elsewhere: {insn:x?}");
}

/// An emulated instruction must go where the decoder says, and a fault must change nothing.
fn computes(isa: &Isa, insn: &Insn, what: &Emulation, policy: Policy, seed: &[u8]) {
    let mut regs = ToyRegisters::new(seed, insn.address);
    if isa.word == 4 {
        regs.values.iter_mut().for_each(|value| *value &= 0xffff_ffff);
    }
    let mut mem = ToyMemory::new(seed);
    let before = regs.clone();
    let answer = (isa.emulate)(what, insn, &mut regs, &mut mem);
    if answer.is_err() {
        assert_eq!(regs, before, "a fault changed registers: {insn:x?}");
        assert!(mem.is_untouched(), "a fault changed memory: {insn:x?}");
        return;
    }
    if policy.is_linux() {
        return; // Linux's defects are reproduced, so nothing to check
    }
    let (next, pc) = (cut(isa, insn.next()), regs.pc);
    let (link, thumb) = match isa.arch {
        Arch::Arm64 => (arm64::abi::LR, 0),
        _ => (arm::abi::LR, isa.pointer_bits),
    };
    let linked = regs.values[usize::from(link.0)] == next | thumb;
    let may_be_skipped = isa.arch == Arch::Arm && insn.bytes()[3] >> 4 < 14;
    match insn.flow {
        _ if may_be_skipped && pc == next => {}
        Flow::Next => assert_eq!(pc, next, "{insn:x?}"),
        Flow::Jump(target) => assert_eq!(pc, target, "{insn:x?}"),
        Flow::Branch(target) => assert!(pc == target || pc == next, "{insn:x?} went to {pc:#x}"),
        Flow::Call(target) => assert!(pc == target && linked, "{insn:x?} went to {pc:#x}"),
        Flow::IndirectCall => assert!(linked, "{insn:x?}"),
        Flow::Return | Flow::IndirectJump | Flow::IndirectBranch | Flow::Trap => {}
    }
}

/// Truncates an address to the ISA's width.
fn cut(isa: &Isa, address: u64) -> u64 {
    if isa.word == 8 { address } else { address & 0xffff_ffff }
}
