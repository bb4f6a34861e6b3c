//! The lab's tables for RISC-V of both widths: page tables (Sv39 and Sv32), one handler for all exceptions, and a list of
//! hard instructions. [`Bench`] explains the fields.

use super::{After, Before, Bench, DATA, DATA_BYTES, ELSEWHERE, ENTRY, HANDLERS, PAGE_TABLES, PLACE, Piece, bench, is_mapped};
use capstone::{Arch as Family, Capstone, ExtraMode, Mode};
use proptest::prelude::*;
use trapline_isa::arch::Arch;
use trapline_isa::insn::Flow;
use trapline_isa::regs::Reg;
use trapline_isa::riscv::abi::F0;

/// The bench for 64 bits.
pub static BENCH_64: Bench = Bench {
    is_stood_for: false,
    base: BASE,
    seen_from: SEEN_64,
    jumps: true,
    is_hit: |_| Some(true),
    halt: &WFI.to_le_bytes(),
    // lw a1, 0(a1)
    load: Some(&[0x83, 0xa5, 0x05, 0x00]),
    set_up,
    pieces,
    refreshed: |_| Vec::new(),
    behind: |_| Vec::new(),
    not_general: &["epc", "status", "badaddr", "cause", "orig_a0"],
    ready: |_, _| (),
    // Floating point is disabled in one case of eight. SPIE and SPP are random.
    flags: ("status", |drawn| SUM | drawn & 0x120 | if drawn >> 40 & 7 == 0 { 0 } else { FS }),
    media: &MEDIA,
    ruined: |after| ruined(Arch::Riscv64, after),
    fault_address: "badaddr",
    left_out: &[],
    no_promise: &[],
    hard: HARD_64,
    case,
    disassembler: |_| Capstone::new_raw(Family::RISCV, Mode::RiscV64, [ExtraMode::RiscVC].into_iter(), None),
};

/// The bench for 32 bits.
pub static BENCH_32: Bench = Bench {
    seen_from: SEEN_32,
    ruined: |after| ruined(Arch::Riscv32, after),
    hard: HARD_32,
    disassembler: |_| Capstone::new_raw(Family::RISCV, Mode::RiscV32, [ExtraMode::RiscVC].into_iter(), None),
    ..BENCH_64
};

const BASE: u64 = 0x4000_0000;
/// The virtual start of RAM, near the probe window as in real kernels.
const SEEN_64: u64 = 0xffff_ffff_8800_0000;
const SEEN_32: u64 = 0xc000_0000;
const WFI: u32 = 0x1050_0073;

/// The fields of sstatus: the kernel may access programs' memory; floating point is on and its registers are dirty.
const SUM: u64 = 0x4_0000;
const FS: u64 = 0x6000;

/// All floating-point registers, and their control register.
const MEDIA: [Reg; 33] = {
    let mut all = [Reg(0); 33];
    let mut number = 0;
    while number < all.len() {
        all[number] = Reg(F0.0 + number as u8);
        number += 1;
    }
    all
};

const fn full(word: u32) -> [u8; 4] {
    word.to_le_bytes()
}

macro_rules! hard {
    ($name:ident, $arch:expr) => {
#[rustfmt::skip]
        const $name: &[(&str, Arch, &[u8])] = &[
            ("j to itself",                         $arch, &full(0x0000_006f)),
            ("jal forward",                         $arch, &full(0x0400_00ef)),
            ("jal with another link",               $arch, &full(0x0400_02ef)),
            ("jalr ra, ra",                         $arch, &full(0x0000_80e7)),
            ("jalr through its own register",       $arch, &full(0x0005_8567)),
            ("jalr with a distance",                $arch, &full(0x0085_80e7)),
            ("beq of one register",                 $arch, &full(0x02b5_8063)),
            ("bltu",                                $arch, &full(0x02b5_6063)),
            ("auipc",                               $arch, &full(0x0001_0517)),
            ("auipc of nothing",                    $arch, &full(0x0000_1017)),
            ("c.j",                                 $arch, &[0x11, 0xa0]),
            ("c.jr",                                $arch, &[0x82, 0x85]),
            ("c.jalr",                              $arch, &[0x82, 0x95]),
            ("c.jalr ra",                           $arch, &[0x82, 0x90]),
            ("c.beqz",                              $arch, &[0x91, 0xc1]),
            ("c.bnez",                              $arch, &[0x91, 0xe1]),
            ("c.nop",                               $arch, &[0x01, 0x00]),
            ("c.lwsp",                              $arch, &[0x22, 0x45]),
            ("c.addi16sp",                          $arch, &[0x41, 0x11]),
            ("lw that may fault",                   $arch, &full(0x0005_a503)),
            ("sw that may fault",                   $arch, &full(0x00a5_a023)),
            ("amoadd.w that may fault",             $arch, &full(0x00a5_a52f)),
            ("amoswap.w of nothing",                $arch, &full(0x0805_a02f)),
            ("div by zero",                         $arch, &full(0x0205_4533)),
            ("fadd.d, which may be off",            $arch, &full(0x02b5_7553)),
            ("fdiv.s, which sets flags",            $arch, &full(0x18b5_7553)),
            ("fld that may fault",                  $arch, &full(0x0005_b507)),
            ("fsd that may fault",                  $arch, &full(0x00a5_b027)),
        ];
    };
}
hard!(HARD_64, Arch::Riscv64);
hard!(HARD_32, Arch::Riscv32);

fn is_wide(arch: Arch) -> bool {
    arch.isa().word == 8
}

/// Whether a case has changed what the next one needs.
fn ruined(arch: Arch, after: &After) -> bool {
    const SUPERVISOR: u64 = 1;
    let expected = [("satp", satp(arch)), ("mode", SUPERVISOR), ("tvec", bench(arch).seen_from + HANDLERS)];
    expected.iter().any(|(name, value)| after.register(name) != Some(*value))
}

const PAGE: u64 = 0x1000;

fn satp(arch: Arch) -> u64 {
    let mode = if is_wide(arch) { 8 << 60 } else { 1 << 31 };
    mode | ((BASE + PAGE_TABLES) / PAGE)
}

/// Page tables under construction.
struct Tables {
    /// Bits of an index, and levels.
    form: (u32, u32),
    words: Vec<u64>,
}

impl Tables {
    fn new(arch: Arch) -> Tables {
        let form = if is_wide(arch) { (9, 3) } else { (10, 2) };
        Tables { form, words: vec![0; 1 << form.0] }
    }

    /// Maps a page: readable, writable, executable, global, accessed and dirty.
    fn map(&mut self, address: u64, physical: u64) {
        const LEAF: u64 = 0xef;
        let (stride, levels) = self.form;
        let mut table = 0;
        for level in (0..levels).rev() {
            let at = (table << stride) + (address >> (12 + stride * level) & ((1 << stride) - 1)) as usize;
            if level == 0 {
                self.words[at] = ((physical / PAGE) << 10) | LEAF;
            } else if self.words[at] == 0 {
                let next = self.words.len() >> stride;
                self.words.resize(self.words.len() + (1 << stride), 0);
                self.words[at] = ((BASE + PAGE_TABLES) / PAGE + next as u64) << 10 | 1;
                table = next;
            } else {
                table = ((self.words[at] >> 10) - (BASE + PAGE_TABLES) / PAGE) as usize;
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let bytes = if self.form.0 == 9 { 8 } else { 4 };
        self.words.iter().flat_map(|word| word.to_le_bytes()[..bytes].to_vec()).collect()
    }
}

/// Page tables: the lab's memory, and the set-up code at its load address.
fn pieces(arch: Arch) -> Vec<Piece> {
    let mut tables = Tables::new(arch);
    tables.map(BASE + ENTRY, BASE + ENTRY);
    for at in (0..0x100_0000).step_by(PAGE as usize).filter(|at| is_mapped(*at)) {
        tables.map(bench(arch).seen_from + at, BASE + at);
    }
    let bytes = tables.bytes();
    let size = bytes.len() as u64;
    vec![(PAGE_TABLES, bytes, size)]
}

/// Switches translation on, continues at the mapped address, sets the vector and floating point, and sleeps.
fn set_up(arch: Arch) -> Vec<u8> {
    const T0: u32 = 5;
    let load = if is_wide(arch) { 0x0002_b283 } else { 0x0002_a283 };
    let csrw = |csr: u32| csr << 20 | T0 << 15 | 0x1073;
    // Each value is loaded by `auipc t0, 0` and a load from behind the code; then an instruction uses it.
    let here = bench(arch).seen_from + ENTRY;
    let uses = [
        (satp(arch), csrw(0x180)),
        (here + 24, T0 << 15 | 0x67), // jr t0: to the instruction behind it
        (bench(arch).seen_from + HANDLERS, csrw(0x105)),
        (FS | SUM, csrw(0x100)),
    ];
    let bytes_of_code = 12 * uses.len() as u32 + 4;
    let literals = bytes_of_code.next_multiple_of(8);
    let mut code = Vec::new();
    for (number, (_, used)) in (0..).zip(uses) {
        let distance = literals + number * arch.isa().word as u32 - 12 * number;
        code.extend([0x17 | T0 << 7, load | distance << 20, used]);
    }
    code.push(WFI);
    let mut bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(literals as usize, 0);
    bytes.extend(uses.iter().flat_map(|(value, _)| value.to_le_bytes()[..arch.isa().word].to_vec()));
    bytes
}

/// Instruction groups that random words rarely hit: the fixed bits, and the bits that vary.
#[rustfmt::skip]
const GROUPS: &[(u32, u32)] = &[
    (0x0000_006f, 0x03ff_0f80), // jal, near
    (0x0000_0067, 0x01ff_8f80), // jalr
    (0x0000_0063, 0x03ff_ff80), // branches
    (0x0000_0017, 0x0001_ff80), // auipc
    (0x0000_0037, 0xffff_ff80), // lui
    (0x0000_0003, 0x03ff_ff80), // loads
    (0x0000_0023, 0x03ff_ff80), // stores
    (0x0000_0013, 0xffff_ff80), // arithmetic with a constant
    (0x0000_001b, 0xffff_ff80),
    (0x0000_0033, 0x43ff_ff80), // arithmetic
    (0x0000_003b, 0x43ff_ff80),
    (0x0000_002f, 0xffff_ff80), // atomic accesses
    (0x0000_0007, 0x03ff_ff80), // floating-point loads, stores
    (0x0000_0027, 0x03ff_ff80),
    (0x0000_0053, 0xffff_ff80), // floating-point arithmetic
    (0x0000_0043, 0xffff_ff8c), // multiply and add
];

/// Random instructions: one in three is compressed.
fn case(arch: Arch) -> BoxedStrategy<Before> {
    const REGISTERS: usize = 30;
    let seen_from = bench(arch).seen_from;
    let cut = if is_wide(arch) { u64::MAX } else { 0xffff_ffff };
    let group = (prop::sample::select(GROUPS), any::<u32>()).prop_map(|((fixed, varies), word)| fixed | word & varies);
    let word = prop_oneof![1 => any::<u32>().prop_map(|word| word | 3), 5 => group];
    let full = word.prop_map(|word| word.to_le_bytes().to_vec());
    let compressed = any::<u16>().prop_map(|half| half.to_le_bytes().to_vec());
    let register = prop_oneof![
        4 => (0..DATA_BYTES / 8).prop_map(move |index| seen_from + DATA + 8 * index),
        1 => (0..DATA_BYTES).prop_map(move |offset| seen_from + DATA + offset),
        2 => 0u64..40,
        1 => (0u64..16).prop_map(move |index| seen_from + ELSEWHERE + 4 * index),
        2 => any::<u64>(),
    ];
    let registers = prop::collection::vec(register.prop_map(move |value| value & cut), REGISTERS);
    (prop_oneof![2 => full, 1 => compressed], registers, any::<u64>(), any::<u64>())
        .prop_filter_map("no instruction", move |(bytes, registers, flags, seed)| {
            let insn =
                (arch.isa().decode)(seen_from + PLACE, &bytes).ok().filter(|insn| insn.length() as usize == bytes.len())?;
            // A branch into its own second half runs the trap's bytes there, under Linux's probes too.
            let half = seen_from + PLACE + 2;
            if insn.length() == 4 && matches!(insn.flow, Flow::Jump(to) | Flow::Branch(to) | Flow::Call(to) if to == half) {
                return None;
            }
            Some(Before { bytes, registers, flags, seed, ..Before::default() })
        })
        .boxed()
}
