//! The right of an x86 program to use an I/O port, by IOPL and by the bitmap of its task. The instructions that access a
//! port are tried in the kernel, in a program and in virtual-8086 mode, with bitmaps that allow and refuse the access.

use crate::frames::{self, TASK, USER_CODE, USER_DATA};
use trapline::machine::{Happening, What};
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_tests::lab::hostile::Bare;
use trapline_tests::lab::{DATA, ELSEWHERE, STACK};

const PROTECTION: u32 = 13;
const INVALID: u32 = 6;

/// An instruction: its name, its bytes, the width of the access in bytes, and the port if the instruction names one.
type Access = (&'static str, &'static [u8], u64, Option<u64>);

#[rustfmt::skip]
const ACCESSES: &[Access] = &[
    ("in al,imm",      &[0xe4, 0x21],             1, Some(0x21)),
    ("in eax,imm",     &[0xe5, 0x47],             4, Some(0x47)),
    ("in ax,imm",      &[0x66, 0xe5, 0x47],       2, Some(0x47)),
    ("out imm,al",     &[0xe6, 0x80],             1, Some(0x80)),
    ("out imm,eax",    &[0xe7, 0x84],             4, Some(0x84)),
    ("in al,dx",       &[0xec],                   1, None),
    ("in ax,dx",       &[0x66, 0xed],             2, None),
    ("in eax,dx",      &[0xed],                   4, None),
    ("out dx,al",      &[0xee],                   1, None),
    ("out dx,ax",      &[0x2e, 0x66, 0xef],       2, None),
    ("out dx,eax",     &[0xef],                   4, None),
    ("insb",           &[0x6c],                   1, None),
    ("insw",           &[0x66, 0x6d],             2, None),
    ("insd",           &[0x6d],                   4, None),
    ("outsb",          &[0x6e],                   1, None),
    ("outsd",          &[0x6f],                   4, None),
    ("rep insb",       &[0xf3, 0x6c],             1, None),
    ("rep outsd",      &[0xf3, 0x6f],             4, None),
];

/// The I/O permission bitmap in the task-state segment, relative to the ports of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bitmap {
    /// The bitmap begins behind the segment's limit, so it refuses every port.
    None,
    /// Allows every port.
    Allows,
    /// Refuses the first port of the access.
    RefusesFirst,
    /// Refuses the last port of the access.
    RefusesLast,
    /// Refuses every port but those of the access.
    RefusesOthers,
    /// The segment ends with the bitmap's byte for the port. The CPU always reads two bytes, so it refuses.
    Short,
    /// The segment is too short to hold the offset of the bitmap.
    NoTask,
}

const BITMAPS: [Bitmap; 7] = [
    Bitmap::None,
    Bitmap::Allows,
    Bitmap::RefusesFirst,
    Bitmap::RefusesLast,
    Bitmap::RefusesOthers,
    Bitmap::Short,
    Bitmap::NoTask,
];

/// Offset of the bitmap in the task-state segment.
const AT: u64 = 0x68;

impl Bitmap {
    /// The limit of the segment, the offset of the bitmap that it holds, and the bitmap.
    fn task(self, port: u64, bytes: u64) -> (u64, u64, Vec<u8>) {
        let mut bits = vec![0u8; 0x90];
        let mut refuse = |port: u64| bits[(port / 8) as usize] |= 1 << (port % 8);
        match self {
            Bitmap::RefusesFirst => refuse(port),
            Bitmap::RefusesLast => refuse(port + bytes - 1),
            Bitmap::RefusesOthers => (0..0x400).filter(|other| !(port..port + bytes).contains(other)).for_each(refuse),
            _ => {}
        }
        match self {
            Bitmap::None => (AT - 1, AT, bits),
            Bitmap::Short => (AT + port / 8, AT, bits),
            Bitmap::NoTask => (102, AT, bits),
            _ => (AT + 0x8f, AT, bits),
        }
    }

    fn allows(self) -> bool {
        matches!(self, Bitmap::Allows | Bitmap::RefusesOthers)
    }
}

/// The mode that runs the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    /// Privilege level 0.
    Kernel,
    /// Privilege level 3.
    Program,
    /// Virtual-8086 mode.
    Old,
}

const DX: u64 = 0x2f7;
/// The memory that INS writes and OUTS reads.
const MEMORY: u64 = DATA + 0x800;

/// Runs the instruction with an invalid one behind it. Returns the first exception, and the machine.
fn run(arch: Arch, runs: Runs, iopl: u64, bytes: &[u8], task: (u64, u64, Vec<u8>)) -> (Happening, Bare) {
    let mut bare = frames::ready(arch, task.0);
    let (_, bitmap_at, bits) = task;
    bare.put(TASK + 0x66, &(bitmap_at as u16).to_le_bytes());
    bare.put(TASK + bitmap_at, &bits);
    bare.put(MEMORY, &[0x5a; 16]);
    let prefixed: Vec<u8> = match runs {
        // In 16-bit code, the prefix 0x66 selects 32-bit operands instead of 16-bit ones.
        Runs::Old if bytes.contains(&0x66) => bytes.iter().copied().filter(|byte| *byte != 0x66).collect(),
        Runs::Old => [&[0x66], bytes].concat(),
        _ => bytes.to_vec(),
    };
    bare.put(ELSEWHERE, &[&prefixed[..], &[0x0f, 0x0b]].concat());
    let named = |name: &str| arch.isa().abi.register(name).expect("it has a name");
    let place = if runs == Runs::Old { 0x800 } else { MEMORY };
    for (name, value) in [("ax", 0x1234_5678), ("dx", DX), ("cx", 2), ("si", place), ("di", place)] {
        bare.set(named(name), value);
    }
    let flags = 2 | iopl << 12;
    let code = match runs {
        Runs::Kernel => frames::enters(arch, &[flags, frames::CODE, ELSEWHERE]),
        Runs::Program => frames::enters(arch, &[USER_DATA | 3, STACK, flags, USER_CODE | 3, ELSEWHERE]),
        Runs::Old => {
            // The page of the code and that of the data, at the bottom of memory.
            frames::map_low(&mut bare, 1, ELSEWHERE);
            frames::map_low(&mut bare, 2, MEMORY & !0xfff);
            let data = 0x200;
            frames::enters(arch, &[data, data, data, data, 0x180, 0x100, flags | 1 << 17, 0x100, 0])
        }
    };
    let from = bare.machine().happenings().len();
    bare.run(&code);
    let first = bare.machine().happenings().get(from).cloned();
    (first.unwrap_or_else(|| panic!("{runs:?} {bytes:x?}: nothing happened")), bare)
}

#[test]
fn a_program_uses_a_port_by_level_and_bitmap_only() {
    let mut tried = [0; 2];
    for (arch, all) in
        [(Arch::I386, &[Runs::Kernel, Runs::Program, Runs::Old][..]), (Arch::X86_64, &[Runs::Kernel, Runs::Program][..])]
    {
        for (what, bytes, width, port) in ACCESSES {
            for runs in all.iter().copied() {
                for iopl in 0..4 {
                    for bitmap in BITMAPS {
                        // The bitmap is not read if the level alone allows the access: two bitmaps are enough then.
                        let asks = runs == Runs::Old || runs == Runs::Program && iopl < 3;
                        if !asks && !matches!(bitmap, Bitmap::None | Bitmap::RefusesFirst) || runs == Runs::Old && iopl % 3 != 0 {
                            continue;
                        }
                        let is_allowed = !asks || bitmap.allows();
                        let (first, mut bare) = run(arch, runs, iopl, bytes, bitmap.task(port.unwrap_or(DX), *width));
                        let name = format!("{} {what} {runs:?} iopl {iopl} {bitmap:?}", arch.name());
                        check(&name, (arch, runs, bytes), is_allowed, &first, &mut bare);
                        tried[usize::from(is_allowed)] += 1;
                    }
                }
            }
        }
    }
    println!("{} refused, {} allowed", tried[0], tried[1]);
    assert!(tried.iter().all(|count| *count > 200), "{tried:?}");
}

fn check(name: &str, (arch, runs, bytes): (Arch, Runs, &[u8]), is_allowed: bool, first: &Happening, bare: &mut Bare) {
    let length = match runs {
        Runs::Old if bytes.contains(&0x66) => bytes.len() - 1,
        Runs::Old => bytes.len() + 1,
        _ => bytes.len(),
    };
    let start = if runs == Runs::Old { 0 } else { ELSEWHERE };
    let (what, pc) = match is_allowed {
        true => (What::Exception(INVALID, None), start + length as u64),
        false => (What::Exception(PROTECTION, Some(0)), start),
    };
    assert_eq!((first.what, first.pc), (what, pc), "{name}");
    let named = |name: &str| arch.isa().abi.register(name).expect("it has a name");
    let mut stored = [0; 16];
    bare.machine().ram().read(MEMORY, &mut stored);
    let stores = matches!(bytes.last(), Some(0x6c | 0x6d));
    let reads = matches!(bytes.iter().find(|byte| ![0x66, 0x2e, 0xf3].contains(*byte)), Some(0xe4 | 0xe5 | 0xec | 0xed));
    assert_eq!(stored != [0x5a; 16], stores && is_allowed, "{name}: {stored:x?}");
    assert_eq!(bare.get(named("ax")) != 0x1234_5678, reads && is_allowed, "{name}: the register");
    if !is_allowed {
        let place = if runs == Runs::Old { 0x800 } else { MEMORY };
        let registers: [Reg; 3] = ["cx", "si", "di"].map(named);
        assert_eq!(registers.map(|reg| bare.get(reg)), [2, place, place], "{name}: nothing was done");
    }
}
