//! The bench of 64-bit PowerPC with the low byte first: a radix tree, vectors, and what is known to be hard.

use super::{After, Bench, ENTRY, HANDLERS, Outcome, PAGE_TABLES, Piece, Reason, is_mapped, steps, words};
use capstone::Endian;
use capstone::prelude::*;
use trapline_isa::arch::Arch;
use trapline_isa::ppc::abi::VECTORS;
use trapline_isa::regs::Reg;

/// 64-bit PowerPC.
pub static BENCH: Bench = Bench {
    base: 0,
    seen_from: SEEN_FROM,
    jumps: true,
    is_hit: |_| Some(true),
    halt: &WAIT.to_le_bytes(),
    set_up: |_| set_up(),
    pieces: |_| pieces(),
    refreshed: |_| Vec::new(),
    behind: |_| Vec::new(),
    not_general: &["nip", "msr", "softe", "trap", "dar", "dsisr"],
    ready: |_, _| (),
    flags: ("msr", machine_state),
    media: &MEDIA,
    ruined,
    fault_address: "dar",
    left_out: LEFT_OUT,
    no_promise: NO_PROMISE,
    hard: HARD,
    case: |arch| words(arch, 3, GROUPS, 35),
    disassembler: |_| Capstone::new().ppc().mode(arch::ppc::ArchMode::Mode64).endian(Endian::Little).build(),
};

/// In front of the probe window.
const SEEN_FROM: u64 = 0xc000_0000_0000_0000;
const WAIT: u32 = 0x7c00_003c;

/// Both halves of all 64 registers of vectors and floating point.
const MEDIA: [Reg; 128] = {
    let mut all = [Reg(0); 128];
    let mut number = 0;
    while number < 128 {
        all[number] = Reg(VECTORS.0 + number as u8);
        number += 1;
    }
    all
};

/// 64 bits, the hypervisor's, translated, the low byte first, nothing let in.
const KERNEL: u64 = 1 << 63 | 1 << 60 | 0x1033;
const FLOATING_POINT: u64 = 1 << 13;
const VECTOR: u64 = 1 << 25;
const VSX: u64 = 1 << 23;
/// Exceptions of floating-point arithmetic arrive, precisely.
const ARITHMETIC: u64 = 1 << 11 | 1 << 8;
const STEP: u64 = 1 << 10;

/// In most cases all units are on; in some one is not, and in some the code is stepped.
fn machine_state(drawn: u64) -> u64 {
    let off = match drawn >> 40 & 31 {
        0 => FLOATING_POINT,
        1 => VECTOR,
        2 => VSX,
        _ => 0,
    };
    let units = (FLOATING_POINT | VECTOR | VSX) & !off;
    KERNEL | units | drawn & ARITHMETIC | if steps(drawn) { STEP } else { 0 }
}

#[rustfmt::skip]
const HARD: &[(&str, Arch, &[u8])] = &[
    ("b to itself",                     Arch::Ppc64le, &0x4800_0000_u32.to_le_bytes()),
    ("b forward",                       Arch::Ppc64le, &0x4800_0040_u32.to_le_bytes()),
    ("bl .+4",                          Arch::Ppc64le, &0x4800_0005_u32.to_le_bytes()),
    ("bla",                             Arch::Ppc64le, &0x4800_2103_u32.to_le_bytes()),
    ("beq",                             Arch::Ppc64le, &0x4182_0010_u32.to_le_bytes()),
    ("bne cr7",                         Arch::Ppc64le, &0x409e_0010_u32.to_le_bytes()),
    ("bdnz",                            Arch::Ppc64le, &0x4200_0010_u32.to_le_bytes()),
    ("bdz",                             Arch::Ppc64le, &0x4240_0010_u32.to_le_bytes()),
    ("bdnzt",                           Arch::Ppc64le, &0x4102_0010_u32.to_le_bytes()),
    ("bcl 20, 31, .+4: where am I",     Arch::Ppc64le, &0x429f_0005_u32.to_le_bytes()),
    ("blr",                             Arch::Ppc64le, &0x4e80_0020_u32.to_le_bytes()),
    ("blrl",                            Arch::Ppc64le, &0x4e80_0021_u32.to_le_bytes()),
    ("beqlr",                           Arch::Ppc64le, &0x4d82_0020_u32.to_le_bytes()),
    ("bdnzlr",                          Arch::Ppc64le, &0x4e00_0020_u32.to_le_bytes()),
    ("bctr",                            Arch::Ppc64le, &0x4e80_0420_u32.to_le_bytes()),
    ("bctrl",                           Arch::Ppc64le, &0x4e80_0421_u32.to_le_bytes()),
    ("beqctr",                          Arch::Ppc64le, &0x4d82_0420_u32.to_le_bytes()),
    ("bctarl",                          Arch::Ppc64le, &0x4e80_0461_u32.to_le_bytes()),
    ("addpcis r3, 1",                   Arch::Ppc64le, &0x4c60_0005_u32.to_le_bytes()),
    ("addpcis r3, -1",                  Arch::Ppc64le, &0x4c7f_ffc5_u32.to_le_bytes()),
    ("mflr r0",                         Arch::Ppc64le, &0x7c08_02a6_u32.to_le_bytes()),
    ("mtlr r7",                         Arch::Ppc64le, &0x7ce8_03a6_u32.to_le_bytes()),
    ("mtctr r7",                        Arch::Ppc64le, &0x7ce9_03a6_u32.to_le_bytes()),
    ("mfxer r3",                        Arch::Ppc64le, &0x7c61_02a6_u32.to_le_bytes()),
    ("mtxer r3",                        Arch::Ppc64le, &0x7c61_03a6_u32.to_le_bytes()),
    ("mfcr r3",                         Arch::Ppc64le, &0x7c60_0026_u32.to_le_bytes()),
    ("mtcrf 0x38, r3",                  Arch::Ppc64le, &0x7c63_8120_u32.to_le_bytes()),
    ("mcrxrx cr3",                      Arch::Ppc64le, &0x7d80_0480_u32.to_le_bytes()),
    ("mfmsr r3",                        Arch::Ppc64le, &0x7c60_00a6_u32.to_le_bytes()),
    ("mftb r3",                         Arch::Ppc64le, &0x7c6c_42a6_u32.to_le_bytes()),
    ("mfpurr r3",                       Arch::Ppc64le, &0x7c75_4aa6_u32.to_le_bytes()),
    ("mfvtb r3",                        Arch::Ppc64le, &0x7c71_d2a6_u32.to_le_bytes()),
    ("msgsnd r4",                       Arch::Ppc64le, &0x7c00_219c_u32.to_le_bytes()),
    ("mfdec r3",                        Arch::Ppc64le, &0x7c76_02a6_u32.to_le_bytes()),
    ("darn r3, 1",                      Arch::Ppc64le, &0x7c61_05e6_u32.to_le_bytes()),
    ("or 1, 1, 1: a hint",              Arch::Ppc64le, &0x7c21_0b78_u32.to_le_bytes()),
    ("or 31, 31, 31: a hint",           Arch::Ppc64le, &0x7fff_fb78_u32.to_le_bytes()),
    ("addo. r3, r4, r5",                Arch::Ppc64le, &0x7c64_2e15_u32.to_le_bytes()),
    ("addex r3, r4, r5",                Arch::Ppc64le, &0x7c64_2954_u32.to_le_bytes()),
    ("subfzeo. r3, r4",                 Arch::Ppc64le, &0x7c64_0591_u32.to_le_bytes()),
    ("divdo. r3, r4, r5",               Arch::Ppc64le, &0x7c64_2fd3_u32.to_le_bytes()),
    ("divweu r3, r4, r5",               Arch::Ppc64le, &0x7c64_2b16_u32.to_le_bytes()),
    ("ld that may fault",               Arch::Ppc64le, &0xe863_0000_u32.to_le_bytes()),
    ("stdu r1 and back",                Arch::Ppc64le, &0xf821_ffc1_u32.to_le_bytes()),
    ("ldu that may fault",              Arch::Ppc64le, &0xe885_0009_u32.to_le_bytes()),
    ("stwux that may fault",            Arch::Ppc64le, &0x7ca6_396e_u32.to_le_bytes()),
    ("lq: pairs",                       Arch::Ppc64le, &0xe084_0010_u32.to_le_bytes()),
    ("stq",                             Arch::Ppc64le, &0xf884_0012_u32.to_le_bytes()),
    ("lwbrx",                           Arch::Ppc64le, &0x7c60_242c_u32.to_le_bytes()),
    ("lmw: not with the low byte first", Arch::Ppc64le, &0xbba1_0010_u32.to_le_bytes()),
    ("lswi: neither",                   Arch::Ppc64le, &0x7c64_24aa_u32.to_le_bytes()),
    ("dcbz that may fault",             Arch::Ppc64le, &0x7c00_1fec_u32.to_le_bytes()),
    ("icbi",                            Arch::Ppc64le, &0x7c00_1fac_u32.to_le_bytes()),
    ("isync",                           Arch::Ppc64le, &0x4c00_012c_u32.to_le_bytes()),
    ("lfd that may fault",              Arch::Ppc64le, &0xc863_0000_u32.to_le_bytes()),
    ("stfsu",                           Arch::Ppc64le, &0xd464_0008_u32.to_le_bytes()),
    ("fadd.",                           Arch::Ppc64le, &0xfc64_282b_u32.to_le_bytes()),
    ("fdiv",                            Arch::Ppc64le, &0xfc64_2824_u32.to_le_bytes()),
    ("mtfsf",                           Arch::Ppc64le, &0xfdfe_1d8e_u32.to_le_bytes()),
    ("mffs",                            Arch::Ppc64le, &0xfc60_048e_u32.to_le_bytes()),
    ("lvx",                             Arch::Ppc64le, &0x7c60_20ce_u32.to_le_bytes()),
    ("stvx that may fault",             Arch::Ppc64le, &0x7c65_21ce_u32.to_le_bytes()),
    ("vaddubs",                         Arch::Ppc64le, &0x1064_2a00_u32.to_le_bytes()),
    ("vcmpequw.",                       Arch::Ppc64le, &0x1064_2c86_u32.to_le_bytes()),
    ("lxvd2x",                          Arch::Ppc64le, &0x7c60_2698_u32.to_le_bytes()),
    ("stxv",                            Arch::Ppc64le, &0xf464_0005_u32.to_le_bytes()),
    ("xvadddp",                         Arch::Ppc64le, &0xf064_2b00_u32.to_le_bytes()),
    ("a prefixed one, which this CPU has not", Arch::Ppc64le, &[0, 0, 0, 0x06, 0, 0, 0x60, 0x38]),
    ("nop",                             Arch::Ppc64le, &0x6000_0000_u32.to_le_bytes()),
    ("sync",                            Arch::Ppc64le, &0x7c00_04ac_u32.to_le_bytes()),
];

/// What cannot be compared, and why.
#[rustfmt::skip]
const LEFT_OUT: &[Reason] = &[
    ("the address of the last branch: it is that of the jump back, behind a copy", |bytes| word(bytes) & 0xfc1f_fffe == 0x7c1c_02a6),
    ("bctar with bits that mean nothing: CPUs ignore them, this core takes it for no instruction", |bytes| {
        word(bytes) & 0xfc00_07fe == 0x4c00_0460 && word(bytes) & 0xe000 != 0
    }),
    ("with other tables, or none, a machine goes on nowhere, in place or out of line: PID, AMR and their like", |bytes| {
        let word = word(bytes);
        let number = word >> 16 & 31 | (word >> 11 & 31) << 5;
        word >> 26 == 31 && word >> 1 & 0x3ff == 467 && matches!(number, 13 | 29 | 48 | 61 | 157 | 349 | 351)
    }),
];

/// What an instruction did in place that it need not do out of line, and why.
const NO_PROMISE: &[Outcome] =
    &[("a hint of priority that is stepped: this core takes it for a wait, and sleeps where it runs", |case, _| {
        is_hint(word(&case.bytes)) && machine_state(case.flags) & STEP != 0
    })];

/// `or` of one register, which is no move: r1 to r31.
fn is_hint(word: u32) -> bool {
    let [from, to, other] = [21, 16, 11].map(|bit| word >> bit & 31);
    word & 0xfc00_07ff == 0x7c00_0378 && from == to && to == other && from != 0
}

fn word(bytes: &[u8]) -> u32 {
    bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn ruined(after: &After) -> bool {
    after.register("ptcr") != Some(PAGE_TABLES) || after.register("lpcr") != Some(LPCR) || after.register("pid") != Some(1)
}

const PAGE: u64 = 0x1000;
/// Radix trees that each process has, exceptions with translation on, interrupts by SRR0.
const LPCR: u64 = 0x01d0_0008;
/// A tree for 39 bits, whose first table looks up nine of them.
const TREE: u64 = 1 << 61 | 9;
const TABLE: u64 = 1 << 63 | 9;
/// There, accessed and changed, the kernel's, to read, write and run.
const LEAF: u64 = 3 << 62 | 0x18f;

/// The table of partitions, that of processes (the kernel's, and a program's in which nothing is), and three levels of
/// the kernel's tree down to pages. The vectors are where the handlers lie.
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

/// The special registers that say how addresses are translated, then on at the same code where it is mapped.
fn set_up() -> Vec<u8> {
    const SRR0: u32 = 26;
    const SRR1: u32 = 27;
    let mtspr = |number: u32| 0x7c60_03a6 | (number & 31) << 16 | number >> 5 << 11;
    let mut code = Vec::new();
    for (number, value) in [(318, LPCR), (319, 0), (48, 1), (464, PAGE_TABLES), (SRR1, KERNEL)] {
        code.extend(load(value));
        code.push(mtspr(number));
    }
    let there = SEEN_FROM + ENTRY + (code.len() as u64 + 7) * 4;
    code.extend(load(there));
    code.extend([mtspr(SRR0), 0x4c00_0024, WAIT]); // rfid, to the wait behind it
    code.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// r3 := value.
fn load(value: u64) -> [u32; 5] {
    let part = |number: u32| (value >> (16 * number)) as u32 & 0xffff;
    [0x3c60_0000 | part(3), 0x6063_0000 | part(2), 0x7863_07c6, 0x6463_0000 | part(1), 0x6063_0000 | part(0)]
}

/// Fixed bits of groups that random words seldom hit, and which bits vary.
#[rustfmt::skip]
const GROUPS: &[(u32, u32)] = &[
    (0x4800_0000, 0x0000_00ff), // b, bl, near
    (0x4000_0000, 0x03ff_00ff), // bc, near
    (0x4c00_0000, 0x03ff_ffff), // bclr, bcctr, bctar, logic of conditions, addpcis
    (0x4c00_0020, 0x03ff_ffc1), // bclr, bcctr, bctar
    (0x7c00_0000, 0x03ff_ffff), // all that has an extended opcode
    (0x7c00_0214, 0x03ff_fc01), // add, addo
    (0x7c00_0010, 0x03ff_fdc1), // with carry
    (0x7c00_02a6, 0x03ff_f800), // mfspr
    (0x7c00_03a6, 0x03e9_0000), // mtspr of LR, CTR, XER
    (0x7800_0000, 0x03ff_ffff), // rotates of 64 bits
    (0x2000_0000, 0x1fff_ffff), // with immediate numbers, compares, rotates of 32 bits
    (0x8000_0000, 0x5fff_00ff), // loads and stores, of floating point too
    (0xe800_0000, 0x13ff_00ff), // of doublewords
    (0xe400_0000, 0x13ff_00ff), // of pairs and vectors
    (0xec00_0000, 0x13ff_ffff), // arithmetic of floating point
    (0x1000_0000, 0x03ff_ffff), // vectors
    (0xf000_0000, 0x03ff_ffff), // VSX
];
