//! The `virt` board, for stock ARM kernels: GICv2, a PL011, PSCI and a timer, described by a device tree. 64-bit ARM may
//! have eight CPUs, of which the kernel starts all but the first by PSCI.
//!
//! 32-bit ARM uses an SP804 timer. 64-bit ARM uses the architected timer, whose system registers are answered here.
//! Unmapped addresses read as zero.
//!
//! ```text
//!   0x0800_0000  GIC distributor
//!   0x0801_0000  GIC CPU interface
//!   0x0900_0000  PL011 console
//!   0x0902_0000  SP804 timer (32-bit ARM)
//!   0x0903_0000  exit status, a byte
//!   0x0a00_0000  virtio devices of 512 bytes each, if any
//!   0x4000_0000  RAM: kernel, 16 MiB of room, device tree, initramfs
//! ```

use super::cpus::Cpus;
use super::device_tree::{Device, Timer, Tree};
use super::{At, Board, Boot, Bus, FirmwareCall, Interrupt, NO_HOLE, Order, Spec, all_ones, restored, saved};
use crate::clock::Ticks;
use crate::config::Config;
use crate::devices::arch_timer::{ArchTimer, Register};
use crate::devices::console::Console;
use crate::devices::gic::Gic;
use crate::devices::pl011::Pl011;
use crate::devices::psci::{self, Answer};
use crate::devices::sp804::Sp804;
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

/// Start of RAM on ARM boards.
pub const RAM_START: u64 = 0x4000_0000;

/// The board for 32-bit ARM.
pub static ARM: Spec =
    Spec { ram: 256 * MIB, most_ram: 512 * MIB, cpus: 1, boot: |config, ram, end| boot(&A32, config, ram, end), ..ARM64 };

/// The board for 64-bit ARM.
pub static ARM64: Spec = Spec {
    name: "virt",
    ram_start: RAM_START,
    ram: 512 * MIB,
    least_ram: 128 * MIB,
    most_ram: 8192 * MIB,
    hole: NO_HOLE,
    cpus: 8,
    boot: |config, ram, end| boot(&A64, config, ram, end),
    devices: |cpus, _| Box::new(Virt::new(cpus)),
};

const DISTRIBUTOR: Range<u64> = 0x0800_0000..0x0800_1000;
const CPU_INTERFACE: Range<u64> = 0x0801_0000..0x0801_2000;
const UART: Range<u64> = 0x0900_0000..0x0900_1000;
const SP804: Range<u64> = 0x0902_0000..0x0902_1000;
/// A byte written to this address is the machine's exit status.
pub const EXIT_STATUS: u64 = 0x0903_0000;

const VIRTIO: u64 = 0x0a00_0000;
const VIRTIO_END: u64 = VIRTIO + Bank::BYTES;
/// The line of the first virtio device.
const VIRTIO_LINE: u32 = 16;
/// MPIDR_EL1, the CPU's own number, as encoded in MRS.
const MPIDR: u32 = 3 << 14 | 5;
/// A bit of MPIDR that is always set.
const MPIDR_ONE: u64 = 1 << 31;

const SP804_LINE: u32 = 2;
const UART_LINE: u32 = 5;

/// Size limit of the device tree.
const TREE_BYTES: u64 = 2 * MIB;
const ALIGNMENT: u64 = 2 * MIB;
/// Free space after the kernel image, which a decompressor or the kernel may use.
const ROOM_BEHIND_KERNEL: u64 = 16 * MIB;
/// The smaller of the size limits of a command line on 32-bit and 64-bit ARM, including its terminating 0.
const COMMAND_LINE_BYTES: usize = 1024;

/// The differences between 32-bit and 64-bit ARM.
struct Width {
    /// The default CPU.
    cpu: &'static str,
    firmware: &'static str,
    timer: fn() -> Timer,
}

static A32: Width =
    Width { cpu: "cortex-a8", firmware: "smc", timer: || Timer::Sp804(Device { registers: SP804, line: SP804_LINE }) };
static A64: Width = Width { cpu: "cortex-a57", firmware: "hvc", timer: || Timer::Architected };

fn boot(width: &Width, config: &Config, ram: u64, kernel_end: u64) -> Result<Boot, MachineError> {
    if config.command_line.len() >= COMMAND_LINE_BYTES {
        let (has, takes) = (config.command_line.len(), COMMAND_LINE_BYTES - 1);
        return Err(MachineError::Config(format!("the command line has {has} bytes, Linux takes {takes}")));
    }
    let initrd = config.initrd.as_deref().unwrap_or_default();
    let tree_at = kernel_end.next_multiple_of(ALIGNMENT) + ROOM_BEHIND_KERNEL;
    let initrd_at = tree_at + TREE_BYTES;
    let end = initrd_at + initrd.len() as u64;
    if end > RAM_START + ram {
        return Err(MachineError::Config(format!(
            "kernel (up to {kernel_end:#x}) and initial file system ({} bytes) have no room in {ram:#x} bytes of RAM",
            initrd.len()
        )));
    }
    let tree = Tree {
        cpu: &format!("arm,{}", config.cpu.as_deref().unwrap_or(width.cpu)),
        cpus: config.cpus,
        firmware: width.firmware,
        memory: RAM_START..RAM_START + ram,
        gic: [DISTRIBUTOR, CPU_INTERFACE],
        uart: Device { registers: UART, line: UART_LINE },
        timer: (width.timer)(),
        virtio: virtio(config.attached.len()),
        command_line: &config.command_line,
        initrd: initrd_at..end,
    };
    let tree = tree.flatten()?;
    Ok(Boot { pieces: vec![(tree_at, tree), (initrd_at, initrd.to_vec())], info: tree_at, ..Boot::default() })
}

/// The register ranges and interrupt lines of the first `count` virtio devices.
fn virtio(count: usize) -> Vec<Device> {
    let place = |(number, at): (u32, u64)| Device { registers: at..at + mmio::BYTES, line: VIRTIO_LINE + number };
    (0..).zip((VIRTIO..).step_by(mmio::BYTES as usize)).take(count).map(place).collect()
}

/// The state of the board.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Virt {
    gic: Gic,
    uart: Pl011,
    sp804: Sp804,
    cpus: Vec<PerCpu>,
    exit_status: u8,
    off: bool,
    #[serde(default, skip_serializing_if = "Bank::is_empty")]
    virtio: Bank,
    running: Cpus,
    /// The time of the last event that may have made a shared interrupt pending.
    shared_since: Ticks,
    /// The levels of the shared interrupt lines, a bit each.
    levels: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PerCpu {
    timer: ArchTimer,
    /// The CPU's virtual time at its last access.
    #[serde(skip)]
    now: Ticks,
}

impl Virt {
    /// A board with this many CPUs.
    pub fn new(cpus: usize) -> Virt {
        Virt {
            gic: Gic::new(cpus),
            uart: Pl011::default(),
            sp804: Sp804::default(),
            cpus: vec![PerCpu::default(); cpus],
            exit_status: 0,
            off: false,
            virtio: Bank::default(),
            running: Cpus::new(cpus),
            shared_since: 0,
            levels: 0,
        }
    }

    fn is_sound(&self, cpus: usize) -> bool {
        self.cpus.len() == cpus
            && self.virtio.is_sound(LAST_TIME)
            && self.running.is_sound(cpus, LAST_TIME)
            && self.shared_since < LAST_TIME
            && self.gic.is_sound(cpus, LAST_TIME)
            && self.uart.is_sound()
            && self.sp804.is_sound(LAST_TIME)
    }

    /// Updates the interrupt controller's inputs from the devices' interrupt lines.
    fn set_lines(&mut self, at: At) {
        let now = self.running.shared_time(at);
        let own = [(UART_LINE, self.uart.line()), (SP804_LINE, self.sp804.line(now))];
        let mut levels = 0;
        for (line, level) in own.into_iter().chain((VIRTIO_LINE..).zip(self.virtio.lines())) {
            self.gic.set_shared(line, level);
            levels |= u64::from(level) << (line & 63);
        }
        if levels & !self.levels != 0 {
            self.shared_since = now;
        }
        self.levels = levels;
        if let Some(cpu) = self.cpus.get_mut(at.cpu) {
            cpu.now = at.now;
            for (line, level) in cpu.timer.lines(at.now) {
                self.gic.set_own(at.cpu, line, level);
            }
        }
    }
}

impl Board for Virt {
    fn read(&mut self, at: At, bus: Bus, physical: u64, size: u32) -> u64 {
        if bus != Bus::Memory {
            return all_ones(size);
        }
        let offset = |device: &Range<u64>| physical - device.start;
        let value = match physical {
            _ if DISTRIBUTOR.contains(&physical) => self.gic.read(at.cpu, offset(&DISTRIBUTOR), size),
            _ if CPU_INTERFACE.contains(&physical) => self.gic.interface_read(at.cpu, offset(&CPU_INTERFACE)),
            _ if UART.contains(&physical) => self.uart.read(offset(&UART)),
            _ if SP804.contains(&physical) => {
                let now = self.running.shared_time(at);
                self.sp804.read(offset(&SP804), now)
            }
            EXIT_STATUS => self.exit_status.into(),
            VIRTIO..VIRTIO_END => return self.virtio.read(physical - VIRTIO, size),
            _ => 0,
        };
        self.set_lines(at);
        value.into()
    }

    fn write(&mut self, at: At, bus: Bus, physical: u64, size: u32, value: u64) {
        if bus != Bus::Memory {
            return;
        }
        let offset = |device: &Range<u64>| physical - device.start;
        let value = value as u32;
        match physical {
            _ if DISTRIBUTOR.contains(&physical) => self.gic.write(at.cpu, offset(&DISTRIBUTOR), size, value, at.now),
            _ if CPU_INTERFACE.contains(&physical) => self.gic.interface_write(at.cpu, offset(&CPU_INTERFACE), value),
            _ if UART.contains(&physical) => self.uart.write(offset(&UART), value),
            _ if SP804.contains(&physical) => {
                let now = self.running.shared_time(at);
                self.sp804.write(offset(&SP804), value, now);
            }
            EXIT_STATUS => self.exit_status = value as u8,
            VIRTIO..VIRTIO_END => self.virtio.write(physical - VIRTIO, value.into(), self.running.shared_time(at)),
            _ => {}
        }
        if (DISTRIBUTOR.start..CPU_INTERFACE.end).contains(&physical) {
            // The write may have sent a waiting interrupt to another CPU, which must not wake before this time.
            self.shared_since = self.running.shared_time(at);
        }
        self.set_lines(at);
    }

    fn identity(&self, cpu: usize, register: u32) -> Option<u64> {
        (self.parks_cpus() && register == MPIDR).then_some(MPIDR_ONE | cpu as u64)
    }

    fn parks_cpus(&self) -> bool {
        self.running.are_several()
    }

    fn orders(&mut self) -> Vec<Order> {
        self.running.take_orders()
    }

    fn has_register(&self, register: u32) -> bool {
        Register::of(register).is_some()
    }

    fn register_read(&mut self, at: At, register: u32) -> Option<u64> {
        self.cpus.get(at.cpu)?.timer.read(Register::of(register)?, at.now)
    }

    fn register_write(&mut self, at: At, register: u32, value: u64) -> bool {
        let Some((register, cpu)) = Register::of(register).zip(self.cpus.get_mut(at.cpu)) else { return false };
        let taken = cpu.timer.write(register, value, at.now);
        self.set_lines(at);
        taken
    }

    fn firmware_call(&mut self, at: At, call: FirmwareCall<'_>) -> Vec<u64> {
        let [function, argument, ..] = *call.arguments else { return vec![u64::MAX] };
        let value = match psci::call(function as u32, argument, self.running.on()) {
            Answer::Value(value) => i64::from(value) as u64,
            Answer::CpuOn(cpu) => {
                let [entry, context] = [2, 3].map(|at| call.arguments.get(at).copied().unwrap_or(0));
                self.running.start(cpu, entry, context);
                0
            }
            Answer::CpuOff => {
                self.running.stop(at.cpu);
                0
            }
            Answer::Off | Answer::Reset => {
                self.off = true;
                0
            }
        };
        vec![value]
    }

    fn advance(&mut self, at: At) {
        let now = self.running.shared_time(at);
        self.uart.advance(now);
        self.set_lines(at);
    }

    fn next_event(&self, cpu: usize) -> Option<Ticks> {
        let PerCpu { timer, now } = self.cpus.get(cpu)?;
        let timed = timer.next_event(*now);
        if !self.running.keeps_shared_time(cpu) {
            return timed;
        }
        [timed, self.sp804.next_event(*now), self.uart.next(), self.virtio.next()].into_iter().flatten().min()
    }

    fn pending(&self, cpu: usize) -> Option<Ticks> {
        let since = self.gic.asks(cpu)?;
        Some(if self.gic.offers_shared(cpu) { self.shared_since } else { since })
    }

    /// The CPU reads the interrupt's number from the GIC.
    fn acknowledge(&mut self, cpu: usize) -> Option<Interrupt> {
        self.gic.asks(cpu).map(|_| Interrupt::default())
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
        let mut devices = restored(state, |devices: &Virt| devices.is_sound(self.cpus.len()))?;
        devices.virtio.adopt(&self.virtio).map_err(|error| error.to_string())?;
        *self = devices;
        Ok(())
    }

    fn set_now(&mut self, at: At) {
        if let Some(cpu) = self.cpus.get_mut(at.cpu) {
            cpu.now = at.now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trapline_isa::mem::{ByteOrder, Fault};

    const MICROSECOND: Ticks = 4000;

    fn at(now: Ticks) -> At {
        At { cpu: 0, now }
    }

    /// A board whose GIC is initialised as Linux does it.
    fn board() -> Virt {
        let mut board = Virt::new(1);
        for (address, value) in [(0, 1), (0x800 + 32, 0x0101_0101), (0x800 + 36, 0x0101_0101), (0x100, 1 << 27), (0x104, 0x24)] {
            board.write(at(0), Bus::Memory, DISTRIBUTOR.start + address, 4, value);
        }
        for (address, value) in [(4, 0xf0), (0, 1)] {
            board.write(at(0), Bus::Memory, CPU_INTERFACE.start + address, 4, value);
        }
        board
    }

    /// The number of a system register with op0 3, as encoded in MRS and MSR.
    fn number(op1: u32, crn: u32, crm: u32, op2: u32) -> u32 {
        3 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2
    }

    /// A memory for PSCI calls, which use none.
    struct Nowhere;

    impl Memory for Nowhere {
        fn order(&self) -> ByteOrder {
            ByteOrder::Little
        }
        fn read(&mut self, address: u64, _: &mut [u8]) -> Result<(), Fault> {
            Err(Fault { address, write: false })
        }
        fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Fault> {
            Err(Fault { address, write: true })
        }
    }

    fn call(board: &mut Virt, now: Ticks, arguments: [u64; 2]) -> Vec<u64> {
        board.firmware_call(at(now), FirmwareCall { arguments: &arguments, memory: &mut Nowhere })
    }

    fn interrupt(board: &mut Virt, now: Ticks) -> u64 {
        let line = board.read(at(now), Bus::Memory, CPU_INTERFACE.start + 0xc, 4);
        board.write(at(now), Bus::Memory, CPU_INTERFACE.start + 0x10, 4, line);
        line
    }

    #[test]
    fn each_device_interrupts_by_its_line() {
        let mut board = board();
        assert_eq!((board.pending(0), board.next_event(0)), (None, None));

        for (register, value) in [(0x30, 0x301), (0x38, 1 << 4)] {
            board.write(at(0), Bus::Memory, UART.start + register, 4, value);
        }
        board.console().receive(b"x");
        assert_eq!((board.pending(0), board.next_event(0), board.console().unread()), (None, Some(0), 1));
        board.advance(at(0));
        assert_eq!((board.pending(0), board.acknowledge(0)), (Some(0), Some(Interrupt::default())));
        assert_eq!(interrupt(&mut board, 0), 32 + u64::from(UART_LINE));
        assert_eq!((board.read(at(0), Bus::Memory, UART.start, 4), board.pending(0)), (u64::from(b'x'), None));

        board.write(at(0), Bus::Memory, SP804.start, 4, 9);
        board.write(at(0), Bus::Memory, SP804.start + 8, 4, 0xe2);
        assert_eq!(board.next_event(0), Some(9 * MICROSECOND));
        board.advance(at(9 * MICROSECOND));
        assert_eq!(interrupt(&mut board, 9 * MICROSECOND), 32 + u64::from(SP804_LINE));
        board.write(at(9 * MICROSECOND), Bus::Memory, SP804.start + 0xc, 4, 1);
        assert_eq!((board.pending(0), board.next_event(0)), (None, Some(18 * MICROSECOND)));
    }

    #[test]
    fn the_timer_is_reached_by_its_system_registers_alone() {
        let mut board = board();
        let register = |crm, op2| number(3, 14, crm, op2);
        assert_eq!(board.register_read(at(64), register(0, 2)), Some(1));
        assert!(board.register_write(at(64), register(3, 2), 5) && board.register_write(at(64), register(3, 1), 1));
        assert_eq!(board.next_event(0), Some(5 * 64));
        board.advance(at(5 * 64));
        assert_eq!(interrupt(&mut board, 5 * 64), 27);
        let midr = number(0, 0, 0, 0);
        assert_eq!((board.register_read(at(0), midr), board.register_write(at(0), midr, 0)), (None, false));
    }

    #[test]
    fn the_firmware_ends_the_machine_with_the_status_that_was_left() {
        for status in [0, 3] {
            let mut board = board();
            board.write(at(0), Bus::Memory, EXIT_STATUS, 1, status);
            assert_eq!((call(&mut board, 0, [0x8400_0000, 0]), board.power_off()), (vec![2], None));
            call(&mut board, 0, [0x8400_0008, 0]);
            assert_eq!(board.power_off(), Some(status as u8));
        }
        assert_eq!(call(&mut self::board(), 0, [0x8400_000a, 0]), [u64::MAX], "not supported");
    }

    #[test]
    fn images_that_do_not_fit_are_refused() {
        #[rustfmt::skip]
        let cases = [
            ("all fits",                        10,     4096,       0x4200_0000,    None),
            ("a command line too long",         2000,   4096,       0x4200_0000,    Some("command line")),
            ("a file system larger than RAM",   10,     1 << 28,    0x4200_0000,    Some("no room")),
            ("a kernel that fills it",          10,     0,          0x4f00_0000,    Some("no room")),
        ];
        for (what, line, initrd, kernel_end, refusal) in cases {
            let config = Config { command_line: "x".repeat(line), initrd: Some(vec![7; initrd].into()), ..Config::default() };
            for spec in [&ARM, &ARM64] {
                let answer = (spec.boot)(&config, 256 * MIB, kernel_end);
                match refusal {
                    None => {
                        let boot = answer.unwrap_or_else(|error| panic!("{what}: {error}"));
                        let [(tree_at, tree), (initrd_at, _)] = &boot.pieces[..] else { panic!("two pieces") };
                        assert_eq!((boot.info, tree_at % ALIGNMENT), (*tree_at, 0));
                        assert!(
                            *tree_at > kernel_end && tree_at + tree.len() as u64 <= *initrd_at && tree.len() as u64 <= TREE_BYTES
                        );
                    }
                    Some(words) => assert!(answer.is_err_and(|error| error.to_string().contains(words)), "{what}"),
                }
            }
        }
    }

    proptest! {
        /// No guest access to the devices makes the board panic.
        #[test]
        fn bad_register_traffic_never_panics(
            accesses in proptest::collection::vec((0u8..9, 0usize..2, 0u64..0x2100, 1u32..9, any::<u64>(), any::<u32>()), 0..300),
        ) {
            let mut board = board();
            let mut now = 0u64;
            for (what, cpu, offset, size, value, later) in accesses {
                now += u64::from(later);
                let at = At { cpu, now };
                let base = [DISTRIBUTOR, CPU_INTERFACE, UART, SP804][value as usize % 4].start;
                let register = number(3, 14, offset as u32 % 4, size % 4);
                match what {
                    0..3 => board.write(at, Bus::Memory, base + offset, size, value >> 3),
                    3..5 => { board.read(at, Bus::Memory, base + offset, size); }
                    5 => { board.register_write(at, register, value >> (value % 50)); }
                    6 => { board.register_read(at, register); }
                    7 => { call(&mut board, now, [value, offset]); }
                    _ => prop_assert_eq!(board.pending(0).is_some(), board.acknowledge(0).is_some()),
                }
                board.advance(at);
                if let Some(next) = board.next_event(cpu) {
                    prop_assert!(next > now);
                }
            }
        }
    }
}
