//! The probe window on 64-bit PowerPC: where it lies, and the entry by which the guest's tables show it.

use super::paging;
use super::state::{PID, PTCR};
use crate::cpu::{Exception, Shown, WindowPlace};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::ByteOrder;

/// Between the constants of Debian's kernel, which end below this, and its init sections, which begin at the next
/// multiple of 16 MiB: within the reach of a branch (32 MiB) from all of its text. The kernel keeps this part of its
/// image and never looks at it; what it maps there is taken out as soon as it has its page tables ([`clear`]).
pub const WINDOW_START: u64 = 0xc000_0000_0120_0000;
/// As much as there is up to the init sections.
pub const WINDOW_MOST: u64 = 14 << 20;

const BLOCK_BITS: u32 = 21;

/// Puts the entry for one address of the window into the page tables in force, for as long as the CPU is there. `None`:
/// they have no room for it. A table of smaller pages that hangs there is put back with the entry; the guest has
/// nothing in it.
pub fn show_window(handle: &Handle, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    let tree = paging::tree(handle, ram, address)?;
    let (at, bits) = paging::entry(ram, tree, address, BLOCK_BITS)?;
    let before = paging::word(ram, at);
    if bits != BLOCK_BITS || paging::is_page(before) {
        return None;
    }
    let offset = address.wrapping_sub(window.start) & !((1 << BLOCK_BITS) - 1);
    paging::set_word(ram, at, paging::page_that_runs(window.physical + offset));
    Some(Shown { at, before, bytes: 8 })
}

/// Takes the guest's own entries out, once, so that a fetch from there is noticed.
pub fn clear(handle: &Handle, ram: &Ram, window: &WindowPlace) {
    for address in (window.start..window.start + window.len).step_by(1 << BLOCK_BITS) {
        let found = paging::tree(handle, ram, address).and_then(|tree| paging::entry(ram, tree, address, BLOCK_BITS));
        if let Some((at, BLOCK_BITS)) = found {
            paging::set_word(ram, at, 0);
        }
    }
}

/// Takes the entry out again.
pub fn hide_window(ram: &Ram, shown: &Shown) {
    let mut bytes = [0; 8];
    ByteOrder::Big.put(shown.before, &mut bytes);
    ram.write(shown.at, &bytes);
}

/// The core drops all translations when one of these is written.
pub fn tables_in_force(handle: &Handle) -> u64 {
    handle.live64(PTCR) ^ handle.live64(PID) << 48
}

/// The fetch that has failed, if it was one of the window's.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let pc = handle.pc();
    (exception.fetch && window.holds(pc)).then_some(pc)
}
