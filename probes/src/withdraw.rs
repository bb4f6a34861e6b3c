//! Keeps the guest's text free of our bytes while the guest reads or changes it. Afterwards each probe is checked
//! against the text that it finds.
//!
//! [`Engine::withdraw`] restores the guest's own bytes in some parts of the text. When a part is released, a probe on
//! an unchanged instruction is armed as before. One on a changed instruction gets a new plan and new copies. One on the
//! guest's own breakpoint shares it: its handlers run and the guest gets its trap. One that cannot stand on the new
//! text waits, stores the reason, and is tried again next time.

use crate::breakpoint;
use crate::engine::Engine;
use crate::errno::Refusal;
use crate::guest::Guest;
use crate::lifecycle::Dirty;
use crate::place::Place;
use crate::point::Point;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

/// An upper bound of the bytes of text that a point covers.
const LONGEST_POINT: u64 = 64;

/// The parts of the text from which our bytes are withdrawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withdrawn {
    /// Whether the whole text is withdrawn.
    pub all: bool,
    /// The withdrawn ranges, if it is not the whole text.
    pub parts: Vec<Range<u64>>,
}

impl Withdrawn {
    /// The whole text.
    pub fn everywhere() -> Withdrawn {
        Withdrawn { all: true, parts: Vec::new() }
    }

    /// Whether no text is withdrawn.
    pub fn is_empty(&self) -> bool {
        !self.all && self.parts.is_empty()
    }

    fn meets(&self, range: &Range<u64>) -> bool {
        self.all || self.parts.iter().any(|part| part.start < range.end && range.start < part.end)
    }
}

impl Engine {
    /// Replaces the set of withdrawn text. Breakpoints and jumps leave it, and probes registered meanwhile are not
    /// armed there. Probes in text that is no longer withdrawn are checked and armed again.
    pub fn withdraw(&mut self, guest: &mut dyn Guest, from: Withdrawn) {
        let before = core::mem::replace(&mut self.withdrawn, from);
        if before == self.withdrawn {
            return;
        }
        self.counts.withdrawals += u64::from(before.is_empty());
        let numbers = match before.all || self.withdrawn.all {
            true => self.points.numbers(),
            false => self.near(before.parts.iter().chain(&self.withdrawn.parts)),
        };
        let is_out = |engine: &Engine, from: &Withdrawn, number: u32| {
            engine.points.get(number).is_some_and(|point| from.meets(&engine.bytes_of(point)))
        };
        let comes_back = |number: &u32| is_out(self, &before, *number) && !is_out(self, &self.withdrawn, *number);
        let (back, others): (Vec<u32>, Vec<u32>) = numbers.into_iter().partition(comes_back);
        for number in others {
            self.settle_or_log(guest, number);
        }
        for number in &back {
            self.look_again(guest, *number);
        }
        self.collect(guest);
        for number in back {
            self.settle_or_log(guest, number);
        }
    }

    /// The text that is withdrawn at present.
    pub fn withdrawn(&self) -> &Withdrawn {
        &self.withdrawn
    }

    /// Whether a point must stay unarmed because its text is withdrawn.
    pub(crate) fn is_withdrawn(&self, point: &Point) -> bool {
        !self.withdrawn.is_empty() && self.withdrawn.meets(&self.bytes_of(point))
    }

    /// The bytes of text that a point covers, now or once it is optimised.
    fn bytes_of(&self, point: &Point) -> Range<u64> {
        let (start, isa) = (point.address(), self.isa);
        let end = start + point.insn.length().max(point.covers.into()).max(isa.breakpoint.len() as u64);
        isa.group_start(start)..isa.group_end(end)
    }

    /// The points that may have bytes in these ranges.
    fn near<'a>(&self, ranges: impl Iterator<Item = &'a Range<u64>>) -> Vec<u32> {
        let near =
            ranges.flat_map(|range| self.points.within(range.start.saturating_sub(LONGEST_POINT)..self.isa.group_end(range.end)));
        near.collect::<BTreeSet<u32>>().into_iter().collect()
    }

    /// Whether a range contains a breakpoint or a jump of ours.
    pub fn stands_in(&self, range: Range<u64>) -> bool {
        let mut near = self.points.within(range.start.saturating_sub(LONGEST_POINT)..self.isa.group_end(range.end));
        near.any(|number| self.points.get(number).is_some_and(|point| point.armed && self.bytes_of(point).end > range.start))
    }

    /// Counts a miss for the probes in a range that a CPU executes while they are withdrawn.
    pub fn passed_by(&mut self, range: Range<u64>) {
        // The guest calls this for every block while it boots, so test the cheap condition first.
        if self.points.is_clear(&range) || self.withdrawn.is_empty() || self.all_disarmed {
            return;
        }
        for number in self.points.within(range) {
            let Some(point) = self.points.get(number) else { continue };
            if point.gone || !self.is_withdrawn(point) {
                continue;
            }
            point.members.iter().filter(|member| !member.probe.is_disabled()).for_each(|member| member.probe.count_passed());
        }
    }

    /// Removes our bytes from a range that the guest is about to free, and marks its probes as gone.
    pub fn give_up_range(&mut self, guest: &mut dyn Guest, range: Range<u64>) {
        let numbers: Vec<u32> = self.points.within(range.clone()).collect();
        for number in numbers {
            if let Some(point) = self.points.get_mut(number) {
                point.set_waits(Some(Refusal::new(crate::Errno::EBUSY, "its text is being given up")));
            }
            self.settle_or_log(guest, number);
        }
        self.kill_range(guest, range);
    }

    /// Checks a point against the text at its address. None of our bytes is in the text.
    fn look_again(&mut self, guest: &mut dyn Guest, number: u32) {
        let isa = self.isa;
        let Some(point) = self.points.get_mut(number).filter(|point| !point.gone) else { return };
        let address = point.address();
        point.shared = false;
        point.set_waits(None);
        if breakpoint::stands(guest, isa, &point.insn, false) {
            return;
        }
        // On some ISAs the breakpoint depends on the instruction, for example on its length.
        let has_usual = isa.in_group.is_none() && breakpoint::holds(guest, address, isa.breakpoint);
        if has_usual || breakpoint::stands(guest, isa, &point.insn, true) {
            point.shared = true;
            return;
        }
        if let Err(refusal) = self.make_anew(guest, number, address)
            && let Some(point) = self.points.get_mut(number)
        {
            let why = format!("the guest has changed the text: {}", refusal.why);
            point.set_waits(Some(Refusal::because(refusal.errno, why)));
        }
    }

    /// Renews the point's instruction, plan and copies for the present text.
    fn make_anew(&mut self, guest: &mut dyn Guest, number: u32, address: u64) -> Result<(), Refusal> {
        let symbol =
            guest.symbol_at(address).ok_or(Refusal::new(crate::Errno::ENOENT, "the address lies in no function any more"))?;
        let place = Place { address, symbol, on_entry: false };
        let is_internal =
            self.points.get(number).is_some_and(|point| point.members.iter().all(|member| member.probe.is_internal()));
        let (insn, plan, slot) = self.by_policy(is_internal, |policy| self.prepare(guest, &place, policy))?;
        self.paused.forget_point(number);
        if let Some(old) = self.points.set_slot(number, Some(slot)) {
            self.dirty.push(Dirty { slot: old, point: number });
        }
        if let Some(point) = self.points.get_mut(number) {
            point.set_instruction(self.isa, insn, plan);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
