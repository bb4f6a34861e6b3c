//! Hostile guests: random programs in kernel mode with extreme values in registers and memory. They contain privileged
//! instructions, mode changes and accesses. They may crash the guest, but not trapline and not the CPU core.
//!
//! A program is decoded from bytes. `tests/hostile.rs` uses random bytes, and the fuzz target `hostile` uses its input.
//! The program is placed at the address of the bench's instruction and over the bench's exception handlers. Most
//! instructions fault, so the program is started at each of its instructions in turn.

mod words;

pub use words::nop;

use super::{
    Before, CODE, CODE_BYTES, DATA, DATA_BYTES, ELSEWHERE, HANDLERS, HANDLERS_BYTES, PLACE, STACK, arches, bench, halts, kernel,
    linux, place,
};
use std::sync::LazyLock;
use trapline::boot::Kernel;
use trapline::cpu::View;
use trapline::machine::{Config, Machine, Stop};
use trapline::probed::Session;
use trapline_isa::arch::Arch;
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::{Reg, Registers};

/// The ISAs of these programs: all that have a bench.
pub static ARCHES: LazyLock<Vec<Arch>> = LazyLock::new(|| arches().collect());

/// The number of bytes that a program is decoded from. Further bytes are ignored.
pub const DRAWN: usize = 2048;

/// The beginning of the message when the CPU core failed. All other messages describe the guest's own end.
pub const CORE_FAILED: &str = "the CPU core failed";

/// The limit of a run from one entry, in nanoseconds of guest time.
const LONGEST: u64 = 60;
/// The number of exceptions without progress of time after which the watchdog ends the run.
const PATIENCE: u32 = 2_000;
/// The number of programs that run on one machine before a new one is made. Each starts in the state that the last one
/// left.
const CHAIN: u32 = 8;

/// The result of a program.
pub struct End {
    /// The message about the guest's end. `None`: it reached the time limit.
    pub why: Option<String>,
    /// The number of exceptions.
    pub exceptions: usize,
    /// Guest time that it ran, in nanoseconds.
    pub time: u64,
}

/// A machine on which programs run.
pub struct Guest {
    arch: Arch,
    machine: Option<Machine<()>>,
    ran: u32,
}

impl Guest {
    /// A machine that has run nothing.
    pub fn new(arch: Arch) -> Guest {
        Guest { arch, machine: None, ran: 0 }
    }

    /// Runs the program that is decoded from these bytes. `Err`: the CPU core failed.
    pub fn run(&mut self, bytes: &[u8]) -> Result<End, String> {
        if self.ran == CHAIN {
            *self = Guest::new(self.arch);
        }
        let arch = self.arch;
        let machine = self.machine.get_or_insert_with(|| fenced(arch));
        self.ran += 1;
        let program = place_program(arch, machine, bytes);
        let (start, before) = (machine.now(), machine.happenings().len());
        let mut end = None;
        for (number, entry) in program.entries.iter().enumerate() {
            machine.set_pc(*entry);
            // Most often in the kernel's mode; else in whatever mode the last one has left.
            if number % 8 != 7 {
                make_kernel(arch, machine, program.flags);
            }
            if let Stop::Dead(why) = machine.run_until(machine.now() + LONGEST) {
                let is_over = is_over(&why);
                end = Some(why);
                if is_over {
                    break;
                }
            }
        }
        match end {
            Some(why) if why.starts_with(CORE_FAILED) => {
                let (pc, mut code) = (machine.pcs()[0], [0; 16]);
                let bench = bench(arch);
                machine.ram().read(pc.wrapping_sub(bench.seen_from).wrapping_add(bench.base), &mut code);
                self.machine = None;
                Err(format!("{why}, in the block at {pc:#x}: {code:02x?}"))
            }
            end => {
                // A register that cannot be read is as bad.
                let _ = machine.registers();
                let (exceptions, time) = (machine.happenings().len() - before, machine.now() - start);
                if end.as_deref().is_some_and(is_over) {
                    *self = Guest::new(arch);
                }
                Ok(End { why: end, exceptions, time })
            }
        }
    }
}

/// Whether no entry can be run on the machine after this end.
fn is_over(why: &str) -> bool {
    why.starts_with(CORE_FAILED) || why.starts_with("the CPU core gave up")
}

/// A program in the machine's memory.
struct Program {
    /// The address of each of its instructions.
    entries: Vec<u64>,
    /// The random bits from which the bench computes the register with the CPU's mode.
    flags: u64,
}

/// Puts the CPU into the bench's initial mode.
fn make_kernel(arch: Arch, machine: &mut Machine<()>, flags: u64) {
    machine.look(|view| enter_kernel(arch, view, flags));
}

fn enter_kernel(arch: Arch, view: &mut View, flags: u64) {
    let bench = bench(arch);
    (bench.ready)(view, &Before { flags, ..Before::default() });
    let (name, of_case) = bench.flags;
    if let Some(reg) = arch.isa().abi.register(name) {
        view.set(reg, of_case(flags));
    }
}

/// A session that is about to run this code in kernel mode, with these registers.
pub fn about_to_run(arch: Arch, code: &[u8], registers: &[(Reg, u64)]) -> Session {
    let config = Config { window: 2 << 20, record_events: true, ..Config::default() };
    let mut session = Session::new(kernel(arch), &config).expect("a machine");
    session.run_until(1_000_000);
    let machine = session.machine_mut();
    assert!(machine.write_physical(bench(arch).base + PLACE, code), "the place of the code is memory");
    machine.look(|view| {
        enter_kernel(arch, view, 0);
        registers.iter().for_each(|(reg, value)| view.set(*reg, *value));
    });
    machine.set_pc(seen(arch, PLACE));
    session
}

/// The virtual address of an address of the bench.
pub fn seen(arch: Arch, at: u64) -> u64 {
    place(arch).wrapping_sub(PLACE).wrapping_add(at)
}

/// The physical address of an address of the bench.
pub fn physical(arch: Arch, at: u64) -> u64 {
    bench(arch).base + at
}

/// A machine that runs given code.
pub struct Bare {
    arch: Arch,
    machine: Machine<()>,
}

impl Bare {
    /// A machine whose tables and vectors are set up.
    pub fn new(arch: Arch) -> Bare {
        Bare::with(arch, ready(arch))
    }

    /// A guest without a kernel on the board of stock kernels.
    pub fn on_stock_board(arch: Arch) -> Bare {
        Bare::with(arch, ready_with(&linux(arch)))
    }

    fn with(arch: Arch, mut machine: Machine<()>) -> Bare {
        make_kernel(arch, &mut machine, 0);
        Bare { arch, machine }
    }

    /// Writes memory of the bench and drops its translation blocks.
    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        assert!(self.machine.write_physical(bench(self.arch).base + at, bytes), "{at:#x} is memory");
    }

    /// Sets a register.
    pub fn set(&mut self, reg: Reg, value: u64) {
        self.machine.look(|view| view.set(reg, value));
    }

    /// Reads a register.
    pub fn get(&mut self, reg: Reg) -> u64 {
        self.machine.look(|view| view.get(reg))
    }

    /// Writes code to the address of the bench's instruction, and runs it until the guest ends or the time limit is
    /// reached.
    pub fn run(&mut self, code: &[u8]) -> Stop {
        self.put(PLACE, code);
        self.run_at(PLACE)
    }

    /// Puts the CPU back into the bench's initial mode.
    pub fn enter_kernel(&mut self) {
        make_kernel(self.arch, &mut self.machine, 0);
    }

    /// Runs the code at this address until the guest ends or the time limit is reached.
    pub fn run_at(&mut self, at: u64) -> Stop {
        self.machine.set_pc(seen(self.arch, at));
        let until = self.machine.now() + 20_000;
        self.machine.run_until(until)
    }

    /// The machine itself.
    pub fn machine(&mut self) -> &mut Machine<()> {
        &mut self.machine
    }
}

/// A machine whose tables and vectors are set up.
fn ready(arch: Arch) -> Machine<()> {
    ready_with(&kernel(arch))
}

/// A machine in which each page of zeros outside of the bench's own pages ends with an instruction that sleeps. Zeros
/// are instructions on x86, MIPS and ARM, and running through megabytes of them takes long and tests nothing.
fn fenced(arch: Arch) -> Machine<()> {
    const PAGE: usize = 0x1000;
    let (mut machine, bench, mut page) = (ready(arch), bench(arch), [0; PAGE]);
    let ends = machine.ram().end() - bench.base;
    for at in (0..CODE).chain(ELSEWHERE..ends).step_by(PAGE) {
        let start = bench.base + at;
        if machine.ram().read(start, &mut page) && page.iter().all(|byte| *byte == 0) {
            // The first one may be the last byte of another instruction.
            machine.write_physical(start + (PAGE - 16) as u64, &halts(bench.halt, 16));
        }
    }
    machine
}

fn ready_with(kernel: &Kernel) -> Machine<()> {
    let config = Config { window: 1 << 20, patience: PATIENCE, record_events: true, ..Config::default() };
    let mut machine = Machine::new(kernel, &config, |_| ()).expect("a machine");
    let stop = machine.run_until(1_000_000);
    // Timers of boards for stock kernels may still end the sleep.
    assert!(matches!(stop, Stop::Dead(_) | Stop::Limit), "the set-up code ends by sleeping: {stop:?}");
    machine
}

/// Decodes a program, and writes it into memory and registers.
fn place_program(arch: Arch, machine: &mut Machine<()>, bytes: &[u8]) -> Program {
    let (bench, mut draws) = (bench(arch), Draws(&bytes[..bytes.len().min(DRAWN)]));
    let values: Vec<u64> = (0..32).map(|_| draws.value(arch)).collect();
    let flags = u64::from_le_bytes(draws.take());
    let unit: Vec<Vec<u8>> = (0..64).map(|_| words::instruction(arch, &mut draws)).collect();
    let (code, entries) = filled(arch, &unit, CODE_BYTES);
    let (handler, _) = filled(arch, &unit[7..], HANDLERS_BYTES);
    let data: Vec<u8> = (0..DATA_BYTES / 8)
        .flat_map(|number| {
            let value = values[(number % 31) as usize] ^ if number % 5 == 0 { number } else { 0 };
            if arch.isa().order == ByteOrder::Big { value.to_be_bytes() } else { value.to_le_bytes() }
        })
        .collect();
    for (at, bytes) in [(CODE, code), (HANDLERS, handlers(arch, handler)), (DATA, data)] {
        assert!(machine.write_physical(bench.base + at, &bytes), "{at:#x} is memory");
    }
    machine.look(|view| {
        let abi = arch.isa().abi;
        for ((_, reg), value) in abi.names.iter().filter(|(name, _)| !bench.not_general.contains(name)).zip(&values) {
            view.set(*reg, *value);
        }
        view.set(abi.sp, bench.seen_from.wrapping_add(STACK));
    });
    let entries = entries.into_iter().take(unit.len()).map(|at| place(arch) - PLACE + CODE + at).collect();
    Program { entries, flags }
}

/// Fills `len` bytes with these instructions, repeated; also returns the offset of each. A nop stands before each
/// instruction, so that time passes even if the instruction faults.
fn filled(arch: Arch, unit: &[Vec<u8>], len: u64) -> (Vec<u8>, Vec<u64>) {
    let (mut code, mut starts) = (Vec::new(), Vec::new());
    for instruction in unit.iter().cycle() {
        if code.len() >= len as usize {
            break;
        }
        starts.push(code.len() as u64);
        code.extend_from_slice(words::nop(arch));
        code.extend_from_slice(instruction);
    }
    code.truncate(len as usize);
    (code, starts)
}

/// Puts a nop at the start of each vector. Otherwise a handler whose first instruction faults would never let time
/// pass.
fn handlers(arch: Arch, mut bytes: Vec<u8>) -> Vec<u8> {
    let nop = words::nop(arch);
    let step = match arch {
        // An entry of the table is one instruction, and leads to the next one.
        Arch::Arm | Arch::Thumb2 => {
            let table = 64.min(bytes.len());
            for at in (0..table).step_by(nop.len()) {
                bytes[at..at + nop.len()].copy_from_slice(nop);
            }
            return bytes;
        }
        Arch::I386 | Arch::X86_64 => 16,
        _ => 32,
    };
    for at in (0..bytes.len()).step_by(step) {
        bytes[at..at + nop.len()].copy_from_slice(nop);
    }
    bytes
}

/// The bytes that are not consumed yet. Past their end every byte is 0.
pub(super) struct Draws<'a>(&'a [u8]);

impl Draws<'_> {
    fn take<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        let (taken, left) = self.0.split_at(COUNT.min(self.0.len()));
        self.0 = left;
        core::array::from_fn(|at| taken.get(at).copied().unwrap_or(0))
    }

    fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn below(&mut self, most: usize) -> usize {
        usize::from(self.byte()) % most
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// An edge value, an address of the bench, a value of the ISA's status register, or any number.
    fn value(&mut self, arch: Arch) -> u64 {
        let seen_from = bench(arch).seen_from;
        match self.below(12) {
            0..4 => seen_from + DATA + 8 * self.below(128) as u64,
            4 => seen_from + self.pick(&[CODE, HANDLERS, STACK, DATA + DATA_BYTES - 4]),
            5 => self.pick(&[0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 127, 255, u64::MAX, 1 << 31, 0x7fff_ffff, 1 << 63]),
            6 => 1 << self.below(64),
            7 => u64::MAX >> self.below(64),
            8 => u64::MAX << self.below(64),
            9 => self.below(256) as u64,
            10 => words::status(arch, self),
            _ => u64::from_le_bytes(self.take()),
        }
    }
}
