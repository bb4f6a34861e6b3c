//! A separate checkpoint shortly before a place, so that many steps back near it are fast.
//!
//! It is not on the grid of checkpoints. So it serves only steps back, and a run that continues for good does not start
//! from it ([`Timeline::return_to_grid`]).

use super::super::mark::Printed;
use super::super::observer::Observer;
use super::super::pages::PAGE;
use super::{Timeline, TimelineError};
use crate::clock::Ticks;
use crate::machine::{Checkpoint, Machine, Place};
use std::collections::BTreeMap;

/// A place is near a checkpoint if it is at most this number of slacks behind it. The slack is the distance from which the
/// timeline steps instruction by instruction.
const NEAR: Ticks = 8;
/// The least distance in ticks from a checkpoint to a place that uses it.
const LEAST: Ticks = 256;

/// The checkpoint.
pub(super) struct Near {
    place: Place,
    checkpoint: Checkpoint,
    /// The number of the checkpoint on the grid in front of it, and its place in the list.
    number: u32,
    passed: usize,
    /// The pages that were written since that one.
    pages: BTreeMap<u32, Box<[u8; PAGE]>>,
    grid: Ticks,
    next_frame: usize,
    printed: Printed,
    printed_bytes: u64,
}

impl Timeline {
    /// Keeps the present place, if a step back wants that.
    pub(super) fn keep_near(&mut self) {
        if !self.wants_near {
            return;
        }
        let Ok(checkpoint) = self.machine.checkpoint() else { return };
        self.is_off_grid = true;
        self.take_written();
        let ram = self.machine.ram();
        let content = |page: &u32| {
            let mut bytes = Box::new([0; PAGE]);
            ram.read(ram.base() + u64::from(*page) * PAGE as u64, &mut bytes[..]);
            (*page, bytes)
        };
        self.near = Some(Near {
            place: self.machine.place(),
            checkpoint,
            number: self.saved[self.passed].number,
            passed: self.passed,
            pages: self.written.iter().map(content).collect(),
            grid: self.grid,
            next_frame: self.next_frame,
            printed: self.printed.clone(),
            printed_bytes: self.printed_bytes.0,
        });
    }

    /// Goes to the kept place, if it is a little in front of this one and behind the same checkpoint. Returns whether it has.
    pub(super) fn goes_to_near(&mut self, from: usize, place: &Place, slack: Ticks) -> Result<bool, TimelineError> {
        let Some(near) = self.near.take() else { return Ok(false) };
        let is_known = self.saved.get(near.passed).is_some_and(|saved| saved.number == near.number);
        let distance = place.ticks.saturating_sub(near.place.ticks);
        let is_near =
            near.passed == from && place.is_behind(&near.place) && (LEAST..=slack.saturating_mul(NEAR)).contains(&distance);
        if !is_known || slack == Ticks::MAX || !is_near {
            self.near = Some(near).filter(|_| is_known);
            return Ok(false);
        }
        self.stand_near(&near, from)?;
        self.near = Some(near);
        Ok(true)
    }

    /// Calls `tried` several times, each time with the machine at the present place and the number of the call. It may change
    /// and run the machine, but not the timeline. Afterwards the timeline stands at the place as before.
    pub(super) fn try_out<R>(
        &mut self,
        times: usize,
        mut tried: impl FnMut(&mut Machine<Observer>, usize) -> R,
    ) -> Result<Vec<R>, TimelineError> {
        let kept = self.near.take();
        let (was_wanted, passed) = (core::mem::replace(&mut self.wants_near, true), self.passed);
        self.keep_near();
        self.wants_near = was_wanted;
        let Some(here) = core::mem::replace(&mut self.near, kept) else { return Ok(Vec::new()) };
        let mut answers = Vec::new();
        for number in 0..times {
            answers.push(tried(&mut self.machine, number));
            self.machine.take_console();
            self.stand_near(&here, passed)?;
        }
        Ok(answers)
    }

    /// Goes to a kept place behind this checkpoint.
    fn stand_near(&mut self, near: &Near, from: usize) -> Result<(), TimelineError> {
        self.take_written();
        let (first, last) = (self.passed.min(from), self.passed.max(from));
        let between = self.saved.iter().take(last + 1).skip(first + 1);
        self.written.extend(between.flat_map(|saved| saved.written.iter().copied()));
        self.written.extend(near.pages.keys());
        let content = |page: &u32| {
            let bytes = near.pages.get(page).cloned().unwrap_or_else(|| {
                let mut bytes = Box::new([0; PAGE]);
                self.pages.read(*page, near.number, &mut bytes);
                bytes
            });
            (*page, bytes)
        };
        let contents: Vec<(u32, Box<[u8; PAGE]>)> = self.written.iter().map(content).collect();
        self.machine.put_back(&near.checkpoint, contents.iter().map(|(page, bytes)| (*page, &bytes[..])))?;
        (self.grid, self.next_frame, self.printed) = (near.grid, near.next_frame, near.printed.clone());
        self.printed_bytes.0 = near.printed_bytes;
        (self.passed, self.is_off_grid) = (from, true);
        self.machine.take_noted_pages();
        self.written = near.pages.keys().copied().collect();
        Ok(())
    }
}
