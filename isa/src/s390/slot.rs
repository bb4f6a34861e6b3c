//! The copy that runs out of line, and what stands behind it.

use super::LONGEST;
use super::detour;
use super::fields::{halfword, place, word};
use super::opcodes::code;
use crate::insn::{Flow, Insn};
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// The halfword that Linux uses: no operation code, and the probe, and the end of a step.
pub const PROBE: [u8; 2] = [0x00, 0x02];

/// The one refusal that depends on where the copy would lie.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 4 GiB away from what it names; the probe window must lie nearer to the probed text",
);

/// The copy that runs at `at` instead of at its own address, followed by `tail`.
///
/// Branches and `larl` are computed and not run here, but in detours `larl` is. If the copy of what is computed cannot
/// mean that from here, there is no instruction in it, never another one.
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

/// Its bytes as they mean at `at` what they mean where they stand; `None` if they name a place that is too far.
fn moved(insn: &Insn, at: u64) -> Option<[u8; LONGEST]> {
    let mut bytes = [0; LONGEST];
    bytes.get_mut(..insn.bytes().len())?.copy_from_slice(insn.bytes());
    let code = code(insn.bytes());
    // A branch that is never taken leads nowhere, however far: functions begin with one.
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

/// What names a place 32 bits away: branches, `larl`, and the loads, stores, comparisons and hints of data there.
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

/// What branches 16 bits away.
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

/// What is computed of all that names a place.
#[rustfmt::skip]
const COMPUTED: &[u16] = &[
    0x8400, 0x8500, 0xa704, 0xa705, 0xa706, 0xa707, 0xc000, 0xc004, 0xc005, 0xcc06,
    0xec44, 0xec45, 0xec64, 0xec65, 0xec76, 0xec77, 0xec7c, 0xec7d, 0xec7e, 0xec7f,
];

#[cfg(test)]
mod tests;
