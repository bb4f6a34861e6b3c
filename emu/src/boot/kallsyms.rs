//! Symbols out of a stripped image: the tables from which the kernel itself prints names (kallsyms).
//!
//! The tables have no header. What gives them away is the table of tokens, in which the digits stand one behind the
//! other; from there the others are found by their places, and every guess is proved by decoding. Layouts
//! (scripts/kallsyms.c): 4.19 to 6.3 keep the addresses in front of the names, 6.4 and later behind the tokens. Tables
//! begin at multiples of a word, and in 7.2 of 4 bytes. `forms.rs` reads the addresses.

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

/// The tokens for the digits: each stands for itself.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\0";
const TOKENS: usize = 256;
/// Every so many names a marker says where the names are.
const NAMES_A_MARKER: usize = 256;
/// The tables begin at multiples of this at least.
const ALIGNMENT: usize = 4;
/// Bytes of a marker since 5.0; on z/Architecture the table of them begins at a multiple of this, elsewhere at one of a
/// word.
const MARKER: usize = 4;
/// No kernel has more symbols.
const MOST_SYMBOLS: usize = 4 << 20;
/// Nor do its compressed names take more bytes.
const MOST_NAME_BYTES: usize = 64 << 20;
/// Comparing so many bytes of a token with 0 costs as much as any other step.
const STRING_BYTES_A_STEP: u64 = 16;

/// Steps of the search for each byte of the image. Real images take fewer than three.
const STEPS_A_BYTE: u64 = 16;

/// The symbols in an image's own tables, in their order; `None` if it has none (CONFIG_KALLSYMS off, or a layout
/// unknown here).
pub fn find(kernel: &Kernel) -> Result<Option<Symbols>, BootError> {
    find_within(kernel, &budget(kernel)).map_err(|Spent| TOO_MUCH)
}

/// The budget of the search in this image.
pub fn budget(kernel: &Kernel) -> Budget {
    Budget::linear(kernel.segments.iter().map(|segment| segment.bytes.len()).sum(), STEPS_A_BYTE)
}

const TOO_MUCH: BootError = BootError::TooMuchWork { what: "the search for its table of symbol names (kallsyms)" };

/// The same within a budget of work.
pub fn find_within(kernel: &Kernel, budget: &Budget) -> Result<Option<Symbols>, Spent> {
    let (word, order) = (kernel.arch.isa().word, kernel.arch.isa().order);
    let fits = |addresses: &[u64]| {
        let inside = |address: &&u64| kernel.segment_at(**address).is_some();
        addresses.iter().filter(inside).count() * 2 > addresses.len()
    };
    for segment in &kernel.segments {
        let start = Some(segment.virtual_address);
        if let Some(found) = (Piece { bytes: &segment.bytes, word, order, start, budget }).tables(&fits)? {
            return Ok(Some(Symbols::in_table_order(found.entries)));
        }
    }
    Ok(None)
}

/// The symbols of an image in one piece that does not say where it is linked: most lie close to each other. Where the
/// table has distances alone, the image's own pointers tell where it is linked.
pub fn find_raw(bytes: &[u8], word: usize, order: ByteOrder) -> Result<Option<Symbols>, BootError> {
    find_in_piece(bytes, word, order, |offsets, budget| link_address::by_pointers(bytes, word, order, offsets, budget))
}

/// The symbols of an image in one piece whose first byte is linked at `start`.
pub fn find_raw_at(bytes: &[u8], word: usize, order: ByteOrder, start: u64) -> Result<Option<Symbols>, BootError> {
    find_in_piece(bytes, word, order, |_, _| Ok(Some(start)))
}

/// `start` is asked where the table has distances alone. It is given the symbols' distances from the image's start.
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

/// The bits that an address of so many bytes has.
fn mask(word: usize) -> u64 {
    u64::MAX >> (64 - 8 * word)
}

/// Whether addresses are where symbols of this image may be.
type Fits<'a> = &'a dyn Fn(&[u64]) -> bool;

/// A segment that may hold the tables. Each table begins at a multiple of [`ALIGNMENT`].
struct Piece<'a> {
    bytes: &'a [u8],
    word: usize,
    order: ByteOrder,
    /// The address at which the kernel sees it, if that is known.
    start: Option<u64>,
    /// Shared by all pieces of an image.
    budget: &'a Budget,
}

/// The symbols of a piece.
struct Found {
    entries: Vec<Entry>,
    /// Their addresses count from the start of the piece.
    are_distances: bool,
}

/// What each byte of a compressed name stands for.
struct Tokens<'a> {
    start: usize,
    /// Where the table of their places ends, behind them.
    end: usize,
    text: Vec<&'a [u8]>,
}

/// The compressed names.
struct Names<'a> {
    /// Where their number stands.
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

    /// The table of tokens whose digits stand here.
    fn tokens(&self, digits: usize) -> Result<Option<Tokens<'a>>, Spent> {
        let mut at = digits;
        for _ in usize::from(b'0')..TOKENS {
            let Some(text) = self.string(at) else { return Ok(None) };
            self.budget.charge(text.len() as u64 / STRING_BYTES_A_STEP + 1)?;
            at += text.len() + 1;
        }
        Ok([ALIGNMENT, self.word].iter().find_map(|to| self.tokens_by_index(digits, at.next_multiple_of(*to))))
    }

    /// The tokens whose places stand in a table here.
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

    /// Going back from the tokens: a number of names, so many names behind it, and the markers that belong to them.
    ///
    /// A zero follows the last name, for the first marker is 0. So from the right place exactly so many names can be
    /// read as the number says, and only such places are looked at closer.
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

    /// What may be the number of the names that begin at `start`, and where that stands: 32 bits, with padding up to a
    /// word behind them in most releases, or a word until 4.19.
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

    /// So many names from here on, if their markers stand behind them.
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

    /// Where a name's tokens stand: behind a length in one byte or, from 128 on, in two (6.1).
    fn name(&self, at: usize, before: usize) -> Option<Range<usize>> {
        let low = usize::from(*self.bytes.get(at)?);
        let (start, length) = match low & 0x80 {
            0 => (at + 1, low),
            _ => (at + 2, low & 0x7f | usize::from(*self.bytes.get(at + 1)?) << 7),
        };
        Some(start..start + length).filter(|name| length > 0 && name.end <= before && name.end <= self.bytes.len())
    }

    /// Markers are words up to 4.20, 32-bit numbers since.
    fn has_markers(&self, at: usize, markers: &[usize]) -> bool {
        [MARKER, self.word].into_iter().any(|size| {
            let is = |(number, marker): (usize, &usize)| self.number(at + number * size, size) == Some(*marker as u64);
            markers.iter().enumerate().all(is)
        })
    }

    /// A zero-terminated string; tokens are never longer than names.
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

/// The first letter is the one that `nm` shows.
fn entry(compressed: &[u8], tokens: &Tokens<'_>, address: u64, budget: &Budget) -> Result<Option<Entry>, Spent> {
    const LONG: usize = 64;
    let mut text = Vec::with_capacity(LONG);
    for token in compressed {
        let Some(token) = tokens.text.get(usize::from(*token)) else { return Ok(None) };
        budget.charge(token.len() as u64 + 1)?;
        text.extend_from_slice(token);
    }
    let Ok(text) = String::from_utf8(text) else { return Ok(None) };
    let mut letters = text.chars();
    let kind = letters.next();
    Ok(kind.map(|kind| Entry { address, kind, name: letters.as_str().into(), module: None }))
}

#[cfg(test)]
mod tests;
