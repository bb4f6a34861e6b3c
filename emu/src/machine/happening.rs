//! A log of events on the CPUs, for comparing runs.

use crate::clock::Ticks;

/// An event on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happening {
    /// The CPU's number.
    pub cpu: usize,
    /// The kind of event.
    pub what: What,
    /// The pc as the guest sees it.
    pub pc: u64,
    /// The virtual time.
    pub time: Ticks,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An interrupt with this number was delivered.
    Interrupt(u32),
    /// An exception with this vector and error code was delivered.
    Exception(u32, Option<u32>),
    /// A system call instruction ran.
    SystemCall,
    /// The CPU started to sleep.
    Halt,
    /// The guest read the clock.
    ClockRead,
}
