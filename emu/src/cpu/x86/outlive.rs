//! Tests of `translator/outlive.h` by guest programs: what an x86 guest may still see of page tables that it has
//! changed, and what it must not.
//!
//! A program maps pages to frames, reads and calls through them, and forgets translations by INVLPG, CR3 and CR4. The
//! tests run it under each kind of page tables, with small and large pages, in two address spaces, on one CPU and on
//! two. A model says which frames each look may meet.

use super::core::CORE;
use super::state;
use crate::unicorn::engine::{Core, Ended};
use crate::unicorn::fills::Numbers;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;
use crate::unicorn::witness::Witness;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterX86;

const SMALL: u64 = 4096;
/// The programs of the two CPUs; each stack ends where its program begins.
const PROGRAMS: [u64; 2] = [0x1_0000, 0x2_0000];
/// The bytes that the program of each CPU has read, one for each look.
const SEEN: [u64; 2] = [0x8_0000, 0x9_0000];
/// Page tables are taken from here on.
const TABLES: u64 = 0x3_0000;
/// Small pages through which programs write to the frames: the first page of each, then its middle one.
const WINDOWS: u64 = 0x18_0000;
/// Everything that a program uses beside the pages that it maps.
const LOW: u64 = 0x20_0000;
/// Both address spaces map the same frames to global pages, and their own to private ones.
const SPACES: usize = 2;

// Present, writable, accessed, dirty: a walk has nothing to write, so the quick walk takes the row.
const ROW: u64 = 0x63;
const LARGE: u64 = 0x80;
const GLOBAL: u64 = 0x100;
const PAGE_GLOBAL_ENABLE: &[u8] = b"\x0f\x20\xe1\x81\xc9\x80\0\0\0\x0f\x22\xe1"; // cr4 |= 0x80
const NO_GLOBAL: &[u8] = b"\x0f\x20\xe1\x81\xe1\x7f\xff\xff\xff\x0f\x22\xe1"; // cr4 &= ~0x80
const LARGE_ENABLE: &[u8] = b"\x0f\x20\xe1\x83\xc9\x10\x0f\x22\xe1"; // cr4 |= 0x10
const PAE_ENABLE: &[u8] = b"\x0f\x20\xe1\x83\xc9\x20\x0f\x22\xe1"; // cr4 |= 0x20
const PAGING: &[u8] = b"\x0f\x20\xc0\x0d\0\0\0\x80\x0f\x22\xc0"; // cr0 |= 0x80000000
const SAME_SPACE: &[u8] = b"\x0f\x20\xda\x0f\x22\xda"; // cr3 = cr3
const NOTE: &[u8] = b"\xaa"; // stosb
const HLT: &[u8] = b"\xf4";

/// Levels of page tables.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Levels {
    Two,
    /// PAE, 32-bit code.
    Three,
    /// 64-bit code.
    Four,
}

impl Levels {
    /// The lowest bit of an address that selects a row, for each level from the root on.
    fn shifts(self) -> &'static [u32] {
        match self {
            Levels::Two => &[22, 12],
            Levels::Three => &[30, 21, 12],
            Levels::Four => &[39, 30, 21, 12],
        }
    }

    fn row_bytes(self) -> u64 {
        if self == Levels::Two { 4 } else { 8 }
    }

    /// A 32-bit address as the CPU extends it.
    fn extended(self, address: u32) -> u64 {
        if self == Levels::Four { address as i32 as u64 } else { address.into() }
    }
}

/// A page that programs map to frames.
#[derive(Clone, Copy, Debug)]
struct Page {
    address: u32,
    bytes: u64,
    is_global: bool,
}

const fn global(address: u32, bytes: u64) -> Page {
    Page { address, bytes, is_global: true }
}

const fn private(address: u32, bytes: u64) -> Page {
    Page { address, bytes, is_global: false }
}

/// Page tables of one kind, and the pages that programs map.
struct Setup {
    levels: Levels,
    /// The first is global, the last is private.
    pages: &'static [Page],
    frames: usize,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Small pages alone, then large pages among small ones. In 64-bit code addresses from 2 GiB on are of the kernel's half.
const SETUPS: &[Setup] = &[
    Setup { levels: Levels::Two, frames: 4, pages: SMALL_PAGES },
    Setup { levels: Levels::Three, frames: 4, pages: SMALL_PAGES },
    Setup { levels: Levels::Four, frames: 4, pages: SMALL_PAGES },
    Setup {
        levels: Levels::Two,
        frames: 3,
        pages: &[
            global(0xc000_0000, 4 * MIB),
            global(0x4000_0000, 4 * MIB),
            global(0xc080_0000, SMALL),
            private(0x4080_0000, SMALL),
            private(0x4081_1000, SMALL),
            private(0x40c0_0000, 4 * MIB),
        ],
    },
    Setup { levels: Levels::Three, frames: 3, pages: TWO_MIB_PAGES },
    Setup { levels: Levels::Four, frames: 3, pages: TWO_MIB_PAGES },
    Setup {
        levels: Levels::Four,
        frames: 2,
        pages: &[
            global(0x8000_0000, GIB),
            global(0x0100_0000, 2 * MIB),
            global(0x0200_0000, SMALL),
            private(0xc000_0000, 2 * MIB),
            private(0xd000_0000, SMALL),
            private(0x0200_1000, SMALL),
            private(0x4000_0000, GIB),
        ],
    },
];

const SMALL_PAGES: &[Page] = &[
    global(0x0040_0000, SMALL),
    global(0x0040_1000, SMALL),
    global(0xc000_2000, SMALL),
    global(0xc020_0000, SMALL),
    private(0x0040_4000, SMALL),
    private(0x0140_1000, SMALL),
    private(0xc000_6000, SMALL),
    private(0x0040_7000, SMALL),
];

const TWO_MIB_PAGES: &[Page] = &[
    global(0xc000_0000, 2 * MIB),
    global(0x4000_0000, 2 * MIB),
    global(0xc080_0000, SMALL),
    global(0x4100_0000, SMALL),
    private(0x4080_0000, SMALL),
    private(0xc0a0_1000, SMALL),
    private(0xc060_0000, 2 * MIB),
    private(0x40c0_0000, 2 * MIB),
];

/// The guest's memory with the tables of both address spaces, and the encoder of programs for it.
struct Guest {
    setup: &'static Setup,
    ram: Ram,
    roots: [u64; SPACES],
    next_table: u64,
}

impl Guest {
    /// Each page is in frame 0, and each frame has its own number: it holds `mov al, number; ret` at its start and in
    /// its middle.
    fn new(setup: &'static Setup) -> Guest {
        let last = frame(setup, setup.frames);
        let ram = Ram::at(0, last as usize, ByteOrder::Little).expect("the host has memory that nobody touches");
        let mut guest = Guest { setup, ram, roots: [0; SPACES], next_table: TABLES };
        guest.roots = [(); SPACES].map(|()| guest.table());
        for space in 0..SPACES {
            for at in (0..LOW).step_by(SMALL as usize) {
                let to = guest.window_of(at).unwrap_or(at);
                guest.put(space, at, SMALL, to | ROW);
            }
            for page in setup.pages {
                let row = guest.row(*page, 0);
                guest.put(space, setup.levels.extended(page.address), page.bytes, row);
            }
        }
        for number in 0..setup.frames {
            for half in 0..2 {
                assert!(guest.ram.write(frame(setup, number) + half * middle(setup), &[0xb0, number as u8, 0xc3]));
            }
        }
        guest
    }

    fn table(&mut self) -> u64 {
        assert!(self.next_table < SEEN[0], "room for page tables");
        self.next_table += SMALL;
        self.next_table - SMALL
    }

    /// The part of a frame that the program sees at this address, if it is one of the windows.
    fn window_of(&self, address: u64) -> Option<u64> {
        let number = address.checked_sub(WINDOWS)? / SMALL;
        let (number, half) = (number as usize / 2, number % 2);
        (number < self.setup.frames).then(|| (frame(self.setup, number) + half * middle(self.setup)) / SMALL * SMALL)
    }

    /// The address of the row for a page of this size; tables on the way are made.
    fn place(&mut self, space: usize, address: u64, bytes: u64) -> u64 {
        let levels = self.setup.levels;
        let mask = SMALL / levels.row_bytes() - 1;
        let mut table = self.roots[space];
        for (level, shift) in levels.shifts().iter().enumerate() {
            let at = table + (address >> shift & mask) * levels.row_bytes();
            if 1 << shift == bytes {
                return at;
            }
            let row = self.ram.word32(at).into();
            table = match row {
                0u64 => {
                    let made = self.table();
                    // PAE's highest rows have other bits.
                    let bits = if levels == Levels::Three && level == 0 { 1 } else { ROW };
                    assert!(self.ram.set_word32(at, (made | bits) as u32));
                    made
                }
                row => row & !0xfff,
            };
        }
        panic!("no level has pages of {bytes} bytes");
    }

    fn put(&mut self, space: usize, address: u64, bytes: u64, row: u64) {
        let at = self.place(space, address, bytes);
        assert!(self.ram.set_word32(at, row as u32));
    }

    fn row(&self, page: Page, to: usize) -> u64 {
        let kind = if page.is_global { GLOBAL } else { 0 } | if page.bytes == SMALL { 0 } else { LARGE };
        frame(self.setup, to) | ROW | kind
    }

    /// Puts the page in that frame, in one address space or, if it is global, in both; forgets nothing.
    fn map(&mut self, space: usize, page: Page, to: usize) -> Vec<u8> {
        let row = self.row(page, to) as u32;
        let mut code = Vec::new();
        for space in (0..SPACES).filter(|other| *other == space || page.is_global) {
            let at = self.place(space, self.setup.levels.extended(page.address), page.bytes) as u32;
            code.extend([b"\xc7\x04\x25", &at.to_le_bytes()[..], &row.to_le_bytes()].concat());
        }
        code
    }

    /// The number in the page, as data: from its start or, of a large page, from its middle.
    fn read(&self, page: Page, half: bool) -> Vec<u8> {
        [b"\x8a\x04\x25", &(self.inside(page, half) + 1).to_le_bytes()[..], NOTE].concat()
    }

    /// The same, executed.
    fn call(&self, page: Page, half: bool) -> Vec<u8> {
        let address = self.inside(page, half).to_le_bytes();
        let load: &[u8] = if self.setup.levels == Levels::Four { b"\x48\xc7\xc1" } else { b"\xb9" };
        [load, &address[..], b"\xff\xd1", NOTE].concat()
    }

    /// INVLPG.
    fn forget(&self, page: Page, half: bool) -> Vec<u8> {
        [b"\x0f\x01\x3c\x25", &self.inside(page, half).to_le_bytes()[..]].concat()
    }

    fn inside(&self, page: Page, half: bool) -> u32 {
        // A page that is smaller than a frame shows its start alone.
        let half = half && page.bytes == 2 * middle(self.setup);
        page.address + if half { middle(self.setup) as u32 } else { 0 }
    }

    /// Another number in this frame.
    fn renumber(&self, frame: usize, number: u8) -> Vec<u8> {
        let inside = |half: u64| half * middle(self.setup) % SMALL + 1;
        let windows = (0..2).map(|half| (WINDOWS + (2 * frame as u64 + half) * SMALL + inside(half)) as u32);
        windows.flat_map(|at| [b"\xc6\x04\x25", &at.to_le_bytes()[..], &[number]].concat()).collect()
    }

    /// Loads CR3 with the tables of this address space.
    fn enter(&self, space: usize) -> Vec<u8> {
        [b"\xba", &(self.roots[space] as u32).to_le_bytes()[..], b"\x0f\x22\xda"].concat()
    }

    /// Runs the programs, each a list of parts, as CPUs that take turns: in each turn one CPU runs its next part. The
    /// bytes that each CPU has seen.
    fn run(&self, parts: &[Vec<Vec<u8>>], turns: &[usize], looks: &[usize]) -> Vec<Vec<u8>> {
        let mut core: Core<Witness> = Core::new(&CORE, &self.ram).unwrap();
        let reset = saved(&core);
        let mut cpus = Vec::new();
        for (number, parts) in parts.iter().enumerate() {
            reset.restore(core.handle());
            let begins: &[&[u8]] = match self.setup.levels {
                Levels::Two => &[LARGE_ENABLE, PAGE_GLOBAL_ENABLE, PAGING],
                Levels::Three => &[PAE_ENABLE, PAGE_GLOBAL_ENABLE, PAGING],
                Levels::Four => &[PAGE_GLOBAL_ENABLE],
            };
            let parts: Vec<u8> = parts.iter().flat_map(|part| [part, HLT].concat()).collect();
            let program = [begins.concat(), parts].concat();
            assert!(program.len() < 0x8000 && self.ram.write(PROGRAMS[number], &program));
            match self.setup.levels {
                Levels::Four => state::enter_long(&core.stopped(), PROGRAMS[number], self.roots[0]),
                _ => state::enter_flat_32(&core.stopped(), PROGRAMS[number]),
            }
            for (register, value) in [
                (RegisterX86::RAX, 0),
                (RegisterX86::RDI, SEEN[number]),
                (RegisterX86::RSP, PROGRAMS[number]),
                (RegisterX86::CR3, self.roots[0]),
            ] {
                core.stopped().write(register, value);
            }
            cpus.push(saved(&core));
        }
        let mut current = None;
        for turn in turns {
            // As `Machine::switch_to` does it.
            if current != Some(*turn) {
                if let Some(from) = current {
                    cpus[from] = saved(&core);
                }
                cpus[*turn].restore(core.handle());
                core.flush_tlb();
                current = Some(*turn);
            }
            assert_eq!(core.run(&mut Witness::default()), Ended::Stopped);
        }
        if let Some(last) = current {
            cpus[last] = saved(&core);
        }
        let each = |(number, looks): (usize, &usize)| {
            cpus[number].restore(core.handle());
            assert_eq!(core.handle().read(RegisterX86::RDI), SEEN[number] + *looks as u64, "CPU {number} came to its end");
            let mut seen = vec![0; *looks];
            assert!(self.ram.read(SEEN[number], &mut seen));
            seen
        };
        looks.iter().enumerate().map(each).collect()
    }

    /// The same for one CPU.
    fn run_alone(&self, program: &[&[u8]], looks: usize) -> Vec<u8> {
        self.run(&[vec![program.concat()]], &[0], &[looks]).remove(0)
    }
}

fn saved(core: &Core<Witness>) -> CoreState {
    let mut state = CoreState::new(core.handle()).expect("room for a state");
    state.save(core.handle());
    state
}

/// Bytes of a frame, as many as the largest page has.
fn frame_bytes(setup: &Setup) -> u64 {
    setup.pages.iter().map(|page| page.bytes).max().unwrap_or(SMALL)
}

fn frame(setup: &Setup, number: usize) -> u64 {
    // The first stand behind all that programs use besides.
    let bytes = frame_bytes(setup);
    LOW.next_multiple_of(bytes) + number as u64 * bytes
}

/// The middle of a frame; of a small one too, which is in the same page.
fn middle(setup: &Setup) -> u64 {
    frame_bytes(setup) / 2
}

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
                // With large pages the library may forget more than it must.
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

/// Of a global page the guest may see any frame that it was in since the CPU last forgot that page; of a private one,
/// any since the CPU last forgot it or loaded CR3.
#[test]
fn whatever_a_guest_does_it_meets_nothing_that_it_has_forgotten() {
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
                    let here = models.iter_mut().filter(|model| page.is_global && other == space || model.space == other && !page.is_global);
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
