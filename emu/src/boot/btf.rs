//! Offsets of structure fields, from the kernel's own type information (BTF).
//!
//! Format: Documentation/bpf/btf.rst, version 1. This file reads only what field offsets need: structures, unions, and
//! anonymous ones inside them. `types.rs` reads the rest. Any input gives an offset or `None`, never a panic.

pub mod types;

use super::Kernel;
use memchr::memmem;
use std::collections::HashMap;
use std::ops::Range;
use trapline_probes::budget::{Budget, Spent};

const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
const HEADER: usize = 24;
/// The offset in the header of the distance from its end to the types.
const TYPES_AT: usize = 8;
/// A header's magic, version, flags and usual length in both byte orders: enough not to be there by chance.
const BEGINNINGS: [[u8; 8]; 2] =
    [[0x9f, 0xeb, VERSION, 0, HEADER as u8, 0, 0, 0], [0xeb, 0x9f, VERSION, 0, 0, 0, 0, HEADER as u8]];
const TYPE: usize = 12;
const MEMBER: usize = 12;
/// The limit of types. It exceeds that of a kernel with all drivers built in.
const MOST_TYPES: usize = 4 << 20;
/// The limit of anonymous structures inside one another; real ones nest four deep.
const DEEPEST: usize = 16;
/// The limit of a structure's fields, with those of anonymous structures inside it.
const MOST_MEMBERS: usize = 1 << 16;

/// Names are shorter than this: Linux allows at most 511 bytes.
const LONGEST_NAME: usize = 512;
/// Budget of steps per byte of an image for the search, and per byte of types for reading them. Real types need two.
const STEPS_A_BYTE: u64 = 16;
/// Scanning this many bytes of a name for its end costs one step.
const NAME_BYTES_A_STEP: u64 = 8;

/// The kinds of types that have fields.
const STRUCTURE: u32 = 4;
const UNION: u32 = 5;

/// The data behind a type's three words, by kind: bytes once, and bytes for each of its `vlen` parts.
#[rustfmt::skip]
const BEHIND: [(usize, usize); 20] = [
    (0, 0),         // void, which no table holds
    (4, 0),         // int
    (0, 0),         // pointer
    (12, 0),        // array
    (0, MEMBER),    // struct
    (0, MEMBER),    // union
    (0, 8),         // enum
    (0, 0),         // forward declaration
    (0, 0),         // typedef
    (0, 0),         // volatile
    (0, 0),         // const
    (0, 0),         // restrict
    (0, 0),         // function
    (0, 8),         // its prototype
    (4, 0),         // variable
    (0, 12),        // section of data
    (0, 0),         // float
    (4, 0),         // tag of a declaration
    (0, 0),         // tag of a type
    (0, 12),        // enum of 64 bits
];

/// The types of a kernel, indexed.
#[derive(Clone, Debug)]
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    little: bool,
    /// The offset of each type in `types`; type 1 is the first.
    starts: Vec<u32>,
    structures: HashMap<&'a [u8], u32>,
}

/// The part of the type section that holds valid types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Indexed {
    /// All of it.
    All,
    /// This many bytes from its start. Then no valid type follows, or the last type is cut off.
    UpTo(usize),
}

/// A structure or union: its fields in `types`.
#[derive(Clone, Copy)]
struct Structure {
    members: usize,
    /// The offset behind the type's three words.
    at: usize,
    /// Whether the upper byte of a field's offset is the size of a bit field.
    bit_fields: bool,
}

impl<'a> Btf<'a> {
    /// Parses and indexes types. `None` if the bytes are not valid BTF.
    pub fn parse(bytes: &'a [u8]) -> Option<Btf<'a>> {
        Btf::parse_within(bytes, &Budget::linear(bytes.len(), STEPS_A_BYTE)).unwrap_or_default()
    }

    /// Like [`Btf::parse`], within a budget that a search shares among all candidates.
    fn parse_within(bytes: &'a [u8], budget: &Budget) -> Result<Option<Btf<'a>>, Spent> {
        let Some(mut btf) = Btf::parts(bytes) else { return Ok(None) };
        Ok((btf.index(budget)? == Indexed::All).then_some(btf))
    }

    /// Finds the types and the strings through the header.
    fn parts(bytes: &'a [u8]) -> Option<Btf<'a>> {
        let little = bytes.starts_with(&MAGIC.to_le_bytes());
        if !little && !bytes.starts_with(&MAGIC.to_be_bytes()) || bytes.get(2) != Some(&VERSION) {
            return None;
        }
        let word = |number: usize| u32_at(bytes, 4 * number, little).map(|word| word as usize);
        let header = word(1).filter(|header| *header >= HEADER)?;
        let part = |offset: usize, length: usize| {
            let start = header.checked_add(offset)?;
            bytes.get(start..start.checked_add(length)?)
        };
        let (types, strings) = (part(word(2)?, word(3)?)?, part(word(4)?, word(5)?)?);
        Some(Btf { types, strings, little, starts: Vec::new(), structures: HashMap::new() })
    }

    /// The types of a kernel, if its image has them.
    pub fn of(kernel: &'a Kernel) -> Option<Btf<'a>> {
        let by_symbols = || {
            let address = |name: &str| kernel.symbols.address_of(name);
            Some(address("__start_BTF")?..address("__stop_BTF")?)
        };
        let held = |range: Option<Range<u64>>| range.and_then(|range| kernel.held(&range)).and_then(Btf::parse);
        held(kernel.section(".BTF")).or_else(|| held(by_symbols())).or_else(|| {
            // A flat image has no sections, and without CONFIG_KALLSYMS_ALL no symbols for its types.
            Btf::search(kernel, &Btf::budget(kernel)).unwrap_or_default()
        })
    }

    /// The budget for searching this image.
    pub fn budget(kernel: &Kernel) -> Budget {
        Budget::linear(kernel.segments.iter().map(|segment| segment.bytes.len()).sum(), STEPS_A_BYTE)
    }

    /// The first types in an image, where no section or symbol has their address. Each byte order reads each byte
    /// of the image at most once as a type, so the budget of [`Btf::budget`] is enough for every image.
    pub fn search(kernel: &'a Kernel, budget: &Budget) -> Result<Option<Btf<'a>>, Spent> {
        for segment in kernel.segments.iter() {
            for header in &BEGINNINGS {
                if let Some(btf) = Btf::search_in(&segment.bytes, header, budget)? {
                    return Ok(Some(btf));
                }
            }
        }
        Ok(None)
    }

    /// The first type information in these bytes whose header begins like this. After an invalid candidate, the search
    /// continues behind the bytes that were read as its types. Only types directly behind their header are found; all
    /// known tools write them there.
    fn search_in(bytes: &'a [u8], header: &[u8], budget: &Budget) -> Result<Option<Btf<'a>>, Spent> {
        let finder = memmem::Finder::new(header);
        let mut from = 0;
        while let Some(at) = finder.find(bytes.get(from..).unwrap_or_default()).map(|at| from + at) {
            budget.charge(1)?;
            from = at + 1;
            let follow = at.is_multiple_of(4) && bytes.get(at + TYPES_AT..at + TYPES_AT + 4) == Some(&[0; 4]);
            let Some(mut btf) = Btf::parts(&bytes[at..]).filter(|_| follow) else { continue };
            match btf.index(budget)? {
                Indexed::All => return Ok(Some(btf)),
                Indexed::UpTo(end) => from = at + HEADER + end,
            }
        }
        Ok(None)
    }

    /// Finds where each type begins.
    fn index(&mut self, budget: &Budget) -> Result<Indexed, Spent> {
        let mut at = 0;
        while at < self.types.len() {
            let stopped = Ok(Indexed::UpTo(at));
            let (Some(name), Some(info)) = (self.word(at), self.word(at + 4)) else { return stopped };
            let (kind, length) = (info >> 24 & 0x1f, info as usize & 0xffff);
            let Some((once, each)) = BEHIND.get(kind as usize) else { return stopped };
            if self.starts.len() == MOST_TYPES {
                return stopped;
            }
            self.starts.push(at as u32);
            let number = self.starts.len() as u32;
            let mut steps = 1;
            if matches!(kind, STRUCTURE | UNION) {
                let name = self.name(name);
                steps += name.len() as u64 / NAME_BYTES_A_STEP;
                if !name.is_empty() {
                    self.structures.entry(name).or_insert(number);
                }
            }
            budget.charge(steps)?;
            at = at + TYPE + once + each * length;
        }
        Ok(if at == self.types.len() { Indexed::All } else { Indexed::UpTo(self.types.len()) })
    }

    /// The names of all named structures and unions.
    pub fn structures(&self) -> impl Iterator<Item = &'a str> {
        self.structures.keys().filter_map(|name| std::str::from_utf8(name).ok())
    }

    /// The offset of a field in bytes. Fields of anonymous structures inside count as the structure's own. `None` for a
    /// bit field that does not start at a byte.
    pub fn offset_of(&self, structure: &str, member: &str) -> Option<u64> {
        let number = *self.structures.get(structure.as_bytes())?;
        let mut left = MOST_MEMBERS;
        let bits = self.find(self.structure(number)?, member.as_bytes(), DEEPEST, &mut left)?;
        (bits % 8 == 0).then_some(bits / 8)
    }

    fn find(&self, structure: Structure, wanted: &[u8], depth: usize, left: &mut usize) -> Option<u64> {
        for index in 0..structure.members {
            *left = left.checked_sub(1)?;
            let at = structure.at + index * MEMBER;
            let (name, kind, offset) = (self.word(at)?, self.word(at + 4)?, self.word(at + 8)?);
            let offset = u64::from(if structure.bit_fields { offset & 0x00ff_ffff } else { offset });
            if self.has_name(name, wanted) {
                return Some(offset);
            }
            if self.has_name(name, b"")
                && depth > 0
                && let Some(inner) = self.structure(kind)
                && let Some(inside) = self.find(inner, wanted, depth - 1, left)
            {
                return Some(offset + inside);
            }
        }
        None
    }

    fn structure(&self, number: u32) -> Option<Structure> {
        let start = *self.starts.get((number as usize).checked_sub(1)?)? as usize;
        let info = self.word(start + 4)?;
        let kind = info >> 24 & 0x1f;
        let structure = Structure { members: info as usize & 0xffff, at: start + TYPE, bit_fields: info >> 31 != 0 };
        matches!(kind, STRUCTURE | UNION).then_some(structure)
    }

    /// Whether the string at this offset is that name. Cheaper than [`Btf::name`] where most names differ.
    fn has_name(&self, at: u32, wanted: &[u8]) -> bool {
        let rest = self.strings.get(at as usize..).and_then(|rest| rest.strip_prefix(wanted));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    fn name(&self, at: u32) -> &'a [u8] {
        let rest = self.strings.get(at as usize..).unwrap_or_default();
        let end = rest.iter().take(LONGEST_NAME).position(|byte| *byte == 0).unwrap_or(0);
        &rest[..end]
    }

    fn word(&self, at: usize) -> Option<u32> {
        u32_at(self.types, at, self.little)
    }
}

/// Reads a 32-bit word.
fn u32_at(bytes: &[u8], at: usize, little: bool) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(if little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// BTF under construction, in either byte order.
    pub(super) struct Writer {
        little: bool,
        pub types: Vec<u8>,
        strings: Vec<u8>,
    }

    impl Writer {
        pub fn new(little: bool) -> Writer {
            Writer { little, types: Vec::new(), strings: vec![0] }
        }

        fn word(&self, word: u32) -> [u8; 4] {
            if self.little { word.to_le_bytes() } else { word.to_be_bytes() }
        }

        fn string(&mut self, text: &str) -> u32 {
            if text.is_empty() {
                return 0;
            }
            let at = self.strings.len() as u32;
            self.strings.extend(text.bytes().chain([0]));
            at
        }

        pub fn kind(&mut self, name: &str, info: u32, words: &[u32]) {
            let name = self.string(name);
            for word in [&[name, info, 0], words].concat() {
                let bytes = self.word(word);
                self.types.extend(bytes);
            }
        }

        /// Adds a structure. Its fields have a name, a type and an offset as stored.
        pub fn structure(&mut self, name: &str, info: u32, members: &[(&str, u32, u32)]) {
            let words: Vec<u32> = members.iter().flat_map(|(name, kind, at)| [self.string(name), *kind, *at]).collect();
            self.kind(name, info | members.len() as u32, &words);
        }

        pub fn finish(&self) -> Vec<u8> {
            let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
            let magic = if self.little { MAGIC.to_le_bytes() } else { MAGIC.to_be_bytes() };
            let header: Vec<u8> =
                [HEADER as u32, 0, types, types, strings].into_iter().flat_map(|word| self.word(word)).collect();
            [&magic[..], &[VERSION, 0], &header, &self.types, &self.strings].concat()
        }
    }

    /// Types of each kind come first, so that a wrong length of any kind would show.
    fn sample(little: bool) -> Vec<u8> {
        let mut writer = Writer::new(little);
        let kinds: [(u32, &[u32]); 15] = [
            (1, &[32]),
            (2, &[]),
            (3, &[1, 1, 16]),
            (6, &[0, 0]),
            (7, &[]),
            (8, &[]),
            (9, &[]),
            (10, &[]),
            (11, &[]),
            (13, &[0, 1]),
            (14, &[0]),
            (15, &[1, 0, 4]),
            (16, &[]),
            (17, &[0]),
            (19, &[0, 0, 0]),
        ];
        for (kind, words) in kinds {
            let parts = u32::from(matches!(kind, 6 | 13 | 15 | 19));
            writer.kind("", kind << 24 | parts, words);
        }
        writer.structure("", STRUCTURE << 24, &[("x", 1, 0), ("comm", 3, 64)]); // 16
        writer.structure("", UNION << 24, &[("other", 1, 0), ("", 16, 0)]); // 17
        writer.structure("task_struct", STRUCTURE << 24, &[("state", 1, 0), ("pid", 1, 32), ("", 17, 128), ("", 18, 512)]); // 18
        writer.structure("flags", STRUCTURE << 24 | 1 << 31, &[("low", 1, 3 << 24), ("high", 1, 5 << 24 | 3), ("next", 1, 32)]);
        writer.structure("task_struct", STRUCTURE << 24, &[("pid", 1, 0)]);
        writer.finish()
    }

    /// OUT-1
    #[test]
    fn members_are_found_where_they_are() {
        #[rustfmt::skip]
        let cases = [
            ("task_struct",  "state",    Some(0)),
            ("task_struct",  "pid",      Some(4)),
            ("task_struct",  "other",    Some(16)),
            ("task_struct",  "comm",     Some(24)),  // in an anonymous structure in an anonymous union
            ("task_struct",  "prio",     None),      // an anonymous structure that contains itself ends the search
            ("flags",        "low",      Some(0)),
            ("flags",        "high",     None),      // not at a byte boundary
            ("flags",        "next",     Some(4)),
            ("nobody",       "pid",      None),
            ("",             "comm",     None),
        ];
        for little in [true, false] {
            let bytes = sample(little);
            let btf = Btf::parse(&bytes).expect("types");
            for (structure, member, expected) in cases {
                assert_eq!(btf.offset_of(structure, member), expected, "{structure}.{member}, little-endian {little}");
            }
        }
    }

    #[test]
    fn truncated_or_foreign_bytes_are_no_types() {
        let whole = sample(true);
        for length in 0..whole.len() {
            assert!(Btf::parse(&whole[..length]).is_none(), "{length} bytes");
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            bytes
        };
        #[rustfmt::skip]
        let cases = [
            ("another magic",           with(0, 0)),
            ("another version",         with(2, 2)),
            ("a header that is short",  with(4, 8)),
            ("types behind the end",    with(11, 0x7f)),
            ("an unknown kind",         with(HEADER + 7, 0x1f)),
        ];
        for (what, bytes) in cases {
            assert!(Btf::parse(&bytes).is_none(), "{what}");
        }
    }

    /// KP-4, BY-1: an image of twice the size takes twice the steps, and never more than the budget.
    #[test]
    fn a_search_takes_time_by_the_size_of_the_image() {
        use crate::boot::Segment;
        use crate::symbols::Symbols;
        use trapline_isa::arch::Arch;
        /// Fills an image with headers: one every `step` bytes, each announcing this many bytes of types and strings.
        fn headers(size: usize, step: usize, types: impl Fn(usize) -> usize, strings: usize) -> Vec<u8> {
            let mut bytes = vec![0; size];
            for at in (0..size - HEADER).step_by(step) {
                let words = [24, 0, types(at), types(at), strings];
                let words = words.iter().flat_map(|word| (*word as u32).to_le_bytes());
                let header: Vec<u8> = [0x9f, 0xeb, 1, 0].into_iter().chain(words).collect();
                bytes[at..at + HEADER].copy_from_slice(&header);
            }
            bytes
        }
        type Make = fn(usize) -> Vec<u8>;
        let cases: [(&str, Make); 4] = [
            ("each promises half of the image", |size| headers(size, HEADER, |_| 12 * (size / 24) + 4, 8)),
            ("each promises all behind it", |size| {
                headers(size, HEADER, |at| size.saturating_sub(at + 2 * HEADER) / 12 * 12 + 4, 8)
            }),
            ("few promise much", |size| headers(size, 4096, |at| size.saturating_sub(at + 64) / 12 * 12 + 4, 8)),
            ("names without end", |size| {
                let types = size / 2 / 12 * 12;
                let mut bytes = headers(size, size, |_| types + 4, size / 4);
                for at in (HEADER..HEADER + types).step_by(TYPE) {
                    bytes[at..at + 12].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
                }
                bytes[HEADER + types..].fill(b'x');
                bytes
            }),
        ];
        for (what, make) in cases {
            let steps = |size: usize| {
                let budget = Budget::linear(size, STEPS_A_BYTE);
                let segment = Segment {
                    physical: 0,
                    virtual_address: 0x1000,
                    bytes: make(size).into(),
                    size: size as u64,
                    executable: false,
                };
                let kernel = Kernel::from_parts(Arch::X86_64, 0, vec![segment], Symbols::default());
                assert!(!matches!(Btf::search(&kernel, &budget), Ok(Some(_))), "{what}: there are no types");
                assert!(!budget.is_spent(), "{what}: the budget is enough for every image");
                budget.spent()
            };
            let (one, two) = (steps(1 << 21).max(1 << 16), steps(1 << 22));
            assert!(5 * two <= 11 * one, "{what}: {one} steps, twice the size {two}");
        }
        let bytes = sample(true);
        let budget = Budget::of(2 * bytes.len() as u64);
        assert!(matches!(Btf::parse_within(&bytes, &budget), Ok(Some(_))), "real types take few steps: {budget:?}");
    }

    proptest! {
        #[test]
        fn damage_gives_an_offset_or_none(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
            let mut bytes = sample(true);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(btf) = Btf::parse(&bytes) {
                for structure in btf.structures() {
                    let _ = btf.offset_of(structure, "comm");
                }
            }
        }
    }
}
