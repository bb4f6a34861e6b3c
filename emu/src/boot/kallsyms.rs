//! Symbols out of a stripped image: the tables from which the kernel itself prints names (kallsyms).
//!
//! The tables have no header. What gives them away is the table of tokens, in which the digits stand one behind the
//! other; from there the others are found by their places, and every guess is proved by decoding. Layouts
//! (scripts/kallsyms.c): 4.19 to 6.3 keep the addresses in front of the names, 6.4 and later behind the tokens.

use super::Kernel;
use crate::symbols::{Entry, Symbols};
use memchr::memmem;
use trapline_isa::mem::ByteOrder;

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

/// The symbols in an image's own tables, in their order; `None` if it has none (CONFIG_KALLSYMS off, or a layout
/// unknown here).
pub fn find(kernel: &Kernel) -> Option<Symbols> {
    let (word, order) = (kernel.arch.isa().word, kernel.arch.isa().order);
    let fits = |addresses: &[u64]| {
        let inside = |address: &&u64| kernel.segments.iter().any(|segment| segment.range().contains(*address));
        addresses.iter().filter(inside).count() * 2 > addresses.len()
    };
    let entries = kernel.segments.iter().find_map(|segment| Piece { bytes: &segment.bytes, word, order }.tables(&fits))?;
    Some(Symbols::in_table_order(entries))
}

/// The symbols of an image in one piece that does not say where it is linked: most lie close to each other.
pub fn find_raw(bytes: &[u8], word: usize, order: ByteOrder) -> Option<Symbols> {
    let fits = |addresses: &[u64]| {
        let middle = addresses.get(addresses.len() / 2).copied().unwrap_or(0);
        let near = |address: &&u64| address.abs_diff(middle) < bytes.len() as u64;
        addresses.iter().filter(near).count() * 2 > addresses.len()
    };
    Some(Symbols::in_table_order(Piece { bytes, word, order }.tables(&fits)?))
}

/// Whether addresses are where symbols of this image may be.
type Fits<'a> = &'a dyn Fn(&[u64]) -> bool;

/// A segment that may hold the tables. Each table begins at a multiple of a word.
struct Piece<'a> {
    bytes: &'a [u8],
    word: usize,
    order: ByteOrder,
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
    fn tables(&self, fits: Fits<'_>) -> Option<Vec<Entry>> {
        let mut from = 0;
        while let Some(at) = memmem::find(self.bytes.get(from..)?, DIGITS) {
            if let Some(entries) = self.symbols(from + at, fits) {
                return Some(entries);
            }
            from += at + 1;
        }
        None
    }

    fn symbols(&self, digits: usize, fits: Fits<'_>) -> Option<Vec<Entry>> {
        let tokens = self.tokens(digits)?;
        let names = self.names(tokens.start)?;
        let addresses = self.addresses(&tokens, &names, fits)?;
        names.compressed.iter().zip(addresses).map(|(name, address)| entry(name, &tokens, address)).collect()
    }

    fn tokens(&self, digits: usize) -> Option<Tokens<'a>> {
        let mut at = digits;
        for _ in usize::from(b'0')..TOKENS {
            at += self.string(at)?.len() + 1;
        }
        let index = self.aligned(at);
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
    fn names(&self, tokens: usize) -> Option<Names<'a>> {
        let first = tokens / self.word * self.word;
        let last = first.saturating_sub(MOST_NAME_BYTES);
        (last..first).rev().step_by(self.word).map(|at| at / self.word * self.word).find_map(|count_at| {
            let word = self.number(count_at, self.word)?;
            // It has 32 bits, and padding behind it; until 4.19 it was a word.
            let is_padded = self.word == 8 && self.order == ByteOrder::Big && word as u32 == 0;
            let count = usize::try_from(if is_padded { word >> 32 } else { word }).ok()?;
            let plausible = (1..=MOST_SYMBOLS).contains(&count) && 2 * count <= tokens - count_at;
            if !plausible {
                return None;
            }
            let start = count_at + self.word;
            let mut at = start;
            let mut compressed = Vec::new();
            let mut markers = Vec::with_capacity(count.div_ceil(NAMES_A_MARKER));
            for number in 0..count {
                if number % NAMES_A_MARKER == 0 {
                    markers.push(at - start);
                }
                let name = self.name(&mut at, tokens)?;
                compressed.push(name);
            }
            let found = [self.word, MARKER].iter().any(|to| self.has_markers(at.next_multiple_of(*to), &markers));
            found.then_some(Names { count_at, compressed })
        })
    }

    /// A length in one byte or, from 128 on, in two (6.1); then so many tokens.
    fn name(&self, at: &mut usize, before: usize) -> Option<&'a [u8]> {
        let low = usize::from(*self.bytes.get(*at)?);
        *at += 1;
        let mut length = low;
        if low & 0x80 != 0 {
            length = low & 0x7f | usize::from(*self.bytes.get(*at)?) << 7;
            *at += 1;
        }
        let name = self.bytes.get(*at..*at + length).filter(|_| length > 0 && *at + length <= before)?;
        *at += length;
        Some(name)
    }

    /// Markers are words up to 4.20, 32-bit numbers since.
    fn has_markers(&self, at: usize, markers: &[usize]) -> bool {
        [MARKER, self.word].into_iter().any(|size| {
            let is = |(number, marker): (usize, &usize)| self.number(at + number * size, size) == Some(*marker as u64);
            markers.iter().enumerate().all(is)
        })
    }

    /// The first way of reading them by which they rise and fit.
    fn addresses(&self, tokens: &Tokens<'_>, names: &Names<'_>, fits: Fits<'_>) -> Option<Vec<u64>> {
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
        relative.chain(words).filter_map(all).find(|addresses| addresses.is_sorted() && fits(addresses))
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
fn entry(compressed: &[u8], tokens: &Tokens<'_>, address: u64) -> Option<Entry> {
    const LONG: usize = 64;
    let mut text = Vec::with_capacity(LONG);
    for token in compressed {
        text.extend_from_slice(tokens.text.get(usize::from(*token))?);
    }
    let text = String::from_utf8(text).ok()?;
    let mut letters = text.chars();
    let kind = letters.next()?;
    Some(Entry { address, kind, name: letters.as_str().into(), module: None })
}

#[cfg(test)]
mod tests;
