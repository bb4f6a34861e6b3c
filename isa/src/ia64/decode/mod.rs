//! Decodes slots: a unit and 41 bits to a qualifying predicate and an operation. Bits that the manual reserves must be
//! zero, and bits that it ignores may have any value, as for binutils. Everything else is refused.

mod branch;
mod float;
mod integer;
mod memory;
mod moves;
mod parallel;

use super::bundle::{Bundle, Unit};
use super::fields::{imm21, opcode, small};
use super::op::Op;

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The unit that runs it. Instructions of `M` and `I` slots that either unit runs have the slot's unit.
    pub unit: Unit,
    /// The number of its qualifying predicate.
    pub predicate: u8,
    /// The operation, with its operands.
    pub op: Op,
    /// Whether an addition of a number is `addl`. `adds` has a shorter number, and other registers to add to.
    pub long_add: bool,
}

/// The instruction in a slot of a bundle; `None` if there is none. Slot 1 of an MLX bundle has no instruction of its own.
pub fn in_bundle(bundle: Bundle, slot: usize) -> Option<Instruction> {
    let unit = *bundle.template()?.units.get(slot)?;
    decode(unit, bundle.slot(slot), bundle.slot(1))
}

/// The instruction in the 41 bits of a slot. `long` is slot 1 of the bundle, which only long instructions use.
pub fn decode(unit: Unit, word: u64, long: u64) -> Option<Instruction> {
    let op = match (unit, opcode(word)) {
        (Unit::L, _) => return None,
        (Unit::M | Unit::I, 8..) => integer::arithmetic(word)?,
        (Unit::M, _) => memory::decode(word)?,
        (Unit::I, _) => integer::decode(word)?,
        (Unit::F, _) => float::decode(word)?,
        (Unit::B, _) => branch::decode(word)?,
        (Unit::X, _) => branch::long(word, long)?,
    };
    let takes_no_predicate = takes_no_predicate(&op);
    let predicate = if takes_no_predicate { 0 } else { small(word, 5, 0) };
    Some(Instruction { unit, predicate, op, long_add: opcode(word) == 9 })
}

/// Whether an instruction always runs, whatever its predicate's field is.
fn takes_no_predicate(op: &Op) -> bool {
    use super::op::{Condition, System};
    match op {
        Op::Alloc { .. } | Op::Predict { .. } | Op::PredictIndirect { .. } => true,
        Op::Branch { condition, .. } => {
            matches!(condition, Condition::CountedLoop | Condition::CountedExit | Condition::CountedTop)
        }
        Op::System(what) => matches!(
            what,
            System::Flushrs
                | System::Loadrs
                | System::Cover
                | System::Clrrrb
                | System::ClrrrbPr
                | System::Rfi
                | System::Bsw0
                | System::Bsw1
                | System::Epc
                | System::Vmsw0
                | System::Vmsw1
        ),
        _ => false,
    }
}

/// `nop` or `hint`, by the bit that tells them apart.
fn nop(word: u64) -> Op {
    match super::fields::has(word, 26) {
        false => Op::Nop { number: imm21(word) },
        true => Op::Hint { number: imm21(word) },
    }
}
