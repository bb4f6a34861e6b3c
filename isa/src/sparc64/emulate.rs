//! Branches, returns from traps, and what reads the pc: computed, never executed. What is in a branch's delay slot runs
//! where it stands, and behind it the CPU goes where the branch leads.

use super::LENGTH;
use super::abi::{CANRESTORE, CANSAVE, CCR, CWP, FPRS, FSR, NPC, TL, TNPC, TPC, TRAPPED, TSTATE, WINDOWS, r};
use crate::insn::Insn;
use crate::mem::Fault;
use crate::plan::Then;
use crate::regs::{Reg, Registers};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computation {
    /// A branch or jump.
    Branch(Branch),
    /// A register gets the address of the instruction.
    ReadPc(Reg),
    /// Any other instruction that stands in a delay slot: its copy runs, and execution goes on where the CPU already
    /// knows.
    InSlot,
    /// A register gets its address, and it stands in a delay slot.
    ReadPcInSlot(Reg),
    /// The innermost trap is over, and what raised it is left behind.
    Done,
    /// It is over, and what raised it comes again, in its delay slot if it is in one.
    Retry,
}

/// A branch or jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// When it is taken.
    pub condition: Condition,
    /// Where it leads then.
    pub target: Target,
    /// The register that gets its own address.
    pub link: Option<Reg>,
    /// Its slot runs only if it is taken, and not even then if it always is.
    pub annuls: bool,
    /// It goes back to the caller's window of registers.
    pub restores: bool,
}

/// When a branch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// Never.
    Never,
    /// By the condition codes: which of the 16 conditions, and so many bits up in the register.
    Codes(u8, u8),
    /// By a condition of the floating-point unit, so many bits up in its register; what it must be, a bit for each of
    /// equal, less, greater and unordered.
    Float(u8, u8),
    /// By a register, as a number with a sign: which of the 8 conditions.
    Register(u8, Reg),
}

/// Where a branch leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the address that stands in it, which its [`Flow`](crate::insn::Flow) names.
    Written,
    /// To the sum of two registers.
    Sum(Reg, Reg),
    /// So far from where a register points.
    Off(Reg, i16),
}

/// The floating-point unit is on: in the CPU's state as TSTATE has it, and in FPRS.
const TSTATE_PEF: u64 = 0x10 << 8;
const FPRS_FEF: u64 = 4;

/// Computes an instruction and sets the pc. A fault changes nothing, and is raised by the copy: a floating-point unit that
/// is off, a caller's window that is not in the CPU, a place to go to that is no multiple of 4. If the instruction may be
/// in a delay slot, or the CPU may have changed a register before it raises it, the copy runs as one in a slot does.
pub fn emulate(what: &Computation, insn: &Insn, regs: &mut dyn Registers) -> Result<Then, Fault> {
    match what {
        Computation::Branch(branch) => return emulate_branch(branch, insn, regs),
        Computation::ReadPc(to) => {
            set(regs, *to, insn.address);
            regs.set_pc(insn.next());
        }
        Computation::InSlot => {
            return Ok(in_copy(regs, None));
        }
        Computation::ReadPcInSlot(to) => {
            let next = regs.get(NPC);
            set(regs, *to, insn.address);
            regs.set_pc(next);
        }
        Computation::Done | Computation::Retry => {
            let (level, [from, next]) = (regs.get(TL), [TPC, TNPC].map(|reg| regs.get(reg)));
            let Some(outer) = level.checked_sub(1) else { return Ok(in_copy(regs, None)) };
            // Of this level, so it comes before the level.
            let state = regs.get(TRAPPED);
            regs.set(TSTATE, state);
            regs.set(TL, outer);
            if *what == Computation::Retry {
                regs.set_pc(from);
                return Ok(Then::Slot { then: next });
            }
            regs.set_pc(next);
        }
    }
    Ok(Then::Onwards)
}

fn emulate_branch(what: &Branch, insn: &Insn, regs: &mut dyn Registers) -> Result<Then, Fault> {
    let raised = Err(Fault { address: insn.address, write: false });
    let is_taken = match what.condition {
        Condition::Always => true,
        Condition::Never => false,
        Condition::Codes(condition, up) => holds(condition, (regs.get(CCR) >> up) as u8),
        Condition::Float(..) if regs.get(TSTATE) & TSTATE_PEF == 0 || regs.get(FPRS) & FPRS_FEF == 0 => return raised,
        Condition::Float(set, up) => set >> (regs.get(FSR) >> up & 3) & 1 != 0,
        Condition::Register(condition, reg) => {
            let value = regs.get(reg) as i64;
            let holds = match condition & 3 {
                1 => value == 0,
                2 => value <= 0,
                _ => value < 0,
            };
            holds != (condition & 4 != 0)
        }
    };
    let next = insn.next();
    let target = match what.target {
        Target::Written => insn.flow.target().unwrap_or(next),
        Target::Sum(one, other) => regs.get(one).wrapping_add(regs.get(other)),
        Target::Off(reg, by) => regs.get(reg).wrapping_add_signed(by.into()),
    };
    if target % LENGTH as u64 != 0 {
        let undo = what.link.filter(|link| *link != r(0)).map(|link| (link, regs.get(link)));
        return if undo.is_some() { Ok(in_copy(regs, undo)) } else { raised };
    }
    if what.restores {
        let (window, kept, room) = (regs.get(CWP), regs.get(CANRESTORE), regs.get(CANSAVE));
        if kept == 0 {
            return raised;
        }
        regs.set(CANRESTORE, kept - 1);
        regs.set(CANSAVE, room.wrapping_add(1));
        regs.set(CWP, window.wrapping_sub(1) % WINDOWS);
    }
    if let Some(link) = what.link {
        set(regs, link, insn.address);
    }
    let behind_slot = next.wrapping_add(LENGTH as u64);
    let leads_to = if is_taken { target } else { behind_slot };
    let is_always_taken = matches!(what.condition, Condition::Always | Condition::Float(15, _));
    if what.annuls && (is_always_taken || !is_taken) {
        regs.set_pc(leads_to);
        return Ok(Then::Onwards);
    }
    regs.set_pc(next);
    Ok(Then::Slot { then: leads_to })
}

/// What the copy does, or raises, and then where the CPU already knows; if it raises something, a register may have to be
/// put right.
fn in_copy(regs: &mut dyn Registers, undo: Option<(Reg, u64)>) -> Then {
    let to = regs.get(NPC);
    regs.set_pc(to);
    Then::Copy { undo }
}

/// Whether a condition holds with these codes: negative, zero, overflow, carry, from the highest bit to the lowest.
fn holds(condition: u8, codes: u8) -> bool {
    let [negative, zero, overflow, carry] = [8, 4, 2, 1].map(|bit| codes & bit != 0);
    let holds = match condition & 7 {
        0 => false,
        1 => zero,
        2 => zero || negative != overflow,
        3 => negative != overflow,
        4 => carry || zero,
        5 => carry,
        6 => negative,
        _ => overflow,
    };
    holds != (condition & 8 != 0)
}

/// %g0 stays 0.
fn set(regs: &mut dyn Registers, reg: Reg, value: u64) {
    if reg != r(0) {
        regs.set(reg, value);
    }
}

#[cfg(test)]
mod tests;
