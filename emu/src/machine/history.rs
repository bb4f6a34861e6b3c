//! The machine's interface for recorded runs (`history/`): limits in ticks, and the clocks and devices whose state a
//! recording's marks hash.

use super::{Listener, Machine, Stop};
use crate::clock::Ticks;
use serde_json::Value;

impl<L: Listener> Machine<L> {
    /// Runs until this virtual time in the clock's own unit, or until another reason to stop. The place where it stops
    /// depends on the limit alone, not on stops before it.
    pub fn run_until_ticks(&mut self, limit: Ticks) -> Stop {
        self.run_to(limit)
    }

    /// The limit of the last run.
    pub fn limit(&self) -> Ticks {
        self.inner.limit
    }

    /// The virtual time of each CPU. `None` for a CPU that sleeps or waits to be started: its clock stands wherever runs
    /// have stopped meanwhile, and is set when it wakes.
    pub fn clocks(&self) -> Vec<Option<Ticks>> {
        let inner = &self.inner;
        let clock = |(number, cpu): (usize, &super::SleepingCpu)| match number == inner.view.current {
            _ if cpu.halted || cpu.parked => None,
            true => Some(inner.view.clock.time()),
            false => Some(cpu.clock.time),
        };
        inner.cpus.iter().enumerate().map(clock).collect()
    }

    /// The state of the board's devices, as in a snapshot. The error says why they cannot be saved.
    pub(crate) fn devices(&self) -> Result<Value, String> {
        self.inner.board.save()
    }

    /// Flushes the TLB of the running CPU, in which the core keeps translated addresses.
    pub(crate) fn forget_translated_addresses(&mut self) {
        self.core.flush_tlb();
    }
}
