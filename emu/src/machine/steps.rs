//! An instruction trace, with which `verify/` finds the first difference between two runs. While it is made, the core
//! translates every instruction as a block of its own. Interrupts and stops do not depend on where blocks end, so the
//! guest's run stays the same.

use super::{Inner, Listener, Machine};
use crate::clock::Ticks;
use crate::unicorn::engine::Handle;

/// The largest number of instructions in a trace. Later instructions are not recorded.
pub const MOST_STEPS: usize = 200_000;

/// The state of a CPU in front of an instruction of the guest's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The CPU's number.
    pub cpu: usize,
    /// The instruction's address.
    pub pc: u64,
    /// The virtual time.
    pub time: Ticks,
    /// The values of the registers, in the order of [`Machine::registers`].
    pub registers: Vec<u64>,
    /// The eight bytes at each watched physical address.
    pub watched: Vec<[u8; 8]>,
}

/// The trace, and the physical addresses whose bytes it records.
pub(crate) struct Steps {
    watched: Vec<u64>,
    all: Vec<Step>,
}

impl<L: Listener> Machine<L> {
    /// Records every instruction of the guest's own from now on, with the eight bytes at each of these physical
    /// addresses. Instructions that run in the probe window are left out.
    pub fn record_steps(&mut self, watched: Vec<u64>) {
        self.inner.steps = Some(Box::new(Steps { watched, all: Vec::new() }));
        self.core.set_one_by_one(true);
        self.inner.set_gate();
    }

    /// Takes the trace, and stops recording.
    pub fn take_steps(&mut self) -> Vec<Step> {
        let steps = self.inner.steps.take();
        self.core.set_one_by_one(false);
        self.inner.set_gate();
        steps.map(|steps| steps.all).unwrap_or_default()
    }
}

impl<L: Listener> Inner<L> {
    /// Notes an instruction that is about to run.
    pub(super) fn note_step(&mut self, handle: &Handle, pc: u64) {
        let Some(steps) = self.steps.as_mut().filter(|steps| steps.all.len() < MOST_STEPS) else { return };
        let bytes_at = |at: &u64| {
            let mut bytes = [0; 8];
            self.view.ram.read(*at, &mut bytes);
            bytes
        };
        let watched = steps.watched.iter().map(bytes_at).collect();
        let mask = self.view.mask;
        let registers = (self.view.model.registers.dump)(handle).into_iter().map(|(_, value)| value & mask).collect();
        steps.all.push(Step { cpu: self.view.current, pc, time: self.view.clock.time(), registers, watched });
    }
}
