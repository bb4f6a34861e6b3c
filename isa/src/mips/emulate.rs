//! Emulates branches and jumps. The instruction in the delay slot then runs as a copy, unless the branch nullifies it.
//!
//! The link register is written before the delay slot runs, as on the CPU. If the delay slot faults, the handler sees
//! the new value. The branch can be repeated all the same, so nothing is undone.

use super::Set;
use crate::insn::Insn;
use crate::plan::Then;
use crate::regs::{Reg, Registers};

/// A branch or jump, decoded for emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Computation {
    /// The condition for taking the branch.
    pub condition: Condition,
    /// The target, if it is taken.
    pub target: Target,
    /// The link register, if there is one. It is set whether the branch is taken or not.
    pub link: Option<Reg>,
    /// A branch-likely: the delay slot runs only if the branch is taken.
    pub likely: bool,
    /// The delay slot has a `nop`.
    pub empty_delay_slot: bool,
}

/// The condition of a branch. Registers are compared as signed numbers of full width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// Two registers are equal.
    Equal(Reg, Reg),
    /// Two registers differ.
    Unequal(Reg, Reg),
    /// A register is at most 0.
    NotAbove(Reg),
    /// A register is greater than 0.
    Above(Reg),
    /// A register is less than 0.
    Below(Reg),
    /// A register is at least 0.
    NotBelow(Reg),
}

/// The target of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The fixed address in the instruction, as its [`Flow`](crate::insn::Flow) has it.
    Written,
    /// The address in a register.
    Register(Reg),
}

/// Emulates a branch and sets the pc. Returns whether the delay slot must run. A branch cannot fault.
pub fn emulate(set: Set, what: &Computation, insn: &Insn, regs: &mut dyn Registers) -> Then {
    let next = set.cut(insn.next());
    let value = |reg: Reg| set.cut(regs.get(reg));
    let number = |reg: Reg| set.signed(regs.get(reg));
    let is_taken = match what.condition {
        Condition::Always => true,
        Condition::Equal(one, other) => value(one) == value(other),
        Condition::Unequal(one, other) => value(one) != value(other),
        Condition::NotAbove(reg) => number(reg) <= 0,
        Condition::Above(reg) => number(reg) > 0,
        Condition::Below(reg) => number(reg) < 0,
        Condition::NotBelow(reg) => number(reg) >= 0,
    };
    let target = match what.target {
        Target::Written => insn.flow.target().unwrap_or(next),
        Target::Register(reg) => value(reg),
    };
    if let Some(link) = what.link {
        regs.set(link, next);
    }
    regs.set_pc(if is_taken { target } else { next });
    let is_nullified = what.likely && !is_taken;
    if is_nullified || what.empty_delay_slot { Then::Onwards } else { Then::Copy { undo: None } }
}

#[cfg(test)]
mod tests;
