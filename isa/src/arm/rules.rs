//! Which ARM instructions may be probed, and how each accepted one runs.
//!
//! A table for each instruction set, group by group, for both policies: the first row that matches decides. Where the
//! two columns differ, Linux 6.1 refuses what can be copied or computed after all, or accepts what breaks. What Linux
//! calls "emulated", by a copy with other registers, runs out of line unmodified here; what names the pc is computed.

mod a32;
mod stack;
mod thumb;

use super::Set;
use super::decode::word;
use super::emulate::Computation;
use super::slot;
use crate::arch::{Emulation, Isa};
use crate::function::{Exclusive, between_exclusives};
use crate::insn::Insn;
use crate::plan::{Errno, Plan, Policy, Refusal, Rule};
use crate::region::Surroundings;
use Errno::EINVAL;
use Verdict::{Compute, Either, Refuse, Slot, Step};
use core::ops::Range;

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static REGISTERS: Rule = Rule::new("registers", EINVAL,
        "with these registers no CPU says what the instruction does; probe the instruction before or after it instead");
    pub static UNKNOWN: Rule = Rule::new("unknown", EINVAL,
        "no instruction that is known here has this encoding, so it may be data; probe code that runs instead");
    pub static UNDEFINED: Rule = Rule::new("undefined", EINVAL,
        "it is there to raise an exception: a BUG(), or a breakpoint of someone else's; probe the instruction before it instead");
    pub static EXCEPTION: Rule = Rule::new("exception", EINVAL,
        "it enters a handler that would see the address of the copy as the place to return to; probe the handler instead");
    pub static RETURN: Rule = Rule::new("exception-return", EINVAL,
        "it returns from an exception or makes its frame, and no trap may come there; probe an earlier instruction of this path instead");
    pub static EXCLUSIVE: Rule = Rule::new("exclusive", EINVAL,
        "a trap between a load-exclusive and its store-exclusive makes the store fail for ever; probe the instruction behind the loop instead");
    pub static BETWEEN_EXCLUSIVES: Rule = Rule::new("between-exclusives", EINVAL,
        "it stands between a load-exclusive and its store-exclusive, and a trap there makes the store fail for ever; probe the instruction behind the loop instead");
    pub static STATE: Rule = Rule::new("system-state", EINVAL,
        "it may change how everything behind it is translated or executed, the engine's own code included; probe the instruction before it instead");
    pub static TRAP_STATE: Rule = Rule::new("trap-state", EINVAL,
        "it looks at a register that a trap overwrites; probe the instruction before or behind it instead");
    pub static COPROCESSOR: Rule = Rule::new("coprocessor", EINVAL,
        "Linux 6.1 runs no coprocessor, floating-point or SIMD instruction elsewhere; the policy `best` runs most of them");
    pub static BARRIER: Rule = Rule::new("barrier", EINVAL,
        "Linux 6.1 runs no barrier elsewhere; the policy `best` does");
    pub static STATUS: Rule = Rule::new("status", EINVAL,
        "Linux 6.1 does not compute changes of the CPSR; the policy `best` runs those that cannot change the mode of the probe's trap");
    pub static UNPRIVILEGED: Rule = Rule::new("unprivileged", EINVAL,
        "Linux 6.1 does not run accesses with the rights of user space elsewhere; the policy `best` does");
    pub static HINT: Rule = Rule::new("hint", EINVAL,
        "Linux 6.1 knows few hints only; the policy `best` runs all that do not wait");
    pub static WAIT: Rule = Rule::new("wait", EINVAL,
        "it waits for an interrupt, and its copy runs where none is let in; probe the instruction before or after it instead");
    pub static DIVIDE: Rule = Rule::new("divide", EINVAL,
        "Linux 6.1 does not know this instruction; the policy `best` does");
    pub static LITERAL: Rule = Rule::new("literal-vector", EINVAL,
        "it loads a floating-point register from a place relative to itself, which is not computed; probe the instruction before or after it instead");
    pub static STACK: Rule = Rule::new("stack", EINVAL,
        "Linux 6.1 keeps its own frame where this instruction may store, more than 64 bytes below the stack pointer; the policy `best` has no frame there");
}
pub(super) use reasons::*;

/// Every reason there is.
#[rustfmt::skip]
pub static RULES: &[&Rule] = &[
    &REGISTERS, &UNKNOWN, &UNDEFINED, &EXCEPTION, &RETURN, &EXCLUSIVE, &BETWEEN_EXCLUSIVES, &STATE, &TRAP_STATE, &COPROCESSOR, &BARRIER,
    &STATUS, &UNPRIVILEGED, &HINT, &WAIT, &DIVIDE, &LITERAL, &STACK, &slot::OUT_OF_REACH, &slot::NO_WAY_BACK,
];

/// May it be probed, and how would it run?
pub fn plan(set: Set, insn: &Insn, policy: Policy) -> Result<Plan, Refusal> {
    let word = word(set, insn);
    let (verdict, names_pc) = verdict(set, insn, policy);
    let plan = match verdict {
        Refuse(rule) => return Err(rule.refusal()),
        Compute(computation) => Plan::Emulate(Emulation::Arm(computation(insn, word))),
        Either(computation) if names_pc => Plan::Emulate(Emulation::Arm(computation(insn, word))),
        // No branch may stand behind a copy of Thumb code: it may be in an IT block.
        Slot | Either(_) if set == Set::A32 => Plan::Boost,
        Slot | Either(_) | Step => Plan::Step,
    };
    match policy {
        Policy::Linux61 if stack::is_too_deep(set, insn.bytes().len(), word) => Err(STACK.refusal()),
        _ => Ok(plan),
    }
}

/// May it be probed where it stands?
pub fn stands(
    isa: &'static Isa,
    insn: &Insn,
    policy: Policy,
    function: Range<u64>,
    around: &mut dyn Surroundings,
) -> Result<(), Refusal> {
    let kind = if isa.variable_length { exclusive_thumb } else { exclusive_a32 };
    // Linux 6.1 does not look.
    if policy == Policy::Best && between_exclusives(isa, kind, &function, insn.address, around) {
        return Err(BETWEEN_EXCLUSIVES.refusal());
    }
    Ok(())
}

/// What an A32 instruction does to the exclusive monitor.
fn exclusive_a32(insn: &Insn) -> Exclusive {
    let word = word(Set::A32, insn);
    match word {
        _ if word & 0x0f80_0ff0 == 0x0180_0f90 || word & 0x0f80_0ff0 == 0x0180_0e90 => by_load_bit(word),
        0xf57f_f01f => Exclusive::Clear,
        _ => Exclusive::Neither,
    }
}

/// What a Thumb instruction does to it.
fn exclusive_thumb(insn: &Insn) -> Exclusive {
    let word = word(Set::Thumb, insn);
    let is = |mask: u32, value: u32| word & mask == value;
    match word {
        // Those of words; of bytes, halfwords and two words, also acquiring and releasing.
        _ if is(0xffe0_0000, 0xe840_0000) || is(0xffe0_00c0, 0xe8c0_0040) || is(0xffe0_00c0, 0xe8c0_00c0) => by_load_bit(word),
        0xf3bf_8f2f => Exclusive::Clear,
        _ => Exclusive::Neither,
    }
}

fn by_load_bit(word: u32) -> Exclusive {
    if word >> 20 & 1 != 0 { Exclusive::Load } else { Exclusive::Store }
}

/// Whether a copy of it would mean something else elsewhere, and not merely lead elsewhere.
pub fn reads_pc(set: Set, insn: &Insn) -> bool {
    use Computation::{
        Address, Alu, Block, Compare, Exchange, Extra, IfThen, Jump, Literal, LoadPair, Mask, Nothing, ReadStatus, StorePair,
        Table, Transfer, Unmask,
    };
    let Ok(Plan::Emulate(Emulation::Arm(what))) = plan(set, insn, Policy::Best) else { return false };
    let based_on_pc = |word: u32| word >> 16 & 15 == 15;
    let stores = |word: u32| word >> 20 & 1 == 0;
    match what {
        Jump { .. } | Compare { .. } | Address { .. } | Literal { .. } | LoadPair { .. } | StorePair { .. } | Alu(_) => true,
        Table { base, .. } => base == 15,
        Transfer(word) => based_on_pc(word) || stores(word) && word >> 12 & 15 == 15,
        Extra(word) => based_on_pc(word),
        Block(word) => based_on_pc(word) || stores(word) && word >> 15 & 1 != 0,
        Nothing | Exchange { .. } | ReadStatus(_) | Mask(_) | Unmask(_) | IfThen(_) => false,
    }
}

/// Whether what it does in memory depends on where it stands; of what reads the pc and does not, a fault is the same
/// anywhere.
pub fn counts_from_pc(set: Set, insn: &Insn) -> bool {
    let Ok(Plan::Emulate(Emulation::Arm(what))) = plan(set, insn, Policy::Best) else { return false };
    let based_on_pc = |word: u32| word >> 16 & 15 == 15;
    match what {
        Computation::Table { base, index, .. } => base == 15 || index == 15,
        Computation::Transfer(word) => based_on_pc(word) || word >> 25 & 1 != 0 && word & 15 == 15,
        Computation::Extra(word) => based_on_pc(word) || word >> 22 & 1 == 0 && word & 15 == 15,
        Computation::Block(word) => based_on_pc(word),
        _ => reads_pc(set, insn),
    }
}

/// How an instruction runs, or why it may not be probed.
#[derive(Clone, Copy)]
enum Verdict {
    /// Its copy runs elsewhere.
    Slot,
    /// Its copy is stepped: it ends a block of code, or what it does matters to the machine at once.
    Step,
    /// It is computed if it names the pc; if not, its copy runs.
    Either(fn(&Insn, u32) -> Computation),
    Compute(fn(&Insn, u32) -> Computation),
    Refuse(&'static Rule),
}

/// Words with `word & mask == value`.
struct Row {
    mask: u32,
    value: u32,
    /// What may stand in bits 19 to 16, 15 to 12, 11 to 8 and 3 to 0: see [`Row::allows`].
    registers: &'static [u8; 4],
    linux: Verdict,
    best: Verdict,
}

/// The two policies agree.
const fn both(mask: u32, value: u32, registers: &'static [u8; 4], verdict: Verdict) -> Row {
    Row { mask, value, registers, linux: verdict, best: verdict }
}

const fn row(mask: u32, value: u32, registers: &'static [u8; 4], linux: Verdict, best: Verdict) -> Row {
    Row { mask, value, registers, linux, best }
}

/// Neither runs it.
const fn refuse(mask: u32, value: u32, rule: &'static Rule) -> Row {
    both(mask, value, b"----", Refuse(rule))
}

/// Only `best` runs it, for any registers.
const fn best(mask: u32, value: u32, rule: &'static Rule, verdict: Verdict) -> Row {
    row(mask, value, b"----", Refuse(rule), verdict)
}

impl Row {
    fn fields(&self, word: u32) -> impl Iterator<Item = (u8, u32)> + use<> {
        self.registers.iter().copied().zip([16, 12, 8, 0]).map(move |(class, low)| (class, word >> low & 15))
    }

    /// Classes of register fields: `-` no register, `a` any, `p` not the pc, `s` not the stack pointer, `x` neither,
    /// `S` and `P` nothing else, `w` not the pc if it is written back, `=` the same register as in bits 19 to 16.
    fn allows(&self, word: u32) -> bool {
        self.fields(word).all(|(class, number)| match class {
            b'p' => number != 15,
            b's' => number != 13,
            b'x' => number != 13 && number != 15,
            b'S' => number == 13,
            b'P' => number == 15,
            b'w' => number != 15 || word >> 24 & 1 != 0 && word >> 21 & 1 == 0,
            b'=' => number == word >> 16 & 15,
            _ => true,
        })
    }

    /// Whether a register that it names is the pc.
    fn names_pc(&self, word: u32) -> bool {
        self.fields(word).any(|(class, number)| class != b'-' && number == 15)
    }
}

/// What a table says, and whether the pc is named.
fn verdict(set: Set, insn: &Insn, policy: Policy) -> (Verdict, bool) {
    let word = word(set, insn);
    let rows = match (set, insn.bytes().len()) {
        (Set::A32, _) => a32::TABLE,
        (Set::Thumb, 2) => thumb::T16,
        // Coprocessors have one encoding in both sets.
        (Set::Thumb, _) if policy == Policy::Best && (0xec..=0xee).contains(&(word >> 24)) => a32::TABLE,
        (Set::Thumb, _) => thumb::T32,
    };
    look_up(rows, word, policy)
}

/// The rows for instructions of that length as (mask, value), for tests that go through them one by one.
pub fn rows(set: Set, length: usize) -> impl Iterator<Item = (u32, u32)> {
    let rows = match (set, length) {
        (Set::A32, _) => a32::TABLE,
        (Set::Thumb, 2) => thumb::T16,
        (Set::Thumb, _) => thumb::T32,
    };
    rows.iter().map(|row| (row.mask, row.value))
}

fn look_up(rows: &[Row], word: u32, policy: Policy) -> (Verdict, bool) {
    match rows.iter().find(|row| word & row.mask == row.value) {
        None => (Refuse(&UNKNOWN), false),
        Some(row) => {
            let verdict = if policy == Policy::Best { row.best } else { row.linux };
            let refused = matches!(verdict, Refuse(_));
            (if refused || row.allows(word) { verdict } else { Refuse(&REGISTERS) }, row.names_pc(word))
        }
    }
}

#[cfg(test)]
mod tests;
