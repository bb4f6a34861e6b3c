//! Emulates s390x branches and `larl`.
//!
//! No emulation accesses memory, so none can fault; a target that cannot be executed faults when it is fetched. A
//! target from registers is computed before any register changes.

use super::abi::CC;
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::regs::{Reg, Registers};
use core::cmp::Ordering;

/// An instruction, decoded for emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computation {
    /// Branches to the target, if the condition holds.
    Branch(Condition, Target),
    /// `larl`: sets a register to a fixed address.
    Address(Reg, u64),
}

/// The condition of a branch, and its effect on registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The condition code's bit is set in this mask.
    Code(u8),
    /// Always; the register gets the next address.
    Links(Reg),
    /// Decrements the register; branches if the result is not 0.
    Counts(Reg, Width),
    /// Adds the step to the sum; branches if the sum is higher than the limit, or not higher. The limit is read first.
    Steps {
        /// The register that is increased.
        sum: Reg,
        /// The increment.
        step: Reg,
        /// The register that the sum is compared with.
        limit: Reg,
        /// The width of the three.
        width: Width,
        /// Branch if the sum is higher than the limit; otherwise if it is not higher.
        higher: bool,
    },
    /// Compares two values; branches if the bit of the outcome is set in the mask.
    Compares {
        /// The first operand.
        first: Reg,
        /// The second operand.
        second: Second,
        /// The width of both.
        width: Width,
        /// The comparison is signed.
        signed: bool,
        /// The outcomes that branch.
        mask: u8,
    },
}

/// The part of a register that an instruction uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The low half. The high half is unchanged.
    Low,
    /// The high half. The low half is unchanged.
    High,
    /// All 64 bits.
    Whole,
}

/// The second operand of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// The value of a register.
    Register(Reg),
    /// An 8-bit immediate, sign-extended if the comparison is signed.
    Number(u8),
}

/// The target of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The fixed address in the instruction, as its [`Flow`](crate::insn::Flow) has it; without one, the next
    /// instruction.
    Written,
    /// The sum of base register, index register and displacement.
    Made(Option<Reg>, Option<Reg>, i32),
}

/// Bits of a mask: that of condition code 0, and those of the outcomes of a comparison.
const FIRST: u8 = 8;
const EQUAL: u8 = 8;
const LOW: u8 = 4;
const HIGH: u8 = 2;

/// Emulates an instruction and sets the pc.
pub fn emulate(what: &Computation, insn: &Insn, regs: &mut dyn Registers, _: &mut dyn Memory) -> Result<(), Fault> {
    let to = match *what {
        Computation::Branch(condition, target) => {
            let there = there(target, insn, regs);
            if is_taken(condition, insn, regs) { there } else { insn.next() }
        }
        Computation::Address(reg, value) => {
            regs.set(reg, value);
            insn.next()
        }
    };
    regs.set_pc(to);
    Ok(())
}

fn there(target: Target, insn: &Insn, regs: &dyn Registers) -> u64 {
    match target {
        Target::Written => insn.flow.target().unwrap_or(insn.next()),
        Target::Made(base, index, distance) => {
            let part = |reg: Option<Reg>| reg.map_or(0, |reg| regs.get(reg));
            part(base).wrapping_add(part(index)).wrapping_add_signed(distance.into())
        }
    }
}

fn is_taken(condition: Condition, insn: &Insn, regs: &mut dyn Registers) -> bool {
    match condition {
        Condition::Code(mask) => mask & FIRST >> (regs.get(CC) & 3) != 0,
        Condition::Links(reg) => {
            regs.set(reg, insn.next());
            true
        }
        Condition::Counts(reg, width) => add(regs, reg, u64::MAX, width) != 0,
        Condition::Steps { sum, step, limit, width, higher } => {
            let (step, limit) = (regs.get(step), signed(regs.get(limit), width));
            let sum = add(regs, sum, step, width);
            (signed(sum, width) > limit) == higher
        }
        Condition::Compares { first, second, width, signed: is_signed, mask } => {
            let first = regs.get(first);
            let second = match second {
                Second::Register(reg) => regs.get(reg),
                Second::Number(number) if is_signed => number as i8 as u64,
                Second::Number(number) => number.into(),
            };
            let order = if is_signed {
                signed(first, width).cmp(&signed(second, width))
            } else {
                part(first, width).cmp(&part(second, width))
            };
            mask & outcome(order) != 0
        }
    }
}

const fn outcome(order: Ordering) -> u8 {
    match order {
        Ordering::Equal => EQUAL,
        Ordering::Less => LOW,
        Ordering::Greater => HIGH,
    }
}

/// The used part of a register's value, unsigned.
fn part(value: u64, width: Width) -> u64 {
    match width {
        Width::Low => value & 0xffff_ffff,
        Width::High => value >> 32,
        Width::Whole => value,
    }
}

fn signed(value: u64, width: Width) -> i64 {
    match width {
        Width::Whole => value as i64,
        _ => i64::from(part(value, width) as i32),
    }
}

/// Adds to the used part of a register, and returns the result.
fn add(regs: &mut dyn Registers, reg: Reg, value: u64, width: Width) -> u64 {
    let before = regs.get(reg);
    let sum = part(before, width).wrapping_add(value);
    let after = match width {
        Width::Low => before & !0xffff_ffff | sum & 0xffff_ffff,
        Width::High => sum << 32 | before & 0xffff_ffff,
        Width::Whole => sum,
    };
    regs.set(reg, after);
    part(after, width)
}

#[cfg(test)]
mod tests;
