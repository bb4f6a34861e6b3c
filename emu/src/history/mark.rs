//! Fingerprints of the guest's state.
//!
//! The parts of a mark are equal in runs with and without probes. The registers are compared only if
//! both runs are unprobed: the return pad's address or the window's entry in a TLB may be in them.

use super::recording::{Hash, Mark};
use crate::machine::{Listener, Machine};
use serde::Serialize;

/// The running hash of everything that the guest has printed.
#[derive(Clone, Debug, Default)]
pub struct Printed {
    hasher: blake3::Hasher,
}

impl Printed {
    /// Adds console output.
    pub fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    fn hash(&self) -> Hash {
        short(&self.hasher.finalize())
    }
}

impl Mark {
    /// The mark of a machine between two runs. `with_registers` says whether its registers are the guest's own.
    ///
    /// It flushes the TLB. That can be seen in page tables, whose marks of use depend on the flushes, so a replay makes
    /// its marks at the places where the recording has made them.
    pub fn of<L: Listener>(machine: &mut Machine<L>, printed: &Printed, with_registers: bool) -> Mark {
        let registers = machine.guest_registers().ok().filter(|_| with_registers).map(|registers| hash(&registers));
        machine.forget_translated_addresses();
        let counts = machine.counts();
        Mark {
            time: machine.time(),
            cpu: machine.current_cpu() as u8,
            parts: [
                hash(&machine.clocks()),
                hash(&[counts.interrupts, counts.exceptions, counts.system_calls]),
                printed.hash(),
                hash(&machine.devices().ok()),
            ],
            registers,
        }
    }
}

/// A hash of a value's form in JSON.
fn hash(value: &impl Serialize) -> Hash {
    let mut hasher = blake3::Hasher::new();
    // Writing into a hasher cannot fail, and all these values have a form in JSON.
    let _ = serde_json::to_writer(&mut hasher, value);
    short(&hasher.finalize())
}

fn short(hash: &blake3::Hash) -> Hash {
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}
