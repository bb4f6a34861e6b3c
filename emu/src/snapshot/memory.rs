//! Guest memory in a snapshot: only the pages that are not zero.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Bytes in a page.
pub const PAGE: usize = 4096;
/// Number of pages read at a time.
const PAGES_AT_ONCE: usize = 256;

/// A run of consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Physical address of the first page.
    pub start: u64,
    /// Number of pages.
    pub pages: u32,
}

impl Run {
    /// Physical address after the last page.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(u64::from(self.pages) * PAGE as u64)
    }
}

/// The stored pages by address. All others are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The runs, in order of address, with gaps between them.
    pub(super) runs: Vec<Run>,
    /// The contents of all runs, one after another.
    pub(super) contents: Vec<u8>,
    /// The pages in the form in which machines share them, if one has asked for it.
    pub(super) shared: Shared,
}

/// A form of the memory that is made once and shared by all who ask for it. It is no part of the contents.
#[derive(Clone, Default)]
pub struct Shared(OnceLock<Option<Arc<dyn Any + Send + Sync>>>);

impl PartialEq for Shared {
    fn eq(&self, _: &Shared) -> bool {
        true
    }
}

impl Eq for Shared {}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("is_made", &self.0.get().is_some()).finish()
    }
}

impl Memory {
    /// Adds the nonzero pages of a range. `read` fills a buffer from an address. Ranges must be added in order.
    pub fn gather(&mut self, from: u64, to: u64, mut read: impl FnMut(u64, &mut [u8])) {
        let mut chunk = vec![0; PAGES_AT_ONCE * PAGE];
        let mut at = from;
        while at < to {
            let len = chunk.len().min((to - at) as usize);
            read(at, &mut chunk[..len]);
            for (number, page) in chunk[..len].chunks(PAGE).enumerate().filter(|(_, page)| !is_zero(page)) {
                self.add(at + (number * PAGE) as u64, page);
            }
            at += len as u64;
        }
    }

    fn add(&mut self, start: u64, page: &[u8]) {
        self.shared = Shared::default();
        match self.runs.last_mut() {
            Some(run) if run.end() == start => run.pages += 1,
            _ => self.runs.push(Run { start, pages: 1 }),
        }
        self.contents.extend_from_slice(page);
        // The last page of an odd range is filled up with zeros.
        self.contents.resize(self.contents.len().next_multiple_of(PAGE), 0);
    }

    /// The shared form of this memory. The first caller's `make` makes it; `None` if that failed.
    pub fn shared<T: Any + Send + Sync>(&self, make: impl FnOnce(&Memory) -> Option<T>) -> Option<Arc<T>> {
        let made = self.shared.0.get_or_init(|| make(self).map(|made| Arc::new(made) as Arc<dyn Any + Send + Sync>));
        made.clone()?.downcast().ok()
    }

    /// Number of stored pages.
    pub fn pages(&self) -> usize {
        self.runs.iter().map(|run| run.pages as usize).sum()
    }

    /// The runs of stored pages.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The runs in order, each with its address and its contents.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = &self.contents[..];
        self.runs.iter().map_while(move |run| {
            let (piece, behind) = rest.split_at_checked(run.pages as usize * PAGE)?;
            rest = behind;
            Some((run.start, piece))
        })
    }

    /// Adds all addresses and contents to a hash.
    pub fn hash_into(&self, hasher: &mut blake3::Hasher) {
        for (at, bytes) in self.pieces() {
            hasher.update(&at.to_le_bytes()).update(bytes);
        }
    }

    /// Copies memory out. Missing pages read as zero.
    pub fn read(&self, at: u64, into: &mut [u8]) {
        into.fill(0);
        let end = at.saturating_add(into.len() as u64);
        for (start, bytes) in self.pieces() {
            let (from, to) = (start.max(at), (start + bytes.len() as u64).min(end));
            if from < to {
                let piece = &bytes[(from - start) as usize..(to - start) as usize];
                into[(from - at) as usize..(to - at) as usize].copy_from_slice(piece);
            }
        }
    }

    /// Whether every run lies in one of these ranges.
    pub fn lies_in(&self, places: &[core::ops::Range<u64>]) -> bool {
        self.runs.iter().all(|run| places.iter().any(|place| place.start <= run.start && run.end() <= place.end))
    }
}

/// Whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    // Compare whole words, because most pages are zero.
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_pages_are_omitted_and_the_others_restored() {
        let mut ram = vec![0u8; 600 * PAGE];
        for (page, value) in [(0, 1), (1, 2), (255, 3), (256, 4), (599, 5)] {
            ram[page * PAGE + page % PAGE] = value;
        }
        let mut memory = Memory::default();
        memory.gather(0x10_0000, 0x10_0000 + ram.len() as u64, |at, into| {
            let from = (at - 0x10_0000) as usize;
            into.copy_from_slice(&ram[from..from + into.len()]);
        });
        let runs: Vec<(u64, u32)> = memory.runs().iter().map(|run| ((run.start - 0x10_0000) / PAGE as u64, run.pages)).collect();
        assert_eq!((runs, memory.pages()), (vec![(0, 2), (255, 2), (599, 1)], 5));
        let mut back = vec![0u8; ram.len()];
        for (at, bytes) in memory.pieces() {
            let from = (at - 0x10_0000) as usize;
            back[from..from + bytes.len()].copy_from_slice(bytes);
        }
        assert!(back == ram);
        let mut some = [7; 3 * PAGE];
        memory.read(0x10_0000 + 254 * PAGE as u64 + 5, &mut some);
        assert!(some[..] == ram[254 * PAGE + 5..257 * PAGE + 5]);
        let all = 0x10_0000..0x10_0000 + ram.len() as u64;
        assert!(memory.lies_in(&[0..10, all.clone()]));
        assert!(!memory.lies_in(&[0..10, all.start..all.end - 1]));
    }
}
