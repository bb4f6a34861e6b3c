//! The probe window on AArch64: where it lies, and the entry by which the guest's tables show it.

use super::paging::{self, Start};
use super::state::{FAULT_ADDRESS, TTBR0, TTBR1};
use crate::cpu::{Exception, Shown, WindowPlace, window};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use unicorn_engine_sys::RegisterARM64;

/// The end of the modules' area, which is filled from its start: within branch reach (128 MiB) of the first 112 MiB of the kernel, and
/// mapped by the same directory as the kernel's own image.
pub const WINDOW_START: u64 = 0xffff_8000_0700_0000;
/// As much as there is in front of the kernel.
pub const WINDOW_MOST: u64 = 16 << 20;

// A valid block that has been accessed, inner shareable, read-only, not for user code.
const BLOCK: u64 = 1 | 1 << 7 | 3 << 8 | 1 << 10 | 1 << 54;
const VALID: u64 = 1;
const TABLE: u64 = 2;
const OUTPUT: u64 = 0x0000_ffff_ffff_f000;
const BLOCK_BYTES: u64 = 2 << 20;
const STRIDE_4K: u32 = 9;

/// Puts the entry for one address of the window into the page tables in force, for as long as the CPU is there. `None`: they have no
/// room for it.
pub fn show_window(handle: &Handle, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    let at = directory_entry(ram, paging::start(handle, address)??, address)?;
    let before = ram.word64(at);
    if before & VALID != 0 {
        return None;
    }
    let offset = address.wrapping_sub(window.start) & !(BLOCK_BYTES - 1);
    ram.set_word64(at, (window.physical + offset) | BLOCK);
    Some(Shown { at, before, bytes: 8 })
}

/// TTBR1_EL1, and the number of the address space, which stands in either: the core drops all translations when that changes.
pub fn tables_in_force(handle: &Handle) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    handle.live64(TTBR1) ^ (handle.live64(TTBR0) >> 48).wrapping_mul(SPREAD)
}

/// Where the entry of 2 MiB for an address lies.
fn directory_entry(ram: &Ram, start: Start, address: u64) -> Option<u64> {
    const DIRECTORY: u32 = 21;
    if start.stride != STRIDE_4K || start.shift < DIRECTORY {
        return None;
    }
    let index = |shift: u32| (address >> shift & 511) * 8;
    let (mut table, mut shift) = (start.table, start.shift);
    while shift > DIRECTORY {
        let entry = ram.word64(table + index(shift));
        if entry & (VALID | TABLE) != VALID | TABLE {
            return None;
        }
        table = entry & OUTPUT;
        shift -= STRIDE_4K;
    }
    Some(table + index(DIRECTORY))
}

/// The fetch that has failed, if it was one of the window's. The core has written nothing that the guest could see.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    window::missed(handle, exception, window, handle.live64(FAULT_ADDRESS))
}

/// FAR_EL1.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.read(RegisterARM64::FAR_EL1)
}
