//! The GT-64120 of a Malta board: the bridge from the CPU to the PCI bus, of which there is as much here as a kernel
//! asks for (Galileo's GT-64120 data sheet, "Register Tables").

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of its registers.
pub const BYTES: u64 = 0x1000;
/// Each of so many.
const REGISTER_BYTES: u32 = 4;

/// A read tells the number of the interrupt that waits on the bus, and takes it.
const ACKNOWLEDGE: u16 = 0xc34;
const INTERRUPT_CAUSE: u16 = 0xc18;
/// A device on the bus has not answered.
const CAUSE_MASTER_ABORT: u32 = 1 << 18;

const CONFIG_ADDRESS: u16 = 0xcf8;
const CONFIG_DATA: u16 = 0xcfc;
/// Of an address: the bus, and the device on it.
const CONFIG_DEVICE: u32 = 0x00ff_f800;
const CONFIG_REGISTER: u32 = 0xfc;

/// What the bridge says of itself: Galileo's, a GT-64120; a bridge of hosts.
const CONFIG_IDENTITY: (u32, u32) = (0x00, 0x4620_11ab);
const CONFIG_CLASS: (u32, u32) = (0x08, 0x0600_0010);

/// Where the firmware has put the windows through which the CPU sees the bus, in units of 2 MiB: ports, then memory,
/// twice; of each its start, the low bits of its end, and what the bus calls it.
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

/// The bridge.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gt64120 {
    /// What was written, by the register's offset.
    registers: BTreeMap<u16, u32>,
}

impl Default for Gt64120 {
    fn default() -> Gt64120 {
        Gt64120 { registers: WINDOWS.into_iter().collect() }
    }
}

impl Gt64120 {
    /// Whether it could have come to be like this.
    pub fn is_sound(&self) -> bool {
        self.registers.keys().all(|offset| u64::from(*offset) < BYTES && u32::from(*offset).is_multiple_of(REGISTER_BYTES))
    }

    /// Whether a register has its lowest byte first whatever the CPU does: what is behind the bus has its own order.
    pub fn is_little_endian(offset: u64) -> bool {
        offset != u64::from(CONFIG_DATA)
    }

    /// A read of a register; `acknowledge` takes the interrupt that waits on the bus.
    pub fn read(&mut self, offset: u64, acknowledge: impl FnOnce() -> u8) -> u32 {
        match aligned(offset) {
            ACKNOWLEDGE => acknowledge().into(),
            CONFIG_DATA => self.config(),
            offset => self.written(offset),
        }
    }

    /// A write to one.
    pub fn write(&mut self, offset: u64, value: u32) {
        let offset = aligned(offset);
        let value = match offset {
            // What is written as 0 is acknowledged.
            INTERRUPT_CAUSE => self.written(offset) & value,
            _ => value,
        };
        self.registers.insert(offset, value);
    }

    fn written(&self, offset: u16) -> u32 {
        self.registers.get(&offset).copied().unwrap_or(0)
    }

    /// The address of another device, if it is this one's configuration that is read or written at that offset.
    pub fn asks_another(&self, offset: u64) -> Option<u32> {
        let address = self.written(CONFIG_ADDRESS);
        (aligned(offset) == CONFIG_DATA && address & CONFIG_DEVICE != 0).then_some(address)
    }

    /// It has not answered: what is then read.
    pub fn unanswered(&mut self) -> u32 {
        *self.registers.entry(INTERRUPT_CAUSE).or_default() |= CAUSE_MASTER_ABORT;
        u32::MAX
    }

    /// The bridge's own.
    fn config(&self) -> u32 {
        let address = self.written(CONFIG_ADDRESS);
        [CONFIG_IDENTITY, CONFIG_CLASS]
            .iter()
            .find(|(known, _)| *known == address & CONFIG_REGISTER)
            .map_or(0, |(_, value)| *value)
    }
}

/// The register that a byte of these belongs to.
fn aligned(offset: u64) -> u16 {
    (offset % BYTES) as u16 / REGISTER_BYTES as u16 * REGISTER_BYTES as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_nobody_is_told_in_the_cause() {
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
}
