//! The `pc` board, for stock x86 kernels: the I/O ports of a PC without ACPI, CPUs with local APICs, and a
//! serial console.
//!
//! With several CPUs there are an IO-APIC and a table (`mp_table.rs`) that lists it and the CPUs. A kernel on one CPU gets
//! neither, and uses the 8259.
//!
//! Unused ports read as all ones. Without virtio devices this includes PCI's configuration ports, so kernels find no PCI
//! bus.
//!
//! ```text
//!   0x0000_0000  RAM; the boot parameters lie in its first MiB (zero_page.rs)
//!   0x000f_0000  table of CPUs, with several CPUs (mp_table.rs)
//!   end of RAM   initramfs below it, or below 2 GiB, as far down as it needs
//!   0xc000_0000  end of RAM at the latest; the rest of RAM begins at 4 GiB
//!   0xfe00_0000  virtio devices of 16 KiB each, if any
//!   0xfec0_0000  IO-APIC, with several CPUs
//!   0xfee0_0000  local APIC of the CPU that makes the access
//!   0xfef0_0000  exit status, a byte
//!
//!   ports 0x20 0xa0 PICs   0x40 PIT   0x60 i8042   0x70 RTC   0x3f8 serial console   0xf4 exit status
//!         0xcf8 PCI, if there are virtio devices
//! ```

use super::cpus::Cpus;
use super::{At, Board, Boot, Bus, Interrupt, NO_HOLE, Order, Spec, all_ones, mp_table, restored, saved, zero_page};
use crate::clock::{Ticks, ticks};
use crate::config::Config;
use crate::devices::console::Console;
use crate::devices::i8042::I8042;
use crate::devices::ioapic::IoApic;
use crate::devices::lapic::{Lapic, Meaning, Message};
use crate::devices::pic::Pic;
use crate::devices::pit::Pit;
use crate::devices::rtc::Rtc;
use crate::devices::uart::Uart;
use crate::devices::virtio::pci::{self, Firmware, PciBus};
use crate::devices::virtio::{AttachError, Attached, Virtio};
use crate::error::MachineError;
use crate::snapshot::LAST_TIME;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Range;
use trapline_isa::mem::Memory;

const MIB: u64 = 1 << 20;

/// The board for 32-bit kernels, of which most reach 4 GiB of addresses only.
pub static I386: Spec = Spec { most_ram: 2048 * MIB, hole: NO_HOLE, ..SPEC };

/// The description of the board.
pub static SPEC: Spec = Spec {
    name: "pc",
    ram_start: 0,
    ram: 512 * MIB,
    least_ram: 64 * MIB,
    most_ram: 8192 * MIB,
    hole: (0xc000_0000, 1 << 32),
    cpus: 8,
    boot,
    devices: |cpus, _| Box::new(Pc::new(cpus)),
};

const TIMER_LINE: u8 = 0;
const KEYBOARD_LINE: u8 = 1;
const SERIAL_LINE: u8 = 4;

/// Physical addresses of the local APIC. No firmware table lists it.
const LAPIC: Range<u64> = 0xfee0_0000..0xfee0_0000 + Lapic::BYTES;

/// Physical addresses of the IO-APIC.
const IOAPIC: Range<u64> = 0xfec0_0000..0xfec0_0000 + IoApic::BYTES;
/// The pin of the timer's line. Other lines have their own number.
const TIMER_PIN: u8 = 2;

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

/// The IO-APIC's pin of the first virtio device, and the device number of its PCI function.
const VIRTIO_PIN: u8 = 16;
const VIRTIO_FUNCTION: u8 = 1;

/// The memory-mapped exit status, for kernels that do not let programs access ports.
const EXIT_STATUS_IN_MEMORY: u64 = 0xfef0_0000;

/// Duration of a read of the PIT's ports. It is as long as on an ISA bus, so that polling loops end.
const TIMER_READ_NANOSECONDS: u64 = 500;

/// The state of the board.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pc {
    cpus: Cpus,
    lapics: Vec<Lapic>,
    /// Present with several CPUs.
    ioapic: Option<IoApic>,
    /// The time since which the 8259 has an interrupt.
    external_since: Option<Ticks>,
    pic: Pic,
    pit: Pit,
    serial: Uart,
    rtc: Rtc,
    keyboard: I8042,
    exit_status: u8,
    #[serde(default, skip_serializing_if = "PciBus::is_empty")]
    pci: PciBus,
}

impl Default for Pc {
    fn default() -> Pc {
        Pc::new(1)
    }
}

impl Pc {
    /// A board with this many CPUs.
    fn new(cpus: usize) -> Pc {
        Pc {
            cpus: Cpus::new(cpus),
            lapics: (0..cpus).map(Lapic::of).collect(),
            ioapic: (cpus > 1).then(IoApic::default),
            external_since: None,
            pic: Pic::default(),
            pit: Pit::default(),
            serial: Uart::default(),
            rtc: Rtc::default(),
            keyboard: I8042::default(),
            exit_status: 0,
            pci: PciBus::default(),
        }
    }

    fn is_sound(&self, cpus: usize) -> bool {
        let several = self.cpus.is_sound(cpus, LAST_TIME) && self.lapics.len() == cpus && self.ioapic.is_some() == (cpus > 1);
        several
            && self.external_since.is_none_or(|since| since < LAST_TIME)
            && self.lapics.iter().all(|lapic| lapic.is_sound(LAST_TIME))
            && self.pic.is_sound()
            && self.pit.is_sound(LAST_TIME)
            && self.rtc.is_sound()
            && self.pci.is_sound(LAST_TIME)
    }

    fn set_lines(&mut self) {
        for (line, level) in [(SERIAL_LINE, self.serial.line()), (KEYBOARD_LINE, self.keyboard.line())] {
            self.pic.set_line(line, level);
            if let Some(ioapic) = &mut self.ioapic {
                ioapic.set_line(line, level);
            }
        }
        for ((line, pin), level) in VIRTIO_LINES.into_iter().zip(VIRTIO_PIN..).zip(self.pci.lines()) {
            self.pic.set_line(line, level);
            if let Some(ioapic) = &mut self.ioapic {
                ioapic.set_line(pin, level);
            }
        }
        self.deliver_devices();
    }

    /// Delivers the interrupts that the devices' interrupt controllers request.
    fn deliver_devices(&mut self) {
        let now = self.cpus.latest();
        for message in self.ioapic.as_mut().map(IoApic::take_sent).unwrap_or_default() {
            self.deliver(None, message, now);
        }
        self.external_since = if self.pic.asks() { self.external_since.or(Some(now)) } else { None };
    }

    /// Delivers the messages of this CPU's local APIC.
    fn deliver_sent(&mut self, at: At) {
        for message in self.lapics.get_mut(at.cpu).map(Lapic::take_sent).unwrap_or_default() {
            self.deliver(Some(at.cpu), message, at.now);
        }
    }

    fn deliver(&mut self, sender: Option<usize>, message: Message, now: Ticks) {
        let meaning = message.meaning();
        for (cpu, lapic) in self.lapics.iter_mut().enumerate() {
            if !lapic.takes(message, sender == Some(cpu)) {
                continue;
            }
            match meaning {
                Meaning::Interrupt(vector) => lapic.request(vector, now),
                Meaning::InterruptOne(vector) => return lapic.request(vector, now),
                Meaning::Init if self.ioapic.is_some() => {
                    lapic.reset();
                    self.cpus.stop(cpu);
                }
                Meaning::Startup(page) => self.cpus.start(cpu, u64::from(page) << 12, 0),
                Meaning::Init | Meaning::Other => {}
            }
        }
    }
}

impl Pc {
    fn write_lapic(&mut self, at: At, offset: u64, value: u32) {
        let Some(lapic) = self.lapics.get_mut(at.cpu) else { return };
        let ended = lapic.write(offset, value, at.now);
        if let Some((vector, ioapic)) = ended.zip(self.ioapic.as_mut()) {
            ioapic.end(vector);
            self.deliver_devices();
        }
        self.deliver_sent(at);
    }
}

impl Board for Pc {
    fn read(&mut self, at: At, bus: Bus, address: u64, size: u32) -> u64 {
        if bus == Bus::Memory && LAPIC.contains(&address) {
            return self.lapics.get(at.cpu).map_or(0, |lapic| lapic.read(address - LAPIC.start, at.now)).into();
        }
        if let Some(ioapic) = self.ioapic.as_ref().filter(|_| bus == Bus::Memory && IOAPIC.contains(&address)) {
            return ioapic.read(address - IOAPIC.start).into();
        }
        if bus == Bus::Memory
            && let Some(value) = self.pci.read(address, size)
        {
            self.set_lines();
            return value;
        }
        let Some(port) = port(bus, address) else { return all_ones(size) };
        let now = self.cpus.shared_time(at);
        let value = match port {
            PCI_ADDRESS if size == 4 && !self.pci.is_empty() => return self.pci.address().into(),
            PCI_DATA..PCI_DATA_END if !self.pci.is_empty() => {
                return self.pci.read_selected((port - PCI_DATA) as u8, size).into();
            }
            _ if Pic::has_port(port) => self.pic.read(port),
            _ if Pit::has_port(port) => self.pit.read(port, now),
            SERIAL..SERIAL_END => self.serial.read(port - SERIAL),
            _ if Rtc::has_port(port) => self.rtc.read(port, now),
            _ if I8042::has_port(port) => self.keyboard.read(port),
            _ => return all_ones(size),
        };
        self.set_lines();
        value.into()
    }

    fn write(&mut self, at: At, bus: Bus, address: u64, size: u32, value: u64) {
        let now = self.cpus.shared_time(at);
        if bus == Bus::Memory && LAPIC.contains(&address) {
            return self.write_lapic(at, address - LAPIC.start, value as u32);
        }
        if let Some(ioapic) = self.ioapic.as_mut().filter(|_| bus == Bus::Memory && IOAPIC.contains(&address)) {
            ioapic.write(address - IOAPIC.start, value as u32);
            return self.deliver_devices();
        }
        if (bus, address) == (Bus::Memory, EXIT_STATUS_IN_MEMORY) {
            self.exit_status = value as u8;
        }
        if bus == Bus::Memory && !self.pci.is_empty() {
            self.pci.write(address, value, now);
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
            _ if Pit::has_port(port) => self.pit.write(port, value, now),
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

    fn parks_cpus(&self) -> bool {
        self.cpus.are_several()
    }

    fn orders(&mut self) -> Vec<Order> {
        self.cpus.take_orders()
    }

    fn read_takes(&self, bus: Bus, address: u64) -> Ticks {
        if port(bus, address).is_some_and(Pit::has_port) { ticks(TIMER_READ_NANOSECONDS) } else { 0 }
    }

    fn advance(&mut self, at: At) {
        if let Some(lapic) = self.lapics.get_mut(at.cpu) {
            lapic.advance(at.now);
        }
        let now = self.cpus.shared_time(at);
        if self.pit.advance(now) {
            self.pic.pulse(TIMER_LINE);
            if let Some(ioapic) = &mut self.ioapic {
                ioapic.pulse(TIMER_PIN);
            }
            self.deliver_devices();
        }
        if self.serial.next().is_some_and(|next| next <= now) {
            self.serial.advance(now);
            self.set_lines();
        }
    }

    /// The timer's next interrupt, unless it is masked. When the guest unmasks it, the missed request is delivered.
    fn next_event(&self, cpu: usize) -> Option<Ticks> {
        let own = self.lapics.get(cpu)?.next();
        if !self.cpus.keeps_shared_time(cpu) {
            return own;
        }
        let asks = || self.pic.would_ask(TIMER_LINE) || self.ioapic.as_ref().is_some_and(|ioapic| ioapic.would_ask(TIMER_PIN));
        let timer = self.pit.next().filter(|_| asks());
        [timer, self.serial.next(), own, self.pci.next()].into_iter().flatten().min()
    }

    fn pending(&self, cpu: usize) -> Option<Ticks> {
        let lapic = self.lapics.get(cpu)?;
        let external = self.external_since.filter(|_| lapic.lets_external_through());
        [external, lapic.asks_since()].into_iter().flatten().min()
    }

    fn acknowledge(&mut self, cpu: usize) -> Option<Interrupt> {
        let lapic = self.lapics.get_mut(cpu)?;
        let mut vector = lapic.acknowledge();
        if vector.is_none() && lapic.lets_external_through() {
            vector = self.pic.acknowledge();
            self.deliver_devices();
        }
        vector.map(|vector| Interrupt::of(vector.into()))
    }

    fn attach(&mut self, device: &Attached) -> Result<(), AttachError> {
        let number = self.pci.len();
        let line = VIRTIO_LINES.get(number).copied().ok_or(AttachError::TooMany)?;
        self.pci.attach(Virtio::new(device), Firmware { base: VIRTIO + number as u32 * pci::BYTES, line })
    }

    fn next_service(&self) -> Option<Ticks> {
        self.pci.next()
    }

    fn serve(&mut self, at: At, memory: &mut dyn Memory) {
        let now = self.cpus.shared_time(at);
        self.pci.serve(now, memory);
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
        let mut devices = restored(state, |devices: &Pc| devices.is_sound(self.lapics.len()))?;
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
    let mut boot = zero_page::boot(&config.command_line, initrd, (ram, SPEC.hole), kernel_end, header)?;
    if config.cpus > 1 {
        let functions: Vec<(u8, u8)> = (VIRTIO_FUNCTION..).zip(VIRTIO_PIN..).take(config.attached.len()).collect();
        boot.pieces.extend(mp_table::pieces(config.cpus as u8, LAPIC.start, IOAPIC.start, &functions));
    }
    Ok(boot)
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
            (Some(at), Some(Interrupt::of(0x30)), None),
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
