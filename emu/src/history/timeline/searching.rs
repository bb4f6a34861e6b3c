//! Looking for breakpoints and accesses on a timeline, forwards and backwards.

use super::{Reached, Seen, Timeline, TimelineError};
use crate::clock::Ticks;
use crate::machine::Place;
use std::collections::BTreeSet;
use trapline_probes::watch::Area;

/// An access or a breakpoint that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The place of a breakpoint.
    Break(Place),
    /// An access to watched memory.
    Access(Seen),
}

impl Found {
    /// The place of the instruction that has reached the breakpoint or made the access.
    pub fn place(&self) -> Place {
        match self {
            Found::Break(place) => *place,
            Found::Access(seen) => seen.place,
        }
    }
}

/// The end of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Something was found. Forwards the timeline stands at the breakpoint, or behind the access; backwards in front of it.
    Found(Found),
    /// The caller did not want to go on.
    Given,
    /// The start of the timeline.
    Start,
    /// The end of the recorded run, or of the guest's own.
    End(Reached),
}

/// Ticks of virtual time after which the caller is asked again whether to continue the search.
const SLICE: Ticks = 4_000_000;

impl Timeline {
    /// Sets the addresses at which a search stops. They replace the earlier ones.
    pub fn set_breaks(&mut self, breaks: BTreeSet<u64>) {
        self.stop_at(|stops| stops.breaks = breaks);
    }

    /// Sets the watched memory.
    pub fn set_areas(&mut self, areas: Vec<Area>) {
        self.machine.watch(&areas);
        self.areas = areas;
    }

    /// The watched memory.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// Runs on to the next breakpoint or access.
    pub fn forward(&mut self, mut goes_on: impl FnMut() -> bool) -> Result<Ended, TimelineError> {
        self.return_to_grid()?;
        let most = if self.areas.is_empty() { 0 } else { 1 };
        self.machine.parts().0.start(most, true);
        self.stop_at(|stops| (stops.each, stops.only_notes) = (false, false));
        let begun = self.saved[self.passed].number;
        loop {
            let reached = self.advance(self.machine.time().saturating_add(SLICE))?;
            let seen = self.machine.parts().0.take().pop_front();
            if let Some(seen) = seen {
                self.last_up_to(seen.place)?;
                self.step()?;
                return Ok(Ended::Found(Found::Access(seen)));
            }
            self.note_passed(begun);
            match reached {
                Reached::Place => return Ok(Ended::Found(Found::Break(self.place()))),
                Reached::End | Reached::Ended(_) => return Ok(Ended::End(reached)),
                Reached::Limit | Reached::Access => {}
            }
            if !goes_on() {
                return Ok(Ended::Given);
            }
        }
    }

    /// Goes back to the last breakpoint or access in front of the present place.
    pub fn backward(&mut self, mut goes_on: impl FnMut() -> bool) -> Result<Ended, TimelineError> {
        let here = self.place();
        let mut upper = here;
        let first = self.saved.iter().rposition(|saved| here.is_behind(&saved.place)).unwrap_or(0);
        for from in (0..=first).rev() {
            let is_whole = self.saved.get(from + 1).is_some_and(|next| next.place == upper);
            if is_whole && self.is_searched(from) {
                upper = self.saved[from].place;
                continue;
            }
            if let Some(found) = self.last_in(from, &upper, 1)?.pop() {
                self.last_up_to(found.place())?;
                return Ok(Ended::Found(found));
            }
            if is_whole {
                self.note_searched(from..=from);
            }
            upper = self.saved[from].place;
            if from > 0 && !goes_on() {
                self.go_to_checkpoint(from)?;
                return Ok(Ended::Given);
            }
        }
        self.go_to_checkpoint(0)?;
        Ok(Ended::Start)
    }

    /// The last writes to some bytes in front of a place, the last one at the end. The timeline may stand somewhere else
    /// afterwards.
    pub fn last_writes(&mut self, area: Area, before: Place, most: usize) -> Result<Vec<Seen>, TimelineError> {
        self.last_writes_since(area, None, before, most)
    }

    /// Like [`Timeline::last_writes`], and does not look at checkpoints that lie in front of `since`. Writes a little in front
    /// of it may be among the answers.
    pub fn last_writes_since(
        &mut self,
        area: Area,
        since: Option<Place>,
        before: Place,
        most: usize,
    ) -> Result<Vec<Seen>, TimelineError> {
        let (breaks, areas) = (self.stops.breaks.clone(), self.areas.clone());
        self.set_breaks(BTreeSet::new());
        self.set_areas(vec![Area { reads: false, writes: true, ..area }]);
        let found = self.writes(since, before, most);
        self.set_areas(areas);
        self.set_breaks(breaks);
        found
    }

    /// The last write to some bytes in front of a place.
    pub fn last_write(&mut self, area: Area, before: Place) -> Result<Option<Seen>, TimelineError> {
        Ok(self.last_writes(area, before, 1)?.pop())
    }

    fn writes(&mut self, since: Option<Place>, before: Place, most: usize) -> Result<Vec<Seen>, TimelineError> {
        let (mut upper, mut writes) = (before, Vec::new());
        let first = self.saved.iter().rposition(|saved| before.is_behind(&saved.place)).unwrap_or(0);
        for from in (0..=first).rev() {
            if self.may_be_written(from) {
                let found = self.last_in(from, &upper, most - writes.len())?;
                let found = found.into_iter().filter_map(|found| match found {
                    Found::Access(seen) => Some(seen),
                    Found::Break(_) => None,
                });
                writes.splice(0..0, found);
            }
            upper = self.saved[from].place;
            if writes.len() >= most || since.is_some_and(|since| !upper.is_behind(&since)) {
                break;
            }
        }
        Ok(writes)
    }

    /// Whether the watched memory may have been written between a checkpoint and the next one.
    fn may_be_written(&mut self, from: usize) -> bool {
        let Some(next) = self.saved.get(from + 1) else { return true };
        let base = self.machine.ram().base();
        let page_of = |physical: u64| (physical.wrapping_sub(base) / super::super::pages::PAGE as u64) as u32;
        // An address may have been mapped to another page then; only physical ones are known for sure.
        self.areas.iter().any(|area| {
            !area.physical || {
                let (first, last) = (page_of(area.start), page_of(area.start.saturating_add(area.len - 1)));
                let at = next.written.partition_point(|page| *page < first);
                next.written.get(at).is_some_and(|page| *page <= last)
            }
        })
    }

    /// The last breakpoints and accesses between a checkpoint and a place behind it, the last one at the end. At most one
    /// breakpoint is among them.
    pub(super) fn last_in(&mut self, from: usize, upper: &Place, most: usize) -> Result<Vec<Found>, TimelineError> {
        self.go_to_checkpoint(from)?;
        let start = self.place();
        let is_awake = self.machine.clocks().get(start.cpu).is_some_and(Option::is_some);
        let mut passed = Some(start).filter(|start| is_awake && self.stops.breaks.contains(&start.pc));
        let is_to_the_end = self.saved.get(from + 1).is_some_and(|next| next.place == *upper);
        self.stop_at(|stops| (stops.each, stops.only_notes) = (false, true));
        self.machine.parts().0.start(most, false);
        self.machine.take_passed();
        if is_to_the_end {
            while self.passed == from {
                let limit = self.next_due();
                self.advance(limit)?;
            }
        } else {
            self.run_close_to(from, upper, most)?;
            passed = self.machine.take_passed().or(passed);
            self.stop_at(|stops| (stops.each, stops.only_notes) = (true, true));
            loop {
                let here = self.place();
                if here == *upper || here.is_behind(upper) {
                    break;
                }
                if self.stops.breaks.contains(&here.pc) {
                    passed = Some(here);
                }
                if self.advance(Ticks::MAX)?.is_end() {
                    break;
                }
            }
        }
        let passed = self.machine.take_passed().or(passed).filter(|place| place != upper);
        let mut found: Vec<Found> = self.machine.parts().0.take().into_iter().map(Found::Access).collect();
        if let Some(place) = passed {
            let at = found.partition_point(|other| !other.place().is_behind(&place));
            found.insert(at, Found::Break(place));
        }
        Ok(found)
    }

    /// Goes close to a place like `approach`, and keeps the last breakpoints and accesses on the way.
    fn run_close_to(&mut self, from: usize, place: &Place, most: usize) -> Result<(), TimelineError> {
        let mut slack = self.slack();
        loop {
            let limit = place.ticks.saturating_sub(slack);
            if limit <= self.place().ticks {
                return Ok(());
            }
            self.advance(limit)?;
            let here = self.place();
            if place.is_behind(&here) {
                return Ok(());
            }
            self.go_to_checkpoint(from)?;
            self.machine.parts().0.start(most, false);
            self.machine.take_passed();
            slack = slack.saturating_mul(8);
        }
    }
}
