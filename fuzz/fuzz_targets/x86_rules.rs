//! Fuzzes the x86 rules with arbitrary bytes. Nothing may panic, and capstone must see the same length. A copy must be
//! the same instruction as its original at any address, and an emulated instruction must go where the decoder says.
//!
//! Input: a byte that selects the ISA (bit 0) and the addresses (the rest), then the instruction, then the register
//! contents.
#![no_main]

mod toys;

use capstone::Capstone;
use capstone::arch::BuildsCapstone;
use capstone::arch::x86::ArchMode;
use iced_x86::{Decoder, DecoderError, DecoderOptions, Instruction, Mnemonic, OpKind};
use libfuzzer_sys::fuzz_target;
use toys::{ToyMemory, ToyRegisters};
use trapline_isa::arch::{Arch, Emulation, Isa};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::plan::{Copy, Plan, Policy, Tail};
use trapline_isa::x86::abi;

/// Addresses of the original and of the copy.
const PLACES_64: &[(u64, u64)] = &[
    (0xffff_ffff_8100_1234, 0xffff_ffff_be00_0040),
    (0xffff_ffff_c012_3457, 0xffff_ffff_be00_0020),
    (0x0000_0000_0000_1000, 0x0000_0000_7fff_f000),
    (0x0000_7fff_ffff_f000, 0x0000_7fff_0000_0000),
    (0xffff_ffff_8100_1234, 0xffff_8880_0000_0000), // out of reach of relative operands
    (0xffff_ffff_ffff_fff0, 0xffff_ffff_c000_0000), // addresses wrap around after the original
];
const PLACES_32: &[(u64, u64)] = &[
    (0xc100_1234, 0xf000_0040),
    (0xc100_1234, 0x0000_1000),
    (0x0000_1000, 0xf000_0020),
    (0xffff_fff0, 0xf000_0000), // addresses wrap around after the original
];

/// Instructions whose length capstone gets wrong.
const CAPSTONE_ERRS: &[(Mnemonic, &str)] = &[
    (Mnemonic::Ud0, "it has a ModRM byte, says Intel's manual"),
    (Mnemonic::Ud1, "it has a ModRM byte, say both manuals"),
    (Mnemonic::Jo, "with a 66 prefix in 64-bit mode its distance has four bytes on Intel's CPUs, two on AMD's"),
    (Mnemonic::Jno, "the same as jo"),
];

fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    let (arch, places) = if choice & 1 == 0 { (Arch::X86_64, PLACES_64) } else { (Arch::I386, PLACES_32) };
    let (address, at) = places[usize::from(choice >> 1) % places.len()];
    let isa = arch.isa();
    let Ok(insn) = (isa.decode)(address, rest) else { return };
    assert!(insn.length() >= 1 && rest.starts_with(insn.bytes()), "not the bytes that were given: {insn:x?}");

    // The decoder also accepts bytes that no CPU executes as one instruction, because Linux's decoder does.
    let known = iced(isa, address, insn.bytes()).filter(|known| known.len() == insn.bytes().len());
    match known {
        Some(known) if CAPSTONE_ERRS.iter().any(|(mnemonic, _)| *mnemonic == known.mnemonic()) => {}
        Some(_) => agrees_with_capstone(isa, &insn),
        None => assert!((isa.plan)(&insn, Policy::Best).is_err(), "accepted, though no CPU executes it: {insn:x?}"),
    }
    for policy in [Policy::Best, Policy::LINUX_6_1] {
        let Ok(plan) = (isa.plan)(&insn, policy) else { continue };
        for tail in [Tail::Breakpoint, Tail::JumpBack] {
            let Ok(copy) = (isa.copy)(&insn, at, tail) else { continue };
            comes_back(isa, &insn, &copy, at, tail);
            // Instructions that only the Linux policy accepts may be copied wrongly.
            if let (Policy::Best, Some(known)) = (policy, &known) {
                is_the_same_instruction(isa, &insn, known, &copy, at);
            }
        }
        if let Plan::Emulate(what) = plan {
            computes(isa, &insn, &what, policy, &rest[insn.bytes().len()..]);
        }
    }
});

fn iced(isa: &Isa, address: u64, bytes: &[u8]) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(isa.word as u32 * 8, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (decoder.last_error() == DecoderError::None).then_some(instruction)
}

/// Compares lengths, unless capstone does not know the instruction.
fn agrees_with_capstone(isa: &Isa, insn: &Insn) {
    thread_local! {
        static READERS: [Capstone; 2] = [ArchMode::Mode32, ArchMode::Mode64].map(|mode| Capstone::new().x86().mode(mode).build().expect("capstone"));
    }
    READERS.with(|[of_32, of_64]| {
        let reader = if isa.word == 8 { of_64 } else { of_32 };
        let Ok(read) = reader.disasm_count(insn.bytes(), insn.address, 1) else { return };
        let Some(second) = read.iter().next() else { return };
        assert_eq!(second.bytes(), insn.bytes(), "capstone reads {second} out of {:02x?}", insn.bytes());
    });
}

/// After its instruction, a copy must have the breakpoint or a jump back to the next original instruction.
fn comes_back(isa: &Isa, insn: &Insn, copy: &Copy, at: u64, tail: Tail) {
    assert_eq!(copy.displaced as u64, insn.length(), "the copy has another length: {insn:x?}");
    let behind = &copy.bytes()[copy.displaced..];
    match tail {
        Tail::Breakpoint => assert_eq!(behind, isa.breakpoint),
        Tail::JumpBack => {
            let back = (isa.decode)(at.wrapping_add(copy.displaced as u64), behind).expect("the jump back is an instruction");
            assert_eq!(back.flow, Flow::Jump(cut(isa, insn.next())), "the jump back leads elsewhere: {insn:x?} at {at:#x}");
        }
    }
}

/// Decodes the copy and compares it with the original by iced.
fn is_the_same_instruction(isa: &Isa, insn: &Insn, original: &Instruction, copy: &Copy, at: u64) {
    let copied = iced(isa, at, &copy.bytes()[..copy.displaced]).expect("a copy of an instruction is one");
    // A branch is never run as a copy. Its short form is changed to jump to the tail.
    let tail = cut(isa, at.wrapping_add(copy.displaced as u64));
    let is_branch = matches!(original.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    if is_branch && copied.near_branch_target() == tail {
        assert_eq!(copied.code(), original.code());
        return;
    }
    // iced compares opcode, operands, prefixes, and absolute targets.
    assert_eq!(&copied, original, "the copy of {:02x?} at {at:#x} is {:02x?}", insn.bytes(), copy.bytes());
}

/// An emulated instruction must go where the decoder says, and a fault must change nothing.
fn computes(isa: &Isa, insn: &Insn, what: &Emulation, policy: Policy, seed: &[u8]) {
    let mut regs = ToyRegisters::new(seed, insn.address);
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
    let pushed = |regs: &ToyRegisters| mem.word(cut(isa, regs.values[usize::from(abi::SP.0)]), isa.word);
    match insn.flow {
        Flow::Next => assert_eq!(pc, next, "{insn:x?}"),
        Flow::Jump(target) => assert_eq!(pc, target, "{insn:x?}"),
        Flow::Branch(target) => assert!(pc == target || pc == next, "{insn:x?} went to {pc:#x}"),
        Flow::Call(target) => assert_eq!((pc, pushed(&regs)), (target, next), "{insn:x?}"),
        Flow::IndirectCall => assert_eq!(pushed(&regs), next, "{insn:x?}"),
        Flow::Return => {
            assert_eq!(pc, cut(isa, mem.word(cut(isa, before.values[usize::from(abi::SP.0)]), isa.word)), "{insn:x?}")
        }
        Flow::IndirectJump | Flow::IndirectBranch | Flow::Trap => {}
    }
}

/// Truncates an address to the ISA's width.
fn cut(isa: &Isa, address: u64) -> u64 {
    if isa.word == 8 { address } else { address & 0xffff_ffff }
}
