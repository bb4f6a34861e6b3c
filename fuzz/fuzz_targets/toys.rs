//! Registers and memory for the emulation of instructions, filled from the fuzzer's input. Some accesses fault.

use std::collections::HashMap;
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers};

/// Registers filled from the input.
#[derive(Clone, Debug, PartialEq)]
pub struct ToyRegisters {
    /// Values by register number.
    pub values: [u64; 128],
    /// The pc.
    pub pc: u64,
}

impl ToyRegisters {
    pub fn new(seed: &[u8], pc: u64) -> Self {
        let word = |n: usize| {
            let byte = |k: usize| seed.get((n * 8 + k) % seed.len().max(1)).copied().unwrap_or(0x5a ^ n as u8);
            u64::from_le_bytes(core::array::from_fn(byte))
        };
        ToyRegisters { values: core::array::from_fn(word), pc }
    }
}

impl Registers for ToyRegisters {
    fn get(&self, reg: Reg) -> u64 {
        self.values.get(usize::from(reg.0)).copied().unwrap_or(0)
    }
    fn set(&mut self, reg: Reg, value: u64) {
        if let Some(register) = self.values.get_mut(usize::from(reg.0)) {
            *register = value;
        }
    }
    fn pc(&self) -> u64 {
        self.pc
    }
    fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }
}

/// Memory with defined contents everywhere. The input decides which pages are missing or read-only.
pub struct ToyMemory {
    written: HashMap<u64, u8>,
    holes: u8,
}

impl ToyMemory {
    pub fn new(seed: &[u8]) -> Self {
        ToyMemory { written: HashMap::new(), holes: seed.last().copied().unwrap_or(0) }
    }

    pub fn is_untouched(&self) -> bool {
        self.written.is_empty()
    }

    /// The contents of a word, regardless of holes.
    #[allow(dead_code)] // not every target uses it
    pub fn word(&self, address: u64, size: usize) -> u64 {
        (0..size as u64).fold(0, |word, k| word | u64::from(self.byte(address.wrapping_add(k))) << (8 * k))
    }

    fn byte(&self, address: u64) -> u8 {
        self.written.get(&address).copied().unwrap_or((address ^ (address >> 8) ^ 0xa5) as u8)
    }

    /// Each page belongs to one bit in each half of `holes`. A set bit in the low half makes it missing, in the high
    /// half read-only.
    fn check(&self, address: u64, len: usize, write: bool) -> Result<(), Fault> {
        let missing = |at: u64| {
            let bit = 1 << ((at >> 12) % 4);
            self.holes & bit != 0 || (write && self.holes >> 4 & bit != 0)
        };
        match (0..len as u64).map(|k| address.wrapping_add(k)).find(|at| missing(*at)) {
            Some(address) => Err(Fault { address, write }),
            None => Ok(()),
        }
    }
}

impl Memory for ToyMemory {
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.check(address, into.len(), false)?;
        for (k, byte) in into.iter_mut().enumerate() {
            *byte = self.byte(address.wrapping_add(k as u64));
        }
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.check(address, bytes.len(), true)?;
        for (k, byte) in bytes.iter().enumerate() {
            self.written.insert(address.wrapping_add(k as u64), *byte);
        }
        Ok(())
    }
}
