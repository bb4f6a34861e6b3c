//! Guest RAM: one block of host memory that the CPU core and the machine share.
//!
//! The guest changes it while it runs, so there is never a Rust reference into it: all access is by copying.
//!
//! Devices, the machine and the probe engine write guest memory here. Each write drops the translation blocks made from the
//! bytes, and is recorded if the page is watched or if written pages are recorded. A map with one byte of flags for each page
//! tells whether any of that is needed, so a write to a plain data page costs only a look at this byte.

mod noted;

use super::pages::{Pages, Room};
use super::stores::Stores;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use trapline_isa::mem::{ByteOrder, Fault, Memory};

/// A handle to the block; clones share the memory.
#[derive(Clone)]
pub struct Ram {
    start: *mut u8,
    /// The physical address of the first byte.
    base: u64,
    len: u64,
    /// The offset of the last 8 bytes.
    last_word: u64,
    /// The byte order of the guest's numbers.
    order: ByteOrder,
    /// The first byte of the map of page flags, which is in `block`.
    code: *const Cell<u8>,
    block: Rc<Block>,
}

/// The part of [`Ram`] that all clones share.
struct Block {
    /// The host memory.
    room: Room,
    /// Physical addresses that are RAM for the machine only; empty on most boards.
    hole: Range<u64>,
    /// The snapshot of which `room` is a copy-on-write mapping, from the start of RAM on.
    shown: RefCell<Option<Arc<Pages>>>,
    /// The flags of each page ([`HERE`] to [`NEXT_CLEAN`]), and at least one byte behind the last page.
    code: Box<[Cell<u8>]>,
    /// Unicorn's cores that execute code in this memory.
    cores: RefCell<Vec<*mut Stores>>,
    /// Physical addresses of pages whose blocks a core of ours must drop. `None` if only Unicorn's cores use the memory.
    dropped: RefCell<Option<Vec<u64>>>,
    /// Writes from outside of the core to watched pages since the last [`Ram::take_written`], at most [`MOST_WRITTEN`].
    written: RefCell<Vec<Written>>,
    /// Numbers of the pages that are not clean any more (`noted.rs`). `None` while written pages are not recorded.
    noted: RefCell<Option<Vec<u32>>>,
}

/// A write from outside of the core: physical address and number of bytes.
pub type Written = (u64, usize);

/// The limit of recorded writes. Later ones are found by comparing memory.
const MOST_WRITTEN: usize = 1024;

/// Translation blocks were made from the page.
const HERE: u8 = 1;
/// [`HERE`] of the next page. With the three flags of the next page, one byte decides about a write that crosses the end of a
/// page.
const NEXT: u8 = 2;
/// Writes to the page from outside of the core are recorded.
const WATCHED: u8 = 4;
/// [`WATCHED`] of the next page.
const NEXT_WATCHED: u8 = 8;
/// Written pages are recorded, and the page was not written yet.
const CLEAN: u8 = 16;
/// [`CLEAN`] of the next page.
const NEXT_CLEAN: u8 = 32;
/// The size of a page of the map, in bytes. It does not depend on the guest's page size.
const PAGE: u64 = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 12;

impl Ram {
    /// Allocates `len` zeroed bytes at a physical address, for a guest with this byte order; `None` if the host does
    /// not have enough memory.
    pub fn at(base: u64, len: usize, order: ByteOrder) -> Option<Ram> {
        Ram::around((0, 0), base, len, order)
    }

    /// Allocates memory as [`Ram::at`] does, in which these physical addresses belong to devices for the guest. For
    /// everybody else they are RAM that nobody writes.
    pub fn around((hole, hole_end): (u64, u64), base: u64, len: usize, order: ByteOrder) -> Option<Ram> {
        let room = Room::new(len)?;
        let start = room.start();
        let code: Box<[Cell<u8>]> = vec![Cell::new(0); (len as u64 / PAGE) as usize + 2].into();
        Some(Ram {
            start,
            base,
            len: len as u64,
            last_word: (len as u64).checked_sub(8)?,
            order,
            code: code.as_ptr(),
            block: Rc::new(Block {
                room,
                hole: hole..hole_end,
                shown: RefCell::default(),
                code,
                cores: RefCell::default(),
                dropped: RefCell::default(),
                written: RefCell::default(),
                noted: RefCell::default(),
            }),
        })
    }

    /// Makes the start of RAM a copy-on-write mapping of a snapshot's pages, and drops the translation blocks made from there.
    /// Pages that were written before get the snapshot's contents again. Returns false, and changes nothing, if the host
    /// cannot do that.
    pub fn show(&self, pages: &Arc<Pages>) -> bool {
        if pages.len() > self.len {
            return false;
        }
        let mut shown = self.block.shown.borrow_mut();
        let is_shown = shown.as_ref().is_some_and(|shown| Arc::ptr_eq(shown, pages));
        if !(if is_shown { self.block.room.forget(pages) } else { self.block.room.show(pages) }) {
            return false;
        }
        *shown = Some(pages.clone());
        self.note(self.base, pages.len());
        for page in 0..pages.len() / PAGE {
            if self.block.code.get(page as usize).is_some_and(|page| page.get() & HERE != 0) {
                self.drop_code(self.base + page * PAGE, PAGE as usize);
            }
        }
        true
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The physical address of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The physical address behind the last byte.
    pub fn end(&self) -> u64 {
        self.base + self.len
    }

    /// The physical addresses that are RAM for the guest: one range, or two with a hole between them.
    pub fn pieces(&self) -> impl Iterator<Item = Range<u64>> {
        let (hole, all) = (&self.block.hole, self.base..self.end());
        let is_cut = !hole.is_empty() && all.start < hole.start && hole.end < all.end;
        let (first, second) = if is_cut { (all.start..hole.start, Some(hole.end..all.end)) } else { (all, None) };
        std::iter::once(first).chain(second)
    }

    /// Whether all of these bytes are RAM.
    #[inline]
    pub fn holds(&self, physical: u64, len: usize) -> bool {
        // An address below the base wraps to an offset far beyond the end.
        let offset = physical.wrapping_sub(self.base);
        offset <= self.len && len as u64 <= self.len.wrapping_sub(offset)
    }

    /// Always false: a machine has memory.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Copies bytes from a physical address; false if not all of them are RAM.
    #[inline]
    pub fn read(&self, physical: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.pointer(physical, into.len()) else { return false };
        // SAFETY: `pointer` has checked that the bytes are in the block; `into` is Rust's own memory, so they do not
        // overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies bytes to a physical address and drops the code translated from there; false, without writing, if not all
    /// of them are RAM.
    #[inline]
    pub fn write(&self, physical: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.pointer(physical, bytes.len()) else { return false };
        // SAFETY: as in `read`.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        self.written(physical, bytes.len());
        true
    }

    /// Reads an 8-byte number in the guest's byte order; `None` outside RAM.
    #[inline]
    pub fn get64(&self, physical: u64) -> Option<u64> {
        // SAFETY: `word` has checked that the bytes are in the block.
        self.word(physical).map(|from| self.order64(u64::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read() })))
    }

    /// Reads a 4-byte number in the guest's byte order; `None` outside RAM.
    #[inline]
    pub fn get32(&self, physical: u64) -> Option<u32> {
        // SAFETY: as in `get64`; `pointer` has checked the second half of the last word.
        self.word(physical)
            .or_else(|| self.pointer(physical, 4))
            .map(|from| self.order32(u32::from_le_bytes(unsafe { from.cast::<[u8; 4]>().read() })))
    }

    /// Reads an 8-byte number in the guest's byte order; 0 outside RAM.
    #[inline]
    pub fn word64(&self, physical: u64) -> u64 {
        self.get64(physical).unwrap_or(0)
    }

    /// Reads a 4-byte number in the guest's byte order; 0 outside RAM.
    #[inline]
    pub fn word32(&self, physical: u64) -> u32 {
        self.get32(physical).unwrap_or(0)
    }

    /// Writes an 8-byte number in the guest's byte order and drops the code translated from there; false outside RAM.
    #[inline]
    pub fn set_word64(&self, physical: u64, value: u64) -> bool {
        let Some(to) = self.word(physical) else { return false };
        // SAFETY: `word` has checked that the bytes are in the block.
        unsafe { to.cast::<[u8; 8]>().write(self.order64(value).to_le_bytes()) };
        self.written(physical, 8);
        true
    }

    /// Like [`Ram::set_word64`], with 4 bytes.
    #[inline]
    pub fn set_word32(&self, physical: u64, value: u32) -> bool {
        let Some(to) = self.word(physical).or_else(|| self.pointer(physical, 4)) else { return false };
        // SAFETY: as in `set_word64`.
        unsafe { to.cast::<[u8; 4]>().write(self.order32(value).to_le_bytes()) };
        self.written(physical, 4);
        true
    }

    /// Writes an 8-byte number and returns the old one. Drops no blocks: by the TLB, the page must have no translated code.
    #[inline]
    pub(super) fn exchange_data64(&self, physical: u64, value: u64) -> Option<u64> {
        let at = self.word(physical)?.cast::<[u8; 8]>();
        // SAFETY: as in `set_word64`.
        unsafe {
            let before = self.order64(u64::from_le_bytes(at.read()));
            at.write(self.order64(value).to_le_bytes());
            Some(before)
        }
    }

    /// Like [`Ram::exchange_data64`], with 4 bytes.
    #[inline]
    pub(super) fn exchange_data32(&self, physical: u64, value: u32) -> Option<u32> {
        let at = self.word(physical).or_else(|| self.pointer(physical, 4))?.cast::<[u8; 4]>();
        // SAFETY: as in `set_word64`.
        unsafe {
            let before = self.order32(u32::from_le_bytes(at.read()));
            at.write(self.order32(value).to_le_bytes());
            Some(before)
        }
    }

    /// Follows up a write from outside of the core to these bytes, if one of their pages has a flag.
    #[inline]
    fn written(&self, physical: u64, len: usize) {
        let page = (physical.wrapping_sub(self.base) >> PAGE_BITS) as usize;
        // SAFETY: the map has a byte for each page and one behind the last, where a write of no bytes may be.
        if unsafe { (*self.code.add(page)).get() } != 0 || len as u64 > PAGE {
            self.written_to_special(physical, len);
        }
    }

    /// The slow path of [`Ram::written`]: records the write and drops blocks, as the flags of its pages demand.
    #[cold]
    #[inline(never)]
    fn written_to_special(&self, physical: u64, len: usize) {
        if len == 0 {
            return;
        }
        let pages =
            ((physical - self.base) >> PAGE_BITS) as usize..=((physical - self.base + len as u64 - 1) >> PAGE_BITS) as usize;
        if self.block.code[pages].iter().any(|page| page.get() & WATCHED != 0) {
            let mut written = self.block.written.borrow_mut();
            if written.len() < MOST_WRITTEN {
                written.push((physical, len));
            }
        }
        self.note(physical, len as u64);
        self.drop_code(physical, len);
    }

    /// Sets the watched pages, by physical address. [`Ram::take_written`] returns the writes to them from outside of the core.
    pub fn watch_pages(&self, pages: impl Iterator<Item = u64>) {
        for page in &self.block.code {
            page.set(page.get() & !(WATCHED | NEXT_WATCHED));
        }
        for page in pages.filter(|page| self.holds(*page, 1)) {
            let number = (page.wrapping_sub(self.base) >> PAGE_BITS) as usize;
            for (number, bit) in [(Some(number), WATCHED), (number.checked_sub(1), NEXT_WATCHED)] {
                if let Some(byte) = number.and_then(|number| self.block.code.get(number)) {
                    byte.set(byte.get() | bit);
                }
            }
        }
        self.block.written.borrow_mut().clear();
    }

    /// Whether writes to watched pages are recorded.
    #[inline]
    pub fn has_written(&self) -> bool {
        !self.block.written.borrow().is_empty()
    }

    /// Takes the recorded writes to watched pages, oldest first.
    pub fn take_written(&self) -> Vec<Written> {
        self.block.written.take()
    }

    /// Drops the translation blocks made from these bytes, on all cores.
    fn drop_code(&self, physical: u64, len: usize) {
        let (mut at, end) = (physical, physical + len as u64);
        while at < end {
            let next = end.min(self.base + (((at - self.base) >> PAGE_BITS) + 1) * PAGE);
            if self.block.code[((at - self.base) >> PAGE_BITS) as usize].get() & HERE != 0 {
                for core in self.block.cores.borrow().iter() {
                    // SAFETY: a core is in this list while its tables exist, and runs no translated code that looks at
                    // them now: whoever writes from outside does so between runs or in a callback.
                    unsafe { (**core).drop_code(at, (next - at) as usize) };
                }
                if let Some(dropped) = &mut *self.block.dropped.borrow_mut() {
                    dropped.push(at & !(PAGE - 1));
                }
            }
            at = next;
        }
    }

    /// The physical address for a host address; `None` outside of this memory.
    pub fn physical_at(&self, host: u64) -> Option<u64> {
        self.physical_of(host)
    }

    /// Drops the translation blocks that include the byte at this address, because they would now be translated differently.
    pub fn translate_again(&self, physical: u64) {
        if self.holds(physical, 1) {
            self.drop_code(physical, 1);
        }
    }

    /// Adds one of Unicorn's cores. It must call [`Ram::leave`] before it is freed.
    pub(super) fn join(&self, core: *mut Stores) {
        self.block.cores.borrow_mut().push(core);
    }

    /// Adds a core of ours, which polls [`Ram::next_dropped`].
    pub(super) fn join_own(&self) {
        self.block.dropped.borrow_mut().get_or_insert_default();
    }

    /// Takes a page whose blocks the core of ours must drop: its physical address. `None` if no page is left.
    #[inline]
    pub(super) fn next_dropped(&self) -> Option<u64> {
        self.block.dropped.borrow_mut().as_mut()?.pop()
    }

    /// Reads 1, 2 or 4 bytes as a big-endian number, for a core of ours. `None` outside RAM.
    #[inline(always)]
    pub(super) fn fetch(&self, physical: u64, size: u32) -> Option<u32> {
        let from = self.pointer(physical, size as usize)?;
        // SAFETY: `pointer` has checked that the bytes are in the block.
        Some(unsafe {
            match size {
                1 => from.read().into(),
                2 => u16::from_be_bytes(from.cast::<[u8; 2]>().read()).into(),
                _ => u32::from_be_bytes(from.cast::<[u8; 4]>().read()),
            }
        })
    }

    /// Writes 1, 2 or 4 bytes as a big-endian number, for a core of ours. Drops no blocks, because the core does that itself.
    /// Returns false outside RAM.
    #[inline(always)]
    pub(super) fn put(&self, physical: u64, size: u32, value: u32) -> bool {
        let Some(to) = self.pointer(physical, size as usize) else { return false };
        // SAFETY: as in `fetch`.
        unsafe {
            match size {
                1 => to.write(value as u8),
                2 => to.cast::<[u8; 2]>().write((value as u16).to_be_bytes()),
                _ => to.cast::<[u8; 4]>().write(value.to_be_bytes()),
            }
        }
        true
    }

    /// Reads 1, 2, 4 or 8 bytes as a little-endian number, for a core of ours. `None` outside RAM.
    #[inline(always)]
    pub(super) fn fetch_little(&self, physical: u64, size: u32) -> Option<u64> {
        let from = self.pointer(physical, size as usize)?;
        // SAFETY: `pointer` has checked that the bytes are in the block.
        Some(unsafe {
            match size {
                1 => from.read().into(),
                2 => u16::from_le_bytes(from.cast::<[u8; 2]>().read()).into(),
                4 => u32::from_le_bytes(from.cast::<[u8; 4]>().read()).into(),
                _ => u64::from_le_bytes(from.cast::<[u8; 8]>().read()),
            }
        })
    }

    /// Writes 1, 2, 4 or 8 bytes as a little-endian number, for a core of ours. Drops no blocks, because the core does that
    /// itself. Returns false outside RAM.
    #[inline(always)]
    pub(super) fn put_little(&self, physical: u64, size: u32, value: u64) -> bool {
        let Some(to) = self.pointer(physical, size as usize) else { return false };
        // SAFETY: as in `fetch_little`.
        unsafe {
            match size {
                1 => to.write(value as u8),
                2 => to.cast::<[u8; 2]>().write((value as u16).to_le_bytes()),
                4 => to.cast::<[u8; 4]>().write((value as u32).to_le_bytes()),
                _ => to.cast::<[u8; 8]>().write(value.to_le_bytes()),
            }
        }
        true
    }

    /// Removes one of Unicorn's cores.
    pub(super) fn leave(&self, core: *mut Stores) {
        self.block.cores.borrow_mut().retain(|known| *known != core);
    }

    /// Sets or clears [`HERE`] of these whole pages. Clears it only if there is exactly one of Unicorn's cores.
    pub(super) fn note_code(&self, physical: u64, len: u64, is_there: bool) {
        // Another core may have translated code from them.
        if !is_there && self.block.cores.borrow().len() != 1 {
            return;
        }
        let first = (physical.wrapping_sub(self.base) >> PAGE_BITS) as usize;
        for page in first..first + len.div_ceil(PAGE) as usize {
            for (page, bit) in [(Some(page), HERE), (page.checked_sub(1), NEXT)] {
                if let Some(byte) = page.and_then(|page| self.block.code.get(page)) {
                    byte.set(if is_there { byte.get() | bit } else { byte.get() & !bit });
                }
            }
        }
    }

    /// Writes a number of 8 or 4 bytes, like [`Ram::set_word64`].
    #[inline]
    pub fn set_word(&self, physical: u64, value: u64, bytes: usize) -> bool {
        if bytes == 8 { self.set_word64(physical, value) } else { self.set_word32(physical, value as u32) }
    }

    /// Converts between a little-endian number and one in the guest's byte order.
    #[inline]
    fn order64(&self, value: u64) -> u64 {
        if self.order == ByteOrder::Big { value.swap_bytes() } else { value }
    }

    /// Like [`Ram::order64`], with 4 bytes.
    #[inline]
    fn order32(&self, value: u32) -> u32 {
        if self.order == ByteOrder::Big { value.swap_bytes() } else { value }
    }

    /// The physical address for a host address, if that byte and the 7 after it are in the block.
    #[inline]
    pub(super) fn physical_of(&self, host: u64) -> Option<u64> {
        let offset = host.wrapping_sub(self.start as u64);
        (offset <= self.last_word).then(|| self.base.wrapping_add(offset))
    }

    /// [`Ram::pointer`] for 8 bytes, with one comparison instead of two.
    #[inline]
    fn word(&self, physical: u64) -> Option<*mut u8> {
        let offset = physical.wrapping_sub(self.base);
        // SAFETY: the offset is at most the block's size minus 8.
        (offset <= self.last_word).then(|| unsafe { self.start.add(offset as usize) })
    }

    /// The host address of a range; `None` if not all of it is RAM. For the CPU core only.
    #[inline]
    pub(super) fn pointer(&self, physical: u64, len: usize) -> Option<*mut u8> {
        // SAFETY: the offset plus `len` is at most the block's size.
        self.holds(physical, len).then(|| unsafe { self.start.add(physical.wrapping_sub(self.base) as usize) })
    }
}

/// The guest's memory by physical address, as a [`Memory`].
pub struct Physical<'a> {
    /// The guest's RAM.
    pub ram: &'a Ram,
}

impl Memory for Physical<'_> {
    fn order(&self) -> ByteOrder {
        self.ram.order
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        if self.ram.read(address, into) { Ok(()) } else { Err(Fault { address, write: false }) }
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if self.ram.write(address, bytes) { Ok(()) } else { Err(Fault { address, write: true }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers keep their value when written and read; their bytes have the guest's order.
    #[test]
    fn the_guests_numbers_lie_in_its_own_order() {
        const BASE: u64 = 0x4000_0000;
        for (order, wide, narrow) in [
            (ByteOrder::Little, [8, 7, 6, 5, 4, 3, 2, 1], [0xd, 0xc, 0xb, 0xa]),
            (ByteOrder::Big, [1, 2, 3, 4, 5, 6, 7, 8], [0xa, 0xb, 0xc, 0xd]),
        ] {
            let ram = Ram::at(BASE, 4 << 20, order).expect("memory");
            assert!(ram.set_word(BASE, 0x0102_0304_0506_0708, 8) && ram.set_word(BASE + 8, 0x0a0b_0c0d, 4), "{order:?}");
            let mut bytes = [0; 12];
            assert!(ram.read(BASE, &mut bytes), "{order:?}");
            assert_eq!(bytes, [&wide[..], &narrow].concat()[..], "{order:?}");
            assert_eq!((ram.word64(BASE), ram.word32(BASE + 8)), (0x0102_0304_0506_0708, 0x0a0b_0c0d), "{order:?}");
            // The last half word, and nothing behind it.
            assert!(ram.set_word32(ram.end() - 4, 5) && !ram.set_word32(ram.end(), 5) && !ram.set_word64(ram.end() - 4, 5));
            assert_eq!((ram.get32(ram.end() - 4), ram.get64(ram.end() - 4)), (Some(5), None), "{order:?}");
        }
    }
}
