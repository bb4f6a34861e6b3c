//! Emulates branches, returns from traps, and `rd %pc`. The instruction in a branch's delay slot runs in place; behind
//! it the CPU continues where the branch leads.

use super::LENGTH;
use super::abi::{CANRESTORE, CANSAVE, CCR, CWP, FPRS, FSR, NPC, TL, TNPC, TPC, TRAPPED, TSTATE, WINDOWS, r};
use crate::insn::Insn;
use crate::mem::Fault;
use crate::plan::Then;
use crate::regs::{Reg, Registers};

/// An instruction, decoded for emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computation {
    /// A branch or jump.
    Branch(Branch),
    /// `rd %pc`.
    ReadPc(Reg),
    /// Another instruction, in a delay slot: its copy runs, and execution continues at npc.
    InDelaySlot,
    /// `rd %pc` in a delay slot.
    ReadPcInDelaySlot(Reg),
    /// `done`: ends the innermost trap and skips the instruction that raised it.
    Done,
    /// `retry`: ends the innermost trap and repeats the instruction that raised it, in its delay slot if it is in one.
    Retry,
}

/// A branch or jump, decoded for emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The condition for taking it.
    pub condition: Condition,
    /// The target, if it is taken.
    pub target: Target,
    /// The register that gets the branch's own address.
    pub link: Option<Reg>,
    /// The annul bit: the delay slot runs only if a conditional branch is taken, and never after an unconditional one.
    pub annuls: bool,
    /// `return`: restores the caller's register window.
    pub restores: bool,
}

/// The condition of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// Never.
    Never,
    /// One of the 16 conditions on condition codes, which start at this bit of CCR.
    Codes(u8, u8),
    /// Floating-point condition: the outcomes that branch (bits for equal, less, greater, unordered), and the position
    /// of the condition code in FSR.
    Float(u8, u8),
    /// One of the 8 conditions on a register's signed value.
    Register(u8, Reg),
}

/// The target of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The fixed address in the instruction, as its [`Flow`](crate::insn::Flow) has it.
    Written,
    /// The sum of two registers.
    Sum(Reg, Reg),
    /// The sum of a register and an immediate.
    Off(Reg, i16),
}

/// The floating-point unit is enabled only if both bits are set: PEF in TSTATE's copy of PSTATE, and FEF in FPRS.
const TSTATE_PEF: u64 = 0x10 << 8;
const FPRS_FEF: u64 = 4;

/// Emulates an instruction and sets the pc.
///
/// A fault changes nothing, and the copy raises the exception: the floating-point unit is disabled, the caller's window
/// needs a fill, or the target is not aligned. If the instruction may be in a delay slot, or if the CPU may have
/// changed a register before the exception, the copy runs as one in a slot does.
pub fn emulate(what: &Computation, insn: &Insn, regs: &mut dyn Registers) -> Result<Then, Fault> {
    match what {
        Computation::Branch(branch) => return emulate_branch(branch, insn, regs),
        Computation::ReadPc(to) => {
            set(regs, *to, insn.address);
            regs.set_pc(insn.next());
        }
        Computation::InDelaySlot => {
            return Ok(in_copy(regs, None));
        }
        Computation::ReadPcInDelaySlot(to) => {
            let next = regs.get(NPC);
            set(regs, *to, insn.address);
            regs.set_pc(next);
        }
        Computation::Done | Computation::Retry => {
            let (level, [from, next]) = (regs.get(TL), [TPC, TNPC].map(|reg| regs.get(reg)));
            let Some(outer) = level.checked_sub(1) else { return Ok(in_copy(regs, None)) };
            // TSTATE belongs to the trap level, so it is read before the level changes.
            let state = regs.get(TRAPPED);
            regs.set(TSTATE, state);
            regs.set(TL, outer);
            if *what == Computation::Retry {
                regs.set_pc(from);
                return Ok(Then::DelaySlot { then: next });
            }
            regs.set_pc(next);
        }
    }
    Ok(Then::Onwards)
}

/// Emulates a branch. It fails if the branch itself raises an exception: the FPU is off, the target is misaligned, or `return`
/// needs a window from memory.
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
    Ok(Then::DelaySlot { then: leads_to })
}

/// The continuation of an instruction that runs as a copy: the pc is set to npc. `undo` is a register to restore if
/// the copy raises an exception.
fn in_copy(regs: &mut dyn Registers, undo: Option<(Reg, u64)>) -> Then {
    let to = regs.get(NPC);
    regs.set_pc(to);
    Then::Copy { undo }
}

/// Evaluates a condition. The codes are negative, zero, overflow and carry, from the highest bit down.
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

/// Sets a register; %g0 stays 0.
fn set(regs: &mut dyn Registers, reg: Reg, value: u64) {
    if reg != r(0) {
        regs.set(reg, value);
    }
}

#[cfg(test)]
mod tests;
