#![allow(clippy::type_complexity)] // tables of cases

use super::super::{ARM, THUMB2};
use super::*;
use crate::arch::Isa;

const TEXT: u64 = 0xc030_0ff0;
const SLOT: u64 = 0xbf60_0040;

fn insn(isa: &Isa, bytes: &[u8]) -> Insn {
    (isa.decode)(TEXT, bytes).expect("a whole instruction")
}

/// KP-1: an instruction whose condition is false causes no hit.
#[test]
fn a_breakpoint_has_the_condition_of_the_instruction_under_it() {
    #[rustfmt::skip]
    let cases: &[(&str, u32, u32)] = &[
        ("moveq", 0x03a0_0001, 0x07f0_01f8),
        ("movle", 0xd3a0_0001, 0xd7f0_01f8),
        ("mov",   0xe3a0_0001, 0xe7f0_01f8),
        ("pld",   0xf5d4_f008, 0xe7f0_01f8),
    ];
    for (what, word, breakpoint) in cases {
        let over = breakpoint_over(&insn(&ARM, &word.to_le_bytes()));
        assert_eq!(over, breakpoint.to_le_bytes(), "{what}");
        assert!((ARM.is_breakpoint)(0, over) && !(ARM.is_breakpoint)(0, &word.to_le_bytes()), "{what}");
    }
    assert_eq!(thumb_breakpoint_over(&insn(&THUMB2, &[0x01, 0x20])), [0x18, 0xde], "movs r0, #1");
    let wide = thumb_breakpoint_over(&insn(&THUMB2, &[0x00, 0xf0, 0x00, 0xf8]));
    assert_eq!(wide, [0xf0, 0xf7, 0x18, 0xa0], "bl");
    assert!(
        (THUMB2.is_breakpoint)(0, wide) && (THUMB2.is_breakpoint)(0, &[0x18, 0xde]) && !(THUMB2.is_breakpoint)(0, &[0x01, 0x20])
    );
}

/// KP-1: the copy and its tail.
#[test]
fn only_copies_that_use_the_pc_are_changed() {
    #[rustfmt::skip]
    let cases: &[(&str, u32, u64, Tail, Option<[u32; 2]>)] = &[
        ("addne, stepped",         0x1280_0001, SLOT,                Tail::Breakpoint, Some([0x1280_0001, BREAKPOINT])),
        ("addne, and back",        0x1280_0001, SLOT,                Tail::JumpBack,   Some([0x1280_0001, 0xea34_03ea])),
        ("the farthest back",      0xe280_0001, TEXT + 0x1ff_fff8,   Tail::JumpBack,   Some([0xe280_0001, 0xea80_0000])),
        ("too far",                0xe280_0001, TEXT + 0x1ff_fffc,   Tail::JumpBack,   None),
        ("too far to come back",   0xe280_0001, TEXT - 0x300_0000,   Tail::Breakpoint, Some([0xe280_0001, BREAKPOINT])),
        ("ldr of a literal",       0xe59f_0004, SLOT,                Tail::Breakpoint, Some([UNDEFINED, BREAKPOINT])),
        ("pop {pc}: it may fault", 0xe8bd_8010, SLOT,                Tail::Breakpoint, Some([0xe8bd_8010, BREAKPOINT])),
        ("bl never runs there",    0xebff_fffe, SLOT,                Tail::Breakpoint, Some([UNDEFINED, BREAKPOINT])),
        ("str pc: it may fault",   0xe581_f000, SLOT,                Tail::Breakpoint, Some([0xe581_f000, BREAKPOINT])),
        ("push {pc}: may fault",   0xe92d_d800, SLOT,                Tail::Breakpoint, Some([0xe92d_d800, BREAKPOINT])),
        ("str pc, off the pc",     0xe58f_f000, SLOT,                Tail::Breakpoint, Some([UNDEFINED, BREAKPOINT])),
        ("str pc, and back",       0xe581_f000, SLOT,                Tail::JumpBack,   None),
    ];
    for (what, word, at, tail, expected) in cases {
        let copy = copy(Set::A32, &insn(&ARM, &word.to_le_bytes()), *at, *tail);
        let Some([first, second]) = expected else {
            assert_eq!(copy, Err(OUT_OF_REACH.refusal()), "{what}");
            continue;
        };
        let copy = copy.expect("in reach");
        assert_eq!((copy.bytes(), copy.displaced), (&[first.to_le_bytes(), second.to_le_bytes()].concat()[..], 4), "{what}");
    }
}

/// KP-1: in an IT block, traps other than BKPT may be skipped, and no branch is allowed.
#[test]
fn a_copy_of_thumb_code_ends_in_a_trap_that_no_condition_skips() {
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], &[u8])] = &[
        ("adds",             &[0x01, 0x30],             &[0x01, 0x30, 0x00, 0xbe]),
        ("add.w",            &[0x04, 0xf1, 0x01, 0x03], &[0x04, 0xf1, 0x01, 0x03, 0x00, 0xbe]),
        ("ldr of a literal", &[0x01, 0x48],             &[0x00, 0xde, 0x00, 0xbe]),
        ("ldr.w of one",     &[0xdf, 0xf8, 0x04, 0x20], &[0x00, 0xde, 0x00, 0xde, 0x00, 0xbe]),
    ];
    for (what, bytes, expected) in cases {
        let insn = insn(&THUMB2, bytes);
        let copy = |tail| copy(Set::Thumb, &insn, SLOT, tail);
        assert_eq!(copy(Tail::Breakpoint).map(|copy| copy.bytes().to_vec()), Ok(expected.to_vec()), "{what}");
        assert_eq!(copy(Tail::JumpBack), Err(NO_WAY_BACK.refusal()), "{what}");
    }
}
