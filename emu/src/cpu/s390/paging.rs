//! Page-table walks: region, segment and page tables, for each address space; then the prefix.

use super::state::{CONTROL, MASK, PREFIX, PROBLEM, SPACE, TRANSLATES, WIDE};
use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::Fault;

// Program interruption codes of an access: protection.
/// It may not be written.
pub const PROTECTION: u32 = 4;
/// Addressing: the memory does not exist.
pub const ADDRESSING: u32 = 5;
/// Translation specification: the tables are invalid.
const SPECIFICATION: u32 = 0x12;
const SEGMENT: u32 = 0x10;
const PAGE: u32 = 0x11;
const TYPE: u32 = 0x38;
const REGION_FIRST: u32 = 0x39;

/// Fields of an ASCE: the origin of the first table, real space, the table's type, its length.
const ORIGIN: u64 = !0xfff;
const REAL_SPACE: u64 = 0x20;
const KIND_BIT: u32 = 2;
const LENGTH: u64 = 3;

// A region- or segment-table entry. The page table of a segment may be at any multiple of 2 KiB.
/// The entry is invalid.
pub const INVALID: u64 = 0x20;
const OFFSET_BIT: u32 = 6;
const PAGES: u64 = !0x7ff;
/// The whole segment is write-protected.
pub const SEGMENT_PROTECTED: u64 = 0x200;
// A page-table entry.
const PAGE_INVALID: u64 = 0x400;
const PAGE_PROTECTED: u64 = 0x200;

/// The number of address bits that a segment covers.
pub const SEGMENT_BITS: u32 = 20;
/// Pages in a segment.
pub const SEGMENT_PAGES: u64 = 256;
/// Entries of a segment table.
pub const SEGMENTS: u64 = 1 << TABLE_BITS;
const TABLE_BITS: u32 = 11;
/// The type and length of an entry that stands for a whole segment table.
pub const WHOLE_SEGMENT_TABLE: u64 = 1 << KIND_BIT | LENGTH;

/// Size of the prefix area: its bytes at real address 0 and at the prefix are exchanged.
pub const PREFIXED: u64 = 0x2000;

/// The absolute address of a real one.
#[inline]
pub fn absolute(handle: &Handle, real: u64) -> u64 {
    let prefix = handle.live64(PREFIX);
    match real {
        low if low < PREFIXED => low + prefix,
        own if own.wrapping_sub(prefix) < PREFIXED => own - prefix,
        other => other,
    }
}

/// An address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Real mode, without tables.
    Real,
    /// The space whose ASCE is in this control register.
    By(u8),
}

/// The primary space, in which user programs run.
pub const PRIMARY: Space = Space::By(1);
/// The secondary space: the user program's while the kernel runs.
const SECONDARY: Space = Space::By(7);
/// The home space: the kernel's.
pub const HOME: Space = Space::By(13);

/// The CPU's current space.
#[inline]
pub fn space(handle: &Handle) -> Space {
    let mask = handle.live64(MASK);
    if mask & TRANSLATES == 0 {
        return Space::Real;
    }
    match mask & SPACE {
        super::state::HOME => HOME,
        super::state::SECONDARY => Space::By(7),
        _ => PRIMARY,
    }
}

/// The address space of instruction fetches: the home space in home-space mode, else the primary space.
#[inline]
pub fn code_space(handle: &Handle) -> Space {
    match space(handle) {
        Space::Real => Space::Real,
        HOME => HOME,
        _ => PRIMARY,
    }
}

/// The program interruption code of a failed translation.
pub type Refused = u32;

/// The address of the segment-table entry for an address. Fails if there is no table for it.
pub fn segment(handle: &Handle, ram: &Ram, space: Space, address: u64) -> Result<u64, Refused> {
    entry(handle, ram, space, address, 0)
}

/// The address of the entry for an address in a region-third table, each of whose entries stands for a segment table.
pub fn region(handle: &Handle, ram: &Ram, space: Space, address: u64) -> Result<u64, Refused> {
    entry(handle, ram, space, address, 1)
}

/// The address of the entry for an address in the table of a level. The segment table has level 0.
fn entry(handle: &Handle, ram: &Ram, space: Space, address: u64, wanted: u32) -> Result<u64, Refused> {
    let Space::By(register) = space else { return Err(TYPE) };
    let element = handle.live64(CONTROL + 8 * usize::from(register));
    if element & REAL_SPACE != 0 {
        return Err(TYPE);
    }
    let kind = (element >> KIND_BIT & 3) as u32;
    let (mut table, mut from, mut to) = (element & ORIGIN, 0, element & LENGTH);
    let bits = |level: u32| SEGMENT_BITS + TABLE_BITS * level;
    if kind < 3 && address >> bits(kind + 1) != 0 {
        return Err(TYPE);
    }
    for level in (0..=kind).rev() {
        let number = address >> bits(level) & ((1 << TABLE_BITS) - 1);
        let missing = if level == 0 { SEGMENT } else { REGION_FIRST + 3 - level };
        if !(from..=to).contains(&(number >> (TABLE_BITS - 2))) {
            return Err(if level == kind { TYPE } else { missing });
        }
        let at = table + 8 * number;
        if level == wanted {
            return Ok(at);
        }
        let entry = ram.get64(absolute(handle, at)).ok_or(ADDRESSING)?;
        if entry & INVALID != 0 {
            return Err(missing);
        }
        if (entry >> KIND_BIT & 3) as u32 != level {
            return Err(SPECIFICATION);
        }
        (table, from, to) = (entry & ORIGIN, entry >> OFFSET_BIT & 3, entry & LENGTH);
    }
    Err(SPECIFICATION)
}

/// Walks the tables of a space. Returns the absolute address and whether it may be written.
pub fn walk(handle: &Handle, ram: &Ram, space: Space, address: u64) -> Result<(u64, bool), Refused> {
    if space == Space::Real {
        return Ok((absolute(handle, address), true));
    }
    let word = |at: u64| ram.get64(absolute(handle, at)).ok_or(ADDRESSING);
    let segment = word(segment(handle, ram, space, address)?)?;
    if segment & INVALID != 0 {
        return Err(SEGMENT);
    }
    let page = word((segment & PAGES) + 8 * (address >> 12 & (SEGMENT_PAGES - 1)))?;
    if page & PAGE_INVALID != 0 {
        return Err(PAGE);
    }
    let writable = segment & SEGMENT_PROTECTED == 0 && page & PAGE_PROTECTED == 0;
    Ok((absolute(handle, page & ORIGIN | address & !ORIGIN), writable))
}

/// A page-table entry for a page that may be read and executed.
pub const fn page_that_runs(physical: u64) -> u64 {
    physical | PAGE_PROTECTED
}

/// Translates an address by the kernel's tables, or by the user program's for [`Access::User`].
pub fn translate(handle: &Handle, ram: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let write = access == Access::Write;
    let in_force = space(handle);
    let space = match access {
        Access::User if in_force != Space::Real => SECONDARY,
        // A look is for code.
        Access::Look if handle.live64(MASK) & PROBLEM == 0 => code_space(handle),
        // While a user program runs, the kernel's space is the home space.
        _ if handle.live64(MASK) & PROBLEM != 0 => HOME,
        _ => in_force,
    };
    let (physical, writable) = walk(handle, ram, space, address).map_err(|_| Fault { address, write })?;
    if write && !writable { Err(Fault { address, write }) } else { Ok(physical) }
}

/// Wraps a computed address according to the addressing mode.
#[inline]
pub fn wrapped(handle: &Handle, sum: u64) -> u64 {
    match handle.live64(MASK) & WIDE {
        WIDE => sum,
        0 => sum & 0xff_ffff,
        _ => sum & 0x7fff_ffff,
    }
}
