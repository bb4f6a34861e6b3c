//! The RAM of a test's machine: bytes from a physical address on, which hold little-endian numbers.

use std::ops::Range;

/// The place of a number in the RAM that begins at `base`; `None` outside of it.
pub fn range(ram: &[u8], base: u64, physical: u64, size: u32) -> Option<Range<usize>> {
    let start = usize::try_from(physical.checked_sub(base)?).ok()?;
    let end = start.checked_add(size as usize)?;
    (end <= ram.len()).then_some(start..end)
}

/// Reads a number; `None` outside of the RAM.
pub fn load(ram: &[u8], base: u64, physical: u64, size: u32) -> Option<u64> {
    let bytes = &ram[range(ram, base, physical, size)?];
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Writes a number; false outside of the RAM.
pub fn store(ram: &mut [u8], base: u64, physical: u64, size: u32, value: u64) -> bool {
    let Some(range) = range(ram, base, physical, size) else { return false };
    ram[range].copy_from_slice(&value.to_le_bytes()[..size as usize]);
    true
}
