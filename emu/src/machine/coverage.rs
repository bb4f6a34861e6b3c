//! Coverage: the set of kernel blocks that ran. While it is collected, every block calls the machine, which costs host
//! time and no guest time.

use std::collections::BTreeMap;
use std::collections::HashMap;

/// Entries of the cache of recent blocks, a power of two.
const RECENT: usize = 1 << 14;

/// The blocks that ran so far.
pub(crate) struct Coverage {
    /// The length in bytes of the longest block at each address.
    blocks: HashMap<u64, u32>,
    /// A direct-mapped cache of recent blocks (address and length), which avoids most lookups in `blocks`.
    recent: Vec<(u64, u32)>,
}

impl Coverage {
    /// An empty set.
    pub fn new() -> Coverage {
        Coverage { blocks: HashMap::new(), recent: vec![(0, 0); RECENT] }
    }

    /// Adds the `len` bytes of code at `start`.
    pub fn note(&mut self, start: u64, len: u32) {
        let recent = &mut self.recent[(start ^ start >> 14) as usize % RECENT];
        if *recent == (start, len) {
            return;
        }
        *recent = (start, len);
        let known = self.blocks.entry(start).or_insert(0);
        *known = len.max(*known);
    }

    /// The length in bytes of each block, by its address.
    pub fn blocks(&self) -> BTreeMap<u64, u32> {
        self.blocks.iter().filter(|(_, len)| **len > 0).map(|(start, len)| (*start, *len)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4: every block is kept once, with its greatest length, whatever the cache forgets.
    #[test]
    fn blocks_are_kept_once_with_their_greatest_length() {
        let mut coverage = Coverage::new();
        for (start, len) in [(0x1000, 4), (0x1000 + (RECENT as u64) * 0x4000, 8), (0x1000, 12), (0x1000, 4), (0x2000, 0)] {
            coverage.note(start, len);
        }
        assert_eq!(coverage.blocks().into_iter().collect::<Vec<_>>(), [(0x1000, 12), (0x1000_1000, 8)]);
    }
}
