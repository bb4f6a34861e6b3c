//! A map from addresses to small numbers that a hit looks at once: open addressing, a power of two, no lock, no allocation.
//!
//! At most half full, so that a run of taken entries stays short. Removal closes the gap it leaves (entries behind it move up when
//! their own place allows it), so there are no tombstones, and lookups do not grow slower as probes come and go.

use alloc::boxed::Box;
use alloc::vec;

/// See the module's text.
pub(crate) struct Table {
    entries: Box<[Entry]>,
    /// How far the hash is shifted to give an index.
    shift: u32,
    len: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    value: u32,
}

const EMPTY: Entry = Entry { key: 0, value: u32::MAX };
const FEWEST: usize = 16;

/// 2^64 divided by the golden ratio: neighbouring addresses land far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Table {
    pub fn new() -> Table {
        Table::of(FEWEST)
    }

    fn of(size: usize) -> Table {
        Table { entries: vec![EMPTY; size].into_boxed_slice(), shift: 64 - size.trailing_zeros(), len: 0 }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: u64) -> Option<u32> {
        let mask = self.entries.len() - 1;
        let mut at = self.home(key);
        loop {
            let entry = self.entries[at & mask];
            if entry.value == EMPTY.value {
                return None;
            }
            if entry.key == key {
                return Some(entry.value);
            }
            at += 1;
        }
    }

    /// All keys, in no order.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries.iter().filter(|entry| entry.value != EMPTY.value).map(|entry| entry.key)
    }

    /// Room for so many keys in all: up to that many, [`Table::insert`] does not allocate.
    pub fn reserve(&mut self, keys: usize) {
        let wanted = (keys.max(FEWEST / 2) * 2).next_power_of_two();
        if wanted > self.entries.len() {
            let old = core::mem::replace(self, Table::of(wanted));
            for entry in old.entries.iter().filter(|entry| entry.value != EMPTY.value) {
                self.insert(entry.key, entry.value);
            }
        }
    }

    /// Sets the value of a key; `u32::MAX` is no value.
    pub fn insert(&mut self, key: u64, value: u32) {
        self.reserve(self.len + 1);
        let mask = self.entries.len() - 1;
        let mut at = self.home(key) & mask;
        while self.entries[at].value != EMPTY.value && self.entries[at].key != key {
            at = (at + 1) & mask;
        }
        self.len += usize::from(self.entries[at].value == EMPTY.value);
        self.entries[at] = Entry { key, value };
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: u64) -> Option<u32> {
        let mask = self.entries.len() - 1;
        let mut gap = self.home(key) & mask;
        while self.entries[gap].value != EMPTY.value && self.entries[gap].key != key {
            gap = (gap + 1) & mask;
        }
        let removed = core::mem::replace(&mut self.entries[gap], EMPTY);
        if removed.value == EMPTY.value {
            return None;
        }
        self.len -= 1;
        let mut at = (gap + 1) & mask;
        while self.entries[at].value != EMPTY.value {
            let home = self.home(self.entries[at].key);
            // It may move up unless its home lies behind the gap.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.entries[gap] = core::mem::replace(&mut self.entries[at], EMPTY);
                gap = at;
            }
            at = (at + 1) & mask;
        }
        Some(removed.value)
    }

    /// How many keys there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    /// All keys and values, in no order.
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.entries.iter().filter(|entry| entry.value != EMPTY.value).map(|entry| (entry.key, entry.value))
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(SPREAD) >> self.shift) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        /// KP-1: what is registered is found, what is not is not, whatever came and went before.
        #[test]
        fn the_table_agrees_with_a_sorted_map(steps in prop::collection::vec((0u64..40, any::<bool>()), 0..300)) {
            let mut table = Table::new();
            let mut model = BTreeMap::new();
            for (step, (key, add)) in steps.into_iter().enumerate() {
                // Keys that share their home, as well as ones that do not.
                let key = if key % 2 == 0 { key << 60 } else { 0xffff_ffff_8100_0000 + key };
                if add {
                    table.insert(key, step as u32);
                    model.insert(key, step as u32);
                } else {
                    prop_assert_eq!(table.remove(key), model.remove(&key));
                }
                for key in (0u64..40).flat_map(|key| [key << 60, 0xffff_ffff_8100_0000 + key]) {
                    prop_assert_eq!(table.get(key), model.get(&key).copied());
                }
            }
            prop_assert_eq!(table.len(), model.len());
            let mut all: Vec<_> = table.iter().collect();
            all.sort_unstable();
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn room_that_was_reserved_is_used_without_growing() {
        let mut table = Table::new();
        table.reserve(100);
        let size = table.entries.len();
        for key in 0..100 {
            table.insert(key * 0x1000, 1);
        }
        assert_eq!(table.entries.len(), size);
    }
}
