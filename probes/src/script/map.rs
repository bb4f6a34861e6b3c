//! Maps: what a script keeps from hit to hit, by key, and what it collects there.

use super::types::Aggregate;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// A map of a running script. One without keys has one place, which needs no look-up.
#[derive(Debug, Default)]
pub struct Map {
    only: Option<Stored>,
    keyed: BTreeMap<Box<[u8]>, Entry>,
    /// As many keys as it may have; 0: any number.
    limit: u64,
    /// The key that was used least recently makes room.
    evicts: bool,
    uses: u64,
    /// Values that found no room.
    pub lost: u64,
}

#[derive(Debug)]
struct Entry {
    stored: Stored,
    used: u64,
}

/// A value in a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A number.
    Number(u64),
    /// A string or what else is bytes.
    Bytes(Vec<u8>),
    /// How many, and one number about them: their sum, least or greatest.
    Sum {
        /// How many.
        count: u64,
        /// The number.
        total: u64,
    },
    /// How many fell into each bucket.
    Buckets(Box<[u64]>),
}

impl Map {
    /// One of at most so many keys (0: any number).
    pub fn new(limit: u64, evicts: bool) -> Map {
        Map { limit, evicts, ..Map::default() }
    }

    /// What is at a key; the empty key is that of a map without keys.
    pub fn get(&mut self, key: &[u8]) -> Option<&Stored> {
        if key.is_empty() {
            return self.only.as_ref();
        }
        self.uses += 1;
        let uses = self.uses;
        self.keyed.get_mut(key).map(|entry| {
            entry.used = uses;
            &entry.stored
        })
    }

    /// The place of a key, made by `make` where there is none. `None`: the map is full, and the value is lost.
    pub fn place(&mut self, key: &[u8], make: impl FnOnce() -> Stored) -> Option<&mut Stored> {
        if key.is_empty() {
            return Some(self.only.get_or_insert_with(make));
        }
        self.uses += 1;
        if !self.keyed.contains_key(key) {
            if self.limit != 0 && self.keyed.len() as u64 >= self.limit {
                let oldest = self.keyed.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
                match oldest.filter(|_| self.evicts) {
                    Some(oldest) => {
                        self.keyed.remove(&oldest);
                    }
                    None => {
                        self.lost += 1;
                        return None;
                    }
                }
            }
            self.keyed.insert(key.into(), Entry { stored: make(), used: self.uses });
        }
        let uses = self.uses;
        self.keyed.get_mut(key).map(|entry| {
            entry.used = uses;
            &mut entry.stored
        })
    }

    /// Takes a key out; whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        match key.is_empty() {
            true => self.only.take().is_some(),
            false => self.keyed.remove(key).is_some(),
        }
    }

    /// Takes all keys out.
    pub fn clear(&mut self) {
        self.only = None;
        self.keyed.clear();
    }

    /// All values become 0, keys stay.
    pub fn zero(&mut self) {
        self.only.iter_mut().chain(self.keyed.values_mut().map(|entry| &mut entry.stored)).for_each(Stored::zero);
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keyed.len() + usize::from(self.only.is_some())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys and values, by the bytes of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Stored)> {
        let only = self.only.iter().map(|stored| (&[][..], stored));
        only.chain(self.keyed.iter().map(|(key, entry)| (&**key, &entry.stored)))
    }
}

impl Stored {
    /// The empty state of an aggregate.
    pub fn of(aggregate: Aggregate) -> Stored {
        match aggregate {
            Aggregate::Histogram(parts) => Stored::Buckets(vec![0; log_buckets(parts)].into()),
            Aggregate::Linear { min, max, step } => Stored::Buckets(vec![0; linear_buckets(min, max, step)].into()),
            _ => Stored::Sum { count: 0, total: 0 },
        }
    }

    /// One more value.
    pub fn add(&mut self, aggregate: Aggregate, value: u64) {
        match self {
            Stored::Buckets(buckets) => {
                let index = match aggregate {
                    Aggregate::Linear { min, max, step } => linear_index(value, min, max, step),
                    Aggregate::Histogram(parts) => log_index(value, parts),
                    _ => 0,
                };
                if let Some(bucket) = buckets.get_mut(index) {
                    *bucket = bucket.wrapping_add(1);
                }
            }
            Stored::Sum { count, total } => {
                let first = *count == 0;
                *count = count.wrapping_add(1);
                let less = |signed: bool, one: u64, other: u64| if signed { (one as i64) < other as i64 } else { one < other };
                match aggregate {
                    Aggregate::Count => *total = *count,
                    Aggregate::Min(signed) if first || less(signed, value, *total) => *total = value,
                    Aggregate::Max(signed) if first || less(signed, *total, value) => *total = value,
                    Aggregate::Min(_) | Aggregate::Max(_) => {}
                    _ => *total = total.wrapping_add(value),
                }
            }
            Stored::Number(_) | Stored::Bytes(_) => {}
        }
    }

    fn zero(&mut self) {
        match self {
            Stored::Number(number) => *number = 0,
            Stored::Bytes(bytes) => bytes.clear(),
            Stored::Sum { count, total } => (*count, *total) = (0, 0),
            Stored::Buckets(buckets) => buckets.fill(0),
        }
    }

    /// The number that stands for it in an expression.
    pub fn number(&self, aggregate: Option<Aggregate>) -> u64 {
        match self {
            Stored::Number(number) => *number,
            Stored::Bytes(_) => 0,
            Stored::Sum { count, total } => match aggregate {
                Some(Aggregate::Average(signed) | Aggregate::Stats(signed)) => average(*count, *total, signed),
                _ => *total,
            },
            Stored::Buckets(buckets) => buckets.iter().fold(0, |sum, count| sum.wrapping_add(*count)),
        }
    }
}

/// Toward zero.
pub fn average(count: u64, total: u64, signed: bool) -> u64 {
    match (count, signed) {
        (0, _) => 0,
        (_, true) => (total as i64).wrapping_div(count as i64) as u64,
        (_, false) => total / count,
    }
}

/// How many buckets a histogram of powers of two has, each power in `1 << parts` parts.
pub fn log_buckets(parts: u8) -> usize {
    log_index(i64::MAX as u64, parts) + 1
}

/// The bucket of a value: 0 for those below zero.
pub fn log_index(value: u64, parts: u8) -> usize {
    if (value as i64) < 0 {
        return 0;
    }
    if value < 2 << parts {
        return value as usize + 1;
    }
    let highest = 63 - value.leading_zeros() as usize;
    let parts = usize::from(parts);
    let within = (value >> (highest - parts)) as usize & ((1 << parts) - 1);
    ((highest - parts + 1) << parts) + within + 1
}

/// A bucket's least value and the one behind its last: `None` for those below zero.
pub fn log_bounds(index: usize, parts: u8) -> Option<(u64, u64)> {
    let index = index.checked_sub(1)? as u64;
    let one = 1_u64 << parts;
    if index < 2 * one {
        return Some((index, index + 1));
    }
    let shift = (index >> parts) - 1;
    let low = (one + (index & (one - 1))) << shift;
    Some((low, low + (1 << shift)))
}

/// How many buckets equal steps make, with those below and above.
pub fn linear_buckets(min: u64, max: u64, step: u64) -> usize {
    linear_index(max, min, max, step) + 1
}

/// The bucket of a value; values are compared as signed ones.
pub fn linear_index(value: u64, min: u64, max: u64, step: u64) -> usize {
    let (value, min, max) = (value as i64, min as i64, max as i64);
    let inside = |value: i64| value.wrapping_sub(min) as u64 / step.max(1) + 1;
    match value {
        _ if value < min => 0,
        _ if value >= max => inside(max) as usize,
        _ => inside(value) as usize,
    }
}
