//! Integer instructions: those of both units, and those of the I unit.

use super::super::fields::{bits, distance_of_check, has, imm8, imm14, imm21, imm22, opcode, signed, small};
use super::super::op::{Alu, Op, Relation, Shift, Tested, Unary, Update, Value};
use super::{moves, nop, parallel};

const LOGIC: [Alu; 4] = [Alu::And, Alu::AndComplement, Alu::Or, Alu::Xor];
const PARALLEL_UPDATES: [Update; 3] = [Update::And, Update::Or, Update::OrAndComplement];

/// Instructions that units M and I have in common.
pub(super) fn arithmetic(word: u64) -> Option<Op> {
    match opcode(word) {
        0x8 => alu(word),
        0x9 => {
            let [to, b] = [small(word, 12, 6), small(word, 21, 20)];
            Some(Op::Alu { what: Alu::Add, to, a: Value::Immediate(imm22(word)), b })
        }
        0xc..=0xe => compare(word),
        _ => None,
    }
}

fn alu(word: u64) -> Option<Op> {
    let [to, r2, b] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    if has(word, 33) && bits(word, 35, 34) != 1 {
        return None;
    }
    let (a, short, long) = (Value::Register(r2), Value::Immediate(imm8(word)), Value::Immediate(imm14(word)));
    let plain = |what: Alu, a: Value| Some(Op::Alu { what, to, a, b });
    let below = bits(word, 28, 27) as usize;
    match (bits(word, 35, 34), bits(word, 32, 29), below) {
        (0, 0, 0) => plain(Alu::Add, a),
        (0, 0, 1) => plain(Alu::AddOne, a),
        (0, 1, 1) => plain(Alu::Sub, a),
        (0, 1, 0) => plain(Alu::SubOne, a),
        (0, 2, 0) => plain(Alu::AddPointer, a),
        (0, 3, _) => plain(LOGIC[below], a),
        (0, 4 | 6, _) => {
            let pointer = bits(word, 32, 29) == 6;
            Some(Op::ShiftAdd { pointer, to, a: r2, count: below as u8 + 1, b })
        }
        (0, 9, 1) => plain(Alu::Sub, short),
        (0, 0xb, _) => plain(LOGIC[below], short),
        (1, ..) => parallel::arithmetic(word),
        (2, ..) => plain(Alu::Add, long),
        (3, ..) => plain(Alu::AddPointer, long),
        _ => None,
    }
}

fn compare(word: u64) -> Option<Op> {
    let [second, b, r2, first] = [small(word, 32, 27), small(word, 26, 20), small(word, 19, 13), small(word, 11, 6)];
    let (narrow, immediate) = (has(word, 34), has(word, 35));
    let [tb, ta, c] = [36, 33, 12].map(|bit| has(word, bit));
    let group = opcode(word) as usize - 0xc;
    let with_zero = !immediate && tb;
    let (relation, update) = if with_zero {
        // The first register's field is ignored. The register is compared with zero: `0 > b` and so on.
        let relation = match (ta, c) {
            (false, false) => Relation::Greater,
            (false, true) => Relation::LessOrEqual,
            (true, false) => Relation::GreaterOrEqual,
            (true, true) => Relation::Less,
        };
        (relation, PARALLEL_UPDATES[group])
    } else if ta {
        (if c { Relation::NotEqual } else { Relation::Equal }, PARALLEL_UPDATES[group])
    } else {
        let relation = [Relation::Less, Relation::Below, Relation::Equal][group];
        (relation, if c { Update::Unconditional } else { Update::Both })
    };
    let a = match (immediate, with_zero) {
        (true, _) => Value::Immediate(imm8(word)),
        (false, true) => Value::Register(0),
        (false, false) => Value::Register(r2),
    };
    Some(Op::Compare { narrow, relation, update, p: [first, second], a, b })
}

/// Instructions of the I unit alone.
pub(super) fn decode(word: u64) -> Option<Op> {
    match opcode(word) {
        0x0 => miscellaneous(word),
        0x4 => {
            let [into, from] = [small(word, 26, 20), small(word, 19, 13)];
            let [position, length] = [63 - small(word, 36, 31), small(word, 30, 27) + 1];
            Some(Op::Deposit { to: small(word, 12, 6), from: Value::Register(from), into, position, length })
        }
        0x5 => fields(word),
        0x7 => parallel::decode(word),
        _ => None,
    }
}

fn miscellaneous(word: u64) -> Option<Op> {
    let [to, r2, r3] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    let unary = |what: Unary| Some(Op::Unary { what, to, from: r3 });
    match (bits(word, 35, 33), bits(word, 32, 27)) {
        (0, 0x00) => Some(Op::Break { number: imm21(word) }),
        (0, 0x01) => Some(nop(word)),
        (0, x6 @ 0x10..=0x12) => unary(Unary::ZeroExtend(1 << (x6 & 3))),
        (0, x6 @ 0x14..=0x16) => unary(Unary::SignExtend(1 << (x6 & 3))),
        (0, x6 @ (0x18 | 0x19)) => unary(Unary::ZeroIndexLeft(1 << (x6 & 1))),
        (0, x6 @ (0x1c | 0x1d)) => unary(Unary::ZeroIndexRight(1 << (x6 & 1))),
        (1, _) => Some(Op::CheckSpeculation { float: false, register: r2, distance: distance_of_check(word) }),
        _ => moves::of_integer_unit(word),
    }
}

fn fields(word: u64) -> Option<Op> {
    let [to, r2, r3] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    let length = small(word, 32, 27) + 1;
    match (bits(word, 35, 34), has(word, 33)) {
        (0, _) => test(word),
        (1, false) => Some(Op::Extract { signed: has(word, 13), to, from: r3, position: small(word, 19, 14), length }),
        (1, true) => {
            let from = if has(word, 26) { Value::Immediate(imm8(word)) } else { Value::Register(r2) };
            Some(Op::DepositZero { to, from, position: 63 - small(word, 25, 20), length })
        }
        (3, false) => Some(Op::ShiftPair { to, a: r2, b: r3, count: length - 1 }),
        (3, true) => {
            let from = Value::Immediate(signed(bits(word, 36, 36), 1));
            Some(Op::Deposit { to, from, into: r3, position: 63 - small(word, 19, 14), length })
        }
        _ => None,
    }
}

fn test(word: u64) -> Option<Op> {
    let p = [small(word, 11, 6), small(word, 32, 27)];
    let register = small(word, 26, 20);
    let what = match (has(word, 13), has(word, 19)) {
        (false, _) => Tested::Bit { register, bit: small(word, 19, 14) },
        (true, false) => Tested::Nat(register),
        (true, true) => Tested::Feature(small(word, 18, 14) + 32),
    };
    let c = has(word, 12);
    // The bits at 36 and 33 are those of comparisons: one for `and`, one for `or`, both for `or.andcm`.
    let (nonzero, update) = match (has(word, 36), has(word, 33)) {
        (false, false) => (false, if c { Update::Unconditional } else { Update::Both }),
        (true, false) => (c, Update::And),
        (false, true) => (c, Update::Or),
        (true, true) => (c, Update::OrAndComplement),
    };
    Some(Op::Test { nonzero, update, p, what })
}

/// A shift by a register in the I unit's opcode 7.
pub(super) fn shift(what: Shift, word: u64) -> Op {
    let [to, r2, r3] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    match what {
        Shift::Left => Op::Shift { what, to, from: r2, by: r3 },
        _ => Op::Shift { what, to, from: r3, by: r2 },
    }
}
