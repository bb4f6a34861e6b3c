//! The text of a histogram, as Linux's file `hist` has it.

use super::super::fields::{FieldRef, Kind};
use super::super::places::{Places, Symbols};
use super::Hist;
use super::sort::heap_sort;
use super::spec::{Key, Modifier, SortBy, SortKey, Source};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt::Write;
use trapline_isa::mem::ByteOrder;

/// Names that the text of a histogram needs.
pub struct Lookup<'a> {
    /// Looks up symbols.
    pub symbols: Symbols<'a>,
    /// The name of a system call, such as `sys_read`.
    pub system_call: &'a dyn Fn(u64) -> Option<String>,
}

/// The largest and the sum of a value over all entries.
#[derive(Clone, Copy, Default)]
struct Statistics {
    most: u64,
    total: u64,
}

impl Hist {
    /// Appends the text behind the line with the trigger.
    pub fn write(&self, out: &mut String, lookup: &Lookup<'_>) {
        let mut places = Places::default();
        let entries = self.sorted();
        let statistics: Vec<Statistics> = (0..self.spec.values.len()).map(|value| self.statistics(&entries, value)).collect();
        for entry in &entries {
            self.write_entry(out, *entry, &statistics, &mut places, lookup);
        }
        let (hits, dropped) = (self.table.hits, self.table.dropped);
        // Writing to a String cannot fail, here and below.
        let _ = write!(out, "\nTotals:\n    Hits: {hits}\n    Entries: {}\n    Dropped: {dropped}\n", entries.len());
    }

    fn statistics(&self, entries: &[usize], value: usize) -> Statistics {
        entries.iter().fold(Statistics::default(), |seen, entry| {
            let sum = self.table.sum(*entry, 1 + value);
            Statistics { most: seen.most.max(sum), total: seen.total.wrapping_add(sum) }
        })
    }

    /// The entries in the order of the text. Linux sorts by the bytes of the key first, then by the sort fields.
    fn sorted(&self) -> Vec<usize> {
        let mut entries: Vec<usize> = (0..self.table.len()).collect();
        entries.sort_unstable_by(|one, other| self.table.key(*one).cmp(self.table.key(*other)));
        let Some(primary) = self.spec.sort.first() else { return entries };
        heap_sort(&mut entries, |one, other| self.compare(primary, *one, *other));
        if let Some(secondary) = self.spec.sort.get(1) {
            for equal in entries.chunk_by_mut(|one, other| self.compare(primary, *one, *other).is_eq()) {
                heap_sort(equal, |one, other| self.compare(secondary, *one, *other));
            }
        }
        entries
    }

    fn compare(&self, key: &SortKey, one: usize, other: usize) -> Ordering {
        let order = match key.by {
            SortBy::Hits => self.table.sum(one, 0).cmp(&self.table.sum(other, 0)),
            SortBy::Value(index) => self.table.sum(one, 1 + index).cmp(&self.table.sum(other, 1 + index)),
            SortBy::Key(index) => self.compare_keys(index, one, other),
        };
        if key.descending { order.reverse() } else { order }
    }

    fn compare_keys(&self, index: usize, one: usize, other: usize) -> Ordering {
        let Some(key) = self.spec.keys.get(index) else { return Ordering::Equal };
        let (one, other) = (self.part(one, index), self.part(other, index));
        match &key.source {
            Source::Stack => Ordering::Equal,
            Source::Field(FieldRef { kind: Kind::Text, .. }) => text_of(one).cmp(text_of(other)),
            Source::Field(FieldRef { kind: Kind::Number { signed: true, .. }, .. }) => {
                (self.number(one) as i64).cmp(&(self.number(other) as i64))
            }
            _ => self.number(one).cmp(&self.number(other)),
        }
    }

    /// The bytes of a part of an entry's key.
    fn part(&self, entry: usize, index: usize) -> &[u8] {
        let before: usize = self.spec.keys.iter().take(index).map(Key::bytes).sum();
        let bytes = self.spec.keys.get(index).map_or(0, Key::bytes);
        self.table.key(entry).get(before..before + bytes).unwrap_or_default()
    }

    fn number(&self, bytes: &[u8]) -> u64 {
        let Some(bytes) = bytes.first_chunk() else { return 0 };
        match self.order {
            ByteOrder::Little => u64::from_le_bytes(*bytes),
            ByteOrder::Big => u64::from_be_bytes(*bytes),
        }
    }

    fn write_entry(&self, out: &mut String, entry: usize, statistics: &[Statistics], places: &mut Places, lookup: &Lookup<'_>) {
        out.push_str("{ ");
        let mut ends_line = false;
        for (index, key) in self.spec.keys.iter().enumerate() {
            out.push_str(if index == 0 { "" } else { ", " });
            let part = self.part(entry, index);
            match &key.source {
                Source::Stack => {
                    out.push_str("stacktrace:\n");
                    let frames = part.chunks_exact(8).map(|frame| self.number(frame));
                    for frame in frames.take_while(|frame| *frame != 0) {
                        let _ = writeln!(out, "         {}", places.text(frame, lookup.symbols));
                    }
                    ends_line = true;
                }
                Source::Field(FieldRef { kind: Kind::Text, .. }) if key.modifier != Modifier::Hex => {
                    let _ = write!(out, "{}: {:<50}", key.name(), String::from_utf8_lossy(text_of(part)));
                }
                _ => self.write_number(out, (entry, self.number(part)), key, places, lookup),
            }
        }
        out.push_str(if ends_line { "}" } else { " }" });
        let _ = write!(out, " hitcount: {:>10}", self.table.sum(entry, 0));
        for (index, value) in self.spec.values.iter().enumerate() {
            let statistics = statistics.get(index).copied().unwrap_or_default();
            write_value(out, value, self.table.sum(entry, 1 + index), statistics);
        }
        out.push('\n');
    }

    fn write_number(&self, out: &mut String, (entry, number): (usize, u64), key: &Key, places: &mut Places, lookup: &Lookup<'_>) {
        let name = key.name();
        let _ = match key.modifier {
            Modifier::Hex => write!(out, "{name}: {number:x}"),
            Modifier::Symbol => {
                let symbol = (lookup.symbols)(number);
                let text = match symbol {
                    Some(symbol) => match symbol.module {
                        Some(module) => format!("{} [{module}]", symbol.name),
                        None => symbol.name,
                    },
                    None => format!("{number:#x}"),
                };
                write!(out, "{name}: [{number:x}] {text:<45}")
            }
            Modifier::SymbolOffset => write!(out, "{name}: [{number:x}] {:<55}", places.text(number, lookup.symbols)),
            Modifier::Name => {
                let comm = self.table.comm(entry);
                let comm = if number == 0 { "<idle>".into() } else { String::from_utf8_lossy(comm) };
                write!(out, "{name}: {comm:<16}[{number:>10}]")
            }
            Modifier::SystemCall => {
                let call = (lookup.system_call)(number).unwrap_or_else(|| "unknown_syscall".to_string());
                write!(out, "{name}: {call:<30}[{number:>3}]")
            }
            Modifier::Log2 => write!(out, "{name}: ~ 2^{number:<2}"),
            Modifier::Buckets(width) => write!(out, "{name}: ~ {number}-{}", number.wrapping_add(width - 1)),
            _ => write!(out, "{name}: {number:>10}"),
        };
    }
}

fn write_value(out: &mut String, value: &Key, sum: u64, Statistics { most, total }: Statistics) {
    const BAR: usize = 20;
    let name = value.name();
    let _ = match (value.modifier, hundredths(sum, total), hundredths(sum, most)) {
        (Modifier::Percent, Some(part), _) => write!(out, "  {name} (%): {:>3}.{:02}", part / 100, part % 100),
        (Modifier::Percent, None, _) => write!(out, "  {name} (%):[ERROR]"),
        (Modifier::Graph, _, part) => {
            let bar = "#".repeat((part.unwrap_or(0) as usize * BAR / 10_000).min(BAR));
            write!(out, "  {name}: {bar:<BAR$}")
        }
        (Modifier::Hex, ..) => write!(out, "  {name}: {sum:>10x}"),
        _ => write!(out, "  {name}: {sum:>10}"),
    };
}

/// Hundredths of a per cent. `None` for a part of nothing.
fn hundredths(part: u64, whole: u64) -> Option<u64> {
    match (part, whole) {
        (0, 0) => Some(0),
        (_, 0) => None,
        _ => u64::try_from(u128::from(part) * 10_000 / u128::from(whole)).ok(),
    }
}

fn text_of(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
