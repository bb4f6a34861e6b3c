//! Linux 6.1 saves its registers 64 bytes below the stack pointer of a probed instruction. It refuses instructions that
//! may store farther down, because they would overwrite that frame.

use crate::arm::Set;

/// The bytes that Linux leaves free below the stack pointer.
const MOST: u32 = 64;

/// Instructions with `word & mask == value` need this much stack; `None` if the amount is not known.
struct StackRow {
    mask: u32,
    value: u32,
    cost: fn(u32) -> Option<u32>,
}

const fn row(mask: u32, value: u32, cost: fn(u32) -> Option<u32>) -> StackRow {
    StackRow { mask, value, cost }
}

const UNKNOWN: fn(u32) -> Option<u32> = |_| None;

#[rustfmt::skip]
static A32: &[StackRow] = &[
    row(0x0e10_001f, 0x0600_000d, UNKNOWN),                                  // str, strb of [, sp]
    row(0x0e1f_0010, 0x060d_0000, UNKNOWN),                                  // str, strb of [sp, register]
    row(0x0e50_00bf, 0x0000_00bd, UNKNOWN),                                  // strh, strd
    row(0x0e5f_00b0, 0x000d_00b0, UNKNOWN),
    row(0x0edf_0000, 0x080d_0000, |word| {                                   // stmdb, stmda
        let size = 4 * (word & 0xffff).count_ones();
        Some(if word >> 24 & 1 != 0 { size } else { size.saturating_sub(4) })
    }),
    row(0x0f9f_0000, 0x050d_0000, |word| Some(word & 0xfff)),                // str, strb of [sp, #-]
    row(0x0fdf_00b0, 0x014d_00b0, |word| Some(word >> 4 & 0xf0 | word & 15)), // strh, strd
];

#[rustfmt::skip]
static T16: &[StackRow] = &[
    row(0xfe00, 0xb400, |word| Some(4 * (word & 0x1ff).count_ones())),       // push
];

#[rustfmt::skip]
static T32: &[StackRow] = &[
    row(0xffdf_0000, 0xe90d_0000, |word| Some(4 * (word & 0xffff).count_ones())), // stmdb
    row(0xff9f_0fc0, 0xf80d_0000, UNKNOWN),                                  // str of [sp, register]
    row(0xff90_0fcf, 0xf800_000d, UNKNOWN),                                  // str of [, sp]
    row(0xff9f_0e00, 0xf80d_0c00, |word| Some(word & 0xff)),                 // str of [sp, #-]
    row(0xffdf_0000, 0xe94d_0000, |word| Some(4 * (word & 0xff))),           // strd of [sp, #-]
];

/// Whether the instruction may overwrite Linux's frame.
pub(super) fn is_too_deep(set: Set, length: usize, word: u32) -> bool {
    let rows = match (set, length) {
        (Set::A32, _) => A32,
        (Set::Thumb, 2) => T16,
        (Set::Thumb, _) => T32,
    };
    let has_condition = set == Set::Thumb || word >> 28 != 15;
    let row = rows.iter().find(|row| has_condition && word & row.mask == row.value);
    row.is_some_and(|row| (row.cost)(word).is_none_or(|cost| cost > MOST))
}
