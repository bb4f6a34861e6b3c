//! The jumps of optimised probes. Linux has none on RISC-V.
//!
//! `jal x0` has 4 bytes and reaches 1 MiB. `auipc` and `jalr x0` have 8 bytes and reach 2 GiB, through a register whose
//! value nobody reads any more. The way back has the same choice.

use super::rules;
use super::{LENGTH, Set, usage};
use crate::detour::{Detour, Far, JUMP_MOST};
use crate::insn::{Flow, Insn};
use crate::plan::{Plan, Policy};
use crate::regs::Reg;

/// `c.nop`
const NOP: [u8; 2] = 0x0001_u16.to_le_bytes();
/// `c.jr ra`
const RET: [u8; 2] = 0x8082_u16.to_le_bytes();

/// The jumps of 64-bit RISC-V.
pub static DETOUR_64: Detour = Detour { far: Some(&FAR_64), ..DETOUR };
/// The jumps of 32-bit RISC-V.
pub static DETOUR_32: Detour = Detour { far: Some(&FAR_32), ..DETOUR };

static FAR_64: Far = Far { free: |at, function, around| usage::free(Set::Rv64, at, function, around), ..FAR };
static FAR_32: Far = Far {
    free: |at, function, around| usage::free(Set::Rv32, at, function, around),
    jump: |from, to, through| far_jump(Set::Rv32, from, to, through),
    ..FAR
};

const FAR: Far = Far {
    jump_length: 2 * LENGTH as u64,
    free: |_, _, _| None,
    jump: |from, to, through| far_jump(Set::Rv64, from, to, through),
};

const DETOUR: Detour = Detour {
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
    far: None,
};

/// Encodes `jal x0` from one address to another; `None` if it does not reach.
pub(super) fn jump(from: u64, to: u64) -> Option<u32> {
    let distance = to.wrapping_sub(from) as i64;
    let fits = (-0x10_0000..0x10_0000).contains(&distance) && distance & 1 == 0;
    let part = |low: u32, bits: u32, to: u32| (distance as u32 >> low & ((1 << bits) - 1)) << to;
    fits.then(|| part(20, 1, 31) | part(1, 10, 21) | part(11, 1, 20) | part(12, 8, 12) | 0x6f)
}

/// Encodes `auipc` and `jalr x0` from one address to another; `None` if they do not reach.
fn far_jump(set: Set, from: u64, to: u64, through: Reg) -> Option<[u8; JUMP_MOST]> {
    let distance = set.signed(to.wrapping_sub(from));
    // `jalr` adds a signed number of 12 bits, so the pages are rounded.
    let pages = i32::try_from(distance.checked_add(0x800)?).ok()?.cast_unsigned() & 0xffff_f000;
    let low = (distance as u32).wrapping_sub(pages) & 0xfff;
    let register = u32::from(through.0);
    let words = [pages | register << 7 | 0x17, low << 20 | register << 15 | 0x67];
    let mut bytes = [0; JUMP_MOST];
    bytes.chunks_mut(LENGTH).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
    (distance & 1 == 0).then_some(bytes)
}

/// Whether an instruction may run in a detour: it may be boosted. `auipc` may not, as its copy would need more bytes.
fn may_move(insn: &Insn, policy: Policy) -> bool {
    insn.flow == Flow::Next && matches!(rules::plan(Set::Rv64, insn, policy), Ok(Plan::Boost))
}

#[cfg(test)]
mod tests;
