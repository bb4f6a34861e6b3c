//! Relocation on x86: the copy of an instruction that runs in the window, and the breakpoint or jump behind it.

use super::Mode;
use super::detour::{self, JUMP, JUMP_LENGTH};
use super::shape::{Map, Shape};
use crate::insn::Insn;
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// The breakpoint.
pub const INT3: u8 = 0xcc;

/// The only refusal that depends on the place of the copy.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 2 GiB away from its operand; the probe window must be nearer to the probed text",
);

/// Makes the copy that runs at `at` instead of its own address, followed by `tail`.
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

/// Adjusts the displacement, so that the copy accesses what the original accesses.
fn relocate(mode: Mode, insn: &Insn, shape: &Shape, at: u64, bytes: &mut [u8]) -> Result<(), Refusal> {
    let old_end = insn.next();
    let new_end = at.wrapping_add(insn.length());
    let target_of = |bytes: &[u8]| old_end.wrapping_add_signed(i64::from(signed(bytes)));
    if shape.is_ip_relative(mode) {
        let field = shape.displacement.0..shape.displacement.0 + 4;
        let target = target_of(&bytes[field.clone()]);
        // An address-size prefix (67) truncates the sum to 32 bits, so any distance fits.
        let narrow = if shape.prefixes.has(0x67) { Mode::Bits32 } else { mode };
        let new = distance(narrow, new_end, target)?;
        bytes[field].copy_from_slice(&new);
    }
    // Branches are emulated. The copy of a call runs only to raise the fault of its push, so it needs the right target.
    // Branches with short displacements push nothing: they lead to the tail.
    let field = shape.immediate..insn.bytes().len();
    match (is_branch(shape), field.len()) {
        (true, 4) => {
            let target = target_of(&bytes[field.clone()]);
            let new = distance(mode, new_end, target)?;
            bytes[field].copy_from_slice(&new);
        }
        (true, _) => bytes[field].fill(0),
        (false, _) => {}
    }
    Ok(())
}

/// Whether the immediate is the displacement of a branch.
fn is_branch(shape: &Shape) -> bool {
    match shape.map {
        Map::One => matches!(shape.opcode, 0x70..=0x7f | 0xe0..=0xe3 | 0xe8 | 0xe9 | 0xeb),
        Map::Two => matches!(shape.opcode, 0x80..=0x8f),
        _ => false,
    }
}

fn signed(bytes: &[u8]) -> i32 {
    bytes.try_into().map_or(0, i32::from_le_bytes)
}

/// The displacement, encoded.
fn distance(mode: Mode, from: u64, to: u64) -> Result<[u8; 4], Refusal> {
    detour::distance(mode, from, to).map(i32::to_le_bytes).ok_or(OUT_OF_REACH.refusal())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::type_complexity)] // tables of cases

    use super::super::Mode::{Bits32, Bits64};
    use super::super::decode::decode;
    use super::*;

    const TEXT: u64 = 0xffff_ffff_8100_0000;
    const SLOT: u64 = 0xffff_ffff_a000_0000;

    fn copied(mode: Mode, address: u64, bytes: &[u8], at: u64, tail: Tail) -> Result<Copy, Refusal> {
        let insn = decode(mode, address, bytes).expect("an instruction");
        assert_eq!(insn.bytes(), bytes);
        copy(mode, &insn, at, tail)
    }

    /// KP-1: the bytes of a relocated copy.
    #[test]
    fn a_copy_has_the_target_of_the_original() {
        #[rustfmt::skip]
        let cases: &[(&str, Mode, u64, u64, &[u8], &[u8])] = &[
            // what                           from  to           original                                         copy
            ("nothing to rewrite",    Bits64, TEXT, SLOT,        &[0x55],                                         &[0x55]),
            ("mov 0x100(%rip),%rax",  Bits64, TEXT, TEXT + 0x80, &[0x48, 0x8b, 0x05, 0, 1, 0, 0],                 &[0x48, 0x8b, 0x05, 0x80, 0, 0, 0]),
            ("the same 32-bit bytes", Bits32, 0x10, 0x90,        &[0x8b, 0x05, 0, 1, 0, 0],                       &[0x8b, 0x05, 0, 1, 0, 0]),
            ("an immediate behind",   Bits64, TEXT, TEXT - 0x10, &[0x81, 0x3d, 0, 0, 0, 0, 1, 2, 3, 4],           &[0x81, 0x3d, 0x10, 0, 0, 0, 1, 2, 3, 4]),
            ("a vector instruction",  Bits64, TEXT, TEXT + 0x10, &[0xc5, 0xf8, 0x28, 0x05, 0, 0, 0, 0],           &[0xc5, 0xf8, 0x28, 0x05, 0xf0, 0xff, 0xff, 0xff]),
            ("0x100, not rip",        Bits64, TEXT, TEXT + 0x10, &[0x8b, 0x04, 0x25, 0, 1, 0, 0],                 &[0x8b, 0x04, 0x25, 0, 1, 0, 0]),
            ("0x100(%eip)",           Bits64, TEXT, SLOT,        &[0x67, 0x8b, 0x05, 0, 0, 0, 0x60],              &[0x67, 0x8b, 0x05, 0, 0, 0, 0x41]),
            ("call rel32",            Bits64, TEXT, SLOT,        &[0xe8, 0, 0, 0, 0x20],                          &[0xe8, 0, 0, 0, 0x01]),
            ("jne rel32",             Bits32, 0x10, 0xffff_fff0, &[0x0f, 0x85, 0, 0, 0, 0],                       &[0x0f, 0x85, 0x20, 0, 0, 0]),
            ("jmp rel8, to the tail", Bits64, TEXT, SLOT,        &[0xeb, 0x70],                                   &[0xeb, 0x00]),
            ("loop, to the tail",     Bits64, TEXT, SLOT,        &[0xe2, 0x70],                                   &[0xe2, 0x00]),
            ("vpshufd: no branch",    Bits64, TEXT, SLOT,        &[0xc5, 0xf9, 0x70, 0xc1, 0x1b],                 &[0xc5, 0xf9, 0x70, 0xc1, 0x1b]),
        ];
        for (what, mode, from, to, original, expected) in cases {
            let copy = copied(*mode, *from, original, *to, Tail::Breakpoint).expect(what);
            assert_eq!(copy.displaced, original.len(), "{what}");
            assert_eq!(copy.bytes(), [*expected, &[INT3]].concat(), "{what}");
        }
    }

    /// KP-1
    #[test]
    fn the_jump_back_leads_behind_the_original() {
        let back = copied(Bits64, TEXT, &[0x55], SLOT, Tail::JumpBack).expect("in reach");
        assert_eq!(back.bytes(), [0x55, 0xe9, 0xfb, 0xff, 0xff, 0xe0]);
        let around = copied(Bits32, 0xffff_ffff, &[0x90], 0x20, Tail::JumpBack).expect("32-bit addresses wrap");
        assert_eq!(around.bytes(), [0x90, 0xe9, 0xda, 0xff, 0xff, 0xff]);
        let mut longest = [0x2e; 15];
        longest[9..].copy_from_slice(&[0x81, 0x00, 1, 0, 0, 0]);
        let copy = copied(Bits64, TEXT, &longest, SLOT, Tail::JumpBack).expect("in reach");
        assert_eq!((copy.displaced, copy.bytes().len()), (15, 20), "room for the longest");
    }

    /// KP-1
    #[test]
    fn a_slot_out_of_reach_is_refused() {
        const FAR: u64 = 0x1000;
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], Tail)] = &[
            ("what is rip-relative", &[0x8b, 0x05, 0, 0, 0, 0], Tail::Breakpoint),
            ("a call",               &[0xe8, 0, 0, 0, 0],       Tail::Breakpoint),
            ("the jump back",         &[0x90],                   Tail::JumpBack),
        ];
        for (what, bytes, tail) in cases {
            let far = copied(Bits64, 0x9000_0000_0000, bytes, FAR, *tail);
            assert_eq!(far, Err(OUT_OF_REACH.refusal()), "{what}");
        }
        assert!(copied(Bits64, 0x9000_0000_0000, &[0x90], FAR, Tail::Breakpoint).is_ok());
        let edge = |at| copied(Bits64, 0x8000_0000, &[0x8b, 0x05, 0xff, 0xff, 0xff, 0x7f], at, Tail::Breakpoint).is_ok();
        assert_eq!((edge(0x8000_0000), edge(0x7fff_ffff)), (true, false), "at the very edge");
    }
}
