//! Symbols of a stripped image, from the tables with which the kernel itself prints names (kallsyms).
//!
//! The tables have no header. They are found by the token table, in which the digits are consecutive. The other tables
//! are found relative to it, and each candidate is verified by decoding. Layouts (scripts/kallsyms.c): from 4.19 to 6.3
//! the addresses precede the names, from 6.4 on they follow the tokens. Tables are aligned to a word, in 7.2 to 4
//! bytes. `forms.rs` reads the addresses.

mod chains;
mod forms;

use super::{Kernel, link_address};
use crate::error::BootError;
use crate::symbols::{Entry, Symbols};
use chains::Chains;
use memchr::memmem;
use std::ops::Range;
use trapline_isa::mem::ByteOrder;
use trapline_probes::budget::{Budget, Spent};

/// The tokens of the digits; each stands for itself.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\0";
const TOKENS: usize = 256;
/// The number of names per marker. A marker is the offset of a name.
const NAMES_A_MARKER: usize = 256;
/// The smallest alignment of the tables.
const ALIGNMENT: usize = 4;
/// Size of a marker since 5.0. On z/Architecture this is also the alignment of the marker table; elsewhere that is a
/// word.
const MARKER: usize = 4;
/// The limit of symbols, above that of any kernel.
const MOST_SYMBOLS: usize = 4 << 20;
/// The limit of bytes of compressed names.
const MOST_NAME_BYTES: usize = 64 << 20;
/// Limit for the length of a name, with its letter. Linux has none of more than 512 bytes.
const LONGEST_NAME: usize = 1024;
/// Scanning this many bytes of a token for its end costs one step.
const STRING_BYTES_A_STEP: u64 = 16;

/// Budget of steps per byte of the image. Real images need fewer than three.
const STEPS_A_BYTE: u64 = 16;

/// The symbols in an image's own tables, in table order. `None` if it has none (CONFIG_KALLSYMS off) or an unknown
/// layout.
pub fn find(kernel: &Kernel) -> Result<Option<Symbols>, BootError> {
    find_within(kernel, &budget(kernel)).map_err(|Spent| TOO_MUCH)
}

/// The budget for searching this image.
pub fn budget(kernel: &Kernel) -> Budget {
    Budget::linear(kernel.segments.iter().map(|segment| segment.bytes.len()).sum(), STEPS_A_BYTE)
}

const TOO_MUCH: BootError = BootError::TooMuchWork { what: "the search for its table of symbol names (kallsyms)" };

/// Like [`find`], within a budget.
pub fn find_within(kernel: &Kernel, budget: &Budget) -> Result<Option<Symbols>, Spent> {
    let (word, order) = (kernel.arch.isa().word, kernel.arch.isa().order);
    let fits = |addresses: &[u64]| {
        let inside = |address: &&u64| kernel.segment_at(**address).is_some();
        addresses.iter().filter(inside).count() * 2 > addresses.len()
    };
    for segment in kernel.segments.iter() {
        let start = Some(segment.virtual_address);
        if let Some(found) = (Piece { bytes: &segment.bytes, word, order, start, budget }).tables(&fits)? {
            return Ok(Some(Symbols::in_table_order(found.entries)));
        }
    }
    Ok(None)
}

/// The symbols of an image in one piece whose link address is unknown. Most symbols must lie close to each other. If
/// the table has only relative distances, the image's own pointers determine the link address.
pub fn find_raw(bytes: &[u8], word: usize, order: ByteOrder) -> Result<Option<Symbols>, BootError> {
    find_in_piece(bytes, word, order, |offsets, budget| link_address::by_pointers(bytes, word, order, offsets, budget))
}

/// The symbols of an image in one piece that is linked at `start`.
pub fn find_raw_at(bytes: &[u8], word: usize, order: ByteOrder, start: u64) -> Result<Option<Symbols>, BootError> {
    find_in_piece(bytes, word, order, |_, _| Ok(Some(start)))
}

/// `start` is called if the table has only relative distances. It gets the symbols' offsets from the image's start.
fn find_in_piece(
    bytes: &[u8],
    word: usize,
    order: ByteOrder,
    start: impl Fn(&[u64], &Budget) -> Result<Option<u64>, Spent>,
) -> Result<Option<Symbols>, BootError> {
    let budget = &Budget::linear(bytes.len(), STEPS_A_BYTE);
    let fits = |addresses: &[u64]| {
        let middle = addresses.get(addresses.len() / 2).copied().unwrap_or(0);
        let near = |address: &&u64| address.abs_diff(middle) < bytes.len() as u64;
        addresses.iter().filter(near).count() * 2 > addresses.len()
    };
    let found = Piece { bytes, word, order, start: None, budget }.tables(&fits).map_err(|Spent| TOO_MUCH)?;
    let Some(mut found) = found else { return Ok(None) };
    if found.are_distances {
        let offsets: Vec<u64> = found.entries.iter().map(|entry| entry.address).collect();
        let Some(start) = start(&offsets, budget).map_err(|Spent| TOO_MUCH)? else { return Ok(None) };
        for entry in &mut found.entries {
            entry.address = start.wrapping_add(entry.address) & mask(word);
        }
    }
    Ok(Some(Symbols::in_table_order(found.entries)))
}

/// A mask of the bits of an address.
fn mask(word: usize) -> u64 {
    u64::MAX >> (64 - 8 * word)
}

/// Whether these addresses are plausible for symbols of the image.
type Fits<'a> = &'a dyn Fn(&[u64]) -> bool;

/// A segment that may hold the tables.
struct Piece<'a> {
    bytes: &'a [u8],
    word: usize,
    order: ByteOrder,
    /// The segment's virtual address, if known.
    start: Option<u64>,
    /// The budget, shared by all segments of an image.
    budget: &'a Budget,
}

/// The symbols of a segment.
struct Found {
    entries: Vec<Entry>,
    /// Whether the addresses are offsets from the segment's start.
    are_distances: bool,
}

/// The token table: the text of each byte of a compressed name.
struct Tokens<'a> {
    start: usize,
    /// The end of the token index, which follows the tokens.
    end: usize,
    text: Vec<&'a [u8]>,
}

/// The compressed names.
struct Names<'a> {
    /// The offset of the number of names.
    count_at: usize,
    compressed: Vec<&'a [u8]>,
}

impl<'a> Piece<'a> {
    fn tables(&self, fits: Fits<'_>) -> Result<Option<Found>, Spent> {
        for at in memmem::find_iter(self.bytes, DIGITS) {
            let Some(tokens) = self.tokens(at)? else { continue };
            if let Some(found) = self.symbols(&tokens, fits)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn symbols(&self, tokens: &Tokens<'_>, fits: Fits<'_>) -> Result<Option<Found>, Spent> {
        let Some(names) = self.names(tokens.start)? else { return Ok(None) };
        let Some((addresses, are_distances)) = self.addresses(tokens, &names, fits)? else { return Ok(None) };
        let mut entries = Vec::with_capacity(names.compressed.len());
        for (name, address) in names.compressed.iter().zip(addresses) {
            let Some(entry) = entry(name, tokens, address, self.budget)? else { return Ok(None) };
            entries.push(entry);
        }
        Ok(Some(Found { entries, are_distances }))
    }

    /// Reads the token table around these digits.
    fn tokens(&self, digits: usize) -> Result<Option<Tokens<'a>>, Spent> {
        let mut at = digits;
        for _ in usize::from(b'0')..TOKENS {
            let Some(text) = self.string(at) else { return Ok(None) };
            self.budget.charge(text.len() as u64 / STRING_BYTES_A_STEP + 1)?;
            at += text.len() + 1;
        }
        Ok([ALIGNMENT, self.word].iter().find_map(|to| self.tokens_by_index(digits, at.next_multiple_of(*to))))
    }

    /// Reads the token table with the index at `index`.
    fn tokens_by_index(&self, digits: usize, index: usize) -> Option<Tokens<'a>> {
        let places = (0..TOKENS).map(|number| self.u16(index + 2 * number)).collect::<Option<Vec<usize>>>()?;
        let rising = places.windows(2).all(|pair| pair[0] < pair[1]);
        let start = digits.checked_sub(places[usize::from(b'0')])?;
        if places[0] != 0 || !rising {
            return None;
        }
        let text = places.iter().map(|place| self.string(start + place)).collect::<Option<Vec<_>>>()?;
        Some(Tokens { start, end: index + 2 * TOKENS, text })
    }

    /// Finds the names by searching backwards from the tokens: a count, that many names, and their markers.
    /// A zero follows the last name, because the first marker is 0. So from the right start, the number of readable
    /// names equals the count. Only such starts are examined further.
    fn names(&self, tokens: usize) -> Result<Option<Names<'a>>, Spent> {
        let first = tokens / ALIGNMENT * ALIGNMENT;
        let last = first.saturating_sub(MOST_NAME_BYTES);
        let mut chains = Chains::new(tokens, |at| self.name(at, tokens).map(|name| name.end));
        for start in (last..first).rev().step_by(ALIGNMENT).map(|at| at / ALIGNMENT * ALIGNMENT) {
            self.budget.charge(ALIGNMENT as u64)?;
            let Some(links) = chains.links_from(start).filter(|links| *links <= MOST_SYMBOLS) else { continue };
            for (count_at, _) in self.counts(start).filter(|(_, count)| *count == links) {
                if let Some(compressed) = self.names_with_markers(start, links, tokens)? {
                    return Ok(Some(Names { count_at, compressed }));
                }
            }
        }
        Ok(None)
    }

    /// The candidates for the count of names before `start`, with their offsets. It is a 32-bit number, padded to a
    /// word in most releases, or a word up to 4.19.
    fn counts(&self, start: usize) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let read = |size: usize| {
            let at = start.checked_sub(size)?;
            let number = self.number(at, size)?;
            let is_padded = size == 8 && self.order == ByteOrder::Big && number as u32 == 0;
            let number = usize::try_from(if is_padded { number >> 32 } else { number }).ok()?;
            (number > 0).then_some((at, number))
        };
        let sizes = [Some(ALIGNMENT), Some(self.word).filter(|word| *word != ALIGNMENT)];
        sizes.map(|size| size.and_then(read)).into_iter().flatten()
    }

    /// Reads that many names, if their markers follow them.
    fn names_with_markers(&self, start: usize, count: usize, tokens: usize) -> Result<Option<Vec<&'a [u8]>>, Spent> {
        self.budget.charge(count as u64)?;
        let mut at = start;
        let mut compressed = Vec::with_capacity(count);
        let mut markers = Vec::with_capacity(count.div_ceil(NAMES_A_MARKER));
        for number in 0..count {
            if number % NAMES_A_MARKER == 0 {
                markers.push(at - start);
            }
            let Some(name) = self.name(at, tokens) else { return Ok(None) };
            at = name.end;
            compressed.push(&self.bytes[name]);
        }
        let found = [self.word, MARKER].iter().any(|to| self.has_markers(at.next_multiple_of(*to), &markers));
        Ok(found.then_some(compressed))
    }

    /// The tokens of a name. Their number precedes them in one byte or, from 128 on, in two (6.1).
    fn name(&self, at: usize, before: usize) -> Option<Range<usize>> {
        let low = usize::from(*self.bytes.get(at)?);
        let (start, length) = match low & 0x80 {
            0 => (at + 1, low),
            _ => (at + 2, low & 0x7f | usize::from(*self.bytes.get(at + 1)?) << 7),
        };
        Some(start..start + length).filter(|name| length > 0 && name.end <= before && name.end <= self.bytes.len())
    }

    /// Whether the markers are here: words up to 4.20, 32-bit numbers since.
    fn has_markers(&self, at: usize, markers: &[usize]) -> bool {
        [MARKER, self.word].into_iter().any(|size| {
            let is = |(number, marker): (usize, &usize)| self.number(at + number * size, size) == Some(*marker as u64);
            markers.iter().enumerate().all(is)
        })
    }

    /// A zero-terminated string of at most a token's length.
    fn string(&self, at: usize) -> Option<&'a [u8]> {
        const LONGEST: usize = 512;
        let rest = self.bytes.get(at..)?;
        let end = rest.iter().take(LONGEST).position(|byte| *byte == 0)?;
        Some(&rest[..end])
    }

    fn number(&self, at: usize, size: usize) -> Option<u64> {
        self.bytes.get(at..at.checked_add(size)?).map(|bytes| self.order.number(bytes))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.number(at, 4).map(|number| number as u32)
    }

    fn u16(&self, at: usize) -> Option<usize> {
        self.number(at, 2).map(|number| number as usize)
    }
}

/// Expands a name. Its first letter is the symbol type of `nm`.
fn entry(compressed: &[u8], tokens: &Tokens<'_>, address: u64, budget: &Budget) -> Result<Option<Entry>, Spent> {
    const LONG: usize = 64;
    let mut text = Vec::with_capacity(LONG);
    for token in compressed {
        let Some(token) = tokens.text.get(usize::from(*token)) else { return Ok(None) };
        budget.charge(token.len() as u64 + 1)?;
        text.extend_from_slice(token);
        if text.len() > LONGEST_NAME {
            return Ok(None);
        }
    }
    let Ok(text) = String::from_utf8(text) else { return Ok(None) };
    let mut letters = text.chars();
    let kind = letters.next();
    Ok(kind.map(|kind| Entry { address, kind, name: letters.as_str().into(), module: None }))
}

#[cfg(test)]
mod tests;
