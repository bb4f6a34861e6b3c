//! Ranges of code: of an entry, and of all units, by which the unit of an address is found.

use super::error::Answer;
use super::units::{Bytes, Entry, Info, Unit};
use gimli::{AttributeValue, UnitHeader, constants as c};
use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

/// The largest number of overlapping ranges that are tried for an address. Those of a sane file do not overlap.
const MOST_OVERLAPPING: usize = 8;

impl<'a> Info<'a> {
    /// The addresses of an entry's code. Empty for an entry without code, and for ranges that wrap around.
    pub(super) fn ranges_of(&self, unit: &Unit<'a>, entry: &Entry<'a>) -> Answer<Vec<Range<u64>>> {
        let reference = self.reference(unit);
        let mut ranges = Vec::new();
        if let Some(value) = entry.attr_value(c::DW_AT_ranges)
            && let Some(mut list) = reference.attr_ranges(value)?
        {
            while let Some(range) = list.next()? {
                self.charge(1)?;
                ranges.push(range.begin..range.end);
            }
        } else if let (Some(low), Some(high)) = (entry.attr_value(c::DW_AT_low_pc), entry.attr_value(c::DW_AT_high_pc))
            && let Some(low) = reference.attr_address(low)?
        {
            // gimli's own sum of the two panics if it overflows.
            let end = match high {
                AttributeValue::Udata(size) => low.checked_add(size),
                high => reference.attr_address(high)?,
            };
            ranges.extend(end.map(|end| low..end));
        }
        // Code that the linker dropped begins at 0.
        ranges.retain(|range| range.start < range.end && range.start != 0);
        Ok(ranges)
    }

    /// The unit whose code is at an address.
    pub(super) fn unit_at(&self, address: u64) -> Answer<Option<Rc<Unit<'a>>>> {
        let ranges = match self.ranges.get() {
            Some(ranges) => ranges,
            None => {
                let found = self.find_ranges()?;
                self.ranges.get_or_init(|| found)
            }
        };
        let behind = ranges.partition_point(|(range, _)| range.start <= address);
        let found = ranges[..behind].iter().rev().take(MOST_OVERLAPPING).find(|(range, _)| range.contains(&address));
        found.map(|(_, unit)| self.unit(*unit)).transpose()
    }

    /// The ranges of all units: by `.debug_aranges`, and by the units themselves where that has none.
    fn find_ranges(&self) -> Answer<Vec<(Range<u64>, u32)>> {
        let (mut ranges, mut known) = (Vec::new(), HashSet::new());
        let mut headers = self.dwarf.debug_aranges.headers();
        while let Some(header) = headers.next()? {
            let Some(unit) = self.unit_of(header.debug_info_offset().0) else { continue };
            let mut entries = header.entries();
            while let Some(entry) = entries.next()? {
                self.charge(1)?;
                if entry.length() != 0 {
                    known.insert(unit);
                    ranges.push((entry.address()..entry.address().saturating_add(entry.length()), unit));
                }
            }
        }
        for number in 0..self.units() as u32 {
            if known.contains(&number) {
                continue;
            }
            let unit = self.unit(number)?;
            let mut entries = unit.unit.entries();
            if let Some(root) = entries.next_dfs()? {
                ranges.extend(self.ranges_of(&unit, root)?.into_iter().map(|range| (range, number)));
            }
        }
        ranges.sort_by_key(|(range, unit)| (range.start, *unit));
        Ok(ranges)
    }

    /// The number of the unit that holds an offset of `.debug_info`.
    pub(super) fn unit_of(&self, offset: usize) -> Option<u32> {
        let start = |header: &UnitHeader<Bytes<'a>>| header.debug_info_offset().map_or(0, |offset| offset.0);
        let number = self.headers.partition_point(|header| start(header) <= offset).checked_sub(1)?;
        let header = self.headers.get(number)?;
        (offset.checked_sub(start(header))? < header.length_including_self()).then_some(number as u32)
    }
}
