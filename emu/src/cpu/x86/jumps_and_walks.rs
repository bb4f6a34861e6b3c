//! Tests two fast paths of translated code against the slow ones: cached indirect jumps (`translator/jumps.h`), and
//! fast page-table walks (`translator/walk.h`).

use super::core::CORE;
use super::state;
use crate::unicorn::engine::{Core, Ended};
use crate::unicorn::fills::{Numbers, Pair};
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::RecordingEvents;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterX86;

const DIRECTORY: u64 = 0x1000;
const TABLE: u64 = 0x2000;
const CODE: u64 = 0x10_0000;
/// Two pages with a function each.
const ONE: u64 = 0x30_0000;
const OTHER: u64 = 0x30_1000;
/// An address that maps to one of the two in turn.
const ALIAS: u64 = 0x20_0000;

const PRESENT: u64 = 1;
const WRITE: u64 = 2;
const USER: u64 = 4;
const ACCESSED: u64 = 0x20;
const DIRTY: u64 = 0x40;
const LARGE: u64 = 0x80;
const NEVER_EXECUTED: u64 = 1 << 63;

fn word(value: u64) -> [u8; 4] {
    (value as u32).to_le_bytes()
}

/// Runs a program that calls ALIAS three times from one place, changes the mapping or code, and repeats that. Returns
/// how often each function was called.
fn calls(call: &[u8], change: &[u8]) -> (u64, u64) {
    let ram = Ram::at(0, 4 << 20, ByteOrder::Little).unwrap();
    let row = |address: u64| word(address | DIRTY | ACCESSED | WRITE | PRESENT);
    ram.write(DIRECTORY, &row(TABLE));
    (0..1024).for_each(|page| assert!(ram.write(TABLE + 4 * page, &row(page << 12))));
    ram.write(TABLE + 4 * (ALIAS >> 12), &row(ONE));
    // inc eax; ret, and inc ebx; ret
    ram.write(ONE, b"\x40\xc3");
    ram.write(OTHER, b"\x43\xc3");
    let before: &[&[u8]] = &[
        b"\x0f\x20\xc0\x0d\0\0\0\x80\x0f\x22\xc0", // paging on
        b"\x31\xc0\xbe\x03\0\0\0",                 // eax is 0, esi 3
    ];
    // mov ecx, 3; the call; dec ecx; jnz to the call
    let round = [b"\xb9\x03\0\0\0", call, b"\x49\x75", &[(call.len() as u8 + 3).wrapping_neg()]].concat();
    let body = [&round, change, b"\x4e"].concat();
    // jnz to the round; hlt
    let program = [&before.concat(), &body, b"\x75" as &[u8], &[(body.len() as u8 + 2).wrapping_neg()], b"\xf4"].concat();
    ram.write(CODE, &program);
    let mut core: Core<RecordingEvents> = Core::new(&CORE, &ram).unwrap();
    state::enter_flat_32(&core.stopped(), CODE);
    for (register, value) in
        [(RegisterX86::RBX, 0), (RegisterX86::RDI, ALIAS), (RegisterX86::RSP, CODE), (RegisterX86::CR3, DIRECTORY)]
    {
        core.stopped().write(register, value);
    }
    assert_eq!(core.run(&mut RecordingEvents::default()), Ended::Stopped);
    (core.handle().read(RegisterX86::RAX), core.handle().read(RegisterX86::RBX))
}

#[test]
fn a_jump_that_remembers_goes_to_what_is_there_now() {
    // 11 bytes of paging, 7 of eax and esi, 5 of ecx, 5 of the call itself.
    let direct = [b"\xe8" as &[u8], &word(ALIAS - (CODE + 11 + 7 + 5 + 5))].concat();
    let remap = [b"\x81\x35" as &[u8], &word(TABLE + 4 * (ALIAS >> 12)), &word(ONE ^ OTHER)].concat();
    // mov edx, cr3; mov cr3, edx
    let all_forgotten = [&remap, b"\x0f\x20\xda\x0f\x22\xda" as &[u8]].concat();
    // invlpg
    let page_forgotten = [&remap, b"\x0f\x01\x3d" as &[u8], &word(ALIAS)].concat();
    // xor byte, 3: inc eax becomes inc ebx, and back
    let overwritten = [b"\x80\x35" as &[u8], &word(ONE), b"\x03"].concat();
    for (how, change) in [("all forgotten", all_forgotten), ("a page forgotten", page_forgotten), ("overwritten", overwritten)] {
        assert_eq!(calls(&direct, &change), (6, 3), "to a named address, {how}");
        assert_eq!(calls(b"\xff\xd7", &change), (6, 3), "to an address in a register, {how}");
    }
}

/// A random page-table entry that points to `to`, mostly one that a walk follows. `ends` says whether a walk ends at an
/// entry with the large bit.
fn row(numbers: &mut Numbers, to: u64, wide: bool, last: bool, ends: bool) -> u64 {
    let mut row = to | (numbers.any() & 0xe1e) | PRESENT | ACCESSED;
    row |= if numbers.one_in(3) { 0 } else { DIRTY | WRITE | USER };
    row |= if numbers.one_in(6) { LARGE } else { 0 };
    row &= !if numbers.one_in(12) { PRESENT } else { 0 };
    row &= !if numbers.one_in(12) { ACCESSED } else { 0 };
    // A table's address is not changed: the test has no memory elsewhere.
    let is_page = last || ends && row & LARGE != 0;
    row ^= if is_page && numbers.one_in(24) { 1 << (12 + numbers.any() % 20) } else { 0 };
    if wide {
        row |= if numbers.one_in(4) { NEVER_EXECUTED } else { 0 };
        let lowest = if is_page { 32 } else { 52 };
        row |= if numbers.one_in(24) { 1 << (lowest + numbers.any() % (63 - lowest)) } else { 0 };
    }
    row
}

#[derive(Clone, Copy, Debug)]
enum Tables {
    Two,
    Three,
    Four,
}

#[test]
fn the_fast_walk_fills_the_tlb_like_the_library() {
    const CR0: u64 = 0x8000_0001;
    const WRITE_PROTECT: u64 = 1 << 16;
    const CR4: [u64; 3] = [1 << 4, 1 << 20, 1 << 21];
    const PAE: u64 = 1 << 5;
    let mut numbers = Numbers(1);
    for tables in [Tables::Two, Tables::Three, Tables::Four] {
        let (mut quick, mut left) = (0, 0);
        for _ in 0..40 {
            let ram = Ram::at(0, 1 << 20, ByteOrder::Little).unwrap();
            let mut pair = Pair::new(&CORE, &ram);
            let settings = CR4.iter().filter(|_| numbers.one_in(2)).sum::<u64>();
            let wide = !matches!(tables, Tables::Two);
            let protects = if numbers.one_in(2) { WRITE_PROTECT } else { 0 };
            pair.set(|cpu| {
                match tables {
                    Tables::Four => state::enter_long(cpu, CODE, DIRECTORY),
                    _ => {
                        state::enter_flat_32(cpu, CODE);
                        cpu.write(RegisterX86::CR3, DIRECTORY);
                    }
                }
                cpu.write(RegisterX86::CR4, settings | if wide { PAE } else { 0 });
                cpu.write(RegisterX86::CR0, CR0 | protects);
            });
            for _ in 0..200 {
                let address = match tables {
                    Tables::Four => (numbers.any() << 20 ^ numbers.any()) as i64 >> 16,
                    _ => (numbers.any() & 0xffff_ffff) as i64,
                } as u64;
                let shifts: &[u32] = match tables {
                    Tables::Two => &[22, 12],
                    Tables::Three => &[30, 21, 12],
                    Tables::Four => &[39, 30, 21, 12],
                };
                let mut rows = Vec::new();
                for (level, shift) in shifts.iter().enumerate() {
                    let table = DIRECTORY + 0x1000 * level as u64;
                    let (bytes, mask) = if wide { (8, 0x1ff) } else { (4, 0x3ff) };
                    let at = table + bytes * (address >> shift & mask);
                    let last = *shift == 12;
                    let ends = if wide { *shift < 39 && level > 0 } else { settings & CR4[0] != 0 };
                    let mut row = row(&mut numbers, table + 0x1000, wide, last, ends);
                    if matches!(tables, Tables::Three) && level == 0 && !numbers.one_in(8) {
                        row &= !(NEVER_EXECUTED | LARGE | USER | WRITE | 0x1e0);
                    }
                    ram.write(at, &row.to_le_bytes()[..bytes as usize]);
                    rows.push(at);
                }
                let (access, mode) = ((numbers.any() % 3) as i32, (numbers.any() % 3) as i32);
                let what = format!("{tables:?} settings {settings:#x}");
                pair.compare(address, access, mode, &rows, &what);
            }
            quick += pair.quick;
            left += pair.left;
        }
        assert!(quick > 300 && left > 1_000, "{tables:?}: {quick} quick, {left} left to the library");
    }
}
