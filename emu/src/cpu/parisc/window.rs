//! The probe window on PA-RISC: behind the kernel's image, where it has data only. The core fetches there from memory of the
//! machine's own, without the TLB, so the guest has the same entries with and without probes. Loads and stores see what the
//! guest has there. The first of its copies are in reach of the text's branches; those behind are stepped.

use super::state::in_kernel;
use crate::boot::Kernel;
use crate::cpu::{Exception, Shown, WindowPlace};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// The window's largest size. A branch reaches its first 256 KiB at most.
pub const MOST: u64 = 4 << 20;

/// The window's virtual start.
pub fn start(kernel: &Kernel) -> u64 {
    let ends = kernel.segments.iter().map(|segment| segment.range().end);
    let end = kernel.symbols.address_of("_end").or_else(|| ends.max()).unwrap_or(kernel.entry);
    end.next_multiple_of(0x1000) & 0xffff_f000
}

/// Maps the window for good, when it is first needed.
pub fn show(handle: &Handle, _: &Ram, window: &WindowPlace, _: u64) -> Option<Shown> {
    let state = handle.parisc()?;
    for (place, value) in state.window.iter().zip([window.start, window.len, window.physical]) {
        place.set(value as u32);
    }
    Some(Shown { at: 0, before: 0, bytes: 0 })
}

/// The window address whose fetch failed because the window is not mapped yet.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let pc = handle.pc();
    let is_mapped = handle.parisc().is_none_or(|state| state.window[1].get() != 0);
    (exception.fetch && window.holds(pc) && in_kernel(handle) && !is_mapped).then_some(pc)
}
