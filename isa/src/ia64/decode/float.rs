//! Floating-point instructions.

use super::super::fields::{bits, distance_of_flags, has, imm21, opcode, small};
use super::super::op::{Fma, Op, Part, Precision};
use super::nop;

/// Instructions of the F unit.
pub(super) fn decode(word: u64) -> Option<Op> {
    let [to, f2, f3, f4] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20), small(word, 33, 27)];
    let (x, status) = (has(word, 36), small(word, 35, 34));
    let (a, b, c) = (f3, f4, f2);
    match opcode(word) {
        0x0 => single(word),
        0x1 => parallel(word),
        0x4 => {
            let name = match (has(word, 33), x) {
                (false, false) => "fcmp.eq",
                (false, true) => "fcmp.lt",
                (true, false) => "fcmp.le",
                (true, true) => "fcmp.unord",
            };
            let p = [small(word, 11, 6), small(word, 32, 27)];
            Some(Op::FloatCompare { name, unconditional: has(word, 12), status, p, a: f2, b: f3 })
        }
        0x5 => Some(Op::FloatClass {
            unconditional: has(word, 12),
            p: [small(word, 11, 6), small(word, 32, 27)],
            from: f2,
            class: (bits(word, 26, 20) << 2 | bits(word, 34, 33)) as u16,
        }),
        0xe if x => {
            let part = match status {
                0 => Part::Low,
                2 => Part::HighUnsigned,
                3 => Part::High,
                _ => return None,
            };
            Some(Op::MultiplyAdd { part, to, a, b, c })
        }
        0xe => Some(Op::FloatSelect { to, a, b, c }),
        op @ 0x8..=0xd => {
            let what = [Fma::Add, Fma::Subtract, Fma::Negate][(op as usize - 8) / 2];
            let precision = match (op & 1, x) {
                (0, false) => Precision::Dynamic,
                (0, true) => Precision::Single,
                (_, false) => Precision::Double,
                (_, true) => Precision::Parallel,
            };
            Some(Op::FloatMultiplyAdd { what, precision, status, to, a, b, c })
        }
        _ => None,
    }
}

/// `frcpa` and `frsqrta`, or their parallel forms.
fn approximation(word: u64, parallel: bool) -> Op {
    let [to, a, b] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    let (status, p) = (small(word, 35, 34), small(word, 32, 27));
    match has(word, 36) {
        false => Op::Reciprocal { parallel, status, to, p, a, b },
        true => Op::ReciprocalRoot { parallel, status, to, p, from: b },
    }
}

/// The codes that scalar and parallel numbers have in common: minimum and maximum, and conversion.
const ARITHMETIC: [[&str; 4]; 2] = [["fmin", "fmax", "famin", "famax"], ["fpmin", "fpmax", "fpamin", "fpamax"]];
const CONVERSION: [[&str; 4]; 2] =
    [["fcvt.fx", "fcvt.fxu", "fcvt.fx.trunc", "fcvt.fxu.trunc"], ["fpcvt.fx", "fpcvt.fxu", "fpcvt.fx.trunc", "fpcvt.fxu.trunc"]];
const MERGE: [[&str; 3]; 2] = [["fmerge.s", "fmerge.ns", "fmerge.se"], ["fpmerge.s", "fpmerge.ns", "fpmerge.se"]];

/// Operations on two registers or one, of scalars or of pairs.
fn common(word: u64, is_parallel: usize) -> Option<Op> {
    let [to, a, b] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    let status = Some(small(word, 35, 34));
    let x6 = bits(word, 32, 27) as usize;
    match x6 {
        0x10..=0x12 => Some(Op::FloatBinary { name: MERGE[is_parallel][x6 - 0x10], status: None, to, a, b }),
        0x14..=0x17 => Some(Op::FloatBinary { name: ARITHMETIC[is_parallel][x6 - 0x14], status, to, a, b }),
        0x18..=0x1b => Some(Op::FloatUnary { name: CONVERSION[is_parallel][x6 - 0x18], status, to, from: a }),
        _ => None,
    }
}

fn single(word: u64) -> Option<Op> {
    let [to, a, b] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    if has(word, 33) {
        return Some(approximation(word, false));
    }
    let binary = |name: &'static str| Some(Op::FloatBinary { name, status: None, to, a, b });
    let status = small(word, 35, 34);
    match bits(word, 32, 27) {
        0x00 => Some(Op::Break { number: imm21(word) }),
        0x01 => Some(nop(word)),
        0x04 => Some(Op::FloatControl { status, and: a, or: b }),
        0x05 => Some(Op::FloatClear { status }),
        0x08 => Some(Op::FloatCheck { status, distance: distance_of_flags(word) }),
        0x1c => Some(Op::FloatUnary { name: "fcvt.xf", status: None, to, from: a }),
        0x28 => binary("fpack"),
        0x2c => binary("fand"),
        0x2d => binary("fandcm"),
        0x2e => binary("for"),
        0x2f => binary("fxor"),
        0x34 => binary("fswap"),
        0x35 => binary("fswap.nl"),
        0x36 => binary("fswap.nr"),
        0x39 => binary("fmix.lr"),
        0x3a => binary("fmix.r"),
        0x3b => binary("fmix.l"),
        0x3c => binary("fsxt.r"),
        0x3d => binary("fsxt.l"),
        _ => common(word, 0),
    }
}

fn parallel(word: u64) -> Option<Op> {
    let [to, a, b] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    if has(word, 33) {
        return Some(approximation(word, true));
    }
    const COMPARISONS: [&str; 8] =
        ["fpcmp.eq", "fpcmp.lt", "fpcmp.le", "fpcmp.unord", "fpcmp.neq", "fpcmp.nlt", "fpcmp.nle", "fpcmp.ord"];
    match bits(word, 32, 27) as usize {
        x6 @ 0x30..=0x37 => {
            let (name, status) = (COMPARISONS[x6 - 0x30], Some(small(word, 35, 34)));
            Some(Op::FloatBinary { name, status, to, a, b })
        }
        _ => common(word, 1),
    }
}
