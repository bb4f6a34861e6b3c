//! Instructions that are computed, never executed: branches, and `larl`.
//!
//! None of these touches memory, so none can fault here; a target that cannot be executed faults where it is fetched.
//! Where a target is made out of registers it is so before any of them changes.

use super::abi::CC;
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::regs::{Reg, Registers};
use core::cmp::Ordering;

/// A computed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computation {
    /// Goes there, if its condition holds.
    Branch(Condition, Target),
    /// Puts an address into a register.
    Address(Reg, u64),
}

/// When a branch is taken, and what it does besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// If the bit of the condition code is set in this mask.
    Code(u8),
    /// Always; the address behind stays in the register.
    Links(Reg),
    /// Takes 1 from the register; if that is not zero then.
    Counts(Reg, Width),
    /// Adds a step to a sum; if that is higher than the limit, as this was before, or if it is not.
    Steps {
        /// What is added to.
        sum: Reg,
        /// What is added.
        step: Reg,
        /// What the sum is compared with.
        limit: Reg,
        /// How wide these are.
        width: Width,
        /// It is to be higher.
        higher: bool,
    },
    /// If the bit of what comes out of a comparison is set in the mask.
    Compares {
        /// What is compared.
        first: Reg,
        /// With what.
        second: Second,
        /// How wide these are.
        width: Width,
        /// They have signs.
        signed: bool,
        /// Of the outcomes.
        mask: u8,
    },
}

/// The part of a register that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The lower half; the upper one is left alone.
    Low,
    /// The upper half; the lower one is left alone.
    High,
    /// All of it.
    Whole,
}

/// What a register is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// Another one.
    Register(Reg),
    /// A number of 8 bits, whose sign goes up where there are signs.
    Number(u8),
}

/// Where a branch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the address that stands in it, which its [`Flow`](crate::insn::Flow) names; behind it, where none does.
    Written,
    /// To what these hold, as far as there are any, and so many bytes on.
    Made(Option<Reg>, Option<Reg>, i32),
}

/// Bits of a mask: the first of a condition code, and the outcomes of a comparison.
const FIRST: u8 = 8;
const EQUAL: u8 = 8;
const LOW: u8 = 4;
const HIGH: u8 = 2;

/// Computes an instruction and sets the pc.
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

/// The part of a register that counts, as a number without a sign.
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

/// Adds to the part of a register that counts; what it is then.
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
