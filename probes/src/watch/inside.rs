//! [`Inside`]: the CPU as handlers of watchpoints see it, in the middle of a block of translated code.

use crate::forward::{memory_of_the_cpu, rest_of_the_cpu};
use crate::guest::Cpu;
use trapline_isa::mem::Memory;
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
    memory_of_the_cpu!();
}

/// Text is not changed in the middle of a block.
impl<C: Cpu> Cpu for Inside<'_, C> {
    fn now(&self) -> u64 {
        self.time
    }
    rest_of_the_cpu!();
}
