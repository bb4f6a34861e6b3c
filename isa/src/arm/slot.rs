//! The breakpoints of ARM, and the copy of an instruction that runs in the window.

use super::decode::word;
use super::{LENGTH, Set, detour, rules};
use crate::insn::Insn;
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// A32: an encoding that is permanently undefined, with any condition.
pub const BREAKPOINT: u32 = 0xe7f0_01f8;
/// T16: an encoding that is permanently undefined.
pub const THUMB_BREAKPOINT: u16 = 0xde18;
/// T32: an encoding that is permanently undefined, as two halfwords.
const THUMB_WIDE_BREAKPOINT: [u8; LENGTH] = [0xf0, 0xf7, 0x18, 0xa0];
/// BKPT, which executes in an IT block whatever the condition.
const BKPT: u16 = 0xbe00;
/// `udf #0`.
const UNDEFINED: u32 = 0xe7f0_00f0;
/// `udf #0` of T16.
const THUMB_UNDEFINED: u16 = 0xde00;

/// The breakpoint with each condition.
static BREAKPOINTS: [[u8; LENGTH]; 15] = {
    let mut all = [[0; LENGTH]; 15];
    let mut condition = 0;
    while condition < all.len() {
        all[condition] = (BREAKPOINT & 0x0fff_ffff | (condition as u32) << 28).to_le_bytes();
        condition += 1;
    }
    all
};

/// A breakpoint with the condition of the instruction, so that it traps only if the instruction would execute.
pub fn breakpoint_over(insn: &Insn) -> &'static [u8] {
    let condition = (word(Set::A32, insn) >> 28) as usize;
    // Instructions without a condition field (15) always execute.
    BREAKPOINTS.get(condition).unwrap_or(&BREAKPOINTS[14])
}

/// A breakpoint of the instruction's size.
pub fn thumb_breakpoint_over(insn: &Insn) -> &'static [u8] {
    const NARROW: &[u8] = &THUMB_BREAKPOINT.to_le_bytes();
    if insn.bytes().len() == LENGTH { &THUMB_WIDE_BREAKPOINT } else { NARROW }
}

/// Whether this A32 word may be a breakpoint, ours or the guest's: it is undefined, undefined while its coprocessor is off, or
/// BKPT.
pub fn is_breakpoint(bytes: &[u8]) -> bool {
    let word = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    TRAPS.iter().any(|(mask, value)| word & mask == *value)
}

/// Like [`is_breakpoint`], for Thumb code.
pub fn is_thumb_breakpoint(bytes: &[u8]) -> bool {
    let first = bytes.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
    // udf; bkpt; coprocessors; SIMD loads and stores; udf of T32.
    let traps = [(0xff00, 0xde00), (0xff00, 0xbe00), (0xec00, 0xec00), (0xff10, 0xf900), (0xfff0, 0xf7f0)];
    traps.iter().any(|(mask, value)| first & mask == *value)
}

/// Words with `word & mask == value` trap, or may trap.
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

/// The refusal of a jump back that a branch cannot encode.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 32 MiB away from it; the probe window must be nearer to the probed text",
);

/// Makes the copy that runs at `at` instead of its own address, followed by `tail`.
///
/// An instruction that uses the pc is emulated. Its copy runs only if the emulation faults, to raise that fault. If the
/// accessed address depends on the pc, the copy would access another address, so it is replaced by an undefined
/// instruction.
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
        // No branch may be in an IT block, and traps other than BKPT may be skipped there. The copy advances the IT
        // state as the original does, so nothing needs correction.
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

/// The refusal of a jump back: copies of Thumb code are stepped.
pub static NO_WAY_BACK: Rule =
    Rule::new("no-way-back", Errno::EINVAL, "a branch is not allowed inside an IT block, so a copy of Thumb code ends in a trap");

#[cfg(test)]
mod tests;
