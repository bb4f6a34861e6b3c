//! Remembers the sets of breakpoints and watched memory that were searched already. A stretch between two checkpoints
//! in which nothing was found is not searched again.

use super::Timeline;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use trapline_probes::watch::Area;

/// The most sets that are remembered. gdb sets few.
const MOST: usize = 64;

/// The sets, by their numbers.
#[derive(Default)]
pub(super) struct Sets {
    all: Vec<(u32, BTreeSet<u64>, Vec<Area>)>,
    next: u32,
}

impl Sets {
    /// The number of a set.
    fn number(&mut self, breaks: &BTreeSet<u64>, areas: &[Area]) -> u32 {
        let known = self.all.iter().find(|(_, known, known_areas)| known == breaks && known_areas == areas);
        if let Some((number, ..)) = known {
            return *number;
        }
        if self.all.len() == MOST {
            self.all.remove(0);
        }
        self.next = self.next.wrapping_add(1);
        self.all.push((self.next, breaks.clone(), areas.to_vec()));
        self.next
    }

    /// Whether a set that was looked for has all of these.
    fn has(&self, number: u32, breaks: &BTreeSet<u64>, areas: &[Area]) -> bool {
        let has_all = |(_, known, known_areas): &(u32, BTreeSet<u64>, Vec<Area>)| {
            breaks.is_subset(known) && areas.iter().all(|area| known_areas.contains(area))
        };
        self.all.iter().find(|(known, ..)| *known == number).is_some_and(has_all)
    }
}

impl Timeline {
    /// Whether a search has shown that the present set does not occur between this checkpoint and the next one.
    pub(super) fn is_searched(&self, from: usize) -> bool {
        let searched = self.saved.get(from).map(|saved| &saved.searched[..]).unwrap_or_default();
        searched.iter().any(|number| self.sets.has(*number, &self.stops.breaks, &self.areas))
    }

    /// Remembers that the present set does not occur in the stretches behind these checkpoints.
    pub(super) fn note_searched(&mut self, stretches: RangeInclusive<usize>) {
        let number = self.sets.number(&self.stops.breaks, &self.areas);
        let stretches = self.saved.iter_mut().take(stretches.end() + 1).skip(*stretches.start());
        for saved in stretches.filter(|saved| !saved.searched.contains(&number)) {
            if saved.searched.len() == MOST {
                saved.searched.remove(0);
            }
            saved.searched.push(number);
        }
    }

    /// Remembers the same of the stretches that a run forwards has passed without a stop. It began behind the checkpoint of this
    /// number.
    pub(super) fn note_passed(&mut self, begun: u32) {
        let first = self.saved.partition_point(|saved| saved.number <= begun);
        if first < self.passed {
            self.note_searched(first..=self.passed - 1);
        }
    }
}
