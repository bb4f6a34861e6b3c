//! The made-up kernel: a page of x86-64 text with two functions, a page of executable memory for the engine (the probe
//! window), a stack, and one CPU that stands where the example puts it.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use trapline_isa::arch::{Arch, Isa};
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers};
use trapline_probes::guest::{Blacklisted, Cpu, Guest, Site, Symbol, Text, WindowUse};

/// Start of all memory. Text comes first, then the window, then the stack.
const BASE: u64 = 0x10_0000;
const PAGE: u64 = 0x1000;
const WINDOW: Range<u64> = BASE + PAGE..BASE + 2 * PAGE;
const STACK_TOP: u64 = BASE + 3 * PAGE;
/// The address of the function `work`.
pub const WORK: u64 = BASE;
/// The address of the function `idle`.
const IDLE: u64 = BASE + 0x40;

/// A kernel in memory, stopped.
pub struct Kernel {
    memory: Vec<u8>,
    registers: [u64; 64],
    pc: u64,
    /// The first address of the window that was not handed out yet.
    free: u64,
}

impl Kernel {
    /// The kernel as its boot loader leaves it.
    pub fn new() -> Kernel {
        let mut memory = vec![0x90; 3 * PAGE as usize];
        // work: push rbp; mov rbp, rsp; lea rax, [rdi + 1]; pop rbp; ret
        let work = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x47, 0x01, 0x5d, 0xc3];
        memory[..work.len()].copy_from_slice(&work);
        // idle: hlt; ret
        memory[(IDLE - BASE) as usize..][..2].copy_from_slice(&[0xf4, 0xc3]);
        Kernel { memory, registers: [0; 64], pc: IDLE, free: WINDOW.start }
    }

    /// A byte of its memory.
    pub fn byte(&self, address: u64) -> u8 {
        self.place(address, 1, false).map_or(0, |place| self.memory[place.start])
    }

    fn place(&self, address: u64, length: usize, write: bool) -> Result<Range<usize>, Fault> {
        let fault = Fault { address, write };
        let start = address.checked_sub(BASE).ok_or(fault)? as usize;
        let end = start.checked_add(length).filter(|end| *end <= self.memory.len()).ok_or(fault)?;
        Ok(start..end)
    }

    fn symbols(&self) -> [(&'static str, u64, u64); 2] {
        [("work", WORK, IDLE - WORK), ("idle", IDLE, BASE + PAGE - IDLE)]
    }
}

fn named((name, start, size): (&str, u64, u64)) -> Symbol {
    Symbol { name: name.into(), start, size, module: None }
}

impl Guest for Kernel {
    fn isa(&self) -> &'static Isa {
        Arch::X86_64.isa()
    }
    fn cpus(&self) -> usize {
        1
    }
    fn symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols().into_iter().find(|(is, ..)| *is == name).map(named)
    }
    fn symbols_named(&self, name: &str) -> usize {
        self.symbols().iter().filter(|(is, ..)| *is == name).count()
    }
    fn symbol_at(&self, address: u64) -> Option<Symbol> {
        self.symbols().into_iter().find(|(_, start, size)| (*start..*start + *size).contains(&address)).map(named)
    }
    fn similar_names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn text_kind(&self, address: u64) -> Option<Text> {
        (BASE..BASE + PAGE).contains(&address).then_some(Text::Core)
    }
    fn site_at(&self, _: u64) -> Option<Site> {
        None
    }
    fn blacklist(&self) -> &[Blacklisted] {
        &[]
    }
    fn read_text(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(&self.memory[self.place(address, into.len(), false)?]);
        Ok(())
    }
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let place = self.place(address, bytes.len(), true)?;
        self.memory[place].copy_from_slice(bytes);
        Ok(())
    }
    fn window_take(&mut self, _: u64, length: usize) -> Option<u64> {
        let at = self.free;
        self.free = at.checked_add(length as u64).filter(|end| *end <= WINDOW.end)?;
        Some(at)
    }
    fn window_give(&mut self, _: u64, _: usize) {
        // This kernel is too short-lived to use a piece of its window twice.
    }
    fn window_write(&mut self, at: u64, bytes: &[u8], _: WindowUse) {
        // A machine with a clock would note the use: the copied instruction counts, the jump behind it does not.
        let _ = self.patch_text(at, bytes);
    }
    fn any_cpu_inside(&self, range: Range<u64>) -> bool {
        range.contains(&self.pc)
    }
}

/// The kernel's CPU, stopped between two instructions.
pub struct StoppedCpu<'a>(&'a mut Kernel);

impl StoppedCpu<'_> {
    /// The CPU at the entry of a function that was called with one argument.
    pub fn about_to_call(kernel: &mut Kernel, function: u64, argument: u64) -> StoppedCpu<'_> {
        let abi = &kernel.isa().abi;
        let sp = STACK_TOP - 8;
        kernel.registers[usize::from(abi.sp.0) % 64] = sp;
        if let Some(first) = abi.arguments.first() {
            kernel.registers[usize::from(first.0) % 64] = argument;
        }
        kernel.pc = function;
        let mut cpu = StoppedCpu(kernel);
        // The stack is mapped, so the return address can be pushed.
        let _ = cpu.write(sp, &IDLE.to_le_bytes());
        cpu
    }
}

impl Registers for StoppedCpu<'_> {
    fn get(&self, register: Reg) -> u64 {
        self.0.registers.get(usize::from(register.0)).copied().unwrap_or(0)
    }
    fn set(&mut self, register: Reg, value: u64) {
        if let Some(place) = self.0.registers.get_mut(usize::from(register.0)) {
            *place = value;
        }
    }
    fn pc(&self) -> u64 {
        self.0.pc
    }
    fn set_pc(&mut self, pc: u64) {
        self.0.pc = pc;
    }
}

impl Memory for StoppedCpu<'_> {
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.0.read_text(address, into)
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.0.patch_text(address, bytes)
    }
}

impl Cpu for StoppedCpu<'_> {
    fn number(&self) -> usize {
        0
    }
    fn task(&mut self) -> u64 {
        1
    }
    fn pid(&mut self) -> u32 {
        1
    }
    fn comm(&mut self) -> [u8; 16] {
        *b"init\0\0\0\0\0\0\0\0\0\0\0\0"
    }
    fn now(&self) -> u64 {
        0
    }
    fn interrupts_off(&self) -> bool {
        false
    }
}
