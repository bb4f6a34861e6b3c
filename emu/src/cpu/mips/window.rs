//! The probe window on MIPS: in KSEG0, which maps physical memory without page tables, so nothing has to be mapped.
//! Jumps reach it from text in the same 256 MiB.

use super::paging::KSEG0;
use crate::boot::Kernel;
use crate::cpu::{Shown, WindowPlace};
use crate::unicorn::cpus::mips::Place;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// The window's largest size: the reach of jumps from the kernel's text, less the kernel's own memory there.
pub const WINDOW_MOST: u64 = 16 << 20;

/// The virtual address of a physical one in KSEG0.
pub fn start(kernel: &Kernel, physical: u64) -> u64 {
    let seen = KSEG0 + physical;
    if kernel.arch.isa().word == 8 { i64::from(seen as u32 as i32) as u64 } else { seen }
}

/// Does nothing, because the window is always mapped.
pub fn show_window(_: &Handle, _: &Ram, _: &WindowPlace, _: u64) -> Option<Shown> {
    Some(Shown { at: 0, before: 0, bytes: 0 })
}

/// The value of BadVAddr.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.at_place(Place::BadVAddr)
}
