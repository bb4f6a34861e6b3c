//! Virtio devices (virtio 1.2, without its legacy interface): the queues in guest memory ([`queue`]), the state that
//! all transports share ([`core`]), the transports by memory-mapped registers ([`mmio`]), PCI ([`pci`]) and channel I/O
//! ([`ccw`]), and the devices, one per folder.
//!
//! A device has no threads and no clock. The driver's notification sets a virtual time, and the machine calls
//! [`Virtio::serve`] at that time. So a request takes a fixed virtual time, however long the host takes for it.

pub mod bank;
pub mod blk;
pub mod ccw;
pub mod core;
pub mod mmio;
pub mod net;
pub mod ninep;
pub mod pci;
pub mod queue;
pub mod rng;
#[cfg(test)]
pub(crate) mod testing;

pub use core::Virtio;

use crate::clock::Ticks;
use blk::Blk;
use net::{Net, Network};
use ninep::NineP;
use queue::Chain;
use rng::Rng;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thiserror::Error;
use trapline_isa::mem::Memory;

/// The kind of a device, with the state of its own.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Class {
    /// A disk.
    Blk(Blk),
    /// A folder of the host.
    NineP(NineP),
    /// A network card.
    Net(Net),
    /// A source of random numbers.
    Rng(Rng),
}

/// The reason why a device cannot be on a board, or cannot continue from a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The board has no place for virtio devices.
    #[error("this board has no disks, folders, networks or other virtio devices yet")]
    NoPlace,
    /// The board has no place for a further device.
    #[error("this board has room for {} disks, folders, networks and other virtio devices", bank::MOST)]
    TooMany,
    /// A snapshot has another number of devices than the machine.
    #[error("its machine has {0} virtio devices, this one has {1}")]
    Number(usize, usize),
    /// A snapshot has a device of another kind.
    #[error("its virtio devices are of other kinds or come in another order")]
    Kind,
    /// A snapshot refers to a disk, a folder or a network with other contents.
    #[error("its disk, folder or network has other contents than the one that is given now")]
    Contents,
    /// A snapshot refers to a disk with other rights.
    #[error("its disk may be written and this one may not, or the other way round")]
    Rights,
    /// The host cannot read what a device shows to the guest.
    #[error("a disk, a folder or a network's folder cannot be read: {0}")]
    Unreadable(String),
}

/// A device to add to a board.
#[derive(Clone, Debug)]
pub enum Attached {
    /// A block device (virtio-blk).
    Disk(blk::Disk),
    /// A folder of the host.
    Folder(ninep::Folder),
    /// A network card.
    Network(net::Card),
    /// A source of random numbers.
    Random(rng::Source),
}

impl Attached {
    /// The identity of what the device shows to the guest, for the key of a snapshot. Reads a disk's whole base, and the
    /// attributes of all files of a folder.
    pub fn identity(&self) -> Result<String, AttachError> {
        match self {
            Attached::Disk(disk) => disk.identity(),
            Attached::Folder(folder) => folder.identity(),
            Attached::Network(card) => card.identity(),
            Attached::Random(source) => Ok(source.identity()),
        }
    }

    /// The network of a card.
    pub fn network(&self) -> Option<&Arc<dyn Network>> {
        match self {
            Attached::Network(card) => Some(&card.network),
            _ => None,
        }
    }

    fn class(&self) -> Class {
        match self {
            Attached::Disk(disk) => Class::Blk(Blk::new(disk.clone())),
            Attached::Folder(folder) => Class::NineP(NineP::new(folder.clone())),
            Attached::Network(card) => Class::Net(Net::new(card.clone())),
            Attached::Random(source) => Class::Rng(Rng::new(*source)),
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
            Class::Net(_) => 1,
            Class::Rng(_) => 4,
        }
    }

    /// The class code of its PCI function: a network card, none of the known ones for random numbers, or the usual one of other
    /// devices, a disk's controller.
    pub fn pci_class(&self) -> u32 {
        match self {
            Class::Blk(_) | Class::NineP(_) => 0x01_8000,
            Class::Net(_) => 0x02_0000,
            Class::Rng(_) => 0xff_0000,
        }
    }

    /// The number of queues.
    pub fn queues(&self) -> usize {
        match self {
            Class::Blk(_) | Class::NineP(_) | Class::Rng(_) => 1,
            Class::Net(_) => 2,
        }
    }

    /// The feature bits of this device type.
    pub fn features(&self) -> u64 {
        match self {
            Class::Blk(blk) => blk.features(),
            Class::NineP(folder) => folder.features(),
            Class::Net(net) => net.features(),
            Class::Rng(_) => 0,
        }
    }

    /// The configuration space.
    pub fn configuration(&self) -> Vec<u8> {
        match self {
            Class::Blk(blk) => blk.configuration(),
            Class::NineP(folder) => folder.configuration(),
            Class::Net(net) => net.configuration(),
            Class::Rng(_) => Vec::new(),
        }
    }

    /// Handles a request in this queue. Returns the number of bytes written to its buffers.
    fn handle(&mut self, queue: usize, chain: &Chain, memory: &mut dyn Memory, now: Ticks) -> u32 {
        match self {
            Class::Blk(blk) => blk.handle(chain, memory),
            Class::NineP(folder) => folder.handle(chain, memory),
            Class::Rng(numbers) => numbers.handle(chain, memory),
            Class::Net(net) if queue == net::RECEIVE => net.receive(chain, memory),
            Class::Net(net) => {
                net.send(chain, memory, now);
                0
            }
        }
    }

    /// Whether the device has a use for a chain of this queue. It has none for the buffers of frames that have not come.
    fn can_use(&self, queue: usize) -> bool {
        match self {
            Class::Blk(_) | Class::NineP(_) | Class::Rng(_) => true,
            Class::Net(net) => queue != net::RECEIVE || net.has_waiting(),
        }
    }

    /// The time at which the device acts by itself.
    fn timer(&self) -> Option<Ticks> {
        match self {
            Class::Blk(_) | Class::NineP(_) | Class::Rng(_) => None,
            Class::Net(net) => net.timer(),
        }
    }

    /// Lets the device act by itself, if its time has come.
    fn pass_time(&mut self, now: Ticks) {
        match self {
            Class::Blk(_) | Class::NineP(_) | Class::Rng(_) => {}
            Class::Net(net) => net.pass_time(now),
        }
    }

    /// The number of frames that have come for the guest.
    fn arrived(&self) -> u64 {
        match self {
            Class::Blk(_) | Class::NineP(_) | Class::Rng(_) => 0,
            Class::Net(net) => net.arrived(),
        }
    }

    /// Follows a reset by the driver.
    fn reset(&mut self) {
        match self {
            Class::Blk(_) | Class::NineP(_) | Class::Rng(_) => {}
            Class::Net(net) => net.reset(),
        }
    }

    /// Gives a restored device the host's side of the device that it replaces. Fails if that is another one.
    fn adopt(&mut self, other: &Class) -> Result<(), AttachError> {
        match (self, other) {
            (Class::Blk(mine), Class::Blk(other)) => mine.adopt(other),
            (Class::NineP(mine), Class::NineP(other)) => mine.adopt(other),
            (Class::Net(mine), Class::Net(other)) => mine.adopt(other),
            (Class::Rng(mine), Class::Rng(other)) => mine.adopt(other),
            _ => Err(AttachError::Kind),
        }
    }

    fn is_sound(&self, last: Ticks) -> bool {
        match self {
            Class::Blk(blk) => blk.is_sound(),
            Class::NineP(folder) => folder.is_sound(),
            Class::Net(net) => net.is_sound(last),
            Class::Rng(_) => true,
        }
    }
}
