//! The CPU and the memory of a vector: registers with known values, and memory that notes each access.

use super::{Settings, mixed};
use std::collections::BTreeMap;
use trapline_isa::arch::Isa;
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers};

/// The registers in front of an instruction.
pub(super) struct Given {
    /// Name, number and value.
    pub registers: Vec<(&'static str, Reg, u64)>,
    order: ByteOrder,
    seed: u64,
}

impl Given {
    /// Values for a seed: pointers to data, small numbers, and any numbers.
    pub fn new(isa: &'static Isa, settings: &Settings, seed: u64) -> Given {
        let mask = u64::MAX >> (64 - 8 * isa.word);
        let value = |number: usize, name: &str, reg: Reg| {
            let drawn = mixed(seed.wrapping_add(17), number as u64);
            if let Some((_, varies, fixed)) = isa.rows.flags.iter().find(|(flags, ..)| *flags == name) {
                return drawn & varies | fixed;
            }
            if reg == isa.abi.sp {
                return settings.data.wrapping_add(0x800);
            }
            match drawn >> 60 {
                0..8 => settings.data.wrapping_add(drawn & 0x7f8),
                8..12 => drawn & 0x3f,
                _ => drawn & mask,
            }
        };
        let mut registers: Vec<(&'static str, Reg, u64)> = Vec::new();
        for (number, (name, reg)) in isa.abi.names.iter().chain(isa.abi.hidden).enumerate() {
            // Some registers have two names, and the registers of SPARC's other windows have one together.
            if !registers.iter().any(|(known, of, _)| known == name || of == reg) {
                registers.push((name, *reg, value(number, name, *reg)));
            }
        }
        Given { registers, order: isa.order, seed }
    }

    /// The CPU in front of an instruction, and memory without a past.
    pub fn start(&self, pc: u64) -> (State, Recorded) {
        let registers = self.registers.iter().map(|(_, reg, value)| (*reg, *value)).collect();
        let memory = Recorded { order: self.order, seed: self.seed, read: Vec::new(), written: Vec::new() };
        (State { registers, pc }, memory)
    }

    /// The registers whose values have changed.
    pub fn changed<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (&'static str, u64)> + 'a {
        let now = self.registers.iter().map(|(name, reg, before)| (*name, *before, state.get(*reg)));
        now.filter(|(_, before, now)| before != now).map(|(name, _, now)| (name, now))
    }
}

/// A CPU.
pub(super) struct State {
    registers: BTreeMap<Reg, u64>,
    pc: u64,
}

impl Registers for State {
    fn get(&self, reg: Reg) -> u64 {
        self.registers.get(&reg).copied().unwrap_or(0)
    }
    fn set(&mut self, reg: Reg, value: u64) {
        self.registers.insert(reg, value);
    }
    fn pc(&self) -> u64 {
        self.pc
    }
    fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }
}

/// Memory with a number for each address, which notes all accesses.
pub(super) struct Recorded {
    order: ByteOrder,
    seed: u64,
    /// The bytes that were read before they were written, by address.
    pub read: Vec<(u64, Vec<u8>)>,
    /// The bytes that were written, by address.
    pub written: Vec<(u64, Vec<u8>)>,
}

impl Memory for Recorded {
    fn order(&self) -> ByteOrder {
        self.order
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (at, byte) in (address..).zip(into.iter_mut()) {
            let written = self.written.iter().rev().find_map(|(start, bytes)| bytes.get(at.wrapping_sub(*start) as usize));
            *byte = written.copied().unwrap_or((mixed(self.seed, at) >> 24) as u8);
        }
        self.read.push((address, into.to_vec()));
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.written.push((address, bytes.to_vec()));
        Ok(())
    }
}
