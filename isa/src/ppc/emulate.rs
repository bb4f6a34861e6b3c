//! Emulates PowerPC instructions that use the pc: branches and `addpcis`.
//!
//! 64-bit kernels run in 64-bit mode, so targets are truncated only on 32-bit CPUs. No emulation accesses memory, so
//! none can fault; a target that cannot be executed faults when it is fetched.

use super::Set;
use super::abi::{CFAR, CR, CTR, LR};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::regs::{Reg, Registers};

/// An instruction, decoded for emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computation {
    /// Branches to a fixed address.
    Branch(Condition, u64),
    /// Branches to the address in a register, read before the link register changes.
    BranchRegister(Condition, Reg),
    /// `addpcis`: sets a register to a fixed address.
    Address(Reg, u64),
}

/// The condition of a branch, and whether it sets the link register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The BO field.
    pub when: u8,
    /// The BI field: the bit of the condition register that is tested.
    pub bit: u8,
    /// The link register gets the next address, whether the branch is taken or not.
    pub links: bool,
}

/// The BO field of a branch that is always taken.
pub const ALWAYS: u8 = 20;

/// Bits of BO: ignore the condition register; the tested bit must be set; do not count; branch if the count is 0.
const WHATEVER_CR: u8 = 16;
const IF_SET: u8 = 8;
const UNCOUNTED: u8 = 4;
const IF_ZERO: u8 = 2;

/// Emulates an instruction and sets the pc.
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
    if is_taken && set.is_64() {
        regs.set(CFAR, insn.address);
    }
    regs.set_pc(if is_taken { target } else { next });
    Ok(())
}

/// Updates CTR if the condition counts, and returns whether to branch.
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
