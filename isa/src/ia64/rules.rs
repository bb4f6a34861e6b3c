//! Decides which instructions of a bundle may be probed, and how each accepted one runs.
//!
//! An instruction that needs its own address is computed: the CPU core executes it with the pc of the original. Any other
//! one runs in a copy of its bundle. Nothing is boosted: a branch cannot lead back into the middle of a bundle.

use super::bundle::{Bundle, Template, Unit};
use super::decode::{Instruction, in_bundle};
use super::op::{Op, System};
use super::slot::{acts_without_predicate, instruction_slot};
use crate::plan::{Errno::EINVAL, Policy, Refusal, Rule};

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
    /// The CPU core executes it with the pc of the original.
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
    pub static MIDDLE: Rule = Rule::new("predicate-in-slot-1", EINVAL,
        "it writes predicates although its own is false, and Linux cannot change its predicate in slot 1; probe slot 0 or 2 instead");
}
use reasons::*;

/// All reasons for a refusal.
pub static RULES: &[&Rule] = &[&NO_SLOT, &NO_INSTRUCTION, &BREAKPOINT, &LONG, &CHECK, &READS_IP, &PREDICTION, &MIDDLE];

/// Decides whether the instruction in a slot of a bundle may be probed, and how it runs.
pub fn plan(bundle: Bundle, slot: usize, policy: Policy) -> Result<Accepted, Refusal> {
    let named = slot;
    let slot = instruction_slot(bundle, slot).ok_or(NO_SLOT.refusal())?;
    let insn = in_bundle(bundle, slot).ok_or(NO_INSTRUCTION.refusal())?;
    if policy.is_linux() {
        by_linux(bundle, named, &insn)?;
    } else if matches!(insn.op, Op::Break { .. }) {
        return Err(BREAKPOINT.refusal());
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

/// Whether an instruction needs its own address, or may continue elsewhere than at a break behind its copy.
fn needs_its_place(op: &Op) -> bool {
    match op {
        Op::Branch { .. }
        | Op::BranchCall { .. }
        | Op::BranchIndirect { .. }
        | Op::BranchForeign { .. }
        | Op::BranchReturn { .. }
        | Op::BranchCallIndirect { .. }
        | Op::Predict { .. }
        | Op::PredictIndirect { .. }
        | Op::CheckSpeculation { .. }
        | Op::CheckAdvanced { .. }
        | Op::FloatCheck { .. }
        | Op::MoveIp { .. }
        | Op::Break { .. } => true,
        // They change the privilege level, or lead elsewhere.
        Op::System(what) => matches!(what, System::Rfi | System::Epc | System::Vmsw0 | System::Vmsw1),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
