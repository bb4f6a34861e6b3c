//! Shows which translations fences and changes of satp drop (`translator/riscv/fences.h`, `csr.h`).

use super::core::{NARROW, WIDE};
use super::paging::{MAPS, Start, VALID, entry_for};
use super::state::{SUPERVISOR, places};
use crate::unicorn::engine::{By, Core};
use crate::unicorn::kinds::{CoreKind, Register};
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::RecordingEvents;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterRISCV;

const TABLES: u64 = 0x1_0000;
const PAGE: u64 = 1 << 12;
const RAM_BYTES: usize = 16 << 20;
/// The first of 16 frames. Code is in it.
const FRAME: u64 = 0x8_0000;
const SUM: u64 = 1 << 18;
/// A, D, and a page of programs.
const USED: u64 = 0xc0;
const PROGRAMS: u64 = 0x10;
const EBREAK: u32 = 0x0010_0073;
const BREAKPOINT: u32 = 3;
/// Two pages of either half.
const SMALL: u64 = 0x1000;
const OTHER: u64 = 0x5000;

/// A width with its tables: the start of a half is mapped to the frames, and the next large page to its like.
struct Width {
    core: &'static CoreKind,
    start: Start,
    /// The lowest address of the upper half, where the guest runs.
    upper: u64,
    /// satp's mode, and the lowest bit of the address space's number.
    mode: u64,
    space: u32,
}

const WIDTHS: [Width; 2] = [
    Width {
        core: &WIDE,
        start: Start { table: TABLES, levels: 3, stride: 9 },
        upper: 0xffff_ffc0_0000_0000,
        mode: 8 << 60,
        space: 44,
    },
    Width { core: &NARROW, start: Start { table: TABLES, levels: 2, stride: 10 }, upper: 0x8000_0000, mode: 1 << 31, space: 22 },
];

impl Width {
    /// satp, with this number of an address space.
    fn satp(&self, space: u64) -> u64 {
        self.mode | (space << self.space) | (TABLES / PAGE)
    }

    /// The smallest large page that does not hold the small ones.
    fn large(&self) -> u64 {
        4 << 20
    }

    /// RAM with the tables.
    fn ram(&self) -> Ram {
        let ram = Ram::at(0, RAM_BYTES, ByteOrder::Little).unwrap();
        let start = &self.start;
        let put = |at: u64, entry: u64| assert!(ram.set_word(at, entry, start.entry_bytes()));
        let mut free = TABLES + PAGE;
        for (half, flags) in [(0, MAPS | USED | PROGRAMS), (self.upper, MAPS | USED)] {
            let mut table = TABLES;
            for level in (1..start.levels).rev() {
                if level == 1 {
                    put(start.entry(table, level, half + self.large()), entry_for(self.large(), flags | VALID));
                }
                put(start.entry(table, level, half), entry_for(free, VALID));
                (table, free) = (free, free + PAGE);
            }
            for page in (0..16).map(|number| number * PAGE) {
                put(start.entry(table, 0, half + page), entry_for(FRAME + page, flags | VALID));
            }
        }
        ram
    }
}

/// A guest in its upper half whose core has translated some pages.
struct Guest {
    core: Core<RecordingEvents>,
    used: Vec<(u64, i32)>,
}

impl Guest {
    fn new(width: &Width, ram: &Ram, satp: u64, used: &[u64]) -> Guest {
        let core: Core<RecordingEvents> = Core::new(width.core, ram).unwrap();
        core.stopped().prepare_riscv(0);
        let mut guest = Guest { core, used: Vec::new() };
        guest.set_satp(satp);
        guest.core.stopped().set_riscv_status(SUM);
        // A program can use the lower half alone.
        let modes: &[i32] =
            if used.iter().all(|page| *page < width.upper) { &[SUPERVISOR as i32, 0] } else { &[SUPERVISOR as i32] };
        guest.used = used.iter().flat_map(|page| modes.iter().map(move |mode| (*page, *mode))).collect();
        // The fast walk leaves pages to Unicorn if nothing is translated.
        let by = if satp & width.mode == 0 { By::Library } else { By::Walk };
        for (page, mode) in &guest.used {
            assert!(guest.core.fill_by(by, *page, 0, *mode).is_some(), "{page:#x} in mode {mode}");
        }
        guest
    }

    fn set_satp(&mut self, value: u64) {
        let cpu = self.core.stopped();
        let at = places(&cpu.handle()).satp;
        if cpu.handle().is_wide() { cpu.set_live64(at, value) } else { cpu.set_live32(at, value as u32) }
    }

    fn satp(&self) -> u64 {
        let handle = self.core.handle();
        places(&handle).word(&handle, |places| places.satp)
    }

    fn set(&self, register: RegisterRISCV, value: u64) {
        self.core.stopped().write(Register::from(register), value);
    }

    /// Runs to the next exception; its cause and pc.
    fn run(&mut self, pc: u64) -> Option<(Option<u32>, u64)> {
        self.core.stopped().set_pc(pc);
        let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
        self.core.run(&mut events);
        events.last
    }

    /// The pages that are still translated, with their modes.
    fn left(&self) -> Vec<(u64, i32)> {
        let is_there =
            |(page, mode): &(u64, i32)| self.core.fill_by(By::Nobody, *page, 0, *mode).is_some_and(|kept| kept[0] == *page);
        self.used.iter().copied().filter(is_there).collect()
    }
}

/// A fence with an address drops what it must: the page in both modes, all pieces of a large page, and nothing else.
#[test]
fn fences_drop_the_translations_that_they_name() {
    const SPACE: u64 = 7;
    let fence = |address: u32, space: u32| 0x1200_0073 | address << 15 | space << 20;
    // The register with the address is a1, that with the number of the space a2.
    let (by_address, whole) = (fence(11, 0), fence(0, 0));
    let (in_space, all_of_space) = (fence(11, 12), fence(0, 12));
    for width in &WIDTHS {
        let (upper, piece) = (width.upper, width.large() + 0x3000);
        // A number one above the highest that satp can hold.
        let beyond = SPACE | 1 << if width.start.stride == 9 { 16 } else { 9 };
        #[rustfmt::skip]
        type Case<'a> = (u32, u64, u64, &'a [u64], &'a [u64]);
        let cases: [Case<'_>; 12] = [
            // the fence, a1, a2, the pages that were used, those that are still translated
            (by_address, SMALL, 0, &[SMALL, OTHER], &[OTHER]),
            (by_address, SMALL + 0x123, 0, &[SMALL, OTHER], &[OTHER]),
            (by_address, 0x9000, 0, &[SMALL, OTHER], &[SMALL, OTHER]),
            (whole, SMALL, SPACE, &[SMALL, OTHER], &[]),
            (in_space, SMALL, SPACE, &[SMALL, OTHER], &[OTHER]),
            (in_space, SMALL, beyond, &[SMALL, OTHER], &[OTHER]),
            (in_space, SMALL, SPACE + 1, &[SMALL, OTHER], &[SMALL, OTHER]),
            (all_of_space, 0, SPACE, &[SMALL, OTHER], &[]),
            (by_address, piece, 0, &[width.large(), piece], &[]),
            (by_address, SMALL, 0, &[width.large(), piece, SMALL, OTHER], &[]),
            (by_address, upper + SMALL, 0, &[upper + SMALL, upper + OTHER], &[upper + OTHER]),
            (by_address, SMALL, 0, &[SMALL, OTHER, upper + piece], &[OTHER, upper + piece]),
        ];
        let ram = width.ram();
        for (number, (word, address, space, used, left)) in cases.into_iter().enumerate() {
            let mut guest = Guest::new(width, &ram, width.satp(SPACE), used);
            ram.set_word32(FRAME, word);
            ram.set_word32(FRAME + 4, EBREAK);
            guest.set(RegisterRISCV::X11, address);
            guest.set(RegisterRISCV::X12, space);
            assert_eq!(guest.run(upper), Some((Some(BREAKPOINT), upper + 4)), "case {number}: the breakpoint behind the fence");
            let expected: Vec<_> = guest.used.iter().copied().filter(|(page, _)| left.contains(page)).collect();
            assert_eq!(guest.left(), expected, "case {number}");
        }
    }
}

/// A change of satp drops all translations at once, whatever has changed in it. A write of the same value and of a mode that
/// no core has drops none.
#[test]
fn each_change_of_satp_drops_all_translations() {
    const SATP: u32 = 0x180;
    // a0 gets the old value; the operand is a1.
    let access = |function: u32, operand: u32| SATP << 20 | operand << 15 | function << 12 | 10 << 7 | 0x73;
    let (write, set, clear, read) = (access(1, 11), access(2, 11), access(3, 11), access(2, 0));
    for width in &WIDTHS {
        let is_wide = width.start.stride == 9;
        let (at, first, upper) = (width.satp(7), 1 << width.space, width.upper);
        let table = TABLES + 8 * PAGE;
        let elsewhere = at - TABLES / PAGE + table / PAGE;
        // The other root has the same rows. Without translation the guest runs at the same address in RAM.
        let bare = (7 << width.space) | (TABLES / PAGE);
        let mut cases = vec![
            // the instruction, satp, a1, satp afterwards
            (write, at, at, at),
            (write, at, at + first, at + first),
            (write, at, elsewhere, elsewhere),
            (write, at, elsewhere + first, elsewhere + first),
            (write, at, bare, bare),
            (write, at, 0, 0),
            (write, bare, at, at),
            (write, bare, bare, bare),
            (set, at, 0, at),
            (set, at, 7 << width.space, at),
            (set, at, 8 << width.space, width.satp(15)),
            (clear, at, 0, at),
            (clear, at, 3 << width.space, width.satp(4)),
            (clear, at, width.mode, bare),
            (read, at, 0, at),
        ];
        if is_wide {
            // Modes that do not exist leave satp as it is, Sv48 has a level more.
            cases.extend([1, 5, 7, 11, 15].map(|mode: u64| (write, at, at & !(15 << 60) | mode << 60, at)));
            cases.extend([1, 5, 15].map(|mode: u64| (write, at, (at + first) & !(15 << 60) | mode << 60, at)));
            cases.push((write, at, at + (1 << 60), at + (1 << 60)));
        }
        let ram = width.ram();
        let mut rows = vec![0; PAGE as usize];
        assert!(ram.read(TABLES, &mut rows) && ram.write(table, &rows));
        for (number, (word, before, value, after)) in cases.into_iter().enumerate() {
            let is_bare = before & width.mode == 0;
            // Pages that are used without translation are at their own addresses.
            let used = if is_bare { vec![SMALL, OTHER] } else { vec![SMALL, OTHER, width.large() + 0x3000] };
            let mut guest = Guest::new(width, &ram, before, &used);
            ram.set_word32(FRAME, word);
            ram.set_word32(FRAME + 4, EBREAK);
            guest.set(RegisterRISCV::X11, value);
            let ended = guest.run(if is_bare { FRAME } else { upper });
            // Otherwise nothing may be behind the next address.
            if before == after {
                assert!(matches!(ended, Some((Some(BREAKPOINT), _))), "case {number}: {ended:x?}");
            }
            let old = guest.core.handle().read(RegisterRISCV::X10);
            let old = if is_wide { old } else { old & 0xffff_ffff };
            assert_eq!((old, guest.satp()), (before, after), "case {number}");
            let left = guest.left();
            let expected = if before == after { guest.used.clone() } else { Vec::new() };
            assert_eq!(left, expected, "case {number}: {before:#x} to {after:#x}");
        }
    }
}
