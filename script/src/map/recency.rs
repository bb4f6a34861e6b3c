//! The order of use of a map that evicts (`lruhash`): a doubly linked list of its entries, least recently used first.
//!
//! The links are indices in the entries themselves, so a change of the order allocates nothing. Maps that do not evict have no
//! such list.

use super::{Entry, Map};

/// The index that stands for no entry.
pub(super) const NONE: u32 = u32::MAX;

impl Map {
    /// Moves an entry to the most recently used end of the list.
    #[inline(never)]
    pub(super) fn renew(&mut self, number: u32) {
        if self.newest != number {
            self.unlink(number);
            self.link(number);
        }
    }

    /// Removes an entry from the list.
    pub(super) fn unlink(&mut self, number: u32) {
        let Some(Entry { older, newer, .. }) = self.entries.get(number as usize) else { return };
        let (older, newer) = (*older, *newer);
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }

    /// Appends an entry to the list.
    pub(super) fn link(&mut self, number: u32) {
        let before = core::mem::replace(&mut self.newest, number);
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.newer = number,
            None => self.oldest = number,
        }
        if let Some(entry) = self.entries.get_mut(number as usize) {
            (entry.older, entry.newer) = (before, NONE);
        }
    }

    /// Updates the list after an entry has moved to this index.
    pub(super) fn renumber(&mut self, number: u32) {
        let Some(Entry { older, newer, .. }) = self.entries.get(number as usize) else { return };
        let (older, newer) = (*older, *newer);
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = number,
            None => self.oldest = number,
        }
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = number,
            None => self.newest = number,
        }
    }
}
