//! What an x86 guest may still meet of its page tables of before, and what not: `translator/outlive.h`, on programs.

use super::core::CORE;
use super::state;
use crate::unicorn::engine::{Core, Ended};
use crate::unicorn::fills::Numbers;
use crate::unicorn::ram::Ram;
use crate::unicorn::witness::Witness;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterX86;

const DIRECTORY: u64 = 0x1000;
const TABLE: u64 = 0x2000;
/// The program, and behind it what it has read, a byte for each look.
const PROGRAM: u32 = 0x1_0000;
const SEEN: u32 = 0x8_0000;
/// Pages whose frames the program chooses: the first half are global, the others are not.
const PAGES: u32 = 0x20_0000;
const PAGE_COUNT: u32 = 8;
/// Frames, by their own addresses. Each is a function that returns its number: `mov al, number; ret`.
const FRAMES: u32 = 0x30_0000;
const FRAME_COUNT: u32 = 4;
const BYTES: u32 = 4096;

// Present, writable, accessed, dirty: nothing for a walk to write, so it is ours.
const ROW: u32 = 0x63;
const GLOBAL: u32 = 0x100;
const PAGE_GLOBAL_ENABLE: &[u8] = b"\x0f\x20\xe1\x81\xc9\x80\0\0\0\x0f\x22\xe1"; // cr4 |= 0x80
const NO_GLOBAL: &[u8] = b"\x0f\x20\xe1\x81\xe1\x7f\xff\xff\xff\x0f\x22\xe1"; // cr4 &= ~0x80
const PAGING: &[u8] = b"\x0f\x20\xc0\x0d\0\0\0\x80\x0f\x22\xc0"; // cr0 |= 0x80000000
const SAME_SPACE: &[u8] = b"\x0f\x20\xda\x0f\x22\xda"; // cr3 = cr3
const NOTE: &[u8] = b"\xaa"; // stosb
const HLT: &[u8] = b"\xf4";

fn is_global(page: u32) -> bool {
    page < PAGE_COUNT / 2
}

fn address(page: u32) -> u32 {
    PAGES + page * BYTES
}

fn row(page: u32, frame: u32) -> u32 {
    FRAMES + frame * BYTES + ROW + if is_global(page) { GLOBAL } else { 0 }
}

/// Puts the page in that frame; forgets nothing.
fn map(page: u32, frame: u32) -> Vec<u8> {
    let at = TABLE as u32 + 4 * (address(page) / BYTES);
    [b"\xc7\x05", &at.to_le_bytes()[..], &row(page, frame).to_le_bytes()].concat()
}

/// The number in the page, as data.
fn read(page: u32) -> Vec<u8> {
    [b"\xa0", &(address(page) + 1).to_le_bytes()[..], NOTE].concat()
}

/// The same, executed.
fn call(page: u32) -> Vec<u8> {
    [b"\xb9", &address(page).to_le_bytes()[..], b"\xff\xd1", NOTE].concat()
}

/// Another number in this frame.
fn renumber(frame: u32, number: u8) -> Vec<u8> {
    [b"\xc6\x05", &(FRAMES + frame * BYTES + 1).to_le_bytes()[..], &[number]].concat()
}

/// INVLPG.
fn forget(page: u32) -> Vec<u8> {
    [b"\x0f\x01\x3d", &address(page).to_le_bytes()[..]].concat()
}

/// What the program has seen: it begins without paging, with each page in frame 0 and each frame with its own number.
fn run(program: &[u8], looks: usize) -> Vec<u8> {
    let ram = Ram::at(0, 4 << 20, ByteOrder::Little).unwrap();
    ram.set_word32(DIRECTORY, TABLE as u32 | ROW);
    (0..1024).for_each(|page| assert!(ram.set_word32(TABLE + 4 * page, (page << 12) as u32 | ROW)));
    (0..PAGE_COUNT).for_each(|page| assert!(ram.set_word32(TABLE + 4 * u64::from(address(page) / BYTES), row(page, 0))));
    (0..FRAME_COUNT).for_each(|frame| assert!(ram.write((FRAMES + frame * BYTES).into(), &[0xb0, frame as u8, 0xc3])));
    let mut core: Core<Witness> = Core::new(&CORE, &ram).unwrap();
    state::enter_flat_32(&core.stopped(), PROGRAM.into());
    ram.write(PROGRAM.into(), &[PAGE_GLOBAL_ENABLE, PAGING, program, HLT].concat());
    for (register, value) in [
        (RegisterX86::RAX, 0),
        (RegisterX86::RDI, SEEN.into()),
        (RegisterX86::RSP, PROGRAM.into()),
        (RegisterX86::CR3, DIRECTORY),
    ] {
        core.stopped().write(register, value);
    }
    assert_eq!(core.run(&mut Witness::default()), Ended::Stopped);
    assert_eq!(core.handle().read(RegisterX86::RDI), u64::from(SEEN) + looks as u64, "it came to its end");
    let mut seen = vec![0; looks];
    assert!(ram.read(SEEN.into(), &mut seen));
    seen
}

const OWN: u32 = 0;
const PRIVATE: u32 = PAGE_COUNT - 1;

#[test]
fn a_new_address_space_forgets_private_pages_and_keeps_global_ones() {
    for look in [read, call] {
        let before = [look(OWN), look(PRIVATE), map(OWN, 1), map(PRIVATE, 1)].concat();
        let after = [look(OWN), look(PRIVATE)].concat();
        assert_eq!(run(&[&before, &after[..]].concat(), 4), [0, 0, 0, 0], "nothing was forgotten");
        assert_eq!(run(&[&before, SAME_SPACE, &after].concat(), 4), [0, 0, 0, 1]);
        assert_eq!(run(&[&before, SAME_SPACE, &forget(OWN), &after].concat(), 4), [0, 0, 1, 1]);
        assert_eq!(run(&[&before, NO_GLOBAL, PAGE_GLOBAL_ENABLE, &after].concat(), 4), [0, 0, 1, 1]);
        assert_eq!(run(&[NO_GLOBAL, &before, SAME_SPACE, &after].concat(), 4), [0, 0, 1, 1], "no page is global");
    }
}

#[test]
fn code_that_is_overwritten_does_not_outlive_it_either() {
    for between in [b"".as_slice(), SAME_SPACE] {
        let program = [&call(OWN), SAME_SPACE, &call(OWN), between, &renumber(0, 9), between, &call(OWN), &read(OWN)].concat();
        assert_eq!(run(&program, 4), [0, 0, 9, 9]);
    }
}

#[test]
fn a_block_whose_page_was_forgotten_does_not_come_back_with_the_next_address_space() {
    let twice = [&call(OWN), SAME_SPACE, &call(OWN), &map(OWN, 1)].concat();
    let after = [SAME_SPACE, &call(OWN)].concat();
    assert_eq!(run(&[&twice, &after[..]].concat(), 3), [0, 0, 0], "it is kept");
    assert_eq!(run(&[&twice, &forget(OWN)[..], &after].concat(), 3), [0, 0, 1]);
    assert_eq!(run(&[&twice, NO_GLOBAL, PAGE_GLOBAL_ENABLE, &after].concat(), 3), [0, 0, 1]);
}

/// Of a global page the guest may see any frame that it was in since that page was last forgotten; of others none but
/// the newest, once they were.
#[test]
fn whatever_a_guest_does_it_meets_nothing_that_it_has_forgotten() {
    let mut numbers = Numbers(20_221_211);
    for _ in 0..300 {
        let mut program = Vec::new();
        let mut numbered: Vec<u8> = (0..FRAME_COUNT as u8).collect();
        let mut frames = vec![vec![0]; PAGE_COUNT as usize];
        let mut allowed = Vec::new();
        for _ in 0..60 {
            let page = numbers.any() as u32 % PAGE_COUNT;
            let frame = numbers.any() as u32 % FRAME_COUNT;
            let mut only_newest = |which: &dyn Fn(u32) -> bool| {
                let pages = frames.iter_mut().zip(0..).filter(|(_, page)| which(*page));
                pages.for_each(|(frames, _)| drop(frames.drain(..frames.len() - 1)));
            };
            match numbers.any() % 8 {
                0 => {
                    program.extend(map(page, frame));
                    frames[page as usize].push(frame);
                }
                1 => {
                    program.extend(SAME_SPACE);
                    only_newest(&|page| !is_global(page));
                }
                2 => {
                    program.extend(forget(page));
                    only_newest(&|other| other == page);
                }
                3 if numbers.one_in(3) => {
                    program.extend([NO_GLOBAL, PAGE_GLOBAL_ENABLE].concat());
                    only_newest(&|_| true);
                }
                4 => {
                    let number = numbers.any() as u8;
                    program.extend(renumber(frame, number));
                    numbered[frame as usize] = number;
                }
                look => {
                    program.extend(if look % 2 == 0 { read(page) } else { call(page) });
                    allowed.push(frames[page as usize].iter().map(|frame| numbered[*frame as usize]).collect::<Vec<u8>>());
                }
            }
        }
        let seen = run(&program, allowed.len());
        for (number, (seen, allowed)) in seen.iter().zip(&allowed).enumerate() {
            assert!(allowed.contains(seen), "look {number}: {seen}, not of {allowed:?}; {program:x?}");
        }
    }
}
