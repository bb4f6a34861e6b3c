//! Tests of `translator/x86/global_pages.h` by guest programs: what an x86 guest may still see of page tables that it has
//! changed, and what it must not.
//!
//! A program maps pages to frames, reads and calls through them, and forgets translations by INVLPG, CR3 and CR4. The
//! tests run it under each kind of page tables, with small and large pages, in two address spaces, on one CPU and on
//! two. A model says which frames each look may meet.

mod guest;

use super::core::CORE;
use super::state;
use crate::unicorn::engine::{By, Core, Ended};
use crate::unicorn::fills::Numbers;
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::RecordingEvents;
use guest::{Guest, NO_GLOBAL, PAGE_GLOBAL_ENABLE, Page, SAME_SPACE, SETUPS, SMALL, SPACES, Setup, frame_bytes};
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterX86;

/// Translations that make way for each other, and are then forgotten with their address space, are counted once each. The
/// global ones stay in the count, or a count that is too small would become negative and be computed again.
#[test]
fn entries_of_the_tlb_are_counted_once() {
    const DIRECTORY: u64 = 0x1000;
    const TABLE: u64 = 0x2000;
    const PROGRAM: u64 = 0x10_0000;
    /// Pages that are as far apart have one place in each table of at most 256 entries.
    const APART: u32 = 0x10_0000;
    /// Pages beside each other, each with a place of its own.
    const ASIDE: u32 = 0x2_0000;
    const PRESENT_WRITABLE: u32 = 0x63;
    const GLOBAL: u32 = 0x100;
    for (private, global) in (1..=4).flat_map(|private| (4..12).map(move |global| (private, global))) {
        let ram = Ram::at(0, 4 << 20, ByteOrder::Little).expect("memory");
        ram.set_word32(DIRECTORY, TABLE as u32 | PRESENT_WRITABLE);
        let is_global = |page: u32| page == (PROGRAM >> 12) as u32 || (ASIDE >> 12..(ASIDE >> 12) + global).contains(&page);
        for page in 0..1024 {
            let row = page << 12 | PRESENT_WRITABLE | if is_global(page) { GLOBAL } else { 0 };
            assert!(ram.set_word32(TABLE + 4 * u64::from(page), row));
        }
        // CR4.PGE; paging; reads of each page; the same CR3 again; hlt
        let mut program = [PAGE_GLOBAL_ENABLE, b"\x0f\x20\xc0\x0d\0\0\0\x80\x0f\x22\xc0"].concat();
        let pages = (0..global).map(|number| ASIDE + number * 0x1000).chain((0..private).map(|number| 0x8000 + number * APART));
        for page in pages {
            program.extend([b"\x8a\x1d", &page.to_le_bytes()[..]].concat());
        }
        program.extend([SAME_SPACE, b"\xf4"].concat());
        assert!(ram.write(PROGRAM, &program));
        let mut core: Core<RecordingEvents> = Core::new(&CORE, &ram).expect("a core");
        state::enter_flat_32(&core.stopped(), PROGRAM);
        core.stopped().write(RegisterX86::CR3, DIRECTORY);
        assert_eq!(core.run(&mut RecordingEvents::default()), Ended::Stopped);
        let counted = [0, 1, 2].map(|mode| core.fill_by(By::Nobody, 0, 0, mode).expect("nothing is filled in")[COUNTED]);
        // The program's own page is global, too.
        let expected = u64::from(global) + 1;
        assert_eq!(counted.into_iter().max(), Some(expected), "{private} private, {global} global: {counted:x?}");
    }
}

/// Index of the number of entries in the result of `fill_by`.
const COUNTED: usize = 9;

type Look = fn(&Guest, Page, bool) -> Vec<u8>;
const LOOKS: [Look; 2] = [Guest::read, Guest::call];

/// Every setup with its first page, which is global, and its last, which is private.
fn setups() -> impl Iterator<Item = (&'static Setup, Page, Page)> {
    SETUPS.iter().map(|setup| (setup, setup.pages[0], setup.pages[setup.pages.len() - 1]))
}

#[test]
fn a_new_address_space_forgets_private_pages_and_keeps_global_ones() {
    for (setup, own, other) in setups() {
        assert!(own.is_global && !other.is_global);
        for look in LOOKS {
            let mut guest = Guest::new(setup);
            let looks = [look(&guest, own, false), look(&guest, other, false)].concat();
            let before = [&looks[..], &guest.map(0, own, 1), &guest.map(0, other, 1)].concat();
            let forgotten = guest.forget(own, true);
            let seen = |between: &[&[u8]]| Guest::new(setup).run_alone(&[&before, &between.concat(), &looks], 4);
            let what = format!("{:?}, {} bytes", setup.levels, own.bytes);
            let kept = seen(&[]);
            assert_eq!(kept[..2], [0, 0], "{what}");
            assert_eq!(seen(&[SAME_SPACE])[3], 1, "{what}");
            assert_eq!(seen(&[SAME_SPACE, &forgotten])[2..], [1, 1], "{what}");
            assert_eq!(seen(&[NO_GLOBAL, PAGE_GLOBAL_ENABLE])[2..], [1, 1], "{what}");
            let none_global = Guest::new(setup).run_alone(&[NO_GLOBAL, &before, SAME_SPACE, &looks], 4);
            assert_eq!(none_global[2..], [1, 1], "{what}: no page is global");
            if frame_bytes(setup) == SMALL {
                // With large pages Unicorn may forget more than it must.
                assert_eq!(kept, [0, 0, 0, 0], "{what}: nothing was forgotten");
                assert_eq!(seen(&[SAME_SPACE]), [0, 0, 0, 1], "{what}");
            }
        }
    }
}

#[test]
fn code_that_is_overwritten_does_not_outlive_it_either() {
    for (setup, own, _) in setups() {
        for between in [b"".as_slice(), SAME_SPACE] {
            let guest = Guest::new(setup);
            let (call, read, renumber) = (guest.call(own, true), guest.read(own, true), guest.renumber(0, 9));
            let program: [&[u8]; 8] = [&call, SAME_SPACE, &call, between, &renumber, between, &call, &read];
            assert_eq!(guest.run_alone(&program, 4), [0, 0, 9, 9], "{:?}", setup.levels);
        }
    }
}

#[test]
fn a_block_whose_page_was_forgotten_does_not_come_back_with_the_next_address_space() {
    for (setup, own, _) in setups() {
        let mut guest = Guest::new(setup);
        let (call, forget) = (guest.call(own, false), guest.forget(own, true));
        let twice = [&call[..], SAME_SPACE, &call, &guest.map(0, own, 1)].concat();
        let after = [SAME_SPACE, &call].concat();
        let seen = |between: &[&[u8]]| Guest::new(setup).run_alone(&[&twice, &between.concat(), &after], 3);
        let what = format!("{:?}, {} bytes", setup.levels, own.bytes);
        if frame_bytes(setup) == SMALL {
            assert_eq!(seen(&[]), [0, 0, 0], "{what}: it is kept");
        }
        assert_eq!(seen(&[&forget]), [0, 0, 1], "{what}");
        assert_eq!(seen(&[NO_GLOBAL, PAGE_GLOBAL_ENABLE]), [0, 0, 1], "{what}");
    }
}

/// The frames that a CPU may meet in each page: all since it last forgot that page, the newest last.
struct Model {
    space: usize,
    frames: Vec<Vec<usize>>,
}

impl Model {
    fn only_newest(&mut self, which: impl Fn(usize) -> bool) {
        let pages = self.frames.iter_mut().enumerate().filter(|(page, _)| which(*page));
        pages.for_each(|(_, frames)| drop(frames.drain(..frames.len() - 1)));
    }
}

/// A guest may see a global page in any frame that it was in since the CPU last forgot that page, and a private one in
/// any since the CPU last forgot it or loaded CR3.
#[test]
fn flushed_translations_never_come_back() {
    const PROGRAMS_EACH: usize = 80;
    let mut numbers = Numbers(20_221_211);
    for setup in SETUPS {
        for cpus in 1..=2 {
            (0..PROGRAMS_EACH).for_each(|_| run_random(setup, cpus, &mut numbers));
        }
    }
}

fn run_random(setup: &'static Setup, cpus: usize, numbers: &mut Numbers) {
    let mut guest = Guest::new(setup);
    let pages = setup.pages;
    let is_global = |page: usize| pages[page].is_global;
    let mut parts = vec![vec![Vec::new()]; cpus];
    let (mut turns, mut current) = (vec![0], 0);
    let mut numbered: Vec<u8> = (0..setup.frames as u8).collect();
    let mut newest = vec![vec![0; pages.len()]; SPACES];
    let mut models: Vec<Model> = (0..cpus).map(|_| Model { space: 0, frames: vec![vec![0]; pages.len()] }).collect();
    let mut allowed: Vec<Vec<Vec<u8>>> = vec![Vec::new(); cpus];
    for _ in 0..60 * cpus {
        let number = numbers.any() as usize % pages.len();
        let (page, half) = (pages[number], numbers.one_in(2));
        let model = &mut models[current];
        let code = match numbers.any() % 11 {
            0 | 1 => {
                let to = numbers.any() as usize % setup.frames;
                // Mostly the tables that are in force.
                let space = if numbers.one_in(4) { 1 - model.space } else { model.space };
                for (other, newest) in newest.iter_mut().enumerate().filter(|(other, _)| *other == space || page.is_global) {
                    newest[number] = to;
                    let here = models
                        .iter_mut()
                        .filter(|model| page.is_global && other == space || model.space == other && !page.is_global);
                    here.for_each(|model| model.frames[number].push(to));
                }
                guest.map(space, page, to)
            }
            2 => {
                model.only_newest(|page| !is_global(page));
                SAME_SPACE.to_vec()
            }
            3 => {
                model.space = 1 - model.space;
                let mapped = model.frames.iter_mut().zip(&newest[model.space]).enumerate();
                mapped.filter(|(page, _)| !is_global(*page)).for_each(|(_, (frames, newest))| *frames = vec![*newest]);
                guest.enter(model.space)
            }
            4 | 5 => {
                model.only_newest(|other| other == number);
                guest.forget(page, half)
            }
            6 if numbers.one_in(3) => {
                model.only_newest(|_| true);
                [NO_GLOBAL, PAGE_GLOBAL_ENABLE].concat()
            }
            7 => {
                let (frame, number) = (numbers.any() as usize % setup.frames, numbers.any() as u8);
                numbered[frame] = number;
                guest.renumber(frame, number)
            }
            8 if cpus > 1 => {
                current = 1 - current;
                turns.push(current);
                parts[current].push(Vec::new());
                Vec::new()
            }
            look => {
                allowed[current].push(model.frames[number].iter().map(|frame| numbered[*frame]).collect());
                LOOKS[look as usize % 2](&guest, page, half)
            }
        };
        if let Some(part) = parts[current].last_mut() {
            part.extend(code);
        }
    }
    // The second CPU's first part is that of its first turn.
    if let Some(second) = parts.get_mut(1) {
        second.remove(0);
    }
    let looks: Vec<usize> = allowed.iter().map(Vec::len).collect();
    let seen = guest.run(&parts, &turns, &looks);
    for (cpu, (seen, allowed)) in seen.iter().zip(&allowed).enumerate() {
        for (number, (seen, allowed)) in seen.iter().zip(allowed).enumerate() {
            let what = format!("{:?}, {cpus} CPUs, look {number} of CPU {cpu}", setup.levels);
            assert!(allowed.contains(seen), "{what}: {seen}, not of {allowed:?}; {turns:?} {parts:x?}");
        }
    }
}
