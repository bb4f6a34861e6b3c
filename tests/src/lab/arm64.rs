//! The lab's tables for AArch64: page tables for both halves of the address space, vectors, and a list of hard
//! instructions. [`Bench`] explains the fields.

use super::{After, Bench, ENTRY, HANDLERS, Outcome, PAGE_TABLES, Piece, Reason, is_mapped, steps, words};
use capstone::prelude::*;
use trapline::machine::What;
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;

/// The bench for 64-bit ARM.
pub static BENCH: Bench = Bench {
    is_stood_for: false,
    base: BASE,
    seen_from: SEEN_FROM,
    jumps: true,
    is_hit: |_| Some(true),
    halt: &WFI.to_le_bytes(),
    load: Some(&[0x60, 0x00, 0x40, 0xf9]),
    set_up: |_| set_up(),
    pieces: |_| pieces(),
    refreshed: |_| Vec::new(),
    behind: |_| Vec::new(),
    not_general: &["pc", "pstate"],
    ready: |_, _| (),
    // All exceptions are masked, as in an exception handler. Cases that single-step unmask debug exceptions.
    flags: ("pstate", |drawn| drawn & 0xf000_0000 | if steps(drawn) { 1 << 21 | 0x1c0 } else { 0x3c0 }),
    media: &MEDIA,
    ruined,
    fault_address: "far",
    left_out: LEFT_OUT,
    no_promise: NO_PROMISE,
    hard: HARD,
    case: |arch| words(arch, 1, GROUPS, 31),
    disassembler: |_| Capstone::new().arm64().mode(arch::arm64::ArchMode::Arm).build(),
};

const BASE: u64 = 0x4000_0000;
/// The virtual start of RAM, above the probe window.
const SEEN_FROM: u64 = 0xffff_8000_0800_0000;
const WFI: u32 = 0xd503_207f;

/// Both halves of all SIMD registers.
const MEDIA: [Reg; 64] = {
    let mut all = [Reg(0); 64];
    let mut number = 0;
    while number < 64 {
        all[number] = Reg(64 + number as u8);
        number += 1;
    }
    all
};

#[rustfmt::skip]
const HARD: &[(&str, Arch, &[u8])] = &[
    ("b to itself",                     Arch::Arm64, &0x1400_0000_u32.to_le_bytes()),
    ("bl forward",                      Arch::Arm64, &0x9400_0010_u32.to_le_bytes()),
    ("b.ne",                            Arch::Arm64, &0x5400_0081_u32.to_le_bytes()),
    ("cbz w3",                          Arch::Arm64, &0x3400_0083_u32.to_le_bytes()),
    ("tbnz x5, #33",                    Arch::Arm64, &0xb708_0085_u32.to_le_bytes()),
    ("br x7",                           Arch::Arm64, &0xd61f_00e0_u32.to_le_bytes()),
    ("blr x30",                         Arch::Arm64, &0xd63f_03c0_u32.to_le_bytes()),
    ("ret",                             Arch::Arm64, &0xd65f_03c0_u32.to_le_bytes()),
    ("adr x0, behind",                  Arch::Arm64, &0x1000_0040_u32.to_le_bytes()),
    ("adrp x1",                         Arch::Arm64, &0xb000_0001_u32.to_le_bytes()),
    ("adr xzr",                         Arch::Arm64, &0x1000_005f_u32.to_le_bytes()),
    ("ldr x2, data",                    Arch::Arm64, &0x587f_f802_u32.to_le_bytes()),
    ("ldrsw x2, data",                  Arch::Arm64, &0x987f_f802_u32.to_le_bytes()),
    ("ldr q2, data",                    Arch::Arm64, &0x9c7f_f802_u32.to_le_bytes()),
    ("ldr s2, data",                    Arch::Arm64, &0x1c7f_f802_u32.to_le_bytes()),
    ("prfm literal",                    Arch::Arm64, &0xd87f_f800_u32.to_le_bytes()),
    ("ldp from the stack",              Arch::Arm64, &0xa8c1_7bfd_u32.to_le_bytes()),
    ("ldr that may fault",              Arch::Arm64, &0xf940_0042_u32.to_le_bytes()),
    ("str q that may fault",            Arch::Arm64, &0x3d80_0042_u32.to_le_bytes()),
    ("msr daifset, #2",                 Arch::Arm64, &0xd503_42df_u32.to_le_bytes()),
    ("msr daifclr, #8, then a step",    Arch::Arm64, &0xd503_48ff_u32.to_le_bytes()),
    ("mrs x3, daif",                    Arch::Arm64, &0xd53b_4223_u32.to_le_bytes()),
    ("mrs x3, nzcv",                    Arch::Arm64, &0xd53b_4203_u32.to_le_bytes()),
    ("mrs x3, cntvct_el0",              Arch::Arm64, &0xd53b_e043_u32.to_le_bytes()),
    ("mrs x3, sp_el0",                  Arch::Arm64, &0xd538_4103_u32.to_le_bytes()),
    ("nop",                             Arch::Arm64, &0xd503_201f_u32.to_le_bytes()),
    ("dsb sy",                          Arch::Arm64, &0xd503_3f9f_u32.to_le_bytes()),
    ("dc zva that may fault",           Arch::Arm64, &0xd50b_7422_u32.to_le_bytes()),
    ("ccmp",                            Arch::Arm64, &0xfa42_1020_u32.to_le_bytes()),
    ("fadd",                            Arch::Arm64, &0x1e62_2820_u32.to_le_bytes()),
];

/// Instructions that cannot be compared, with the reason.
#[rustfmt::skip]
const LEFT_OUT: &[Reason] = &[
    ("with arbitrary translation and control a machine cannot continue, in place or out of line", |bytes| {
        let word = word(bytes);
        // MSR to system registers, except those accessible from EL0.
        word & 0xfff0_0000 == 0xd510_0000 && word >> 16 & 7 != 3
    }),
    ("a load of the instruction itself sees the breakpoint on it", |bytes| {
        let distance = (word(bytes) << 8) as i32 >> 13;
        word(bytes) & 0x3b00_0000 == 0x1800_0000 && (-3..=0).contains(&distance)
    }),
    ("BC.cond is emulated as on CPUs that implement it; this core does not", |bytes| word(bytes) & 0xff00_0010 == 0x5400_0010),
];

/// A data abort, as the machine reports it.
const DATA_ABORT: What = What::Exception(4, None);

/// Outcomes in place that a copy need not have, with the reason.
const NO_PROMISE: &[Outcome] =
    &[("an unmapped literal: literals lie within 1 MiB of the kernel's text, and literal loads are emulated", |case, after| {
        word(&case.bytes) & 0x3b00_0000 == 0x1800_0000 && after.happened.iter().any(|event| event.what == DATA_ABORT)
    })];

fn word(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

fn ruined(after: &After) -> bool {
    const EL1_OWN_STACK: u64 = 5;
    after.register("ttbr0") != Some(BASE + PAGE_TABLES) || after.register("pstate").map(|state| state & 15) != Some(EL1_OWN_STACK)
}

const PAGE: u64 = 0x1000;
const TABLE: u64 = 3;
/// A leaf entry: accessed, shareable, writable and executable by EL1.
const LEAF: u64 = 1 << 10 | 3 << 8;

/// Page tables. Lower half: a table and a directory that map the set-up code at its load address. Upper half: three
/// levels down to the directory in which the window appears, and page tables.
fn pieces() -> Vec<Piece> {
    const PAGES: u64 = 8;
    let physical = |number: u64| BASE + PAGE_TABLES + number * PAGE;
    let mut words = vec![0u64; 14 * 512];
    let mut put = |table: u64, index: u64, entry: u64| words[(table * 512 + index % 512) as usize] = entry;
    put(0, BASE >> 30, physical(2) | TABLE);
    put(2, (BASE + ENTRY) >> 21, (BASE + ENTRY) & !((2 << 20) - 1) | LEAF | 1);
    for directory in 0..PAGES {
        put(13, (SEEN_FROM >> 21) + directory, physical(3 + directory) | TABLE);
        for page in 0..512 {
            let at = (directory * 512 + page) * PAGE;
            if is_mapped(at) {
                put(3 + directory, page, (BASE + at) | LEAF | TABLE);
            }
        }
    }
    put(11, 256, physical(12) | TABLE);
    put(12, 0, physical(13) | TABLE);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let size = bytes.len() as u64;
    vec![(PAGE_TABLES, bytes, size)]
}

fn set_up() -> Vec<u8> {
    /// TCR_EL1: a 39-bit lower half with tagged addresses, a 48-bit upper half, 4 KiB pages, 36-bit physical addresses.
    const TRANSLATION: u64 = 25 | 16 << 16 | 2 << 30 | 1 << 32 | 1 << 37;
    /// MDSCR_EL1: single-step, and debug exceptions within EL1 once PSTATE unmasks them.
    const STEPS: u64 = 1 | 1 << 13;
    let mut code = Vec::new();
    // System registers by CRn, CRm and op2 of MSR.
    for (crn, crm, op2, value) in [
        (10, 2, 0, 0xff),
        (2, 0, 2, TRANSLATION),
        (2, 0, 0, BASE + PAGE_TABLES),
        (2, 0, 1, BASE + PAGE_TABLES + 11 * PAGE),
        (12, 0, 0, SEEN_FROM + HANDLERS),
        (1, 0, 2, 3 << 20), // access to SIMD
    ] {
        code.extend(load(value));
        code.push(0xd518_0000 | crn << 12 | crm << 8 | op2 << 5);
    }
    code.extend(load(STEPS));
    code.push(0xd510_0240); // msr mdscr_el1, x0
    code.extend([0xd538_1000, 0xb240_0000, 0xd518_1000, 0xd503_3fdf]); // SCTLR_EL1 |= M; isb
    let here = code.len() as u64 * 4;
    let there = load(SEEN_FROM + ENTRY + here + 5 * 4);
    code.extend(there);
    code.extend([0xd61f_0000, WFI]); // br x0: continue at the mapped address of this code
    code.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Code that loads a value into x0.
fn load(value: u64) -> [u32; 4] {
    let part = |number: u32| (value >> (16 * number)) as u32 & 0xffff;
    [0xd280_0000 | part(0) << 5, 0xf2a0_0000 | part(1) << 5, 0xf2c0_0000 | part(2) << 5, 0xf2e0_0000 | part(3) << 5]
}

/// Instruction groups that random words rarely hit: the fixed bits, and the bits that vary.
#[rustfmt::skip]
const GROUPS: &[(u32, u32)] = &[
    (0x1400_0000, 0x8000_003f), // b, bl, near
    (0x5400_0000, 0x0000_07ef), // b.cond
    (0x3400_0000, 0x8100_07ff), // cbz, cbnz
    (0x3600_0000, 0x81f8_07ff), // tbz, tbnz
    (0xd61f_0000, 0x0060_03e0), // br, blr, ret
    (0x1000_0000, 0xe000_ffff), // adr, adrp
    (0x1800_0000, 0xc400_ffff), // literal loads
    (0x187f_f800, 0xc400_001f), // literal loads from data
    (0xd503_201f, 0x0000_0fe0), // hints
    (0xd530_0000, 0x000f_ffff), // mrs
    (0xd503_4000, 0x0007_0fff), // msr to PSTATE fields
    (0xd508_0000, 0x0007_ffff), // sys
    (0xd400_0000, 0x00ff_ffff), // exceptions
    (0x0800_7c00, 0xc0ff_ffff), // exclusives
    (0x2800_0000, 0xd7ff_ffff), // pairs
    (0x3800_0000, 0xc7ff_ffff), // loads and stores
];
