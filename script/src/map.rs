//! The maps of a running script (`@name[key]`): values that it keeps from hit to hit, by key. A key is the encoded byte
//! string that `Runner::key` builds.
//!
//! A map is a hash table with linear probing. The table holds indices into a vector of entries. Only a new key allocates
//! memory, or a longer byte value. A map that evicts (`lruhash`) is an LRU cache: it links its entries in a list, least
//! recently used first.
//!
//! [`Map`] stores and finds values. Its parts are in files of their own: `map/table.rs` (hashing), `recency.rs` (the list),
//! `keys.rs` (sorted keys) and `total.rs` (limits of memory).

mod keys;
mod recency;
mod table;
#[cfg(test)]
mod tests;
mod total;

pub use keys::Keys;
pub use table::Secret;
pub use total::Total;

use super::stored::Stored;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use recency::NONE;
use table::hash;

/// Default limit on the number of keys of a map.
pub const MOST_KEYS: u64 = 1 << 20;
/// Limit on the size of a map's keys and values, in bytes.
pub const MOST_BYTES: u64 = 256 << 20;
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
}

impl Drop for Map {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}
