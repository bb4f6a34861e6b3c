//! The machine's interface to a probe engine, in seven parts by duty. An engine with breakpoints only implements [`Traps`]
//! and [`ProbeWindow::meaning`], and leaves the defaults of the other parts. [`Listener`] is all of them.

use super::Place;
use crate::clock::{DetourTiming, Meaning, Ticks};
use crate::cpu::View;
use std::ops::Range;
use trapline_probes::guest::Answer;
use trapline_probes::watch;

/// A probe engine as the machine sees it. It claims breakpoints, knows the contents of the probe window, and is called
/// when a CPU gets there.
pub trait Listener: Traps + ProbeWindow + Detours + Follower + UserCode + Watcher + Attention + 'static {}

impl<L: Traps + ProbeWindow + Detours + Follower + UserCode + Watcher + Attention + 'static> Listener for L {}

/// Handles traps: the engine's breakpoints, and exceptions in the probe window.
pub trait Traps {
    /// Handles a breakpoint in kernel code. Returns whether it belongs to the engine, and how to resume.
    fn breakpoint(&mut self, cpu: &mut View) -> Answer;
    /// Handles an exception in the probe window or in a handler in guest code (a jprobe's). Sets the pc to the original
    /// address.
    fn fault(&mut self, cpu: &mut View, vector: u32) -> Answer;
    /// Handles the guest's own single-step trap in the probe window. Sets the pc to the original address.
    fn stepped(&mut self, cpu: &mut View) -> Answer {
        let _ = cpu;
        Answer::NotOurs
    }
    /// Called before an interrupt is delivered inside the probe window. Sets the pc to the original address.
    fn interrupted(&mut self, cpu: &mut View);
    /// Whether a hit is in progress on that CPU. Only [`Traps::breakpoint`], [`Traps::fault`],
    /// [`Traps::stepped`] and [`Traps::interrupted`] change this.
    fn is_busy(&self, cpu: usize) -> bool {
        let _ = cpu;
        false
    }
    /// Whether the host time of each hit is measured. Changes only between runs.
    fn times(&self) -> bool {
        false
    }
}

/// The contents of the probe window.
pub trait ProbeWindow {
    /// The meaning of an address in the probe window for the clock.
    fn meaning(&self, pc: u64) -> Meaning;
    /// The detour at this offset from the window's start. A result with the end [`DetourTiming::NEVER`] is not a detour.
    fn detour(&self, offset: u64) -> Option<&DetourTiming> {
        let _ = offset;
        None
    }
    /// The probed address and the instruction's length, if a copy starts at `pc`.
    fn copy(&self, pc: u64) -> Option<(u64, u8)> {
        let _ = pc;
        None
    }
    /// Bytes of the probed instruction that are counted only after the copy at `pc`, because the copy may fault.
    fn in_front(&self, pc: u64) -> u64 {
        let _ = pc;
        0
    }
    /// The guest's own address of an instruction in the window; `None` for code that stands for none.
    fn original(&self, pc: u64) -> Option<u64> {
        match self.meaning(pc) {
            Meaning::Copy { origin, .. } => Some(origin.wrapping_add(self.in_front(pc))),
            _ => None,
        }
    }
    /// Whether the return pad starts at `pc`.
    fn returns_at(&self, pc: u64) -> bool {
        let _ = pc;
        false
    }
}

/// Arrivals in the probe window without a trap: at a detour, at its trampoline, and at the return pad.
pub trait Detours {
    /// The CPU is at the start of a detour. `cpu` has the probed address as its pc, which handlers cannot change.
    /// `point` is the detour's point.
    fn jumped_in(&mut self, cpu: &mut View, point: u32) {
        let _ = (cpu, point);
    }
    /// Fast path of [`Detours::jumped_in`]. Called only while the listener is not [busy](Traps::is_busy), and
    /// [`Attention::wants_attention`] need not be asked after it. Returns false, having done nothing, if the fast path
    /// does not apply.
    fn jumped_in_simply(&mut self, cpu: &mut View, point: u32) -> bool {
        let _ = (cpu, point);
        false
    }
    /// Fast path of [`Detours::jumped_in`] for a return probe. Returns false, having done nothing, if it does not
    /// apply.
    fn entered_simply(&mut self, cpu: &mut View, point: u32) -> bool {
        let _ = (cpu, point);
        false
    }
    /// The CPU is at the start of a faithful detour and has saved nothing yet.
    fn saving(&mut self, cpu: &mut View) {
        let _ = cpu;
    }
    /// The CPU is at the trampoline that faithful detours call. Handlers cannot change its pc.
    fn called(&mut self, cpu: &mut View) {
        let _ = cpu;
    }
    /// The CPU is at the return pad. Returns false if it cannot continue.
    fn returned(&mut self, cpu: &mut View) -> bool {
        let _ = cpu;
        true
    }
}

/// Code of the guest that the engine follows: addresses that it watches, and blocks.
pub trait Follower {
    /// Whether [`Follower::arrived`] shall be called at `pc`. The machine asks when it translates code, and at block
    /// starts where a run may end. While the answer is yes for more addresses than at the machine's creation,
    /// [`Follower::follows`] must return true.
    fn watches(&self, pc: u64) -> bool {
        let _ = pc;
        false
    }
    /// The CPU is about to execute a watched address. Returns true to stop the machine before it. The machine may call it
    /// more than once for one arrival.
    fn arrived(&mut self, cpu: &mut View) -> bool {
        let _ = cpu;
        false
    }
    /// Whether [`Follower::passed`] shall be called for every block. Changes only in [`Follower::arrived`] and between
    /// runs.
    fn follows(&self) -> bool {
        false
    }
    /// The CPU starts a block, whose code is in this range. An exception may end the block early.
    fn passed(&mut self, cpu: &mut View, range: Range<u64>) {
        let _ = (cpu, range);
    }
    /// The core has stopped: for an interrupt, a switch to another CPU, or the end of the run.
    fn rests(&mut self, cpu: &mut View) {
        let _ = cpu;
    }
    /// An interrupt is delivered next, and `cpu` is still in the interrupted code. Returns true to stop the machine before
    /// the interrupt handler runs.
    fn gives_way(&mut self, cpu: &mut View) -> bool {
        let _ = cpu;
        false
    }
    /// The turn of the CPU with this number begins. Returns true to stop the machine before it. Not called with one CPU.
    fn turns(&mut self, next: usize) -> bool {
        let _ = next;
        false
    }
}

/// Observed instructions of user programs. `cpu` has the program's registers, and its task as the running one.
pub trait UserCode {
    /// A program is about to execute the instruction at a point.
    fn user_hit(&mut self, cpu: &mut View, point: u32) {
        let _ = (cpu, point);
    }
    /// A program has arrived at an address that a handler wanted to observe.
    fn user_arrival(&mut self, cpu: &mut View) {
        let _ = cpu;
    }
    /// The instruction at the pc has faulted. The program may execute it again.
    fn user_fault(&mut self, cpu: &mut View) {
        let _ = cpu;
    }
}

/// Accesses to watched memory.
pub trait Watcher {
    /// An access to the area of this number was made. The CPU may be in the middle of a block: registers can be read, and
    /// the pc is that of the accessing instruction.
    fn accessed(&mut self, cpu: &mut View, area: usize, access: &watch::Access) {
        let _ = (cpu, area, access);
    }
    /// The bytes of an area have changed without an access that was seen.
    fn changed_unseen(&mut self, area: usize) {
        let _ = area;
    }
    /// Translated code is about to access memory; only if [`Machine::tell_each_access`](super::Machine::tell_each_access)
    /// asked for these calls. `time` is in nanoseconds.
    fn each_access(&mut self, pc: u64, time: u64, address: u64, size: u32, is_write: bool) {
        let _ = (pc, time, address, size, is_write);
    }
    /// Whether [`Watcher::excepted`] shall be called.
    #[inline(always)]
    fn wants_exceptions(&self) -> bool {
        false
    }
    /// The kernel has interrupted itself with an exception, whose handler has not begun.
    fn excepted(&mut self, exception: &Excepted) {
        let _ = exception;
    }
}

/// An exception that a CPU took in kernel mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excepted {
    /// The place of the instruction that it interrupted.
    pub place: Place,
    /// The CPU's number of this exception.
    pub vector: u32,
    /// The CPU's register for the faulting address. Other exceptions than faults of memory leave it as it was.
    pub address: u64,
}

/// Reasons to stop the machine, and names for its messages.
pub trait Attention {
    /// The virtual time from which on the machine shall stop for the listener at the next possible block start.
    fn attention_at(&self) -> Option<Ticks> {
        None
    }
    /// Whether the machine shall stop at the next possible block start. Asked after the calls above.
    fn wants_attention(&self) -> bool {
        false
    }
    /// The name of an address, for reports.
    fn name(&self, pc: u64) -> String {
        format!("{pc:#x}")
    }
}

/// No probe engine: a machine without probes.
impl Traps for () {
    fn breakpoint(&mut self, _: &mut View) -> Answer {
        Answer::NotOurs
    }
    fn fault(&mut self, _: &mut View, _: u32) -> Answer {
        Answer::NotOurs
    }
    fn interrupted(&mut self, _: &mut View) {}
}

impl ProbeWindow for () {
    fn meaning(&self, _: u64) -> Meaning {
        Meaning::Guest
    }
}

impl Detours for () {}
impl Follower for () {}
impl UserCode for () {}
impl Watcher for () {}
impl Attention for () {}
