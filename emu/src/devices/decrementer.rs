//! The time base of PowerPC and its decrementer, which requests an interrupt while it is negative (Power ISA 3.0B, book
//! III, 7.3).

use crate::clock::Ticks;
use serde::{Deserialize, Serialize};

/// Frequency of the time base in Hz. The device trees state it.
pub const HERTZ: u32 = 500_000_000;
/// Ticks of virtual time per count of the time base.
const TICKS: u64 = 8;

/// SPR number of the decrementer.
pub const NUMBER: u32 = 22;
const TIME_BASE: u32 = 268;
const TIME_BASE_UPPER: u32 = 269;

/// The time base, if this SPR number is the time base or its upper half.
pub fn time_base(register: u32, now: Ticks) -> Option<u64> {
    match register {
        TIME_BASE => Some(now / TICKS),
        TIME_BASE_UPPER => Some((now / TICKS) >> 32),
        _ => None,
    }
}

/// The decrementer of one CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decrementer {
    /// The time base at which the decrementer is 0. Only the lower half counts.
    zero_at: u64,
}

impl Default for Decrementer {
    /// A decrementer that is as far from its interrupt as possible.
    fn default() -> Decrementer {
        Decrementer { zero_at: i32::MAX as u64 }
    }
}

impl Decrementer {
    /// The value of the register.
    pub fn value(&self, now: Ticks) -> u32 {
        self.zero_at.wrapping_sub(now / TICKS) as u32
    }

    /// Sets the register.
    pub fn set(&mut self, value: u32, now: Ticks) {
        self.zero_at = (now / TICKS).wrapping_add(value.into());
    }

    /// Whether it requests an interrupt.
    pub fn asks(&self, now: Ticks) -> bool {
        self.value(now).cast_signed() < 0
    }

    /// The time of the next request. `None` if it requests one already.
    pub fn next_event(&self, now: Ticks) -> Option<Ticks> {
        let counts = u64::from(self.value(now)) + 1;
        (!self.asks(now)).then(|| (now / TICKS + counts).saturating_mul(TICKS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decrementer_interrupts_below_zero_until_it_is_set() {
        let mut decrementer = Decrementer::default();
        assert_eq!((decrementer.asks(0), decrementer.value(80)), (false, 0x7fff_ffff - 10));
        decrementer.set(10, 100 * TICKS + 3);
        #[rustfmt::skip]
        let cases = [
            // time             value       asks    next
            (100 * TICKS + 3,   10,         false,  Some(111 * TICKS)),
            (105 * TICKS,       5,          false,  Some(111 * TICKS)),
            (110 * TICKS + 7,   0,          false,  Some(111 * TICKS)),
            (111 * TICKS,       0xffff_ffff, true,  None),
            (200 * TICKS,       10u32.wrapping_sub(100), true, None),
        ];
        for (now, value, asks, next) in cases {
            assert_eq!(
                (decrementer.value(now), decrementer.asks(now), decrementer.next_event(now)),
                (value, asks, next),
                "{now}"
            );
        }
        decrementer.set(0x8000_0000, 300 * TICKS);
        assert!(decrementer.asks(300 * TICKS), "at once");
        decrementer.set(0x7fff_ffff, 300 * TICKS);
        assert!(!decrementer.asks(300 * TICKS));
    }

    #[test]
    fn the_time_base_counts_nanoseconds_by_two() {
        let second = crate::clock::ticks(1_000_000_000);
        assert_eq!(time_base(268, second), Some(HERTZ.into()));
        assert_eq!(time_base(269, 20 * second), Some((20 * u64::from(HERTZ)) >> 32));
        assert_eq!(time_base(22, second), None);
    }
}
