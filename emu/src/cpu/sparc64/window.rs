//! The probe window on SPARC: just below the addresses at which kernels see their text, behind an entry of the TLB of
//! fetches that is the machine's from the start, so that the guest's own are the same with probes and without.

use super::state::FETCH_TLB;
use crate::boot::Kernel;
use crate::cpu::{Exception, Shown, WindowPlace};
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;

/// The largest page of the TLB: one entry shows all of it.
pub const WINDOW_MOST: u64 = PAGE;

const PAGE: u64 = 4 << 20;
/// The last entry.
const ENTRY: u32 = 63;
/// Valid, of 4 MiB, locked, cached, the kernel's alone, in all contexts.
const BITS: u64 = 1 << 63 | 3 << 61 | 1 << 6 | 1 << 5 | 1 << 4 | 1 << 2 | 1;

/// Where an entry says that its page lies.
const PHYSICAL: u64 = (1 << 43) - PAGE;

/// In the 4 MiB in front of those in which the text begins.
pub fn start(kernel: &Kernel, physical: u64) -> u64 {
    let text = kernel.symbols.address_of("_stext").unwrap_or(kernel.entry);
    (text & !(PAGE - 1)).wrapping_sub(PAGE) + physical % PAGE
}

/// Shows all of it.
pub fn show_window(handle: &Handle, _: &Ram, window: &WindowPlace, _: u64) -> Option<Shown> {
    let page = window.physical & !(PAGE - 1);
    handle.set_fetch_entry(ENTRY, window.start & !(PAGE - 1), BITS | page);
    Some(Shown { at: 0, before: 0, bytes: 0 })
}

/// Whether a fetch from that address comes from the window's page, where no program can have any.
pub fn is_shown_at(handle: &Handle, pc: u64) -> bool {
    let [tag, entry] = [0, 8].map(|into| handle.live64(FETCH_TLB + 16 * ENTRY as usize + into));
    tag == pc & !(PAGE - 1) && entry & !PHYSICAL == BITS
}

/// The core forgets an entry that the guest has put in its place. One that is there and refuses was asked without the
/// kernel's privilege, and refuses again.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let pc = handle.pc();
    (exception.fetch && window.holds(pc) && !is_shown_at(handle, pc)).then_some(pc)
}
