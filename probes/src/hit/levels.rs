//! The state of hits on one CPU: a stack of the probes that are being processed, and the guest code that runs inside a hit.
//!
//! [`CpuState`] holds one [`Level`] for each of them, with its [`Status`] and, in a delay slot, the computed [`Branch`] in
//! front. The stack has a fixed size, so a hit allocates nothing.

use crate::jprobe::Saved;
use crate::tracepoint::TracepointRun;
use alloc::boxed::Box;
use trapline_isa::arch::Isa;
use trapline_isa::regs::Reg;

/// Linux allows one probe inside another. Two more levels cost nothing.
const DEPTH: usize = 4;

/// The state of a probe that is being processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// HIT_ACTIVE: the pre-handlers run, or a jprobe's handler in guest code.
    Active,
    /// HIT_SS: the copy runs.
    Stepping,
    /// REENTER: the copy runs, inside another probe's processing.
    Reentered,
}

/// A probe that is being processed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) point: u32,
    pub(super) status: Status,
    /// The address of the breakpoint behind the running copy, or 0 if no copy runs.
    pub(super) end: u64,
    /// Whether the copy is that of an instruction in a delay slot. [`CpuState::branches`] holds the result of the computed
    /// branch in front of it.
    pub(super) delayed: bool,
}

/// A computed branch whose delay slot is still to run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Branch {
    /// The branch target.
    pub(super) to: u64,
    /// The register that the branch changed, and its old value.
    pub(super) undo: Option<(Reg, u64)>,
}

/// The processing state of one CPU.
pub(crate) struct CpuState {
    pub(super) levels: [Level; DEPTH],
    pub(super) depth: usize,
    /// The computed branch of each level that is a delayed one.
    branches: [Branch; DEPTH],
    /// The registers and stack that a jprobe's guest handler must not change.
    pub mirror: Saved,
    /// The stack pointer when the CPU last entered a faithful detour.
    pub saving_at: u64,
    /// The state of a run through a tracepoint's own code. Allocated when the first tracepoint is watched.
    pub tracepoint_run: Option<Box<TracepointRun>>,
}

impl CpuState {
    pub fn new(isa: &Isa) -> CpuState {
        let none = Level { point: 0, status: Status::Active, end: 0, delayed: false };
        CpuState {
            levels: [none; DEPTH],
            depth: 0,
            branches: [Branch::default(); DEPTH],
            mirror: Saved::new(isa),
            saving_at: 0,
            tracepoint_run: None,
        }
    }

    #[inline]
    pub(super) fn top(&self) -> Option<Level> {
        self.depth.checked_sub(1).map(|top| self.levels[top])
    }

    #[inline]
    pub(super) fn push(&mut self, level: Level) -> bool {
        let room = self.depth < DEPTH;
        if room {
            self.levels[self.depth] = level;
            self.depth += 1;
        }
        room
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// The computed branch of the topmost level.
    pub(super) fn branch(&mut self) -> Option<&mut Branch> {
        self.branches.get_mut(self.depth.checked_sub(1)?)
    }

    /// Whether the CPU runs the code of a tracepoint.
    #[inline]
    pub(super) fn runs_tracepoint(&self) -> bool {
        self.tracepoint_run.as_ref().is_some_and(|run| run.is_running())
    }

    /// Ends guest code that ran inside a hit. Levels that were pushed inside it and not popped are dropped. Returns the
    /// point of the outer hit.
    pub fn end_of_guest_code(&mut self) -> u32 {
        self.depth = 1;
        self.levels[0].point
    }

    /// Whether a level on this CPU belongs to this point or ends at this step's breakpoint.
    pub fn is_busy_with(&self, point: u32, step_end: u64) -> bool {
        self.levels[..self.depth].iter().any(|level| level.point == point || level.end == step_end)
    }
}
