//! What the machine knows of a probe engine: where its code lies and what it stands for, and whom to call when a CPU
//! comes there. An engine that has only breakpoints says what [`Listener::meaning`], `breakpoint`, `fault` and
//! `interrupted` ask; the rest is there for engines that also jump, follow returns or stop the machine, in the order in
//! which a hit meets it.

use crate::clock::{Detour, Meaning, Ticks};
use crate::cpu::View;
use std::ops::Range;
use trapline_probes::guest::Answer;

/// A probe engine as the machine sees it: whose breakpoints these are, what stands in the window, and who is told when
/// a CPU comes there.
pub trait Listener: 'static {
    /// What an address of the probe window stands for.
    fn meaning(&self, pc: u64) -> Meaning;
    /// A breakpoint in kernel code: ours?
    fn breakpoint(&mut self, cpu: &mut View) -> Answer;
    /// An exception whose pc lies in the probe window, or of a handler in guest code; puts the pc back to where it
    /// belongs.
    fn fault(&mut self, cpu: &mut View, vector: u32) -> Answer;
    /// The trap of a step that the guest takes through its own code, with the pc in the probe window; puts it back to
    /// where it belongs.
    fn stepped(&mut self, cpu: &mut View) -> Answer {
        let _ = cpu;
        Answer::NotOurs
    }
    /// An interrupt is about to be taken inside the probe window; puts the pc back to where it belongs.
    fn interrupted(&mut self, cpu: &mut View);
    /// The detour that starts so far behind the start of the probe window; one with [`Detour::NEVER`] for its end is
    /// none.
    fn detour(&self, offset: u64) -> Option<&Detour> {
        let _ = offset;
        None
    }
    /// What the copy that starts there is of: its address, and its length.
    fn copy(&self, pc: u64) -> Option<(u64, u8)> {
        let _ = pc;
        None
    }
    /// Bytes of the probed instruction in front of what a copy there runs: they are counted behind it, as it may fault.
    fn in_front(&self, pc: u64) -> u64 {
        let _ = pc;
        0
    }
    /// The CPU has come to the start of a detour; its pc is shown as the probe's address and stays what it is; `point`
    /// is that of the detour.
    fn jumped_in(&mut self, cpu: &mut View, point: u32) {
        let _ = (cpu, point);
    }
    /// The same where there is nothing special about it, and the listener is not [busy](Listener::is_busy); then
    /// [`Listener::wants_attention`] need not be asked. False: there is, and nothing has been done.
    fn jumped_in_simply(&mut self, cpu: &mut View, point: u32) -> bool {
        let _ = (cpu, point);
        false
    }
    /// The same where it is a return probe's.
    fn entered_simply(&mut self, cpu: &mut View, point: u32) -> bool {
        let _ = (cpu, point);
        false
    }
    /// Whether the return pad starts there.
    fn returns_at(&self, pc: u64) -> bool {
        let _ = pc;
        false
    }
    /// The CPU has come to the start of a faithful detour, and has saved nothing yet.
    fn saving(&mut self, cpu: &mut View) {
        let _ = cpu;
    }
    /// The CPU has come to the trampoline that faithful detours call; its pc stays what it is.
    fn called(&mut self, cpu: &mut View) {
        let _ = cpu;
    }
    /// The CPU has come to the return pad. False: it cannot go on from there.
    fn returned(&mut self, cpu: &mut View) -> bool {
        let _ = cpu;
        true
    }
    /// Whether the CPU's coming to this address is to be told. Asked when its code is translated, and at places where a
    /// run may be ended; so while more addresses are told than when the machine was made, [`Listener::follows`] says
    /// yes.
    fn watches(&self, pc: u64) -> bool {
        let _ = pc;
        false
    }
    /// The CPU has come to such an address and has not executed what is there. True: the machine stops in front of it.
    /// It may be told again, of the same coming.
    fn arrived(&mut self, cpu: &mut View) -> bool {
        let _ = cpu;
        false
    }
    /// What people call an address, in a report.
    fn name(&self, pc: u64) -> String {
        format!("{pc:#x}")
    }
    /// Whether it is in the middle of something on that CPU. That changes in [`Listener::breakpoint`],
    /// [`Listener::fault`], [`Listener::stepped`] and [`Listener::interrupted`] alone.
    fn is_busy(&self, cpu: usize) -> bool {
        let _ = cpu;
        false
    }
    /// Whether it takes the time of each hit; that may change between runs.
    fn times(&self) -> bool {
        false
    }
    /// Whether every piece of code that runs is to be told. That changes in [`Listener::arrived`] and between runs
    /// alone.
    fn follows(&self) -> bool {
        false
    }
    /// The CPU runs the code in this range, or its beginning.
    fn passed(&mut self, cpu: &mut View, range: Range<u64>) {
        let _ = (cpu, range);
    }
    /// The code that the CPU runs does not go on just now: an interrupt comes, another CPU's turn, or the end of the
    /// run.
    fn rests(&mut self, cpu: &mut View) {
        let _ = cpu;
    }
    /// The time at which the machine should stop for the listener, at the next place where it may.
    fn attention_at(&self) -> Option<Ticks> {
        None
    }
    /// Asked after what happened above: should the machine stop at the next place where it may?
    fn wants_attention(&self) -> bool {
        false
    }
}

/// Nobody: a machine without probes.
impl Listener for () {
    fn meaning(&self, _: u64) -> Meaning {
        Meaning::Guest
    }
    fn breakpoint(&mut self, _: &mut View) -> Answer {
        Answer::NotOurs
    }
    fn fault(&mut self, _: &mut View, _: u32) -> Answer {
        Answer::NotOurs
    }
    fn interrupted(&mut self, _: &mut View) {}
}
