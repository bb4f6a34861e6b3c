//! Stops at exact places: at one instruction after the other, and at breakpoints that nobody in the guest can see.
//!
//! Events wait at blocks that fall through (`blocks.rs`), so a machine that stands in front of such a block is in the middle of
//! a line of code: its clock remembers that the next block goes on, and neither an event, nor another CPU's turn, nor the end
//! of the run can come in front of it. So stops change nothing.
//!
//! To step, a run begins with a block of one instruction beside the usual ones, and all blocks are reported. At a breakpoint
//! blocks end, and the block that begins there is always reported.

use super::{Inner, Listener, Machine, Stop, Wish};
use crate::boot::Kernel;
use crate::boot::btf::Btf;
use crate::clock::Ticks;
use crate::cpu::View;
use crate::cpu::debugger::Description;
use crate::cpu::switched::SwitchedPlace;
use crate::unicorn::engine::BlockContext;
use std::collections::BTreeSet;

/// A place in a run, in front of an instruction. On several CPUs times are no order, so the turn comes first. Places are
/// ordered up to the pc: a fault's instruction and its handler's first one may have the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The number of turns of CPUs that have begun.
    pub turn: u64,
    /// The CPU's number.
    pub cpu: usize,
    /// The CPU's virtual time in the clock's own unit.
    pub ticks: Ticks,
    /// The address of the instruction.
    pub pc: u64,
}

impl Place {
    /// The place of the instruction that a handler sees.
    pub fn of(cpu: &View) -> Place {
        Place { turn: cpu.turn, cpu: cpu.current, ticks: cpu.clock.at(cpu.pc), pc: cpu.pc }
    }

    /// Whether this place is certainly behind the other one.
    pub fn is_behind(&self, other: &Place) -> bool {
        (self.turn, self.ticks) > (other.turn, other.ticks)
    }
}

/// The places where runs stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopsAt {
    /// In front of every instruction.
    pub each: bool,
    /// In front of the instructions at these addresses.
    pub breaks: BTreeSet<u64>,
    /// Only takes note of the breakpoints that are passed.
    pub only_notes: bool,
}

/// See [`StopsAt`].
pub(crate) struct Exact {
    pub(super) steps: bool,
    pub(super) breaks: BTreeSet<u64>,
    only_notes: bool,
    /// The place where the machine stands when a run begins. The run does not stop there again.
    left: Option<Place>,
    last: Option<Place>,
}

impl<L: Listener> Machine<L> {
    /// The registers as a debugger knows them.
    pub(crate) fn description(&self) -> &'static Description {
        self.inner.view.model.debugger
    }

    /// The place of the registers of tasks that no CPU runs. `None`: it is not known for this ISA, or the kernel has no types.
    pub(crate) fn switched(&self, kernel: &Kernel) -> Option<SwitchedPlace> {
        let switched = self.inner.view.model.tasks.switched?;
        SwitchedPlace::of(switched, &Btf::of(kernel)?, kernel.arch.isa().word)
    }

    /// The place where the machine stands.
    pub fn place(&self) -> Place {
        let (view, pc) = (&self.inner.view, (self.inner.view.model.registers.pc)(&self.core.handle()));
        Place { turn: view.turn, cpu: view.current, ticks: view.clock.time(), pc: pc & view.mask }
    }

    /// Stops runs at these places, and at no others from now on, with [`Stop::Place`]. The guest cannot notice.
    pub fn stop_at_places(&mut self, at: &StopsAt) {
        let is_for_any = at.each || !at.breaks.is_empty();
        let known = self.inner.exact.take();
        let (known, last) = known.map(|exact| (exact.breaks, exact.last)).unwrap_or_default();
        self.inner.exact = is_for_any.then(|| {
            let last = last.filter(|_| at.only_notes);
            Box::new(Exact { steps: at.each, breaks: at.breaks.clone(), only_notes: at.only_notes, left: None, last })
        });
        self.core.ask_for_breaks(!at.breaks.is_empty());
        for address in known.symmetric_difference(&at.breaks) {
            let physical = self.look(|view| view.physical(*address).filter(|_| !(view.model.is_user)(*address)));
            match physical {
                Some(physical) => self.inner.view.ram.translate_again(physical),
                // In other address spaces other memory may be there.
                None => self.core.flush_translations(),
            }
        }
        self.inner.set_gate();
    }

    /// Takes the last breakpoint that was passed since notes were asked for.
    pub fn take_passed(&mut self) -> Option<Place> {
        self.inner.exact.as_mut().and_then(|exact| exact.last.take())
    }

    /// Runs until this virtual time in the clock's own unit, like [`Machine::run_until_ticks`]. It does not stop at the place
    /// `left`, if the machine stands there.
    pub fn run_from(&mut self, left: Option<Place>, limit: Ticks) -> Stop {
        if let Some(exact) = &mut self.inner.exact {
            exact.left = left;
        }
        self.run_to(limit)
    }
}

impl<L: Listener> Inner<L> {
    /// While runs stop at places: any block that is reported.
    pub(super) fn exact_block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>, _: u64) {
        let is_guests = !self.window.holds(pc) && !self.frozen;
        let Some(falls_through) = self.any_block(pc, size, cpu) else { return };
        let now = Place { turn: self.view.turn, cpu: self.view.current, ticks: self.view.clock.time(), pc };
        let Some(exact) = &mut self.exact else { return };
        let is_left = exact.left.take() == Some(now);
        let is_break = exact.breaks.contains(&pc);
        if is_left || !is_guests || !(exact.steps || is_break) || !cpu.handle().goes_straight_on(pc) {
            return;
        }
        if exact.only_notes && !exact.steps {
            exact.last = Some(now);
            return;
        }
        self.view.clock.take_back();
        if falls_through {
            self.view.clock.resume(0, Some(pc));
        }
        // A store to a device may have put the CPU to sleep, which a CPU does at the end of its line of code.
        self.waiting = self.wish.replace(Wish::Place);
        cpu.stop();
    }
}
