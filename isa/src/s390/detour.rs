//! The jump of an optimised probe: `jg`, 6 bytes, which replaces one to three instructions. It has the size of the
//! 6-byte no-op at function entries.
//!
//! Linux has none on s390x.

use super::LONGEST;
use super::rules;
use crate::detour::{Detour, JUMP_MOST};
use crate::insn::{Flow, Insn};
use crate::plan::{Plan, Policy};

/// `bcr 0,0`
const NOP: [u8; 2] = [0x07, 0x00];
/// `br %r14`
const RETURN: [u8; 2] = [0x07, 0xfe];
/// `brcl 15`: always.
const JUMP: [u8; 2] = [0xc0, 0xf4];

/// The jump reaches 4 GiB in each direction.
pub static DETOUR: Detour = Detour {
    in_linux: false,
    instructions_are_whole: true,
    jump_length: LONGEST as u64,
    lead: &NOP,
    return_pad: &RETURN,
    jump: |over, to| {
        let mut bytes = [0; JUMP_MOST];
        bytes[..LONGEST].copy_from_slice(&jump(over.address, to)?);
        Some(bytes)
    },
    may_move,
    flow,
    faithful: None,
    far: None,
};

/// The displacement in halfwords; `None` if it does not fit into 32 bits.
pub(super) fn halfwords(from: u64, to: u64) -> Option<i32> {
    let distance = to.wrapping_sub(from) as i64;
    i32::try_from(distance >> 1).ok().filter(|_| distance & 1 == 0)
}

/// Encodes `jg` from one address to another; `None` if it does not reach.
pub(super) fn jump(from: u64, to: u64) -> Option<[u8; LONGEST]> {
    let mut bytes = [0; LONGEST];
    bytes[..2].copy_from_slice(&JUMP);
    bytes[2..].copy_from_slice(&halfwords(from, to)?.to_be_bytes());
    Some(bytes)
}

/// A conditional return leads to the caller or to the next instruction, never into the function.
fn flow(insn: &Insn, _: Policy) -> Flow {
    match (insn.flow, insn.bytes()) {
        (Flow::IndirectBranch, [0x07, registers]) if registers & 15 == 14 => Flow::Next,
        (flow, _) => flow,
    }
}

/// Whether an instruction may run in a detour. A probed `larl` is emulated, but its relocated copy works in a detour.
fn may_move(insn: &Insn, policy: Policy) -> bool {
    let may_run = || matches!(rules::plan(insn, policy), Ok(Plan::Boost)) || rules::is_address(insn);
    insn.flow == Flow::Next && may_run()
}

#[cfg(test)]
mod tests;
