//! Emulates ARM instructions that use the pc, or that read or change the CPSR bits that probing needs.
//!
//! The result is that of an ARMv7 CPU. All memory is accessed before the first register changes, so a fault leaves
//! everything unchanged. A branch to the other instruction set changes the CPSR's T bit; the pc is the address without
//! the Thumb bit.
//!
//! Most emulated Thumb instructions have an A32 equivalent: `9801` is `ldr r0, [sp, #4]`, as is `e59d0004`. So
//! `rules/thumb.rs` translates them to that A32 word at registration, and one emulator ([`Computation::Alu`] and the
//! three variants behind it) serves both sets. The condition of that word is "always", because a breakpoint in an IT
//! block traps only if the condition holds. Two differences are not in the word. [`Set`] gives the value of the pc as
//! an operand. Addresses relative to an aligned pc are computed at registration ([`Computation::Literal`]).

mod alu;
mod transfer;

use super::abi::{CPSR, LR, PC, r};
use super::{Set, decode};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::regs::Registers;

/// An instruction, decoded for emulation. Registers are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // registers, and what each row says
pub enum Computation {
    /// No effect.
    Nothing,
    /// Branches to a fixed address, if the condition holds. May set the link register, and may change the instruction
    /// set.
    Jump { condition: u8, links: bool, exchanges: bool, target: u32 },
    /// `bx` or `blx`: branches to the address in a register, in the set that its bit 0 selects. May set the link
    /// register.
    Exchange { register: u8, links: bool },
    /// `cbz` or `cbnz`.
    Compare { register: u8, if_not: bool, target: u32 },
    /// `tbb` or `tbh`: branches forward by twice an entry of a table.
    Table { base: u8, index: u8, has_halfwords: bool },
    /// `adr`: sets a register to a fixed address.
    Address { register: u8, value: u32 },
    /// `mrs` of the CPSR.
    ReadStatus(u8),
    /// `cpsid`: sets these mask bits of the CPSR.
    Mask(u32),
    /// `cpsie`: clears these mask bits of the CPSR.
    Unmask(u32),
    /// Loads `bytes` bytes from a fixed address.
    Literal { register: u8, bytes: u8, is_signed: bool, from: u32 },
    /// `ldrd` from a fixed address.
    LoadPair { low: u8, high: u8, from: u32 },
    /// `strd` to a fixed address.
    StorePair { low: u8, high: u8, to: u32 },
    /// `it`: starts an IT block with this state.
    IfThen(u8),
    /// An A32 data processing instruction.
    Alu(u32),
    /// An A32 load or store of a word or byte.
    Transfer(u32),
    /// An A32 load or store of a halfword, a doubleword, or a signed value.
    Extra(u32),
    /// An A32 load or store of several registers.
    Block(u32),
}

/// The T bit of the CPSR: Thumb code.
pub const THUMB: u32 = 1 << 5;
/// The A, I and F bits: masked exceptions.
pub const MASKS: u32 = 7 << 6;
/// The CPSR bits that `mrs` shows: all but T, J and the IT state.
pub const SHOWN: u32 = 0xf8ff_03df;
/// The condition "always".
pub const ALWAYS: u8 = 14;

/// Emulates an instruction and sets the pc. A fault leaves everything unchanged.
pub fn emulate(set: Set, what: &Computation, insn: &Insn, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<(), Fault> {
    let mut cpu = Cpu { set, insn, regs, mem };
    let next = Target::Here(insn.next() as u32);
    let status = cpu.status();
    // A32 instructions have a condition. In Thumb the IT block has it, where the breakpoint traps only if it holds.
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

/// The address to continue at, and the instruction set there.
#[derive(Clone, Copy)]
enum Target {
    /// In the current instruction set.
    Here(u32),
    /// In the other instruction set.
    Other(u32),
    /// Thumb if bit 0 is set.
    ByBit0(u32),
}

/// A stopped CPU and the instruction to emulate.
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

    /// The value of a register as an operand; the pc is ahead of the instruction.
    fn get(&self, number: u8) -> u32 {
        match number & 15 {
            15 => (self.insn.address as u32).wrapping_add(self.set.bias()),
            number => self.regs.get(r(number)) as u32,
        }
    }

    /// Sets a register other than the pc; execution continues at `next`.
    fn put(&mut self, number: u8, value: u32, next: Target) -> Target {
        self.regs.set(r(number), value.into());
        next
    }

    fn next(&self) -> Target {
        Target::Here(self.insn.next() as u32)
    }

    /// Sets the link register to the next instruction, with the Thumb bit.
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
            // Bit 1 of an A32 target is UNPREDICTABLE. Our CPU core keeps it.
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

    /// Bits 7 to 2 of the IT state are in bits 15 to 10 of the CPSR, bits 1 and 0 in bits 26 and 25.
    fn set_if_then(&mut self, state: u8) {
        let state = u32::from(state);
        let kept = self.status() & !0x0600_fc00;
        self.regs.set(CPSR, (kept | (state & 3) << 25 | (state >> 2) << 10).into());
    }

    /// Advances the IT state by one instruction.
    fn advance_if_then(&mut self) {
        let status = self.status();
        let state = (status >> 25 & 3 | status >> 8 & 0xfc) as u8;
        if self.set == Set::Thumb && state != 0 {
            self.set_if_then(if state & 7 == 0 { 0 } else { state & 0xe0 | state << 1 & 0x1f });
        }
    }
}

/// Evaluates a condition; 14 and 15 always hold.
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
