//! The probe window on z/Architecture: where the kernel sees what lies behind its RAM, and the entry of a segment by
//! which its tables show it.

use super::paging::{self, HOME, INVALID, SEGMENT_BITS, SEGMENT_PAGES, SEGMENT_PROTECTED, Space};
use super::state::{CONTROL, PREFIX};
use crate::boot::{Kernel, Segment};
use crate::cpu::{Exception, Shown, WindowPlace};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// Far less than branches reach.
pub const WINDOW_MOST: u64 = 64 << 20;

const PAGE: u64 = 4096;
const SEGMENT: u64 = 1 << SEGMENT_BITS;

/// Kernels see memory in one piece, Linux one to one, others as far away as their code is. From 6.10 on Linux sees
/// itself apart from that, where it has room to grow that it never takes: 512 MiB, to the end of the address space.
pub fn start(kernel: &Kernel, physical: u64) -> u64 {
    let apart = |segment: &&Segment| segment.virtual_address != segment.physical;
    if kernel.is_stock() {
        let ends = kernel.segments.iter().filter(apart).map(|segment| segment.virtual_address.saturating_add(segment.size));
        return ends.max().map_or(physical, |end| end.next_multiple_of(SEGMENT));
    }
    let text = kernel.segments.iter().find(|segment| segment.range().contains(&kernel.tables.text.start));
    physical.wrapping_add(text.map_or(0, |text| text.virtual_address.wrapping_sub(text.physical)))
}

/// Tables of pages, one for each segment of the window.
pub fn table_bytes(window: u64) -> u64 {
    window / PAGE * 8
}

/// Fills these.
pub fn prepare(ram: &Ram, window: &WindowPlace) {
    for page in 0..window.len / PAGE {
        ram.set_word(window.tables + 8 * page, paging::page_that_runs(window.physical + PAGE * page), 8);
    }
}

/// Puts the entry for one address of the window into the page tables in force, for as long as the CPU is there;
/// untranslated it is there already. `None`: they have no room for it.
pub fn show_window(handle: &Handle, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    if paging::space(handle) == Space::Real {
        return Some(Shown { at: 0, before: 0, bytes: 0 });
    }
    let at = paging::absolute(handle, paging::segment(handle, ram, HOME, address).ok()?);
    let before = ram.get64(at)?;
    let number = address.wrapping_sub(window.start) / SEGMENT;
    let table = window.tables + 8 * SEGMENT_PAGES * number;
    (before & INVALID != 0 && ram.set_word(at, table | SEGMENT_PROTECTED, 8)).then_some(Shown { at, before, bytes: 8 })
}

/// Takes the entry out again.
pub fn hide_window(ram: &Ram, shown: &Shown) {
    if shown.bytes != 0 {
        ram.set_word(shown.at, shown.before, shown.bytes);
    }
}

/// The core drops all translations when one of these is loaded.
pub fn tables_in_force(handle: &Handle) -> u64 {
    let of = |register: usize| handle.live64(CONTROL + 8 * register);
    of(13) ^ of(1).rotate_left(32)
}

/// The fetch that has failed, if it was one of the window's.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let pc = handle.pc();
    (exception.fetch && window.holds(pc)).then_some(pc)
}

/// Where in its lowcore the CPU says which address could not be translated.
pub const TRANSLATION: u64 = 0xa8;

/// That address.
pub fn fault_address(handle: &Handle, ram: &Ram) -> u64 {
    ram.get64(handle.live64(PREFIX) + TRANSLATION).unwrap_or(0)
}

/// The exception never happened.
pub fn forget(handle: &Handle, ram: &Ram, exception: &Exception, before: u64) {
    if exception.fetch {
        ram.set_word(handle.live64(PREFIX) + TRANSLATION, before, 8);
    }
}
