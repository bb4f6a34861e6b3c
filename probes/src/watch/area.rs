//! Watched memory ([`Area`]), and one access to it ([`Access`]) with the party that made it ([`By`]).
//!
//! The engine gives areas to the machine, and the machine reports accesses. Handlers get the access.

/// A range of memory and the accesses to it that are watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// The address of the first byte.
    pub start: u64,
    /// The number of bytes.
    pub len: u64,
    /// Whether `start` is a physical address.
    pub physical: bool,
    /// The only process whose accesses count, by its number (the thread group id). `None` for all.
    pub process: Option<u32>,
    /// Whether loads are watched.
    pub reads: bool,
    /// Whether stores are watched.
    pub writes: bool,
}

impl Area {
    /// Whether an access to these bytes touches the area. Both may wrap around the end of the address space.
    pub(super) fn touches(&self, start: u64, len: u64) -> bool {
        let into = start.wrapping_sub(self.start);
        into < self.len || len > into.wrapping_neg()
    }
}

/// The party that made an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// An instruction that the CPU executed, or the machine for it.
    Instruction,
    /// A probed instruction that the engine computed.
    Computed,
    /// The CPU, when it delivered an exception or an interrupt.
    Delivery,
    /// The CPU, when it walked page tables.
    PageWalk,
    /// A device, the firmware or the hypervisor.
    Device,
}

impl By {
    /// The name in lists and records.
    pub const fn name(self) -> &'static str {
        match self {
            By::Instruction => "instruction",
            By::Computed => "computed",
            By::Delivery => "exception",
            By::PageWalk => "page-walk",
            By::Device => "device",
        }
    }
}

/// One access to a watched area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address of the first accessed byte, of the area's kind. For other parties than instructions, of the first byte
    /// in the area.
    pub address: u64,
    /// The number of bytes.
    pub size: u64,
    /// Whether it is a store.
    pub is_write: bool,
    /// The number that was loaded or stored: the first eight bytes if there are more.
    pub value: u64,
    /// The number in memory before the access.
    pub old: u64,
    /// The party that made it.
    pub by: By,
    /// Virtual time in nanoseconds.
    pub time: u64,
    /// Whether the bytes had changed since they were last seen, without an access that was reported.
    pub unseen: bool,
}
