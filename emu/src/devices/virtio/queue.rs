//! A split virtqueue (virtio 1.2, section 2.7), read and written by the device.
//!
//! The rings are in guest memory, so nothing in them is trusted. A chain has at most as many descriptors as the queue.
//! A ring that breaks the rules gives [`Broken`], and the device then asks for a reset.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use trapline_isa::mem::{Fault, Memory};

/// The largest number of descriptors in a queue.
pub const MOST_DESCRIPTORS: u16 = 256;

const DESCRIPTOR_BYTES: u64 = 16;
const RING_HEAD_BYTES: u64 = 4;

const FLAG_NEXT: u16 = 1;
const FLAG_WRITABLE: u16 = 2;
const FLAG_INDIRECT: u16 = 4;
const NO_INTERRUPT: u16 = 1;

/// The rule that a ring breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Broken {
    /// A ring or a descriptor table is not in RAM.
    #[error("a ring is outside of RAM: {0}")]
    Outside(Fault),
    /// A descriptor number is not below the table's length.
    #[error("descriptor {0} is not in the table")]
    Number(u16),
    /// A chain has more descriptors than the queue, as a loop has.
    #[error("a chain has more descriptors than the queue")]
    Loop,
    /// The driver has made more chains available than the queue holds.
    #[error("{0} chains are available in a queue of {1}")]
    Overrun(u16, u16),
    /// An indirect table has no whole number of descriptors, is in another table, or is not the end of its chain.
    #[error("an indirect descriptor table is malformed")]
    Indirect,
    /// A buffer that the device reads follows one that it writes.
    #[error("a readable buffer follows a writable one")]
    Order,
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Broken {
        Broken::Outside(fault)
    }
}

/// A queue of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// The number of descriptors, a power of two.
    pub size: u16,
    /// Whether the driver has enabled it.
    pub is_ready: bool,
    /// Physical address of the descriptor table.
    pub descriptors: u64,
    /// Physical address of the available ring.
    pub available: u64,
    /// Physical address of the used ring.
    pub used: u64,
    next_available: u16,
    next_used: u16,
}

/// A buffer in guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Physical address.
    pub address: u64,
    /// Bytes.
    pub length: u32,
}

/// A request: buffers that the device reads, then buffers that it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    head: u16,
    /// The buffers that the device reads.
    pub readable: Pieces,
    /// The buffers that the device writes.
    pub writable: Pieces,
}

/// Buffers of a chain, which count as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces(Vec<Piece>);

struct Descriptor {
    piece: Piece,
    flags: u16,
    next: u16,
}

impl Queue {
    /// A queue after a reset.
    pub fn new() -> Queue {
        Queue { size: MOST_DESCRIPTORS, ..Queue::default() }
    }

    /// Whether a queue could be in this state. A damaged snapshot may hold another state.
    pub fn is_sound(&self) -> bool {
        self.size.is_power_of_two() && self.size <= MOST_DESCRIPTORS
    }

    /// Sets the number of descriptors. A number that is not allowed is ignored.
    pub fn resize(&mut self, size: u32) {
        if let Ok(size) = u16::try_from(size)
            && size.is_power_of_two()
            && size <= MOST_DESCRIPTORS
        {
            self.size = size;
        }
    }

    /// Takes the next available chain. `Ok(None)` if there is none.
    pub fn pop(&mut self, memory: &mut dyn Memory) -> Result<Option<Chain>, Broken> {
        if !self.is_ready {
            return Ok(None);
        }
        let index = number16(memory, self.available.wrapping_add(2))?;
        let waiting = index.wrapping_sub(self.next_available);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > self.size {
            return Err(Broken::Overrun(waiting, self.size));
        }
        let slot = u64::from(self.next_available & (self.size - 1));
        let head = number16(memory, self.available.wrapping_add(RING_HEAD_BYTES + 2 * slot))?;
        let chain = self.chain(head, memory)?;
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(chain))
    }

    fn chain(&self, head: u16, memory: &mut dyn Memory) -> Result<Chain, Broken> {
        let mut chain = Chain { head, ..Chain::default() };
        let (mut table, mut entries, mut number) = (self.descriptors, u32::from(self.size), head);
        let mut is_indirect = false;
        for _ in 0..self.size {
            if u32::from(number) >= entries {
                return Err(Broken::Number(number));
            }
            let Descriptor { piece, flags, next } = descriptor(memory, table, number)?;
            if flags & FLAG_INDIRECT != 0 {
                let count = piece.length / DESCRIPTOR_BYTES as u32;
                let is_whole = count > 0 && u64::from(piece.length) % DESCRIPTOR_BYTES == 0;
                if is_indirect || !is_whole || flags & FLAG_NEXT != 0 {
                    return Err(Broken::Indirect);
                }
                (table, entries, number, is_indirect) = (piece.address, count, 0, true);
                continue;
            }
            if flags & FLAG_WRITABLE != 0 {
                chain.writable.0.push(piece);
            } else if chain.writable.0.is_empty() {
                chain.readable.0.push(piece);
            } else {
                return Err(Broken::Order);
            }
            if flags & FLAG_NEXT == 0 {
                return Ok(chain);
            }
            number = next;
        }
        Err(Broken::Loop)
    }

    /// Returns a chain to the driver, in which the device wrote this many bytes.
    pub fn push(&mut self, memory: &mut dyn Memory, chain: &Chain, written: u32) -> Result<(), Broken> {
        const ENTRY_BYTES: u64 = 8;
        let slot = u64::from(self.next_used & (self.size - 1));
        let mut entry = [0; ENTRY_BYTES as usize];
        entry[..4].copy_from_slice(&u32::from(chain.head).to_le_bytes());
        entry[4..].copy_from_slice(&written.to_le_bytes());
        memory.write(self.used.wrapping_add(RING_HEAD_BYTES + ENTRY_BYTES * slot), &entry)?;
        self.next_used = self.next_used.wrapping_add(1);
        memory.write(self.used.wrapping_add(2), &self.next_used.to_le_bytes())?;
        Ok(())
    }

    /// Whether the driver wants an interrupt for returned chains.
    pub fn wants_interrupt(&self, memory: &mut dyn Memory) -> Result<bool, Broken> {
        Ok(number16(memory, self.available)? & NO_INTERRUPT == 0)
    }
}

fn number16(memory: &mut dyn Memory, address: u64) -> Result<u16, Broken> {
    let mut bytes = [0; 2];
    memory.read(address, &mut bytes)?;
    Ok(u16::from_le_bytes(bytes))
}

fn descriptor(memory: &mut dyn Memory, table: u64, number: u16) -> Result<Descriptor, Broken> {
    let mut bytes = [0; DESCRIPTOR_BYTES as usize];
    memory.read(table.wrapping_add(DESCRIPTOR_BYTES * u64::from(number)), &mut bytes)?;
    let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, f0, f1, n0, n1] = bytes;
    let piece =
        Piece { address: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]), length: u32::from_le_bytes([l0, l1, l2, l3]) };
    Ok(Descriptor { piece, flags: u16::from_le_bytes([f0, f1]), next: u16::from_le_bytes([n0, n1]) })
}

impl Pieces {
    /// The number of bytes in all buffers.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|piece| u64::from(piece.length)).sum()
    }

    /// Fills `into` from this offset on. Fails if the buffers are too short or not in RAM.
    pub fn read(&self, memory: &mut dyn Memory, offset: u64, into: &mut [u8]) -> Result<(), Fault> {
        let mut rest = into;
        self.each(offset, rest.len() as u64, false, |address, length| {
            let (part, behind) = std::mem::take(&mut rest).split_at_mut_checked(length).unwrap_or_default();
            rest = behind;
            memory.read(address, part)
        })
    }

    /// Writes all of `bytes` from this offset on. Fails if the buffers are too short or not in RAM; a part may be written
    /// then.
    pub fn write(&self, memory: &mut dyn Memory, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        let mut rest = bytes;
        self.each(offset, rest.len() as u64, true, |address, length| {
            let (part, behind) = rest.split_at_checked(length).unwrap_or_default();
            rest = behind;
            memory.write(address, part)
        })
    }

    /// Calls `act` with the address and the length of each part of this range.
    fn each(
        &self,
        offset: u64,
        length: u64,
        write: bool,
        mut act: impl FnMut(u64, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (mut skipped, mut rest) = (offset, length);
        for piece in &self.0 {
            let bytes = u64::from(piece.length);
            let part = bytes.saturating_sub(skipped).min(rest);
            if part > 0 {
                act(piece.address.wrapping_add(skipped), part as usize)?;
                rest -= part;
            }
            skipped = skipped.saturating_sub(bytes);
        }
        let behind = self.0.last().map_or(0, |piece| piece.address.wrapping_add(piece.length.into()));
        if rest == 0 { Ok(()) } else { Err(Fault { address: behind, write }) }
    }
}

#[cfg(test)]
mod tests;
