//! Values of maps: numbers, bytes and aggregations.

use super::types::Aggregate;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A value of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A number.
    Number(u64),
    /// Bytes, such as a string.
    Bytes(Vec<u8>),
    /// A count, and a sum, minimum or maximum.
    Sum {
        /// The number of values.
        count: u64,
        /// The sum, minimum or maximum.
        total: u64,
    },
    /// A histogram: the number of values in each bucket.
    Buckets(Box<[u64]>),
}

impl Stored {
    /// The initial value of an aggregation.
    pub fn of(aggregate: Aggregate) -> Stored {
        match aggregate {
            Aggregate::Histogram(parts) => Stored::Buckets(vec![0; log_buckets(parts)].into()),
            Aggregate::Linear { min, max, step } => Stored::Buckets(vec![0; linear_buckets(min, max, step)].into()),
            _ => Stored::Sum { count: 0, total: 0 },
        }
    }

    /// Adds a value. Counting is the most frequent aggregation, so it is inlined.
    #[inline]
    pub fn add(&mut self, aggregate: Aggregate, value: u64) {
        match self {
            Stored::Sum { count, total } if aggregate == Aggregate::Count => {
                *count = count.wrapping_add(1);
                *total = *count;
            }
            _ => self.add_value(aggregate, value),
        }
    }

    fn add_value(&mut self, aggregate: Aggregate, value: u64) {
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
                    Aggregate::Min(signed) if first || less(signed, value, *total) => *total = value,
                    Aggregate::Max(signed) if first || less(signed, *total, value) => *total = value,
                    Aggregate::Min(_) | Aggregate::Max(_) => {}
                    _ => *total = total.wrapping_add(value),
                }
            }
            Stored::Number(_) | Stored::Bytes(_) => {}
        }
    }

    /// Sets it to 0.
    pub fn zero(&mut self) {
        match self {
            Stored::Number(number) => *number = 0,
            Stored::Bytes(bytes) => *bytes = Vec::new(),
            Stored::Sum { count, total } => (*count, *total) = (0, 0),
            Stored::Buckets(buckets) => buckets.fill(0),
        }
    }

    /// The size of its heap memory, in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Stored::Number(_) | Stored::Sum { .. } => 0,
            Stored::Bytes(bytes) => bytes.len() as u64,
            Stored::Buckets(buckets) => 8 * buckets.len() as u64,
        }
    }

    /// The size of a byte value. Numbers and aggregations have none.
    pub fn bytes_of_text(&self) -> u64 {
        if let Stored::Bytes(bytes) = self { bytes.len() as u64 } else { 0 }
    }

    /// The number that an expression reads from it.
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

/// The average, rounded toward zero.
pub fn average(count: u64, total: u64, signed: bool) -> u64 {
    match (count, signed) {
        (0, _) => 0,
        (_, true) => (total as i64).wrapping_div(count as i64) as u64,
        (_, false) => total / count,
    }
}

/// The number of buckets of a logarithmic histogram. Each power of two has `1 << parts` buckets.
pub fn log_buckets(parts: u8) -> usize {
    log_index(i64::MAX as u64, parts) + 1
}

/// The bucket of a value in a logarithmic histogram. Bucket 0 is for negative values.
pub fn log_index(value: u64, parts: u8) -> usize {
    if (value as i64) < 0 {
        return 0;
    }
    // The OR keeps the shift from being negative. With a shift of 0, values below `2 << parts` have a bucket each.
    let highest = (value | 1 << parts).ilog2();
    let shift = highest - u32::from(parts);
    ((shift as usize) << parts) + (value >> shift) as usize + 1
}

/// The smallest value of a bucket and the one after its largest. `None` for the bucket of negative values.
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

/// The number of buckets of a linear histogram, with those below and above its range.
pub fn linear_buckets(min: u64, max: u64, step: u64) -> usize {
    linear_index(max, min, max, step) + 1
}

/// The bucket of a value in a linear histogram. Values are compared as signed.
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
        /// BY-1: each value falls into exactly the bucket whose bounds contain it.
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
