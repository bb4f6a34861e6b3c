//! The probe window on MIPS: where all kernels see physical memory one to one, so that no table shows it and none need
//! be changed. Jumps reach it from text in the same 256 MiB.

use super::paging::KSEG0;
use crate::boot::Kernel;
use crate::cpu::{Shown, WindowPlace};
use crate::unicorn::engine::Handle;
use crate::unicorn::mips::Place;
use crate::unicorn::ram::Ram;

/// As much as the jumps of a kernel's text reach, less what its own memory takes there.
pub const WINDOW_MOST: u64 = 16 << 20;

/// Where the kernel sees what lies there.
pub fn start(kernel: &Kernel, physical: u64) -> u64 {
    let seen = KSEG0 + physical;
    if kernel.arch.isa().word == 8 { i64::from(seen as u32 as i32) as u64 } else { seen }
}

/// It is always there.
pub fn show_window(_: &Handle, _: &Ram, _: &WindowPlace, _: u64) -> Option<Shown> {
    Some(Shown { at: 0, before: 0, bytes: 0 })
}

/// BadVAddr.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.at_place(Place::BadVAddr)
}
