//! The probe window in a CPU's address space, and the page-table entry that maps it.

use super::Exception;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// The location and size of the probe window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowPlace {
    /// Virtual start.
    pub start: u64,
    /// Size in bytes.
    pub len: u64,
    /// Physical start, in RAM that is not reported to the guest.
    pub physical: u64,
    /// Physical address of the machine's own page tables, also in RAM that is not reported.
    pub tables: u64,
}

impl WindowPlace {
    /// Whether a virtual address is in the window.
    #[inline]
    pub fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.len
    }

    /// The physical address of a virtual address in the window, mapped or not.
    pub fn physical_of(&self, address: u64) -> Option<u64> {
        self.holds(address).then(|| self.physical.wrapping_add(address.wrapping_sub(self.start)))
    }
}

/// A page-table entry of ours in a table of the guest, with the entry that it replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The physical address of the entry.
    pub at: u64,
    /// The replaced entry.
    pub before: u64,
    /// Size of the entry in bytes.
    pub bytes: usize,
}

/// The faulting address if it is in the window. For cores that report each failed fetch as an exception.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace, fault_address: u64) -> Option<u64> {
    (exception.fetch && window.holds(handle.pc()) && window.holds(fault_address)).then_some(fault_address)
}

/// Restores the replaced entry. The guest, which may count and copy its entries, never sees ours.
#[inline]
pub fn hide(ram: &Ram, shown: &Shown) {
    ram.set_word(shown.at, shown.before, shown.bytes);
}
