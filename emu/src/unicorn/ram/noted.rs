//! Dirty-page tracking for checkpoints: the pages of guest memory that were written since the last call of
//! [`Ram::take_noted`].
//!
//! A page that was not written yet is *clean* ([`CLEAN`]). The TLB entries of a clean page send the first store to the function
//! that fills entries (`stores/noting.rs`). A write from outside of the core finds the flag in the page's byte of the map,
//! which it reads anyway. So only the first write to a page costs time, and none if tracking is off.

use super::{CLEAN, NEXT_CLEAN, PAGE, PAGE_BITS, Ram};

impl Ram {
    /// Starts tracking, with all pages clean, or ends it. The caller must flush the TLBs of the cores afterwards.
    pub(in crate::unicorn) fn note_pages(&self, on: bool) {
        *self.block.noted.borrow_mut() = on.then(Vec::new);
        for byte in &self.block.code {
            let others = byte.get() & !(CLEAN | NEXT_CLEAN);
            byte.set(if on { others | CLEAN | NEXT_CLEAN } else { others });
        }
        // The byte behind the last page belongs to no page.
        if let Some(behind) = self.block.code.get((self.len / PAGE) as usize) {
            behind.set(behind.get() & !(CLEAN | NEXT_CLEAN));
        }
    }

    /// Takes the numbers of the written pages, in ascending order, and makes them clean again. The caller must flush the TLBs
    /// of the cores afterwards.
    pub(in crate::unicorn) fn take_noted(&self) -> Vec<u32> {
        let Some(noted) = &mut *self.block.noted.borrow_mut() else { return Vec::new() };
        let mut pages = core::mem::take(noted);
        pages.sort_unstable();
        for page in &pages {
            self.set_clean(*page as usize, true);
        }
        pages
    }

    /// Marks the pages of these bytes as written, if tracking is on.
    pub(in crate::unicorn) fn note(&self, physical: u64, len: u64) {
        let Some(noted) = &mut *self.block.noted.borrow_mut() else { return };
        if len == 0 || !self.holds(physical, len as usize) {
            return;
        }
        let offset = physical - self.base;
        for page in offset >> PAGE_BITS..=(offset + len - 1) >> PAGE_BITS {
            if self.block.code.get(page as usize).is_some_and(|byte| byte.get() & CLEAN != 0) {
                self.set_clean(page as usize, false);
                noted.push(page as u32);
            }
        }
    }

    /// Whether one of the pages of these bytes is clean.
    pub(in crate::unicorn) fn has_clean(&self, physical: u64, len: u64) -> bool {
        let offset = physical.wrapping_sub(self.base);
        let pages = (offset >> PAGE_BITS) as usize..(offset.wrapping_add(len).div_ceil(PAGE)) as usize;
        self.block.code.get(pages).is_some_and(|bytes| bytes.iter().any(|byte| byte.get() & CLEAN != 0))
    }

    fn set_clean(&self, page: usize, clean: bool) {
        for (page, bit) in [(Some(page), CLEAN), (page.checked_sub(1), NEXT_CLEAN)] {
            if let Some(byte) = page.and_then(|page| self.block.code.get(page)) {
                byte.set(if clean { byte.get() | bit } else { byte.get() & !bit });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::mem::ByteOrder;

    /// TT-4: every way to write from outside notes its pages, once each.
    #[test]
    fn writes_from_outside_note_their_pages() {
        const BASE: u64 = 0x4000_0000;
        let ram = Ram::at(BASE, 4 << 20, ByteOrder::Little).expect("memory");
        ram.write(BASE, &[1]);
        assert!(ram.take_noted().is_empty(), "nothing is noted before");
        ram.note_pages(true);
        ram.write(BASE + 5 * PAGE - 1, &[1, 2]);
        ram.write(BASE + 4 * PAGE, &[3]);
        ram.set_word64(BASE + 9 * PAGE, 1);
        ram.set_word32(BASE + 9 * PAGE + 4, 1);
        ram.set_word32(ram.end() - 4, 1);
        ram.write(BASE + 20 * PAGE + 8, &[0; 3 * PAGE as usize]);
        ram.write(ram.end(), &[]);
        ram.write(BASE + 30 * PAGE, &[]);
        assert!(!ram.has_clean(BASE + 4 * PAGE, 1) && ram.has_clean(BASE + 4 * PAGE, 2 * PAGE + 1));
        assert_eq!(ram.take_noted(), [4, 5, 9, 20, 21, 22, 23, 1023]);
        assert!(ram.has_clean(BASE + 4 * PAGE, 1));
        ram.write(BASE + 4 * PAGE, &[3]);
        assert_eq!(ram.take_noted(), [4]);
        ram.note_pages(false);
        ram.write(BASE + 4 * PAGE, &[3]);
        assert!(ram.take_noted().is_empty() && !ram.has_clean(BASE, ram.len()));
    }
}
