//! Snapshots: a machine between two runs as named values and pages of memory, in memory and on disk.
//!
//! Never a raw copy of what the CPU core holds: every value has a name, and what is unknown, missing or out of range is
//! refused. The probe engine is no part of it: a snapshot is the guest alone. Reading one builds without the CPU core;
//! `machine/between_runs.rs` makes and restores them, `cache.rs` keeps those of booted guests.
//!
//! The machine that goes on loads the very values that it gave, and drops TLB and translations as a restored one does:
//! both runs are the same, and the same as one that was never asked. The key in a file's head (kernel, initial file
//! system, command line, machine, moment, and the sources that the program was built from) must be that of what is to
//! run; otherwise the guest is booted and the file written anew.

#[cfg(feature = "cpu")]
pub mod cache;
pub mod file;
pub mod memory;
pub mod registers;

use crate::clock::{Stopped, Ticks};
use memory::Memory;
use registers::Values;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// A machine between two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// All but its memory.
    pub state: State,
    /// The memory that the guest knows of.
    pub memory: Memory,
}

/// Everything but the memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The machine that it fits.
    pub shape: Build,
    /// What each CPU holds.
    pub cpus: Vec<Cpu>,
    /// What the core holds once for all of them.
    pub shared: Values,
    /// The CPU whose turn it is.
    pub current: usize,
    /// When that turn ends.
    pub slice_end: Ticks,
    /// How often things happened.
    pub counts: Counts,
    /// What was printed and nobody has taken.
    pub console: Vec<u8>,
    /// The text at which a run is to end.
    pub console_watch: Option<Vec<u8>>,
    /// The board's devices.
    pub devices: Value,
    /// The guest has given up its init sections.
    pub init_freed: bool,
}

/// What a machine must be like to take a snapshot in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Its ISA.
    pub arch: String,
    /// Which CPU the guest finds.
    #[serde(default)]
    pub cpu: String,
    /// Its board.
    pub board: String,
    /// How many CPUs.
    pub cpus: usize,
    /// Where RAM starts, physically.
    pub ram_start: u64,
    /// Bytes that the guest was told of.
    pub ram: u64,
    /// Bytes of the probe window behind them; the tables that CPUs start with lie behind that.
    pub window: u64,
}

/// A CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Its registers.
    pub registers: Values,
    /// Its clock.
    pub clock: Stopped,
    /// The fault address that its guest knows of.
    pub fault_address: u64,
    /// It sleeps.
    pub halted: bool,
}

/// How often things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Interrupts delivered.
    pub interrupts: u64,
    /// Exceptions delivered.
    pub exceptions: u64,
    /// System calls.
    pub system_calls: u64,
    /// Breakpoints that the listener claimed.
    pub claimed: u64,
    /// Fetches from the probe window that the page tables in force did not show.
    pub window_faults: u64,
}

/// Why there is no snapshot, or none that can be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SnapshotError {
    /// The machine is in no state that can be told in names.
    #[error("no snapshot can be taken: {0}")]
    NotNow(String),
    /// It is of another machine.
    #[error("the snapshot does not fit: {what} is {has} in it, and {wanted} here")]
    Foreign {
        /// What differs.
        what: &'static str,
        /// What the snapshot has.
        has: String,
        /// This machine's.
        wanted: String,
    },
    /// It holds what no machine can hold.
    #[error("the snapshot cannot be restored: {0}")]
    Unsound(String),
    /// Its file is not what was written.
    #[error("the snapshot's file is damaged: {0}")]
    Damaged(String),
    /// It was made of something else than what is to run now, or by another trapline.
    #[error("the snapshot is of {what}")]
    Stale {
        /// What is not the same.
        what: &'static str,
    },
}

/// Times beyond this would run over.
pub const LAST_TIME: Ticks = 1 << 62;

impl State {
    /// What can be said without a machine.
    pub fn check(&self) -> Result<(), SnapshotError> {
        let unsound = |why: String| Err(SnapshotError::Unsound(why));
        if self.cpus.len() != self.shape.cpus || self.current >= self.cpus.len() {
            return unsound(format!("it has {} CPUs of {}, and number {} runs", self.cpus.len(), self.shape.cpus, self.current));
        }
        for (number, cpu) in self.cpus.iter().enumerate() {
            if !cpu.clock.is_sound(LAST_TIME) {
                return unsound(format!("the clock of CPU {number} is beyond all times"));
            }
        }
        Ok(())
    }

    /// Whether it fits a machine of that shape.
    pub fn fits(&self, machine: &Build) -> Result<(), SnapshotError> {
        let own = &self.shape;
        let differs = |what, has: &dyn ToString, wanted: &dyn ToString| {
            Err(SnapshotError::Foreign { what, has: has.to_string(), wanted: wanted.to_string() })
        };
        match () {
            () if own.arch != machine.arch => differs("the ISA", &own.arch, &machine.arch),
            () if own.cpu != machine.cpu => differs("the CPU", &own.cpu, &machine.cpu),
            () if own.board != machine.board => differs("the board", &own.board, &machine.board),
            () if own.cpus != machine.cpus => differs("the number of CPUs", &own.cpus, &machine.cpus),
            () if own.ram_start != machine.ram_start => differs("the start of RAM", &own.ram_start, &machine.ram_start),
            () if own.ram != machine.ram => differs("the size of RAM in bytes", &own.ram, &machine.ram),
            () if own.window != machine.window => differs("the size of the probe window", &own.window, &machine.window),
            () => Ok(()),
        }
    }
}
