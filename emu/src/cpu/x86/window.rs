//! The probe window on x86: where it lies, and the entries by which the guest's tables show it.

use super::paging::{Paging, PagingMode};
use super::state;
use super::state::forget_exception;
use super::trap::{DEBUG, FAULT_FETCH, FAULT_PRESENT, FAULT_WRITE, PAGE_FAULT, pc};
use crate::cpu::{Exception, Shown, WindowPlace};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;
use trapline_isa::insn::LONGEST;

/// The window's guest-virtual start: x86_64 the last entries of the directory that maps the kernel's image (within 2
/// GiB of text and modules), i386 the middle of what is the kernel's area for vmalloc with any amount of memory: that
/// is filled from its start, behind the 896 MiB of memory at most that are mapped below it, and by the per-CPU areas
/// from its end.
pub const fn window_start(long: bool) -> u64 {
    if long { 0xffff_ffff_be00_0000 } else { 0xfb00_0000 }
}

/// The most that the window may hold there.
pub const WINDOW_MOST: u64 = 16 << 20;

/// Bytes of page tables of our own for a window of that size: one i386 table for each 4 MiB.
pub fn table_bytes(window: u64) -> u64 {
    window.div_ceil(4 << 20) * 4096
}

// Present, accessed, dirty: neither writable nor for user mode; nor global, for then what the guest maps there later would
// not be found after a new CR3 either.
const LARGE_ENTRY: u64 = 0xe1;
const SMALL_ENTRY: u32 = 0x61;
const DIRECTORY_ENTRY: u32 = 0x61;
const PRESENT: u64 = 1;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const LARGE: u64 = 1 << 7;
const LARGE_PAGE: u64 = 2 << 20;
/// Where the top table of PAE lies, by CR3: it has four entries.
const PAE_TOP: u64 = 0xffff_ffe0;
const DIRECTORY_SPAN: u64 = 4 << 20;

/// Fills the tables of our own, once: they map the window's pages for any directory that points at them.
pub fn prepare_tables(ram: &Ram, window: &WindowPlace) {
    for page in 0..window.len / 4096 {
        let entry = (window.physical + page * 4096) as u32 | SMALL_ENTRY;
        ram.set_word32(window.tables + page * 4, entry);
    }
}

/// Puts the entry for one address of the window into the page tables in force, for as long as the CPU is there. `None`:
/// they have no room for it.
pub fn show_window<const LONG: bool>(handle: &Handle, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    let paging = Paging::of(handle, LONG);
    let offset = address.wrapping_sub(window.start);
    match paging.kind {
        PagingMode::FourLevel | PagingMode::Pae => {
            let at = directory_entry(ram, &paging, address)?;
            let wanted = (window.physical + (offset & !(LARGE_PAGE - 1))) | LARGE_ENTRY;
            put_entry(ram, Shown { at, before: ram.word64(at), bytes: 8 }, wanted)
        }
        PagingMode::TwoLevel => {
            let at = (paging.top & 0xffff_f000) + (address >> 22 & 1023) * 4;
            let wanted = (window.tables + offset / DIRECTORY_SPAN * 4096) as u32 | DIRECTORY_ENTRY;
            put_entry(ram, Shown { at, before: ram.word32(at).into(), bytes: 4 }, wanted.into())
        }
        PagingMode::Off => None,
    }
}

/// CR3: writing it drops all translations.
pub fn tables_in_force(handle: &Handle) -> u64 {
    handle.live64(state::CR + 8 * 3)
}

/// An entry of the guest's own is left alone.
fn put_entry(ram: &Ram, shown: Shown, wanted: u64) -> Option<Shown> {
    if shown.before & PRESENT != 0 {
        return None;
    }
    ram.set_word(shown.at, wanted, shown.bytes);
    Some(shown)
}

/// Where the entry of 2 MiB for an address lies.
#[inline]
fn directory_entry(ram: &Ram, paging: &Paging, address: u64) -> Option<u64> {
    let (mut table, upper) = match paging.kind {
        PagingMode::Pae => (paging.top & PAE_TOP, &[30][..]),
        _ => (paging.top & ADDRESS, &[39, 30][..]),
    };
    for shift in upper {
        let entry = ram.word64(table + (address >> shift & 511) * 8);
        // A page of 1 GiB is the guest's own, as any other is.
        if entry & PRESENT == 0 || entry & LARGE != 0 {
            return None;
        }
        table = entry & ADDRESS;
    }
    Some(table + (address >> 21 & 511) * 8)
}

/// The fetch that has failed, if it was one of the window's.
pub fn missed<const LONG: bool>(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let (address, pc) = (fault_address(handle), pc::<LONG>(handle));
    // Without no-execute the error code does not tell fetches, but their address does: it is the instruction's own.
    let is_fetch = |code| code & FAULT_FETCH != 0 || code & FAULT_WRITE == 0 && address.wrapping_sub(pc) < LONGEST as u64;
    let is_absent = |code| code & FAULT_PRESENT == 0;
    let inside = window.holds(address) && window.holds(pc);
    let ours = inside && exception.vector == PAGE_FAULT && exception.error.is_some_and(|code| is_absent(code) && is_fetch(code));
    ours.then_some(address)
}

/// No exception is under delivery, and a page fault has left no trace in CR2, nor a step in DR6 (where kernels clear
/// what they have seen).
pub fn forget(cpu: &TrapContext, _: &mut CoreState, exception: &Exception, before: u64) {
    forget_exception(cpu);
    if exception.vector == DEBUG {
        cpu.set_live64(state::DEBUG_STATUS, cpu.handle().live64(state::DEBUG_STATUS) & !state::DEBUG_STEP);
    }
    if exception.vector == PAGE_FAULT {
        cpu.set_live64(state::CR + 8 * 2, before);
    }
}

/// CR2.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.live64(state::CR + 8 * 2)
}
