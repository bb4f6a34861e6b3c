//! The CPU in the middle of a block, as handlers of watchpoints see it.

use crate::guest::Cpu;
use crate::records::Flags;
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers};

/// A CPU whose registers cannot be set, at an exact time: the clock of the CPU itself is that of its whole block.
pub(super) struct Inside<'a, C> {
    cpu: &'a mut C,
    time: u64,
}

impl<'a, C: Cpu> Inside<'a, C> {
    pub fn new(cpu: &'a mut C, time: u64) -> Inside<'a, C> {
        Inside { cpu, time }
    }
}

impl<C: Cpu> Registers for Inside<'_, C> {
    fn get(&self, reg: Reg) -> u64 {
        self.cpu.get(reg)
    }
    fn set(&mut self, _: Reg, _: u64) {}
    fn get_all(&self, names: &[(&str, Reg)], values: &mut [u64]) {
        self.cpu.get_all(names, values);
    }
    fn put_back(&mut self, _: &[(&str, Reg)], _: &[u64]) {}
    fn pc(&self) -> u64 {
        self.cpu.pc()
    }
    fn set_pc(&mut self, _: u64) {}
}

impl<C: Cpu> Memory for Inside<'_, C> {
    fn order(&self) -> ByteOrder {
        self.cpu.order()
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.cpu.read(address, into)
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.cpu.write(address, bytes)
    }
    fn read_number(&mut self, address: u64, size: usize) -> Result<u64, Fault> {
        self.cpu.read_number(address, size)
    }
    fn write_number(&mut self, address: u64, value: u64, size: usize) -> Result<(), Fault> {
        self.cpu.write_number(address, value, size)
    }
}

impl<C: Cpu> Cpu for Inside<'_, C> {
    fn number(&self) -> usize {
        self.cpu.number()
    }
    fn task(&mut self) -> u64 {
        self.cpu.task()
    }
    fn pid(&mut self) -> u32 {
        self.cpu.pid()
    }
    fn process(&mut self) -> u32 {
        self.cpu.process()
    }
    fn comm(&mut self) -> [u8; 16] {
        self.cpu.comm()
    }
    fn now(&self) -> u64 {
        self.time
    }
    fn interrupts_off(&self) -> bool {
        self.cpu.interrupts_off()
    }
    fn trace_flags(&mut self) -> Flags {
        self.cpu.trace_flags()
    }
    fn stack_word(&mut self, address: u64, size: usize) -> Option<u64> {
        self.cpu.stack_word(address, size)
    }
    fn read_user(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.cpu.read_user(address, into)
    }
    fn preemptions(&mut self) -> Option<(u64, usize)> {
        self.cpu.preemptions()
    }
    fn per_cpu(&mut self) -> Option<u64> {
        self.cpu.per_cpu()
    }
    fn physical_of(&mut self, address: u64) -> Option<u64> {
        self.cpu.physical_of(address)
    }
    fn look_soon(&mut self) {
        self.cpu.look_soon();
    }
}
