//! The guest of the tests in `global_pages.rs`: its page tables, the encoder of its programs, and the CPUs that run them.

use crate::cpu::x86::core::CORE;
use crate::cpu::x86::state;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Core, Ended};
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::RecordingEvents;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterX86;

pub(super) const SMALL: u64 = 4096;
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
pub(super) const SPACES: usize = 2;

// Present, writable, accessed, dirty: a walk has nothing to write, so the quick walk takes the row.
const ROW: u64 = 0x63;
const LARGE: u64 = 0x80;
const GLOBAL: u64 = 0x100;
pub(super) const PAGE_GLOBAL_ENABLE: &[u8] = b"\x0f\x20\xe1\x81\xc9\x80\0\0\0\x0f\x22\xe1"; // cr4 |= 0x80
pub(super) const NO_GLOBAL: &[u8] = b"\x0f\x20\xe1\x81\xe1\x7f\xff\xff\xff\x0f\x22\xe1"; // cr4 &= ~0x80
const LARGE_ENABLE: &[u8] = b"\x0f\x20\xe1\x83\xc9\x10\x0f\x22\xe1"; // cr4 |= 0x10
const PAE_ENABLE: &[u8] = b"\x0f\x20\xe1\x83\xc9\x20\x0f\x22\xe1"; // cr4 |= 0x20
const PAGING: &[u8] = b"\x0f\x20\xc0\x0d\0\0\0\x80\x0f\x22\xc0"; // cr0 |= 0x80000000
pub(super) const SAME_SPACE: &[u8] = b"\x0f\x20\xda\x0f\x22\xda"; // cr3 = cr3
const NOTE: &[u8] = b"\xaa"; // stosb
const HLT: &[u8] = b"\xf4";

/// Levels of page tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Levels {
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
pub(super) struct Page {
    pub(super) address: u32,
    pub(super) bytes: u64,
    pub(super) is_global: bool,
}

const fn global(address: u32, bytes: u64) -> Page {
    Page { address, bytes, is_global: true }
}

const fn private(address: u32, bytes: u64) -> Page {
    Page { address, bytes, is_global: false }
}

/// Page tables of one kind, and the pages that programs map.
pub(super) struct Setup {
    pub(super) levels: Levels,
    /// The first is global, the last is private.
    pub(super) pages: &'static [Page],
    pub(super) frames: usize,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Small pages alone, then large pages among small ones. In 64-bit code addresses from 2 GiB on are of the kernel's half.
pub(super) const SETUPS: &[Setup] = &[
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

pub(super) const SMALL_PAGES: &[Page] = &[
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
pub(super) struct Guest {
    setup: &'static Setup,
    ram: Ram,
    roots: [u64; SPACES],
    next_table: u64,
}

impl Guest {
    /// Each page is in frame 0, and each frame has its own number: it holds `mov al, number; ret` at its start and in
    /// its middle.
    pub(super) fn new(setup: &'static Setup) -> Guest {
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
    pub(super) fn map(&mut self, space: usize, page: Page, to: usize) -> Vec<u8> {
        let row = self.row(page, to) as u32;
        let mut code = Vec::new();
        for space in (0..SPACES).filter(|other| *other == space || page.is_global) {
            let at = self.place(space, self.setup.levels.extended(page.address), page.bytes) as u32;
            code.extend([b"\xc7\x04\x25", &at.to_le_bytes()[..], &row.to_le_bytes()].concat());
        }
        code
    }

    /// The number in the page, as data: from its start or, of a large page, from its middle.
    pub(super) fn read(&self, page: Page, half: bool) -> Vec<u8> {
        [b"\x8a\x04\x25", &(self.inside(page, half) + 1).to_le_bytes()[..], NOTE].concat()
    }

    /// Calls the code in the page, at its start or, in a large page, at its middle.
    pub(super) fn call(&self, page: Page, half: bool) -> Vec<u8> {
        let address = self.inside(page, half).to_le_bytes();
        let load: &[u8] = if self.setup.levels == Levels::Four { b"\x48\xc7\xc1" } else { b"\xb9" };
        [load, &address[..], b"\xff\xd1", NOTE].concat()
    }

    /// Encodes INVLPG for a page.
    pub(super) fn forget(&self, page: Page, half: bool) -> Vec<u8> {
        [b"\x0f\x01\x3c\x25", &self.inside(page, half).to_le_bytes()[..]].concat()
    }

    fn inside(&self, page: Page, half: bool) -> u32 {
        // A page that is smaller than a frame shows its start alone.
        let half = half && page.bytes == 2 * middle(self.setup);
        page.address + if half { middle(self.setup) as u32 } else { 0 }
    }

    /// Another number in this frame.
    pub(super) fn renumber(&self, frame: usize, number: u8) -> Vec<u8> {
        let inside = |half: u64| half * middle(self.setup) % SMALL + 1;
        let windows = (0..2).map(|half| (WINDOWS + (2 * frame as u64 + half) * SMALL + inside(half)) as u32);
        windows.flat_map(|at| [b"\xc6\x04\x25", &at.to_le_bytes()[..], &[number]].concat()).collect()
    }

    /// Loads CR3 with the tables of this address space.
    pub(super) fn enter(&self, space: usize) -> Vec<u8> {
        [b"\xba", &(self.roots[space] as u32).to_le_bytes()[..], b"\x0f\x22\xda"].concat()
    }

    /// Runs the programs, each a list of parts, as CPUs that take turns: in each turn one CPU runs its next part. The
    /// bytes that each CPU has seen.
    pub(super) fn run(&self, parts: &[Vec<Vec<u8>>], turns: &[usize], looks: &[usize]) -> Vec<Vec<u8>> {
        let mut core: Core<RecordingEvents> = Core::new(&CORE, &self.ram).unwrap();
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
            // Like `Machine::switch_to`.
            if current != Some(*turn) {
                if let Some(from) = current {
                    cpus[from] = saved(&core);
                }
                cpus[*turn].restore(core.handle());
                core.flush_tlb();
                current = Some(*turn);
            }
            assert_eq!(core.run(&mut RecordingEvents::default()), Ended::Stopped);
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

    /// Runs a program on one CPU.
    pub(super) fn run_alone(&self, program: &[&[u8]], looks: usize) -> Vec<u8> {
        self.run(&[vec![program.concat()]], &[0], &[looks]).remove(0)
    }
}

fn saved(core: &Core<RecordingEvents>) -> CoreState {
    let mut state = CoreState::new(core.handle()).expect("room for a state");
    state.save(core.handle());
    state
}

/// Bytes of a frame, as many as the largest page has.
pub(super) fn frame_bytes(setup: &Setup) -> u64 {
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
