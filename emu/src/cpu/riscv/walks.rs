//! Compares the fast page-table walks of RISC-V (`translator/riscv/walk.h`) with Unicorn's own.

use super::core::{NARROW, WIDE};
use super::paging::Start;
use super::state::{WIDE as WIDE_PLACES, places};
use crate::unicorn::fills::{Numbers, Pair};
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::ByteOrder;

/// The address of the first table. Each level has one table.
const TABLES: u64 = 0x1_0000;
const PAGE: u64 = 1 << 12;
/// Large enough that a page of 4 MiB can be aligned in it, and behind it.
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

/// A fence with an address drops what it must: the page in both modes, all pieces of a large page, and nothing else.
#[test]
fn fences_drop_the_translations_that_they_name() {
    use super::state::SUPERVISOR;
    use crate::unicorn::engine::{By, Core};
    use crate::unicorn::kinds::Register;
    use crate::unicorn::witness::Witness;
    use unicorn_engine_sys::RegisterRISCV;

    /// The guest runs in the upper half, in a page of 4 KiB.
    const CODE: u64 = 0xffff_ffc0_0000_0000;
    const FRAME: u64 = 0x8_0000;
    const SMALL: u64 = 0x1000;
    const OTHER: u64 = 0x5000;
    /// Two pages within one large page, in the lower half.
    const LARGE: [u64; 2] = [0x40_0000, 0x40_3000];
    const UPPER_LARGE: [u64; 2] = [0xffff_ffc0_0040_0000, 0xffff_ffc0_0040_3000];
    const SPACE: u64 = 7;
    const EBREAK: u32 = 0x0010_0073;
    const LEAF: u64 = VALID | 0xce;
    const PROGRAMS: u64 = 0x10;
    let fence = |address: u32, space: u32| 0x1200_0073 | address << 15 | space << 20;
    // The register with the address is a1, that with the number of the space a2.
    let (by_address, whole) = (fence(11, 0), fence(0, 0));
    let (in_space, all_of_space) = (fence(11, 12), fence(0, 12));
    let (small, upper) = (vec![SMALL, OTHER], vec![CODE + SMALL, CODE + OTHER]);
    let first_large = [&LARGE[..], &small].concat();
    #[rustfmt::skip]
    type Case<'a> = (u32, u64, u64, &'a [u64], &'a [u64]);
    let cases: [Case<'_>; 12] = [
        // the fence, a1, a2, the pages that were used, those that are still translated
        (by_address, SMALL, 0, &small, &[OTHER]),
        (by_address, SMALL + 0x123, 0, &small, &[OTHER]),
        (by_address, 0x9000, 0, &small, &small),
        (whole, SMALL, SPACE, &small, &[]),
        (in_space, SMALL, SPACE, &small, &[OTHER]),
        (in_space, SMALL, SPACE | 1 << 16, &small, &[OTHER]),
        (in_space, SMALL, SPACE + 1, &small, &small),
        (all_of_space, 0, SPACE, &small, &[]),
        (by_address, LARGE[1], 0, &LARGE, &[]),
        (by_address, SMALL, 0, &first_large, &[]),
        (by_address, upper[0], 0, &upper, &upper[1..]),
        (by_address, SMALL, 0, &[SMALL, OTHER, UPPER_LARGE[1]], &[OTHER, UPPER_LARGE[1]]),
    ];
    let ram = Ram::at(0, RAM_BYTES, ByteOrder::Little).unwrap();
    let start = Start { table: TABLES, levels: 3, stride: 9 };
    let put = |at: u64, value: u64| assert!(ram.write(at, &value.to_le_bytes()));
    for (half, extra) in [(0, PROGRAMS), (CODE, 0)] {
        // A table of each level for each half.
        let middle = TABLES + if half == 0 { PAGE } else { 3 * PAGE };
        put(start.entry(TABLES, 2, half), middle >> 2 | VALID);
        put(start.entry(middle, 1, half), (middle + PAGE) >> 2 | VALID);
        put(start.entry(middle, 1, half + LARGE[0]), 2 << 20 >> 2 | LEAF | extra);
        for page in 0..16 {
            put(start.entry(middle + PAGE, 0, half + page * PAGE), (FRAME + page * PAGE) >> 2 | LEAF | extra);
        }
    }
    for (number, (word, address, space, used, left)) in cases.into_iter().enumerate() {
        let mut core: Core<Witness> = Core::new(&WIDE, &ram).unwrap();
        core.stopped().prepare_riscv(0);
        core.stopped().set_live64(WIDE_PLACES.satp, (8 << 60) | (SPACE << 44) | (TABLES / PAGE));
        core.stopped().set_riscv_status(SUM);
        ram.set_word32(FRAME, word);
        ram.set_word32(FRAME + 4, EBREAK);
        let mut modes = vec![SUPERVISOR as i32];
        if used.iter().all(|page| *page < CODE) {
            modes.push(0);
        }
        for (page, mode) in used.iter().flat_map(|page| modes.iter().map(move |mode| (*page, *mode))) {
            assert!(core.fill_by(By::Walk, page, 0, mode).is_some(), "case {number}: {page:#x} in mode {mode}");
        }
        let set = |register: RegisterRISCV, value| core.stopped().write(Register::from(register), value);
        set(RegisterRISCV::X11, address);
        set(RegisterRISCV::X12, space);
        core.stopped().set_pc(CODE);
        let mut witness = Witness { stops: true, ..Witness::default() };
        core.run(&mut witness);
        assert_eq!(witness.last, Some((Some(3), CODE + 4)), "case {number}: the breakpoint behind the fence");
        for (page, mode) in used.iter().flat_map(|page| modes.iter().map(move |mode| (*page, *mode))) {
            let is_there = core.fill_by(By::Nobody, page, 0, mode).is_some_and(|kept| kept[0] == page);
            assert_eq!(is_there, left.contains(&page), "case {number}: {page:#x} in mode {mode}");
        }
    }
}
