//! A call as data: where its arguments, its result and its return address lie by an ISA's convention. Written once for
//! all ISAs.
//!
//! A value lies in a register or on the stack; on a 32-bit ISA one of 64 bits lies in two words. Whoever wants it says
//! of what types the arguments in front of it are, for these decide how far it has moved.

use crate::abi::ReturnAddress;
use crate::arch::Isa;
use crate::mem::{ByteOrder, Fault, Memory};
use crate::regs::{Reg, Registers};

/// The type of a value, as far as a calling convention asks: C's integers and pointers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Type {
    /// A pointer, `unsigned long`, `size_t`.
    #[default]
    Word,
    /// `long`, `ssize_t`.
    SignedWord,
    /// So many bytes, at most 8, without a sign.
    Unsigned(u8),
    /// The same with a sign.
    Signed(u8),
}

impl Type {
    /// How many bytes it has where a word has `word`.
    pub fn bytes(self, word: usize) -> usize {
        match self {
            Type::Word | Type::SignedWord => word,
            Type::Unsigned(bytes) | Type::Signed(bytes) => usize::from(bytes.clamp(1, 8)),
        }
    }

    fn words(self, word: usize) -> usize {
        if self.bytes(word) > word { 2 } else { 1 }
    }

    /// The value out of the word or words that hold it: what is above it there is not part of it. A sign goes up to bit
    /// 63.
    pub fn cut(self, value: u64, word: usize) -> u64 {
        let unused = 64 - 8 * self.bytes(word) as u32;
        match self {
            Type::Word | Type::Unsigned(_) => value << unused >> unused,
            Type::SignedWord | Type::Signed(_) => ((value << unused) as i64 >> unused) as u64,
        }
    }
}

/// Where a word of a call lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a register.
    Register(Reg),
    /// In memory, so many bytes above the stack pointer that the function finds.
    Stack(i64),
}

/// Where a value of a call lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// It, or its lower half.
    pub low: Home,
    /// The upper half of one of two words.
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

    /// The value, out of the words that `word` finds in their places.
    pub fn read(self, isa: &Isa, mut word: impl FnMut(Home) -> u64) -> u64 {
        let low = word(self.low);
        let high = self.high.map_or(0, &mut word);
        // Two words of 64 bits each are no integer of C.
        let whole =
            if self.high.is_some() && isa.word < 8 { high << (8 * isa.word) | Type::Word.cut(low, isa.word) } else { low };
        self.kind.cut(whole, isa.word)
    }
}

/// Where the argument of that number, from 0, lies at a function's entry. Arguments for which there is no type are
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
        None => Home::Stack(isa.abi.stack_arguments.saturating_add(((at - registers) * isa.word) as i64)),
    };
    Value::of(isa, kind, place(at), (kind.words(isa.word) == 2).then(|| place(at + 1)))
}

/// Which word an argument begins with that could begin with this one. What is passed over stays unused.
fn begin(isa: &Isa, at: usize, kind: Type) -> usize {
    if kind.words(isa.word) == 1 {
        return at;
    }
    let at = if isa.abi.aligned_pairs { at.next_multiple_of(2) } else { at };
    let registers = isa.abi.arguments.len();
    // No half of it in a register, the other one on the stack.
    if at < registers && at + 2 > registers { registers } else { at }
}

/// Where a result lies when its function has returned.
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

/// Makes the function with that stack pointer at its entry return elsewhere; where it would have returned.
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

/// Leaves an address where a function that has just returned had its return address: in the stack word at `key`, or in
/// the register.
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

/// The stack pointer of a function that has just returned, out of the one that it found.
#[inline]
pub fn stack_behind_return(isa: &Isa, sp: u64) -> u64 {
    match isa.abi.return_address {
        ReturnAddress::OnStack => sp.wrapping_add(isa.word as u64),
        ReturnAddress::In(_) => sp,
    }
}

#[cfg(test)]
mod tests;
