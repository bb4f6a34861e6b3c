//! The breakpoint of PowerPC, and the copy of an instruction that runs in the window.

use super::decode::word;
use super::rules::pages;
use super::{LENGTH, Set, detour};
use crate::insn::Insn;
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// `trap`: the breakpoint, and the end of a step.
pub const TRAP: u32 = 0x7fe0_0008;
/// Prefixed instructions lie inside a block of this many bytes.
const BOUNDARY: u64 = 64;
/// An instruction that is illegal on every CPU.
const UNDEFINED: u32 = 0;

/// Whether this is a trap instruction, conditional or not, whoever has written it.
pub fn is_breakpoint(set: Set, bytes: &[u8]) -> bool {
    let word = set.word(bytes.get(..LENGTH).unwrap_or_default());
    // tw, td; twi, tdi.
    matches!(word & 0xfc00_07fe, 0x7c00_0008 | 0x7c00_0088) || matches!(word >> 26, 2 | 3)
}

/// The only refusal that depends on the place of the copy.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 32 MiB away from it; the probe window must be nearer to the probed text",
);

/// The refusal of a copy of a prefixed instruction that does not reach its operand. The copy runs in a step, too.
pub static FAR_OPERAND: Rule = Rule::new(
    "far-operand",
    Errno::EINVAL,
    "the copy of this prefixed instruction would be more than 8 GiB away from its operand; the probe window must be nearer to the probed text",
);

/// The refusal of a copy at whose address the CPU would raise an alignment interrupt.
pub static CROSSES: Rule = Rule::new(
    "crosses-64-bytes",
    Errno::EINVAL,
    "the copy of this prefixed instruction would cross a 64-byte boundary, which no prefixed instruction may; it runs only in a slot that is aligned to 16 bytes",
);

/// Makes the copy that runs at `at` instead of its own address, followed by `tail`.
///
/// Branches and `addpcis` are emulated, so their copies run only in detours. Prefixed instructions that use the pc always
/// run as copies. [`Tail::JumpBack`] fails if the copy does not reach its target, or the jump back does not reach the
/// next instruction. With [`Tail::Breakpoint`], the copy of an emulated instruction that does not reach its target becomes
/// an illegal instruction. A prefixed instruction that does not reach its operand, or would cross a 64-byte boundary, fails.
pub fn copy(set: Set, insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let displaced = insn.bytes().len();
    let behind = at.wrapping_add(insn.length());
    let moved = relocated(set, insn, at);
    let is_prefixed = displaced > LENGTH;
    if is_prefixed && at % BOUNDARY > BOUNDARY - insn.length() {
        return Err(CROSSES.refusal());
    }
    let (words, tail) = match tail {
        Tail::Breakpoint if is_prefixed && moved.is_none() => return Err(FAR_OPERAND.refusal()),
        Tail::Breakpoint => (moved.unwrap_or([UNDEFINED; 2]), TRAP),
        Tail::JumpBack => moved.zip(detour::branch(set, behind, insn.next())).ok_or(OUT_OF_REACH.refusal())?,
    };
    let mut copy = Copy { bytes: [0; 32], len: displaced + LENGTH, displaced };
    for (place, word) in copy.bytes.chunks_exact_mut(LENGTH).zip(words) {
        place.copy_from_slice(&set.bytes(word));
    }
    copy.bytes[displaced..displaced + LENGTH].copy_from_slice(&set.bytes(tail));
    Ok(copy)
}

/// Instructions with `word & mask == value`, and the function that adjusts their pc-relative displacement.
struct RelativeRow {
    mask: u32,
    value: u32,
    /// Returns the relocated words; `moved_by` is the old address minus the new one. `None` if the field is too small.
    adjust: fn(words: [u32; 2], moved_by: i64) -> Option<[u32; 2]>,
}

const fn row(mask: u32, value: u32, adjust: fn([u32; 2], i64) -> Option<[u32; 2]>) -> RelativeRow {
    RelativeRow { mask, value, adjust }
}

/// `addpcis`.
const ADDPCIS: u32 = 0x4c00_0004;

#[rustfmt::skip]
static RELATIVE: &[RelativeRow] = &[
    //  mask         value
    row(0xfc00_0002, 0x4800_0000, |[word, rest], by| Some([displaced(word, 26, by)?, rest])), // b, bl
    row(0xfc00_0002, 0x4000_0000, |[word, rest], by| Some([displaced(word, 16, by)?, rest])), // bc, bcl
    row(0xfc00_003e, ADDPCIS,     |[word, rest], by| Some([with_pages(word, by)?, rest])),    // addpcis, 64-bit only
    row(0xff10_0000, 0x0410_0000, prefixed),                                                  // 8LS with R: plwa, pld, pstd..
    row(0xff10_0000, 0x0610_0000, prefixed),                                                  // MLS with R: paddi, plwz, pstw..
];

/// The instruction, relocated to `at`. `None` if its target is out of reach from there. The second word counts only for
/// prefixed instructions.
fn relocated(set: Set, insn: &Insn, at: u64) -> Option<[u32; 2]> {
    let words = [word(set, insn), set.word(insn.bytes().get(LENGTH..).unwrap_or_default())];
    let is_it = |row: &&RelativeRow| words[0] & row.mask == row.value && (words[0] >> 26 != 1 || insn.bytes().len() > LENGTH);
    let Some(row) = RELATIVE.iter().find(is_it).filter(|row| set.is_64() || row.value != ADDPCIS) else { return Some(words) };
    (row.adjust)(words, set.distance(at, insn.address))
}

/// Adjusts the displacement of a branch, which has `bits` bits. The two low bits of the field are flags (AA, LK).
fn displaced(word: u32, bits: u32, moved_by: i64) -> Option<u32> {
    let mask = (1 << bits) - 4;
    let old = i64::from(word & mask) << (64 - bits) >> (64 - bits);
    let new = field(old.checked_add(moved_by)?, bits)?;
    (new & 3 == 0).then_some(word & !mask | new)
}

/// Adjusts the immediate of `addpcis`, which counts units of 64 KiB. `None` if the move is not a multiple of that.
fn with_pages(word: u32, moved_by: i64) -> Option<u32> {
    let new = field(pages(word).checked_add(moved_by >> 16)?, 16)?;
    (moved_by & 0xffff == 0).then_some(word & !0x001f_ffc1 | (new >> 6) << 6 | (new >> 1 & 31) << 16 | new & 1)
}

/// Adjusts the displacement of a prefixed instruction: 34 bits in two parts.
fn prefixed([prefix, suffix]: [u32; 2], moved_by: i64) -> Option<[u32; 2]> {
    let old = (i64::from(prefix & 0x3_ffff) << 16 | i64::from(suffix & 0xffff)) << 30 >> 30;
    let new = old.checked_add(moved_by)?;
    let fits = new >> 33 == 0 || new >> 33 == -1;
    fits.then_some([prefix & !0x3_ffff | (new >> 16) as u32 & 0x3_ffff, suffix & !0xffff | new as u32 & 0xffff])
}

/// Encodes a signed number in this many bits. `None` if it does not fit.
pub(super) fn field(value: i64, bits: u32) -> Option<u32> {
    let fits = value >> (bits - 1) == 0 || value >> (bits - 1) == -1;
    fits.then_some(value as u32 & ((1 << bits) - 1))
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::*;
    use alloc::vec::Vec;

    const TEXT: u64 = 0xc000_0000_0101_0ff0;

    fn copied(set: Set, words: &[u32], from: u64, at: u64, tail: Tail) -> Result<Vec<u32>, Refusal> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| set.bytes(*word)).collect();
        let copy = copy(set, &decode(set, from, &bytes).expect("whole words"), at, tail)?;
        assert_eq!((copy.displaced, copy.bytes().len()), (bytes.len(), bytes.len() + 4));
        Ok(copy.bytes().chunks(4).map(|word| set.word(word)).collect())
    }

    /// KP-1: a relocated copy has the target of the original, for every kind of pc-relative displacement.
    #[test]
    fn a_copy_has_the_target_of_the_original() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u32], u64, &[u32])] = &[
            // what                                       original                    moved to           copy
            ("nothing to rewrite: std",                   &[0xf801_0010],              TEXT + 0x100_0000, &[0xf801_0010]),
            ("b .",                                       &[0x4800_0000],              TEXT + 8,          &[0x4bff_fff8]),
            ("b, the farthest that can be",               &[0x4800_0000],              TEXT + 0x200_0000, &[0x4a00_0000]),
            ("b, too far",                                &[0x4800_0000],              TEXT + 0x200_0004, &[UNDEFINED]),
            ("ba",                                        &[0x4800_0102],              TEXT + 0x200_0004, &[0x4800_0102]),
            ("bl .+4",                                    &[0x4800_0005],              TEXT - 0x1ff_fff8, &[0x49ff_fffd]),
            ("bne .+8",                                   &[0x4082_0008],              TEXT + 0x10,       &[0x4082_fff8]),
            ("bne, too far",                              &[0x4082_0008],              TEXT + 0x800c,     &[UNDEFINED]),
            ("bnea",                                      &[0x4082_000a],              TEXT + 0x800c,     &[0x4082_000a]),
            ("addpcis r3, 0",                             &[0x4c60_0004],              TEXT + 0x2_0000,   &[0x4c7f_ffc4]),
            ("addpcis r3, -2",                            &[0x4c7f_ffc4],              TEXT - 0x2_0000,   &[0x4c60_0004]),
            ("addpcis: not a multiple of 64 KiB",         &[0x4c60_0004],              TEXT + 0x1_0004,   &[UNDEFINED]),
            ("paddi r3,0,0,1",                            &[0x0610_0000, 0x3860_0000], TEXT + 0x2_0004,   &[0x0613_fffd, 0x3860_fffc]),
            ("pld r3,-4(0),1",                            &[0x0413_ffff, 0xe460_fffc], TEXT - 0x1_0008,   &[0x0410_0001, 0xe460_0004]),
            ("pld, the farthest that can be",             &[0x0410_0000, 0xe460_0000], TEXT + (2 << 32),   &[0x0412_0000, 0xe460_0000]),
            ("pld, the farthest forwards",                &[0x0410_0000, 0xe460_0000], TEXT - (2 << 32) + 4, &[0x0411_ffff, 0xe460_fffc]),
            ("pld r3,16(r4): not of the pc",              &[0x0400_0000, 0xe464_0010], TEXT + 0x8_0000,   &[0x0400_0000, 0xe464_0010]),
            ("xxspltiw: has no R bit",                    &[0x0510_0000, 0x8006_0000], TEXT + 0x8_0000,   &[0x0510_0000, 0x8006_0000]),
        ];
        for (what, original, at, expected) in cases {
            for set in [Set::Little64, Set::Big64] {
                let expected = [*expected, &[TRAP]].concat();
                assert_eq!(copied(set, original, TEXT, *at, Tail::Breakpoint), Ok(expected), "{what}");
            }
        }
    }

    /// KP-1: 32-bit addresses wrap.
    #[test]
    fn relocation_wraps_at_32_bits() {
        let copy = copied(Set::Big32, &[0x4800_0010], 0xffff_fff0, 0x10, Tail::Breakpoint);
        assert_eq!(copy, Ok([0x4bff_fff0, TRAP].to_vec()));
        let prefix = copied(Set::Big32, &[0x0610_0000], 0x1000, 0x2000, Tail::Breakpoint);
        assert_eq!(prefix, Ok([0x0610_0000, TRAP].to_vec()), "no prefix there");
        let address = copied(Set::Big32, &[0x4c60_0004], 0x1000, 0x2000, Tail::Breakpoint);
        assert_eq!(address, Ok([0x4c60_0004, TRAP].to_vec()), "and no addpcis");
    }

    /// KP-1
    #[test]
    fn the_jump_back_leads_behind_the_original() {
        let back = |words: &[u32], at| copied(Set::Little64, words, TEXT, at, Tail::JumpBack);
        assert_eq!(back(&[0x6000_0000], TEXT + 0x100), Ok([0x6000_0000, 0x4bff_ff00].to_vec()));
        assert_eq!(back(&[0x6000_0000], TEXT + 0x200_0000), Ok([0x6000_0000, 0x4a00_0000].to_vec()));
        assert_eq!(back(&[0x6000_0000], TEXT - 0x1ff_fffc), Ok([0x6000_0000, 0x49ff_fffc].to_vec()));
        assert_eq!(back(&[0x0600_0000, 0x3860_0010], TEXT + 0x100), Ok([0x0600_0000, 0x3860_0010, 0x4bff_ff00].to_vec()));
    }

    /// KP-1: only copies with a jump back have a limited reach.
    #[test]
    fn a_slot_out_of_reach_is_refused() {
        #[rustfmt::skip]
        let cases: &[(&str, u32, u64)] = &[
            ("the jump back",           0x6000_0000, TEXT + 0x200_0004),
            ("the jump back, forwards", 0x6000_0000, TEXT - 0x200_0000),
            ("addpcis among others",   0x4c60_0004, TEXT + 0x20),
        ];
        for (what, word, at) in cases {
            assert_eq!(copied(Set::Little64, &[*word], TEXT, *at, Tail::JumpBack), Err(OUT_OF_REACH.refusal()), "{what}");
        }
        let far = copied(Set::Little64, &[0x6000_0000], TEXT, TEXT ^ 1 << 47, Tail::Breakpoint);
        assert_eq!(far, Ok([0x6000_0000, TRAP].to_vec()));
    }

    /// KP-1: a prefixed instruction runs as its copy in a step, too, so one that cannot be relocated is refused.
    #[test]
    fn a_prefixed_copy_that_would_not_work_is_refused() {
        let (load, addition, plain) = ([0x0410_0000, 0xe460_0000], [0x0610_0000, 0x3860_0000], [0x0400_0000, 0xe464_0010]);
        for set in [Set::Little64, Set::Big64] {
            for tail in [Tail::Breakpoint, Tail::JumpBack] {
                for at in [TEXT + (2 << 32) + 4, TEXT - (2 << 32), TEXT ^ 1 << 47, TEXT ^ 1 << 63, 0x1000] {
                    for words in [load, addition] {
                        let refused = copied(set, &words, TEXT, at, tail);
                        let rule = if tail == Tail::Breakpoint { &FAR_OPERAND } else { &OUT_OF_REACH };
                        assert_eq!(refused, Err(rule.refusal()), "{words:x?} to {at:#x}");
                    }
                }
                for words in [load, addition, plain] {
                    let crosses = copied(set, &words, TEXT, TEXT + 0x4c, tail);
                    assert_eq!(crosses, Err(CROSSES.refusal()), "{words:x?}: no prefixed instruction crosses 64 bytes");
                    assert!(copied(set, &words, TEXT, TEXT + 0x48, tail).is_ok(), "{words:x?}: in front of the boundary");
                }
            }
            assert_eq!(copied(set, &plain, TEXT, 0x1000, Tail::Breakpoint), Ok([plain[0], plain[1], TRAP].to_vec()));
            for rule in [&FAR_OPERAND, &CROSSES] {
                assert_eq!(set.isa().rule_of(&rule.refusal()), Some(rule));
            }
        }
        let wide = copied(Set::Big32, &[0x0610_0000], 0x1000, 0x103c, Tail::Breakpoint);
        assert!(wide.is_ok(), "32-bit CPUs have no prefixes");
    }

    /// KP-2: a trap instruction of anyone is a breakpoint.
    #[test]
    fn every_trap_is_a_breakpoint_and_nothing_else() {
        for set in [Set::Big32, Set::Big64, Set::Little64] {
            let is = |word: u32| is_breakpoint(set, &set.bytes(word));
            assert!([TRAP, 0x7c83_2008, 0x7fe4_1888, 0x0fe3_0000, 0x0b03_0001].into_iter().all(is));
            assert!(![0x7fe0_000a, 0x7fe0_0408, 0x6000_0000, 0x4400_0002, 0].into_iter().any(is));
            assert!(!is_breakpoint(set, &set.bytes(TRAP)[..3]));
        }
    }
}
