//! The timers of z/Architecture: the time-of-day clock, the clock comparator, and the CPU timer (Principles of
//! Operation, chapter 4, "Timing"). Comparator and CPU timer request interrupts while their condition holds. Control
//! register 0 enables these.

use crate::clock::Ticks;
use serde::{Deserialize, Serialize};

// Register numbers: the opcodes of the instructions that store or set them.
/// The time-of-day clock.
pub const TIME_OF_DAY: u32 = 0xb205;
/// The clock comparator.
pub const COMPARATOR: u32 = 0xb206;
/// The CPU timer.
pub const TIMER: u32 = 0xb208;
/// Control register 0.
pub const CONTROL_0: u32 = 0xb700;

/// The comparator's interrupt code, and its enable bit in control register 0.
pub const BY_COMPARATOR: (u32, u64) = (0x1004, 0x800);
/// The CPU timer's interrupt code, and its enable bit.
pub const BY_TIMER: (u32, u64) = (0x1005, 0x400);

/// The clock's value at power-on, 2026-01-01. The clock starts in 1900 and counts 4096 units per microsecond; the first
/// term is the value of 1970.
const SWITCHED_ON: u64 = 0x7d91_048b_ca00_0000 + 1_767_225_600 * 4_096_000_000;
/// 125 ticks of virtual time (a quarter nanosecond each) are 128 clock units.
const TICKS: u128 = 125;
const UNITS: u128 = 128;

/// The time-of-day clock's value.
pub fn time_of_day(now: Ticks) -> u64 {
    SWITCHED_ON.wrapping_add(units(now))
}

/// Converts virtual time to clock units.
fn units(ticks: Ticks) -> u64 {
    (u128::from(ticks) * UNITS / TICKS) as u64
}

/// The first time at which this many clock units have passed.
fn ticks(units: u64) -> Ticks {
    Ticks::try_from((u128::from(units) * TICKS).div_ceil(UNITS)).unwrap_or(Ticks::MAX)
}

/// The timers of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    comparator: u64,
    /// The value that the CPU timer was set to, plus the clock units at that time.
    timer: u64,
    let_in: u64,
}

impl Clocks {
    /// Reads a register. `None` if it is not one of these.
    pub fn read(&self, register: u32, now: Ticks) -> Option<u64> {
        match register {
            TIME_OF_DAY => Some(time_of_day(now)),
            COMPARATOR => Some(self.comparator),
            TIMER => Some(self.timer_at(now)),
            _ => None,
        }
    }

    /// Writes a register. Returns false if it is not one of these. The time-of-day clock cannot be set.
    pub fn write(&mut self, register: u32, value: u64, now: Ticks) -> bool {
        match register {
            COMPARATOR => self.comparator = value,
            TIMER => self.timer = value.wrapping_add(units(now)),
            CONTROL_0 => self.let_in = value,
            _ => return false,
        }
        true
    }

    fn timer_at(&self, now: Ticks) -> u64 {
        self.timer.wrapping_sub(units(now))
    }

    /// Whether this bit of control register 0 enables interrupts.
    pub fn lets_in(&self, bit: u64) -> bool {
        self.let_in & bit != 0
    }

    /// The enabled interrupt that is requested now. The comparator has priority.
    pub fn asks(&self, now: Ticks) -> Option<u32> {
        let compared = time_of_day(now) > self.comparator;
        let timed = self.timer_at(now).cast_signed() < 0;
        let asks = [(compared, BY_COMPARATOR), (timed, BY_TIMER)];
        asks.into_iter().find(|(asks, (_, bit))| *asks && self.lets_in(*bit)).map(|(_, (number, _))| number)
    }

    /// The time of the next enabled request. `None` if one is requested already or never will be.
    pub fn next_event(&self, now: Ticks) -> Option<Ticks> {
        if self.asks(now).is_some() {
            return None;
        }
        let compared = self.comparator.checked_sub(SWITCHED_ON).and_then(|units| units.checked_add(1)).map(ticks);
        let compared = compared.filter(|_| self.lets_in(BY_COMPARATOR.1));
        let timed = Some(ticks(self.timer.wrapping_add(1))).filter(|at| self.lets_in(BY_TIMER.1) && *at > now);
        [compared, timed].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Ticks = 4_000_000_000;

    #[test]
    fn the_time_of_day_counts_from_1900_in_4096ths_of_a_microsecond() {
        let days = (time_of_day(0) / 4_096_000_000).div_euclid(86_400);
        assert_eq!(days, 126 * 365 + 31, "126 years, of which 31 have a day more");
        assert_eq!(time_of_day(SECOND) - time_of_day(0), 4_096_000_000);
    }

    #[test]
    fn comparator_and_cpu_timer_interrupt_while_due() {
        let mut clocks = Clocks::default();
        assert_eq!((clocks.asks(0), clocks.next_event(0)), (None, None), "nothing is let in");
        clocks.write(CONTROL_0, BY_COMPARATOR.1 | BY_TIMER.1, 0);
        assert_eq!(clocks.asks(0), Some(0x1004), "a comparator that was never set");
        clocks.write(COMPARATOR, time_of_day(SECOND), 0);
        clocks.write(TIMER, 4_096_000_000 / 2, 0);
        let timed = clocks.next_event(0).expect("the timer");
        assert!(timed > SECOND / 2 && timed < SECOND / 2 + 3, "{timed}");
        assert_eq!((clocks.asks(timed - 1), clocks.asks(timed)), (None, Some(0x1005)));
        assert_eq!(clocks.read(TIMER, timed), Some(u64::MAX), "one below zero");
        clocks.write(TIMER, i64::MAX as u64, timed);
        let compared = clocks.next_event(timed).expect("the comparator");
        assert!(compared > SECOND && compared < SECOND + 3, "{compared}");
        assert_eq!((clocks.asks(SECOND), clocks.asks(compared)), (None, Some(0x1004)));
        clocks.write(CONTROL_0, 0, compared);
        assert_eq!((clocks.asks(compared), clocks.next_event(compared)), (None, None), "kept out");
        assert!(!clocks.write(TIME_OF_DAY, 0, 0));
    }
}
