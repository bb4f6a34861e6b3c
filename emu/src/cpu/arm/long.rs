//! Page-table walks in the long format (LPAE): up to three levels of 8-byte entries, with blocks of 1 GiB and 2 MiB.

use super::paging::Found;
use super::state::{PARTED, TABLES_HIGH, TABLES_LOW};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// TTBCR.EAE: the long format is in use.
const LONG: u32 = 1 << 31;
const VALID: u64 = 1;
const TABLE_OR_PAGE: u64 = 2;
const READ_ONLY: u64 = 1 << 7;
const ADDRESS: u64 = 0xff_ffff_f000;
const TOP_ADDRESS: u64 = 0xff_ffff_ffe0;

/// For each level, the number of low address bits that one of its entries covers.
const LEVELS: [u32; 3] = [30, 21, 12];

/// Whether the long format is in use.
#[inline]
pub fn is_in_force(handle: &Handle) -> bool {
    handle.live32(PARTED) & LONG != 0
}

/// The page tables for a part of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    top: u64,
    /// Address bits that these tables translate.
    bits: u32,
}

impl Table {
    /// The tables for an address. `None` if it has none.
    pub fn of(handle: &Handle, address: u64) -> Option<Table> {
        let parted = handle.live32(PARTED);
        Table::parted(parted, [handle.live64(TABLES_LOW), handle.live64(TABLES_HIGH)], address)
    }

    fn parted(parted: u32, [low, high]: [u64; 2], address: u64) -> Option<Table> {
        let (below, above) = (parted & 7, parted >> 16 & 7);
        let is_low = below == 0 || address >> (32 - below) == 0;
        let is_high = match (below, above) {
            (0, 0) => false,
            (_, 0) => !is_low,
            _ => address >> (32 - above) == (1 << above) - 1,
        };
        match (is_high, is_low) {
            (true, _) => Some(Table { top: high & TOP_ADDRESS, bits: 32 - above }),
            (_, true) => Some(Table { top: low & TOP_ADDRESS, bits: 32 - below }),
            _ => None,
        }
    }

    /// The physical address of the 2 MiB entry for an address. `None` if a larger block or nothing precedes it.
    pub fn entry(self, ram: &Ram, address: u64) -> Option<u64> {
        let mut table = self.top;
        if self.bits > LEVELS[0] {
            let entry = ram.word64(self.index(table, address, LEVELS[0]));
            if entry & (VALID | TABLE_OR_PAGE) != VALID | TABLE_OR_PAGE {
                return None;
            }
            table = entry & ADDRESS;
        }
        Some(self.index(table, address, LEVELS[1]))
    }

    /// The physical address of the entry for an address in a table whose entries cover `leaves` low bits.
    fn index(self, table: u64, address: u64, leaves: u32) -> u64 {
        let inside = address & ((1 << self.bits) - 1);
        table + (inside >> leaves & 511) * 8
    }

    /// Walks the tables for an address.
    pub fn walk(self, ram: &Ram, address: u64) -> Option<Found> {
        let mut table = self.top;
        for leaves in LEVELS.into_iter().skip(usize::from(self.bits <= LEVELS[0])) {
            let entry = ram.word64(self.index(table, address, leaves));
            let is_last = leaves == LEVELS[2];
            match (entry & VALID != 0, entry & TABLE_OR_PAGE != 0) {
                (true, true) if !is_last => table = entry & ADDRESS,
                (true, one_more) if one_more == is_last => {
                    let offset = (1 << leaves) - 1;
                    return Some(Found {
                        physical: entry & ADDRESS & !offset | address & offset,
                        writable: entry & READ_ONLY == 0,
                    });
                }
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::mem::ByteOrder;

    const BASE: u64 = 0x4000_0000;

    #[test]
    fn the_address_space_is_parted_as_the_register_says() {
        let tables = [0x1000, 0x2000];
        let low = |bits| Some(Table { top: 0x1000, bits });
        let high = |bits| Some(Table { top: 0x2000, bits });
        #[rustfmt::skip]
        let cases = [
            // what                                 register    address         tables
            ("one part",                            LONG,               0xc000_0000,    low(32)),
            ("the upper gigabyte, above",           LONG | 2 << 16,     0xc000_0000,    high(30)),
            ("and below it",                        LONG | 2 << 16,     0xbfff_ffff,    low(32)),
            ("the lower half, below",               LONG | 1,           0x7fff_ffff,    low(31)),
            ("and above it",                        LONG | 1,           0x8000_0000,    high(32)),
            ("two parts, in neither",               LONG | 2 << 16 | 2, 0x8000_0000,    None),
        ];
        for (what, parted, address, expected) in cases {
            assert_eq!(Table::parted(parted, tables, address), expected, "{what}");
        }
    }

    #[test]
    fn blocks_and_pages_are_read_from_the_tables() {
        let ram = Ram::at(BASE, 4 << 20, ByteOrder::Little).expect("memory");
        let put = |at: u64, value: u64| assert!(ram.set_word64(at, value));
        let whole = Table { top: BASE + 0x20, bits: 32 };
        put(BASE + 0x20, 0x1_4000_0401);
        put(BASE + 0x20 + 3 * 8, (BASE + 0x1000) | 3);
        put(BASE + 0x1000 + 8, 0x4120_0481);
        put(BASE + 0x1000 + 16, (BASE + 0x2000) | 3);
        put(BASE + 0x2000 + 8, 0x40_4567_8403);
        put(BASE + 0x2000 + 16, 0x4567_9481);
        let upper = Table { top: BASE + 0x1000, bits: 30 };
        #[rustfmt::skip]
        let cases = [
            ("a block of 1 GiB",        0x0123_4567, Some((0x1_4123_4567, true))),
            ("a read-only block",       0xc021_2345, Some((0x4121_2345, false))),
            ("a page",                  0xc040_1234, Some((0x40_4567_8234, true))),
            ("a block where none is",   0xc040_2234, None),
            ("no page",                 0xc040_3000, None),
            ("no table",                0x4000_0000, None),
        ];
        for (what, address, expected) in cases {
            let found = |table: Table| table.walk(&ram, address).map(|found| (found.physical, found.writable));
            assert_eq!(found(whole), expected, "{what}");
            if address >= 0xc000_0000 {
                assert_eq!(
                    (found(upper), upper.entry(&ram, address)),
                    (expected, whole.entry(&ram, address)),
                    "{what}: two levels"
                );
            }
        }
        assert_eq!(whole.entry(&ram, 0xc040_1234), Some(BASE + 0x1010));
        assert_eq!(whole.entry(&ram, 0x0123_4567), None, "a block stands there");
    }
}
