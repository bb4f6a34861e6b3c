//! A CPU state for tests: registers with any values, and memory that always faults. The crate's unit tests use it too.

use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers};

/// A CPU with `N` registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toy<const REGISTERS: usize> {
    pub regs: [u64; REGISTERS],
    pub pc: u64,
}

impl<const REGISTERS: usize> Registers for Toy<REGISTERS> {
    fn get(&self, reg: Reg) -> u64 {
        self.regs[usize::from(reg.0)]
    }
    fn set(&mut self, reg: Reg, value: u64) {
        self.regs[usize::from(reg.0)] = value;
    }
    fn pc(&self) -> u64 {
        self.pc
    }
    fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }
}

/// Memory on which every access faults.
pub struct NoMemory(pub ByteOrder);

impl Memory for NoMemory {
    fn order(&self) -> ByteOrder {
        self.0
    }
    fn read(&mut self, address: u64, _: &mut [u8]) -> Result<(), Fault> {
        Err(Fault { address, write: false })
    }
    fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Fault> {
        Err(Fault { address, write: true })
    }
}
