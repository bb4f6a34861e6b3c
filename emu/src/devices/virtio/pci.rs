//! The transport by PCI (virtio 1.2, section 4.1): a bus with a host bridge and one function for each virtio device, with
//! interrupts by lines. The board reaches configuration space by address, and registers by the functions' base addresses.

use super::AttachError;
use super::bank::MOST;
use super::core::Virtio;
use super::mmio::{high, low};
use crate::clock::Ticks;
use serde::{Deserialize, Serialize};
use trapline_isa::mem::Memory;

/// Bytes of a function's registers: four regions of a page each.
pub const BYTES: u32 = 0x4000;
const COMMON: u32 = 0x0000;
const CAUSES: u32 = 0x1000;
const CONFIGURATION: u32 = 0x2000;
const NOTIFY: u32 = 0x3000;
const NOTIFY_MULTIPLIER: u32 = 4;

// Offsets in configuration space.
const COMMAND: u8 = 0x04;
const BASE: u8 = 0x10;
const LINE: u8 = 0x3c;
const CAPABILITIES: u8 = 0x40;

const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_NO_INTERRUPT: u16 = 1 << 10;
/// The bits of the command register that can be set: memory, bus master, no interrupt.
const COMMAND_BITS: u16 = COMMAND_MEMORY | 1 << 2 | COMMAND_NO_INTERRUPT;
const STATUS_CAPABILITIES: u16 = 1 << 4;
const STATUS_INTERRUPT: u16 = 1 << 3;

const VIRTIO_VENDOR: u16 = 0x1af4;
const VIRTIO_DEVICE: u16 = 0x1040;
/// A generic host bridge. Kernels look for one to find out whether there is a bus.
const BRIDGE_VENDOR: u16 = 0x1b36;
const BRIDGE_DEVICE: u16 = 0x0008;
const BRIDGE_CLASS: u32 = 0x06_0000;
const INTERRUPT_A: u8 = 1;
const NO_VECTOR: u16 = 0xffff;

/// The bus. On x86, number 0 is the host bridge, and the functions follow. Other boards place the functions themselves.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciBus {
    /// The register by which x86 selects an address in configuration space.
    address: u32,
    functions: Vec<Function>,
}

/// A function of the bus.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    virtio: Virtio,
    command: u16,
    base: u32,
    line: u8,
}

/// The settings of a function that firmware makes.
#[derive(Clone, Copy, Debug)]
pub struct Firmware {
    /// The base address of its registers.
    pub base: u32,
    /// The number of its interrupt line.
    pub line: u8,
}

impl PciBus {
    /// Whether there is no device, and so no bus.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The number of devices.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Adds a device. Fails if there are too many.
    pub fn attach(&mut self, virtio: Virtio, firmware: Firmware) -> Result<(), AttachError> {
        if self.functions.len() == MOST {
            return Err(AttachError::TooMany);
        }
        let Firmware { base, line } = firmware;
        self.functions.push(Function { virtio, command: COMMAND_MEMORY, base, line });
        Ok(())
    }

    /// Whether a bus could be in this state before the time `last`. A damaged snapshot may hold another state.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.functions.len() <= MOST && self.functions.iter().all(|function| function.virtio.is_sound(last))
    }

    /// Takes over the host's side of the devices that these restored ones replace. Fails if those are other devices.
    pub fn adopt(&mut self, other: &PciBus) -> Result<(), AttachError> {
        if self.functions.len() != other.functions.len() {
            return Err(AttachError::Number(self.functions.len(), other.functions.len()));
        }
        let mut pairs = self.functions.iter_mut().zip(&other.functions);
        pairs.try_for_each(|(mine, other)| mine.virtio.adopt(&other.virtio))
    }

    /// A read of x86's address register.
    pub fn address(&self) -> u32 {
        self.address
    }

    /// A write to x86's address register.
    pub fn select(&mut self, address: u32) {
        self.address = address & 0x80ff_fffc;
    }

    /// The device number and the offset that x86's address register selects. `None` if it selects another bus or nothing.
    fn selected(&self) -> Option<(usize, u8)> {
        const ENABLED: u32 = 1 << 31;
        let (bus, device, function) = (self.address >> 16 & 0xff, self.address >> 11 & 31, self.address >> 8 & 7);
        (self.address & ENABLED != 0 && bus == 0 && function == 0).then_some((device as usize, self.address as u8))
    }

    /// A read of x86's data register, from this byte on.
    pub fn read_selected(&self, byte: u8, size: u32) -> u32 {
        let missing = u32::MAX >> (32 - 8 * size.clamp(1, 4));
        let Some((device, offset)) = self.selected() else { return missing };
        self.read_configuration(device, offset | byte & 3, size).unwrap_or(missing)
    }

    /// A write to x86's data register.
    pub fn write_selected(&mut self, byte: u8, size: u32, value: u32) {
        if let Some((device, offset)) = self.selected() {
            self.write_configuration(device, offset | byte & 3, size, value);
        }
    }

    /// A read of configuration space. `None` if there is no such device.
    fn read_configuration(&self, device: usize, offset: u8, size: u32) -> Option<u32> {
        match device.checked_sub(1) {
            None => Some(part(bridge(offset & !3), offset, size)),
            Some(number) => self.read_function(number, offset, size),
        }
    }

    /// A write to configuration space.
    fn write_configuration(&mut self, device: usize, offset: u8, size: u32, value: u32) {
        if let Some(number) = device.checked_sub(1) {
            self.write_function(number, offset, size, value);
        }
    }

    /// A read of a virtio function's configuration space, by the device's number, for boards with a host bridge of their own.
    /// `None` if there is no such device.
    pub fn read_function(&self, number: usize, offset: u8, size: u32) -> Option<u32> {
        self.functions.get(number).map(|function| part(function.word(offset & !3), offset, size))
    }

    /// A write to a virtio function's configuration space, by the device's number.
    pub fn write_function(&mut self, number: usize, offset: u8, size: u32, value: u32) {
        let Some(function) = self.functions.get_mut(number) else { return };
        let shift = 8 * u32::from(offset & 3);
        let mask = (u32::MAX >> (32 - 8 * size.clamp(1, 4))) << shift;
        let word = function.word(offset & !3) & !mask | value << shift & mask;
        match offset & !3 {
            COMMAND => function.command = word as u16 & COMMAND_BITS,
            BASE => function.base = word & !(BYTES - 1),
            LINE => function.line = word as u8,
            _ => {}
        }
    }

    /// The function whose registers are at this physical address, and the offset in them.
    fn at(&mut self, physical: u64) -> Option<(&mut Virtio, u32)> {
        let physical = u32::try_from(physical).ok()?;
        let decodes =
            |function: &&mut Function| function.command & COMMAND_MEMORY != 0 && physical.wrapping_sub(function.base) < BYTES;
        let function = self.functions.iter_mut().find(decodes)?;
        Some((&mut function.virtio, physical - function.base))
    }

    /// A read of a register. `None` if no function has the address. Reading the interrupt's causes clears them.
    pub fn read(&mut self, physical: u64, size: u32) -> Option<u64> {
        let (device, offset) = self.at(physical)?;
        Some(match offset {
            COMMON..CAUSES => common(device, offset).into(),
            CAUSES => {
                let causes = device.causes();
                device.acknowledge(causes);
                causes.into()
            }
            CONFIGURATION..NOTIFY => device.configuration(u64::from(offset - CONFIGURATION), size),
            _ => 0,
        })
    }

    /// A write to a register.
    pub fn write(&mut self, physical: u64, value: u64, now: Ticks) {
        let Some((device, offset)) = self.at(physical) else { return };
        match offset {
            COMMON..CAUSES => set_common(device, offset, value as u32),
            NOTIFY.. => device.notify(u32::from(value as u16), now),
            _ => {}
        }
    }

    /// The levels of the interrupt lines, in the devices' order.
    pub fn lines(&self) -> impl Iterator<Item = bool> {
        self.functions.iter().map(|function| function.virtio.line() && function.command & COMMAND_NO_INTERRUPT == 0)
    }

    /// The time at which a device must be served.
    pub fn next(&self) -> Option<Ticks> {
        self.functions.iter().filter_map(|function| function.virtio.next()).min()
    }

    /// Handles the requests whose time has come.
    pub fn serve(&mut self, now: Ticks, memory: &mut dyn Memory) {
        for function in &mut self.functions {
            function.virtio.serve(now, memory);
        }
    }
}

/// The bytes of a word that an access to configuration space reads.
fn part(word: u32, offset: u8, size: u32) -> u32 {
    word >> (8 * u32::from(offset & 3)) & (u32::MAX >> (32 - 8 * size.clamp(1, 4)))
}

/// A word of the host bridge's configuration space.
fn bridge(offset: u8) -> u32 {
    match offset {
        0 => u32::from(BRIDGE_DEVICE) << 16 | u32::from(BRIDGE_VENDOR),
        8 => BRIDGE_CLASS << 8,
        _ => 0,
    }
}

/// The capabilities that name the regions: kind, offset, length.
const REGIONS: [(u8, u32, u32); 4] = [(1, COMMON, 0x38), (3, CAUSES, 4), (4, CONFIGURATION, 0x1000), (2, NOTIFY, 0x1000)];
/// Bytes from a capability to the next. The last one has a word more.
const CAPABILITY_BYTES: u8 = 16;

impl Function {
    /// A word of configuration space.
    fn word(&self, offset: u8) -> u32 {
        let pair = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
        let status = STATUS_CAPABILITIES | if self.virtio.line() { STATUS_INTERRUPT } else { 0 };
        match offset {
            0 => pair(VIRTIO_DEVICE + self.virtio.id() as u16, VIRTIO_VENDOR),
            COMMAND => pair(status, self.command),
            8 => self.virtio.pci_class() << 8 | 1,
            BASE => self.base,
            0x2c => pair(VIRTIO_DEVICE + self.virtio.id() as u16, VIRTIO_VENDOR),
            0x34 => CAPABILITIES.into(),
            LINE => pair(0, u16::from_le_bytes([self.line, INTERRUPT_A])),
            CAPABILITIES.. => capability(offset - CAPABILITIES),
            _ => 0,
        }
    }
}

/// A word of the list of capabilities.
fn capability(offset: u8) -> u32 {
    const VENDOR_SPECIFIC: u8 = 9;
    let number = usize::from(offset / CAPABILITY_BYTES);
    let Some((kind, at, bytes)) = REGIONS.get(number).copied() else {
        return if usize::from(offset) == REGIONS.len() * usize::from(CAPABILITY_BYTES) { NOTIFY_MULTIPLIER } else { 0 };
    };
    let is_last = number + 1 == REGIONS.len();
    let next = if is_last { 0 } else { CAPABILITIES + (number as u8 + 1) * CAPABILITY_BYTES };
    let length = CAPABILITY_BYTES + if is_last { 4 } else { 0 };
    match offset % CAPABILITY_BYTES {
        0 => u32::from_le_bytes([VENDOR_SPECIFIC, next, length, kind]),
        8 => at,
        12 => bytes,
        _ => 0,
    }
}

/// A read of the region that all devices have.
fn common(device: &Virtio, offset: u32) -> u32 {
    let queue = device.queue();
    let word = |address: u64| address as u32;
    let half = |address: u64| (address >> 32) as u32;
    match offset {
        0x00 => device.offered_half(),
        0x04 => device.offered(),
        0x08 => device.accepted_half(),
        0x0c => device.accepted(),
        0x10 | 0x1a => NO_VECTOR.into(),
        0x12 => device.queues() as u32,
        0x14 => device.status().into(),
        0x16 => device.selected(),
        0x18 => queue.map_or(0, |queue| queue.size.into()),
        0x1c => queue.is_some_and(|queue| queue.is_ready).into(),
        0x1e => device.selected(),
        0x20 => queue.map_or(0, |queue| word(queue.descriptors)),
        0x24 => queue.map_or(0, |queue| half(queue.descriptors)),
        0x28 => queue.map_or(0, |queue| word(queue.available)),
        0x2c => queue.map_or(0, |queue| half(queue.available)),
        0x30 => queue.map_or(0, |queue| word(queue.used)),
        0x34 => queue.map_or(0, |queue| half(queue.used)),
        _ => 0,
    }
}

/// A write to the region that all devices have.
fn set_common(device: &mut Virtio, offset: u32, value: u32) {
    match offset {
        0x00 => return device.select_offered(value),
        0x08 => return device.select_accepted(value),
        0x0c => return device.accept(value),
        0x14 => return device.set_status(value as u8),
        0x16 => return device.select_queue(value & 0xffff),
        0x1c => return device.set_ready(value & 1 != 0),
        _ => {}
    }
    let Some(queue) = device.queue_mut() else { return };
    match offset {
        0x18 => queue.resize(value & 0xffff),
        0x20 => low(&mut queue.descriptors, value),
        0x24 => high(&mut queue.descriptors, value),
        0x28 => low(&mut queue.available, value),
        0x2c => high(&mut queue.available, value),
        0x30 => low(&mut queue.used, value),
        0x34 => high(&mut queue.used, value),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
