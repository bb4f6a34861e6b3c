//! The toy kernel in memory and the CPUs that run it. It implements [`Guest`] and [`crate::guest::Cpu`] in the simplest
//! way.
//!
//! Time is the number of bytes of guest code executed. Interrupts are taken before any instruction of guest text, and
//! in the window only between the iterations of a repeated instruction. So a probed run takes them at the same
//! addresses and times as an unprobed one, if the engine is right.

mod view;

pub use view::ToyView;

use super::isa::{self, Effect, FLAGS, REGISTERS, SP, STACK};
use super::program::Function;
use crate::engine::Engine;
use crate::guest::{Answer, Blacklisted, Guest, Site, Symbol, Text, WINDOW_UNIT, WindowUse};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::entry::Pointers;
use trapline_isa::insn::Insn;
use trapline_isa::mem::Fault;
use trapline_isa::regs::{Reg, Registers};

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

/// The function that interrupts call.
const INTERRUPT_HANDLER: &str = "irq_handler";

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

    /// Runs a CPU until it stops.
    pub fn run(&mut self, engine: &mut Engine, cpu: usize) -> Stop {
        self.run_steps(engine, cpu, 1_000_000)
    }

    /// Runs a CPU for at most `steps` steps. An instruction, a trap and an interrupt are one step each.
    pub fn run_steps(&mut self, engine: &mut Engine, cpu: usize, steps: usize) -> Stop {
        for _ in 0..steps {
            if let Some(stop) = self.step(engine, cpu) {
                return stop;
            }
        }
        Stop::Steps
    }

    /// Runs a CPU until `there` accepts its pc. Returns false if it stops before.
    pub fn run_to(&mut self, engine: &mut Engine, cpu: usize, there: impl Fn(u64) -> bool) -> bool {
        for _ in 0..10_000 {
            if there(self.cpus[cpu].pc) {
                return true;
            }
            if self.step(engine, cpu).is_some() {
                return false;
            }
        }
        false
    }

    /// Takes a due interrupt, or executes one instruction.
    fn step(&mut self, engine: &mut Engine, number: usize) -> Option<Stop> {
        if self.take_interrupt(engine, number) {
            return None;
        }
        let pc = self.cpus[number].pc;
        if let Some(WindowUse::Detour { origin, jump, point, .. }) = self.window.get(&pc).copied() {
            self.jump_in(engine, number, origin, jump, point);
        }
        let decoded = self.fetch(pc);
        let Some(insn) = decoded else { return Some(Stop::Exception { trapnr: PAGE_FAULT, pc }) };
        if insn.bytes()[0] == isa::BREAK {
            return self.breakpoint(engine, number);
        }
        let return_address = self.isa.abi.return_address;
        // Registers and memory of one CPU must be two objects here.
        let mut state = State(self.cpus[number].clone());
        let outcome = isa::execute(insn.bytes(), pc, &mut state, &mut self.cpu(number), return_address);
        let repeating = outcome == Ok(Effect::Again);
        match outcome {
            Err(_) => {
                self.cpus[number].in_slot = isa::has_slot(insn.bytes());
                return self.exception(engine, number, PAGE_FAULT);
            }
            Ok(Effect::Trap(trapnr)) => return self.exception(engine, number, trapnr),
            Ok(Effect::Halt) => return Some(Stop::Halted),
            Ok(Effect::Done | Effect::Again) => {}
        }
        let counted = self.counted(pc, insn.length());
        let cpu = &mut self.cpus[number];
        (cpu.registers, cpu.pc, cpu.repeating) = (state.0.registers, state.0.pc, repeating);
        cpu.time += if cpu.frozen { 0 } else { counted };
        None
    }

    fn fetch(&self, pc: u64) -> Option<Insn> {
        if !in_window(pc) && self.text_kind(pc).is_none() {
            return None;
        }
        (self.isa.decode)(pc, self.memory.get(pc as usize..)?).ok()
    }

    /// The bytes that an instruction counts. In the window only the displaced instruction counts.
    fn counted(&self, pc: u64, length: u64) -> u64 {
        let unit = pc - pc % WINDOW_UNIT as u64;
        match self.window.get(&unit).filter(|_| in_window(pc)) {
            None => length,
            Some(WindowUse::Copy { displaced, .. }) if pc == unit => u64::from(*displaced),
            Some(WindowUse::Detour { displaced, lead, .. }) => {
                let copies = unit + u64::from(*lead)..unit + u64::from(*lead + *displaced);
                if copies.contains(&pc) { length } else { 0 }
            }
            Some(_) => 0,
        }
    }

    /// A jump has led to a detour. The displaced instructions count there, so take back what the jump counted.
    fn jump_in(&mut self, engine: &mut Engine, number: usize, origin: u64, jump: u8, point: u32) {
        let cpu = &mut self.cpus[number];
        let detour = core::mem::replace(&mut cpu.pc, origin);
        cpu.time -= if cpu.frozen { 0 } else { u64::from(jump) };
        let around = self.around;
        let mut view = self.cpu(number);
        around(true);
        let is_simple =
            !engine.is_busy(number) && (engine.jumped_in_simply(&mut view, point) || engine.entered_simply(&mut view, point));
        if !is_simple {
            engine.jumped_in(&mut view, point);
        }
        around(false);
        self.cpus[number].pc = detour;
    }

    fn breakpoint(&mut self, engine: &mut Engine, number: usize) -> Option<Stop> {
        self.cpus[number].traps += 1;
        let around = self.around;
        let mut view = self.cpu(number);
        around(true);
        let answer = engine.breakpoint(&mut view);
        around(false);
        self.apply_answer(number, answer, BREAKPOINT)
    }

    fn exception(&mut self, engine: &mut Engine, number: usize, trapnr: u32) -> Option<Stop> {
        let around = self.around;
        let frozen = self.cpus[number].frozen;
        if !in_window(self.cpus[number].pc) && !frozen {
            return Some(Stop::Exception { trapnr, pc: self.cpus[number].pc });
        }
        let mut view = self.cpu(number);
        around(true);
        let answer = engine.fault(&mut view, trapnr);
        around(false);
        self.apply_answer(number, answer, trapnr)
    }

    /// Applies the engine's answer to a trap. Returns a stop if the exception is the guest's own.
    fn apply_answer(&mut self, number: usize, answer: Answer, trapnr: u32) -> Option<Stop> {
        let cpu = &mut self.cpus[number];
        cpu.repeating = false;
        match answer {
            Answer::NotOurs => Some(Stop::Exception { trapnr, pc: cpu.pc }),
            Answer::Resume(resume) => {
                cpu.time += u64::from(resume.counted);
                cpu.frozen = resume.frozen;
                None
            }
        }
    }

    fn take_interrupt(&mut self, engine: &mut Engine, number: usize) -> bool {
        let cpu = &self.cpus[number];
        let is_due = cpu.interrupt_at.is_some_and(|at| cpu.time >= at) && cpu.registers[usize::from(FLAGS.0)] & 1 != 0;
        let is_place = !cpu.frozen && (!in_window(cpu.pc) || cpu.repeating);
        if !is_due || !is_place {
            return false;
        }
        let handler = self.address(INTERRUPT_HANDLER);
        if handler == 0 {
            return false;
        }
        if in_window(cpu.pc) {
            let around = self.around;
            let mut view = self.cpu(number);
            around(true);
            engine.interrupted(&mut view);
            around(false);
        }
        let cpu = &mut self.cpus[number];
        cpu.interrupts.push((cpu.time, cpu.pc));
        cpu.interrupt_at = cpu.interrupt_period.map(|period| cpu.time + period);
        cpu.repeating = false;
        let (pc, flags, sp) = (cpu.pc, cpu.registers[usize::from(FLAGS.0)], cpu.registers[usize::from(SP.0)] - 16);
        cpu.registers[usize::from(SP.0)] = sp;
        cpu.registers[usize::from(FLAGS.0)] = 0;
        cpu.pc = handler;
        self.poke_word(sp, flags);
        self.poke_word(sp + 8, pc);
        true
    }
}

/// Whether an address lies in the probe window.
pub fn in_window(address: u64) -> bool {
    WINDOW.contains(&address)
}

/// A copy of a CPU's registers, so that an instruction can run while the guest's memory is borrowed.
struct State(ToyCpu);

impl Registers for State {
    fn get(&self, reg: Reg) -> u64 {
        self.0.registers.get(usize::from(reg.0)).copied().unwrap_or(0)
    }
    fn set(&mut self, reg: Reg, value: u64) {
        if let Some(register) = self.0.registers.get_mut(usize::from(reg.0)) {
            *register = value;
        }
    }
    fn pc(&self) -> u64 {
        self.0.pc
    }
    fn set_pc(&mut self, pc: u64) {
        self.0.pc = pc;
    }
}

impl Guest for ToyGuest {
    fn isa(&self) -> &'static Isa {
        self.isa
    }
    fn cpus(&self) -> usize {
        self.cpus.len()
    }
    fn symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols.iter().find(|symbol| symbol.name == name).cloned()
    }
    fn symbols_named(&self, name: &str) -> usize {
        self.symbols.iter().filter(|symbol| symbol.name == name).count()
    }
    fn addresses_named(&self, name: &str) -> Vec<u64> {
        self.symbols.iter().filter(|symbol| symbol.name == name).map(|symbol| symbol.start).collect()
    }
    fn symbol_at(&self, address: u64) -> Option<Symbol> {
        let data = Symbol { name: "data".into(), start: DATA.start, size: DATA.end - DATA.start, module: None };
        let covers = |symbol: &&Symbol| (symbol.start..symbol.start + symbol.size).contains(&address);
        self.symbols.iter().chain([&data]).find(covers).cloned()
    }
    fn similar_names(&self, name: &str) -> Vec<String> {
        let near = |symbol: &&Symbol| symbol.name.len() == name.len() && symbol.name.get(..3) == name.get(..3);
        self.symbols.iter().filter(near).map(|symbol| symbol.name.clone()).collect()
    }
    fn text_kind(&self, address: u64) -> Option<Text> {
        self.text.iter().find(|(range, _)| range.contains(&address)).map(|(_, kind)| *kind)
    }
    fn site_at(&self, address: u64) -> Option<Site> {
        self.sites.get(&address).copied()
    }
    fn is_traced(&self, function: Range<u64>) -> Option<bool> {
        let mut sites = self.sites.iter().filter(|(_, site)| **site == Site::Ftrace).map(|(at, _)| *at).peekable();
        sites.peek()?;
        Some(sites.any(|at| function.contains(&at)))
    }
    fn blacklist(&self) -> &[Blacklisted] {
        &self.blacklist
    }
    fn read_text(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (at, byte) in (address..).zip(into) {
            *byte = *self.memory.get(at as usize).ok_or(Fault { address: at, write: false })?;
        }
        Ok(())
    }
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if self.text_kind(address).is_none() {
            return Err(Fault { address, write: true });
        }
        self.poke(address, bytes);
        Ok(())
    }
    fn window_take(&mut self, near: u64, len: usize) -> Option<u64> {
        let window = match self.init_window {
            Some(start) if near >= INIT => start..WINDOW.end,
            end => WINDOW.start..end.unwrap_or(WINDOW.end),
        };
        if let Some(free) = self.window_free.iter().position(|(at, free)| *free == len && window.contains(at)) {
            return Some(self.window_free.swap_remove(free).0);
        }
        let next = self.window_next.entry(window.end).or_insert(window.start);
        let at = *next;
        *next += len as u64;
        (*next <= window.end).then_some(at)
    }
    fn window_give(&mut self, at: u64, len: usize) {
        self.window.retain(|unit, _| !(at..at + len as u64).contains(unit));
        self.window_free.push((at, len));
    }
    fn window_write(&mut self, at: u64, bytes: &[u8], stands_for: WindowUse) {
        self.poke(at, bytes);
        self.window.insert(at, stands_for);
    }
    fn pcs_collide(&self, one: u64, _: u64) -> bool {
        self.colliding.contains(&one)
    }
    fn any_cpu_inside(&self, range: Range<u64>) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.cpus.iter().any(|cpu| range.contains(&cpu.pc))
    }
    fn remembers_addresses(&self, ranges: &[Range<u64>]) -> Vec<bool> {
        let words: Vec<u64> = self.ram().chunks_exact(8).map(|word| self.isa.order.number(word)).collect();
        ranges.iter().map(|range| words.iter().any(|word| range.contains(word))).collect()
    }
}
