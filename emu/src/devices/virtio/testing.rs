//! A driver for the tests of devices: RAM, and a queue in it.

use super::blk::Base;
use super::core::Virtio;
use super::mmio;
use crate::clock::{Ticks, ticks};
use std::io;
use trapline_isa::mem::{ByteOrder, Fault, Memory};

/// Guest RAM from [`Ram::BASE`] on.
pub struct Ram(pub Vec<u8>);

impl Ram {
    pub const BASE: u64 = 0x4000_0000;

    pub fn new(bytes: usize) -> Ram {
        Ram(vec![0; bytes])
    }

    fn range(&self, address: u64, length: usize) -> Option<std::ops::Range<usize>> {
        let from = usize::try_from(address.checked_sub(Ram::BASE)?).ok()?;
        let end = from.checked_add(length)?;
        (end <= self.0.len()).then_some(from..end)
    }
}

impl Memory for Ram {
    fn order(&self) -> ByteOrder {
        ByteOrder::Big
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let range = self.range(address, into.len()).ok_or(Fault { address, write: false })?;
        into.copy_from_slice(&self.0[range]);
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let range = self.range(address, bytes.len()).ok_or(Fault { address, write: true })?;
        self.0[range].copy_from_slice(bytes);
        Ok(())
    }
}

/// A disk's base whose bytes follow from their offset.
#[derive(Clone, Debug)]
pub struct Pattern(pub u64);

impl Pattern {
    pub fn byte(offset: u64) -> u8 {
        ((offset / 7) ^ (offset / 4096)) as u8
    }
}

impl Base for Pattern {
    fn bytes(&self) -> u64 {
        self.0
    }
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        for (at, byte) in (offset..).zip(into) {
            *byte = if at < self.0 { Pattern::byte(at) } else { 0 };
        }
        Ok(())
    }
    fn checksum(&self) -> io::Result<String> {
        Ok(format!("pattern of {}", self.0))
    }
}

/// Addresses of the driver's first queue. The others follow.
pub const TABLE: u64 = Ram::BASE;
pub const AVAILABLE: u64 = Ram::BASE + 0x1000;
pub const USED: u64 = Ram::BASE + 0x2000;
const NEXT_QUEUE: u64 = 0x800;
/// The start of the memory for buffers.
pub const BUFFERS: u64 = Ram::BASE + 0x4000;

/// A buffer of a request to make.
pub enum Buffer<'a> {
    Given(&'a [u8]),
    Room(usize),
}

/// A driver with queues of 16 descriptors, at most two. One of them is in use at a time.
pub struct Driver {
    pub device: Virtio,
    pub ram: Ram,
    pub now: Ticks,
    /// The number of the queue in use.
    pub queue: usize,
    made: [u16; 2],
}

impl Driver {
    pub const SIZE: u16 = 16;

    /// Brings a device up as Linux does.
    pub fn new(device: Virtio) -> Driver {
        let mut driver = Driver { device, ram: Ram::new(1 << 20), now: 0, queue: 0, made: [0; 2] };
        for (register, value) in [(0x70, 0), (0x70, 1), (0x70, 3), (0x24, 1), (0x20, 1), (0x24, 0), (0x20, 0), (0x70, 11)] {
            driver.set(register, value);
        }
        assert_eq!(driver.get(0x70), 11, "the device agrees");
        (0..driver.device.queues()).rev().for_each(|queue| driver.enable(queue));
        driver.set(0x70, 15);
        driver
    }

    fn enable(&mut self, queue: usize) {
        self.queue = queue;
        self.set(0x30, queue as u32);
        self.set(0x38, Driver::SIZE.into());
        for (register, address) in [(0x80, TABLE), (0x90, AVAILABLE), (0xa0, USED)] {
            let address = self.at(address);
            self.set(register, address as u32);
            self.set(register + 4, (address >> 32) as u32);
        }
        self.set(0x44, 1);
    }

    /// The address of a part of the queue in use, by that of the first one.
    fn at(&self, first: u64) -> u64 {
        first + NEXT_QUEUE * self.queue as u64
    }

    pub fn set(&mut self, register: u64, value: u32) {
        mmio::write(&mut self.device, register, value, self.now);
    }

    pub fn get(&self, register: u64) -> u32 {
        mmio::read(&self.device, register, 4) as u32
    }

    /// Writes a descriptor.
    pub fn describe(&mut self, number: u16, address: u64, length: u32, flags: u16, next: u16) {
        let bytes = [&address.to_le_bytes()[..], &length.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
        self.ram.write(self.at(TABLE) + 16 * u64::from(number), &bytes).expect("the table");
    }

    /// Makes the chain from this descriptor on available.
    pub fn offer(&mut self, head: u16) {
        let ring = self.at(AVAILABLE);
        let made = &mut self.made[self.queue];
        let slot = ring + 4 + 2 * u64::from(*made % Driver::SIZE);
        *made = made.wrapping_add(1);
        let index = *made;
        self.ram.write(slot, &head.to_le_bytes()).expect("the ring");
        self.ram.write(ring + 2, &index.to_le_bytes()).expect("the ring");
    }

    /// Notifies the device and lets time pass until it has served its queue.
    pub fn kick(&mut self) {
        self.notify();
        while let Some(due) = self.device.next() {
            assert!(due <= self.now + ticks(super::core::LATENCY_NANOSECONDS));
            self.now = due;
            self.device.serve(self.now, &mut self.ram);
        }
    }

    /// Notifies the device of chains in the queue in use.
    pub fn notify(&mut self) {
        self.set(0x50, self.queue as u32);
    }

    /// Lets time pass.
    pub fn pass(&mut self, until: Ticks) {
        while let Some(due) = self.device.next().filter(|due| *due <= until) {
            self.now = due;
            self.device.serve(self.now, &mut self.ram);
        }
        self.now = until;
    }

    /// Sends a request and returns the written bytes, of all buffers for answers.
    pub fn request(&mut self, buffers: &[Buffer<'_>]) -> Vec<u8> {
        let (mut at, mut room) = (BUFFERS, Vec::new());
        for (number, buffer) in (0..).zip(buffers) {
            let next = if usize::from(number) + 1 < buffers.len() { 1 } else { 0 };
            match buffer {
                Buffer::Given(bytes) => {
                    self.ram.write(at, bytes).expect("room");
                    self.describe(number, at, bytes.len() as u32, next, number + 1);
                    at += bytes.len() as u64;
                }
                Buffer::Room(length) => {
                    self.ram.write(at, &vec![0xa5; *length]).expect("room");
                    self.describe(number, at, *length as u32, next | 2, number + 1);
                    room.push((at, *length));
                    at += *length as u64;
                }
            }
        }
        self.offer(0);
        self.kick();
        let read = |(at, length): (u64, usize)| {
            let mut bytes = vec![0; length];
            self.ram.read(at, &mut bytes).expect("room");
            bytes
        };
        room.into_iter().flat_map(read).collect()
    }

    /// The number of returned chains, and the number of bytes written to the last one.
    pub fn returned(&mut self) -> (u16, u32) {
        let mut index = [0; 2];
        self.ram.read(self.at(USED) + 2, &mut index).expect("the ring");
        let index = u16::from_le_bytes(index);
        let mut length = [0; 4];
        let slot = u64::from(index.wrapping_sub(1) % Driver::SIZE);
        self.ram.read(self.at(USED) + 8 + 8 * slot, &mut length).expect("the ring");
        (index, u32::from_le_bytes(length))
    }
}
