//! Parallel instructions, which compute with several small numbers in one register, and the shifts that share their
//! opcode.

use super::super::fields::{bits, has, small};
use super::super::op::{Merge, Op, Shift, Unary, Value};
use super::integer::shift;

/// Parallel arithmetic of units M and I.
pub(super) fn arithmetic(word: u64) -> Option<Op> {
    let [to, a, b] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    let below = bits(word, 28, 27);
    let name = match (has(word, 36), has(word, 33), bits(word, 32, 29), below) {
        (false, true, 4, _) => {
            return Some(Op::ParallelShiftAdd { name: "pshladd2", to, a, count: below as u8 + 1, b });
        }
        (false, true, 6, _) => {
            return Some(Op::ParallelShiftAdd { name: "pshradd2", to, a, count: below as u8 + 1, b });
        }
        (false, two, 0, _) => {
            [["padd1", "padd1.sss", "padd1.uuu", "padd1.uus"], ["padd2", "padd2.sss", "padd2.uuu", "padd2.uus"]][usize::from(two)]
                [below as usize]
        }
        (false, two, 1, _) => {
            [["psub1", "psub1.sss", "psub1.uuu", "psub1.uus"], ["psub2", "psub2.sss", "psub2.uuu", "psub2.uus"]][usize::from(two)]
                [below as usize]
        }
        (false, false, 2, 2) => "pavg1",
        (false, false, 2, 3) => "pavg1.raz",
        (false, true, 2, 2) => "pavg2",
        (false, true, 2, 3) => "pavg2.raz",
        (false, false, 3, 2) => "pavgsub1",
        (false, true, 3, 2) => "pavgsub2",
        (false, false, 9, 0) => "pcmp1.eq",
        (false, false, 9, 1) => "pcmp1.gt",
        (false, true, 9, 0) => "pcmp2.eq",
        (false, true, 9, 1) => "pcmp2.gt",
        (true, false, 0, 0) => "padd4",
        (true, false, 1, 0) => "psub4",
        (true, false, 9, 0) => "pcmp4.eq",
        (true, false, 9, 1) => "pcmp4.gt",
        _ => return None,
    };
    Some(Op::Parallel { name, to, a, b: Value::Register(b) })
}

/// The I unit's opcode 7.
pub(super) fn decode(word: u64) -> Option<Op> {
    let [to, r2, r3] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    if has(word, 32) {
        return None;
    }
    let size = bits(word, 36, 36) << 1 | bits(word, 33, 33);
    let (a, b, c) = (bits(word, 35, 34), bits(word, 29, 28), bits(word, 31, 30));
    let three = |name: &'static str| Some(Op::Parallel { name, to, a: r2, b: Value::Register(r3) });
    let merge = |what: Merge, upper: bool| Some(Op::Merge { what, size: 1 << size, upper, to, a: r2, b: r3 });
    let left = |name: &'static str, by: Value| Some(Op::Parallel { name, to, a: r2, b: by });
    let right = |name: &'static str, by: Value| Some(Op::Parallel { name, to, a: r3, b: by });
    let (by_left, by_right) = (Value::Register(r3), Value::Register(r2));
    match (a, size, b, c) {
        (0, 1, 1 | 3, _) => {
            let count = [0, 7, 15, 16][c as usize];
            Some(Op::ParallelMultiply { signed: b == 3, to, a: r2, b: r3, count })
        }
        (0, 1, 0, 0) => right("pshr2.u", by_right),
        (0, 1, 2, 0) => right("pshr2", by_right),
        (0, 1, 0, 1) => left("pshl2", by_left),
        (0, 2, 0, 0) => right("pshr4.u", by_right),
        (0, 2, 2, 0) => right("pshr4", by_right),
        (0, 2, 0, 1) => left("pshl4", by_left),
        (0, 2, 1, 3) => three("mpy4"),
        (0, 2, 3, 3) => three("mpyshl4"),
        (0, 3, 0, 0) => Some(shift(Shift::UnsignedRight, word)),
        (0, 3, 2, 0) => Some(shift(Shift::Right, word)),
        (0, 3, 0, 1) => Some(shift(Shift::Left, word)),
        (1, 1 | 2, 1 | 3, 0) => {
            let count = Value::Immediate(small(word, 18, 14).into());
            right([["pshr2.u", "pshr2"], ["pshr4.u", "pshr4"]][size as usize - 1][b as usize >> 1], count)
        }
        (1, 1, 1, 2) => Some(Op::Unary { what: Unary::CountOnes, to, from: r3 }),
        (1, 1, 1, 3) => Some(Op::Unary { what: Unary::CountLeadingZeros, to, from: r3 }),
        (2, 0..=2, 0, 1) => merge(Merge::Unpack, true),
        (2, 0..=2, 2, 1) => merge(Merge::Unpack, false),
        (2, 0..=2, 0, 2) => merge(Merge::Mix, false),
        (2, 0..=2, 2, 2) => merge(Merge::Mix, true),
        (2, 0, 1, 0) => three("pmin1.u"),
        (2, 0, 1, 1) => three("pmax1.u"),
        (2, 0, 3, 2) => three("psad1"),
        (2, 1, 0, 0) => three("pack2.uss"),
        (2, 1, 2, 0) => three("pack2.sss"),
        (2, 1, 1, 3) => three("pmpy2.r"),
        (2, 1, 3, 3) => three("pmpy2.l"),
        (2, 1, 3, 0) => three("pmin2"),
        (2, 1, 3, 1) => three("pmax2"),
        (2, 2, 2, 0) => three("pack4.sss"),
        (3, 0, 2, 2) => Some(Op::Unary { what: Unary::Bytes(small(word, 23, 20)), to, from: r2 }),
        (3, 1, 2, 2) => Some(Op::Unary { what: Unary::Halves(small(word, 27, 20)), to, from: r2 }),
        (3, 1 | 2, 1, 1) => {
            let count = Value::Immediate(31 - i64::from(small(word, 24, 20)));
            left(["pshl2", "pshl4"][size as usize - 1], count)
        }
        _ => None,
    }
}
