//! The breakpoints of PA-RISC, and the copy of an instruction that runs in the window.

use super::decode::word;
use super::{LENGTH, detour, rules};
use crate::insn::Insn;
use crate::mem::ByteOrder;
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// `break 31,0x1ffc`, Linux's breakpoint for probes.
pub const BREAK: u32 = 0x03ff_801f;
/// `break 30,0x1ffc`, Linux's end of a step.
pub const STEP_END: u32 = 0x03ff_801e;
/// `break 29,0x1ffc`, the end of a step whose instruction has nullified the next one.
pub const STEP_NULLIFIED: u32 = 0x03ff_801d;

/// `or,tr r0,r0,r0`, which only nullifies the next instruction.
pub const NULLIFY_NEXT: u32 = 0x0800_1240;

/// The breakpoint that always traps.
pub const BREAKPOINT: &[u8] = &BREAK.to_be_bytes();

/// Whether this is `break` with any numbers.
pub fn is_breakpoint(bytes: &[u8]) -> bool {
    let word = bytes.get(..LENGTH).map(|bytes| ByteOrder::Big.word(bytes));
    word.is_some_and(|word| word & 0xfc00_1fe0 == 0)
}

/// The only refusal that depends on the place of the copy.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 256 KiB away; the probe window must be nearer to the probed text",
);

/// Makes the copy that runs at `at` instead of its own address, followed by `tail`. Instructions that use the pc are
/// emulated, so the word is unchanged.
pub fn copy(insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let behind = at.wrapping_add(LENGTH as u64);
    let back = |from: u64| detour::jump_word(from, insn.next()).ok_or(OUT_OF_REACH.refusal());
    let (tail, len) = match tail {
        Tail::Breakpoint => ([STEP_END, STEP_NULLIFIED, 0], 3 * LENGTH),
        // If the first jump is nullified, the second one nullifies the instruction that it leads to.
        Tail::JumpBack if rules::may_nullify(word(insn)) => {
            let second = back(behind + LENGTH as u64)? & !detour::NULLIFIES_SLOT;
            ([back(behind)?, second, NULLIFY_NEXT], 4 * LENGTH)
        }
        Tail::JumpBack => ([back(behind)?, 0, 0], 2 * LENGTH),
    };
    let mut copy = Copy { bytes: [0; 32], len, displaced: LENGTH };
    for (place, word) in copy.bytes.chunks_exact_mut(LENGTH).zip([word(insn), tail[0], tail[1], tail[2]]) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::*;
    use crate::insn::Flow;
    use alloc::vec::Vec;

    const TEXT: u64 = 0x0010_1000;

    fn copied(word: u32, at: u64, tail: Tail) -> Result<Vec<u32>, Refusal> {
        let copy = copy(&decode(TEXT, &word.to_be_bytes()).expect("a whole word"), at, tail)?;
        assert_eq!(copy.displaced, 4);
        Ok(copy.bytes().chunks(4).map(|word| ByteOrder::Big.word(word)).collect())
    }

    /// KP-1: a copy is the same word, followed by both ends of a step or by the jump back.
    #[test]
    fn a_copy_is_the_word_and_its_tail() {
        let add = 0x0a05_0604;
        assert_eq!(copied(add, 0x60_0000, Tail::Breakpoint), Ok([add, STEP_END, STEP_NULLIFIED].to_vec()));
        assert_eq!(copied(add, TEXT + 0x1000, Tail::JumpBack), Ok([add, 0xe81f_1ff3].to_vec()), "0x1000 back");
        assert_eq!(copied(add, TEXT + 0x3_fff8, Tail::JumpBack).map(|words| words[1] & 3), Ok(3), "as far as it goes");
        assert_eq!(copied(add, TEXT + 0x3_fffc, Tail::JumpBack), Err(OUT_OF_REACH.refusal()));
        assert!(copied(add, TEXT + 0x4_0000, Tail::Breakpoint).is_ok(), "a step needs no jump back");
    }

    /// KP-1: behind a copy that nullifies the first jump back, the second one nullifies the instruction that it leads to.
    #[test]
    fn a_boosted_copy_may_nullify_the_next_instruction() {
        let add_if_zero = 0x0a05_2604;
        let words = copied(add_if_zero, TEXT + 0x1000, Tail::JumpBack).expect("in reach");
        assert_eq!(words, [add_if_zero, 0xe81f_1ff3, 0xe81f_1fe9, NULLIFY_NEXT]);
        for (place, links) in [(1, 3), (2, 1)] {
            let at = TEXT + 0x1000 + 4 * place;
            let jump = decode(at, &words[place as usize].to_be_bytes()).expect("a whole word");
            assert_eq!((jump.flow, words[place as usize] & 3), (Flow::Jump(TEXT + 4), links));
        }
        assert!(copied(add_if_zero, TEXT + 0x3_fff8, Tail::JumpBack).is_err(), "the second jump does not reach");
    }

    /// KP-1: every break is a breakpoint, and nothing else.
    #[test]
    fn breakpoints_are_known() {
        for word in [BREAK, STEP_END, STEP_NULLIFIED] {
            assert!(is_breakpoint(&word.to_be_bytes()));
        }
        assert!(is_breakpoint(&[0, 0, 0, 1]), "one of the guest");
        assert!(!is_breakpoint(&[0, 0, 4, 0]), "sync");
        assert!(!is_breakpoint(&BREAK.to_be_bytes()[..3]));
    }
}
