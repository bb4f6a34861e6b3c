//! The configuration of a machine. The boards and the machine both read it.

use crate::boot::whole::Whole;
use std::sync::Arc;

/// The configuration of a machine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of CPUs.
    pub cpus: usize,
    /// The kernel's command line.
    pub command_line: String,
    /// Size of the probe window in bytes. One probe takes 64 bytes.
    pub window: u64,
    /// Whether to log every interrupt, exception and system call.
    pub record_events: bool,
    /// Bytes of RAM that the board reports to the guest. `None` means the board's default.
    pub ram: Option<u64>,
    /// The initial file system, for kernels that take one.
    pub initrd: Option<Arc<[u8]>>,
    /// Calls the machine at every block, so that no block counts its own time. This is slow but gives the identical
    /// run; tests use it.
    pub every_block: bool,
    /// Collects the blocks of kernel code that run. Guest time stays the same.
    pub coverage: bool,
    /// The number of traps and turns without progress of virtual time after which the run ends.
    pub patience: u32,
    /// The name of the CPU that the guest sees (`Model::choices`). `None` means the ISA's default.
    pub cpu: Option<String>,
    /// The self-extracting kernel image, to unpack the kernel inside the guest. `None` loads the kernel already
    /// unpacked.
    pub whole: Option<Arc<Whole>>,
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
        }
    }
}
