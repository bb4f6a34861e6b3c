//! The jump of an optimised probe on A32: one `b` that replaces one instruction and has its condition. Thumb has none.

use super::decode::word;
use super::{LENGTH, Set, rules};
use crate::detour::{Detour, JUMP_MOST};
use crate::insn::{Flow, Insn};
use crate::plan::{Plan, Policy};

/// `mov r0, r0`.
const NOP: u32 = 0xe1a0_0000;
/// `bx lr`.
const BX_LR: u32 = 0xe12f_ff1e;
/// The condition "always".
pub const ALWAYS: u32 = 14;

/// The jump reaches 32 MiB in each direction.
pub static DETOUR: Detour = Detour {
    in_linux: true,
    instructions_are_whole: false,
    jump_length: LENGTH as u64,
    lead: &NOP.to_le_bytes(),
    return_pad: &BX_LR.to_le_bytes(),
    jump,
    may_move,
    flow: |insn, _| insn.flow,
    faithful: None,
    far: None,
};

/// Encodes `b` from one address to another; `None` if it does not reach. Addresses wrap.
pub(super) fn branch(condition: u32, from: u64, to: u64) -> Option<u32> {
    let distance = (to as u32).wrapping_sub(from as u32).wrapping_sub(Set::A32.bias()) as i32;
    let fits = distance & 3 == 0 && (-0x200_0000..0x200_0000).contains(&distance);
    fits.then_some(condition << 28 | 0x0a00_0000 | (distance >> 2) as u32 & 0x00ff_ffff)
}

fn jump(insn: &Insn, to: u64) -> Option<[u8; JUMP_MOST]> {
    // Instructions without a condition field (15) always execute.
    let condition = (word(Set::A32, insn) >> 28).min(ALWAYS);
    let mut bytes = [0; JUMP_MOST];
    bytes[..LENGTH].copy_from_slice(&branch(condition, insn.address, to)?.to_le_bytes());
    Some(bytes)
}

/// Whether an instruction may run in a detour: under `Best`, if it may be boosted. Linux emulates the others in the detour
/// too, and accepts every instruction that it can probe.
fn may_move(insn: &Insn, policy: Policy) -> bool {
    match (rules::plan(Set::A32, insn, policy), policy) {
        (Ok(plan), Policy::Best | Policy::Outside) => insn.flow == Flow::Next && plan == Plan::Boost,
        (verdict, Policy::Linux(_)) => verdict.is_ok(),
        (Err(_), _) => false,
    }
}

#[cfg(test)]
mod tests;
