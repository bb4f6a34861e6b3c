//! Executes branches, and checks of speculation (`chk.s`, `chk.a`), which branch to recovery code.

use super::super::frame::locals;
use super::super::run::Core;
use super::super::state::{Real, State};
use super::super::{Fault, ar, psr};
use super::Next;
use trapline_isa::ia64::op::{Condition, Op};

/// The bit of `ar.pfs` at which the epilogue count begins.
const PREVIOUS_EC: u32 = 52;
/// The bit of `ar.pfs` at which the privilege level begins.
const PREVIOUS_LEVEL: u32 = 62;

impl Core {
    /// Executes a branch or a check.
    pub(super) fn branch(&mut self, op: &Op, predicate: u8) -> Result<Next, Fault> {
        let state = self.state();
        let ip = state.ip();
        let there = |distance: i64| Ok(Next::Bundle(ip.wrapping_add_signed(distance)));
        let register = |number: u8| state.branch[usize::from(number & 7)].get();
        match *op {
            Op::Branch { condition: Condition::Predicate, distance, .. } => there(distance),
            Op::Branch { condition, distance, .. } => {
                if state.slot() != 2 {
                    return Err(Fault::ILLEGAL);
                }
                if self.loops(condition, predicate) { there(distance) } else { Ok(Next::Slot) }
            }
            Op::BranchIndirect { at, .. } => Ok(Next::Bundle(register(at))),
            Op::BranchCall { link, distance, .. } => {
                state.call(link, ip);
                there(distance)
            }
            Op::BranchCallIndirect { link, at, .. } => {
                let to = register(at);
                state.call(link, ip);
                Ok(Next::Bundle(to))
            }
            Op::BranchReturn { at, .. } => {
                let to = register(at);
                state.return_to_caller();
                Ok(Next::Bundle(to))
            }
            Op::CheckSpeculation { float, register, distance } => {
                if float {
                    state.check_real(&[register], None)?;
                }
                let is_nat = if float { state.f(register) == Real::NAT } else { state.is_nat(register) };
                if is_nat { there(distance) } else { Ok(Next::Slot) }
            }
            Op::CheckAdvanced { float, clear, register, distance } => {
                let number = if float { state.alat_real(register) } else { state.alat_number(register) };
                if state.alat.find(number).is_none() {
                    return there(distance);
                }
                if clear {
                    state.alat.remove(number);
                }
                Ok(Next::Slot)
            }
            _ => Err(Fault::ILLEGAL),
        }
    }

    /// Updates the counters of a loop branch and rotates the registers. Returns whether the branch is taken.
    fn loops(&self, condition: Condition, predicate: u8) -> bool {
        let state = self.state();
        let [count, epilogue] = [ar::LC, ar::EC].map(|number| &state.application[usize::from(number)]);
        if condition == Condition::CountedLoop {
            let again = count.get() != 0;
            count.set(count.get().saturating_sub(1));
            return again;
        }
        let is_counted = matches!(condition, Condition::CountedTop | Condition::CountedExit);
        // The value of p63, which the rotation moves to p16; whether the loop goes on; whether registers rotate.
        let (stage, again, rotates) = if is_counted && count.get() != 0 {
            count.set(count.get() - 1);
            (true, true, true)
        } else if !is_counted && state.p(predicate) {
            (false, true, true)
        } else {
            let left = epilogue.get();
            epilogue.set(left.saturating_sub(1));
            (false, left > 1, left != 0)
        };
        state.set_p(63, stage);
        if rotates {
            state.rotate();
        }
        // `br.ctop` and `br.wtop` are taken while the loop goes on, `br.cexit` and `br.wexit` when it ends.
        let is_top = matches!(condition, Condition::CountedTop | Condition::WhileTop);
        again == is_top
    }
}

impl State {
    /// Calls a function from this bundle: saves the return address, the frame and the epilogue count.
    #[inline(always)]
    pub(super) fn call(&self, link: u8, ip: u64) {
        self.branch[usize::from(link & 7)].set(ip.wrapping_add(16));
        let epilogue = self.application[usize::from(ar::EC)].get() & 0x3f;
        let frame = self.call_frame();
        let previous = frame | epilogue << PREVIOUS_EC | self.level() << PREVIOUS_LEVEL;
        self.application[usize::from(ar::PFS)].set(previous);
    }

    /// Restores the frame, the epilogue count and the privilege level of the caller.
    #[inline(always)]
    pub(super) fn return_to_caller(&self) {
        let previous = self.application[usize::from(ar::PFS)].get();
        self.uncover(previous, locals(previous));
        self.application[usize::from(ar::EC)].set(previous >> PREVIOUS_EC & 0x3f);
        let level = previous >> PREVIOUS_LEVEL;
        if level > self.level() {
            self.status.set(self.status.get() & !(3 << psr::CPL) | level << psr::CPL);
        }
    }
}
