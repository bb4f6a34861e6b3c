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

/// Parses the arguments of a USDT note, such as `-4@%edi 8@$5`. `word` is the size of the program's addresses, and of an
/// argument without a size.
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
    let abi = isa.abi.narrow.filter(|_| word < isa.word).unwrap_or(isa.abi);
    Some(Argument { size, signed, operand: self::operand(abi, operand.trim(), symbol)? })
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
mod tests;
