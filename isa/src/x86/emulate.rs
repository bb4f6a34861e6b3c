//! Instructions that are computed, never executed: branches, and those that look at or change the flags that probing needs.
//!
//! What is computed is what the CPU does, at privilege level 0 and with flat segments (fs and gs excepted), not what Linux 6.1's
//! emulation does (spec/isa-x86.md 4.1 lists where that is wrong). Everything is read and written before the first register changes, so a
//! fault leaves all as it was. A target that is not canonical faults where it is fetched.

use super::Mode;
use super::abi::{CX, FLAGS, FS_BASE, GS_BASE, SP};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::plan::Emulation;
use crate::regs::{Reg, Registers};

/// Goes to `value`.
pub const JUMP: u8 = 0;
/// Goes to `value` on condition `a`, numbered as in the opcodes.
pub const BRANCH: u8 = 1;
/// Pushes the address behind and goes to `value`.
pub const CALL: u8 = 2;
/// Goes to where register `a` points.
pub const JUMP_REGISTER: u8 = 3;
/// Pushes the address behind and goes to where register `a` pointed before.
pub const CALL_REGISTER: u8 = 4;
/// Goes to where the word at an [`Place`] points.
pub const JUMP_MEMORY: u8 = 5;
/// Pushes the address behind and goes to where the word at an [`Place`] points.
pub const CALL_MEMORY: u8 = 6;
/// Pops the pc and `value` bytes more.
pub const RETURN: u8 = 7;
/// Counts, and goes to `value` as kind `a` says (the low two bits of the opcode); the counter has `b` bytes.
pub const LOOP: u8 = 8;
/// Pushes the low `a` bytes of the flags.
pub const PUSH_FLAGS: u8 = 9;
/// Pops the low `a` bytes of the flags.
pub const POP_FLAGS: u8 = 10;
/// Switches interrupts off.
pub const CLEAR_INTERRUPTS: u8 = 11;
/// Switches interrupts on. That they stay off for one more instruction is for the machine to see to.
pub const SET_INTERRUPTS: u8 = 12;

const CARRY: u64 = 1 << 0;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const INTERRUPTS: u64 = 1 << 9;
const OVERFLOW: u64 = 1 << 11;
const RESUME: u64 = 1 << 16;
const VIRTUAL_8086: u64 = 1 << 17;

/// What `popf` changes at privilege level 0: CF PF AF ZF SF TF IF DF OF IOPL NT AC ID. It clears RF and leaves VM, VIF and VIP alone.
const POPPED: u64 = 0x0024_7fd5;
/// What `pushf` can show: not RF, not VM, and nothing above the flags.
const PUSHED: u64 = 0x00ff_ffff & !(RESUME | VIRTUAL_8086);

/// No register: in [`Emulation::a`] and [`Emulation::b`] of an operation on memory.
pub const NONE: u8 = 0xff;

/// An effective address, packed into an [`Emulation`]: base register `a`, index register `b`, displacement `value`, and the rest in `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The base register's number, or [`NONE`].
    pub base: u8,
    /// The index register's number, or [`NONE`].
    pub index: u8,
    /// By what power of two the index is multiplied.
    pub scale: u8,
    /// The bytes that the sum is cut to: 2, 4 or 8.
    pub width: u8,
    /// The segment whose base is added.
    pub segment: Segment,
    /// What else is added.
    pub displacement: u64,
}

/// Segments that may not start at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Any other one.
    Flat,
    /// The fs segment.
    Fs,
    /// The gs segment.
    Gs,
}

impl Place {
    /// An operation `op` on the word here.
    pub fn operand_of(self, op: u8) -> Emulation {
        let segment = match self.segment {
            Segment::Flat => 0,
            Segment::Fs => 1,
            Segment::Gs => 2,
        };
        let c = self.scale & 3 | segment << 2 | self.width << 4;
        Emulation { op, a: self.base, b: self.index, c, value: self.displacement }
    }

    fn address(what: &Emulation, mode: Mode, regs: &dyn Registers) -> u64 {
        let part = |number: u8| if number == NONE { 0 } else { regs.get(Reg(number)) };
        let sum = what.value.wrapping_add(part(what.a)).wrapping_add(part(what.b) << (what.c & 3));
        let segment = match what.c >> 2 & 3 {
            0 => 0,
            1 => regs.get(FS_BASE),
            _ => regs.get(GS_BASE),
        };
        cut(sum, usize::from(what.c >> 4)).wrapping_add(segment) & mode.mask()
    }
}

/// Computes an instruction and sets the pc. On a fault nothing has changed.
pub fn emulate(mode: Mode, what: &Emulation, insn: &Insn, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<(), Fault> {
    let next = insn.next() & mode.mask();
    let flags = regs.get(FLAGS);
    let pc = match what.op {
        JUMP => what.value,
        BRANCH => {
            if holds(what.a, flags) {
                what.value
            } else {
                next
            }
        }
        CALL => {
            push(mode, next, mode.word(), regs, mem)?;
            what.value
        }
        JUMP_REGISTER => regs.get(Reg(what.a)),
        CALL_REGISTER => {
            let target = regs.get(Reg(what.a));
            push(mode, next, mode.word(), regs, mem)?;
            target
        }
        JUMP_MEMORY => mem.read_le(Place::address(what, mode, regs), mode.word())?,
        CALL_MEMORY => {
            let target = mem.read_le(Place::address(what, mode, regs), mode.word())?;
            push(mode, next, mode.word(), regs, mem)?;
            target
        }
        RETURN => pop(mode, mode.word(), what.value, regs, mem)?,
        LOOP => {
            if count(mode, what, flags, regs) {
                what.value
            } else {
                next
            }
        }
        PUSH_FLAGS => {
            push(mode, flags & PUSHED, usize::from(what.a), regs, mem)?;
            next
        }
        POP_FLAGS => {
            let size = usize::from(what.a);
            let popped = pop(mode, size, 0, regs, mem)?;
            let changed = cut(POPPED, size);
            regs.set(FLAGS, flags & !changed & !RESUME | popped & changed);
            next
        }
        CLEAR_INTERRUPTS => {
            regs.set(FLAGS, flags & !INTERRUPTS);
            next
        }
        SET_INTERRUPTS => {
            regs.set(FLAGS, flags | INTERRUPTS);
            next
        }
        // None of ours: the CPU is left to run the copy.
        _ => return Err(Fault { address: insn.address, write: false }),
    };
    regs.set_pc(pc & mode.mask());
    Ok(())
}

fn push(mode: Mode, value: u64, size: usize, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<(), Fault> {
    let sp = regs.get(SP).wrapping_sub(size as u64) & mode.mask();
    mem.write_le(sp, value, size)?;
    regs.set(SP, sp);
    Ok(())
}

fn pop(mode: Mode, size: usize, more: u64, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<u64, Fault> {
    let sp = regs.get(SP);
    let value = mem.read_le(sp, size)?;
    regs.set(SP, sp.wrapping_add(size as u64).wrapping_add(more) & mode.mask());
    Ok(value)
}

/// The condition of `jcc`, numbered as in the opcode: the odd ones are the negations of the even ones.
fn holds(condition: u8, flags: u64) -> bool {
    let is = |flag: u64| flags & flag != 0;
    let less = is(SIGN) != is(OVERFLOW);
    let even = match condition >> 1 & 7 {
        0 => is(OVERFLOW),
        1 => is(CARRY),
        2 => is(ZERO),
        3 => is(CARRY) || is(ZERO),
        4 => is(SIGN),
        5 => is(PARITY),
        6 => less,
        _ => less || is(ZERO),
    };
    even != (condition & 1 != 0)
}

/// Counts for `loopne`, `loope` and `loop`, only looks for `jcxz`, and says whether to jump.
fn count(mode: Mode, what: &Emulation, flags: u64, regs: &mut dyn Registers) -> bool {
    const JCXZ: u8 = 3;
    let size = usize::from(what.b);
    let whole = regs.get(CX);
    let counter = cut(whole, size);
    if what.a == JCXZ {
        return counter == 0;
    }
    let counter = cut(counter.wrapping_sub(1), size);
    // As with any register: a 32-bit result clears the upper half, a 16-bit one keeps what is above.
    let kept = if size == 2 { whole & !0xffff } else { 0 };
    regs.set(CX, (kept | counter) & mode.mask());
    let zero = flags & ZERO != 0;
    counter != 0
        && match what.a {
            0 => !zero,
            1 => zero,
            _ => true,
        }
}

fn cut(value: u64, bytes: usize) -> u64 {
    if bytes >= 8 { value } else { value & ((1 << (8 * bytes)) - 1) }
}
