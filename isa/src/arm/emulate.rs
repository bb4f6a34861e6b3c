//! Instructions that are computed, never executed: those that use the pc, and those that look at or change what probing
//! needs.
//!
//! What is computed is what an ARMv7 CPU does. Memory is read and written before the first register changes, so a fault
//! leaves all as it was. A branch to the other instruction set sets or clears the CPSR's T; the pc is always the
//! address alone.
//!
//! Most Thumb instructions that are computed say in other bits what some A32 instruction says: `9801`, which is
//! `ldr r0, [sp, #4]`, says what `e59d0004` says. So `rules/thumb.rs` writes them down as that A32 word at
//! registration, and what computes it ([`Computation::Alu`] and the three behind it) reads one notation only. The word
//! is never executed; its condition is "always", for the IT block has been asked when the breakpoint trapped. Where the
//! sets differ it is not in the word: how far ahead the pc is as an operand says [`Set`], and what is counted from an
//! aligned pc is an address by then ([`Computation::Literal`]).

mod alu;
mod transfer;

use super::abi::{CPSR, LR, PC, r};
use super::{Set, decode};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::regs::Registers;

/// A computed instruction; registers by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // registers, and what each row says
pub enum Computation {
    /// Does nothing that anyone could see.
    Nothing,
    /// Goes there on a condition; the address behind may stay in the link register, the target may be in the other
    /// instruction set.
    Jump { condition: u8, links: bool, exchanges: bool, target: u32 },
    /// Goes to where a register points, in the set that its bit 0 says; the address behind may stay in the link
    /// register.
    Exchange { register: u8, links: bool },
    /// Goes there if a register is zero, or if it is not.
    Compare { register: u8, if_not: bool, target: u32 },
    /// Goes ahead by twice an entry of a table: halfwords or bytes.
    Table { base: u8, index: u8, has_halfwords: bool },
    /// Puts an address into a register.
    Address { register: u8, value: u32 },
    /// Puts the flags, masks and mode into a register.
    ReadStatus(u8),
    /// Masks what this has bits for in the CPSR.
    Mask(u32),
    /// Unmasks what this has bits for in the CPSR.
    Unmask(u32),
    /// Loads so many bytes into a register.
    Literal { register: u8, bytes: u8, is_signed: bool, from: u32 },
    /// Loads two words.
    LoadPair { low: u8, high: u8, from: u32 },
    /// Stores two words.
    StorePair { low: u8, high: u8, to: u32 },
    /// Begins an IT block, in this state.
    IfThen(u8),
    /// This A32 data processing instruction.
    Alu(u32),
    /// This A32 load or store of a word or byte.
    Transfer(u32),
    /// This A32 load or store of a halfword, a doubleword or something signed.
    Extra(u32),
    /// This A32 load or store of many words.
    Block(u32),
}

/// Thumb.
pub const THUMB: u32 = 1 << 5;
/// A, I and F.
pub const MASKS: u32 = 7 << 6;
/// What a read of the CPSR shows: not Thumb, Jazelle, or the state of an IT block.
pub const SHOWN: u32 = 0xf8ff_03df;
/// The condition that always holds.
pub const ALWAYS: u8 = 14;

/// Computes an instruction and sets the pc. On a fault nothing has changed.
pub fn emulate(set: Set, what: &Computation, insn: &Insn, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<(), Fault> {
    let mut cpu = Cpu { set, insn, regs, mem };
    let next = Target::Here(insn.next() as u32);
    let status = cpu.status();
    // Every A32 instruction has a condition; of Thumb an IT block has it, in which the breakpoint traps only if it
    // holds.
    let is_skipped = set == Set::A32 && !holds((decode::word(set, insn) >> 28) as u8, status);
    let target = match *what {
        _ if is_skipped => next,
        Computation::Nothing => next,
        Computation::Jump { condition, .. } if !holds(condition, status) => next,
        Computation::Jump { links, exchanges, target, .. } => {
            if links {
                cpu.link();
            }
            if exchanges { Target::Other(target) } else { Target::Here(target) }
        }
        Computation::Exchange { register, links } => {
            let target = cpu.get(register);
            if links {
                cpu.link();
            }
            Target::ByBit0(target)
        }
        Computation::Compare { register, if_not, target } => {
            if (cpu.get(register) == 0) != if_not {
                Target::Here(target)
            } else {
                next
            }
        }
        Computation::Table { base, index, has_halfwords } => {
            let (base, index) = (cpu.get(base), cpu.get(index));
            let size = 1 + u32::from(has_halfwords);
            let entry = cpu.load(base.wrapping_add(index.wrapping_mul(size)), size)?;
            Target::Here(cpu.get(PC.0).wrapping_add(entry << 1))
        }
        Computation::Address { register, value } => cpu.put(register, value, next),
        Computation::ReadStatus(register) => cpu.put(register, status & SHOWN, next),
        Computation::Mask(masks) => {
            cpu.regs.set(CPSR, cpu.regs.get(CPSR) | u64::from(masks & MASKS));
            next
        }
        Computation::Unmask(masks) => {
            cpu.regs.set(CPSR, cpu.regs.get(CPSR) & !u64::from(masks & MASKS));
            next
        }
        Computation::Literal { register, bytes, is_signed, from } => {
            let size = u32::from(bytes).clamp(1, 4);
            let loaded = cpu.load(from, size)?;
            let unused = 32 - 8 * size;
            let loaded = if is_signed { ((loaded << unused) as i32 >> unused) as u32 } else { loaded };
            cpu.put(register, loaded, next)
        }
        Computation::StorePair { low, high, to } => {
            let both = u64::from(cpu.get(low)) | u64::from(cpu.get(high)) << 32;
            cpu.mem.write_number(to.into(), both, 8)?;
            next
        }
        Computation::LoadPair { low, high, from } => {
            let (first, second) = (cpu.load(from, 4)?, cpu.load(from.wrapping_add(4), 4)?);
            cpu.put(low, first, next);
            cpu.put(high, second, next)
        }
        Computation::IfThen(state) => {
            cpu.set_if_then(state);
            cpu.regs.set_pc(insn.next() & 0xffff_ffff);
            return Ok(());
        }
        Computation::Alu(word) => cpu.alu(word),
        Computation::Transfer(word) => cpu.transfer(word)?,
        Computation::Extra(word) => cpu.extra(word)?,
        Computation::Block(word) => cpu.block(word)?,
    };
    cpu.advance_if_then();
    cpu.go(target);
    Ok(())
}

/// Where execution goes on, and how the instruction set there is found.
#[derive(Clone, Copy)]
enum Target {
    /// The set stays.
    Here(u32),
    /// The other set.
    Other(u32),
    /// Thumb if bit 0 is set.
    ByBit0(u32),
}

/// A stopped CPU with the instruction that it stands on.
struct Cpu<'a> {
    set: Set,
    insn: &'a Insn,
    regs: &'a mut dyn Registers,
    mem: &'a mut dyn Memory,
}

impl Cpu<'_> {
    fn status(&self) -> u32 {
        self.regs.get(CPSR) as u32
    }

    /// A register as an operand; the pc is ahead.
    fn get(&self, number: u8) -> u32 {
        match number & 15 {
            15 => (self.insn.address as u32).wrapping_add(self.set.bias()),
            number => self.regs.get(r(number)) as u32,
        }
    }

    /// Sets a register that is not the pc; execution goes on at `next`.
    fn put(&mut self, number: u8, value: u32, next: Target) -> Target {
        self.regs.set(r(number), value.into());
        next
    }

    fn next(&self) -> Target {
        Target::Here(self.insn.next() as u32)
    }

    /// Leaves the address behind, with the bit that says Thumb, in the link register.
    fn link(&mut self) {
        let thumb = u64::from(self.set == Set::Thumb);
        self.regs.set(LR, self.insn.next() & 0xffff_ffff | thumb);
    }

    fn load(&mut self, address: u32, size: u32) -> Result<u32, Fault> {
        Ok(self.mem.read_number(address.into(), size as usize)? as u32)
    }

    fn go(&mut self, target: Target) {
        let (address, thumb) = match (target, self.set) {
            (Target::ByBit0(address), _) if address & 1 != 0 => (address & !1, true),
            // No CPU says what bit 1 does; this one keeps it.
            (Target::ByBit0(address), _) => (address, false),
            (Target::Here(address), Set::Thumb) | (Target::Other(address), Set::A32) => (address & !1, true),
            (Target::Here(address), Set::A32) | (Target::Other(address), Set::Thumb) => (address & !3, false),
        };
        let status = self.status();
        let wanted = if thumb { status | THUMB } else { status & !THUMB };
        if wanted != status {
            self.regs.set(CPSR, wanted.into());
        }
        self.regs.set_pc(address.into());
    }

    fn set_flags(&mut self, flags: u32) {
        let kept = self.status() & 0x0fff_ffff;
        self.regs.set(CPSR, (kept | flags & 0xf000_0000).into());
    }

    /// Bits 7 to 2 of the IT block's state lie in bits 15 to 10 of the CPSR, the others in bits 26 and 25.
    fn set_if_then(&mut self, state: u8) {
        let state = u32::from(state);
        let kept = self.status() & !0x0600_fc00;
        self.regs.set(CPSR, (kept | (state & 3) << 25 | (state >> 2) << 10).into());
    }

    /// One instruction of an IT block is done with.
    fn advance_if_then(&mut self) {
        let status = self.status();
        let state = (status >> 25 & 3 | status >> 8 & 0xfc) as u8;
        if self.set == Set::Thumb && state != 0 {
            self.set_if_then(if state & 7 == 0 { 0 } else { state & 0xe0 | state << 1 & 0x1f });
        }
    }
}

/// Whether a condition holds; what has none always does.
pub fn holds(condition: u8, status: u32) -> bool {
    let is = |bit: u32| status >> bit & 1 != 0;
    let (negative, zero, carry, overflow) = (is(31), is(30), is(29), is(28));
    let even = match condition >> 1 & 7 {
        0 => zero,
        1 => carry,
        2 => negative,
        3 => overflow,
        4 => carry && !zero,
        5 => negative == overflow,
        6 => negative == overflow && !zero,
        _ => return true,
    };
    even != (condition & 1 != 0)
}

#[cfg(test)]
mod tests;
