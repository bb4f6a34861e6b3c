//! Notes the pages of RAM that the core writes, for checkpoints.
//!
//! An entry that is filled for a load or a fetch of a clean page gets a STORE word that no store matches: it has the flag of an
//! invalid entry, like the FETCH word of a page without code. So the first store calls `fill`, too, which notes the page;
//! Unicorn then fills the entry anew, and further stores take the fast path. A page walk by Unicorn sets marks in the page
//! tables past all that, so the rows that it reads are noted before it.

use super::{Fill, STORE, Stores};
use core::ffi::{c_int, c_void};

/// `MOST_ROWS` of `translator/hooks.h`.
const MOST_ROWS: usize = 8;
const ROW_BYTES: u64 = 8;

impl Stores {
    /// Begins to note written pages, or ends that. All pages are clean then. The TLB must be flushed afterwards.
    pub(in crate::unicorn) fn note_pages(&mut self, on: bool) {
        self.ram.note_pages(on);
        self.is_noting = on;
        self.has_more = on || !self.watched.is_null();
        self.library = if on { fill_and_note as Fill } else { self.unnoted };
    }

    /// Adjusts the entry of this address, which was just filled.
    ///
    /// # Safety
    /// Only from `fill`, with the arguments of the core.
    pub(super) unsafe fn note_filled(&mut self, address: u64, access: usize, mode: usize) {
        let size = self.layout.page();
        let page = address & !(size - 1);
        // SAFETY: as for the caller.
        let entry = unsafe { self.entry(address, mode) };
        if entry.get(access) & !(size - 1) != page {
            // `filled` has met it, too: nothing is known of this entry, so every page may be written by it.
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

/// Notes the page table rows in which Unicorn's walk may set marks, and fills the entry. A walk that ends in a fault may have
/// set some before, and does not return.
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
