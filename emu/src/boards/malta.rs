//! The `malta` board, for stock MIPS kernels: MIPS's evaluation board with one CPU. PC-style devices are behind a
//! GT-64120 and a PIIX4, and virtio devices, if any, in the slots of the PCI bus (`malta_slots.rs`). The timer is in the CPU.
//!
//! Its firmware is YAMON. The kernel sees only what YAMON passes: a command line and an environment
//! (arch/mips/fw/lib/cmdline.c). Unmapped addresses read as all ones.
//!
//! ```text
//!   0x0000_2000  arguments, environment and their strings, as the firmware leaves them
//!   ...          RAM; the initramfs ends at its end
//!   0x1000_0000  PCI memory, as the registers of the GT-64120 say; 16 KiB for each virtio device
//!   0x1800_0000  I/O ports: 0x20 0xa0 PICs, 0x40 PIT, 0x70 RTC, 0x3f8 serial console, 0xf4 exit status,
//!                0x4d0 level-triggered lines, if there are virtio devices
//!   0x1be0_0000  GT-64120, the bridge
//!   0x1f00_0200  switches
//!   0x1f00_0500  reset
//!   0x1fc0_0010  revision of the board
//! ```

use super::malta_slots::{LINES, Slots};
use super::{At, Board, Boot, Bus, Interrupt, NO_HOLE, Spec, all_ones, restored, saved};
use crate::clock::{Ticks, ticks};
use crate::config::Config;
use crate::devices::console::Console;
use crate::devices::count_compare::CountCompare;
use crate::devices::gt64120::{self, Gt64120};
use crate::devices::pic::Pic;
use crate::devices::piix4::{self, Piix4};
use crate::devices::pit::Pit;
use crate::devices::rtc::Rtc;
use crate::devices::uart::Uart;
use crate::devices::virtio::{AttachError, Attached};
use crate::error::MachineError;
use crate::snapshot::LAST_TIME;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trapline_isa::mem::{ByteOrder, Memory};

const MIB: u64 = 1 << 20;

/// The board for little-endian CPUs. Devices begin at 256 MiB; RAM ends below that, with room for the probe window.
pub static SPEC: Spec = Spec {
    name: "malta",
    ram_start: 0,
    ram: 240 * MIB,
    least_ram: 64 * MIB,
    most_ram: 240 * MIB,
    hole: NO_HOLE,
    cpus: 1,
    boot: |config, ram, kernel_end| boot(config, ram, kernel_end, ByteOrder::Little),
    devices: |_, _| Box::new(Malta::new(ByteOrder::Little)),
};

/// The board for big-endian CPUs.
pub static BIG_ENDIAN: Spec = Spec {
    boot: |config, ram, kernel_end| boot(config, ram, kernel_end, ByteOrder::Big),
    devices: |_, _| Box::new(Malta::new(ByteOrder::Big)),
    ..SPEC
};

// Physical addresses: I/O ports, the GT-64120, switches and reset register, the board's revision.
const PORTS: u64 = 0x1800_0000;
const PORTS_END: u64 = PORTS + 0x1_0000;
const BRIDGE: u64 = 0x1be0_0000;
const BRIDGE_END: u64 = BRIDGE + gt64120::BYTES;
const SWITCHES: u64 = 0x1f00_0200;
const SWITCHES_END: u64 = 0x1f00_0400;
const RESET: u64 = 0x1f00_0500;
const REVISION: u64 = 0x1fc0_0010;

/// The value that resets the board.
const RESET_NOW: u64 = 0x42;
/// The revision of a CoreLV card, whose bridge is a GT-64120.
const CORE_LV: u64 = 0x420;

const TIMER_LINE: u8 = 0;
const SERIAL_LINE: u8 = 4;
const SERIAL: u16 = 0x3f8;
const SERIAL_END: u16 = SERIAL + 8;
/// The ports that choose level-triggered lines, a bit for each line.
const LEVELS: u16 = 0x4d0;
const LEVELS_HIGH: u16 = LEVELS + 1;
/// A byte written to this port is the machine's exit status, as on other boards.
const EXIT_STATUS: u16 = 0xf4;
/// The interrupt that is acknowledged if none is pending.
const SPURIOUS: u8 = 7;

/// Bits of the Cause register: the pin of the interrupt controllers, and the timer's pin with its TI bit.
const PIN_OF_CONTROLLERS: u64 = 1 << 10;
const PIN_OF_TIMER: u64 = 1 << 15 | 1 << 30;

/// Register numbers of Count and Compare, as the CPU model uses them.
const COUNT: u32 = 1 << 16 | 9 << 3;
const COMPARE: u32 = 1 << 16 | 11 << 3;

/// Duration of a read of the PIT's ports. It is as long as on an ISA bus, so that polling loops end.
const TIMER_READ_NANOSECONDS: u64 = 500;
/// Duration of a read of the RTC. A kernel polls it for two seconds to measure Count's frequency.
const CLOCK_READ_NANOSECONDS: u64 = 50_000;

/// The board.
pub struct Malta {
    order: ByteOrder,
    devices: Devices,
}

/// The state of its devices.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Devices {
    clock: CountCompare,
    bridge: Gt64120,
    ports: Piix4,
    pic: Pic,
    pit: Pit,
    serial: Uart,
    rtc: Rtc,
    /// The virtual time of the last access.
    #[serde(skip)]
    now: Ticks,
    exit_status: u8,
    off: bool,
    #[serde(default, skip_serializing_if = "Slots::is_empty")]
    slots: Slots,
}

impl Malta {
    /// A board for CPUs of this byte order.
    pub fn new(order: ByteOrder) -> Malta {
        Malta { order, devices: Devices::default() }
    }

    fn read_bridge(&mut self, offset: u64) -> u32 {
        let Devices { bridge, ports, pic, slots, .. } = &mut self.devices;
        let value = match bridge.asks_another(offset) {
            Some(address) => ports.config(address).or_else(|| slots.config(address)).unwrap_or_else(|| bridge.unanswered()),
            None => bridge.read(offset, || pic.acknowledge().unwrap_or(SPURIOUS)),
        };
        if self.swaps(offset) { value.swap_bytes() } else { value }
    }

    fn write_bridge(&mut self, offset: u64, value: u32) {
        let Devices { bridge, ports, slots, .. } = &mut self.devices;
        match bridge.asks_another(offset) {
            Some(address) if ports.set_config(address, value) || slots.set_config(address, value) => {}
            Some(_) => drop(bridge.unanswered()),
            None => bridge.write(offset, value),
        }
    }

    /// Converts a two-byte port value between the CPU's byte order and little-endian.
    fn in_ports_order(&self, value: u16) -> u16 {
        if self.order == ByteOrder::Big { value.swap_bytes() } else { value }
    }

    /// Converts a value of a virtio device's register, which is little-endian, to the CPU's byte order or back. The kernel
    /// sets the bridge's byte-swap bits so that each byte keeps its address.
    fn in_registers_order(&self, value: u64, size: u32) -> u64 {
        if self.order == ByteOrder::Big { value.swap_bytes() >> (64 - 8 * size.clamp(1, 8)) } else { value }
    }

    fn swaps(&self, offset: u64) -> bool {
        self.order == ByteOrder::Big && Gt64120::is_little_endian(offset)
    }
}

impl Devices {
    fn is_sound(&self) -> bool {
        let clocks = self.clock.is_sound(LAST_TIME) && self.pit.is_sound(LAST_TIME) && self.rtc.is_sound();
        clocks && self.bridge.is_sound() && self.ports.is_sound() && self.pic.is_sound() && self.slots.is_sound(LAST_TIME)
    }

    /// The address in PCI memory space of a CPU's access, if there are devices in the slots.
    fn in_slots(&self, address: u64) -> Option<u32> {
        if self.slots.is_empty() { None } else { self.bridge.pci_memory(address) }
    }

    fn read_port(&mut self, port: u16, now: Ticks) -> u8 {
        match port {
            _ if Pic::has_port(port) => self.pic.read(port),
            _ if Pit::has_port(port) => self.pit.read(port, now),
            SERIAL..SERIAL_END => self.serial.read(port - SERIAL),
            _ if Rtc::has_port(port) => self.rtc.read(port, now) | self.rtc.update_in_progress(port, now),
            LEVELS | LEVELS_HIGH if !self.slots.is_empty() => {
                self.pic.level_triggered().to_le_bytes()[usize::from(port - LEVELS)]
            }
            _ => u8::MAX,
        }
    }

    fn write_port(&mut self, port: u16, value: u8, now: Ticks) {
        match port {
            _ if Pic::has_port(port) => self.pic.write(port, value),
            _ if Pit::has_port(port) => self.pit.write(port, value, now),
            SERIAL..SERIAL_END => self.serial.write(port - SERIAL, value),
            _ if Rtc::has_port(port) => self.rtc.write(port, value),
            EXIT_STATUS => self.exit_status = value,
            LEVELS | LEVELS_HIGH if !self.slots.is_empty() => {
                let mut lines = self.pic.level_triggered().to_le_bytes();
                lines[usize::from(port - LEVELS)] = value;
                self.pic.set_level_triggered(u16::from_le_bytes(lines));
            }
            _ => {}
        }
    }

    fn set_lines(&mut self) {
        if self.slots.is_empty() {
            return self.pic.set_line(SERIAL_LINE, self.serial.line());
        }
        let high = self.ports.routed(self.slots.interrupts()) | u16::from(self.serial.line()) << SERIAL_LINE;
        for line in (0..16).filter(|line| piix4::ROUTABLE >> line & 1 != 0) {
            self.pic.set_line(line, high >> line & 1 != 0);
        }
    }

    fn pins(&self) -> u64 {
        let of_controllers = if self.pic.asks() { PIN_OF_CONTROLLERS } else { 0 };
        of_controllers | if self.clock.asks(self.now) { PIN_OF_TIMER } else { 0 }
    }
}

impl Board for Malta {
    fn read(&mut self, at: At, _: Bus, address: u64, size: u32) -> u64 {
        let value = match address {
            PORTS..PORTS_END if size == 1 => self.devices.read_port((address - PORTS) as u16, at.now).into(),
            PORTS..PORTS_END if size == 2 => match self.devices.ports.read((address - PORTS) as u16) {
                Some(value) => self.in_ports_order(value).into(),
                None => return all_ones(size),
            },
            BRIDGE..BRIDGE_END => self.read_bridge(address - BRIDGE).into(),
            // All switches are off.
            SWITCHES..SWITCHES_END => 0,
            REVISION => CORE_LV,
            _ => {
                let devices = &mut self.devices;
                let value = devices.in_slots(address).and_then(|address| devices.slots.read(address, size));
                let Some(value) = value else { return all_ones(size) };
                self.in_registers_order(value, size)
            }
        };
        self.devices.set_lines();
        value
    }

    fn write(&mut self, at: At, _: Bus, address: u64, size: u32, value: u64) {
        match address {
            PORTS..PORTS_END if size == 1 => self.devices.write_port((address - PORTS) as u16, value as u8, at.now),
            PORTS..PORTS_END if size == 2 => {
                let value = self.in_ports_order(value as u16);
                self.devices.ports.write((address - PORTS) as u16, value);
            }
            BRIDGE..BRIDGE_END => {
                let (offset, value) = (address - BRIDGE, value as u32);
                let value = if self.swaps(offset) { value.swap_bytes() } else { value };
                self.write_bridge(offset, value);
            }
            RESET if value == RESET_NOW => self.devices.off = true,
            _ => {
                let value = self.in_registers_order(value, size);
                if let Some(address) = self.devices.in_slots(address) {
                    self.devices.slots.write(address, value, at.now);
                }
            }
        }
        self.devices.set_lines();
    }

    fn read_takes(&self, _: Bus, address: u64) -> Ticks {
        match address.checked_sub(PORTS).and_then(|port| u16::try_from(port).ok()) {
            Some(port) if Pit::has_port(port) => ticks(TIMER_READ_NANOSECONDS),
            Some(port) if Rtc::has_port(port) => ticks(CLOCK_READ_NANOSECONDS),
            _ => 0,
        }
    }

    fn has_register(&self, register: u32) -> bool {
        matches!(register, COUNT | COMPARE)
    }

    fn register_read(&mut self, at: At, register: u32) -> Option<u64> {
        self.devices.now = at.now;
        (register == COUNT).then(|| self.devices.clock.count(at.now).into())
    }

    fn register_write(&mut self, at: At, register: u32, value: u64) -> bool {
        let Devices { clock, now, .. } = &mut self.devices;
        *now = at.now;
        match register {
            COUNT => clock.set_count(value as u32, at.now),
            COMPARE => clock.set_compare(value as u32, at.now),
            _ => return false,
        }
        true
    }

    fn advance(&mut self, at: At) {
        let devices = &mut self.devices;
        devices.now = at.now;
        if devices.pit.advance(at.now) {
            devices.pic.pulse(TIMER_LINE);
        }
        if devices.serial.next().is_some_and(|next| next <= at.now) {
            devices.serial.advance(at.now);
            devices.set_lines();
        }
    }

    /// The timer's next interrupt, unless it is masked, as on `pc`.
    fn next_event(&self, _: usize) -> Option<Ticks> {
        let Devices { clock, pic, pit, serial, now, slots, .. } = &self.devices;
        let timer = pit.next().filter(|_| pic.would_ask(TIMER_LINE));
        [timer, serial.next(), clock.next_event(*now), slots.next()].into_iter().flatten().min()
    }

    fn pending(&self, _: usize) -> Option<Ticks> {
        (self.devices.pins() != 0).then_some(0)
    }

    fn pins(&self, _: usize) -> Option<u64> {
        Some(self.devices.pins())
    }

    /// Pending interrupts stay pending until they are handled. The number is that of the highest pending pin.
    fn acknowledge(&mut self, _: usize) -> Option<Interrupt> {
        let pins = self.devices.pins();
        let highest = if pins & PIN_OF_TIMER != 0 { PIN_OF_TIMER & 0xff00 } else { pins };
        (pins != 0).then(|| Interrupt { number: (highest >> 8).trailing_zeros(), detail: pins })
    }

    /// Firmware routes the PCI interrupts and makes their lines level-triggered.
    fn attach(&mut self, device: &Attached) -> Result<(), AttachError> {
        self.devices.slots.attach(device)?;
        self.devices.ports.route(LINES);
        self.devices.pic.set_level_triggered(LINES.iter().fold(0, |lines, line| lines | 1 << line));
        Ok(())
    }

    fn next_service(&self) -> Option<Ticks> {
        self.devices.slots.next()
    }

    fn serve(&mut self, at: At, memory: &mut dyn Memory) {
        self.devices.slots.serve(at.now, memory);
        self.devices.set_lines();
    }

    fn console(&mut self) -> &mut dyn Console {
        &mut self.devices.serial
    }

    fn power_off(&self) -> Option<u8> {
        (self.devices.off || self.devices.ports.is_off()).then_some(self.devices.exit_status)
    }

    fn save(&self) -> Result<Value, String> {
        saved(&self.devices)
    }

    fn load(&mut self, state: &Value) -> Result<(), String> {
        let mut devices = restored(state, |devices: &Devices| devices.is_sound())?;
        devices.slots.adopt(&self.devices.slots).map_err(|error| error.to_string())?;
        self.devices = devices;
        Ok(())
    }

    fn set_now(&mut self, at: At) {
        self.devices.now = at.now;
    }
}

// Memory that the firmware prepares: 32-bit pointers to the arguments, alternating pointers to names and values of the
// environment, and the strings.
const ARGUMENTS: u64 = 0x2000;
const ENVIRONMENT: u64 = 0x2100;
const TEXTS: u64 = 0x2400;
/// The kernel's virtual address of physical memory (KSEG0).
const SEEN: u64 = 0xffff_ffff_8000_0000;
/// The command line's size limit in Linux, including its terminating 0.
const COMMAND_LINE_BYTES: usize = 4096;
/// Alignment of the initramfs, which ends at the end of RAM.
const INITRD_ALIGNMENT: u64 = 0x1_0000;

fn boot(config: &Config, ram: u64, kernel_end: u64, order: ByteOrder) -> Result<Boot, MachineError> {
    let initrd = config.initrd.as_deref().unwrap_or_default();
    let at = ram.saturating_sub(initrd.len() as u64) / INITRD_ALIGNMENT * INITRD_ALIGNMENT;
    if at < kernel_end {
        let bytes = initrd.len();
        return Err(MachineError::Config(format!(
            "an initial file system of {bytes} bytes has no room behind the kernel, which ends at {kernel_end:#x} of {ram:#x} bytes of RAM"
        )));
    }
    let mut line = config.command_line.clone();
    if !initrd.is_empty() {
        line = format!("rd_start={:#x} rd_size={} {line}", SEEN + at, initrd.len());
    }
    if line.len() >= COMMAND_LINE_BYTES {
        let (has, takes) = (line.len(), COMMAND_LINE_BYTES - 1);
        return Err(MachineError::Config(format!(
            "the command line has {has} bytes with what says where the initial file system is, Linux takes {takes}"
        )));
    }
    let mut texts = Texts { order, bytes: Vec::new() };
    let memory = ram.to_string();
    let arguments = texts.pointers(&["vmlinux", &line]);
    let environment = texts.pointers(&["memsize", &memory, "ememsize", &memory, "modetty0", "38400n8r"]);
    let given = vec![2, SEEN + ARGUMENTS, SEEN + ENVIRONMENT, ram];
    let pieces = vec![(ARGUMENTS, arguments), (ENVIRONMENT, environment), (TEXTS, texts.bytes), (at, initrd.to_vec())];
    Ok(Boot { pieces, info: 0, arguments: given })
}

/// The strings, one after another.
struct Texts {
    order: ByteOrder,
    bytes: Vec<u8>,
}

impl Texts {
    /// Adds strings. Returns pointers to them, followed by two null pointers.
    fn pointers(&mut self, texts: &[&str]) -> Vec<u8> {
        let mut pointers = vec![0; 4 * (texts.len() + 2)];
        for (text, pointer) in texts.iter().zip(pointers.chunks_exact_mut(4)) {
            self.order.put(SEEN + TEXTS + self.bytes.len() as u64, pointer);
            self.bytes.extend(text.as_bytes());
            self.bytes.push(0);
        }
        pointers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ports(board: &mut Malta, now: Ticks, writes: &[(u16, u8)]) {
        for (port, value) in writes {
            board.write(At { cpu: 0, now }, Bus::Memory, PORTS + u64::from(*port), 1, (*value).into());
        }
    }

    /// The initialisation that Linux does: vectors from 0, all lines unmasked.
    const CONTROLLERS: &[(u16, u8)] =
        &[(0x20, 0x11), (0x21, 0), (0x21, 4), (0x21, 1), (0xa0, 0x11), (0xa1, 8), (0xa1, 2), (0xa1, 1), (0x21, 0), (0xa1, 0)];

    #[test]
    fn timer_and_controllers_have_separate_pins_until_handled() {
        let mut board = Malta::new(ByteOrder::Little);
        let at = |now| At { cpu: 0, now };
        assert!(board.register_write(at(0), COMPARE, 100));
        let due = board.next_event(0).expect("it comes to Compare");
        assert_eq!((board.pending(0), board.register_read(at(due), COUNT)), (None, Some(100)));
        board.advance(at(due));
        let taken = Some(Interrupt { number: 7, detail: PIN_OF_TIMER });
        assert_eq!((board.pins(0), board.acknowledge(0), board.acknowledge(0)), (Some(PIN_OF_TIMER), taken, taken));
        board.register_write(at(due), COMPARE, 100);
        assert_eq!((board.pins(0), board.acknowledge(0)), (Some(0), None));

        ports(&mut board, due, CONTROLLERS);
        ports(&mut board, due, &[(SERIAL + 4, 8), (SERIAL + 1, 1)]);
        board.console().receive(b"x");
        board.advance(at(due));
        assert_eq!(board.acknowledge(0), Some(Interrupt { number: 2, detail: PIN_OF_CONTROLLERS }));
        let acknowledge = |board: &mut Malta| board.read(at(due), Bus::Memory, BRIDGE + 0xc34, 4);
        assert_eq!((acknowledge(&mut board), acknowledge(&mut board), board.pending(0)), (4, SPURIOUS.into(), None));
        assert_eq!(board.read(at(due), Bus::Memory, PORTS + u64::from(SERIAL), 1), u64::from(b'x'));
    }

    /// The bridge's registers are little-endian, so a big-endian CPU reads swapped values.
    #[test]
    fn the_bridge_has_its_own_byte_order() {
        let read = |order, address| Malta::new(order).read(At { cpu: 0, now: 0 }, Bus::Memory, address, 4);
        let found = [ByteOrder::Little, ByteOrder::Big].map(|order| (read(order, BRIDGE + 0x48), read(order, REVISION)));
        assert_eq!(found, [(0xc0, CORE_LV), (0xc000_0000, CORE_LV)]);
    }

    #[test]
    fn a_reset_ends_the_machine_with_the_status_that_was_left() {
        let mut board = Malta::new(ByteOrder::Big);
        ports(&mut board, 0, &[(EXIT_STATUS, 3)]);
        board.write(At { cpu: 0, now: 0 }, Bus::Memory, RESET, 4, 1);
        assert_eq!(board.power_off(), None);
        board.write(At { cpu: 0, now: 0 }, Bus::Memory, RESET, 4, RESET_NOW);
        assert_eq!(board.power_off(), Some(3));
    }

    /// The RTC's update flag changes once a second, so that a kernel can measure Count with it.
    #[test]
    fn the_rtc_shows_an_update_once_a_second() {
        let mut board = Malta::new(ByteOrder::Little);
        ports(&mut board, 0, &[(0x70, 0x0a)]);
        let mut shows = |ns| board.read(At { cpu: 0, now: ticks(ns) }, Bus::Memory, PORTS + 0x71, 1) >> 7;
        assert_eq!([999_000_000, 1_000_000_000, 1_500_000_000, 1_999_999_999].map(&mut shows), [1, 0, 0, 1]);
        assert!(
            board.read_takes(Bus::Memory, PORTS + 0x71) < ticks(1_000_000),
            "a read takes so little time that the guest sees the update"
        );
    }

    #[test]
    fn images_that_do_not_fit_are_refused() {
        let refused = |config: Config| boot(&config, 64 * MIB, 60 * MIB, ByteOrder::Little).expect_err("no room").to_string();
        let initrd = refused(Config { initrd: Some(vec![0; 8 << 20].into()), ..Config::default() });
        let line = refused(Config { command_line: "x".repeat(COMMAND_LINE_BYTES), ..Config::default() });
        assert!(initrd.contains("8388608 bytes has no room") && line.contains("Linux takes 4095"), "{initrd}; {line}");
    }

    proptest! {
        /// No guest access to the devices makes the board panic, and its state can be saved and restored.
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((0u8..8, any::<u16>(), 0u32..9, any::<u32>(), any::<u32>()), 0..300)) {
            const PLACES: &[u64] = &[PORTS + 0x20, PORTS + 0x21, PORTS + 0xa1, PORTS + 0x40, PORTS + 0x43, PORTS + 0x70, PORTS + 0x71, PORTS + 0x3f8, PORTS + 0x3f9, PORTS + 0x3fc, BRIDGE + 0xc34, BRIDGE + 0xcf8, BRIDGE + 0xcfc, BRIDGE + 0xc18, REVISION, SWITCHES];
            let mut board = Malta::new(ByteOrder::Big);
            let mut now = 0u64;
            for (what, place, size, value, later) in accesses {
                now += u64::from(later);
                let at = At { cpu: 0, now };
                let address = if place % 5 == 0 { u64::from(place) << 13 } else { PLACES[usize::from(place) % PLACES.len()] };
                board.advance(at);
                match what {
                    0..3 => board.write(at, Bus::Memory, address, size, value.into()),
                    3..5 => { board.read(at, Bus::Memory, address, size); }
                    5 => { board.register_write(at, if place % 2 == 0 { COUNT } else { COMPARE }, value.into()); }
                    6 => board.console().receive(&value.to_le_bytes()),
                    _ => prop_assert_eq!(board.pending(0).is_some(), board.acknowledge(0).is_some()),
                }
            }
            let state = board.save().expect("it can be saved");
            let mut restored = Malta::new(ByteOrder::Big);
            restored.load(&state).expect("it can be restored");
            prop_assert_eq!(restored.save().expect("again"), state);
        }
    }
}
