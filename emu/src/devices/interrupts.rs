//! The interrupt controller of the `bare` board. Each vector is pending at most once, and one interrupt is in service
//! at a time.

use crate::clock::Ticks;
use serde::{Deserialize, Serialize};

/// The interrupt controller of one CPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupts {
    pending: Vec<(u8, Ticks)>,
    in_service: Option<u8>,
}

impl Interrupts {
    /// Requests an interrupt, with the time of the request.
    pub fn raise(&mut self, vector: u8, since: Ticks) {
        if !self.pending.iter().any(|(known, _)| *known == vector) {
            self.pending.push((vector, since));
            self.pending.sort_unstable_by_key(|(vector, _)| *vector);
        }
    }

    /// Whether the controller could be in this state before the time `last`.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.pending.iter().all(|(_, since)| *since < last)
    }

    /// The time since which an interrupt can be delivered. `None` if none can.
    pub fn deliverable(&self) -> Option<Ticks> {
        if self.in_service.is_some() { None } else { self.pending.iter().map(|(_, since)| *since).min() }
    }

    /// The CPU takes the lowest vector, which is in service until [`Interrupts::end`].
    pub fn take(&mut self) -> Option<u8> {
        if self.in_service.is_some() || self.pending.is_empty() {
            return None;
        }
        let (vector, _) = self.pending.remove(0);
        self.in_service = Some(vector);
        Some(vector)
    }

    /// The vector in service, 0 if there is none.
    pub fn in_service(&self) -> u8 {
        self.in_service.unwrap_or(0)
    }

    /// Ends the interrupt in service.
    pub fn end(&mut self) {
        self.in_service = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_interrupt_is_in_service_at_a_time_and_none_is_pending_twice() {
        let mut line = Interrupts::default();
        for (vector, since) in [(0x21, 5), (0x20, 9), (0x21, 12)] {
            line.raise(vector, since);
        }
        assert_eq!(line.deliverable(), Some(5));
        assert_eq!((line.take(), line.take(), line.deliverable()), (Some(0x20), None, None));
        line.end();
        assert_eq!(line.take(), Some(0x21));
        line.end();
        assert_eq!((line.take(), line.deliverable()), (None, None));
    }
}
