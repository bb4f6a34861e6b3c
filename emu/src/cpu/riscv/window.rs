//! The probe window on RISC-V: its place, and the entry in the guest's page tables that maps it.

use super::paging::{self, MAPS, PAGE, Start, VALID, entry_for, page};
use super::state::places;
use crate::boot::Kernel;
use crate::cpu::{Exception, Shown, WindowPlace, window};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// The distance from a stock kernel's start. Linux maps only its image in the last 2 GiB of addresses, so the table for the
/// image exists and has free entries here. `auipc` and `jalr` reach the kernel and most of its modules.
const BEHIND_START: u64 = 512 << 20;
/// The largest size behind a stock kernel.
const MOST_OF_STOCK: u64 = 16 << 20;
/// The largest size in front of another kernel. `jal` reaches the kernel's first 64 KiB from all of the window.
const MOST_IN_FRONT: u64 = 896 << 10;

const MIB: u64 = 1 << 20;
/// The kernel's half of a 32-bit address space.
const KERNEL_HALF: u64 = 1 << 31;

fn kernel_start(kernel: &Kernel) -> u64 {
    let starts = kernel.segments.iter().map(|segment| segment.virtual_address).filter(|start| *start >= KERNEL_HALF);
    starts.min().unwrap_or(kernel.entry) & !(2 * MIB - 1)
}

/// The window's virtual start.
pub fn start(kernel: &Kernel) -> u64 {
    match kernel.is_stock() {
        true => kernel_start(kernel).wrapping_add(BEHIND_START),
        false => kernel_start(kernel).wrapping_sub(most(kernel)),
    }
}

/// The largest possible size.
pub fn most(kernel: &Kernel) -> u64 {
    if kernel.is_stock() { MOST_OF_STOCK } else { MOST_IN_FRONT }
}

// Readable, executable, global, accessed. Not writable, not for programs.
const LEAF: u64 = VALID | 1 << 1 | 1 << 3 | 1 << 5 | 1 << 6;

/// The layout of the window's own tables, which is that of every table of the last level.
fn own(window: &WindowPlace) -> Start {
    let is_wide = window.start > u32::MAX.into();
    Start { table: window.tables, levels: 2, stride: if is_wide { 9 } else { 10 } }
}

/// Size of the machine's own page tables: one for each 2 MiB that the window touches, which is enough for both widths.
pub fn table_bytes(window_bytes: u64) -> u64 {
    (window_bytes / (2 * MIB) + 2) << PAGE
}

/// The own table for the part of the address space that has this address.
fn own_table(window: &WindowPlace, start: Start, address: u64) -> u64 {
    let number = |address: u64| address >> start.shift(1);
    window.tables + (number(address).wrapping_sub(number(window.start)) << PAGE)
}

fn leaf(window: &WindowPlace, address: u64) -> u64 {
    entry_for(window.physical.wrapping_add(address.wrapping_sub(window.start)), LEAF)
}

/// Fills the machine's own tables, once.
pub fn prepare_tables(ram: &Ram, window: &WindowPlace) {
    let start = own(window);
    for address in (window.start..window.start + window.len).step_by(1 << PAGE) {
        let at = start.entry(own_table(window, start, address), 0, address);
        ram.set_word(at, leaf(window, address), start.entry_bytes());
    }
}

/// Maps an address of the window in the current page tables. Adds an entry to the guest's table for that part of the
/// address space or, if there is none, an entry that points to a table of ours. Returns `None` if they have no room for it.
pub fn show_window(handle: &Handle, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    show_under(paging::start(handle, address)??, ram, window, address)
}

fn show_under(start: Start, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    let (mut table, bytes) = (start.table, start.entry_bytes());
    for level in (0..start.levels).rev() {
        let at = start.entry(table, level, address);
        let before = start.read(ram, at);
        let wanted = match (level, before & VALID != 0) {
            (0, false) => leaf(window, address),
            (1, false) => entry_for(own_table(window, start, address), VALID),
            (1.., true) if before & MAPS == 0 => {
                table = page(before);
                continue;
            }
            _ => return None,
        };
        return ram.set_word(at, wanted, bytes).then_some(Shown { at, before, bytes });
    }
    None
}

/// The window address whose fetch failed, if it is one. The core has written nothing that the guest could see.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let address = places(handle).word(handle, |places| places.fault_address);
    window::missed(handle, exception, window, address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::mem::ByteOrder;

    const BASE: u64 = 0x8000_0000;
    const OWN: u64 = BASE + 0x20_0000;
    const PHYSICAL: u64 = BASE + 0x60_0000;

    /// KP-1: all kinds of tables, with and without the guest's own.
    #[test]
    fn the_window_is_seen_where_it_is_shown_and_nowhere_else() {
        #[rustfmt::skip]
        let cases = [
            (3, 9,  0xffff_ffff_a000_0000),
            (4, 9,  0xffff_ffff_a000_0000),
            (5, 9,  0xffff_ffff_a000_0000),
            (2, 10, 0xbff2_0000),
        ];
        for (levels, stride, at) in cases {
            let ram = Ram::at(BASE, 8 << 20, ByteOrder::Little).expect("memory");
            let place = WindowPlace { start: at, len: 896 << 10, physical: PHYSICAL, tables: OWN };
            prepare_tables(&ram, &place);
            let start = Start { table: BASE, levels, stride };
            let address = at + 0x1_3458;
            let found = || paging::walk(&ram, start, address).map(|found| found.physical);
            let shown = || {
                let shown = show_under(start, &ram, &place, address)?;
                assert_eq!(found(), Some(PHYSICAL + 0x1_3458), "{levels} levels");
                window::hide(&ram, &shown);
                Some(shown.at)
            };
            let mut table = BASE;
            for level in (1..levels).rev() {
                let entry = start.entry(table, level, address);
                let expected = (level == 1).then_some(entry);
                assert_eq!((shown(), found()), (expected, None), "{levels} levels: a table of ours at level {level}");
                table += 0x1000;
                ram.set_word(entry, entry_for(table, VALID), start.entry_bytes());
            }
            let entry = start.entry(table, 0, address);
            assert_eq!((shown(), found()), (Some(entry), None), "{levels} levels: in the guest's own table");
            ram.set_word(entry, entry_for(BASE, VALID | 2), start.entry_bytes());
            assert_eq!(shown(), None, "{levels} levels: where something of the guest's is");
        }
    }
}
