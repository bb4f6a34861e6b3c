//! The maps of a running script (`@name[key]`): values that it keeps from hit to hit, by key. A key is the encoded byte
//! string that `Runner::key` builds.
//!
//! A map is a hash table with linear probing. The table holds indices into a vector of entries. Only a new key allocates
//! memory, or a longer byte value. A map that evicts (`lruhash`) is an LRU cache: it links its entries in a list, least
//! recently used first.

use super::stored::Stored;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Default limit on the number of keys of a map.
pub const MOST_KEYS: u64 = 1 << 20;
/// Limit on the size of a map's keys and values, in bytes.
pub const MOST_BYTES: u64 = 256 << 20;
/// Limit on the size of all maps of a script together, in bytes.
const MOST_BYTES_OF_ALL: usize = 1 << 30;
/// The size of an entry without its key and the heap memory of its value, in bytes.
const ENTRY_BYTES: u64 = 96;

/// A map of a running script. A map without keys has one value, in `only`, and needs no lookup.
#[derive(Debug, Default)]
pub struct Map {
    /// The value of a map without keys.
    only: Option<Stored>,
    /// The entries, in no order: removing one moves the last entry to its index.
    entries: Vec<Entry>,
    /// The hash table: index plus 1 of an entry, or 0. Its length is a power of two, and at most half of it is used.
    places: Vec<u32>,
    /// The largest number of keys.
    limit: u64,
    /// The size of all entries with their keys and values, and of a byte value without key. At most [`MOST_BYTES`].
    bytes: u64,
    /// The size of all maps of the script, this one included.
    total: Total,
    /// The secret that its hashes depend on.
    secret: Secret,
    /// Whether the least recently used key is evicted when the map is full.
    evicts: bool,
    /// The least and the most recently used entry, in a map that evicts.
    oldest: u32,
    newest: u32,
    /// The sorted keys, cached until a key is added or removed.
    sorted: Option<Arc<Keys>>,
    /// The number of values that were dropped because the map was full.
    pub lost: u64,
}

/// The size of all maps of a script, which share a limit.
#[derive(Clone, Debug)]
pub struct Total(Arc<Held>);

#[derive(Debug)]
struct Held {
    bytes: AtomicUsize,
    most: usize,
}

impl Total {
    /// A total with a limit in bytes.
    fn of(most: usize) -> Total {
        Total(Arc::new(Held { bytes: AtomicUsize::new(0), most }))
    }

    /// The bytes that are free.
    fn room(&self) -> u64 {
        self.0.most.saturating_sub(self.0.bytes.load(Ordering::Relaxed)) as u64
    }
}

impl Default for Total {
    fn default() -> Total {
        Total::of(MOST_BYTES_OF_ALL)
    }
}

/// Two numbers that the hashes of a map's keys depend on. If they are random, nobody can choose keys that collide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Secret(pub u64, pub u64);

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

/// The index that stands for no entry.
const NONE: u32 = u32::MAX;

/// A key with its value.
#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    /// The key's hash. Comparing it first saves most comparisons of keys.
    hash: u32,
    stored: Stored,
    /// The previous and the next entry in the order of use, in a map that evicts.
    older: u32,
    newer: u32,
}

impl Map {
    /// Creates a map with a limit on the number of keys. 0 means [`MOST_KEYS`].
    pub fn new(limit: u64, evicts: bool, secret: Secret) -> Map {
        let mut map = Map::default();
        map.limit = if limit == 0 { MOST_KEYS } else { limit };
        (map.evicts, map.secret, map.oldest, map.newest) = (evicts, secret, NONE, NONE);
        map
    }

    /// The map with a limit that it shares with others.
    pub fn within(mut self, total: &Total) -> Map {
        self.total = total.clone();
        self
    }

    /// Notes that the map holds more bytes than before.
    fn hold(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        // The total is at most its limit, so the numbers fit.
        self.total.0.bytes.fetch_add(bytes as usize, Ordering::Relaxed);
    }

    /// Notes that the map holds fewer bytes than before.
    fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.total.0.bytes.fetch_sub(bytes as usize, Ordering::Relaxed);
    }

    /// Whether a value may have `after` bytes instead of `before`.
    fn has_room(&self, before: u64, after: u64) -> bool {
        let more = after.saturating_sub(before);
        self.bytes.saturating_add(more) <= MOST_BYTES && more <= self.total.room()
    }

    /// The value of a key. The empty key is that of a map without keys.
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Option<&Stored> {
        if key.is_empty() {
            return self.only.as_ref();
        }
        let found = self.find(key, hash(self.secret, key))?;
        Some(&*self.used(found)?)
    }

    /// The value of a key. If the key is new, `make` creates the value. `None` if the map is full; the loss is counted.
    #[inline]
    pub fn place(&mut self, key: &[u8], make: impl FnOnce() -> Stored) -> Option<&mut Stored> {
        if key.is_empty() {
            return Some(self.only.get_or_insert_with(make));
        }
        let hash = hash(self.secret, key);
        match self.find(key, hash) {
            Some(found) => self.used(found),
            None => self.make(key, hash, make()),
        }
    }

    /// The value of a map without keys.
    #[inline]
    pub fn only(&mut self, make: impl FnOnce() -> Stored) -> &mut Stored {
        self.only.get_or_insert_with(make)
    }

    /// Stores bytes at a key and replaces the old value. If the map has no room for them, the loss is counted.
    pub fn put_bytes(&mut self, key: &[u8], bytes: &[u8]) {
        let after = bytes.len() as u64;
        let mut is_new = false;
        let before = if key.is_empty() {
            self.only.as_ref().map_or(0, Stored::bytes_of_text)
        } else {
            let first = || {
                is_new = true;
                Stored::Bytes(bytes.to_vec())
            };
            let Some(stored) = self.place(key, first) else { return };
            stored.bytes()
        };
        if is_new {
            return;
        }
        if !self.has_room(before, after) {
            self.lost += 1;
            return;
        }
        self.give_back(before);
        self.hold(after);
        match self.place(key, || Stored::Bytes(Vec::new())) {
            // Memory that a much longer value has needed is given back.
            Some(Stored::Bytes(old)) if old.capacity() / 4 <= bytes.len() + 1024 => {
                old.clear();
                old.extend_from_slice(bytes);
            }
            Some(stored) => *stored = Stored::Bytes(bytes.to_vec()),
            None => {}
        }
    }

    /// The value of an entry. In a map that evicts, the entry becomes the most recently used one.
    #[inline]
    fn used(&mut self, number: usize) -> Option<&mut Stored> {
        if self.evicts {
            self.renew(number as u32);
        }
        Some(&mut self.entries.get_mut(number)?.stored)
    }

    /// Moves an entry to the most recently used end of the list.
    #[inline(never)]
    fn renew(&mut self, number: u32) {
        if self.newest != number {
            self.unlink(number);
            self.link(number);
        }
    }

    /// Removes an entry from the list.
    fn unlink(&mut self, number: u32) {
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
    fn link(&mut self, number: u32) {
        let before = core::mem::replace(&mut self.newest, number);
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.newer = number,
            None => self.oldest = number,
        }
        if let Some(entry) = self.entries.get_mut(number as usize) {
            (entry.older, entry.newer) = (before, NONE);
        }
    }

    /// The index of a key's entry.
    #[inline]
    fn find(&self, key: &[u8], hash: u32) -> Option<usize> {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            let number = (*self.places.get(at)? as usize).checked_sub(1)?;
            let entry = self.entries.get(number)?;
            if entry.hash == hash && *entry.key == *key {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an entry for a new key and returns its value. A full map that evicts drops its least recently used entries
    /// first. Any other full map counts the loss and returns `None`.
    #[cold]
    fn make(&mut self, key: &[u8], hash: u32, stored: Stored) -> Option<&mut Stored> {
        let needed = key.len() as u64 + ENTRY_BYTES + stored.bytes();
        let is_full = |map: &Map| map.entries.len() as u64 >= map.limit || !map.has_room(0, needed);
        // Evicting cannot make room that other maps take.
        let may_evict = self.evicts && needed <= self.total.room().saturating_add(self.bytes);
        while may_evict && is_full(self) && !self.entries.is_empty() {
            self.take_out(self.oldest as usize);
        }
        if is_full(self) {
            self.lost += 1;
            return None;
        }
        if (self.entries.len() + 1) * 2 > self.places.len() {
            self.spread((self.places.len() * 2).max(16));
        }
        self.hold(needed);
        self.sorted = None;
        self.entries.push(Entry { key: key.into(), hash, stored, older: NONE, newer: NONE });
        let number = self.entries.len() - 1;
        self.enter(number, hash);
        if self.evicts {
            self.link(number as u32);
        }
        self.entries.last_mut().map(|entry| &mut entry.stored)
    }

    /// Writes an entry's index to the hash table, at the first free place from that of its hash.
    fn enter(&mut self, number: usize, hash: u32) {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        while self.places.get(at).is_some_and(|taken| *taken != 0) {
            at = (at + 1) & mask;
        }
        if let Some(place) = self.places.get_mut(at) {
            *place = number as u32 + 1;
        }
    }

    /// Rebuilds the hash table with this many places.
    fn spread(&mut self, places: usize) {
        self.places = vec![0; places];
        for number in 0..self.entries.len() {
            self.enter(number, self.entries[number].hash);
        }
    }

    /// Removes a key. Returns whether it existed.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        if key.is_empty() {
            let gone = self.only.take();
            self.give_back(gone.as_ref().map_or(0, Stored::bytes_of_text));
            return gone.is_some();
        }
        let Some(number) = self.find(key, hash(self.secret, key)) else { return false };
        self.take_out(number);
        true
    }

    /// Removes the entry at this index. The last entry moves there.
    fn take_out(&mut self, number: usize) {
        if number >= self.entries.len() {
            return;
        }
        self.sorted = None;
        self.free(number);
        if self.evicts {
            self.unlink(number as u32);
        }
        let gone = self.entries.swap_remove(number);
        self.give_back(gone.key.len() as u64 + ENTRY_BYTES + gone.stored.bytes());
        // The last entry has moved to this index.
        let (moved, last) = (number as u32 + 1, self.entries.len() as u32 + 1);
        if let Some(entry) = self.entries.get(number) {
            let mask = self.places.len().wrapping_sub(1);
            let mut at = entry.hash as usize & mask;
            while self.places.get(at).is_some_and(|place| *place != last && *place != 0) {
                at = (at + 1) & mask;
            }
            if let Some(place) = self.places.get_mut(at) {
                *place = moved;
            }
            if self.evicts {
                self.renumber(number as u32);
            }
        }
    }

    /// Updates the list after an entry has moved to this index.
    fn renumber(&mut self, number: u32) {
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

    /// Frees an entry's place in the hash table. Entries that had to probe past it move up.
    fn free(&mut self, number: usize) {
        let mask = self.places.len().wrapping_sub(1);
        let Some(entry) = self.entries.get(number) else { return };
        let mut hole = entry.hash as usize & mask;
        while self.places.get(hole).is_some_and(|place| *place != number as u32 + 1) {
            hole = (hole + 1) & mask;
        }
        let mut at = (hole + 1) & mask;
        while let Some(other) = self.places.get(at).copied().filter(|place| *place != 0) {
            let wanted = self.entries.get(other as usize - 1).map_or(at, |entry| entry.hash as usize & mask);
            // It may move to the hole if that lies between its preferred and its present place.
            if at.wrapping_sub(wanted) & mask >= at.wrapping_sub(hole) & mask {
                self.places[hole] = other;
                hole = at;
            }
            at = (at + 1) & mask;
        }
        if let Some(place) = self.places.get_mut(hole) {
            *place = 0;
        }
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        /// A table with more places per key than this is dropped, because clearing it costs more than rebuilding it.
        const MOST_PLACES_A_KEY: usize = 16;
        self.only = None;
        if self.places.len() > MOST_PLACES_A_KEY * self.entries.len() {
            self.places = Vec::new();
        } else {
            self.places.fill(0);
        }
        self.entries.clear();
        (self.oldest, self.newest, self.sorted) = (NONE, NONE, None);
        self.give_back(self.bytes);
    }

    /// Sets all values to 0 and keeps the keys.
    pub fn zero(&mut self) {
        let mut emptied = 0;
        for stored in self.only.iter_mut().chain(self.entries.iter_mut().map(|entry| &mut entry.stored)) {
            emptied += stored.bytes_of_text();
            stored.zero();
        }
        self.give_back(emptied);
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.entries.len() + usize::from(self.only.is_some())
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

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

impl Drop for Map {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// A hash of the key, computed in steps of eight bytes: a multiplication by the secret, whose two halves are folded.
#[inline]
fn hash(secret: Secret, key: &[u8]) -> u32 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(secret.1 | 1);
        product as u64 ^ (product >> 64) as u64
    };
    let mut hash = secret.0 ^ key.len() as u64;
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        hash = mix(hash, rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte)));
    }
    // Keys with equal distances, such as addresses of objects in an array, would still cluster in the table: a single
    // multiplication keeps equal distances equal but for the fold. The second one spreads them.
    (hash.wrapping_mul(MIX) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::super::types::Aggregate;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SECRET: Secret = Secret(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344);

    /// BY-1: keys that were chosen to collide without a secret, or that differ in few bits, take about as many steps to
    /// find as others do, and twice as many keys twice as many steps.
    #[test]
    fn chosen_keys_do_not_collide() {
        /// The inverse of 2^64 / golden ratio, modulo 2^64. With it keys can be chosen for the product's bits.
        const UNMIX: u64 = 0xf1de_83e1_9937_733d;
        const MOST: u64 = 1 << 14;
        type Make = fn(u64) -> Vec<u8>;
        let families: [(&str, Make); 8] = [
            ("rising", |number| number.to_le_bytes().into()),
            ("high bits", |number| (number << 50).to_le_bytes().into()),
            ("middle bits", |number| (number << 40).to_le_bytes().into()),
            ("pages", |number| (0xffff_8880_0000_0000 + (number << 12)).to_le_bytes().into()),
            ("equal low bits of a product", |number| (number << 50).wrapping_mul(UNMIX).to_le_bytes().into()),
            ("equal middle bits of a product", |number| (number << 50 | number).wrapping_mul(UNMIX).to_le_bytes().into()),
            ("a bit of one word and one of the next", |number| {
                let words = (0..14).flat_map(|bit| {
                    let flips = number >> bit & 1;
                    [flips << 63, flips << 4].map(u64::to_le_bytes).concat()
                });
                words.collect()
            }),
            ("short texts", |number| number.to_be_bytes()[2..].into()),
        ];
        let others = [Secret(0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89), Secret(0x4528_21e6_38d0_1377, 0xbe54_66cf_34e9_0c6c)];
        for secret in [SECRET].into_iter().chain(others) {
            for (what, make) in families {
                let steps = |keys: u64| {
                    let mut map = Map::new(0, false, secret);
                    (0..keys).for_each(|number| {
                        let _ = map.place(&make(number), || Stored::Number(number));
                    });
                    assert_eq!(map.len() as u64, keys, "{what}: all differ");
                    map.steps_to_all()
                };
                let (one, two) = (steps(MOST / 2), steps(MOST));
                assert!(two < 2 * MOST, "{what}, {secret:?}: {two} steps to {MOST} keys");
                assert!(5 * two <= 11 * one, "{what}, {secret:?}: {one} steps, twice the keys {two}");
            }
        }
    }

    impl Map {
        /// The number of places that are probed if each key is looked up once.
        fn steps_to_all(&self) -> u64 {
            let mask = self.places.len() - 1;
            let taken = self.places.iter().enumerate().filter(|(_, number)| **number != 0);
            taken.map(|(at, number)| (at.wrapping_sub(self.entries[*number as usize - 1].hash as usize) & mask) as u64 + 1).sum()
        }
    }

    proptest! {
        /// BY-1: after any sequence of insertions, removals and clears, a map equals a BTreeMap.
        #[test]
        fn a_map_is_a_map(steps in prop::collection::vec((0_u8..8, 0_u8..40, any::<u16>()), 0..400)) {
            let (mut map, mut plain) = (Map::new(0, false, SECRET), BTreeMap::<Vec<u8>, u64>::new());
            for (what, key, value) in steps {
                let key = vec![key; usize::from(key % 11) + 1];
                match what {
                    0..=3 => {
                        *map.place(&key, || Stored::Number(0)).expect("room") = Stored::Number(value.into());
                        plain.insert(key, value.into());
                    }
                    4 | 5 => prop_assert_eq!(map.remove(&key), plain.remove(&key).is_some()),
                    6 => prop_assert_eq!(map.get(&key).cloned(), plain.get(&key).map(|value| Stored::Number(*value))),
                    _ if value == 0 => {
                        map.clear();
                        plain.clear();
                    }
                    _ => {}
                }
            }
            let held: Vec<(Vec<u8>, Stored)> = map.iter().map(|(key, stored)| (key.to_vec(), stored.clone())).collect();
            let expected: Vec<(Vec<u8>, Stored)> = plain.into_iter().map(|(key, value)| (key, Stored::Number(value))).collect();
            prop_assert_eq!(held, expected);
        }
    }

    /// A step of the test of evicting maps.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put(u8),
        Get(u8),
        Remove(u8),
        Clear,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = 0_u8..24;
        let step = prop_oneof![
            6 => key.clone().prop_map(Step::Put),
            3 => key.clone().prop_map(Step::Get),
            2 => key.prop_map(Step::Remove),
            1 => Just(Step::Clear),
        ];
        proptest::collection::vec(step, 0..300)
    }

    proptest! {
        /// BY-1: an evicting map always drops the least recently used key.
        #[test]
        fn the_least_recently_used_key_makes_room(steps in steps(), limit in 1_usize..12) {
            let (mut map, mut plain) = (Map::new(limit as u64, true, SECRET), Vec::<u8>::new());
            for step in steps {
                match step {
                    Step::Put(key) => {
                        *map.place(&[key], || Stored::Number(0)).expect("room") = Stored::Number(key.into());
                        plain.retain(|known| *known != key);
                        plain.drain(..(plain.len() + 1).saturating_sub(limit));
                        plain.push(key);
                    }
                    Step::Get(key) => {
                        let was = plain.iter().position(|known| *known == key);
                        prop_assert_eq!(map.get(&[key]).is_some(), was.is_some());
                        if let Some(at) = was {
                            plain.remove(at);
                            plain.push(key);
                        }
                    }
                    Step::Remove(key) => {
                        prop_assert_eq!(map.remove(&[key]), plain.contains(&key));
                        plain.retain(|known| *known != key);
                    }
                    Step::Clear => {
                        map.clear();
                        plain.clear();
                    }
                }
                let mut expected: Vec<Vec<u8>> = plain.iter().map(|key| vec![*key]).collect();
                expected.sort();
                let keys = map.keys(|_| true).expect("keys");
                let held: Vec<Vec<u8>> = (0..keys.len()).filter_map(|number| keys.get(number)).map(<[u8]>::to_vec).collect();
                prop_assert_eq!(held, expected);
            }
        }
    }

    /// BY-1: keys are sorted again only after one was added or removed.
    #[test]
    fn keys_are_sorted_once() {
        let mut map = Map::new(0, false, SECRET);
        let charged = |map: &mut Map| {
            let mut charged = 0;
            let _ = map.keys(|steps| {
                charged = steps;
                true
            });
            charged
        };
        (0..100_u8).for_each(|key| {
            let _ = map.place(&[key], || Stored::Number(1));
        });
        assert_eq!((charged(&mut map), charged(&mut map)), (100, 0));
        let _ = map.place(&[5], || Stored::Number(2));
        assert_eq!(charged(&mut map), 0, "a value has changed");
        map.remove(&[5]);
        assert_eq!((charged(&mut map), charged(&mut map)), (99, 0), "a key has gone");
        assert!(map.keys(|_| false).is_some());
        let _ = map.place(&[200], || Stored::Number(2));
        assert!(map.keys(|_| false).is_none(), "a key has come, and there is no budget");
        map.clear();
        assert_eq!((charged(&mut map), map.places.len()), (0, map.places.len()));
    }

    /// BY-1: clearing a small map is cheap even if it was large before.
    #[test]
    fn clearing_costs_what_the_keys_did() {
        let mut map = Map::new(0, false, SECRET);
        (0..100_000_u32).for_each(|key| {
            let _ = map.place(&key.to_le_bytes(), || Stored::Number(1));
        });
        let large = map.places.len();
        map.clear();
        let _ = map.place(b"one", || Stored::Number(1));
        map.clear();
        let _ = map.place(b"one", || Stored::Number(1));
        assert!(map.places.len() < 100 && large > 100_000, "{} places for a key, {large} once", map.places.len());
        assert_eq!(map.len(), 1);
    }

    /// The `number`th key of a kind.
    type Kind = fn(u32) -> Vec<u8>;

    /// BY-1: both kinds of maps respect their limits of keys and bytes and count what they drop, with all kinds of keys
    /// and values.
    #[test]
    fn maps_of_every_kind_are_bounded() {
        let kinds: [(&str, Kind); 5] = [
            ("numbers", |number| u64::from(number).to_le_bytes().to_vec()),
            ("two numbers", |number| [u64::from(number).to_le_bytes(), [7; 8]].concat()),
            ("strings", |number| std::format!("key {number}").into_bytes()),
            ("long strings", |number| [&vec![b'x'; 4096][..], &number.to_le_bytes()].concat()),
            ("stacks", |number| number.to_le_bytes().repeat(254)),
        ];
        let values = [
            Stored::Number(7),
            Stored::of(Aggregate::Count),
            Stored::of(Aggregate::Stats(true)),
            Stored::of(Aggregate::Histogram(0)),
            Stored::of(Aggregate::Histogram(5)),
            Stored::of(Aggregate::Linear { min: 0, max: 1000, step: 1 }),
            Stored::Bytes(vec![b'y'; 10_000]),
        ];
        for (kind, key) in kinds {
            for value in &values {
                for (limit, evicts) in [(1, false), (1, true), (100, false), (100, true), (u64::MAX, false), (u64::MAX, true)] {
                    let what = std::format!("{kind}, {limit} keys, evicts {evicts}");
                    let mut map = Map::new(limit, evicts, SECRET);
                    let one = key(0).len() as u64 + ENTRY_BYTES + value.bytes();
                    let room = (MOST_BYTES / one).min(limit);
                    // If memory is the limit, a few keys beyond it are enough.
                    let tries = (room + 50).min(40_000);
                    for number in 0..tries as u32 {
                        let _ = map.place(&key(number), || value.clone());
                    }
                    let held: u64 =
                        map.entries.iter().map(|entry| entry.key.len() as u64 + ENTRY_BYTES + entry.stored.bytes()).sum();
                    assert!(map.bytes <= MOST_BYTES && map.bytes == held && map.len() as u64 <= limit, "{what}: {held} bytes");
                    let lost = if evicts { 0 } else { tries - map.len() as u64 };
                    assert_eq!(map.lost, lost, "{what}");
                    let newest = map.get(&key(tries as u32 - 1)).is_some();
                    assert_eq!(newest, evicts || lost == 0, "{what}");
                    assert_eq!(map.get(&key(0)).is_some(), !evicts || tries == map.len() as u64, "{what}");
                }
            }
        }
    }

    /// BY-1: values beyond the limits of keys and bytes are counted, whatever limit the script sets.
    #[test]
    fn byte_values_are_counted_as_long_as_they_are_held() {
        let mut map = Map::new(0, false, SECRET);
        for _ in 0..300 {
            map.put_bytes(b"k", &[1; 1 << 20]);
            map.zero();
        }
        map.put_bytes(b"k", &[1; 1 << 20]);
        assert_eq!(map.lost, 0, "zero() has given the bytes back");
        map.put_bytes(b"k", b"short");
        let held = |map: &mut Map| match map.get(b"k") {
            Some(Stored::Bytes(bytes)) => bytes.capacity(),
            other => panic!("{other:?}"),
        };
        assert!(held(&mut map) < 1 << 16, "memory of the longer value is given back: {}", held(&mut map));
    }

    #[test]
    fn all_maps_of_a_script_share_a_limit() {
        let total = Total::of(10_000);
        let [mut one, mut other] = [0, 1].map(|_| Map::new(0, false, SECRET).within(&total));
        let value = [7; 1000];
        let put = |map: &mut Map, from: u8, to: u8| (from..to).for_each(|key| map.put_bytes(&[key], &value));
        put(&mut one, 0, 5);
        put(&mut other, 0, 20);
        assert_eq!((one.len(), one.lost, other.len(), other.lost), (5, 0, 4, 16));
        other.put_bytes(&[1], &[7; 5000]);
        assert_eq!(other.lost, 17, "a longer value has no room");
        other.put_bytes(&[], &[7; 5000]);
        assert_eq!((other.len(), other.lost), (4, 18), "nor has that of a map without keys");
        one.remove(&[0]);
        put(&mut other, 100, 101);
        assert_eq!((other.len(), other.lost), (5, 18), "removing makes room");
        one.clear();
        put(&mut other, 101, 105);
        assert_eq!((other.len(), other.lost), (9, 18), "so does clearing");
        drop(other);
        put(&mut one, 0, 9);
        assert_eq!((one.len(), one.lost), (9, 0), "and so does the end of a map");
        let mut newest = Map::new(0, true, SECRET).within(&total);
        put(&mut newest, 0, 3);
        assert_eq!((newest.len(), newest.lost), (0, 3), "a map evicts only its own keys");
    }

    #[test]
    fn maps_are_bounded() {
        let mut few = Map::new(2, false, SECRET);
        for key in 0..5_u8 {
            let _ = few.place(&[key], || Stored::Number(1));
        }
        assert_eq!((few.len(), few.lost), (2, 3));
        let mut newest = Map::new(2, true, SECRET);
        for key in 0..5_u8 {
            let _ = newest.place(&[key], || Stored::Number(1));
        }
        assert_eq!((newest.len(), newest.lost, newest.get(&[4]).is_some()), (2, 0, true));
        // Histograms with 2048 parts, and long strings.
        let mut wide = Map::new(u64::MAX, false, SECRET);
        for key in 0..40_000_u32 {
            let _ = wide.place(&key.to_le_bytes(), || Stored::of(Aggregate::Histogram(5)));
        }
        assert!(wide.lost > 10_000 && wide.bytes <= MOST_BYTES, "{} lost, {} bytes", wide.lost, wide.bytes);
        wide.clear();
        let (text, before) = (vec![b'x'; 65_536], wide.lost);
        for key in 0..5000_u32 {
            wide.put_bytes(&key.to_le_bytes(), &text);
        }
        assert!(wide.lost > before && wide.bytes <= MOST_BYTES, "{} lost, {} bytes", wide.lost, wide.bytes);
        let held = wide.bytes;
        assert!(wide.get(&4999_u32.to_le_bytes()).is_none(), "a value without room leaves no key");
        assert_eq!((5000 - wide.len()) as u64, wide.lost - before);
        wide.put_bytes(&0_u32.to_le_bytes(), b"y");
        assert_eq!(wide.bytes, held - 65_535);
        let mut newest = Map::new(u64::MAX, true, SECRET);
        for key in 0..5000_u32 {
            newest.put_bytes(&key.to_le_bytes(), &text);
        }
        assert_eq!(newest.get(&4999_u32.to_le_bytes()), Some(&Stored::Bytes(text)));
        assert!(newest.lost == 0 && newest.bytes <= MOST_BYTES && newest.len() < 5000, "{} bytes", newest.bytes);
    }
}
