//! The hash table of a map: an open one with linear probing, whose places hold indices of entries.
//!
//! [`hash()`] depends on a [`Secret`], so nobody can choose keys that collide. The table is at most half full. Looking a key up
//! allocates nothing. Removing a key moves the entries behind it up, so the table has no marks of removed keys.

use super::Map;
use alloc::vec;

/// Two numbers that the hashes of a map's keys depend on. If they are random, nobody can choose keys that collide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Secret(pub u64, pub u64);

impl Map {
    /// The index of a key's entry.
    #[inline]
    pub(super) fn find(&self, key: &[u8], hash: u32) -> Option<usize> {
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

    /// Writes an entry's index to the hash table, at the first free place from that of its hash.
    pub(super) fn enter(&mut self, number: usize, hash: u32) {
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
    pub(super) fn spread(&mut self, places: usize) {
        self.places = vec![0; places];
        for number in 0..self.entries.len() {
            self.enter(number, self.entries[number].hash);
        }
    }

    /// Frees an entry's place in the hash table. Entries that had to probe past it move up.
    pub(super) fn free(&mut self, number: usize) {
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
}

/// A hash of the key, computed in steps of eight bytes: a multiplication by the secret, whose two halves are folded.
#[inline]
pub(super) fn hash(secret: Secret, key: &[u8]) -> u32 {
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
