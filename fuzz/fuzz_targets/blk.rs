//! Fuzzes a virtio disk (`driver/mod.rs`).
#![no_main]

mod driver;

use libfuzzer_sys::fuzz_target;
use std::io;
use std::sync::Arc;
use trapline::devices::virtio::blk::{Base, Disk};
use trapline::devices::virtio::{Attached, Virtio};

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

fuzz_target!(|data: &[u8]| {
    driver::drive(Virtio::new(&Attached::Disk(Disk { base: Arc::new(Zeroes), read_only: false })), data);
});
