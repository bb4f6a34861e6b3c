//! The state of a virtio device that all transports share: status, features, queues, interrupt causes, and the time at
//! which requests complete.

use super::ninep::ErrorNumber;
use super::queue::{Broken, Queue};
use super::{AttachError, Attached, Class, net};
use crate::clock::{Ticks, ticks};
use serde::{Deserialize, Serialize};
use trapline_isa::mem::Memory;

/// Device status bits.
const FEATURES_OK: u8 = 8;
const DRIVER_OK: u8 = 4;
const NEEDS_RESET: u8 = 64;

/// The device follows version 1 of the standard.
const VERSION_1: u64 = 1 << 32;
/// Requests may have tables of descriptors of their own.
const INDIRECT: u64 = 1 << 28;

/// The cause of an interrupt: requests have completed.
pub const USED_BUFFERS: u8 = 1;
/// The cause of an interrupt: the device wants a reset.
pub const CONFIGURATION_CHANGED: u8 = 2;

/// The virtual time from a notification to the completion of its requests.
pub const LATENCY_NANOSECONDS: u64 = 20_000;
/// The most requests that are handled at a time. The others wait for the same time again, so that each step of the host
/// has an end.
const MOST_AT_ONCE: usize = 64;

/// A virtio device.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Virtio {
    status: u8,
    /// The number of the 32 feature bits that the driver reads and writes.
    offered_half: u32,
    accepted_half: u32,
    accepted: u64,
    selected: u32,
    queues: Vec<Queue>,
    /// The times at which queues are served, by queue.
    due: Vec<Option<Ticks>>,
    causes: u8,
    /// The queues whose completed requests caused the interrupt, a bit each. Transports that need it take it after each
    /// service.
    #[serde(skip)]
    answered: u64,
    class: Class,
}

impl Virtio {
    /// A device after a reset.
    pub fn new(attached: &Attached) -> Virtio {
        let class = attached.class();
        let count = class.queues();
        Virtio {
            status: 0,
            offered_half: 0,
            accepted_half: 0,
            accepted: 0,
            selected: 0,
            queues: vec![Queue::new(); count],
            due: vec![None; count],
            causes: 0,
            answered: 0,
            class,
        }
    }

    /// Whether a device could be in this state before the time `last`. A damaged snapshot may hold another state.
    pub fn is_sound(&self, last: Ticks) -> bool {
        let count = self.class.queues();
        self.queues.len() == count
            && self.due.len() == count
            && self.queues.iter().all(Queue::is_sound)
            && self.due.iter().flatten().all(|due| *due < last)
            && self.class.is_sound(last)
    }

    /// Takes over the host's side of the device that this restored one replaces. Fails if that is another device.
    pub fn adopt(&mut self, other: &Virtio) -> Result<(), AttachError> {
        self.class.adopt(&other.class)
    }

    /// Sets the error numbers of the guest's kernel that differ from those of most ISAs: the usual number, the guest's.
    pub fn number_errors(&mut self, numbers: &'static [(ErrorNumber, ErrorNumber)]) {
        if let Class::NineP(folder) = &mut self.class {
            folder.number_errors(numbers);
        }
    }

    /// The device's own state.
    #[cfg(test)]
    pub fn class(&self) -> &Class {
        &self.class
    }

    /// Like [`Virtio::class`], to be changed.
    #[cfg(test)]
    pub fn class_mut(&mut self) -> &mut Class {
        &mut self.class
    }

    /// The device id.
    pub fn id(&self) -> u32 {
        self.class.id()
    }

    /// The class code of its PCI function.
    pub fn pci_class(&self) -> u32 {
        self.class.pci_class()
    }

    /// The number of queues.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The device status.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// Sets the device status. 0 resets the device.
    pub fn set_status(&mut self, status: u8) {
        if status == 0 {
            return self.reset();
        }
        let mut status = status | self.status & NEEDS_RESET;
        let is_known = self.accepted & !self.features() == 0 && self.accepted & VERSION_1 != 0;
        if status & FEATURES_OK != 0 && !is_known {
            status &= !FEATURES_OK;
        }
        self.status = status;
    }

    fn reset(&mut self) {
        (self.status, self.causes) = (0, 0);
        (self.offered_half, self.accepted_half, self.accepted, self.selected) = (0, 0, 0, 0);
        self.queues.fill(Queue::new());
        self.due.fill(None);
        self.class.reset();
    }

    fn features(&self) -> u64 {
        self.class.features() | VERSION_1 | INDIRECT
    }

    /// Selects the half of the offered features.
    pub fn select_offered(&mut self, half: u32) {
        self.offered_half = half;
    }

    /// The selected half.
    pub fn offered_half(&self) -> u32 {
        self.offered_half
    }

    /// The selected half of the offered features.
    pub fn offered(&self) -> u32 {
        half(self.features(), self.offered_half)
    }

    /// Selects the half of the accepted features.
    pub fn select_accepted(&mut self, half: u32) {
        self.accepted_half = half;
    }

    /// The selected half.
    pub fn accepted_half(&self) -> u32 {
        self.accepted_half
    }

    /// The selected half of the accepted features.
    pub fn accepted(&self) -> u32 {
        half(self.accepted, self.accepted_half)
    }

    /// Sets the selected half of the accepted features. They are fixed once the device has agreed.
    pub fn accept(&mut self, bits: u32) {
        if self.status & FEATURES_OK != 0 {
            return;
        }
        match self.accepted_half {
            0 => self.accepted = self.accepted & !u64::from(u32::MAX) | u64::from(bits),
            1 => self.accepted = self.accepted & u64::from(u32::MAX) | u64::from(bits) << 32,
            _ => {}
        }
    }

    /// Selects the queue that the other queue registers are about.
    pub fn select_queue(&mut self, number: u32) {
        self.selected = number;
    }

    /// The number of the selected queue.
    pub fn selected(&self) -> u32 {
        self.selected
    }

    /// The selected queue. `None` if the device does not have it.
    pub fn queue(&self) -> Option<&Queue> {
        self.queues.get(self.selected as usize)
    }

    /// Like [`Virtio::queue`], to be changed by the driver, which it may be until it is enabled.
    pub fn queue_mut(&mut self) -> Option<&mut Queue> {
        self.queues.get_mut(self.selected as usize).filter(|queue| !queue.is_ready)
    }

    /// Enables or disables the selected queue.
    pub fn set_ready(&mut self, is_ready: bool) {
        if let Some(queue) = self.queues.get_mut(self.selected as usize) {
            queue.is_ready = is_ready;
        }
    }

    /// The driver has made chains available in this queue.
    pub fn notify(&mut self, number: u32, now: Ticks) {
        if self.is_running() {
            self.serve_later(number as usize, now);
        }
    }

    fn serve_later(&mut self, number: usize, now: Ticks) {
        if let Some(due) = self.due.get_mut(number) {
            due.get_or_insert(now.saturating_add(ticks(LATENCY_NANOSECONDS)));
        }
    }

    fn is_running(&self) -> bool {
        self.status & DRIVER_OK != 0 && self.status & NEEDS_RESET == 0
    }

    /// The time at which the device must be served. `None` if it waits for its driver.
    pub fn next(&self) -> Option<Ticks> {
        let timer = self.class.timer().filter(|_| self.is_running());
        self.due.iter().copied().chain([timer]).flatten().min()
    }

    /// Handles the requests whose time has come.
    pub fn serve(&mut self, now: Ticks, memory: &mut dyn Memory) {
        let arrived = self.class.arrived();
        if self.is_running() {
            self.class.pass_time(now);
        }
        for number in 0..self.queues.len() {
            if self.due.get(number).is_some_and(|due| due.is_some_and(|due| due <= now)) {
                let answer = self.serve_queue(number, now, memory);
                if let Some(due) = self.due.get_mut(number) {
                    *due = matches!(answer, Ok(true)).then(|| now.saturating_add(ticks(LATENCY_NANOSECONDS)));
                }
                if answer.is_err() {
                    self.status |= NEEDS_RESET;
                    self.causes |= CONFIGURATION_CHANGED;
                    self.due.fill(None);
                }
            }
        }
        if self.class.arrived() != arrived && self.is_running() {
            self.serve_later(net::RECEIVE, now);
        }
    }

    /// Handles the requests of a queue. Returns whether some were left.
    fn serve_queue(&mut self, number: usize, now: Ticks, memory: &mut dyn Memory) -> Result<bool, Broken> {
        let Some(queue) = self.queues.get_mut(number) else { return Ok(false) };
        let mut handled = 0;
        while handled < MOST_AT_ONCE && self.class.can_use(number) {
            let Some(chain) = queue.pop(memory)? else { break };
            let written = self.class.handle(number, &chain, memory, now);
            queue.push(memory, &chain, written)?;
            handled += 1;
        }
        if handled > 0 && queue.wants_interrupt(memory)? {
            self.causes |= USED_BUFFERS;
            self.answered |= 1 << (number & 63);
        }
        Ok(handled == MOST_AT_ONCE)
    }

    /// The causes of the interrupt.
    pub fn causes(&self) -> u8 {
        self.causes
    }

    /// Clears causes of the interrupt.
    pub fn acknowledge(&mut self, causes: u8) {
        self.causes &= !causes;
    }

    /// Takes the queues that have completed requests since the last call and whose driver wants an interrupt, a bit each.
    pub fn take_answered(&mut self) -> u64 {
        std::mem::take(&mut self.answered)
    }

    /// The level of the interrupt line.
    pub fn line(&self) -> bool {
        self.causes != 0
    }

    /// Reads `size` bytes of the configuration space, at most 8. Bytes behind its end are 0.
    pub fn configuration(&self, offset: u64, size: u32) -> u64 {
        let space = self.class.configuration();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = space.get(from.min(space.len())..).unwrap_or_default();
        bytes.iter().take(size.min(8) as usize).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }
}

fn half(bits: u64, number: u32) -> u32 {
    match number {
        0 => bits as u32,
        1 => (bits >> 32) as u32,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
