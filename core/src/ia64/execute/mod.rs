//! Executes one instruction whose predicate is true, or that looks at its predicate itself.

mod access;
mod branch;
mod float;
mod integer;
mod moves;
mod quick;
mod system;

pub(super) use quick::Done;

use super::run::Core;
use super::{Fault, Host};
use trapline_isa::ia64::bundle::Unit;
use trapline_isa::ia64::decode::Instruction;
use trapline_isa::ia64::op::Op;

/// The pc behind an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The next slot.
    Slot,
    /// The next slot. The instruction may have changed PSR or a translation, so the block ends and the next fetch translates
    /// the pc again.
    Look,
    /// The first slot of a bundle.
    Bundle(u64),
    /// The pc in the state.
    There,
}

impl Core {
    /// Executes an instruction. A fault leaves the state as it is before the instruction, except for registers that the
    /// register stack engine has stored or loaded.
    #[inline(always)]
    pub(super) fn execute(&mut self, host: &mut impl Host, instruction: &Instruction) -> Result<Next, Fault> {
        let op = &instruction.op;
        if let Some(done) = self.integer(op, instruction.predicate) {
            return done.map(|()| Next::Slot);
        }
        match op {
            Op::Load { .. } | Op::Store { .. } => self.access(host, op).map(|()| Next::Slot),
            Op::Branch { .. }
            | Op::BranchCall { .. }
            | Op::BranchIndirect { .. }
            | Op::BranchReturn { .. }
            | Op::BranchCallIndirect { .. }
            | Op::CheckSpeculation { .. }
            | Op::CheckAdvanced { .. } => self.branch(op, instruction.predicate),
            Op::MultiplyAdd { .. }
            | Op::FloatBinary { .. }
            | Op::FloatSelect { .. }
            | Op::GetFloat { .. }
            | Op::SetFloat { .. } => self.real(op).map(|()| Next::Slot),
            Op::Prefetch { fault: true, count: false, .. }
            | Op::CompareExchange { .. }
            | Op::Exchange { .. }
            | Op::FetchAdd { .. }
            | Op::LoadFloat { .. }
            | Op::LoadFloatPair { .. }
            | Op::StoreFloat { .. } => self.access(host, op).map(|()| Next::Slot),
            // The number of `break.b` is not reported.
            Op::Break { .. } if instruction.unit == Unit::B => self.system(host, &Op::Break { number: 0 }),
            // A long one reports the lowest 21 bits of its number.
            Op::Break { number } if instruction.unit == Unit::X => self.system(host, &Op::Break { number: number & 0x1f_ffff }),
            _ => self.other(host, op),
        }
    }

    fn other(&mut self, host: &mut impl Host, op: &Op) -> Result<Next, Fault> {
        match self.moves(host, op) {
            Some(done) => done,
            None => self.system(host, op),
        }
    }
}
