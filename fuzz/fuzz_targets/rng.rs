//! Fuzzes a virtio source of random numbers (`driver/mod.rs`).
#![no_main]

mod driver;
mod ram;

use libfuzzer_sys::fuzz_target;
use trapline::devices::virtio::rng::Source;
use trapline::devices::virtio::{Attached, Virtio};

fuzz_target!(|data: &[u8]| {
    driver::drive(Virtio::new(&Attached::Random(Source { seed: 1 })), data);
});
