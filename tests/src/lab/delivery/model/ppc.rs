//! The models of 64-bit PowerPC in hypervisor state (Power ISA 3.0), and of 32-bit PowerPC.

use super::{Case, Changes, Numbers, RAISES, State, WAITS, bit, filled, registers, seen};
use crate::lab::PAGE_TABLES;
use trapline_isa::arch::Arch;
use trapline_isa::ppc::abi::r;

// Bits of the machine state.
const SF: u64 = 1 << 63;
const HV: u64 = 1 << 60;
const VEC: u64 = 1 << 25;
const VSX: u64 = 1 << 23;
const EE: u64 = 0x8000;
const PR: u64 = 0x4000;
const FP: u64 = 0x2000;
const ME: u64 = 0x1000;
const FE: [u64; 2] = [0x800, 0x100];
const IP: u64 = 0x40;
const TRANSLATED: u64 = 0x30;
const RI: u64 = 2;
const LE: u64 = 1;

/// The MSR bits that SRR1 does not receive.
const NOT_SAVED: u64 = 0x783f_0000;

/// An instruction that raises an exception.
#[derive(Clone, Copy)]
struct Raise {
    name: &'static str,
    word: u32,
    vector: u64,
    /// Bits that SRR1 has in addition to the saved MSR.
    reason: u64,
    /// DSISR after an access to the address in r4. `None`: the exception is not caused by an access.
    access: Option<u64>,
    /// Bytes from the instruction to the saved address.
    behind: u64,
    /// The MSR bit of the unit that must be disabled.
    off: u64,
    in_program: bool,
}

const RAISE: Raise = Raise { name: "", word: 0, vector: 0x700, reason: 0, access: None, behind: 0, off: 0, in_program: false };

#[rustfmt::skip]
const BOTH: &[Raise] = &[
    Raise { name: "sc",          word: 0x4400_0002, vector: 0xc00, behind: 4, ..RAISE },
    Raise { name: "trap",        word: 0x7fe0_0008, reason: 0x2_0000, ..RAISE },
    Raise { name: "tweq r4,r4",  word: 0x7c84_2008, reason: 0x2_0000, ..RAISE },
    Raise { name: "mfmsr",       word: 0x7c60_00a6, reason: 0x4_0000, in_program: true, ..RAISE },
    Raise { name: "mtmsr",       word: 0x7c60_0124, reason: 0x4_0000, in_program: true, ..RAISE },
    Raise { name: "mtspr SRR0",  word: 0x7c7a_03a6, reason: 0x4_0000, in_program: true, ..RAISE },
    Raise { name: "tlbie",       word: 0x7c00_2264, reason: 0x4_0000, in_program: true, ..RAISE },
    Raise { name: "lwz",         word: 0x8064_0000, vector: 0x300, access: Some(0x4000_0000), ..RAISE },
    Raise { name: "stb",         word: 0x9864_0000, vector: 0x300, access: Some(0x4200_0000), ..RAISE },
    Raise { name: "fadd",        word: 0xfc64_282a, vector: 0x800, off: FP, ..RAISE },
    Raise { name: "lfd",         word: 0xc864_0000, vector: 0x800, off: FP, ..RAISE },
];

const NO_INSTRUCTION: Raise = Raise { name: "no instruction", reason: 0x8_0000, ..RAISE };
const FETCH: Raise = Raise { name: "a fetch", vector: 0x400, reason: 0x4000_0000, ..RAISE };
/// The vector of illegal instructions, which go to the hypervisor.
const EMULATION: u64 = 0xe40;

/// Instructions that raise an exception on 64-bit CPUs only.
#[rustfmt::skip]
const OF_WIDE: &[Raise] = &[
    Raise { name: "no instruction", vector: EMULATION, ..RAISE },
    Raise { name: "vaddubs",     word: 0x1064_2a00, vector: 0xf20, off: VEC, ..RAISE },
    Raise { name: "xvadddp",     word: 0xf064_2b00, vector: 0xf40, off: VSX, ..RAISE },
    Raise { name: "std",         word: 0xf864_0000, vector: 0x300, access: Some(0x4200_0000), ..RAISE },
    Raise { name: "tdeq r4,r4",  word: 0x7c84_2088, reason: 0x2_0000, ..RAISE },
    Raise { name: "rfid",        word: 0x4c00_0024, reason: 0x4_0000, in_program: true, ..RAISE },
];

fn pick(numbers: &mut Numbers<'_>, others: &[Raise]) -> Raise {
    let all: Vec<Raise> = BOTH.iter().chain(others).chain([&FETCH]).copied().collect();
    numbers.pick(&all)
}

/// A page where nothing is mapped.
const NOWHERE: u64 = 0x0071_1000;

fn drawn(numbers: &mut Numbers<'_>, raise: &Raise, units: &[u64]) -> u64 {
    let all = units.iter().fold(0, |all, unit| all | bit(numbers, *unit)) & !raise.off;
    if raise.in_program { all | PR } else { all }
}

/// Decodes a case of 64 bits.
pub fn wide(arch: Arch, numbers: &mut Numbers<'_>) -> Case {
    const LPCR: u64 = 0x0050_0008;
    const STAYS_TRANSLATED: u64 = 3 << 23;
    /// A leaf of the radix tree that programs may access, too.
    const LEAF: u64 = 3 << 62 | 0x187;
    const PAGE: u64 = RAISES & !0xfff;
    let raise = pick(numbers, OF_WIDE);
    let order = if arch == Arch::Ppc64le { LE } else { 0 };
    let units = drawn(numbers, &raise, &[FP, VEC, VSX, FE[0], FE[1], RI, ME, PR]);
    let msr = SF | HV | TRANSLATED | order | units;
    let stays = numbers.one_in(2);
    let lpcr = LPCR | if stays { STAYS_TRANSLATED } else { 0 };
    let nowhere = 0xc000_0000_0000_0000 | (NOWHERE + 8 * numbers.below(100) as u64);
    let entry = if raise.name == FETCH.name { nowhere & !3 } else { seen(arch, RAISES) };
    let words = |words: &[u32]| words.iter().flat_map(|word| arch.isa().order.word_bytes(*word)).collect::<Vec<u8>>();
    // mtspr LPCR,r3; mtspr SRR0,r4; mtspr SRR1,r5; mtdec r6; isync; rfid
    let front = words(&[0x7c7e_4ba6, 0x7c9a_03a6, 0x7cbb_03a6, 0x7cd6_03a6, 0x4c00_012c, 0x4c00_0024]);
    let row = PAGE_TABLES + (4 + (PAGE >> 21)) * 0x1000 + 8 * (PAGE >> 12 & 0x1ff);
    let model = move |before: &State| {
        let mut changes = Changes::default();
        let to = if raise.vector == EMULATION { ["hsrr0", "hsrr1"] } else { ["srr0", "srr1"] };
        changes.set(to[0], entry + raise.behind);
        changes.set(to[1], before["msr"] & !NOT_SAVED | raise.reason);
        let kept = before["msr"] & (ME | if raise.vector == EMULATION { RI } else { 0 });
        changes.set("msr", SF | HV | kept | order | if stays { TRANSLATED } else { 0 });
        let handler = if stays { 0xc000_0000_0000_4000 } else { 0 } + raise.vector;
        changes.set("nip", handler);
        // The handler is a branch to itself, the last one that is taken.
        changes.set("cfar", handler);
        if let Some(why) = raise.access {
            changes.set("dar", nowhere);
            changes.set("dsisr", why);
        }
        changes
    };
    Case {
        name: format!("{}, msr {msr:x}, lpcr {lpcr:x}", raise.name),
        front,
        front_registers: vec![(r(3), lpcr), (r(4), seen(arch, WAITS)), (r(5), msr), (r(6), 0x7fff_ffff)],
        registers: registers(arch, numbers, &[(r(4), nowhere)]),
        memory: vec![(row, (PAGE | LEAF).to_be_bytes().to_vec()), (0, filled(arch, 0x1000))],
        code: words(&[raise.word]),
        entry,
        model: Box::new(model),
        written: None,
    }
}

/// Decodes a case of 32 bits.
pub fn narrow(numbers: &mut Numbers<'_>) -> Case {
    let arch = Arch::Ppc;
    let raise = pick(numbers, &[NO_INSTRUCTION]);
    let msr = TRANSLATED | drawn(numbers, &raise, &[FP, FE[0], FE[1], RI, ME, PR]);
    let nowhere = 0xc000_0000 | (NOWHERE + 8 * numbers.below(100) as u64);
    let entry = if raise.name == FETCH.name { nowhere & !3 } else { seen(arch, RAISES) };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    // mtspr SRR0,r4; mtspr SRR1,r5; mtdec r6; rfi
    let front = words(&[0x7c9a_03a6, 0x7cbb_03a6, 0x7cd6_03a6, 0x4c00_0064]);
    let model = move |before: &State| {
        let mut changes = Changes::default();
        changes.set("srr0", entry + raise.behind);
        changes.set("srr1", before["msr"] & !NOT_SAVED | raise.reason);
        changes.set("msr", before["msr"] & (ME | IP));
        changes.set("nip", raise.vector);
        if let Some(why) = raise.access {
            changes.set("dar", nowhere);
            changes.set("dsisr", why);
        }
        changes
    };
    Case {
        name: format!("{}, msr {msr:x}", raise.name),
        front,
        front_registers: vec![(r(4), seen(arch, WAITS)), (r(5), msr & !EE), (r(6), 0x7fff_ffff)],
        registers: registers(arch, numbers, &[(r(4), nowhere)]),
        memory: vec![(0, filled(arch, 0x1000))],
        code: words(&[raise.word]),
        entry,
        model: Box::new(model),
        written: None,
    }
}
