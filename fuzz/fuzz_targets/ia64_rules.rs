//! Fuzzes the IA-64 rules with arbitrary bundles. Nothing may panic. The instructions of a bundle follow each other without gaps. A
//! breakpoint changes no bit of the other slots and can be undone, in any order. A copy keeps the instruction in its slot, and
//! breakpoints stand behind it. (`isa/tests/ia64_objdump.rs` compares the disassembly with binutils.)
//!
//! Input: the bundle, a byte for the order of the breakpoints, then bytes that fill the registers.
#![no_main]

#[allow(dead_code, reason = "only other targets use the stack functions")]
mod toys;

use libfuzzer_sys::fuzz_target;
use toys::{ToyMemory, ToyRegisters};
use trapline_isa::arch::Emulation;
use trapline_isa::ia64::bundle::Bundle;
use trapline_isa::ia64::insn::{operation, place};
use trapline_isa::ia64::{IA64, disasm, slot};
use trapline_isa::insn::Insn;
use trapline_isa::plan::{Plan, Policy, Tail};

/// The address of the bundle, and that of the copy.
const AT: u64 = 0xe000_0000_0010_0000;
const COPY_AT: u64 = 0xe000_0000_0200_0040;

fuzz_target!(|data: &[u8]| {
    let (Some(bundle), Some(bytes)) = (Bundle::of(data), data.get(..16)) else { return };
    let choice = data.get(16).copied().unwrap_or(0);
    let insns: Vec<Insn> = (0..16).filter_map(|offset| (IA64.decode)(AT + offset, bytes).ok()).collect();
    assert_eq!(insns.is_empty(), bundle.template().is_none());
    let mut next = AT;
    for insn in &insns {
        assert_eq!(insn.address, next, "a gap: {insn:x?}");
        next = insn.next();
        let _ = disasm::of(insn);
        decides(insn, data.get(17..).unwrap_or_default());
    }
    assert!(insns.is_empty() || next == AT + 16);
    patches(bundle, &insns, choice);
});

fn decides(insn: &Insn, random: &[u8]) {
    for policy in [Policy::Best, Policy::LINUX_6_1] {
        match (IA64.plan)(insn, policy) {
            Err(refusal) => assert!(IA64.rule_of(&refusal).is_some(), "{refusal}"),
            Ok(Plan::Boost) => panic!("boosted: {insn:x?}"),
            Ok(plan) => {
                assert!(operation(insn).is_some(), "accepted: {insn:x?}");
                copies(insn);
                if matches!(plan, Plan::Emulate(_)) {
                    let mut regs = ToyRegisters::new(random, insn.address);
                    let done = (IA64.emulate)(&Emulation::AsWritten, insn, &mut regs, &mut ToyMemory::new(random));
                    assert!(done.is_ok(), "not computed: {insn:x?}");
                }
            }
        }
    }
}

fn copies(insn: &Insn) {
    assert!((IA64.copy)(insn, COPY_AT, Tail::JumpBack).is_err());
    let copy = (IA64.copy)(insn, COPY_AT + insn.address % 16, Tail::Breakpoint).expect("a copy");
    let (bundle, slot) = place(insn);
    let copied = Bundle::of(copy.bytes()).expect("a bundle");
    assert_eq!((copied.number(), copied.slot(slot)), (bundle.number(), bundle.slot(slot)));
    let end = COPY_AT + insn.address % 16 + copy.displaced as u64;
    let text = &copy.bytes()[((end - COPY_AT) & !15) as usize..];
    assert!(slot::is_breakpoint(end, text), "no breakpoint behind the copy: {insn:x?}");
}

/// Puts the breakpoints of a bundle's instructions in some order, and takes them out again.
fn patches(bundle: Bundle, insns: &[Insn], choice: u8) {
    let Some(in_group) = IA64.in_group else { panic!("no bundles") };
    let known = |insn: &&Insn| operation(insn).is_some();
    let mut order: Vec<&Insn> = insns.iter().filter(known).collect();
    let turn = usize::from(choice) % order.len().max(1);
    order.rotate_left(turn);
    let mut group = bundle.bytes();
    for (number, insn) in order.iter().enumerate() {
        group = in_group(group, insn, true);
        for (other, later) in order.iter().enumerate().skip(number + 1) {
            let (_, slot) = place(later);
            assert_eq!(Bundle::of(&group).map(|now| now.slot(slot)), Some(bundle.slot(slot)), "slot of {other}");
        }
        assert!(slot::is_breakpoint(insn.address, &group), "no breakpoint: {insn:x?}");
    }
    order.iter().for_each(|insn| group = in_group(group, insn, false));
    assert_eq!(group, bundle.bytes());
}
