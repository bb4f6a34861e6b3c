//! Snapshots: the state of a stopped machine as named values and pages of memory, in memory and on disk.
//!
//! A snapshot is never a raw copy of the CPU core's data. Every value has a name, and unknown, missing or invalid
//! values are refused. It contains the guest only, not the probe engine. This folder builds without the CPU core.
//! `machine/between_runs.rs` takes and restores snapshots, and `cache.rs` keeps those of booted guests.
//!
//! After a snapshot the running machine loads the values that it has saved and flushes TLB and translations, as a
//! restored machine does. So both runs are equal, and equal to a run without a snapshot. The key in a file's header
//! (kernel, initramfs, command line, machine, point of the run, and a hash of the program's sources) must match.
//! Otherwise the guest is booted and the file written again.

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

/// The state of a stopped machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Everything except the memory.
    pub state: State,
    /// The guest's memory.
    pub memory: Memory,
}

/// Everything except the memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The machine that the snapshot fits.
    pub shape: Build,
    /// The state of each CPU.
    pub cpus: Vec<Cpu>,
    /// The core's state that all CPUs share.
    pub shared: Values,
    /// The number of the CPU that runs next.
    pub current: usize,
    /// The end of that CPU's time slice.
    pub slice_end: Ticks,
    /// The latest time that the guest has read from a clock, on machines whose CPUs are started one after the other.
    #[serde(default)]
    pub latest: Ticks,
    /// The machine's event counters.
    pub counts: Counts,
    /// Console output that was not taken yet.
    pub console: Vec<u8>,
    /// The console text at which the run ends.
    pub console_watch: Option<Vec<u8>>,
    /// The state of the board's devices.
    pub devices: Value,
    /// Whether the guest has freed its init sections.
    pub init_freed: bool,
}

/// The properties that a machine must share with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// The name of the ISA.
    pub arch: String,
    /// The CPU model.
    #[serde(default)]
    pub cpu: String,
    /// The name of the board.
    pub board: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// Physical start of RAM.
    pub ram_start: u64,
    /// Size of the guest's RAM in bytes.
    pub ram: u64,
    /// Size of the probe window after RAM in bytes. The initial page tables follow it.
    pub window: u64,
}

/// The state of a CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// The values of all registers, by name.
    pub registers: Values,
    /// The position of its clock.
    pub clock: Stopped,
    /// The value of the fault address register that the guest has seen.
    pub fault_address: u64,
    /// Whether it sleeps.
    pub halted: bool,
    /// Whether it waits for another CPU to start it.
    #[serde(default)]
    pub parked: bool,
}

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Interrupts delivered.
    pub interrupts: u64,
    /// Exceptions delivered.
    pub exceptions: u64,
    /// System calls made.
    pub system_calls: u64,
    /// Breakpoints that the listener claimed.
    pub claimed: u64,
    /// Fetches from the probe window that faulted because the active page tables did not map it.
    pub window_faults: u64,
}

/// The reason why a snapshot cannot be taken or used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The machine is in a state that has no names.
    #[error("no snapshot can be taken: {0}")]
    NotNow(String),
    /// The snapshot is of another machine.
    #[error("the snapshot does not fit: {what} is {has} in it, and {wanted} here")]
    Foreign {
        /// The differing property.
        what: &'static str,
        /// Its value in the snapshot.
        has: String,
        /// Its value in this machine.
        wanted: String,
    },
    /// It has a value that no machine can have.
    #[error("the snapshot cannot be restored: {0}")]
    Unsound(String),
    /// The file was changed or truncated.
    #[error("the snapshot's file is damaged: {0}")]
    Damaged(String),
    /// It was made from other inputs or by another version of trapline.
    #[error("the snapshot is of {what}")]
    Stale {
        /// The first difference.
        what: &'static str,
    },
}

/// Upper bound of virtual time. Larger values would overflow.
pub const LAST_TIME: Ticks = 1 << 62;

impl Snapshot {
    /// A hash of the whole snapshot, in hexadecimal.
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        // Writing into a hasher cannot fail, and every state has a form in JSON.
        let _ = serde_json::to_writer(&mut hasher, &self.state);
        self.memory.hash_into(&mut hasher);
        hasher.finalize().to_hex().to_string()
    }
}

impl State {
    /// Checks everything that can be checked without a machine.
    pub fn check(&self) -> Result<(), SnapshotError> {
        let unsound = |why: String| Err(SnapshotError::Unsound(why));
        if self.cpus.len() != self.shape.cpus || self.current >= self.cpus.len() {
            return unsound(format!("it has {} CPUs of {}, and number {} runs", self.cpus.len(), self.shape.cpus, self.current));
        }
        if self.latest >= LAST_TIME {
            return unsound("the clock that its CPUs read is beyond all times".into());
        }
        for (number, cpu) in self.cpus.iter().enumerate() {
            if !cpu.clock.is_sound(LAST_TIME) {
                return unsound(format!("the clock of CPU {number} is beyond all times"));
            }
        }
        Ok(())
    }

    /// Checks whether it fits a machine with these properties.
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
