//! Fuzzes a virtio network card with the closed network behind it (`driver/mod.rs`): rings, and frames of any content.
#![no_main]

mod driver;
mod ram;

use libfuzzer_sys::fuzz_target;
use trapline::devices::virtio::net::Card;
use trapline::devices::virtio::{Attached, Virtio};
use trapline::network;

fuzz_target!(|data: &[u8]| {
    driver::drive(Virtio::new(&Attached::Network(Card { network: network::closed(None) })), data);
});
