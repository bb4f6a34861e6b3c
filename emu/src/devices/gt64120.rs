//! The GT-64120 of a Malta board, the bridge from the CPU to the PCI bus, as far as kernels use it (Galileo's GT-64120
//! data sheet, "Register Tables").

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Size of its register space.
pub const BYTES: u64 = 0x1000;
/// Size of a register.
const REGISTER_BYTES: u32 = 4;

/// A read of this register returns the pending interrupt's number from the bus and acknowledges it.
const ACKNOWLEDGE: u16 = 0xc34;
const INTERRUPT_CAUSE: u16 = 0xc18;
/// The cause bit for a PCI access without an answer (master abort).
const CAUSE_MASTER_ABORT: u32 = 1 << 18;

const CONFIG_ADDRESS: u16 = 0xcf8;
const CONFIG_DATA: u16 = 0xcfc;
/// Fields of a configuration address: bus and device, register.
const CONFIG_DEVICE: u32 = 0x00ff_f800;
const CONFIG_REGISTER: u32 = 0xfc;

/// The bridge's own configuration: vendor Galileo, device GT-64120; class host bridge.
const CONFIG_IDENTITY: (u32, u32) = (0x00, 0x4620_11ab);
const CONFIG_CLASS: (u32, u32) = (0x08, 0x0600_0010);

/// The initial windows through which the CPU accesses the bus, in units of 2 MiB: I/O, then memory, twice. For each:
/// start, low bits of the end, and PCI address.
const WINDOWS: [(u16, u32); 10] = [
    (0x048, 0xc0),
    (0x050, 0x40),
    (0x0f0, 0x00),
    (0x058, 0x80),
    (0x060, 0x3f),
    (0x0f8, 0x80),
    (0x080, 0xc1),
    (0x088, 0x5e),
    (0x100, 0xc1),
    (0x068, 0xdf),
];

/// Registers of the two windows for PCI memory: start, end, PCI address.
const MEMORY_WINDOWS: [(u16, u16, u16); 2] = [(0x058, 0x060, 0x0f8), (0x080, 0x088, 0x100)];
/// Log2 of the windows' unit in bytes.
const WINDOW_UNIT: u32 = 21;
/// The bits that a start and a PCI address have, and the bits of an end. The end's high bits are those of the start.
const WINDOW_START: u32 = 0x7fff;
const WINDOW_END: u32 = 0x7f;

/// The bridge.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gt64120 {
    /// The written registers, by offset.
    registers: BTreeMap<u16, u32>,
}

impl Default for Gt64120 {
    fn default() -> Gt64120 {
        Gt64120 { registers: WINDOWS.into_iter().collect() }
    }
}

impl Gt64120 {
    /// Whether the bridge could be in this state.
    pub fn is_sound(&self) -> bool {
        self.registers.keys().all(|offset| u64::from(*offset) < BYTES && u32::from(*offset).is_multiple_of(REGISTER_BYTES))
    }

    /// Whether a register is little-endian regardless of the CPU. Configuration data has the byte order of its device.
    pub fn is_little_endian(offset: u64) -> bool {
        offset != u64::from(CONFIG_DATA)
    }

    /// Reads a register. `acknowledge` takes the pending interrupt from the bus.
    pub fn read(&mut self, offset: u64, acknowledge: impl FnOnce() -> u8) -> u32 {
        match aligned(offset) {
            ACKNOWLEDGE => acknowledge().into(),
            CONFIG_DATA => self.config(),
            offset => self.written(offset),
        }
    }

    /// Writes a register.
    pub fn write(&mut self, offset: u64, value: u32) {
        let offset = aligned(offset);
        let value = match offset {
            // Writing 0 to a bit acknowledges it.
            INTERRUPT_CAUSE => self.written(offset) & value,
            _ => value,
        };
        self.registers.insert(offset, value);
    }

    fn written(&self, offset: u16) -> u32 {
        self.registers.get(&offset).copied().unwrap_or(0)
    }

    /// The configuration address, if this access goes to another device's configuration.
    pub fn asks_another(&self, offset: u64) -> Option<u32> {
        let address = self.written(CONFIG_ADDRESS);
        (aligned(offset) == CONFIG_DATA && address & CONFIG_DEVICE != 0).then_some(address)
    }

    /// The address in PCI memory space at which the CPU's access to this physical address arrives. `None` if it is in no
    /// window. A window replaces the bits in which its start and its end agree.
    pub fn pci_memory(&self, physical: u64) -> Option<u32> {
        let unit = u32::try_from(physical >> WINDOW_UNIT).ok()?;
        let in_window = |(start, end, address): (u16, u16, u16)| {
            let start = self.written(start) & WINDOW_START;
            let end = start & !WINDOW_END | self.written(end) & WINDOW_END;
            let kept = start ^ end;
            (start..=end).contains(&unit).then(|| self.written(address) & WINDOW_START & !kept | unit & kept)
        };
        let unit = MEMORY_WINDOWS.into_iter().find_map(in_window)?;
        let offset = physical & ((1 << WINDOW_UNIT) - 1);
        u32::try_from(u64::from(unit) << WINDOW_UNIT | offset).ok()
    }

    /// Reports that no device has answered, and returns the value that is read then.
    pub fn unanswered(&mut self) -> u32 {
        *self.registers.entry(INTERRUPT_CAUSE).or_default() |= CAUSE_MASTER_ABORT;
        u32::MAX
    }

    /// A register of the bridge's own configuration.
    fn config(&self) -> u32 {
        let address = self.written(CONFIG_ADDRESS);
        [CONFIG_IDENTITY, CONFIG_CLASS]
            .iter()
            .find(|(known, _)| *known == address & CONFIG_REGISTER)
            .map_or(0, |(_, value)| *value)
    }
}

/// The offset of the register that contains this byte.
fn aligned(offset: u64) -> u16 {
    (offset % BYTES) as u16 / REGISTER_BYTES as u16 * REGISTER_BYTES as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unanswered_access_sets_the_cause_bit() {
        let mut bridge = Gt64120::default();
        let mut config = |device: u32, register: u32| {
            bridge.write(CONFIG_ADDRESS.into(), 1 << 31 | device << 11 | register);
            let data = CONFIG_DATA.into();
            let value = if bridge.asks_another(data).is_some() { bridge.unanswered() } else { bridge.read(data, || 0) };
            let aborted = bridge.read(INTERRUPT_CAUSE.into(), || 0) & CAUSE_MASTER_ABORT != 0;
            bridge.write(INTERRUPT_CAUSE.into(), !CAUSE_MASTER_ABORT);
            (value, aborted)
        };
        assert_eq!((config(0, 0), config(0, 8)), ((0x4620_11ab, false), (0x0600_0010, false)));
        assert_eq!((config(10, 0), config(0, 4)), ((u32::MAX, true), (0, false)));
        assert_eq!((bridge.read(ACKNOWLEDGE.into(), || 4), bridge.read(0x48, || 0)), (4, 0xc0));
        assert!(bridge.is_sound());
    }

    #[test]
    fn windows_lead_to_pci_memory() {
        let mut bridge = Gt64120::default();
        let at = |bridge: &Gt64120, physical| bridge.pci_memory(physical);
        assert_eq!(at(&bridge, 0x1000_0004), Some(0x1000_0004));
        assert_eq!((at(&bridge, 0x17ff_ffff), at(&bridge, 0x1820_0000)), (Some(0x17ff_ffff), Some(0x1820_0000)));
        for outside in [0, 0x0fff_ffff, 0x1800_0000, 0x1be0_0000, 0x1f00_0000, 1 << 40, u64::MAX] {
            assert_eq!(at(&bridge, outside), None, "{outside:#x}");
        }
        bridge.write(0xf8, 0x100);
        assert_eq!((at(&bridge, 0x1000_0004), at(&bridge, 0x1234_5678)), (Some(0x2000_0004), Some(0x2234_5678)));
        bridge.write(0x60, 0);
        assert_eq!(at(&bridge, 0x1020_0000), None, "the window is one unit");
        bridge.write(0xf8, u32::MAX);
        assert_eq!(at(&bridge, 0x1000_0004), None, "PCI has addresses of 32 bits");
    }
}
