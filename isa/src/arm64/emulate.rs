//! Instructions that are computed, never executed: those that use the pc, and those that look at or change the
//! interrupt masks.
//!
//! What is computed is what the CPU does in a kernel at EL1. Register 31 of these instructions is zero: it reads as 0
//! and writes are dropped. Memory is read before the first register changes, so a fault leaves all as it was. A target
//! that cannot be executed faults where it is fetched.

use super::abi::{LR, PSTATE, TAGS, vector, x};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::regs::Registers;

/// A computed instruction; registers by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // registers, and what each row says
pub enum Computation {
    /// Goes to an address.
    Jump(u64),
    /// Leaves the address behind in the link register and goes to an address.
    Call(u64),
    /// Goes there on a condition, numbered as in b.cond.
    Branch { condition: u8, target: u64 },
    /// Goes there if so many low bytes of a register are zero, or if they are not.
    Compare { register: u8, bytes: u8, if_not: bool, target: u64 },
    /// Goes there if a bit of a register is clear, or if it is set.
    Test { register: u8, bit: u8, if_set: bool, target: u64 },
    /// Goes to where a register points: br and ret.
    JumpRegister(u8),
    /// Leaves the address behind in the link register and goes to where a register pointed before.
    CallRegister(u8),
    /// Puts an address into a register.
    Address { register: u8, value: u64 },
    /// Loads so many bytes into a register, with zeros or copies of the sign above.
    Load { register: u8, bytes: u8, is_signed: bool, from: u64 },
    /// Loads so many bytes into a vector register, with zeros above.
    LoadVector { register: u8, bytes: u8, from: u64 },
    /// Does nothing that anyone could see.
    Nothing,
    /// Masks what this has bits for, placed as in [`MASKS`].
    Mask(u64),
    /// Unmasks what this has bits for.
    Unmask(u64),
    /// Puts the masks into a register.
    ReadMasks(u8),
    /// Takes the masks out of a register.
    WriteMasks(u8),
}

/// D, A, I and F in PSTATE and in the register DAIF.
pub const MASKS: u64 = 0xf << 6;

/// The register that is none.
const ZERO: u8 = 31;

/// Computes an instruction and sets the pc. On a fault nothing has changed.
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

/// Where a branch to a register's value leads: without a tag, if it has one.
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

/// The condition of b.cond: the odd ones are the negations of the even ones, but the last two both mean always.
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
