//! Instructions that are computed, never executed: branches, and those that make an address out of the pc.
//!
//! A kernel of 64 bits runs with all 64 of them in use, so no target is cut there. None of these touches memory, so
//! none can fault here; a target that cannot be executed faults where it is fetched.

use super::Set;
use super::abi::{CR, CTR, LR};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::regs::{Reg, Registers};

/// A computed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computation {
    /// Goes to an address.
    Branch(Condition, u64),
    /// Goes to where a register points, before the return address is left in the link register.
    BranchRegister(Condition, Reg),
    /// Puts an address into a general register.
    Address(Reg, u64),
}

/// When a branch is taken, and whether it leaves a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The field BO.
    pub when: u8,
    /// The bit of the condition register that it may ask for.
    pub bit: u8,
    /// The address behind stays in the link register, taken or not.
    pub links: bool,
}

/// The condition of a branch that is always taken.
pub const ALWAYS: u8 = 20;

/// Bits of a condition: whatever the condition register says; if its bit is set; without counting; if the count is
/// zero.
const WHATEVER_CR: u8 = 16;
const IF_SET: u8 = 8;
const UNCOUNTED: u8 = 4;
const IF_ZERO: u8 = 2;

/// Computes an instruction and sets the pc.
pub fn emulate(set: Set, what: &Computation, insn: &Insn, regs: &mut dyn Registers, _: &mut dyn Memory) -> Result<(), Fault> {
    let next = set.cut(insn.next());
    let (condition, target) = match *what {
        Computation::Branch(condition, target) => (condition, target),
        Computation::BranchRegister(condition, reg) => (condition, set.cut(regs.get(reg)) & !3),
        Computation::Address(reg, value) => {
            regs.set(reg, set.cut(value));
            regs.set_pc(next);
            return Ok(());
        }
    };
    let is_taken = is_taken(set, condition, regs);
    if condition.links {
        regs.set(LR, next);
    }
    regs.set_pc(if is_taken { target } else { next });
    Ok(())
}

/// Counts if the condition wants it, and says whether it holds.
fn is_taken(set: Set, Condition { when, bit, .. }: Condition, regs: &mut dyn Registers) -> bool {
    let wants = |what: u8| when & what != 0;
    let count_agrees = wants(UNCOUNTED) || {
        let count = set.cut(regs.get(CTR).wrapping_sub(1));
        regs.set(CTR, count);
        (count == 0) == wants(IF_ZERO)
    };
    let bit_agrees = wants(WHATEVER_CR) || (regs.get(CR) >> (31 - (bit & 31)) & 1 != 0) == wants(IF_SET);
    count_agrees && bit_agrees
}

#[cfg(test)]
mod tests;
