//! Finds the arguments, the result and the return address of a call, by an ISA's calling convention. Shared by all
//! ISAs.
//!
//! Each word of a value is in a register or on the stack. On a 32-bit ISA a 64-bit value takes two words. The place of
//! an argument depends on the types of the arguments before it, so callers pass those types.

use crate::abi::ReturnAddress;
use crate::arch::Isa;
use crate::mem::{ByteOrder, Fault, Memory};
use crate::regs::{Reg, Registers};

/// The C type of an argument or result, as far as a calling convention depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Type {
    /// A pointer, `unsigned long`, `size_t`.
    #[default]
    Word,
    /// `long`, `ssize_t`.
    SignedWord,
    /// An unsigned integer, with its size in bytes, at most 8.
    Unsigned(u8),
    /// A signed integer, with its size in bytes, at most 8.
    Signed(u8),
}

impl Type {
    /// Its size in bytes, for a machine word of `word` bytes.
    pub fn bytes(self, word: usize) -> usize {
        match self {
            Type::Word | Type::SignedWord => word,
            Type::Unsigned(bytes) | Type::Signed(bytes) => usize::from(bytes.clamp(1, 8)),
        }
    }

    fn words(self, word: usize) -> usize {
        if self.bytes(word) > word { 2 } else { 1 }
    }

    /// Truncates the content of its word or words to this type, and extends the sign to 64 bits if the type is signed.
    pub fn cut(self, value: u64, word: usize) -> u64 {
        let unused = 64 - 8 * self.bytes(word) as u32;
        match self {
            Type::Word | Type::Unsigned(_) => value << unused >> unused,
            Type::SignedWord | Type::Signed(_) => ((value << unused) as i64 >> unused) as u64,
        }
    }
}

/// The place of one word of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a register.
    Register(Reg),
    /// On the stack: the offset from the stack pointer at the function's entry.
    Stack(i64),
}

/// The place of one value of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The place of the value, or of its low half.
    pub low: Home,
    /// The place of the high half of a value of two words.
    pub high: Option<Home>,
    kind: Type,
}

impl Value {
    fn of(isa: &Isa, kind: Type, first: Home, second: Option<Home>) -> Value {
        match (second, isa.order) {
            (None, _) => Value { low: first, high: None, kind },
            (second, ByteOrder::Little) => Value { low: first, high: second, kind },
            (Some(second), ByteOrder::Big) => Value { low: second, high: Some(first), kind },
        }
    }

    /// Assembles the value; `word` reads one word from its place.
    pub fn read(self, isa: &Isa, mut word: impl FnMut(Home) -> u64) -> u64 {
        let low = word(self.low);
        let high = self.high.map_or(0, &mut word);
        // Only 32-bit ISAs have values of two words: C has no 128-bit integer here.
        let whole =
            if self.high.is_some() && isa.word < 8 { high << (8 * isa.word) | Type::Word.cut(low, isa.word) } else { low };
        self.kind.cut(whole, isa.word)
    }
}

/// The place of argument `number`, counted from 0, at a function's entry. Arguments without a type in `types` are
/// words.
pub fn argument(isa: &Isa, types: &[Type], number: usize) -> Value {
    let registers = isa.abi.arguments.len();
    let of = |number: usize| types.get(number).copied().unwrap_or_default();
    let mut at = 0;
    for number in 0..number {
        at = begin(isa, at, of(number)) + of(number).words(isa.word);
    }
    let (kind, at) = (of(number), begin(isa, at, of(number)));
    let place = |at: usize| match isa.abi.arguments.get(at) {
        Some(register) => Home::Register(*register),
        None => {
            let distance = ((at - registers) * isa.word) as i64;
            let distance = if isa.abi.stack_grows_up { -distance } else { distance };
            Home::Stack(isa.abi.stack_arguments.saturating_add(distance))
        }
    };
    let (first, second) = (place(at), (kind.words(isa.word) == 2).then(|| place(at + 1)));
    match second {
        Some(second) if isa.abi.stack_grows_up => Value { low: first, high: Some(second), kind },
        second => Value::of(isa, kind, first, second),
    }
}

/// The word number at which an argument of this type starts, when `at` is the first free one. Skipped words stay
/// unused.
fn begin(isa: &Isa, at: usize, kind: Type) -> usize {
    if kind.words(isa.word) == 1 {
        return at;
    }
    let at = if isa.abi.aligned_pairs { at.next_multiple_of(2) } else { at };
    let registers = isa.abi.arguments.len();
    if isa.abi.splits_pairs {
        return if at < registers { at } else { registers + (at - registers).next_multiple_of(2) };
    }
    // Elsewhere an argument of two words is never split between registers and stack.
    if at < registers && at + 2 > registers { registers } else { at }
}

/// The place of a result, when its function has returned.
pub fn result(isa: &Isa, kind: Type) -> Value {
    let second = isa.abi.second_result.filter(|_| kind.words(isa.word) == 2);
    Value::of(isa, kind, Home::Register(isa.abi.result), second.map(Home::Register))
}

/// The return address of a function, at its entry.
pub fn return_address<C: Registers + Memory + ?Sized>(cpu: &mut C, isa: &Isa) -> Result<u64, Fault> {
    match isa.abi.return_address {
        ReturnAddress::OnStack => cpu.read_number(cpu.get(isa.abi.sp), isa.word),
        ReturnAddress::In(reg) => Ok(cpu.get(reg)),
    }
}

/// Replaces the return address of a function whose stack pointer at entry is `sp`. Returns the old one.
#[inline]
pub fn exchange_return_address<C: Registers + Memory + ?Sized>(cpu: &mut C, isa: &Isa, sp: u64, to: u64) -> Result<u64, Fault> {
    match isa.abi.return_address {
        ReturnAddress::OnStack => cpu.exchange_number(sp, to, isa.word),
        ReturnAddress::In(reg) => {
            let before = cpu.get(reg);
            cpu.set(reg, to);
            Ok(before)
        }
    }
}

/// Writes an address where a function that has just returned had its return address: the stack word at `key`, or the
/// link register.
#[inline]
pub fn leave_return_address<C: Registers + Memory + ?Sized>(cpu: &mut C, isa: &Isa, key: u64, to: u64) -> Result<(), Fault> {
    match isa.abi.return_address {
        ReturnAddress::OnStack => cpu.write_number(key, to, isa.word),
        ReturnAddress::In(reg) => {
            cpu.set(reg, to);
            Ok(())
        }
    }
}

/// The stack pointer after the return of a function that was entered with `sp`.
#[inline]
pub fn stack_behind_return(isa: &Isa, sp: u64) -> u64 {
    match isa.abi.return_address {
        ReturnAddress::OnStack => sp.wrapping_add(isa.word as u64),
        ReturnAddress::In(_) => sp,
    }
}

#[cfg(test)]
mod tests;
