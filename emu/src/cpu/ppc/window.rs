//! The probe window on 64-bit PowerPC: its place, and the entry in the guest's page tables that maps it.

use super::paging;
use super::state::{PID, PTCR};
use crate::boot::Kernel;
use crate::cpu::{Exception, Shown, WindowPlace};
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::ram::Ram;
use std::ops::Range;
use trapline_isa::mem::ByteOrder;

/// The reach of a branch.
const REACH: u64 = 32 << 20;
const BLOCK_BITS: u32 = 21;
const BLOCK: u64 = 1 << BLOCK_BITS;
/// The start of the kernel's linear mapping.
const LINEAR: u64 = 0xc000_0000_0000_0000;

/// The window's virtual start: in the gap of the kernel's image, otherwise behind the kernel in its linear mapping.
pub fn start(kernel: &Kernel, physical: u64) -> u64 {
    hole(kernel).map_or(LINEAR.wrapping_add(physical), |hole| hole.start)
}

/// The window's largest size in bytes.
pub fn most(kernel: &Kernel) -> u64 {
    hole(kernel).map_or(REACH / 2, |hole| hole.end - hole.start)
}

/// The largest gap between the image's sections, in 2 MiB blocks, within branch reach of the text's start. Linux's
/// read-only data ends somewhere, and its init sections begin at the next multiple of 16 MiB. A kernel never accesses
/// the gap. It maps the gap with its whole image, so [`clear`] removes these entries once the kernel has page tables.
fn hole(kernel: &Kernel) -> Option<Range<u64>> {
    let text = kernel.tables.text.start;
    let last = text.checked_add(REACH)?;
    let mut taken: Vec<&Range<u64>> = kernel.section_ranges().filter(|range| range.end > text).collect();
    taken.sort_by_key(|range| range.start);
    let mut behind = text;
    let mut best = 0..0;
    for range in taken {
        let piece = behind.checked_next_multiple_of(BLOCK)?..range.start.min(last) & !(BLOCK - 1);
        if piece.end.saturating_sub(piece.start) > best.end - best.start {
            best = piece;
        }
        behind = behind.max(range.end);
    }
    (!best.is_empty()).then_some(best)
}

/// Maps an address of the window in the current page tables while the CPU is there. Returns `None` if they have no room
/// for it. The entry may replace one that points to a table of small pages, which has nothing for this range and is
/// restored later.
pub fn show_window(handle: &Handle, ram: &Ram, window: &WindowPlace, address: u64) -> Option<Shown> {
    let tree = paging::tree(handle, ram, address)?;
    let (at, bits) = paging::entry(ram, tree, address, BLOCK_BITS)?;
    let before = paging::word(ram, at);
    if bits != BLOCK_BITS || paging::is_page(before) {
        return None;
    }
    let offset = address.wrapping_sub(window.start) & !((1 << BLOCK_BITS) - 1);
    paging::set_word(ram, at, paging::page_that_runs(window.physical + offset));
    Some(Shown { at, before, bytes: 8 })
}

/// Removes the guest's own entries for the window, once, so that a fetch there faults.
pub fn clear(cpu: &TrapContext, ram: &Ram, window: &WindowPlace) {
    let handle = &cpu.handle();
    for address in (window.start..window.start + window.len).step_by(1 << BLOCK_BITS) {
        let found = paging::tree(handle, ram, address).and_then(|tree| paging::entry(ram, tree, address, BLOCK_BITS));
        if let Some((at, BLOCK_BITS)) = found {
            paging::set_word(ram, at, 0);
        }
    }
}

/// Restores the replaced entry.
pub fn hide_window(ram: &Ram, shown: &Shown) {
    let mut bytes = [0; 8];
    ByteOrder::Big.put(shown.before, &mut bytes);
    ram.write(shown.at, &bytes);
}

/// The core flushes its TLB when PTCR or PID is written.
pub fn tables_in_force(handle: &Handle) -> u64 {
    handle.live64(PTCR) ^ handle.live64(PID) << 48
}

/// The window address whose fetch failed, if it is one.
pub fn missed(handle: &Handle, exception: &Exception, window: &WindowPlace) -> Option<u64> {
    let pc = handle.pc();
    (exception.fetch && window.holds(pc)).then_some(pc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::{Section, Segment};
    use crate::symbols::Symbols;
    use trapline_isa::arch::Arch;

    #[test]
    fn the_window_lies_between_what_an_image_holds() {
        const MIB: u64 = 1 << 20;
        let kernel = |sections: &[Range<u64>]| {
            let section = |range: &Range<u64>| Section { name: ".data".into(), range: LINEAR + range.start..LINEAR + range.end };
            let text =
                Segment { physical: 0, virtual_address: LINEAR, bytes: Vec::new().into(), size: 48 * MIB, executable: true };
            Kernel::of_sections(Arch::Ppc64le, vec![text], sections.iter().map(section).collect(), Symbols::default())
        };
        #[rustfmt::skip]
        let cases = [
            ("constants, then init sections", vec![0..16 * MIB, 16 * MIB..17 * MIB + 5, 32 * MIB..40 * MIB],  Some(18..32)),
            ("in any order, overlapping",     vec![32 * MIB..40 * MIB, 1..20 * MIB, 4 * MIB..9 * MIB],        Some(20..32)),
            ("the larger one",                vec![0..2 * MIB, 8 * MIB..9 * MIB, 28 * MIB..40 * MIB],         Some(10..28)),
            ("less than a block",             vec![0..17 * MIB, 19 * MIB - 1..40 * MIB],                      None),
            ("beyond a branch's reach",       vec![0..34 * MIB, 44 * MIB..46 * MIB],                          None),
            ("as far as a branch reaches",    vec![0..23 * MIB, 44 * MIB..46 * MIB],                          Some(24..32)),
            ("nothing behind the constants",  vec![0..20 * MIB, 3..4],                                        None),
            ("stripped of its sections",      vec![],                                                         None),
        ];
        for (what, sections, expected) in cases {
            let kernel = kernel(&sections);
            let expected = expected.map(|Range { start, end }| LINEAR + start * MIB..LINEAR + end * MIB);
            assert_eq!(hole(&kernel), expected, "{what}");
            let (at, len) = expected.map_or((LINEAR + 512 * MIB, REACH / 2), |hole| (hole.start, hole.end - hole.start));
            assert_eq!((start(&kernel, 512 * MIB), most(&kernel)), (at, len), "{what}");
        }
    }
}
