//! The breakpoints, and the copy that runs out of line with what stands behind it.

use super::decode::word;
use super::{LENGTH, Set, detour, rules};
use crate::insn::Insn;
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// A32: undefined for ever, whatever the condition.
pub const BREAKPOINT: u32 = 0xe7f0_01f8;
/// T16: undefined for ever.
pub const THUMB_BREAKPOINT: u16 = 0xde18;
/// The same in place of a T32 instruction: its two halfwords.
const THUMB_WIDE_BREAKPOINT: [u8; LENGTH] = [0xf0, 0xf7, 0x18, 0xa0];
/// BKPT: executed on no condition, also in an IT block.
const BKPT: u16 = 0xbe00;
/// `udf #0`.
const UNDEFINED: u32 = 0xe7f0_00f0;
/// `udf #0` of T16.
const THUMB_UNDEFINED: u16 = 0xde00;

/// The breakpoint on each condition.
static BREAKPOINTS: [[u8; LENGTH]; 15] = {
    let mut all = [[0; LENGTH]; 15];
    let mut condition = 0;
    while condition < all.len() {
        all[condition] = (BREAKPOINT & 0x0fff_ffff | (condition as u32) << 28).to_le_bytes();
        condition += 1;
    }
    all
};

/// A breakpoint has the condition of the instruction under it, so that it traps only where that would do something.
pub fn breakpoint_over(insn: &Insn) -> &'static [u8] {
    let condition = (word(Set::A32, insn) >> 28) as usize;
    // What has no condition is always executed.
    BREAKPOINTS.get(condition).unwrap_or(&BREAKPOINTS[14])
}

/// Of the size of the instruction under it.
pub fn thumb_breakpoint_over(insn: &Insn) -> &'static [u8] {
    const NARROW: &[u8] = &THUMB_BREAKPOINT.to_le_bytes();
    if insn.bytes().len() == LENGTH { &THUMB_WIDE_BREAKPOINT } else { NARROW }
}

/// Whether a word traps as the breakpoint does: whatever is undefined, or is while a coprocessor is off.
pub fn is_breakpoint(bytes: &[u8]) -> bool {
    let word = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    TRAPS.iter().any(|(mask, value)| word & mask == *value)
}

/// The same of Thumb code.
pub fn is_thumb_breakpoint(bytes: &[u8]) -> bool {
    let first = bytes.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
    // udf; bkpt; coprocessors; SIMD loads and stores; udf of T32.
    let traps = [(0xff00, 0xde00), (0xff00, 0xbe00), (0xec00, 0xec00), (0xff10, 0xf900), (0xfff0, 0xf7f0)];
    traps.iter().any(|(mask, value)| first & mask == *value)
}

/// Words with `word & mask == value` trap, or may.
#[rustfmt::skip]
const TRAPS: &[(u32, u32)] = &[
    (0xfe00_0000, 0xf200_0000), // SIMD
    (0xff10_0000, 0xf400_0000), // SIMD loads and stores
    (0x0ff0_00f0, 0x07f0_00f0), // udf
    (0x0ff0_00f0, 0x0120_0070), // bkpt
    (0x0f00_0000, 0x0c00_0000), // coprocessors
    (0x0f00_0000, 0x0d00_0000),
    (0x0f00_0000, 0x0e00_0000),
];

/// The one refusal that depends on where the copy would lie.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 32 MiB away from it; the probe window must lie nearer to the probed text",
);

/// The copy that runs at `at` instead of at its own address, followed by `tail`.
///
/// What uses the pc is computed and runs here only when its computation faults, to fault itself: a store of the pc
/// faults before it stores. If its address counts from the pc it would fault elsewhere or not at all, so then it is an
/// undefined instruction: never a load of something else.
pub fn copy(set: Set, insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let displaced = insn.bytes().len();
    let mut copy = Copy { bytes: [0; 32], len: displaced, displaced };
    copy.bytes[..displaced].copy_from_slice(insn.bytes());
    let counts_from_pc = rules::counts_from_pc(set, insn);
    match set {
        Set::A32 => {
            if counts_from_pc {
                copy.bytes[..LENGTH].copy_from_slice(&UNDEFINED.to_le_bytes());
            }
            let behind = at.wrapping_add(LENGTH as u64);
            let tail = match tail {
                Tail::Breakpoint => BREAKPOINT,
                Tail::JumpBack if rules::reads_pc(set, insn) => return Err(OUT_OF_REACH.refusal()),
                Tail::JumpBack => detour::branch(detour::ALWAYS, behind, insn.next()).ok_or(OUT_OF_REACH.refusal())?,
            };
            copy.bytes[LENGTH..2 * LENGTH].copy_from_slice(&tail.to_le_bytes());
            copy.len = 2 * LENGTH;
        }
        // A branch must not stand inside of an IT block, and any other trap may be skipped there. What ITSTATE is
        // behind the copy is what it is behind the original, so that nothing has to be mended.
        Set::Thumb => {
            if tail == Tail::JumpBack {
                return Err(NO_WAY_BACK.refusal());
            }
            if counts_from_pc {
                let undefined = THUMB_UNDEFINED.to_le_bytes();
                copy.bytes[..2].copy_from_slice(&undefined);
                copy.bytes[2..displaced].copy_from_slice(&undefined[..displaced - 2]);
            }
            copy.bytes[displaced..displaced + 2].copy_from_slice(&BKPT.to_le_bytes());
            copy.len = displaced + 2;
        }
    }
    Ok(copy)
}

/// Thumb copies are stepped.
pub static NO_WAY_BACK: Rule = Rule::new(
    "no-way-back",
    Errno::EINVAL,
    "no branch may stand in the middle of an IT block, so a copy of Thumb code ends in a trap",
);

#[cfg(test)]
mod tests;
