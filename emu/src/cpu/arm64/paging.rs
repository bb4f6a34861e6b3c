//! Page-table walks: granules of 4 KiB, 16 KiB and 64 KiB, both halves of the address space.

use super::state::{SCTLR, TCR, TTBR0, TTBR1};
use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::Fault;

const MMU_ON: u64 = 1;
/// The entry is valid.
pub const VALID: u64 = 1;
/// The entry points to a table; at the last level it maps a page.
pub const TABLE: u64 = 1 << 1;
const READ_ONLY: u64 = 1 << 7;
const TABLE_READ_ONLY: u64 = 1 << 62;
const OUTPUT: u64 = 0x0000_ffff_ffff_f000;
// TCR_EL1: a half has no tables; the top byte of its addresses is ignored (a tag).
const NO_LOWER: u64 = 1 << 7;
const NO_UPPER: u64 = 1 << 23;
const TAGGED_LOWER: u64 = 1 << 37;
const TAGGED_UPPER: u64 = 1 << 38;

/// The start of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The physical address of the first table.
    pub table: u64,
    /// The number of address bits below the first table's index.
    pub shift: u32,
    /// The number of bits of an index. A page offset has 3 more.
    pub stride: u32,
    /// The number of significant address bits.
    pub bits: u32,
}

impl Start {
    /// The physical address of the entry for an address in a table whose entries cover `shift` low bits.
    pub fn entry(&self, table: u64, shift: u32, address: u64) -> u64 {
        let bits = self.bits.saturating_sub(shift).min(self.stride);
        table + (address >> shift & ((1 << bits) - 1)) * 8
    }

    /// The number of bits of a page offset.
    pub fn granule(&self) -> u32 {
        self.stride + 3
    }
}

/// The table that an entry points to, for page offsets of `granule` bits. `None` if it points to none.
pub fn next_table(entry: u64, granule: u32) -> Option<u64> {
    (entry & (VALID | TABLE) == VALID | TABLE).then_some(entry & OUTPUT & !((1 << granule) - 1))
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The physical address.
    pub physical: u64,
    /// Whether all levels allow writing.
    pub writable: bool,
}

/// The start of a walk for an address. The outer `None` means that the MMU is off, the inner one that the address is
/// not translated.
pub fn start(handle: &Handle, address: u64) -> Option<Option<Start>> {
    (handle.live64(SCTLR) & MMU_ON != 0).then(|| {
        let upper = address >> 55 & 1 != 0;
        let base = handle.live64(if upper { TTBR1 } else { TTBR0 });
        start_of(handle.live64(TCR), base, upper, address)
    })
}

/// The number of bits of an offset in the kernel's pages: the granule of its half.
pub fn kernels_page_bits(handle: &Handle) -> u32 {
    [12, 14, 12, 16][(handle.live64(TCR) >> 30 & 3) as usize]
}

/// The start of a walk, from the values of TCR and TTBR.
pub fn start_of(tcr: u64, base: u64, upper: bool, address: u64) -> Option<Start> {
    let (size, granule, tagged, disabled) = match upper {
        true => (tcr >> 16 & 63, [0, 14, 12, 16][(tcr >> 30 & 3) as usize], tcr & TAGGED_UPPER, tcr & NO_UPPER),
        false => (tcr & 63, [12, 16, 14, 0][(tcr >> 14 & 3) as usize], tcr & TAGGED_LOWER, tcr & NO_LOWER),
    };
    if granule == 0 || !(16..=39).contains(&size) || disabled != 0 {
        return None;
    }
    let bits = 64 - size as u32;
    // All bits above the translated ones must equal bit 55, except for a tag.
    let address = if tagged == 0 { address.cast_signed() } else { (address << 8).cast_signed() >> 8 };
    if address >> bits != if upper { -1 } else { 0 } {
        return None;
    }
    let stride = granule - 3;
    let levels = (bits - granule).div_ceil(stride);
    Some(Start { table: base & OUTPUT & !1, shift: granule + stride * (levels - 1), stride, bits })
}

/// Walks the tables for an address.
pub fn walk(ram: &Ram, start: Start, address: u64) -> Option<Found> {
    let Start { mut table, mut shift, stride, .. } = start;
    let granule = start.granule();
    let mut writable = true;
    loop {
        let entry = ram.word64(start.entry(table, shift, address));
        if entry & VALID == 0 {
            return None;
        }
        let last = shift == granule;
        if last || entry & TABLE == 0 {
            // A last-level entry must be marked as a page; blocks are at the levels above.
            let is_leaf = (entry & TABLE != 0) == last;
            let offset = (1u64 << shift) - 1;
            let physical = entry & OUTPUT & !offset | address & offset;
            return is_leaf.then_some(Found { physical, writable: writable && entry & READ_ONLY == 0 });
        }
        writable &= entry & TABLE_READ_ONLY == 0;
        table = next_table(entry, granule)?;
        shift -= stride;
    }
}

/// Translates a kernel address by the current page tables. Fails if the kernel's rights do not allow the access.
pub fn translate(handle: &Handle, ram: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let fault = Fault { address, write: access == Access::Write };
    let Some(start) = start(handle, address) else { return Ok(address) };
    let found = walk(ram, start.ok_or(fault)?, address).ok_or(fault)?;
    if access == Access::Write && !found.writable { Err(fault) } else { Ok(found.physical) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::mem::ByteOrder;

    const TCR_4K_48: u64 = 16 | 16 << 16 | 2 << 30;
    const TCR_64K_42: u64 = 22 | 1 << 14 | 22 << 16 | 3 << 30;

    #[test]
    fn both_halves_are_found_by_size_and_granule() {
        let kernel = 0xffff_8000_0800_0000;
        let four = start_of(TCR_4K_48, 0x4100_0000, true, kernel);
        assert_eq!(four, Some(Start { table: 0x4100_0000, shift: 39, stride: 9, bits: 48 }));
        let low = start_of(TCR_4K_48, 0x4200_0000, false, 0x40_0000);
        assert_eq!(low, Some(Start { table: 0x4200_0000, shift: 39, stride: 9, bits: 48 }));
        let wide = start_of(TCR_64K_42, 0x4100_0000, true, 0xffff_fe00_0000_0000);
        assert_eq!(wide, Some(Start { table: 0x4100_0000, shift: 29, stride: 13, bits: 42 }));
        assert_eq!(start_of(TCR_4K_48, 0, true, 0xff00_8000_0800_0000 | 1 << 55), None, "between the halves");
        let tagged = 0x5aff_8000_0800_0000;
        assert_eq!(start_of(TCR_4K_48, 0, true, tagged), None, "a tag where there are none");
        assert_eq!(start_of(TCR_4K_48 | TAGGED_LOWER, 0, true, tagged), None, "a tag where the other half has them");
        assert!(start_of(TCR_4K_48 | TAGGED_UPPER, 0, true, tagged).is_some(), "a tag");
        assert!(start_of(TCR_4K_48 | TAGGED_LOWER, 0, false, 0x5a00_0000_0040_0000).is_some(), "a tag below");
        assert_eq!(start_of(TCR_4K_48 | NO_UPPER, 0, true, kernel), None, "no tables above");
        assert_eq!(start_of(TCR_4K_48 | NO_LOWER, 0, false, 0x40_0000), None, "no tables below");
    }

    #[test]
    fn pages_blocks_and_rights_are_read_from_the_tables() {
        let base = 0x4000_0000;
        let ram = Ram::at(base, 4 << 20, ByteOrder::Little).expect("memory");
        let put = |at: u64, value: u64| assert!(ram.set_word64(at, value));
        let address = 0xffff_8000_0800_0000u64;
        put(base + (address >> 39 & 511) * 8, (base + 0x1000) | 3);
        put(base + 0x1000 + (address >> 30 & 511) * 8, (base + 0x2000) | 3);
        put(base + 0x2000 + (address >> 21 & 511) * 8, (base + 0x20_0000) | 1 | READ_ONLY);
        put(base + 0x2000 + ((address >> 21 & 511) + 1) * 8, (base + 0x3000) | 3);
        put(base + 0x3000 + 8, (base + 0x5000) | 3);
        put(base + 0x3000 + 16, (base + 0x6000) | 1);
        let start = start_of(TCR_4K_48, base, true, address).expect("tables");
        let found = |offset: u64| walk(&ram, start, address + offset).map(|found| (found.physical - base, found.writable));
        assert_eq!(found(0x1234), Some((0x20_1234, false)), "a block");
        assert_eq!(found(0x20_1234), Some((0x5234, true)), "a page");
        assert_eq!(found(0x20_2000), None, "an entry that is no page");
        assert_eq!(found(0x40_0000), None, "nothing");
    }
}
