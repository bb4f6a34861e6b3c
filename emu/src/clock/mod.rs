//! Virtual time: the number of bytes of the guest's own code that were executed. It is exact at every trap, hook and
//! clock read.
//!
//! Code that the engine adds (traps, slots, pads) takes no time. A place in the probe window counts as the place that
//! it stands for, so probed and unprobed runs see the same time everywhere. This file defines the unit, the meaning of
//! a block for the clock, and a stopped clock ([`Stopped`]). [`running`] has the clock of a running CPU.

#[cfg(feature = "cpu")]
pub mod running;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// Virtual time, in bytes of guest code.
pub type Ticks = u64;

/// Four bytes of code take one nanosecond.
const SHIFT: u32 = 2;

/// Converts virtual time to nanoseconds.
pub const fn nanoseconds(ticks: Ticks) -> u64 {
    ticks >> SHIFT
}

/// Converts nanoseconds to virtual time.
pub const fn ticks(nanoseconds: u64) -> Ticks {
    nanoseconds.saturating_mul(1 << SHIFT)
}

/// A moment of a run: guest time since power-on, in nanoseconds. Made of a number of nanoseconds or of a [`Duration`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestTime(u64);

impl GuestTime {
    /// The number of nanoseconds since power-on.
    pub const fn nanoseconds(self) -> u64 {
        self.0
    }
}

impl From<u64> for GuestTime {
    fn from(nanoseconds: u64) -> GuestTime {
        GuestTime(nanoseconds)
    }
}

impl From<Duration> for GuestTime {
    /// Durations of more than 584 years become the last moment.
    fn from(since_power_on: Duration) -> GuestTime {
        GuestTime(u64::try_from(since_power_on.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<GuestTime> for Duration {
    fn from(time: GuestTime) -> Duration {
        Duration::from_nanos(time.0)
    }
}

impl Add<Duration> for GuestTime {
    type Output = GuestTime;

    fn add(self, more: Duration) -> GuestTime {
        GuestTime(self.0.saturating_add(GuestTime::from(more).0))
    }
}

impl fmt::Display for GuestTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from(*self))
    }
}

/// The meaning of a block of code for the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The guest's own code.
    Guest,
    /// The start of a displaced copy of `len` bytes, which stands for the instruction at `origin`.
    Copy {
        /// The probed address.
        origin: u64,
        /// Bytes of the instruction.
        len: u8,
    },
    /// The code after a copy, which leads back to the address `next`.
    WayBack {
        /// The address behind the probed instruction.
        next: u64,
    },
    /// The start of a detour.
    Detour(DetourTiming),
    /// The start of a faithful detour, reached by a jump of `jump` bytes. Saving the registers counts nothing.
    Saving {
        /// Bytes of the jump.
        jump: u8,
    },
    /// The second part of a faithful detour: `lead` bytes that count nothing, then the displaced copy of the `len`
    /// bytes at `origin`.
    Restoring {
        /// The probed address.
        origin: u64,
        /// Bytes of the displaced instructions.
        len: u8,
        /// Bytes in front of the displaced instructions.
        lead: u8,
    },
    /// The trampoline that faithful detours call. It counts nothing.
    Trampoline,
    /// The return pad. It counts nothing.
    ReturnPad,
    /// Other code of the engine. It counts nothing and takes no interrupt.
    Nothing,
}

/// The timing of a detour, reached by a jump at `origin`: some bytes that count nothing, then the displaced copy of the
/// instructions at `origin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetourTiming {
    /// The probed address.
    pub origin: u64,
    /// The point's number, for the listener.
    pub point: u32,
    /// Offset of the end of the displaced instructions. A block that contains all of them is at least this long.
    pub end: u16,
    /// Bytes of the displaced instructions.
    pub len: u8,
    /// Bytes of the jump.
    pub jump: u8,
}

impl DetourTiming {
    /// An `end` that no block reaches.
    pub const NEVER: u16 = u16::MAX;

    /// Bytes in front of the displaced instructions.
    #[inline]
    pub fn lead(&self) -> u8 {
        self.end.wrapping_sub(self.len.into()) as u8
    }
}

/// A clock that is stopped between two runs of its CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    /// The virtual time.
    pub time: Ticks,
    /// The address at which the next block would continue the line of code. No interrupt is taken in front of that
    /// block.
    pub goes_on_at: Option<u64>,
}

impl Stopped {
    /// Whether a clock could be in this state before the time `last`.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.time < last
    }
}
