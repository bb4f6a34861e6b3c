//! The record of a tracepoint hit, and the arguments of the tracepoint's functions, as handlers see them.
//!
//! An engine has one [`TracepointRecord`]. A run through the tracepoint's code fills it, and it is empty again when the
//! handlers have run. All memory is allocated when the first tracepoint is watched.

use crate::guest::Cpu;
use alloc::vec::Vec;
use trapline_isa::arch::Isa;
use trapline_isa::call::{self, Home};

/// The record of the tracepoint hit whose handlers run.
pub struct TracepointRecord {
    /// The address that the record had in the guest.
    pub(crate) at: u64,
    pub(super) bytes: Vec<u8>,
    /// The length of the record in `bytes`. 0 while no record is held.
    pub(super) len: usize,
    /// The arguments of the function that writes the record.
    arguments: [u64; MOST_ARGUMENTS],
}

/// The largest number of arguments of a tracepoint.
const MOST_ARGUMENTS: usize = 12;

impl TracepointRecord {
    pub(crate) const fn none() -> TracepointRecord {
        TracepointRecord { at: 0, bytes: Vec::new(), len: 0, arguments: [0; MOST_ARGUMENTS] }
    }

    /// The address that the record had in the guest.
    pub fn address(&self) -> u64 {
        self.at
    }

    /// Argument `number` of the tracepoint's functions. Their first argument, the private data pointer, does not count.
    pub fn argument(&self, number: usize) -> u64 {
        self.arguments.get(number).copied().unwrap_or(0)
    }

    /// Reads the arguments of the function that the CPU has just entered.
    pub(super) fn take_arguments(&mut self, cpu: &mut dyn Cpu, isa: &Isa) {
        let sp = cpu.get(isa.abi.sp);
        for (number, argument) in self.arguments.iter_mut().enumerate() {
            *argument = call::argument(isa, &[], number + 1).read(isa, |place| match place {
                Home::Register(register) => cpu.get(register),
                Home::Stack(above) => cpu.read_number(sp.wrapping_add_signed(above), isa.word).unwrap_or(0),
            });
        }
    }

    /// Reads bytes of the record, by their guest addresses. Returns false if the first one is not in the record. Bytes after
    /// its end read as 0, because strings are read in fixed-size pieces.
    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Ok(offset) = usize::try_from(at.wrapping_sub(self.at)) else { return false };
        let Some(held) = self.bytes.get(..self.len).and_then(|bytes| bytes.get(offset..)) else { return false };
        let count = held.len().min(into.len());
        into[..count].copy_from_slice(&held[..count]);
        into[count..].fill(0);
        true
    }
}
