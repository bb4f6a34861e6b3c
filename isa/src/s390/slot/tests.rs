//! Copies with near and far targets, and their jumps back.

use super::super::decode::decode;
use super::*;
use alloc::vec::Vec;

const TEXT: u64 = 0x4_0010_0ff0;

fn copied(bytes: &[u8], at: u64, tail: Tail) -> Result<Vec<u8>, Refusal> {
    let copy = copy(&decode(TEXT, bytes).expect("an instruction"), at, tail)?;
    assert_eq!((copy.displaced, copy.bytes().len()), (bytes.len(), bytes.len() + if tail == Tail::Breakpoint { 2 } else { 6 }));
    Ok(copy.bytes().to_vec())
}

/// KP-1: a relocated copy has the target of the original. At least one case for each row of both tables.
#[test]
fn a_copy_has_the_target_of_the_original() {
    for code in FAR {
        let [first, rest] = code.to_be_bytes();
        let original = [first, 0x10 | rest, 0x00, 0x00, 0x10, 0x00];
        let moved = copied(&original, TEXT + 0x4000, Tail::Breakpoint);
        assert_eq!(moved, Ok([first, 0x10 | rest, 0xff, 0xff, 0xf0, 0x00, 0x00, 0x02].to_vec()), "{code:04x}: -0x1000 halfwords");
        let far = |tail| copied(&original, TEXT + (1 << 33), tail);
        let expected = if COMPUTED.contains(code) { Ok([0, 0, 0, 0, 0, 0, 0, 2].to_vec()) } else { Err(OUT_OF_REACH.refusal()) };
        assert_eq!((far(Tail::Breakpoint), far(Tail::JumpBack)), (expected, Err(OUT_OF_REACH.refusal())), "{code:04x}");
    }
    for code in NEAR {
        let [first, rest] = code.to_be_bytes();
        let length = if first == 0xec { 6 } else { 4 };
        let second = if first == 0xa7 { 0x10 | rest } else { 0x18 };
        let original = [first, second, 0x10, 0x00, 0x05, rest];
        let moved = copied(&original[..length], TEXT + 0x4000, Tail::Breakpoint);
        let expected = [first, second, 0xf0, 0x00, 0x05, rest];
        assert_eq!(moved, Ok([&expected[..length], &PROBE].concat()), "{code:04x}: -0x1000 halfwords");
        let far = |tail| copied(&original[..length], TEXT + 0x2_0000, tail);
        let none = Ok([&[0; 6][..length], &PROBE].concat());
        assert_eq!((far(Tail::Breakpoint), far(Tail::JumpBack)), (none, Err(OUT_OF_REACH.refusal())), "{code:04x}");
    }
}

/// KP-1: instructions without a pc-relative target are copied unchanged, as are branches that are never taken.
#[test]
fn copies_without_a_target_are_unchanged() {
    #[rustfmt::skip]
    let cases: &[(&str, &[u8])] = &[
        ("lr %r1,%r2",              &[0x18, 0x12]),
        ("la %r1,8(%r2)",           &[0x41, 0x10, 0x20, 0x08]),
        ("stmg %r14,%r15,136(%r15)", &[0xeb, 0xef, 0xf0, 0x88, 0x00, 0x24]),
        ("lgfi %r1,5",              &[0xc0, 0x11, 0x00, 0x00, 0x00, 0x05]),
        ("jgnop",                   &[0xc0, 0x04, 0x00, 0x00, 0x10, 0x00]),
        ("brc 0",                   &[0xa7, 0x04, 0x00, 0x08]),
        ("ahi %r1,5",               &[0xa7, 0x1a, 0x00, 0x05]),
        ("aghik: has no address",   &[0xec, 0x12, 0x00, 0x05, 0x00, 0xd9]),
    ];
    for (what, bytes) in cases {
        assert_eq!(copied(bytes, TEXT + (1 << 40), Tail::Breakpoint), Ok([*bytes, &PROBE].concat()), "{what}");
    }
}

/// KP-1: the jump back leads behind the original, up to 4 GiB away.
#[test]
fn the_jump_back_leads_behind_the_original() {
    let back = |bytes: &[u8], at| copied(bytes, at, Tail::JumpBack);
    assert_eq!(back(&[0x18, 0x12], TEXT + 0x100), Ok([0x18, 0x12, 0xc0, 0xf4, 0xff, 0xff, 0xff, 0x80].to_vec()));
    let lg = [0xe3, 0x10, 0x20, 0x08, 0x00, 0x04];
    assert_eq!(back(&lg, TEXT - 0x200), Ok([&lg[..], &[0xc0, 0xf4, 0x00, 0x00, 0x01, 0x00]].concat()));
    assert_eq!(
        back(&[0x18, 0x12], TEXT + 0x1_0000_0000).map(|bytes| bytes[2..].to_vec()),
        Ok([0xc0, 0xf4, 0x80, 0, 0, 0].to_vec())
    );
    assert_eq!(back(&[0x18, 0x12], TEXT + 0x1_0000_0002), Err(OUT_OF_REACH.refusal()));
    assert_eq!(back(&[0x18, 0x12], TEXT - 0x1_0000_0000), Err(OUT_OF_REACH.refusal()), "one halfword too far");
    assert!(back(&[0x18, 0x12], TEXT - 0xffff_fffe).is_ok());
}
