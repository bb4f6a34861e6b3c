//! The `virt-riscv` board, for stock 64-bit RISC-V kernels: a 16550, a PLIC and one hart, described by a device tree. The
//! board is the firmware as well: it answers calls of the SBI, among them those that set the timer. Unmapped addresses read
//! as zero.
//!
//! ```text
//!   0x0903_0000  exit status, a byte
//!   0x0c00_0000  PLIC
//!   0x1000_0000  16550 console
//!   0x1000_1000  virtio devices of 512 bytes each, if any
//!   0x8000_0000  RAM: the kernel from 2 MiB on, device tree, initramfs
//! ```

use super::sbi_tree::Tree;
use super::{At, Board, Boot, Bus, FirmwareCall, Interrupt, Spec, all_ones, restored, saved};
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
    most_ram: 2048 * MIB,
    cpus: 1,
    boot,
    devices: |_, _| Box::new(VirtRiscv::default()),
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

/// The places and the sources of so many virtio devices.
fn virtio(count: usize) -> Vec<(Range<u64>, u32)> {
    let places = (VIRTIO..).step_by(mmio::BYTES as usize).map(|at| at..at + mmio::BYTES);
    places.zip(VIRTIO_SOURCE..).take(count).collect()
}

/// The state of the board.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VirtRiscv {
    plic: Plic,
    uart: Uart,
    /// The time of the timer's interrupt. `None` if the timer is not set.
    due: Option<Ticks>,
    /// The software interrupt is pending.
    interrupted: bool,
    /// The virtual time of the last access.
    #[serde(skip)]
    now: Ticks,
    exit_status: u8,
    off: bool,
    #[serde(default, skip_serializing_if = "Bank::is_empty")]
    virtio: Bank,
}

impl VirtRiscv {
    fn set_lines(&mut self, at: At) {
        self.now = at.now;
        self.plic.set_line(UART_SOURCE, self.uart.line());
        for (source, level) in (VIRTIO_SOURCE..).zip(self.virtio.lines()) {
            self.plic.set_line(source, level);
        }
    }

    fn signals(&self) -> u64 {
        let signal = |is_on: bool, bit: u64| if is_on { bit } else { 0 };
        let is_due = self.due.is_some_and(|due| due <= self.now);
        signal(self.interrupted, SOFTWARE) | signal(is_due, TIMER) | signal(self.plic.asks(), EXTERNAL)
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

    fn write(&mut self, at: At, bus: Bus, physical: u64, _size: u32, value: u64) {
        if bus != Bus::Memory {
            return;
        }
        match physical {
            _ if PLIC.contains(&physical) => self.plic.write(physical - PLIC.start, value as u32),
            _ if UART.contains(&physical) => self.uart.write((physical - UART.start) as u16, value as u8),
            EXIT_STATUS => self.exit_status = value as u8,
            VIRTIO..VIRTIO_END => self.virtio.write(physical - VIRTIO, value, at.now),
            _ => {}
        }
        self.set_lines(at);
    }

    fn register_read(&mut self, at: At, register: u32) -> Option<u64> {
        counter(register, at.now)
    }

    fn register_write(&mut self, at: At, register: u32, value: u64) -> bool {
        let is_pending = register == PENDING;
        if is_pending {
            self.interrupted = value & SOFTWARE != 0;
            self.set_lines(at);
        }
        is_pending
    }

    fn firmware_call(&mut self, at: At, call: FirmwareCall<'_>) -> Vec<u64> {
        let mut arguments = [0; 8];
        for (to, from) in arguments.iter_mut().zip(call.arguments) {
            *to = *from;
        }
        let (error, value) = match sbi::call(&arguments, SPEC.cpus) {
            Answer::Value(error, value) => (error, value),
            Answer::Timer(count) => {
                // Linux sets the highest number to switch the timer off.
                self.due = count.checked_mul(COUNT_NANOSECONDS).filter(|due| *due <= nanoseconds(Ticks::MAX)).map(ticks);
                (0, 0)
            }
            Answer::Interrupt(harts) => {
                self.interrupted |= harts & 1 != 0;
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
        self.uart.advance(at.now);
        self.set_lines(at);
    }

    fn next_event(&self, _cpu: usize) -> Option<Ticks> {
        let timer = self.due.filter(|due| *due > self.now);
        [timer, self.uart.next(), self.virtio.next()].into_iter().flatten().min()
    }

    fn pending(&self, _cpu: usize) -> Option<Ticks> {
        (self.signals() != 0).then_some(0)
    }

    fn pins(&self, _cpu: usize) -> Option<u64> {
        Some(self.signals())
    }

    /// Interrupts stay pending until the guest removes their cause.
    fn acknowledge(&mut self, _cpu: usize) -> Option<Interrupt> {
        let detail = self.signals();
        (detail != 0).then_some(Interrupt { number: BY_PINS, detail })
    }

    fn attach(&mut self, device: &Attached) -> Result<(), AttachError> {
        self.virtio.attach(device)
    }

    fn next_service(&self) -> Option<Ticks> {
        self.virtio.next()
    }

    fn serve(&mut self, at: At, memory: &mut dyn Memory) {
        self.virtio.serve(at.now, memory);
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
        let is_sound = |devices: &VirtRiscv| devices.plic.is_sound() && devices.virtio.is_sound(LAST_TIME);
        let mut devices = restored(state, is_sound)?;
        devices.virtio.adopt(&self.virtio).map_err(|error| error.to_string())?;
        *self = devices;
        Ok(())
    }

    fn set_now(&mut self, at: At) {
        self.now = at.now;
    }
}
