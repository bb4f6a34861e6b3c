//! The 8254 timer of a PC, and port 0x61, which gates its third counter and shows that counter's output.
//!
//! Counters are not ticked. Each stores when it was loaded, and its value is computed from the time.

use crate::clock::{Ticks, ticks};
use serde::{Deserialize, Serialize};

/// Frequency of the counters' clock.
pub const HERTZ: u64 = 1_193_182;

const COUNTERS: u16 = 0x40;
const CONTROL: u16 = 0x43;
const SPEAKER: u16 = 0x61;

const SPEAKER_GATE: u8 = 1;
const SPEAKER_WRITABLE: u8 = 0x0f;
const SPEAKER_OUTPUT: u8 = 1 << 5;

const READ_BACK: u8 = 3;
const READ_BACK_NO_COUNT: u8 = 1 << 5;
const READ_BACK_NO_STATUS: u8 = 1 << 4;

const ACCESS_LOW: u8 = 1;
const ACCESS_HIGH: u8 = 2;

/// The range of a counter. Writing 0 loads this value.
const RANGE: u64 = 0x1_0000;

/// The three counters and port 0x61.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pit {
    counters: [Counter; 3],
    speaker: u8,
}

impl Default for Pit {
    fn default() -> Self {
        let mut counters = [(); 3].map(|()| Counter::default());
        counters[2].gate = false;
        Pit { counters, speaker: 0 }
    }
}

impl Pit {
    /// Whether this port belongs to it.
    pub fn has_port(port: u16) -> bool {
        matches!(port, COUNTERS..=CONTROL | SPEAKER)
    }

    /// Whether the timer could be in this state before the time `last`.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.counters.iter().all(|counter| counter.is_sound(last))
    }

    /// A read of one of its ports.
    pub fn read(&mut self, port: u16, now: Ticks) -> u8 {
        match port {
            COUNTERS..CONTROL => self.counters[usize::from(port - COUNTERS)].read(now),
            SPEAKER => self.speaker | if self.counters[2].output(now) { SPEAKER_OUTPUT } else { 0 },
            _ => u8::MAX,
        }
    }

    /// A write to one of its ports.
    pub fn write(&mut self, port: u16, value: u8, now: Ticks) {
        match port {
            COUNTERS..CONTROL => self.counters[usize::from(port - COUNTERS)].write(value, now),
            CONTROL if value >> 6 == READ_BACK => {
                for (number, counter) in self.counters.iter_mut().enumerate() {
                    if value >> (number + 1) & 1 != 0 {
                        counter.read_back(value, now);
                    }
                }
            }
            CONTROL => self.counters[usize::from(value >> 6)].control(value, now),
            SPEAKER => {
                self.speaker = value & SPEAKER_WRITABLE;
                self.counters[2].set_gate(value & SPEAKER_GATE != 0, now);
            }
            _ => {}
        }
    }

    /// Advances the first counter to `now`. Returns true if it has requested an interrupt since the last call.
    pub fn advance(&mut self, now: Ticks) -> bool {
        let counter = &mut self.counters[0];
        let expiries = counter.expiries(now);
        let new = expiries > counter.seen;
        counter.seen = expiries;
        new
    }

    /// The time of the first counter's next interrupt.
    pub fn next(&self) -> Option<Ticks> {
        self.counters[0].next()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counter {
    mode: u8,
    access: u8,
    loaded: bool,
    reload: u64,
    started: Ticks,
    /// Clocks that had passed when the gate was closed.
    held: u64,
    gate: bool,
    /// Expiries that were already reported.
    seen: u64,
    count_latch: Option<u16>,
    status_latch: Option<u8>,
    low_written: Option<u8>,
    high_is_next: bool,
}

impl Default for Counter {
    fn default() -> Self {
        Counter {
            mode: 0,
            access: 0,
            loaded: false,
            reload: RANGE,
            started: 0,
            held: 0,
            gate: true,
            seen: 0,
            count_latch: None,
            status_latch: None,
            low_written: None,
            high_is_next: false,
        }
    }
}

impl Counter {
    fn is_sound(&self, last: Ticks) -> bool {
        let reload = (1..=RANGE).contains(&self.reload);
        // A clock takes more than one tick of virtual time.
        self.mode <= 5 && self.access <= 3 && reload && self.started < last && self.held < last && self.seen < last
    }

    fn control(&mut self, value: u8, now: Ticks) {
        let access = value >> 4 & 3;
        if access == 0 {
            self.count_latch.get_or_insert(self.count(now));
            return;
        }
        let mode = value >> 1 & 7;
        // Modes 6 and 7 are aliases of 2 and 3.
        let mode = if mode > 5 { mode - 4 } else { mode };
        *self = Counter { mode, access, gate: self.gate, ..Counter::default() };
    }

    fn read_back(&mut self, value: u8, now: Ticks) {
        if value & READ_BACK_NO_COUNT == 0 {
            self.count_latch.get_or_insert(self.count(now));
        }
        if value & READ_BACK_NO_STATUS == 0 {
            let status = u8::from(self.output(now)) << 7 | u8::from(!self.loaded) << 6 | self.access << 4 | self.mode << 1;
            self.status_latch.get_or_insert(status);
        }
    }

    fn write(&mut self, value: u8, now: Ticks) {
        let value = u64::from(value);
        match (self.access, self.low_written.take()) {
            (ACCESS_LOW, _) => self.load(value, now),
            (ACCESS_HIGH, _) => self.load(value << 8, now),
            (_, Some(low)) => self.load(value << 8 | u64::from(low), now),
            (_, None) => self.low_written = Some(value as u8),
        }
    }

    fn load(&mut self, value: u64, now: Ticks) {
        self.reload = if value == 0 { RANGE } else { value };
        (self.loaded, self.started, self.held, self.seen) = (true, now, 0, 0);
    }

    fn read(&mut self, now: Ticks) -> u8 {
        if let Some(status) = self.status_latch.take() {
            return status;
        }
        let count = self.count_latch.unwrap_or_else(|| self.count(now));
        let high = match self.access {
            ACCESS_LOW => false,
            ACCESS_HIGH => true,
            _ => {
                self.high_is_next = !self.high_is_next;
                !self.high_is_next
            }
        };
        if high || self.access == ACCESS_LOW {
            self.count_latch = None;
        }
        if high { (count >> 8) as u8 } else { count as u8 }
    }

    /// Opens or closes the gate. A closed gate holds the count. In some modes opening it restarts the count.
    fn set_gate(&mut self, open: bool, now: Ticks) {
        if open == self.gate {
            return;
        }
        self.held = if open { self.held } else { self.elapsed(now) };
        self.gate = open;
        if open {
            let restarts = !matches!(self.mode, 0 | 4);
            self.started = if restarts { now } else { now.saturating_sub(time_of(self.held)) };
        }
    }

    fn elapsed(&self, now: Ticks) -> u64 {
        if self.gate { clocks(now.saturating_sub(self.started)) } else { self.held }
    }

    fn is_periodic(&self) -> bool {
        matches!(self.mode, 2 | 3)
    }

    fn count(&self, now: Ticks) -> u16 {
        let elapsed = self.elapsed(now);
        let count = match self.mode {
            2 => self.reload - elapsed % self.reload,
            // In square wave mode the count goes down by two, twice per period.
            3 => (self.reload - (2 * elapsed) % self.reload) & !1,
            _ => self.reload.wrapping_sub(elapsed),
        };
        count as u16
    }

    fn output(&self, now: Ticks) -> bool {
        if !self.loaded {
            return self.mode != 0;
        }
        let elapsed = self.elapsed(now);
        match self.mode {
            0 | 1 => elapsed >= self.reload,
            2 => elapsed % self.reload != self.reload - 1,
            3 => elapsed % self.reload < self.reload.div_ceil(2),
            _ => elapsed != self.reload,
        }
    }

    /// The number of times that the output has risen. Modes 1 and 5 need a gate, which the first counter does not have.
    fn expiries(&self, now: Ticks) -> u64 {
        match self.mode {
            _ if !self.loaded => 0,
            2 | 3 => self.elapsed(now) / self.reload,
            0 | 4 => u64::from(self.elapsed(now) >= self.reload),
            _ => 0,
        }
    }

    fn next(&self) -> Option<Ticks> {
        let again = self.is_periodic() || (matches!(self.mode, 0 | 4) && self.seen == 0);
        let clocks = (self.seen + 1).saturating_mul(self.reload);
        (self.loaded && again).then(|| self.started.saturating_add(time_of(clocks)))
    }
}

/// The number of whole clocks in this time.
fn clocks(time: Ticks) -> u64 {
    let second = u128::from(ticks(1_000_000_000));
    u64::try_from(u128::from(time) * u128::from(HERTZ) / second).unwrap_or(u64::MAX)
}

/// The earliest time at which this many clocks have passed.
fn time_of(clocks: u64) -> Ticks {
    let second = u128::from(ticks(1_000_000_000));
    u64::try_from((u128::from(clocks) * second).div_ceil(u128::from(HERTZ))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_counter_interrupts_periodically_without_drift() {
        let mut pit = Pit::default();
        assert_eq!((pit.next(), pit.advance(1 << 40)), (None, false), "not loaded");
        pit.write(CONTROL, 0x34, 0);
        pit.write(COUNTERS, 0xa9, 100);
        pit.write(COUNTERS, 0x12, 100); // 4777 clocks: 250 a second
        let (mut interrupts, second) = (0, ticks(1_000_000_000));
        while let Some(next) = pit.next().filter(|next| *next <= 100 + second * 10) {
            assert!(!pit.advance(next - 1), "not before its time");
            assert!(pit.advance(next));
            interrupts += 1;
        }
        assert_eq!(interrupts, 10 * HERTZ / 0x12a9);
    }

    #[test]
    fn a_one_shot_interrupts_once_per_load() {
        for control in [0x30, 0x38] {
            let mut pit = Pit::default();
            pit.write(CONTROL, control, 0);
            for now in [0, 1 << 30] {
                pit.write(COUNTERS, 100, now);
                pit.write(COUNTERS, 0, now);
                let at = pit.next().expect("it is loaded");
                assert_eq!(
                    (pit.advance(at - 1), pit.advance(at), pit.advance(at + (1 << 29)), pit.next()),
                    (false, true, false, None)
                );
            }
        }
    }

    /// Linux calibrates the CPU's clock with the third counter in mode 0.
    #[test]
    fn the_third_counter_shows_its_output_on_port_61() {
        let mut pit = Pit::default();
        pit.write(SPEAKER, 1, 0);
        pit.write(CONTROL, 0xb0, 0);
        for byte in [0x9c, 0x2e] {
            pit.write(COUNTERS + 2, byte, 0);
        }
        let end = time_of(0x2e9c);
        assert_eq!(pit.read(SPEAKER, end - 1) & SPEAKER_OUTPUT, 0);
        assert_eq!(pit.read(SPEAKER, end) & SPEAKER_OUTPUT, SPEAKER_OUTPUT);
        pit.write(SPEAKER, 0, end / 2);
        assert_eq!(pit.read(SPEAKER, end * 9) & SPEAKER_OUTPUT, 0, "a closed gate holds it");
        pit.write(SPEAKER, 1, end * 9);
        assert_eq!(pit.read(SPEAKER, end * 9 + end / 2 + 9) & SPEAKER_OUTPUT, SPEAKER_OUTPUT, "and an open one lets it go on");
    }

    #[test]
    fn a_latched_count_is_read_low_byte_first() {
        let mut pit = Pit::default();
        pit.write(CONTROL, 0x34, 0);
        pit.write(COUNTERS, 0, 0);
        pit.write(COUNTERS, 0, 0);
        pit.write(CONTROL, 0, time_of(0x1234));
        let read = [pit.read(COUNTERS, 1 << 40), pit.read(COUNTERS, 1 << 41)];
        assert_eq!(u16::from_le_bytes(read), 0u16.wrapping_sub(0x1234));
        pit.write(CONTROL, 0xe2, 0);
        assert_eq!(pit.read(COUNTERS, 0), 0xb4, "status: output high, loaded, both bytes, mode 2");
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((0u8..4, any::<u16>(), any::<u8>(), any::<u64>()), 0..300)) {
            let mut pit = Pit::default();
            let mut now = 0u64;
            for (what, port, value, later) in accesses {
                now = now.saturating_add(later >> (later % 64));
                let port = [0x40, 0x41, 0x42, 0x43, 0x61, port][usize::from(port) % 6];
                match what {
                    0 | 1 => pit.write(port, value, now),
                    2 => { pit.read(port, now); }
                    _ => { pit.advance(now); pit.next(); }
                }
            }
        }
    }
}
