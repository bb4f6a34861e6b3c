//! The transport by memory-mapped registers (virtio 1.2, section 4.2), for boards with a device tree.

use super::core::Virtio;
use super::queue::{MOST_DESCRIPTORS, Queue};
use crate::clock::Ticks;

/// Bytes of a device's registers.
pub const BYTES: u64 = 0x200;

const MAGIC: u64 = 0x00;
const VERSION: u64 = 0x04;
const DEVICE: u64 = 0x08;
const VENDOR: u64 = 0x0c;
const OFFERED: u64 = 0x10;
const OFFERED_HALF: u64 = 0x14;
const ACCEPTED: u64 = 0x20;
const ACCEPTED_HALF: u64 = 0x24;
const QUEUE: u64 = 0x30;
const QUEUE_MOST: u64 = 0x34;
const QUEUE_SIZE: u64 = 0x38;
const QUEUE_READY: u64 = 0x44;
const NOTIFY: u64 = 0x50;
const CAUSES: u64 = 0x60;
const ACKNOWLEDGE: u64 = 0x64;
const STATUS: u64 = 0x70;
const DESCRIPTORS: u64 = 0x80;
const AVAILABLE: u64 = 0x90;
const USED: u64 = 0xa0;
/// Shared memory, of which there is none: its length reads as all ones.
const SHARED: u64 = 0xb0;
const SHARED_END: u64 = 0xc0;
const GENERATION: u64 = 0xfc;
const CONFIGURATION: u64 = 0x100;

const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"virt");
const VERSION_VALUE: u32 = 2;
const VENDOR_VALUE: u32 = u32::from_le_bytes(*b"trap");

/// A read of a register.
pub fn read(device: &Virtio, offset: u64, size: u32) -> u64 {
    let value = match offset {
        MAGIC => MAGIC_VALUE,
        VERSION => VERSION_VALUE,
        DEVICE => device.id(),
        VENDOR => VENDOR_VALUE,
        OFFERED => device.offered(),
        QUEUE_MOST => device.queue().map_or(0, |_| MOST_DESCRIPTORS.into()),
        QUEUE_READY => device.queue().is_some_and(|queue| queue.is_ready).into(),
        CAUSES => device.causes().into(),
        STATUS => device.status().into(),
        SHARED..SHARED_END => u32::MAX,
        GENERATION => 0,
        CONFIGURATION.. => return device.configuration(offset - CONFIGURATION, size),
        _ => 0,
    };
    value.into()
}

/// A write to a register. Writes to the configuration space are ignored: no device has a field that the driver sets.
pub fn write(device: &mut Virtio, offset: u64, value: u32, now: Ticks) {
    match offset {
        OFFERED_HALF => device.select_offered(value),
        ACCEPTED => device.accept(value),
        ACCEPTED_HALF => device.select_accepted(value),
        QUEUE => device.select_queue(value),
        QUEUE_SIZE => change(device, |queue| queue.resize(value)),
        QUEUE_READY => device.set_ready(value & 1 != 0),
        NOTIFY => device.notify(value, now),
        ACKNOWLEDGE => device.acknowledge(value as u8),
        STATUS => device.set_status(value as u8),
        DESCRIPTORS => change(device, |queue| low(&mut queue.descriptors, value)),
        0x84 => change(device, |queue| high(&mut queue.descriptors, value)),
        AVAILABLE => change(device, |queue| low(&mut queue.available, value)),
        0x94 => change(device, |queue| high(&mut queue.available, value)),
        USED => change(device, |queue| low(&mut queue.used, value)),
        0xa4 => change(device, |queue| high(&mut queue.used, value)),
        _ => {}
    }
}

fn change(device: &mut Virtio, change: impl FnOnce(&mut Queue)) {
    if let Some(queue) = device.queue_mut() {
        change(queue);
    }
}

/// Replaces the low half of an address.
pub fn low(address: &mut u64, value: u32) {
    *address = *address & !u64::from(u32::MAX) | u64::from(value);
}

/// Replaces the high half of an address.
pub fn high(address: &mut u64, value: u32) {
    *address = *address & u64::from(u32::MAX) | u64::from(value) << 32;
}
