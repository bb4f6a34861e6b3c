//! The lab's tables for 32-bit ARM: page tables with small pages, vectors that record the exception, and a list of hard
//! instructions. [`Bench`] explains the fields.

use super::{
    After, Before, Bench, DATA, DATA_BYTES, ELSEWHERE, ENTRY, EXCEPTION_STACK, HANDLERS, Outcome, PAGE_TABLES, PLACE, Reason,
    is_mapped,
};
use capstone::prelude::*;
use proptest::prelude::*;
use trapline::machine::What;
use trapline_isa::arch::Arch;
use trapline_isa::arm::abi::D0;
use trapline_isa::arm::{Set, emulate, rules};
use trapline_isa::plan::Policy;
use trapline_isa::regs::Reg;

/// The bench for A32 code.
pub static BENCH: Bench = Bench {
    is_stood_for: false,
    base: BASE,
    seen_from: SEEN_FROM,
    jumps: true,
    is_hit: |case| Some(holds(word(&case.bytes) >> 28, case.flags)),
    halt: &WFI.to_le_bytes(),
    load: Some(&[0x00, 0x00, 0x93, 0xe5]),
    set_up: |_| set_up(),
    pieces: |_| vec![(PAGE_TABLES, page_tables(), 0x8000)],
    refreshed: |_| vec![(HANDLERS, vectors())],
    behind: |_| Vec::new(),
    not_general: &["pc", "cpsr", "ORIG_r0"],
    ready: |_, _| (),
    // NZCV, Q and GE flags. All exceptions are masked, as in an exception handler.
    flags: ("cpsr", |drawn| drawn & 0xf80f_0000 | 0x1c0),
    media: &MEDIA,
    ruined,
    fault_address: "dfar",
    left_out: LEFT_OUT,
    no_promise: NO_PROMISE,
    hard: HARD,
    case: |arch| case(arch).boxed(),
    disassembler: |_| Capstone::new().arm().mode(arch::arm::ArchMode::Arm).build(),
};

/// The bench for T16 and T32 code. Thumb has no jump optimisation.
pub static THUMB_BENCH: Bench = Bench {
    jumps: false,
    // Inside an IT block the condition depends on the instructions in front.
    is_hit: |case| case.front.is_empty().then_some(true),
    halt: &THUMB_WFI.to_le_bytes(),
    load: Some(&[0x18, 0x68]),
    ready: |_, _| (),
    flags: ("cpsr", |drawn| drawn & 0xf80f_0000 | 0x1c0 | THUMB),
    left_out: THUMB_LEFT_OUT,
    no_promise: THUMB_NO_PROMISE,
    hard: THUMB_HARD,
    case: |arch| thumb_case(arch).boxed(),
    disassembler: |_| Capstone::new().arm().mode(arch::arm::ArchMode::Thumb).build(),
    ..BENCH
};

const BASE: u64 = 0x4000_0000;
/// The virtual start of RAM, above the probe window as in real kernels.
const SEEN_FROM: u64 = 0xc000_0000;
const WFI: u32 = 0xe320_f003;
const SUPERVISOR: u64 = 0x13;
/// A mode that is otherwise unused (FIQ). Its stack pointer points to the area where exceptions are recorded.
const FAST: u32 = 0x11;

/// All VFP/NEON registers.
const MEDIA: [Reg; 32] = {
    let mut all = [Reg(0); 32];
    let mut number = 0;
    while number < all.len() {
        all[number] = Reg(D0.0 + number as u8);
        number += 1;
    }
    all
};

#[rustfmt::skip]
const HARD: &[(&str, Arch, &[u8])] = &[
    ("b to itself",                     Arch::Arm, &0xeaff_fffe_u32.to_le_bytes()),
    ("bl forward",                      Arch::Arm, &0xeb00_0010_u32.to_le_bytes()),
    ("bne",                             Arch::Arm, &0x1a00_0008_u32.to_le_bytes()),
    ("blxgt r3",                        Arch::Arm, &0xc12f_ff33_u32.to_le_bytes()),
    ("blx to Thumb code",               Arch::Arm, &0xfb00_0010_u32.to_le_bytes()),
    ("bx lr",                           Arch::Arm, &0xe12f_ff1e_u32.to_le_bytes()),
    ("mov pc, lr",                      Arch::Arm, &0xe1a0_f00e_u32.to_le_bytes()),
    ("addeq pc, pc, r2, lsl #2",        Arch::Arm, &0x008f_f102_u32.to_le_bytes()),
    ("adds r0, pc, r2, ror #3",         Arch::Arm, &0xe09f_01e2_u32.to_le_bytes()),
    ("adr r1",                          Arch::Arm, &0xe28f_1018_u32.to_le_bytes()),
    ("str pc that may fault",           Arch::Arm, &0xe583_f000_u32.to_le_bytes()),
    ("stmdb {fp, ip, lr, pc}, likewise", Arch::Arm, &0xe923_d800_u32.to_le_bytes()),
    ("ldr r2, literal",                 Arch::Arm, &0xe59f_2040_u32.to_le_bytes()),
    ("ldr pc, literal",                 Arch::Arm, &0xe59f_f040_u32.to_le_bytes()),
    ("ldr pc, [r3], #4",                Arch::Arm, &0xe493_f004_u32.to_le_bytes()),
    ("ldrd r2, r3, literal",            Arch::Arm, &0xe1cf_24d0_u32.to_le_bytes()),
    ("ldrsh r2, literal",               Arch::Arm, &0xe1df_24f0_u32.to_le_bytes()),
    ("str pc, [r3, #4]!",               Arch::Arm, &0xe5a3_f004_u32.to_le_bytes()),
    ("push {r4, lr, pc}",               Arch::Arm, &0xe92d_c010_u32.to_le_bytes()),
    ("pop {r4, pc}",                    Arch::Arm, &0xe8bd_8010_u32.to_le_bytes()),
    ("ldmdane r3, {r0, r3, pc}",        Arch::Arm, &0x1813_8009_u32.to_le_bytes()),
    ("ldmib sp, {r4, fp, sp, pc}",      Arch::Arm, &0xe99d_a810_u32.to_le_bytes()),
    ("ldmia r3, user's registers",      Arch::Arm, &0xe8d3_6001_u32.to_le_bytes()),
    ("mov ip, sp",                      Arch::Arm, &0xe1a0_c00d_u32.to_le_bytes()),
    ("mrs r3, cpsr",                    Arch::Arm, &0xe10f_3000_u32.to_le_bytes()),
    ("msr cpsr_f, r3",                  Arch::Arm, &0xe128_f003_u32.to_le_bytes()),
    ("cpsid if",                        Arch::Arm, &0xf10c_00c0_u32.to_le_bytes()),
    ("sel after flags",                 Arch::Arm, &0xe683_2fb4_u32.to_le_bytes()),
    ("uadd8",                           Arch::Arm, &0xe653_2f94_u32.to_le_bytes()),
    ("qaddvs",                          Arch::Arm, &0x6103_2054_u32.to_le_bytes()),
    ("sdiv, which this core has not",   Arch::Arm, &0xe713_f412_u32.to_le_bytes()),
    ("dsb sy",                          Arch::Arm, &0xf57f_f04f_u32.to_le_bytes()),
    ("mrc TPIDRURO",                    Arch::Arm, &0xee1d_3f70_u32.to_le_bytes()),
    ("mcr TPIDRPRW",                    Arch::Arm, &0xee0d_3f90_u32.to_le_bytes()),
    ("vadd.f64",                        Arch::Arm, &0xee31_2b03_u32.to_le_bytes()),
    ("vaddhi.f32",                      Arch::Arm, &0x8e31_1a02_u32.to_le_bytes()),
    ("vldmia that may fault",           Arch::Arm, &0xec93_2b08_u32.to_le_bytes()),
    ("vld1 that may fault",             Arch::Arm, &0xf423_278d_u32.to_le_bytes()),
    ("vadd.i32 q",                      Arch::Arm, &0xf224_0842_u32.to_le_bytes()),
    ("vmov d2, r3, r4",                 Arch::Arm, &0xec44_3b12_u32.to_le_bytes()),
    ("vmrs flags, fpscr",               Arch::Arm, &0xeef1_fa10_u32.to_le_bytes()),
];

/// Instructions that cannot be compared, with the reason.
#[rustfmt::skip]
const LEFT_OUT: &[Reason] = &[
    ("with arbitrary domains a machine cannot continue, in place or out of line", |bytes| word(bytes) & 0x0f1f_0f10 == 0x0e03_0f10),
    ("pldw is emulated as on CPUs that implement it; this core does not", |bytes| word(bytes) & 0xfd30_f000 == 0xf510_f000 && word(bytes) & 1 << 22 == 0),
    ("the cycle counter returns the host's time", |bytes| word(bytes) & 0x0f1f_0f10 == 0x0e19_0f10 || word(bytes) & 0x0ff0_0ff0 == 0x0c50_0f00),
];

/// Outcomes in place that cannot be compared, with the reason.
#[rustfmt::skip]
const NO_PROMISE: &[Outcome] = &[
    ("a load of the instruction itself sees the breakpoint on it, and a store overwrites it", |case, _| touches_itself(case)),
    ("PC-relative instructions are emulated and their copy is undefined: a faulting access is reported as an undefined instruction",
        |case, after| counts_from_pc(&case.bytes) && after.happened.iter().any(|event| event.what == DATA_ABORT && event.pc == SEEN_FROM + PLACE)),
];

/// A data abort, as the machine reports it.
const DATA_ABORT: What = What::Exception(4, None);

/// Whether the instruction may access memory just before the pc value that it reads.
fn touches_itself(case: &Before) -> bool {
    const NEAR: std::ops::RangeInclusive<u32> = 1..=16;
    let word = word(&case.bytes);
    let register = case.registers.get((word & 15) as usize).map_or(0, |value| *value as u32);
    let offset = match (word >> 25 & 7, word >> 22 & 1) {
        (2, _) => word & 0xfff,
        (3, _) => register << (word >> 7 & 31),
        (0, 1) => word >> 4 & 0xf0 | word & 15,
        (0, _) => register,
        _ => return false,
    };
    word >> 16 & 15 == 15 && (NEAR.contains(&offset) || NEAR.contains(&offset.wrapping_neg()))
}

fn counts_from_pc(bytes: &[u8]) -> bool {
    (Arch::Arm.isa().decode)(SEEN_FROM + PLACE, bytes).is_ok_and(|insn| rules::counts_from_pc(Set::A32, &insn))
}

fn word(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

/// The T bit (Thumb state) of the CPSR.
const THUMB: u64 = 1 << 5;
const THUMB_WFI: u16 = 0xbf30;

/// The bytes of a Thumb instruction. Values of 0x10000 and above have two halfwords.
pub fn thumb_bytes(word: u32) -> Vec<u8> {
    let halves = [(word >> 16) as u16, word as u16];
    let skipped = if halves[0] == 0 { 1 } else { 0 };
    halves[skipped..].iter().flat_map(|half| half.to_le_bytes()).collect()
}

fn thumb_word(bytes: &[u8]) -> u32 {
    match *bytes {
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_le_bytes([c, d, a, b]),
        _ => 0,
    }
}

#[rustfmt::skip]
const THUMB_HARD: &[(&str, Arch, &[u8])] = &[
    ("b to itself",                     Arch::Thumb2, &[0xfe, 0xe7]),
    ("bne",                             Arch::Thumb2, &[0x10, 0xd1]),
    ("bls.w",                           Arch::Thumb2, &[0x40, 0xf2, 0x40, 0x80]),
    ("bl",                              Arch::Thumb2, &[0x00, 0xf0, 0x20, 0xf8]),
    ("blx to A32 code",                 Arch::Thumb2, &[0x00, 0xf0, 0x20, 0xe8]),
    ("bx lr",                           Arch::Thumb2, &[0x70, 0x47]),
    ("blx r3",                          Arch::Thumb2, &[0x98, 0x47]),
    ("mov pc, r3",                      Arch::Thumb2, &[0x9f, 0x46]),
    ("add r1, pc",                      Arch::Thumb2, &[0x79, 0x44]),
    ("cmp pc, r1",                      Arch::Thumb2, &[0x8f, 0x45]),
    ("cbz r3",                          Arch::Thumb2, &[0x43, 0xb1]),
    ("cbnz r5",                         Arch::Thumb2, &[0x45, 0xb9]),
    ("adr r1",                          Arch::Thumb2, &[0x08, 0xa1]),
    ("ldr r2, literal",                 Arch::Thumb2, &[0x10, 0x4a]),
    ("ldr.w pc, literal",               Arch::Thumb2, &[0xdf, 0xf8, 0x40, 0xf0]),
    ("ldrsh.w r2, literal",             Arch::Thumb2, &[0xbf, 0xf9, 0x40, 0x20]),
    ("ldrd r2, r3, literal",            Arch::Thumb2, &[0xdf, 0xe9, 0x10, 0x23]),
    ("pop {r4, pc}",                    Arch::Thumb2, &[0x10, 0xbd]),
    ("pop.w {r4, r8, pc}",              Arch::Thumb2, &[0xbd, 0xe8, 0x10, 0x81]),
    ("push {r4, lr}",                   Arch::Thumb2, &[0x10, 0xb5]),
    ("tbb [pc, r9]",                    Arch::Thumb2, &[0xdf, 0xe8, 0x09, 0xf0]),
    ("tbh [r3, r2, lsl #1]",            Arch::Thumb2, &[0xd3, 0xe8, 0x12, 0xf0]),
    ("str that may fault",              Arch::Thumb2, &[0x1a, 0x60]),
    ("mrs r3, cpsr",                    Arch::Thumb2, &[0xef, 0xf3, 0x00, 0x83]),
    ("msr cpsr_f, r3",                  Arch::Thumb2, &[0x83, 0xf3, 0x00, 0x88]),
    ("cpsid i",                         Arch::Thumb2, &[0x72, 0xb6]),
    ("adds, narrow",                    Arch::Thumb2, &[0x1a, 0x44]),
    ("adcs.w",                          Arch::Thumb2, &[0x51, 0xeb, 0x02, 0x00]),
    ("mrc TPIDRURO",                    Arch::Thumb2, &[0x1d, 0xee, 0x70, 0x3f]),
    ("vadd.f64",                        Arch::Thumb2, &[0x31, 0xee, 0x03, 0x2b]),
    ("vadd.i32 q",                      Arch::Thumb2, &[0x24, 0xef, 0x42, 0x08]),
    ("sdiv, which this core may not have", Arch::Thumb2, &[0x93, 0xfb, 0xf2, 0xf1]),
];

#[rustfmt::skip]
const THUMB_LEFT_OUT: &[Reason] = &[
    ("with arbitrary domains a machine cannot continue, in place or out of line", |bytes| thumb_word(bytes) & 0xff1f_0f10 == 0xee03_0f10),
    ("pldw is emulated as on CPUs that implement it; this core does not", |bytes| thumb_word(bytes) & 0xff70_f000 == 0xf830_f000),
    ("the cycle counter returns the host's time", |bytes| thumb_word(bytes) & 0xff1f_0f10 == 0xee19_0f10 || thumb_word(bytes) & 0xfff0_0ff0 == 0xec50_0f00),
];

#[rustfmt::skip]
const THUMB_NO_PROMISE: &[Outcome] = &[
    ("PC-relative instructions are emulated and their copy is undefined: a faulting access is reported as an undefined instruction",
        |case, after| {
            let at = SEEN_FROM + PLACE;
            let reads = (Arch::Thumb2.isa().decode)(at, &case.bytes).is_ok_and(|insn| rules::counts_from_pc(Set::Thumb, &insn));
            reads && after.happened.iter().any(|event| event.what == DATA_ABORT && event.pc == at)
        }),
    ("a load of the instruction itself sees the breakpoint on it", |case, _| {
        let word = thumb_word(&case.bytes);
        let near = word & 0xfff <= 8 || word & 0xff <= 2 && word >> 25 == 0x74;
        word >> 16 & 0x0f == 15 && word >> 25 != 0x78 && word >> 16 != 0 && near
    }),
];

/// Whether a condition code is met. Unconditional instructions always pass.
fn holds(condition: u32, flags: u64) -> bool {
    emulate::holds(condition as u8, flags as u32)
}

fn ruined(after: &After) -> bool {
    const MODE_AND_ENDIAN: u64 = 0x21f;
    after.register("ttbr0") != Some(BASE + PAGE_TABLES)
        || after.register("cpsr").map(|state| state & MODE_AND_ENDIAN) != Some(SUPERVISOR)
        || after.happened.iter().any(|event| event.what == What::SystemCall)
}

/// A first-level table and second-level tables for 8 MiB. The set-up code is also mapped at its load address.
fn page_tables() -> Vec<u8> {
    const SECTIONS: u64 = 4096;
    const PAGES: u64 = 256;
    const KERNEL_ONLY: u64 = 1 << 10;
    const PAGE: u64 = 2 | 1 << 4;
    let mut words = vec![0u32; (SECTIONS + 8 * PAGES) as usize];
    let mut put = |index: u64, entry: u64| words[index as usize] = entry as u32;
    let loaded = BASE + ENTRY;
    put(loaded >> 20, loaded & !0xf_ffff | KERNEL_ONLY | 2);
    for table in 0..8 {
        put((SEEN_FROM >> 20) + table, (BASE + PAGE_TABLES + 4 * SECTIONS + 4 * PAGES * table) | 1);
        for page in 0..PAGES {
            let at = table << 20 | page << 12;
            if is_mapped(at) {
                put(SECTIONS + table * PAGES + page, (BASE + at) | PAGE);
            }
        }
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn set_up() -> Vec<u8> {
    let mut code = Vec::new();
    // System registers by CRn, CRm and opc2 of `mcr p15`.
    for (crn, crm, op2, value) in [
        (3, 0, 0, 1), // domain 0: client
        (2, 0, 2, 0),
        (2, 0, 0, BASE + PAGE_TABLES),
        (12, 0, 0, SEEN_FROM + HANDLERS),
        (1, 0, 2, 0xf << 20), // access to VFP/NEON
    ] {
        code.extend(load(0, value));
        code.push(0xee00_0f10 | crn << 16 | op2 << 5 | crm);
    }
    code.extend(load(0, 1 << 30));
    code.push(0xeee8_0a10); // vmsr fpexc, r0
    code.push(0xf102_0000 | FAST); // cps
    code.extend(load(13, SEEN_FROM + EXCEPTION_STACK));
    code.push(0xf102_0000 | SUPERVISOR as u32);
    code.extend([0xee11_0f10, 0xe380_0001, 0xee01_0f10, 0xf57f_f06f]); // SCTLR |= M; isb
    let here = code.len() as u64 * 4;
    code.extend(load(0, SEEN_FROM + ENTRY + here + 3 * 4));
    code.extend([0xe12f_ff10, WFI]); // bx r0: continue at the mapped address of this code
    code.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// All vectors branch to the same code. It stores LR and SPSR on the exception stack, switches to supervisor mode and
/// sleeps.
pub(super) fn vectors() -> Vec<u8> {
    const COMMON: u32 = 8;
    let branch = |vector: u32| 0xea00_0000 | COMMON.wrapping_sub(vector + 2) & 0xff_ffff;
    let common = [0xf94d_0500 | FAST, 0xf102_0000 | SUPERVISOR as u32, WFI]; // srsdb sp, #; cps
    (0..COMMON).map(branch).chain(common).flat_map(u32::to_le_bytes).collect()
}

/// Code that loads a value into a register.
fn load(register: u32, value: u64) -> [u32; 2] {
    let half = |half: u64| (half as u32 & 0xf000) << 4 | half as u32 & 0xfff | register << 12;
    [0xe300_0000 | half(value & 0xffff), 0xe340_0000 | half(value >> 16 & 0xffff)]
}

/// Random register values: mostly pointers to data, sometimes small numbers, pointers to code of either state, or
/// anything.
fn registers() -> impl Strategy<Value = Vec<u64>> {
    let register = prop_oneof![
        4 => (0..DATA_BYTES / 4).prop_map(|index| SEEN_FROM + DATA + 4 * index),
        1 => (0..DATA_BYTES).prop_map(|offset| SEEN_FROM + DATA + offset),
        2 => 0u64..40,
        1 => (0u64..32).prop_map(|index| SEEN_FROM + ELSEWHERE + index),
        2 => any::<u32>().prop_map(u64::from),
    ];
    prop::collection::vec(register, 15)
}

/// Random A32 cases. Half of the words match a row of the rules tables, mostly a row that is not refused. Half of all
/// have condition AL.
fn case(arch: Arch) -> impl Strategy<Value = Before> {
    let rows: Vec<(u32, u32)> = rules::rows(Set::A32, 4).collect();
    let of_row = (prop::sample::select(rows), any::<u32>()).prop_map(|((mask, value), word)| value | word & !mask);
    let instruction = (prop_oneof![1 => any::<u32>(), 3 => of_row], any::<bool>())
        .prop_map(|(word, always)| if always && word >> 28 != 15 { word | 0xe000_0000 } else { word });
    (instruction, registers(), any::<u64>(), any::<u64>(), 0u32..8).prop_filter_map(
        "an instruction that is refused",
        move |(word, registers, flags, seed, all)| {
            let bytes = word.to_le_bytes().to_vec();
            let insn = (arch.isa().decode)(SEEN_FROM + PLACE, &bytes).ok()?;
            let runs = all == 0 || (arch.isa().plan)(&insn, Policy::Best).is_ok();
            runs.then_some(Before { bytes, registers, flags, seed, ..Before::default() })
        },
    )
}

/// Random Thumb cases, mostly words that match a row of the rules tables and are not refused.
fn thumb_case(arch: Arch) -> impl Strategy<Value = Before> {
    let word = (prop::sample::select(thumb_rows()), any::<u32>()).prop_map(|((mask, value), word)| value | word & !mask);
    let any_word = prop_oneof![any::<u16>().prop_map(u32::from), any::<u32>()];
    let instruction = prop_oneof![1 => any_word, 3 => word];
    (instruction, registers(), any::<u64>(), any::<u64>(), 0u32..8).prop_filter_map(
        "an instruction that is refused",
        move |(word, registers, flags, seed, all)| {
            let insn = (arch.isa().decode)(SEEN_FROM + PLACE, &thumb_bytes(word)).ok()?;
            let runs = all == 0 || (arch.isa().plan)(&insn, Policy::Best).is_ok();
            let bytes = insn.bytes().to_vec();
            runs.then_some(Before { bytes, registers, flags, seed, ..Before::default() })
        },
    )
}

/// The rows of the Thumb rules tables as (mask, value), with those of the coprocessors. 16-bit rows are widened to 32
/// bits.
pub fn thumb_rows() -> Vec<(u32, u32)> {
    let narrow = rules::rows(Set::Thumb, 2).map(|(mask, value)| (mask | 0xffff_0000, value));
    let coprocessors =
        rules::rows(Set::A32, 4).filter(|(_, value)| (0xc..=0xe).contains(&(value >> 24 & 15)) && value >> 28 != 15);
    let coprocessors = coprocessors.map(|(mask, value)| (mask | 0xf000_0000, value | 0xe000_0000));
    narrow.chain(rules::rows(Set::Thumb, 4)).chain(coprocessors).collect()
}
