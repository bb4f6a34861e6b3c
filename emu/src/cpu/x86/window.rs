//! The probe window on x86: its place, and the entries in the guest's page tables that map it.

use super::paging::{Paging, PagingMode};
use super::state;
use super::state::forget_exception;
use super::trap::{DEBUG, FAULT_FETCH, FAULT_PRESENT, FAULT_WRITE, PAGE_FAULT, pc};
use crate::cpu::{Exception, Shown, WindowPlace};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::Ram;
use trapline_isa::insn::LONGEST;

/// The window's virtual start. On x86_64 it is 32 MiB in front of the end of the page directory that maps the kernel's
/// image, so within 2 GiB of text and modules. On i386 it is inside the vmalloc area for every size of memory: Linux
/// fills that area from its start, which is at most 896 MiB into the kernel's half, and with per-CPU data from its end.
pub const fn window_start(long: bool) -> u64 {
    if long { 0xffff_ffff_be00_0000 } else { 0xfb00_0000 }
}

/// The window's largest size in bytes.
pub const WINDOW_MOST: u64 = 16 << 20;

/// Size in bytes of our own page tables for a window of that size: one i386 table per 4 MiB.
pub fn table_bytes(window: u64) -> u64 {
    window.div_ceil(4 << 20) * 4096
}

// Present, accessed, dirty; neither writable nor for user mode. Not global either: otherwise a later mapping of the
// guest's at that address would not be seen after a write of CR3.
const LARGE_ENTRY: u64 = 0xe1;
const SMALL_ENTRY: u32 = 0x61;
const DIRECTORY_ENTRY: u32 = 0x61;
const PRESENT: u64 = 1;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const LARGE: u64 = 1 << 7;
const LARGE_PAGE: u64 = 2 << 20;
/// The bits of CR3 that hold the address of PAE's top table, which has four entries.
const PAE_TOP: u64 = 0xffff_ffe0;
const DIRECTORY_SPAN: u64 = 4 << 20;

/// Fills our own i386 tables, once. Any directory can point to them.
pub fn prepare_tables(ram: &Ram, window: &WindowPlace) {
    for page in 0..window.len / 4096 {
        let entry = (window.physical + page * 4096) as u32 | SMALL_ENTRY;
        ram.set_word32(window.tables + page * 4, entry);
    }
}

/// Maps an address of the window in the current page tables while the CPU is there. Returns `None` if they have no room
/// for it.
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

/// CR3: writing it flushes the TLB.
pub fn tables_in_force(handle: &Handle) -> u64 {
    handle.live64(state::CR + 8 * 3)
}

/// Writes our entry unless the guest has one there.
fn put_entry(ram: &Ram, shown: Shown, wanted: u64) -> Option<Shown> {
    if shown.before & PRESENT != 0 {
        return None;
    }
    ram.set_word(shown.at, wanted, shown.bytes);
    Some(shown)
}

/// The physical address of the 2 MiB entry for an address.
#[inline]
fn directory_entry(ram: &Ram, paging: &Paging, address: u64) -> Option<u64> {
    let (mut table, upper) = match paging.kind {
        PagingMode::Pae => (paging.top & PAE_TOP, &[30][..]),
        _ => (paging.top & ADDRESS, &[39, 30][..]),
    };
    for shift in upper {
        let entry = ram.word64(table + (address >> shift & 511) * 8);
        // A 1 GiB page belongs to the guest, like any other entry.
        if entry & PRESENT == 0 || entry & LARGE != 0 {
            return None;
        }
        table = entry & ADDRESS;
    }
    Some(table + (address >> 21 & 511) * 8)
}

/// The window address whose fetch failed, if it is one.
pub fn missed<const LONG: bool>(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let (address, pc) = (fault_address(handle), pc::<LONG>(handle));
    // Without no-execute, the error code does not mark fetches. They are recognised by an address within the
    // instruction.
    let is_fetch = |code| code & FAULT_FETCH != 0 || code & FAULT_WRITE == 0 && address.wrapping_sub(pc) < LONGEST as u64;
    let is_absent = |code| code & FAULT_PRESENT == 0;
    let inside = window.holds(address) && window.holds(pc);
    let ours = inside && exception.vector == PAGE_FAULT && exception.error.is_some_and(|code| is_absent(code) && is_fetch(code));
    ours.then_some(address)
}

/// Removes a reported exception from the core's state: a page fault's address in CR2, or a single-step's mark in DR6,
/// which kernels clear themselves after use.
pub fn forget(cpu: &TrapContext, _: &mut CoreState, exception: &Exception, before: u64) {
    forget_exception(cpu);
    if exception.vector == DEBUG {
        cpu.set_live64(state::DEBUG_STATUS, cpu.handle().live64(state::DEBUG_STATUS) & !state::DEBUG_STEP);
    }
    if exception.vector == PAGE_FAULT {
        cpu.set_live64(state::CR + 8 * 2, before);
    }
}

/// The value of CR2.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.live64(state::CR + 8 * 2)
}
