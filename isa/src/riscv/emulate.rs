//! Emulates RISC-V instructions that use the pc: jumps, branches and `auipc`.
//!
//! None of them accesses memory, so none faults. A target that cannot be executed faults when it is fetched.

use super::Set;
use super::abi::x;
use crate::insn::Insn;
use crate::plan::Then;
use crate::regs::Registers;

/// An instruction, decoded for emulation. Registers are numbers; 0 reads as zero and ignores writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // registers, and what each row says
pub enum Computation {
    /// `jal`, `c.j`, `c.jal`: stores the return address in `link`.
    Jump { link: u8, target: u64 },
    /// `jalr`, `c.jr`, `c.jalr`: jumps to the sum of a register and an offset, without its lowest bit.
    JumpRegister { link: u8, base: u8, offset: i16 },
    /// A conditional branch.
    Branch { condition: Condition, left: u8, right: u8, target: u64 },
    /// `auipc`.
    Address { register: u8, value: u64 },
}

/// The comparison of a conditional branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the mnemonics
pub enum Condition {
    Equal,
    NotEqual,
    Less,
    NotLess,
    Below,
    NotBelow,
}

impl Condition {
    /// The comparison of a branch with this `funct3` field. Fields 2 and 3 are reserved and give `None`.
    pub fn of(funct3: u32) -> Option<Condition> {
        match funct3 & 7 {
            0 => Some(Condition::Equal),
            1 => Some(Condition::NotEqual),
            4 => Some(Condition::Less),
            5 => Some(Condition::NotLess),
            6 => Some(Condition::Below),
            7 => Some(Condition::NotBelow),
            _ => None,
        }
    }

    fn holds(self, set: Set, left: u64, right: u64) -> bool {
        let less = set.signed(left) < set.signed(right);
        match self {
            Condition::Equal => left == right,
            Condition::NotEqual => left != right,
            Condition::Less => less,
            Condition::NotLess => !less,
            Condition::Below => left < right,
            Condition::NotBelow => left >= right,
        }
    }
}

/// Emulates an instruction and sets the pc.
pub fn emulate(set: Set, what: &Computation, insn: &Insn, regs: &mut dyn Registers) -> Then {
    let next = set.cut(insn.next());
    let pc =
        match *what {
            Computation::Jump { link, target } => {
                write(regs, link, next);
                target
            }
            Computation::JumpRegister { link, base, offset } => {
                // The base is read first: it may be the link register.
                let target = set.cut(read(regs, base).wrapping_add_signed(offset.into())) & !1;
                write(regs, link, next);
                target
            }
            Computation::Branch { condition, left, right, target } => {
                if condition.holds(set, read(regs, left), read(regs, right)) { target } else { next }
            }
            Computation::Address { register, value } => {
                write(regs, register, value);
                next
            }
        };
    regs.set_pc(pc);
    Then::Onwards
}

fn read(regs: &dyn Registers, number: u8) -> u64 {
    if number == 0 { 0 } else { regs.get(x(number)) }
}

fn write(regs: &mut dyn Registers, number: u8, value: u64) {
    if number != 0 {
        regs.set(x(number), value);
    }
}

#[cfg(test)]
mod tests;
