//! The periodic timer of the `bare` board, one per CPU.

use crate::clock::{Ticks, ticks};
use serde::{Deserialize, Serialize};

/// The timer. It stores the time of its next expiry, so it needs no ticks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    period: Ticks,
    next: Option<Ticks>,
}

impl Interval {
    /// The shortest period, so that interrupts cannot take all of the guest's time.
    const SHORTEST: Ticks = 400;

    /// Starts the timer with this period. 0 stops it.
    pub fn set_period(&mut self, nanoseconds: u32, now: Ticks) {
        self.period = ticks(nanoseconds.into()).max(Self::SHORTEST);
        self.next = (nanoseconds != 0).then(|| now + self.period);
    }

    /// Whether the timer could be in this state before the time `last`.
    pub fn is_sound(&self, last: Ticks) -> bool {
        let longest = ticks(u32::MAX.into());
        self.next.is_none_or(|next| next < last && (Self::SHORTEST..=longest).contains(&self.period))
    }

    /// The time of the next expiry.
    pub fn next(&self) -> Option<Ticks> {
        self.next
    }

    /// Advances the timer to `now`. Returns the time of the latest expiry, if there was one.
    pub fn advance(&mut self, now: Ticks) -> Option<Ticks> {
        let next = self.next.filter(|next| *next <= now)?;
        let latest = next + (now - next) / self.period * self.period;
        self.next = Some(latest + self.period);
        Some(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_expires_once_a_period_and_keeps_its_phase_when_late() {
        let mut timer = Interval::default();
        assert_eq!(timer.advance(u64::MAX / 2), None, "a stopped timer never expires");
        timer.set_period(1000, 100);
        assert_eq!(timer.next(), Some(4100));
        assert_eq!(timer.advance(4099), None);
        assert_eq!((timer.advance(4100), timer.next()), (Some(4100), Some(8100)));
        assert_eq!((timer.advance(17_000), timer.next()), (Some(16_100), Some(20_100)), "two were missed, none is made up");
        timer.set_period(0, 0);
        assert_eq!(timer.next(), None);
    }
}
