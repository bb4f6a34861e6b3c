//! [`RunningProgram`]: the CPU as handlers of user probes see it. Memory accesses go to the program's address space, and
//! nothing can be changed.

use crate::guest::Cpu;
use crate::records::Flags;
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers};

/// A CPU that runs a program. Handlers read the program's registers and memory, and change nothing.
pub struct RunningProgram<'a, C: Cpu>(pub &'a mut C);

impl<C: Cpu> RunningProgram<'_, C> {
    /// A number of this size, at most 8 bytes, at an address of the program.
    pub fn number_at(&mut self, address: u64, size: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..size.min(8)];
        self.0.read_user(address, bytes).ok()?;
        Some(self.0.order().number(bytes))
    }
}

impl<C: Cpu> Registers for RunningProgram<'_, C> {
    #[inline]
    fn get(&self, reg: Reg) -> u64 {
        self.0.get(reg)
    }
    fn set(&mut self, _: Reg, _: u64) {}
    fn get_all(&self, names: &[(&str, Reg)], values: &mut [u64]) {
        self.0.get_all(names, values);
    }
    fn put_back(&mut self, _: &[(&str, Reg)], _: &[u64]) {}
    #[inline]
    fn pc(&self) -> u64 {
        self.0.pc()
    }
    fn set_pc(&mut self, _: u64) {}
}

impl<C: Cpu> Memory for RunningProgram<'_, C> {
    fn order(&self) -> ByteOrder {
        self.0.order()
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.0.read_user(address, into)
    }
    fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Fault> {
        Err(Fault { address, write: true })
    }
}

impl<C: Cpu> Cpu for RunningProgram<'_, C> {
    fn number(&self) -> usize {
        self.0.number()
    }
    fn task(&mut self) -> u64 {
        self.0.task()
    }
    fn pid(&mut self) -> u32 {
        self.0.pid()
    }
    fn process(&mut self) -> u32 {
        self.0.process()
    }
    fn comm(&mut self) -> [u8; 16] {
        self.0.comm()
    }
    fn now(&self) -> u64 {
        self.0.now()
    }
    fn interrupts_off(&self) -> bool {
        false
    }
    fn trace_flags(&mut self) -> Flags {
        Flags::NONE
    }
    fn narrow_word(&self) -> Option<usize> {
        self.0.narrow_word()
    }
    fn mapping_at(&mut self, address: u64) -> Option<u16> {
        self.0.mapping_at(address)
    }
    fn runs_program(&self) -> bool {
        true
    }
    fn is_stepped(&self) -> bool {
        self.0.is_stepped()
    }
    fn read_user(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.0.read_user(address, into)
    }
    fn look_soon(&mut self) {
        self.0.look_soon();
    }
}
