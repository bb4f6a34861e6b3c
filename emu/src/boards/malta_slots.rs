//! The four PCI slots of a Malta board. The fourth virtio device and the ones after it are functions of the last slot's PCI
//! device, so that a kernel finds all in their order. All use interrupt pin A, which leads to the slot's PCI interrupt
//! (arch/mips/pci/fixup-malta.c).

use crate::clock::Ticks;
use crate::devices::virtio::ninep::ErrorNumber;
use crate::devices::virtio::pci::{self, Firmware, PciBus};
use crate::devices::virtio::{AttachError, Attached, Virtio};
use serde::{Deserialize, Serialize};
use trapline_isa::mem::Memory;

/// The number of slots, and of PCI interrupts.
pub const SLOTS: usize = 4;
/// The last slot, which takes several devices.
const LAST: usize = SLOTS - 1;
/// The device number of the first slot.
const FIRST: u32 = 18;
/// The lines to which firmware routes the PCI interrupts.
pub const LINES: [u8; SLOTS] = [10, 11, 9, 5];
/// The address in PCI memory space that firmware gives to the first virtio device.
const MEMORY: u32 = 0x1000_0000;

/// The word of configuration space with the header's type, and its bit for a device of several functions.
const HEADER: u8 = 0x0c;
const SEVERAL_FUNCTIONS: u32 = 1 << 23;

/// The error numbers that differ on MIPS (arch/mips/include/uapi/asm/errno.h): the number on most ISAs, that on MIPS. They are
/// EDEADLK, ENAMETOOLONG, ENOSYS, ENOTEMPTY, ELOOP, EOVERFLOW, EOPNOTSUPP, ENOBUFS, ETIMEDOUT, ESTALE and EDQUOT.
const ERRORS: &[(ErrorNumber, ErrorNumber)] =
    &[(35, 45), (36, 78), (38, 89), (39, 93), (40, 90), (75, 79), (95, 122), (105, 132), (110, 145), (116, 151), (122, 1133)];

/// The devices in the slots.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slots(PciBus);

impl Slots {
    /// Whether all slots are empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the devices could be in this state. A damaged snapshot may hold another state.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.0.is_sound(last)
    }

    /// Takes over the host's side of the devices that these restored ones replace. Fails if those are other devices.
    pub fn adopt(&mut self, other: &Slots) -> Result<(), AttachError> {
        self.0.adopt(&other.0)
    }

    /// Puts a device into the next slot, or adds it to the last one.
    pub fn attach(&mut self, device: &Attached) -> Result<(), AttachError> {
        let number = self.0.len();
        let base = MEMORY + number as u32 * pci::BYTES;
        let mut virtio = Virtio::new(device);
        virtio.number_errors(ERRORS);
        self.0.attach(virtio, Firmware { base, line: LINES[slot(number)] })
    }

    /// Reads the register of a configuration address. `None` if no device has this address.
    pub fn config(&self, address: u32) -> Option<u32> {
        let (number, register) = place_of(address)?;
        let value = self.0.read_function(number, register, 4)?;
        let is_first_of_several = register == HEADER && number == LAST && self.0.len() > SLOTS;
        Some(if is_first_of_several { value | SEVERAL_FUNCTIONS } else { value })
    }

    /// Writes the register of a configuration address. Returns false if no device has this address.
    pub fn set_config(&mut self, address: u32, value: u32) -> bool {
        let Some((number, register)) = place_of(address).filter(|(number, _)| *number < self.0.len()) else { return false };
        self.0.write_function(number, register, 4, value);
        true
    }

    /// Reads at an address in PCI memory space. `None` if no device decodes it.
    pub fn read(&mut self, address: u32, size: u32) -> Option<u64> {
        self.0.read(address.into(), size)
    }

    /// Writes at an address in PCI memory space.
    pub fn write(&mut self, address: u32, value: u64, now: Ticks) {
        self.0.write(address.into(), value, now);
    }

    /// The levels of the PCI interrupts.
    pub fn interrupts(&self) -> [bool; SLOTS] {
        let mut levels = [false; SLOTS];
        for (number, level) in self.0.lines().enumerate() {
            levels[slot(number)] |= level;
        }
        levels
    }

    /// The time at which a device must be served.
    pub fn next(&self) -> Option<Ticks> {
        self.0.next()
    }

    /// Handles the requests whose time has come.
    pub fn serve(&mut self, now: Ticks, memory: &mut dyn Memory) {
        self.0.serve(now, memory);
    }
}

/// The slot of the virtio device of this number.
fn slot(number: usize) -> usize {
    number.min(LAST)
}

/// The number of the virtio device and the register that a configuration address names, if it is one of a slot.
fn place_of(address: u32) -> Option<(usize, u8)> {
    let (bus, device, function) = (address >> 16 & 0xff, address >> 11 & 31, (address >> 8 & 7) as usize);
    let slot = device.checked_sub(FIRST)? as usize;
    let is_place = bus == 0 && slot < SLOTS && (function == 0 || slot == LAST);
    is_place.then_some((slot + function, address as u8 & !3))
}

#[cfg(test)]
mod tests;
