//! SP804, two down-counters with one interrupt line. It is the timer of the `virt` board for 32-bit ARM.
//!
//! Counters are not ticked. Value and interrupt are computed from the time at which the counter was set (ARM DDI
//! 0271D). It counts microseconds.

use crate::clock::{Ticks, ticks};
use serde::{Deserialize, Serialize};

const LOAD: u64 = 0x00;
const VALUE: u64 = 0x04;
const CONTROL: u64 = 0x08;
const INTERRUPT_CLEAR: u64 = 0x0c;
const RAW_STATUS: u64 = 0x10;
const MASKED_STATUS: u64 = 0x14;
const BACKGROUND_LOAD: u64 = 0x18;
/// Offset of the second counter's registers, and the end of both.
const SECOND: u64 = 0x20;
const COUNTERS_END: u64 = 0x40;
const IDENTITY: u64 = 0xfe0;

const ONE_SHOT: u32 = 1;
const WIDE: u32 = 1 << 1;
const INTERRUPTS: u32 = 1 << 5;
const PERIODIC: u32 = 1 << 6;
const ENABLE: u32 = 1 << 7;
const CONTROL_BITS: u32 = 0xef;

const IDENTITIES: [u8; 8] = [0x04, 0x18, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

const COUNT_NANOSECONDS: u64 = 1000;

/// The device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sp804 {
    counters: [Counter; 2],
}

impl Sp804 {
    /// Whether the timers, as read from a snapshot, could be in this state before the time `last`.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.counters.iter().all(|counter| counter.since < last && counter.seen < last)
    }

    /// A read of a register.
    pub fn read(&self, offset: u64, now: Ticks) -> u32 {
        if offset >= IDENTITY {
            return IDENTITIES.get((offset - IDENTITY) as usize / 4).copied().unwrap_or(0).into();
        }
        let Some(counter) = self.counters.get((offset / SECOND) as usize) else { return 0 };
        match offset % SECOND {
            LOAD | BACKGROUND_LOAD => counter.load,
            VALUE => counter.value(now),
            CONTROL => counter.control,
            RAW_STATUS => counter.raw(now).into(),
            MASKED_STATUS => counter.line(now).into(),
            _ => 0,
        }
    }

    /// A write to a register.
    pub fn write(&mut self, offset: u64, value: u32, now: Ticks) {
        if offset >= COUNTERS_END {
            return;
        }
        let Some(counter) = self.counters.get_mut((offset / SECOND) as usize) else { return };
        match offset % SECOND {
            LOAD => {
                counter.raised = counter.raw(now);
                (counter.load, counter.count, counter.since, counter.seen) = (value, value, now, 0);
            }
            // The count continues. Only the reload value changes.
            BACKGROUND_LOAD => {
                counter.rebase(now);
                counter.load = value;
            }
            CONTROL => {
                counter.rebase(now);
                counter.control = value & CONTROL_BITS;
            }
            INTERRUPT_CLEAR => (counter.seen, counter.raised) = (counter.zeros(now), false),
            _ => {}
        }
    }

    /// The level of the interrupt line.
    pub fn line(&self, now: Ticks) -> bool {
        self.counters.iter().any(|counter| counter.line(now))
    }

    /// The time when the line next rises by itself.
    pub fn next_event(&self, now: Ticks) -> Option<Ticks> {
        if self.line(now) { None } else { self.counters.iter().filter_map(Counter::rises_at).min() }
    }
}

/// One of the two counters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counter {
    load: u32,
    control: u32,
    /// The value at the time `since`.
    count: u32,
    since: Ticks,
    /// The number of expiries since then that the last interrupt clear has covered.
    seen: u64,
    /// Whether an expiry before `since` is still not cleared.
    raised: bool,
}

impl Default for Counter {
    fn default() -> Counter {
        Counter { load: 0, control: INTERRUPTS, count: u32::MAX, since: 0, seen: 0, raised: false }
    }
}

impl Counter {
    /// Makes `now` the new reference time, before the counting mode changes.
    fn rebase(&mut self, now: Ticks) {
        if !self.runs() {
            // Keep all 32 loaded bits, also those that a 16-bit counter does not show.
            self.since = now;
            return;
        }
        let (count, zeros) = (self.value(now), self.zeros(now));
        self.raised = self.raw(now);
        // Keep the fraction of a count that has passed, so that frequent accesses do not slow the counter down.
        let into = now.saturating_sub(self.since) % self.step();
        (self.count, self.since) = (count, now - into.min(now));
        self.seen = u64::from(count == 0 && zeros > 0);
    }

    fn runs(&self) -> bool {
        self.control & ENABLE != 0
    }

    fn step(&self) -> Ticks {
        const PRESCALE: [u64; 4] = [1, 16, 256, 256];
        ticks(COUNT_NANOSECONDS) * PRESCALE[(self.control >> 2 & 3) as usize]
    }

    /// Counts per period.
    fn period(&self) -> u64 {
        match () {
            () if self.control & PERIODIC != 0 => self.load.max(1).into(),
            () if self.control & WIDE != 0 => 1 << 32,
            () => 1 << 16,
        }
    }

    /// Counts to the first zero. Narrow counters have 16 bits.
    fn first(&self) -> u64 {
        if self.control & WIDE != 0 { self.count.into() } else { (self.count & 0xffff).into() }
    }

    fn elapsed(&self, now: Ticks) -> u64 {
        if self.runs() { now.saturating_sub(self.since) / self.step() } else { 0 }
    }

    fn value(&self, now: Ticks) -> u32 {
        let (first, elapsed) = (self.first(), self.elapsed(now));
        let value = match elapsed.checked_sub(first) {
            None => first - elapsed,
            Some(_) if self.control & ONE_SHOT != 0 => 0,
            Some(beyond) => match (beyond % self.period(), self.control & PERIODIC != 0) {
                (0, false) => 0,
                (beyond, _) => self.period() - beyond,
            },
        };
        value.min(u32::MAX.into()) as u32
    }

    /// The number of times that it has reached zero.
    fn zeros(&self, now: Ticks) -> u64 {
        match self.elapsed(now).checked_sub(self.first()) {
            _ if !self.runs() => 0,
            None => 0,
            Some(_) if self.control & ONE_SHOT != 0 => 1,
            Some(beyond) => 1 + beyond / self.period(),
        }
    }

    fn raw(&self, now: Ticks) -> bool {
        self.raised || self.zeros(now) > self.seen
    }

    fn line(&self, now: Ticks) -> bool {
        self.control & INTERRUPTS != 0 && self.raw(now)
    }

    fn rises_at(&self) -> Option<Ticks> {
        const WANTED: u32 = ENABLE | INTERRUPTS;
        let only_once = self.control & ONE_SHOT != 0 && self.seen > 0;
        let counts = self.first().saturating_add(self.seen.saturating_mul(self.period()));
        let at = self.since.saturating_add(counts.saturating_mul(self.step()));
        (self.control & WANTED == WANTED && !self.raised && !only_once).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MICROSECOND: Ticks = 4000;

    /// A timer that was loaded and started at time 0.
    fn running(load: u32, control: u32) -> Sp804 {
        let mut timer = Sp804::default();
        timer.write(CONTROL, control, 0);
        timer.write(LOAD, load, 0);
        timer.write(CONTROL, control | ENABLE, 0);
        timer
    }

    /// Mode, load value, control; expected values at microseconds; microseconds at which the line rises.
    type Case = (&'static str, u32, u32, &'static [(u64, u32)], &'static [u64]);

    #[test]
    fn each_way_of_counting_has_its_values_and_its_interrupts() {
        const ON: u32 = INTERRUPTS | WIDE;
        #[rustfmt::skip]
        let cases: [Case; 7] = [
            // what              load  control                 values: at microsecond, count                            
            // rises at
            ("periodic",         10,   ON | PERIODIC,          &[(0, 10), (9, 1), (10, 10), (11, 9), (25, 5)],                      &[10, 20, 30]),
            ("free",             3,    ON,                     &[(0, 3), (3, 0), (4, u32::MAX), (5, u32::MAX - 1)],                 &[3, 3 + (1 << 32)]),
            ("free and narrow",  3,    INTERRUPTS,             &[(0, 3), (3, 0), (4, 0xffff), (0x10004, 0xffff)],                   &[3, 0x10003]),
            ("once",             5,    ON | ONE_SHOT,          &[(0, 5), (5, 0), (6, 0), (1000, 0)],                                &[5]),
            ("by sixteen",       2,    ON | PERIODIC | 1 << 2, &[(15, 2), (16, 1), (32, 2)],                                        &[32, 64]),
            ("by 256",           2,    ON | PERIODIC | 2 << 2, &[(255, 2), (256, 1), (512, 2)],                                     &[512, 1024]),
            ("without interrupts", 5,  WIDE | PERIODIC,        &[(4, 1), (5, 5)],                                                   &[]),
        ];
        for (what, load, control, values, rises) in cases {
            let mut timer = running(load, control);
            for (at, value) in values {
                assert_eq!(timer.read(VALUE, at * MICROSECOND), *value, "{what} at {at}");
            }
            let mut now = 0;
            for at in rises {
                assert_eq!(timer.next_event(now), Some(at * MICROSECOND), "{what}");
                now = at * MICROSECOND;
                assert!(!timer.line(now - 1) && timer.line(now), "{what} at {at}");
                assert_eq!((timer.next_event(now), timer.read(MASKED_STATUS, now)), (None, 1), "{what}: it is up");
                timer.write(INTERRUPT_CLEAR, 0, now);
                assert!(!timer.line(now), "{what}: cleared");
            }
            if rises.len() < 2 {
                assert_eq!(timer.next_event(now), None, "{what}: no more");
            }
        }
    }

    /// Linux uses both: the second counter runs freely as a clock, the first is a one-shot timer.
    #[test]
    fn the_counters_do_not_disturb_each_other() {
        let mut timer = Sp804::default();
        timer.write(SECOND + LOAD, u32::MAX, 0);
        timer.write(SECOND + CONTROL, ENABLE | WIDE | PERIODIC, 0);
        for start in [1000, 5000, 9001] {
            timer.write(CONTROL, INTERRUPTS | WIDE | ONE_SHOT, start * MICROSECOND);
            timer.write(LOAD, 7, start * MICROSECOND);
            timer.write(CONTROL, INTERRUPTS | WIDE | ONE_SHOT | ENABLE, start * MICROSECOND);
            assert_eq!(timer.next_event(start * MICROSECOND), Some((start + 7) * MICROSECOND));
            assert!(timer.line((start + 7) * MICROSECOND));
            assert_eq!(timer.read(SECOND + VALUE, (start + 7) * MICROSECOND), u32::MAX - start as u32 - 7);
            timer.write(INTERRUPT_CLEAR, 1, (start + 8) * MICROSECOND);
        }
        assert_eq!(timer.read(IDENTITY + 4, 0), 0x18);
    }

    /// A value written to BGLOAD takes effect at the next zero.
    #[test]
    fn a_background_load_waits_for_the_zero() {
        let mut timer = running(10, INTERRUPTS | WIDE | PERIODIC);
        timer.write(BACKGROUND_LOAD, 3, 4 * MICROSECOND + 17);
        assert_eq!((timer.read(VALUE, 5 * MICROSECOND), timer.next_event(5 * MICROSECOND)), (5, Some(10 * MICROSECOND)));
        timer.write(INTERRUPT_CLEAR, 0, 10 * MICROSECOND);
        assert_eq!(timer.next_event(10 * MICROSECOND), Some(13 * MICROSECOND));
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((any::<bool>(), 0u64..0x1100, any::<u32>(), any::<u32>()), 0..300)) {
            let mut timer = Sp804::default();
            let mut now = 0u64;
            for (write, offset, value, later) in accesses {
                now = now.saturating_add(u64::from(later) << (later % 30));
                let offset = if value % 3 == 0 { offset } else { offset & 0x3c };
                if write { timer.write(offset, value, now) } else { timer.read(offset, now); }
                if let Some(next) = timer.next_event(now) {
                    prop_assert!(next > now || next == u64::MAX, "{now} {next}");
                    prop_assert!(next == u64::MAX || timer.line(next));
                }
            }
        }
    }
}
