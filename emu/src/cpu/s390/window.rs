//! The probe window on z/Architecture: the kernel's view of the memory behind its RAM, and the segment-table entry that
//! maps it.

use super::paging::{self, HOME, INVALID, SEGMENT_BITS, SEGMENT_PAGES, SEGMENT_PROTECTED, SEGMENTS, Space, WHOLE_SEGMENT_TABLE};
use super::state::{CONTROL, PREFIX};
use crate::boot::{Kernel, Segment};
use crate::cpu::{Exception, Shown, WindowPlace};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// The window's largest size in bytes, far below the reach of branches.
pub const WINDOW_MOST: u64 = 64 << 20;

const PAGE: u64 = 4096;
const SEGMENT: u64 = 1 << SEGMENT_BITS;

/// The window's virtual start. Linux maps memory identically, the tiny kernel at a constant distance. From 6.10 on,
/// Linux's image is mapped apart from that, in an area of 512 MiB up to the end of the address space that it never
/// fills; the window is behind the image there.
pub fn start(kernel: &Kernel, physical: u64) -> u64 {
    let apart = |segment: &&Segment| segment.virtual_address != segment.physical;
    if kernel.is_stock() {
        let ends = kernel.segments.iter().filter(apart).map(|segment| segment.virtual_address.saturating_add(segment.size));
        return ends.max().map_or(physical, |end| end.next_multiple_of(SEGMENT));
    }
    let text = kernel.segments.iter().find(|segment| segment.range().contains(&kernel.tables.text.start));
    physical.wrapping_add(text.map_or(0, |text| text.virtual_address.wrapping_sub(text.physical)))
}

/// Size in bytes of our own tables: a page table for each segment of the window, and a segment table.
pub fn table_bytes(window: u64) -> u64 {
    window / PAGE * 8 + 8 * SEGMENTS
}

/// Our own segment table. It is used where the kernel has none: its RAM, and so the window's place behind it, may end where
/// a segment table ends.
fn segment_table(window: &WindowPlace) -> u64 {
    window.tables + window.len / PAGE * 8
}

/// Our own segment-table entry for an address in the window.
fn segment_entry(window: &WindowPlace, address: u64) -> u64 {
    let number = address.wrapping_sub(window.start) / SEGMENT;
    let table = window.tables + 8 * SEGMENT_PAGES * number;
    table | SEGMENT_PROTECTED
}

/// Fills our own page tables.
pub fn prepare(ram: &Ram, window: &WindowPlace) {
    for page in 0..window.len / PAGE {
        ram.set_word(window.tables + 8 * page, paging::page_that_runs(window.physical + PAGE * page), 8);
    }
    let number = |address: u64| address / SEGMENT % SEGMENTS;
    for segment in 0..SEGMENTS {
        ram.set_word(segment_table(window) + 8 * segment, INVALID, 8);
    }
    for address in (window.start..window.start + window.len).step_by(SEGMENT as usize) {
        ram.set_word(segment_table(window) + 8 * number(address), segment_entry(window, address), 8);
    }
}

/// Maps an address of the window in the current page tables while the CPU is there. Does nothing without DAT. Returns
/// `None` if they have no room for it.
pub fn show_window(handle: &Handle, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    if paging::space(handle) == Space::Real {
        return Some(Shown { at: 0, before: 0, bytes: 0 });
    }
    let (at, ours) = match paging::segment(handle, ram, HOME, address) {
        Ok(at) => (at, segment_entry(window, address)),
        Err(_) => (paging::region(handle, ram, HOME, address).ok()?, segment_table(window) | WHOLE_SEGMENT_TABLE),
    };
    let at = paging::absolute(handle, at);
    let before = ram.get64(at)?;
    (before & INVALID != 0 && ram.set_word(at, ours, 8)).then_some(Shown { at, before, bytes: 8 })
}

/// Restores the replaced entry.
pub fn hide_window(ram: &Ram, shown: &Shown) {
    if shown.bytes != 0 {
        ram.set_word(shown.at, shown.before, shown.bytes);
    }
}

/// The two ASCEs. The core flushes its TLB when one of them is loaded.
pub fn tables_in_force(handle: &Handle) -> u64 {
    let of = |register: usize| handle.live64(CONTROL + 8 * register);
    of(13) ^ of(1).rotate_left(32)
}

/// The window address whose fetch failed, if it is one.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let pc = handle.pc();
    (exception.fetch && window.holds(pc)).then_some(pc)
}

/// Offset in the lowcore of the translation-exception address.
pub const TRANSLATION: u64 = 0xa8;

/// The number by which the translator reports that SPX has moved the lowcore.
pub const SET_PREFIX: u32 = 0xb210;

/// The translation-exception address.
pub fn fault_address(handle: &Handle, ram: &Ram) -> u64 {
    ram.get64(handle.live64(PREFIX) + TRANSLATION).unwrap_or(0)
}

/// Removes a reported exception: restores the translation-exception address.
pub fn forget(handle: &Handle, ram: &Ram, exception: &Exception, before: u64) {
    if exception.fetch {
        ram.set_word(handle.live64(PREFIX) + TRANSLATION, before, 8);
    }
}
