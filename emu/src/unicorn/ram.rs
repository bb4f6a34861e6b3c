//! Guest RAM: one block of host memory that the CPU core and the machine both see.
//!
//! The guest changes it while it runs, so no Rust reference into it is ever made: everything is copied in and out.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::rc::Rc;

/// A handle on the block; clones see the same memory.
#[derive(Clone)]
pub struct Ram {
    start: *mut u8,
    /// The physical address of its first byte.
    base: u64,
    len: u64,
    /// The offset of its last 8 bytes.
    last_word: u64,
    _block: Rc<Block>,
}

struct Block {
    /// What the host's allocator gave: a little more than `len`.
    allocated: *mut u8,
    layout: Layout,
}

/// Alignment of the block: a large page of every ISA's.
const ALIGNMENT: usize = 2 << 20;

impl Ram {
    /// `len` zeroed bytes at physical address 0, or `None` when the host has not as much.
    pub fn new(len: usize) -> Option<Ram> {
        Ram::at(0, len)
    }

    /// The same at another physical address.
    pub fn at(base: u64, len: usize) -> Option<Ram> {
        // Asked for without its alignment: only then are the zeros those of fresh pages, which cost nothing until they are used.
        let layout = Layout::from_size_align(len.checked_add(ALIGNMENT)?, 1).ok()?;
        // SAFETY: the layout's size is not zero.
        let allocated = unsafe { alloc_zeroed(layout) };
        if allocated.is_null() {
            return None;
        }
        // SAFETY: the distance to the next aligned address is less than the ALIGNMENT bytes that were added.
        let start = unsafe { allocated.add(allocated.align_offset(ALIGNMENT)) };
        Some(Ram {
            start,
            base,
            len: len as u64,
            last_word: (len as u64).checked_sub(8)?,
            _block: Rc::new(Block { allocated, layout }),
        })
    }

    /// Bytes in it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The physical address of its first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The physical address behind its last byte.
    pub fn end(&self) -> u64 {
        self.base + self.len
    }

    /// Whether all of these bytes lie in it.
    #[inline]
    pub fn holds(&self, physical: u64, len: usize) -> bool {
        // Below the base it wraps to far beyond the end.
        let offset = physical.wrapping_sub(self.base);
        offset <= self.len && len as u64 <= self.len.wrapping_sub(offset)
    }

    /// Never: a machine has memory.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Copies `into.len()` bytes from a physical address out; false when they do not all exist.
    #[inline]
    pub fn read(&self, physical: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.pointer(physical, into.len()) else { return false };
        // SAFETY: `pointer` has checked that the bytes lie in the block; `into` is Rust's own memory, so they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies bytes in; false, and nothing written, when the place does not exist. Translated code is not dropped.
    #[inline]
    pub fn write(&self, physical: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.pointer(physical, bytes.len()) else { return false };
        // SAFETY: as in `read`.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    /// A little-endian word of 8 bytes, where there is RAM.
    #[inline]
    pub fn get64(&self, physical: u64) -> Option<u64> {
        // SAFETY: `word` has checked that the bytes lie in the block.
        self.word(physical).map(|from| u64::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read() }))
    }

    /// The same of 4 bytes.
    #[inline]
    pub fn get32(&self, physical: u64) -> Option<u32> {
        // SAFETY: as in `get64`; of the last word's two halves `pointer` knows.
        self.word(physical)
            .or_else(|| self.pointer(physical, 4))
            .map(|from| u32::from_le_bytes(unsafe { from.cast::<[u8; 4]>().read() }))
    }

    /// A little-endian word of 8 bytes; 0 where there is no RAM.
    #[inline]
    pub fn word64(&self, physical: u64) -> u64 {
        self.get64(physical).unwrap_or(0)
    }

    /// A little-endian word of 4 bytes; 0 where there is no RAM.
    #[inline]
    pub fn word32(&self, physical: u64) -> u32 {
        self.get32(physical).unwrap_or(0)
    }

    /// Sets a little-endian word of 8 bytes, where there is RAM.
    #[inline]
    pub fn set_word64(&self, physical: u64, value: u64) {
        if let Some(to) = self.word(physical) {
            // SAFETY: `word` has checked that the bytes lie in the block.
            unsafe { to.cast::<[u8; 8]>().write(value.to_le_bytes()) }
        }
    }

    /// The same of 4 bytes.
    #[inline]
    pub fn set_word32(&self, physical: u64, value: u32) {
        if let Some(to) = self.word(physical).or_else(|| self.pointer(physical, 4)) {
            // SAFETY: as in `set_word64`.
            unsafe { to.cast::<[u8; 4]>().write(value.to_le_bytes()) }
        }
    }

    /// The physical address of a byte by its place in the host's memory, if it and the 7 behind it lie in the block.
    #[inline]
    pub(super) fn physical_of(&self, host: u64) -> Option<u64> {
        let offset = host.wrapping_sub(self.start as u64);
        (offset <= self.last_word).then(|| self.base.wrapping_add(offset))
    }

    /// `pointer` for 8 bytes.
    #[inline]
    fn word(&self, physical: u64) -> Option<*mut u8> {
        let offset = physical.wrapping_sub(self.base);
        // SAFETY: the offset is at most 8 less than the block's size.
        (offset <= self.last_word).then(|| unsafe { self.start.add(offset as usize) })
    }

    /// The host address of a stretch of it, for the CPU core alone.
    #[inline]
    pub(super) fn pointer(&self, physical: u64, len: usize) -> Option<*mut u8> {
        // SAFETY: the offset and `len` are at most the block's size.
        self.holds(physical, len).then(|| unsafe { self.start.add(physical.wrapping_sub(self.base) as usize) })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `Ram::new` with this layout, and this is its last handle.
        unsafe { dealloc(self.allocated, self.layout) }
    }
}
