//! The text of a `hist` trigger: keys, values, sort keys and size, compiled for one event.

use super::super::fields::{self, FieldRef, Kind};
use super::super::format::Format;
use super::super::text::number;
use super::{LARGEST_KEY, STACK_DEPTH, TEXT_BYTES};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Linux's limits: the largest number of keys, of values besides hitcount, and of sort keys.
const MOST_KEYS: usize = 3;
const MOST_VALUES: usize = 2;
const MOST_SORT_KEYS: usize = 2;
/// The size of a histogram is given as the binary logarithm of its number of entries.
const DEFAULT_BITS: u32 = 11;
const LEAST_BITS: u32 = 7;
const MOST_BITS: u32 = 17;

/// A histogram's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::events) struct Spec {
    pub name: Option<String>,
    pub keys: Vec<Key>,
    /// The values besides the number of hits.
    pub values: Vec<Key>,
    pub sort: Vec<SortKey>,
    /// Binary logarithm of the number of entries.
    pub bits: u32,
    pub timestamps: bool,
}

/// A key or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::events) struct Key {
    pub source: Source,
    pub modifier: Modifier,
    /// Whether timestamps are in microseconds.
    pub in_microseconds: bool,
}

/// The source of a key's or value's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::events) enum Source {
    /// The call chain.
    Stack,
    /// The CPU's number, under the name that was given.
    Cpu(String),
    Timestamp,
    Field(FieldRef),
}

/// The suffix of a key or value, which changes how it is counted or shown. [`MODIFIERS`] has their names in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::events) enum Modifier {
    None,
    Hex,
    Symbol,
    SymbolOffset,
    Name,
    SystemCall,
    Log2,
    Microseconds,
    Buckets(u64),
    Percent,
    Graph,
}

/// The modifiers without an argument.
const MODIFIERS: &[(&str, Modifier)] = &[
    ("hex", Modifier::Hex),
    ("sym", Modifier::Symbol),
    ("sym-offset", Modifier::SymbolOffset),
    ("execname", Modifier::Name),
    ("syscall", Modifier::SystemCall),
    ("log2", Modifier::Log2),
    ("usecs", Modifier::Microseconds),
    ("percent", Modifier::Percent),
    ("graph", Modifier::Graph),
];

/// A field to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::events) struct SortKey {
    pub by: SortBy,
    pub descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::events) enum SortBy {
    Hits,
    Value(usize),
    Key(usize),
}

/// A change of an existing histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::events) enum Change {
    Pause,
    Continue,
    Clear,
}

macro_rules! codes {
    ($($name:ident: $why:literal),* $(,)?) => {
        /// The rule that a `hist` trigger breaks.
        #[allow(missing_docs)] // their sentences are below
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum HistCode { $($name),* }

        impl HistCode {
            /// The reason, and what to write instead.
            pub const fn why(self) -> &'static str {
                match self { $(HistCode::$name => $why),* }
            }
        }
    };
}

codes! {
    FieldNotFound: "the event has no such field, or it cannot be counted: its file `format` lists the fields",
    BadModifier: "the modifiers are .hex .sym .sym-offset .execname (of common_pid) .syscall .log2 .buckets=N .usecs, and of values .hex .percent .graph",
    EmptyAssignment: "write something behind the '='",
    BadSortModifier: "behind a sort field write .ascending or .descending",
    EmptySortField: "write a field: sort=hitcount.descending",
    TooManySortFields: "a histogram is sorted by at most two fields",
    BadSortField: "a sort field is a key, a value or hitcount",
    Exists: "the event has this histogram already: `!hist:...` removes it",
    DoesNotExist: "there is no such histogram to clear or to continue",
    NamedMismatch: "another histogram of this name has other keys, values or sort fields",
    NoKeys: "a histogram needs keys: hist:keys=common_pid",
    TooMany: "a histogram has at most three keys and two values besides hitcount",
    BadSize: "the size is a number from 65 to 131072",
    KeyTooLarge: "the keys take more than 384 bytes together: a string takes 256, a call chain 128",
    Unsupported: "variables and actions (x=..., onmatch, onmax) are not supported: keys, vals, sort, size, name, pause, continue and clear are",
    Unknown: "a histogram's parts are keys=, vals=, sort=, size=, name=, pause, continue and clear",
}

/// A refused `hist` trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistError {
    /// The broken rule.
    pub code: HistCode,
    /// The part of the text that is wrong.
    pub about: String,
}

impl fmt::Display for HistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.about.as_str() {
            "" => f.write_str(self.code.why()),
            about => write!(f, "`{about}`: {}", self.code.why()),
        }
    }
}

fn error<T>(code: HistCode, about: &str) -> Result<T, HistError> {
    Err(HistError { code, about: about.to_owned() })
}

/// The parts of the text, before fields are looked up.
#[derive(Default)]
struct Parts<'a> {
    keys: Option<&'a str>,
    values: Option<&'a str>,
    sort: Option<&'a str>,
    name: Option<&'a str>,
    bits: Option<u32>,
    change: Option<Change>,
}

fn parts(text: &str) -> Result<Parts<'_>, HistError> {
    let mut parts = Parts::default();
    for part in text.split(':') {
        let Some((name, value)) = part.split_once('=') else {
            match part {
                "pause" => parts.change = parts.change.or(Some(Change::Pause)),
                "cont" | "continue" => parts.change = parts.change.or(Some(Change::Continue)),
                "clear" => parts.change = parts.change.or(Some(Change::Clear)),
                _ if ["onmatch(", "onmax(", "onchange("].iter().any(|action| part.starts_with(action)) => {
                    return error(HistCode::Unsupported, part);
                }
                _ => return error(HistCode::Unknown, part),
            }
            continue;
        };
        if value.is_empty() {
            return error(HistCode::EmptyAssignment, part);
        }
        match name {
            "key" | "keys" => parts.keys = Some(value),
            "val" | "vals" | "values" => parts.values = Some(value),
            "sort" => parts.sort = Some(value),
            "name" => parts.name = Some(value),
            "clock" => {}
            "size" => parts.bits = Some(bits(value)?),
            _ => return error(HistCode::Unsupported, part),
        }
    }
    Ok(parts)
}

fn bits(value: &str) -> Result<u32, HistError> {
    let size = number(value).and_then(u64::checked_next_power_of_two);
    match size.map(u64::trailing_zeros) {
        Some(bits @ LEAST_BITS..=MOST_BITS) => Ok(bits),
        _ => error(HistCode::BadSize, value),
    }
}

impl Spec {
    /// Compiles the text behind `hist:`, without a filter. Also returns what it asks of an existing histogram.
    pub fn parse(text: &str, format: &Format, word: usize) -> Result<(Spec, Option<Change>), HistError> {
        let parts = parts(text)?;
        let Some(names) = parts.keys else { return error(HistCode::NoKeys, "") };
        let mut spec = Spec {
            name: parts.name.map(str::to_owned),
            keys: Vec::new(),
            values: Vec::new(),
            sort: Vec::new(),
            bits: parts.bits.unwrap_or(DEFAULT_BITS),
            timestamps: false,
        };
        for name in parts.values.into_iter().flat_map(|names| names.split(',')).filter(|name| *name != "hitcount") {
            let value = field(name, format, word, false)?;
            if spec.values.len() == MOST_VALUES {
                return error(HistCode::TooMany, name);
            }
            spec.values.push(value);
        }
        for name in names.split(',') {
            if spec.keys.len() == MOST_KEYS {
                return error(HistCode::TooMany, name);
            }
            spec.keys.push(field(name, format, word, true)?);
        }
        if spec.key_bytes() > LARGEST_KEY {
            return error(HistCode::KeyTooLarge, names);
        }
        let all = || spec.keys.iter().chain(&spec.values);
        let in_microseconds = all().any(|key| key.modifier == Modifier::Microseconds && key.source == Source::Timestamp);
        spec.timestamps = all().any(|key| key.source == Source::Timestamp);
        for key in spec.keys.iter_mut().chain(&mut spec.values) {
            key.in_microseconds = in_microseconds;
        }
        spec.sort = spec.sort_keys(parts.sort)?;
        Ok((spec, parts.change))
    }

    /// Whether a key is the call chain.
    pub fn needs_stack(&self) -> bool {
        self.keys.iter().any(|key| key.source == Source::Stack)
    }

    /// Whether both triggers share one histogram, because their keys, values and sort fields are equal. Names and sizes may
    /// differ.
    pub fn counts_as(&self, other: &Spec) -> bool {
        (&self.keys, &self.values, &self.sort) == (&other.keys, &other.values, &other.sort)
    }

    /// Bytes of memory that the histogram takes.
    pub fn bytes(&self) -> usize {
        // A key, its hits and sums, the task's name, and two places of the index.
        let entry = self.key_bytes() + 8 * (1 + self.values.len()) + 16 + 8;
        entry << self.bits
    }

    /// Bytes of the compound key.
    pub fn key_bytes(&self) -> usize {
        self.keys.iter().map(Key::bytes).sum()
    }

    fn sort_keys(&self, text: Option<&str>) -> Result<Vec<SortKey>, HistError> {
        let Some(text) = text else { return Ok(Vec::from([SortKey { by: SortBy::Hits, descending: false }])) };
        let mut sort = Vec::new();
        for part in text.split(',') {
            let (name, order) = part.split_once('.').map_or((part, None), |(name, order)| (name, Some(order)));
            if name.is_empty() {
                return error(HistCode::EmptySortField, "sort=");
            }
            if sort.len() == MOST_SORT_KEYS {
                return error(HistCode::TooManySortFields, "sort=");
            }
            let Some(by) = self.sort_by(name) else { return error(HistCode::BadSortField, name) };
            let descending = match order {
                None | Some("ascending") => false,
                Some("descending") => true,
                Some(other) => return error(HistCode::BadSortModifier, other),
            };
            sort.push(SortKey { by, descending });
        }
        Ok(sort)
    }

    fn sort_by(&self, name: &str) -> Option<SortBy> {
        if name == "hitcount" {
            return Some(SortBy::Hits);
        }
        let value = self.values.iter().position(|value| value.name() == name).map(SortBy::Value);
        value.or_else(|| self.keys.iter().position(|key| key.name() == name).map(SortBy::Key))
    }
}

fn field(text: &str, format: &Format, word: usize, is_key: bool) -> Result<Key, HistError> {
    if is_key && text == "stacktrace" {
        return Ok(Key { source: Source::Stack, modifier: Modifier::None, in_microseconds: false });
    }
    let (name, suffix) = text.split_once('.').map_or((text, None), |(name, suffix)| (name, Some(suffix)));
    let modifier = match suffix {
        None => Modifier::None,
        Some(suffix) => match modifier(suffix, name, is_key) {
            Some(modifier) => modifier,
            None => return error(HistCode::BadModifier, suffix),
        },
    };
    let source = match name {
        "common_timestamp" => Source::Timestamp,
        "common_cpu" | "cpu" | "CPU" => Source::Cpu(name.to_owned()),
        _ => match fields::find(name, format, word) {
            Some(field) if matches!(field.kind, Kind::Number { .. } | Kind::Text) => Source::Field(field),
            _ => return error(HistCode::FieldNotFound, name),
        },
    };
    if let (false, Source::Field(FieldRef { kind: Kind::Text, .. })) = (is_key, &source) {
        return error(HistCode::FieldNotFound, name);
    }
    Ok(Key { source, modifier, in_microseconds: false })
}

fn modifier(suffix: &str, field: &str, is_key: bool) -> Option<Modifier> {
    let buckets = || {
        let rest = suffix.strip_prefix("bucket")?;
        let width = number(rest.strip_prefix('s').unwrap_or(rest).strip_prefix('=')?)?;
        (width > 0).then_some(Modifier::Buckets(width))
    };
    let named = MODIFIERS.iter().find(|(name, _)| *name == suffix).map(|(_, modifier)| *modifier);
    let modifier = named.or_else(buckets)?;
    let fits = match modifier {
        Modifier::Name => field == "common_pid",
        Modifier::Percent | Modifier::Graph => !is_key,
        Modifier::Buckets(_) | Modifier::Log2 | Modifier::Symbol | Modifier::SymbolOffset | Modifier::SystemCall => is_key,
        Modifier::None | Modifier::Hex | Modifier::Microseconds => true,
    };
    fits.then_some(modifier)
}

impl Key {
    /// The name in entries and as a sort field.
    pub fn name(&self) -> &str {
        match &self.source {
            Source::Stack => "stacktrace",
            Source::Timestamp => "common_timestamp",
            Source::Cpu(name) => name,
            Source::Field(field) => &field.name,
        }
    }
}

/// The key as the trigger's text shows it.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self.source, Source::Cpu(_)) { "common_cpu" } else { self.name() })?;
        if let Modifier::Buckets(width) = self.modifier {
            return write!(f, ".buckets={width}");
        }
        match MODIFIERS.iter().find(|(_, modifier)| *modifier == self.modifier) {
            Some((name, _)) => write!(f, ".{name}"),
            None => Ok(()),
        }
    }
}

/// The trigger's text without its filter.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hist:")?;
        if let Some(name) = &self.name {
            write!(f, "name={name}:")?;
        }
        f.write_str("keys=")?;
        for (number, key) in self.keys.iter().enumerate() {
            write!(f, "{}{key}", if number == 0 { "" } else { "," })?;
        }
        f.write_str(":vals=hitcount")?;
        self.values.iter().try_for_each(|value| write!(f, ",{value}"))?;
        f.write_str(":sort=")?;
        for (number, key) in self.sort.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "," })?;
            match key.by {
                SortBy::Hits => f.write_str("hitcount")?,
                SortBy::Value(index) => self.values.get(index).map_or(Ok(()), |value| write!(f, "{value}"))?,
                SortBy::Key(index) => self.keys.get(index).map_or(Ok(()), |key| write!(f, "{key}"))?,
            }
            f.write_str(if key.descending { ".descending" } else { "" })?;
        }
        write!(f, ":size={}", 1_u32 << self.bits)?;
        if self.timestamps {
            f.write_str(":clock=global")?;
        }
        Ok(())
    }
}

const _: () = assert!(STACK_DEPTH * 8 + TEXT_BYTES == LARGEST_KEY);
