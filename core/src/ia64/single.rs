//! Runs instructions one by one, without blocks.

use super::bundles::Decoded;
use super::execute::Next;
use super::run::Core;
use super::state::State;
use super::{Fault, Host};
use trapline_isa::ia64::bundle::{Bundle, SLOTS};
use trapline_isa::ia64::decode::Instruction;
use trapline_isa::ia64::op::{Op, System, Update};

impl Core {
    /// Runs without blocks until [`State::stop`] is set or `slots` slots have run. A long instruction counts once.
    /// External interrupts are the host's: [`State::wants_interrupt`].
    pub fn run_slots(&mut self, host: &mut impl Host, slots: u64) {
        // The host may have changed anything.
        self.state.has_changed();
        let end = self.state.executed.get().saturating_add(slots);
        while self.state.stop.get() == 0 && self.state.executed.get() < end {
            let found = self.complete_frame(host).and_then(|()| self.fetch());
            let physical = match found {
                Ok(physical) => physical,
                Err(fault) => {
                    self.raise(host, fault);
                    continue;
                }
            };
            let Some(bundle) = self.decoded(host, physical) else {
                self.raise(host, Fault::ILLEGAL);
                continue;
            };
            self.run_bundle(host, &bundle, end);
        }
        self.state.stop.set(0);
    }

    /// Executes the instruction at the pc as if memory had this bundle there: for an instruction under a breakpoint. An
    /// incomplete frame is loaded first. The instruction may raise an interruption, like any other.
    pub fn run_instead(&mut self, host: &mut impl Host, bundle: Bundle) {
        // The host may have changed anything.
        self.state.has_changed();
        match self.complete_frame(host) {
            Ok(()) => {
                let end = self.state.executed.get().saturating_add(1);
                self.run_bundle(host, &Decoded::of(u64::MAX, bundle.0), end);
            }
            Err(fault) => self.raise(host, fault),
        }
    }

    /// Runs the slots of a bundle from the pc's slot on, to the first that leaves it.
    #[inline(always)]
    fn run_bundle(&mut self, host: &mut impl Host, bundle: &Decoded, end: u64) {
        while self.state.executed.get() < end {
            match self.step(host, bundle) {
                Err(fault) => return self.raise(host, fault),
                Ok(Next::Slot) if self.state.slot() != 0 && self.state.stop.get() == 0 => {}
                Ok(_) => return,
            }
        }
    }

    /// Executes the instruction at the pc, which is in this bundle, and sets the pc behind it.
    #[inline(always)]
    pub(super) fn step(&mut self, host: &mut impl Host, bundle: &Decoded) -> Result<Next, Fault> {
        let state = &self.state;
        let mut slot = state.slot();
        // A long instruction is named by slot 1.
        if bundle.is_long && slot != 0 {
            state.set_slot(1);
            slot = 2;
        }
        let Some(instruction) = bundle.slots.get(slot as usize).copied().flatten() else { return Err(Fault::ILLEGAL) };
        let state = self.shared_state();
        self.step_in(host, &state, &instruction, slot)
    }

    /// Executes an instruction in this slot, and sets the pc behind it.
    #[inline(always)]
    pub(super) fn step_in(
        &mut self,
        host: &mut impl Host,
        state: &State,
        instruction: &Instruction,
        slot: u32,
    ) -> Result<Next, Fault> {
        let next = match is_live(state, instruction) {
            true => self.execute(host, instruction)?,
            false => Next::Slot,
        };
        let last = state.ip();
        state.executed.set(state.executed.get() + 1);
        match next {
            Next::Slot | Next::Look if slot + 1 < SLOTS as u32 => state.set_slot(slot + 1),
            Next::Slot | Next::Look => state.go_to(last.wrapping_add(16)),
            Next::Bundle(to) => state.go_to(to),
            Next::There => {}
        }
        if !matches!(next, Next::There) && !self.in_window {
            state.last.set(last);
        }
        Ok(next)
    }
}

/// Whether an instruction does anything: its predicate is true, or it writes its target predicates anyway, or it is `rfi`,
/// which has no predicate, or a loop branch, which looks at its predicate itself.
#[inline(always)]
fn is_live(state: &State, instruction: &Instruction) -> bool {
    state.p(instruction.predicate) || acts_without_predicate(instruction)
}

/// Whether an instruction does something although its predicate is false.
pub(super) fn acts_without_predicate(instruction: &Instruction) -> bool {
    match instruction.op {
        Op::Compare { update, .. } | Op::Test { update, .. } => update == Update::Unconditional,
        Op::FloatCompare { unconditional, .. } | Op::FloatClass { unconditional, .. } => unconditional,
        Op::Branch { condition, .. } => condition != trapline_isa::ia64::op::Condition::Predicate,
        Op::System(System::Rfi) => true,
        _ => false,
    }
}
