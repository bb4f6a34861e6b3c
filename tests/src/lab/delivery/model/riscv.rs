//! The model of RISC-V, after the manual's chapter on supervisor mode: exceptions in the kernel, and one in a user
//! program that `sret` enters.

use super::{Case, Changes, Numbers, RAISES, State, bit, registers, seen};
use crate::lab::{DATA, HANDLERS};
use trapline_isa::arch::Arch;
use trapline_isa::riscv::abi::{self, x};

// Bits of sstatus.
const SIE: u64 = 1 << 1;
const SPIE: u64 = 1 << 5;
const SPP: u64 = 1 << 8;
const FS: u64 = 3 << 13;
const SUM: u64 = 1 << 18;
const MXR: u64 = 1 << 19;

/// Conditions under which an instruction raises its exception, and the value of stval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum If {
    /// Always; stval is 0.
    Illegal,
    /// Always; stval is the pc.
    Breakpoint,
    /// The address in a1 is not mapped.
    Missed,
    Misaligned,
    FloatingOff,
    Fetch,
    /// `sret` enters a user program, whose first fetch faults.
    InProgram,
}

#[rustfmt::skip]
const RAISING: &[(&str, &[u8], u64, If)] = &[
    ("ebreak",          &[0x73, 0x00, 0x10, 0x00], 3,  If::Breakpoint),
    ("c.ebreak",        &[0x02, 0x90],             3,  If::Breakpoint),
    ("no instruction",  &[0x6b, 0x00, 0x00, 0x00], 2,  If::Illegal),
    ("c.unimp",         &[0x00, 0x00],             2,  If::Illegal),
    ("csrw cycle",      &[0x73, 0x10, 0x00, 0xc0], 2,  If::Illegal),
    ("csrr mstatus",    &[0x73, 0x25, 0x00, 0x30], 2,  If::Illegal),
    ("lw",              &[0x03, 0xa5, 0x05, 0x00], 13, If::Missed),
    ("sw",              &[0x23, 0xa0, 0xa5, 0x00], 15, If::Missed),
    ("c.lw",            &[0x88, 0x41],             13, If::Missed),
    ("amoadd.w",        &[0x2f, 0xa5, 0xa5, 0x00], 15, If::Missed),
    ("lr.w",            &[0x2f, 0xa5, 0x05, 0x10], 13, If::Missed),
    ("amoadd.w",        &[0x2f, 0xa5, 0xa5, 0x00], 6,  If::Misaligned),
    ("lr.w",            &[0x2f, 0xa5, 0x05, 0x10], 4,  If::Misaligned),
    ("fadd.d",          &[0x53, 0x75, 0xb5, 0x02], 2,  If::FloatingOff),
    ("a fetch",         &[0x01, 0x00],             12, If::Fetch),
    ("sret",            &[0x73, 0x00, 0x20, 0x10], 12, If::InProgram),
];

/// Decodes a case.
pub fn case(arch: Arch, numbers: &mut Numbers<'_>) -> Case {
    let (name, code, cause, when) = numbers.pick(RAISING);
    let missed = seen(arch, 0x80_0000) + 2 * numbers.below(200) as u64;
    let address = match when {
        If::Missed => missed & !3,
        If::Misaligned => seen(arch, DATA) + 1 + numbers.below(3) as u64,
        _ => seen(arch, DATA),
    };
    let entry = if when == If::Fetch { missed } else { seen(arch, RAISES) };
    let vectored = numbers.below(2) as u64;
    let vector = seen(arch, HANDLERS);
    let floating = if when == If::FloatingOff { 0 } else { bit(numbers, FS) };
    let previous = if when == If::InProgram { 0 } else { bit(numbers, SPP) };
    let status = floating | previous | bit(numbers, SIE) | bit(numbers, SPIE) | bit(numbers, SUM) | bit(numbers, MXR);
    // csrw stvec, ra; csrw sepc, t0; j to itself
    let front = [0x1050_9073, 0x1412_9073, 0x0000_006f_u32].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut own = registers(arch, numbers, &[]);
    own.extend([(x(11), address), (abi::STATUS, status)]);
    let model = move |before: &State| {
        let mut changes = Changes::default();
        let (pc, from_kernel) = if when == If::InProgram { (missed, false) } else { (entry, true) };
        // `sret` moves SPIE to SIE, the exception moves it back.
        let enabled = if from_kernel { SIE } else { SPIE };
        let kept = if before["status"] & enabled != 0 { SPIE } else { 0 } | if from_kernel { SPP } else { 0 };
        changes.set("status", before["status"] & !(SIE | SPIE | SPP) | kept);
        changes.set("epc", pc);
        changes.set("cause", cause);
        changes.set(
            "badaddr",
            match when {
                If::Missed | If::Misaligned => address,
                If::Breakpoint | If::Fetch | If::InProgram => pc,
                If::Illegal | If::FloatingOff => 0,
            },
        );
        changes.set("pc", vector);
        changes
    };
    Case {
        name: format!("{name} with {when:?}, state {status:x}, vectored: {vectored}"),
        front,
        front_registers: vec![(x(1), vector + vectored), (x(5), missed)],
        registers: own,
        memory: Vec::new(),
        code: code.to_vec(),
        entry,
        model: Box::new(model),
        written: None,
    }
}
