//! The table of a histogram: a hash table of fixed size whose entries have a key, a number of hits and sums. It never
//! allocates after it was made; entries that do not fit are counted as dropped.

use crate::hash::Hash;
use alloc::boxed::Box;
use alloc::vec;

/// An empty place of the index.
const NONE: u32 = u32::MAX;

/// A hash table of fixed size, from keys to hit counts and sums.
#[derive(Debug)]
pub(super) struct Table {
    key_bytes: usize,
    values: usize,
    /// The entry at each place of the hash table. It has twice as many places as there are entries.
    index: Box<[u32]>,
    keys: Box<[u8]>,
    /// The hits of each entry and behind them its sums.
    sums: Box<[u64]>,
    /// The name of the task that made the entry.
    comms: Box<[[u8; 16]]>,
    used: usize,
    pub hits: u64,
    pub dropped: u64,
}

impl Table {
    /// A table with 2^bits entries.
    pub fn new(bits: u32, key_bytes: usize, values: usize) -> Table {
        let entries = 1_usize << bits;
        Table {
            key_bytes,
            values,
            index: vec![NONE; 2 * entries].into_boxed_slice(),
            keys: vec![0; entries * key_bytes].into_boxed_slice(),
            sums: vec![0; entries * (1 + values)].into_boxed_slice(),
            comms: vec![[0; 16]; entries].into_boxed_slice(),
            used: 0,
            hits: 0,
            dropped: 0,
        }
    }

    pub fn clear(&mut self) {
        self.index.fill(NONE);
        (self.used, self.hits, self.dropped) = (0, 0, 0);
    }

    /// The entry of a key, with one more hit. `None` if it is new and the table is full.
    pub fn entry(&mut self, key: &[u8], comm: &[u8; 16]) -> Option<usize> {
        let mask = self.index.len() - 1;
        let mut hash = Hash::default();
        hash.add(key);
        let mut place = hash.value() as usize & mask;
        loop {
            let number = *self.index.get(place)?;
            if number == NONE {
                break;
            }
            if self.key(number as usize) == key {
                self.hit(number as usize);
                return Some(number as usize);
            }
            place = (place + 1) & mask;
        }
        let number = self.used;
        let Some(into) =
            self.keys.get_mut(number * self.key_bytes..(number + 1) * self.key_bytes).filter(|_| number < self.comms.len())
        else {
            self.dropped += 1;
            return None;
        };
        into.copy_from_slice(key);
        self.comms[number] = *comm;
        let width = 1 + self.values;
        self.sums.get_mut(number * width..(number + 1) * width)?.fill(0);
        *self.index.get_mut(place)? = number as u32;
        self.used += 1;
        self.hit(number);
        Some(number)
    }

    fn hit(&mut self, number: usize) {
        self.hits += 1;
        if let Some(count) = self.sums.get_mut(number * (1 + self.values)) {
            *count += 1;
        }
    }

    pub fn add(&mut self, number: usize, value: usize, by: u64) {
        if let Some(sum) = self.sums.get_mut(number * (1 + self.values) + 1 + value) {
            *sum = sum.wrapping_add(by);
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.used
    }

    pub fn key(&self, number: usize) -> &[u8] {
        self.keys.get(number * self.key_bytes..(number + 1) * self.key_bytes).unwrap_or_default()
    }

    /// The hits of an entry (0) or one of its sums (from 1).
    pub fn sum(&self, number: usize, value: usize) -> u64 {
        self.sums.get(number * (1 + self.values) + value).copied().unwrap_or(0)
    }

    pub fn comm(&self, number: usize) -> &[u8] {
        let comm = self.comms.get(number).map_or(&[][..], |comm| &comm[..]);
        comm.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}
