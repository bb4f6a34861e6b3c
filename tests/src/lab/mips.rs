//! The lab's tables for MIPS, in 32 and 64 bits and both byte orders. Code and data lie in unmapped segments, and the
//! same data is also mapped by the TLB. Exception handlers store the CP0 registers for comparison. A list of hard
//! instructions follows.

use super::{After, Before, Bench, DATA, DATA_BYTES, ELSEWHERE, HANDLERS, MEDIA, Outcome, PLACE, bench};
use capstone::Endian;
use capstone::prelude::*;
use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use trapline::machine::{Happening, Stop, What};
use trapline_isa::arch::Arch;
use trapline_isa::mips::Set;
use trapline_isa::mips::decode::has_delay_slot;

/// The bench for 32 bits, big-endian.
pub static BENCH_BIG_32: Bench =
    Bench { is_stood_for: true, halt: &WAIT_BIG, ruined: |after| ruined(Set::Big32, after), hard: &HARD_BIG_32, ..BENCH };
/// The bench for 32 bits, little-endian.
pub static BENCH_LITTLE_32: Bench = Bench { hard: &HARD_LITTLE_32, ..BENCH };
/// The bench for 64 bits, big-endian.
pub static BENCH_BIG_64: Bench = Bench {
    halt: &WAIT_BIG,
    seen_from: SEEN_64,
    flags: FLAGS_64,
    ruined: |after| ruined(Set::Big64, after),
    hard: &HARD_BIG_64,
    ..BENCH
};
/// The bench for 64 bits, little-endian.
pub static BENCH_LITTLE_64: Bench =
    Bench { is_stood_for: true, seen_from: SEEN_64, flags: FLAGS_64, hard: &HARD_LITTLE_64, ..BENCH };

const BENCH: Bench = Bench {
    is_stood_for: false,
    base: 0,
    seen_from: SEEN,
    jumps: true,
    is_hit: |_| Some(true),
    halt: &WAIT_LITTLE,
    load: None,
    set_up,
    pieces: |_| Vec::new(),
    refreshed: |arch| vec![(HANDLERS, handlers(arch))],
    behind: |arch| bytes(arch, &tell(set(arch))),
    // These registers are compared in memory, where the handlers store them.
    not_general: &["r0", "c0_status", "c0_badvaddr", "c0_cause", "c0_epc"],
    ready: |_, _| (),
    flags: ("c0_status", status),
    media: &[],
    ruined: |after| ruined(Set::Little32, after),
    // There are no page tables in front of the window.
    fault_address: "",
    left_out: &[],
    no_promise: NO_PROMISE,
    hard: &[],
    case: |arch| case(arch),
    disassembler: |arch| {
        let (mode, endian) = match set(arch) {
            Set::Big32 => (arch::mips::ArchMode::Mips32, Endian::Big),
            Set::Little32 => (arch::mips::ArchMode::Mips32, Endian::Little),
            Set::Big64 => (arch::mips::ArchMode::Mips64, Endian::Big),
            Set::Little64 => (arch::mips::ArchMode::Mips64, Endian::Little),
        };
        Capstone::new().mips().mode(mode).endian(endian).build()
    },
};

/// The virtual start of RAM: the unmapped, cached segment (KSEG0).
const SEEN: u64 = 0x8000_0000;
const SEEN_64: u64 = 0xffff_ffff_8000_0000;
/// The virtual address of the data in the TLB, which maps both pages twice. In the second mapping the first page is
/// read-only and the second is invalid.
pub const MAPPED: u64 = 0x4000_0000 + DATA;

const WAIT: u32 = 0x4200_0020;
const WAIT_BIG: [u8; 4] = WAIT.to_be_bytes();
const WAIT_LITTLE: [u8; 4] = WAIT.to_le_bytes();

const STATUS_CU0: u64 = 1 << 28;
const STATUS_CU1: u64 = 1 << 29;
/// All 32 floating-point registers are 64 bits wide.
const STATUS_FR: u64 = 1 << 26;
const STATUS_KX: u64 = 1 << 7;
const STATUS_EXL: u64 = 1 << 1;
/// The mode field of the Status register; 0 is kernel mode.
const STATUS_KSU: u64 = 3 << 3;

/// The FPU is disabled in one case of eight.
fn status(drawn: u64) -> u64 {
    STATUS_CU0 | if drawn >> 40 & 7 == 0 { 0 } else { STATUS_CU1 }
}

const FLAGS_64: (&str, fn(u64) -> u64) = ("c0_status", |drawn| status(drawn) | STATUS_KX | STATUS_FR);

/// The instruction set of an ISA.
pub fn set(arch: Arch) -> Set {
    Set::ALL.into_iter().find(|set| set.isa().arch == arch).expect("a kind of MIPS")
}

/// The words as bytes in memory.
pub fn bytes(arch: Arch, words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| set(arch).bytes(*word)).collect()
}

const AT: u32 = 1;
const K0: u32 = 26;
const K1: u32 = 27;

const fn immediate(op: u32, rs: u32, rt: u32, value: u32) -> u32 {
    op << 26 | rs << 21 | rt << 16 | value & 0xffff
}

/// `mtc0`, or `dmtc0` where CP0 registers have 64 bits.
const fn move_to(rt: u32, number: u32, selection: u32) -> u32 {
    0x4080_0000 | rt << 16 | number << 11 | selection
}

/// Code that loads a sign-extended value into k0.
fn load(value: u64) -> [u32; 2] {
    [immediate(0x0f, 0, K0, (value >> 16) as u32), immediate(0x0d, K0, K0, value as u32)]
}

// Numbers of CP0 registers.
const INDEX: u32 = 0;
const LOW: [u32; 2] = [2, 3];
const PAGE_MASK: u32 = 5;
const HIGH: u32 = 10;
const STATUS: u32 = 12;
const EBASE: (u32, u32) = (15, 1);
const ERROR_EPC: u32 = 30;

/// Sets the exception base and the TLB, then sleeps.
fn set_up(arch: Arch) -> Vec<u8> {
    const TLBWI: u32 = 0x4200_0002;
    /// An EntryLo value: cached, valid, global; plus the dirty (writable) bit.
    const THERE: u64 = 3 << 3 | 2 | 1;
    const WRITABLE: u64 = 4;
    const GONE: u64 = 1;
    let frame = |at: u64| at >> 12 << 6;
    let mut code = load(SEEN + HANDLERS).to_vec();
    code.push(move_to(K0, EBASE.0, EBASE.1));
    let entries = [
        (MAPPED, frame(DATA) | THERE | WRITABLE, frame(DATA + 0x1000) | THERE | WRITABLE),
        (MAPPED + DATA_BYTES, frame(DATA) | THERE, GONE),
    ];
    for (number, (page, even, odd)) in entries.into_iter().enumerate() {
        let values = [(INDEX, number as u64), (PAGE_MASK, 0), (HIGH, SEEN + page), (LOW[0], even), (LOW[1], odd)];
        code.extend(values.iter().flat_map(|(register, value)| {
            let [upper, lower] = load(*value);
            [upper, lower, move_to(K0, *register, 0)]
        }));
        code.push(TLBWI);
    }
    code.push(WAIT);
    bytes(arch, &code)
}

/// CP0 registers that the machine does not expose, in the order in which the handlers store them: context, EntryLo0 and
/// 1, PageMask, Wired, BadVAddr, EntryHi, Status, Cause, EPC, EBase, configuration, LLAddr.
const TOLD: [(u32, u32); 19] = [
    (STATUS, 0),
    (INDEX, 0),
    (LOW[0], 0),
    (LOW[1], 0),
    (4, 0),
    (4, 2),
    (PAGE_MASK, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (HIGH, 0),
    (STATUS, 1),
    (STATUS, 2),
    (13, 0),
    (14, 0),
    EBASE,
    (16, 0),
    (17, 0),
    (28, 0),
];
// Offsets in the save area. The floating-point registers come first.
const KEPT_K1: u32 = 0x100;
const KEPT_AT: u32 = 0x108;
const CONTROL: u32 = 0x110;
const SYSTEM: u32 = 0x118;

/// Code that stores the CP0 and floating-point registers and sleeps. It leaves all registers unchanged.
fn tell(set: Set) -> Vec<u32> {
    let (store, load_op, of_float, wide) = if set.is_64() { (0x3f, 0x37, 0x3d, 0x0020_0000) } else { (0x2b, 0x23, 0x39, 0) };
    let move_from = |rt: u32, (number, selection): (u32, u32)| 0x4000_0000 | wide | rt << 16 | number << 11 | selection;
    let mut code = vec![
        move_to(K0, ERROR_EPC, 0) | wide,
        immediate(0x0f, 0, K0, ((SEEN + MEDIA) >> 16) as u32),
        immediate(store, K0, K1, KEPT_K1),
        immediate(store, K0, AT, KEPT_AT),
    ];
    for (number, register) in (0..).zip(TOLD) {
        code.extend([move_from(K1, register), immediate(store, K0, K1, SYSTEM + 8 * number)]);
    }
    let on = STATUS_CU1 | if set.is_64() { STATUS_FR } else { 0 };
    code.extend([
        move_from(K1, (STATUS, 0)),
        immediate(0x0f, 0, AT, (on >> 16) as u32),
        K1 << 21 | AT << 16 | K1 << 11 | 0x25, // or k1,k1,at
        move_to(K1, STATUS, 0),
        0x4440_0000 | AT << 16 | 31 << 11, // cfc1 at,$31
        immediate(0x2b, K0, AT, CONTROL),
    ]);
    code.extend((0..32).map(|number| immediate(of_float, K0, number, 8 * number)));
    code.extend([
        immediate(load_op, K0, K1, SYSTEM),
        move_to(K1, STATUS, 0),
        immediate(load_op, K0, K1, KEPT_K1),
        immediate(load_op, K0, AT, KEPT_AT),
        move_from(K0, (ERROR_EPC, 0)),
        WAIT,
    ]);
    code
}

/// All vectors branch to one handler.
fn handlers(arch: Arch) -> Vec<u8> {
    const TELL: usize = 0x400;
    let mut words = vec![0; TELL / 4];
    for vector in [0, 0x80, 0x100, 0x180, 0x200] {
        words[vector / 4] = immediate(0x04, 0, 0, ((TELL - vector) / 4 - 1) as u32);
    }
    words.extend(tell(set(arch)));
    bytes(arch, &words)
}

/// Whether the machine's state was changed, or it sleeps in a delay slot, which is unpredictable.
fn ruined(set: Set, after: &After) -> bool {
    let known = STATUS_CU0 | STATUS_CU1 | STATUS_FR | STATUS_KX | STATUS_EXL;
    let status = after.register("status").unwrap_or(u64::MAX);
    let word_at = |at: u64| {
        let (start, bytes) = after.memory.iter().find(|(start, bytes)| (*start..*start + bytes.len() as u64).contains(&at))?;
        bytes.get((at - start) as usize..).map(|bytes| set.word(bytes.get(..4).unwrap_or_default()))
    };
    // The pc is behind the `wait`.
    let before = after.register("pc").and_then(|pc| word_at(physical(pc.wrapping_sub(8))));
    let in_slot = before.is_some_and(has_delay_slot);
    !has_slept(after) || status & !known != 0 || status & STATUS_CU0 == 0 || in_slot
}

/// The physical address of code or data. The TLB maps the data twice, one mapping behind the other.
fn physical(address: u64) -> u64 {
    let at = address & 0x1fff_ffff;
    let is_second = address as u32 & !0x1fff_ffff != SEEN as u32 && (DATA + DATA_BYTES..DATA + 2 * DATA_BYTES).contains(&at);
    if is_second { at - DATA_BYTES } else { at }
}

/// Outcomes in place that a copy need not have, with the reason.
const NO_PROMISE: &[Outcome] = &[
    ("the window is visible in the unmapped segments, in memory that the guest does not know of", |case, _| {
        bases(case).any(|address| (0xff_0000..0x121_0000).contains(&(address & 0x1fff_ffff)))
    }),
    ("the CPU leaves kernel mode and continues: the code behind a copy then runs in user mode", |_, after| {
        after.register("status").is_some_and(|status| status & STATUS_KSU != 0)
    }),
    ("code is fetched where no memory exists: the machine stops without an exact time", |_, after| {
        matches!(after.stop, Stop::Dead(_)) && !has_slept(after)
    }),
    (
        "the core takes a branch whose condition cannot hold for a nop, so an exception behind it is not in its delay slot \
         (docs/unicorn.md); a computed branch has one",
        |case, after| {
            let behind = (PLACE + 4) as u32 & 0x1fff_ffff;
            let raised = |event: &Happening| matches!(event.what, What::Exception(..)) && event.pc as u32 & 0x1fff_ffff == behind;
            is_never_taken(case) && after.happened.iter().any(raised)
        },
    ),
];

/// Whether its word may be a branch whose condition cannot hold, in either byte order: `bne` of a register and itself, `bltz`
/// or `bgtz` of r0.
fn is_never_taken(case: &Before) -> bool {
    let Some(bytes) = case.bytes.first_chunk::<4>() else { return false };
    [u32::from_be_bytes(*bytes), u32::from_le_bytes(*bytes)].into_iter().any(|word| {
        let (rs, rt) = (word >> 21 & 31, word >> 16 & 31);
        match word >> 26 {
            5 => rs == rt,
            1 | 7 => rs == 0 && rt == 0,
            _ => false,
        }
    })
}

/// The base registers that its words may use, in either byte order.
fn bases(case: &Before) -> impl Iterator<Item = u64> {
    let words = case.bytes.as_chunks().0.iter().flat_map(|bytes| [u32::from_be_bytes(*bytes), u32::from_le_bytes(*bytes)]);
    let numbers = words.flat_map(|word| [word >> 21 & 31, word >> 16 & 31]);
    numbers.filter_map(|number| case.registers.get(place_of(number as usize)?).copied())
}

/// The index of a general register in a case. r0 and the stack pointer have none.
pub fn place_of(number: usize) -> Option<usize> {
    match number {
        0 | 29 => None,
        30.. => Some(number - 2),
        _ => Some(number - 1),
    }
}

fn has_slept(after: &After) -> bool {
    after.happened.last().is_some_and(|event| event.what == What::Halt)
}

/// All opcodes, as pairs of mask and value.
pub fn codes() -> Vec<(u32, u32)> {
    const OP: u32 = 0xfc00_0000;
    let mut codes: Vec<(u32, u32)> = (0..64).map(|op| (OP, op << 26)).collect();
    // By function field: special, special2, special3, COP0, COP1, COP1X.
    for base in
        [0, 0x7000_0000, 0x7c00_0000, 0x4200_0000, 0x4600_0000, 0x4620_0000, 0x4680_0000, 0x46a0_0000, 0x46c0_0000, 0x4c00_0000]
    {
        let mask = if base >> 24 == 0x42 || base >> 24 == 0x46 { 0xffe0_003f } else { OP | 0x3f };
        codes.extend((0..64).map(|function| (mask, base | function)));
    }
    // By a register field: regimm, moves to and from coprocessors.
    codes.extend((0..32).map(|number| (0xfc1f_0000, 0x0400_0000 | number << 16)));
    codes
        .extend([0x4000_0000, 0x4400_0000].iter().flat_map(|base| (0..32).map(move |number| (0xffe0_0000, base | number << 21))));
    // By the sa field or rd field: byte shuffles (BSHFL), `rdhwr`.
    codes.extend((0..32).map(|number| (0xfc00_07ff, 0x7c00_0020 | number << 6)));
    codes.extend((0..32).map(|number| (0xfc00_f83f, 0x7c00_003b | number << 11)));
    codes
}

/// An instruction that may stand alone or a branch with its delay slot. Branch targets are made to lie near.
pub fn with_slot(arch: Arch, word: u32, slot: u32) -> Vec<u8> {
    let near = match word >> 26 {
        // j and jal: keep the target in the same page.
        2 | 3 => word & 0xfc00_0000 | (PLACE as u32 & !0xfff) >> 2 | word & 0x3ff,
        _ => word & !0xfe00 | if word & 0x100 != 0 { 0xfe00 } else { 0 },
    };
    if has_delay_slot(word) {
        let near = if word >> 26 == 0 { word } else { near };
        bytes(arch, &[near, slot])
    } else {
        bytes(arch, &[word])
    }
}

/// Random cases: any word, or a word with a valid opcode.
fn case(arch: Arch) -> BoxedStrategy<Before> {
    let seen_from = bench(arch).seen_from;
    let one = || {
        let of_code = (prop::sample::select(codes()), any::<u32>()).prop_map(|((mask, value), random)| value | random & !mask);
        prop_oneof![1 => any::<u32>(), 5 => of_code]
    };
    let register = prop_oneof![
        3 => (0..DATA_BYTES / 8).prop_map(move |index| seen_from + DATA + 8 * index),
        2 => (0..2 * DATA_BYTES / 8).prop_map(move |index| seen_from + MAPPED + 8 * index),
        1 => (0..DATA_BYTES).prop_map(move |offset| seen_from + DATA + offset),
        2 => 0u64..40,
        1 => (0u64..16).prop_map(move |index| seen_from + ELSEWHERE + 4 * index),
        2 => any::<u64>(),
    ];
    (one(), one(), prop::collection::vec(register, 32), any::<u64>(), any::<u64>())
        .prop_map(move |(word, slot, registers, flags, seed)| Before {
            bytes: with_slot(arch, word, slot),
            registers,
            flags,
            seed,
            ..Before::default()
        })
        .boxed()
}

/// Hard instructions: a word, and its delay slot.
#[rustfmt::skip]
const WORDS: [(&str, [u32; 2]); HARD_ONES] = [
    ("b to itself",                     [0x1000_ffff, 0]),
    ("b forward, a sum in its slot",    [0x1000_0010, 0x2442_0001]),
    ("beq",                             [0x1043_0010, 0x2442_0001]),
    ("bne of what its slot changes",    [0x1443_0010, 0x2442_0001]),
    ("beql",                            [0x5043_0010, 0x2442_0001]),
    ("bnel",                            [0x5443_0010, 0x2442_0001]),
    ("bltzal",                          [0x0450_0010, 0x03e0_1025]),
    ("bgezall",                         [0x0453_0010, 0x03e0_1025]),
    ("bal, and the slot reads ra",      [0x0411_0010, 0x03e0_1025]),
    ("bal, and the slot writes ra",     [0x0411_0010, 0x27ff_0008]),
    ("jr",                              [0x0040_0008, 0x2442_0001]),
    ("jalr",                            [0x0040_f809, 0x2442_0001]),
    ("jalr of another register",        [0x0040_1809, 0x0060_2025]),
    ("jr.hb",                           [0x0040_0408, 0]),
    ("bgtz, and a load that may fault", [0x1c40_0010, 0x8c83_0000]),
    ("bltzl, and a store that may fault", [0x0442_0010, 0xac83_0000]),
    ("b, and a sum that may overflow",  [0x1000_0010, 0x0064_1020]),
    ("b, and a trap that may be sprung", [0x1000_0010, 0x0064_0034]),
    ("b, and floating point",           [0x1000_0010, 0x4604_1080]),
    ("b, and a product",                [0x1000_0010, 0x0064_0018]),
    ("lui",                             [0x3c02_8000, 0]),
    ("lw that may fault",               [0x8c82_0000, 0]),
    ("lwl that may fault",              [0x8882_0001, 0]),
    ("lwr that may fault",              [0x9882_0002, 0]),
    ("lh that may fault",               [0x8482_0001, 0]),
    ("sb that may fault",               [0xa082_0003, 0]),
    ("sw that may fault",               [0xac82_0004, 0]),
    ("swl that may fault",              [0xa882_0001, 0]),
    ("swr that may fault",              [0xb882_0002, 0]),
    ("ldc1 that may fault",             [0xd482_0000, 0]),
    ("sdc1 that may fault",             [0xf482_0000, 0]),
    ("lwxc1",                           [0x4c83_0080, 0]),
    ("add that may overflow",           [0x0064_1020, 0]),
    ("addi that may overflow",          [0x2062_7fff, 0]),
    ("sub that may overflow",           [0x0064_1022, 0]),
    ("teq",                             [0x0064_0034, 0]),
    ("tltiu",                           [0x046b_0005, 0]),
    ("mult",                            [0x0064_0018, 0]),
    ("multu",                           [0x0064_0019, 0]),
    ("div by what may be zero",         [0x0064_001a, 0]),
    ("divu",                            [0x0064_001b, 0]),
    ("madd",                            [0x7064_0000, 0]),
    ("msubu",                           [0x7064_0005, 0]),
    ("mfhi",                            [0x0000_1010, 0]),
    ("mtlo",                            [0x0060_0013, 0]),
    ("movz",                            [0x0064_100a, 0]),
    ("clz",                             [0x7062_1020, 0]),
    ("ext",                             [0x7c62_1900, 0]),
    ("ins",                             [0x7c62_1904, 0]),
    ("seb",                             [0x7c03_1420, 0]),
    ("rdhwr of the clock",              [0x7c02_103b, 0]),
    ("rdhwr of the thread",             [0x7c02_e83b, 0]),
    ("mfc0 of the clock",               [0x4002_4800, 0]),
    ("mfc0 of status",                  [0x4002_6000, 0]),
    ("mfc0 of the place of the last exception", [0x4002_7000, 0]),
    ("di",                              [0x4162_6000, 0]),
    ("tlbp",                            [0x4200_0008, 0]),
    ("tlbr",                            [0x4200_0001, 0]),
    ("sync",                            [0x0000_000f, 0]),
    ("synci",                           [0x049f_0000, 0]),
    ("cache",                           [0xbc95_0000, 0]),
    ("pref",                            [0xcc80_0000, 0]),
    ("add.s",                           [0x4604_1080, 0]),
    ("div.d",                           [0x4624_1083, 0]),
    ("c.lt.d",                          [0x4624_103c, 0]),
    ("cvt.w.s",                         [0x4600_10a4, 0]),
    ("ctc1",                            [0x44c3_f800, 0]),
    ("mtc1",                            [0x4483_1000, 0]),
    ("nop",                             [0, 0]),
    ("daddiu of 64 bits",               [0x6462_0001, 0]),
];
const HARD_ONES: usize = 70;

type Hard = [(&'static str, Arch, &'static [u8]); HARD_ONES];

const fn in_order(is_big: bool) -> [[u8; 8]; HARD_ONES] {
    let mut all = [[0; 8]; HARD_ONES];
    let mut number = 0;
    while number < HARD_ONES {
        let mut at = 0;
        while at < 8 {
            let word = WORDS[number].1[at / 4];
            let bytes = if is_big { word.to_be_bytes() } else { word.to_le_bytes() };
            all[number][at] = bytes[at % 4];
            at += 1;
        }
        number += 1;
    }
    all
}

/// The first 20 entries are branches.
const BRANCHES: usize = 20;

const fn hard(arch: Arch, bytes: &'static [[u8; 8]; HARD_ONES]) -> Hard {
    let mut all: Hard = [("", arch, &[]); HARD_ONES];
    let mut number = 0;
    while number < HARD_ONES {
        let (alone, _) = bytes[number].split_at(4);
        all[number] = (WORDS[number].0, arch, if number < BRANCHES { &bytes[number] } else { alone });
        number += 1;
    }
    all
}

static BYTES_BIG: [[u8; 8]; HARD_ONES] = in_order(true);
static BYTES_LITTLE: [[u8; 8]; HARD_ONES] = in_order(false);
static HARD_BIG_32: Hard = hard(Arch::Mips, &BYTES_BIG);
static HARD_LITTLE_32: Hard = hard(Arch::Mipsel, &BYTES_LITTLE);
static HARD_BIG_64: Hard = hard(Arch::Mips64, &BYTES_BIG);
static HARD_LITTLE_64: Hard = hard(Arch::Mips64el, &BYTES_LITTLE);
