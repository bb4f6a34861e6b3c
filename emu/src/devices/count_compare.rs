//! MIPS's timer: the Count and Compare registers. It requests an interrupt when Count reaches Compare, until Compare is
//! written again (MIPS32 PRA, "Count" and "Compare").

use crate::clock::{Ticks, nanoseconds, ticks};
use serde::{Deserialize, Serialize};

/// Nanoseconds per count: 100 MHz, half the frequency of a 200 MHz CPU.
const NANOSECONDS: u64 = 10;

/// The state of one CPU's Count and Compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountCompare {
    /// The difference between Count and the count of virtual time.
    ahead: u32,
    /// The time of the next or last match. `None` if Compare was never written.
    due: Option<Ticks>,
}

impl CountCompare {
    /// Whether the timer could be in this state before the time `last`.
    pub fn is_sound(&self, last: Ticks) -> bool {
        // Count wraps around every 43 s.
        self.due.is_none_or(|due| due <= last.saturating_add(ticks(NANOSECONDS << 32)))
    }

    /// The value of Count.
    pub fn count(&self, now: Ticks) -> u32 {
        ((nanoseconds(now) / NANOSECONDS) as u32).wrapping_add(self.ahead)
    }

    /// Sets Count. Compare keeps its value.
    pub fn set_count(&mut self, value: u32, now: Ticks) {
        let jump = value.wrapping_sub(self.count(now));
        self.ahead = self.ahead.wrapping_add(jump);
        // A pending interrupt stays pending.
        if let Some(due) = self.due.filter(|due| *due > now) {
            let steps = (nanoseconds(due) / NANOSECONDS).wrapping_sub(nanoseconds(now) / NANOSECONDS) as u32;
            self.due = Some(at(now, steps.wrapping_sub(jump)));
        }
    }

    /// Sets Compare and clears the interrupt.
    pub fn set_compare(&mut self, value: u32, now: Ticks) {
        self.due = Some(at(now, value.wrapping_sub(self.count(now))));
    }

    /// Whether it requests an interrupt.
    pub fn asks(&self, now: Ticks) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// The time of the next request. `None` if it requests one already or never will.
    pub fn next_event(&self, now: Ticks) -> Option<Ticks> {
        self.due.filter(|due| *due > now)
    }
}

/// The time after this many counts. 0 means a full wrap-around.
fn at(now: Ticks, steps: u32) -> Ticks {
    let steps = if steps == 0 { 1 << 32 } else { u64::from(steps) };
    ticks((nanoseconds(now) / NANOSECONDS + steps).saturating_mul(NANOSECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time after this many counts.
    fn after(steps: u64) -> Ticks {
        ticks(steps * NANOSECONDS)
    }

    #[test]
    fn it_interrupts_at_compare_until_compare_is_written() {
        let mut clock = CountCompare::default();
        assert_eq!((clock.asks(after(1 << 33)), clock.next_event(0)), (false, None), "Compare was never written");
        clock.set_compare(500, after(100));
        assert_eq!((clock.next_event(after(100)), clock.asks(after(500) - 1)), (Some(after(500)), false));
        assert_eq!((clock.count(after(500)), clock.asks(after(500)), clock.next_event(after(500))), (500, true, None));
        clock.set_compare(500, after(500));
        assert_eq!(clock.next_event(after(500)), Some(after(500 + (1 << 32))), "Count goes all round first");
        clock.set_compare(499, after(500));
        assert_eq!(clock.next_event(after(500)), Some(after(499 + (1 << 32))));
    }

    #[test]
    fn setting_count_moves_the_interrupt() {
        let mut clock = CountCompare::default();
        clock.set_compare(1000, 0);
        clock.set_count(900, after(10));
        assert_eq!((clock.count(after(10)), clock.count(after(30))), (900, 920));
        assert_eq!(clock.next_event(after(10)), Some(after(110)));
        clock.set_count(1001, after(20));
        assert_eq!(clock.next_event(after(20)), Some(after(20 + u64::from(u32::MAX))), "it has just missed it");
        let mut asking = CountCompare::default();
        asking.set_compare(5, 0);
        asking.set_count(0, after(7));
        assert!(asking.asks(after(7)), "an interrupt that waits does not go away");
    }
}
