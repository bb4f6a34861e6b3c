//! The breakpoints of AArch64, and the copy of an instruction that runs in the window.

use super::decode::{address_of, word};
use super::{LENGTH, detour};
use crate::insn::Insn;
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// `brk #4`: the breakpoint of a probe.
pub const PROBE: u32 = 0xd420_0080;
/// `brk #6`: the end of a step.
pub const STEP_END: u32 = 0xd420_00c0;
/// `udf #0`.
const UNDEFINED: u32 = 0;

/// Whether this is a `brk`, ours or another.
pub fn is_breakpoint(bytes: &[u8]) -> bool {
    let word = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    word & 0xffe0_001f == 0xd420_0000
}

/// The only refusal that depends on the place of the copy.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 128 MiB away from it; the probe window must be nearer to the probed text",
);

/// Makes the copy that runs at `at` instead of its own address, followed by `tail`.
///
/// An instruction that uses the pc is emulated. Its copy runs in two cases: in a detour, where it must do what the
/// original does, and to raise a fault if the emulation faults. If the relocated copy does not reach its target, the
/// first case is refused. In the second case the copy becomes an undefined instruction.
pub fn copy(insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let behind = at.wrapping_add(LENGTH as u64);
    let moved = relocated(insn, at);
    let (displaced, tail) = match tail {
        Tail::Breakpoint => (moved.unwrap_or(UNDEFINED), STEP_END),
        Tail::JumpBack => moved.zip(detour::branch(behind, insn.next())).ok_or(OUT_OF_REACH.refusal())?,
    };
    let mut copy = Copy { bytes: [0; 32], len: 2 * LENGTH, displaced: LENGTH };
    copy.bytes[..LENGTH].copy_from_slice(&displaced.to_le_bytes());
    copy.bytes[LENGTH..2 * LENGTH].copy_from_slice(&tail.to_le_bytes());
    Ok(copy)
}

/// Instructions with `word & mask == value`, and the encoding of their pc-relative displacement.
struct RelativeRow {
    mask: u32,
    value: u32,
    names: Names,
}

/// The encoding of a pc-relative displacement.
enum Names {
    /// `bits` bits from bit `low` on, in words.
    Words { low: u32, bits: u32 },
    /// Two parts, in bytes (`adr`).
    Address,
    /// Two parts, in pages (`adrp`).
    Page,
}

const fn row(mask: u32, value: u32, names: Names) -> RelativeRow {
    RelativeRow { mask, value, names }
}

#[rustfmt::skip]
static RELATIVE: &[RelativeRow] = &[
    //  mask         value
    row(0x7c00_0000, 0x1400_0000, Names::Words { low: 0, bits: 26 }), // b, bl
    row(0xff00_0000, 0x5400_0000, Names::Words { low: 5, bits: 19 }), // b.cond, bc.cond
    row(0x7e00_0000, 0x3400_0000, Names::Words { low: 5, bits: 19 }), // cbz, cbnz
    row(0x7e00_0000, 0x3600_0000, Names::Words { low: 5, bits: 14 }), // tbz, tbnz
    row(0x3b00_0000, 0x1800_0000, Names::Words { low: 5, bits: 19 }), // ldr, ldrsw, prfm (literal), vectors too
    row(0x9f00_0000, 0x1000_0000, Names::Address),                    // adr
    row(0x9f00_0000, 0x9000_0000, Names::Page),                       // adrp
];

/// The instruction, relocated to `at`; `None` if its target is out of reach from there.
fn relocated(insn: &Insn, at: u64) -> Option<u32> {
    let word = word(insn);
    let Some(row) = RELATIVE.iter().find(|row| word & row.mask == row.value) else { return Some(word) };
    let moved_by = insn.address.wrapping_sub(at) as i64;
    match row.names {
        Names::Words { low, bits } => {
            let mask = (1 << bits) - 1;
            let old = i64::from(word << (32 - low - bits)) << 32 >> (64 - bits);
            let new = field(old.checked_add(moved_by >> 2)?, bits)?;
            // A displacement in words cannot express a move that is not a multiple of 4.
            (moved_by & 3 == 0).then_some(word & !(mask << low) | new << low)
        }
        Names::Address => {
            let target = address_of(insn.address, word);
            Some(with_distance(word, field(target.wrapping_sub(at) as i64, 21)?))
        }
        Names::Page => {
            let target = address_of(insn.address, word);
            Some(with_distance(word, field(target.wrapping_sub(at & !0xfff) as i64 >> 12, 21)?))
        }
    }
}

/// The low `bits` bits of a signed number; `None` if the number does not fit into them.
pub(super) fn field(value: i64, bits: u32) -> Option<u32> {
    let fits = value >> (bits - 1) == 0 || value >> (bits - 1) == -1;
    fits.then_some(value as u32 & ((1 << bits) - 1))
}

/// `adr` or `adrp` with this displacement.
fn with_distance(word: u32, distance: u32) -> u32 {
    word & 0x9f00_001f | (distance & 3) << 29 | distance >> 2 << 5
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::*;

    const TEXT: u64 = 0xffff_8000_0801_0ff0;

    fn copied(word: u32, at: u64, tail: Tail) -> Result<[u32; 2], Refusal> {
        let insn = decode(TEXT, &word.to_le_bytes()).expect("a whole word");
        let copy = copy(&insn, at, tail)?;
        assert_eq!((copy.displaced, copy.bytes().len()), (4, 8));
        let word = |from: usize| u32::from_le_bytes(copy.bytes[from..from + 4].try_into().expect("four bytes"));
        Ok([word(0), word(4)])
    }

    /// KP-1: every kind of pc-relative displacement.
    #[test]
    fn a_copy_has_the_target_of_the_original() {
        #[rustfmt::skip]
        let cases: &[(&str, u32, u64, u32)] = &[
            // what                                       original     moved to           copy
            ("nothing to rewrite: stp",                   0xa9be_7bfd, TEXT + 0x100_0000, 0xa9be_7bfd),
            ("b .",                                       0x1400_0000, TEXT + 8,          0x17ff_fffe),
            ("b, the farthest that can be",               0x1400_0000, TEXT + 0x800_0000, 0x1600_0000),
            ("b, too far",                                0x1400_0000, TEXT + 0x800_0004, UNDEFINED),
            ("bl .+4",                                    0x9400_0001, TEXT - 0x7ff_fff8, 0x95ff_ffff),
            ("bl, too far",                               0x9400_0001, TEXT - 0x7ff_fffc, UNDEFINED),
            ("b.ne .+8",                                  0x5400_0041, TEXT + 0x10,       0x54ff_ffc1),
            ("b.ne, too far",                             0x5400_0041, TEXT + 0x10_000c,  UNDEFINED),
            ("cbnz x9, .-4",                              0xb5ff_ffe9, TEXT - 0x8,        0xb500_0029),
            ("tbz x1, #63, .+4",                          0xb6f8_0021, TEXT + 0x8000,     0xb6fc_0021),
            ("tbz, too far",                              0xb6f8_0021, TEXT + 0x8008,     UNDEFINED),
            ("ldr x3, .+16",                              0x5800_0083, TEXT + 0x10,       0x5800_0003),
            ("ldr x3, too far",                           0x5800_0083, TEXT + 0x100_0000, UNDEFINED),
            ("ldrsw x3, .+16",                            0x9800_0083, TEXT + 0x20,       0x98ff_ff83),
            ("ldr q3, .+16",                              0x9c00_0083, TEXT + 0x20,       0x9cff_ff83),
            ("prfm #0, .+16",                             0xd800_0080, TEXT + 0x20,       0xd8ff_ff80),
            ("adr x0, .+1",                               0x3000_0000, TEXT + 2,          0x70ff_ffe0),
            ("adr, too far",                              0x3000_0000, TEXT + 0x10_0004,  UNDEFINED),
            ("adrp x0, . on the page before",             0x9000_0000, TEXT + 0x10,       0xf0ff_ffe0),
            ("adrp, the farthest that can be",            0x9000_0000, TEXT + 0x1_0000_0000, 0x9080_0000),
            ("adrp, too far",                             0x9000_0000, TEXT + 0x1_0000_1000, UNDEFINED),
        ];
        for (what, original, at, expected) in cases {
            assert_eq!(copied(*original, *at, Tail::Breakpoint), Ok([*expected, STEP_END]), "{what}");
        }
    }

    /// KP-1
    #[test]
    fn the_jump_back_leads_behind_the_original() {
        assert_eq!(copied(0xd503_201f, TEXT + 0x100, Tail::JumpBack), Ok([0xd503_201f, 0x17ff_ffc0]));
        assert_eq!(copied(0xd503_201f, TEXT + 0x800_0000, Tail::JumpBack), Ok([0xd503_201f, 0x1600_0000]));
        assert_eq!(copied(0xd503_201f, TEXT - 0x7ff_fffc, Tail::JumpBack), Ok([0xd503_201f, 0x15ff_ffff]));
    }

    /// KP-1: only copies with a jump back or a pc-relative target have a limited reach.
    #[test]
    fn a_slot_out_of_reach_is_refused() {
        let refused = Err(OUT_OF_REACH.refusal());
        #[rustfmt::skip]
        let cases: &[(&str, u32, u64)] = &[
            ("the jump back",           0xd503_201f, TEXT + 0x800_0004),
            ("the jump back, forwards", 0xd503_201f, TEXT - 0x800_0000),
            ("adr among others",       0x1000_0000, TEXT + 0x20_0000),
        ];
        for (what, word, at) in cases {
            assert_eq!(copied(*word, *at, Tail::JumpBack), refused, "{what}");
        }
        assert_eq!(copied(0xd503_201f, TEXT ^ 1 << 47, Tail::Breakpoint), Ok([0xd503_201f, STEP_END]));
    }

    /// KP-2: a `brk` of anyone is a breakpoint.
    #[test]
    fn every_brk_is_a_breakpoint_and_nothing_else() {
        let is = |word: u32| is_breakpoint(&word.to_le_bytes());
        assert!([PROBE, STEP_END, 0xd421_0000, 0xd43f_ffe0].into_iter().all(is));
        assert!(![0xd440_0000, 0xd420_0081, 0xd400_0001, 0].into_iter().any(is));
        assert!(!is_breakpoint(&[0x80, 0x00, 0x20]));
    }
}
