//! The `virt-riscv` board, for stock 64-bit RISC-V kernels: a 16550, a PLIC and up to eight harts, described by a device
//! tree. The board is the firmware as well: it answers calls of the SBI, among them those that set the timer, and that
//! start, stop and interrupt harts. Unmapped addresses read as zero.
//!
//! ```text
//!   0x0903_0000  exit status, a byte
//!   0x0c00_0000  PLIC
//!   0x1000_0000  16550 console
//!   0x1000_1000  virtio devices of 512 bytes each, if any
//!   0x8000_0000  RAM: the kernel from 2 MiB on, device tree, initramfs
//! ```

use super::cpus::Cpus;
use super::sbi_tree::Tree;
use super::{At, Board, Boot, Bus, FirmwareCall, Interrupt, NO_HOLE, Order, Spec, all_ones, restored, saved};
use crate::clock::{Ticks, nanoseconds, ticks};
use crate::config::Config;
use crate::devices::console::Console;
use crate::devices::plic::{self, Plic};
use crate::devices::sbi::{self, Answer};
use crate::devices::uart::Uart;
use crate::devices::virtio::bank::Bank;
use crate::devices::virtio::mmio;
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
    name: "virt-riscv",
    ram_start: RAM_START,
    ram: 512 * MIB,
    least_ram: 128 * MIB,
    most_ram: 8192 * MIB,
    hole: NO_HOLE,
    cpus: 8,
    boot,
    devices: |cpus, _| Box::new(VirtRiscv::new(cpus)),
};

const RAM_START: u64 = 0x8000_0000;
const EXIT_STATUS: u64 = super::virt::EXIT_STATUS;
const PLIC: Range<u64> = 0x0c00_0000..0x0c00_0000 + plic::BYTES;
const UART: Range<u64> = 0x1000_0000..0x1000_0100;
const UART_SOURCE: u32 = 10;
const VIRTIO: u64 = 0x1000_1000;
const VIRTIO_END: u64 = VIRTIO + Bank::BYTES;
/// The source of the first virtio device.
const VIRTIO_SOURCE: u32 = 16;

/// Size limit of the device tree.
const TREE_BYTES: u64 = 2 * MIB;
const ALIGNMENT: u64 = 2 * MIB;
/// Size limit of the command line, including its terminating 0.
const COMMAND_LINE_BYTES: usize = 1024;

/// Nanoseconds per count of the register `time`.
const COUNT_NANOSECONDS: u64 = 100;
const TIME_HERTZ: u32 = (1_000_000_000 / COUNT_NANOSECONDS) as u32;

// The core's numbers of CSRs (`unicorn/translator/riscv/csr.h`).
const CYCLE: u32 = 1 << 17 | 0xc00;
const TIME: u32 = 1 << 17 | 0xc01;
const INSTRUCTIONS: u32 = 1 << 17 | 0xc02;
const PENDING: u32 = 1 << 17 | 0x144;

// Bits of sip.
const SOFTWARE: u64 = 1 << 1;
const TIMER: u64 = 1 << 5;
const EXTERNAL: u64 = 1 << 9;
/// The number of every interrupt; the CPU model chooses one by the pins.
const BY_PINS: u32 = 0;

/// The value of a counter: `time`, or cycles and instructions of one nanosecond each.
pub fn counter(register: u32, now: Ticks) -> Option<u64> {
    match register {
        TIME => Some(nanoseconds(now) / COUNT_NANOSECONDS),
        CYCLE | INSTRUCTIONS => Some(nanoseconds(now)),
        _ => None,
    }
}

fn boot(config: &Config, ram: u64, kernel_end: u64) -> Result<Boot, MachineError> {
    if config.command_line.len() >= COMMAND_LINE_BYTES {
        let (has, takes) = (config.command_line.len(), COMMAND_LINE_BYTES - 1);
        return Err(MachineError::Config(format!("the command line has {has} bytes, Linux takes {takes}")));
    }
    let initrd = config.initrd.as_deref().unwrap_or_default();
    let tree_at = kernel_end.next_multiple_of(ALIGNMENT);
    let initrd_at = tree_at + TREE_BYTES;
    let end = initrd_at + initrd.len() as u64;
    if end > RAM_START + ram {
        let bytes = initrd.len();
        return Err(MachineError::Config(format!(
            "kernel (up to {kernel_end:#x}) and initial file system ({bytes} bytes) have no room in {ram:#x} bytes of RAM"
        )));
    }
    let tree = Tree {
        harts: config.cpus,
        time_hertz: TIME_HERTZ,
        memory: RAM_START..RAM_START + ram,
        plic: (PLIC, plic::SOURCES),
        uart: (UART, UART_SOURCE),
        virtio: virtio(config.attached.len()),
        command_line: &config.command_line,
        initrd: initrd_at..end,
    };
    let tree = tree.flatten()?;
    Ok(Boot { pieces: vec![(tree_at, tree), (initrd_at, initrd.to_vec())], info: tree_at, ..Boot::default() })
}

/// The register ranges and PLIC sources of the first `count` virtio devices.
fn virtio(count: usize) -> Vec<(Range<u64>, u32)> {
    let places = (VIRTIO..).step_by(mmio::BYTES as usize).map(|at| at..at + mmio::BYTES);
    places.zip(VIRTIO_SOURCE..).take(count).collect()
}

/// The state of the board.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VirtRiscv {
    running: Cpus,
    harts: Vec<Hart>,
    plic: Plic,
    uart: Uart,
    /// The levels of the PLIC's lines, a bit each.
    levels: u64,
    /// The time of the last event that may have made an interrupt of a device pending.
    shared_since: Ticks,
    exit_status: u8,
    off: bool,
    #[serde(default, skip_serializing_if = "Bank::is_empty")]
    virtio: Bank,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hart {
    /// The time of the timer's interrupt. `None` if the timer is not set.
    due: Option<Ticks>,
    /// The time since which the software interrupt is pending. `None` if it is not.
    interrupted: Option<Ticks>,
    /// The hart's virtual time at its last access.
    #[serde(skip)]
    now: Ticks,
}

impl Hart {
    /// The time since which the timer's interrupt is pending.
    fn timed_out(&self) -> Option<Ticks> {
        self.due.filter(|due| *due <= self.now)
    }
}

impl VirtRiscv {
    /// A board with this many harts.
    fn new(harts: usize) -> VirtRiscv {
        VirtRiscv {
            running: Cpus::new(harts),
            harts: vec![Hart::default(); harts],
            plic: Plic::new(harts),
            uart: Uart::default(),
            levels: 0,
            shared_since: 0,
            exit_status: 0,
            off: false,
            virtio: Bank::default(),
        }
    }

    fn is_sound(&self, harts: usize) -> bool {
        let is_past = |hart: &Hart| hart.now < LAST_TIME && hart.interrupted.is_none_or(|since| since < LAST_TIME);
        self.running.is_sound(harts, LAST_TIME)
            && self.harts.len() == harts
            && self.harts.iter().all(is_past)
            && self.plic.is_sound(harts)
            && self.shared_since < LAST_TIME
            && self.virtio.is_sound(LAST_TIME)
    }

    fn set_lines(&mut self, at: At) {
        let now = self.running.shared_time(at);
        if let Some(hart) = self.harts.get_mut(at.cpu) {
            hart.now = at.now;
        }
        let mut levels = 0;
        let uart = (UART_SOURCE, self.uart.line());
        for (source, level) in std::iter::once(uart).chain((VIRTIO_SOURCE..).zip(self.virtio.lines())) {
            self.plic.set_line(source, level);
            levels |= u64::from(level) << (source & 63);
        }
        if levels & !self.levels != 0 {
            self.shared_since = now;
        }
        self.levels = levels;
    }

    fn signals(&self, cpu: usize) -> u64 {
        let Some(hart) = self.harts.get(cpu) else { return 0 };
        let signal = |is_on: bool, bit: u64| if is_on { bit } else { 0 };
        signal(hart.interrupted.is_some(), SOFTWARE)
            | signal(hart.timed_out().is_some(), TIMER)
            | signal(self.plic.asks(cpu), EXTERNAL)
    }

    /// Sends a software interrupt to the harts of a mask. One that is pending already keeps its time.
    fn interrupt(&mut self, harts: u64, now: Ticks) {
        for (number, hart) in self.harts.iter_mut().enumerate() {
            if harts >> (number & 63) & 1 != 0 {
                hart.interrupted.get_or_insert(now);
            }
        }
    }

    fn print(&mut self, bytes: u64, address: u64, memory: &mut dyn Memory) -> (i64, u64) {
        const MOST: u64 = 4096;
        const INVALID_PARAMETER: i64 = -3;
        let mut text = vec![0; bytes.min(MOST) as usize];
        match memory.read(address, &mut text) {
            Ok(()) => {
                self.uart.sent().extend(&text);
                (0, text.len() as u64)
            }
            Err(_) => (INVALID_PARAMETER, 0),
        }
    }
}

impl Board for VirtRiscv {
    fn read(&mut self, at: At, bus: Bus, physical: u64, size: u32) -> u64 {
        if bus != Bus::Memory {
            return all_ones(size);
        }
        let value = match physical {
            _ if PLIC.contains(&physical) => self.plic.read(physical - PLIC.start).into(),
            _ if UART.contains(&physical) => self.uart.read((physical - UART.start) as u16).into(),
            EXIT_STATUS => self.exit_status.into(),
            VIRTIO..VIRTIO_END => self.virtio.read(physical - VIRTIO, size),
            _ => 0,
        };
        self.set_lines(at);
        value
    }

    fn parks_cpus(&self) -> bool {
        self.running.are_several()
    }

    fn orders(&mut self) -> Vec<Order> {
        self.running.take_orders()
    }

    fn write(&mut self, at: At, bus: Bus, physical: u64, _size: u32, value: u64) {
        if bus != Bus::Memory {
            return;
        }
        match physical {
            _ if PLIC.contains(&physical) => self.plic.write(physical - PLIC.start, value as u32),
            _ if UART.contains(&physical) => self.uart.write((physical - UART.start) as u16, value as u8),
            EXIT_STATUS => self.exit_status = value as u8,
            VIRTIO..VIRTIO_END => self.virtio.write(physical - VIRTIO, value, self.running.shared_time(at)),
            _ => {}
        }
        if PLIC.contains(&physical) {
            // The write may have offered a waiting interrupt to another hart, which must not wake before this time.
            self.shared_since = self.running.shared_time(at);
        }
        self.set_lines(at);
    }

    fn register_read(&mut self, at: At, register: u32) -> Option<u64> {
        counter(register, at.now)
    }

    fn register_write(&mut self, at: At, register: u32, value: u64) -> bool {
        let is_pending = register == PENDING;
        if is_pending {
            if let Some(hart) = self.harts.get_mut(at.cpu) {
                hart.interrupted = (value & SOFTWARE != 0).then_some(hart.interrupted.unwrap_or(at.now));
            }
            self.set_lines(at);
        }
        is_pending
    }

    fn firmware_call(&mut self, at: At, call: FirmwareCall<'_>) -> Vec<u64> {
        let mut arguments = [0; 8];
        for (to, from) in arguments.iter_mut().zip(call.arguments) {
            *to = *from;
        }
        let (error, value) = match sbi::call(&arguments, self.running.on()) {
            Answer::Value(error, value) => (error, value),
            Answer::Timer(count) => {
                // Linux sets the highest number to switch the timer off.
                if let Some(hart) = self.harts.get_mut(at.cpu) {
                    hart.due = count.checked_mul(COUNT_NANOSECONDS).filter(|due| *due <= nanoseconds(Ticks::MAX)).map(ticks);
                }
                (0, 0)
            }
            Answer::Interrupt(harts) => {
                self.interrupt(harts, at.now);
                (0, 0)
            }
            Answer::Start { hart, entry, argument } => {
                if let Some(hart) = self.harts.get_mut(hart) {
                    *hart = Hart { now: at.now, ..Hart::default() };
                }
                self.running.start(hart, entry, argument);
                (0, 0)
            }
            Answer::Stop => {
                self.running.stop(at.cpu);
                (0, 0)
            }
            Answer::Print(bytes, address) => self.print(bytes, address, call.memory),
            Answer::PrintByte(byte) => {
                self.uart.sent().push(byte);
                (0, 0)
            }
            Answer::Off => {
                self.off = true;
                (0, 0)
            }
        };
        self.set_lines(at);
        vec![error.cast_unsigned(), value]
    }

    fn advance(&mut self, at: At) {
        let now = self.running.shared_time(at);
        self.uart.advance(now);
        self.set_lines(at);
    }

    fn next_event(&self, cpu: usize) -> Option<Ticks> {
        let hart = self.harts.get(cpu)?;
        let timer = hart.due.filter(|due| *due > hart.now);
        if !self.running.keeps_shared_time(cpu) {
            return timer;
        }
        [timer, self.uart.next(), self.virtio.next()].into_iter().flatten().min()
    }

    fn pending(&self, cpu: usize) -> Option<Ticks> {
        let hart = self.harts.get(cpu)?;
        let external = self.plic.asks(cpu).then_some(self.shared_since);
        [hart.interrupted, hart.timed_out(), external].into_iter().flatten().min()
    }

    fn pins(&self, cpu: usize) -> Option<u64> {
        Some(self.signals(cpu))
    }

    /// Interrupts stay pending until the guest removes their cause.
    fn acknowledge(&mut self, cpu: usize) -> Option<Interrupt> {
        let detail = self.signals(cpu);
        (detail != 0).then_some(Interrupt { number: BY_PINS, detail })
    }

    fn attach(&mut self, device: &Attached) -> Result<(), AttachError> {
        self.virtio.attach(device)
    }

    fn next_service(&self) -> Option<Ticks> {
        self.virtio.next()
    }

    fn serve(&mut self, at: At, memory: &mut dyn Memory) {
        self.virtio.serve(self.running.shared_time(at), memory);
        self.set_lines(at);
    }

    fn console(&mut self) -> &mut dyn Console {
        &mut self.uart
    }

    fn power_off(&self) -> Option<u8> {
        self.off.then_some(self.exit_status)
    }

    fn save(&self) -> Result<Value, String> {
        saved(self)
    }

    fn load(&mut self, state: &Value) -> Result<(), String> {
        let mut devices = restored(state, |devices: &VirtRiscv| devices.is_sound(self.harts.len()))?;
        devices.virtio.adopt(&self.virtio).map_err(|error| error.to_string())?;
        *self = devices;
        Ok(())
    }

    fn set_now(&mut self, at: At) {
        if let Some(hart) = self.harts.get_mut(at.cpu) {
            hart.now = at.now;
        }
    }
}
