//! The PIIX4 of a Malta board, the bridge from the PCI bus to PC-style devices. A kernel needs its power management
//! function for power-off (Intel's 82371AB data sheet, "Power Management").

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fields of a configuration address: bus and device, function, register.
const BUS_AND_DEVICE: u32 = 0x00ff_f800;
const FUNCTION: u32 = 0x700;
const REGISTER: u32 = 0xfc;
/// Device 10 on bus 0.
const HERE: u32 = 10 << 11;

const BRIDGE: u32 = 0;
const POWER: u32 = 3 << 8;
/// Identification registers: function, register, value. The bridge is a multi-function device.
const IDENTITIES: [(u32, u32, u32); 5] = [
    (BRIDGE, 0x00, 0x7110_8086),
    (BRIDGE, 0x08, 0x0601_0002),
    (BRIDGE, 0x0c, 0x0080_0000),
    (POWER, 0x00, 0x7113_8086),
    (POWER, 0x08, 0x0680_0003),
];
/// The rest of the configuration header has no writable registers.
const NOTHING_THERE: std::ops::Range<u32> = 0x0c..0x40;
/// The register with a byte for each of the four PCI interrupts: its line, and a bit that switches it off.
const ROUTES: u32 = 0x60;
const ROUTE_OFF: u8 = 0x80;
/// The lines to which PCI interrupts can be routed.
pub const ROUTABLE: u16 = 0xdef8;
/// The base address of the power management ports, and their enable bit.
const PORTS_AT: u32 = 0x40;
const PORTS_MASK: u32 = 0xffc0;
const PORTS_ENABLED: u32 = 0x80;

/// The power management control port. The other ports read as 0.
const CONTROL: u16 = 4;
const PORTS: u16 = 64;
/// Bits of the control port: enter sleep; sleep type, of which 0 is soft-off. Hardware waits for a stop-grant message
/// on the bus. This board's bridge cannot send one (Malta kernels do not even try), so power goes off at once.
const SLEEPS: u16 = 1 << 13;
const DEPTH: u16 = 7 << 10;

/// The device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piix4 {
    /// The written configuration registers, by function and register.
    written: BTreeMap<u16, u32>,
    control: u16,
    off: bool,
}

impl Piix4 {
    /// Whether the device could be in this state.
    pub fn is_sound(&self) -> bool {
        self.written.keys().all(|place| is_writable((*place).into()))
    }

    /// Reads a configuration register. `None` if no function has this address.
    pub fn config(&self, address: u32) -> Option<u32> {
        let (function, register) = place_of(address)?;
        let identity = IDENTITIES.iter().find(|(of, at, _)| (*of, *at) == (function, register));
        Some(identity.map_or_else(|| self.register(function, register), |(_, _, value)| *value))
    }

    /// Writes a configuration register. Returns false if no function has this address.
    pub fn set_config(&mut self, address: u32, value: u32) -> bool {
        let Some((function, register)) = place_of(address) else { return false };
        if is_writable(function | register) {
            self.written.insert((function | register) as u16, value);
        }
        true
    }

    fn register(&self, function: u32, register: u32) -> u32 {
        self.written.get(&((function | register) as u16)).copied().unwrap_or(0)
    }

    /// Routes the four PCI interrupts to these lines, as firmware does.
    pub fn route(&mut self, lines: [u8; 4]) {
        self.written.insert((BRIDGE | ROUTES) as u16, u32::from_le_bytes(lines));
    }

    /// The levels of the lines to which the four PCI interrupts are routed, a bit for each line.
    pub fn routed(&self, interrupts: [bool; 4]) -> u16 {
        let routes = self.register(BRIDGE, ROUTES).to_le_bytes();
        let raised = routes.into_iter().zip(interrupts).filter(|(route, level)| *level && route & ROUTE_OFF == 0);
        raised.fold(0, |lines, (route, _)| lines | 1 << (route & 15)) & ROUTABLE
    }

    /// The offset of a port in the power management ports, if it is one of them.
    fn port(&self, port: u16) -> Option<u16> {
        let at = (self.register(POWER, PORTS_AT) & PORTS_MASK) as u16;
        let is_there = self.register(POWER, PORTS_ENABLED) & 1 != 0;
        port.checked_sub(at).filter(|offset| is_there && *offset < PORTS)
    }

    /// Reads a 16-bit port, if it is one of the device's.
    pub fn read(&self, port: u16) -> Option<u16> {
        self.port(port).map(|offset| if offset == CONTROL { self.control } else { 0 })
    }

    /// Writes a 16-bit port.
    pub fn write(&mut self, port: u16, value: u16) {
        if self.port(port) == Some(CONTROL) {
            self.control = value;
            self.off |= value & (SLEEPS | DEPTH) == SLEEPS;
        }
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.off
    }
}

/// The function and register of a configuration address, if that function exists.
fn place_of(address: u32) -> Option<(u32, u32)> {
    let function = address & FUNCTION;
    let is_here = address & BUS_AND_DEVICE == HERE && matches!(function, BRIDGE | POWER);
    is_here.then_some((function, address & REGISTER))
}

fn is_writable(place: u32) -> bool {
    let (function, register) = (place & FUNCTION, place & REGISTER);
    let is_place = place & !(FUNCTION | REGISTER) == 0 && matches!(function, BRIDGE | POWER);
    is_place && !matches!(register, 0 | 8) && !NOTHING_THERE.contains(&register)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(function: u32, register: u32) -> u32 {
        1 << 31 | HERE | function << 8 | register
    }

    #[test]
    fn only_a_bridge_and_a_power_function_exist() {
        let mut device = Piix4::default();
        let functions: Vec<Option<u32>> = (0..8).map(|function| device.config(at(function, 0))).collect();
        assert_eq!((functions[0], functions[3]), (Some(0x7110_8086), Some(0x7113_8086)));
        assert_eq!(functions.iter().flatten().count(), 2);
        assert_eq!(device.config(11 << 11), None);
        // Drivers probe base address registers by writing ones.
        assert!(device.set_config(at(3, 0x10), u32::MAX) && device.set_config(at(3, 0), u32::MAX));
        assert_eq!((device.config(at(3, 0x10)), device.config(at(3, 0))), (Some(0), Some(0x7113_8086)));
        assert!(device.is_sound());
    }

    #[test]
    fn soft_off_powers_off_and_other_sleep_types_do_not() {
        let mut device = Piix4::default();
        assert_eq!(device.read(0x1000), None, "its ports have no address yet");
        device.set_config(at(3, PORTS_AT), 0x1001);
        device.set_config(at(3, PORTS_ENABLED), 1);
        assert_eq!((device.read(0x1000), device.read(0x1040)), (Some(0), None));
        device.write(0x1000 + CONTROL, SLEEPS | 1 << 10);
        assert_eq!((device.read(0x1000 + CONTROL), device.is_off()), (Some(SLEEPS | 1 << 10), false));
        device.write(0x1000 + CONTROL, SLEEPS);
        assert!(device.is_off());
    }

    #[test]
    fn pci_interrupts_are_routed_to_lines() {
        let mut device = Piix4::default();
        assert_eq!(device.routed([true; 4]), 0, "line 0 is the timer's");
        device.route([10, 11, 9, 5]);
        assert_eq!(device.config(at(0, ROUTES)), Some(0x0509_0b0a));
        assert_eq!((device.routed([true, false, false, true]), device.routed([false; 4])), (1 << 10 | 1 << 5, 0));
        device.set_config(at(0, ROUTES), 0x0d02_0a8a);
        assert_eq!(device.routed([true; 4]), 1 << 10, "one is off, two lines are reserved");
        assert!(device.is_sound());
    }
}
