//! Emulates A32 data processing instructions with the pc as an operand or as the destination.

use super::{Cpu, Target};
use crate::arm::Set;

const ZERO: u32 = 1 << 30;
const CARRY: u32 = 1 << 29;
const OVERFLOW: u32 = 1 << 28;

impl Cpu<'_> {
    /// Emulates one data processing instruction, whose last operand is an immediate, or a register shifted by an immediate.
    pub(super) fn alu(&mut self, word: u32) -> Target {
        let status = self.status();
        let carry_in = status & CARRY != 0;
        let first = self.get((word >> 16) as u8);
        let (second, shifted_out) = match word >> 25 & 1 {
            1 => immediate(word, carry_in),
            _ => shifted(self.get(word as u8), word, carry_in),
        };
        let flags = status & OVERFLOW;
        let logical = |result: u32| (result, flags | if shifted_out { CARRY } else { 0 });
        let opcode = word >> 21 & 15;
        let (result, flags) = match opcode {
            0 | 8 => logical(first & second),
            1 | 9 => logical(first ^ second),
            2 | 10 => add(first, !second, true),
            3 => add(second, !first, true),
            4 | 11 => add(first, second, false),
            5 => add(first, second, carry_in),
            6 => add(first, !second, carry_in),
            7 => add(second, !first, carry_in),
            12 => logical(first | second),
            13 => logical(second),
            14 => logical(first & !second),
            _ => logical(!second),
        };
        let only_flags = (8..12).contains(&opcode);
        if word >> 20 & 1 != 0 {
            self.set_flags(result & 1 << 31 | if result == 0 { ZERO } else { 0 } | flags);
        }
        match (word >> 12 & 15, self.set) {
            _ if only_flags => self.next(),
            (15, Set::A32) => Target::ByBit0(result),
            (15, Set::Thumb) => Target::Here(result),
            (number, _) => self.put(number as u8, result, self.next()),
        }
    }
}

/// The sum, with its carry and overflow flags.
fn add(first: u32, second: u32, carry: bool) -> (u32, u32) {
    let wide = u64::from(first) + u64::from(second) + u64::from(carry);
    let sum = wide as u32;
    let carried = if wide >> 32 != 0 { CARRY } else { 0 };
    let overflown = if (first ^ sum) & (second ^ sum) >> 31 << 31 != 0 { OVERFLOW } else { 0 };
    (sum, carried | overflown)
}

/// An immediate of 8 bits, rotated. If it was rotated, the carry is its top bit.
fn immediate(word: u32, carry: bool) -> (u32, bool) {
    let rotation = word >> 7 & 30;
    let value = (word & 0xff).rotate_right(rotation);
    (value, if rotation == 0 { carry } else { value >> 31 != 0 })
}

/// A register shifted as bits 11 to 5 say, and the last bit that was shifted out.
pub(super) fn shifted(value: u32, word: u32, carry: bool) -> (u32, bool) {
    let amount = word >> 7 & 31;
    let bit = |number: u32| value >> number & 1 != 0;
    match (word >> 5 & 3, amount) {
        (0, 0) => (value, carry),
        (0, amount) => (value << amount, bit(32 - amount)),
        (1, 0) => (0, bit(31)),
        (1, amount) => (value >> amount, bit(amount - 1)),
        (2, 0) => ((value as i32 >> 31) as u32, bit(31)),
        (2, amount) => ((value as i32 >> amount) as u32, bit(amount - 1)),
        (_, 0) => (value >> 1 | u32::from(carry) << 31, bit(0)),
        (_, amount) => (value.rotate_right(amount), bit(amount - 1)),
    }
}
