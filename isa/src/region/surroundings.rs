//! The guest's text around a probe, as the search for a region reads it, with the kernel's tables about that text.
//!
//! The engine implements the trait [`Surroundings`] on its guest. [`PlainText`] implements it on bytes in memory, for
//! tests and fuzzers.

use crate::function::Decoded;
use crate::mem::Fault;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

/// The guest's text, and the kernel's tables about it.
pub trait Surroundings {
    /// Fills a buffer with the text at an address, without our probes.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault>;
    /// The decoded instructions of a range, data taken for code, if they are already known.
    fn decoded(&mut self, range: &Range<u64>) -> Option<Arc<Decoded>> {
        let _ = range;
        None
    }
    /// Whether the address is in code, not in data between code.
    fn is_code(&self, address: u64) -> bool {
        let _ = address;
        true
    }
    /// The first instruction of a range that the exception table allows to fault.
    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }
    /// The first address of a range to which the exception table sends execution after a fault.
    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }
    /// The first place of a range that the kernel itself patches, and what it is.
    fn reserved(&self, range: Range<u64>) -> Option<(u64, &'static str)> {
        let _ = range;
        None
    }
    /// The range of the thunks for indirect jumps (retpolines).
    fn indirect_thunks(&self) -> Range<u64> {
        0..0
    }
    /// Parts of the same function that the compiler placed elsewhere (`.cold`). They may jump back into it.
    fn other_parts(&self) -> &[Range<u64>] {
        &[]
    }
}

/// Bytes of text with given tables, for tests and fuzzers.
#[derive(Clone, Debug, Default)]
pub struct PlainText {
    /// The address of the first byte.
    pub start: u64,
    /// The text.
    pub bytes: Vec<u8>,
    /// Exception table: instructions that may fault, and where execution then continues.
    pub fixups: Vec<(u64, u64)>,
    /// Places that the kernel patches.
    pub patched: Vec<u64>,
    /// The range of the thunks for indirect jumps.
    pub thunks: Range<u64>,
    /// Other parts of the function.
    pub parts: Vec<Range<u64>>,
}

impl Surroundings for PlainText {
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let fault = |address| Fault { address, write: false };
        let from = address.checked_sub(self.start).ok_or(fault(address))? as usize;
        let end = from.checked_add(into.len()).ok_or(fault(address))?;
        let bytes = self.bytes.get(from..end).ok_or(fault(self.start.wrapping_add(self.bytes.len() as u64)))?;
        into.copy_from_slice(bytes);
        Ok(())
    }
    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        self.fixups.iter().map(|(at, _)| *at).filter(|at| range.contains(at)).min()
    }
    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        self.fixups.iter().map(|(_, to)| *to).filter(|to| range.contains(to)).min()
    }
    fn reserved(&self, range: Range<u64>) -> Option<(u64, &'static str)> {
        self.patched.iter().copied().filter(|at| range.contains(at)).min().map(|at| (at, "a place that is patched"))
    }
    fn indirect_thunks(&self) -> Range<u64> {
        self.thunks.clone()
    }
    fn other_parts(&self) -> &[Range<u64>] {
        &self.parts
    }
}
