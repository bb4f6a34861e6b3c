//! The breakpoint of MIPS, and the copy of an instruction that runs in the window.

use super::decode::{delay_slot_of, word};
use super::{LENGTH, Set, detour};
use crate::insn::Insn;
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// `break 515`, which Linux uses for probes. Serves as the breakpoint and as the end of a step.
pub const BREAK: u32 = 515 << 6 | 0x0d;

/// Whether this is a `break`, ours or another.
pub fn is_breakpoint(set: Set, bytes: &[u8]) -> bool {
    let word = bytes.get(..LENGTH).map(|bytes| set.word(bytes));
    word.is_some_and(|word| word & 0xfc00_003f == 0x0d)
}

/// The only refusal that depends on the place of the copy.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be in another 256 MiB segment; the probe window must be in the segment of the probed text",
);

/// Makes the copy that runs at `at` instead of its own address, followed by `tail`. For a branch, which is emulated,
/// this is the copy of its delay slot. No copied instruction uses the pc, so the word is unchanged.
pub fn copy(set: Set, insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let runs = delay_slot_of(insn).unwrap_or(*insn);
    let behind = at.wrapping_add(LENGTH as u64);
    let tail: &[u32] = match tail {
        Tail::Breakpoint => &[BREAK],
        Tail::JumpBack => &[detour::jump_word(set, behind, insn.next()).ok_or(OUT_OF_REACH.refusal())?, detour::NOP],
    };
    let mut copy = Copy { bytes: [0; 32], len: LENGTH * (1 + tail.len()), displaced: LENGTH };
    let words = core::iter::once(word(set, &runs)).chain(tail.iter().copied());
    for (place, word) in copy.bytes.chunks_exact_mut(LENGTH).zip(words) {
        place.copy_from_slice(&set.bytes(word));
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::*;
    use alloc::vec::Vec;

    const TEXT: u64 = 0xffff_ffff_8010_0ff0;
    const WINDOW: u64 = 0xffff_ffff_8f00_0040;

    fn copied(set: Set, words: &[u32], at: u64, tail: Tail) -> Result<Vec<u32>, Refusal> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| set.bytes(*word)).collect();
        let copy = copy(set, &decode(set, set.cut(TEXT), &bytes).expect("whole words"), set.cut(at), tail)?;
        assert_eq!(copy.displaced, 4);
        Ok(copy.bytes().chunks(4).map(|word| set.word(word)).collect())
    }

    /// KP-1: the copy of an instruction is the same word; the copy of a branch is its delay slot.
    #[test]
    fn a_copy_is_the_instruction_or_its_delay_slot() {
        for set in Set::ALL {
            let step = |words: &[u32]| copied(set, words, WINDOW, Tail::Breakpoint);
            assert_eq!(step(&[0x27bd_ffe0]), Ok([0x27bd_ffe0, BREAK].to_vec()), "addiu sp,sp,-32");
            assert_eq!(step(&[0x0c04_0000, 0x2442_0001]), Ok([0x2442_0001, BREAK].to_vec()), "jal, and a sum in its slot");
        }
    }

    /// KP-1
    #[test]
    fn the_jump_back_leads_behind_the_original() {
        for set in Set::ALL {
            let back = |at| copied(set, &[0x27bd_ffe0], at, Tail::JumpBack);
            assert_eq!(back(WINDOW), Ok([0x27bd_ffe0, 0x0804_03fd, 0].to_vec()));
            assert_eq!(back(WINDOW + 0x100_0000), Err(OUT_OF_REACH.refusal()), "in the next 256 MiB");
            let far = copied(set, &[0x27bd_ffe0], WINDOW + 0x100_0000, Tail::Breakpoint);
            assert_eq!(far, Ok([0x27bd_ffe0, BREAK].to_vec()), "a step needs no jump back");
        }
    }

    /// KP-2: a `break` of anyone is a breakpoint.
    #[test]
    fn every_break_is_a_breakpoint_and_nothing_else() {
        for set in Set::ALL {
            let is = |word: u32| is_breakpoint(set, &set.bytes(word));
            assert!([BREAK, 0x0000_810d, 0x0200_000d, 0x03ff_ffcd, 0x0000_000d].into_iter().all(is));
            assert!(![0x0000_000c, 0x0000_0000, 0x0040_0034, 0x7000_003f].into_iter().any(is));
            assert!(!is_breakpoint(set, &set.bytes(BREAK)[..3]));
        }
        assert_eq!(BREAK, 0x0000_80cd);
    }
}
