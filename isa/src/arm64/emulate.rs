//! Instructions that are computed, never executed: those that use the pc, and those that look at or change the interrupt masks.
//!
//! What is computed is what the CPU does in a kernel at EL1. Register 31 of these instructions is zero: it reads as 0 and
//! writes are dropped. Memory is read before the first register changes, so a fault leaves all as it was. A target that cannot be
//! executed faults where it is fetched.

use super::abi::{LR, PSTATE, TAGS, vector, x};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::plan::Emulation;
use crate::regs::Registers;

/// Goes to `value`.
pub const JUMP: u8 = 0;
/// Leaves the address behind in the link register and goes to `value`.
pub const CALL: u8 = 1;
/// Goes to `value` on condition `a`, numbered as in b.cond.
pub const BRANCH: u8 = 2;
/// Goes to `value` if the low `b` bytes of register `a` are zero; with `c`, if they are not.
pub const COMPARE: u8 = 3;
/// Goes to `value` if bit `b` of register `a` is clear; with `c`, if it is set.
pub const TEST: u8 = 4;
/// Goes to where register `a` points: br and ret.
pub const JUMP_REGISTER: u8 = 5;
/// Leaves the address behind in the link register and goes to where register `a` pointed before.
pub const CALL_REGISTER: u8 = 6;
/// Puts `value` into register `a`.
pub const ADDRESS: u8 = 7;
/// Loads `b` bytes from `value` into register `a`, with zeros above.
pub const LOAD: u8 = 8;
/// The same with copies of the sign above.
pub const LOAD_SIGNED: u8 = 9;
/// Loads `b` bytes from `value` into vector register `a`, with zeros above.
pub const LOAD_VECTOR: u8 = 10;
/// Does nothing that anyone could see.
pub const NOTHING: u8 = 11;
/// Masks what `value` has bits for, placed as in [`MASKS`].
pub const MASK: u8 = 12;
/// Unmasks what `value` has bits for.
pub const UNMASK: u8 = 13;
/// Puts the masks into register `a`.
pub const READ_MASKS: u8 = 14;
/// Takes the masks out of register `a`.
pub const WRITE_MASKS: u8 = 15;

/// D, A, I and F in PSTATE and in the register DAIF.
pub const MASKS: u64 = 0xf << 6;

/// The register that is none.
const ZERO: u8 = 31;

/// Computes an instruction and sets the pc. On a fault nothing has changed.
pub fn emulate(what: &Emulation, insn: &Insn, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<(), Fault> {
    let next = insn.next();
    let either = |taken: bool| if taken { what.value } else { next };
    let pc = match what.op {
        JUMP => what.value,
        CALL => {
            regs.set(LR, next);
            what.value
        }
        BRANCH => either(holds(what.a, regs.get(PSTATE))),
        COMPARE => either((cut(read(regs, what.a), what.b) != 0) == (what.c != 0)),
        TEST => either((read(regs, what.a) >> (what.b & 63) & 1 != 0) == (what.c != 0)),
        JUMP_REGISTER => target(regs, what.a),
        CALL_REGISTER => {
            let target = target(regs, what.a);
            regs.set(LR, next);
            target
        }
        ADDRESS => {
            write(regs, what.a, what.value);
            next
        }
        LOAD => {
            let loaded = mem.read_number(what.value, usize::from(what.b))?;
            write(regs, what.a, loaded);
            next
        }
        LOAD_SIGNED => {
            let loaded = mem.read_number(what.value, usize::from(what.b))?;
            let unused = 64 - 8 * u32::from(what.b.clamp(1, 8));
            write(regs, what.a, ((loaded << unused) as i64 >> unused) as u64);
            next
        }
        LOAD_VECTOR => {
            let mut bytes = [0; 16];
            mem.read(what.value, &mut bytes[..usize::from(what.b.min(16))])?;
            let whole = u128::from_le_bytes(bytes);
            let [low, high] = vector(what.a);
            regs.set(low, whole as u64);
            regs.set(high, (whole >> 64) as u64);
            next
        }
        NOTHING => next,
        MASK => {
            regs.set(PSTATE, regs.get(PSTATE) | what.value & MASKS);
            next
        }
        UNMASK => {
            regs.set(PSTATE, regs.get(PSTATE) & !(what.value & MASKS));
            next
        }
        READ_MASKS => {
            let masks = regs.get(PSTATE) & MASKS;
            write(regs, what.a, masks);
            next
        }
        WRITE_MASKS => {
            let masks = read(regs, what.a) & MASKS;
            regs.set(PSTATE, regs.get(PSTATE) & !MASKS | masks);
            next
        }
        // None of ours: the CPU is left to run the copy.
        _ => return Err(Fault { address: insn.address, write: false }),
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
