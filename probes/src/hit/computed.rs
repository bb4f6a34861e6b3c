//! Runs an instruction's emulation (`Isa::emulate`) on a stopped CPU.

use crate::guest::Cpu;
use crate::point::Point;
use crate::watch::{Computed, Recorder};
use core::cell::RefCell;
use trapline_isa::arch::{Emulation, Isa};
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::plan::Then;
use trapline_isa::regs::{Reg, Registers};

/// Computes the point's instruction. If it would fault, nothing has changed.
pub(super) fn emulate(isa: &Isa, what: &Emulation, point: &Point, cpu: &mut dyn Cpu) -> Result<Then, Fault> {
    let halves = RefCell::new(cpu);
    (isa.emulate)(what, &point.insn, &mut Half(&halves), &mut Half(&halves))
}

/// Like [`emulate`], and records the accesses to memory.
#[cold]
pub(super) fn emulate_recorded(
    isa: &Isa,
    what: &Emulation,
    point: &Point,
    cpu: &mut dyn Cpu,
    computed: &mut Computed,
) -> Result<Then, Fault> {
    let halves = RefCell::new(cpu);
    (isa.emulate)(what, &point.insn, &mut Half(&halves), &mut Recorder { memory: Half(&halves), computed })
}

/// Splits one CPU into registers and memory, because emulation functions take both as separate `&mut`.
struct Half<'a, 'b>(&'a RefCell<&'b mut dyn Cpu>);

impl Registers for Half<'_, '_> {
    fn get(&self, reg: Reg) -> u64 {
        self.0.borrow().get(reg)
    }
    fn set(&mut self, reg: Reg, value: u64) {
        self.0.borrow_mut().set(reg, value);
    }
    fn pc(&self) -> u64 {
        self.0.borrow().pc()
    }
    fn set_pc(&mut self, pc: u64) {
        self.0.borrow_mut().set_pc(pc);
    }
}

impl Memory for Half<'_, '_> {
    fn order(&self) -> ByteOrder {
        self.0.borrow().order()
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.0.borrow_mut().read(address, into)
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.0.borrow_mut().write(address, bytes)
    }
    fn read_number(&mut self, address: u64, size: usize) -> Result<u64, Fault> {
        self.0.borrow_mut().read_number(address, size)
    }
    fn write_number(&mut self, address: u64, value: u64, size: usize) -> Result<(), Fault> {
        self.0.borrow_mut().write_number(address, value, size)
    }
}
