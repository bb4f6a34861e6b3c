//! A debugger's single-steps and breakpoints. No instruction is replaced, so the guest cannot see them.
//!
//! A stop must not change the run, and events happen only after a taken branch (`blocks.rs`). If the machine stops in
//! front of a block that falls through, its clock records that the next block continues the line of code. Then no
//! interrupt, no other CPU's turn and no limit of time can take effect before that block.
//!
//! To step, the first block of a run is one instruction long, and all blocks are reported. For a breakpoint, the translator
//! ends blocks in front of its address, and the block that begins there is always reported.

use super::{Inner, Listener, Machine, Stop, StopReason};
use crate::boot::Kernel;
use crate::boot::btf::Btf;
use crate::clock::Ticks;
use crate::cpu::View;
use crate::cpu::debugger::Description;
use crate::cpu::switched::SwitchedPlace;
use crate::unicorn::engine::BlockContext;
use std::collections::BTreeSet;

/// A place in a run, in front of an instruction. The order of two places is that of their turns, then of their times:
/// the CPUs of a machine have clocks of their own, so times alone give no order. Places that differ in the pc alone are
/// unordered: a faulting instruction and the first one of the fault handler have the same time.
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
    /// The place at which a handler was called with this view.
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
    /// Whether runs stop in front of every instruction.
    pub each: bool,
    /// The addresses of the instructions in front of which runs stop.
    pub breaks: BTreeSet<u64>,
    /// Whether runs go on at breakpoints, and only record the last one ([`Machine::take_passed`]).
    pub only_notes: bool,
}

/// The stops that are in force; [`StopsAt`] has the meaning of the first three fields.
pub(crate) struct Exact {
    pub(super) steps: bool,
    pub(super) breaks: BTreeSet<u64>,
    only_notes: bool,
    /// The place where the machine stands when a run begins. The run does not stop there again.
    left: Option<Place>,
    /// The last breakpoint that was passed, with `only_notes`.
    last: Option<Place>,
}

impl<L: Listener> Machine<L> {
    /// The registers as a debugger knows them.
    pub(crate) fn description(&self) -> &'static Description {
        self.inner.view.model.debugger
    }

    /// The offsets at which the kernel saves the registers of a task that no CPU runs. `None` if they are not known for this
    /// ISA, or if the kernel has no BTF.
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
                // A user address is different memory in each address space, so the affected blocks are unknown.
                None => self.core.flush_translations(),
            }
        }
        self.inner.set_gate();
    }

    /// Takes the last breakpoint that was passed since [`StopsAt::only_notes`] was set or since the last call.
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
    /// The gate's handler while runs stop at places: stops the run in front of this block if it is one of them.
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
        self.waiting = self.stop_reason.replace(StopReason::Place);
        cpu.stop();
    }
}
