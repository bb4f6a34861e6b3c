//! The probe window on PA-RISC: in front of the kernel's text, in reach of its branches. The core fetches there from memory of
//! the machine's own, without the TLB, so the guest has the same entries with and without probes. Loads and stores see what
//! the guest has there.

use crate::boot::Kernel;
use crate::cpu::{Shown, WindowPlace};
use crate::unicorn::cpus::parisc::at;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;

/// The window's largest size: a branch reaches 256 KiB.
pub const MOST: u64 = 128 << 10;

/// The window is always mapped: nothing is to be restored.
pub const SHOWN: Shown = Shown { at: 0, before: 0, bytes: 0 };

/// The window's virtual start: just in front of the text.
pub fn start(kernel: &Kernel) -> u64 {
    kernel.symbols.address_of("_stext").unwrap_or(kernel.entry).wrapping_sub(MOST) & 0xffff_f000
}

/// Maps the window for good.
pub fn clear(cpu: &TrapContext, _: &Ram, window: &WindowPlace) {
    for (number, value) in [window.start, window.len, window.physical].into_iter().enumerate() {
        cpu.set_live32(at::WINDOW + 4 * number, value as u32);
    }
}
