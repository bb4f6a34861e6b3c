//! The kernel's symbols with the semantics of kallsyms: from names to addresses and back.
//!
//! They are sorted by address. Symbols at one address keep the order of the kernel's own table, so that the first is
//! the one that the kernel prints. A symbol's size is the distance to the next symbol, including padding, as in the
//! kernel.

pub mod pattern;
pub mod similar;
pub mod system_map;

use pattern::Pattern;
use std::ops::Range;
use std::sync::Arc;
use trapline_probes::guest::Symbol;

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first address, or the value of an absolute symbol.
    pub address: u64,
    /// The name, as kallsyms shows it.
    pub name: Box<str>,
    /// The letter of `nm`: `T` text, `D` data, `A` absolute; lower case for local symbols.
    pub kind: char,
    /// The name of the module that it belongs to, if any.
    pub module: Option<Box<str>>,
}

impl Entry {
    /// Whether it is a number instead of an address.
    pub fn is_absolute(&self) -> bool {
        self.kind.eq_ignore_ascii_case(&'a')
    }

    /// Whether it names code.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, 'T' | 't' | 'W' | 'w')
    }
}

/// All symbols of a kernel. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// The symbols that are addresses, sorted by address.
    places: Arc<[Entry]>,
    /// The absolute symbols, sorted by name.
    absolute: Arc<[Entry]>,
    /// Indices into `places`, sorted by name and then by address.
    by_name: Arc<[u32]>,
    /// The kernel's own address ranges; an address outside has no symbol.
    covered: Vec<Range<u64>>,
    /// Ranges of data within the code, sorted by address.
    data: Vec<Range<u64>>,
}

impl Symbols {
    /// A table of these symbols; at one address they get the order that the kernel would most likely give them.
    pub fn new(mut entries: Vec<Entry>) -> Symbols {
        entries.sort_by(|one, other| order(one).cmp(&order(other)));
        Symbols::in_table_order(entries)
    }

    /// A table of these symbols, which come from the kernel's own table: at one address their order is kept.
    pub fn in_table_order(mut entries: Vec<Entry>) -> Symbols {
        entries.sort_by_key(|entry| entry.address);
        let (mut absolute, places): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(Entry::is_absolute);
        absolute.sort_by(|one, other| one.name.cmp(&other.name));
        let by_name = sorted_by_name(&places);
        let mut symbols =
            Symbols { places: places.into(), absolute: absolute.into(), by_name, covered: Vec::new(), data: Vec::new() };
        symbols.covered = symbols.kernel_ranges();
        symbols
    }

    /// Adds the ranges of data within the code, sorted by address.
    pub fn with_data(mut self, data: Vec<Range<u64>>) -> Symbols {
        self.data = data;
        self
    }

    /// Whether data within the code is known to be at this address, so that a breakpoint would change it.
    pub fn is_data(&self, address: u64) -> bool {
        let next = self.data.partition_point(|range| range.start <= address);
        next.checked_sub(1).is_some_and(|last| self.data[last].contains(&address))
    }

    /// A table of these symbols, in their order. Symbols outside the ranges are dropped; the others end with their
    /// range.
    pub fn within(mut entries: Vec<Entry>, mut covered: Vec<Range<u64>>) -> Symbols {
        covered.sort_by_key(|range| range.start);
        covered = apart(covered);
        entries.retain(|entry| covering(&covered, entry.address).is_some());
        Symbols { covered, ..Symbols::in_table_order(entries) }
    }

    /// The address ranges of the kernel's image: `_stext` to `_end`. A kernel without CONFIG_KALLSYMS_ALL has no `_end` and
    /// covers its two texts only.
    fn kernel_ranges(&self) -> Vec<Range<u64>> {
        let first = self.places.first().map_or(0, |entry| entry.address);
        let last = self.places.last().map_or(0, |entry| entry.address.saturating_add(1));
        let range = |start: &str, end: &str| Some(self.address_of(start)?..self.address_of(end)?);
        let texts = [range("_stext", "_etext"), range("_sinittext", "_einittext")];
        match self.address_of("_end") {
            None if texts.iter().all(Option::is_some) => {
                let mut texts: Vec<Range<u64>> = texts.into_iter().flatten().collect();
                texts.sort_by_key(|range| range.start);
                apart(texts)
            }
            end => std::iter::once(self.address_of("_stext").unwrap_or(first)..end.unwrap_or(last)).collect(),
        }
    }

    /// Extends the last symbol to the end of its segment, if no symbol marks the end of the kernel.
    pub fn lying_in(mut self, mut segments: impl Iterator<Item = Range<u64>>) -> Symbols {
        let last = self.places.last().map_or(0, |entry| entry.address);
        if let [range] = &mut self.covered[..]
            && range.end == last.saturating_add(1)
            && let Some(segment) = segments.find(|segment| segment.contains(&last))
        {
            range.end = segment.end;
        }
        self
    }

    /// The number of symbols.
    pub fn len(&self) -> usize {
        self.places.len() + self.absolute.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a symbol, which may be an address or an absolute number.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        self.first_named(name).map(|index| self.places[index].address).or_else(|| self.value_of(name))
    }

    /// The first symbol of that name that is an address, in the order of kallsyms.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.first_named(name).map(|index| self.symbol(index))
    }

    /// The number of symbols with that name that are addresses.
    pub fn count(&self, name: &str) -> usize {
        self.named(name).len()
    }

    /// The addresses of the places of that name, in order.
    pub fn addresses_named(&self, name: &str) -> impl Iterator<Item = u64> {
        self.named(name).iter().filter_map(|index| self.places.get(*index as usize)).map(|entry| entry.address)
    }

    /// The symbol whose range contains an address.
    pub fn containing(&self, address: u64) -> Option<Symbol> {
        let index = self.index_at(address)?;
        Some(self.symbol(index))
    }

    /// The address as `name+0x12`, or as a number if no symbol contains it.
    pub fn describe(&self, address: u64) -> String {
        match self.index_at(address) {
            Some(index) => match address - self.places[index].address {
                0 => self.places[index].name.to_string(),
                offset => format!("{}+{offset:#x}", self.places[index].name),
            },
            None => format!("{address:#x}"),
        }
    }

    /// A few names similar to this one, the most similar first.
    pub fn similar(&self, name: &str) -> Vec<String> {
        similar::nearest(name, self.by_name.iter().map(|index| &*self.places[*index as usize].name))
    }

    /// The symbols whose names match a pattern, by address; without absolute ones.
    pub fn matching<'a>(&'a self, pattern: &str) -> impl Iterator<Item = &'a Entry> {
        let pattern = Pattern::new(pattern);
        self.places.iter().filter(move |entry| pattern.matches(&entry.name))
    }

    /// All symbols but absolute ones, by address.
    pub fn places(&self) -> &[Entry] {
        &self.places
    }

    /// All absolute symbols, by name.
    pub fn absolute(&self) -> &[Entry] {
        &self.absolute
    }

    /// The symbols in a range, each with the name that the kernel prints for it.
    pub fn extents(&self, range: Range<u64>) -> Vec<Symbol> {
        let mut found = Vec::new();
        let mut at = range.start.max(self.covered.first().map_or(0, |covered| covered.start));
        while at < range.end {
            let next = match self.index_at(at) {
                Some(index) => {
                    found.push(self.symbol(index));
                    self.end_of(index)
                }
                None => match self.places.get(self.places.partition_point(|entry| entry.address <= at)) {
                    Some(entry) => entry.address,
                    None => break,
                },
            };
            if next <= at {
                break;
            }
            at = next;
        }
        found
    }

    fn value_of(&self, name: &str) -> Option<u64> {
        let index = self.absolute.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
        Some(self.absolute[index].address)
    }

    fn named(&self, name: &str) -> &[u32] {
        let name_of = |index: &u32| &*self.places[*index as usize].name;
        let start = self.by_name.partition_point(|index| name_of(index) < name);
        let end = self.by_name.partition_point(|index| name_of(index) <= name);
        &self.by_name[start..end]
    }

    fn first_named(&self, name: &str) -> Option<usize> {
        self.named(name).first().map(|index| *index as usize)
    }

    /// The first alias of the symbol whose range contains an address.
    fn index_at(&self, address: u64) -> Option<usize> {
        let covered = self.covering(address)?;
        let last = self.places.partition_point(|entry| entry.address <= address).checked_sub(1)?;
        let start = self.places[last].address;
        let first = self.places.partition_point(|entry| entry.address < start);
        (start >= covered.start).then_some(first)
    }

    fn covering(&self, address: u64) -> Option<&Range<u64>> {
        covering(&self.covered, address)
    }

    fn end_of(&self, index: usize) -> u64 {
        let start = self.places[index].address;
        let next = self.places.get(self.places.partition_point(|entry| entry.address <= start)).map(|entry| entry.address);
        let covered = self.covering(start).map(|range| range.end);
        match (next, covered) {
            (Some(next), Some(end)) => next.min(end),
            (Some(end), None) | (None, Some(end)) => end,
            (None, None) => start,
        }
    }

    fn symbol(&self, index: usize) -> Symbol {
        let entry = &self.places[index];
        Symbol {
            name: entry.name.to_string(),
            start: entry.address,
            size: self.end_of(index) - entry.address,
            module: entry.module.as_deref().map(str::to_string),
        }
    }
}

/// The indices of the entries, sorted by name and then by place. Most names differ in their first 16 bytes, which are compared as
/// a number beside the index.
fn sorted_by_name(places: &[Entry]) -> Arc<[u32]> {
    let start = |name: &str| {
        let mut first = [0; 16];
        let len = name.len().min(16);
        first[..len].copy_from_slice(&name.as_bytes()[..len]);
        u128::from_be_bytes(first)
    };
    let mut keys: Vec<(u128, u32)> = (0..).zip(places).map(|(index, entry)| (start(&entry.name), index)).collect();
    let name = |index: u32| &*places[index as usize].name;
    keys.sort_unstable_by(|one, other| {
        one.0.cmp(&other.0).then_with(|| name(one.1).cmp(name(other.1))).then_with(|| one.1.cmp(&other.1))
    });
    keys.into_iter().map(|(_, index)| index).collect()
}

/// The range that contains an address; the ranges are sorted and do not overlap.
fn covering(ranges: &[Range<u64>], address: u64) -> Option<&Range<u64>> {
    let next = ranges.partition_point(|range| range.start <= address);
    ranges.get(next.checked_sub(1)?).filter(|range| range.contains(&address))
}

/// Merges overlapping ranges; they are sorted.
fn apart(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut apart: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match apart.last_mut().filter(|last| range.start < last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => apart.push(range),
        }
    }
    apart
}

/// The order of the kernel's own table: by address; at one address strong names first, then names from sources before
/// names from the linker script, then names with fewer leading underscores first.
fn order(entry: &Entry) -> (u64, bool, bool, usize, &str) {
    let weak = entry.kind.eq_ignore_ascii_case(&'w') || entry.kind.eq_ignore_ascii_case(&'v');
    let underscores = entry.name.len() - entry.name.trim_start_matches('_').len();
    (entry.address, weak, is_made_by_the_linker(&entry.name), underscores, &entry.name)
}

fn is_made_by_the_linker(name: &str) -> bool {
    name.strip_prefix("__").is_some_and(|rest| {
        ["start_", "stop_", "end_"].iter().any(|mark| rest.starts_with(mark))
            || ["_start", "_end"].iter().any(|mark| rest.ends_with(mark))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn table(rows: &[(u64, char, &str)]) -> Symbols {
        let entry = |(address, kind, name): &(u64, char, &str)| Entry {
            address: *address,
            name: (*name).into(),
            kind: *kind,
            module: None,
        };
        Symbols::new(rows.iter().map(entry).collect())
    }

    fn small() -> Symbols {
        table(&[
            (0x1000, 'T', "_stext"),
            (0x1000, 'T', "__head_text_start"),
            (0x1000, 'T', "startup"),
            (0x1010, 'T', "vfs_read"),
            (0x1010, 'W', "a_weak_vfs_read"),
            (0x1030, 't', "helper"),
            (0x1040, 't', "helper"),
            (0x1060, 't', "helper_of_long_name_2"),
            (0x1070, 't', "helper_of_long_name_1"),
            (0x2000, 'D', "_end"),
            (0x0400, 'T', "user_main"),
            (8, 'A', "current_task"),
        ])
    }

    /// KP-4: the meaning of a name.
    #[test]
    fn a_name_stands_for_its_first_place() {
        #[rustfmt::skip]
        let cases = [
            // name             address         places of that name
            ("vfs_read",        Some(0x1010),   1),
            ("helper",          Some(0x1030),   2),
            ("helper_of_long_name_1", Some(0x1070), 1),
            ("helper_of_long_name_2", Some(0x1060), 1),
            ("current_task",    Some(8),        0),
            ("vfs_raed",        None,           0),
            ("",                None,           0),
        ];
        let symbols = small();
        for (name, address, count) in cases {
            assert_eq!(symbols.address_of(name), address, "{name}");
            assert_eq!(symbols.count(name), count, "{name}");
        }
        assert_eq!(symbols.find("current_task"), None, "an absolute symbol is no place");
    }

    /// DV-1: the symbol that the kernel would print.
    #[test]
    fn an_address_is_covered_by_the_symbol_before_it() {
        #[rustfmt::skip]
        let cases = [
            // what                                 address     symbol (start, size)
            ("the first of three aliases",          0x1000,     Some(("startup", 0x1000, 0x10))),
            ("the strong one of two aliases",       0x1010,     Some(("vfs_read", 0x1010, 0x20))),
            ("padding belongs to it",               0x102f,     Some(("vfs_read", 0x1010, 0x20))),
            ("the last one reaches to _end",        0x1fff,     Some(("helper_of_long_name_1", 0x1070, 0xf90))),
            ("behind the kernel",                   0x2000,     None),
            ("before the kernel",                   0x0fff,     None),
            ("a program's symbol does not count",   0x0400,     None),
        ];
        let symbols = small();
        for (what, address, expected) in cases {
            let found = symbols.containing(address);
            assert_eq!(found.as_ref().map(|symbol| (&*symbol.name, symbol.start, symbol.size)), expected, "{what}");
        }
    }

    /// KP-15: an area of the blacklist is a list of the symbols in it.
    #[test]
    fn extents_cover_a_range_without_gaps() {
        let names: Vec<_> = small().extents(0x1000..0x1040).into_iter().map(|symbol| symbol.name).collect();
        assert_eq!(names, ["startup", "vfs_read", "helper"]);
        assert!(small().extents(0x3000..0x4000).is_empty());
        assert!(Symbols::default().extents(0..u64::MAX).is_empty());
    }

    /// DV-1
    #[test]
    fn an_empty_table_knows_nothing_and_is_no_trouble() {
        let none = Symbols::new(Vec::new());
        assert!(none.is_empty() && none.containing(0).is_none() && none.find("x").is_none() && none.similar("x").is_empty());
        assert_eq!(none.describe(0x1234), "0x1234");
    }
}
