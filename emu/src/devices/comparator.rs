//! PA-RISC's interval timer: a counter of nanoseconds, and a comparator of 32 bits. It requests an external interrupt when the
//! lower half of the counter equals the comparator, until the guest clears the request in EIRR (PA-RISC 1.1 Architecture,
//! "Interval Timer").

use crate::clock::{Ticks, nanoseconds, ticks};
use serde::{Deserialize, Serialize};

// Register numbers: the words of `mtctl r0` to them.
/// Control register 16: the comparator.
pub const COMPARATOR: u32 = 16 << 21 | 0x1840;
/// Control register 23: the pending external interrupts.
pub const EIRR: u32 = 23 << 21 | 0x1840;

/// The number of the interrupt, which is the manual's number of its bit in EIRR.
pub const INTERRUPT: u32 = 0;
/// The bit of EIRR.
pub const BIT: u32 = 1 << 31;

/// The comparator of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparator {
    /// The time of the next match. `None` if the comparator was never written.
    due: Option<Ticks>,
    /// The time of the first match whose request the guest has not cleared.
    since: Option<Ticks>,
}

impl Comparator {
    /// The nanoseconds between two matches with one value, in ticks.
    const ROUND: Ticks = ticks(1 << 32);

    /// Whether the comparator was never written.
    pub fn is_unused(&self) -> bool {
        *self == Comparator::default()
    }

    /// Whether the comparator could be in this state before the time `last`.
    pub fn is_sound(&self, last: Ticks) -> bool {
        let is_due = self.due.is_none_or(|due| due <= last.saturating_add(Self::ROUND));
        is_due && self.since.is_none_or(|since| since < last)
    }

    /// Sets the value. A value that equals the counter now matches after a whole round of the counter.
    pub fn set(&mut self, value: u32, now: Ticks) {
        self.advance(now);
        let steps = value.wrapping_sub(nanoseconds(now) as u32);
        let steps = if steps == 0 { 1 << 32 } else { u64::from(steps) };
        self.due = Some(ticks((nanoseconds(now) + steps).min(LAST)));
    }

    /// Advances the comparator to `now`: a match requests the interrupt.
    pub fn advance(&mut self, now: Ticks) {
        let Some(due) = self.due.filter(|due| *due <= now) else { return };
        self.since.get_or_insert(due);
        self.due = due.checked_add(((now - due) / Self::ROUND + 1).saturating_mul(Self::ROUND));
    }

    /// The time of the next match.
    pub fn next(&self) -> Option<Ticks> {
        self.due
    }

    /// The time since which the interrupt is requested.
    pub fn since(&self) -> Option<Ticks> {
        self.since
    }

    /// Clears the request.
    pub fn clear(&mut self, now: Ticks) {
        self.advance(now);
        self.since = None;
    }
}

/// A number of nanoseconds that no guest lives to see, and whose ticks have room for further rounds.
const LAST: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_requests_until_it_is_cleared() {
        let mut timer = Comparator::default();
        timer.advance(ticks(1 << 33));
        assert_eq!((timer.since(), timer.next(), timer.is_unused()), (None, None, true));
        timer.set(500, ticks(100));
        timer.advance(ticks(500) - 1);
        assert_eq!((timer.since(), timer.next()), (None, Some(ticks(500))));
        timer.advance(ticks(700));
        assert_eq!(timer.since(), Some(ticks(500)));
        timer.set(600, ticks(800));
        assert_eq!(timer.since(), Some(ticks(500)), "a new value clears no request");
        timer.clear(ticks(900));
        assert_eq!((timer.since(), timer.next()), (None, Some(ticks(600 + (1 << 32)))), "the counter goes all round first");
    }

    #[test]
    fn a_value_matches_once_a_round() {
        let mut timer = Comparator::default();
        timer.set(500, ticks(500));
        assert_eq!(timer.next(), Some(ticks(500 + (1 << 32))), "the counter has just passed it");
        timer.clear(ticks(501 + (3 << 32)));
        assert_eq!((timer.since(), timer.next()), (None, Some(ticks(500 + (4 << 32)))), "matches that nobody saw are over");
        timer.set(u32::MAX, ticks(7 << 32));
        assert_eq!(timer.next(), Some(ticks((7 << 32) + u64::from(u32::MAX))));
        timer.set(0, Ticks::MAX);
        timer.advance(Ticks::MAX);
    }
}
