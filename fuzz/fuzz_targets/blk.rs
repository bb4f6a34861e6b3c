//! Fuzzes a virtio disk: arbitrary register accesses and arbitrary rings, descriptors and requests in guest memory. The
//! device must answer or ask for a reset, in bounded work, and must be able to be saved.
//!
//! Input: commands. 0 NN: writes the next NN bytes to memory behind the last ones. 1 R V: writes the value V to the register
//! R. 2 R: reads it. 3: lets time pass and serves the device. 4 AA: goes to this address in memory. 5: brings the device up,
//! with its queue at the start of memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io;
use std::sync::Arc;
use trapline::devices::virtio::blk::{Base, Disk};
use trapline::devices::virtio::{Attached, Virtio, mmio};
use trapline_isa::mem::{ByteOrder, Fault, Memory};

const START: u64 = 0x4000_0000;
const BYTES: usize = 1 << 16;

struct Ram(Vec<u8>);

impl Ram {
    fn at(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let from = usize::try_from(address.checked_sub(START)?).ok()?;
        self.0.get_mut(from..from.checked_add(length)?)
    }
}

impl Memory for Ram {
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let from = self.at(address, into.len()).ok_or(Fault { address, write: false })?;
        into.copy_from_slice(from);
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.at(address, bytes.len()).ok_or(Fault { address, write: true })?.copy_from_slice(bytes);
        Ok(())
    }
}

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

/// The registers and values by which a driver brings the device up.
const UP: &[(u64, u32)] = &[
    (0x70, 0),
    (0x70, 3),
    (0x24, 1),
    (0x20, 1),
    (0x24, 0),
    (0x20, 1 << 28),
    (0x70, 11),
    (0x30, 0),
    (0x38, 16),
    (0x80, START as u32),
    (0x84, 0),
    (0x90, START as u32 + 0x100),
    (0x94, 0),
    (0xa0, START as u32 + 0x200),
    (0xa4, 0),
    (0x44, 1),
    (0x70, 15),
];

fuzz_target!(|data: &[u8]| {
    let mut device = Virtio::new(&Attached::Disk(Disk { base: Arc::new(Zeroes), read_only: false }));
    let (mut ram, mut now, mut at) = (Ram(vec![0; BYTES]), 0, START);
    let mut rest = data;
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(head.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    while let Some(command) = take(1) {
        match command & 7 {
            0 => {
                for _ in 0..take(1).unwrap_or(0) {
                    let Some(byte) = take(1) else { break };
                    let _ = ram.write(at, &[byte as u8]);
                    at += 1;
                }
            }
            1 => mmio::write(&mut device, take(1).unwrap_or(0) * 4, take(4).unwrap_or(0) as u32, now),
            2 => drop(mmio::read(&device, take(2).unwrap_or(0), 4)),
            4 => at = START + take(2).unwrap_or(0),
            5 => UP.iter().for_each(|(register, value)| mmio::write(&mut device, *register, *value, now)),
            _ => {
                mmio::write(&mut device, 0x50, 0, now);
                for _ in 0..4 {
                    now = device.next().unwrap_or(now + 1);
                    device.serve(now, &mut ram);
                }
            }
        }
    }
    assert!(device.is_sound(u64::MAX), "a device in an impossible state");
    let saved = serde_json::to_value(&device).expect("it can be saved");
    let restored: Virtio = serde_json::from_value(saved).expect("it can be restored");
    assert!(restored.is_sound(u64::MAX), "a restored device in an impossible state");
});
