//! Integer arithmetic, comparisons, tests, shifts and bit fields.

use super::super::run::Core;
use super::super::state::State;
use super::super::{Fault, ar};
use trapline_isa::ia64::op::{Alu, Merge, Op, Relation, Shift, Tested, Unary, Update, Value};

/// The lowest `length` bits, which are 1 to 64.
const fn low(length: u8) -> u64 {
    u64::MAX >> (64 - length as u32)
}

fn extend(value: u64, bits: u32) -> u64 {
    ((value << (64 - bits)) as i64 >> (64 - bits)) as u64
}

/// A 32-bit pointer in a 64-bit register: the region is in the top bits.
#[inline]
const fn pointer(sum: u64, b: u64) -> u64 {
    sum & 0xffff_ffff | (b >> 30 & 3) << 61
}

#[inline(always)]
pub(super) fn alu(what: Alu, a: u64, b: u64) -> u64 {
    match what {
        Alu::Add => a.wrapping_add(b),
        Alu::AddOne => a.wrapping_add(b).wrapping_add(1),
        Alu::Sub => a.wrapping_sub(b),
        Alu::SubOne => a.wrapping_sub(b).wrapping_sub(1),
        Alu::AddPointer => pointer(a.wrapping_add(b), b),
        Alu::And => a & b,
        Alu::AndComplement => a & !b,
        Alu::Or => a | b,
        Alu::Xor => a ^ b,
    }
}

fn holds(relation: Relation, narrow: bool, a: u64, b: u64) -> bool {
    let (a, b) = if narrow { (extend(a, 32), extend(b, 32)) } else { (a, b) };
    let (x, y) = (a as i64, b as i64);
    match relation {
        Relation::Equal => a == b,
        Relation::NotEqual => a != b,
        Relation::Less => x < y,
        // Numbers of 32 bits keep their unsigned order when they are extended by their sign.
        Relation::Below => a < b,
        Relation::LessOrEqual => x <= y,
        Relation::Greater => x > y,
        Relation::GreaterOrEqual => x >= y,
    }
}

fn unary(what: Unary, value: u64) -> u64 {
    let elements = |size: u8| (0..8 / size).map(move |number| value >> (8 * size * number) & low(8 * size));
    match what {
        Unary::ZeroExtend(size) => value & low(8 * size),
        Unary::SignExtend(size) => extend(value, 8 * u32::from(size)),
        Unary::ZeroIndexRight(size) => elements(size).position(|element| element == 0).map_or(8 / size, |at| at as u8).into(),
        Unary::ZeroIndexLeft(size) => {
            let count = 8 / size;
            let found = elements(size).collect::<alloc::vec::Vec<_>>().iter().rev().position(|element| *element == 0);
            found.map_or(count, |at| at as u8).into()
        }
        Unary::CountOnes => value.count_ones().into(),
        Unary::CountLeadingZeros => value.leading_zeros().into(),
        Unary::Bytes(code) => {
            let order: [u8; 8] = match code {
                8 => [0, 4, 2, 6, 1, 5, 3, 7],
                9 => [0, 4, 1, 5, 2, 6, 3, 7],
                10 => [0, 2, 4, 6, 1, 3, 5, 7],
                11 => [7, 6, 5, 4, 3, 2, 1, 0],
                _ => [0; 8],
            };
            let bytes = value.to_le_bytes();
            u64::from_le_bytes(order.map(|number| bytes[usize::from(number)]))
        }
        Unary::Halves(code) => (0..4).fold(0, |all, number| {
            let from = code >> (2 * number) & 3;
            all | (value >> (16 * u32::from(from)) & 0xffff) << (16 * number)
        }),
    }
}

/// The elements of two registers, interleaved: those of one half, or the even or odd ones.
fn merge(what: Merge, size: u8, upper: bool, a: u64, b: u64) -> u64 {
    let (bits, count) = (8 * u32::from(size), 8 / u32::from(size));
    let mask = low(8 * size);
    let element = |value: u64, number: u32| value >> (bits * number) & mask;
    (0..count / 2).fold(0, |all, number| {
        let from = match (what, upper) {
            (Merge::Mix, upper) => 2 * number + u32::from(upper),
            (Merge::Unpack, true) => number + count / 2,
            (Merge::Unpack, false) => number,
        };
        all | (element(b, from) | element(a, from) << bits) << (2 * bits * number)
    })
}

impl State {
    pub(in super::super) fn value(&self, value: Value) -> (u64, bool) {
        match value {
            Value::Register(register) => (self.r(register), self.is_nat(register)),
            Value::Immediate(number) => (number as u64, false),
        }
    }

    /// Writes the predicates of a comparison. `result` is `None` if an operand has no number.
    pub(in super::super) fn compared(&self, update: Update, p: [u8; 2], live: bool, result: Option<bool>) -> Result<(), Fault> {
        let [first, second] = p;
        if first == second && (live || update == Update::Unconditional) {
            return Err(Fault::ILLEGAL);
        }
        let set = |one: bool, other: bool| {
            self.set_p(first, one);
            self.set_p(second, other);
        };
        match (update, live, result) {
            (Update::Both | Update::Unconditional, true, Some(result)) => set(result, !result),
            (Update::Both | Update::Unconditional, true, None) | (Update::Unconditional, false, _) => set(false, false),
            (Update::And, true, None | Some(false)) => set(false, false),
            (Update::Or, true, Some(true)) => set(true, true),
            (Update::OrAndComplement, true, Some(true)) => set(true, false),
            _ => {}
        }
        Ok(())
    }
}

impl Core {
    /// Executes an integer instruction; `None` for other instructions. Only comparisons and bit tests read the predicate here.
    #[inline(always)]
    pub(super) fn integer(&mut self, op: &Op, predicate: u8) -> Option<Result<(), Fault>> {
        let state = self.state();
        let set = |to: u8, value: u64, nat: bool| Some(state.check_target(to).map(|()| state.set_r(to, value, nat)));
        match *op {
            Op::Nop { .. }
            | Op::Hint { .. }
            | Op::Predict { .. }
            | Op::PredictIndirect { .. }
            | Op::Prefetch { fault: false, count: false, .. } => Some(self.prefetched(op)),
            Op::Alu { what, to, a, b } => {
                let (a, nat) = state.value(a);
                set(to, alu(what, a, state.r(b)), nat | state.is_nat(b))
            }
            Op::ShiftAdd { pointer: narrow, to, a, count, b } => {
                let sum = (state.r(a) << count).wrapping_add(state.r(b));
                let sum = if narrow { pointer(sum, state.r(b)) } else { sum };
                set(to, sum, state.is_nat(a) | state.is_nat(b))
            }
            Op::Compare { narrow, relation, update, p, a, b } => {
                let (a, nat) = state.value(a);
                let result = if nat | state.is_nat(b) { None } else { Some(holds(relation, narrow, a, state.r(b))) };
                Some(state.compared(update, p, state.p(predicate), result))
            }
            Op::Test { nonzero, update, p, what } => {
                let bit = match what {
                    Tested::Bit { register, .. } if state.is_nat(register) => None,
                    Tested::Bit { register, bit } => Some(state.r(register) >> bit & 1 != 0),
                    Tested::Nat(register) => Some(state.is_nat(register)),
                    // This CPU has none of the features.
                    Tested::Feature(_) => Some(false),
                };
                Some(state.compared(update, p, state.p(predicate), bit.map(|bit| bit == nonzero)))
            }
            Op::Unary { what, to, from } => set(to, unary(what, state.r(from)), state.is_nat(from)),
            Op::Shift { what, to, from, by } => {
                let (value, count) = (state.r(from), state.r(by));
                let shifted = match what {
                    Shift::Left if count > 63 => 0,
                    Shift::Left => value << count,
                    Shift::UnsignedRight if count > 63 => 0,
                    Shift::UnsignedRight => value >> count,
                    Shift::Right => (value as i64 >> count.min(63)) as u64,
                };
                set(to, shifted, state.is_nat(from) | state.is_nat(by))
            }
            Op::ShiftPair { to, a, b, count } => {
                let pair = u128::from(state.r(a)) << 64 | u128::from(state.r(b));
                set(to, (pair >> count) as u64, state.is_nat(a) | state.is_nat(b))
            }
            Op::Extract { signed, to, from, position, length } => {
                let length = length.min(64 - position);
                let field = state.r(from) >> position;
                let value = if signed { extend(field, length.into()) } else { field & low(length) };
                set(to, value, state.is_nat(from))
            }
            Op::DepositZero { to, from, position, length } => {
                let (value, nat) = state.value(from);
                set(to, (value & low(length)) << position, nat)
            }
            Op::Deposit { to, from, into, position, length } => {
                let (value, nat) = state.value(from);
                let mask = low(length) << position;
                set(to, value << position & mask | state.r(into) & !mask, nat | state.is_nat(into))
            }
            Op::Merge { what, size, upper, to, a, b } => {
                set(to, merge(what, size, upper, state.r(a), state.r(b)), state.is_nat(a) | state.is_nat(b))
            }
            Op::MoveLong { to, value } => set(to, value, false),
            _ => None,
        }
    }

    /// A prefetch loads nothing, but may add to its base.
    fn prefetched(&mut self, op: &Op) -> Result<(), Fault> {
        if let Op::Prefetch { at, after: trapline_isa::ia64::op::After::Add(by), .. } = *op {
            let state = self.state();
            let (by, nat) = state.value(by);
            state.check_target(at)?;
            state.set_r(at, state.r(at).wrapping_add(by), nat | state.is_nat(at));
        }
        Ok(())
    }

    /// An application register by its number, where it needs nothing but the state.
    pub(super) fn application(&self, number: u8) -> u64 {
        let state = self.state();
        match number {
            ar::BSP => state.frame_at(),
            ar::BSPSTORE => state.store_at.get(),
            ar::RNAT => state.collection.get(),
            _ => state.application[usize::from(number & 127)].get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-2: the results of single operations, worked out by hand.
    #[test]
    fn single_operations_have_the_results_of_the_manual() {
        assert_eq!(alu(Alu::AddPointer, 0x1_0000_0004, 0xc000_0000), 0x6000_0000_c000_0004);
        assert_eq!(alu(Alu::SubOne, 5, 3), 1);
        assert_eq!(alu(Alu::AndComplement, 0xff, 0x0f), 0xf0);
        assert!(holds(Relation::Less, true, 0xffff_ffff, 0), "-1 < 0 in 32 bits");
        assert!(!holds(Relation::Below, true, 0xffff_ffff, 0x7fff_ffff));
        assert!(holds(Relation::Below, false, 0xffff_ffff, 0x1_0000_0000));
        let bytes = 0x8877_6655_4433_2211;
        assert_eq!(unary(Unary::Bytes(11), bytes), bytes.swap_bytes());
        assert_eq!(unary(Unary::Bytes(0), bytes), 0x1111_1111_1111_1111);
        assert_eq!(unary(Unary::Bytes(9), bytes), 0x8844_7733_6622_5511);
        assert_eq!(unary(Unary::Bytes(10), bytes), 0x8866_4422_7755_3311);
        assert_eq!(unary(Unary::Bytes(8), bytes), 0x8844_6622_7733_5511);
        assert_eq!(unary(Unary::Halves(0b00_01_10_11), bytes), 0x2211_4433_6655_8877);
        assert_eq!(unary(Unary::ZeroIndexRight(1), 0x1100_1111), 2);
        assert_eq!(unary(Unary::ZeroIndexLeft(1), 0x1100_1111), 0);
        assert_eq!(unary(Unary::ZeroIndexLeft(1), u64::MAX), 8);
        assert_eq!(unary(Unary::ZeroIndexLeft(2), 0x1111_0000_1111_1111), 1);
        assert_eq!(unary(Unary::SignExtend(2), 0x8000), 0xffff_ffff_ffff_8000);
        let (a, b) = (0xa7a6_a5a4_a3a2_a1a0, 0xb7b6_b5b4_b3b2_b1b0);
        assert_eq!(merge(Merge::Unpack, 4, false, a, b), 0xa3a2_a1a0_b3b2_b1b0);
        assert_eq!(merge(Merge::Unpack, 4, true, a, b), 0xa7a6_a5a4_b7b6_b5b4);
        assert_eq!(merge(Merge::Mix, 4, true, a, b), 0xa7a6_a5a4_b7b6_b5b4);
        assert_eq!(merge(Merge::Mix, 2, false, a, b), 0xa5a4_b5b4_a1a0_b1b0);
        assert_eq!(merge(Merge::Unpack, 1, false, a, b), 0xa3b3_a2b2_a1b1_a0b0);
    }
}
