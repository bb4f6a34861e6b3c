//! Instructions that are computed, never executed: those that use the pc, and those that look at or change what probing needs.
//!
//! What is computed is what an ARMv7 CPU does. Many Thumb instructions are given as the A32 word that means the same. Memory is
//! read and written before the first register changes, so a fault leaves all as it was. A branch to the other instruction set sets or
//! clears the CPSR's T; the pc is always the address alone.

mod alu;
mod transfer;

use super::abi::{CPSR, LR, PC, r};
use super::{Set, decode};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::plan::Emulation;
use crate::regs::Registers;

/// Does nothing that anyone could see.
pub const NOTHING: u8 = 0;
/// Goes to `value` on condition `a`; with `b`, the address behind stays in the link register; with `c`, in the other instruction set.
pub const JUMP: u8 = 1;
/// Goes to where register `a` points, in the set that its bit 0 says; with `b`, the address behind stays in the link register.
pub const EXCHANGE: u8 = 2;
/// Goes to `value` if register `a` is zero; with `b`, if it is not.
pub const COMPARE: u8 = 3;
/// Goes ahead by twice an entry of the table at register `a`, with the index in register `b`; entries are halfwords with `c`, else bytes.
pub const TABLE: u8 = 4;
/// Puts `value` into register `a`.
pub const ADDRESS: u8 = 5;
/// Puts the flags, masks and mode into register `a`.
pub const READ_STATUS: u8 = 6;
/// Masks what `value` has bits for in the CPSR; with `a`, unmasks it.
pub const MASK: u8 = 7;
/// Loads `b` bytes from `value` into register `a`, sign-extended with `c`.
pub const LITERAL: u8 = 8;
/// Loads two words from `value` into registers `a` and `b`; with `c`, stores them.
pub const LITERAL_PAIR: u8 = 9;
/// Begins an IT block: its state is `value`.
pub const IF_THEN: u8 = 10;
/// The A32 data processing instruction `value`.
pub const ALU: u8 = 11;
/// The A32 load or store of a word or byte `value`.
pub const TRANSFER: u8 = 12;
/// The A32 load or store of a halfword, a doubleword or something signed `value`.
pub const EXTRA: u8 = 13;
/// The A32 load or store of many words `value`.
pub const BLOCK: u8 = 14;

/// Thumb.
pub const THUMB: u32 = 1 << 5;
/// A, I and F.
pub const MASKS: u64 = 7 << 6;
/// What a read of the CPSR shows: not Thumb, Jazelle, or the state of an IT block.
pub const SHOWN: u32 = 0xf8ff_03df;
/// The condition that always holds.
pub const ALWAYS: u8 = 14;

/// Computes an instruction and sets the pc. On a fault nothing has changed.
pub fn emulate(set: Set, what: &Emulation, insn: &Insn, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<(), Fault> {
    let mut cpu = Cpu { set, insn, regs, mem };
    let next = Target::Here(insn.next() as u32);
    let status = cpu.status();
    let value = what.value as u32;
    // Every A32 instruction has a condition; of Thumb an IT block has it, in which the breakpoint traps only if it holds.
    let is_skipped = set == Set::A32 && !holds((decode::word(set, insn) >> 28) as u8, status);
    let target = match what.op {
        _ if is_skipped => next,
        NOTHING => next,
        JUMP if !holds(what.a, status) => next,
        JUMP => {
            if what.b != 0 {
                cpu.link();
            }
            if what.c != 0 { Target::Other(value) } else { Target::Here(value) }
        }
        EXCHANGE => {
            let target = cpu.get(what.a);
            if what.b != 0 {
                cpu.link();
            }
            Target::ByBit0(target)
        }
        COMPARE if (cpu.get(what.a) == 0) == (what.b == 0) => Target::Here(value),
        COMPARE => next,
        TABLE => {
            let (base, index) = (cpu.get(what.a), cpu.get(what.b));
            let size = 1 + u32::from(what.c != 0);
            let entry = cpu.load(base.wrapping_add(index.wrapping_mul(size)), size)?;
            Target::Here(cpu.get(PC.0).wrapping_add(entry << 1))
        }
        ADDRESS => cpu.put(what.a, value, next),
        READ_STATUS => cpu.put(what.a, status & SHOWN, next),
        MASK => {
            let masks = what.value & MASKS;
            let old = cpu.regs.get(CPSR);
            cpu.regs.set(CPSR, if what.a != 0 { old & !masks } else { old | masks });
            next
        }
        LITERAL => {
            let size = u32::from(what.b).clamp(1, 4);
            let loaded = cpu.load(value, size)?;
            let unused = 32 - 8 * size;
            let loaded = if what.c != 0 { ((loaded << unused) as i32 >> unused) as u32 } else { loaded };
            cpu.put(what.a, loaded, next)
        }
        LITERAL_PAIR if what.c != 0 => {
            let both = u64::from(cpu.get(what.a)) | u64::from(cpu.get(what.b)) << 32;
            cpu.mem.write_number(what.value, both, 8)?;
            next
        }
        LITERAL_PAIR => {
            let (low, high) = (cpu.load(value, 4)?, cpu.load(value.wrapping_add(4), 4)?);
            cpu.put(what.a, low, next);
            cpu.put(what.b, high, next)
        }
        IF_THEN => {
            cpu.set_if_then(value as u8);
            cpu.regs.set_pc(insn.next() & 0xffff_ffff);
            return Ok(());
        }
        ALU => cpu.alu(value),
        TRANSFER => cpu.transfer(value)?,
        EXTRA => cpu.extra(value)?,
        BLOCK => cpu.block(value)?,
        // None of ours: the CPU is left to run the copy.
        _ => return Err(Fault { address: insn.address, write: false }),
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
