//! Decides which ARM instructions may be probed, and how each accepted one runs.
//!
//! Each instruction set has a table of rows, group by group, with a column for each policy; the first row that matches
//! decides. The columns differ where Linux 6.1 refuses an instruction that can be copied or emulated, or accepts one
//! that breaks the guest. Linux "emulates" some instructions by a copy with other registers. Here those run as an
//! unmodified copy, or are emulated if they name the pc.

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
use crate::plan::{BRANCH_INTO_ITSELF, Errno, Plan, Policy, Refusal, Rule, check_target};
use crate::region::Surroundings;
use crate::rows::{Rows, filled};
use Errno::EINVAL;
use Verdict::{Compute, Copy, Either, Refuse, Step};
use alloc::vec::Vec;
use core::ops::Range;

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static REGISTERS: Rule = Rule::new("registers", EINVAL,
        "the architecture leaves the result of this instruction with these registers UNPREDICTABLE; probe the instruction before or after it instead");
    pub static UNKNOWN: Rule = Rule::new("unknown", EINVAL,
        "this encoding is unknown, so it may be data; probe code that runs instead");
    pub static UNDEFINED: Rule = Rule::new("undefined", EINVAL,
        "it raises an exception on purpose: a BUG(), or a breakpoint of the guest; probe the instruction before it instead");
    pub static EXCEPTION: Rule = Rule::new("exception", EINVAL,
        "the handler that it enters would see the copy's address as its return address; probe the handler instead");
    pub static RETURN: Rule = Rule::new("exception-return", EINVAL,
        "it returns from an exception or builds an exception frame, where a trap would destroy state; probe an earlier instruction of this path instead");
    pub static EXCLUSIVE: Rule = Rule::new("exclusive", EINVAL,
        "a trap between a load-exclusive and its store-exclusive makes the store fail for ever; probe the instruction after the loop instead");
    pub static BETWEEN_EXCLUSIVES: Rule = Rule::new("between-exclusives", EINVAL,
        "it is between a load-exclusive and its store-exclusive, where a trap makes the store fail for ever; probe the instruction after the loop instead");
    pub static STATE: Rule = Rule::new("system-state", EINVAL,
        "it may change how all later code is translated or executed, the engine's own included; probe the instruction before it instead");
    pub static TRAP_STATE: Rule = Rule::new("trap-state", EINVAL,
        "it reads a register that a trap overwrites; probe the instruction before or after it instead");
    pub static COPROCESSOR: Rule = Rule::new("coprocessor", EINVAL,
        "Linux 6.1 refuses coprocessor, floating-point and SIMD instructions; the policy `best` accepts most of them");
    pub static BARRIER: Rule = Rule::new("barrier", EINVAL,
        "Linux 6.1 refuses barriers; the policy `best` accepts them");
    pub static STATUS: Rule = Rule::new("status", EINVAL,
        "Linux 6.1 refuses changes of the CPSR; the policy `best` accepts those that cannot change the CPU mode");
    pub static UNPRIVILEGED: Rule = Rule::new("unprivileged", EINVAL,
        "Linux 6.1 refuses accesses with user-space rights; the policy `best` accepts them");
    pub static HINT: Rule = Rule::new("hint", EINVAL,
        "Linux 6.1 accepts only a few hints; the policy `best` accepts all that do not wait");
    pub static WAIT: Rule = Rule::new("wait", EINVAL,
        "it waits for an interrupt, but its copy would run with interrupts off; probe the instruction before or after it instead");
    pub static DIVIDE: Rule = Rule::new("divide", EINVAL,
        "Linux 6.1 does not support this instruction; the policy `best` does");
    pub static LITERAL: Rule = Rule::new("literal-vector", EINVAL,
        "it is a pc-relative load of a floating-point register, which the engine does not emulate; probe the instruction before or after it instead");
    pub static STACK: Rule = Rule::new("stack", EINVAL,
        "this instruction may store more than 64 bytes below the stack pointer, where Linux 6.1 keeps a frame of its own; the policy `best` has no such frame");
}
pub(super) use reasons::*;

/// All reasons for a refusal.
#[rustfmt::skip]
pub static RULES: &[&Rule] = &[
    &REGISTERS, &UNKNOWN, &UNDEFINED, &EXCEPTION, &RETURN, &EXCLUSIVE, &BETWEEN_EXCLUSIVES, &STATE, &TRAP_STATE, &COPROCESSOR, &BARRIER,
    &STATUS, &UNPRIVILEGED, &HINT, &WAIT, &DIVIDE, &LITERAL, &STACK, &slot::OUT_OF_REACH, &slot::NO_WAY_BACK,
    &BRANCH_INTO_ITSELF,
];

/// Decides whether an instruction may be probed, and how it runs.
pub fn plan(set: Set, insn: &Insn, policy: Policy) -> Result<Plan, Refusal> {
    let word = word(set, insn);
    let (verdict, names_pc) = verdict(set, insn, policy);
    let plan = match verdict {
        Refuse(rule) => return Err(rule.refusal()),
        Compute(computation) => Plan::Emulate(Emulation::Arm(computation(insn, word))),
        Either(computation) if names_pc => Plan::Emulate(Emulation::Arm(computation(insn, word))),
        // A copy of Thumb code may be in an IT block, where no branch may follow it.
        Copy | Either(_) if set == Set::A32 => Plan::Boost,
        Copy | Either(_) | Step => Plan::Step,
    };
    match policy {
        Policy::Linux(_) if stack::is_too_deep(set, insn.bytes().len(), word) => Err(STACK.refusal()),
        Policy::Best | Policy::Outside => check_target(insn, insn.bytes().len()).map(|()| plan),
        Policy::Linux(_) => Ok(plan),
    }
}

/// Refuses instructions between a load-exclusive and its store-exclusive.
pub fn check_context(
    isa: &'static Isa,
    insn: &Insn,
    policy: Policy,
    function: Range<u64>,
    around: &mut dyn Surroundings,
) -> Result<(), Refusal> {
    let kind = if isa.variable_length { exclusive_thumb } else { exclusive_a32 };
    // Linux 6.1 does not check this.
    if !policy.is_linux() && between_exclusives(isa, kind, &function, insn.address, around) {
        return Err(BETWEEN_EXCLUSIVES.refusal());
    }
    Ok(())
}

/// The effect of an A32 instruction on the exclusive monitor.
fn exclusive_a32(insn: &Insn) -> Exclusive {
    let word = word(Set::A32, insn);
    match word {
        _ if word & 0x0f80_0ff0 == 0x0180_0f90 || word & 0x0f80_0ff0 == 0x0180_0e90 => by_load_bit(word),
        0xf57f_f01f => Exclusive::Clear,
        _ => Exclusive::Neither,
    }
}

/// The effect of a Thumb instruction on the exclusive monitor.
fn exclusive_thumb(insn: &Insn) -> Exclusive {
    let word = word(Set::Thumb, insn);
    let is = |mask: u32, value: u32| word & mask == value;
    match word {
        // Words; then bytes, halfwords and doublewords, with and without acquire or release.
        _ if is(0xffe0_0000, 0xe840_0000) || is(0xffe0_00c0, 0xe8c0_0040) || is(0xffe0_00c0, 0xe8c0_00c0) => by_load_bit(word),
        0xf3bf_8f2f => Exclusive::Clear,
        _ => Exclusive::Neither,
    }
}

fn by_load_bit(word: u32) -> Exclusive {
    if word >> 20 & 1 != 0 { Exclusive::Load } else { Exclusive::Store }
}

/// Whether the instruction computes with the pc, so that an unmodified copy would have another result.
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

/// Whether the address of its memory access depends on the pc. If it does not, an unmodified copy raises the same
/// fault.
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

/// The decision in one column of a table.
#[derive(Clone, core::marker::Copy)]
enum Verdict {
    /// Its copy runs in a slot; boosted in A32 code.
    Copy,
    /// Its copy is stepped: it ends a translation block, or the machine must react to it at once.
    Step,
    /// It is emulated if it names the pc. Otherwise its copy runs.
    Either(fn(&Insn, u32) -> Computation),
    Compute(fn(&Insn, u32) -> Computation),
    Refuse(&'static Rule),
}

/// Instructions with `word & mask == value`, and the decision about them.
struct RuleRow {
    mask: u32,
    value: u32,
    /// Classes of the register fields in bits 19-16, 15-12, 11-8 and 3-0: see [`RuleRow::allows`].
    registers: &'static [u8; 4],
    linux: Verdict,
    best: Verdict,
}

/// A row on which the policies agree.
const fn both(mask: u32, value: u32, registers: &'static [u8; 4], verdict: Verdict) -> RuleRow {
    RuleRow { mask, value, registers, linux: verdict, best: verdict }
}

const fn row(mask: u32, value: u32, registers: &'static [u8; 4], linux: Verdict, best: Verdict) -> RuleRow {
    RuleRow { mask, value, registers, linux, best }
}

/// A row that both policies refuse.
const fn refuse(mask: u32, value: u32, rule: &'static Rule) -> RuleRow {
    both(mask, value, b"----", Refuse(rule))
}

/// A row that only `best` accepts, with any registers.
const fn best(mask: u32, value: u32, rule: &'static Rule, verdict: Verdict) -> RuleRow {
    row(mask, value, b"----", Refuse(rule), verdict)
}

impl RuleRow {
    fn has(&self, word: u32) -> bool {
        word & self.mask == self.value
    }

    fn fields(&self, word: u32) -> impl Iterator<Item = (u8, u32)> + use<> {
        self.registers.iter().copied().zip([16, 12, 8, 0]).map(move |(class, low)| (class, word >> low & 15))
    }

    /// Checks the register fields. Classes: `-` not a register, `a` any, `p` not the pc, `s` not sp, `x` neither, `S`
    /// only sp, `P` only the pc, `w` not the pc if the base is written back, `=` the same register as in bits 19-16.
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

    /// Whether one of its register fields is the pc.
    fn names_pc(&self, word: u32) -> bool {
        self.fields(word).any(|(class, number)| class != b'-' && number == 15)
    }
}

/// The decision of the table, and whether the instruction names the pc.
fn verdict(set: Set, insn: &Insn, policy: Policy) -> (Verdict, bool) {
    let word = word(set, insn);
    let rows = match (set, insn.bytes().len()) {
        (Set::A32, _) => a32::TABLE,
        (Set::Thumb, 2) => thumb::T16,
        // Coprocessor instructions have the same encoding in both sets.
        (Set::Thumb, _) if !policy.is_linux() && (0xec..=0xee).contains(&(word >> 24)) => a32::TABLE,
        (Set::Thumb, _) => thumb::T32,
    };
    look_up(rows, word, policy)
}

/// The rows of the tables for a set; those of T16 come before those of T32.
pub const fn numbered(set: Set) -> Rows {
    match set {
        Set::A32 => Rows {
            example: |row, free| a32::TABLE.get(row).map(|row| filled(row.mask, row.value, free).to_le_bytes().to_vec()),
            of: |insn| a32::TABLE.iter().position(|row| row.has(word(Set::A32, insn))),
            flags: &[("cpsr", 0xf80f_0000, 0x1d3)],
            ..Rows::NONE
        },
        Set::Thumb => Rows { example: thumb_example, of: thumb_row, flags: &[("cpsr", 0xf80f_0000, 0x1f3)], ..Rows::NONE },
    }
}

fn thumb_example(row: usize, free: u64) -> Option<Vec<u8>> {
    if let Some(row) = thumb::T16.get(row) {
        return Some(filled(row.mask, row.value, free).to_le_bytes()[..2].to_vec());
    }
    let row = thumb::T32.get(row.checked_sub(thumb::T16.len())?)?;
    let [c, d, a, b] = filled(row.mask, row.value, free).to_le_bytes();
    Some([a, b, c, d].to_vec())
}

fn thumb_row(insn: &Insn) -> Option<usize> {
    let word = word(Set::Thumb, insn);
    match insn.bytes().len() {
        2 => thumb::T16.iter().position(|row| row.has(word)),
        _ => thumb::T32.iter().position(|row| row.has(word)).map(|row| row + thumb::T16.len()),
    }
}

/// The (mask, value) pairs of all rows for instructions of this length, for tests.
pub fn rows(set: Set, length: usize) -> impl Iterator<Item = (u32, u32)> {
    let rows = match (set, length) {
        (Set::A32, _) => a32::TABLE,
        (Set::Thumb, 2) => thumb::T16,
        (Set::Thumb, _) => thumb::T32,
    };
    rows.iter().map(|row| (row.mask, row.value))
}

fn look_up(rows: &[RuleRow], word: u32, policy: Policy) -> (Verdict, bool) {
    match rows.iter().find(|row| row.has(word)) {
        None => (Refuse(&UNKNOWN), false),
        Some(row) => {
            let verdict = if !policy.is_linux() { row.best } else { row.linux };
            let refused = matches!(verdict, Refuse(_));
            (if refused || row.allows(word) { verdict } else { Refuse(&REGISTERS) }, row.names_pc(word))
        }
    }
}

#[cfg(test)]
mod tests;
