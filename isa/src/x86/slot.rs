//! The copy that runs out of line: distances rewritten, and the way back behind it (spec/isa-x86.md 4.2 to 4.4).

use super::Mode;
use super::detour::{JUMP, JUMP_LENGTH};
use super::rules::Rule;
use super::shape::{Map, Shape};
use crate::insn::Insn;
use crate::plan::{Copy, Errno, Refusal, Tail};

/// The breakpoint.
pub const INT3: u8 = 0xcc;

/// The one refusal that depends on where the copy would lie.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 2 GiB away from what the instruction refers to; the probe window must lie nearer to the probed text",
);

/// The copy that runs at `at` instead of at its own address, followed by `tail`.
pub fn copy(mode: Mode, insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let displaced = insn.bytes().len();
    let mut copy = Copy { bytes: [0; 32], len: displaced, displaced };
    copy.bytes[..displaced].copy_from_slice(insn.bytes());
    if let Ok(shape) = Shape::of(mode, insn.bytes()) {
        relocate(mode, insn, &shape, at, &mut copy.bytes)?;
    }
    let behind = at.wrapping_add(displaced as u64);
    match tail {
        Tail::Breakpoint => {
            copy.bytes[displaced] = INT3;
            copy.len += 1;
        }
        Tail::JumpBack => {
            let distance = distance(mode, behind.wrapping_add(JUMP_LENGTH as u64), insn.next())?;
            copy.bytes[displaced] = JUMP;
            copy.bytes[displaced + 1..displaced + JUMP_LENGTH].copy_from_slice(&distance);
            copy.len += JUMP_LENGTH;
        }
    }
    Ok(copy)
}

/// Makes the copy refer to what the original referred to.
fn relocate(mode: Mode, insn: &Insn, shape: &Shape, at: u64, bytes: &mut [u8]) -> Result<(), Refusal> {
    let old_end = insn.next();
    let new_end = at.wrapping_add(insn.length());
    let target_of = |bytes: &[u8]| old_end.wrapping_add_signed(i64::from(signed(bytes)));
    if shape.is_ip_relative(mode) {
        let field = shape.displacement.0..shape.displacement.0 + 4;
        let target = target_of(&bytes[field.clone()]);
        // With a 67 prefix the sum is cut to 32 bits, so that any distance can be bridged.
        let narrow = if shape.prefixes.has(0x67) { Mode::Bits32 } else { mode };
        let new = distance(narrow, new_end, target)?;
        bytes[field].copy_from_slice(&new);
    }
    // A branch is computed and never runs in a slot, unless to raise the fault of its push: even then it must not go astray.
    // One with a short displacement pushes nothing; it is made to lead to the tail.
    let field = shape.immediate..insn.bytes().len();
    match branch_field(shape) {
        Some(()) if field.len() == 4 => {
            let target = target_of(&bytes[field.clone()]);
            let new = distance(mode, new_end, target)?;
            bytes[field].copy_from_slice(&new);
        }
        Some(()) => bytes[field].fill(0),
        None => {}
    }
    Ok(())
}

/// Whether the immediate is the distance to a branch's target.
fn branch_field(shape: &Shape) -> Option<()> {
    let is = match shape.map {
        Map::One => matches!(shape.opcode, 0x70..=0x7f | 0xe0..=0xe3 | 0xe8 | 0xe9 | 0xeb),
        Map::Two => matches!(shape.opcode, 0x80..=0x8f),
        _ => false,
    };
    is.then_some(())
}

fn signed(bytes: &[u8]) -> i32 {
    bytes.try_into().map_or(0, i32::from_le_bytes)
}

/// The 32-bit distance from `from` to `to`. 32-bit addresses wrap, so every one is in reach of every other.
fn distance(mode: Mode, from: u64, to: u64) -> Result<[u8; 4], Refusal> {
    let distance = to.wrapping_sub(from) as i64;
    match mode {
        Mode::Bits32 => Ok((distance as i32).to_le_bytes()),
        Mode::Bits64 => i32::try_from(distance).map(i32::to_le_bytes).map_err(|_| OUT_OF_REACH.refusal()),
    }
}
