//! Compares the fast page-table walks of RISC-V (`translator/riscv/walk.h`) with Unicorn's own.

use super::core::{NARROW, WIDE};
use super::paging::Start;
use super::state::places;
use crate::unicorn::fills::{Numbers, Pair};
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::ByteOrder;

/// The address of the first table. Each level has one table.
const TABLES: u64 = 0x1_0000;
const PAGE: u64 = 1 << 12;
/// The size of RAM in bytes: pages of 4 MiB can be aligned inside it, and behind it.
const RAM_BYTES: usize = 16 << 20;

const SUM: u64 = 1 << 18;
const MXR: u64 = 1 << 19;

const VALID: u64 = 1;
const ACCESSED_DIRTY: u64 = 0xc0;

/// The kinds of tables: the core, satp without the root, the levels, and the bits of an index.
const SHAPES: [(&CoreKind, u64, u32, u32); 4] =
    [(&WIDE, 8 << 60, 3, 9), (&WIDE, 9 << 60, 4, 9), (&WIDE, 10 << 60, 5, 9), (&NARROW, 1 << 31, 2, 10)];

/// A random entry, mostly one that a walk follows: a pointer to the next table, or a page.
fn entry(numbers: &mut Numbers, start: &Start, level: u32, next: u64) -> u64 {
    let is_leaf = level == 0 || numbers.one_in(6);
    let flags = match is_leaf {
        true => numbers.any() & 0x3e | if numbers.one_in(3) { numbers.any() & ACCESSED_DIRTY } else { ACCESSED_DIRTY },
        // U, G, A and D of a pointer.
        false => {
            if numbers.one_in(3) {
                numbers.any() & 0xf0
            } else {
                0
            }
        }
    };
    let (size, maps) = (1 << start.shift(level), flags & 0xe != 0);
    let to = match is_leaf {
        true if numbers.one_in(8) => numbers.any() % (RAM_BYTES as u64 / PAGE) * PAGE,
        // Rarely a page beside the RAM.
        true => numbers.any() % (RAM_BYTES as u64 / size + u64::from(maps)).max(1) * size,
        false => next,
    };
    let software = numbers.any() & 0x300;
    let above = if maps && start.stride == 9 && numbers.one_in(16) { 1 << (54 + numbers.any() % 10) } else { 0 };
    to >> 2 | software | above | flags | if numbers.one_in(16) { 0 } else { VALID }
}

/// A random address, mostly a valid one.
fn address(numbers: &mut Numbers, start: &Start) -> u64 {
    let any = numbers.any() << 24 ^ numbers.any();
    if start.stride == 10 {
        return any & 0xffff_ffff;
    }
    let unused = 64 - start.shift(start.levels);
    let address = (any << unused).cast_signed() >> unused;
    address.cast_unsigned() ^ if numbers.one_in(24) { 1 << (numbers.any() % 64) } else { 0 }
}

#[test]
fn fast_walks_fill_in_the_same_as_the_library() {
    let mut numbers = Numbers(1);
    for (core, mode, levels, stride) in SHAPES {
        let start = Start { table: TABLES, levels, stride };
        let (mut quick, mut left) = (0, 0);
        for _ in 0..30 {
            let ram = Ram::at(0, RAM_BYTES, ByteOrder::Little).unwrap();
            let mut pair = Pair::new(core, &ram);
            let status = numbers.of(&[0, SUM, MXR, SUM | MXR]);
            let space = numbers.any() % 400;
            pair.set(|cpu| {
                cpu.prepare_riscv(0);
                cpu.set_riscv_status(status);
                let at = places(&cpu.handle()).satp;
                match stride {
                    9 => cpu.set_live64(at, mode | (space << 44) | (TABLES / PAGE)),
                    _ => cpu.set_live32(at, (mode | (space << 22) | (TABLES / PAGE)) as u32),
                }
            });
            for _ in 0..200 {
                let address = address(&mut numbers, &start);
                let rows: Vec<u64> = (0..levels)
                    .rev()
                    .map(|level| {
                        let table = TABLES + u64::from(levels - 1 - level) * PAGE;
                        let at = start.entry(table, level, address);
                        assert!(ram.set_word(at, entry(&mut numbers, &start, level, table + PAGE), start.entry_bytes()));
                        at
                    })
                    .collect();
                let (access, by) = ((numbers.any() % 3) as i32, numbers.of(&[0, 1, 1, 3]));
                pair.compare(address, access, by, &rows, &format!("{levels} levels, status {status:#x}"));
            }
            quick += pair.quick;
            left += pair.left;
        }
        assert!(quick > 300 && left > 1_000, "{levels} levels: {quick} quick, {left} left to the library");
    }
}
