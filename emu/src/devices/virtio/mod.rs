//! Virtio devices (virtio 1.2, without its legacy interface): the queues in guest memory ([`queue`]), the state that
//! all transports share ([`core`]), the transports by memory-mapped registers ([`mmio`]) and PCI ([`pci`]), and the
//! devices, one per folder.
//!
//! A device has no threads and no clock. The driver's notification sets a virtual time, and the machine calls
//! [`Virtio::serve`] at that time. So a request takes a fixed virtual time, however long the host takes for it.

pub mod bank;
pub mod blk;
pub mod core;
pub mod mmio;
pub mod ninep;
pub mod pci;
pub mod queue;
#[cfg(test)]
mod testing;

pub use core::Virtio;

use blk::Blk;
use ninep::NineP;
use queue::Chain;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use trapline_isa::mem::Memory;

/// The kind of a device, with the state of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Class {
    /// A disk.
    Blk(Blk),
    /// A folder of the host.
    NineP(NineP),
}

/// The reason why a device cannot be on a board, or cannot continue from a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The board has no place for virtio devices.
    #[error("this board has no disks, folders or other virtio devices yet")]
    NoPlace,
    /// The board has no place for a further device.
    #[error("this board has room for {} disks, folders and other virtio devices", bank::MOST)]
    TooMany,
    /// A snapshot has another number of devices than the machine.
    #[error("its machine has {0} virtio devices, this one has {1}")]
    Number(usize, usize),
    /// A snapshot has a device of another kind.
    #[error("its virtio devices are of other kinds or come in another order")]
    Kind,
    /// A snapshot refers to a disk or a folder with other contents.
    #[error("its disk or folder has other contents than the one that is given now")]
    Contents,
    /// A snapshot refers to a disk with other rights.
    #[error("its disk may be written and this one may not, or the other way round")]
    Rights,
    /// The host cannot read what a device shows to the guest.
    #[error("a disk or a folder cannot be read: {0}")]
    Unreadable(String),
}

/// A device to add to a board.
#[derive(Clone, Debug)]
pub enum Attached {
    /// A block device (virtio-blk).
    Disk(blk::Disk),
    /// A folder of the host.
    Folder(ninep::Folder),
}

impl Attached {
    /// The identity of what the device shows to the guest, for the key of a snapshot. Reads a disk's whole base, and the
    /// attributes of all files of a folder.
    pub fn identity(&self) -> Result<String, AttachError> {
        match self {
            Attached::Disk(disk) => disk.identity(),
            Attached::Folder(folder) => folder.identity(),
        }
    }

    fn class(&self) -> Class {
        match self {
            Attached::Disk(disk) => Class::Blk(Blk::new(disk.clone())),
            Attached::Folder(folder) => Class::NineP(NineP::new(folder.clone())),
        }
    }
}

/// The properties of a class that the transports need.
impl Class {
    /// The device id (virtio 1.2, section 5).
    pub fn id(&self) -> u32 {
        match self {
            Class::Blk(_) => 2,
            Class::NineP(_) => 9,
        }
    }

    /// The number of queues.
    pub fn queues(&self) -> usize {
        match self {
            Class::Blk(_) | Class::NineP(_) => 1,
        }
    }

    /// The feature bits of this device type.
    pub fn features(&self) -> u64 {
        match self {
            Class::Blk(blk) => blk.features(),
            Class::NineP(folder) => folder.features(),
        }
    }

    /// The configuration space.
    pub fn configuration(&self) -> Vec<u8> {
        match self {
            Class::Blk(blk) => blk.configuration(),
            Class::NineP(folder) => folder.configuration(),
        }
    }

    /// Handles a request. Returns the number of bytes written to its buffers.
    fn handle(&mut self, chain: &Chain, memory: &mut dyn Memory) -> u32 {
        match self {
            Class::Blk(blk) => blk.handle(chain, memory),
            Class::NineP(folder) => folder.handle(chain, memory),
        }
    }

    /// Gives a restored device the host's side of the device that it replaces. Fails if that is another one.
    fn adopt(&mut self, other: &Class) -> Result<(), AttachError> {
        match (self, other) {
            (Class::Blk(mine), Class::Blk(other)) => mine.adopt(other),
            (Class::NineP(mine), Class::NineP(other)) => mine.adopt(other),
            _ => Err(AttachError::Kind),
        }
    }

    fn is_sound(&self) -> bool {
        match self {
            Class::Blk(blk) => blk.is_sound(),
            Class::NineP(folder) => folder.is_sound(),
        }
    }
}
