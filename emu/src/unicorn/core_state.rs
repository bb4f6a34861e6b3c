//! [`CoreState`]: a CPU's state that was saved from the core, for switches between CPUs and for snapshots. Unlike Unicorn's
//! API, it allows to read and edit the saved state, as bytes at offsets.
//!
//! The offsets are those of the pinned version on a 64-bit host. Before the first machine with a kind of core is made, a
//! self-check compares them with known results (`cpu/<arch>/check.rs`).

use super::engine::Handle;
use core::ptr::null_mut;
use unicorn_engine_sys::{self as sys, uc_context, uc_error};

/// The state of a CPU as the core saves it: a byte copy of its own structure behind a header; or that structure itself.
///
/// Here it is only bytes at offsets; `cpu/<arch>/state.rs` names the fields.
pub struct CoreState {
    /// Null if this is the structure itself.
    context: *mut uc_context,
    start: *mut u8,
    len: usize,
    /// The part of the CPU's state that is outside the structure; empty on most ISAs.
    beside: Vec<u8>,
    /// The bytes themselves, if the core is one of ours; `start` points to them.
    own: Vec<u64>,
}

/// The size of Unicorn's own header in front of the state.
const HEADER: usize = 40;

impl CoreState {
    /// Allocates a saved state of this engine.
    pub fn new(handle: Handle) -> Result<CoreState, String> {
        if let Some(len) = handle.own_bytes() {
            let mut own = vec![0_u64; len.div_ceil(size_of::<u64>())];
            return Ok(CoreState { context: null_mut(), start: own.as_mut_ptr().cast(), len, beside: Vec::new(), own });
        }
        let mut context = null_mut();
        // SAFETY: plain calls; the result is checked.
        let (answer, len) =
            unsafe { (sys::uc_context_alloc(handle.raw(), &raw mut context), sys::uc_context_size(handle.raw())) };
        if answer != uc_error::OK || len < HEADER {
            return Err(format!("the CPU core cannot save its state: {answer}"));
        }
        let cpu = handle.cpu();
        // SAFETY: it is the core's own CPU.
        let beside = if cpu.is_null() { 0 } else { unsafe { (handle.kind().library.layout.beside_bytes)(cpu) } };
        // SAFETY: the block is `len` bytes long.
        let start = unsafe { context.cast::<u8>().add(HEADER) };
        Ok(CoreState { context, start, len: len - HEADER, beside: vec![0; beside], own: Vec::new() })
    }

    /// The state itself, valid while nothing runs that would change it.
    ///
    /// # Safety
    /// `len` bytes of a CPU's state must be at `start`, and outlive the returned value.
    pub(super) unsafe fn itself(start: *mut u8, len: usize) -> CoreState {
        CoreState { context: null_mut(), start, len, beside: Vec::new(), own: Vec::new() }
    }

    /// Saves the state of the core.
    pub fn save(&mut self, handle: Handle) {
        if !self.context.is_null() {
            // SAFETY: allocated for this engine; saving is a plain copy, allowed in every callback.
            unsafe { sys::uc_context_save(handle.raw(), self.context) };
        } else if !self.own.is_empty() {
            handle.copy_own(self.start, false);
        }
        if !self.beside.is_empty() {
            // SAFETY: the core's own CPU has this many bytes.
            unsafe { (handle.kind().library.layout.save_beside)(handle.cpu(), self.beside.as_mut_ptr()) };
        }
    }

    /// Restores the state of the core.
    pub fn restore(&self, handle: Handle) {
        if !self.context.is_null() {
            // SAFETY: as in `save`.
            unsafe { sys::uc_context_restore(handle.raw(), self.context) };
            if !handle.cpu().is_null() {
                // SAFETY: it is the core's own CPU.
                unsafe { (handle.kind().library.layout.follow)(handle.cpu()) };
            }
        } else if !self.own.is_empty() {
            handle.copy_own(self.start, true);
        }
        if !self.beside.is_empty() {
            // SAFETY: as in `save`; the bytes come from such a CPU, or are zeros, which are entries that match nothing.
            unsafe { (handle.kind().library.layout.load_beside)(handle.cpu(), self.beside.as_ptr()) };
        }
    }

    /// A copy of all bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        // SAFETY: `self.len` bytes are there, and nothing changes them during this call.
        self.at(0, self.len).map(|start| unsafe { core::slice::from_raw_parts(start, self.len) }.to_vec()).unwrap_or_default()
    }

    /// Makes this state equal to another one of the same core.
    pub fn copy_from(&mut self, other: &CoreState) {
        self.write(0, &other.bytes());
        self.beside.clone_from(&other.beside);
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes, which no state has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The 8-byte value at an offset; 0 beyond the end.
    #[inline]
    pub fn get64(&self, offset: usize) -> u64 {
        // SAFETY: `at` has checked the bounds.
        self.at(offset, 8).map_or(0, |at| unsafe { at.cast::<u64>().read_unaligned() })
    }

    /// The 4-byte value at an offset; 0 beyond the end.
    #[inline]
    pub fn get32(&self, offset: usize) -> u32 {
        // SAFETY: `at` has checked the bounds.
        self.at(offset, 4).map_or(0, |at| unsafe { at.cast::<u32>().read_unaligned() })
    }

    /// Sets 8 bytes; does nothing beyond the end.
    #[inline]
    pub fn set64(&mut self, offset: usize, value: u64) {
        if let Some(at) = self.at(offset, 8) {
            // SAFETY: `at` has checked the bounds.
            unsafe { at.cast::<u64>().write_unaligned(value) }
        }
    }

    /// Sets 4 bytes; does nothing beyond the end.
    #[inline]
    pub fn set32(&mut self, offset: usize, value: u32) {
        if let Some(at) = self.at(offset, 4) {
            // SAFETY: `at` has checked the bounds.
            unsafe { at.cast::<u32>().write_unaligned(value) }
        }
    }

    /// Copies bytes from an offset; false, without copying, if not all of them exist.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        let Some(from) = self.at(offset, into.len()) else { return false };
        // SAFETY: `at` has checked the bounds; `into` is other memory.
        unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies bytes to an offset; false, without copying, if not all of them exist.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.at(offset, bytes.len()) else { return false };
        // SAFETY: as in `read`.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        true
    }

    #[inline]
    fn at(&self, offset: usize, len: usize) -> Option<*mut u8> {
        // SAFETY: `self.len` bytes are there.
        (offset + len <= self.len).then(|| unsafe { self.start.add(offset) })
    }
}

impl Drop for CoreState {
    fn drop(&mut self) {
        if !self.context.is_null() {
            // SAFETY: allocated by uc_context_alloc, freed once.
            unsafe { sys::uc_context_free(self.context) };
        }
    }
}
