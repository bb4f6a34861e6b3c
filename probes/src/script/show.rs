//! Values and maps as text, byte for byte as bpftrace writes them, and as its lines of JSON.

use super::map::Map;
use super::program::MapFacts;
use super::stored::{self, Stored};
use super::types::{Aggregate, StackForm, Type};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

/// How a script's output is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// As lines of JSON.
    pub json: bool,
    /// As bpftrace 0.17 wrote it, where the present one writes it otherwise.
    pub old: bool,
}

/// Who knows the names of addresses.
pub trait Names {
    /// The kernel symbol that an address lies in, and how far behind its start.
    fn symbol(&self, address: u64) -> Option<(&str, u64)>;
}

/// A value to be shown.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// Bytes: a string's characters, a tuple's parts one behind the other.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number; of eight bytes or fewer, what they are.
    pub fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            Value::Bytes(_) => 0,
        }
    }

    /// The bytes.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Value::Number(_) => &[],
            Value::Bytes(bytes) => bytes,
        }
    }
}

/// The first part of a tuple or key, by its type, and what is behind it.
pub fn part<'a>(kind: &Type, bytes: &'a [u8]) -> (Value<'a>, &'a [u8]) {
    let size = if kind.is_number() { 8 } else { 4 };
    let Some((head, rest)) = bytes.split_at_checked(size) else { return (Value::Number(0), &[]) };
    if kind.is_number() {
        return (Value::Number(head.try_into().map_or(0, u64::from_le_bytes)), rest);
    }
    let length = head.try_into().map_or(0, u32::from_le_bytes) as usize;
    let (inside, rest) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    (Value::Bytes(inside), rest)
}

/// Writes text about values.
pub struct Show<'a> {
    /// How.
    pub style: Style,
    /// The names of addresses.
    pub names: &'a dyn Names,
    /// What a moment of the script's clock is on the clock on the wall, in nanoseconds since 1970.
    pub epoch: u64,
}

impl Show<'_> {
    /// A value as `print` and `%s` show it.
    pub fn value(&self, out: &mut Vec<u8>, kind: &Type, value: Value<'_>) {
        let number = value.number();
        match kind {
            Type::None => {}
            Type::Int(_, true) => put(out, format_args!("{}", number as i64)),
            Type::Int(_, false) => put(out, format_args!("{number}")),
            Type::Pointer(_) | Type::Object(_) if self.style.old => put(out, format_args!("{number}")),
            Type::Pointer(_) | Type::Object(_) => put(out, format_args!("{number:#x}")),
            Type::Text(_) => out.extend_from_slice(value.bytes()),
            Type::Held(shape) => shape.write(out, value.bytes(), false),
            Type::Buffer => buffer(out, value.bytes()),
            Type::Tuple(parts) => {
                out.push(b'(');
                self.parts(out, parts, value.bytes());
                out.push(b')');
            }
            Type::Stack(form) => self.stack(out, *form, value.bytes(), 8),
            Type::Symbol => match self.names.symbol(number) {
                Some((name, _)) => out.extend_from_slice(name.as_bytes()),
                None => put(out, format_args!("{number:#x}")),
            },
            Type::UserSymbol => put(out, format_args!("{number:#x}")),
            Type::Inet => inet(out, value.bytes()),
            Type::Mac => {
                for (at, byte) in value.bytes().iter().enumerate() {
                    put(out, format_args!("{}{byte:02X}", if at == 0 { "" } else { ":" }));
                }
            }
            Type::Moment(format) => moment(out, format, number.wrapping_add(self.epoch)),
            Type::Aggregate(_) => put(out, format_args!("{number}")),
        }
    }

    fn parts(&self, out: &mut Vec<u8>, parts: &[Type], mut bytes: &[u8]) {
        for (at, kind) in parts.iter().enumerate() {
            let (value, rest) = part(kind, bytes);
            bytes = rest;
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            self.value(out, kind, value);
        }
    }

    fn stack(&self, out: &mut Vec<u8>, form: StackForm, bytes: &[u8], indent: usize) {
        out.push(b'\n');
        for frame in bytes.chunks_exact(8) {
            let address = frame.try_into().map_or(0, u64::from_le_bytes);
            match form {
                StackForm::Perf => put(out, format_args!("\t{address:x} ")),
                _ => put(out, format_args!("{:indent$}", "")),
            }
            match self.names.symbol(address) {
                Some((name, offset)) if form != StackForm::Raw => put(out, format_args!("{name}+{offset}")),
                _ => put(out, format_args!("{address:#x}")),
            }
            out.push(b'\n');
        }
    }

    fn json_value(&self, out: &mut Vec<u8>, kind: &Type, value: Value<'_>) {
        match kind {
            Type::Int(..) => self.value(out, kind, value),
            Type::Pointer(_) | Type::Object(_) => put(out, format_args!("{}", value.number())),
            Type::Held(shape) => shape.write(out, value.bytes(), true),
            Type::Tuple(parts) => {
                out.push(b'[');
                let mut bytes = value.bytes();
                for (at, kind) in parts.iter().enumerate() {
                    let (value, rest) = part(kind, bytes);
                    bytes = rest;
                    if at > 0 {
                        out.push(b',');
                    }
                    self.json_value(out, kind, value);
                }
                out.push(b']');
            }
            _ => {
                let mut text = Vec::new();
                self.value(&mut text, kind, value);
                json_text(out, &text);
            }
        }
    }

    /// `print(value)`
    pub fn printed_value(&self, out: &mut Vec<u8>, kind: &Type, value: Value<'_>) {
        if self.style.json {
            out.extend_from_slice(br#"{"type": "value", "data": "#);
            self.json_value(out, kind, value);
            out.extend_from_slice(b"}\n");
        } else {
            self.value(out, kind, value);
            out.push(b'\n');
        }
    }

    /// Text that the script has put together.
    pub fn text(&self, out: &mut Vec<u8>, what: &str, text: &[u8]) {
        if self.style.json {
            put(out, format_args!("{{\"type\": \"{what}\", \"data\": "));
            json_text(out, text);
            out.extend_from_slice(b"}\n");
        } else {
            out.extend_from_slice(text);
        }
    }

    /// How many probes there are: what comes first.
    pub fn attached(&self, out: &mut Vec<u8>, probes: usize) {
        match (self.style.json, self.style.old) {
            (true, true) => put(out, format_args!("{{\"type\": \"attached_probes\", \"data\": {{\"probes\": {probes}}}}}\n")),
            (true, false) => {
                put(out, format_args!("{{\"type\": \"attached_probes\", \"count\": 1, \"data\": {{\"probes\": {probes}}}}}\n"))
            }
            (false, true) => put(out, format_args!("Attaching {probes} probe{}...\n", if probes == 1 { "" } else { "s" })),
            (false, false) => {}
        }
    }

    /// A map, whole. `top`: the so many greatest (0: all); `div`: divides each.
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
        let is_signed = matches!(kind, Type::Int(_, true))
            || matches!(
                aggregate,
                Some(
                    Aggregate::Sum(true)
                        | Aggregate::Min(true)
                        | Aggregate::Max(true)
                        | Aggregate::Average(true)
                        | Aggregate::Stats(true)
                )
            );
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
            return self.json_map(out, name, keys, kind, rows, div.max(1));
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

    fn stored(&self, out: &mut Vec<u8>, kind: &Type, stored: &Stored, div: u64) {
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
                    let number = if *signed { (number as i64).wrapping_div(div as i64) as u64 } else { number / div };
                    put(out, format_args!("{}", Number { number, signed: *signed }));
                }
                _ => put(out, format_args!("{}", total / div)),
            },
            (Type::Int(_, signed), Stored::Number(number)) => {
                let number = if *signed { (*number as i64).wrapping_div(div as i64) as u64 } else { number / div };
                self.value(out, kind, Value::Number(number));
            }
            (_, Stored::Number(number)) => self.value(out, kind, Value::Number(*number)),
            (_, Stored::Bytes(bytes)) => self.value(out, kind, Value::Bytes(bytes)),
            (_, Stored::Sum { .. } | Stored::Buckets(_)) => {}
        }
    }

    fn key(&self, out: &mut Vec<u8>, keys: &[Type], key: &[u8]) {
        // The brackets of a tuple that is the only key are left out.
        if let ([Type::Tuple(parts)], (Value::Bytes(bytes), _)) =
            (keys, keys.first().map_or((Value::Number(0), key), |kind| part(kind, key)))
        {
            return self.parts(out, parts, bytes);
        }
        self.parts(out, keys, key);
    }

    fn json_key(&self, out: &mut Vec<u8>, keys: &[Type], mut key: &[u8]) {
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

    fn json_map(&self, out: &mut Vec<u8>, name: &str, keys: &[Type], kind: &Type, rows: &[(&[u8], &Stored)], div: u64) {
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

    fn json_stored(&self, out: &mut Vec<u8>, kind: &Type, stored: &Stored, div: u64) {
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
            (Type::Aggregate(_), _) => self.stored(out, kind, stored, div),
            (_, Stored::Number(number)) if kind.is_integer() => self.json_value(out, kind, Value::Number(number / div)),
            (_, Stored::Number(number)) => self.json_value(out, kind, Value::Number(*number)),
            (_, Stored::Bytes(bytes)) => self.json_value(out, kind, Value::Bytes(bytes)),
            _ => {}
        }
    }
}

/// A number with its sign.
struct Number {
    number: u64,
    signed: bool,
}

impl core::fmt::Display for Number {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.signed { (self.number as i64).fmt(f) } else { self.number.fmt(f) }
    }
}

/// Integers by value, all else by its bytes, the first part first.
fn compare_keys(keys: &[Type], mut one: &[u8], mut other: &[u8]) -> core::cmp::Ordering {
    for kind in keys {
        let ((left, left_rest), (right, right_rest)) = (part(kind, one), part(kind, other));
        (one, other) = (left_rest, right_rest);
        let order = match (kind, left, right) {
            (Type::Int(_, false) | Type::Pointer(_), Value::Number(left), Value::Number(right)) => left.cmp(&right),
            (_, Value::Number(left), Value::Number(right)) => (left as i64).cmp(&(right as i64)),
            (Type::Tuple(parts), Value::Bytes(left), Value::Bytes(right)) => compare_keys(parts, left, right),
            (_, left, right) => left.bytes().cmp(right.bytes()),
        };
        if order.is_ne() {
            return order;
        }
    }
    core::cmp::Ordering::Equal
}

/// Where a bucket lies.
#[derive(Clone, Copy)]
enum Bounds {
    Below(u64),
    Inside(u64, u64),
    Above(u64),
}

/// The buckets from the first that is not empty to the last.
fn bars_of(aggregate: Aggregate, buckets: &[u64], div: u64) -> impl Iterator<Item = (Bounds, u64)> + '_ {
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

/// Columns of a histogram's bar.
const BAR: usize = 52;

fn histogram(out: &mut Vec<u8>, aggregate: Aggregate, buckets: &[u64], div: u64, old: bool) {
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

fn label(aggregate: Aggregate, bounds: Bounds, old: bool) -> String {
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

/// 1024 as 1K and so on, where `may` the number be written so and it is a whole one.
fn with_unit(number: u64, may: impl Fn(u64) -> bool) -> String {
    let (mut rest, mut unit) = (number, 0);
    while rest >= 1024 && rest % 1024 == 0 && unit < 6 && may(number) {
        rest /= 1024;
        unit += 1;
    }
    alloc::format!("{rest}{}", ["", "K", "M", "G", "T", "P", "E"][unit])
}

/// Bytes as `%r` shows them.
pub fn buffer(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            32..=126 => out.push(*byte),
            _ => put(out, format_args!("\\x{byte:02x}")),
        }
    }
}

fn inet(out: &mut Vec<u8>, bytes: &[u8]) {
    match *bytes {
        [a, b, c, d] => put(out, format_args!("{}", core::net::Ipv4Addr::new(a, b, c, d))),
        _ => match <[u8; 16]>::try_from(bytes) {
            Ok(address) => put(out, format_args!("{}", core::net::Ipv6Addr::from(address))),
            Err(_) => buffer(out, bytes),
        },
    }
}

/// A JSON string.
pub fn json_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=31 => put(out, format_args!("\\u{byte:04x}")),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// A moment, in nanoseconds since 1970, as strftime(3) writes it in UTC; `%f` are microseconds.
pub fn moment(out: &mut Vec<u8>, format: &[u8], nanoseconds: u64) {
    let seconds = nanoseconds / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let (year, month, day, of_year) = date(days);
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[(days as usize + 4) % 7]);
    let mut letters = format.iter();
    while let Some(letter) = letters.next() {
        if *letter != b'%' {
            out.push(*letter);
            continue;
        }
        match letters.next() {
            Some(b'H') => put(out, format_args!("{hour:02}")),
            Some(b'I') => put(out, format_args!("{:02}", (hour + 11) % 12 + 1)),
            Some(b'M') => put(out, format_args!("{minute:02}")),
            Some(b'S') => put(out, format_args!("{second:02}")),
            Some(b'f') => put(out, format_args!("{:06}", nanoseconds % 1_000_000_000 / 1000)),
            Some(b'Y') => put(out, format_args!("{year}")),
            Some(b'y') => put(out, format_args!("{:02}", year % 100)),
            Some(b'm') => put(out, format_args!("{month:02}")),
            Some(b'd') => put(out, format_args!("{day:02}")),
            Some(b'e') => put(out, format_args!("{day:2}")),
            Some(b'j') => put(out, format_args!("{of_year:03}")),
            Some(b'B') => put(out, format_args!("{month_name}")),
            Some(b'b' | b'h') => put(out, format_args!("{}", &month_name[..3])),
            Some(b'A') => put(out, format_args!("{day_name}")),
            Some(b'a') => put(out, format_args!("{}", &day_name[..3])),
            Some(b'p') => put(out, format_args!("{}", if hour < 12 { "AM" } else { "PM" })),
            Some(b's') => put(out, format_args!("{seconds}")),
            Some(b'F') => put(out, format_args!("{year}-{month:02}-{day:02}")),
            Some(b'T') => put(out, format_args!("{hour:02}:{minute:02}:{second:02}")),
            Some(b'R') => put(out, format_args!("{hour:02}:{minute:02}")),
            Some(b'D') => put(out, format_args!("{month:02}/{day:02}/{:02}", year % 100)),
            Some(b'Z') => out.extend_from_slice(b"UTC"),
            Some(b'z') => out.extend_from_slice(b"+0000"),
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'%') => out.push(b'%'),
            Some(other) => out.extend_from_slice(&[b'%', *other]),
            None => out.push(b'%'),
        }
    }
}

/// Year, month, day and day of the year, of a number of days since 1970.
fn date(days: u64) -> (u64, u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    // 400 years are always the same number of days.
    let mut year = 1970 + days / 146_097 * 400;
    let mut left = days % 146_097;
    loop {
        let length = 365 + u64::from(is_leap(year));
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let of_year = left + 1;
    let mut month = 1;
    loop {
        let length = match month {
            2 => 28 + u64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if left < length || month == 12 {
            return (year, month, left + 1, of_year);
        }
        left -= length;
        month += 1;
    }
}

/// Formatted text into bytes; that cannot fail.
pub fn put(out: &mut Vec<u8>, text: core::fmt::Arguments<'_>) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl core::fmt::Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    let _ = Bytes(out).write_fmt(text);
}
