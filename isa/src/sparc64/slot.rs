//! The breakpoints of SPARC, and the copy of an instruction that runs in the window.

use super::decode::word;
use super::{LENGTH, detour};
use crate::insn::Insn;
use crate::mem::ByteOrder;
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// `ta 0x70`, Linux's breakpoint for probes.
pub const BREAK: u32 = ta(0x70);
/// `ta 0x71`, Linux's end of a step.
pub const STEP_END: u32 = ta(0x71);
/// `ta 1`, the breakpoint of debuggers.
pub const OLD_BREAK: u32 = ta(1);
/// The breakpoint over `save`: a spill exception, if one is due, comes before the hit.
pub const BREAK_SAVE: u32 = ta(0x78);
/// The breakpoint over `restore` and `return`: a fill exception, if one is due, comes before the hit.
pub const BREAK_RESTORE: u32 = ta(0x79);
/// The breakpoint over `flushw`: a spill exception, if one is due, comes before the hit.
pub const BREAK_FLUSH: u32 = ta(0x7a);

/// Encodes `ta` with a number.
const fn ta(number: u32) -> u32 {
    0x91d0_2000 | number
}

/// The breakpoint that always traps.
pub const BREAKPOINT: &[u8] = &BREAK.to_be_bytes();

/// The breakpoint that replaces an instruction.
pub fn breakpoint_over(insn: &Insn) -> &'static [u8] {
    const SAVE: &[u8] = &BREAK_SAVE.to_be_bytes();
    const RESTORE: &[u8] = &BREAK_RESTORE.to_be_bytes();
    const FLUSH: &[u8] = &BREAK_FLUSH.to_be_bytes();
    match word(insn) & super::decode::OP3 {
        0x81e0_0000 => SAVE,
        0x81e8_0000 | 0x81c8_0000 => RESTORE,
        0x8158_0000 => FLUSH,
        _ => BREAKPOINT,
    }
}

/// Whether this is one of the breakpoints.
pub fn is_breakpoint(bytes: &[u8]) -> bool {
    let word = bytes.get(..LENGTH).map(|bytes| ByteOrder::Big.word(bytes));
    word.is_some_and(|word| matches!(word, BREAK | STEP_END | OLD_BREAK | BREAK_SAVE | BREAK_RESTORE | BREAK_FLUSH))
}

/// The only refusal that depends on the place of the copy.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 8 MiB away; the probe window must be nearer to the probed text",
);

/// Makes the copy that runs at `at` instead of its own address, followed by `tail`. Instructions that use the pc are
/// emulated, so the word is unchanged.
pub fn copy(insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let behind = at.wrapping_add(LENGTH as u64);
    let tail = match tail {
        Tail::Breakpoint => STEP_END,
        Tail::JumpBack => detour::jump_word(behind, insn.next()).ok_or(OUT_OF_REACH.refusal())?,
    };
    let mut copy = Copy { bytes: [0; 32], len: 2 * LENGTH, displaced: LENGTH };
    for (place, word) in copy.bytes.chunks_exact_mut(LENGTH).zip([word(insn), tail]) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::*;
    use alloc::vec::Vec;

    const TEXT: u64 = 0x0040_1000;

    fn copied(word: u32, at: u64, tail: Tail) -> Result<Vec<u32>, Refusal> {
        let copy = copy(&decode(TEXT, &word.to_be_bytes()).expect("a whole word"), at, tail)?;
        assert_eq!(copy.displaced, 4);
        Ok(copy.bytes().chunks(4).map(|word| ByteOrder::Big.word(word)).collect())
    }

    /// KP-1: a copy is the same word, followed by the end of the step or the jump back.
    #[test]
    fn a_copy_is_the_word_and_its_tail() {
        let add = 0x9002_2001;
        assert_eq!(copied(add, 0x60_0000, Tail::Breakpoint), Ok([add, STEP_END].to_vec()));
        assert_eq!(copied(add, TEXT + 0x1000, Tail::JumpBack), Ok([add, 0x30bf_fc00].to_vec()), "0x1000 back");
        assert_eq!(copied(add, TEXT + 0x80_0000, Tail::JumpBack), Ok([add, 0x30a0_0000].to_vec()), "as far as it goes");
        assert_eq!(copied(add, TEXT + 0x80_0004, Tail::JumpBack), Err(OUT_OF_REACH.refusal()));
        assert_eq!(copied(add, TEXT + 0x80_0004, Tail::Breakpoint), Ok([add, STEP_END].to_vec()), "a step needs no jump back");
    }

    /// KP-1, KP-2: instructions that change the register window have breakpoints of their own, and all are breakpoints.
    #[test]
    fn window_instructions_have_their_own_breakpoints() {
        let over = |word: u32| breakpoint_over(&decode(TEXT, &word.to_be_bytes()).expect("a whole word"));
        #[rustfmt::skip]
        let cases = [
            ("save",         0x9de3_bf40, BREAK_SAVE),
            ("save, bare",   0x81e0_0000, BREAK_SAVE),
            ("restore",      0x81e8_0000, BREAK_RESTORE),
            ("return",       0x81cf_e008, BREAK_RESTORE),
            ("flushw",       0x8158_0000, BREAK_FLUSH),
            ("saved",        0x8188_0000, BREAK),
            ("an addition",  0x9002_2001, BREAK),
            ("jmp",          0x81c3_e008, BREAK),
        ];
        for (what, word, expected) in cases {
            assert_eq!(over(word), expected.to_be_bytes(), "{what}");
            assert!(is_breakpoint(over(word)) && !is_breakpoint(&word.to_be_bytes()), "{what}");
        }
        assert!(is_breakpoint(&STEP_END.to_be_bytes()) && !is_breakpoint(&BREAK.to_be_bytes()[..3]));
        assert!(!is_breakpoint(&ta(5).to_be_bytes()), "that of a BUG()");
        assert_eq!((BREAK, STEP_END), (0x91d0_2070, 0x91d0_2071));
    }
}
