//! The probe window on 32-bit ARM: its place, and the entry in the guest's page tables that maps it.

use super::long;
use super::paging::{self, Table};
use super::state::{ADDRESS_SPACE, FAULT_ADDRESS, FAULT_REGISTER, TABLES_LOW};
use crate::cpu::{Exception, Shown, WindowPlace, window};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// The start of the last 8 MiB of the modules' area (0xbf00_0000 to 0xbfe0_0000), which Linux fills from its start. All of the
/// window is within branch reach (32 MiB) of the first 22 MiB of RAM.
pub const WINDOW_START: u64 = 0xbf60_0000;
/// The space up to the area in which kernels map high memory.
pub const WINDOW_MOST: u64 = 8 << 20;

/// A section of domain 0 that only the kernel may read and execute.
const SECTION: u32 = 2 | 1 << 10 | 1 << 15;
const SECTION_BYTES: u64 = 1 << 20;
/// A 2 MiB block of the long format: read-only, accessed, inner shareable.
const BLOCK: u64 = 1 | 1 << 7 | 3 << 8 | 1 << 10;
const BLOCK_BYTES: u64 = 2 << 20;

/// Maps an address of the window in the current page tables while the CPU is there. Returns `None` if they have no room
/// for it.
pub fn show_window(handle: &Handle, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    if !paging::is_on(handle) {
        return None;
    }
    let offset = address.wrapping_sub(window.start);
    if long::is_in_force(handle) {
        let at = long::Table::of(handle, address)?.entry(ram, address)?;
        let before = ram.word64(at);
        let block = (window.physical + (offset & !(BLOCK_BYTES - 1))) | BLOCK;
        return (before & 1 == 0 && ram.set_word64(at, block)).then_some(Shown { at, before, bytes: 8 });
    }
    let at = Table::of(handle, address).entry(address);
    let before = ram.word32(at);
    let section = (window.physical + (offset & !(SECTION_BYTES - 1))) as u32 | SECTION;
    (before & 3 == 0 && ram.set_word32(at, section)).then_some(Shown { at, before: before.into(), bytes: 4 })
}

/// TTBR0 and the ASID: the core flushes its TLB when the ASID changes. In the long format, the ASID is part of TTBR0.
pub fn tables_in_force(handle: &Handle) -> u64 {
    if long::is_in_force(handle) {
        return handle.live64(TABLES_LOW);
    }
    u64::from(handle.live32(TABLES_LOW)) << 32 | u64::from(handle.live32(ADDRESS_SPACE))
}

/// The window address whose fetch failed, if it is one. The core has written nothing that the guest could see.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    window::missed(handle, exception, window, handle.live64(FAULT_ADDRESS) & 0xffff_ffff)
}

/// The value of DFAR.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.live32(FAULT_REGISTER).into()
}
