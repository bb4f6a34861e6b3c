//! Instructions that are computed, never executed: branches, and those that make an address out of the pc.
//!
//! A kernel of 64 bits runs with all 64 of them in use, so no target is cut there. None of these touches memory, so none can fault here; a
//! target that cannot be executed faults where it is fetched.

use super::Set;
use super::abi::{CR, CTR, LR, TAR, r};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::plan::Emulation;
use crate::regs::{Reg, Registers};

/// Goes to `value` on condition `b`, of bit `c` of the condition register; with `a`, leaves the address behind in the link register,
/// taken or not.
pub const BRANCH: u8 = 0;
/// The same to where the link register points before that.
pub const BRANCH_LR: u8 = 1;
/// The same to where the count register points.
pub const BRANCH_CTR: u8 = 2;
/// The same to where the target register points.
pub const BRANCH_TAR: u8 = 3;
/// Puts `value` into register `b`.
pub const ADDRESS: u8 = 4;

/// The condition of a branch that is always taken.
pub const ALWAYS: u8 = 20;

/// Bits of a condition: whatever the condition register says; if its bit is set; without counting; if the count is zero.
const WHATEVER_CR: u8 = 16;
const IF_SET: u8 = 8;
const UNCOUNTED: u8 = 4;
const IF_ZERO: u8 = 2;

/// Computes an instruction and sets the pc.
pub fn emulate(set: Set, what: &Emulation, insn: &Insn, regs: &mut dyn Registers, _: &mut dyn Memory) -> Result<(), Fault> {
    let next = set.cut(insn.next());
    let pointer = |regs: &dyn Registers, reg: Reg| set.cut(regs.get(reg)) & !3;
    let target = match what.op {
        BRANCH => what.value,
        BRANCH_LR => pointer(regs, LR),
        BRANCH_CTR => pointer(regs, CTR),
        BRANCH_TAR => pointer(regs, TAR),
        ADDRESS => {
            regs.set(r(what.b), set.cut(what.value));
            regs.set_pc(next);
            return Ok(());
        }
        // None of ours: the CPU is left to run the copy.
        _ => return Err(Fault { address: insn.address, write: false }),
    };
    let is_taken = is_taken(set, what.b, what.c, regs);
    if what.a != 0 {
        regs.set(LR, next);
    }
    regs.set_pc(if is_taken { target } else { next });
    Ok(())
}

/// Counts if the condition wants it, and says whether it holds.
fn is_taken(set: Set, condition: u8, bit: u8, regs: &mut dyn Registers) -> bool {
    let wants = |what: u8| condition & what != 0;
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
