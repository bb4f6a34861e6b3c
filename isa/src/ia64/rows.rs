//! Groups of instructions by unit and opcode, with examples.

use super::bundle::{Bundle, SLOT_MASK, SLOT_STEP, Unit};
use super::insn::{operation, place};
use crate::insn::Insn;
use crate::rows::Rows;
use Unit::{B, F, I, M, X};
use alloc::vec::Vec;

/// Slots of a unit with `word & mask == value`.
struct Row {
    unit: Unit,
    mask: u64,
    value: u64,
}

/// A row by the major opcode.
const fn by_opcode(unit: Unit, opcode: u64) -> Row {
    Row { unit, mask: 0xf << 37, value: opcode << 37 }
}

/// A row by the major opcode and bits 33 to 35.
const fn by_kind(unit: Unit, opcode: u64, kind: u64) -> Row {
    Row { unit, mask: 0xf << 37 | 7 << 33, value: opcode << 37 | kind << 33 }
}

/// A row by the major opcode and bits 27 to 35, the lowest six of which are the second number.
const fn by_number(unit: Unit, opcode: u64, kind: u64, number: u64) -> Row {
    Row { unit, mask: 0xf << 37 | 0x1ff << 27, value: opcode << 37 | kind << 33 | number << 27 }
}

/// A row of branches, by the major opcode and bits 27 to 32.
const fn branch(opcode: u64, number: u64) -> Row {
    Row { unit: B, mask: 0xf << 37 | 0x3f << 27, value: opcode << 37 | number << 27 }
}

/// A row by the major opcode and bits 34 and 35.
const fn by_part(unit: Unit, opcode: u64, part: u64) -> Row {
    Row { unit, mask: 0xf << 37 | 3 << 34, value: opcode << 37 | part << 34 }
}

/// The first row that matches an instruction is its row. Arithmetic, which units M and I both run, has the rows of M.
#[rustfmt::skip]
static TABLE: &[Row] = &[
    // Arithmetic: two registers or a short number, a parallel one, longer numbers, comparisons.
    by_part(M, 8, 0), by_part(M, 8, 1), by_part(M, 8, 2), by_part(M, 8, 3),
    by_opcode(M, 9), by_opcode(M, 0xc), by_opcode(M, 0xd), by_opcode(M, 0xe),
    // break, nop, mf, srlz and the like, then chk.a, system instructions, chk.s, alloc.
    by_number(M, 0, 0, 0), by_number(M, 0, 0, 1), by_number(M, 0, 0, 0x22), by_number(M, 0, 0, 0x30), by_number(M, 0, 0, 0x31),
    by_number(M, 0, 0, 0x0c), by_kind(M, 0, 0), by_kind(M, 0, 4), by_kind(M, 0, 5), by_kind(M, 0, 6), by_kind(M, 0, 7),
    by_number(M, 1, 0, 0x24), by_number(M, 1, 0, 0x2c), by_kind(M, 1, 0), by_kind(M, 1, 1), by_kind(M, 1, 3), by_kind(M, 1, 6),
    // Loads, stores, exchanges; with a number to add; of floating-point registers.
    by_opcode(M, 4), by_opcode(M, 5), by_opcode(M, 6), by_opcode(M, 7),
    // The I unit: break, nop, mov from the pc, extensions, moves, chk.s, shifts, parallel ones, tests.
    by_number(I, 0, 0, 0), by_number(I, 0, 0, 1), by_number(I, 0, 0, 0x30), by_number(I, 0, 0, 0x31), by_number(I, 0, 0, 0x33),
    by_kind(I, 0, 0), by_kind(I, 0, 1), by_kind(I, 0, 2), by_kind(I, 0, 3), by_kind(I, 0, 7),
    by_opcode(I, 4), by_part(I, 5, 0), by_part(I, 5, 1), by_part(I, 5, 3), by_opcode(I, 7),
    // Branches: break, cover, clrrrb, rfi, bsw, epc, vmsw, by registers; predictions; by distances.
    branch(0, 0), branch(0, 2), branch(0, 4), branch(0, 5), branch(0, 8), branch(0, 0xc), branch(0, 0xd), branch(0, 0x10),
    branch(0, 0x18), branch(0, 0x19), branch(0, 0x20), branch(0, 0x21), by_opcode(B, 1), branch(2, 0), by_opcode(B, 2), by_opcode(B, 4), by_opcode(B, 5),
    by_opcode(B, 7),
    // Floating point: break, nop, fchkf, others, comparisons, multiplications.
    by_number(F, 0, 0, 0), by_number(F, 0, 0, 1), by_number(F, 0, 0, 8), by_opcode(F, 0), by_opcode(F, 1), by_opcode(F, 4),
    by_opcode(F, 5), by_opcode(F, 8), by_opcode(F, 9), by_opcode(F, 0xa), by_opcode(F, 0xb), by_opcode(F, 0xc), by_opcode(F, 0xd),
    by_opcode(F, 0xe),
    // Long ones: break, nop, movl, branches and calls.
    by_number(X, 0, 0, 0), by_number(X, 0, 0, 1), by_opcode(X, 6), by_opcode(X, 0xc), by_opcode(X, 0xd),
];

pub(super) const ROWS: Rows = Rows {
    example,
    of,
    offset,
    // The kernel's status: translation, interruption collection, the second bank. A frame of 16 registers, of which 8 are
    // locals, at a place in the backing store that is far from its ends.
    flags: &[
        ("psr", 0, 0x1010_0802_2000),
        ("cfm", 0, 8 << 7 | 16),
        ("bsp", 0x1f8, 0x8000),
        ("pr", !1, 1),
        ("pfs", 0x3f << 52, 8 << 7 | 16),
    ],
};

/// The template and the slot for an example of a unit. Branches stand in slot 2, the only one in which loops may be.
fn home(unit: Unit) -> (u8, usize) {
    match unit {
        M => (0x08, 0),
        I => (0x00, 1),
        F => (0x0c, 1),
        B => (0x16, 2),
        Unit::L | X => (0x04, 2),
    }
}

fn offset(row: usize) -> u64 {
    let slot = TABLE.get(row).map_or(0, |row| match row.unit {
        X => 1,
        unit => home(unit).1,
    });
    slot as u64 * u64::from(SLOT_STEP)
}

fn example(row: usize, free: u64) -> Option<Vec<u8>> {
    let row = TABLE.get(row)?;
    let (number, slot) = home(row.unit);
    let nop = if row.unit == B { 2 << 37 } else { 1 << 27 };
    let word = row.value | free & SLOT_MASK & !row.mask;
    Some(Bundle::new(number, [nop; 3]).with_slot(slot, word).bytes().to_vec())
}

fn of(insn: &Insn) -> Option<usize> {
    let (bundle, slot) = place(insn);
    let (unit, word) = (*bundle.template()?.units.get(slot)?, bundle.slot(slot));
    operation(insn)?;
    let is_shared = matches!(unit, M | I) && word >> 37 >= 8;
    TABLE.iter().position(|row| (row.unit == unit || is_shared && row.unit == M) && word & row.mask == row.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BY-8: every instruction is in one of the rows.
    #[test]
    fn every_instruction_has_a_row() {
        let mut found = 0;
        for seed in 0..200_000_u64 {
            let word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            for unit in [M, I, B, F, X] {
                let (number, slot) = home(unit);
                let bundle = Bundle::new(number, [1 << 27; 3]).with_slot(slot, word);
                let named = if unit == X { 1 } else { slot as u64 };
                let Ok(insn) = super::super::insn::decode(0x1000 + 6 * named, &bundle.bytes()) else { continue };
                if operation(&insn).is_some() {
                    assert!(of(&insn).is_some(), "{unit:?} {word:#x}");
                    found += 1;
                }
            }
        }
        assert!(found > 200_000, "{found}");
    }
}
