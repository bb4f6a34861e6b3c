//! The lab's tables for SPARC V9: two TLBs with fixed entries, register windows at every edge, trap levels, and a list
//! of hard instructions. The CPU has no sleep instruction. A case ends by a trap whose handler raises the trap again
//! until no trap level is left. The state saved at each level is compared, too.

use super::{
    After, Before, Bench, CODE, DATA, ELSEWHERE, ENTRY, EXCEPTION_STACK, FREE, HANDLERS, HANDLERS_BYTES, MEDIA, Outcome,
    PAGE_TABLES, Piece, Reason, STACK_START, halts, words,
};
use capstone::{Arch as Family, Capstone, Endian, ExtraMode, Mode};
use std::ops::Range;
use trapline::machine::What;
use trapline_isa::arch::Arch;
use trapline_isa::regs::{Reg, Registers};
use trapline_isa::sparc64::abi::{self, WINDOW_REGISTERS, WINDOWS};

/// The bench for 64 bits.
pub static BENCH: Bench = Bench {
    is_stood_for: false,
    base: 0,
    seen_from: SEEN_FROM,
    jumps: true,
    is_hit,
    halt: &HALT.to_be_bytes(),
    load: Some(&[0xd0, 0x58, 0x60, 0x00]),
    set_up: |_| set_up(),
    pieces: |_| pieces(),
    // The handlers' page has 8 KiB.
    refreshed: |_| vec![(HANDLERS + HANDLERS_BYTES, halts(&HALT.to_be_bytes(), HANDLERS_BYTES))],
    behind: |_| behind(),
    not_general: &["g0", "tstate", "pc", "npc", "lr", "cwp", "cansave", "canrestore", "window"],
    ready: |regs, case| ready(regs, case.flags),
    flags: ("", |_| 0),
    media: &ALL_WINDOWS,
    ruined,
    fault_address: "daccess",
    left_out: LEFT_OUT,
    no_promise: NO_PROMISE,
    hard: HARD,
    case: |arch| words(arch, 6, GROUPS, 32),
    disassembler: |_| Capstone::new_raw(Family::SPARC, Mode::V9, std::iter::empty::<ExtraMode>(), Some(Endian::Big)),
};

/// The virtual start of RAM, above the probe window.
const SEEN_FROM: u64 = 0x7_0000_0000;
/// The probe window, just below the page of the text.
const WINDOW: Range<u64> = SEEN_FROM - (4 << 20)..SEEN_FROM;
/// `ta 0x7f`
const HALT: u32 = 0x91d0_207f;
/// Virtual address of the trap table. All its pages map one page of handlers.
const TRAPS: u64 = SEEN_FROM + 0x10_0000;
const PAGE: u64 = 0x2000;

const ALL_WINDOWS: [Reg; WINDOW_REGISTERS] = {
    let mut all = [Reg(0); WINDOW_REGISTERS];
    let mut number = 0;
    while number < all.len() {
        all[number] = abi::in_windows(number as u8);
        number += 1;
    }
    all
};

/// PSTATE bits: interrupts enabled, privileged, 32-bit addresses, FPU enabled, little-endian.
const PSTATE_IE: u64 = 2;
const PSTATE_PRIV: u64 = 4;
const PSTATE_AM: u64 = 8;
const PSTATE_PEF: u64 = 0x10;
const PSTATE_CLE: u64 = 0x200;
const FPRS_FEF: u64 = 4;
/// The address spaces that %asi may select: primary, nucleus, and primary little-endian.
const SPACES: [u64; 4] = [0x80, 0x80, 0x04, 0x88];

/// Sets the initial state from random bits: condition codes, current window, free windows, PSTATE.
fn ready(regs: &mut dyn Registers, drawn: u64) {
    let rarely = |bit: u32| drawn >> bit & 31 == 31;
    let state = PSTATE_PRIV
        | if rarely(24) { 0 } else { PSTATE_PEF }
        | if rarely(29) { PSTATE_CLE } else { 0 }
        | if rarely(34) { PSTATE_IE } else { 0 };
    let free = free_windows(drawn);
    for (reg, value) in [
        (abi::TSTATE, (drawn & 0xff) << 32 | SPACES[(drawn >> 8 & 3) as usize] << 24 | state << 8 | drawn >> 12 & (WINDOWS - 1)),
        (abi::TL, u64::from(drawn >> 39 & 3 == 3)),
        (abi::CANSAVE, free),
        (abi::CANRESTORE, WINDOWS - 2 - free),
        (abi::FPRS, if rarely(44) { 0 } else { FPRS_FEF }),
    ] {
        regs.set(reg, value);
    }
}

/// The number of windows that `save` may use before a spill (CANSAVE).
fn free_windows(drawn: u64) -> u64 {
    const MOST: u64 = WINDOWS - 2;
    match drawn >> 16 & 7 {
        0 | 1 => MOST,
        some => some - 2,
    }
}

/// Whether the probe is hit. A `save` or `restore` that spills or fills traps first. With code in front, the state is
/// not known.
fn is_hit(case: &Before) -> Option<bool> {
    const MOST: u64 = WINDOWS - 2;
    let free = free_windows(case.flags);
    let is_plain = case.front.is_empty();
    match word(&case.bytes) & 0xc1f8_0000 {
        0x81e0_0000 => is_plain.then_some(free > 0),
        0x81e8_0000 | 0x81c8_0000 => is_plain.then_some(free < MOST),
        0x8158_0000 => is_plain.then_some(free == MOST),
        _ => Some(true),
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// A TLB entry: valid, cacheable, privileged, writable, executable, global, locked.
const ENTRY_BITS: u64 = 1 << 63 | 1 << 6 | 3 << 4 | 1 << 2 | 1 << 1 | 1;

/// Pairs of virtual and physical page addresses. Stores without a base register go to the area where the lab reads
/// hidden registers.
fn entries() -> Vec<(u64, u64)> {
    let places =
        [CODE, DATA, STACK_START, EXCEPTION_STACK - PAGE, FREE, FREE + PAGE, ELSEWHERE - PAGE, ELSEWHERE, HANDLERS, MEDIA];
    let seen = places.map(|at| at & !(PAGE - 1)).map(|at| (SEEN_FROM + at, at));
    let traps = (0..4).map(|number| (TRAPS + number * PAGE, HANDLERS));
    seen.into_iter().chain(traps).chain([(0, MEDIA), (ENTRY, ENTRY), (SEEN_FROM + ENTRY, ENTRY)]).collect()
}

/// Data for the set-up code: the TLB entries and the trap base.
fn pieces() -> Vec<Piece> {
    let table = entries().into_iter().flat_map(|(seen, at)| [seen, at | ENTRY_BITS]);
    let bytes: Vec<u8> = table.chain([TRAPS]).flat_map(u64::to_be_bytes).collect();
    vec![(PAGE_TABLES, bytes, PAGE), (HANDLERS + HANDLERS_BYTES, halts(&HALT.to_be_bytes(), HANDLERS_BYTES), HANDLERS_BYTES)]
}

/// Fills both TLBs, then continues with the MMUs on.
fn set_up() -> Vec<u8> {
    let count = entries().len() as u32;
    let wrpr = |number: u32, value: u64| 0x8190_2000 | number << 25 | value as u32;
    #[rustfmt::skip]
    let code = [
        0x0300_0000 | (PAGE_TABLES >> 10) as u32, // sethi %hi(table), %g1
        0x8810_2000,                // clr %g4
        0x8a10_2030,                // mov 0x30, %g5: tag access
        0xc458_4000,                // ldx [%g1], %g2
        0xc658_6008,                // ldx [%g1 + 8], %g3
        0xc4f1_4a00,                // stxa %g2, [%g5] 0x50
        0xc6f1_0aa0,                // stxa %g3, [%g4] 0x55
        0xc4f1_4b00,                // stxa %g2, [%g5] 0x58
        0xc6f1_0ba0,                // stxa %g3, [%g4] 0x5d
        0x8801_2008,                // add %g4, 8, %g4
        0x80a1_2000 | (8 * count),  // cmp %g4, the end
        0x126f_fff8,                // bne,pt %xcc, to the first load
        0x8200_6010,                // add %g1, 16, %g1
        0xc458_4000,                // ldx [%g1], %g2
        0x8b90_8000,                // wrpr %g2, %tba
        0x8a10_2008,                // mov 8, %g5
        0xc0f1_4b00,                // stxa %g0, [%g5] 0x58: primary context 0
        wrpr(8, 0),                 // %pil
        wrpr(14, 0),                // %wstate
        wrpr(13, 0),                // %otherwin
        wrpr(12, WINDOWS - 1),      // %cleanwin
        wrpr(10, WINDOWS - 2),      // %cansave
        wrpr(11, 0),                // %canrestore
        wrpr(7, 0),                 // %tl
        wrpr(6, PSTATE_PRIV | PSTATE_PEF), // %pstate
        0x8210_200c,                // mov 0xc, %g1
        0xc2f0_08a0,                // stxa %g1, [%g0] 0x45: enable both MMUs
        HALT,
    ];
    code.into_iter().flat_map(u32::to_be_bytes).collect()
}

/// Stores all floating-point registers and the FSR, without a base register.
fn behind() -> Vec<u8> {
    // std %fN,[8 * N / 2]: bit 5 of the register number is encoded in bit 0.
    let store = |number: u32| 0xc138_2000 | (number & 30 | number >> 5) << 25 | (4 * number);
    // stx %fsr,[256]
    (0..64).step_by(2).map(store).chain([0xc328_2100]).flat_map(u32::to_be_bytes).collect()
}

fn ruined(after: &After) -> bool {
    let usual = [("pil", 0), ("wstate", 0), ("otherwin", 0), ("cleanwin", WINDOWS - 1), ("tba", TRAPS)];
    usual.iter().any(|(name, value)| after.register(name) != Some(*value))
}

/// Instructions that cannot be compared, with the reason.
#[rustfmt::skip]
const LEFT_OUT: &[Reason] = &[
    ("with other entries of the TLBs, or none, a machine cannot continue, in place or out of line: accesses to the MMUs, and past them", |bytes| {
        let word = word(bytes);
        let (is_access, has_number) = (word >> 30 == 3 && word >> 23 & 1 != 0, word >> 13 & 1 == 0);
        is_access && has_number && matches!(word >> 5 & 0xff, 0x14 | 0x15 | 0x1c | 0x1d | 0x40..=0x7f)
    }),
];

/// Outcomes in place that a copy need not have, with the reason.
const NO_PROMISE: &[Outcome] = &[
    ("this core writes a jump's link register before it checks the target's alignment", |case, after| {
        let words = [&case.bytes, &case.rest, &case.front].map(|bytes| word(bytes));
        words.iter().any(|word| word & 0xc1f8_0000 == 0x81c0_0000 && word & 0x3e00_0000 != 0)
            && after.happened.iter().any(|event| event.what == What::Exception(0x34, None))
    }),
    ("with 32-bit addresses and code above 4 GiB: this core truncates jump targets only", |_, after| {
        after.registers.iter().any(|(name, value)| name.starts_with("tstate") && value >> 8 & PSTATE_AM != 0)
    }),
    ("the window has code at addresses where the guest has none", |_, after| {
        after.registers.iter().any(|(name, value)| name.starts_with("tpc") && WINDOW.contains(value))
    }),
];

#[rustfmt::skip]
const HARD: &[(&str, Arch, &[u8])] = &[
    ("ba to itself",              Arch::Sparc64, &0x1080_0000_u32.to_be_bytes()),
    ("ba,a",                      Arch::Sparc64, &0x3080_0010_u32.to_be_bytes()),
    ("bn,a",                      Arch::Sparc64, &0x2080_0010_u32.to_be_bytes()),
    ("bne",                       Arch::Sparc64, &0x1280_0010_u32.to_be_bytes()),
    ("be,a,pn %xcc",              Arch::Sparc64, &0x2260_0010_u32.to_be_bytes()),
    ("brz,a %o0",                 Arch::Sparc64, &0x22c2_0010_u32.to_be_bytes()),
    ("brgez %o1",                 Arch::Sparc64, &0x0eca_4010_u32.to_be_bytes()),
    ("fbe",                       Arch::Sparc64, &0x1380_0010_u32.to_be_bytes()),
    ("fbuge,a %fcc2",             Arch::Sparc64, &0x3968_0010_u32.to_be_bytes()),
    ("call",                      Arch::Sparc64, &0x4000_0010_u32.to_be_bytes()),
    ("call .+8",                  Arch::Sparc64, &0x4000_0002_u32.to_be_bytes()),
    ("retl",                      Arch::Sparc64, &0x81c3_e008_u32.to_be_bytes()),
    ("jmpl %o0, %o7",             Arch::Sparc64, &0x9fc2_0000_u32.to_be_bytes()),
    ("jmpl %o7 + 8, %o7",         Arch::Sparc64, &0x9fc3_e008_u32.to_be_bytes()),
    ("return %i7 + 8",            Arch::Sparc64, &0x81cf_e008_u32.to_be_bytes()),
    ("return %o0",                Arch::Sparc64, &0x81ca_0000_u32.to_be_bytes()),
    ("done",                      Arch::Sparc64, &0x81f0_0000_u32.to_be_bytes()),
    ("retry",                     Arch::Sparc64, &0x83f0_0000_u32.to_be_bytes()),
    ("save",                      Arch::Sparc64, &0x9de3_bf40_u32.to_be_bytes()),
    ("save to a global",          Arch::Sparc64, &0x83e2_2001_u32.to_be_bytes()),
    ("restore %i0, 9, %o0",       Arch::Sparc64, &0x91ee_2009_u32.to_be_bytes()),
    ("flushw",                    Arch::Sparc64, &0x8158_0000_u32.to_be_bytes()),
    ("saved",                     Arch::Sparc64, &0x8188_0000_u32.to_be_bytes()),
    ("restored",                  Arch::Sparc64, &0x8388_0000_u32.to_be_bytes()),
    ("rd %pc, %o0",               Arch::Sparc64, &0x9141_4000_u32.to_be_bytes()),
    ("rd %ccr, %o0",              Arch::Sparc64, &0x9140_8000_u32.to_be_bytes()),
    ("wr %o0, 5, %ccr",           Arch::Sparc64, &0x8582_2005_u32.to_be_bytes()),
    ("rd %asi, %o0",              Arch::Sparc64, &0x9140_c000_u32.to_be_bytes()),
    ("wr %g0, 0x88, %asi",        Arch::Sparc64, &0x8780_2088_u32.to_be_bytes()),
    ("rd %tick, %o0",             Arch::Sparc64, &0x9141_0000_u32.to_be_bytes()),
    ("rd %fprs, %o0",             Arch::Sparc64, &0x9141_8000_u32.to_be_bytes()),
    ("wr %g0, 0, %fprs: off",     Arch::Sparc64, &0x8d80_2000_u32.to_be_bytes()),
    ("wr %o0, %o1, %y",           Arch::Sparc64, &0x8182_0009_u32.to_be_bytes()),
    ("rdpr %tpc, %o0",            Arch::Sparc64, &0x9150_0000_u32.to_be_bytes()),
    ("rdpr %pstate, %o0",         Arch::Sparc64, &0x9151_8000_u32.to_be_bytes()),
    ("rdpr %cwp, %o0",            Arch::Sparc64, &0x9152_4000_u32.to_be_bytes()),
    ("wrpr %g0, 3, %cwp",         Arch::Sparc64, &0x9390_2003_u32.to_be_bytes()),
    ("wrpr %g0, 0x15, %pstate: other globals", Arch::Sparc64, &0x8d90_2015_u32.to_be_bytes()),
    ("wrpr %g0, 0x10, %pstate: a program's rights", Arch::Sparc64, &0x8d90_2010_u32.to_be_bytes()),
    ("wrpr %g0, 1, %tl",          Arch::Sparc64, &0x8f90_2001_u32.to_be_bytes()),
    ("wrpr %o0, 0, %tnpc",        Arch::Sparc64, &0x8392_2000_u32.to_be_bytes()),
    ("wrpr %g0, 0, %cleanwin",    Arch::Sparc64, &0x9990_2000_u32.to_be_bytes()),
    ("te 0x10",                   Arch::Sparc64, &0x83d0_2010_u32.to_be_bytes()),
    ("tne %xcc, %o0",             Arch::Sparc64, &0x93d2_1000_u32.to_be_bytes()),
    ("addccc %o0, %o1, %o2",      Arch::Sparc64, &0x94c2_0009_u32.to_be_bytes()),
    ("subccc %o0, %o1, %o2",      Arch::Sparc64, &0x94e2_0009_u32.to_be_bytes()),
    ("taddcctv %o0, %o1, %o2",    Arch::Sparc64, &0x9512_0009_u32.to_be_bytes()),
    ("mulscc %o0, %o1, %o2",      Arch::Sparc64, &0x9522_0009_u32.to_be_bytes()),
    ("udivcc %o0, %o1, %o2",      Arch::Sparc64, &0x94f2_0009_u32.to_be_bytes()),
    ("sdivx %o0, %o1, %o2",       Arch::Sparc64, &0x956a_0009_u32.to_be_bytes()),
    ("udivx %o0, %g0: by nothing", Arch::Sparc64, &0x946a_0000_u32.to_be_bytes()),
    ("smulcc %o0, %o1, %o2",      Arch::Sparc64, &0x94da_0009_u32.to_be_bytes()),
    ("movle %icc, %o1, %o2",      Arch::Sparc64, &0x9564_8009_u32.to_be_bytes()),
    ("movg %fcc1, 5, %o2",        Arch::Sparc64, &0x9561_a805_u32.to_be_bytes()),
    ("movrlz %o0, %o1, %o2",      Arch::Sparc64, &0x957a_0c09_u32.to_be_bytes()),
    ("ldx that may fault",        Arch::Sparc64, &0xd05a_0000_u32.to_be_bytes()),
    ("ldd of two",                Arch::Sparc64, &0xd41a_0000_u32.to_be_bytes()),
    ("ldd of odd ones",           Arch::Sparc64, &0xd61a_0000_u32.to_be_bytes()),
    ("std that may fault",        Arch::Sparc64, &0xd43a_2008_u32.to_be_bytes()),
    ("ldstub",                    Arch::Sparc64, &0xd46a_0000_u32.to_be_bytes()),
    ("swap",                      Arch::Sparc64, &0xd47a_0000_u32.to_be_bytes()),
    ("casx",                      Arch::Sparc64, &0xd5f2_1009_u32.to_be_bytes()),
    ("cas by %asi",               Arch::Sparc64, &0xd5e2_2009_u32.to_be_bytes()),
    ("ldxa with the low byte first", Arch::Sparc64, &0xd4da_1100_u32.to_be_bytes()),
    ("ldda of a pair of words of 64 bits", Arch::Sparc64, &0xd49a_0480_u32.to_be_bytes()),
    ("stxa by %asi",              Arch::Sparc64, &0xd4f2_2000_u32.to_be_bytes()),
    ("prefetch",                  Arch::Sparc64, &0xc16a_0000_u32.to_be_bytes()),
    ("membar #Sync",              Arch::Sparc64, &0x8143_e040_u32.to_be_bytes()),
    ("flush %o0",                 Arch::Sparc64, &0x81da_0000_u32.to_be_bytes()),
    ("ldd of a float that may fault", Arch::Sparc64, &0xc51a_0000_u32.to_be_bytes()),
    ("stq of a float",            Arch::Sparc64, &0xc132_0000_u32.to_be_bytes()),
    ("ldx [%o0], %fsr",           Arch::Sparc64, &0xc30a_0000_u32.to_be_bytes()),
    ("faddd",                     Arch::Sparc64, &0x81a0_0842_u32.to_be_bytes()),
    ("fdivd",                     Arch::Sparc64, &0x81a0_09c2_u32.to_be_bytes()),
    ("fsqrts",                    Arch::Sparc64, &0x85a0_0523_u32.to_be_bytes()),
    ("faddq: not in this CPU",    Arch::Sparc64, &0x81a0_0864_u32.to_be_bytes()),
    ("fcmped %fcc1",              Arch::Sparc64, &0x83a8_0ac2_u32.to_be_bytes()),
    ("fmovdg %fcc0",              Arch::Sparc64, &0x85a9_8044_u32.to_be_bytes()),
    ("fxtod",                     Arch::Sparc64, &0x85a0_1104_u32.to_be_bytes()),
    ("faligndata",                Arch::Sparc64, &0x85b0_8904_u32.to_be_bytes()),
    ("alignaddr",                 Arch::Sparc64, &0x95b2_0309_u32.to_be_bytes()),
    ("illegal with a number",     Arch::Sparc64, &0x8168_0000_u32.to_be_bytes()),
    ("be of no codes",            Arch::Sparc64, &0x0250_0004_u32.to_be_bytes()),
    ("sethi",                     Arch::Sparc64, &0x1512_3456_u32.to_be_bytes()),
    ("nop",                       Arch::Sparc64, &0x0100_0000_u32.to_be_bytes()),
];

/// Instruction groups that random words rarely hit: the fixed bits, and the bits that vary.
#[rustfmt::skip]
const GROUPS: &[(u32, u32)] = &[
    (0x0080_0000, 0x3e00_00ff), // Bicc, near
    (0x0040_0000, 0x3e38_00ff), // BPcc
    (0x00c0_0000, 0x2e0f_c0ff), // BPr
    (0x0180_0000, 0x3e00_00ff), // FBfcc
    (0x0140_0000, 0x3e38_00ff), // FBPfcc
    (0x4000_0000, 0x0000_00ff), // call
    (0x81c0_0000, 0x3e07_ffff), // jmpl
    (0x81c8_0000, 0x3e07_ffff), // return
    (0x81e0_0000, 0x3e0f_ffff), // save, restore
    (0x8150_0000, 0x3e07_c000), // rdpr
    (0x8190_0000, 0x3e07_ffff), // wrpr
    (0x8140_0000, 0x3e07_c000), // rd
    (0x8180_0000, 0x3e07_ffff), // wr
    (0x8188_0000, 0x3e00_0000), // saved, restored
    (0x81d0_0000, 0x3e07_ffff), // conditional traps
    (0x8160_0000, 0x3e07_ffff), // conditional moves
    (0x8178_0000, 0x3e07_ffff), // moves on register condition
    (0x81f0_0000, 0x0200_0000), // done, retry
    (0x8000_0000, 0x3ef8_7fff), // arithmetic with %g0 and %g1
    (0x8000_0000, 0x3eff_ffff), // arithmetic and logic
    (0x8100_0000, 0x3eff_ffff), // arithmetic and logic with op3 bit 4 set
    (0x81a0_0000, 0x3e07_ffff), // floating point
    (0x81a8_0000, 0x3e07_ffff), // floating-point compares and moves
    (0x81b0_0000, 0x3e07_ffff), // VIS
    (0xc000_0000, 0x3f7f_c01f), // loads and stores, two registers
    (0xc000_2000, 0x3f7f_c0ff), // loads and stores, immediate
    (0xc080_0000, 0x3f7f_c01f | 0xff << 5), // loads and stores with an immediate ASI
    (0xc080_2000, 0x3f7f_c0ff), // loads and stores with %asi
];
