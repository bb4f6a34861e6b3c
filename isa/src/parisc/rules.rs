//! Decides which PA-RISC instructions may be probed, and how each accepted one runs.
//!
//! One table with a column for each policy. The first row that matches decides; an instruction in no row may run
//! anywhere. Linux 6.1 refuses only unaligned addresses. The columns differ where it accepts an instruction that its
//! trap or step breaks.

use super::abi::r;
use super::decode::{Transfer, has_delay_slot, may_change_space, word};
use super::emulate::Computation;
use super::fields::bits;
use super::{LENGTH, slot};
use crate::arch::Emulation;
use crate::insn::Insn;
use crate::mem::ByteOrder;
use crate::plan::{Errno, Plan, Policy, Refusal, Rule};
use crate::region::Surroundings;
use crate::rows::{Rows, filled};
use Errno::EINVAL;
use Verdict::{Boost, BoostPast, Compute, Refuse, Step};
use core::ops::Range;

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static BREAKPOINT: Rule = Rule::new("foreign-breakpoint", EINVAL,
        "the instruction is already a breakpoint, or that of a BUG(); probe the next instruction instead");
    pub static EXCEPTION: Rule = Rule::new("exception", EINVAL,
        "the handler that it enters would see the copy's address as its return address; probe the handler instead");
    pub static GATE: Rule = Rule::new("gate", EINVAL,
        "its page gives it the privilege level that it sets, and a copy is in another page; probe the instruction that it leads to instead");
    pub static LEAVING_SLOT: Rule = Rule::new("slot-of-far-branch", EINVAL,
        "it is in the delay slot of a branch that may change the address space or the privilege level, so the end of its step would be fetched there; probe the branch instead");
}
pub(super) use reasons::*;

/// All reasons for a refusal.
pub static RULES: &[&Rule] = &[&BREAKPOINT, &EXCEPTION, &GATE, &LEAVING_SLOT, &slot::OUT_OF_REACH];

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
        Compute(computation) => match computation(word) {
            Some(what) => Ok(Plan::Emulate(Emulation::Parisc(what))),
            None => Ok(Plan::Step),
        },
        Boost | BoostPast => Ok(Plan::Boost),
        Step => Ok(Plan::Step),
    }
}

/// The decision in one column of the table.
#[derive(Clone, Copy)]
enum Verdict {
    /// Computed, if the word is such an instruction in all its bits.
    Compute(fn(u32) -> Option<Computation>),
    Boost,
    /// Boosted, with a way back for the case that it nullifies the next instruction.
    BoostPast,
    Step,
    Refuse(&'static Rule),
}

/// Whether a boosted instruction may nullify the next one.
pub(super) fn may_nullify(word: u32) -> bool {
    row_of(word).is_some_and(|row| matches!(row.best, BoostPast))
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

/// The rows of the table.
pub const ROWS: Rows = Rows {
    example: |row, free| TABLE.get(row).map(|row| filled(row.mask, row.value, free).to_be_bytes().to_vec()),
    of: |insn| TABLE.iter().position(|row| word(insn) & row.mask == row.value),
    flags: &[],
    ..Rows::NONE
};

/// Mask of the opcode.
const OP: u32 = 0xfc00_0000;
/// Mask of the opcode and the condition with its negation.
const OP_CONDITION: u32 = 0xfc00_f000;
/// Mask of the opcode and the condition of a shift.
const OP_SHIFT: u32 = 0xfc00_e000;
/// Mask of a system instruction.
const SYSTEM: u32 = 0xfc00_1fe0;
/// Mask of a system instruction with a control register.
const SYSTEM_CR: u32 = 0xffe0_1fe0;

#[rustfmt::skip]
static TABLE: &[RuleRow] = &[
    //   mask          value                  Linux 6.1              best
    row (u32::MAX,     slot::BREAK,           Step,                  Refuse(&BREAKPOINT)),
    row (u32::MAX,     slot::STEP_END,        Step,                  Refuse(&BREAKPOINT)),
    row (u32::MAX,     slot::STEP_NULLIFIED,  Step,                  Refuse(&BREAKPOINT)), // ours
    row (u32::MAX,     0x03ff_e01f,           Step,                  Refuse(&BREAKPOINT)), // BUG()
    row (u32::MAX,     0x0001_0004,           Step,                  Refuse(&BREAKPOINT)), // a debugger's
    row (SYSTEM,       0x0000_0000,           Step,                  Refuse(&EXCEPTION)),  // break
    both(SYSTEM,       0x0000_0c00,           Compute(rfi)),
    both(SYSTEM,       0x0000_0ca0,           Compute(rfi)),                               // rfi,r
    both(SYSTEM,       0x0000_14a0,           Compute(mfia)),
    both(SYSTEM_CR,    0x0200_08a0,           Step),                                       // mfctl cr16: the machine's clock
    both(SYSTEM_CR,    0x0200_1840,           Step),                                       // mtctl cr16: its comparator
    row (OP_CONDITION, 0x0800_0000,           Step,                  Boost),               // arithmetic that never nullifies
    row (OP,           0x0800_0000,           Step,                  BoostPast),           // arithmetic
    both(OP,           0x1000_0000,           Step),                                       // spop
    both(OP,           0x3000_0000,           Step),                                       // copr, and ftest
    both(OP,           0x3800_0000,           Step),                                       // floating point
    row (OP_CONDITION, 0x9000_0000,           Step,                  Boost),               // cmpiclr that never nullifies
    row (OP,           0x9000_0000,           Step,                  BoostPast),           // cmpiclr
    row (OP_CONDITION, 0x9400_0000,           Step,                  Boost),
    row (OP,           0x9400_0000,           Step,                  BoostPast),           // subi
    row (OP_CONDITION, 0xb000_0000,           Step,                  Boost),
    row (OP,           0xb000_0000,           Step,                  BoostPast),           // addi,tc
    row (OP_CONDITION, 0xb400_0000,           Step,                  Boost),
    row (OP,           0xb400_0000,           Step,                  BoostPast),           // addi
    row (OP_SHIFT,     0xd000_0000,           Step,                  Boost),
    row (OP,           0xd000_0000,           Step,                  BoostPast),           // shrpw, extrw
    row (OP_SHIFT,     0xd400_0000,           Step,                  Boost),
    row (OP,           0xd400_0000,           Step,                  BoostPast),           // depw
    both(OP,           0xd800_0000,           Step),                                       // extrd
    both(OP,           0xf000_0000,           Step),                                       // depd
    both(OP,           0xf400_0000,           Step),                                       // depdi
    row (0xfc00_e000,  0xe800_2000,           Step,                  Refuse(&GATE)),       // b,gate
    both(0xf800_0000,  0x8000_0000,           Compute(branch)),                            // cmpb,t cmpib,t
    both(0xf800_0000,  0x8800_0000,           Compute(branch)),                            // cmpb,f cmpib,f
    both(0xf800_0000,  0xa000_0000,           Compute(branch)),                            // addb,t addib,t
    both(0xf800_0000,  0xa800_0000,           Compute(branch)),                            // addb,f addib,f
    both(0xf800_0000,  0xc000_0000,           Compute(branch)),                            // bb
    both(0xf800_0000,  0xc800_0000,           Compute(branch)),                            // movb movib
    both(OP,           0xe000_0000,           Compute(branch)),                            // be
    both(OP,           0xe400_0000,           Compute(branch)),                            // be,l
    both(OP,           0xe800_0000,           Compute(branch)),                            // b,l blr bv bve
];

fn branch(word: u32) -> Option<Computation> {
    Transfer::of(word).map(Computation::Branch)
}

fn rfi(word: u32) -> Option<Computation> {
    Some(Computation::Return { restores: word & 0xa0 != 0 })
}

fn mfia(word: u32) -> Option<Computation> {
    Some(Computation::ReadPc(r(bits(word, 27, 31) as u8)))
}

/// Refuses an instruction in the delay slot of a far branch: the end of its step would be fetched in the branch's space.
pub fn check_context(insn: &Insn, policy: Policy, _: Range<u64>, around: &mut dyn Surroundings) -> Result<(), Refusal> {
    let is_copied = !matches!(plan(insn, policy), Ok(Plan::Emulate(_)));
    let leaves = |word: u32| has_delay_slot(word) && may_change_space(word);
    match policy {
        Policy::Best | Policy::Outside if is_copied && before(insn.address, around).is_some_and(leaves) => {
            Err(LEAVING_SLOT.refusal())
        }
        _ => Ok(()),
    }
}

/// The emulation of an instruction in a delay slot; `None` if it is in none.
pub fn in_delay_slot(insn: &Insn, around: &mut dyn Surroundings) -> Option<Emulation> {
    let what = match plan(insn, Policy::Best) {
        // Emulated instructions continue at the back of the queue anyway.
        Ok(Plan::Emulate(what)) => what,
        _ => Emulation::Parisc(Computation::InDelaySlot),
    };
    before(insn.address, around).is_some_and(has_delay_slot).then_some(what)
}

/// The previous word, in whatever function.
fn before(address: u64, around: &mut dyn Surroundings) -> Option<u32> {
    let mut bytes = [0; LENGTH];
    around.read(address.wrapping_sub(LENGTH as u64), &mut bytes).ok()?;
    Some(ByteOrder::Big.word(&bytes))
}

#[cfg(test)]
mod tests;
