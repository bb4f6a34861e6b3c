//! Decisions of Linux 6.1 about x86 instructions, with their defects. Used by [`Policy::Linux`](crate::plan::Policy).
//!
//! Linux judges by the first opcode byte and ModRM. It does not know that vector instructions have opcodes of their
//! own, so it takes `vpor` for a jump. These tables do the same.

use super::Mode;
use super::emulate::Computation;
use super::rules::{self, BREAKPOINT, FAR, HYPERVISOR, MARKER, MASKING, RETURN, THROUGH_MEMORY, TOO_LONG, UNKNOWN};
use super::shape::{Map, Shape, address_size};
use crate::arch::Emulation;
use crate::insn::{Insn, LONGEST};
use crate::plan::{Plan, Rule};
use core::ops::RangeInclusive;

/// A shape of instruction that Linux refuses. The first row that matches decides.
struct RefusalRow {
    matches: fn(&Shape) -> bool,
    rule: &'static Rule,
}

const fn row(matches: fn(&Shape) -> bool, rule: &'static Rule) -> RefusalRow {
    RefusalRow { matches, rule }
}

/// The refusals of `can_probe` and `__copy_instruction`, in the order of their checks.
#[rustfmt::skip]
static REFUSED: &[RefusalRow] = &[
    row(|s| s.marker,                                                                      &MARKER),
    row(|s| s.first_opcode() == 0xcc,                                                      &BREAKPOINT),
    row(|s| s.first_opcode() == 0x1f,                                                      &MASKING), // meant: 17, `pop %ss`
    row(|s| s.first_opcode() == 0x8e && s.reg() == 2,                                      &MASKING),
    row(|s| matches!(s.first_opcode(), 0x9a | 0xea),                                       &FAR),
    row(|s| s.first_opcode() == 0xcf,                                                      &RETURN),
    row(|s| s.map == Map::Two && s.opcode == 0x01 && s.is_register() && s.reg() == 0,      &HYPERVISOR),
    row(|s| s.first_opcode() == 0xff && matches!(s.reg(), 3 | 5),                          &FAR),
    row(|s| s.first_opcode() == 0xff && matches!(s.reg(), 2 | 4) && !s.is_register(),      &THROUGH_MEMORY),
];

pub(super) fn verdict(mode: Mode, insn: &Insn) -> Result<Plan, &'static Rule> {
    let shape = Shape::of(mode, insn.bytes()).map_err(|_| &UNKNOWN)?;
    if let Some(row) = REFUSED.iter().find(|row| (row.matches)(&shape)) {
        return Err(row.rule);
    }
    let indirect = shape.first_opcode() == 0xff && matches!(shape.reg(), 2 | 4);
    if indirect && address_size(mode, shape.prefixes) != mode.word() {
        return Err(&THROUGH_MEMORY);
    }
    if insn.bytes().len() == LONGEST {
        return Err(&TOO_LONG);
    }
    if let Some(computation) = rules::computation(mode, insn, &shape).or_else(|| far_return(&shape)) {
        return Ok(Plan::Emulate(Emulation::X86(computation)));
    }
    Ok(if may_boost(&shape) && insn.bytes().len() <= LONGEST_BOOSTED { Plan::Boost } else { Plan::Step })
}

/// Linux's slots have 15 bytes, and the jump back takes 5.
const LONGEST_BOOSTED: usize = 10;

/// Linux emulates far returns as near ones, so the code segment's selector stays on the stack.
fn far_return(shape: &Shape) -> Option<Computation> {
    matches!(shape.first_opcode(), 0xca | 0xcb).then_some(Computation::Return(0))
}

/// The answer of Linux's function `can_boost`, without its look at the exception table.
fn may_boost(shape: &Shape) -> bool {
    match shape.map {
        Map::Two => bit(&BOOSTED_0F, shape.opcode),
        Map::Three38 | Map::Three3A => false,
        Map::One | Map::Vector(_) => {
            let rewritten = shape.prefixes.has(0x2e) || shape.prefixes.has(0x67);
            let indirect_jump = shape.opcode == 0xff && shape.reg() == 4;
            !rewritten && (!NOT_BOOSTED.iter().any(|range| range.contains(&shape.opcode)) || indirect_jump)
        }
    }
}

/// Whether Linux allows an instruction in the region of an optimised probe: one that can be copied and boosted.
pub(super) fn may_move(mode: Mode, insn: &Insn) -> bool {
    const COPYING: [&Rule; 3] = [&MARKER, &BREAKPOINT, &MASKING];
    let Ok(shape) = Shape::of(mode, insn.bytes()) else { return false };
    let refused = REFUSED.iter().find(|row| (row.matches)(&shape)).is_some_and(|row| COPYING.contains(&row.rule));
    !refused && may_boost(&shape)
}

#[rustfmt::skip]
const NOT_BOOSTED: &[RangeInclusive<u8>] = &[
    0x62..=0x62, 0x70..=0x7f, 0x9a..=0x9a, 0xc0..=0xc1, 0xcc..=0xce, 0xd0..=0xd3, 0xd6..=0xd6, 0xd8..=0xdf,
    0xe0..=0xe3, 0xe8..=0xe9, 0xeb..=0xeb, 0xf0..=0xf4, 0xf6..=0xf7, 0xfe..=0xff,
];

/// One bit for each opcode of the two-byte map; the highest bit of each number is the lowest opcode.
#[rustfmt::skip]
const BOOSTED_0F: [u16; 16] = [
    //0123_4567_89ab_cdef
    0b0011_0010_1100_0000, // 02 03 06 08 09
    0b0000_0000_0000_0001, // 1f
    0b1111_0000_0000_0000, // 20-23
    0b0100_0000_0000_0000, // 31
    0b1111_1111_1111_1111, // 40-4f
    0b0000_0000_0000_0000,
    0b1111_1111_1111_0011, // 60-6b 6e 6f
    0b0000_1111_0000_0011, // 74-77 7e 7f
    0b0000_0000_0000_0000,
    0b1111_1111_1111_1111, // 90-9f
    0b1101_1100_1101_1101, // a0 a1 a3-a5 a8 a9 ab-ad af
    0b1111_1111_0001_1111, // b0-b7 bb-bf
    0b1100_0000_1111_1111, // c0 c1 c8-cf
    0b0111_0100_1101_1101, // d1-d3 d5 d8 d9 db-dd df
    0b0110_0100_1101_1101, // e1 e2 e5 e8 e9 eb-ed ef
    0b0111_0100_1110_1110, // f1-f3 f5 f8-fa fc-fe
];

fn bit(table: &[u16; 16], opcode: u8) -> bool {
    table[usize::from(opcode >> 4)] & 0x8000 >> (opcode & 15) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// OP-3: the bitmap has the opcodes of Linux's `twobyte_is_boostable`, given here as a list.
    #[test]
    fn the_bitmap_of_boosted_opcodes_matches_linux() {
        const LIST: &str = "02 03 06 08 09 1F 20-23 31 40-4F 60-6B 6E 6F 74-77 7E 7F 90-9F A0 A1 A3 A4 A5 A8 A9 AB AC AD AF \
            B0-B7 BB-BF C0 C1 C8-CF D1 D2 D3 D5 D8 D9 DB DC DD DF E1 E2 E5 E8 E9 EB EC ED EF F1 F2 F3 F5 F8 F9 FA FC FD FE";
        let number = |text: &str| u8::from_str_radix(text, 16).expect("a byte");
        let listed: Vec<u8> = LIST
            .split_whitespace()
            .flat_map(|item| match item.split_once('-') {
                Some((from, to)) => number(from)..=number(to),
                None => number(item)..=number(item),
            })
            .collect();
        let boosted: Vec<u8> = (0..=255).filter(|opcode| bit(&BOOSTED_0F, *opcode)).collect();
        assert_eq!(boosted, listed);
    }
}
