//! The translations of pages that the core has made, and the blocks that it has found: what it remembers so as not to look
//! it up again. A change of the TLB makes all of it invalid.

use super::blocks::{Block, PAGE};
use super::psr;
use super::state::State;
use alloc::boxed::Box;
use alloc::vec;

/// Translations of data pages that are remembered.
const PAGES: usize = 64;
/// Blocks that are remembered by their pc.
const BLOCKS: usize = 1024;

/// A translated page.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The page's address with the privilege level and a bit that is always set, if loads and if stores were translated.
    tags: [u64; 2],
    physical: u64,
    /// The TLB's count of changes.
    changes: u64,
}

/// The translated data pages.
#[derive(Debug)]
pub(super) struct Pages([Seen; PAGES]);

#[inline(always)]
const fn tag(address: u64, level: u64) -> u64 {
    address & !(PAGE - 1) | level << 1 | 1
}

impl Pages {
    pub const NONE: Pages = Pages([Seen { tags: [0; 2], physical: 0, changes: 0 }; PAGES]);

    /// The physical address of an access at a privilege level, if a load or a store of the page was translated at this count
    /// of changes.
    #[inline(always)]
    pub fn look_up(&self, address: u64, level: u64, changes: u64, write: bool) -> Option<u64> {
        let seen = &self.0[(address / PAGE) as usize % PAGES];
        let is_same = seen.tags[usize::from(write)] == tag(address, level) && seen.changes == changes;
        is_same.then_some(seen.physical | address & (PAGE - 1))
    }

    /// Remembers the translation of an access.
    pub fn keep(&mut self, address: u64, level: u64, changes: u64, [read, write]: [bool; 2], physical: u64) {
        let seen = &mut self.0[(address / PAGE) as usize % PAGES];
        let (tag, page) = (tag(address, level), physical & !(PAGE - 1));
        let is_same = seen.tags.contains(&tag) && seen.changes == changes && seen.physical == page;
        let [reads, writes] = if is_same { seen.tags } else { [0; 2] };
        *seen = Seen { tags: [if read { tag } else { reads }, if write { tag } else { writes }], physical: page, changes };
    }

    /// The physical address of an aligned access of a block's instruction.
    #[inline(always)]
    pub fn find(&self, state: &State, address: u64, size: u32, write: bool) -> Option<u64> {
        let status = state.status.get();
        if address & u64::from(size - 1) != 0 {
            None
        } else if status & psr::DT != 0 {
            self.look_up(address, status >> psr::CPL & 3, state.changes.get(), write)
        } else {
            Some(address & !(1 << 63))
        }
    }
}

/// A block that was found at a pc.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    pc: u64,
    /// The sum of the counts of changes of the TLB and of the code, neither of which goes down.
    changes: u64,
    physical: u64,
    block: Block,
    /// The mode in which it was found. 0 in a free entry.
    mode: u32,
}

/// The blocks that were found, by their pc.
#[derive(Debug)]
pub(super) struct Starts(Box<[Known]>);

/// The place of a pc. Its lowest bits are the slot.
#[inline(always)]
const fn place(pc: u64) -> usize {
    ((pc >> 4) ^ (pc << 5)) as usize % BLOCKS
}

impl Starts {
    pub fn new() -> Starts {
        Starts(vec![Known::default(); BLOCKS].into_boxed_slice())
    }

    /// The block at a pc with its physical address.
    #[inline(always)]
    pub fn find(&self, pc: u64, mode: u32, changes: u64) -> Option<(u64, Block)> {
        let known = self.0.get(place(pc))?;
        (known.pc == pc && known.changes == changes && known.mode == mode).then_some((known.physical, known.block))
    }

    pub fn keep(&mut self, pc: u64, mode: u32, changes: u64, (physical, block): (u64, Block)) {
        if let Some(known) = self.0.get_mut(place(pc)) {
            *known = Known { pc, changes, physical, block, mode };
        }
    }
}
