//! The jump of an optimised probe on x86: its encoding, its reach, and the instructions that it may overwrite. The rules
//! differ by policy: `Best` and `Outside` use the decoder's facts, and `Linux` decides as that release does.

use super::shape::{Map, Shape};
use super::{Mode, faithful, linux, rules};
use crate::detour::{Detour, JUMP_MOST};
use crate::insn::{Flow, Insn};
use crate::plan::{Plan, Policy};

/// The opcode of `jmp rel32`.
pub const JUMP: u8 = 0xe9;
/// Bytes of the jump.
pub const JUMP_LENGTH: usize = 5;
/// `nop`.
const NOP: &[u8] = &[0x90];

/// The detours of 64-bit code: the jump reaches 2 GiB in each direction.
pub static BITS_64: Detour = Detour {
    in_linux: true,
    instructions_are_whole: false,
    jump_length: JUMP_LENGTH as u64,
    lead: NOP,
    return_pad: &[0xff, 0x64, 0x24, 0xf8], // jmp *-8(%rsp)
    jump: |over, to| jump(Mode::Bits64, over.address, to),
    may_move: |insn, policy| may_move(Mode::Bits64, insn, policy),
    flow: |insn, policy| flow(Mode::Bits64, insn, policy),
    faithful: Some(&faithful::BITS_64),
    far: None,
};

/// The detours of 32-bit code: addresses wrap, so the jump reaches every address.
pub static BITS_32: Detour = Detour {
    return_pad: &[0xff, 0x64, 0x24, 0xfc], // jmp *-4(%esp)
    jump: |over, to| jump(Mode::Bits32, over.address, to),
    may_move: |insn, policy| may_move(Mode::Bits32, insn, policy),
    flow: |insn, policy| flow(Mode::Bits32, insn, policy),
    faithful: Some(&faithful::BITS_32),
    far: None,
    ..BITS_64
};

/// Encodes the jump at `from`. `None` if `to` is out of reach.
fn jump(mode: Mode, from: u64, to: u64) -> Option<[u8; JUMP_MOST]> {
    let distance = distance(mode, from.wrapping_add(JUMP_LENGTH as u64), to)?;
    let mut bytes = [0; JUMP_MOST];
    bytes[0] = JUMP;
    bytes[1..JUMP_LENGTH].copy_from_slice(&distance.to_le_bytes());
    Some(bytes)
}

/// The displacement of a jump or call to `to`, where `from` is the address of the next instruction. `None` if it does not
/// fit into 32 bits. 32-bit addresses wrap, so there every target is in reach.
pub(super) fn distance(mode: Mode, from: u64, to: u64) -> Option<i32> {
    let distance = to.wrapping_sub(from) as i64;
    match mode {
        Mode::Bits64 => i32::try_from(distance).ok(),
        Mode::Bits32 => Some(distance as i32),
    }
}

/// Whether the jump may overwrite this instruction, so that its copy runs in the detour. `Best` moves instructions that may
/// be boosted and do not branch. Linux's rule is in `linux.rs`.
fn may_move(mode: Mode, insn: &Insn, policy: Policy) -> bool {
    match policy {
        Policy::Best | Policy::Outside => insn.flow == Flow::Next && matches!(rules::plan(mode, insn, policy), Ok(Plan::Boost)),
        Policy::Linux(_) => linux::may_move(mode, insn),
    }
}

/// The control flow of an instruction. The caller looks for jumps into the region by it.
fn flow(mode: Mode, insn: &Insn, policy: Policy) -> Flow {
    match policy {
        Policy::Best | Policy::Outside => insn.flow,
        Policy::Linux(_) => linux_flow(mode, insn),
    }
}

/// The control flow as Linux 6.1 sees it: by the first opcode byte alone. So it takes some vector instructions for jumps.
fn linux_flow(mode: Mode, insn: &Insn) -> Flow {
    let Ok(shape) = Shape::of(mode, insn.bytes()) else { return Flow::Next };
    let immediate = &insn.bytes()[shape.immediate.min(insn.bytes().len())..];
    let target = || insn.next().wrapping_add_signed(rules::sign_extended(immediate)) & mode.mask();
    match (shape.first_opcode(), shape.opcode) {
        (0xff, _) if shape.reg() & 6 == 4 => Flow::IndirectJump,
        (0xea, _) => Flow::IndirectJump,
        (0xe9 | 0xeb, _) => Flow::Jump(target()),
        (0xe0..=0xe3 | 0x70..=0x7f, _) => Flow::Branch(target()),
        (0x0f, 0x80..=0x8f) if shape.map == Map::Two => Flow::Branch(target()),
        _ => Flow::Next,
    }
}

#[cfg(test)]
mod tests;
