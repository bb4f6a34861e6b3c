//! The jump of an optimised probe: `jal x0`, 4 bytes, which replaces one or two instructions. Linux has none on RISC-V.

use super::rules;
use super::{LENGTH, Set};
use crate::detour::{Detour, JUMP_MOST};
use crate::insn::{Flow, Insn};
use crate::plan::{Plan, Policy};

/// `c.nop`
const NOP: [u8; 2] = 0x0001_u16.to_le_bytes();
/// `c.jr ra`
const RET: [u8; 2] = 0x8082_u16.to_le_bytes();

/// The jump reaches 1 MiB in each direction.
pub static DETOUR: Detour = Detour {
    in_linux: false,
    instructions_are_whole: true,
    jump_length: LENGTH as u64,
    lead: &NOP,
    return_pad: &RET,
    jump: |over, to| {
        let mut bytes = [0; JUMP_MOST];
        bytes[..LENGTH].copy_from_slice(&jump(over.address, to)?.to_le_bytes());
        Some(bytes)
    },
    may_move,
    flow: |insn, _| insn.flow,
    faithful: None,
};

/// Encodes `jal x0` from one address to another; `None` if it does not reach.
pub(super) fn jump(from: u64, to: u64) -> Option<u32> {
    let distance = to.wrapping_sub(from) as i64;
    let fits = (-0x10_0000..0x10_0000).contains(&distance) && distance & 1 == 0;
    let part = |low: u32, bits: u32, to: u32| (distance as u32 >> low & ((1 << bits) - 1)) << to;
    fits.then(|| part(20, 1, 31) | part(1, 10, 21) | part(11, 1, 20) | part(12, 8, 12) | 0x6f)
}

/// Instructions that may be boosted. `auipc` is none: its copy would need more bytes.
fn may_move(insn: &Insn, policy: Policy) -> bool {
    insn.flow == Flow::Next && matches!(rules::plan(Set::Rv64, insn, policy), Ok(Plan::Boost))
}

#[cfg(test)]
mod tests;
