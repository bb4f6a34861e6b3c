//! Emulates branches, returns from interruptions, and `mfia`. The instruction in a branch's delay slot runs in place, and
//! then the CPU continues at the branch's target.
//!
//! PA-RISC's pc is a queue of two addresses, each with a space and a privilege level. The front (`SPACE`, `LEVEL` and the
//! pc) is the next instruction. The back (`NPC`, `NEXT_SPACE`, `NEXT_LEVEL`) is the one after it: a branch sets the
//! back, and the delay slot is at the front when the branch has run.

pub mod conditions;

use super::abi::{
    IPSW, LEVEL, NEXT_LEVEL, NEXT_SPACE, NPC, PSW, RP, SAR, SAVED_NPC, SAVED_PC, SAVED_SPACES, SHADOWED, SHADOWS, SPACE, r, sr,
};
use super::decode::{Transfer, nullifies, word};
use super::fields::{bits, distance12, distance17, opcode, signed5, space3};
use crate::insn::Insn;
use crate::mem::Fault;
use crate::plan::Then;
use crate::regs::{Reg, Registers};

/// An instruction, decoded for emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computation {
    /// A branch.
    Branch(Transfer),
    /// `mfia`: reads the address of the instruction into this register.
    ReadPc(Reg),
    /// An instruction of another kind that stands in a delay slot: its copy runs, and execution continues at the back of the
    /// queue, which is the target of the branch in front of it.
    InDelaySlot,
    /// `rfi` and `rfi,r`: ends an interruption.
    Return {
        /// Whether seven general registers are restored from the shadow registers (`rfi,r`).
        restores: bool,
    },
}

/// Emulates an instruction and sets the pc. Never returns `Err`, because none of these instructions accesses
/// memory.
pub fn emulate(what: &Computation, insn: &Insn, regs: &mut dyn Registers) -> Result<Then, Fault> {
    let next = regs.get(NPC);
    match what {
        Computation::Branch(transfer) => Ok(branch(*transfer, insn, regs)),
        Computation::ReadPc(to) => {
            set(regs, *to, insn.address);
            regs.set_pc(next);
            Ok(Then::Onwards)
        }
        Computation::InDelaySlot => {
            regs.set_pc(next);
            Ok(Then::Copy { undo: None })
        }
        Computation::Return { restores } => {
            if *restores {
                for (shadow, reg) in SHADOWS.iter().zip(SHADOWED) {
                    let value = regs.get(*shadow);
                    regs.set(reg, value);
                }
            }
            let [status, front, back] = [IPSW, SAVED_PC, SAVED_NPC].map(|reg| regs.get(reg));
            let spaces = SAVED_SPACES.map(|reg| regs.get(reg));
            regs.set(PSW, status);
            for (to, value) in [(SPACE, spaces[0]), (NEXT_SPACE, spaces[1]), (LEVEL, front & 3), (NEXT_LEVEL, back & 3)] {
                regs.set(to, value);
            }
            regs.set_pc(front & !3);
            Ok(Then::DelaySlot { then: back & !3 })
        }
    }
}

/// Emulates a branch. If it is in the delay slot of another branch, its own slot is at that branch's target.
fn branch(transfer: Transfer, insn: &Insn, regs: &mut dyn Registers) -> Then {
    let (word, back) = (word(insn), regs.get(NPC));
    let behind = back.wrapping_add(4) & 0xffff_ffff;
    let [base, index] = [bits(word, 6, 10), bits(word, 11, 15)];
    let value = |regs: &dyn Registers, number: u32| regs.get(r(number as u8)) as u32;
    let (mut is_taken, mut nullified) = (true, nullifies(word));
    let mut space = None;
    let mut to = insn.flow.target().unwrap_or(behind) as u32;
    // The register that gets the return address.
    let mut link = None;
    match transfer {
        Transfer::Conditional => {
            is_taken = decide(word, regs);
            nullified &= is_taken == (distance12(word) >= 0);
        }
        Transfer::Near => link = Some(r(base as u8)),
        Transfer::Far => link = Some(RP),
        Transfer::ByPairs => {
            to = (insn.address as u32).wrapping_add(8).wrapping_add(value(regs, index) << 3);
            link = Some(r(base as u8));
        }
        Transfer::Vectored => to = value(regs, base).wrapping_add(value(regs, index) << 3),
        Transfer::Base => {
            to = value(regs, base);
            space = Some(regs.get(sr(4 + (to >> 30) as u8)));
            link = (bits(word, 18, 18) != 0).then_some(RP);
        }
        Transfer::Space | Transfer::SpaceAndLink => {
            to = value(regs, base).wrapping_add_signed(distance17(word));
            space = Some(regs.get(sr(space3(word) as u8)));
            if transfer == Transfer::SpaceAndLink {
                let own = regs.get(NEXT_SPACE);
                regs.set(sr(0), own);
                link = Some(super::abi::MRP);
            }
        }
    }
    let own_level = regs.get(LEVEL);
    if let Some(link) = link {
        set(regs, link, behind | own_level);
    }
    // The low bits of an address in a register are a privilege level. A branch can only lower the privilege, which raises the
    // number.
    let leaves = insn.flow.target().is_none();
    let level = if leaves { own_level.max(u64::from(to & 3)) } else { own_level };
    let to = u64::from(to & !3);
    // A taken branch sets the space and the level of the back of the queue. If it nullifies the delay slot, its target comes to
    // the front at once, so the front gets them too.
    for (own, next) in [(SPACE, space), (LEVEL, leaves.then_some(level))].map(|(reg, value)| (reg, value.filter(|_| is_taken))) {
        let Some(value) = next else { continue };
        let back_reg = if own == SPACE { NEXT_SPACE } else { NEXT_LEVEL };
        regs.set(back_reg, value);
        if nullified {
            regs.set(own, value);
        }
    }
    let leads_to = if is_taken { to } else { behind };
    if nullified {
        regs.set_pc(leads_to);
        return Then::Onwards;
    }
    regs.set_pc(back);
    Then::DelaySlot { then: leads_to }
}

/// Whether a conditional branch is taken. `addb`, `addib`, `movb` and `movib` also write their target register.
fn decide(word: u32, regs: &mut dyn Registers) -> bool {
    let [target, other] = [bits(word, 6, 10), bits(word, 11, 15)];
    let (condition, code) = (bits(word, 16, 18), opcode(word));
    let value = |number: u32| regs.get(r(number as u8)) as u32;
    let negated = code & 2 != 0;
    let operand = if code & 1 == 0 { value(other) } else { signed5(other) as u32 };
    match code {
        0x20..=0x23 => conditions::subtract(condition, negated, operand, value(target)),
        0x28..=0x2b => {
            let (sum, carry, overflow) = conditions::sum(operand, value(target), false);
            set(regs, r(target as u8), sum.into());
            conditions::add(condition, negated, sum, carry, overflow)
        }
        0x30 | 0x31 => {
            let position = if code == 0x30 { regs.get(SAR) as u32 & 31 } else { target };
            (value(other) << position >> 31 != 0) != (bits(word, 16, 16) != 0)
        }
        _ => {
            set(regs, r(target as u8), operand.into());
            conditions::shift(condition, operand)
        }
    }
}

/// Sets a general register to the lower 32 bits of a value. r0 stays 0.
fn set(regs: &mut dyn Registers, reg: Reg, value: u64) {
    if reg != r(0) {
        regs.set(reg, value & 0xffff_ffff);
    }
}

#[cfg(test)]
mod tests;
