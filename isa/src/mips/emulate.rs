//! Branches and jumps: computed, never executed. What is in the delay slot runs afterwards, out of line, unless the
//! branch nullifies it.
//!
//! The return address is written before the slot runs, as the CPU writes it: the slot reads the new one, and should it
//! fault, the new one is what the exception's handler finds. The branch can be done again all the same, so nothing is
//! undone.

use super::Set;
use crate::insn::Insn;
use crate::plan::Then;
use crate::regs::{Reg, Registers};

/// A branch or jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Computation {
    /// When it is taken.
    pub condition: Condition,
    /// Where it leads then.
    pub target: Target,
    /// The register that gets the address behind the slot, taken or not.
    pub link: Option<Reg>,
    /// What is in the slot runs only if the branch is taken.
    pub likely: bool,
    /// What is in the slot does nothing.
    pub empty_slot: bool,
}

/// When a branch is taken. Registers are compared as numbers with a sign, in all their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// Two registers are equal.
    Equal(Reg, Reg),
    /// They are not.
    Unequal(Reg, Reg),
    /// One is not above 0.
    NotAbove(Reg),
    /// It is above 0.
    Above(Reg),
    /// It is below 0.
    Below(Reg),
    /// It is not below 0.
    NotBelow(Reg),
}

/// Where a branch leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the address that stands in it, which its [`Flow`](crate::insn::Flow) names.
    Written,
    /// Where a register points.
    Register(Reg),
}

/// Computes a branch and sets the pc; says whether what is in the slot is to run. None of these can fault.
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
    if is_nullified || what.empty_slot { Then::Onwards } else { Then::Copy { undo: None } }
}

#[cfg(test)]
mod tests;
