//! The probe window on 32-bit PowerPC. Our own kernel sees memory in one piece through a block register, what lies behind
//! its own as well. Linux gets four blocks that its CPU has not: the core has room for eight and can be told to look at
//! all of them, no instruction of this CPU reaches the upper four, and they are the kernel's fetches' alone. So no table
//! shows the window and none need be changed.

use super::state::{BLOCK_COUNT, BLOCKS, BLOCKS_LOOKED_AT, INSTRUCTION_BLOCKS};
use crate::boot::Kernel;
use crate::cpu::{Shown, WindowPlace};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::Ram;

/// Where Linux sees all memory, from the first byte on; its modules lie in front of that.
pub const LINEAR: u64 = 0xc000_0000;
/// With memory of 16 MiB in front of it: as far as a branch reaches.
const WINDOW_MOST: u64 = 16 << 20;
/// All the hidden blocks, which are of one size.
const HIDDEN_BLOCKS: u64 = 4;
const BLOCK_BYTES: u64 = 2 << 20;
/// The first words of the hidden blocks of instructions; 8 words behind each is its second one.
const FIRST_HIDDEN: usize = BLOCKS + INSTRUCTION_BLOCKS + 4 * BLOCK_COUNT;
/// Of a block's first word: its size in pieces of 128 KiB less one, and that it is there for the kernel. Of its second
/// one: it is read and run.
const BLOCK: u32 = ((BLOCK_BYTES >> 17) as u32 - 1) << 2 | 2;
const READ_ONLY: u32 = 1;

/// Where the kernel sees what lies there.
pub fn start(kernel: &Kernel, physical: u64) -> u64 {
    if kernel.is_stock() {
        return LINEAR - most(kernel);
    }
    let text = kernel.segments.iter().find(|segment| segment.range().contains(&kernel.tables.text.start));
    physical.wrapping_add(text.map_or(0, |text| text.virtual_address.wrapping_sub(text.physical))) & 0xffff_ffff
}

/// As much as a branch reaches, or as the hidden blocks hold: Linux's modules have the rest of what is in front of it,
/// from the other end on.
pub fn most(kernel: &Kernel) -> u64 {
    if kernel.is_stock() { HIDDEN_BLOCKS * BLOCK_BYTES } else { WINDOW_MOST }
}

/// Lets fetches see it.
pub fn clear(cpu: &TrapContext, _: &Ram, window: &WindowPlace) {
    for (number, offset) in (0..window.len).step_by(BLOCK_BYTES as usize).enumerate().take(HIDDEN_BLOCKS as usize) {
        let upper = FIRST_HIDDEN + 4 * number;
        cpu.set_live32(upper, (window.start + offset) as u32 | BLOCK);
        cpu.set_live32(upper + 32, (window.physical + offset) as u32 | READ_ONLY);
    }
    look_at_hidden_blocks(cpu);
}

/// Where there is something in the hidden blocks, the core looks at them.
pub fn look_at_hidden_blocks(cpu: &TrapContext) {
    if cpu.handle().live32(FIRST_HIDDEN) != 0 {
        cpu.set_live32(BLOCKS_LOOKED_AT, (BLOCK_COUNT + HIDDEN_BLOCKS as usize) as u32);
    }
}

/// It is always there.
pub fn show_window(_: &Handle, _: &Ram, _: &WindowPlace, _: u64) -> Option<Shown> {
    Some(Shown { at: 0, before: 0, bytes: 0 })
}
