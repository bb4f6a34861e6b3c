//! Decides which instructions of a bundle may be probed, and how each accepted one runs.
//!
//! An instruction that needs its own address is computed. Any other one runs in a copy of its bundle. Nothing is boosted: a branch cannot lead back into the middle of a bundle.

use super::bundle::{Bundle, Template, Unit};
use super::decode::{Instruction, in_bundle};
use super::insn::place;
use super::op::{Op, System};
use super::slot::{acts_without_predicate, instruction_slot};
use crate::arch::Emulation;
use crate::insn::Insn;
use crate::plan::{Errno::EINVAL, Plan, Policy, Refusal, Rule};

/// An accepted instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its slot: 2 for the long instruction of an MLX bundle.
    pub slot: usize,
    /// The way in which it runs.
    pub runs: Runs,
}

/// The way in which an accepted instruction runs at a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// It is emulated with the pc of the original.
    Computed,
    /// It runs in a copy of its bundle, and a break ends the step.
    Stepped,
}

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static NO_SLOT: Rule = Rule::new("no-slot", EINVAL,
        "a bundle has the slots 0 to 2, and the address names none of them; add the slot's number to the bundle's address");
    pub static NO_INSTRUCTION: Rule = Rule::new("no-instruction", EINVAL,
        "the CPU knows no such instruction or no such template; this is no code");
    pub static BREAKPOINT: Rule = Rule::new("foreign-breakpoint", EINVAL,
        "the instruction is already a break: a breakpoint, a system call or that of a BUG(); probe the next instruction instead");
    pub static LONG: Rule = Rule::new("second-half", EINVAL,
        "Linux names the long instruction of an MLX bundle by slot 1; probe that slot instead");
    pub static CHECK: Rule = Rule::new("speculation-check", EINVAL,
        "Linux does not probe chk.s of the I unit; probe a neighbour instead");
    pub static READS_IP: Rule = Rule::new("mov-from-ip", EINVAL,
        "Linux does not probe an instruction that reads the pc; probe a neighbour instead");
    pub static PREDICTION: Rule = Rule::new("branch-prediction", EINVAL,
        "Linux does not probe branch predictions; probe a neighbour instead");
    pub static GATE: Rule = Rule::new("gate", EINVAL,
        "its page gives it the privilege level that it sets, and a copy is in another page; probe the instruction behind it instead");
    pub static NO_JUMP_BACK: Rule = Rule::new("no-jump-back", EINVAL,
        "a branch cannot lead into the middle of a bundle, so no jump back can follow a copy");
    pub static MIDDLE: Rule = Rule::new("predicate-in-slot-1", EINVAL,
        "it writes predicates although its own is false, and Linux cannot change its predicate in slot 1; probe slot 0 or 2 instead");
}
pub(super) use reasons::*;

/// All reasons for a refusal.
pub static RULES: &[&Rule] =
    &[&NO_SLOT, &NO_INSTRUCTION, &BREAKPOINT, &LONG, &CHECK, &READS_IP, &PREDICTION, &GATE, &NO_JUMP_BACK, &MIDDLE];

/// Decides whether an instruction may be probed, and how it runs.
pub fn plan(insn: &Insn, policy: Policy) -> Result<Plan, Refusal> {
    let (bundle, slot) = place(insn);
    // Linux names a long instruction by slot 1.
    let named = if bundle.template().is_some_and(Template::is_long) { slot.min(1) } else { slot };
    let accepted = decide(bundle, named, policy)?;
    Ok(match accepted.runs {
        // A decoded operation would make each probe on every ISA larger.
        Runs::Computed => Plan::Emulate(Emulation::AsWritten),
        Runs::Stepped => Plan::Step,
    })
}

/// Decides whether the instruction in a slot of a bundle may be probed, and how it runs.
pub fn decide(bundle: Bundle, slot: usize, policy: Policy) -> Result<Accepted, Refusal> {
    let named = slot;
    let slot = instruction_slot(bundle, slot).ok_or(NO_SLOT.refusal())?;
    let insn = in_bundle(bundle, slot).ok_or(NO_INSTRUCTION.refusal())?;
    if policy.is_linux() {
        by_linux(bundle, named, &insn)?;
    } else {
        match insn.op {
            Op::Break { .. } => return Err(BREAKPOINT.refusal()),
            Op::System(System::Epc) => return Err(GATE.refusal()),
            _ => {}
        }
    }
    Ok(Accepted { slot, runs: if needs_its_place(&insn.op) { Runs::Computed } else { Runs::Stepped } })
}

/// The rules of Linux 6.1, for an instruction that exists. Linux would accept a word that is none, and crash at its hit.
fn by_linux(bundle: Bundle, named: usize, insn: &Instruction) -> Result<(), Refusal> {
    let is_long = bundle.template().is_some_and(Template::is_long);
    let refused = match insn.op {
        _ if is_long && named == 2 => Some(&LONG),
        Op::CheckSpeculation { .. } if insn.unit == Unit::I => Some(&CHECK),
        Op::MoveIp { .. } => Some(&READS_IP),
        Op::Predict { .. } | Op::PredictIndirect { .. } => Some(&PREDICTION),
        // The loop branches look at their predicate by themselves, but Linux does not know.
        Op::Branch { .. } => None,
        ref op if named == 1 && !is_long && insn.predicate != 0 && acts_without_predicate(op) => Some(&MIDDLE),
        _ => None,
    };
    refused.map_or(Ok(()), |rule| Err(rule.refusal()))
}

/// Whether an instruction needs its own address. A break, a branch to another instruction set and a change of the virtual mode
/// raise their exception in the copy.
fn needs_its_place(op: &Op) -> bool {
    match op {
        Op::Branch { .. }
        | Op::BranchCall { .. }
        | Op::BranchIndirect { .. }
        | Op::BranchReturn { .. }
        | Op::BranchCallIndirect { .. }
        | Op::Predict { .. }
        | Op::PredictIndirect { .. }
        | Op::CheckSpeculation { .. }
        | Op::CheckAdvanced { .. }
        | Op::FloatCheck { .. }
        | Op::MoveIp { .. } => true,
        Op::System(what) => matches!(what, System::Rfi),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
