//! The virtio devices of a board with memory-mapped transport: each has its own range of registers, one behind the other.

use super::{AttachError, Attached, Virtio, mmio};
use crate::clock::Ticks;
use serde::{Deserialize, Serialize};
use trapline_isa::mem::Memory;

/// The largest number of devices.
pub const MOST: usize = 8;

/// The devices of a board.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bank(Vec<Virtio>);

impl Bank {
    /// Bytes of the registers of all devices that there may be.
    pub const BYTES: u64 = MOST as u64 * mmio::BYTES;

    /// Whether there is no device.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of devices.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a device. Fails if there are too many.
    pub fn attach(&mut self, attached: &Attached) -> Result<(), AttachError> {
        if self.0.len() == MOST {
            return Err(AttachError::TooMany);
        }
        self.0.push(Virtio::new(attached));
        Ok(())
    }

    /// Whether devices from a snapshot are possible, before the time `last`.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.0.len() <= MOST && self.0.iter().all(|device| device.is_sound(last))
    }

    /// Takes over the host's side of the devices that these restored ones replace. Fails if those are other devices.
    pub fn adopt(&mut self, other: &Bank) -> Result<(), AttachError> {
        if self.0.len() != other.0.len() {
            return Err(AttachError::Number(self.0.len(), other.0.len()));
        }
        self.0.iter_mut().zip(&other.0).try_for_each(|(mine, other)| mine.adopt(other))
    }

    /// The devices, to be reached by another transport than memory-mapped registers.
    pub fn devices(&self) -> &[Virtio] {
        &self.0
    }

    /// Like [`Bank::devices`], to be changed.
    pub fn devices_mut(&mut self) -> &mut [Virtio] {
        &mut self.0
    }

    /// A read of a register, by its offset from the first device.
    pub fn read(&self, offset: u64, size: u32) -> u64 {
        self.0.get((offset / mmio::BYTES) as usize).map_or(0, |device| mmio::read(device, offset % mmio::BYTES, size))
    }

    /// A write to a register.
    pub fn write(&mut self, offset: u64, value: u64, now: Ticks) {
        if let Some(device) = self.0.get_mut((offset / mmio::BYTES) as usize) {
            mmio::write(device, offset % mmio::BYTES, value as u32, now);
        }
    }

    /// The levels of the interrupt lines, in the devices' order.
    pub fn lines(&self) -> impl Iterator<Item = bool> {
        self.0.iter().map(Virtio::line)
    }

    /// The time at which a device must be served.
    pub fn next(&self) -> Option<Ticks> {
        self.0.iter().filter_map(Virtio::next).min()
    }

    /// Handles the requests whose time has come.
    pub fn serve(&mut self, now: Ticks, memory: &mut dyn Memory) {
        for device in &mut self.0 {
            device.serve(now, memory);
        }
    }
}
