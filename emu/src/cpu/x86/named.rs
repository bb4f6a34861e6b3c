//! The architectural state by register names, for snapshots: the fields of the core's state, and the bits that each can
//! have.
//!
//! All other bytes of the state must be as after reset, or the save fails. So the table is complete, or the error names
//! the missing byte. Lazily computed flags are evaluated first. State that follows from other fields (rounding modes)
//! is set through Unicorn's register interface.

use super::state::{CR, DR, EFER, EIP, GDT, HFLAGS, IDT, LSTAR, OLD_EXCEPTION, REGS, SEGMENTS, SIZE, STAR, TR, X87_PC};
use crate::cpu::Named;
use crate::snapshot::registers::{Values, Wanted};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::offsets::x86_64 as offset;
use std::ops::Range;
use std::sync::LazyLock;
use unicorn_engine_sys::RegisterX86;

/// The functions of this file.
pub const NAMED: Named = Named { save, check, load, save_shared, check_shared, load_shared };

/// A field of the core's state.
struct Field {
    name: String,
    at: usize,
    bytes: usize,
    /// The bits that can be set.
    bits: u128,
}

const WORD: u128 = u64::MAX as u128;
const HALF: u128 = u32::MAX as u128;
const SHORT: u128 = u16::MAX as u128;

const GENERAL: [&str; 16] =
    ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
/// The names of segment registers, in the order of the CPU state; TR is last.
const SEGMENT_NAMES: [&str; 8] = ["es", "cs", "ss", "ds", "fs", "gs", "ldt", "tr"];
const SEGMENT_BYTES: usize = (TR - SEGMENTS) / 7;

/// All flags: CF PF AF ZF SF TF IF DF OF IOPL NT RF VM AC VIF VIP ID, and the bit that is always set.
const FLAGS: u128 = 0x3f_7fd7;
const FLAGS_NAME: &str = "flags";
const ALWAYS_SET: u64 = 2;

// Hidden flags: privilege, interrupt shadow, widths, and copies of bits of CR0, CR4, EFER and flags. SMM, SVM, MPX and
// the mark of an I/O breakpoint are excluded, because guests cannot set them here.
const HIDDEN: u128 = 0x00c7_fffb;
/// The second word of hidden flags: interrupts globally enabled (GIF), an NMI is being served.
const HIDDEN_2: u128 = 0b101;

/// CR0: PE MP EM TS ET NE WP AM NW CD PG.
const CR0_BITS: u128 = 0xe005_003f;
/// CR4: all bits that the core knows.
const CR4_BITS: u128 = 0x0077_ffff;
/// EFER: SCE LME LMA NX, and SVME, LMSLE, FFXSR.
const EFER_BITS: u128 = 0x7d01;

const X87_CONTROL: (&str, usize) = ("x87.control", offset::X87_CONTROL);
const SSE_CONTROL: (&str, usize) = ("mxcsr", offset::MXCSR);
const REGISTERS_80: usize = offset::X87_REGISTERS;
const TAGS: usize = offset::X87_TAGS;
const XMM: usize = offset::XMM;
/// The size of the widest vector registers. This CPU has only the low 16 bytes.
const XMM_STRIDE: usize = offset::XMM_1 - offset::XMM;

/// name, offset, bytes, valid bits
#[rustfmt::skip]
const SINGLE: &[(&str, usize, usize, u128)] = &[
    ("pc",              EIP,                     8, WORD),
    ("hidden",          HFLAGS,                  4, HIDDEN),
    ("hidden.2",        offset::HFLAGS_2,        4, HIDDEN_2),
    ("gdt.base",        GDT + 8,                 8, WORD),
    ("gdt.limit",       GDT + 16,                4, HALF),
    ("idt.base",        IDT + 8,                 8, WORD),
    ("idt.limit",       IDT + 16,                4, HALF),
    ("cr0",             CR,                      8, CR0_BITS),
    ("cr2",             CR + 16,                 8, WORD),
    ("cr3",             CR + 24,                 8, WORD),
    ("cr4",             CR + 32,                 8, CR4_BITS),
    ("cr8",             offset::TPR,             1, 0x0f),
    ("efer",            EFER,                    8, EFER_BITS),
    ("x87.top",         offset::X87_TOP,         4, 7),
    ("x87.status",      offset::X87_STATUS,      2, SHORT),
    (X87_CONTROL.0,     X87_CONTROL.1,           2, SHORT),
    ("x87.opcode",      offset::X87_OPCODE,      2, SHORT),
    ("x87.code",        offset::X87_CODE,        2, SHORT),
    ("x87.data",        offset::X87_DATA,        2, SHORT),
    ("x87.code.at",     X87_PC,                  8, WORD),
    ("x87.data.at",     offset::X87_DATA_AT,     8, WORD),
    (SSE_CONTROL.0,     SSE_CONTROL.1,           4, 0xffff),
    ("sysenter.cs",     offset::SYSENTER_CS,     4, HALF),
    ("sysenter.sp",     offset::SYSENTER_SP,     8, WORD),
    ("sysenter.pc",     offset::SYSENTER_PC,     8, WORD),
    ("star",            STAR,                    8, WORD),
    ("vm_hsave",        offset::VM_HSAVE,        8, WORD),
    ("lstar",           LSTAR,                   8, WORD),
    ("cstar",           offset::CSTAR,           8, WORD),
    ("fmask",           offset::FMASK,           8, WORD),
    ("kernel_gs_base",  offset::KERNEL_GS_BASE,  8, WORD),
    ("tsc",             offset::TSC,             8, WORD),
    ("tsc.adjust",      offset::TSC_ADJUST,      8, WORD),
    ("tsc.deadline",    offset::TSC_DEADLINE,    8, WORD),
    ("tsc.aux",         offset::TSC_AUX,         8, WORD),
    ("xcr0",            offset::XCR0,            8, 0b11),
    ("mcg.status",      offset::MCG_STATUS,      8, WORD),
    ("misc_enable",     offset::MISC_ENABLE,     8, WORD),
    ("feature_control", offset::FEATURE_CONTROL, 8, WORD),
    ("pat",             offset::PAT,             8, WORD),
    ("pkru",            offset::PKRU,            4, HALF),
    ("spec_ctrl",       offset::SPEC_CTRL,       8, WORD),
    ("tsc.offset",      offset::TSC_OFFSET,      8, WORD),
    ("dr0",             DR,                      8, WORD),
    ("dr1",             DR + 8,                  8, WORD),
    ("dr2",             DR + 16,                 8, WORD),
    ("dr3",             DR + 24,                 8, WORD),
    ("dr6",             DR + 48,                 8, HALF),
    ("dr7",             DR + 56,                 8, HALF),
];

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let mut fields = Vec::new();
    let mut add = |name: String, at, bytes, bits| fields.push(Field { name, at, bytes, bits });
    for (number, name) in GENERAL.iter().enumerate() {
        add(name.to_string(), REGS + 8 * number, 8, WORD);
    }
    for (number, name) in SEGMENT_NAMES.iter().enumerate() {
        let at = SEGMENTS + SEGMENT_BYTES * number;
        add(format!("{name}.selector"), at, 4, SHORT);
        add(format!("{name}.base"), at + 8, 8, WORD);
        add(format!("{name}.limit"), at + 16, 4, HALF);
        add(format!("{name}.flags"), at + 20, 4, HALF);
    }
    for (name, at, bytes, bits) in SINGLE {
        add(name.to_string(), *at, *bytes, *bits);
    }
    for number in 0..8 {
        add(format!("x87.{number}"), REGISTERS_80 + 16 * number, 10, (1 << 80) - 1);
        add(format!("x87.{number}.empty"), TAGS + number, 1, 1);
    }
    for number in 0..16 {
        add(format!("xmm{number}"), XMM + XMM_STRIDE * number, 16, u128::MAX);
    }
    fields
});

/// State that the core keeps for itself: lazily computed flags (saved as `flags`), rounding modes (derived from the
/// control words), scratch values, the last exception's error code, and padding.
const OWN: &[Range<usize>] = &[
    offset::EFLAGS..HFLAGS,           // the flags, in several words
    offset::ROUNDING..offset::MXCSR,  // rounding and scratch
    offset::SCRATCH..offset::YMM,     // scratch
    offset::ERROR_CODE..DR,           // the last exception
    OLD_EXCEPTION..OLD_EXCEPTION + 4, // reset, as at every delivery
    offset::RETURN_ADDRESS..SIZE,     // the position in translated code
];

/// For each byte of the state, whether a field or [`OWN`] covers it.
static ACCOUNTED: LazyLock<Vec<bool>> = LazyLock::new(|| {
    let mut bytes = vec![false; SIZE];
    let fill = (0..8).map(|number| REGISTERS_80 + 16 * number + 10..REGISTERS_80 + 16 * number + 16);
    let named = FIELDS.iter().map(|field| field.at..field.at + field.bytes);
    for range in OWN.iter().cloned().chain(fill).chain(named) {
        bytes[range].fill(true);
    }
    bytes
});

fn save(cpu: &TrapContext, image: &mut CoreState, reset: &CoreState) -> Result<Values, String> {
    let handle = cpu.handle();
    image.save(handle);
    let (mut now, mut then) = (vec![0; SIZE], vec![0; SIZE]);
    if !image.read(0, &mut now) || !reset.read(0, &mut then) {
        return Err("the CPU core's state has an unknown size".into());
    }
    let strange = (0..SIZE).find(|at| now[*at] != then[*at] && !ACCOUNTED[*at]);
    if let Some(at) = strange {
        return Err(format!("byte {at} of the CPU's state has a value that no known register explains"));
    }
    let mut registers = Values::default();
    for field in FIELDS.iter() {
        let value = value(image, field);
        if value & !field.bits != 0 {
            return Err(format!("the register `{}` is {value:#x}, which it should not be", field.name));
        }
        registers.put(&*field.name, value);
    }
    registers.put(FLAGS_NAME, (handle.read(RegisterX86::EFLAGS) & u64::from(u32::MAX)).into());
    Ok(registers)
}

fn value(image: &CoreState, field: &Field) -> u128 {
    let mut bytes = [0; 16];
    image.read(field.at, &mut bytes[..field.bytes]);
    u128::from_le_bytes(bytes)
}

fn values(registers: &Values) -> Result<Vec<u128>, String> {
    let fields = FIELDS.iter().map(|field| Wanted { name: &field.name, bits: field.bits });
    registers.read(fields.chain([Wanted { name: FLAGS_NAME, bits: FLAGS }]))
}

fn check(registers: &Values) -> Result<(), String> {
    values(registers).map(|_| ())
}

fn load(cpu: &TrapContext, _: &mut CoreState, reset: &CoreState, registers: &Values) -> Result<(), String> {
    let values = values(registers)?;
    reset.restore(cpu.handle());
    cpu.edit(|image| {
        for (field, value) in FIELDS.iter().zip(&values) {
            image.write(field.at, &value.to_le_bytes()[..field.bytes]);
        }
    });
    cpu.follow_debug_registers();
    // Set through the register interface, so that the core derives other state from them.
    for (register, value) in FIELDS.iter().zip(&values).filter_map(|(field, value)| Some((through_core(&field.name)?, *value))) {
        cpu.write(register, value as u64);
    }
    let flags = values.last().map_or(0, |value| *value as u64);
    cpu.write(RegisterX86::EFLAGS, flags | ALWAYS_SET);
    Ok(())
}

fn through_core(name: &str) -> Option<RegisterX86> {
    match name {
        _ if name == X87_CONTROL.0 => Some(RegisterX86::FPCW),
        _ if name == SSE_CONTROL.0 => Some(RegisterX86::MXCSR),
        _ => None,
    }
}

/// The MTRRs, which the core stores outside the state that it saves: bases and masks of eight ranges, the fixed ranges,
/// the default type.
static SHARED: LazyLock<Vec<(String, u32)>> = LazyLock::new(|| {
    let fixed = [0x250, 0x258, 0x259].into_iter().chain(0x268..0x270);
    (0x200..0x210).chain(fixed).chain([0x2ff]).map(|number| (format!("mtrr.{number:x}"), number)).collect()
});

fn save_shared(handle: &Handle) -> Values {
    let mut registers = Values::default();
    for (name, number) in SHARED.iter() {
        registers.put(&**name, handle.msr(*number).into());
    }
    registers
}

fn shared_values(registers: &Values) -> Result<Vec<u128>, String> {
    registers.read(SHARED.iter().map(|(name, _)| Wanted { name, bits: WORD }))
}

fn check_shared(registers: &Values) -> Result<(), String> {
    shared_values(registers).map(|_| ())
}

fn load_shared(cpu: &TrapContext, registers: &Values) -> Result<(), String> {
    for ((_, number), value) in SHARED.iter().zip(shared_values(registers)?) {
        cpu.set_msr(*number, value as u64);
    }
    Ok(())
}
