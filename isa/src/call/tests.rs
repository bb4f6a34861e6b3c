//! Calls by the conventions of the real ISAs and of two made-up ones.

use super::Home::{Register, Stack};
use super::Type::{Signed, SignedWord, Unsigned, Word};
use super::*;
use crate::abi::Abi;
use crate::arm::{ARM, abi::r};
use crate::arm64::{ARM64, abi::x};
use crate::x86::{I386, X86_64, abi};
use alloc::vec::Vec;

const U64: Type = Unsigned(8);
const U32: Type = Unsigned(4);

fn one(place: Home) -> (Home, Option<Home>) {
    (place, None)
}

fn two(low: Home, high: Home) -> (Home, Option<Home>) {
    (low, Some(high))
}

fn places(isa: &Isa, types: &[Type], count: usize) -> Vec<(Home, Option<Home>)> {
    (0..count).map(|number| argument(isa, types, number)).map(|value| (value.low, value.high)).collect()
}

/// JP-2: `f(u32, u64, u32)` and similar signatures as compilers pass them: register pairs, skipped registers, the
/// stack.
#[test]
fn arguments_are_where_the_convention_puts_them() {
    let (eax, edx, ecx) = (Register(abi::AX), Register(abi::DX), Register(abi::CX));
    let reg = |number| Register(r(number));
    assert_eq!(places(&X86_64, &[], 8)[5..], [one(Register(abi::R9)), one(Stack(8)), one(Stack(16))]);
    assert_eq!(places(&X86_64, &[U32, U64, U32], 3), [abi::DI, abi::SI, abi::DX].map(|reg| one(Register(reg))));
    assert_eq!(places(&ARM64, &[U64; 10], 10)[7..], [one(Register(x(7))), one(Stack(0)), one(Stack(8))]);

    assert_eq!(places(&I386, &[U32, U64, U32], 3), [one(eax), two(edx, ecx), one(Stack(4))], "i386 takes any two");
    let split = [one(eax), one(edx), two(Stack(4), Stack(8)), one(Stack(12))];
    assert_eq!(places(&I386, &[U32, U32, U64, U32], 4), split, "i386 splits no pair, and ecx stays unused");

    assert_eq!(places(&ARM, &[U32, U64, U32], 3), [one(reg(0)), two(reg(2), reg(3)), one(Stack(0))], "r1 stays unused");
    let behind = [one(reg(0)), one(reg(1)), one(reg(2)), two(Stack(0), Stack(4)), one(Stack(8))];
    assert_eq!(places(&ARM, &[U32, U32, U32, U64, U32], 5), behind, "r3 stays unused");
    let high = [two(reg(0), reg(1)), two(reg(2), reg(3)), one(Stack(0)), two(Stack(8), Stack(12))];
    assert_eq!(places(&ARM, &[U64, U64, U32, U64], 4), high, "the stack has its gaps too");
}

/// JP-2: big-endian code has the high half first. On the stack, arguments start behind the caller's save area.
#[test]
fn a_big_endian_pair_has_its_high_half_first() {
    static ABI: Abi = Abi { stack_arguments: 16, ..crate::arm::abi::BASE };
    let big = Isa { order: ByteOrder::Big, abi: &ABI, ..crate::arm::A32 };
    let reg = |number| Register(r(number));
    let expected = [one(reg(0)), two(reg(3), reg(2)), two(Stack(20), Stack(16))];
    assert_eq!(places(&big, &[U32, U64, U64], 3), expected);
    let pair = result(&big, U64);
    assert_eq!((pair.low, pair.high), two(reg(1), reg(0)));
    assert_eq!(pair.read(&big, |place| if place == reg(0) { 0x1122_3344 } else { 0x5566_7788 }), 0x1122_3344_5566_7788);
}

/// JP-2: only the bytes of the type count, and signed types are extended to 64 bits.
#[test]
fn values_are_truncated_and_extended_to_their_type() {
    #[rustfmt::skip]
    let cases = [
        // type        word  found                  value
        (Word,         8,    0xffff_ffff_8000_0000, 0xffff_ffff_8000_0000),
        (Word,         4,    0xffff_ffff_8000_0000, 0x8000_0000),
        (SignedWord,   4,    0x8000_0000,           0xffff_ffff_8000_0000),
        (Unsigned(4),  8,    0xffff_ffff_8000_0001, 0x8000_0001),
        (Signed(4),    8,    0x8000_0001,           0xffff_ffff_8000_0001),
        (Signed(4),    8,    0xdead_beef_7000_0000, 0x7000_0000),
        (Signed(1),    4,    0x1234_5680,           0xffff_ffff_ffff_ff80),
        (Unsigned(2),  4,    0x1234_5680,           0x5680),
        (Unsigned(0),  8,    0x1180,                0x80),
        (Signed(200),  8,    u64::MAX,              u64::MAX),
    ];
    for (kind, word, found, expected) in cases {
        assert_eq!(kind.cut(found, word), expected, "{kind:?}");
    }
    let words = |place| if place == Register(abi::AX) { 0xffff_fffe } else { 0xffff_ffff };
    assert_eq!(result(&I386, Signed(8)).read(&I386, words), -2_i64 as u64);
    assert_eq!(result(&I386, SignedWord).read(&I386, words), -2_i64 as u64, "eax alone");
    assert_eq!(result(&X86_64, U64).read(&X86_64, |_| u64::MAX), u64::MAX);
}
