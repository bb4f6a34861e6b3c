//! Going to a place of a timeline: back to a checkpoint, on over the places of the grid, and instruction by instruction.

use super::super::mark::Printed;
use super::super::pages::PAGE;
use super::super::recording::{Frame, Mark};
use super::super::tape::compare;
use super::{INTERVALS, Saved, Seen, Timeline, TimelineError};
use crate::clock::Ticks;
use crate::machine::{Place, Stop, StopsAt};

/// The virtual time in front of a place from which on instructions are stepped. With several CPUs it is longer than their
/// turns.
const SLACK: (Ticks, Ticks) = (4096, 131_072);
/// The most instructions that are looked through one by one.
const MOST_STEPS: u64 = 50_000_000;

/// The reason why a run on a timeline has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The limit of virtual time.
    Limit,
    /// A place that was asked for.
    Place,
    /// The first access to watched memory.
    Access,
    /// The end of the recorded run.
    End,
    /// The guest ended its run, or cannot go on.
    Ended(Stop),
}

impl Reached {
    /// Whether the run cannot go on.
    pub fn is_end(&self) -> bool {
        matches!(self, Reached::End | Reached::Ended(_))
    }
}

impl Timeline {
    /// Executes one instruction, of whichever CPU is next. On CPUs with delay slots a branch and its slot may be one step.
    pub fn step(&mut self) -> Result<Reached, TimelineError> {
        self.notice_nothing();
        self.stop_at(|stops| (stops.each, stops.only_notes) = (true, true));
        self.advance(Ticks::MAX)
    }

    /// Executes one instruction, and returns the first access to watched memory that it has made.
    pub fn step_and_see(&mut self) -> Result<(Reached, Option<Seen>), TimelineError> {
        self.machine.parts().0.start(1, false);
        self.stop_at(|stops| (stops.each, stops.only_notes) = (true, true));
        let reached = self.advance(Ticks::MAX)?;
        Ok((reached, self.machine.parts().0.take().pop_front()))
    }

    /// Goes to a place, or to the last one in front of it if the run does not come to it.
    pub fn go_to_or_before(&mut self, place: Place) -> Result<Place, TimelineError> {
        self.last_up_to(place)
    }

    /// Goes to a place. If the run does not come to it, the answer is an error, and the timeline stands near it.
    pub fn go_to(&mut self, place: Place) -> Result<(), TimelineError> {
        match self.last_up_to(place)? {
            there if there == place => Ok(()),
            _ => Err(TimelineError::NoSuchPlace(place)),
        }
    }

    /// Goes to the first place at this time of the running CPU or later, or to the end.
    pub fn seek(&mut self, ticks: Ticks) -> Result<Reached, TimelineError> {
        self.notice_nothing();
        let is_in_front = |saved: &Saved| saved.place.ticks <= ticks;
        let from = self.saved.iter().rposition(is_in_front).unwrap_or(0);
        if self.place().ticks > ticks || self.passed < from {
            self.go_to_checkpoint(from)?;
        }
        let limit = ticks.saturating_sub(SLACK.1);
        if self.place().ticks < limit {
            self.stop_at(|stops| (stops.each, stops.only_notes) = (false, true));
            let reached = self.advance(limit)?;
            if reached.is_end() {
                return Ok(reached);
            }
        }
        while self.place().ticks < ticks {
            let reached = self.step()?;
            if reached.is_end() {
                return Ok(reached);
            }
        }
        Ok(Reached::Place)
    }

    /// Goes to the last place in front of the present one. Returns false, and stays, at the start.
    pub fn step_back(&mut self) -> Result<bool, TimelineError> {
        self.steps_back(None)
    }

    /// Like [`Timeline::step_back`], to the last place of this CPU. If that had no turn for a long time, another CPU's.
    pub fn step_back_of(&mut self, cpu: usize) -> Result<bool, TimelineError> {
        self.steps_back(Some(cpu))
    }

    fn steps_back(&mut self, cpu: Option<usize>) -> Result<bool, TimelineError> {
        let here = self.place();
        self.wants_near = true;
        let before = self.before_of(here, cpu);
        self.wants_near = false;
        let before = before?;
        self.last_up_to(before.unwrap_or(here))?;
        Ok(before.is_some())
    }

    /// The last place in front of a place; `None` if that is the start. The timeline may stand somewhere else afterwards.
    pub fn before(&mut self, place: Place) -> Result<Option<Place>, TimelineError> {
        self.before_of(place, None)
    }

    fn before_of(&mut self, place: Place, cpu: Option<usize>) -> Result<Option<Place>, TimelineError> {
        if self.start() == place {
            return Ok(None);
        }
        if cpu.is_some() && self.machine.clocks().len() > 1 {
            let from = self.checkpoint_in_front(&place, true);
            for slack in [self.slack(), self.slack() * 16] {
                self.approach(from, &place, slack)?;
                let mut last = None;
                self.step_up_to(&place, cpu, &mut last)?;
                if last.is_some() {
                    return Ok(last);
                }
            }
        }
        let (last, _) = self.walk_to(&place, true)?;
        Ok(Some(last.unwrap_or(self.start())))
    }

    /// Goes to a place, or to the last one in front of it if the run does not come to it. Returns where it has gone.
    pub(super) fn last_up_to(&mut self, place: Place) -> Result<Place, TimelineError> {
        if self.place() == place {
            return Ok(place);
        }
        match self.walk_to(&place, false)? {
            (_, true) => Ok(place),
            (Some(last), false) if self.walk_to(&last, false)?.1 => Ok(last),
            _ => Err(TimelineError::NoSuchPlace(place)),
        }
    }

    /// Goes to a place by steps. Returns the last place in front of it to which a step has led, if it is wanted, and whether the
    /// run comes to the place itself.
    ///
    /// The point from which the steps begin is no such place: a run with a limit also stops where a CPU sleeps, or where another
    /// CPU's turn begins.
    fn walk_to(&mut self, place: &Place, wants_last: bool) -> Result<(Option<Place>, bool), TimelineError> {
        self.notice_nothing();
        let first = self.checkpoint_in_front(place, wants_last);
        let mut is_there = false;
        for from in (0..=first).rev() {
            for slack in [self.slack(), self.slack() * 16, Ticks::MAX] {
                self.approach(from, place, slack)?;
                let mut last = None;
                is_there = self.step_up_to(place, None, &mut last)?;
                if last.is_some() || is_there && !wants_last {
                    return Ok((last, is_there));
                }
            }
        }
        Ok((None, is_there))
    }

    /// The last checkpoint in front of a place, or at it if nothing in front of it is wanted.
    fn checkpoint_in_front(&self, place: &Place, wants_last: bool) -> usize {
        let is_in_front = |saved: &Saved| place.is_behind(&saved.place) || saved.place == *place && !wants_last;
        self.saved.iter().rposition(is_in_front).unwrap_or(0)
    }

    /// Executes instructions up to a place, and notes the last one in front of it, of one CPU if that is given. Returns whether
    /// the run comes to the place.
    fn step_up_to(&mut self, place: &Place, of: Option<usize>, last: &mut Option<Place>) -> Result<bool, TimelineError> {
        for _ in 0..MOST_STEPS {
            let here = self.place();
            if here == *place || here.is_behind(place) {
                return Ok(here == *place);
            }
            if self.step()? != Reached::Place {
                return Ok(false);
            }
            let here = self.place();
            if here != *place && !here.is_behind(place) && of.is_none_or(|cpu| cpu == here.cpu) {
                *last = Some(here);
            }
        }
        Err(TimelineError::NoSuchPlace(*place))
    }

    /// Goes a little in front of a place that lies behind a checkpoint, as fast as possible.
    pub(super) fn approach(&mut self, from: usize, place: &Place, slack: Ticks) -> Result<(), TimelineError> {
        if self.goes_to_near(from, place, slack)? {
            return Ok(());
        }
        let mut slack = slack;
        let mut is_there = slack != Ticks::MAX && self.passed == from && place.is_behind(&self.place());
        loop {
            if !is_there {
                self.go_to_checkpoint(from)?;
            }
            let limit = place.ticks.saturating_sub(slack);
            if limit <= self.place().ticks {
                return Ok(());
            }
            self.stop_at(|stops| (stops.each, stops.only_notes) = (false, true));
            self.advance(limit)?;
            if place.is_behind(&self.place()) {
                self.keep_near();
                return Ok(());
            }
            // A long line of code, or the turns of several CPUs, have led behind it.
            (is_there, slack) = (false, slack.saturating_mul(8));
        }
    }

    /// The length of virtual time in front of a place that is walked instruction by instruction.
    pub(super) fn slack(&self) -> Ticks {
        if self.machine.clocks().len() == 1 { SLACK.0 } else { SLACK.1 }
    }

    /// Runs on to a limit of virtual time. On the way it makes checkpoints on the grid, and types recorded input. It
    /// does not stop at the present place.
    pub(super) fn advance(&mut self, until: Ticks) -> Result<Reached, TimelineError> {
        let left = Some(self.place());
        loop {
            let due = self.next_due();
            let limit = until.min(due).min(self.end);
            let stop = self.machine.run_from(left, limit);
            self.hear();
            match stop {
                Stop::Limit if due <= limit => self.pass(due)?,
                Stop::Limit if self.end <= limit => return Ok(Reached::End),
                Stop::Limit => return Ok(Reached::Limit),
                Stop::Place => return Ok(Reached::Place),
                Stop::Attention => return Ok(Reached::Access),
                stop => return Ok(Reached::Ended(stop)),
            }
        }
    }

    /// Changes the places where the machine stops.
    pub(super) fn stop_at(&mut self, change: impl FnOnce(&mut StopsAt)) {
        let mut stops = self.stops.clone();
        change(&mut stops);
        if stops != self.stops {
            self.machine.stop_at_places(&stops);
            self.stops = stops;
        }
    }

    /// Takes no note of accesses from now on.
    pub(super) fn notice_nothing(&mut self) {
        self.machine.parts().0.start(0, false);
    }

    /// The virtual time of the next recorded frame or checkpoint.
    pub(super) fn next_due(&self) -> Ticks {
        let frame = self.frames.get(self.next_frame).map_or(Ticks::MAX, Frame::at);
        if self.is_recorded { frame } else { frame.min(self.next_grid()) }
    }

    /// The next place of the grid of a run that is not recorded.
    fn next_grid(&self) -> Ticks {
        self.grid + (self.grid.saturating_sub(self.begins) / 4).clamp(INTERVALS.0, INTERVALS.1)
    }

    /// Types the recorded input of this time, compares its marks, and makes a checkpoint if the time lies on the grid. The
    /// machine has stopped there.
    fn pass(&mut self, at: Ticks) -> Result<(), TimelineError> {
        let mut is_grid = !self.is_recorded && at >= self.next_grid();
        while let Some(frame) = self.frames.get(self.next_frame).filter(|frame| frame.at() <= at).cloned() {
            self.next_frame += 1;
            match frame {
                Frame::Typed { keys, .. } => self.machine.console_input(&keys),
                Frame::Ends { .. } => self.machine.console_input_ends(),
                Frame::Mark { mark, .. } => {
                    compare(&mark, &Mark::of(&mut self.machine, &self.printed, true))?;
                    is_grid = true;
                }
                Frame::Asked { .. } | Frame::Came { .. } | Frame::End { .. } => {}
            }
        }
        if is_grid {
            self.grid = at;
            self.pass_grid();
        }
        Ok(())
    }

    /// Makes a checkpoint, or moves on behind the one that was made here before.
    fn pass_grid(&mut self) {
        // A state without names, such as the guest's own single-steps: a later place of the grid will do.
        let Ok(checkpoint) = self.machine.checkpoint() else { return };
        self.is_off_grid = false;
        match self.saved.get(self.passed + 1).map(|next| next.grid) {
            Some(next) if next == self.grid => {
                self.take_written();
                self.written.clear();
                self.passed += 1;
            }
            // The checkpoint of this place was thinned out.
            Some(_) => {}
            None => self.save(checkpoint),
        }
    }

    /// Ensures that the run up to the present place has flushed the TLB only at checkpoints of the grid. Called before
    /// the run continues for good.
    pub(super) fn return_to_grid(&mut self) -> Result<(), TimelineError> {
        if self.is_off_grid {
            let here = self.place();
            self.near = None;
            self.go_to_checkpoint(self.passed)?;
            self.last_up_to(here)?;
        }
        Ok(())
    }

    /// Adds the guest's new console text to the hash, and to the kept text where the timeline has not been before.
    fn hear(&mut self) {
        let console = self.machine.take_console();
        self.printed.add(&console);
        let (start, furthest) = self.printed_bytes;
        let end = start + console.len() as u64;
        let known = furthest.clamp(start, end) - start;
        self.console.extend(console.get(known as usize..).unwrap_or_default());
        self.printed_bytes = (end, furthest.max(end));
    }

    /// Goes to a saved checkpoint, given by its place in the list.
    pub(super) fn go_to_checkpoint(&mut self, to: usize) -> Result<(), TimelineError> {
        self.take_written();
        let between = self.saved.iter().take(self.passed.max(to) + 1).skip(self.passed.min(to) + 1);
        self.written.extend(between.flat_map(|saved| saved.written.iter().copied()));
        let Some(saved) = self.saved.get(to) else { return Ok(()) };
        let content = |page: &u32| {
            let mut bytes = Box::new([0; PAGE]);
            self.pages.read(*page, saved.number, &mut bytes);
            (*page, bytes)
        };
        let contents: Vec<(u32, Box<[u8; PAGE]>)> = self.written.iter().map(content).collect();
        self.machine.put_back(&saved.checkpoint, contents.iter().map(|(page, bytes)| (*page, &bytes[..])))?;
        let printed: Printed = saved.printed.clone();
        (self.grid, self.next_frame, self.printed) = (saved.grid, saved.next_frame, printed);
        self.printed_bytes.0 = saved.printed_bytes;
        (self.passed, self.is_off_grid) = (to, false);
        // The pages that were put back are those of the checkpoint.
        self.machine.take_noted_pages();
        self.written.clear();
        Ok(())
    }
}
