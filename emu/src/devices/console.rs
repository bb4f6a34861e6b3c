//! The interface to a guest's console: its output, and the input that a user types.

use super::wire::Wire;
use crate::clock::Ticks;

/// A device that serves as a console.
pub trait Console {
    /// The output that was not taken yet.
    fn sent(&mut self) -> &mut Vec<u8>;
    /// The input on its way to the guest. `None` if the device has no input.
    fn typed(&mut self) -> Option<&mut Wire> {
        None
    }
    /// The number of input bytes that the device holds and the guest has not read.
    fn taken(&self) -> usize {
        0
    }
    /// Takes the output since the last call.
    fn take_sent(&mut self) -> Vec<u8> {
        std::mem::take(self.sent())
    }
    /// Adds typed input. It waits until the guest reads it.
    fn receive(&mut self, bytes: &[u8]) {
        if let Some(typed) = self.typed() {
            typed.send(bytes);
        }
    }
    /// Delays all input until this time.
    fn hold_until(&mut self, now: Ticks) {
        if let Some(typed) = self.typed() {
            typed.hold_until(now);
        }
    }
    /// The number of input bytes that the guest has not read.
    fn unread(&mut self) -> usize {
        self.typed().map_or(0, |typed| typed.waiting()) + self.taken()
    }
    /// Ends the input: an end of file follows the bytes typed so far.
    fn end(&mut self) {
        if let Some(typed) = self.typed() {
            typed.end();
        }
    }
}

/// An output-only console.
impl Console for Vec<u8> {
    fn sent(&mut self) -> &mut Vec<u8> {
        self
    }
}
