//! Guest RAM: one block of host memory that the CPU core and the machine both see.
//!
//! The guest changes it while it runs, so no Rust reference into it is ever made: everything is copied in and out.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::rc::Rc;
use trapline_isa::mem::{ByteOrder, Fault, Memory};

/// A handle on the block; clones see the same memory.
#[derive(Clone)]
pub struct Ram {
    start: *mut u8,
    /// The physical address of its first byte.
    base: u64,
    len: u64,
    /// The offset of its last 8 bytes.
    last_word: u64,
    /// How the guest's numbers lie in it.
    order: ByteOrder,
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
    /// `len` zeroed bytes at a physical address, for a guest whose numbers have this byte order; `None` when the host
    /// has not as much.
    pub fn at(base: u64, len: usize, order: ByteOrder) -> Option<Ram> {
        // Asked for without its alignment: only then are the zeros those of fresh pages, which cost nothing until they
        // are used.
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
            order,
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
        // SAFETY: `pointer` has checked that the bytes lie in the block; `into` is Rust's own memory, so they do not
        // overlap.
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

    /// A number of the guest's of 8 bytes, where there is RAM.
    #[inline]
    pub fn get64(&self, physical: u64) -> Option<u64> {
        // SAFETY: `word` has checked that the bytes lie in the block.
        self.word(physical).map(|from| self.order64(u64::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read() })))
    }

    /// The same of 4 bytes.
    #[inline]
    pub fn get32(&self, physical: u64) -> Option<u32> {
        // SAFETY: as in `get64`; of the last word's two halves `pointer` knows.
        self.word(physical)
            .or_else(|| self.pointer(physical, 4))
            .map(|from| self.order32(u32::from_le_bytes(unsafe { from.cast::<[u8; 4]>().read() })))
    }

    /// A number of the guest's of 8 bytes; 0 where there is no RAM.
    #[inline]
    pub fn word64(&self, physical: u64) -> u64 {
        self.get64(physical).unwrap_or(0)
    }

    /// The same of 4 bytes.
    #[inline]
    pub fn word32(&self, physical: u64) -> u32 {
        self.get32(physical).unwrap_or(0)
    }

    /// Writes a number of the guest's of 8 bytes; false where there is no RAM. Translated code is not dropped.
    #[inline]
    pub fn set_word64(&self, physical: u64, value: u64) -> bool {
        let Some(to) = self.word(physical) else { return false };
        // SAFETY: `word` has checked that the bytes lie in the block.
        unsafe { to.cast::<[u8; 8]>().write(self.order64(value).to_le_bytes()) };
        true
    }

    /// The same of 4 bytes.
    #[inline]
    pub fn set_word32(&self, physical: u64, value: u32) -> bool {
        let Some(to) = self.word(physical).or_else(|| self.pointer(physical, 4)) else { return false };
        // SAFETY: as in `set_word64`.
        unsafe { to.cast::<[u8; 4]>().write(self.order32(value).to_le_bytes()) };
        true
    }

    /// The same of 8 bytes or of 4, as is asked.
    #[inline]
    pub fn set_word(&self, physical: u64, value: u64, bytes: usize) -> bool {
        if bytes == 8 { self.set_word64(physical, value) } else { self.set_word32(physical, value as u32) }
    }

    /// A little-endian number as the guest means it, or the other way round.
    #[inline]
    fn order64(&self, value: u64) -> u64 {
        if self.order == ByteOrder::Big { value.swap_bytes() } else { value }
    }

    /// The same of 4 bytes.
    #[inline]
    fn order32(&self, value: u32) -> u32 {
        if self.order == ByteOrder::Big { value.swap_bytes() } else { value }
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

/// The guest's memory by physical address.
pub struct Physical<'a> {
    /// All of it.
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

    /// Words keep their value on their way through memory; their bytes lie as the guest's order says.
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
            // The last half word, and none behind it.
            assert!(ram.set_word32(ram.end() - 4, 5) && !ram.set_word32(ram.end(), 5) && !ram.set_word64(ram.end() - 4, 5));
            assert_eq!((ram.get32(ram.end() - 4), ram.get64(ram.end() - 4)), (Some(5), None), "{order:?}");
        }
    }
}
