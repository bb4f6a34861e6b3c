//! The probe window on 32-bit ARM: where it lies, and the entry by which the guest's tables show it.

use super::long;
use super::paging::{self, Table};
use super::state::{ADDRESS_SPACE, FAULT_ADDRESS, FAULT_REGISTER, TABLES_LOW};
use crate::cpu::{Exception, Shown, WindowPlace, window};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// The upper half of the modules' area, which is filled from its start: within branch reach (32 MiB) of the first 24
/// MiB of RAM.
pub const WINDOW_START: u64 = 0xbf60_0000;
/// As much as there is in front of the area that kernels map high memory in.
pub const WINDOW_MOST: u64 = 8 << 20;

/// A section of domain 0 that only the kernel may read, and execute.
const SECTION: u32 = 2 | 1 << 10 | 1 << 15;
const SECTION_BYTES: u64 = 1 << 20;
/// The same in the long format: a block, read before, that all CPUs share.
const BLOCK: u64 = 1 | 1 << 7 | 3 << 8 | 1 << 10;
const BLOCK_BYTES: u64 = 2 << 20;

/// Puts the entry for one address of the window into the page tables in force, for as long as the CPU is there. `None`:
/// they have no room for it.
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

/// The low tables, and the number of the address space: the core drops all translations when that changes. In the long
/// format it stands in front of the tables' address.
pub fn tables_in_force(handle: &Handle) -> u64 {
    if long::is_in_force(handle) {
        return handle.live64(TABLES_LOW);
    }
    u64::from(handle.live32(TABLES_LOW)) << 32 | u64::from(handle.live32(ADDRESS_SPACE))
}

/// The fetch that has failed, if it was one of the window's. The core has written nothing that the guest could see.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    window::missed(handle, exception, window, handle.live64(FAULT_ADDRESS) & 0xffff_ffff)
}

/// DFAR.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.live32(FAULT_REGISTER).into()
}
