//! Symbols out of a stripped image: the tables from which the kernel itself prints names (kallsyms).
//!
//! The tables have no header. What gives them away is the table of tokens, in which the digits stand one behind the
//! other; from there the others are found by their places, and every guess is proved by decoding. Layouts
//! (scripts/kallsyms.c): 4.19 to 6.3 keep the addresses in front of the names, 6.4 and later behind the tokens.

mod chains;

use super::Kernel;
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
        if let Some(entries) = (Piece { bytes: &segment.bytes, word, order, budget }).tables(&fits)? {
            return Ok(Some(Symbols::in_table_order(entries)));
        }
    }
    Ok(None)
}

/// The symbols of an image in one piece that does not say where it is linked: most lie close to each other.
pub fn find_raw(bytes: &[u8], word: usize, order: ByteOrder) -> Result<Option<Symbols>, BootError> {
    let budget = &Budget::linear(bytes.len(), STEPS_A_BYTE);
    let fits = |addresses: &[u64]| {
        let middle = addresses.get(addresses.len() / 2).copied().unwrap_or(0);
        let near = |address: &&u64| address.abs_diff(middle) < bytes.len() as u64;
        addresses.iter().filter(near).count() * 2 > addresses.len()
    };
    let found = Piece { bytes, word, order, budget }.tables(&fits).map_err(|Spent| TOO_MUCH)?;
    Ok(found.map(Symbols::in_table_order))
}

/// Whether addresses are where symbols of this image may be.
type Fits<'a> = &'a dyn Fn(&[u64]) -> bool;

/// A segment that may hold the tables. Each table begins at a multiple of a word.
struct Piece<'a> {
    bytes: &'a [u8],
    word: usize,
    order: ByteOrder,
    /// Shared by all pieces of an image.
    budget: &'a Budget,
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

/// How the address of a symbol is written.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A word (CONFIG_KALLSYMS_BASE_RELATIVE off).
    Word { table: usize },
    /// 32 bits, to be added to the base.
    Offset { table: usize, base: usize },
    /// 32 bits: a number that is not negative is itself, another is counted down from the base
    /// (CONFIG_KALLSYMS_ABSOLUTE_PERCPU).
    Signed { table: usize, base: usize },
}

impl<'a> Piece<'a> {
    fn tables(&self, fits: Fits<'_>) -> Result<Option<Vec<Entry>>, Spent> {
        for at in memmem::find_iter(self.bytes, DIGITS) {
            let Some(tokens) = self.tokens(at)? else { continue };
            if let Some(entries) = self.symbols(&tokens, fits)? {
                return Ok(Some(entries));
            }
        }
        Ok(None)
    }

    fn symbols(&self, tokens: &Tokens<'_>, fits: Fits<'_>) -> Result<Option<Vec<Entry>>, Spent> {
        let Some(names) = self.names(tokens.start)? else { return Ok(None) };
        let Some(addresses) = self.addresses(tokens, &names, fits)? else { return Ok(None) };
        let mut entries = Vec::with_capacity(names.compressed.len());
        for (name, address) in names.compressed.iter().zip(addresses) {
            let Some(entry) = entry(name, tokens, address, self.budget)? else { return Ok(None) };
            entries.push(entry);
        }
        Ok(Some(entries))
    }

    /// The table of tokens whose digits stand here.
    fn tokens(&self, digits: usize) -> Result<Option<Tokens<'a>>, Spent> {
        let mut at = digits;
        for _ in usize::from(b'0')..TOKENS {
            let Some(text) = self.string(at) else { return Ok(None) };
            self.budget.charge(text.len() as u64 / STRING_BYTES_A_STEP + 1)?;
            at += text.len() + 1;
        }
        Ok(self.tokens_to(digits, at))
    }

    fn tokens_to(&self, digits: usize, end: usize) -> Option<Tokens<'a>> {
        let index = self.aligned(end);
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
        let first = tokens / self.word * self.word;
        let last = first.saturating_sub(MOST_NAME_BYTES);
        let mut chains = Chains::new(tokens, |at| self.name(at, tokens).map(|name| name.end));
        for count_at in (last..first).rev().step_by(self.word).map(|at| at / self.word * self.word) {
            let start = count_at + self.word;
            self.budget.charge(self.word as u64)?;
            let Some(links) = chains.links_from(start) else { continue };
            if self.count(count_at).is_none_or(|count| count != links || count > MOST_SYMBOLS) {
                continue;
            }
            if let Some(compressed) = self.names_with_markers(start, links, tokens)? {
                return Ok(Some(Names { count_at, compressed }));
            }
        }
        Ok(None)
    }

    /// The number of names that stands here: 32 bits, and padding behind it; until 4.19 it was a word.
    fn count(&self, at: usize) -> Option<usize> {
        let word = self.number(at, self.word)?;
        let is_padded = self.word == 8 && self.order == ByteOrder::Big && word as u32 == 0;
        usize::try_from(if is_padded { word >> 32 } else { word }).ok().filter(|count| *count > 0)
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

    /// The first way of reading them by which they rise and fit.
    fn addresses(&self, tokens: &Tokens<'_>, names: &Names<'_>, fits: Fits<'_>) -> Result<Option<Vec<u64>>, Spent> {
        let count = names.compressed.len();
        let offsets = self.aligned(4 * count);
        let behind = self.aligned(tokens.end);
        let base_before = names.count_at.checked_sub(self.word);
        let before = base_before.and_then(|base| Some((base.checked_sub(offsets)?, base)));
        let words_before = names.count_at.checked_sub(count * self.word);
        let pairs = [before, Some((behind, behind + offsets))];
        let relative = pairs.into_iter().flatten();
        let relative = relative.flat_map(|(table, base)| [Form::Offset { table, base }, Form::Signed { table, base }]);
        let words = [words_before, Some(behind)].into_iter().flatten().map(|table| Form::Word { table });
        let all = |form: Form| (0..count).map(|number| self.address(form, number)).collect::<Option<Vec<u64>>>();
        for form in relative.chain(words) {
            self.budget.charge(count as u64)?;
            if let Some(addresses) = all(form).filter(|addresses| addresses.is_sorted() && fits(addresses)) {
                return Ok(Some(addresses));
            }
        }
        Ok(None)
    }

    fn address(&self, form: Form, number: usize) -> Option<u64> {
        let mask = u64::MAX >> (64 - self.word * 8);
        Some(match form {
            Form::Word { table } => self.number(table + number * self.word, self.word)?,
            Form::Offset { table, base } => {
                self.number(base, self.word)?.wrapping_add(self.u32(table + 4 * number)?.into()) & mask
            }
            Form::Signed { table, base } => match self.u32(table + 4 * number)? as i32 {
                value @ 0.. => value as u64,
                value => self.number(base, self.word)?.wrapping_sub(1).wrapping_sub(i64::from(value) as u64) & mask,
            },
        })
    }

    fn aligned(&self, at: usize) -> usize {
        at.next_multiple_of(self.word)
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
