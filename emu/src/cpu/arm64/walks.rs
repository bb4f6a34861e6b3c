//! Compares the fast page-table walks of AArch64 (`translator/arm64/walk.h`) with Unicorn's own.

use super::boot;
use super::core::CORE;
use super::state::{SCTLR_EL1, TCR_EL1};
use crate::unicorn::engine::{By, Core};
use crate::unicorn::fills::{Numbers, Pair};
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::RecordingEvents;
use std::collections::HashMap;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterARM64;

/// The address of the first table. Each level has one table, with the size of the largest possible one.
const TABLES: u64 = 0x1_0000;
const TABLE_BYTES: u64 = 0x1_0000;
const RAM_BYTES: usize = 1 << 20;

const TRANSLATES: u64 = 1;
const NOT_WHERE_WRITTEN: u64 = 1 << 19;

const VALID: u64 = 1;
const TABLE: u64 = 2;
const ACCESSED: u64 = 1 << 10;

/// A granule: the number of address bits that a table decodes, and the encodings in TCR for the two halves.
const GRANULES: [(u32, [u64; 2]); 3] = [(9, [0, 2]), (11, [2, 1]), (13, [1, 3])];

/// A random page-table entry that points to `to`, mostly one that a walk follows.
fn row(numbers: &mut Numbers, to: u64, last: bool) -> u64 {
    let mut row = to | VALID | (numbers.any() & 0x3c);
    row |= if last || !numbers.one_in(6) { TABLE } else { 0 };
    row |= if numbers.one_in(12) { 0 } else { ACCESSED };
    row |= (numbers.any() & 3) << 6;
    // Contiguous, PXN, UXN; dirty; guarded page.
    row |= if numbers.one_in(3) { (numbers.any() & 15) << 51 } else { 0 };
    row |= if numbers.one_in(24) { 1 << 50 } else { 0 };
    // Attributes of a table entry for everything below it.
    row |= if numbers.one_in(8) { 1 << (59 + numbers.any() % 5) } else { 0 };
    let broken = numbers.one_in(16);
    row & !if broken { numbers.of(&[VALID, TABLE]) } else { 0 }
}

#[test]
fn the_fast_walk_fills_the_tlb_like_the_library() {
    let mut numbers = Numbers(1);
    for (stride, names) in GRANULES {
        let (mut quick, mut left) = (0, 0);
        for _ in 0..40 {
            let ram = Ram::at(0, RAM_BYTES, ByteOrder::Little).unwrap();
            let mut pair = Pair::new(&CORE, &ram);
            let bits = [(); 2].map(|()| 64 - numbers.of(&[16, 16, 17, 22, 25, 28, 33, 39]));
            let mut translation = (64 - bits[0]) | ((64 - bits[1]) << 16) | (names[0] << 14) | (names[1] << 30);
            translation |= (numbers.any() & 3) << 37;
            translation |= if numbers.one_in(6) { 1 << numbers.of(&[7, 23, 41, 42, 51, 52]) } else { 0 };
            let settings = TRANSLATES | if numbers.one_in(12) { NOT_WHERE_WRITTEN } else { 0 };
            let roots = [(); 2].map(|()| TABLES | numbers.any() & 1 | (numbers.any() & 0xff) << 48);
            pair.set(|cpu| {
                boot::open_levels(cpu);
                cpu.write(RegisterARM64::TTBR0_EL1, roots[0]);
                cpu.write(RegisterARM64::TTBR1_EL1, roots[1]);
                cpu.set_system(TCR_EL1, translation);
                cpu.set_system(SCTLR_EL1, settings);
            });
            for _ in 0..200 {
                let high = numbers.any() & 1;
                let within = (numbers.any() << 20 ^ numbers.any()) & ((1 << bits[high as usize]) - 1);
                let mut address = within | if high == 1 { u64::MAX << bits[1] } else { 0 };
                // A tag, or a wrong address bit.
                address ^= if numbers.one_in(6) { numbers.any() << 56 } else { 0 };
                address ^= if numbers.one_in(24) { 1 << (numbers.any() % 64) } else { 0 };
                let bits = bits[(address >> 55 & 1) as usize] as u32;
                let first = 4 - (bits - 4) / stride;
                let mut rows = Vec::new();
                for level in first..4 {
                    let shift = stride * (4 - level) + 3;
                    let table = TABLES + TABLE_BYTES * u64::from(level - first);
                    let decoded = if level == first { bits - shift } else { stride };
                    let at = table + 8 * (address >> shift & ((1 << decoded) - 1));
                    let to = match level {
                        3 => (numbers.any() % (RAM_BYTES as u64 >> 16)) << 16,
                        _ => table + TABLE_BYTES,
                    };
                    ram.write(at, &row(&mut numbers, to, level == 3).to_le_bytes());
                    rows.push(at);
                }
                let (access, mode) = ((numbers.any() % 3) as i32, numbers.of(&[0, 2, 3]));
                let what = format!("granule of {} bits, tcr {translation:#x} sctlr {settings:#x}", stride + 3);
                pair.compare(address, access, mode, &rows, &what);
            }
            quick += pair.quick;
            left += pair.left;
        }
        assert!(quick > 300 && left > 1_000, "{stride}: {quick} quick, {left} left to the library");
    }
}

#[test]
fn translations_that_move_to_a_larger_table_lead_where_they_did() {
    const KERNEL: i32 = 2;
    const PAGES: u64 = 3_000;
    /// The spacing of the pages. The span has at most as many pages as the TLB has entries, so all could be kept.
    const APART: u64 = 5;
    const LAST: u64 = TABLES + 3 * TABLE_BYTES;
    let ram = Ram::at(0, RAM_BYTES, ByteOrder::Little).unwrap();
    let put = |at: u64, value: u64| assert!(ram.write(at, &value.to_le_bytes()));
    for level in 0..3 {
        let table = TABLES + level * TABLE_BYTES;
        (0..512).for_each(|number| put(table + 8 * number, (table + TABLE_BYTES) | VALID | TABLE));
    }
    (0..512).for_each(|number| put(LAST + 8 * number, ((number % 200) << 12) | ACCESSED | VALID | TABLE));
    let core: Core<RecordingEvents> = Core::new(&CORE, &ram).unwrap();
    boot::open_levels(&core.stopped());
    core.stopped().write(RegisterARM64::TTBR0_EL1, TABLES);
    core.stopped().set_system(TCR_EL1, 16);
    core.stopped().set_system(SCTLR_EL1, TRANSLATES);

    let mut numbers = Numbers(1);
    let mut filled = HashMap::new();
    for _ in 0..8 * PAGES {
        let address = (numbers.any() % PAGES * APART) << 12;
        let by = numbers.of(&[By::Walk, By::Library]);
        let kept = core.fill_by(by, address, (numbers.any() % 2) as i32, KERNEL).expect("a translation");
        filled.insert(address, kept[..6].to_vec());
    }
    let mut there = 0;
    for (address, before) in &filled {
        let now = core.fill_by(By::Nobody, *address, 0, KERNEL).expect("what is there");
        if now[0] == *address {
            assert_eq!(now[..6], before[..], "{address:#x}");
            there += 1;
        }
    }
    assert!(there * 10 > filled.len() * 9, "{there} of {}", filled.len());
}
