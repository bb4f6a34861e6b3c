//! Where a guest writes what people read, and reads what they type.

use super::wire::Wire;

/// A device with a console at its other end.
pub trait Console {
    /// What the guest has written and nobody has taken.
    fn sent(&mut self) -> &mut Vec<u8>;
    /// What is typed, on its way to the guest; `None`: it has nothing to read from.
    fn typed(&mut self) -> Option<&mut Wire> {
        None
    }
    /// How much the device has taken of it and the guest has not.
    fn taken(&self) -> usize {
        0
    }
    /// What was sent since the last call.
    fn take_sent(&mut self) -> Vec<u8> {
        std::mem::take(self.sent())
    }
    /// Somebody types. What nobody reads yet waits.
    fn receive(&mut self, bytes: &[u8]) {
        if let Some(typed) = self.typed() {
            typed.send(bytes);
        }
    }
    /// How much of that the guest has not read yet.
    fn unread(&mut self) -> usize {
        self.typed().map_or(0, |typed| typed.waiting()) + self.taken()
    }
    /// Nobody types any more: behind what was typed comes the end of file.
    fn end(&mut self) {
        if let Some(typed) = self.typed() {
            typed.end();
        }
    }
}

/// A device to which nobody types.
impl Console for Vec<u8> {
    fn sent(&mut self) -> &mut Vec<u8> {
        self
    }
}
