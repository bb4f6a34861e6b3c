//! Decides which MIPS instructions may be probed, and how each accepted one runs.
//!
//! One table for all four variants, with a column for each policy. The first row that matches decides; an instruction
//! in no row may run anywhere, because only branches use the pc. The columns differ where Linux 6.1 accepts
//! instructions that its trap or its step breaks.

use super::abi::{RA, r};
use super::decode::{delay_slot_of, has_delay_slot, word};
use super::emulate::{Computation, Condition, Target};
use super::{LENGTH, Set, slot};
use crate::arch::Emulation;
use crate::function::{Exclusive, between_exclusives};
use crate::insn::Insn;
use crate::plan::{Errno, Plan, Policy, Refusal, Rule};
use crate::region::Surroundings;
use crate::regs::Reg;
use crate::rows::filled;
use Errno::EINVAL;
use Verdict::{Boost, Compute, Refuse, Step};
use alloc::vec::Vec;
use core::ops::Range;

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static IN_DELAY_SLOT: Rule = Rule::new("delay-slot", EINVAL,
        "it lies in the delay slot of the branch in front of it, and both run as one instruction; probe the branch instead");
    pub static DELAY_SLOT_APART: Rule = Rule::new("slot-apart", EINVAL,
        "its delay slot is in the next page, which may need a TLB refill before the branch runs; probe the previous instruction instead");
    pub static BETWEEN_EXCLUSIVES: Rule = Rule::new("between-exclusives", EINVAL,
        "it is between a load-linked and its store-conditional, where a trap makes the store fail for ever; probe the instruction after the loop instead");
    pub static EXCLUSIVE: Rule = Rule::new("exclusive", EINVAL,
        "a trap between a load-linked and its store-conditional makes the store fail for ever; probe the instruction after the loop instead");
    pub static BREAKPOINT: Rule = Rule::new("foreign-breakpoint", EINVAL,
        "the instruction is already a breakpoint, or that of a BUG() or WARN(); probe the next instruction instead");
    pub static EXCEPTION: Rule = Rule::new("exception", EINVAL,
        "the handler that it enters would see the copy's address as its return address; probe the handler instead");
    pub static RETURN: Rule = Rule::new("exception-return", EINVAL,
        "it returns from an exception, and a trap at this point would overwrite the saved state; probe an earlier instruction of this path instead");
    pub static WAIT: Rule = Rule::new("wait", EINVAL,
        "it waits for an interrupt or another CPU, but its copy would run with interrupts off; probe the instruction before or after it instead");
    pub static UNFIT_DELAY_SLOT: Rule = Rule::new("unfit-delay-slot", EINVAL,
        "its delay slot has a branch, whose effect the architecture leaves undefined; probe an earlier instruction instead");
    pub static INVALID: Rule = Rule::new("invalid-form", EINVAL,
        "it overwrites the register with its own target, so it cannot be repeated after a fault; probe another instruction instead");
    pub static HINT: Rule = Rule::new("jump-hint", EINVAL,
        "it is a jump with a reserved hint, which some CPUs reject; probe an earlier instruction instead");
    pub static OTHER_MODE: Rule = Rule::new("other-mode", EINVAL,
        "it leads into microMIPS or MIPS16 code, which is not supported; probe an earlier instruction instead");
    pub static COPROCESSOR: Rule = Rule::new("coprocessor-branch", EINVAL,
        "it tests a flag of a coprocessor, which may be disabled; probe the previous instruction instead");
    pub static RELEASE_6: Rule = Rule::new("release-6", EINVAL,
        "it uses the pc on CPUs of release 6, and is a different or no instruction on older CPUs; probe another instruction instead");
}
pub(super) use reasons::*;

/// All reasons for a refusal.
#[rustfmt::skip]
pub static RULES: &[&Rule] = &[
    &IN_DELAY_SLOT, &DELAY_SLOT_APART, &BETWEEN_EXCLUSIVES, &EXCLUSIVE, &BREAKPOINT, &EXCEPTION, &RETURN, &WAIT, &UNFIT_DELAY_SLOT, &INVALID, &HINT, &OTHER_MODE, &COPROCESSOR,
    &RELEASE_6, &slot::OUT_OF_REACH,
];

/// Decides whether an instruction may be probed, and how it runs.
pub fn plan(set: Set, insn: &Insn, policy: Policy) -> Result<Plan, Refusal> {
    let word = word(set, insn);
    let found = row_of(word);
    let verdict = match policy {
        Policy::Best | Policy::Outside => found.map_or(Boost, |row| row.best),
        Policy::Linux(_) => found.map_or(Step, |row| row.linux),
    };
    match (verdict, delay_slot_of(insn)) {
        (Refuse(rule), _) => Err(rule.refusal()),
        (Compute(computation), Some(slot)) => {
            if !policy.is_linux() {
                check_delay_slot(set, &slot)?;
            }
            let what = computation(word);
            let overwrites = what.link.is_some_and(|link| what.looks_at(link));
            if !policy.is_linux() && overwrites {
                return Err(INVALID.refusal());
            }
            let empty_delay_slot = super::decode::word(set, &slot) == 0;
            Ok(Plan::Emulate(Emulation::Mips(Computation { empty_delay_slot, ..what })))
        }
        (Boost, _) => Ok(Plan::Boost),
        (Step | Compute(_), _) => Ok(Plan::Step),
    }
}

/// The instruction in a delay slot runs as a copy, so it must be one that may be probed itself, and no branch.
fn check_delay_slot(set: Set, slot: &Insn) -> Result<(), Refusal> {
    let word = word(set, slot);
    match row_of(word).map(|row| row.best) {
        _ if has_delay_slot(word) => Err(UNFIT_DELAY_SLOT.refusal()),
        Some(Refuse(rule)) => Err(rule.refusal()),
        _ => Ok(()),
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

/// The number of the row that decides about an instruction.
pub fn number_of(set: Set, insn: &Insn) -> Option<usize> {
    TABLE.iter().position(|row| word(set, insn) & row.mask == row.value)
}

/// An instruction of a row, with what stands in its delay slot.
pub fn example(set: Set, row: usize, free: u64) -> Option<Vec<u8>> {
    const ADDIU: u32 = 0x2442_0001;
    let row = TABLE.get(row)?;
    let word = filled(row.mask, row.value, free);
    let slot = has_delay_slot(word).then(|| set.bytes(if free >> 63 == 0 { 0 } else { ADDIU }));
    Some([Some(set.bytes(word)), slot].into_iter().flatten().flatten().collect())
}

const fn row(mask: u32, value: u32, linux: Verdict, best: Verdict) -> RuleRow {
    RuleRow { mask, value, linux, best }
}

/// A row on which the policies agree.
const fn both(mask: u32, value: u32, verdict: Verdict) -> RuleRow {
    row(mask, value, verdict, verdict)
}

/// Mask of the primary opcode.
const OP: u32 = 0xfc00_0000;
/// Mask of the primary opcode and the function field.
const FUNCT: u32 = 0xfc00_003f;
/// Mask of a register jump: opcode, function and hint.
const HINTED: u32 = 0xfc00_07ff;
/// Mask of the primary opcode and a function in the rt field.
const RT: u32 = 0xfc1f_0000;
/// Mask of the primary opcode and a function in the rs field.
const RS: u32 = 0xffe0_0000;
/// Mask of a move from or to coprocessor 0: opcode, direction, register and selection.
const COP0: u32 = 0xffe0_f807;

#[rustfmt::skip]
static TABLE: &[RuleRow] = &[
    //   mask         value        Linux 6.1              best
    both(OP,          0xc000_0000, Refuse(&EXCLUSIVE)),                             // ll
    both(OP,          0xe000_0000, Refuse(&EXCLUSIVE)),                             // sc
    both(OP,          0xd000_0000, Refuse(&EXCLUSIVE)),                             // lld
    both(OP,          0xf000_0000, Refuse(&EXCLUSIVE)),                             // scd
    row (FUNCT,       0x7c00_0036, Step,                  Refuse(&EXCLUSIVE)),      // ll of release 6
    row (FUNCT,       0x7c00_0026, Step,                  Refuse(&EXCLUSIVE)),      // sc of release 6
    row (FUNCT,       0x7c00_0037, Step,                  Refuse(&EXCLUSIVE)),      // lld of release 6
    row (FUNCT,       0x7c00_0027, Step,                  Refuse(&EXCLUSIVE)),      // scd of release 6
    row (FUNCT,       0x7c00_002e, Step,                  Refuse(&EXCLUSIVE)),      // lle
    row (FUNCT,       0x7c00_001e, Step,                  Refuse(&EXCLUSIVE)),      // sce
    row (u32::MAX,    0x0000_0140, Step,                  Refuse(&WAIT)),           // pause
    both(HINTED,      0x0000_0008, Compute(jump_register)),                         // jr
    both(HINTED,      0x0000_0408, Compute(jump_register)),                         // jr.hb
    row (FUNCT,       0x0000_0008, Compute(jump_register), Refuse(&HINT)),          // jr with any other hint
    both(HINTED,      0x0000_0009, Compute(jump_register)),                         // jalr
    both(HINTED,      0x0000_0409, Compute(jump_register)),                         // jalr.hb
    row (FUNCT,       0x0000_0009, Compute(jump_register), Refuse(&HINT)),          // jalr with any other hint
    row (FUNCT,       0x0000_000c, Step,                  Refuse(&EXCEPTION)),      // syscall
    row (FUNCT,       0x0000_000d, Step,                  Refuse(&BREAKPOINT)),     // break
    row (FUNCT,       0x7000_003f, Step,                  Refuse(&BREAKPOINT)),     // sdbbp
    both(RT,          0x0400_0000, Compute(bltz)),                                  // bltz
    both(RT,          0x0401_0000, Compute(bgez)),                                  // bgez
    both(RT,          0x0402_0000, Compute(bltzl)),                                 // bltzl
    both(RT,          0x0403_0000, Compute(bgezl)),                                 // bgezl
    both(RT,          0x0410_0000, Compute(bltzal)),                                // bltzal
    both(RT,          0x0411_0000, Compute(bgezal)),                                // bgezal, bal
    both(RT,          0x0412_0000, Compute(bltzall)),                               // bltzall
    both(RT,          0x0413_0000, Compute(bgezall)),                               // bgezall
    both(RT,          0x041c_0000, Refuse(&COPROCESSOR)),                           // bposge32: of the DSP
    both(OP,          0x0800_0000, Compute(jump)),                                  // j
    both(OP,          0x0c00_0000, Compute(jump_and_link)),                         // jal
    row (OP,          0x7400_0000, Step,                  Refuse(&OTHER_MODE)),     // jalx
    both(OP,          0x1000_0000, Compute(beq)),                                   // beq, b
    both(OP,          0x1400_0000, Compute(bne)),                                   // bne
    both(RT,          0x1800_0000, Compute(blez)),                                  // blez
    both(RT,          0x1c00_0000, Compute(bgtz)),                                  // bgtz
    both(OP,          0x5000_0000, Compute(beql)),                                  // beql
    both(OP,          0x5400_0000, Compute(bnel)),                                  // bnel
    both(RT,          0x5800_0000, Compute(blezl)),                                 // blezl
    both(RT,          0x5c00_0000, Compute(bgtzl)),                                 // bgtzl
    row (OP,          0x1800_0000, Step,                  Refuse(&RELEASE_6)),      // blezalc, bgezalc, bgeuc
    row (OP,          0x1c00_0000, Step,                  Refuse(&RELEASE_6)),      // bgtzalc, bltzalc, bltuc
    row (OP,          0x5800_0000, Step,                  Refuse(&RELEASE_6)),      // blezc, bgezc, bgec
    row (OP,          0x5c00_0000, Step,                  Refuse(&RELEASE_6)),      // bgtzc, bltzc, bltc
    row (OP,          0xc800_0000, Step,                  Refuse(&RELEASE_6)),      // lwc2, or bc
    row (OP,          0xe800_0000, Step,                  Refuse(&RELEASE_6)),      // swc2, or balc
    row (OP,          0xd800_0000, Step,                  Refuse(&RELEASE_6)),      // ldc2, or beqzc, jic
    row (OP,          0xf800_0000, Step,                  Refuse(&RELEASE_6)),      // sdc2, or bnezc, jialc
    row (OP,          0xec00_0000, Step,                  Refuse(&RELEASE_6)),      // addiupc, lwpc, auipc, aluipc
    both(RS,          0x4500_0000, Refuse(&COPROCESSOR)),                           // bc1f, bc1t, bc1fl, bc1tl
    both(RS,          0x4520_0000, Refuse(&COPROCESSOR)),                           // bc1any2, bc1eqz
    both(RS,          0x4540_0000, Refuse(&COPROCESSOR)),                           // bc1any4
    both(RS,          0x4560_0000, Refuse(&COPROCESSOR)),                           // bz.v
    both(RS,          0x45a0_0000, Refuse(&COPROCESSOR)),                           // bc1nez
    both(RS,          0x45e0_0000, Refuse(&COPROCESSOR)),                           // bnz.v
    both(0xff00_0000, 0x4700_0000, Refuse(&COPROCESSOR)),                           // bz, bnz of vectors
    both(RS,          0x4900_0000, Refuse(&COPROCESSOR)),                           // bc2f, bc2t, bc2fl, bc2tl
    both(RS,          0x4920_0000, Refuse(&COPROCESSOR)),                           // bc2eqz
    both(RS,          0x49a0_0000, Refuse(&COPROCESSOR)),                           // bc2nez
    row (0xfe00_003f, 0x4200_0018, Step,                  Refuse(&RETURN)),         // eret
    row (0xfe00_003f, 0x4200_001f, Step,                  Refuse(&RETURN)),         // deret
    row (0xfe00_003f, 0x4200_0020, Step,                  Refuse(&WAIT)),           // wait
    both(COP0,        0x4000_4800, Step),                                           // mfc0 count: the machine's clock
    both(COP0,        0x4020_4800, Step),                                           // dmfc0 count
    both(COP0,        0x4080_4800, Step),                                           // mtc0 count
    both(COP0,        0x40a0_4800, Step),                                           // dmtc0 count
    both(COP0,        0x4080_5800, Step),                                           // mtc0 compare
    both(COP0,        0x40a0_5800, Step),                                           // dmtc0 compare
    both(0xffe0_ffff, 0x7c00_103b, Step),                                           // rdhwr of the clock
];

fn rs(word: u32) -> Reg {
    r((word >> 21 & 31) as u8)
}

fn rt(word: u32) -> Reg {
    r((word >> 16 & 31) as u8)
}

/// A branch to the fixed target in the instruction.
fn branch(condition: Condition) -> Computation {
    Computation { condition, target: Target::Written, link: None, likely: false, empty_delay_slot: false }
}

fn likely(condition: Condition) -> Computation {
    Computation { likely: true, ..branch(condition) }
}

fn linking(condition: Condition) -> Computation {
    Computation { link: Some(RA), ..branch(condition) }
}

fn likely_and_linking(condition: Condition) -> Computation {
    Computation { link: Some(RA), ..likely(condition) }
}

/// `jalr` names its link register; `jr` has none, and register 0 drops the value.
fn jump_register(word: u32) -> Computation {
    let link = r((word >> 11 & 31) as u8);
    let link = (word & 1 != 0 && link != r(0)).then_some(link);
    Computation { target: Target::Register(rs(word)), link, ..branch(Condition::Always) }
}

#[rustfmt::skip]
mod branches {
    use super::*;
    use super::Condition::{Above, Always, Below, Equal, NotAbove, NotBelow, Unequal};
    pub fn jump(_: u32) -> Computation { branch(Always) }
    pub fn jump_and_link(_: u32) -> Computation { linking(Always) }
    pub fn beq(word: u32) -> Computation { branch(Equal(rs(word), rt(word))) }
    pub fn bne(word: u32) -> Computation { branch(Unequal(rs(word), rt(word))) }
    pub fn blez(word: u32) -> Computation { branch(NotAbove(rs(word))) }
    pub fn bgtz(word: u32) -> Computation { branch(Above(rs(word))) }
    pub fn bltz(word: u32) -> Computation { branch(Below(rs(word))) }
    pub fn bgez(word: u32) -> Computation { branch(NotBelow(rs(word))) }
    pub fn beql(word: u32) -> Computation { likely(Equal(rs(word), rt(word))) }
    pub fn bnel(word: u32) -> Computation { likely(Unequal(rs(word), rt(word))) }
    pub fn blezl(word: u32) -> Computation { likely(NotAbove(rs(word))) }
    pub fn bgtzl(word: u32) -> Computation { likely(Above(rs(word))) }
    pub fn bltzl(word: u32) -> Computation { likely(Below(rs(word))) }
    pub fn bgezl(word: u32) -> Computation { likely(NotBelow(rs(word))) }
    pub fn bltzal(word: u32) -> Computation { linking(Below(rs(word))) }
    pub fn bgezal(word: u32) -> Computation { linking(NotBelow(rs(word))) }
    pub fn bltzall(word: u32) -> Computation { likely_and_linking(Below(rs(word))) }
    pub fn bgezall(word: u32) -> Computation { likely_and_linking(NotBelow(rs(word))) }
}
use branches::*;

impl Computation {
    /// Whether the condition or the target depends on this register.
    fn looks_at(&self, reg: Reg) -> bool {
        let decides = match self.condition {
            Condition::Always => false,
            Condition::Equal(one, other) | Condition::Unequal(one, other) => one == reg || other == reg,
            Condition::NotAbove(one) | Condition::Above(one) | Condition::Below(one) | Condition::NotBelow(one) => one == reg,
        };
        decides || self.target == Target::Register(reg)
    }
}

/// Refuses delay slots, instructions between a load-linked and its store-conditional, and branches whose delay slot may
/// miss the TLB.
pub fn check_context(
    set: Set,
    insn: &Insn,
    policy: Policy,
    function: Range<u64>,
    around: &mut dyn Surroundings,
) -> Result<(), Refusal> {
    if in_delay_slot(set, insn.address, policy, around) {
        return Err(IN_DELAY_SLOT.refusal());
    }
    let kind: fn(&Insn) -> Exclusive = match set {
        Set::Big32 => |insn| exclusive(Set::Big32, insn),
        Set::Little32 => |insn| exclusive(Set::Little32, insn),
        Set::Big64 => |insn| exclusive(Set::Big64, insn),
        Set::Little64 => |insn| exclusive(Set::Little64, insn),
    };
    let may_miss = insn.length() > LENGTH as u64 && insn.address % PAGE == PAGE - LENGTH as u64 && is_mapped(set, insn.address);
    match policy {
        Policy::Best | Policy::Outside if may_miss => Err(DELAY_SLOT_APART.refusal()),
        Policy::Best | Policy::Outside if between_exclusives(set.isa(), kind, &function, insn.address, around) => {
            Err(BETWEEN_EXCLUSIVES.refusal())
        }
        _ => Ok(()),
    }
}

/// The smallest page size.
const PAGE: u64 = 4096;

/// Whether the address is translated by the TLB. Modules are; the kernel's own text (KSEG0) is not.
fn is_mapped(set: Set, address: u64) -> bool {
    let is_compatible = !set.is_64() || address >> 31 == u64::MAX >> 31;
    let is_direct = is_compatible && address & 0x4000_0000 == 0 && address & 0x8000_0000 != 0;
    let is_physical = set.is_64() && address >> 62 == 2;
    !is_direct && !is_physical
}

/// Whether the previous word is a branch, in whatever function. If a function begins in a delay slot, the branch in
/// front of it would run into the breakpoint.
fn in_delay_slot(set: Set, address: u64, policy: Policy, around: &mut dyn Surroundings) -> bool {
    let mut before = [0; LENGTH];
    if around.read(address.wrapping_sub(LENGTH as u64), &mut before).is_err() {
        return false;
    }
    let word = set.word(&before);
    match policy {
        Policy::Best | Policy::Outside => has_delay_slot(word),
        Policy::Linux(_) => linux_sees_delay_slot(word),
    }
}

/// Whether Linux 6.1 takes this word for a branch with a delay slot. It takes every floating-point instruction for one,
/// and does not know `jalx`, nor branches on coprocessor 2.
fn linux_sees_delay_slot(word: u32) -> bool {
    match word >> 26 {
        0x11 => true,
        0x12 | 0x1d => false,
        _ => has_delay_slot(word),
    }
}

/// The effect of an instruction, or of its delay slot, on the link bit of `ll` and `sc`.
fn exclusive(set: Set, insn: &Insn) -> Exclusive {
    let of = |word: u32| match (word >> 26, word & 0x3f) {
        (0x30 | 0x34, _) | (0x1f, 0x36 | 0x37 | 0x2e) => Exclusive::Load,
        (0x38 | 0x3c, _) | (0x1f, 0x26 | 0x27 | 0x1e) => Exclusive::Store,
        _ => Exclusive::Neither,
    };
    match of(word(set, insn)) {
        Exclusive::Neither => delay_slot_of(insn).map_or(Exclusive::Neither, |slot| of(word(set, &slot))),
        own => own,
    }
}

#[cfg(test)]
mod tests;
