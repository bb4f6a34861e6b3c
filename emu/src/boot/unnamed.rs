//! Tables that no symbol and no section names, found by what is in them.
//!
//! A kernel without CONFIG_KALLSYMS_ALL keeps no name for its data, and these tables stand in the middle of larger sections. Each row
//! points at code with certain bytes, and rows stand one behind the other: the longest run of such rows is the table.
//! Formats and the bytes at the sites: Linux 4.19 to 6.12, arch/x86 (jump_label.h, static_call_types.h, nops.h); spec/core.md 10.

use super::{Kernel, Segment};
use crate::symbols::Symbols;
use std::ops::Range;

/// Fewer rows may stand together by chance.
const FEWEST_ROWS: usize = 16;

/// What a site may begin with: a call, jumps, and the nops that are written over these.
const CALL: &[&[u8]] = &[&[0xe8]];
const JUMPS: &[&[u8]] = &[&[0xe9], &[0xeb]];
#[rustfmt::skip]
const NOPS: &[&[u8]] = &[&[0x0f, 0x1f, 0x44, 0, 0], &[0x3e, 0x8d, 0x74, 0x26, 0], &[0x66, 0x66, 0x66, 0x66, 0x90], &[0x66, 0x90]];

/// Looks through an image.
pub struct Finder<'a> {
    kernel: &'a Kernel,
    symbols: &'a Symbols,
    word: usize,
    code: Vec<Range<u64>>,
}

impl<'a> Finder<'a> {
    /// Of this kernel, whose code lies in these ranges.
    pub fn new(kernel: &'a Kernel, symbols: &'a Symbols, code: Vec<Range<u64>>) -> Finder<'a> {
        Finder { kernel, symbols, word: kernel.arch.isa().word, code }
    }

    /// Words that point at calls of `__fentry__` or the nops instead of them.
    pub fn ftrace_sites(&self) -> Option<Range<u64>> {
        self.longest(self.word, self.word, |_, row| self.absolute(row).is_some_and(|site| self.begins(site, &[CALL, NOPS])))
    }

    /// Rows of a jump or nop, its target and its key.
    pub fn jump_labels(&self) -> Option<Range<u64>> {
        self.longest(8 + self.word, self.word, |at, row| {
            let site = self.relative(at, row, 0).is_some_and(|site| self.begins(site, &[JUMPS, NOPS]));
            let target = || self.relative(at, row, 4).is_some_and(|target| self.is_code(target));
            let key = || {
                const FLAGS: u64 = 3;
                let distance = signed(row.get(8..8 + self.word)?)?;
                let key = (at + 8).wrapping_add_signed(distance) & self.mask() & !FLAGS;
                Some(self.kernel.segments.iter().any(|segment| segment.range().contains(&key)) && !self.is_code(key))
            };
            site && target() && key() == Some(true)
        })
    }

    /// Rows of a call or jump to a static call's trampoline, and its key.
    pub fn static_calls(&self) -> Option<Range<u64>> {
        const BRANCH: u64 = 5;
        self.longest(8, 4, |at, row| {
            let goes_to_one = |site: u64| {
                let mut bytes = [0; BRANCH as usize];
                self.kernel.read(site, &mut bytes).ok()?;
                let distance = signed(&bytes[1..])?;
                let target = site.wrapping_add(BRANCH).wrapping_add_signed(distance) & self.mask();
                let name = self.symbols.containing(target).filter(|symbol| symbol.start == target)?.name;
                Some(matches!(bytes[0], 0xe8 | 0xe9) && name.starts_with("__SCT__"))
            };
            self.relative(at, row, 0).filter(|site| self.is_code(*site)).and_then(goes_to_one) == Some(true)
        })
    }

    /// Words that point at functions, among these one that is never missing.
    pub fn kprobe_blacklist(&self) -> Option<Range<u64>> {
        let member = self.symbols.address_of("get_kprobe")?;
        let is_function = |address: u64| {
            self.is_code(address) && self.symbols.containing(address).is_some_and(|symbol| symbol.start == address)
        };
        let found = self.runs(self.word, self.word, |_, row| self.absolute(row).is_some_and(is_function));
        let holds = |range: &Range<u64>| {
            let bytes = self.kernel.held(range).unwrap_or_default();
            bytes.chunks_exact(self.word).any(|row| self.absolute(row) == Some(member))
        };
        // The functions that ftrace knows stand behind one another too.
        let traced = self.ftrace_sites().unwrap_or(0..0);
        let found = found.into_iter().filter(|range| !traced.contains(&range.start));
        let mut table = found.filter(holds).max_by_key(|range| range.end - range.start)?;
        // The list of functions that may be made to fail comes next, a kind behind each: its first function is none of ours.
        const KINDS_OF_FAILURE: Range<u64> = 1..8;
        let next = self.kernel.held(&(table.end..table.end + self.word as u64)).and_then(|word| self.absolute(word));
        if next.is_some_and(|kind| KINDS_OF_FAILURE.contains(&kind)) {
            table.end -= self.word as u64;
        }
        Some(table)
    }

    fn longest(&self, size: usize, step: usize, is_row: impl Fn(u64, &[u8]) -> bool) -> Option<Range<u64>> {
        let runs = self.runs(size, step, is_row);
        let longest = runs.into_iter().max_by_key(|range| range.end - range.start)?;
        (longest.end - longest.start >= (FEWEST_ROWS * size) as u64).then_some(longest)
    }

    /// All runs of such rows.
    fn runs(&self, size: usize, step: usize, is_row: impl Fn(u64, &[u8]) -> bool) -> Vec<Range<u64>> {
        let mut runs = Vec::new();
        for Segment { virtual_address, bytes, .. } in &self.kernel.segments {
            let row_at = |at: usize| {
                let row = bytes.get(at..at + size);
                row.is_some_and(|row| is_row(virtual_address.wrapping_add(at as u64), row))
            };
            let mut at = 0;
            while at + size <= bytes.len() {
                let mut end = at;
                while row_at(end) {
                    end += size;
                }
                if end > at {
                    runs.push(virtual_address + at as u64..virtual_address + end as u64);
                }
                at = end.max(at + step);
            }
        }
        runs
    }

    fn begins(&self, site: u64, kinds: &[&[&[u8]]]) -> bool {
        let mut bytes = [0; 5];
        self.is_code(site)
            && self.kernel.read(site, &mut bytes).is_ok()
            && kinds.iter().copied().flatten().any(|start| bytes.starts_with(start))
    }

    fn is_code(&self, address: u64) -> bool {
        self.code.iter().any(|range| range.contains(&address))
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.word * 8)
    }

    /// The address that a 32-bit distance from itself stands for.
    fn relative(&self, at: u64, row: &[u8], offset: usize) -> Option<u64> {
        let distance = signed(row.get(offset..offset + 4)?)?;
        Some((at + offset as u64).wrapping_add_signed(distance) & self.mask())
    }

    fn absolute(&self, row: &[u8]) -> Option<u64> {
        signed(row.get(..self.word)?).map(|value| value as u64 & self.mask())
    }
}

/// A number of 4 or 8 bytes.
fn signed(bytes: &[u8]) -> Option<i64> {
    match bytes.len() {
        4 => bytes.try_into().ok().map(|bytes| i32::from_le_bytes(bytes).into()),
        _ => bytes.try_into().ok().map(i64::from_le_bytes),
    }
}
