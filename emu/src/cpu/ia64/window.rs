//! The probe window on IA-64: behind the kernel's image. The core fetches there from memory of the machine's own, without the
//! TLB, so the guest has the same entries with and without probes. Loads and stores see what the guest has there.

use super::state::in_kernel;
use crate::boot::Kernel;
use crate::cpu::{Exception, Shown, WindowPlace};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// The window's largest size. No branch has to reach it, because copies are left by breakpoints.
pub const MOST: u64 = 16 << 20;

/// The window's virtual start.
pub fn start(kernel: &Kernel) -> u64 {
    let ends = kernel.segments.iter().map(|segment| segment.range().end);
    let end = kernel.symbols.address_of("_end").or_else(|| ends.max()).unwrap_or(kernel.entry);
    end.next_multiple_of(0x1000)
}

/// Maps the window for good, when it is first needed.
pub fn show(handle: &Handle, _: &Ram, window: &WindowPlace, _: u64) -> Option<Shown> {
    let state = handle.ia64()?;
    for (place, value) in state.window.iter().zip([window.start, window.len, window.physical]) {
        place.set(value);
    }
    Some(Shown { at: 0, before: 0, bytes: 0 })
}

/// The window address whose fetch failed because the window is not mapped yet.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let pc = handle.pc();
    let is_mapped = handle.ia64().is_none_or(|state| state.window[1].get() != 0);
    (exception.fetch && window.holds(pc) && in_kernel(handle) && !is_mapped).then_some(pc)
}
