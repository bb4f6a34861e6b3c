//! What is typed at a serial port: bytes on their way, one behind the other as on a line of 115200 baud.
//!
//! A port takes a byte when its guest listens and it has room; until then the byte stays on the wire. So nothing is lost, and when each
//! byte arrives depends on the guest alone.

use crate::clock::{Ticks, ticks};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Ten bits at 115200 baud.
const BYTE_NANOSECONDS: u64 = 86_806;

/// The bytes, and when the first of them can arrive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wire {
    waiting: VecDeque<u8>,
    earliest: Ticks,
}

impl Wire {
    /// Somebody types.
    pub fn send(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }

    /// When the next byte can be taken; `None`: there is none.
    pub fn next(&self) -> Option<Ticks> {
        (!self.waiting.is_empty()).then_some(self.earliest)
    }

    /// Takes a byte, if one can have come by now.
    pub fn take(&mut self, now: Ticks) -> Option<u8> {
        let byte = if self.earliest <= now { self.waiting.pop_front() } else { None };
        if byte.is_some() {
            self.earliest = now.saturating_add(ticks(BYTE_NANOSECONDS));
        }
        byte
    }

    /// How many bytes are on their way.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
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
        assert_eq!(second, 1000 + ticks(BYTE_NANOSECONDS));
        assert_eq!((wire.take(second - 1), wire.take(second), wire.next()), (None, Some(b'b'), None));
    }
}
