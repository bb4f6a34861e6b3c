//! A stopped CPU of the toy, as the engine and handlers see it.

use super::ToyGuest;
use crate::guest::{Cpu, Guest};
use crate::toy::isa::FLAGS;
use core::ops::Range;
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers};

/// A CPU of the toy, stopped.
pub struct ToyView<'a> {
    pub(super) guest: &'a mut ToyGuest,
    pub(super) number: usize,
}

impl ToyView<'_> {
    fn reach(&self, address: u64, len: usize, write: bool) -> Result<Range<usize>, Fault> {
        let end = address.wrapping_add(len as u64);
        let inside = |range: &Range<u64>| range.contains(&address) && end <= range.end;
        let readable = !write && self.guest.text.iter().any(|(range, _)| inside(range));
        if readable || self.guest.mapped.iter().any(inside) {
            Ok(address as usize..end as usize)
        } else {
            Err(Fault { address, write })
        }
    }
}

impl Registers for ToyView<'_> {
    fn get(&self, reg: Reg) -> u64 {
        self.guest.cpus[self.number].registers.get(usize::from(reg.0)).copied().unwrap_or(0)
    }
    fn set(&mut self, reg: Reg, value: u64) {
        if let Some(register) = self.guest.cpus[self.number].registers.get_mut(usize::from(reg.0)) {
            *register = value;
        }
    }
    fn pc(&self) -> u64 {
        self.guest.cpus[self.number].pc
    }
    fn set_pc(&mut self, pc: u64) {
        self.guest.cpus[self.number].pc = pc;
    }
}

impl Memory for ToyView<'_> {
    fn order(&self) -> ByteOrder {
        self.guest.isa.order
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let range = self.reach(address, into.len(), false)?;
        into.copy_from_slice(&self.guest.memory[range]);
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let range = self.reach(address, bytes.len(), true)?;
        self.guest.memory[range].copy_from_slice(bytes);
        Ok(())
    }
}

impl Cpu for ToyView<'_> {
    fn number(&self) -> usize {
        self.number
    }
    fn task(&mut self) -> u64 {
        self.guest.cpus[self.number].task
    }
    fn pid(&mut self) -> u32 {
        self.guest.cpus[self.number].task as u32
    }
    fn comm(&mut self) -> [u8; 16] {
        *b"toy\0\0\0\0\0\0\0\0\0\0\0\0\0"
    }
    fn now(&self) -> u64 {
        self.guest.cpus[self.number].time
    }
    fn stopped_in_delay_slot(&mut self, _: u64) {
        self.guest.cpus[self.number].in_slot = true;
    }
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.guest.patch_text(address, bytes)
    }
    fn interrupts_off(&self) -> bool {
        self.get(FLAGS) & 1 == 0
    }
}
