//! The `bare` board, for our tiny kernel: console, timer, interrupts and a power switch on I/O ports. On ISAs without
//! ports the registers are memory-mapped.
//!
//! images/tiny/README.md describes the interface to the kernel.
//!
//! ```text
//!   start of RAM           0 or, on ARM, 0x4000_0000; 16 MiB
//!     + 0x1000             boot information
//!     + 0x1100             command line
//!   0x0900_0000 + PORT     the registers, where the ISA has no ports
//!
//!   ports 0xe9 console   0x500..0x508 timer and time   0x50c..0x518 CPUs and interrupts   0x600 power   0x604 sleep
//! ```

use super::sbi;
use super::virt::RAM_START;
use super::{At, Board, Boot, Bus, Interrupt, NO_HOLE, Spec, all_ones, restored, saved};
use crate::clock::{Ticks, nanoseconds};
use crate::config::Config;
use crate::devices::arch_timer::Register;
use crate::devices::comparator::{self, COMPARATOR, Comparator, EIRR};
use crate::devices::console::Console;
use crate::devices::decrementer;
use crate::devices::interrupts::Interrupts;
use crate::devices::interval::Interval;
use crate::devices::tod::{TIME_OF_DAY, time_of_day};
use crate::error::MachineError;
use crate::snapshot::LAST_TIME;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trapline_isa::mem::ByteOrder;

/// The board for ISAs with I/O ports.
pub static SPEC: Spec = Spec {
    name: "bare",
    ram_start: 0,
    ram: RAM_BYTES,
    least_ram: RAM_BYTES,
    most_ram: RAM_BYTES,
    hole: NO_HOLE,
    cpus: 2,
    boot: |config, _, _| boot(0, config, ByteOrder::Little),
    devices: |cpus, _| Box::new(Bare::new(cpus)),
};

/// The little-endian board with memory-mapped registers and RAM that does not start at 0.
pub static ARM: Spec = Spec { ram_start: RAM_START, boot: |config, _, _| boot(RAM_START, config, ByteOrder::Little), ..SPEC };

/// The big-endian board with memory-mapped registers.
pub static BIG_ENDIAN: Spec = Spec { boot: |config, _, _| boot(0, config, ByteOrder::Big), ..SPEC };

/// Size of the guest's RAM.
pub const RAM_BYTES: u64 = 16 << 20;
/// Offset of the boot information from the start of RAM.
pub const BOOT_INFO: u64 = 0x1000;
/// Offset of the command line from the start of RAM.
pub const COMMAND_LINE: u64 = 0x1100;
/// Physical address of the registers where they are memory-mapped.
pub const PORTS: u64 = 0x0900_0000;
/// Size limit of the command line, including its terminating 0.
pub const COMMAND_LINE_BYTES: usize = 0xe00;
/// The magic number at the start of the boot information.
pub const MAGIC: u32 = 0x5041_5254;
const VERSION: u32 = 1;

const CONSOLE: u64 = 0xe9;
const TIMER_PERIOD: u64 = 0x500;
const TIME_LOW: u64 = 0x504;
const TIME_HIGH: u64 = 0x508;
const THIS_CPU: u64 = 0x50c;
const CPUS: u64 = 0x510;
const SEND_INTERRUPT: u64 = 0x514;
const END_OF_INTERRUPT: u64 = 0x518;
const IN_SERVICE: u64 = 0x51c;
const POWER: u64 = 0x600;
const SLEEP: u64 = 0x604;

/// The bit of PA-RISC's EIRR for the interrupts of this board.
pub const BOARD_BIT: u32 = 1 << 30;
/// The bit of PA-RISC's EIRR for the CPU's own timer.
pub const TIMER_BIT: u32 = comparator::BIT;
/// The number of the interrupt of PA-RISC's own timer. Those of this board have other ones.
pub const OWN_TIMER: u32 = comparator::INTERRUPT;

const TIMER_VECTOR: u8 = 0x20;
const OTHER_CPU_VECTOR: u8 = 0x21;

/// The state of the board.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bare {
    cpus: Vec<PerCpu>,
    console: Vec<u8>,
    power_off: Option<u8>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PerCpu {
    interrupts: Interrupts,
    timer: Interval,
    latched_high: u32,
    /// PA-RISC's own timer.
    #[serde(default, skip_serializing_if = "Comparator::is_unused")]
    comparator: Comparator,
    /// The CPU has just asked to sleep.
    #[serde(skip)]
    sleeps: bool,
}

impl Bare {
    /// A board with this many CPUs.
    pub fn new(cpus: usize) -> Bare {
        Bare { cpus: vec![PerCpu::default(); cpus], console: Vec::new(), power_off: None }
    }

    fn is_sound(&self, cpus: usize) -> bool {
        self.cpus.len() == cpus && self.cpus.iter().all(|cpu| cpu.is_sound())
    }

    /// The boot information for RAM that starts at `start`.
    pub fn boot_info(start: u64, cpus: usize) -> [u32; 5] {
        [MAGIC, VERSION, RAM_BYTES as u32, cpus as u32, (start + COMMAND_LINE) as u32]
    }
}

impl PerCpu {
    fn is_sound(&self) -> bool {
        self.interrupts.is_sound(LAST_TIME) && self.timer.is_sound(LAST_TIME) && self.comparator.is_sound(LAST_TIME)
    }

    /// The requested interrupts in EIRR's layout. `None` if the guest does not use the CPU's timer: then it does not mask the
    /// others by kind.
    fn requests(&self) -> Option<u32> {
        let by_timer = if self.comparator.since().is_some() { TIMER_BIT } else { 0 };
        let by_board = if self.interrupts.deliverable().is_some() { BOARD_BIT } else { 0 };
        (!self.comparator.is_unused()).then_some(by_timer | by_board)
    }
}

fn boot(start: u64, config: &Config, order: ByteOrder) -> Result<Boot, MachineError> {
    if config.initrd.is_some() {
        return Err(MachineError::Config("the bare board's kernel takes no initial file system".into()));
    }
    if config.command_line.len() >= COMMAND_LINE_BYTES {
        return Err(MachineError::Config(format!("the command line is longer than {} bytes", COMMAND_LINE_BYTES - 1)));
    }
    let mut words = vec![0; 4 * 5];
    for (place, word) in words.chunks_exact_mut(4).zip(Bare::boot_info(start, config.cpus)) {
        order.put(word.into(), place);
    }
    let line = [config.command_line.as_bytes(), &[0]].concat();
    Ok(Boot {
        pieces: vec![(start + BOOT_INFO, words), (start + COMMAND_LINE, line)],
        info: start + BOOT_INFO,
        ..Boot::default()
    })
}

/// Reads CNTFRQ_EL0, CNTPCT_EL0 and CNTVCT_EL0, a counter of nanoseconds (the core's own would return host time), or
/// MIPS's Count, which counts every 10 nanoseconds.
fn counter(register: u32, now: Ticks) -> Option<u64> {
    const MIPS_COUNT: u32 = 1 << 16 | 9 << 3;
    if register == MIPS_COUNT {
        return Some(nanoseconds(now) / 10);
    }
    if let Some(value) = sbi::counter(register, now) {
        return Some(value);
    }
    if register == TIME_OF_DAY {
        return Some(time_of_day(now));
    }
    const NANOSECONDS: u64 = 1_000_000_000;
    match Register::of(register)? {
        Register { op1: 3, crm: 0, op2: 0 } => Some(NANOSECONDS),
        Register { op1: 3, crm: 0, op2: 1 | 2 } => Some(nanoseconds(now)),
        // The timer's other registers read as 0: no timer is set.
        Register { op1: 3, crm: 2 | 3, op2: 0..=2 } => Some(0),
        _ => None,
    }
}

impl Board for Bare {
    fn has_register(&self, register: u32) -> bool {
        Register::of(register).is_some()
    }

    fn register_read(&mut self, at: At, register: u32) -> Option<u64> {
        if register == EIRR {
            let cpu = self.cpus.get_mut(at.cpu)?;
            cpu.comparator.advance(at.now);
            // An interrupt of the board is in EIRR when the CPU takes it.
            return cpu.requests().map(|requests| u64::from(requests & TIMER_BIT));
        }
        counter(register, at.now).or_else(|| decrementer::time_base(register, at.now))
    }

    fn register_write(&mut self, at: At, register: u32, value: u64) -> bool {
        let Some(cpu) = self.cpus.get_mut(at.cpu) else { return false };
        match register {
            COMPARATOR => cpu.comparator.set(value as u32, at.now),
            EIRR if !cpu.comparator.is_unused() && value as u32 & TIMER_BIT != 0 => cpu.comparator.clear(at.now),
            _ => return false,
        }
        true
    }

    fn read(&mut self, at: At, bus: Bus, address: u64, size: u32) -> u64 {
        let cpus = self.cpus.len() as u32;
        let (Some(port), Some(cpu)) = (port(bus, address), self.cpus.get_mut(at.cpu)) else { return all_ones(size) };
        let value = match port {
            CONSOLE => CONSOLE as u32,
            TIME_LOW => {
                let now = nanoseconds(at.now);
                cpu.latched_high = (now >> 32) as u32;
                now as u32
            }
            TIME_HIGH => cpu.latched_high,
            THIS_CPU => at.cpu as u32,
            CPUS => cpus,
            IN_SERVICE => cpu.interrupts.in_service().into(),
            _ => return all_ones(size),
        };
        value.into()
    }

    fn write(&mut self, at: At, bus: Bus, address: u64, _size: u32, value: u64) {
        let (Some(port), Some(cpu)) = (port(bus, address), self.cpus.get_mut(at.cpu)) else { return };
        let value = value as u32;
        match port {
            CONSOLE => self.console.push(value as u8),
            TIMER_PERIOD => cpu.timer.set_period(value, at.now),
            END_OF_INTERRUPT => cpu.interrupts.end(),
            SEND_INTERRUPT => {
                for (number, cpu) in self.cpus.iter_mut().enumerate().take(32) {
                    if value >> number & 1 != 0 {
                        cpu.interrupts.raise(OTHER_CPU_VECTOR, at.now);
                    }
                }
            }
            POWER => self.power_off = Some(value as u8),
            SLEEP => cpu.sleeps = true,
            _ => {}
        }
    }

    fn advance(&mut self, at: At) {
        let Some(cpu) = self.cpus.get_mut(at.cpu) else { return };
        if let Some(when) = cpu.timer.advance(at.now) {
            cpu.interrupts.raise(TIMER_VECTOR, when);
        }
        cpu.comparator.advance(at.now);
    }

    fn next_event(&self, cpu: usize) -> Option<Ticks> {
        let cpu = self.cpus.get(cpu)?;
        [cpu.timer.next(), cpu.comparator.next()].into_iter().flatten().min()
    }

    fn pending(&self, cpu: usize) -> Option<Ticks> {
        let cpu = self.cpus.get(cpu)?;
        [cpu.interrupts.deliverable(), cpu.comparator.since()].into_iter().flatten().min()
    }

    fn pins(&self, cpu: usize) -> Option<u64> {
        self.cpus.get(cpu)?.requests().map(u64::from)
    }

    fn acknowledge(&mut self, cpu: usize) -> Option<Interrupt> {
        self.acknowledge_accepted(cpu, &|_| true)
    }

    /// The request of the CPU's timer remains until the guest clears it in EIRR.
    fn acknowledge_accepted(&mut self, cpu: usize, accepts: &dyn Fn(u64) -> bool) -> Option<Interrupt> {
        let cpu = self.cpus.get_mut(cpu)?;
        match cpu.requests() {
            Some(requests) if requests & TIMER_BIT != 0 && accepts(TIMER_BIT.into()) => Some(Interrupt::of(OWN_TIMER)),
            Some(_) if !accepts(BOARD_BIT.into()) => None,
            _ => cpu.interrupts.take().map(|vector| Interrupt::of(vector.into())),
        }
    }

    fn console(&mut self) -> &mut dyn Console {
        &mut self.console
    }

    fn goes_to_sleep(&mut self, cpu: usize) -> bool {
        self.cpus.get_mut(cpu).is_some_and(|cpu| core::mem::take(&mut cpu.sleeps))
    }

    fn power_off(&self) -> Option<u8> {
        self.power_off
    }

    fn save(&self) -> Result<Value, String> {
        saved(self)
    }

    fn load(&mut self, state: &Value) -> Result<(), String> {
        *self = restored(state, |devices: &Bare| devices.is_sound(self.cpus.len()))?;
        Ok(())
    }
}

/// The port at this address, if there is one.
fn port(bus: Bus, address: u64) -> Option<u64> {
    match bus {
        Bus::Ports => Some(address),
        Bus::Memory => address.checked_sub(PORTS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No guest access to the ports makes the board panic.
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((any::<bool>(), any::<u16>(), 0usize..4, any::<u32>(), any::<u32>()), 0..200)) {
            let mut board = Bare::new(2);
            let mut now = 0u64;
            for (write, port, cpu, value, later) in accesses {
                now += u64::from(later);
                let at = At { cpu, now };
                let port = u64::from(if port % 3 == 0 { 0x500 + port % 0x120 } else { port });
                if write { board.write(at, Bus::Ports, port, 4, value.into()) } else { board.read(at, Bus::Ports, port, 4); }
                board.advance(at);
                if board.pending(cpu).is_some() && value % 2 == 0 { board.acknowledge(cpu); }
            }
        }
    }

    /// ARM has no ports: it reaches these registers in memory.
    #[test]
    fn the_registers_can_be_memory_mapped() {
        let mut board = Bare::new(1);
        let at = At { cpu: 0, now: 4000 };
        board.write(at, Bus::Memory, PORTS + CONSOLE, 1, u64::from(b'x'));
        board.write(at, Bus::Memory, PORTS + SEND_INTERRUPT, 4, 1);
        board.write(at, Bus::Memory, PORTS + 0x1_0000 + POWER, 1, 0);
        assert_eq!(
            (board.console().take_sent(), board.power_off(), board.acknowledge(0)),
            (b"x".to_vec(), None, Some(Interrupt::of(OTHER_CPU_VECTOR.into())))
        );
        let ports = [(IN_SERVICE, OTHER_CPU_VECTOR.into()), (TIME_LOW, 1000), (THIS_CPU, 0)];
        for (port, value) in ports {
            assert_eq!(board.read(at, Bus::Memory, PORTS + port, 4), value, "{port:#x}");
        }
        assert_eq!(board.read(at, Bus::Memory, 0, 4), u64::from(u32::MAX));
    }

    /// A CPU sleeps once for each request, and no other CPU does.
    #[test]
    fn a_sleep_request_counts_once_for_its_cpu() {
        let mut board = Bare::new(2);
        board.write(At { cpu: 1, now: 0 }, Bus::Memory, PORTS + SLEEP, 4, 0);
        assert_eq!([0, 1, 1].map(|cpu| board.goes_to_sleep(cpu)), [false, true, false]);
    }

    #[test]
    fn the_timer_interrupts_its_own_cpu_and_an_ipi_the_other() {
        let mut board = Bare::new(2);
        board.write(At { cpu: 0, now: 0 }, Bus::Ports, TIMER_PERIOD, 4, 1000);
        board.write(At { cpu: 0, now: 10 }, Bus::Ports, SEND_INTERRUPT, 4, 0b10);
        board.advance(At { cpu: 0, now: 4000 });
        assert_eq!((board.pending(0), board.pending(1)), (Some(4000), Some(10)));
        let taken = [TIMER_VECTOR, OTHER_CPU_VECTOR].map(|vector| Some(Interrupt::of(vector.into())));
        assert_eq!([board.acknowledge(0), board.acknowledge(1)], taken);
    }
}
