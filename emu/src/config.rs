//! What a machine is made of, as whoever wants one says it: boards and the machine both read this.

use crate::boot::whole::Whole;
use std::sync::Arc;

/// What a machine is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many CPUs.
    pub cpus: usize,
    /// The kernel's command line.
    pub command_line: String,
    /// Bytes of probe window; 64 hold one probe.
    pub window: u64,
    /// Keep a log of every interrupt, exception and system call.
    pub record_events: bool,
    /// Bytes of RAM that the guest is told of; `None`: as much as the board usually has.
    pub ram: Option<u64>,
    /// The initial file system, for kernels that take one.
    pub initrd: Option<Arc<[u8]>>,
    /// Every block is told to the machine and none counts itself: slow, and the same run. For tests.
    pub every_block: bool,
    /// So many traps and turns without any virtual time passing end the run.
    pub patience: u32,
    /// Which CPU the guest finds, by its name (`Model::choices`); `None`: the usual one of its ISA.
    pub cpu: Option<String>,
    /// The kernel's own file, to unpack the kernel in the guest; `None`: it is loaded unpacked.
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
            patience: 1_000_000,
            cpu: None,
            whole: None,
        }
    }
}
