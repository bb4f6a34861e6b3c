//! The qcow2 format, read (docs/interop/qcow2.txt of QEMU describes it): two levels of tables lead from a cluster of the
//! disk to its place in the file. A cluster may be missing, zero, or compressed.

use super::{DiskError, Image};
use crate::devices::virtio::blk::Base;
use std::io::{self, Read};
use std::sync::Mutex;

/// The start of a file.
pub const MAGIC: [u8; 4] = *b"QFI\xfb";

const HEADER_BYTES: usize = 112;
const VERSION_2_HEADER_BYTES: u32 = 72;
const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=21;
/// The largest first table in bytes, as in QEMU.
const MOST_TABLE_BYTES: u64 = 32 << 20;

/// Bits of the incompatible features. The dirty bit does not matter to a reader: the reference counts may be wrong.
const DIRTY: u64 = 1;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION_TYPE: u64 = 1 << 3;
const ZSTD: u8 = 1;

const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;

/// An image.
#[derive(Debug)]
pub struct Qcow2 {
    file: Image,
    bytes: u64,
    cluster_bits: u32,
    is_zstd: bool,
    /// The offsets of the second tables.
    tables: Vec<u64>,
    /// The cluster that was unpacked last, with its number. Disks are read in order.
    unpacked: Mutex<Option<(u64, Vec<u8>)>>,
}

/// The place of a cluster.
enum Place {
    Nowhere,
    At(u64),
    Packed { offset: u64, bytes: u64 },
}

impl Qcow2 {
    pub fn new(file: Image) -> Result<Qcow2, DiskError> {
        let mut header = [0; HEADER_BYTES];
        file.read(0, &mut header)?;
        let word =
            |at: usize| header.get(at..at + 4).and_then(|word| word.first_chunk()).map_or(0, |word| u32::from_be_bytes(*word));
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let refused = |why| Err(DiskError::Qcow2(why));
        let (version, cluster_bits, bytes) = (word(4), word(20), long(24));
        let (features, header_bytes) = if version == 2 { (0, VERSION_2_HEADER_BYTES) } else { (long(72), word(100)) };
        match () {
            () if !(2..=3).contains(&version) => return refused("of a version other than 2 and 3"),
            () if long(8) != 0 => return refused("on a backing file: make one file of them with `qemu-img convert -O qcow2`"),
            () if word(32) != 0 => return refused("that is encrypted"),
            () if features & CORRUPT != 0 => return refused("that is marked corrupt: repair it with `qemu-img check -r all`"),
            () if features & EXTERNAL_DATA != 0 => return refused("with its data in another file"),
            () if features & !(DIRTY | COMPRESSION_TYPE) != 0 => return refused("with features that trapline does not know"),
            () if !CLUSTER_BITS.contains(&cluster_bits) => return refused("with clusters of an impossible size"),
            () => {}
        }
        let is_zstd = features & COMPRESSION_TYPE != 0 && header_bytes > 104 && header.get(104) == Some(&ZSTD);
        // A cluster of numbers of 8 bytes each is a second table.
        let per_table = 1u64 << (2 * cluster_bits - 3);
        let (entries, table_at) = (u64::from(word(36)), long(40));
        if entries * 8 > MOST_TABLE_BYTES
            || entries < bytes.div_ceil(per_table)
            || table_at.saturating_add(entries * 8) > file.bytes
        {
            return refused("whose first table is cut off");
        }
        let mut table = vec![0; entries as usize * 8];
        file.read(table_at, &mut table)?;
        let tables = table.as_chunks::<8>().0.iter().map(|entry| u64::from_be_bytes(*entry) & OFFSET).collect();
        Ok(Qcow2 { file, bytes, cluster_bits, is_zstd, tables, unpacked: Mutex::new(None) })
    }

    fn cluster(&self) -> u64 {
        1 << self.cluster_bits
    }

    fn place(&self, cluster: u64) -> io::Result<Place> {
        let entry_bits = self.cluster_bits - 3;
        let table = self.tables.get((cluster >> entry_bits) as usize).copied().unwrap_or(0);
        if table == 0 {
            return Ok(Place::Nowhere);
        }
        let at = table + 8 * (cluster & ((1 << entry_bits) - 1));
        let mut entry = [0; 8];
        self.read_file(at, &mut entry)?;
        let entry = u64::from_be_bytes(entry);
        if entry & COMPRESSED == 0 {
            let offset = entry & OFFSET;
            return Ok(if offset == 0 || entry & ZERO != 0 { Place::Nowhere } else { Place::At(offset) });
        }
        // The offset's width follows from the cluster's; above it is the number of further sectors.
        const SECTOR: u64 = 512;
        let width = 62 - (self.cluster_bits - 8);
        let offset = entry & ((1 << width) - 1);
        let sectors = (entry & (COMPRESSED - 1)) >> width;
        Ok(Place::Packed { offset, bytes: (sectors + 1) * SECTOR - offset % SECTOR })
    }

    /// Reads the file, in which all of these bytes must be.
    fn read_file(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if offset.saturating_add(into.len() as u64) > self.file.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read(offset, into)
    }

    fn unpack(&self, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let held = bytes.min(self.file.bytes.saturating_sub(offset));
        let mut packed = vec![0; held as usize];
        self.read_file(offset, &mut packed)?;
        let mut cluster = Vec::with_capacity(self.cluster() as usize);
        // Bytes behind the end of the compressed data belong to others.
        match self.is_zstd {
            true => zstd::stream::read::Decoder::with_buffer(&packed[..])?
                .single_frame()
                .take(self.cluster())
                .read_to_end(&mut cluster)?,
            false => flate2::read::DeflateDecoder::new(&packed[..]).take(self.cluster()).read_to_end(&mut cluster)?,
        };
        if cluster.len() as u64 != self.cluster() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(cluster)
    }

    /// Fills `into` from an offset in a cluster.
    fn read_cluster(&self, number: u64, inside: u64, into: &mut [u8]) -> io::Result<()> {
        match self.place(number)? {
            Place::Nowhere => into.fill(0),
            Place::At(offset) => {
                // The last cluster may be cut off behind the end of the disk.
                if offset >= self.file.bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.file.read(offset + inside, into)?;
            }
            Place::Packed { offset, bytes } => {
                let mut unpacked = self.unpacked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if unpacked.as_ref().is_none_or(|(known, _)| *known != number) {
                    *unpacked = Some((number, self.unpack(offset, bytes)?));
                }
                let from = unpacked.as_ref().and_then(|(_, cluster)| cluster.get(inside as usize..)?.get(..into.len()));
                into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
            }
        }
        Ok(())
    }
}

impl Base for Qcow2 {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let inside = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX).min(into.len());
        let (mut rest, behind) = into.split_at_mut_checked(inside).unwrap_or_default();
        behind.fill(0);
        let mut at = offset;
        while !rest.is_empty() {
            let within = at % self.cluster();
            let length = rest.len().min((self.cluster() - within) as usize);
            let (part, next) = rest.split_at_mut(length);
            self.read_cluster(at / self.cluster(), within, part)?;
            (at, rest) = (at + length as u64, next);
        }
        Ok(())
    }

    fn checksum(&self) -> io::Result<String> {
        self.file.checksum()
    }
}
