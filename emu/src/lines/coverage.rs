//! Source lines that ran, from the addresses that ran.

use super::error::Answer;
use super::units::{Info, Place, Unit};
use crate::outputs::lcov::FileLines;
use gimli::constants as c;
use std::collections::BTreeMap;
use std::ops::Range;

/// The code that ran: sorted ranges that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    ranges: Vec<Range<u64>>,
}

impl Ran {
    /// The code of blocks: the start and the length of each, sorted by start.
    pub fn new(blocks: impl IntoIterator<Item = (u64, u32)>) -> Ran {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (start, len) in blocks {
            let end = start.saturating_add(len.into());
            match ranges.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(end),
                _ => ranges.push(start..end),
            }
        }
        Ran { ranges }
    }

    /// Whether some code of the range ran.
    pub fn some_of(&self, range: &Range<u64>) -> bool {
        let at = self.ranges.partition_point(|ran| ran.end <= range.start);
        self.ranges.get(at).is_some_and(|ran| ran.start < range.end)
    }

    /// Whether the instruction at the address ran.
    pub fn holds(&self, address: u64) -> bool {
        self.some_of(&(address..address.saturating_add(1)))
    }
}

impl Info<'_> {
    /// The lines of all source files with a line that ran, by file. A line of a header counts where it is written, in
    /// whatever function it was inlined.
    pub fn coverage(&self, ran: &Ran) -> Answer<BTreeMap<String, FileLines>> {
        self.begin();
        let mut files: BTreeMap<String, FileLines> = BTreeMap::new();
        for number in 0..self.units() as u32 {
            let unit = self.unit(number)?;
            let rows = self.rows(&unit)?;
            let mut some = false;
            // The lines of each file of this unit, by the file's number.
            let mut lines: BTreeMap<u32, BTreeMap<u32, bool>> = BTreeMap::new();
            for row in rows.rows.iter().filter(|row| row.is_statement && !row.is_end && row.line != 0) {
                self.charge(1)?;
                let hit = ran.holds(row.address);
                some |= hit;
                *lines.entry(row.file).or_default().entry(row.line).or_default() |= hit;
            }
            for (file, lines) in lines {
                let all = &mut files.entry(rows.file(file).to_string()).or_default().lines;
                for (line, hit) in lines {
                    *all.entry(line).or_default() |= hit;
                }
            }
            if some {
                self.functions_that_ran(&unit, ran, &mut files)?;
            }
        }
        files.retain(|_, file| file.ran() > 0);
        Ok(files)
    }

    /// Adds the functions of a unit that have code of their own.
    fn functions_that_ran(&self, unit: &Unit<'_>, ran: &Ran, files: &mut BTreeMap<String, FileLines>) -> Answer<()> {
        let unit = self.unit(unit.number)?;
        let mut entries = unit.unit.entries();
        if entries.next_dfs()?.is_none() || entries.next_dfs()?.is_none() {
            return Ok(());
        }
        while let Some(entry) = entries.current() {
            self.charge(1)?;
            if entry.tag() == c::DW_TAG_subprogram {
                let ranges = self.ranges_of(&unit, entry)?;
                let place = Place { unit: unit.number, at: entry.offset().0 };
                if !ranges.is_empty()
                    && let Some((file, line)) = self.declared(place)?
                {
                    let hit = ranges.iter().any(|range| ran.some_of(range));
                    let functions = &mut files.entry(file.to_string()).or_default().functions;
                    let known = functions.entry(self.name(place)?).or_insert((line, false));
                    known.1 |= hit;
                }
            }
            if entries.next_sibling()?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LV-6: blocks that touch or overlap are one range, and only their own addresses ran.
    #[test]
    fn addresses_of_blocks_ran_and_no_others() {
        let ran = Ran::new([(0x100, 8), (0x104, 2), (0x108, 4), (0x200, 1), (u64::MAX - 1, 9)]);
        let ranges = [0x100..0x10c, 0x200..0x201, u64::MAX - 1..u64::MAX];
        assert_eq!(ran.ranges, ranges);
        for (address, expected) in [(0xff, false), (0x100, true), (0x10b, true), (0x10c, false), (0x200, true), (0x201, false)] {
            assert_eq!(ran.holds(address), expected, "{address:#x}");
        }
        assert!(ran.some_of(&(0x10c..0x201)) && !ran.some_of(&(0x10c..0x200)));
    }
}
