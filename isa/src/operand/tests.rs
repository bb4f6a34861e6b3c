//! The operands of every assembler, and their values.

use super::*;
use crate::arch::Arch;
use alloc::vec;

fn one(arch: Arch, text: &str) -> Option<Operand> {
    let symbol = |name: &str| (name == "counter").then_some(0x4000);
    let found = arguments(arch.isa(), &alloc::format!("8@{text}"), 8, &symbol);
    assert_eq!(found.len(), 1, "{text}");
    found[0].map(|argument| argument.operand)
}

fn at(base: Reg, distance: i64) -> Option<Operand> {
    Some(Operand::Memory { base: Some(base), index: None, distance })
}

fn indexed(base: Reg, index: Reg, shift: u8, distance: i64) -> Option<Operand> {
    Some(Operand::Memory { base: Some(base), index: Some((index, Extension::Whole, shift)), distance })
}

fn in_register(register: Reg) -> Option<Operand> {
    Some(Operand::Register(Part::lowest(register)))
}

/// BY-2: 32-bit programs of a 64-bit kernel name their own registers.
#[test]
fn operands_of_32_bit_programs_name_their_registers() {
    use crate::arm64::abi::{SP, x};
    let narrow = |text: &str| arguments(Arch::Arm64.isa(), text, 4, &|_| None)[0].map(|argument| argument.operand);
    assert_eq!(narrow("4@r7"), in_register(x(7)));
    assert_eq!(narrow("4@lr"), in_register(x(14)));
    assert_eq!(narrow("-4@[fp, #-16]"), at(x(11), -16));
    assert_eq!(narrow("-2@[sp, #8]"), at(SP, 8));
    assert_eq!(narrow("4@#-7"), Some(Operand::Constant(-7)));
    assert_eq!((narrow("4@w0"), narrow("4@r15")), (None, None));
    assert_eq!(one(Arch::Arm64, "r7"), None, "a 64-bit program has no such register");
}

/// BY-2: each form in which the assembler of an ISA writes the operands of a USDT probe.
#[test]
fn operands_of_every_assembler_are_read() {
    use crate::{arm, arm64, mips, ppc, riscv, s390, x86};
    let constant = |value| Some(Operand::Constant(value));
    let ah = Some(Operand::Register(Part { register: x86::abi::AX, shift: 8 }));
    let by_sxtw =
        Operand::Memory { base: Some(arm64::abi::x(0)), index: Some((arm64::abi::x(1), Extension::Signed, 2)), distance: 0 };
    #[rustfmt::skip]
    let cases: &[(Arch, &str, Option<Operand>)] = &[
        (Arch::X86_64, "%rdi", in_register(x86::abi::DI)),
        (Arch::X86_64, "%edi", in_register(x86::abi::DI)),
        (Arch::X86_64, "%r13d", in_register(x86::abi::R13)),
        (Arch::X86_64, "%r9b", in_register(x86::abi::R9)),
        (Arch::X86_64, "%sil", in_register(x86::abi::SI)),
        (Arch::X86_64, "%ah", ah),
        (Arch::X86_64, "$-5", constant(-5)),
        (Arch::X86_64, "$0x10", constant(16)),
        (Arch::X86_64, "-8(%rbp)", at(x86::abi::BP, -8)),
        (Arch::X86_64, "(%rsp)", at(x86::abi::SP, 0)),
        (Arch::X86_64, "8(%rbp,%rax,4)", indexed(x86::abi::BP, x86::abi::AX, 2, 8)),
        (Arch::X86_64, "16(,%rax,8)", Some(Operand::Memory { base: None, index: Some((x86::abi::AX, Extension::Whole, 3)), distance: 16 })),
        (Arch::X86_64, "counter+4(%rip)", Some(Operand::Static(0x4004))),
        (Arch::X86_64, "counter(,%rdx,4)", Some(Operand::Memory { base: None, index: Some((x86::abi::DX, Extension::Whole, 2)), distance: 0x4000 })),
        (Arch::X86_64, "unknown(%rip)", None),
        (Arch::X86_64, "%xmm0", None),
        (Arch::X86_64, "%rax,%rbx", None),
        (Arch::I386, "%eax", in_register(x86::abi::AX)),
        (Arch::I386, "$7", constant(7)),
        (Arch::I386, "counter+8", Some(Operand::Static(0x4008))),
        (Arch::I386, "20(%esp)", at(x86::abi::SP, 20)),
        (Arch::Arm64, "x19", in_register(arm64::abi::x(19))),
        (Arch::Arm64, "w3", in_register(arm64::abi::x(3))),
        (Arch::Arm64, "-7", constant(-7)),
        (Arch::Arm64, "[sp]", at(arm64::abi::SP, 0)),
        (Arch::Arm64, "[sp, 16]", at(arm64::abi::SP, 16)),
        (Arch::Arm64, "[x29, -8]", at(arm64::abi::x(29), -8)),
        (Arch::Arm64, "[x0, x1, lsl 3]", indexed(arm64::abi::x(0), arm64::abi::x(1), 3, 0)),
        (Arch::Arm64, "[x0, w1, sxtw 2]", Some(by_sxtw)),
        (Arch::Arm64, "v0", None),
        (Arch::Arm, "r5", in_register(arm::abi::r(5))),
        (Arch::Arm, "fp", in_register(arm::abi::r(11))),
        (Arch::Arm, "r11", in_register(arm::abi::r(11))),
        (Arch::Arm, "#12", constant(12)),
        (Arch::Arm, "[r7, #-4]", at(arm::abi::r(7), -4)),
        (Arch::Arm, "[sp, #8]", at(arm::abi::SP, 8)),
        (Arch::Ppc64le, "30", in_register(ppc::abi::r(30))),
        (Arch::Ppc64le, "%r30", in_register(ppc::abi::r(30))),
        (Arch::Ppc64le, "i-3", constant(-3)),
        (Arch::Ppc64le, "112(1)", at(ppc::abi::SP, 112)),
        (Arch::Ppc64le, "0(%r9)", at(ppc::abi::r(9), 0)),
        (Arch::Ppc64le, "4,5", indexed(ppc::abi::r(4), ppc::abi::r(5), 0, 0)),
        (Arch::Ppc64le, "0,5", Some(Operand::Memory { base: None, index: Some((ppc::abi::r(5), Extension::Whole, 0)), distance: 0 })),
        (Arch::S390x, "%r2", in_register(s390::abi::r(2))),
        (Arch::S390x, "-9", constant(-9)),
        (Arch::S390x, "160(%r15)", at(s390::abi::SP, 160)),
        (Arch::S390x, "8(%r2,%r15)", indexed(s390::abi::r(2), s390::abi::SP, 0, 8)),
        (Arch::S390x, "8(%r0,%r15)", Some(Operand::Memory { base: None, index: Some((s390::abi::SP, Extension::Whole, 0)), distance: 8 })),
        (Arch::S390x, "8(%r2,%r0)", at(s390::abi::r(2), 8)),
        (Arch::Ppc64le, "4,0", indexed(ppc::abi::r(4), ppc::abi::r(0), 0, 0)),
        (Arch::Sparc64, "%i1", in_register(Reg(25))),
        (Arch::Sparc64, "[%fp+2039]", None),
        (Arch::Mips, "$4", in_register(mips::abi::r(4))),
        (Arch::Mipsel, "$sp", in_register(mips::abi::SP)),
        (Arch::Mips64el, "16($sp)", at(mips::abi::SP, 16)),
        (Arch::Mips64el, "24($fp)", at(mips::abi::r(30), 24)),
        (Arch::Mips64el, "5", constant(5)),
        (Arch::Riscv64, "a0", in_register(riscv::abi::A0)),
        (Arch::Riscv64, "s11", in_register(riscv::abi::x(27))),
        (Arch::Riscv64, "x10", in_register(riscv::abi::A0)),
        (Arch::Riscv64, "-24(s0)", at(riscv::abi::FP, -24)),
        (Arch::Riscv64, "0(fp)", at(riscv::abi::FP, 0)),
        (Arch::Riscv64, "zero", in_register(riscv::abi::x(0))),
        (Arch::Riscv64, "3", constant(3)),
    ];
    for (arch, text, expected) in cases {
        assert_eq!(one(*arch, text), *expected, "{} {text}", arch.name());
    }
}

/// BY-2: spaces are in ARM's operands and between arguments, and sizes say how a value is cut.
#[test]
fn lists_of_arguments_are_taken_apart() {
    let list = |arch: Arch, text: &str| {
        let found = arguments(arch.isa(), text, arch.isa().word, &|_| None);
        found.iter().map(|found| found.map(|found| (found.size, found.signed))).collect::<Vec<_>>()
    };
    assert_eq!(list(Arch::Arm64, "-4@[sp, 60] 8@x0 1@5"), [Some((4, true)), Some((8, false)), Some((1, false))]);
    assert_eq!(list(Arch::X86_64, "8@%rdi  8f@%xmm0 -2@$3 "), [Some((8, false)), None, Some((2, true))]);
    assert_eq!(list(Arch::X86_64, "%rdi $5"), [Some((8, false)), Some((8, false))], "the old form has no sizes");
    assert_eq!(list(Arch::I386, ""), []);
    assert_eq!(list(Arch::I386, "3@%eax"), [None]);
    assert_eq!(list(Arch::X86_64, &"8@%rax ".repeat(5000)).len(), MOST);
    for damaged in
        ["@", "-@", "8@", "8@[", "8@]", "8@(", "8@)", "8@()", "8@(,)", "8@[,]", "8@$", "é@é é", "8@-", "8@+(%rip)", "99@1"]
    {
        for arch in Arch::ALL {
            let _ = arguments(arch.isa(), damaged, 8, &|_| None);
        }
    }
}

struct Machine {
    registers: [u64; 64],
    memory: Vec<u8>,
}

impl Registers for Machine {
    fn get(&self, register: Reg) -> u64 {
        self.registers[usize::from(register.0)]
    }
    fn set(&mut self, _: Reg, _: u64) {}
    fn pc(&self) -> u64 {
        0x7010
    }
    fn set_pc(&mut self, _: u64) {}
}

impl Memory for Machine {
    fn order(&self) -> crate::mem::ByteOrder {
        crate::mem::ByteOrder::Little
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), crate::mem::Fault> {
        let found = self.memory.get(address as usize..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(found.ok_or(crate::mem::Fault { address, write: false })?);
        Ok(())
    }
    fn write(&mut self, address: u64, _: &[u8]) -> Result<(), crate::mem::Fault> {
        Err(crate::mem::Fault { address, write: true })
    }
}

/// BY-2: values are cut to their size, and those of signed ones are extended.
#[test]
fn values_are_read_and_cut() {
    let mut machine = Machine { registers: [0; 64], memory: (0..=255).collect() };
    machine.registers[0] = 0xffff_ffff_1234_80fe;
    machine.registers[5] = 0x1_0000_0010;
    let mut value = |text: &str, word: usize| {
        let found = arguments(Arch::X86_64.isa(), text, 8, &|_| Some(0x20));
        found[0].and_then(|found| found.value(&mut machine, 0x7000, word))
    };
    let cases: Vec<(&str, usize, Option<u64>)> = vec![
        ("8@%rax", 8, Some(0xffff_ffff_1234_80fe)),
        ("4@%eax", 8, Some(0x1234_80fe)),
        ("-2@%ax", 8, Some(0xffff_ffff_ffff_80fe)),
        ("1@%ah", 8, Some(0x80)),
        ("-1@%ah", 8, Some(0xffff_ffff_ffff_ff80)),
        ("-4@$-1", 8, Some(u64::MAX)),
        ("2@4(%rbp)", 8, None),
        ("2@4(%rbp)", 4, Some(0x1514)),
        ("1@counter(%rip)", 8, Some(0x30)),
    ];
    for (text, word, expected) in cases {
        assert_eq!(value(text, word), expected, "{text} {word}");
    }
}
