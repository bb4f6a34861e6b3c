//! The probe window on AArch64: its place, and the entry in the guest's page tables that maps it.

use super::paging::{self, Start, TABLE, VALID, next_table};
use super::state::{FAULT_ADDRESS, TTBR0, TTBR1};
use crate::boot::Kernel;
use crate::cpu::{Exception, Shown, WindowPlace, window};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use unicorn_engine_sys::RegisterARM64;

/// The link address of kernels up to 6.5.
const USUAL_IMAGE: u64 = 0xffff_8000_0800_0000;
/// Addresses from here on are the kernel's.
const KERNEL_HALF: u64 = 1 << 63;
/// The space between modules and the kernel, if there are few modules.
pub const WINDOW_MOST: u64 = 16 << 20;

/// The start of the window. The window lies in front of the kernel's image, at the end of the modules' area, which Linux
/// fills from its start. It is within branch reach (128 MiB) of the first 96 MiB of the kernel.
pub fn window_start(kernel: &Kernel) -> u64 {
    let places = kernel.segments.iter().map(|segment| segment.virtual_address).filter(|place| *place >= KERNEL_HALF);
    places.min().unwrap_or(USUAL_IMAGE).saturating_sub(WINDOW_MOST) & !(WINDOW_MOST - 1)
}

// Valid, accessed, inner shareable, read-only, not for user code.
const LEAF: u64 = VALID | 1 << 7 | 3 << 8 | 1 << 10 | 1 << 54;

/// A page table of our own for one granule. It is used where the guest has no table yet.
struct Own {
    /// The number of bits of a page offset.
    granule: u32,
    /// The number of address bits that an entry covers: a page, or a 2 MiB block with 4 KiB pages.
    leaf: u32,
    /// Offset from the start of our tables.
    at: u64,
}

/// The largest comes first, because each must be aligned to its size.
static OWN: [Own; 3] = [
    Own { granule: 16, leaf: 16, at: 0 },
    Own { granule: 14, leaf: 14, at: 64 << 10 },
    Own { granule: 12, leaf: 21, at: (64 + 16) << 10 },
];
/// The size of all tables together.
pub const TABLE_BYTES: u64 = (64 + 16 + 4) << 10;

impl Own {
    /// The entry for this offset in the window.
    fn leaf(&self, window: &WindowPlace, offset: u64) -> u64 {
        let is_page = self.leaf == self.granule;
        (window.physical + (offset & !((1 << self.leaf) - 1))) | LEAF | if is_page { TABLE } else { 0 }
    }
}

/// Fills our own tables, once.
pub fn prepare_tables(ram: &Ram, window: &WindowPlace) {
    for own in &OWN {
        let entries = (1u64 << (own.granule - 3)) - 1;
        for offset in (0..window.len).step_by(1 << own.leaf) {
            let index = (window.start + offset) >> own.leaf & entries;
            ram.set_word64(window.tables + own.at + index * 8, own.leaf(window, offset));
        }
    }
}

/// Maps an address of the window in the current page tables while the CPU is there. Adds an entry to the guest's table
/// for that part of the address space or, if there is none, an entry that points to our own table. Returns `None` if
/// they have no room for it.
pub fn show_window(handle: &Handle, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    show_under(paging::start(handle, address)??, ram, window, address)
}

fn show_under(start: Start, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    let own = OWN.iter().find(|own| own.granule == start.granule())?;
    let (mut table, mut shift) = (start.table, start.shift);
    loop {
        let at = start.entry(table, shift, address);
        let before = ram.word64(at);
        let wanted = match shift.checked_sub(own.leaf)? {
            0 => own.leaf(window, address.wrapping_sub(window.start)),
            above if above == start.stride && before & VALID == 0 => (window.tables + own.at) | VALID | TABLE,
            _ => {
                table = next_table(before, own.granule)?;
                shift -= start.stride;
                continue;
            }
        };
        return (before & VALID == 0 && ram.set_word64(at, wanted)).then_some(Shown { at, before, bytes: 8 });
    }
}

/// TTBR1_EL1 mixed with the ASID in TTBR0_EL1: the core flushes its TLB when the ASID changes. (TTBR1_EL1 may hold the
/// ASID as well.)
pub fn tables_in_force(handle: &Handle) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    handle.live64(TTBR1) ^ (handle.live64(TTBR0) >> 48).wrapping_mul(SPREAD)
}

/// The window address whose fetch failed, if it is one. The core has written nothing that the guest could see.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    window::missed(handle, exception, window, handle.live64(FAULT_ADDRESS))
}

/// The value of FAR_EL1.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.read(RegisterARM64::FAR_EL1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::mem::ByteOrder;

    const BASE: u64 = 0x4000_0000;
    const TABLES: u64 = 0x20_0000;
    const PHYSICAL: u64 = 0x60_0000;

    /// KP-1: all granules, with and without the guest's own tables.
    #[test]
    fn the_window_is_seen_where_it_is_shown_and_nowhere_else() {
        #[rustfmt::skip]
        let cases = [
            // granule, TCR_EL1, window, address bits below the index at the first level and at the level below
            ("4 KiB",   16u64 << 16 | 2 << 30,                      0xffff_8000_7f00_0000,  39, 30),
            ("16 KiB",  17 << 16 | 1 << 30,                         0xffff_c000_7f00_0000,  36, 25),
            ("64 KiB",  16 << 16 | 3 << 30,                         0xffff_8000_7f00_0000,  42, 29),
        ];
        for (what, tcr, at, top, below) in cases {
            let ram = Ram::at(BASE, 8 << 20, ByteOrder::Little).expect("memory");
            let place = WindowPlace { start: at, len: 2 << 20, physical: BASE + PHYSICAL, tables: BASE + TABLES };
            prepare_tables(&ram, &place);
            let start = paging::start_of(tcr, BASE, true, at).expect("tables");
            assert_eq!(start.shift, top, "{what}");
            let address = at + 0x12_3458;
            let found = || paging::walk(&ram, start, address).map(|found| (found.physical, found.writable));
            let shown = || {
                let shown = show_under(start, &ram, &place, address)?;
                assert_eq!(found(), Some((BASE + PHYSICAL + 0x12_3458, false)), "{what}");
                window::hide(&ram, &shown);
                Some(shown.at)
            };
            // The guest's own tables are created level by level.
            let mut table = BASE;
            for shift in [top, below] {
                let entry = start.entry(table, shift, address);
                if shift == below {
                    assert_eq!((shown(), found()), (Some(entry), None), "{what}: in front of a table of ours");
                } else {
                    assert_eq!(shown(), None, "{what}: so far up there is a table in every guest");
                }
                table += 64 << 10;
                ram.set_word64(entry, table | VALID | TABLE);
            }
            let leaf = OWN.iter().find(|own| own.granule == start.granule()).expect("it is known").leaf;
            let entry = start.entry(table, leaf, address);
            assert_eq!((shown(), found()), (Some(entry), None), "{what}: in the guest's own table");
            ram.set_word64(entry, BASE | VALID | TABLE);
            assert_eq!(shown(), None, "{what}: where something of the guest's is");
        }
    }
}
