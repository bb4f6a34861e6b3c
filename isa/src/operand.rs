//! Operands as an assembler writes them, in the notes of USDT probes: `-4@%edi`, `8@[sp, 16]`, `8@-8(%rbp,%rax,4)`.
//!
//! The compiler puts each argument of a USDT probe into a register, into memory or into a constant, and the note has the
//! operand's text. The forms are common to all assemblers; [`Assembler`] has what differs.

use crate::abi::Abi;
use crate::arch::Isa;
use crate::mem::Memory;
use crate::regs::{Reg, Registers};
use alloc::vec::Vec;

/// The way in which the assembler of an ISA writes operands.
#[derive(Debug)]
pub struct Assembler {
    /// The character in front of a constant: `$` on x86, `#` on ARM, `i` in PowerPC's notes.
    pub constant: Option<char>,
    /// A number alone is a register, as on PowerPC. Otherwise it is a constant.
    pub numbers_are_registers: bool,
    /// The register that stands for the number 0 as a base, and the one that does as an index.
    pub zero: [Option<Reg>; 2],
    /// Registers whose names `pt_regs` does not have, or has for others. Given without `%` and `$`.
    pub register: fn(name: &str) -> Option<Part>,
}

impl Assembler {
    /// An assembler that knows only the names of `pt_regs`.
    pub const USUAL: Assembler = Assembler { constant: None, numbers_are_registers: false, zero: [None; 2], register: |_| None };
}

/// A register, or a part of one such as x86's `%ah`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The whole register.
    pub register: Reg,
    /// The number of bits below the part.
    pub shift: u8,
}

impl Part {
    /// The lowest bits of a register.
    pub const fn lowest(register: Reg) -> Part {
        Part { register, shift: 0 }
    }
}

/// The register `prefix` and a number below `count`, such as `x12`.
pub fn numbered(name: &str, prefix: &str, count: u8) -> Option<u8> {
    let digits = name.strip_prefix(prefix).filter(|digits| (1..=2).contains(&digits.len()))?;
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'));
    digits.parse().ok().filter(|number| is_plain && *number < count)
}

/// An argument of a USDT probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its size in bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// Whether it is a signed number.
    pub signed: bool,
    /// The register, memory word or number that holds the argument.
    pub operand: Operand,
}

/// The place of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A constant of the program.
    Constant(i64),
    /// A register or a part of it.
    Register(Part),
    /// Memory at the sum of a base, an index and a distance.
    Memory {
        /// The base register.
        base: Option<Reg>,
        /// The index register, and the number of bits by which it is shifted.
        index: Option<(Reg, Extension, u8)>,
        /// The distance in bytes.
        distance: i64,
    },
    /// Memory at an address that the file was linked for, found from the pc.
    Static(u64),
}

/// The way in which an index register becomes an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// The whole register.
    Whole,
    /// Its low 32 bits, as an unsigned number.
    Unsigned,
    /// Its low 32 bits, as a signed number.
    Signed,
}

/// The longest list of arguments, in bytes. Real ones have fewer than 1,000.
const LONGEST: usize = 16384;
/// The most arguments of a probe. The macros of `sys/sdt.h` have at most 12.
const MOST: usize = 64;

/// Parses the arguments of a USDT note, such as `-4@%edi 8@$5`. `word` is the size of an argument without a size.
/// `symbol` returns the link address of a symbol. An argument is `None` if it cannot be read, such as a vector
/// register.
pub fn arguments(isa: &Isa, text: &str, word: usize, symbol: &dyn Fn(&str) -> Option<u64>) -> Vec<Option<Argument>> {
    let Some(text) = text.get(..text.len().min(LONGEST)) else { return Vec::new() };
    let mut found: Vec<Option<Argument>> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && found.len() < MOST {
        // ARM's operands contain spaces, so an argument ends where the next size begins.
        let spaces = rest.match_indices(char::is_whitespace).map(|(at, _)| at);
        let mut ends = spaces.filter(|at| rest.get(*at..).is_some_and(|behind| is_start(behind.trim_start())));
        let (first, behind) = ends.next().and_then(|at| rest.split_at_checked(at)).unwrap_or((rest, ""));
        found.push(argument(isa, first.trim(), word, symbol));
        rest = behind.trim_start();
    }
    found
}

/// Whether an argument with its size begins here, such as `-4@`, or a new one in the old form without sizes.
fn is_start(text: &str) -> bool {
    let Some((size, _)) = text.split_once('@') else { return !text.contains([']', ',']) };
    let digits = size.strip_prefix('-').unwrap_or(size);
    (1..=2).contains(&digits.len()) && digits.starts_with(|first: char| first.is_ascii_digit())
}

fn argument(isa: &Isa, text: &str, word: usize, symbol: &dyn Fn(&str) -> Option<u64>) -> Option<Argument> {
    let (size, operand) = match text.split_once('@') {
        Some((size, operand)) => (size.parse::<i8>().ok()?, operand),
        None => (word as i8, text),
    };
    let signed = size < 0;
    let size = size.unsigned_abs();
    matches!(size, 1 | 2 | 4 | 8).then_some(())?;
    Some(Argument { size, signed, operand: self::operand(isa.abi, operand.trim(), symbol)? })
}

fn operand(abi: &Abi, text: &str, symbol: &dyn Fn(&str) -> Option<u64>) -> Option<Operand> {
    if let Some(inside) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return in_brackets(abi, inside);
    }
    if let Some((distance, inside)) = text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        return in_parentheses(abi, distance.trim(), inside, symbol);
    }
    if let Some(value) = abi.assembler.constant.and_then(|sign| text.strip_prefix(sign)).and_then(number) {
        return Some(Operand::Constant(value));
    }
    if let Some((base, index)) = text.split_once(',').filter(|_| abi.assembler.numbers_are_registers) {
        let [base, index] = [base, index].map(|name| register(abi, name.trim()));
        return memory(abi, base?, Some((index?.register, Extension::Whole, 0)), 0);
    }
    if let Some(part) = register(abi, text) {
        return Some(Operand::Register(part));
    }
    number(text).map(Operand::Constant).or_else(|| linked(text, symbol).map(Operand::Static))
}

/// The address for which the file was linked of a symbol with a distance: `numbers+8`.
fn linked(text: &str, symbol: &dyn Fn(&str) -> Option<u64>) -> Option<u64> {
    let (name, behind) = match text.find(['+', '-']).and_then(|at| text.split_at_checked(at)) {
        Some((name, behind)) => (name, number(behind.trim_start_matches('+'))?),
        None => (text, 0),
    };
    Some(symbol(name)?.wrapping_add_signed(behind))
}

/// `[sp, 16]`, `[x0, x1, lsl 3]`, `[r7, #-4]`
fn in_brackets(abi: &Abi, inside: &str) -> Option<Operand> {
    let mut parts = inside.split(',').map(str::trim);
    let base = register(abi, parts.next()?)?;
    let Some(second) = parts.next() else { return memory(abi, base, None, 0) };
    if let Some(distance) = number(second.trim_start_matches('#')) {
        return parts.next().is_none().then(|| memory(abi, base, None, distance))?;
    }
    let index = register(abi, second)?.register;
    let mut words = parts.next().unwrap_or("lsl 0").split_whitespace();
    let extension = match words.next()? {
        "lsl" => Extension::Whole,
        "uxtw" => Extension::Unsigned,
        "sxtw" => Extension::Signed,
        _ => return None,
    };
    let shift = number(words.next().unwrap_or("0").trim_start_matches('#')).filter(|shift| (0..=4).contains(shift))?;
    memory(abi, base, Some((index, extension, shift as u8)), 0)
}

/// `-8(%rbp,%rax,4)`, `160(%r2,%r15)`, `16($sp)`, `counter+4(%rip)`
fn in_parentheses(abi: &Abi, distance: &str, inside: &str, symbol: &dyn Fn(&str) -> Option<u64>) -> Option<Operand> {
    let mut parts = inside.split(',').map(str::trim);
    let first = parts.next()?;
    if first == "%rip" {
        return Some(Operand::Static(linked(distance, symbol)?));
    }
    let distance = match distance {
        "" => 0,
        // Only programs that are loaded where they were linked for have an address there.
        _ => number(distance).or_else(|| linked(distance, symbol).map(|address| address as i64))?,
    };
    let base = if first.is_empty() { None } else { Some(register(abi, first)?) };
    let index = match parts.next() {
        Some(name) => {
            let scale = number(parts.next().unwrap_or("1")).filter(|scale| matches!(scale, 1 | 2 | 4 | 8))?;
            Some((register(abi, name)?.register, Extension::Whole, scale.trailing_zeros() as u8))
        }
        None => None,
    };
    match base {
        Some(base) => memory(abi, base, index, distance),
        None => Some(Operand::Memory { base: None, index: Some(index?), distance }),
    }
}

fn memory(abi: &Abi, base: Part, index: Option<(Reg, Extension, u8)>, distance: i64) -> Option<Operand> {
    let [zero_base, zero_index] = abi.assembler.zero;
    let base = Some(base.register).filter(|register| zero_base != Some(*register));
    Some(Operand::Memory { base, index: index.filter(|(register, ..)| zero_index != Some(*register)), distance })
}

fn register(abi: &Abi, name: &str) -> Option<Part> {
    let assembler = &abi.assembler;
    let is_marked = name.starts_with(['%', '$']);
    let name = name.trim_start_matches(['%', '$']);
    if !is_marked && !assembler.numbers_are_registers && number(name).is_some() {
        return None;
    }
    (assembler.register)(name).or_else(|| abi.register(name).map(Part::lowest))
}

/// A decimal or hexadecimal number with or without a sign.
fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()? as i64,
        // A constant may be as large as an unsigned word.
        None if digits.starts_with(|first: char| first.is_ascii_digit()) => digits.parse::<u64>().ok()? as i64,
        None => return None,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

impl Argument {
    /// The value at a probe whose instruction was linked for the address `linked`. `word` is the size of the program's
    /// addresses in bytes. `None` if its memory cannot be read.
    pub fn value<C: Registers + Memory + ?Sized>(&self, cpu: &mut C, linked: u64, word: usize) -> Option<u64> {
        let size = usize::from(self.size);
        let addresses = u64::MAX >> (64 - 8 * word.clamp(1, 8));
        let raw = match self.operand {
            Operand::Constant(value) => value as u64,
            Operand::Register(part) => cpu.get(part.register) >> part.shift,
            Operand::Memory { base, index, distance } => {
                let index = index.map_or(0, |(register, extension, shift)| {
                    let value = cpu.get(register);
                    let value = match extension {
                        Extension::Whole => value,
                        Extension::Unsigned => u64::from(value as u32),
                        Extension::Signed => i64::from(value as i32) as u64,
                    };
                    value << shift
                });
                let base = base.map_or(0, |register| cpu.get(register));
                let address = base.wrapping_add(index).wrapping_add_signed(distance) & addresses;
                cpu.read_number(address, size).ok()?
            }
            Operand::Static(address) => {
                let address = cpu.pc().wrapping_sub(linked).wrapping_add(address) & addresses;
                cpu.read_number(address, size).ok()?
            }
        };
        let unused = 64 - 8 * u32::from(self.size);
        Some(if self.signed { ((raw << unused) as i64 >> unused) as u64 } else { raw << unused >> unused })
    }
}

#[cfg(test)]
mod tests {
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
}
