//! Where things are on x86: the row of the probe window, the running task.

use super::paging::{Kind, Paging};
use super::state;
use super::trap::{FAULT_FETCH, PAGE_FAULT};
use crate::cpu::{Exception, View, WindowPlace};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::Image;
use trapline_isa::arch::Arch;
use trapline_isa::mem::Memory;
use trapline_isa::regs::Registers;
use trapline_isa::x86::abi;
use unicorn_engine_sys::RegisterX86;

/// The window's guest-virtual start: x86_64 the last entries of the directory that maps the kernel's image (within 2 GiB of
/// text and modules), i386 directory entries that the kernel leaves empty.
pub fn window_start(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => 0xffff_ffff_be00_0000,
        Arch::I386 => 0xf000_0000,
    }
}

/// The most that the window may hold there.
pub const WINDOW_MOST: u64 = 16 << 20;

/// Bytes of page tables of our own for a window of that size: one i386 table for each 4 MiB.
pub fn table_bytes(window: u64) -> u64 {
    window.div_ceil(4 << 20) * 4096
}

// Present, accessed, dirty, global: neither writable nor for user mode.
const LARGE_ENTRY: u64 = 0x1e1;
const SMALL_ENTRY: u32 = 0x61;
const DIRECTORY_ENTRY: u32 = 0x61;
const PRESENT: u64 = 1;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const LARGE_PAGE: u64 = 2 << 20;
const DIRECTORY_SPAN: u64 = 4 << 20;

/// Fills the tables of our own, once: they map the window's pages for any directory that points at them.
pub fn prepare_tables(ram: &Ram, window: &WindowPlace) {
    for page in 0..window.len / 4096 {
        let entry = (window.physical + page * 4096) as u32 | SMALL_ENTRY;
        ram.write(window.tables + page * 4, &entry.to_le_bytes());
    }
}

/// Puts the window's entries into the page tables in force, where they are missing.
pub fn show_window<const LONG: bool>(handle: &Handle, ram: &Ram, window: &WindowPlace) -> bool {
    let paging = Paging::of(handle, LONG);
    match paging.kind {
        Kind::FourLevel => show_in_directory(ram, paging.top & ADDRESS, window),
        Kind::TwoLevel => {
            for (number, part) in (window.start..window.start + window.len).step_by(DIRECTORY_SPAN as usize).enumerate() {
                let at = (paging.top & 0xffff_f000) + (part >> 22) * 4;
                let wanted = (window.tables + number as u64 * 4096) as u32 | DIRECTORY_ENTRY;
                let present = ram.word32(at);
                if u64::from(present) & PRESENT != 0 && present & !0x60 != wanted & !0x60 {
                    return false;
                }
                ram.write(at, &wanted.to_le_bytes());
            }
            true
        }
        Kind::Pae | Kind::Off => false,
    }
}

fn show_in_directory(ram: &Ram, top: u64, window: &WindowPlace) -> bool {
    for (number, part) in (window.start..window.start + window.len).step_by(LARGE_PAGE as usize).enumerate() {
        let mut table = top;
        for shift in [39, 30] {
            let entry = ram.word64(table + (part >> shift & 511) * 8);
            if entry & PRESENT == 0 {
                return false;
            }
            table = entry & ADDRESS;
        }
        let at = table + (part >> 21 & 511) * 8;
        let wanted = (window.physical + number as u64 * LARGE_PAGE) | LARGE_ENTRY;
        let present = ram.word64(at);
        if present & PRESENT != 0 && present & ADDRESS != wanted & ADDRESS {
            return false;
        }
        if present != wanted {
            ram.write(at, &wanted.to_le_bytes());
        }
    }
    true
}

/// A fetch from the window under tables that do not show it yet: shown now, and the fault's trace in CR2 is taken back.
pub fn window_fault<const LONG: bool>(
    cpu: &TrapContext,
    image: &mut Image,
    ram: &Ram,
    exception: &Exception,
    window: &WindowPlace,
    before: u64,
) -> bool {
    let address = fault_address(&cpu.handle());
    let ours = exception.vector == PAGE_FAULT
        && exception.error.is_some_and(|code| code & (FAULT_FETCH | 1) == FAULT_FETCH || code & 1 == 0)
        && address.wrapping_sub(window.start) < window.len
        && cpu.handle().read(RegisterX86::RIP).wrapping_sub(window.start) < window.len;
    if !ours || !show_window::<LONG>(&cpu.handle(), ram, window) {
        return false;
    }
    cpu.edit(image, |image| image.set32(state::OLD_EXCEPTION, u32::MAX));
    cpu.write(RegisterX86::CR2, before);
    true
}

/// CR3.
pub fn page_tables(handle: &Handle) -> u64 {
    handle.read(RegisterX86::CR3)
}

/// CR2.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.read(RegisterX86::CR2)
}

/// The running task: the pointer in the per-CPU area, or the page of the kernel stack where the kernel does not say.
pub fn current_task(view: &mut View<'_>) -> u64 {
    let base = view.get(if view.isa.arch == Arch::X86_64 { abi::GS_BASE } else { abi::FS_BASE });
    let place = view.tasks.current;
    let word = view.isa.word;
    let found = place.and_then(|offset| view.read_le(base.wrapping_add(offset), word).ok()).filter(|task| *task != 0);
    found.unwrap_or_else(|| view.get(view.isa.abi.sp) & !(view.isa.abi.stack_size - 1))
}
