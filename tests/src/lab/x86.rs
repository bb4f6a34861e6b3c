//! The lab's tables for i386 and x86_64: page tables, descriptors, interrupt gates, and a list of hard instructions.
//! [`Bench`] explains the fields.

use super::{
    After, Before, Bench, DATA, DATA_BYTES, ELSEWHERE, EXCEPTION_STACK, FREE, HANDLERS, LAST_PAGE, MEDIA, Outcome, PAGE_TABLES,
    PLACE, Piece, Reason, is_mapped, steps,
};
use proptest::prelude::*;
use trapline::machine::What;
use trapline_isa::arch::Arch;

/// The bench for i386 and x86_64.
pub static BENCH: Bench = Bench {
    is_stood_for: false,
    base: 0,
    seen_from: 0,
    jumps: true,
    is_hit: |_| Some(true),
    halt: &[HALT],
    load: Some(&[0x8b, 0x03]),
    set_up,
    pieces,
    refreshed: |arch| vec![(GATES, gates(arch)), (DESCRIPTORS, descriptors(arch)), (HANDLERS + 16, CLEAR_STEP.to_vec())],
    behind: save_media,
    not_general: &["orig_ax", "ip", "cs", "flags", "ss", "ds", "es", "fs", "gs"],
    ready: |_, _| (),
    // Arithmetic flags, IF, DF, NT, AC and, in cases that single-step, TF. Bit 1 is always set.
    flags: ("flags", |drawn| drawn & 0x4_4ed5 | if steps(drawn) { 1 << 8 } else { 0 } | 2),
    media: &[],
    ruined,
    fault_address: "cr2",
    left_out: LEFT_OUT,
    no_promise: NO_PROMISE,
    hard: HARD,
    case: |arch| case(arch).boxed(),
    disassembler: |arch| {
        use capstone::prelude::*;
        let mode = if arch == Arch::X86_64 { arch::x86::ArchMode::Mode64 } else { arch::x86::ArchMode::Mode32 };
        Capstone::new().x86().mode(mode).build()
    },
};

const HALT: u8 = 0xf4;
/// The handler of the debug exception clears DR6, as kernels do, then sleeps: push eax; mov dr6, reset value; pop eax;
/// hlt.
const CLEAR_STEP: [u8; 11] = [0x50, 0xb8, 0xf0, 0x0f, 0xff, 0xff, 0x0f, 0x23, 0xf0, 0x58, HALT];
const DESCRIPTORS: u64 = FREE;
const GATES: u64 = FREE + 0x1000;
const TASK_STATE: u64 = FREE + 0x2000;

#[rustfmt::skip]
const HARD: &[(&str, Arch, &[u8])] = &[
    ("a RIP-relative load",              Arch::X86_64, &[0x48, 0x8b, 0x05, 0x00, 0xff, 0x0f, 0x00]),
    ("a RIP-relative load that faults",  Arch::X86_64, &[0x48, 0x8b, 0x05, 0x00, 0x00, 0x00, 0x02]),
    ("rep movsb",                        Arch::X86_64, &[0xf3, 0xa4]),
    ("rep stosq",                        Arch::X86_64, &[0xf3, 0x48, 0xab]),
    ("repne scasb",                      Arch::I386,   &[0xf2, 0xae]),
    ("call rel32",                       Arch::X86_64, &[0xe8, 0x10, 0x00, 0x00, 0x00]),
    ("call through the stack pointer",   Arch::X86_64, &[0xff, 0xd4]),
    ("call through memory",              Arch::X86_64, &[0xff, 0x13]),
    ("push of the stack pointer",        Arch::X86_64, &[0x54]),
    ("ret imm16",                        Arch::I386,   &[0xc2, 0x08, 0x00]),
    ("jrcxz",                            Arch::X86_64, &[0xe3, 0x10]),
    ("jecxz",                            Arch::X86_64, &[0x67, 0xe3, 0x10]),
    ("loop with a 32-bit counter",       Arch::X86_64, &[0x67, 0xe2, 0x10]),
    ("loopne",                           Arch::I386,   &[0xe0, 0x10]),
    ("popf",                             Arch::X86_64, &[0x9d]),
    ("popfw",                            Arch::X86_64, &[0x66, 0x9d]),
    ("pushf",                            Arch::I386,   &[0x9c]),
    ("sti",                              Arch::X86_64, &[0xfb]),
    ("cli",                              Arch::I386,   &[0xfa]),
    ("rdtsc",                            Arch::X86_64, &[0x0f, 0x31]),
    ("cpuid",                            Arch::X86_64, &[0x0f, 0xa2]),
    ("div that may fault",               Arch::X86_64, &[0x48, 0xf7, 0xf1]),
    ("lock cmpxchg16b",                  Arch::X86_64, &[0xf0, 0x48, 0x0f, 0xc7, 0x0f]),
    ("a selector that faults",           Arch::I386,   &[0x8e, 0xd8]),
    ("an x87 load",                      Arch::X86_64, &[0xd9, 0x03]),
    ("an x87 load on i386",              Arch::I386,   &[0xdd, 0x03]),
    ("an x87 store",                     Arch::I386,   &[0xd9, 0x1b]),
    ("x87 arithmetic on registers",      Arch::X86_64, &[0xd8, 0xc1]),
    ("the x87's environment",            Arch::X86_64, &[0xd9, 0x33]),
    ("the x87's state",                  Arch::I386,   &[0xdd, 0x33]),
    ("the x87's environment, loaded",    Arch::I386,   &[0xd9, 0x23]),
    ("fxsave",                           Arch::X86_64, &[0x0f, 0xae, 0x03]),
    ("an SSE load",                      Arch::X86_64, &[0x0f, 0x10, 0x05, 0x00, 0xff, 0x0f, 0x00]),
    ("a jump to itself",                 Arch::X86_64, &[0xeb, 0xfe]),
];

/// Instructions that cannot be compared, with the reason.
#[rustfmt::skip]
const LEFT_OUT: &[Reason] = &[
    ("with arbitrary paging and protection a machine cannot continue, in place or out of line", |bytes| bytes.windows(2).any(|pair| pair == [0x0f, 0x22])),
    ("Unicorn takes the operand of RET imm16 for signed (docs/unicorn.md); we compute what a CPU does", |bytes| bytes.len() >= 3 && bytes[bytes.len() - 3] == 0xc2 && bytes[bytes.len() - 1] >= 0x80),
];

/// Outcomes in place that cannot be compared, with the reason.
const NO_PROMISE: &[Outcome] = &[(
    "the bare board's port 0x604 puts the CPU to sleep behind the block of the OUT, which a copy ends earlier; no other board has it",
    |case, _| {
        let is_out = case.bytes.last().is_some_and(|opcode| matches!(opcode, 0x6e | 0x6f | 0xee | 0xef));
        is_out && case.registers.iter().any(|value| (0x600..0x608).contains(&(value & 0xffff)))
    },
)];

fn ruined(after: &After) -> bool {
    after.register("cr3") != Some(PAGE_TABLES)
        || after.register("cs") != Some(0x10)
        // A single-step flag in DR6 that no handler has cleared.
        || after.register("dr6") != Some(0xffff_0ff0)
        || after.happened.iter().any(|event| matches!(event.what, What::Exception(8, _)))
}

fn pieces(arch: Arch) -> Vec<Piece> {
    let tables = page_tables(arch);
    let tables_size = tables.len() as u64;
    vec![
        (DESCRIPTORS, descriptors(arch), 0x100),
        (GATES, gates(arch), 0x1000),
        (TASK_STATE, task_state(), 0x80),
        (PAGE_TABLES, tables, tables_size),
    ]
}

fn set_up(arch: Arch) -> Vec<u8> {
    let mut code = Vec::new();
    let mut put = |bytes: &[u8]| code.extend_from_slice(bytes);
    put(&[0xb8]);
    put(&(PAGE_TABLES as u32).to_le_bytes()); // mov eax, page tables
    put(&[0x0f, 0x22, 0xd8]); // mov cr3, eax
    put(&[0x0f, 0x20, 0xe0, 0x0d, 0x00, 0x06, 0x00, 0x00, 0x0f, 0x22, 0xe0]); // cr4 |= OSFXSR | OSXMMEXCPT
    put(&[0x0f, 0x20, 0xc0, 0x0d, 0x03, 0x00, 0x01, 0x80, 0x0f, 0x22, 0xc0]); // cr0 |= PG | WP | MP | PE
    let (gdt, idt) = ((DESCRIPTORS + 0x80) as u32, (DESCRIPTORS + 0x90) as u32);
    let absolute: &[u8] = if arch == Arch::X86_64 { &[0x25] } else { &[] };
    for (opcode, at) in [(0x14_u8, gdt), (0x1c, idt)] {
        let modrm = if arch == Arch::X86_64 { opcode } else { opcode | 1 };
        put(&[0x0f, 0x01, modrm]);
        put(absolute);
        put(&at.to_le_bytes());
    }
    put(&[0x66, 0xb8, 0x20, 0x00, 0x0f, 0x00, 0xd8]); // ltr
    put(&[HALT]);
    code
}

/// `fxsave [MEDIA]`: stores the x87 and SSE registers, which the machine does not expose.
fn save_media(arch: Arch) -> Vec<u8> {
    let mut code = vec![0x0f, 0xae];
    code.extend(if arch == Arch::X86_64 { &[0x04, 0x25][..] } else { &[0x05] });
    code.extend((MEDIA as u32).to_le_bytes());
    code
}

/// Descriptors: null, unused, code, data, task. The GDTR and IDTR values follow.
fn descriptors(arch: Arch) -> Vec<u8> {
    let long = arch == Arch::X86_64;
    let code: u64 = if long { 0x00af_9b00_0000_ffff } else { 0x00cf_9b00_0000_ffff };
    let task =
        0x0000_8900_0000_0067 | (TASK_STATE & 0xffff) << 16 | (TASK_STATE >> 16 & 0xff) << 32 | (TASK_STATE >> 24 & 0xff) << 56;
    let mut bytes: Vec<u8> =
        [0, 0, code, 0x00cf_9300_0000_ffff, task, 0].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    bytes.resize(0x80, 0);
    bytes.extend(0x2f_u16.to_le_bytes());
    bytes.extend(DESCRIPTORS.to_le_bytes());
    bytes.resize(0x90, 0);
    bytes.extend((if long { 0xfff_u16 } else { 0x7ff }).to_le_bytes());
    bytes.extend(GATES.to_le_bytes());
    bytes.resize(0x100, 0);
    bytes
}

/// An IDT in which every vector leads to a HLT of its own, on a separate stack where the ISA supports that.
fn gates(arch: Arch) -> Vec<u8> {
    let gate = |vector: u64| {
        let target = HANDLERS + vector * 16;
        let low = target & 0xffff | 0x10 << 16 | 0x8e00 << 32 | (target >> 16 & 0xffff) << 48;
        match arch {
            Arch::X86_64 => [low | 1 << 32, 0].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>(),
            _ => low.to_le_bytes().to_vec(),
        }
    };
    (0..256).flat_map(gate).collect()
}

fn task_state() -> Vec<u8> {
    let mut bytes = vec![0; 0x80];
    bytes[36..44].copy_from_slice(&EXCEPTION_STACK.to_le_bytes());
    bytes
}

/// Identity mapping of the lab's memory and nothing else, so that a stray jump ends soon. On x86_64 also a directory
/// for the top of the address space, where the window appears. The very last page is mapped, too.
fn page_tables(arch: Arch) -> Vec<u8> {
    const TABLE: u64 = 0x1000;
    const PRESENT_WRITABLE: u64 = 3;
    let last = LAST_PAGE | PRESENT_WRITABLE;
    let table = |number: u64| (PAGE_TABLES + number * TABLE) | PRESENT_WRITABLE;
    let pages = (0..4096u64).map(|page| page << 12).map(|at| if is_mapped(at) { at | PRESENT_WRITABLE } else { 0 });
    match arch {
        Arch::X86_64 => {
            let mut words = vec![0u64; 5 * 512];
            (words[0], words[511]) = (table(1), table(3));
            words[512] = table(2);
            for directory in 0..8 {
                words[2 * 512 + directory] = table(5 + directory as u64);
            }
            words[3 * 512 + 510] = table(4);
            words.extend(pages);
            words.resize(15 * 512, 0);
            words[3 * 512 + 511] = table(13);
            words[13 * 512 + 511] = table(14);
            words[14 * 512 + 511] = last;
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        }
        _ => {
            let mut words = vec![0u32; 1024];
            for (directory, word) in words.iter_mut().enumerate().take(4) {
                *word = table(1 + directory as u64) as u32;
            }
            words.extend(pages.map(|word| word as u32));
            words[1023] = table(5) as u32;
            words.resize(6 * 1024, 0);
            words[5 * 1024 + 1023] = last as u32;
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        }
    }
}

fn case(arch: Arch) -> impl Strategy<Value = Before> {
    let prefix = prop_oneof![
        6 => Just(vec![]),
        3 => prop::sample::select(vec![0x66u8, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0xf0]).prop_map(|byte| vec![byte]),
        1 => (prop::sample::select(vec![0x66u8, 0xf2, 0xf3]), prop::sample::select(vec![0x67u8, 0x66, 0xf0])).prop_map(|(a, b)| vec![a, b]),
    ];
    let rex = if arch == Arch::X86_64 {
        prop_oneof![Just(vec![]), (0x40u8..0x50).prop_map(|byte| vec![byte])].boxed()
    } else {
        Just(vec![]).boxed()
    };
    let opcode = prop_oneof![
        6 => any::<u8>().prop_map(|byte| vec![byte]),
        4 => any::<u8>().prop_map(|byte| vec![0x0f, byte]),
        1 => (prop::sample::select(vec![0x38u8, 0x3a]), any::<u8>()).prop_map(|(map, byte)| vec![0x0f, map, byte]),
    ];
    let register = prop_oneof![
        4 => (0..DATA_BYTES).prop_map(|offset| DATA + offset),
        2 => 0u64..40,
        1 => (0u64..64).prop_map(|offset| ELSEWHERE + offset),
        2 => any::<u64>(),
    ];
    // Small displacements keep more memory operands inside the data.
    let operands =
        (any::<u8>(), any::<u8>(), prop_oneof![3 => (0u32..64).prop_map(|small| small), 1 => any::<u32>()], any::<u64>())
            .prop_map(|(modrm, sib, displacement, immediate)| {
                let mut bytes = vec![modrm, sib];
                bytes.extend(displacement.to_le_bytes());
                bytes.extend(immediate.to_le_bytes());
                bytes
            });
    (prefix, rex, opcode, operands, prop::collection::vec(register, 16), any::<u64>(), any::<u64>()).prop_filter_map(
        "no instruction",
        move |(prefix, rex, opcode, operands, registers, flags, seed)| {
            let bytes: Vec<u8> = [prefix, rex, opcode, operands].concat();
            let insn = (arch.isa().decode)(PLACE, &bytes).ok()?;
            Some(Before { bytes: insn.bytes().to_vec(), registers, flags, seed, ..Before::default() })
        },
    )
}
