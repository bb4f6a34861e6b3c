//! The sorted keys of a map, for loops over the map and for printing it.
//!
//! Sorting is work that a script pays for. So a map keeps its list of [`Keys`] until a key is added or removed.

use super::{Entry, Map};
use crate::stored::Stored;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A sorted list of keys.
#[derive(Debug, Default)]
pub struct Keys {
    /// All keys, one after the other.
    bytes: Vec<u8>,
    /// The offset in `bytes` at which each key ends.
    ends: Vec<usize>,
}

impl Keys {
    /// The number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The key at this position of the list.
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.bytes.get(start..*self.ends.get(number)?)
    }
}

impl Map {
    /// The keys in the order of their bytes; a map without keys has the empty key. If the cached list is stale, asks
    /// `charge` for permission to sort this many keys. `None` if that is denied.
    pub fn keys(&mut self, charge: impl FnOnce(u64) -> bool) -> Option<Arc<Keys>> {
        if let Some(keys) = &self.sorted {
            return Some(Arc::clone(keys));
        }
        if !charge(self.entries.len() as u64) {
            return None;
        }
        let mut keys = Keys { bytes: Vec::new(), ends: Vec::with_capacity(self.entries.len()) };
        for (key, _) in self.iter() {
            keys.bytes.extend_from_slice(key);
            keys.ends.push(keys.bytes.len());
        }
        let keys = Arc::new(keys);
        // A map without keys does not reset the cache when its value comes or goes, so its list is not cached.
        if self.only.is_none() {
            self.sorted = Some(Arc::clone(&keys));
        }
        Some(keys)
    }

    /// Keys and values, in the order of the keys' bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Stored)> {
        let mut sorted: Vec<&Entry> = self.entries.iter().collect();
        sorted.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let only = self.only.iter().map(|stored| (&[][..], stored));
        only.chain(sorted.into_iter().map(|entry| (&*entry.key, &entry.stored)))
    }
}
