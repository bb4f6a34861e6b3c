//! The configuration of a machine. The boards and the machine both read it.

use crate::boot::guest_files::Sources;
use crate::boot::whole::Whole;
use crate::devices::virtio::Attached;
#[cfg(feature = "cpu")]
use crate::devices::virtio::net::Network;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The configuration of a machine, made by a chain of calls.
///
/// ```
/// use trapline::{Config, Kernel, Session, images};
///
/// let kernel = Kernel::from_bytes(images::find("tiny/arm64").ok_or("not built in")?.bytes)?;
/// let mut session = Session::new(kernel, &Config::new().cpus(2).command_line("quiet"))?;
/// assert_eq!(session.machine_mut().pcs().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of CPUs.
    pub cpus: usize,
    /// The kernel's command line.
    pub command_line: String,
    /// Size of the probe window in bytes. One probe takes 64 bytes.
    pub window: u64,
    /// Whether to log every interrupt, exception and system call.
    #[doc(hidden)]
    pub record_events: bool,
    /// Bytes of RAM that the board reports to the guest. `None` means the board's default.
    pub ram: Option<u64>,
    /// The initial file system, for kernels that take one.
    pub initrd: Option<Arc<[u8]>>,
    /// Calls the machine at every block, so that no block counts its own time. This is slow but gives the identical
    /// run; tests use it.
    #[doc(hidden)]
    pub every_block: bool,
    /// Collects the blocks of kernel code that run. Guest time stays the same.
    pub coverage: bool,
    /// The number of traps and turns without progress of virtual time after which the run ends.
    #[doc(hidden)]
    pub patience: u32,
    /// The name of the CPU that the guest sees (`Model::choices`). `None` means the ISA's default.
    pub cpu: Option<String>,
    /// The self-extracting kernel image, to unpack the kernel inside the guest. `None` loads the kernel already
    /// unpacked.
    pub whole: Option<Arc<Whole>>,
    /// The virtio devices, such as disks, in the board's order.
    pub attached: Vec<Attached>,
    /// Sources of the guest's files besides the initial file system, for probes in user programs.
    pub files: Sources,
    /// Draws the turns of several CPUs. `None` means turns of equal length in the order of the CPUs' times.
    pub turns: Option<Draws>,
}

/// Turns of several CPUs whose lengths and order are drawn from a seed. Equal draws give the equal run, probed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draws {
    /// The seed of the generator.
    pub seed: u64,
    /// The longest turn, in nanoseconds of guest time.
    pub longest: u64,
}

impl Config {
    /// One CPU and the board's usual memory.
    pub fn new() -> Config {
        Config::default()
    }

    /// Sets the number of CPUs.
    #[must_use]
    pub fn cpus(self, cpus: usize) -> Config {
        Config { cpus, ..self }
    }

    /// Sets the kernel's command line.
    #[must_use]
    pub fn command_line(self, command_line: impl Into<String>) -> Config {
        Config { command_line: command_line.into(), ..self }
    }

    /// Sets the bytes of RAM that the board reports to the guest.
    #[must_use]
    pub fn ram(self, bytes: u64) -> Config {
        Config { ram: Some(bytes), ..self }
    }

    /// Sets the initial file system: a cpio archive, compressed or not.
    #[must_use]
    pub fn initrd(self, archive: impl Into<Arc<[u8]>>) -> Config {
        Config { initrd: Some(archive.into()), ..self }
    }

    /// Sets the CPU that the guest sees, such as `cortex-a72`. An unknown name is refused with a list of the known ones
    /// when the machine is made.
    #[must_use]
    pub fn cpu(self, name: impl Into<String>) -> Config {
        Config { cpu: Some(name.into()), ..self }
    }

    /// Draws the turns of several CPUs from a seed. `longest` is the longest turn in nanoseconds of guest time.
    #[must_use]
    pub fn drawn_turns(self, seed: u64, longest: u64) -> Config {
        Config { turns: Some(Draws { seed, longest }), ..self }
    }

    /// Sets the size of the probe window in bytes. One probe takes 64 bytes.
    #[must_use]
    pub fn window(self, bytes: u64) -> Config {
        Config { window: bytes, ..self }
    }
}

/// The ties of a machine's devices to the world outside, which a snapshot cannot hold.
#[cfg(feature = "cpu")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Ties(Vec<Arc<dyn Network>>);

#[cfg(feature = "cpu")]
impl Ties {
    /// Whether the guest is connected to something outside.
    pub(crate) fn are_there(&self) -> bool {
        self.0.iter().any(|network| network.is_tied())
    }
}

#[cfg(feature = "cpu")]
impl Config {
    /// The ties of its devices.
    pub(crate) fn ties(&self) -> Ties {
        Ties(self.attached.iter().filter_map(Attached::network).cloned().collect())
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            cpus: 1,
            command_line: String::new(),
            window: 8 << 20,
            record_events: false,
            ram: None,
            initrd: None,
            every_block: false,
            coverage: false,
            patience: 1_000_000,
            cpu: None,
            whole: None,
            attached: Vec::new(),
            files: Sources::default(),
            turns: None,
        }
    }
}
