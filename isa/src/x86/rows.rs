//! The rows of x86 for `isa/src/rows.rs`: one for each opcode of each opcode map. The tables of `rules.rs` list mnemonics, which
//! give no bytes for an example.

use super::Mode;
use super::shape::{Map, Shape};
use crate::insn::{Insn, LONGEST};
use alloc::vec::Vec;

/// The opcode maps, in the order of the rows.
const MAPS: [Map; 7] = [Map::One, Map::Two, Map::Three38, Map::Three3A, Map::Vector(1), Map::Vector(2), Map::Vector(3)];
/// The number of opcodes in a map.
const OPCODES: usize = 256;

/// The row of an instruction's opcode; `None` if the bytes cannot be decoded or the map has no rows.
pub fn number_of(mode: Mode, insn: &Insn) -> Option<usize> {
    let shape = Shape::of(mode, insn.bytes()).ok()?;
    MAPS.iter().position(|map| *map == shape.map).map(|map| map * OPCODES + usize::from(shape.opcode))
}

/// An instruction with the opcode of a row. The random bits `free` choose its prefixes and operands.
pub fn example(mode: Mode, row: usize, free: u64) -> Option<Vec<u8>> {
    let map = MAPS.get(row / OPCODES)?;
    let opcode = (row % OPCODES) as u8;
    let mut bytes = Vec::with_capacity(LONGEST);
    let prefix = [None, None, None, Some(0x66), Some(0xf2), Some(0xf3)][(free % 6) as usize];
    let rex = (mode == Mode::Bits64 && free >> 8 & 3 == 0).then_some(0x40 | (free >> 10) as u8 & 15);
    if !matches!(map, Map::Vector(_)) {
        bytes.extend(prefix.into_iter().chain(rex));
    }
    match map {
        Map::One => {}
        Map::Two => bytes.push(0x0f),
        Map::Three38 => bytes.extend([0x0f, 0x38]),
        Map::Three3A => bytes.extend([0x0f, 0x3a]),
        // The bits that extend register numbers are inverted; 32-bit code needs them set.
        Map::Vector(number) => bytes.extend([0xc4, 0xe0 | number, 0x78 & (free >> 14) as u8 | (free >> 22) as u8 & 0x87]),
    }
    bytes.push(opcode);
    let mut state = free;
    while bytes.len() < LONGEST {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        bytes.push((state >> 56) as u8);
    }
    Some(bytes)
}
