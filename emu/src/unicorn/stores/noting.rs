//! Dirty-page tracking of the core's own stores, for checkpoints (`ram/noted.rs`).
//!
//! A TLB entry that is filled for a load or a fetch of a clean page gets the flag of an invalid entry in its STORE word, so no
//! store matches it. The first store therefore calls `fill` again, which marks the page as written; further stores take the
//! fast path. A page-table walk by Unicorn sets accessed and dirty bits without going through the TLB, so the pages of the
//! page-table entries that it may change are marked before the walk.

use super::{Fill, STORE, Stores};
use core::ffi::{c_int, c_void};

/// The largest number of page-table entries that one walk reads, as in `translator/hooks.h`.
const MOST_ROWS: usize = 8;
const ROW_BYTES: u64 = 8;

impl Stores {
    /// Starts tracking, with all pages clean, or ends it. The caller must flush the TLB afterwards.
    pub(in crate::unicorn) fn note_pages(&mut self, on: bool) {
        self.ram.note_pages(on);
        self.is_noting = on;
        self.has_more = on || !self.watched.is_null();
        self.library = if on { fill_and_note as Fill } else { self.unnoted };
    }

    /// Called for the TLB entry of this address, which was just filled: marks the page as written if it was filled for a
    /// store, and otherwise keeps stores from matching the entry while the page is clean.
    ///
    /// # Safety
    /// Only from `fill`, with the arguments of the core.
    pub(super) unsafe fn note_filled(&mut self, address: u64, access: usize, mode: usize) {
        let size = self.layout.page();
        let page = address & !(size - 1);
        // SAFETY: as for the caller.
        let entry = unsafe { self.entry(address, mode) };
        if entry.get(access) & !(size - 1) != page {
            // The entry is not where it must be (`Stores::distrust`), so stores to any page may go unseen: all count as written.
            return self.ram.note(self.ram.base(), self.ram.len());
        }
        let physical = entry.physical() & !(size - 1);
        if access == STORE {
            self.ram.note(physical, size);
        } else if entry.get(STORE) != entry.never() && self.ram.has_clean(physical, size) {
            entry.set(STORE, entry.get(STORE) | entry.invalid());
        }
    }
}

/// In place of Unicorn's function while tracking is on: marks the pages of the page-table entries that Unicorn's walk may
/// change, then calls that function. It does so before the walk, because a walk that ends in a fault does not return.
unsafe extern "C-unwind" fn fill_and_note(
    cpu: *mut c_void,
    address: u64,
    size: c_int,
    access: c_int,
    mode: c_int,
    may_fail: bool,
    host_pc: usize,
) -> bool {
    // SAFETY: called by `fill` in place of Unicorn's function, with its arguments; there is room for all rows.
    unsafe {
        let stores = Stores::of(cpu);
        let mut rows = [0; MOST_ROWS];
        let count = ((*stores).rows)(cpu, address, rows.as_mut_ptr());
        for row in rows.iter().take(count as usize) {
            (*stores).ram.note(*row & !(ROW_BYTES - 1), ROW_BYTES);
        }
        ((*stores).unnoted)(cpu, address, size, access, mode, may_fail, host_pc)
    }
}
