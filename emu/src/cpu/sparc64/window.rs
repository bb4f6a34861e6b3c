//! The probe window on SPARC: just below the kernel's text, mapped by a locked entry of the instruction TLB that the
//! machine owns from the start. So the guest has the same entries with and without probes.

use super::state::FETCH_TLB;
use crate::boot::Kernel;
use crate::cpu::{Exception, Shown, WindowPlace};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// The window's largest size: the largest page of the TLB, so that one entry maps it.
pub const WINDOW_MOST: u64 = PAGE;

const PAGE: u64 = 4 << 20;
/// The number of the last TLB entry.
const ENTRY: u32 = 63;
/// The tag and the data of that entry, as snapshots name them.
pub const REGISTERS: [&str; 2] = ["itlb126", "itlb127"];
/// Valid, 4 MiB, locked, cacheable, privileged, global.
const BITS: u64 = 1 << 63 | 3 << 61 | 1 << 6 | 1 << 5 | 1 << 4 | 1 << 2 | 1;

/// The bits of an entry that hold the physical address.
const PHYSICAL: u64 = (1 << 43) - PAGE;

/// The window's virtual start, in the 4 MiB in front of those in which the text begins.
pub fn start(kernel: &Kernel, physical: u64) -> u64 {
    let text = kernel.symbols.address_of("_stext").unwrap_or(kernel.entry);
    (text & !(PAGE - 1)).wrapping_sub(PAGE) + physical % PAGE
}

/// Maps the whole window.
pub fn show_window(handle: &Handle, _: &Ram, window: &WindowPlace, _: u64) -> Option<Shown> {
    let page = window.physical & !(PAGE - 1);
    handle.set_fetch_entry(ENTRY, window.start & !(PAGE - 1), BITS | page);
    Some(Shown { at: 0, before: 0, bytes: 0 })
}

/// Whether the window's TLB entry maps this address. User programs have no access there.
pub fn is_shown_at(handle: &Handle, pc: u64) -> bool {
    let [tag, entry] = [0, 8].map(|into| handle.live64(FETCH_TLB + 16 * ENTRY as usize + into));
    tag == pc & !(PAGE - 1) && entry & !PHYSICAL == BITS
}

/// The window address whose fetch failed because the guest replaced the window's entry. If the entry is present, the
/// fetch was not privileged and must fail.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let pc = handle.pc();
    (exception.fetch && window.holds(pc) && !is_shown_at(handle, pc)).then_some(pc)
}
