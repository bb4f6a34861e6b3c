//! The toy kernel in memory and the CPUs that run it. It implements [`Guest`] and [`crate::guest::Cpu`] in the simplest
//! way.
//!
//! Time is the number of bytes of guest code executed. Interrupts are taken before any instruction of guest text, and
//! in the window only between the iterations of a repeated instruction. So a probed run takes them at the same
//! addresses and times as an unprobed one, if the engine is right.
//!
//! This file makes the kernel and its CPUs. `guest/run.rs` executes code, `guest/services.rs` answers the engine, and
//! `guest/view.rs` is a stopped CPU.

mod run;
mod services;
mod view;

pub use view::ToyView;

use super::isa::{FLAGS, REGISTERS, SP, STACK};
use super::program::Function;
use crate::guest::{Blacklisted, Guest, Site, Symbol, Text, WindowUse};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::entry::Pointers;

/// First address of the text.
pub const TEXT: u64 = 0x1000;
/// First address of init text, which holds functions whose name begins with `init_`.
pub const INIT: u64 = 0x5000;
/// Readable and writable data.
pub const DATA: Range<u64> = 0x6000..0x8000;
/// First address of the function descriptors, on ISAs that have them.
pub const DESCRIPTORS: u64 = 0x7000;
/// The first task's stack. The others follow.
pub const STACKS: u64 = 0x8000;
/// Number of tasks with a stack.
pub const TASKS: u64 = 8;
/// The probe window.
pub const WINDOW: Range<u64> = 0x1_0000..0x1_8000;
/// Exception number of a page fault, as on x86.
pub const PAGE_FAULT: u32 = 14;
/// Exception number of a breakpoint, as on x86.
pub const BREAKPOINT: u32 = 3;

/// The reason why a CPU stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It executed a halt.
    Halted,
    /// It has executed the given number of steps.
    Steps,
    /// An exception would now be delivered to the guest.
    Exception {
        /// The number of the exception.
        trapnr: u32,
        /// The pc that the guest sees.
        pc: u64,
    },
}

/// One CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToyCpu {
    /// The registers by their numbers.
    pub registers: [u64; REGISTERS],
    /// The program counter.
    pub pc: u64,
    /// The key of its task.
    pub task: u64,
    /// Bytes of guest code executed.
    pub time: u64,
    /// The time of the next interrupt.
    pub interrupt_at: Option<u64>,
    /// The period at which interrupts repeat.
    pub interrupt_period: Option<u64>,
    /// Time and pc of each interrupt taken.
    pub interrupts: Vec<(u64, u64)>,
    /// Breakpoint traps that this CPU took.
    pub traps: u64,
    /// The last exception was raised in a delay slot.
    pub in_slot: bool,
    frozen: bool,
    /// A repeated instruction has begun and not finished.
    repeating: bool,
}

/// The kernel and its CPUs.
pub struct ToyGuest {
    isa: &'static Isa,
    memory: Vec<u8>,
    /// Memory that code can read and write.
    pub mapped: Vec<Range<u64>>,
    text: Vec<(Range<u64>, Text)>,
    symbols: Vec<Symbol>,
    /// The kernel's blacklist.
    pub blacklist: Vec<Blacklisted>,
    /// Locations that the kernel patches.
    pub sites: BTreeMap<u64, Site>,
    /// Start of a second window for init text, if init text has its own. The first window ends there.
    pub init_window: Option<u64>,
    /// For each window, by its end: the first address that was never allocated.
    window_next: BTreeMap<u64, u64>,
    /// Window memory that was given back.
    pub window_free: Vec<(u64, usize)>,
    /// The use of each written unit.
    pub window: BTreeMap<u64, WindowUse>,
    /// All CPUs, by number.
    pub cpus: Vec<ToyCpu>,
    /// Number of calls of `any_cpu_inside`.
    pub looks: Cell<usize>,
    /// Window addresses that collide in the jump cache.
    pub colliding: Vec<u64>,
    /// Called before (true) and after (false) each call into the engine.
    pub around: fn(bool),
}

impl ToyGuest {
    /// A kernel of these functions. Each CPU starts at the first function, in its own task.
    pub fn new(isa: &'static Isa, cpus: usize, functions: &[Function<'_>]) -> ToyGuest {
        let mut guest = ToyGuest {
            isa,
            memory: vec![0; WINDOW.end as usize],
            mapped: vec![DATA, STACKS..STACKS + TASKS * STACK],
            text: Vec::new(),
            symbols: Vec::new(),
            blacklist: Vec::new(),
            sites: BTreeMap::new(),
            init_window: None,
            window_next: BTreeMap::new(),
            window_free: Vec::new(),
            window: BTreeMap::new(),
            cpus: Vec::new(),
            looks: Cell::new(0),
            colliding: Vec::new(),
            around: |_| {},
        };
        guest.lay_out(functions);
        for number in 0..cpus {
            guest.cpus.push(ToyCpu {
                registers: [0; REGISTERS],
                pc: TEXT,
                task: 0,
                time: 0,
                interrupt_at: None,
                interrupt_period: None,
                interrupts: Vec::new(),
                traps: 0,
                in_slot: false,
                frozen: false,
                repeating: false,
            });
            guest.become_task(number, number as u64);
        }
        guest
    }

    fn lay_out(&mut self, functions: &[Function<'_>]) {
        let (mut core, mut init) = (TEXT, INIT);
        for (name, ops) in functions {
            let at = if name.starts_with("init_") { &mut init } else { &mut core };
            let size = ops.iter().map(|op| op.length()).sum::<u64>().next_multiple_of(16);
            let name = format!("{}{name}", self.isa.linux.code_prefix);
            self.symbols.push(Symbol { name, start: *at, size, module: None });
            *at += size;
        }
        self.make_descriptors();
        for (range, kind) in [(TEXT..core, Text::Core), (INIT..init, Text::Init)] {
            self.memory[range.start as usize..range.end as usize].fill(0x90);
            self.text.push((range, kind));
        }
        let starts: BTreeMap<String, u64> = self.symbols.iter().map(|symbol| (symbol.name.clone(), symbol.start)).collect();
        for (name, ops) in functions {
            let mut at = starts[&format!("{}{name}", self.isa.linux.code_prefix)];
            for op in *ops {
                let bytes = op.encode_in(self.isa.order, at, |target| {
                    starts.get(&format!("{}{target}", self.isa.linux.code_prefix)).copied().unwrap_or(DATA.start)
                });
                self.memory[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
                at += bytes.len() as u64;
            }
        }
    }

    /// On ISAs with descriptors, gives each function one in [`DESCRIPTORS`]: its code address, then its data pointer.
    fn make_descriptors(&mut self) {
        if !matches!(self.isa.abi.pointers, Pointers::Descriptor(_)) {
            return;
        }
        for (number, symbol) in (0..).zip(self.symbols.clone()) {
            let start = DESCRIPTORS + 16 * number;
            self.poke_word(start, symbol.start);
            self.poke_word(start + 8, DATA.start + 8 * number);
            let name = symbol.name.trim_start_matches('.').into();
            self.symbols.push(Symbol { name, start, size: 16, module: None });
        }
    }

    /// The address of a function's code.
    pub fn address(&self, name: &str) -> u64 {
        self.symbol(&format!("{}{name}", self.isa.linux.code_prefix)).map_or(0, |symbol| symbol.start)
    }

    /// Puts a task on a CPU, with an empty stack and interrupts enabled.
    pub fn become_task(&mut self, cpu: usize, task: u64) {
        let cpu = &mut self.cpus[cpu];
        cpu.registers[usize::from(SP.0)] = STACKS + (task % TASKS + 1) * STACK - 64;
        cpu.registers[usize::from(FLAGS.0)] = 1;
        cpu.task = 0x100 + task;
    }

    /// Starts a CPU at a function.
    pub fn start(&mut self, cpu: usize, function: &str) {
        self.cpus[cpu].pc = self.address(function);
    }

    /// Schedules an interrupt for a CPU at time `at`, repeated after each period.
    pub fn interrupt(&mut self, cpu: usize, at: u64, period: Option<u64>) {
        (self.cpus[cpu].interrupt_at, self.cpus[cpu].interrupt_period) = (Some(at), period);
    }

    /// Frees init text and overwrites it.
    pub fn free_init(&mut self) -> Range<u64> {
        let range = self.text.iter().find(|(_, kind)| *kind == Text::Init).map_or(0..0, |(range, _)| range.clone());
        self.text.retain(|(_, kind)| *kind != Text::Init);
        self.memory[range.start as usize..range.end as usize].fill(0x77);
        range
    }

    /// Makes the init memory text again, with these bytes.
    pub fn reuse_init(&mut self, bytes: &[u8]) {
        self.memory[INIT as usize..INIT as usize + bytes.len()].copy_from_slice(bytes);
        self.text.push((INIT..INIT + bytes.len() as u64, Text::Core));
    }

    /// All text as it is now, by address.
    pub fn text_bytes(&self) -> BTreeMap<u64, u8> {
        self.text.iter().flat_map(|(range, _)| range.clone()).map(|at| (at, self.memory[at as usize])).collect()
    }

    /// All memory except the probe window and the text.
    pub fn ram(&self) -> &[u8] {
        &self.memory[DATA.start as usize..WINDOW.start as usize]
    }

    /// Reads memory without access checks.
    pub fn peek(&self, address: u64, len: usize) -> &[u8] {
        &self.memory[address as usize..address as usize + len]
    }

    /// Writes memory without access checks.
    pub fn poke(&mut self, address: u64, bytes: &[u8]) {
        self.memory[address as usize..address as usize + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes a word without access checks.
    pub fn poke_word(&mut self, address: u64, value: u64) {
        let mut bytes = [0; 8];
        self.isa.order.put(value, &mut bytes);
        self.poke(address, &bytes);
    }

    /// A CPU as the engine sees it.
    pub fn cpu(&mut self, number: usize) -> ToyView<'_> {
        ToyView { guest: self, number }
    }
}

/// Whether an address lies in the probe window.
pub fn in_window(address: u64) -> bool {
    WINDOW.contains(&address)
}
