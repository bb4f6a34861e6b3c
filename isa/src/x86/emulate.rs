//! Emulates x86 instructions that never run as a copy: branches, calls, returns, and those that read or change the
//! flags that probing needs.
//!
//! The result is what the CPU does at privilege level 0 with flat segments (except fs and gs), also where Linux 6.1's
//! emulation differs. All memory is accessed before the first register changes, so a fault leaves everything unchanged.
//! A non-canonical target faults when it is fetched.

use super::Mode;
use super::abi::{CX, FLAGS, FS_BASE, GS_BASE, SP};
use crate::insn::Insn;
use crate::mem::{Fault, Memory};
use crate::regs::{Reg, Registers};

/// An instruction, decoded for emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computation {
    /// `jmp` to a fixed address.
    Jump(u64),
    /// `jcc`: condition as in the opcode, and target.
    Branch(u8, u64),
    /// `call` of a fixed address.
    Call(u64),
    /// `jmp` to the address in a register.
    JumpRegister(Reg),
    /// `call` of the address in a register, read before the push.
    CallRegister(Reg),
    /// `jmp` to the address in a word of memory.
    JumpMemory(Operand),
    /// `call` of the address in a word of memory, read before the push.
    CallMemory(Operand),
    /// `ret`, with the number of bytes that it pops after the return address.
    Return(u16),
    /// `loop`, `loope`, `loopne` or `jcxz`.
    Loop {
        /// The condition besides the counter.
        kind: LoopKind,
        /// Bytes of the counter register that count.
        counter: u8,
        /// The address to which the loop goes back.
        target: u64,
    },
    /// `pushf`, with the size of the pushed value in bytes.
    PushFlags(u8),
    /// `popf`, with the size of the popped value in bytes.
    PopFlags(u8),
    /// `cli`.
    ClearInterrupts,
    /// `sti`. The machine delays interrupts by one more instruction.
    SetInterrupts,
}

/// The branches by a counter, in the order of their opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopKind {
    /// `loopne`: counts down; jumps if the counter is not 0 and ZF is clear.
    WhileNotZero,
    /// `loope`: counts down; jumps if the counter is not 0 and ZF is set.
    WhileZero,
    /// `loop`: counts down; jumps if the counter is not 0.
    Always,
    /// `jcxz`: jumps if the counter is 0; does not count.
    IfCounterIsZero,
}

const CARRY: u64 = 1 << 0;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const INTERRUPTS: u64 = 1 << 9;
const OVERFLOW: u64 = 1 << 11;
const RESUME: u64 = 1 << 16;
const VIRTUAL_8086: u64 = 1 << 17;

/// The flags that `popf` changes at privilege level 0: CF PF AF ZF SF TF IF DF OF IOPL NT AC ID. It clears RF and
/// leaves VM, VIF and VIP unchanged.
const POPPED: u64 = 0x0024_7fd5;
/// The flags that `pushf` stores: without RF and VM.
const PUSHED: u64 = 0x00ff_ffff & !(RESUME | VIRTUAL_8086);

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The base register.
    pub base: Option<Reg>,
    /// The index register.
    pub index: Option<Reg>,
    /// The index is shifted left by this.
    pub scale: u8,
    /// Bytes of the effective address: 2, 4 or 8.
    pub width: u8,
    /// The segment whose base address is added.
    pub segment: Segment,
    /// The displacement, with the pc already added if the operand is pc-relative.
    pub displacement: u64,
}

/// A segment, by whether its base may be other than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// cs, ds, es or ss: base 0.
    Flat,
    /// The fs segment.
    Fs,
    /// The gs segment.
    Gs,
}

impl Operand {
    fn address(&self, mode: Mode, regs: &dyn Registers) -> u64 {
        let part = |reg: Option<Reg>| reg.map_or(0, |reg| regs.get(reg));
        let sum = self.displacement.wrapping_add(part(self.base)).wrapping_add(part(self.index) << (self.scale & 3));
        let segment = match self.segment {
            Segment::Flat => 0,
            Segment::Fs => regs.get(FS_BASE),
            Segment::Gs => regs.get(GS_BASE),
        };
        cut(sum, usize::from(self.width)).wrapping_add(segment) & mode.mask()
    }
}

/// Emulates an instruction and sets the pc. A fault leaves everything unchanged.
pub fn emulate(mode: Mode, what: &Computation, insn: &Insn, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<(), Fault> {
    let next = insn.next() & mode.mask();
    let pc = match *what {
        Computation::Jump(target) => target,
        Computation::Branch(condition, target) => {
            if holds(condition, regs.get(FLAGS)) {
                target
            } else {
                next
            }
        }
        Computation::Call(target) => {
            push(mode, next, mode.word(), regs, mem)?;
            target
        }
        Computation::JumpRegister(reg) => regs.get(reg),
        Computation::CallRegister(reg) => {
            let target = regs.get(reg);
            push(mode, next, mode.word(), regs, mem)?;
            target
        }
        Computation::JumpMemory(operand) => mem.read_number(operand.address(mode, regs), mode.word())?,
        Computation::CallMemory(operand) => {
            let target = mem.read_number(operand.address(mode, regs), mode.word())?;
            push(mode, next, mode.word(), regs, mem)?;
            target
        }
        Computation::Return(more) => pop(mode, mode.word(), more.into(), regs, mem)?,
        Computation::Loop { kind, counter, target } => {
            if count(mode, kind, counter, regs) {
                target
            } else {
                next
            }
        }
        Computation::PushFlags(size) => {
            push(mode, regs.get(FLAGS) & PUSHED, usize::from(size), regs, mem)?;
            next
        }
        Computation::PopFlags(size) => {
            let size = usize::from(size);
            let flags = regs.get(FLAGS);
            let popped = pop(mode, size, 0, regs, mem)?;
            let changed = cut(POPPED, size);
            regs.set(FLAGS, flags & !changed & !RESUME | popped & changed);
            next
        }
        Computation::ClearInterrupts => {
            regs.set(FLAGS, regs.get(FLAGS) & !INTERRUPTS);
            next
        }
        Computation::SetInterrupts => {
            regs.set(FLAGS, regs.get(FLAGS) | INTERRUPTS);
            next
        }
    };
    regs.set_pc(pc & mode.mask());
    Ok(())
}

fn push(mode: Mode, value: u64, size: usize, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<(), Fault> {
    let sp = regs.get(SP).wrapping_sub(size as u64) & mode.mask();
    mem.write_number(sp, value, size)?;
    regs.set(SP, sp);
    Ok(())
}

fn pop(mode: Mode, size: usize, more: u64, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<u64, Fault> {
    let sp = regs.get(SP);
    let value = mem.read_number(sp, size)?;
    regs.set(SP, sp.wrapping_add(size as u64).wrapping_add(more) & mode.mask());
    Ok(value)
}

/// Evaluates a condition, numbered as in the opcode: odd conditions negate the even ones.
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

/// Updates the counter and returns whether to jump.
fn count(mode: Mode, kind: LoopKind, size: u8, regs: &mut dyn Registers) -> bool {
    let size = usize::from(size);
    let whole = regs.get(CX);
    let counter = cut(whole, size);
    if kind == LoopKind::IfCounterIsZero {
        return counter == 0;
    }
    let counter = cut(counter.wrapping_sub(1), size);
    // Like any register write, 32 bits clear the upper half and 16 bits keep it.
    let kept = if size == 2 { whole & !0xffff } else { 0 };
    regs.set(CX, (kept | counter) & mode.mask());
    let zero = regs.get(FLAGS) & ZERO != 0;
    counter != 0
        && match kind {
            LoopKind::WhileNotZero => !zero,
            LoopKind::WhileZero => zero,
            LoopKind::Always | LoopKind::IfCounterIsZero => true,
        }
}

fn cut(value: u64, bytes: usize) -> u64 {
    if bytes >= 8 { value } else { value & ((1 << (8 * bytes)) - 1) }
}

#[cfg(test)]
mod tests;
