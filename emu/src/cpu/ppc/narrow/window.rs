//! The probe window on 32-bit PowerPC: where the kernel sees memory in one piece through a block register, so that no
//! table shows it and none need be changed.

use crate::boot::Kernel;
use crate::cpu::{Shown, WindowPlace};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// With memory of 16 MiB in front of it: as far as a branch reaches.
pub const WINDOW_MOST: u64 = 16 << 20;

/// Where the kernel sees what lies there.
pub fn start(kernel: &Kernel, physical: u64) -> u64 {
    let text = kernel.segments.iter().find(|segment| segment.range().contains(&kernel.tables.text.start));
    physical.wrapping_add(text.map_or(0, |text| text.virtual_address.wrapping_sub(text.physical))) & 0xffff_ffff
}

/// It is always there.
pub fn show_window(_: &Handle, _: &Ram, _: &WindowPlace, _: u64) -> Option<Shown> {
    Some(Shown { at: 0, before: 0, bytes: 0 })
}
