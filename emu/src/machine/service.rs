//! Devices with DMA (virtio). The board owns no memory, so the machine lends it guest memory when an event of such a device is
//! due. It does so before it asks the board for interrupts, so that a device's data is in memory before its interrupt.

use super::Inner;
use crate::boards::At;
use crate::unicorn::ram::Physical;

impl<L> Inner<L> {
    /// Advances the board's devices to the given time.
    #[inline]
    pub(super) fn advance(&mut self, at: At) {
        if self.has_masters {
            self.serve(at);
        }
        self.board.advance(at);
    }

    /// Advances the devices if an event of this CPU is due. Runs stop at different places, and a stop must not change the
    /// devices, so only the guest's accesses and the devices' own events advance them.
    #[inline]
    pub(super) fn advance_if_due(&mut self, at: At) {
        if self.board.next_event(at.cpu).is_some_and(|due| due <= at.now) {
            self.advance(at);
        }
    }

    #[cold]
    fn serve(&mut self, at: At) {
        if self.board.next_service().is_some_and(|due| due <= at.now) {
            self.board.serve(at, &mut Physical { ram: &self.view.ram });
        }
    }
}
