//! Emulates AArch64 instructions that use the pc, or that read or change the interrupt masks.
//!
//! The result is what the CPU does in a kernel at EL1. In these instructions register 31 is the zero register. Memory
//! is read before the first register changes, so a fault leaves everything unchanged. A target that cannot be executed
//! faults when it is fetched.

use super::abi::{LR, PSTATE, TAGS, vector, x};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::regs::Registers;

/// An instruction, decoded for emulation. Registers are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // registers, and what each row says
pub enum Computation {
    /// `b`.
    Jump(u64),
    /// `bl`.
    Call(u64),
    /// `b.cond`: condition as in the instruction.
    Branch { condition: u8, target: u64 },
    /// `cbz` and `cbnz`: branch if the low bytes of a register are zero, or not zero. `bytes` is 4 or 8.
    Compare { register: u8, bytes: u8, if_not: bool, target: u64 },
    /// `tbz` and `tbnz`: branch if a bit of a register is clear, or set.
    Test { register: u8, bit: u8, if_set: bool, target: u64 },
    /// `br` and `ret`.
    JumpRegister(u8),
    /// `blr`.
    CallRegister(u8),
    /// `adr` and `adrp`.
    Address { register: u8, value: u64 },
    /// `ldr` and `ldrsw` of a literal: loads `bytes` bytes and zero-extends or sign-extends them.
    Load { register: u8, bytes: u8, is_signed: bool, from: u64 },
    /// `ldr` of a literal into a vector register: loads `bytes` bytes and zero-extends them.
    LoadVector { register: u8, bytes: u8, from: u64 },
    /// No effect.
    Nothing,
    /// `msr daifset`: sets these bits, placed as in [`MASKS`].
    Mask(u64),
    /// `msr daifclr`: clears these bits, placed as in [`MASKS`].
    Unmask(u64),
    /// `mrs` of DAIF.
    ReadMasks(u8),
    /// `msr` of DAIF.
    WriteMasks(u8),
}

/// The D, A, I and F bits, in PSTATE and in the register DAIF.
pub const MASKS: u64 = 0xf << 6;

/// The zero register.
const ZERO: u8 = 31;

/// Emulates an instruction and sets the pc. A fault leaves everything unchanged.
pub fn emulate(what: &Computation, insn: &Insn, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<(), Fault> {
    let next = insn.next();
    let either = |taken: bool, target: u64| if taken { target } else { next };
    let pc = match *what {
        Computation::Jump(target) => target,
        Computation::Call(target) => {
            regs.set(LR, next);
            target
        }
        Computation::Branch { condition, target } => either(holds(condition, regs.get(PSTATE)), target),
        Computation::Compare { register, bytes, if_not, target } => {
            either((cut(read(regs, register), bytes) != 0) == if_not, target)
        }
        Computation::Test { register, bit, if_set, target } => {
            either((read(regs, register) >> (bit & 63) & 1 != 0) == if_set, target)
        }
        Computation::JumpRegister(register) => target(regs, register),
        Computation::CallRegister(register) => {
            let target = target(regs, register);
            regs.set(LR, next);
            target
        }
        Computation::Address { register, value } => {
            write(regs, register, value);
            next
        }
        Computation::Load { register, bytes, is_signed, from } => {
            let mut loaded = mem.read_number(from, usize::from(bytes))?;
            if is_signed {
                let unused = 64 - 8 * u32::from(bytes.clamp(1, 8));
                loaded = ((loaded << unused) as i64 >> unused) as u64;
            }
            write(regs, register, loaded);
            next
        }
        Computation::LoadVector { register, bytes, from } => {
            let mut held = [0; 16];
            mem.read(from, &mut held[..usize::from(bytes.min(16))])?;
            let whole = u128::from_le_bytes(held);
            let [low, high] = vector(register);
            regs.set(low, whole as u64);
            regs.set(high, (whole >> 64) as u64);
            next
        }
        Computation::Nothing => next,
        Computation::Mask(masks) => {
            regs.set(PSTATE, regs.get(PSTATE) | masks & MASKS);
            next
        }
        Computation::Unmask(masks) => {
            regs.set(PSTATE, regs.get(PSTATE) & !(masks & MASKS));
            next
        }
        Computation::ReadMasks(register) => {
            let masks = regs.get(PSTATE) & MASKS;
            write(regs, register, masks);
            next
        }
        Computation::WriteMasks(register) => {
            let masks = read(regs, register) & MASKS;
            regs.set(PSTATE, regs.get(PSTATE) & !MASKS | masks);
            next
        }
    };
    regs.set_pc(pc);
    Ok(())
}

fn read(regs: &dyn Registers, number: u8) -> u64 {
    if number == ZERO { 0 } else { regs.get(x(number)) }
}

/// The target of a branch to a register's value. [`TAGS`] says for each half of the address space whether the CPU ignores the top
/// byte of code addresses (TBI). If it does, the target is sign-extended from bit 55.
fn target(regs: &dyn Registers, number: u8) -> u64 {
    let value = read(regs, number);
    let is_upper = value >> 55 & 1;
    match regs.get(TAGS) >> is_upper & 1 != 0 {
        true => ((value << 8).cast_signed() >> 8).cast_unsigned(),
        false => value,
    }
}

fn write(regs: &mut dyn Registers, number: u8, value: u64) {
    if number != ZERO {
        regs.set(x(number), value);
    }
}

fn cut(value: u64, bytes: u8) -> u64 {
    if bytes >= 8 { value } else { value & ((1 << (8 * bytes)) - 1) }
}

/// Evaluates a condition: odd conditions negate the even ones, but 14 and 15 both mean "always".
fn holds(condition: u8, pstate: u64) -> bool {
    let is = |bit: u32| pstate >> bit & 1 != 0;
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
