//! The contents of guest pages at the checkpoints of a timeline: the start, and for each page a list of later versions.

use crate::snapshot::memory::Memory;
use std::collections::HashMap;

/// The size of a page.
pub(super) const PAGE: usize = 4096;

type Bytes = Box<[u8; PAGE]>;

/// All pages at all checkpoints. Checkpoints have increasing numbers from 1 on; the start is 0.
#[derive(Debug)]
pub(super) struct Pages {
    start: Memory,
    /// The physical address of page 0.
    base: u64,
    versions: HashMap<u32, Vec<(u32, Bytes)>>,
    stored: usize,
}

impl Pages {
    pub fn new(start: Memory, base: u64) -> Pages {
        Pages { start, base, versions: HashMap::new(), stored: 0 }
    }

    /// The number of stored versions.
    pub fn stored(&self) -> usize {
        self.stored
    }

    /// Adds the content of a page at the newest checkpoint, if it has changed since the one before.
    pub fn add(&mut self, page: u32, checkpoint: u32, now: Bytes) {
        let mut before = [0; PAGE];
        self.read(page, checkpoint.saturating_sub(1), &mut before);
        if before != *now {
            self.versions.entry(page).or_default().push((checkpoint, now));
            self.stored += 1;
        }
    }

    /// Reads a page as it was at a checkpoint.
    pub fn read(&self, page: u32, checkpoint: u32, into: &mut [u8; PAGE]) {
        let versions = self.versions.get(&page).map(Vec::as_slice).unwrap_or_default();
        let known = versions.partition_point(|(number, _)| *number <= checkpoint);
        match known.checked_sub(1).and_then(|last| versions.get(last)) {
            Some((_, bytes)) => into.copy_from_slice(&bytes[..]),
            None => self.start.read(self.base + u64::from(page) * PAGE as u64, into),
        }
    }

    /// Forgets all checkpoints behind this one.
    pub fn cut_behind(&mut self, checkpoint: u32) {
        for versions in self.versions.values_mut() {
            let kept = versions.partition_point(|(number, _)| *number <= checkpoint);
            self.stored -= versions.len() - kept;
            versions.truncate(kept);
        }
    }

    /// Forgets a checkpoint in the middle. `next` is the one behind it. The pages as they are at all others stay.
    pub fn merge(&mut self, checkpoint: u32, next: u32) {
        for versions in self.versions.values_mut() {
            let Ok(at) = versions.binary_search_by_key(&checkpoint, |(number, _)| *number) else { continue };
            if versions.get(at + 1).is_some_and(|(number, _)| *number == next) {
                versions.remove(at);
                self.stored -= 1;
            } else {
                versions[at].0 = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(value: u8) -> Bytes {
        Box::new([value; PAGE])
    }

    fn first(pages: &Pages, number: u32, checkpoint: u32) -> u8 {
        let mut bytes = [9; PAGE];
        pages.read(number, checkpoint, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == bytes[0]));
        bytes[0]
    }

    /// TT-4: a page has at each checkpoint the content of the last version, also when checkpoints are merged or cut.
    #[test]
    fn pages_have_their_content_at_each_checkpoint() {
        let mut start = Memory::default();
        start.gather(0x1000, 0x3000, |_, into| into.fill(1));
        let mut pages = Pages::new(start, 0x1000);
        for (checkpoint, value) in [(1, 1), (2, 2), (3, 3), (5, 2)] {
            pages.add(0, checkpoint, page(value));
        }
        pages.add(1, 3, page(7));
        assert_eq!(pages.stored(), 4, "a page that did not change is not stored");
        let seen =
            |pages: &Pages| [0, 1, 2, 3, 4, 5].map(|checkpoint| (first(pages, 0, checkpoint), first(pages, 1, checkpoint)));
        assert_eq!(seen(&pages), [(1, 1), (1, 1), (2, 1), (3, 7), (3, 7), (2, 7)]);
        assert_eq!(first(&pages, 5, 5), 0, "memory that was never used");
        pages.merge(2, 3);
        pages.merge(3, 4);
        assert_eq!((pages.stored(), seen(&pages)[4], seen(&pages)[5]), (3, (3, 7), (2, 7)));
        pages.cut_behind(4);
        assert_eq!((pages.stored(), seen(&pages)[5]), (2, (3, 7)));
    }
}
