//! The `powernv` board, for stock kernels of 64-bit PowerPC. The kernel is its own hypervisor and uses radix page
//! tables. The board has one CPU with a decrementer, and no devices except those that its firmware provides.
//!
//! The firmware is OPAL (skiboot's doc/opal-api): a console, power-off, ports of an LPC bus (one takes the exit
//! status), and an interrupt controller without interrupts. Its entry point executes a hypervisor call, which this file
//! answers.
//!
//! ```text
//!   0x0000_0000  RAM: the kernel, at most up to the firmware
//!   0x0300_0000  firmware: two instructions that call the host
//!   0x0310_0000  device tree, at most 1 MiB
//!   0x0320_0000  initramfs
//! ```
//!
//! There are no devices in memory: the console, the exit status and the clock are OPAL calls.

use super::cpus::Cpus;
use super::opal_tree::Tree;
use super::{At, Board, Boot, FirmwareCall, Interrupt, NO_HOLE, Order, Spec, restored, saved};
use crate::clock::Ticks;
use crate::config::Config;
use crate::devices::console::Console;
use crate::devices::decrementer::{self, Decrementer};
use crate::devices::wire::Wire;
use crate::error::MachineError;
use crate::snapshot::LAST_TIME;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trapline_isa::mem::{ByteOrder, Fault, Memory};

const MIB: u64 = 1 << 20;

/// The description of the board.
pub static SPEC: Spec = Spec {
    name: "powernv",
    ram_start: 0,
    ram: 512 * MIB,
    least_ram: 256 * MIB,
    most_ram: 8192 * MIB,
    hole: NO_HOLE,
    cpus: 8,
    boot,
    devices: |cpus, _| Box::new(PowerNv::new(cpus)),
};

/// The firmware's reserved memory.
const FIRMWARE: u64 = 0x300_0000;
const FIRMWARE_BYTES: u64 = 0x1_0000;
/// The firmware's code: `sc 1; blr`, big-endian.
const ENTRY: [u8; 8] = [0x44, 0, 0, 0x22, 0x4e, 0x80, 0, 0x20];

/// Size limit of the device tree.
const TREE_BYTES: u64 = MIB;
/// Size limit of the command line, including its terminating 0.
const COMMAND_LINE_BYTES: usize = 2048;

/// The decrementer's interrupt number (`cpu/ppc/deliver.rs`).
const DECREMENTER: u32 = 0x900;
/// The register number that stands for random numbers (`cpu/ppc/state.rs`).
const RANDOM: u32 = 1024;

/// Places the firmware, the device tree and the initramfs, all behind the kernel.
fn boot(config: &Config, ram: u64, kernel_end: u64) -> Result<Boot, MachineError> {
    if config.command_line.len() >= COMMAND_LINE_BYTES {
        let (has, takes) = (config.command_line.len(), COMMAND_LINE_BYTES - 1);
        return Err(MachineError::Config(format!("the command line has {has} bytes, Linux takes {takes}")));
    }
    if kernel_end > FIRMWARE {
        return Err(MachineError::Config(format!(
            "the kernel ends at {kernel_end:#x} and overlaps the firmware, which begins at {FIRMWARE:#x}"
        )));
    }
    let initrd = config.initrd.as_deref().unwrap_or_default();
    let tree_at = FIRMWARE + MIB;
    let initrd_at = tree_at + TREE_BYTES;
    let end = initrd_at + initrd.len() as u64;
    if end > ram {
        let bytes = initrd.len();
        return Err(MachineError::Config(format!(
            "an initial file system of {bytes} bytes has no room in {ram:#x} bytes of RAM"
        )));
    }
    let tree = Tree {
        ram,
        cpus: config.cpus,
        firmware: FIRMWARE..FIRMWARE + FIRMWARE_BYTES,
        command_line: &config.command_line,
        initrd: initrd_at..end,
    };
    let tree = tree.flatten()?;
    if tree.len() as u64 > TREE_BYTES {
        return Err(MachineError::Config(format!("the device tree has {} bytes, there is room for {TREE_BYTES}", tree.len())));
    }
    let pieces = vec![(FIRMWARE, ENTRY.to_vec()), (tree_at, tree), (initrd_at, initrd.to_vec())];
    Ok(Boot { pieces, info: tree_at, ..Boot::default() })
}

// Return codes of OPAL calls.
const SUCCESS: i64 = 0;
const PARAMETER: i64 = -1;
/// OPAL_RESOURCE: OPAL_GET_MSG has no message.
const NOTHING_NEW: i64 = -10;
const UNSUPPORTED: i64 = -7;

/// Function numbers of OPAL calls (skiboot's opal-api.h). OPAL_CHECK_TOKEN reports all of them as present.
mod call {
    pub const CONSOLE_WRITE: u64 = 1;
    pub const CONSOLE_READ: u64 = 2;
    pub const POWER_DOWN: u64 = 5;
    pub const REBOOT: u64 = 6;
    pub const POLL_EVENTS: u64 = 10;
    pub const CONSOLE_WRITE_BUFFER_SPACE: u64 = 25;
    pub const START_CPU: u64 = 41;
    pub const QUERY_CPU_STATUS: u64 = 42;
    pub const LPC_READ: u64 = 67;
    pub const LPC_WRITE: u64 = 68;
    pub const REINIT_CPUS: u64 = 70;
    pub const CHECK_TOKEN: u64 = 80;
    pub const GET_MSG: u64 = 85;
    pub const CONSOLE_FLUSH: u64 = 117;
    pub const INT_GET_XIRR: u64 = 122;
    pub const INT_SET_CPPR: u64 = 123;
    pub const INT_EOI: u64 = 124;
    pub const INT_SET_MFRR: u64 = 125;
    pub const QUIESCE: u64 = 158;

    pub const ALL: &[u64] = &[
        CONSOLE_WRITE,
        CONSOLE_READ,
        POWER_DOWN,
        REBOOT,
        POLL_EVENTS,
        CONSOLE_WRITE_BUFFER_SPACE,
        START_CPU,
        QUERY_CPU_STATUS,
        LPC_READ,
        LPC_WRITE,
        REINIT_CPUS,
        CHECK_TOKEN,
        GET_MSG,
        CONSOLE_FLUSH,
        INT_GET_XIRR,
        INT_SET_CPPR,
        INT_EOI,
        INT_SET_MFRR,
        QUIESCE,
    ];
}

/// The kernel passes virtual addresses of its linear map. Clearing the top bits gives the physical address.
const PHYSICAL: u64 = 0x0fff_ffff_ffff_ffff;
/// OPAL_EVENT_CONSOLE_INPUT, a bit of the events that OPAL_POLL_EVENTS reports.
const CONSOLE_INPUT: u64 = 0x10;
/// The answers of OPAL_QUERY_CPU_STATUS: the CPU runs, or it waits for OPAL_START_CPU.
const STARTED: u8 = 3;
const INACTIVE: u8 = 0;
/// The source number of an interrupt from another CPU (IPI), in the lower bytes of the XIRR.
const FROM_CPU: u8 = 2;
/// The MFRR without an IPI: the least favoured priority. A lower number is a more favoured priority.
const NOTHING_SENT: u8 = 0xff;
/// The number of external interrupts (`cpu/ppc/deliver.rs`).
const EXTERNAL: u32 = 0x500;
/// The limit of bytes per console read or write.
const CONSOLE_BYTES: u64 = 4096;
/// The number of the I/O space on the LPC bus, and the port there that takes the exit status.
const PORTS: u64 = 1;
const EXIT_STATUS: u64 = 0xf4;

/// The state of the board.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerNv {
    /// The CPUs that run.
    running: Cpus,
    cpus: Vec<PerCpu>,
    /// Console output that the host has not taken yet.
    sent: Vec<u8>,
    /// Console input.
    typed: Wire,
    /// State of the random number generator.
    random: u64,
    exit_status: u8,
    off: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PerCpu {
    decrementer: Decrementer,
    /// The virtual time of the last access.
    #[serde(skip)]
    now: Ticks,
    /// The CPU's current priority (CPPR). The CPU takes interrupts whose priority has a lower number.
    priority: u8,
    /// The priority of the pending IPI (MFRR), or [`NOTHING_SENT`].
    sent: u8,
    /// The time at which another CPU has sent it.
    since: Ticks,
}

impl PerCpu {
    fn new() -> PerCpu {
        PerCpu { decrementer: Decrementer::default(), now: 0, priority: 0, sent: NOTHING_SENT, since: 0 }
    }

    /// Whether an IPI is pending that the CPU's priority lets in.
    fn is_called(&self) -> bool {
        self.sent < self.priority
    }
}

impl Default for PowerNv {
    fn default() -> PowerNv {
        PowerNv::new(1)
    }
}

impl PowerNv {
    /// A board with this many CPUs.
    fn new(cpus: usize) -> PowerNv {
        let per_cpu = (0..cpus).map(|_| PerCpu::new()).collect();
        let (sent, typed) = (Vec::new(), Wire::default());
        PowerNv { running: Cpus::new(cpus), cpus: per_cpu, sent, typed, random: 0, exit_status: 0, off: false }
    }

    /// The OPAL calls for CPUs: start, status, and interrupts between CPUs. `at` names the calling CPU.
    fn cpu_call(&mut self, at: At, [number, first, second, ..]: [u64; 5], memory: &mut dyn Memory) -> Result<i64, Fault> {
        let other = usize::try_from(first).unwrap_or(usize::MAX);
        let Some(own) = self.cpus.get_mut(at.cpu) else { return Ok(PARAMETER) };
        match number {
            call::INT_GET_XIRR => {
                // The XIRR: the priority, and the interrupt source or none.
                let is_called = own.is_called();
                memory.write(first & PHYSICAL, &[own.priority, 0, 0, if is_called { FROM_CPU } else { 0 }])?;
                if is_called {
                    own.priority = own.sent;
                }
            }
            call::INT_SET_CPPR => own.priority = first as u8,
            call::INT_EOI => own.priority = (first >> 24) as u8,
            // A board with one CPU has no IPIs, so it ignores the MFRR.
            call::INT_SET_MFRR if !self.running.are_several() => {}
            call::INT_SET_MFRR => {
                let Some(other) = self.cpus.get_mut(other) else { return Ok(PARAMETER) };
                if other.sent == NOTHING_SENT {
                    other.since = at.now;
                }
                other.sent = second as u8;
            }
            call::START_CPU if other < self.running.count() => self.running.start(other, second, first),
            call::QUERY_CPU_STATUS if other < self.running.count() => {
                let status = if self.running.is_on(other) { STARTED } else { INACTIVE };
                memory.write(second & PHYSICAL, &[status])?;
            }
            _ => return Ok(PARAMETER),
        }
        Ok(SUCCESS)
    }

    /// SplitMix64 with a fixed seed, so that every run has the same numbers.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Executes an OPAL call: its number and its first four arguments. Returns the call's return code. `Err` if an address
    /// among the arguments is not in RAM.
    fn answer(&mut self, at: At, arguments: [u64; 5], memory: &mut dyn Memory) -> Result<i64, Fault> {
        let [number, first, second, third, fourth] = arguments;
        Ok(match number {
            call::CONSOLE_WRITE => {
                let bytes = words::get(memory, second)?.min(CONSOLE_BYTES);
                let mut text = vec![0; bytes as usize];
                memory.read(third & PHYSICAL, &mut text)?;
                self.sent.extend(text);
                words::put(memory, second, bytes)?;
                SUCCESS
            }
            call::CONSOLE_READ => {
                let most = words::get(memory, second)?.min(CONSOLE_BYTES);
                let mut text = Vec::new();
                // Real firmware buffers input. Bytes that are typed, but arrive later by the speed of the line, are read now.
                while (text.len() as u64) < most {
                    let earliest = self.typed.next().filter(|_| self.typed.waiting() > 0);
                    let Some(byte) = self.typed.take(earliest.unwrap_or(0).max(at.now)) else { break };
                    text.push(byte);
                }
                memory.write(third & PHYSICAL, &text)?;
                words::put(memory, second, text.len() as u64)?;
                SUCCESS
            }
            call::POWER_DOWN | call::REBOOT => {
                self.off = true;
                SUCCESS
            }
            call::POLL_EVENTS => {
                // The kernel reads the console only while this event is reported.
                let is_typed = self.typed.next().is_some_and(|earliest| earliest <= at.now);
                if first != 0 {
                    words::put(memory, first, if is_typed { CONSOLE_INPUT } else { 0 })?;
                }
                SUCCESS
            }
            call::CONSOLE_WRITE_BUFFER_SPACE => {
                words::put(memory, second, CONSOLE_BYTES)?;
                SUCCESS
            }
            call::LPC_READ => {
                // No device on the bus answers, so the value is all ones.
                memory.write(fourth & PHYSICAL, &[0xff; 4])?;
                SUCCESS
            }
            call::LPC_WRITE => {
                if (second, third) == (PORTS, EXIT_STATUS) {
                    self.exit_status = fourth as u8;
                }
                SUCCESS
            }
            call::REINIT_CPUS | call::CONSOLE_FLUSH | call::QUIESCE => SUCCESS,
            call::CHECK_TOKEN => call::ALL.contains(&first).into(),
            call::GET_MSG => NOTHING_NEW,
            call::START_CPU
            | call::QUERY_CPU_STATUS
            | call::INT_GET_XIRR
            | call::INT_SET_CPPR
            | call::INT_EOI
            | call::INT_SET_MFRR => return self.cpu_call(at, arguments, memory),
            _ => UNSUPPORTED,
        })
    }
}

/// Reads and writes the numbers that a call has in memory. They are 64-bit and big-endian.
mod words {
    use super::{ByteOrder, Fault, Memory, PHYSICAL};

    pub fn get(memory: &mut dyn Memory, address: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        memory.read(address & PHYSICAL, &mut bytes)?;
        Ok(ByteOrder::Big.number(&bytes))
    }

    pub fn put(memory: &mut dyn Memory, address: u64, value: u64) -> Result<(), Fault> {
        let mut bytes = [0; 8];
        ByteOrder::Big.put(value, &mut bytes);
        memory.write(address & PHYSICAL, &bytes)
    }
}

impl Board for PowerNv {
    fn register_read(&mut self, at: At, register: u32) -> Option<u64> {
        match register {
            decrementer::NUMBER => Some(self.cpus.get(at.cpu)?.decrementer.value(at.now).into()),
            RANDOM => Some(self.next_random()),
            _ => decrementer::time_base(register, at.now),
        }
    }

    fn register_write(&mut self, at: At, register: u32, value: u64) -> bool {
        let is_decrementer = register == decrementer::NUMBER;
        if let Some(cpu) = self.cpus.get_mut(at.cpu).filter(|_| is_decrementer) {
            cpu.decrementer.set(value as u32, at.now);
            cpu.now = at.now;
        }
        is_decrementer
    }

    fn parks_cpus(&self) -> bool {
        self.running.are_several()
    }

    fn orders(&mut self) -> Vec<Order> {
        self.running.take_orders()
    }

    /// Returns OPAL_PARAMETER if an address among the arguments is not in RAM.
    fn firmware_call(&mut self, at: At, call: FirmwareCall<'_>) -> Vec<u64> {
        let mut arguments = [0; 5];
        for (to, from) in arguments.iter_mut().zip(call.arguments) {
            *to = *from;
        }
        let answer = self.answer(at, arguments, call.memory).unwrap_or(PARAMETER);
        vec![answer.cast_unsigned()]
    }

    fn advance(&mut self, at: At) {
        if let Some(cpu) = self.cpus.get_mut(at.cpu) {
            cpu.now = at.now;
        }
    }

    fn next_event(&self, cpu: usize) -> Option<Ticks> {
        let own = self.cpus.get(cpu)?;
        own.decrementer.next_event(own.now)
    }

    fn pending(&self, cpu: usize) -> Option<Ticks> {
        let own = self.cpus.get(cpu)?;
        let timed = || own.decrementer.asks(own.now).then_some(own.now);
        own.is_called().then_some(own.since).or_else(timed)
    }

    /// Taking an interrupt does not clear it. An IPI is pending until the CPU sets its MFRR to a less favoured priority or its
    /// own priority to a more favoured one. The decrementer's interrupt is pending until the decrementer is set.
    fn acknowledge(&mut self, cpu: usize) -> Option<Interrupt> {
        let own = self.cpus.get(cpu)?;
        let timed = || own.decrementer.asks(own.now).then_some(Interrupt::of(DECREMENTER));
        own.is_called().then_some(Interrupt::of(EXTERNAL)).or_else(timed)
    }

    fn console(&mut self) -> &mut dyn Console {
        self
    }

    fn power_off(&self) -> Option<u8> {
        self.off.then_some(self.exit_status)
    }

    fn save(&self) -> Result<Value, String> {
        saved(self)
    }

    fn load(&mut self, state: &Value) -> Result<(), String> {
        let cpus = self.cpus.len();
        *self = restored(state, |devices: &PowerNv| {
            devices.cpus.len() == cpus
                && devices.running.is_sound(cpus, LAST_TIME)
                && devices.cpus.iter().all(|cpu| cpu.since < LAST_TIME)
        })?;
        Ok(())
    }

    fn set_now(&mut self, at: At) {
        if let Some(cpu) = self.cpus.get_mut(at.cpu) {
            cpu.now = at.now;
        }
    }
}

/// The firmware's console.
impl Console for PowerNv {
    fn sent(&mut self) -> &mut Vec<u8> {
        &mut self.sent
    }

    fn typed(&mut self) -> Option<&mut Wire> {
        Some(&mut self.typed)
    }
}

#[cfg(feature = "cpu")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::unicorn::ram::{Physical, Ram};

    /// BY-4: console input sets the event until it has been read.
    #[test]
    fn console_input_sets_an_event_until_it_is_read() {
        let ram = Ram::at(0, 2 << 20, ByteOrder::Big).expect("memory");
        let mut board = PowerNv::default();
        let call = |board: &mut PowerNv, now, number, arguments: [u64; 3]| {
            let arguments = [&[number][..], &arguments].concat();
            let mut memory = Physical { ram: &ram };
            let done = board.firmware_call(At { cpu: 0, now }, FirmwareCall { arguments: &arguments, memory: &mut memory });
            assert_eq!(done, [0]);
            words::get(&mut memory, 0x1000).expect("memory")
        };
        assert_eq!(call(&mut board, 0, call::POLL_EVENTS, [0x1000, 0, 0]), 0, "there is no input");
        board.console().receive(b"ls");
        assert_eq!(call(&mut board, 0, call::POLL_EVENTS, [0x1000, 0, 0]), CONSOLE_INPUT);
        words::put(&mut Physical { ram: &ram }, 0x1000, 16).expect("memory");
        assert_eq!(call(&mut board, 0, call::CONSOLE_READ, [0, 0x1000, 0x2000]), 2);
        let mut read = [0; 2];
        assert!(ram.read(0x2000, &mut read));
        assert_eq!((&read, call(&mut board, 1 << 40, call::POLL_EVENTS, [0x1000, 0, 0])), (b"ls", 0));
    }
}
