//! Repeated instructions (x86 `rep`) that an interrupt has stopped half-way in their slot.
//!
//! When the interrupt returns, the CPU comes back to the breakpoint. A hit with the same task, stack pointer and
//! progress registers is the same execution: it continues in the slot and does not count as a second hit.

use crate::guest::Cpu;
use trapline_isa::arch::Isa;
use trapline_isa::insn::{Insn, Progress};

/// The largest number of executions that can be paused at a time. Beyond that the oldest is evicted and will count as
/// another hit. Evictions are counted.
const MOST: usize = 64;

/// One execution of a repeated instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Execution {
    point: u32,
    task: u64,
    sp: u64,
    progress: [u64; Progress::MOST],
}

impl Execution {
    /// The execution that this CPU is in if it runs this instruction of this point.
    pub fn of(cpu: &mut dyn Cpu, isa: &Isa, insn: &Insn, point: u32) -> Execution {
        let mut progress = [0; Progress::MOST];
        for (value, reg) in progress.iter_mut().zip((isa.progress)(insn).registers()) {
            *value = cpu.get(reg);
        }
        Execution { point, task: cpu.task(), sp: cpu.get(isa.abi.sp), progress }
    }
}

/// The paused executions, in a ring once it is full.
pub(crate) struct Paused {
    executions: [Execution; MOST],
    len: usize,
    oldest: usize,
}

impl Paused {
    pub fn new() -> Paused {
        Paused { executions: [Execution::default(); MOST], len: 0, oldest: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an execution. Returns true if an older one had to be evicted.
    pub fn add(&mut self, execution: Execution) -> bool {
        let is_full = self.len == MOST;
        if !is_full {
            self.executions[self.len] = execution;
            self.len += 1;
        } else {
            self.executions[self.oldest] = execution;
            self.oldest = (self.oldest + 1) % MOST;
        }
        is_full
    }

    /// Removes this execution. Returns whether it was paused.
    pub fn take(&mut self, execution: &Execution) -> bool {
        let Some(at) = self.executions[..self.len].iter().position(|known| known == execution) else { return false };
        self.executions.copy_within(at + 1..self.len, at);
        (self.len, self.oldest) = (self.len - 1, 0);
        true
    }

    pub fn forget_task(&mut self, task: u64) {
        self.keep(|known| known.task != task);
    }

    pub fn forget_point(&mut self, point: u32) {
        self.keep(|known| known.point != point);
    }

    fn keep(&mut self, mut wanted: impl FnMut(&Execution) -> bool) {
        let mut kept = 0;
        for at in 0..self.len {
            if wanted(&self.executions[at]) {
                self.executions[kept] = self.executions[at];
                kept += 1;
            }
        }
        if kept != self.len {
            (self.len, self.oldest) = (kept, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{TOY, sample};
    use std::sync::LazyLock;
    use trapline_isa::insn::Flow;

    /// The toy's repeated store.
    static FILL: LazyLock<Insn> = LazyLock::new(|| Insn::new(0x1000, &[0x05], Flow::Next));

    /// Two executions are equal only if point, task, stack pointer and progress agree.
    #[test]
    fn an_execution_matches_only_if_every_field_agrees() {
        let mut guest = sample::kernel(1);
        let mut of = |point, task, sp, left| {
            (guest.cpus[0].task, guest.cpus[0].registers[8], guest.cpus[0].registers[1]) = (task, sp, left);
            Execution::of(&mut guest.cpu(0), &TOY, &FILL, point)
        };
        let stopped = of(1, 2, 3, 4);
        let mut paused = Paused::new();
        assert!(!paused.add(stopped));
        for other in [of(9, 2, 3, 4), of(1, 9, 3, 4), of(1, 2, 9, 4), of(1, 2, 3, 9)] {
            assert!(!paused.take(&other), "{other:?}");
        }
        assert!(paused.take(&stopped) && !paused.take(&stopped) && paused.is_empty());
    }

    #[test]
    fn the_oldest_execution_is_evicted_and_dead_tasks_are_removed() {
        let mut guest = sample::kernel(1);
        let mut of = |task: u64| {
            guest.cpus[0].task = task;
            Execution::of(&mut guest.cpu(0), &TOY, &FILL, task as u32 % 2)
        };
        let mut paused = Paused::new();
        let forgotten = (0..=MOST as u64).filter(|task| paused.add(of(*task))).count();
        assert_eq!(forgotten, 1);
        assert!(!paused.take(&of(0)) && paused.take(&of(1)));
        paused.forget_task(2);
        assert!(!paused.take(&of(2)) && paused.take(&of(3)));
        paused.forget_point(0);
        assert!(!paused.take(&of(4)) && paused.take(&of(5)));
    }
}
