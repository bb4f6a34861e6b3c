//! Decides which PowerPC instructions may be probed, and how each accepted one runs.
//!
//! One table for all three variants, with a column for each policy. The first row that matches decides; an instruction
//! in no row may run anywhere. The columns differ where Linux 6.1 accepts an instruction that a trap breaks, or steps
//! one that needs no second trap.

use super::abi::{CTR, LR, TAR, r};
use super::decode::{is_prefix, signed, word};
use super::emulate::{self, Computation, Condition};
use super::{LENGTH, Set, slot};
use crate::arch::Emulation;
use crate::function::{Exclusive, between_exclusives};
use crate::insn::Insn;
use crate::plan::{Errno, Plan, Policy, Refusal, Rule};
use crate::region::Surroundings;
use crate::rows::filled;
use Errno::EINVAL;
use Verdict::{Boost, Compute, Refuse, Step};
use alloc::vec::Vec;
use core::ops::Range;

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static SECOND_WORD: Rule = Rule::new("second-word", EINVAL,
        "it is the second word of a prefixed instruction, which has 8 bytes; probe its first word instead");
    pub static BETWEEN_EXCLUSIVES: Rule = Rule::new("between-exclusives", EINVAL,
        "it is between a load-and-reserve and its store-conditional, where a trap makes the store fail for ever; probe the instruction after the loop instead");
    pub static EXCLUSIVE: Rule = Rule::new("exclusive", EINVAL,
        "a trap between a load-and-reserve and its store-conditional makes the store fail for ever; probe the instruction after the loop instead");
    pub static TRAP: Rule = Rule::new("foreign-breakpoint", EINVAL,
        "the instruction is already a breakpoint, or the trap of a BUG() or WARN(); probe the next instruction instead");
    pub static EXCEPTION: Rule = Rule::new("exception", EINVAL,
        "the handler that it enters would see the copy's address as its return address; probe the handler instead");
    pub static RETURN: Rule = Rule::new("exception-return", EINVAL,
        "it returns from an exception, and a trap at this point would overwrite the saved state; probe an earlier instruction of this path instead");
    pub static WAIT: Rule = Rule::new("wait", EINVAL,
        "it waits for an event or an interrupt, but its copy would run with interrupts off; probe the instruction before or after it instead");
    pub static STATE: Rule = Rule::new("system-state", EINVAL,
        "it may change how all later code is translated, executed or trapped, the engine's own included; probe the instruction before it instead");
    pub static TRAP_STATE: Rule = Rule::new("trap-state", EINVAL,
        "it uses a register that the probe's trap overwrites; probe an instruction before the register is set, or after its last use, instead");
    pub static INVALID: Rule = Rule::new("invalid-form", EINVAL,
        "CPUs differ in their treatment of this form of branch; probe another instruction instead");
    pub static UNDEFINED: Rule = Rule::new("undefined", EINVAL,
        "it raises an exception on purpose, or is data; probe the instruction before it instead");
}
pub(super) use reasons::*;

/// All reasons for a refusal.
#[rustfmt::skip]
pub static RULES: &[&Rule] = &[
    &SECOND_WORD, &BETWEEN_EXCLUSIVES, &EXCLUSIVE, &TRAP, &EXCEPTION, &RETURN, &WAIT, &STATE, &TRAP_STATE, &INVALID, &UNDEFINED,
    &slot::OUT_OF_REACH, &slot::FAR_OPERAND, &slot::CROSSES,
];

/// Decides whether an instruction may be probed, and how it runs.
pub fn plan(set: Set, insn: &Insn, policy: Policy) -> Result<Plan, Refusal> {
    let word = word(set, insn);
    let found = number_of(set, insn).and_then(|row| TABLE.get(row));
    let verdict = match policy {
        Policy::Best | Policy::Outside => found.map_or(Boost, |row| row.best),
        Policy::Linux(_) => found.map_or(Step, |row| row.linux),
    };
    match verdict {
        Compute(computation) => Ok(Plan::Emulate(Emulation::Ppc(computation(insn, word)))),
        Boost => Ok(Plan::Boost),
        Step => Ok(Plan::Step),
        Refuse(rule) => Err(rule.refusal()),
    }
}

/// The decision in one column of the table.
#[derive(Clone, Copy)]
enum Verdict {
    Compute(fn(&Insn, u32) -> Computation),
    Boost,
    Step,
    Refuse(&'static Rule),
}

/// The number of the row that decides about an instruction. Prefixed ones have none.
pub fn number_of(set: Set, insn: &Insn) -> Option<usize> {
    let word = word(set, insn);
    let is_prefixed = insn.length() > LENGTH as u64;
    let is_it = |row: &RuleRow| word & row.mask == row.value && (set.is_64() || !row.only_64);
    TABLE.iter().position(is_it).filter(|_| !is_prefixed)
}

/// An instruction of a row.
pub fn example(set: Set, row: usize, free: u64) -> Option<Vec<u8>> {
    TABLE.get(row).map(|row| set.bytes(filled(row.mask, row.value, free)).to_vec())
}

/// The (mask, value) pairs of all rows, for tests.
pub fn rows() -> impl Iterator<Item = (u32, u32)> {
    TABLE.iter().map(|row| (row.mask, row.value))
}

/// Instructions with `word & mask == value`, and the decision about them.
struct RuleRow {
    mask: u32,
    value: u32,
    linux: Verdict,
    best: Verdict,
    only_64: bool,
}

const fn row(mask: u32, value: u32, linux: Verdict, best: Verdict) -> RuleRow {
    RuleRow { mask, value, linux, best, only_64: false }
}

/// A row on which the policies agree.
const fn both(mask: u32, value: u32, verdict: Verdict) -> RuleRow {
    row(mask, value, verdict, verdict)
}

/// A row for 64-bit CPUs. 32-bit CPUs raise an exception for this instruction, wherever it runs.
const fn only_64(mask: u32, value: u32, verdict: Verdict) -> RuleRow {
    RuleRow { only_64: true, ..both(mask, value, verdict) }
}

/// Mask of primary and extended opcode.
const X: u32 = 0xfc00_07fe;
/// Mask of primary and extended opcode and the number of a special purpose register.
const SPR: u32 = 0xfc1f_fffe;

#[rustfmt::skip]
static TABLE: &[RuleRow] = &[
    //   mask         value                      Linux 6.1              best
    both(0xfc00_0000, 0x0800_0000,               Refuse(&TRAP)),                                 // tdi
    both(0xfc00_0000, 0x0c00_0000,               Refuse(&TRAP)),                                 // twi
    both(0xfc00_0000, 0x4400_0000,               Refuse(&EXCEPTION)),                            // sc, scv
    both(X,           x(19, 18),                 Refuse(&RETURN)),                               // rfid
    both(X,           x(19, 38),                 Refuse(&RETURN)),                               // rfmci
    both(X,           x(19, 39),                 Refuse(&RETURN)),                               // rfdi
    both(X,           x(19, 50),                 Refuse(&RETURN)),                               // rfi
    both(X,           x(19, 51),                 Refuse(&RETURN)),                               // rfci
    both(X,           x(19, 82),                 Refuse(&RETURN)),                               // rfscv
    both(X,           x(19, 274),                Refuse(&RETURN)),                               // hrfid
    both(X,           x(19, 306),                Refuse(&RETURN)),                               // urfid
    both(X,           x(19, 370),                Refuse(&WAIT)),                                 // stop
    both(X,           x(19, 402),                Refuse(&WAIT)),                                 // doze
    both(X,           x(19, 434),                Refuse(&WAIT)),                                 // nap
    both(X,           x(19, 466),                Refuse(&WAIT)),                                 // sleep
    both(X,           x(19, 498),                Refuse(&WAIT)),                                 // rvwinkle
    both(X,           x(31, 4),                  Refuse(&TRAP)),                                 // tw
    both(X,           x(31, 68),                 Refuse(&TRAP)),                                 // td
    both(X,           x(31, 146),                Refuse(&STATE)),                                // mtmsr
    both(X,           x(31, 178),                Refuse(&STATE)),                                // mtmsrd
    both(0xfc00_0000, 0x4800_0000,               Compute(branch)),                               // b, bl, ba, bla
    both(0xfc00_0000, 0x4000_0000,               Compute(branch)),                               // bc, bcl, bca, bcla
    both(X,           x(19, 16),                 Compute(branch_lr)),                            // bclr, bclrl
    row (X | 4 << 21, x(19, 528),                Compute(branch_ctr),   Refuse(&INVALID)),       // bcctr that counts
    both(X,           x(19, 528),                Compute(branch_ctr)),                           // bcctr, bcctrl
    only_64(X,        x(19, 560),                Compute(branch_tar)),                           // bctar: a copy of it would branch away before its second trap
    only_64(0xfc00_003e, 0x4c00_0004,            Compute(address)),                              // addpcis
    row (X,           x(19, 146),                Step,                  Refuse(&RETURN)),        // rfebb
    row (X,           x(31, 20),                 Step,                  Refuse(&EXCLUSIVE)),     // lwarx
    row (X,           x(31, 52),                 Step,                  Refuse(&EXCLUSIVE)),     // lbarx
    row (X,           x(31, 84),                 Step,                  Refuse(&EXCLUSIVE)),     // ldarx
    row (X,           x(31, 116),                Step,                  Refuse(&EXCLUSIVE)),     // lharx
    row (X,           x(31, 276),                Step,                  Refuse(&EXCLUSIVE)),     // lqarx
    row (X,           x(31, 150),                Step,                  Refuse(&EXCLUSIVE)),     // stwcx.
    row (X,           x(31, 182),                Step,                  Refuse(&EXCLUSIVE)),     // stqcx.
    row (X,           x(31, 214),                Step,                  Refuse(&EXCLUSIVE)),     // stdcx.
    row (X,           x(31, 694),                Step,                  Refuse(&EXCLUSIVE)),     // stbcx.
    row (X,           x(31, 726),                Step,                  Refuse(&EXCLUSIVE)),     // sthcx.
    row (X,           x(31, 30),                 Step,                  Refuse(&WAIT)),          // wait
    row (X,           x(31, 62),                 Step,                  Refuse(&WAIT)),          // wait, as it was before
    both(SPR,         mfspr(1),                  Boost),                                         // mfxer
    both(SPR,         mfspr(8),                  Boost),                                         // mflr
    both(SPR,         mfspr(9),                  Boost),                                         // mfctr
    both(SPR,         mtspr(1),                  Boost),                                         // mtxer
    both(SPR,         mtspr(8),                  Boost),                                         // mtlr
    both(SPR,         mtspr(9),                  Boost),                                         // mtctr
    row (SPR,         mfspr(26),                 Step,                  Refuse(&TRAP_STATE)),    // mfsrr0
    row (SPR,         mfspr(27),                 Step,                  Refuse(&TRAP_STATE)),    // mfsrr1
    row (SPR,         mtspr(26),                 Step,                  Refuse(&TRAP_STATE)),    // mtsrr0
    row (SPR,         mtspr(27),                 Step,                  Refuse(&TRAP_STATE)),    // mtsrr1
    both(SPR,         mfspr(22),                 Step),                                          // mfdec: a place where time is read
    both(SPR,         mfspr(268),                Step),                                          // mftb
    both(SPR,         mfspr(269),                Step),                                          // mftbu
    both(SPR,         mfspr(308),                Step),                                          // mfspurr
    both(SPR,         mfspr(309),                Step),                                          // mfpurr
    both(SPR,         mfspr(849),                Step),                                          // mfvtb
    row (X,           x(31, 339),                Step,                  Boost),                  // mfspr of any other register
    both(X,           x(31, 371),                Step),                                          // mftb as it was before
    row (SPR,         mtspr(25),                 Step,                  Refuse(&STATE)),         // mtsdr1
    row (SPR,         mtspr(313),                Step,                  Refuse(&STATE)),         // mthrmor
    row (SPR,         mtspr(318),                Step,                  Refuse(&STATE)),         // mtlpcr
    row (SPR,         mtspr(319),                Step,                  Refuse(&STATE)),         // mtlpidr
    row (SPR,         mtspr(464),                Step,                  Refuse(&STATE)),         // mtptcr
    row (SPR & !(15 << 16), mtspr(528),          Step,                  Refuse(&STATE)),         // mtibatu 0 .. mtdbatl 3
    row (SPR & !(15 << 16), mtspr(560),          Step,                  Refuse(&STATE)),         // mtibatu 4 .. mtdbatl 7
    both(X,           x(31, 467),                Step),                                          // mtspr of any other register
    both(X,           x(31, 83),                 Boost),                                         // mfmsr
    both(X,           x(31, 210),                Step),                                          // mtsr
    both(X,           x(31, 242),                Step),                                          // mtsrin
    both(X,           x(31, 274),                Step),                                          // tlbiel
    both(X,           x(31, 306),                Step),                                          // tlbie
    both(X,           x(31, 402),                Step),                                          // slbmte
    both(X,           x(31, 434),                Step),                                          // slbie
    both(X,           x(31, 466),                Step),                                          // slbieg
    both(X,           x(31, 498),                Step),                                          // slbia
    both(X,           x(31, 566),                Step),                                          // tlbsync
    both(X,           x(31, 978),                Step),                                          // tlbld
    both(X,           x(31, 1010),               Step),                                          // tlbli
    both(X,           x(31, 755),                Step),                                          // darn: what it gives, the machine says
    row (0xfc00_0000, 0x0000_0000,               Step,                  Refuse(&UNDEFINED)),     // attn, and what no CPU has
    row (0xfc00_0000, 0x0400_0000,               Step,                  Refuse(&UNDEFINED)),     // a prefix where there are none
];

/// The instruction word with these opcodes.
pub(super) const fn x(primary: u32, extended: u32) -> u32 {
    primary << 26 | extended << 1
}

/// `mfspr`. The two halves of the register number are exchanged in the word.
pub(super) const fn mfspr(number: u32) -> u32 {
    x(31, 339) | (number & 31) << 16 | number >> 5 << 11
}

/// `mtspr`.
pub(super) const fn mtspr(number: u32) -> u32 {
    x(31, 467) | (number & 31) << 16 | number >> 5 << 11
}

/// The condition of a branch, from the fields BO, BI and LK.
fn condition(word: u32) -> Condition {
    Condition { when: (word >> 21) as u8 & 31, bit: (word >> 16) as u8 & 31, links: word & 1 != 0 }
}

/// A branch to the fixed target in the instruction. `b` is a `bc` that is always taken.
fn branch(insn: &Insn, word: u32) -> Computation {
    let found = condition(word);
    let found = if word >> 26 == 18 { Condition { when: emulate::ALWAYS, bit: 0, ..found } } else { found };
    Computation::Branch(found, insn.flow.target().unwrap_or(insn.address))
}

fn branch_lr(_: &Insn, word: u32) -> Computation {
    Computation::BranchRegister(condition(word), LR)
}

fn branch_ctr(_: &Insn, word: u32) -> Computation {
    Computation::BranchRegister(condition(word), CTR)
}

fn branch_tar(_: &Insn, word: u32) -> Computation {
    Computation::BranchRegister(condition(word), TAR)
}

/// The immediate of `addpcis`, which has three parts.
pub(super) fn pages(word: u32) -> i64 {
    signed((word >> 6 & 0x3ff) << 6 | (word >> 16 & 31) << 1 | word & 1, 16)
}

fn address(insn: &Insn, word: u32) -> Computation {
    let value = insn.next().wrapping_add_signed(pages(word) << 16);
    Computation::Address(r((word >> 21) as u8 & 31), value)
}

/// Refuses suffixes of prefixed instructions, and instructions between a load-and-reserve and its store-conditional.
pub fn check_context(
    set: Set,
    insn: &Insn,
    policy: Policy,
    function: Range<u64>,
    around: &mut dyn Surroundings,
) -> Result<(), Refusal> {
    if is_second_word(set, insn.address, policy, &function, around) {
        return Err(SECOND_WORD.refusal());
    }
    let kind: fn(&Insn) -> Exclusive = match set {
        Set::Big32 => |insn| exclusive(Set::Big32, insn),
        Set::Big64 => |insn| exclusive(Set::Big64, insn),
        Set::Little64 => |insn| exclusive(Set::Little64, insn),
    };
    match policy {
        Policy::Best | Policy::Outside if between_exclusives(set.isa(), kind, &function, insn.address, around) => {
            Err(BETWEEN_EXCLUSIVES.refusal())
        }
        _ => Ok(()),
    }
}

/// The smallest page size. No prefixed instruction crosses a page boundary, and Linux does not look beyond one.
const PAGE: u64 = 4096;

fn is_second_word(set: Set, address: u64, policy: Policy, function: &Range<u64>, around: &mut dyn Surroundings) -> bool {
    let mut before = [0; LENGTH];
    let at = address.wrapping_sub(LENGTH as u64);
    let may_be = match policy {
        Policy::Best | Policy::Outside => function.contains(&at),
        Policy::Linux(_) => !address.is_multiple_of(PAGE),
    };
    may_be && around.read(at, &mut before).is_ok() && is_prefix(set, set.word(&before))
}

/// The effect of an instruction on the CPU's reservation.
fn exclusive(set: Set, insn: &Insn) -> Exclusive {
    let word = word(set, insn);
    match (word >> 26, word >> 1 & 0x3ff) {
        (31, 20 | 52 | 84 | 116 | 276) => Exclusive::Load,
        (31, 150 | 182 | 214 | 694 | 726) => Exclusive::Store,
        _ => Exclusive::Neither,
    }
}

#[cfg(test)]
mod tests;
