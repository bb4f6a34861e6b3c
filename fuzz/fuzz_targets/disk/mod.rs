//! The disk of the fuzz targets.

use std::io;
use std::sync::Arc;
use trapline::devices::virtio::Attached;
use trapline::devices::virtio::blk::{Base, Disk};

/// A base of 1 MiB of zeroes.
#[derive(Debug)]
struct Zeroes;

impl Base for Zeroes {
    fn bytes(&self) -> u64 {
        1 << 20
    }
    fn read(&self, _: u64, into: &mut [u8]) -> io::Result<()> {
        into.fill(0);
        Ok(())
    }
    fn checksum(&self) -> io::Result<String> {
        Ok(String::new())
    }
}

/// A writable disk of zeroes.
pub fn zeroes() -> Attached {
    Attached::Disk(Disk { base: Arc::new(Zeroes), read_only: false })
}
