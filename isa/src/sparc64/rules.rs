//! Decides which SPARC instructions may be probed, and how each accepted one runs.
//!
//! One table with a column for each policy. The first row that matches decides; an instruction in no row may run
//! anywhere. Linux 6.1 refuses only unaligned addresses. The columns differ where it accepts an instruction that its
//! trap or step breaks.

use super::abi::{o, r};
use super::decode::{OP2, OP2_CC, OP2_COND, OP3, OP3_RD, OP3_RS1, annuls, has_delay_slot, word};
use super::emulate::{Branch, Computation, Condition, Target};
use super::{LENGTH, slot};
use crate::arch::Emulation;
use crate::insn::Insn;
use crate::mem::ByteOrder;
use crate::plan::{Errno, Plan, Policy, Refusal, Rule};
use crate::region::Surroundings;
use crate::regs::Reg;
use crate::rows::{Rows, filled};
use Errno::EINVAL;
use Verdict::{Boost, Compute, Refuse, Step};
use core::ops::Range;

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static COUPLE: Rule = Rule::new("branch-in-delay-slot", EINVAL,
        "it is a branch in the delay slot of another branch, so one instruction at the first branch's target runs in between; probe the first branch instead");
    pub static BREAKPOINT: Rule = Rule::new("foreign-breakpoint", EINVAL,
        "the instruction is already a breakpoint, or that of a BUG(); probe the next instruction instead");
    pub static EXCEPTION: Rule = Rule::new("exception", EINVAL,
        "the handler that it enters would see the copy's address as its return address; probe the handler instead");
    pub static ILLEGAL: Rule = Rule::new("illegal", EINVAL,
        "it raises an exception on purpose; probe the previous instruction instead");
}
pub(super) use reasons::*;

/// All reasons for a refusal.
pub static RULES: &[&Rule] = &[&COUPLE, &BREAKPOINT, &EXCEPTION, &ILLEGAL, &slot::OUT_OF_REACH];

/// Decides whether an instruction may be probed, and how it runs.
pub fn plan(insn: &Insn, policy: Policy) -> Result<Plan, Refusal> {
    let word = word(insn);
    let found = row_of(word);
    let verdict = match policy {
        Policy::Best | Policy::Outside => found.map_or(Boost, |row| row.best),
        Policy::Linux(_) => found.map_or(Step, |row| row.linux),
    };
    match verdict {
        Refuse(rule) => Err(rule.refusal()),
        Compute(computation) => Ok(Plan::Emulate(Emulation::Sparc64(computation(word)))),
        Boost => Ok(Plan::Boost),
        Step => Ok(Plan::Step),
    }
}

/// The decision in one column of the table.
#[derive(Clone, Copy)]
enum Verdict {
    Compute(fn(u32) -> Computation),
    Boost,
    Step,
    Refuse(&'static Rule),
}

/// Instructions with `word & mask == value`, and the decision about them.
struct RuleRow {
    mask: u32,
    value: u32,
    linux: Verdict,
    best: Verdict,
}

fn row_of(word: u32) -> Option<&'static RuleRow> {
    TABLE.iter().find(|row| word & row.mask == row.value)
}

const fn row(mask: u32, value: u32, linux: Verdict, best: Verdict) -> RuleRow {
    RuleRow { mask, value, linux, best }
}

/// A row on which the policies agree.
const fn both(mask: u32, value: u32, verdict: Verdict) -> RuleRow {
    row(mask, value, verdict, verdict)
}

/// Mask of a trap that is always taken, with its number.
const TRAP_ALWAYS: u32 = 0xffff_ffff;

/// The rows of the table.
pub const ROWS: Rows = Rows {
    example: |row, free| TABLE.get(row).map(|row| filled(row.mask, row.value, free).to_be_bytes().to_vec()),
    of: |insn| TABLE.iter().position(|row| word(insn) & row.mask == row.value),
    flags: &[("g0", 0, 0), ("ccr", 0xff, 0), ("cwp", 7, 0), ("cansave", 0, 3), ("canrestore", 0, 3)],
    ..Rows::NONE
};

#[rustfmt::skip]
static TABLE: &[RuleRow] = &[
    //   mask         value        Linux 6.1              best
    row (TRAP_ALWAYS, 0x91d0_2070, Step,                  Refuse(&BREAKPOINT)), // ta 0x70: a probe's
    row (TRAP_ALWAYS, 0x91d0_2071, Step,                  Refuse(&BREAKPOINT)), // ta 0x71: the end of a step
    row (TRAP_ALWAYS, 0x91d0_2072, Step,                  Refuse(&BREAKPOINT)), // ta 0x72: a debugger's
    row (TRAP_ALWAYS, slot::OLD_BREAK, Step,              Refuse(&BREAKPOINT)), // ta 1
    row (TRAP_ALWAYS, 0x91d0_2005, Step,                  Refuse(&BREAKPOINT)), // ta 5: BUG()
    row (TRAP_ALWAYS, slot::BREAK_SAVE, Step,             Refuse(&BREAKPOINT)), // ours
    row (TRAP_ALWAYS, slot::BREAK_RESTORE, Step,          Refuse(&BREAKPOINT)),
    row (TRAP_ALWAYS, slot::BREAK_FLUSH, Step,            Refuse(&BREAKPOINT)),
    row (0xdff8_0000, 0x91d0_0000, Step,                  Refuse(&EXCEPTION)),  // ta
    row (OP3,         0x81d0_0000, Step,                  Step),                // Tcc: seldom taken
    both(0xc000_0000, 0x4000_0000, Compute(call)),                              // call
    both(OP2_COND,    0x0080_0000, Compute(never)),                             // bn
    both(OP2,         0x0080_0000, Compute(on_codes)),                          // Bicc
    both(0xdfd0_0000, 0x0040_0000, Compute(never)),                             // bn %icc, %xcc
    both(OP2_CC,      0x0040_0000, Compute(on_chosen_codes)),                   // BPcc
    both(OP2_COND,    0x02c0_0000, Compute(on_register)),                       // brz
    both(OP2_COND,    0x04c0_0000, Compute(on_register)),                       // brlez
    both(OP2_COND,    0x06c0_0000, Compute(on_register)),                       // brlz
    both(OP2_COND,    0x0ac0_0000, Compute(on_register)),                       // brnz
    both(OP2_COND,    0x0cc0_0000, Compute(on_register)),                       // brgz
    both(OP2_COND,    0x0ec0_0000, Compute(on_register)),                       // brgez
    both(OP2,         0x0180_0000, Compute(on_float)),                          // FBfcc
    both(OP2,         0x0140_0000, Compute(on_chosen_float)),                   // FBPfcc
    both(OP3,         0x81c0_0000, Compute(jump_and_link)),                     // jmpl
    both(OP3,         0x81c8_0000, Compute(return_)),                           // return
    both(OP3_RD,      0x81f0_0000, Compute(done)),                              // done
    both(OP3_RD,      0x83f0_0000, Compute(retry)),                             // retry
    both(OP3_RS1,     0x8141_4000, Compute(read_pc)),                           // rd %pc
    both(OP3_RS1,     0x8141_0000, Step),                                       // rd %tick: the machine's clock
    both(OP3_RS1,     0x8146_0000, Step),                                       // rd %stick
    row (OP2,         0x0000_0000, Step,                  Refuse(&ILLEGAL)),    // illtrap
];

fn rd(word: u32) -> Reg {
    r((word >> 25 & 31) as u8)
}

fn rs1(word: u32) -> Reg {
    r((word >> 14 & 31) as u8)
}

/// The target of a jump: the sum of two registers, or of one and a 13-bit immediate.
fn sum(word: u32) -> Target {
    match word >> 13 & 1 {
        0 => Target::Sum(rs1(word), r((word & 31) as u8)),
        _ => Target::Off(rs1(word), ((word << 19) as i32 >> 19) as i16),
    }
}

/// A branch to the fixed target in the instruction.
fn branch(condition: Condition, word: u32) -> Computation {
    Computation::Branch(Branch { condition, target: Target::Written, link: None, annuls: annuls(word), restores: false })
}

fn jump(target: Target, link: Option<Reg>, restores: bool) -> Computation {
    Computation::Branch(Branch { condition: Condition::Always, target, link, annuls: false, restores })
}

/// The condition field.
fn condition(word: u32) -> u8 {
    (word >> 25 & 15) as u8
}

fn by_codes(word: u32, up: u8) -> Computation {
    let condition = match condition(word) {
        0 => Condition::Never,
        8 => Condition::Always,
        other => Condition::Codes(other, up),
    };
    branch(condition, word)
}

fn by_float(word: u32, up: u8) -> Computation {
    /// For each condition, the outcomes that branch: bits for equal, less, greater and unordered, from bit 0 up.
    const SETS: [u8; 16] = [0, 14, 6, 10, 2, 12, 4, 8, 15, 1, 9, 5, 13, 3, 11, 7];
    branch(Condition::Float(SETS[usize::from(condition(word))], up), word)
}

/// A branch that is never taken. Its annul bit still counts.
fn never(word: u32) -> Computation {
    branch(Condition::Never, word)
}

fn call(_: u32) -> Computation {
    jump(Target::Written, Some(o(7)), false)
}

fn on_codes(word: u32) -> Computation {
    by_codes(word, 0)
}

fn on_chosen_codes(word: u32) -> Computation {
    by_codes(word, if word >> 21 & 1 != 0 { 4 } else { 0 })
}

fn on_register(word: u32) -> Computation {
    branch(Condition::Register(condition(word) & 7, rs1(word)), word)
}

fn on_float(word: u32) -> Computation {
    by_float(word, 10)
}

fn on_chosen_float(word: u32) -> Computation {
    by_float(word, [10, 32, 34, 36][(word >> 20 & 3) as usize])
}

fn jump_and_link(word: u32) -> Computation {
    jump(sum(word), Some(rd(word)), false)
}

fn return_(word: u32) -> Computation {
    jump(sum(word), None, true)
}

fn done(_: u32) -> Computation {
    Computation::Done
}

fn retry(_: u32) -> Computation {
    Computation::Retry
}

fn read_pc(word: u32) -> Computation {
    Computation::ReadPc(rd(word))
}

/// Refuses a branch in the delay slot of another branch.
pub fn check_context(insn: &Insn, policy: Policy, _: Range<u64>, around: &mut dyn Surroundings) -> Result<(), Refusal> {
    let is_branch = matches!(plan(insn, Policy::Best), Ok(Plan::Emulate(Emulation::Sparc64(Computation::Branch(_)))));
    match policy {
        Policy::Best | Policy::Outside if is_branch && follows_branch(insn.address, around) => Err(COUPLE.refusal()),
        _ => Ok(()),
    }
}

/// The emulation of an instruction in a delay slot; `None` if it is in none.
pub fn in_delay_slot(insn: &Insn, around: &mut dyn Surroundings) -> Option<Emulation> {
    let what = match plan(insn, Policy::Best) {
        Ok(Plan::Emulate(Emulation::Sparc64(Computation::ReadPc(to)))) => Computation::ReadPcInDelaySlot(to),
        // A branch in a delay slot. `Best` refuses it; Linux 6.1 does not check.
        Ok(Plan::Emulate(_)) => return None,
        _ => Computation::InDelaySlot,
    };
    follows_branch(insn.address, around).then_some(Emulation::Sparc64(what))
}

/// Whether the previous word, in whatever function, is a branch with a delay slot.
fn follows_branch(address: u64, around: &mut dyn Surroundings) -> bool {
    let mut before = [0; LENGTH];
    let found = around.read(address.wrapping_sub(LENGTH as u64), &mut before);
    found.is_ok() && has_delay_slot(ByteOrder::Big.word(&before))
}

#[cfg(test)]
mod tests;
