//! A hash index of numbers, without the keys: open addressing with four bytes per entry. Lookups take no lock and
//! allocate nothing. The keys are stored beside the numbered objects, so each method takes a closure that compares or
//! computes a key. [`crate::point::Points`] finds points by address and slot with it, `instances.rs` finds calls by
//! task.
//!
//! The table is at most half full, which keeps probe sequences short. Removal shifts entries back instead of leaving
//! tombstones, so lookups do not become slower over time.

use alloc::boxed::Box;
use alloc::vec;

/// A hash index of numbers whose keys are stored elsewhere.
pub(crate) struct Index {
    numbers: Box<[u32]>,
    /// Right shift that reduces the 64-bit hash to a table position.
    shift: u32,
    len: usize,
}

const EMPTY: u32 = u32::MAX;
const FEWEST: usize = 16;

/// 2^64 divided by the golden ratio (Fibonacci hashing). It spreads neighbouring addresses.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Index {
    pub fn new() -> Index {
        Index::of(FEWEST)
    }

    fn of(size: usize) -> Index {
        Index { numbers: vec![EMPTY; size].into_boxed_slice(), shift: 64 - size.trailing_zeros(), len: 0 }
    }

    /// The number with this key. `has_it` tells whether a number has the key.
    #[inline(always)]
    pub fn get(&self, key: u64, has_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(key);
        loop {
            // Past the end: wrap around. The table always has an empty entry, so the loop ends.
            let Some(number) = self.numbers.get(at).copied() else {
                at = 0;
                continue;
            };
            if number == EMPTY {
                return None;
            }
            if has_it(number) {
                return Some(number);
            }
            at += 1;
        }
    }

    /// All numbers, in no order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.numbers.iter().copied().filter(|number| *number != EMPTY)
    }

    /// Makes room for `numbers` entries in all, so that inserting up to that many does not allocate. `key_of` returns
    /// the key of a number in the index.
    pub fn reserve(&mut self, numbers: usize, key_of: impl Fn(u32) -> u64) {
        let wanted = (numbers.max(FEWEST / 2) * 2).next_power_of_two();
        if wanted > self.numbers.len() {
            let old = core::mem::replace(self, Index::of(wanted));
            for number in old.numbers.iter().filter(|number| **number != EMPTY) {
                self.put(key_of(*number), *number);
            }
        }
    }

    /// Adds a number. Its key must not be in the index.
    pub fn insert(&mut self, key: u64, number: u32, key_of: impl Fn(u32) -> u64) {
        self.reserve(self.len + 1, key_of);
        self.put(key, number);
    }

    fn put(&mut self, key: u64, number: u32) {
        let mask = self.numbers.len() - 1;
        let mut at = self.home(key);
        while self.numbers[at & mask] != EMPTY {
            at += 1;
        }
        self.numbers[at & mask] = number;
        self.len += 1;
    }

    /// Removes the number with this key, which `is_it` recognises. Entries after the gap move back into it unless their
    /// home position lies behind the gap.
    pub fn remove(&mut self, key: u64, is_it: impl Fn(u32) -> bool, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        let mask = self.numbers.len() - 1;
        let mut gap = self.home(key) & mask;
        let found = loop {
            match self.numbers[gap] {
                EMPTY => return None,
                number if is_it(number) => break number,
                _ => gap = (gap + 1) & mask,
            }
        };
        self.numbers[gap] = EMPTY;
        self.len -= 1;
        let mut at = (gap + 1) & mask;
        while self.numbers[at] != EMPTY {
            let home = self.home(key_of(self.numbers[at]));
            // An entry may move into the gap unless its home lies after the gap.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.numbers[gap] = core::mem::replace(&mut self.numbers[at], EMPTY);
                gap = at;
            }
            at = (at + 1) & mask;
        }
        Some(found)
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

    /// Half of the keys collide with each other, half do not.
    fn key(number: u32) -> u64 {
        if number.is_multiple_of(2) { u64::from(number) << 56 } else { 0xffff_ffff_8100_0000 + u64::from(number) }
    }

    proptest! {
        /// KP-1: registered numbers are found and removed ones are not, after any sequence of both.
        #[test]
        fn the_index_agrees_with_a_sorted_map(steps in prop::collection::vec((0u32..40, any::<bool>()), 0..300)) {
            let mut index = Index::new();
            let mut model = BTreeMap::new();
            for (number, add) in steps {
                let is_in = model.contains_key(&number);
                if add && !is_in {
                    index.insert(key(number), number, key);
                    model.insert(number, ());
                } else if !add {
                    let removed = index.remove(key(number), |other| key(other) == key(number), key);
                    prop_assert_eq!(removed, model.remove(&number).map(|()| number));
                }
                for number in 0u32..40 {
                    let found = index.get(key(number), |found| key(found) == key(number));
                    prop_assert_eq!(found, model.contains_key(&number).then_some(number));
                }
                prop_assert_eq!(index.len, model.len());
                let mut all: Vec<u32> = index.iter().collect();
                all.sort_unstable();
                prop_assert!(all.iter().eq(model.keys()));
            }
        }
    }

    #[test]
    fn inserting_into_reserved_room_does_not_grow_the_index() {
        let mut index = Index::new();
        index.reserve(100, key);
        let size = index.numbers.len();
        for number in 0..100 {
            index.insert(key(number), number, key);
        }
        assert_eq!(index.numbers.len(), size);
        let all: Vec<u32> = (0..100).filter_map(|number| index.get(key(number), |found| found == number)).collect();
        assert_eq!(all.len(), 100);
    }
}
