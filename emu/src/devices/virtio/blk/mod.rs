//! A disk (virtio 1.2, section 5.2). The base is never written: what the guest writes goes to an [`Overlay`].

mod overlay;

pub use overlay::Overlay;

use super::AttachError;
use super::queue::{Chain, Pieces};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use trapline_isa::mem::Memory;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

const SIZE_MOST: u64 = 1 << 1;
const PIECES_MOST: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 5;
const BLOCK_SIZE: u64 = 1 << 6;
const FLUSHES: u64 = 1 << 9;

/// The largest buffer of a request, and the largest number of them.
const MOST_PIECE_BYTES: u32 = 128 << 10;
const MOST_PIECES: u32 = 126;
/// The most bytes of a request.
const MOST_BYTES: u64 = MOST_PIECE_BYTES as u64 * MOST_PIECES as u64;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const IDENTIFY: u32 = 8;

const DONE: u8 = 0;
const FAILED: u8 = 1;
const UNSUPPORTED: u8 = 2;

const HEADER_BYTES: u64 = 16;
const IDENTITY_BYTES: usize = 20;
/// Bytes that are copied at a time.
const CHUNK: usize = 64 << 10;

/// The contents of a disk before the guest writes. Reads give the same bytes as long as the guest runs.
pub trait Base: Debug + Send + Sync {
    /// The number of bytes.
    fn bytes(&self) -> u64;
    /// Fills `into` from this offset on. Bytes behind the end are 0.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// A checksum of all bytes, which identifies the contents.
    fn checksum(&self) -> io::Result<String>;
}

/// A disk to attach.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The contents.
    pub base: Arc<dyn Base>,
    /// Whether the guest may only read.
    pub read_only: bool,
}

impl Disk {
    /// The identity of the disk, for the key of a snapshot.
    pub fn identity(&self) -> Result<String, AttachError> {
        let checksum = self.base.checksum().map_err(|error| AttachError::Unreadable(error.to_string()))?;
        Ok(format!("disk {checksum}{}", if self.read_only { ",ro" } else { "" }))
    }
}

/// The disk as a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blk {
    overlay: Overlay,
    read_only: bool,
}

impl Blk {
    /// A disk that the guest has not written to.
    pub fn new(disk: Disk) -> Blk {
        Blk { overlay: Overlay::new(disk.base), read_only: disk.read_only }
    }

    /// Whether a disk could be in this state. A damaged snapshot may hold another state.
    pub fn is_sound(&self) -> bool {
        self.overlay.is_sound()
    }

    /// Takes over the base of the disk that this restored one replaces. Fails if that is another disk.
    pub fn adopt(&mut self, other: &Blk) -> Result<(), AttachError> {
        if self.read_only != other.read_only {
            return Err(AttachError::Rights);
        }
        self.overlay.adopt(&other.overlay)
    }

    /// The feature bits.
    pub fn features(&self) -> u64 {
        SIZE_MOST | PIECES_MOST | BLOCK_SIZE | FLUSHES | if self.read_only { READ_ONLY } else { 0 }
    }

    fn sectors(&self) -> u64 {
        self.overlay.bytes().div_ceil(SECTOR)
    }

    /// The configuration space, up to the size of a block.
    pub fn configuration(&self) -> Vec<u8> {
        const GEOMETRY: [u8; 4] = [0; 4];
        let mut space = self.sectors().to_le_bytes().to_vec();
        space.extend(MOST_PIECE_BYTES.to_le_bytes());
        space.extend(MOST_PIECES.to_le_bytes());
        space.extend(GEOMETRY);
        space.extend((SECTOR as u32).to_le_bytes());
        space
    }

    /// Handles a request. Returns the number of bytes written to its buffers. A request without room for a status cannot
    /// be answered.
    pub fn handle(&mut self, chain: &Chain, memory: &mut dyn Memory) -> u32 {
        let Some(status_at) = chain.writable.bytes().checked_sub(1) else { return 0 };
        let (status, written) = self.act(chain, status_at, memory);
        match chain.writable.write(memory, status_at, &[status]) {
            Ok(()) => u32::try_from(written + 1).unwrap_or(u32::MAX),
            Err(_) => 0,
        }
    }

    /// Carries out a request. Returns its status and the number of bytes written before the status.
    fn act(&mut self, chain: &Chain, room: u64, memory: &mut dyn Memory) -> (u8, u64) {
        let mut header = [0; HEADER_BYTES as usize];
        if chain.readable.read(memory, 0, &mut header).is_err() {
            return (FAILED, 0);
        }
        let [t0, t1, t2, t3, _, _, _, _, sector @ ..] = header;
        let given = chain.readable.bytes().saturating_sub(HEADER_BYTES);
        let from = u64::from_le_bytes(sector);
        match u32::from_le_bytes([t0, t1, t2, t3]) {
            READ => match self.span(from, room).and_then(|at| self.read(at, room, &chain.writable, memory)) {
                Some(()) => (DONE, room),
                None => (FAILED, 0),
            },
            WRITE if self.read_only => (FAILED, 0),
            WRITE => match self.span(from, given).and_then(|at| self.write(at, given, &chain.readable, memory)) {
                Some(()) => (DONE, 0),
                None => (FAILED, 0),
            },
            FLUSH => (DONE, 0),
            IDENTIFY => self.identify(room, &chain.writable, memory),
            _ => (UNSUPPORTED, 0),
        }
    }

    /// The offset in bytes of a request for whole sectors. `None` if it is not inside the disk or too long.
    fn span(&self, sector: u64, bytes: u64) -> Option<u64> {
        let end = sector.checked_add(bytes / SECTOR)?;
        let is_whole = bytes.is_multiple_of(SECTOR) && bytes <= MOST_BYTES;
        (is_whole && end <= self.sectors()).then(|| sector * SECTOR)
    }

    fn read(&self, at: u64, bytes: u64, into: &Pieces, memory: &mut dyn Memory) -> Option<()> {
        let mut chunk = vec![0; CHUNK.min(bytes as usize)];
        each_chunk(bytes, |done, length| {
            let part = chunk.get_mut(..length)?;
            self.overlay.read(at + done, part).ok()?;
            into.write(memory, done, part).ok()
        })
    }

    fn write(&mut self, at: u64, bytes: u64, from: &Pieces, memory: &mut dyn Memory) -> Option<()> {
        let mut chunk = vec![0; CHUNK.min(bytes as usize)];
        each_chunk(bytes, |done, length| {
            let part = chunk.get_mut(..length)?;
            from.read(memory, HEADER_BYTES + done, part).ok()?;
            self.overlay.write(at + done, part).ok()
        })
    }

    fn identify(&self, room: u64, into: &Pieces, memory: &mut dyn Memory) -> (u8, u64) {
        let mut name = [0; IDENTITY_BYTES];
        for (to, from) in name.iter_mut().zip(b"trapline") {
            *to = *from;
        }
        let length = room.min(IDENTITY_BYTES as u64);
        match into.write(memory, 0, name.get(..length as usize).unwrap_or_default()) {
            Ok(()) => (DONE, length),
            Err(_) => (FAILED, 0),
        }
    }
}

/// Splits `bytes` bytes into chunks of at most [`CHUNK`]. Calls `act` with the offset and the length of each, until it returns
/// `None`.
fn each_chunk(bytes: u64, mut act: impl FnMut(u64, usize) -> Option<()>) -> Option<()> {
    let mut done = 0;
    while done < bytes {
        let length = (bytes - done).min(CHUNK as u64);
        act(done, length as usize)?;
        done += length;
    }
    Some(())
}

#[cfg(test)]
mod tests;
