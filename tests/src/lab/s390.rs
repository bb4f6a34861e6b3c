//! The lab's tables for z/Architecture: a segment table, a lowcore whose handlers stop the CPU, vector and
//! floating-point registers, and a list of hard instructions. [`Bench`] explains the fields.

use super::{
    After, Before, Bench, DATA, DATA_BYTES, ELSEWHERE, ENTRY, FREE, HANDLERS, MEDIA, PAGE_TABLES, PLACE, Piece, Reason, is_mapped,
};
use capstone::prelude::*;
use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use trapline_isa::arch::Arch;
use trapline_isa::s390::opcodes::{is_known, length};

/// The bench for the 64-bit addressing mode, in the home space.
pub static BENCH: Bench = Bench {
    is_stood_for: false,
    base: 0,
    seen_from: 0,
    jumps: true,
    is_hit: |_| Some(true),
    halt: &HALT,
    load: Some(&[0xe3, 0x30, 0x30, 0x00, 0x00, 0x04]),
    set_up: |_| set_up(),
    pieces: |_| pieces(),
    // Only the new PSWs are restored. The old PSWs in front of them record the exception.
    refreshed: |_| vec![(LOWCORE + CALL_HANDLER as u64, lowcore()[CALL_HANDLER..].to_vec())],
    behind: |_| behind(),
    not_general: &[],
    ready: |_, _| (),
    flags: ("cc", |drawn| drawn & 3),
    media: &[],
    ruined,
    // The fault address is in the lowcore.
    fault_address: "",
    left_out: LEFT_OUT,
    no_promise: &[],
    hard: HARD,
    case: |_| case(),
    disassembler: |_| Capstone::new().sysz().mode(arch::sysz::ArchMode::Default).build(),
};

/// `svc 0`. Its handler stops the CPU.
const HALT: [u8; 2] = [0x0a, 0];

/// PSW: address translation on, home space, 64-bit addressing, interrupts off.
const KERNEL: u64 = 1 << 58 | 3 << 46 | 3 << 31;
/// PSW: 64-bit addressing, disabled wait.
const STOPPED: u64 = 1 << 49 | 3 << 31;
const CONDITION: u64 = 3 << 44;
/// Control register 0: additional floating-point registers, vector registers.
const CONTROL_0: u64 = 1 << 18 | 1 << 17;
/// Address space control element: one segment table for 2 GiB.
const SPACE: u64 = PAGE_TABLES | 3;

/// The lowcore, and the offsets of its new PSWs for SVC and program interruptions.
const LOWCORE: u64 = FREE;
const CALL_HANDLER: usize = 0x1c0;
const PROGRAM_HANDLER: usize = 0x1d0;
const LOWCORE_BYTES: usize = 0x200;

fn lowcore() -> Vec<u8> {
    let mut bytes = vec![0; LOWCORE_BYTES];
    for (at, mask, address) in [(CALL_HANDLER, STOPPED, 0), (PROGRAM_HANDLER, KERNEL, HANDLERS)] {
        bytes[at..at + 8].copy_from_slice(&mask.to_be_bytes());
        bytes[at + 8..at + 16].copy_from_slice(&address.to_be_bytes());
    }
    bytes
}

const PAGE: u64 = 0x1000;
const SEGMENT: u64 = 1 << 20;
const SEGMENTS: u64 = 2048;
const INVALID: u64 = 0x20;
const PAGE_INVALID: u64 = 0x400;

/// Page tables for the lab's segments. The window may appear in the other segments. The first page receives the
/// registers that the machine does not expose, because it can be stored to without a base register.
fn pieces() -> Vec<Piece> {
    const WITH_PAGES: u64 = 8;
    let pages = PAGE_TABLES + SEGMENTS * 8;
    let segment = |number: u64| if number < WITH_PAGES { pages + number * 2048 } else { INVALID };
    let page = |at: u64| match at {
        0 => MEDIA,
        at if is_mapped(at) => at,
        _ => PAGE_INVALID,
    };
    let segments = (0..SEGMENTS).map(segment);
    let tables = segments.chain((0..WITH_PAGES * SEGMENT / PAGE).map(|number| page(number * PAGE)));
    let bytes: Vec<u8> = tables.flat_map(u64::to_be_bytes).collect();
    let size = bytes.len() as u64;
    vec![(PAGE_TABLES, bytes, size), (LOWCORE, lowcore(), 2 * PAGE)]
}

/// Loads control registers and the prefix, then the lab's PSW, which leads to a halt.
fn set_up() -> Vec<u8> {
    const NUMBERS: u64 = 0x40;
    #[rustfmt::skip]
    let code: &[&[u8]] = &[
        &[0xc0, 0x10, 0, 0, 0, NUMBERS as u8 / 2],  // larl %r1,numbers
        &[0xeb, 0x00, 0x10, 0x00, 0, 0x2f],         // lctlg %c0,%c0,0(%r1)
        &[0xeb, 0x11, 0x10, 0x08, 0, 0x2f],         // lctlg %c1,%c1,8(%r1)
        &[0xeb, 0x77, 0x10, 0x08, 0, 0x2f],         // lctlg %c7,%c7,8(%r1)
        &[0xeb, 0xdd, 0x10, 0x08, 0, 0x2f],         // lctlg %c13,%c13,8(%r1)
        &[0xb2, 0x10, 0x10, 0x10],                  // spx 16(%r1)
        &[0xb2, 0xb2, 0x10, 0x18],                  // lpswe 24(%r1)
        &HALT,
    ];
    let mut bytes = code.concat();
    let halt = ENTRY + bytes.len() as u64 - HALT.len() as u64;
    bytes.resize(NUMBERS as usize, 0);
    bytes.extend([CONTROL_0, SPACE, LOWCORE << 32, KERNEL, halt].iter().flat_map(|number| number.to_be_bytes()));
    bytes
}

/// Stores all vector registers but the last (they include the floating-point registers), then the FPC register.
fn behind() -> Vec<u8> {
    let store = |number: u8| {
        let at = 16 * u16::from(number);
        // vst %vN,at
        [0xe7, number << 4, (at >> 8) as u8, at as u8, if number < 16 { 0 } else { 8 }, 0x0e]
    };
    // stfpc 496
    (0..31).flat_map(store).chain([0xb2, 0x9c, 0x01, 0xf0]).collect()
}

fn ruined(after: &After) -> bool {
    let differs = |name: &str, expected: u64| after.register(name) != Some(expected);
    differs("cr0", CONTROL_0)
        || differs("cr1", SPACE)
        || differs("cr13", SPACE)
        || differs("prefix", LOWCORE)
        || after.register("psw.mask").is_none_or(|mask| mask & !CONDITION != KERNEL)
}

/// Instructions that cannot be compared, with the reason.
#[rustfmt::skip]
const LEFT_OUT: &[Reason] = &[
    ("writes to real addresses or translation tables: with other tables a machine cannot continue, in place or out of line", |bytes| {
        // stura, ipte, sturg, idte, crdte, pfmf, sske
        matches!(bytes, [0xb2, 0x46 | 0x21, ..] | [0xb9, 0x25 | 0x8e | 0x8f | 0xaf, ..])
    }),
    ("a load of the instruction itself sees the breakpoint on it, and after a store into the same translation block this core runs the old code", |bytes| {
        let near = |distance: i32| (-64..256).contains(&distance);
        matches!(bytes, [0xc4 | 0xc6, _, a, b, c, d] if near(i32::from_be_bytes([*a, *b, *c, *d])))
    }),
];

/// Random operands for a random opcode. Displacements are short, and relative operands point to data or nearby code.
fn case() -> BoxedStrategy<Before> {
    let codes: Vec<u16> = (0..=u16::MAX).filter(|code| is_known(*code)).collect();
    let instruction = prop_oneof![
        1 => any::<[u8; 6]>(),
        15 => (prop::sample::select(codes), any::<[u8; 6]>(), any::<bool>()).prop_map(|(code, random, far)| of(code, random, far)),
    ];
    let register = prop_oneof![
        4 => (0..DATA_BYTES / 8).prop_map(|index| DATA + 8 * index),
        1 => (0..DATA_BYTES).prop_map(|offset| DATA + offset),
        2 => 0u64..40,
        1 => (0u64..16).prop_map(|index| ELSEWHERE + 4 * index),
        2 => any::<u64>(),
    ];
    let cut = |bytes: [u8; 6]| bytes[..length(bytes[0])].to_vec();
    (instruction, prop::collection::vec(register, 15), any::<u64>(), any::<u64>())
        .prop_map(move |(bytes, registers, flags, seed)| Before {
            bytes: cut(bytes),
            registers,
            flags,
            seed,
            ..Before::default()
        })
        .boxed()
}

/// An instruction with that opcode. If `far`, a relative operand points to data.
pub fn of(code: u16, random: [u8; 6], far: bool) -> [u8; 6] {
    let [first, second] = code.to_be_bytes();
    let mut bytes = random;
    bytes[0] = first;
    match first {
        0x01 | 0xb2 | 0xb3 | 0xb9 | 0xe5 => bytes[1] = second,
        0xa5 | 0xa7 | 0xc0 | 0xc2 | 0xc4 | 0xc6 | 0xc8 | 0xcc => bytes[1] = bytes[1] & 0xf0 | second,
        0xe3 | 0xe6 | 0xe7 | 0xeb | 0xec | 0xed => bytes[5] = second,
        _ => {}
    }
    match first {
        0xe3 | 0xeb if random[4] >> 6 != 0 => bytes[4] = 0,
        0xa7 | 0xec if second != 0x01 && random[2] >> 6 != 0 => bytes[2] = 0,
        0xc0 | 0xc4 | 0xc6 if far => {
            let halfwords = (DATA - PLACE) / 2 + u64::from(random[2]) * 4;
            bytes[2..].copy_from_slice(&(halfwords as u32).to_be_bytes());
        }
        0xc0 | 0xc4 | 0xc6 => bytes[2..5].fill(0),
        _ => {}
    }
    bytes
}

#[rustfmt::skip]
const HARD: &[(&str, Arch, &[u8])] = &[
    ("j to itself",                     Arch::S390x, &[0xa7, 0xf4, 0, 0]),
    ("je forward",                      Arch::S390x, &[0xa7, 0x84, 0, 0x20]),
    ("jgnop: a function's entry",       Arch::S390x, &[0xc0, 0x04, 0, 0, 0, 0]),
    ("jg forward",                      Arch::S390x, &[0xc0, 0xf4, 0, 0, 0, 0x20]),
    ("bras .+4: where am I",            Arch::S390x, &[0xa7, 0xe5, 0, 2]),
    ("brasl forward",                   Arch::S390x, &[0xc0, 0xe5, 0, 0, 0, 0x20]),
    ("basr of its own link",            Arch::S390x, &[0x0d, 0xee]),
    ("basr that goes on",               Arch::S390x, &[0x0d, 0xe0]),
    ("balr in 64-bit mode",             Arch::S390x, &[0x05, 0xe3]),
    ("br %r14",                         Arch::S390x, &[0x07, 0xfe]),
    ("ber %r14",                        Arch::S390x, &[0x07, 0x8e]),
    ("bcr 15,0: a barrier",             Arch::S390x, &[0x07, 0xf0]),
    ("nopr",                            Arch::S390x, &[0x07, 0x07]),
    ("b 8(%r3,%r4)",                    Arch::S390x, &[0x47, 0xf3, 0x40, 0x08]),
    ("bct through its base",            Arch::S390x, &[0x46, 0x30, 0x30, 0x10]),
    ("bctgr that only counts",          Arch::S390x, &[0xb9, 0x46, 0, 0x30]),
    ("brct",                            Arch::S390x, &[0xa7, 0x36, 0, 0x10]),
    ("brctg",                           Arch::S390x, &[0xa7, 0x37, 0, 0x10]),
    ("brcth",                           Arch::S390x, &[0xcc, 0x36, 0, 0, 0, 0x10]),
    ("bxle",                            Arch::S390x, &[0x87, 0x34, 0x50, 0x10]),
    ("bxhg with an odd step",           Arch::S390x, &[0xeb, 0x35, 0x60, 0x10, 0, 0x44]),
    ("brxlg",                           Arch::S390x, &[0xec, 0x34, 0, 0x10, 0, 0x45]),
    ("cgrj",                            Arch::S390x, &[0xec, 0x34, 0, 0x10, 0x20, 0x64]),
    ("clij",                            Arch::S390x, &[0xec, 0x34, 0, 0x10, 7, 0x7f]),
    ("cgib",                            Arch::S390x, &[0xec, 0x38, 0x40, 0x10, 0xff, 0xfc]),
    ("clgrb",                           Arch::S390x, &[0xec, 0x34, 0x50, 0x10, 0x40, 0xe5]),
    ("larl",                            Arch::S390x, &[0xc0, 0x30, 0, 0, 0, 0x10]),
    ("lgrl of data",                    Arch::S390x, &[0xc4, 0x38, 0, 0x07, 0xff, 0x80]),
    ("lgrl that is not aligned",        Arch::S390x, &[0xc4, 0x38, 0, 0x07, 0xff, 0x81]),
    ("strl",                            Arch::S390x, &[0xc4, 0x3f, 0, 0x07, 0xff, 0x90]),
    ("clgrl",                           Arch::S390x, &[0xc6, 0x3a, 0, 0x07, 0xff, 0x80]),
    ("pfdrl",                           Arch::S390x, &[0xc6, 0x22, 0, 0x07, 0xff, 0x80]),
    ("tm: the condition code",          Arch::S390x, &[0x91, 0x55, 0x30, 0x04]),
    ("cr, then the condition",          Arch::S390x, &[0x19, 0x34]),
    ("ipm",                             Arch::S390x, &[0xb2, 0x22, 0, 0x30]),
    ("spm",                             Arch::S390x, &[0x04, 0x30]),
    ("alcgr with the carry",            Arch::S390x, &[0xb9, 0x88, 0, 0x34]),
    ("epsw",                            Arch::S390x, &[0xb9, 0x8d, 0, 0x34]),
    ("lg that may fault",               Arch::S390x, &[0xe3, 0x30, 0x40, 0, 0, 0x04]),
    ("ltg",                             Arch::S390x, &[0xe3, 0x30, 0x40, 0, 0, 0x02]),
    ("stg that may fault",              Arch::S390x, &[0xe3, 0x30, 0x40, 0, 0, 0x24]),
    ("stmg of a frame",                 Arch::S390x, &[0xeb, 0xaf, 0xf0, 0x68, 0, 0x24]),
    ("lmg over its own base",           Arch::S390x, &[0xeb, 0x35, 0x40, 0, 0, 0x04]),
    ("mvc that overlaps itself",        Arch::S390x, &[0xd2, 0x1f, 0x30, 1, 0x30, 0]),
    ("mvc that may fault at its end",   Arch::S390x, &[0xd2, 0xff, 0x30, 0, 0x40, 0]),
    ("xc",                              Arch::S390x, &[0xd7, 0x0f, 0x30, 0, 0x40, 0]),
    ("clc",                             Arch::S390x, &[0xd5, 0x0f, 0x30, 0, 0x40, 0]),
    ("trt: r1 and r2 change",           Arch::S390x, &[0xdd, 0x0f, 0x30, 0, 0x40, 0]),
    ("mvcl: four registers tell how far", Arch::S390x, &[0x0e, 0x46]),
    ("clcl",                            Arch::S390x, &[0x0f, 0x46]),
    ("mvcl of an odd register",         Arch::S390x, &[0x0e, 0x36]),
    ("mvcle",                           Arch::S390x, &[0xa8, 0x46, 0, 0]),
    ("clcle",                           Arch::S390x, &[0xa9, 0x46, 0, 0]),
    ("srst: ends by r0",                Arch::S390x, &[0xb2, 0x5e, 0, 0x34]),
    ("mvst",                            Arch::S390x, &[0xb2, 0x55, 0, 0x34]),
    ("cksm",                            Arch::S390x, &[0xb2, 0x41, 0, 0x34]),
    ("cs",                              Arch::S390x, &[0xba, 0x34, 0x50, 0]),
    ("csg",                             Arch::S390x, &[0xeb, 0x34, 0x50, 0, 0, 0x30]),
    ("cdsg of an odd register",         Arch::S390x, &[0xeb, 0x34, 0x50, 0, 0, 0x3e]),
    ("laag",                            Arch::S390x, &[0xeb, 0x34, 0x50, 0, 0, 0xe8]),
    ("lpd: two loads at once",          Arch::S390x, &[0xc8, 0x64, 0x30, 0, 0x40, 0]),
    ("dlgr by what may be zero",        Arch::S390x, &[0xb9, 0x87, 0, 0x43]),
    ("dsgr",                            Arch::S390x, &[0xb9, 0x0d, 0, 0x43]),
    ("stck",                            Arch::S390x, &[0xb2, 0x05, 0x30, 0]),
    ("stckf",                           Arch::S390x, &[0xb2, 0x7c, 0x30, 0]),
    ("stpt",                            Arch::S390x, &[0xb2, 0x09, 0x30, 0]),
    ("stap",                            Arch::S390x, &[0xb2, 0x12, 0x30, 0]),
    ("stfle",                           Arch::S390x, &[0xb2, 0xb0, 0x30, 0]),
    ("lra",                             Arch::S390x, &[0xb1, 0x30, 0x40, 0]),
    ("lurag",                           Arch::S390x, &[0xb9, 0x05, 0, 0x34]),
    ("stctg",                           Arch::S390x, &[0xeb, 0x0f, 0x30, 0, 0, 0x25]),
    ("ptlb: what is known of addresses is forgotten", Arch::S390x, &[0xb2, 0x0d, 0, 0]),
    ("ear",                             Arch::S390x, &[0xb2, 0x4f, 0, 0x34]),
    ("sar",                             Arch::S390x, &[0xb2, 0x4e, 0, 0x34]),
    ("ld that may fault",               Arch::S390x, &[0x68, 0x30, 0x40, 0]),
    ("std",                             Arch::S390x, &[0x60, 0x30, 0x40, 0]),
    ("lfpc of what may be none",        Arch::S390x, &[0xb2, 0x9d, 0x30, 0]),
    ("adbr",                            Arch::S390x, &[0xb3, 0x1a, 0, 0x34]),
    ("ddbr",                            Arch::S390x, &[0xb3, 0x1d, 0, 0x34]),
    ("cgdbr",                           Arch::S390x, &[0xb3, 0xaa, 0x50, 0x34]),
    ("kdb",                             Arch::S390x, &[0xed, 0x30, 0x40, 0, 0, 0x18]),
    ("vl that may fault",               Arch::S390x, &[0xe7, 0x30, 0x40, 0, 0, 0x06]),
    ("vst",                             Arch::S390x, &[0xe7, 0x30, 0x40, 0, 0, 0x0e]),
    ("vlm",                             Arch::S390x, &[0xe7, 0x03, 0x40, 0, 0, 0x36]),
    ("vag",                             Arch::S390x, &[0xe7, 0x34, 0x50, 0, 0x30, 0xf3]),
    ("vceqgs: the condition code",      Arch::S390x, &[0xe7, 0x34, 0x50, 0x10, 0x30, 0xf8]),
    ("vlvgg",                           Arch::S390x, &[0xe7, 0x34, 0x00, 0x01, 0x30, 0x22]),
    ("sqxbr: 128 bits",                 Arch::S390x, &[0xb3, 0x16, 0, 0x45]),
    ("sqxbr of no pair",                Arch::S390x, &[0xb3, 0x16, 0, 0x43]),
    ("what is privileged and none here: ptff", Arch::S390x, &[0x01, 0x04]),
];
