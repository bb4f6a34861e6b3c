//! Virtual time: bytes of the guest's own code executed, exact at every trap, hook and clock read.
//!
//! What the engine adds (traps, slots, pads) takes no time, and a place in the probe window counts as the place that it
//! stands for; so a probed and an unprobed run see the same time everywhere. Here are its unit, what code can be for
//! it, and a clock that stands; one that runs is [`running`].

#[cfg(feature = "cpu")]
pub mod running;

use serde::{Deserialize, Serialize};

/// Virtual time, in bytes of guest code.
pub type Ticks = u64;

/// Four bytes of code take a nanosecond.
const SHIFT: u32 = 2;

/// Nanoseconds of virtual time.
pub fn nanoseconds(ticks: Ticks) -> u64 {
    ticks >> SHIFT
}

/// The time that so many nanoseconds are.
pub fn ticks(nanoseconds: u64) -> Ticks {
    nanoseconds.saturating_mul(1 << SHIFT)
}

/// What a block of code is, for the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Code of the guest's own.
    Guest,
    /// The start of a displaced copy of `len` bytes, which stands for the instruction at `origin`.
    Copy {
        /// The probed address.
        origin: u64,
        /// Bytes of the instruction.
        len: u8,
    },
    /// What follows the copy and leads back to the address `next`.
    WayBack {
        /// The address behind the probed instruction.
        next: u64,
    },
    /// The start of a detour.
    Detour(Detour),
    /// The start of a faithful detour, come to by a jump of `jump` bytes: what saves the registers counts nothing.
    Saving {
        /// Bytes of the jump.
        jump: u8,
    },
    /// Further on in it: `lead` bytes that count nothing, then the displaced copy of the `len` bytes at `origin`.
    Restoring {
        /// The probed address.
        origin: u64,
        /// Bytes of the displaced instructions.
        len: u8,
        /// Bytes in front of them.
        lead: u8,
    },
    /// What faithful detours call: code of the engine's too.
    Trampoline,
    /// Where hijacked functions return to: code of the engine's too.
    ReturnPad,
    /// Code of the engine's: counts nothing, takes no interrupt.
    Nothing,
}

/// A detour, come to by a jump at `origin`: bytes that count nothing, then the displaced copy of those at `origin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    /// The probed address.
    pub origin: u64,
    /// What it is to whom it belongs.
    pub point: u32,
    /// Bytes up to the end of the displaced instructions: of a block that has them all, at least.
    pub end: u16,
    /// Bytes of the displaced instructions.
    pub len: u8,
    /// Bytes of the jump.
    pub jump: u8,
}

impl Detour {
    /// An end that no block comes to.
    pub const NEVER: u16 = u16::MAX;

    /// Bytes in front of the displaced instructions.
    #[inline]
    pub fn lead(&self) -> u8 {
        self.end.wrapping_sub(self.len.into()) as u8
    }
}

/// A clock that stands, between two runs of its CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    /// The time.
    pub time: Ticks,
    /// Where the next block would continue the line of code before it: in front of that nothing is taken.
    pub goes_on_at: Option<u64>,
}

impl Stopped {
    /// Whether it could be a clock's state before that time.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.time < last
    }
}
