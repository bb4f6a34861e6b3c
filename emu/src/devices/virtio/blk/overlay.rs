//! Copy-on-write: the blocks that the guest has written, over a base that stays as it is.
//!
//! In a snapshot, an overlay is the base's checksum, the base's length, and the written blocks: numbers and contents,
//! compressed, in base 64.

use super::super::AttachError;
use super::Base;
use crate::base64::{from_text, text};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// The most bytes that a guest may write to a disk: they are in the host's memory.
const MOST_BYTES: u64 = 4 << 30;
const LEVEL: i32 = 1;

type Block = [u8; BLOCK as usize];

/// A disk's contents.
#[derive(Clone, Debug)]
pub struct Overlay {
    base: Origin,
    written: BTreeMap<u64, Arc<Block>>,
}

/// The base of an overlay.
#[derive(Clone, Debug)]
enum Origin {
    Here(Arc<dyn Base>),
    /// The length and the checksum of a base that a snapshot refers to.
    Named(u64, String),
}

impl Overlay {
    /// An overlay without written blocks.
    pub fn new(base: Arc<dyn Base>) -> Overlay {
        Overlay { base: Origin::Here(base), written: BTreeMap::new() }
    }

    /// The disk's length in bytes.
    pub fn bytes(&self) -> u64 {
        match &self.base {
            Origin::Here(base) => base.bytes(),
            Origin::Named(bytes, _) => *bytes,
        }
    }

    /// Whether an overlay could be in this state: its blocks are inside the disk.
    pub fn is_sound(&self) -> bool {
        let blocks = self.bytes().div_ceil(BLOCK);
        self.written.last_key_value().is_none_or(|(last, _)| *last < blocks)
    }

    /// Takes over the base of another overlay. Fails if a snapshot refers to another base.
    pub fn adopt(&mut self, other: &Overlay) -> Result<(), AttachError> {
        let (mine, theirs) = (self.name()?, other.name()?);
        if mine != theirs {
            return Err(AttachError::Contents);
        }
        self.base = other.base.clone();
        Ok(())
    }

    fn name(&self) -> Result<(u64, String), AttachError> {
        match &self.base {
            Origin::Here(base) => match base.checksum() {
                Ok(checksum) => Ok((base.bytes(), checksum)),
                Err(error) => Err(AttachError::Unreadable(error.to_string())),
            },
            Origin::Named(bytes, checksum) => Ok((*bytes, checksum.clone())),
        }
    }

    /// Fills `into` from this offset on.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(into.len() as u64);
        self.read_base(offset, into)?;
        for (number, block) in self.written.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            let start = number * BLOCK;
            let (from, to) = (start.max(offset), (start + BLOCK).min(end));
            let source = block.get((from - start) as usize..(to - start) as usize);
            let target = into.get_mut((from - offset) as usize..(to - offset) as usize);
            if let (Some(source), Some(target)) = (source, target) {
                target.copy_from_slice(source);
            }
        }
        Ok(())
    }

    /// Reads the base, unless the guest has written all of these bytes.
    fn read_base(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let (first, end) = (offset / BLOCK, offset.saturating_add(into.len() as u64).div_ceil(BLOCK));
        let written = self.written.range(first..end).count() as u64;
        match &self.base {
            _ if written == end - first => Ok(()),
            Origin::Here(base) => base.read(offset, into),
            Origin::Named(..) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Writes all of `bytes` from this offset on. Fails if the base cannot be read or too much was written.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let inside = at % BLOCK;
            let length = rest.len().min((BLOCK - inside) as usize);
            let (part, behind) = rest.split_at(length);
            let block = self.block(at / BLOCK, length as u64 == BLOCK)?;
            if let Some(target) = block.get_mut(inside as usize..inside as usize + length) {
                target.copy_from_slice(part);
            }
            (at, rest) = (at + length as u64, behind);
        }
        Ok(())
    }

    /// A written block. A block that was not written is copied from the base, unless all of it is overwritten.
    fn block(&mut self, number: u64, is_overwritten: bool) -> io::Result<&mut Block> {
        if !self.written.contains_key(&number) {
            if (self.written.len() as u64 + 1) * BLOCK > MOST_BYTES {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let mut block = [0; BLOCK as usize];
            if !is_overwritten {
                self.read_base(number * BLOCK, &mut block)?;
            }
            self.written.insert(number, Arc::new(block));
        }
        self.written.get_mut(&number).map(Arc::make_mut).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The form in a snapshot.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    bytes: u64,
    base: String,
    written: String,
}

impl Serialize for Overlay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (bytes, base) = self.name().map_err(S::Error::custom)?;
        let mut plain = Vec::with_capacity(self.written.len() * (BLOCK as usize + 8));
        for (number, block) in &self.written {
            plain.extend(number.to_le_bytes());
            plain.extend_from_slice(&block[..]);
        }
        let packed = zstd::bulk::compress(&plain, LEVEL).map_err(S::Error::custom)?;
        Saved { bytes, base, written: text(&packed) }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Overlay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Overlay, D::Error> {
        let Saved { bytes, base, written } = Saved::deserialize(deserializer)?;
        let packed = from_text(&written).ok_or_else(|| D::Error::custom("a disk's blocks are not in base 64"))?;
        let written = blocks(&packed).map_err(|error| D::Error::custom(format!("a disk's blocks: {error}")))?;
        Ok(Overlay { base: Origin::Named(bytes, base), written })
    }
}

fn blocks(packed: &[u8]) -> io::Result<BTreeMap<u64, Arc<Block>>> {
    let mut plain = zstd::stream::read::Decoder::with_buffer(packed)?.take(MOST_BYTES + (MOST_BYTES >> 8));
    let mut blocks = BTreeMap::new();
    loop {
        let mut number = Vec::new();
        plain.by_ref().take(8).read_to_end(&mut number)?;
        if number.is_empty() {
            return Ok(blocks);
        }
        let number = number.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut block = [0; BLOCK as usize];
        plain.read_exact(&mut block)?;
        blocks.insert(number, Arc::new(block));
    }
}

#[cfg(test)]
mod tests;
