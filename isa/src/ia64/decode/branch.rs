//! Branches, and the long instructions of MLX bundles.

use super::super::fields::{bits, distance_of_branch, distance_of_long, has, imm21, imm64, opcode, signed, small};
use super::super::op::{BranchHints, Condition, Op, System};
use super::nop;

fn hints(word: u64) -> BranchHints {
    BranchHints { whether: small(word, 34, 33), many: has(word, 12), clear: has(word, 35) }
}

/// Instructions of the B unit.
pub(super) fn decode(word: u64) -> Option<Op> {
    let [link, at] = [small(word, 8, 6), small(word, 15, 13)];
    let distance = distance_of_branch(word);
    match opcode(word) {
        0x0 => miscellaneous(word),
        0x1 if has(word, 32) => Some(Op::BranchCallIndirect { link, at, hints: hints(word) }),
        0x2 => indirect_prediction(word),
        0x4 => {
            let condition = match link {
                0 => Condition::Predicate,
                2 => Condition::WhileExit,
                3 => Condition::WhileTop,
                5 => Condition::CountedLoop,
                6 => Condition::CountedExit,
                7 => Condition::CountedTop,
                _ => return None,
            };
            Some(Op::Branch { condition, distance, hints: hints(word) })
        }
        0x5 => Some(Op::BranchCall { link, distance, hints: hints(word) }),
        0x7 => {
            let [whether, important] = [small(word, 4, 3), small(word, 35, 35)];
            Some(Op::Predict { whether, important: important != 0, distance, tag: prediction_tag(word) })
        }
        _ => None,
    }
}

/// The distance from a prediction to the branch that it is about.
fn prediction_tag(word: u64) -> i64 {
    signed(bits(word, 34, 33) << 7 | bits(word, 12, 6), 9) << 4
}

fn indirect_prediction(word: u64) -> Option<Op> {
    let x6 = bits(word, 32, 27);
    match x6 {
        0x00 => Some(Op::Nop { number: imm21(word) }),
        0x01 => Some(Op::Hint { number: imm21(word) }),
        0x10 | 0x11 => {
            let whether = small(word, 4, 3);
            // There is no prediction of an indirect loop or exit.
            (whether & 1 == 0).then_some(Op::PredictIndirect {
                returns: x6 == 0x11,
                whether,
                important: has(word, 35),
                at: small(word, 15, 13),
                tag: prediction_tag(word),
            })
        }
        _ => None,
    }
}

fn miscellaneous(word: u64) -> Option<Op> {
    let [kind, at] = [small(word, 8, 6), small(word, 15, 13)];
    let system = match (bits(word, 32, 27), kind) {
        (0x00, _) => return Some(Op::Break { number: imm21(word) }),
        (0x20, 0) => return Some(Op::BranchIndirect { at, hints: hints(word) }),
        (0x20, 1) => return Some(Op::BranchForeign { at, hints: hints(word) }),
        (0x21, 4) => return Some(Op::BranchReturn { at, hints: hints(word) }),
        (0x02, _) => System::Cover,
        (0x04, _) => System::Clrrrb,
        (0x05, _) => System::ClrrrbPr,
        (0x08, _) => System::Rfi,
        (0x0c, _) => System::Bsw0,
        (0x0d, _) => System::Bsw1,
        (0x10, _) => System::Epc,
        (0x18, _) => System::Vmsw0,
        (0x19, _) => System::Vmsw1,
        _ => return None,
    };
    Some(Op::System(system))
}

/// Long instructions.
pub(super) fn long(word: u64, long: u64) -> Option<Op> {
    let distance = distance_of_long(word, long);
    let number = imm21(word) | (long & super::super::bundle::SLOT_MASK) << 21;
    match (opcode(word), bits(word, 32, 27)) {
        (0x0, 0x00) if bits(word, 35, 33) == 0 => Some(Op::Break { number }),
        (0x0, 0x01) if bits(word, 35, 33) == 0 => Some(match nop(word) {
            Op::Hint { .. } => Op::Hint { number },
            _ => Op::Nop { number },
        }),
        (0x6, _) if !has(word, 20) => Some(Op::MoveLong { to: small(word, 12, 6), value: imm64(word, long) }),
        (0xc, _) if bits(word, 8, 6) == 0 => Some(Op::Branch { condition: Condition::Predicate, distance, hints: hints(word) }),
        (0xd, _) => Some(Op::BranchCall { link: small(word, 8, 6), distance, hints: hints(word) }),
        _ => None,
    }
}
