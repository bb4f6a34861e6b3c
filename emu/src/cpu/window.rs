//! The probe window as a CPU sees it: where it lies, and the entry that shows it.

use super::Exception;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// Where the probe window lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowPlace {
    /// Guest-virtual start.
    pub start: u64,
    /// How many bytes it has.
    pub len: u64,
    /// Physical start, in RAM that the guest was not told of.
    pub physical: u64,
    /// Physical memory for page tables of our own, in such RAM too.
    pub tables: u64,
}

impl WindowPlace {
    /// Whether a guest-virtual address lies in it.
    #[inline]
    pub fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.len
    }

    /// Where an address of it lies in memory, whether the tables show it or not.
    pub fn physical_of(&self, address: u64) -> Option<u64> {
        self.holds(address).then(|| self.physical.wrapping_add(address.wrapping_sub(self.start)))
    }
}

/// A page-table entry of ours in a table of the guest's, and what stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The entry's physical address.
    pub at: u64,
    /// What it was.
    pub before: u64,
    /// Its size.
    pub bytes: usize,
}

/// For cores that report each failed fetch as one: the address that it was of, if it is the window's.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace, fault_address: u64) -> Option<u64> {
    (exception.fetch && window.holds(handle.pc()) && window.holds(fault_address)).then_some(fault_address)
}

/// Takes the entry out again: the guest, which may count and copy the entries of its tables, never meets it.
#[inline]
pub fn hide(ram: &Ram, shown: &Shown) {
    ram.set_word(shown.at, shown.before, shown.bytes);
}
