//! Writes maps as text and as JSON: sorted entries and histograms.

use super::map::Map;
use super::program::MapFacts;
use super::show::{Show, Value, json_text, part, put};
use super::stored::{self, Stored};
use super::types::{Aggregate, Type};
use alloc::string::String;
use alloc::vec::Vec;

/// The width of a histogram's bars, in columns.
pub(super) const BAR: usize = 52;

impl Show<'_> {
    /// Writes a whole map. `top`: only this many of the largest values (0: all). `div`: divides each value.
    pub fn map(&self, out: &mut Vec<u8>, facts: &MapFacts, map: &Map, top: u64, div: u64) {
        let (name, keys, kind) = (&facts.name, &facts.keys, &facts.value);
        let mut rows: Vec<(&[u8], &Stored)> = map.iter().collect();
        if rows.is_empty() {
            if self.style.old && !self.style.json {
                out.push(b'\n');
            }
            return;
        }
        let aggregate = if let Type::Aggregate(aggregate) = kind { Some(*aggregate) } else { None };
        let by_value = |stored: &Stored| stored.number(aggregate);
        let is_signed = kind.is_signed() || aggregate.is_some_and(|aggregate| aggregate.is_signed());
        rows.sort_by(|(one, _), (other, _)| compare_keys(keys, one, other));
        if aggregate.is_some() || kind.is_integer() {
            rows.sort_by(|(_, one), (_, other)| {
                let (one, other) = (by_value(one), by_value(other));
                if is_signed { (one as i64).cmp(&(other as i64)) } else { one.cmp(&other) }
            });
        }
        let shown = if top == 0 { rows.len() } else { (top as usize).min(rows.len()) };
        let rows = &rows[rows.len() - shown..];
        if self.style.json {
            return self.json_map(out, facts, rows, div.max(1));
        }
        let mut blank = false;
        for (key, stored) in rows {
            out.extend_from_slice(name.as_bytes());
            if !keys.is_empty() {
                out.push(b'[');
                self.key(out, keys, key);
                out.push(b']');
            }
            out.push(b':');
            match (stored, aggregate) {
                (Stored::Buckets(buckets), Some(aggregate)) => {
                    out.extend_from_slice(if self.style.old { b" \n" } else { b"\n" });
                    histogram(out, aggregate, buckets, div.max(1), self.style.old);
                    out.push(b'\n');
                }
                _ => {
                    out.push(b' ');
                    self.stored(out, kind, stored, div.max(1));
                    out.push(b'\n');
                    blank = matches!(aggregate, Some(Aggregate::Average(_) | Aggregate::Stats(_)));
                }
            }
        }
        if blank && self.style.old {
            out.push(b'\n');
        }
    }

    /// Writes the output of `print(@m[key])` for an aggregation.
    pub(super) fn printed_entry(&self, out: &mut Vec<u8>, kind: &Type, stored: &Stored) {
        match (self.style.json, kind, stored) {
            (true, ..) => {
                out.extend_from_slice(br#"{"type": "value", "data": "#);
                self.json_stored(out, kind, stored, 1);
                out.extend_from_slice(b"}\n");
            }
            (false, Type::Aggregate(aggregate), Stored::Buckets(buckets)) => {
                histogram(out, *aggregate, buckets, 1, self.style.old);
            }
            _ => {
                self.stored(out, kind, stored, 1);
                out.push(b'\n');
            }
        }
    }

    /// Writes the value of a key. Numbers are divided by `div`, except for the results of `stats`.
    pub(super) fn stored(&self, out: &mut Vec<u8>, kind: &Type, stored: &Stored, div: u64) {
        match (kind, stored) {
            (Type::Aggregate(aggregate), Stored::Sum { count, total }) => match aggregate {
                Aggregate::Stats(signed) => {
                    let average = stored::average(*count, *total, *signed);
                    let shown = |number: u64| Number { number, signed: *signed };
                    match self.style.old {
                        true => put(out, format_args!("count {count}, average {}, total {}", shown(average), shown(*total))),
                        false => put(
                            out,
                            format_args!("{{ .count = {count}, .average = {}, .total = {} }}", shown(average), shown(*total)),
                        ),
                    }
                }
                Aggregate::Sum(signed) | Aggregate::Min(signed) | Aggregate::Max(signed) | Aggregate::Average(signed) => {
                    let number = stored.number(Some(*aggregate));
                    let number = divided(number, div, *signed);
                    put(out, format_args!("{}", Number { number, signed: *signed }));
                }
                _ => put(out, format_args!("{}", total / div)),
            },
            (kind, Stored::Number(number)) if kind.is_integer() => {
                self.value(out, kind, Value::Number(divided(*number, div, kind.is_signed())));
            }
            (_, Stored::Number(number)) => self.value(out, kind, Value::Number(*number)),
            (_, Stored::Bytes(bytes)) => self.value(out, kind, Value::Bytes(bytes)),
            (_, Stored::Sum { .. } | Stored::Buckets(_)) => {}
        }
    }

    /// Writes a key without its brackets.
    pub(super) fn key(&self, out: &mut Vec<u8>, keys: &[Type], key: &[u8]) {
        // A tuple that is the only key is written without its parentheses.
        if let ([Type::Tuple(parts)], (Value::Bytes(bytes), _)) =
            (keys, keys.first().map_or((Value::Number(0), key), |kind| part(kind, key)))
        {
            return self.parts(out, parts, bytes);
        }
        self.parts(out, keys, key);
    }

    /// Writes a key as one JSON string.
    pub(super) fn json_key(&self, out: &mut Vec<u8>, keys: &[Type], mut key: &[u8]) {
        let mut text = Vec::new();
        for (at, kind) in keys.iter().enumerate() {
            let (value, rest) = part(kind, key);
            key = rest;
            if at > 0 {
                text.push(b',');
            }
            self.value(&mut text, kind, value);
        }
        json_text(out, &text);
    }

    /// Writes the given entries of a map as a JSON line.
    pub(super) fn json_map(
        &self,
        out: &mut Vec<u8>,
        MapFacts { name, keys, value: kind, .. }: &MapFacts,
        rows: &[(&[u8], &Stored)],
        div: u64,
    ) {
        let what = match kind {
            Type::Aggregate(Aggregate::Average(_) | Aggregate::Stats(_)) => "stats",
            Type::Aggregate(Aggregate::Histogram(_) | Aggregate::Linear { .. }) => "hist",
            _ => "map",
        };
        put(out, format_args!("{{\"type\": \"{what}\", \"data\": {{"));
        json_text(out, name.as_bytes());
        out.extend_from_slice(b": ");
        if !keys.is_empty() {
            out.push(b'{');
        }
        for (at, (key, stored)) in rows.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            if !keys.is_empty() {
                self.json_key(out, keys, key);
                out.extend_from_slice(b": ");
            }
            self.json_stored(out, kind, stored, div);
        }
        out.extend_from_slice(if keys.is_empty() { b"}}\n" } else { b"}}}\n" });
    }

    /// Writes the value of a key as JSON.
    pub(super) fn json_stored(&self, out: &mut Vec<u8>, kind: &Type, stored: &Stored, div: u64) {
        match (kind, stored) {
            (Type::Aggregate(Aggregate::Stats(signed)), Stored::Sum { count, total }) => {
                let shown = |number: u64| Number { number, signed: *signed };
                let average = stored::average(*count, *total, *signed);
                put(out, format_args!("{{\"count\": {count}, \"average\": {}, \"total\": {}}}", shown(average), shown(*total)));
            }
            (Type::Aggregate(aggregate), Stored::Buckets(buckets)) => {
                out.push(b'[');
                let bars = if self.style.old { ", " } else { "," };
                for (at, (bounds, count)) in bars_of(*aggregate, buckets, div).enumerate() {
                    put(out, format_args!("{}{{", if at == 0 { "" } else { bars }));
                    match bounds {
                        Bounds::Below(max) => put(out, format_args!("\"max\": {}, ", max.wrapping_sub(1) as i64)),
                        Bounds::Inside(min, max) => put(out, format_args!("\"min\": {min}, \"max\": {}, ", max - 1)),
                        Bounds::Above(min) => put(out, format_args!("\"min\": {min}, ")),
                    }
                    put(out, format_args!("\"count\": {count}}}"));
                }
                out.push(b']');
            }
            (Type::Aggregate(aggregate), stored) => {
                let signed = aggregate.is_signed();
                self.json_number(out, divided(stored.number(Some(*aggregate)), div, signed), signed);
            }
            (kind, Stored::Number(number)) if kind.is_integer() => {
                self.json_value(out, kind, Value::Number(divided(*number, div, kind.is_signed())));
            }
            (_, Stored::Number(number)) => self.json_value(out, kind, Value::Number(*number)),
            (_, Stored::Bytes(bytes)) => self.json_value(out, kind, Value::Bytes(bytes)),
            _ => {}
        }
    }
}

/// Division that rounds toward zero.
fn divided(number: u64, by: u64, signed: bool) -> u64 {
    let by = by.max(1);
    if signed { (number as i64).wrapping_div(by as i64) as u64 } else { number / by }
}

/// A number that is written as signed or unsigned.
pub(super) struct Number {
    number: u64,
    signed: bool,
}

impl core::fmt::Display for Number {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.signed { (self.number as i64).fmt(f) } else { self.number.fmt(f) }
    }
}

/// The order of two encoded keys: integers by value, other parts by their bytes.
pub(super) fn compare_keys(keys: &[Type], mut one: &[u8], mut other: &[u8]) -> core::cmp::Ordering {
    for kind in keys {
        let ((left, left_rest), (right, right_rest)) = (part(kind, one), part(kind, other));
        (one, other) = (left_rest, right_rest);
        let order = match (kind, left, right) {
            (kind, Value::Number(left), Value::Number(right)) if kind.is_signed() => (left as i64).cmp(&(right as i64)),
            (_, Value::Number(left), Value::Number(right)) => left.cmp(&right),
            (kind, left, right) => match kind.parts() {
                Some(parts) => compare_keys(&parts, left.bytes(), right.bytes()),
                None => left.bytes().cmp(right.bytes()),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
    core::cmp::Ordering::Equal
}

/// The range of a bucket.
#[derive(Clone, Copy)]
pub(super) enum Bounds {
    /// Values less than this.
    Below(u64),
    /// Values from the first number up to, but not including, the second.
    Inside(u64, u64),
    /// This value and greater ones.
    Above(u64),
}

/// The buckets from the first to the last nonempty one.
pub(super) fn bars_of(aggregate: Aggregate, buckets: &[u64], div: u64) -> impl Iterator<Item = (Bounds, u64)> + '_ {
    let first = buckets.iter().position(|count| *count != 0).unwrap_or(buckets.len());
    let last = buckets.iter().rposition(|count| *count != 0).map_or(0, |last| last + 1);
    let end = buckets.len();
    buckets.iter().enumerate().take(last).skip(first).map(move |(index, count)| {
        let bounds = match aggregate {
            Aggregate::Linear { min, max, step } => match index {
                0 => Bounds::Below(min),
                _ if index + 1 == end => Bounds::Above(max),
                _ => {
                    let low = min.wrapping_add((index as u64 - 1).wrapping_mul(step));
                    Bounds::Inside(low, low.wrapping_add(step))
                }
            },
            Aggregate::Histogram(parts) => {
                stored::log_bounds(index, parts).map_or(Bounds::Below(0), |(low, high)| Bounds::Inside(low, high))
            }
            _ => Bounds::Below(0),
        };
        (bounds, count / div)
    })
}

/// Writes a histogram: a line with a bar for each bucket. The longest bar has [`BAR`] columns.
pub(super) fn histogram(out: &mut Vec<u8>, aggregate: Aggregate, buckets: &[u64], div: u64, old: bool) {
    let most = buckets.iter().max().copied().unwrap_or(0) / div;
    for (bounds, count) in bars_of(aggregate, buckets, div) {
        let label = label(aggregate, bounds, old);
        let length = match most {
            0 => 0,
            _ => (count as f32 / most as f32 * BAR as f32) as usize,
        };
        put(out, format_args!("{label:<16}{count:>8} |{:@<length$}{:<rest$}|\n", "", "", rest = BAR - length.min(BAR)));
    }
}

/// The range of a bucket as a histogram shows it, such as `[4K, 8K)`.
pub(super) fn label(aggregate: Aggregate, bounds: Bounds, old: bool) -> String {
    let linear = match aggregate {
        Aggregate::Linear { step, .. } => Some(step),
        _ => None,
    };
    let short = |number: u64| match linear {
        None => with_unit(number, |number| number.is_power_of_two()),
        Some(step) if old || step % 1024 == 0 => with_unit(number, |_| true),
        Some(_) => alloc::format!("{number}"),
    };
    match (bounds, linear) {
        (Bounds::Below(max), _) => alloc::format!("(..., {})", short(max)),
        (Bounds::Above(min), _) => alloc::format!("[{}, ...)", short(min)),
        (Bounds::Inside(min, max), None) if max == min + 1 => alloc::format!("[{min}]"),
        (Bounds::Inside(min, max), Some(_)) if max == min + 1 && !old => alloc::format!("[{}]", short(min)),
        (Bounds::Inside(min, max), _) => alloc::format!("[{}, {})", short(min), short(max)),
    }
}

/// Writes 1024 as 1K and so on, if `may` allows it for this number and no remainder is lost.
pub(super) fn with_unit(number: u64, may: impl Fn(u64) -> bool) -> String {
    let (mut rest, mut unit) = (number, 0);
    while rest >= 1024 && rest % 1024 == 0 && unit < 6 && may(number) {
        rest /= 1024;
        unit += 1;
    }
    alloc::format!("{rest}{}", ["", "K", "M", "G", "T", "P", "E"][unit])
}
