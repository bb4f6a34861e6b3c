//! The `pc` board, for stock x86 kernels: the I/O ports of a PC without ACPI, one CPU with a local APIC, and a
//! serial console.
//!
//! Unused ports read as all ones. Without virtio devices this includes PCI's configuration ports, so kernels find no PCI
//! bus.
//!
//! ```text
//!   0x0000_0000  RAM; the boot parameters lie in its first MiB (zero_page.rs)
//!   end of RAM   initramfs below it, as far down as it needs
//!   0xfe00_0000  virtio devices of 16 KiB each, if any
//!   0xfee0_0000  local APIC
//!   0xfef0_0000  exit status, a byte
//!
//!   ports 0x20 0xa0 PICs   0x40 PIT   0x60 i8042   0x70 RTC   0x3f8 serial console   0xf4 exit status
//!         0xcf8 PCI, if there are virtio devices
//! ```

use super::{At, Board, Boot, Bus, Interrupt, Spec, all_ones, restored, saved, zero_page};
use crate::clock::{Ticks, ticks};
use crate::config::Config;
use crate::devices::console::Console;
use crate::devices::i8042::I8042;
use crate::devices::lapic::Lapic;
use crate::devices::pic::Pic;
use crate::devices::pit::Pit;
use crate::devices::rtc::Rtc;
use crate::devices::uart::Uart;
use crate::devices::virtio::pci::{self, Firmware, PciBus};
use crate::devices::virtio::{AttachError, Attached};
use crate::error::MachineError;
use crate::snapshot::LAST_TIME;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Range;
use trapline_isa::mem::Memory;

const MIB: u64 = 1 << 20;

/// The description of the board.
pub static SPEC: Spec = Spec {
    name: "pc",
    ram_start: 0,
    ram: 512 * MIB,
    least_ram: 64 * MIB,
    most_ram: 2048 * MIB,
    cpus: 1,
    boot,
    devices: |_, _| Box::new(Pc::default()),
};

const TIMER_LINE: u8 = 0;
const KEYBOARD_LINE: u8 = 1;
const SERIAL_LINE: u8 = 4;

/// Physical addresses of the local APIC. No firmware table lists it.
const LAPIC: Range<u64> = 0xfee0_0000..0xfee0_0000 + Lapic::BYTES;

const SERIAL: u16 = 0x3f8;
const SERIAL_END: u16 = SERIAL + 8;
/// A byte written to this port is the machine's exit status, as on other simulated PCs.
const EXIT_STATUS: u16 = 0xf4;

/// PCI's address port, and the first of the four data ports.
const PCI_ADDRESS: u16 = 0xcf8;
const PCI_DATA: u16 = 0xcfc;
const PCI_DATA_END: u16 = PCI_DATA + 4;
/// The address that firmware gives to the first virtio device.
const VIRTIO: u32 = 0xfe00_0000;
/// The interrupt lines of virtio devices. Each has its own, because a line interrupts by its edge.
const VIRTIO_LINES: [u8; 8] = [9, 10, 11, 5, 7, 6, 3, 14];

/// The memory-mapped exit status, for kernels that do not let programs access ports.
const EXIT_STATUS_IN_MEMORY: u64 = 0xfef0_0000;

/// Duration of a read of the PIT's ports. It is as long as on an ISA bus, so that polling loops end.
const TIMER_READ_NANOSECONDS: u64 = 500;

/// The state of the board.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pc {
    lapic: Lapic,
    pic: Pic,
    pit: Pit,
    serial: Uart,
    rtc: Rtc,
    keyboard: I8042,
    exit_status: u8,
    #[serde(default, skip_serializing_if = "PciBus::is_empty")]
    pci: PciBus,
}

impl Pc {
    fn is_sound(&self) -> bool {
        self.pci.is_sound(LAST_TIME) && self.lapic.is_sound(LAST_TIME) && self.pit.is_sound(LAST_TIME) && self.rtc.is_sound()
    }

    fn set_lines(&mut self) {
        self.pic.set_line(SERIAL_LINE, self.serial.line());
        self.pic.set_line(KEYBOARD_LINE, self.keyboard.line());
        for (line, level) in VIRTIO_LINES.into_iter().zip(self.pci.lines()) {
            self.pic.set_line(line, level);
        }
    }
}

impl Board for Pc {
    fn read(&mut self, at: At, bus: Bus, address: u64, size: u32) -> u64 {
        if bus == Bus::Memory && LAPIC.contains(&address) {
            return self.lapic.read(address - LAPIC.start, at.now).into();
        }
        if bus == Bus::Memory
            && let Some(value) = self.pci.read(address, size)
        {
            self.set_lines();
            return value;
        }
        let Some(port) = port(bus, address) else { return all_ones(size) };
        let value = match port {
            PCI_ADDRESS if size == 4 && !self.pci.is_empty() => return self.pci.address().into(),
            PCI_DATA..PCI_DATA_END if !self.pci.is_empty() => {
                return self.pci.read_selected((port - PCI_DATA) as u8, size).into();
            }
            _ if Pic::has_port(port) => self.pic.read(port),
            _ if Pit::has_port(port) => self.pit.read(port, at.now),
            SERIAL..SERIAL_END => self.serial.read(port - SERIAL),
            _ if Rtc::has_port(port) => self.rtc.read(port, at.now),
            _ if I8042::has_port(port) => self.keyboard.read(port),
            _ => return all_ones(size),
        };
        self.set_lines();
        value.into()
    }

    fn write(&mut self, at: At, bus: Bus, address: u64, size: u32, value: u64) {
        if bus == Bus::Memory && LAPIC.contains(&address) {
            return self.lapic.write(address - LAPIC.start, value as u32, at.now);
        }
        if (bus, address) == (Bus::Memory, EXIT_STATUS_IN_MEMORY) {
            self.exit_status = value as u8;
        }
        if bus == Bus::Memory && !self.pci.is_empty() {
            self.pci.write(address, value, at.now);
            self.set_lines();
        }
        let Some(port) = port(bus, address) else { return };
        match port {
            PCI_ADDRESS if size == 4 => self.pci.select(value as u32),
            PCI_DATA..PCI_DATA_END => self.pci.write_selected((port - PCI_DATA) as u8, size, value as u32),
            _ => {}
        }
        let value = value as u8;
        match port {
            _ if Pic::has_port(port) => self.pic.write(port, value),
            _ if Pit::has_port(port) => self.pit.write(port, value, at.now),
            SERIAL..SERIAL_END => self.serial.write(port - SERIAL, value),
            _ if Rtc::has_port(port) => self.rtc.write(port, value),
            _ if I8042::has_port(port) => self.keyboard.write(port, value),
            EXIT_STATUS => self.exit_status = value,
            _ => return,
        }
        self.set_lines();
    }

    fn has_own_controllers(&self) -> bool {
        true
    }

    fn read_takes(&self, bus: Bus, address: u64) -> Ticks {
        if port(bus, address).is_some_and(Pit::has_port) { ticks(TIMER_READ_NANOSECONDS) } else { 0 }
    }

    fn advance(&mut self, at: At) {
        self.lapic.advance(at.now);
        if self.pit.advance(at.now) {
            self.pic.pulse(TIMER_LINE);
        }
        if self.serial.next().is_some_and(|next| next <= at.now) {
            self.serial.advance(at.now);
            self.set_lines();
        }
    }

    /// The timer's next interrupt, unless it is masked. When the guest unmasks it, the missed request is delivered.
    fn next_event(&self, _cpu: usize) -> Option<Ticks> {
        let timer = self.pit.next().filter(|_| self.pic.would_ask(TIMER_LINE));
        [timer, self.serial.next(), self.lapic.next(), self.pci.next()].into_iter().flatten().min()
    }

    /// Returns 0 for "since when", which does not matter with one CPU.
    fn pending(&self, _cpu: usize) -> Option<Ticks> {
        (self.lapic.asks() || self.lapic.lets_external_through() && self.pic.asks()).then_some(0)
    }

    fn acknowledge(&mut self, _cpu: usize) -> Option<Interrupt> {
        let own = self.lapic.acknowledge();
        let of_controllers = || self.pic.acknowledge();
        own.or_else(of_controllers).map(|vector| Interrupt::of(vector.into()))
    }

    fn attach(&mut self, device: &Attached) -> Result<(), AttachError> {
        let number = self.pci.len();
        let line = VIRTIO_LINES.get(number).copied().ok_or(AttachError::TooMany)?;
        self.pci.attach(device, Firmware { base: VIRTIO + number as u32 * pci::BYTES, line })
    }

    fn next_service(&self) -> Option<Ticks> {
        self.pci.next()
    }

    fn serve(&mut self, at: At, memory: &mut dyn Memory) {
        self.pci.serve(at.now, memory);
        self.set_lines();
    }

    fn console(&mut self) -> &mut dyn Console {
        &mut self.serial
    }

    fn power_off(&self) -> Option<u8> {
        self.keyboard.reset().then_some(self.exit_status)
    }

    fn save(&self) -> Result<Value, String> {
        saved(self)
    }

    fn load(&mut self, state: &Value) -> Result<(), String> {
        let mut devices = restored(state, |devices: &Pc| devices.is_sound())?;
        devices.pci.adopt(&self.pci).map_err(|error| error.to_string())?;
        *self = devices;
        Ok(())
    }
}

/// The port of an access. All devices are on ports.
fn port(bus: Bus, address: u64) -> Option<u16> {
    if bus == Bus::Ports { address.try_into().ok() } else { None }
}

fn boot(config: &Config, ram: u64, kernel_end: u64) -> Result<Boot, MachineError> {
    let initrd = config.initrd.as_deref().unwrap_or_default();
    let header = config.whole.as_ref().map_or(&[][..], |whole| &whole.header);
    zero_page::boot(&config.command_line, initrd, ram, kernel_end, header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(board: &mut Pc, now: Ticks, writes: &[(u16, u8)]) {
        for (port, value) in writes {
            board.write(At { cpu: 0, now }, Bus::Ports, (*port).into(), 1, (*value).into());
        }
    }

    const CONTROLLERS: &[(u16, u8)] = &[
        (0x20, 0x11),
        (0x21, 0x30),
        (0x21, 4),
        (0x21, 1),
        (0xa0, 0x11),
        (0xa1, 0x38),
        (0xa1, 2),
        (0xa1, 1),
        (0x21, 0),
        (0xa1, 0),
    ];

    #[test]
    fn the_timer_and_the_console_interrupt_on_their_lines() {
        let mut board = Pc::default();
        write(&mut board, 0, CONTROLLERS);
        write(&mut board, 0, &[(0x43, 0x34), (0x40, 0xff), (0x40, 0xff)]);
        let at = board.next_event(0).expect("the timer runs");
        board.advance(At { cpu: 0, now: at });
        assert_eq!(
            (board.pending(0), board.acknowledge(0), board.next_event(0)),
            (Some(0), Some(Interrupt::of(0x30)), None),
            "none before the end"
        );
        write(&mut board, at, &[(0x20, 0x20)]);
        assert!(board.next_event(0).is_some_and(|next| next > at));
        write(&mut board, at, &[(SERIAL + 4, 8), (SERIAL + 1, 1)]);
        board.console().receive(b"x");
        board.advance(At { cpu: 0, now: at });
        assert_eq!(board.acknowledge(0), Some(Interrupt::of(0x34)));
        assert_eq!(board.read(At { cpu: 0, now: at }, Bus::Ports, SERIAL.into(), 1), u64::from(b'x'));
    }

    #[test]
    fn a_reset_ends_the_machine_with_the_status_that_was_left() {
        for status in [0, 3] {
            let mut board = Pc::default();
            write(&mut board, 0, &[(EXIT_STATUS, status)]);
            assert_eq!(board.power_off(), None);
            write(&mut board, 0, &[(0x64, 0xfe)]);
            assert_eq!(board.power_off(), Some(status));
        }
    }

    #[test]
    fn there_is_no_pci_bus() {
        let mut board = Pc::default();
        board.write(At { cpu: 0, now: 0 }, Bus::Ports, 0xcf8, 4, 0x8000_0000);
        let read = [(0xcf8, 4), (0xcfc, 4), (0xcfc, 2), (0x2f8, 1)]
            .map(|(port, size)| board.read(At { cpu: 0, now: 0 }, Bus::Ports, port, size));
        assert_eq!(read, [u32::MAX.into(), u32::MAX.into(), 0xffff, 0xff]);
    }

    proptest! {
        /// No guest access to the ports makes the board panic.
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((0u8..8, any::<u16>(), 0u32..9, any::<u32>(), any::<u32>()), 0..300)) {
            const PORTS: &[u16] = &[0x20, 0x21, 0xa0, 0xa1, 0x40, 0x41, 0x42, 0x43, 0x60, 0x61, 0x64, 0x70, 0x71, 0xf4, 0x3f8, 0x3f9, 0x3fa, 0x3fc];
            let mut board = Pc::default();
            let mut now = 0u64;
            for (what, port, size, value, later) in accesses {
                now += u64::from(later);
                let at = At { cpu: 0, now };
                let port = if port % 5 == 0 { port } else { PORTS[usize::from(port) % PORTS.len()] };
                board.advance(at);
                match what {
                    0..4 => board.write(at, Bus::Ports, port.into(), size, value.into()),
                    4..6 => { board.read(at, Bus::Ports, port.into(), size); }
                    6 => board.console().receive(&value.to_le_bytes()),
                    _ => prop_assert_eq!(board.pending(0).is_some(), board.acknowledge(0).is_some()),
                }
            }
        }
    }
}
