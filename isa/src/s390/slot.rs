//! The breakpoint of s390x, and the copy of an instruction that runs in the window.

use super::LONGEST;
use super::detour;
use super::fields::{halfword, place, word};
use super::opcodes::code;
use crate::insn::{Flow, Insn};
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// The halfword that Linux uses: an invalid operation code. Serves as the breakpoint and as the end of a step.
pub const PROBE: [u8; 2] = [0x00, 0x02];

/// The only refusal that depends on the place of the copy.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 4 GiB away from its target; the probe window must be nearer to the probed text",
);

/// Makes the copy that runs at `at` instead of its own address, followed by `tail`.
///
/// Branches and `larl` are emulated; only a copy of `larl` in a detour runs. If the copy of an emulated instruction
/// does not reach its target, its bytes are zero, which is an invalid operation code.
pub fn copy(insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let displaced = insn.bytes().len();
    let mut copy = Copy { bytes: [0; 32], len: displaced, displaced };
    match (moved(insn, at), tail) {
        (Some(bytes), _) => copy.bytes[..displaced].copy_from_slice(&bytes[..displaced]),
        (None, Tail::Breakpoint) if COMPUTED.contains(&code(insn.bytes())) => {}
        (None, _) => return Err(OUT_OF_REACH.refusal()),
    }
    let back;
    let tail: &[u8] = match tail {
        Tail::Breakpoint => &PROBE,
        Tail::JumpBack => {
            back = detour::jump(at.wrapping_add(insn.length()), insn.next()).ok_or(OUT_OF_REACH.refusal())?;
            &back
        }
    };
    copy.bytes[displaced..displaced + tail.len()].copy_from_slice(tail);
    copy.len += tail.len();
    Ok(copy)
}

/// The instruction, relocated to `at`; `None` if its target is out of reach from there.
fn moved(insn: &Insn, at: u64) -> Option<[u8; LONGEST]> {
    let mut bytes = [0; LONGEST];
    bytes.get_mut(..insn.bytes().len())?.copy_from_slice(insn.bytes());
    let code = code(insn.bytes());
    // A branch that is never taken needs no target. Functions begin with one.
    let is_nop = matches!(code, 0xa704 | 0xc004) && insn.flow == Flow::Next;
    if is_nop {
        return Some(bytes);
    }
    if FAR.contains(&code) {
        let distance = detour::halfwords(at, place(insn.address, word(insn.bytes())))?;
        bytes[2..6].copy_from_slice(&distance.to_be_bytes());
    } else if NEAR.contains(&code) {
        let distance = detour::halfwords(at, place(insn.address, halfword(insn.bytes())))?;
        bytes[2..4].copy_from_slice(&i16::try_from(distance).ok()?.to_be_bytes());
    }
    Some(bytes)
}

/// Instructions with a 32-bit relative displacement: branches, `larl`, and relative loads, stores, comparisons and
/// prefetches.
#[rustfmt::skip]
pub const FAR: &[u16] = &[
    0xc000, // larl
    0xc004, // brcl
    0xc005, // brasl
    0xc402, // llhrl
    0xc404, // lghrl
    0xc405, // lhrl
    0xc406, // llghrl
    0xc407, // sthrl
    0xc408, // lgrl
    0xc40b, // stgrl
    0xc40c, // lgfrl
    0xc40d, // lrl
    0xc40e, // llgfrl
    0xc40f, // strl
    0xc600, // exrl
    0xc602, // pfdrl
    0xc604, // cghrl
    0xc605, // chrl
    0xc606, // clghrl
    0xc607, // clhrl
    0xc608, // cgrl
    0xc60a, // clgrl
    0xc60c, // cgfrl
    0xc60d, // crl
    0xc60e, // clgfrl
    0xc60f, // clrl
    0xcc06, // brcth
];

/// Branches with a 16-bit relative displacement.
#[rustfmt::skip]
const NEAR: &[u16] = &[
    0x8400, // brxh
    0x8500, // brxle
    0xa704, // brc
    0xa705, // bras
    0xa706, // brct
    0xa707, // brctg
    0xec44, // brxhg
    0xec45, // brxlg
    0xec64, // cgrj
    0xec65, // clgrj
    0xec76, // crj
    0xec77, // clrj
    0xec7c, // cgij
    0xec7d, // clgij
    0xec7e, // cij
    0xec7f, // clij
];

/// The pc-relative instructions that are emulated.
#[rustfmt::skip]
const COMPUTED: &[u16] = &[
    0x8400, 0x8500, 0xa704, 0xa705, 0xa706, 0xa707, 0xc000, 0xc004, 0xc005, 0xcc06,
    0xec44, 0xec45, 0xec64, 0xec65, 0xec76, 0xec77, 0xec7c, 0xec7d, 0xec7e, 0xec7f,
];

#[cfg(test)]
mod tests;
