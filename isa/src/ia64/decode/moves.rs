//! Moves between general registers and branch, predicate, application, control and indexed registers.

use super::super::fields::{bits, has, imm8, signed, small};
use super::super::op::{File, Op, Value};

/// Moves of the I unit.
pub(super) fn of_integer_unit(word: u64) -> Option<Op> {
    let [to, r2, r3] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    match (bits(word, 35, 33), bits(word, 32, 27)) {
        (0, 0x0a) => Some(Op::MoveToAr { ar: r3, from: Value::Immediate(imm8(word)) }),
        (0, 0x2a) => Some(Op::MoveToAr { ar: r3, from: Value::Register(r2) }),
        (0, 0x30) => Some(Op::MoveIp { to }),
        (0, 0x31) => Some(Op::MoveFromBranch { to, from: small(word, 15, 13) }),
        (0, 0x32) => Some(Op::MoveFromAr { to, ar: r3 }),
        (0, 0x33) => Some(Op::MovePredicates { to }),
        (2, _) => Some(Op::MoveToRotating { value: signed(bits(word, 36, 36) << 27 | bits(word, 32, 6), 28) << 16 }),
        (3, _) => {
            let mask = signed(bits(word, 36, 36) << 15 | bits(word, 31, 24) << 7 | bits(word, 12, 6), 16) << 1;
            Some(Op::MoveToPredicates { from: r2, mask: mask as u64 })
        }
        (7, _) if bits(word, 21, 20) != 3 => Some(Op::MoveToBranch {
            to: small(word, 8, 6),
            from: r2,
            returns: has(word, 22),
            whether: small(word, 21, 20),
            important: has(word, 23),
            tag: signed(bits(word, 32, 24), 9) << 4,
        }),
        _ => None,
    }
}

/// Moves of the M unit's opcode 1, by their code of six bits.
pub(super) fn of_memory_unit(word: u64) -> Option<Op> {
    let [to, r2, r3] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    const FILES: [File; 8] = [File::Rr, File::Dbr, File::Ibr, File::Pkr, File::Pmc, File::Pmd, File::Msr, File::Cpuid];
    let x6 = bits(word, 32, 27);
    let file = FILES[x6 as usize & 7];
    match x6 {
        0x00..=0x06 => Some(Op::MoveToFile { file, index: r3, from: r2 }),
        0x10..=0x17 => Some(Op::MoveFromFile { file, to, index: r3 }),
        0x20 => Some(Op::MoveFromFile { file: File::Dahr, to, index: r3 }),
        0x21 => Some(Op::MoveFromPsr { user: true, to }),
        0x22 => Some(Op::MoveFromAr { to, ar: r3 }),
        0x24 => Some(Op::MoveFromCr { to, cr: r3 }),
        0x25 => Some(Op::MoveFromPsr { user: false, to }),
        0x29 => Some(Op::MoveToPsr { user: true, from: r2 }),
        0x2a => Some(Op::MoveToAr { ar: r3, from: Value::Register(r2) }),
        0x2c => Some(Op::MoveToCr { cr: r3, from: r2 }),
        0x2d => Some(Op::MoveToPsr { user: false, from: r2 }),
        _ => None,
    }
}
