//! What stands in a map: numbers, strings, and what is collected over hits.

use super::types::Aggregate;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

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

    /// Makes it 0.
    pub fn zero(&mut self) {
        match self {
            Stored::Number(number) => *number = 0,
            Stored::Bytes(bytes) => bytes.clear(),
            Stored::Sum { count, total } => (*count, *total) = (0, 0),
            Stored::Buckets(buckets) => buckets.fill(0),
        }
    }

    /// The bytes that it takes of its own.
    pub fn bytes(&self) -> u64 {
        match self {
            Stored::Number(_) | Stored::Sum { .. } => 0,
            Stored::Bytes(bytes) => bytes.len() as u64,
            Stored::Buckets(buckets) => 8 * buckets.len() as u64,
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
    // Up to the second power of two each value has a bucket of its own, which is what no shift comes to.
    let highest = (value | 1 << parts).ilog2();
    let shift = highest - u32::from(parts);
    ((shift as usize) << parts) + (value >> shift) as usize + 1
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// BY-1: each value falls into the bucket whose bounds hold it, and into no other.
        #[test]
        fn a_value_lies_between_the_bounds_of_its_bucket(value in any::<u64>(), unused in 0_u32..64, parts in 0_u8..=5) {
            let value = value >> unused;
            match log_bounds(log_index(value, parts), parts) {
                Some((low, high)) => prop_assert!((low..high).contains(&value), "{value}: {low}..{high}"),
                None => prop_assert!((value as i64) < 0),
            }
        }
    }
}
