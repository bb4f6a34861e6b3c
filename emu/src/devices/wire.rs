//! What is typed at a serial port: bytes on their way, one behind the other as on a line of 115200 baud.
//!
//! A port takes a byte when its guest listens and it has room; until then the byte stays on the wire. So nothing is
//! lost, and when each byte arrives depends on the guest alone.

use crate::clock::{Ticks, ticks};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Ten bits at 115200 baud.
const BYTE_NANOSECONDS: u64 = 86_806;
/// What a terminal types for its end of file. A guest may take one for something else while it runs a program, so
/// another comes later.
const END_OF_FILE: u8 = 4;
const ANOTHER_END_NANOSECONDS: u64 = 100_000_000;

/// The bytes, and when the first of them can arrive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wire {
    waiting: VecDeque<u8>,
    earliest: Ticks,
    ends: bool,
}

impl Wire {
    /// How long a byte takes.
    pub fn pace() -> Ticks {
        ticks(BYTE_NANOSECONDS)
    }

    /// Somebody types.
    pub fn send(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }

    /// Nobody types any more: end-of-file follows, until the guest has understood.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// When the next byte can be taken; `None`: there is none.
    pub fn next(&self) -> Option<Ticks> {
        (self.ends || !self.waiting.is_empty()).then_some(self.earliest)
    }

    /// How many bytes are on their way.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a byte, if one can have come by now.
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
    fn bytes_come_one_behind_the_other_and_none_is_lost() {
        let mut wire = Wire::default();
        assert_eq!((wire.next(), wire.take(1000)), (None, None));
        wire.send(b"ab");
        assert_eq!((wire.next(), wire.take(1000), wire.take(1000)), (Some(0), Some(b'a'), None));
        let second = wire.next().expect("another byte");
        assert_eq!(second, 1000 + Wire::pace());
        assert_eq!((wire.take(second - 1), wire.take(second), wire.next()), (None, Some(b'b'), None));
    }

    #[test]
    fn the_end_is_said_until_it_is_understood() {
        let mut wire = Wire::default();
        wire.send(b"a");
        wire.end();
        assert_eq!(wire.take(0), Some(b'a'));
        let first = wire.next().expect("an end of file");
        assert_eq!((wire.take(first), wire.next()), (Some(END_OF_FILE), Some(first + ticks(ANOTHER_END_NANOSECONDS))));
    }
}
