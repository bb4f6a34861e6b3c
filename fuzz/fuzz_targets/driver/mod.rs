//! The driver of the fuzz targets of virtio devices: arbitrary register accesses, and arbitrary rings, descriptors and requests
//! in guest memory. The device must answer or ask for a reset, in bounded work, and must be able to be saved and restored.
//!
//! Input: commands. 0 NN: writes the next NN bytes to memory behind the last ones. 1 R V: writes the value V to the register
//! R. 2 R: reads it. 3: lets time pass and serves the device. 4 AA: goes to this address in memory. 5: brings the device up,
//! with its queues at the start of memory. 6 NN: sends the next NN bytes as one request in the last queue, and serves it.

use crate::ram::Ram;
use trapline::devices::virtio::{Virtio, mmio};
use trapline_isa::mem::{ByteOrder, Memory};

const START: u64 = 0x4000_0000;
const BYTES: usize = 1 << 16;
/// Addresses of a queue's parts, the distance to those of the next queue, and the number of descriptors.
const TABLE: u64 = START;
const AVAILABLE: u64 = START + 0x100;
const USED: u64 = START + 0x200;
const NEXT_QUEUE: u64 = 0x400;
const SIZE: u64 = 16;
/// The place of a request's bytes.
const REQUEST: u64 = START + 0x8000;

/// Brings the device up as a driver does.
fn up(device: &mut Virtio, now: u64) {
    let mut set = |register: u64, value: u32| mmio::write(device, register, value, now);
    let agreed = [(0x70, 0), (0x70, 3), (0x24, 1), (0x20, 1), (0x24, 0), (0x20, 1 << 28), (0x70, 11)];
    agreed.into_iter().for_each(|(register, value)| set(register, value));
    for queue in 0..2 {
        let [table, available, used] = [TABLE, AVAILABLE, USED].map(|at| (at + NEXT_QUEUE * queue) as u32);
        let parts = [(0x80, table), (0x84, 0), (0x90, available), (0x94, 0), (0xa0, used), (0xa4, 0)];
        [(0x30, queue as u32), (0x38, SIZE as u32)].into_iter().chain(parts).for_each(|(register, value)| set(register, value));
        set(0x44, 1);
    }
    set(0x70, 15);
}

/// Offers a buffer of these bytes in a queue.
fn offer(ram: &mut Ram, queue: u64, bytes: &[u8]) {
    let (table, available) = (TABLE + NEXT_QUEUE * queue, AVAILABLE + NEXT_QUEUE * queue);
    let mut index = [0; 2];
    let _ = ram.read(available + 2, &mut index);
    let index = u16::from_le_bytes(index);
    let slot = u64::from(index) % SIZE;
    let _ = ram.write(REQUEST, bytes);
    let descriptor = [&REQUEST.to_le_bytes()[..], &(bytes.len() as u32).to_le_bytes(), &[0; 4]].concat();
    let _ = ram.write(table + 16 * slot, &descriptor);
    let _ = ram.write(available + 4 + 2 * slot, &(slot as u16).to_le_bytes());
    let _ = ram.write(available + 2, &index.wrapping_add(1).to_le_bytes());
}

/// Drives a device by these commands.
pub fn drive(mut device: Virtio, data: &[u8]) {
    let (mut ram, mut now, mut at) = (Ram { start: START, order: ByteOrder::Little, bytes: vec![0; BYTES] }, 0, START);
    let last = device.queues().saturating_sub(1) as u64;
    let mut rest = data;
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(head)
    };
    let number =
        |bytes: Option<&[u8]>| bytes.unwrap_or_default().iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
    let serve = |device: &mut Virtio, ram: &mut Ram, now: &mut u64, queue: u64| {
        mmio::write(device, 0x50, queue as u32, *now);
        for _ in 0..4 {
            *now = device.next().unwrap_or(*now + 1);
            device.serve(*now, ram);
        }
    };
    while let Some(command) = take(1) {
        match command[0] & 7 {
            0 => {
                let length = number(take(1)) as usize;
                let bytes = take(length).unwrap_or_default();
                let _ = ram.write(at, bytes);
                at += bytes.len() as u64;
            }
            1 => mmio::write(&mut device, number(take(1)) * 4, number(take(4)) as u32, now),
            2 => drop(mmio::read(&device, number(take(2)), 4)),
            4 => at = START + number(take(2)),
            5 => up(&mut device, now),
            6 => {
                let length = number(take(1)) as usize;
                offer(&mut ram, last, take(length).unwrap_or_default());
                serve(&mut device, &mut ram, &mut now, last);
            }
            _ => serve(&mut device, &mut ram, &mut now, 0),
        }
    }
    assert!(device.is_sound(u64::MAX), "a device in an impossible state");
    let saved = serde_json::to_value(&device).expect("it can be saved");
    let restored: Virtio = serde_json::from_value(saved).expect("it can be restored");
    assert!(restored.is_sound(u64::MAX), "a restored device in an impossible state");
}
