//! Page-table walks in the short format: sections of 1 MiB and 16 MiB, pages of 4 KiB and 64 KiB.

use super::long;
use super::state::{CONTROL, PARTED, TABLES_HIGH, TABLES_LOW};
use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::Fault;

const MMU_ON: u32 = 1;

/// The address of the first-level table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table(u64);

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The physical address.
    pub physical: u64,
    /// Whether the kernel may write there.
    pub writable: bool,
}

impl Table {
    /// The table for an address.
    pub fn of(handle: &Handle, address: u64) -> Table {
        let parted = handle.live32(PARTED) & 7;
        let low = parted == 0 || address >> (32 - parted) == 0;
        match low {
            true => Table(u64::from(handle.live32(TABLES_LOW) & !((1 << (14 - parted)) - 1))),
            false => Table(u64::from(handle.live32(TABLES_HIGH) & 0xffff_c000)),
        }
    }

    /// The physical address of the first-level entry (1 MiB) for an address.
    pub fn entry(self, address: u64) -> u64 {
        self.0 + (address >> 20 & 0xfff) * 4
    }

    /// Walks the tables for an address.
    pub fn walk(self, ram: &Ram, address: u64) -> Option<Found> {
        const SECTION_READ_ONLY: u64 = 1 << 15;
        const SUPERSECTION: u64 = 1 << 18;
        const PAGE_READ_ONLY: u64 = 1 << 9;
        let first = u64::from(ram.word32(self.entry(address)));
        match first & 3 {
            1 => {
                let second = u64::from(ram.word32((first & 0xffff_fc00) + (address >> 12 & 0xff) * 4));
                let physical = match second & 3 {
                    0 => return None,
                    1 => second & 0xffff_0000 | address & 0xffff,
                    _ => second & 0xffff_f000 | address & 0xfff,
                };
                Some(Found { physical, writable: second & PAGE_READ_ONLY == 0 })
            }
            2 => {
                let physical = match first & SUPERSECTION {
                    0 => first & 0xfff0_0000 | address & 0xf_ffff,
                    _ => first & 0xff00_0000 | address & 0xff_ffff,
                };
                Some(Found { physical, writable: first & SECTION_READ_ONLY == 0 })
            }
            _ => None,
        }
    }
}

/// Whether the MMU is on.
pub fn is_on(handle: &Handle) -> bool {
    handle.live32(CONTROL) & MMU_ON != 0
}

/// Translates a kernel address by the current page tables. Fails if the kernel's rights do not allow the access.
pub fn translate(handle: &Handle, ram: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let fault = Fault { address, write: access == Access::Write };
    if !is_on(handle) {
        return Ok(address);
    }
    let found = match long::is_in_force(handle) {
        true => long::Table::of(handle, address).and_then(|table| table.walk(ram, address)),
        false => Table::of(handle, address).walk(ram, address),
    };
    let found = found.ok_or(fault)?;
    if access == Access::Write && !found.writable { Err(fault) } else { Ok(found.physical) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::mem::ByteOrder;

    #[test]
    fn sections_and_pages_are_read_from_the_tables() {
        const BASE: u64 = 0x4000_0000;
        let ram = Ram::at(BASE, 4 << 20, ByteOrder::Little).expect("memory");
        let table = Table(BASE + 0x4000);
        let put = |at: u64, value: u64| assert!(ram.set_word32(at, value as u32));
        put(table.entry(0xc010_0000), 0x4120_8402);
        put(table.entry(0xc020_0000), 0x4200_0000 | 1 << 18 | 0x402);
        put(table.entry(0xc030_0000), (BASE + 0x8000) | 1);
        put(BASE + 0x8000 + 4, 0x4567_8012);
        put(BASE + 0x8000 + 8, 0x4569_0211);
        #[rustfmt::skip]
        let cases = [
            ("a read-only section", 0xc012_3456, Some((0x4122_3456, false))),
            ("a large section",     0xc023_4567, Some((0x4223_4567, true))),
            ("a small page",        0xc030_1234, Some((0x4567_8234, true))),
            ("a large page",        0xc030_2abc, Some((0x4569_2abc, false))),
            ("no page",             0xc030_3000, None),
            ("no section",          0xc040_0000, None),
        ];
        for (what, address, expected) in cases {
            let found = table.walk(&ram, address).map(|found| (found.physical, found.writable));
            assert_eq!(found, expected, "{what}");
        }
    }
}
