//! Page-table walks: Sv39, Sv48 and Sv57 on 64-bit harts, Sv32 on 32-bit ones.

use super::state::{self, places};
use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::Fault;

/// The entry is valid.
pub const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
/// An entry with one of these maps memory. Others point to a table.
pub const MAPS: u64 = READ | WRITE | EXECUTE;
/// The bits of an entry below the number of its page.
const FLAGS: u32 = 10;
/// The bits of a page's number. Those above it belong to extensions that the core does not have.
const PAGE_NUMBER: u64 = (1 << 44) - 1;
/// The bits of an address within a page.
pub const PAGE: u32 = 12;

/// The start of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The physical address of the first table.
    pub table: u64,
    /// The number of levels.
    pub levels: u32,
    /// The number of bits of an index.
    pub stride: u32,
}

impl Start {
    /// Bytes of an entry. A table fills a page.
    pub fn entry_bytes(&self) -> usize {
        1 << (PAGE - self.stride)
    }

    /// The number of address bits below the index of a level; level 0 is the last one.
    pub fn shift(&self, level: u32) -> u32 {
        PAGE + self.stride * level
    }

    /// The physical address of the entry for an address in a table of that level.
    pub fn entry(&self, table: u64, level: u32, address: u64) -> u64 {
        table + (address >> self.shift(level) & ((1 << self.stride) - 1)) * self.entry_bytes() as u64
    }

    /// Reads an entry.
    pub fn read(&self, ram: &Ram, at: u64) -> u64 {
        if self.entry_bytes() == 8 { ram.word64(at) } else { ram.word32(at).into() }
    }
}

/// The physical address of an entry's page or table.
pub fn page(entry: u64) -> u64 {
    (entry >> FLAGS & PAGE_NUMBER) << PAGE
}

/// An entry for this physical address, with these flags.
pub fn entry_for(physical: u64, flags: u64) -> u64 {
    physical >> PAGE << FLAGS | flags
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The physical address.
    pub physical: u64,
    /// The flags of the last entry.
    pub flags: u64,
}

/// The start of a walk for an address. The outer `None` means that nothing is translated, the inner one that the address is
/// not valid.
pub fn start(handle: &Handle, address: u64) -> Option<Option<Start>> {
    let satp = places(handle).word(handle, |places| places.satp);
    if handle.is_wide() { start_64(satp, address) } else { start_32(satp) }
}

/// The start by a 64-bit satp. All bits above the translated ones must equal the highest of them.
pub fn start_64(satp: u64, address: u64) -> Option<Option<Start>> {
    let levels = match satp >> 60 {
        0 => return None,
        mode @ 8..=10 => mode as u32 - 5,
        _ => return Some(None),
    };
    let start = Start { table: (satp & PAGE_NUMBER) << PAGE, levels, stride: 9 };
    let above = address.cast_signed() >> (start.shift(levels) - 1);
    Some(matches!(above, 0 | -1).then_some(start))
}

/// The start by a 32-bit satp.
pub fn start_32(satp: u64) -> Option<Option<Start>> {
    (satp >> 31 & 1 != 0).then_some(Some(Start { table: (satp & 0x3f_ffff) << PAGE, levels: 2, stride: 10 }))
}

/// Walks the tables for an address.
pub fn walk(ram: &Ram, start: Start, address: u64) -> Option<Found> {
    let mut table = start.table;
    for level in (0..start.levels).rev() {
        let entry = start.read(ram, start.entry(table, level, address));
        if entry & VALID == 0 || entry & (READ | WRITE) == WRITE {
            return None;
        }
        if entry & MAPS == 0 {
            table = page(entry);
            continue;
        }
        let offset = (1u64 << start.shift(level)) - 1;
        // A large page must be aligned.
        let is_aligned = page(entry) & offset == 0;
        return is_aligned.then_some(Found { physical: page(entry) | address & offset, flags: entry });
    }
    None
}

/// Translates a kernel address by the current page tables. Fails if the kernel's rights do not allow the access; it may
/// access programs' memory.
pub fn translate(handle: &Handle, ram: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let fault = Fault { address, write: access == Access::Write };
    let address = state::cut(handle, address);
    let Some(start) = start(handle, address) else { return Ok(address) };
    let found = walk(ram, start.ok_or(fault)?, address).ok_or(fault)?;
    let needed = match access {
        Access::Write => WRITE,
        Access::Look => 0,
        // Linux may make its text executable only; the engine reads it as a debugger does.
        Access::Read | Access::User => READ | EXECUTE,
    };
    if needed != 0 && found.flags & needed == 0 { Err(fault) } else { Ok(found.physical) }
}

/// An identity of the current page tables: satp, with the address space's number.
pub fn tables_in_force(handle: &Handle) -> u64 {
    places(handle).word(handle, |places| places.satp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::mem::ByteOrder;

    const BASE: u64 = 0x8000_0000;

    #[test]
    fn the_mode_says_how_many_levels_there_are() {
        let kernel = 0xffff_ffff_8000_0000;
        for (mode, levels) in [(8, 3), (9, 4), (10, 5)] {
            let satp = mode << 60 | 0x1234 << 44 | BASE >> PAGE;
            assert_eq!(start_64(satp, kernel), Some(Some(Start { table: BASE, levels, stride: 9 })), "{mode}");
            assert_eq!(start_64(satp, 1 << (PAGE + 9 * levels - 1)), Some(None), "between the halves of mode {mode}");
        }
        assert_eq!((start_64(0, kernel), start_64(1 << 60, kernel)), (None, Some(None)));
        let narrow = Start { table: BASE, levels: 2, stride: 10 };
        assert_eq!((start_32(1 << 31 | BASE >> PAGE), start_32(BASE >> PAGE)), (Some(Some(narrow)), None));
    }

    #[test]
    fn pages_of_all_sizes_and_rights_are_read_from_the_tables() {
        let ram = Ram::at(BASE, 4 << 20, ByteOrder::Little).expect("memory");
        for start in [Start { table: BASE, levels: 3, stride: 9 }, Start { table: BASE, levels: 2, stride: 10 }] {
            let address = if start.stride == 9 { 0xffff_ffff_c000_0000 } else { 0xc000_0000 };
            let put = |at: u64, value: u64| assert!(ram.set_word(at, value, start.entry_bytes()));
            let mut table = BASE;
            for level in (1..start.levels).rev() {
                put(start.entry(table, level, address), entry_for(table + 0x1000, VALID));
                table += 0x1000;
            }
            let last = |page: u64| start.entry(table, 0, address + (page << PAGE));
            put(last(1), entry_for(BASE + 0x5000, VALID | READ | WRITE));
            put(last(2), entry_for(BASE + 0x6000, READ));
            put(last(3), entry_for(BASE + 0x7000, VALID | WRITE));
            put(last(4), entry_for(0, VALID));
            let found = |page: u64| walk(&ram, start, address + (page << PAGE) + 0x234).map(|found| found.physical - BASE);
            assert_eq!((0..5).map(found).collect::<Vec<_>>(), [None, Some(0x5234), None, None, None]);
            // A large page, and one that is not aligned.
            let large = 1 << start.shift(1);
            let at = start.entry(table - 0x1000, 1, address + large);
            put(at, entry_for(BASE, VALID | READ | EXECUTE));
            assert_eq!(walk(&ram, start, address + large + 0x12345).map(|found| found.physical), Some(BASE + 0x12345));
            put(at, entry_for(BASE + 0x1000, VALID | READ | EXECUTE));
            assert_eq!(walk(&ram, start, address + large), None);
        }
    }
}
