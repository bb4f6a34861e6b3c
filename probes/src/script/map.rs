//! Maps: what a script keeps from hit to hit, by key.
//!
//! A table of places by the hash of the key leads to the entries, which stand one behind the other; nothing is
//! allocated but for new keys.

use super::stored::Stored;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// As many keys as a map has room for that names no limit.
pub const MOST_KEYS: u64 = 1 << 20;
/// As many bytes as the keys and values of one map may take.
pub const MOST_BYTES: u64 = 256 << 20;
/// What an entry takes beside its key and what it holds.
const ENTRY_BYTES: u64 = 96;

/// A map of a running script. One without keys has one place, which needs no look-up.
#[derive(Debug, Default)]
pub struct Map {
    only: Option<Stored>,
    entries: Vec<Entry>,
    /// Numbers of entries, from 1 on, by hash and then in the next free place; as many as a power of two, at most half
    /// of them taken.
    places: Vec<u32>,
    /// As many keys as it may have.
    limit: u64,
    bytes: u64,
    /// The key that was used least recently makes room.
    evicts: bool,
    uses: u64,
    /// Values that found no room.
    pub lost: u64,
}

#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    hash: u32,
    stored: Stored,
    used: u64,
}

impl Map {
    /// One of at most so many keys (0: [`MOST_KEYS`]).
    pub fn new(limit: u64, evicts: bool) -> Map {
        Map { limit: if limit == 0 { MOST_KEYS } else { limit }, evicts, ..Map::default() }
    }

    /// What is at a key; the empty key is that of a map without keys.
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Option<&Stored> {
        if key.is_empty() {
            return self.only.as_ref();
        }
        let found = self.find(key, hash(key))?;
        Some(&*self.used(found)?)
    }

    /// The place of a key, made by `make` where there is none. `None`: the map is full, and the value is lost.
    #[inline]
    pub fn place(&mut self, key: &[u8], make: impl FnOnce() -> Stored) -> Option<&mut Stored> {
        if key.is_empty() {
            return Some(self.only.get_or_insert_with(make));
        }
        let hash = hash(key);
        match self.find(key, hash) {
            Some(found) => self.used(found),
            None => self.make(key, hash, make()),
        }
    }

    /// The one place of a map without keys.
    #[inline]
    pub fn only(&mut self, make: impl FnOnce() -> Stored) -> &mut Stored {
        self.only.get_or_insert_with(make)
    }

    /// Puts bytes there; those that are there already make room for them.
    pub fn put_bytes(&mut self, key: &[u8], bytes: &[u8]) {
        let (held, room) = (self.bytes, MOST_BYTES);
        let Some(stored) = self.place(key, || Stored::Bytes(Vec::new())) else { return };
        let before = stored.bytes();
        if held.saturating_sub(before).saturating_add(bytes.len() as u64) > room {
            self.lost += 1;
            return;
        }
        if let Stored::Bytes(old) = stored {
            old.clear();
            old.extend_from_slice(bytes);
        } else {
            *stored = Stored::Bytes(bytes.to_vec());
        }
        let after = stored.bytes();
        if !key.is_empty() {
            self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        }
    }

    #[inline]
    fn used(&mut self, number: usize) -> Option<&mut Stored> {
        self.uses += 1;
        let entry = self.entries.get_mut(number)?;
        entry.used = self.uses;
        Some(&mut entry.stored)
    }

    /// The number of a key's entry.
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

    #[cold]
    fn make(&mut self, key: &[u8], hash: u32, stored: Stored) -> Option<&mut Stored> {
        let needed = key.len() as u64 + ENTRY_BYTES + stored.bytes();
        let is_full = |map: &Map| map.entries.len() as u64 >= map.limit || map.bytes.saturating_add(needed) > MOST_BYTES;
        while self.evicts && is_full(self) {
            let Some(oldest) = self.entries.iter().min_by_key(|entry| entry.used).map(|entry| entry.key.clone()) else { break };
            self.remove(&oldest);
        }
        if is_full(self) {
            self.lost += 1;
            return None;
        }
        if (self.entries.len() + 1) * 2 > self.places.len() {
            self.spread((self.places.len() * 2).max(16));
        }
        self.bytes += needed;
        self.entries.push(Entry { key: key.into(), hash, stored, used: 0 });
        let number = self.entries.len() - 1;
        self.enter(number, hash);
        self.used(number)
    }

    /// Writes an entry's number into the first free place from that of its hash on.
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

    /// All entries anew, in so many places.
    fn spread(&mut self, places: usize) {
        self.places = vec![0; places];
        for number in 0..self.entries.len() {
            self.enter(number, self.entries[number].hash);
        }
    }

    /// Takes a key out; whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        if key.is_empty() {
            return self.only.take().is_some();
        }
        let Some(number) = self.find(key, hash(key)) else { return false };
        self.free(number);
        let gone = self.entries.swap_remove(number);
        self.bytes = self.bytes.saturating_sub(gone.key.len() as u64 + ENTRY_BYTES + gone.stored.bytes());
        // The last entry has taken its number.
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
        }
        true
    }

    /// Frees the place of an entry; those behind it that it had kept from their own move up.
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
            // It may move to the hole if that lies between the place it wants and the one it has.
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

    /// Takes all keys out.
    pub fn clear(&mut self) {
        self.only = None;
        self.entries.clear();
        self.places.fill(0);
        self.bytes = 0;
    }

    /// All values become 0, keys stay.
    pub fn zero(&mut self) {
        self.only.iter_mut().chain(self.entries.iter_mut().map(|entry| &mut entry.stored)).for_each(Stored::zero);
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries.len() + usize::from(self.only.is_some())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys and values, by the bytes of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Stored)> {
        let mut sorted: Vec<&Entry> = self.entries.iter().collect();
        sorted.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let only = self.only.iter().map(|stored| (&[][..], stored));
        only.chain(sorted.into_iter().map(|entry| (&*entry.key, &entry.stored)))
    }
}

/// Of a key's bytes, eight at a time.
#[inline]
fn hash(key: &[u8]) -> u32 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = key.len() as u64;
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(MIX);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte));
        hash = (hash.rotate_left(5) ^ last).wrapping_mul(MIX);
    }
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::super::types::Aggregate;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// BY-1: whatever is put in, taken out and cleared, a map holds what a plain one would.
        #[test]
        fn a_map_is_a_map(steps in prop::collection::vec((0_u8..8, 0_u8..40, any::<u16>()), 0..400)) {
            let (mut map, mut plain) = (Map::new(0, false), BTreeMap::<Vec<u8>, u64>::new());
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

    /// BY-1: what finds no room is counted: more keys than asked for, and more bytes than there may be, whatever was
    /// asked for.
    #[test]
    fn maps_are_bounded() {
        let mut few = Map::new(2, false);
        for key in 0..5_u8 {
            let _ = few.place(&[key], || Stored::Number(1));
        }
        assert_eq!((few.len(), few.lost), (2, 3));
        let mut newest = Map::new(2, true);
        for key in 0..5_u8 {
            let _ = newest.place(&[key], || Stored::Number(1));
        }
        assert_eq!((newest.len(), newest.lost, newest.get(&[4]).is_some()), (2, 0, true));
        // Histograms in 2048 parts, and long strings.
        let mut wide = Map::new(u64::MAX, false);
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
        wide.put_bytes(&0_u32.to_le_bytes(), b"y");
        assert_eq!(wide.bytes, held - 65_535);
    }
}
