//! What happened to CPUs and when, for comparing runs.

use crate::clock::Ticks;

/// Something that happened to a CPU, for comparing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happening {
    /// Which CPU.
    pub cpu: usize,
    /// What has happened.
    pub what: What,
    /// Where, as the guest sees it.
    pub pc: u64,
    /// When it has happened.
    pub time: Ticks,
}

/// Kinds of happenings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An interrupt was delivered: its number.
    Interrupt(u32),
    /// An exception was delivered: its vector, and its error code if it has one.
    Exception(u32, Option<u32>),
    /// A system call instruction ran.
    SystemCall,
    /// The CPU went to sleep.
    Halt,
    /// The guest read the clock.
    ClockRead,
}
