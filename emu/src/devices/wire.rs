//! Console input on its way to a serial port: bytes that arrive one after another at 115200 baud.
//!
//! A port takes a byte when its guest listens and the FIFO has room. Until then the byte stays here, so nothing is
//! lost, and arrival times depend on the guest only.

use crate::clock::{Ticks, ticks};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Duration of a byte: ten bits at 115200 baud.
const BYTE_NANOSECONDS: u64 = 86_806;
/// The end-of-file character of a terminal (^D). A guest may use one for another purpose while it runs a program, so it
/// is repeated.
const END_OF_FILE: u8 = 4;
const ANOTHER_END_NANOSECONDS: u64 = 100_000_000;

/// The waiting bytes, and the earliest time at which the first can arrive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wire {
    waiting: VecDeque<u8>,
    earliest: Ticks,
    ends: bool,
}

impl Wire {
    /// The time that a byte takes.
    pub fn pace() -> Ticks {
        ticks(BYTE_NANOSECONDS)
    }

    /// Adds typed bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }

    /// Delays all bytes until this time. Called because a sleeping CPU's clock is behind: input must not arrive
    /// before it was typed.
    pub fn hold_until(&mut self, now: Ticks) {
        self.earliest = self.earliest.max(now);
    }

    /// Ends the input. End-of-file characters follow until the guest ends.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// The earliest time for the next byte. `None` if there is none.
    pub fn next(&self) -> Option<Ticks> {
        (self.ends || !self.waiting.is_empty()).then_some(self.earliest)
    }

    /// The number of waiting bytes.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a byte, if its time has come.
    pub fn take(&mut self, now: Ticks) -> Option<u8> {
        if self.earliest > now {
            return None;
        }
        let (byte, until_next) = match self.waiting.pop_front() {
            Some(byte) => (byte, BYTE_NANOSECONDS),
            None if self.ends => (END_OF_FILE, ANOTHER_END_NANOSECONDS),
            None => return None,
        };
        self.earliest = now.saturating_add(ticks(until_next));
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_without_loss() {
        let mut wire = Wire::default();
        assert_eq!((wire.next(), wire.take(1000)), (None, None));
        wire.send(b"ab");
        assert_eq!((wire.next(), wire.take(1000), wire.take(1000)), (Some(0), Some(b'a'), None));
        let second = wire.next().expect("another byte");
        assert_eq!(second, 1000 + Wire::pace());
        assert_eq!((wire.take(second - 1), wire.take(second), wire.next()), (None, Some(b'b'), None));
    }

    #[test]
    fn no_byte_arrives_before_it_is_typed() {
        let mut wire = Wire::default();
        wire.hold_until(70);
        wire.send(b"a");
        assert_eq!((wire.next(), wire.take(69), wire.take(70)), (Some(70), None, Some(b'a')));
        wire.hold_until(70);
        assert_eq!(wire.earliest, 70 + Wire::pace(), "the pace stays");
    }

    #[test]
    fn end_of_file_is_repeated() {
        let mut wire = Wire::default();
        wire.send(b"a");
        wire.end();
        assert_eq!(wire.take(0), Some(b'a'));
        let first = wire.next().expect("an end of file");
        assert_eq!((wire.take(first), wire.next()), (Some(END_OF_FILE), Some(first + ticks(ANOTHER_END_NANOSECONDS))));
    }
}
