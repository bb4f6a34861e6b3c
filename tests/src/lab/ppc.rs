//! The lab's tables for PowerPC. 64 bits in both byte orders: a radix tree and vectors. 32 bits: block address
//! translation registers (BATs) and a hashed page table, with handlers that sleep. Both use the same list of hard
//! instructions.

use super::{After, Bench, CODE, ENTRY, FREE, HANDLERS, Outcome, PAGE_TABLES, Piece, Reason, is_mapped, steps, words};
use capstone::Endian;
use capstone::prelude::*;
use trapline_isa::arch::Arch;
use trapline_isa::ppc::abi::VECTORS;
use trapline_isa::regs::Reg;

/// The bench for 64 bits, little-endian.
pub static BENCH: Bench = In::<true>::BENCH;
/// The bench for 64 bits, big-endian.
pub static BIG_BENCH: Bench = In::<false>::BENCH;
/// The bench for 32 bits, big-endian.
pub static NARROW_BENCH: Bench = Bench {
    seen_from: NARROW_SEEN_FROM,
    halt: &SYSTEM_CALL.to_be_bytes(),
    load: Some(&[0x80, 0x63, 0x00, 0x00]),
    set_up: |_| narrow_set_up(),
    pieces: |_| vec![(0, vectors(), VECTORS_BYTES), (PAGE_TABLES, hashed_pages(), HASHED_BYTES)],
    refreshed: |_| vec![(0, vectors())],
    not_general: &["nip", "msr", "mq", "trap", "dar", "dsisr"],
    flags: ("msr", narrow_state),
    media: MEDIA.split_at(64).0,
    ruined: |after| after.register("sdr1") != Some(PAGE_TABLES),
    left_out: NARROW_LEFT_OUT,
    no_promise: &[],
    // The last entry is a prefixed instruction, which needs 64 bits.
    hard: HARD_NARROW.split_at(HARD.len() - 1).0,
    disassembler: |_| Capstone::new().ppc().mode(arch::ppc::ArchMode::Mode32).endian(Endian::Big).build(),
    ..In::<false>::BENCH
};

/// The tables for one byte order.
struct In<const LITTLE: bool>;

impl<const LITTLE: bool> In<LITTLE> {
    const BENCH: Bench = Bench {
        is_stood_for: false,
        base: 0,
        seen_from: SEEN_FROM,
        jumps: true,
        is_hit: |_| Some(true),
        halt: if LITTLE { &WAIT.to_le_bytes() } else { &WAIT.to_be_bytes() },
        load: Some(if LITTLE { &[0x00, 0x00, 0x63, 0xe8] } else { &[0xe8, 0x63, 0x00, 0x00] }),
        set_up,
        pieces: |_| pieces(),
        refreshed: |_| Vec::new(),
        behind: |_| Vec::new(),
        not_general: &["nip", "msr", "softe", "trap", "dar", "dsisr"],
        ready: |_, _| (),
        flags: ("msr", |drawn| machine_state(LITTLE, drawn)),
        media: &MEDIA,
        ruined,
        fault_address: "dar",
        left_out: Self::LEFT_OUT,
        no_promise: Self::NO_PROMISE,
        hard: if LITTLE { &HARD_LITTLE } else { &HARD_BIG },
        case: |arch| words(arch, 3, GROUPS, 35),
        disassembler: |_| {
            let order = if LITTLE { Endian::Little } else { Endian::Big };
            Capstone::new().ppc().mode(arch::ppc::ArchMode::Mode64).endian(order).build()
        },
    };

    /// Instructions that cannot be compared, with the reason.
    #[rustfmt::skip]
    const LEFT_OUT: &'static [Reason] = &[
        ("the address of the last branch: behind a copy it is that of the jump back", |bytes| Self::word(bytes) & 0xfc1f_fffe == 0x7c1c_02a6),
        ("bctar with reserved bits set: CPUs ignore them, this core treats it as invalid", |bytes| {
            Self::word(bytes) & 0xfc00_07fe == 0x4c00_0460 && Self::word(bytes) & 0xe000 != 0
        }),
        ("with other tables, or none, a machine cannot continue, in place or out of line: PID, AMR and their like", |bytes| {
            let word = Self::word(bytes);
            let number = word >> 16 & 31 | (word >> 11 & 31) << 5;
            word >> 26 == 31 && word >> 1 & 0x3ff == 467 && matches!(number, 13 | 29 | 48 | 61 | 157 | 349 | 351)
        }),
    ];

    /// Outcomes in place that a copy need not have, with the reason.
    const NO_PROMISE: &'static [Outcome] =
        &[("a single-stepped priority hint: this core treats it as a wait and sleeps", |case, _| {
            is_hint(Self::word(&case.bytes)) && machine_state(LITTLE, case.flags) & STEP != 0
        })];

    fn word(bytes: &[u8]) -> u32 {
        let word = |bytes| if LITTLE { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
        bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, word)
    }
}

/// The virtual start of RAM, below the probe window.
const SEEN_FROM: u64 = 0xc000_0000_0000_0000;
const WAIT: u32 = 0x7c00_003c;

/// Both halves of all 64 VSX registers.
const MEDIA: [Reg; 128] = {
    let mut all = [Reg(0); 128];
    let mut number = 0;
    while number < 128 {
        all[number] = Reg(VECTORS.0 + number as u8);
        number += 1;
    }
    all
};

/// MSR: 64-bit, hypervisor state, address translation on, external interrupts off.
const KERNEL: u64 = 1 << 63 | 1 << 60 | 0x1032;
const FLOATING_POINT: u64 = 1 << 13;
const VECTOR: u64 = 1 << 25;
const VSX: u64 = 1 << 23;
/// Floating-point exceptions are enabled in precise mode (FE0, FE1).
const ARITHMETIC: u64 = 1 << 11 | 1 << 8;
const STEP: u64 = 1 << 10;

/// The MSR of a case. Most cases have all units enabled; some disable one, and some single-step.
fn machine_state(little: bool, drawn: u64) -> u64 {
    let off = match drawn >> 40 & 31 {
        0 => FLOATING_POINT,
        1 => VECTOR,
        2 => VSX,
        _ => 0,
    };
    let units = (FLOATING_POINT | VECTOR | VSX) & !off;
    KERNEL | u64::from(little) | units | drawn & ARITHMETIC | if steps(drawn) { STEP } else { 0 }
}

#[rustfmt::skip]
const HARD: &[(&str, &[u32])] = &[
    ("b to itself",                     &[0x4800_0000]),
    ("b forward",                       &[0x4800_0040]),
    ("bl .+4",                          &[0x4800_0005]),
    ("bla",                             &[0x4800_2103]),
    ("beq",                             &[0x4182_0010]),
    ("bne cr7",                         &[0x409e_0010]),
    ("bdnz",                            &[0x4200_0010]),
    ("bdz",                             &[0x4240_0010]),
    ("bdnzt",                           &[0x4102_0010]),
    ("bcl 20, 31, .+4: where am I",     &[0x429f_0005]),
    ("blr",                             &[0x4e80_0020]),
    ("blrl",                            &[0x4e80_0021]),
    ("beqlr",                           &[0x4d82_0020]),
    ("bdnzlr",                          &[0x4e00_0020]),
    ("bctr",                            &[0x4e80_0420]),
    ("bctrl",                           &[0x4e80_0421]),
    ("beqctr",                          &[0x4d82_0420]),
    ("bctarl",                          &[0x4e80_0461]),
    ("addpcis r3, 1",                   &[0x4c60_0005]),
    ("addpcis r3, -1",                  &[0x4c7f_ffc5]),
    ("mflr r0",                         &[0x7c08_02a6]),
    ("mtlr r7",                         &[0x7ce8_03a6]),
    ("mtctr r7",                        &[0x7ce9_03a6]),
    ("mfxer r3",                        &[0x7c61_02a6]),
    ("mtxer r3",                        &[0x7c61_03a6]),
    ("mfcr r3",                         &[0x7c60_0026]),
    ("mtcrf 0x38, r3",                  &[0x7c63_8120]),
    ("mcrxrx cr3",                      &[0x7d80_0480]),
    ("mfmsr r3",                        &[0x7c60_00a6]),
    ("mftb r3",                         &[0x7c6c_42a6]),
    ("mfpurr r3",                       &[0x7c75_4aa6]),
    ("mfvtb r3",                        &[0x7c71_d2a6]),
    ("msgsnd r4",                       &[0x7c00_219c]),
    ("mfdec r3",                        &[0x7c76_02a6]),
    ("darn r3, 1",                      &[0x7c61_05e6]),
    ("or 1, 1, 1: a hint",              &[0x7c21_0b78]),
    ("or 31, 31, 31: a hint",           &[0x7fff_fb78]),
    ("addo. r3, r4, r5",                &[0x7c64_2e15]),
    ("addex r3, r4, r5",                &[0x7c64_2954]),
    ("subfzeo. r3, r4",                 &[0x7c64_0591]),
    ("divdo. r3, r4, r5",               &[0x7c64_2fd3]),
    ("divweu r3, r4, r5",               &[0x7c64_2b16]),
    ("ld that may fault",               &[0xe863_0000]),
    ("stdu r1 and back",                &[0xf821_ffc1]),
    ("ldu that may fault",              &[0xe885_0009]),
    ("stwux that may fault",            &[0x7ca6_396e]),
    ("lq: pairs",                       &[0xe084_0010]),
    ("stq",                             &[0xf884_0012]),
    ("lwbrx",                           &[0x7c60_242c]),
    ("lmw: not with the low byte first", &[0xbba1_0010]),
    ("lswi: neither",                   &[0x7c64_24aa]),
    ("dcbz that may fault",             &[0x7c00_1fec]),
    ("icbi",                            &[0x7c00_1fac]),
    ("isync",                           &[0x4c00_012c]),
    ("lfd that may fault",              &[0xc863_0000]),
    ("stfsu",                           &[0xd464_0008]),
    ("fadd.",                           &[0xfc64_282b]),
    ("fdiv",                            &[0xfc64_2824]),
    ("mtfsf",                           &[0xfdfe_1d8e]),
    ("mffs",                            &[0xfc60_048e]),
    ("lvx",                             &[0x7c60_20ce]),
    ("stvx that may fault",             &[0x7c65_21ce]),
    ("vaddubs",                         &[0x1064_2a00]),
    ("vcmpequw.",                       &[0x1064_2c86]),
    ("lxvd2x",                          &[0x7c60_2698]),
    ("stxv",                            &[0xf464_0005]),
    ("xvadddp",                         &[0xf064_2b00]),
    ("nop",                             &[0x6000_0000]),
    ("sync",                            &[0x7c00_04ac]),
    ("a prefixed one, which this CPU has not", &[0x0600_0000, 0x3860_0000]),
];

/// Whether this is a priority hint: `or rN,rN,rN` with a register other than r0.
fn is_hint(word: u32) -> bool {
    let [from, to, other] = [21, 16, 11].map(|bit| word >> bit & 31);
    word & 0xfc00_07ff == 0x7c00_0378 && from == to && to == other && from != 0
}

fn ruined(after: &After) -> bool {
    after.register("ptcr") != Some(PAGE_TABLES) || after.register("lpcr") != Some(LPCR) || after.register("pid") != Some(1)
}

const PAGE: u64 = 0x1000;
/// LPCR: radix translation per process, exceptions with translation on, interrupts through SRR0.
const LPCR: u64 = 0x01d0_0008;
/// A radix tree for 39 bits with a root of 2^9 entries.
const TREE: u64 = 1 << 61 | 9;
const TABLE: u64 = 1 << 63 | 9;
/// A leaf: present, accessed, changed, privileged, readable, writable, executable.
const LEAF: u64 = 3 << 62 | 0x18f;

/// The partition table, the process table (the kernel's entry and an empty one), and three levels of the kernel's radix
/// tree. The vectors are mapped to the handlers.
fn pieces() -> Vec<Piece> {
    const DIRECTORIES: u64 = 4;
    let physical = |number: u64| PAGE_TABLES + number * PAGE;
    let mut words = vec![0u64; 9 * 512];
    let mut put = |table: u64, index: u64, entry: u64| words[(table * 512 + index) as usize] = entry;
    put(0, 0, 1 << 63);
    put(0, 1, 1 << 63 | physical(1));
    put(1, 0, physical(2) | TREE);
    put(1, 2, physical(8) | TREE);
    put(2, 0, physical(3) | TABLE);
    for directory in 0..DIRECTORIES {
        put(3, directory, physical(4 + directory) | TABLE);
        for page in 0..512 {
            let at = (directory * 512 + page) * PAGE;
            if is_mapped(at) {
                put(4 + directory, page, at | LEAF);
            }
        }
    }
    const VECTORS: u64 = 4;
    put(4, VECTORS, HANDLERS | LEAF);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let size = bytes.len() as u64;
    vec![(PAGE_TABLES, bytes, size)]
}

/// Sets the special registers for address translation, then continues at the mapped address of this code.
fn set_up(arch: Arch) -> Vec<u8> {
    let mut code = Vec::new();
    for (number, value) in [(318, LPCR), (319, 0), (48, 1), (464, PAGE_TABLES), (SRR1, KERNEL | u64::from(arch == Arch::Ppc64le))]
    {
        code.extend(load(value));
        code.push(mtspr(number));
    }
    let there = SEEN_FROM + ENTRY + (code.len() as u64 + 7) * 4;
    code.extend(load(there));
    code.extend([mtspr(SRR0), 0x4c00_0024, WAIT]); // rfid, to the wait after it
    code.iter().flat_map(|word| arch.isa().order.word_bytes(*word)).collect()
}

const SRR0: u32 = 26;
const SRR1: u32 = 27;

/// `mtspr` from r3.
const fn mtspr(number: u32) -> u32 {
    0x7c60_03a6 | (number & 31) << 16 | number >> 5 << 11
}

/// Code that loads a value into r3.
fn load(value: u64) -> [u32; 5] {
    let part = |number: u32| (value >> (16 * number)) as u32 & 0xffff;
    [0x3c60_0000 | part(3), 0x6063_0000 | part(2), 0x7863_07c6, 0x6463_0000 | part(1), 0x6063_0000 | part(0)]
}

const NARROW_SEEN_FROM: u64 = 0xc000_0000;
/// The instruction that ends each case: its handler sleeps, and SRR0 and SRR1 hold pc and state of the case.
const SYSTEM_CALL: u32 = 0x4400_0002;
/// MSR: address translation on, external interrupts off.
const NARROW_KERNEL: u64 = 0x1032;

/// The MSR of a case. The FPU is disabled in one case of 32, and some cases single-step.
fn narrow_state(drawn: u64) -> u64 {
    let unit = if drawn >> 40 & 31 == 0 { 0 } else { FLOATING_POINT };
    NARROW_KERNEL | unit | drawn & ARITHMETIC | if steps(drawn) { STEP } else { 0 }
}

#[rustfmt::skip]
const NARROW_LEFT_OUT: &[Reason] = &[
    ("with other segments a machine cannot continue, in place or out of line: mtsr, mtsrin", |bytes| {
        matches!(narrow_word(bytes) & 0xfc00_07fe, 0x7c00_01a4 | 0x7c00_01e4)
    }),
    ("a case ends by sleeping, which HID0 can disable: mtspr of HID0", |bytes| narrow_word(bytes) & 0xfc1f_fffe == mtspr(HID0) & !(31 << 21)),
];

fn narrow_word(bytes: &[u8]) -> u32 {
    bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

const VECTORS_BYTES: u64 = 0x1000;

/// All vectors have the same handler: it stores r0 for the comparison and sleeps. It changes only SPRG2 besides.
fn vectors() -> Vec<u8> {
    const HANDLER: [u32; 9] = [
        0x7ff2_43a6,                       // mtsprg 2, r31
        0x3fe0_0000 | (FREE >> 16) as u32, // lis r31, FREE
        0x901f_0000,                       // stw r0, 0(r31)
        0x7ff2_42a6,                       // mfsprg r31, 2
        0x3c00_0004,                       // lis r0, POW
        0x6000_1000,                       // ori r0, r0, ME
        0x7c00_04ac,                       // sync
        0x7c00_0124,                       // mtmsr r0
        0x4bff_fffc,                       // b back
    ];
    let mut bytes = vec![0; VECTORS_BYTES as usize];
    for vector in bytes.chunks_exact_mut(0x100) {
        for (place, word) in vector.chunks_exact_mut(4).zip(HANDLER) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }
    bytes
}

const HASHED_BYTES: u64 = 0x1_0000;
/// The kernel's virtual segment id (VSID).
const SEGMENT: u64 = 0x1_2345;

/// A hashed page table of 1024 groups. Every second page is in its secondary group.
fn hashed_pages() -> Vec<u8> {
    const SECOND: u64 = 1 << 6;
    /// Referenced, changed, privileged, readable, writable.
    const RIGHTS: u64 = 0x182;
    let mut bytes = vec![0; HASHED_BYTES as usize];
    for number in (0..0x800).filter(|number| is_mapped(number * PAGE)) {
        let at = NARROW_SEEN_FROM + number * PAGE;
        let hash = SEGMENT ^ at >> 12 & 0xffff;
        let (hash, second) = if number & 1 == 0 { (hash, 0) } else { (!hash, SECOND) };
        let name = 1 << 31 | SEGMENT << 7 | second | at >> 22 & 0x3f;
        let entry = (name << 32) | (number * PAGE) | RIGHTS;
        let group = &mut bytes[(hash & 0x3ff) as usize * 64..][..64];
        let free = group.chunks_exact_mut(8).find(|place| place.iter().all(|byte| *byte == 0)).expect("room in the group");
        free.copy_from_slice(&entry.to_be_bytes());
    }
    bytes
}

const HID0: u32 = 1008;

/// Maps code and the probe window by instruction BATs and everything else by the hashed table. Then continues at the
/// mapped address of this code.
fn narrow_set_up() -> Vec<u8> {
    /// The SPR numbers of the first two instruction BATs.
    const BLOCKS: [u32; 4] = [528, 529, 530, 531];
    /// The machine's address of the window: 2 MiB after the end of memory.
    const WINDOW: u64 = 0x100_0000;
    const TWO_MIB: u32 = 15 << 2;
    const SDR1: u32 = 25;
    const DOZE: u32 = 1 << 23;
    /// `mtsr` from r3.
    const MTSR: u32 = 0x7c60_01a4 | 12 << 16;
    let load = |value: u32| [0x3c60_0000 | value >> 16, 0x6063_0000 | value & 0xffff];
    let mut code = load(SEGMENT as u32).to_vec();
    code.push(MTSR);
    let seen = |at: u64| (NARROW_SEEN_FROM + at) as u32;
    let blocks = [seen(CODE) | 2, CODE as u32 | 2, seen(WINDOW) | TWO_MIB | 2, WINDOW as u32 | 2];
    let registers = [(SDR1, PAGE_TABLES as u32), (HID0, DOZE), (SRR1, NARROW_KERNEL as u32)];
    for (number, value) in BLOCKS.into_iter().zip(blocks).chain(registers) {
        code.extend(load(value));
        code.push(mtspr(number));
    }
    code.extend(load(seen(ENTRY + (code.len() as u64 + 4) * 4)));
    code.extend([mtspr(SRR0), 0x4c00_0064, SYSTEM_CALL]); // rfi, to the system call after it
    code.iter().flat_map(|word| word.to_be_bytes()).collect()
}

type HardBytes = [[u8; 8]; HARD.len()];
type Hard = [(&'static str, Arch, &'static [u8]); HARD.len()];

static LITTLE_BYTES: HardBytes = hard_bytes(true);
static BIG_BYTES: HardBytes = hard_bytes(false);
static HARD_LITTLE: Hard = hard(Arch::Ppc64le, &LITTLE_BYTES);
static HARD_BIG: Hard = hard(Arch::Ppc64, &BIG_BYTES);
static HARD_NARROW: Hard = hard(Arch::Ppc, &BIG_BYTES);

const fn hard_bytes(little: bool) -> HardBytes {
    let mut all = [[0; 8]; HARD.len()];
    let mut number = 0;
    while number < 8 * all.len() {
        let (row, place) = (number / 8, number % 8);
        if place / 4 < HARD[row].1.len() {
            let word = HARD[row].1[place / 4];
            all[row][place] = (if little { word.to_le_bytes() } else { word.to_be_bytes() })[place % 4];
        }
        number += 1;
    }
    all
}

const fn hard(arch: Arch, bytes: &'static HardBytes) -> Hard {
    let mut all: Hard = [("", arch, &[]); HARD.len()];
    let mut row = 0;
    while row < all.len() {
        all[row] = (HARD[row].0, arch, bytes[row].split_at(4 * HARD[row].1.len()).0);
        row += 1;
    }
    all
}

/// Instruction groups that random words rarely hit: the fixed bits, and the bits that vary.
#[rustfmt::skip]
const GROUPS: &[(u32, u32)] = &[
    (0x4800_0000, 0x0000_00ff), // b, bl, near
    (0x4000_0000, 0x03ff_00ff), // bc, near
    (0x4c00_0000, 0x03ff_ffff), // bclr, bcctr, bctar, condition register logic, addpcis
    (0x4c00_0020, 0x03ff_ffc1), // bclr, bcctr, bctar
    (0x7c00_0000, 0x03ff_ffff), // all extended opcodes
    (0x7c00_0214, 0x03ff_fc01), // add, addo
    (0x7c00_0010, 0x03ff_fdc1), // with carry
    (0x7c00_02a6, 0x03ff_f800), // mfspr
    (0x7c00_03a6, 0x03e9_0000), // mtspr of LR, CTR, XER
    (0x7800_0000, 0x03ff_ffff), // 64-bit rotates
    (0x2000_0000, 0x1fff_ffff), // immediate arithmetic, compares, 32-bit rotates
    (0x8000_0000, 0x5fff_00ff), // loads and stores, floating point included
    (0xe800_0000, 0x13ff_00ff), // loads and stores of doublewords
    (0xe400_0000, 0x13ff_00ff), // loads and stores of pairs and vectors
    (0xec00_0000, 0x13ff_ffff), // floating-point arithmetic
    (0x1000_0000, 0x03ff_ffff), // vectors
    (0xf000_0000, 0x03ff_ffff), // VSX
];
