//! The probe window on 32-bit PowerPC. The tiny kernel maps memory through one BAT, which covers the window, too. For
//! Linux, the window uses four instruction BATs that this CPU does not have. The core has room for eight and can be
//! told to search them all. No instruction of this CPU reaches the upper four, and only kernel fetches use them. So the
//! guest's tables are not changed.

use super::state::{BLOCK_COUNT, BLOCKS, BLOCKS_LOOKED_AT, INSTRUCTION_BLOCKS};
use crate::boot::Kernel;
use crate::cpu::{Shown, WindowPlace};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::Ram;

/// The start of Linux's linear mapping. Linux's modules are in front of it.
pub const LINEAR: u64 = 0xc000_0000;
/// The window's largest size for the tiny kernel: branch reach less 16 MiB of memory in front of it.
const WINDOW_MOST: u64 = 16 << 20;
/// The number of hidden BATs. All have the same size.
const HIDDEN_BLOCKS: u64 = 4;
const BLOCK_BYTES: u64 = 2 << 20;
/// Offset of the upper words of the hidden instruction BATs. The lower word of each is 8 words further.
const FIRST_HIDDEN: usize = BLOCKS + INSTRUCTION_BLOCKS + 4 * BLOCK_COUNT;
/// A BAT's upper word: its size in units of 128 KiB less one, valid in supervisor mode. Its lower word: read and
/// execute.
const BLOCK: u32 = ((BLOCK_BYTES >> 17) as u32 - 1) << 2 | 2;
const READ_ONLY: u32 = 1;

/// The window's virtual start.
pub fn start(kernel: &Kernel, physical: u64) -> u64 {
    if kernel.is_stock() {
        return LINEAR - most(kernel);
    }
    let text = kernel.segments.iter().find(|segment| segment.range().contains(&kernel.tables.text.start));
    physical.wrapping_add(text.map_or(0, |text| text.virtual_address.wrapping_sub(text.physical))) & 0xffff_ffff
}

/// The window's largest size in bytes. For Linux it is that of the hidden BATs, at the end of the modules' area, which
/// Linux fills from its start.
pub fn most(kernel: &Kernel) -> u64 {
    if kernel.is_stock() { HIDDEN_BLOCKS * BLOCK_BYTES } else { WINDOW_MOST }
}

/// Maps the window in the hidden BATs, for fetches.
pub fn clear(cpu: &TrapContext, _: &Ram, window: &WindowPlace) {
    for (number, offset) in (0..window.len).step_by(BLOCK_BYTES as usize).enumerate().take(HIDDEN_BLOCKS as usize) {
        let upper = FIRST_HIDDEN + 4 * number;
        cpu.set_live32(upper, (window.start + offset) as u32 | BLOCK);
        cpu.set_live32(upper + 32, (window.physical + offset) as u32 | READ_ONLY);
    }
    look_at_hidden_blocks(cpu);
}

/// Makes the core search the hidden BATs too, if they are in use.
pub fn look_at_hidden_blocks(cpu: &TrapContext) {
    if cpu.handle().live32(FIRST_HIDDEN) != 0 {
        cpu.set_live32(BLOCKS_LOOKED_AT, (BLOCK_COUNT + HIDDEN_BLOCKS as usize) as u32);
    }
}

/// Does nothing, because the window is always mapped.
pub fn show_window(_: &Handle, _: &Ram, _: &WindowPlace, _: u64) -> Option<Shown> {
    Some(Shown { at: 0, before: 0, bytes: 0 })
}
