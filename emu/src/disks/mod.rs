//! Disk images on the host, opened for reading only: raw files, and qcow2 (as `qemu-img` makes them).

mod qcow2;

use crate::devices::virtio::blk::Base;
use qcow2::Qcow2;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// The reason why a file is no disk.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// The file is a folder, a pipe or a device.
    #[error("it is no regular file")]
    NotAFile,
    /// The file is a qcow2 image that cannot be used.
    #[error("it is a qcow2 image {0}")]
    Qcow2(&'static str),
}

/// Opens a disk image. The file is never written.
pub fn open(path: &Path) -> Result<Arc<dyn Base>, DiskError> {
    // Opening a pipe would block until somebody writes to it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(DiskError::NotAFile);
    }
    let image = Image::new(File::open(path)?)?;
    let mut magic = [0; 4];
    image.read(0, &mut magic)?;
    Ok(if magic == qcow2::MAGIC { Arc::new(Qcow2::new(image)?) } else { Arc::new(image) })
}

/// A file on the host. It is a raw disk image by itself, and the storage of a qcow2 image.
#[derive(Debug)]
struct Image {
    file: File,
    /// The size of the file when it was opened.
    bytes: u64,
    /// The BLAKE3 hash of contents and size, in hexadecimal. Computed when it is first needed.
    checksum: OnceLock<String>,
}

impl Image {
    fn new(file: File) -> io::Result<Image> {
        let bytes = file.metadata()?.len();
        Ok(Image { file, bytes, checksum: OnceLock::new() })
    }
}

impl Base for Image {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let inside = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX).min(into.len());
        let (held, behind) = into.split_at_mut_checked(inside).unwrap_or_default();
        behind.fill(0);
        self.file.read_exact_at(held, offset)
    }

    fn checksum(&self) -> io::Result<String> {
        if let Some(known) = self.checksum.get() {
            return Ok(known.clone());
        }
        const CHUNK: usize = 1 << 20;
        let (mut hash, mut chunk, mut at) = (blake3::Hasher::new(), vec![0; CHUNK], 0);
        while at < self.bytes {
            self.read(at, &mut chunk)?;
            hash.update(&chunk);
            at += CHUNK as u64;
        }
        hash.update(&self.bytes.to_le_bytes());
        Ok(self.checksum.get_or_init(|| hash.finalize().to_hex().to_string()).clone())
    }
}

#[cfg(test)]
mod tests;
