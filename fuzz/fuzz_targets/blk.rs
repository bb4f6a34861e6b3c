//! Fuzzes a virtio disk (`driver/mod.rs`).
#![no_main]

mod disk;
mod driver;
mod ram;

use libfuzzer_sys::fuzz_target;
use trapline::devices::virtio::Virtio;

fuzz_target!(|data: &[u8]| {
    driver::drive(Virtio::new(&disk::zeroes()), data);
});
