//! Decides which AArch64 instructions may be probed, and how each accepted one runs.
//!
//! One table, group by group, with a column for each policy. The first row that matches decides; an instruction in no
//! row may run anywhere. The columns differ where Linux 6.1 refuses an instruction that can be emulated or copied, or
//! accepts one that breaks the guest.

use super::decode::{address_of, target_19, word};
use super::emulate::{Computation, MASKS};
use super::{ARM64, LENGTH, slot};
use crate::arch::Emulation;
use crate::function::{Exclusive, between_exclusives};
use crate::insn::{Flow, Insn};
use crate::plan::{Errno, Plan, Policy, Refusal, Rule};
use crate::region::Surroundings;
use crate::rows::{Rows, filled};
use Errno::EINVAL;
use Verdict::{Boost, Compute, Refuse, Step};
use core::ops::Range;

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static EXPECTED_FAULT: Rule = Rule::new("expected-fault", EINVAL,
        "Linux 6.1 refuses instructions in the exception table; the policy `best` accepts them");
    pub static BETWEEN_EXCLUSIVES: Rule = Rule::new("between-exclusives", EINVAL,
        "it is between a load-exclusive and its store-exclusive, where a trap makes the store fail for ever; probe the instruction after the loop instead");
    pub static EXCLUSIVE: Rule = Rule::new("exclusive", EINVAL,
        "a trap between a load-exclusive and its store-exclusive makes the store fail for ever; probe the instruction after the loop instead");
    pub static AUTHENTICATED: Rule = Rule::new("authenticated-branch", EINVAL,
        "its target is authenticated with a secret key, so the engine cannot emulate it; probe its target instead");
    pub static RETURN: Rule = Rule::new("exception-return", EINVAL,
        "it returns from an exception, and a trap at this point would overwrite the saved state; probe an earlier instruction of this path instead");
    pub static BREAKPOINT: Rule = Rule::new("foreign-breakpoint", EINVAL,
        "the instruction is already a breakpoint, or the trap of a BUG(); probe the next instruction instead");
    pub static EXCEPTION: Rule = Rule::new("exception", EINVAL,
        "the handler that it enters would see the copy's address as its return address; probe the handler instead");
    pub static STATE: Rule = Rule::new("system-state", EINVAL,
        "it may change how all later code is translated, executed or trapped, the engine's own included; probe the instruction before it instead");
    pub static MASKING: Rule = Rule::new("interrupt-masks", EINVAL,
        "Linux 6.1 steps with interrupts masked, so it refuses to read or change the masks; the policy `best` emulates this");
    pub static TRAP_STATE: Rule = Rule::new("trap-state", EINVAL,
        "it reads a register that the probe's trap overwrites; probe the next instruction, which sees the value, instead");
    pub static HINT: Rule = Rule::new("hint", EINVAL,
        "Linux 6.1 accepts only a few hints; the policy `best` accepts all that do not wait");
    pub static WAIT: Rule = Rule::new("wait", EINVAL,
        "it waits for an event or an interrupt, but its copy would run with interrupts off; probe the instruction before or after it instead");
    pub static PREFETCH: Rule = Rule::new("literal-prefetch", EINVAL,
        "Linux 6.1 does not emulate a prefetch of a literal; the policy `best` does");
    pub static UNDEFINED: Rule = Rule::new("undefined", EINVAL,
        "it raises an exception on purpose, or is data; probe the instruction before it instead");
    pub static UNKNOWN: Rule = Rule::new("unknown", EINVAL,
        "this branch or system instruction is unknown; probe another one instead");
}
pub(super) use reasons::*;

/// All reasons for a refusal.
#[rustfmt::skip]
pub static RULES: &[&Rule] = &[
    &EXPECTED_FAULT, &BETWEEN_EXCLUSIVES, &EXCLUSIVE, &AUTHENTICATED, &RETURN, &BREAKPOINT, &EXCEPTION, &STATE, &MASKING, &TRAP_STATE, &HINT,
    &WAIT, &PREFETCH, &UNDEFINED, &UNKNOWN, &slot::OUT_OF_REACH,
];

/// Decides whether an instruction may be probed, and how it runs.
pub fn plan(insn: &Insn, policy: Policy) -> Result<Plan, Refusal> {
    let word = word(insn);
    let found = TABLE.iter().find(|row| word & row.mask == row.value);
    let verdict = match policy {
        Policy::Best | Policy::Outside => found.map_or(Boost, |row| row.best),
        Policy::Linux(_) => found.map_or(Step, |row| row.linux),
    };
    match verdict {
        Compute(computation) => Ok(Plan::Emulate(Emulation::Arm64(computation(insn, word)))),
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

/// Instructions with `word & mask == value`, and the decision about them.
struct RuleRow {
    mask: u32,
    value: u32,
    linux: Verdict,
    best: Verdict,
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
    example: |row, free| TABLE.get(row).map(|row| filled(row.mask, row.value, free).to_le_bytes().to_vec()),
    of: |insn| TABLE.iter().position(|row| word(insn) & row.mask == row.value),
    flags: &[("pstate", 0xf000_0000, 0x3c5)],
    ..Rows::NONE
};

#[rustfmt::skip]
static TABLE: &[RuleRow] = &[
    //   mask         value                      Linux 6.1              best
    both(0xbf00_0000, 0x1800_0000,               Compute(load)),                                 // ldr (literal) of w and x
    both(0xff00_0000, 0x9800_0000,               Compute(load)),                                 // ldrsw (literal)
    both(0x7c00_0000, 0x1400_0000,               Compute(jump)),                                 // b, bl
    both(0xff00_0010, 0x5400_0000,               Compute(branch)),                               // b.cond
    row (0xff00_0010, 0x5400_0010,               Step,                  Compute(branch)),        // bc.cond: Linux copies it as it is
    both(0x7e00_0000, 0x3400_0000,               Compute(compare)),                              // cbz, cbnz
    both(0x7e00_0000, 0x3600_0000,               Compute(test)),                                 // tbz, tbnz
    both(0xffff_fc1f, 0xd61f_0000,               Compute(indirect)),                             // br
    both(0xffff_fc1f, 0xd63f_0000,               Compute(indirect)),                             // blr
    both(0xffff_fc1f, 0xd65f_0000,               Compute(indirect)),                             // ret
    both(0x1f00_0000, 0x1000_0000,               Compute(address)),                              // adr, adrp
    both(0xfeff_f800, 0xd61f_0800,               Refuse(&AUTHENTICATED)),                        // braa, brab, braaz, brabz
    both(0xfeff_f800, 0xd63f_0800,               Refuse(&AUTHENTICATED)),                        // blraa, blrab, blraaz, blrabz
    both(0xffff_fbff, 0xd65f_0bff,               Refuse(&AUTHENTICATED)),                        // retaa, retab
    both(0xffff_fbff, 0xd69f_0bff,               Refuse(&RETURN)),                               // eretaa, eretab
    both(0xffff_ffff, 0xd69f_03e0,               Refuse(&RETURN)),                               // eret
    row (0xffff_ffff, 0xd6bf_03e0,               Step,                  Refuse(&RETURN)),        // drps
    both(0xffe0_001f, 0xd420_0000,               Refuse(&BREAKPOINT)),                           // brk
    both(0xff00_0000, 0xd400_0000,               Refuse(&EXCEPTION)),                            // svc, hvc, smc, hlt, dcps
    row (0xffff_f0ff, 0xd503_40df,               Refuse(&MASKING),      Compute(mask)),          // msr daifset, #
    row (0xffff_f0ff, 0xd503_40ff,               Refuse(&MASKING),      Compute(unmask)),        // msr daifclr, #
    row (0xffff_f0ff, 0xd500_401f,               Refuse(&STATE),        Boost),                  // cfinv
    row (0xffff_f0ff, 0xd500_403f,               Refuse(&STATE),        Boost),                  // xaflag
    row (0xffff_f0ff, 0xd500_405f,               Refuse(&STATE),        Boost),                  // axflag
    row (0xffff_f0ff, 0xd500_407f,               Refuse(&STATE),        Step),                   // msr uao, #
    row (0xffff_f0ff, 0xd500_409f,               Refuse(&STATE),        Step),                   // msr pan, #
    row (0xffff_f0ff, 0xd503_403f,               Refuse(&STATE),        Step),                   // msr ssbs, #
    row (0xffff_f0ff, 0xd503_405f,               Refuse(&STATE),        Step),                   // msr dit, #
    row (0xffff_f0ff, 0xd503_409f,               Refuse(&STATE),        Step),                   // msr tco, #
    both(0xfff8_f01f, 0xd500_401f,               Refuse(&STATE)),                                // msr spsel, # and the like
    row (0xffff_ffe0, msr(3, 3,  4,  2, 1),      Refuse(&MASKING),      Compute(write_masks)),   // msr daif
    row (0xffff_ffe0, msr(3, 3,  4,  2, 0),      Refuse(&STATE),        Step),                   // msr nzcv
    row (0xffff_ffe0, msr(3, 3,  4,  4, 0),      Refuse(&STATE),        Step),                   // msr fpcr
    row (0xffff_ffe0, msr(3, 3,  4,  4, 1),      Refuse(&STATE),        Step),                   // msr fpsr
    row (0xffff_ffe0, msr(3, 0,  4,  2, 3),      Refuse(&STATE),        Step),                   // msr pan
    row (0xffff_ffe0, msr(3, 3, 13,  0, 2),      Refuse(&STATE),        Step),                   // msr tpidr_el0
    row (0xffff_ffe0, msr(3, 3, 13,  0, 3),      Refuse(&STATE),        Step),                   // msr tpidrro_el0
    row (0xffff_ffe0, msr(3, 0, 13,  0, 4),      Refuse(&STATE),        Step),                   // msr tpidr_el1: the per-CPU base
    row (0xffff_ffe0, msr(3, 0, 13,  0, 1),      Refuse(&STATE),        Step),                   // msr contextidr_el1
    row (0xffff_ffe0, msr(3, 0, 14,  1, 0),      Refuse(&STATE),        Step),                   // msr cntkctl_el1
    row (0xffff_fe00, msr(3, 3, 14,  2, 0),      Refuse(&STATE),        Step),                   // msr cntp_*_el0, cntv_*_el0
    row (0xffff_f800, msr(3, 0, 12,  8, 0),      Refuse(&STATE),        Step),                   // msr icc_*_el1
    both(0xfff0_0000, 0xd510_0000,               Refuse(&STATE)),                                // msr of any other register
    row (0xffff_ffe0, mrs(3, 3,  4,  2, 1),      Refuse(&MASKING),      Compute(read_masks)),    // mrs of daif
    row (0xffff_ffe0, mrs(3, 0,  4,  0, 0),      Step,                  Refuse(&TRAP_STATE)),    // mrs of spsr_el1
    row (0xffff_ffe0, mrs(3, 0,  4,  0, 1),      Step,                  Refuse(&TRAP_STATE)),    // mrs of elr_el1
    row (0xffff_ffe0, mrs(3, 0,  5,  2, 0),      Step,                  Refuse(&TRAP_STATE)),    // mrs of esr_el1
    both(0xfff0_0000, 0xd530_0000,               Step),                                          // mrs of any other register
    row (0xffff_ffff, hint(0),                   Step,                  Boost),                  // nop
    row (0xffff_ffff, hint(7),                   Step,                  Boost),                  // xpaclri
    row (0xffff_ffff, hint(8),                   Step,                  Boost),                  // pacia1716
    row (0xffff_ffff, hint(10),                  Step,                  Boost),                  // pacib1716
    row (0xffff_ffff, hint(24),                  Step,                  Boost),                  // paciaz
    row (0xffff_ffff, hint(25),                  Step,                  Boost),                  // paciasp
    row (0xffff_ffff, hint(26),                  Step,                  Boost),                  // pacibz
    row (0xffff_ffff, hint(27),                  Step,                  Boost),                  // pacibsp
    row (0xffff_ff3f, hint(32),                  Step,                  Boost),                  // bti, bti c, bti j, bti jc
    row (0xffff_ffdf, hint(2),                   Refuse(&HINT),         Refuse(&WAIT)),          // wfe, wfi
    row (0xffff_f01f, hint(0),                   Refuse(&HINT),         Boost),                  // yield, sev, csdb, autiasp, and nops
    row (0xffff_ffc0, 0xd503_1000,               Step,                  Refuse(&WAIT)),          // wfet, wfit
    row (0xffff_f01f, 0xd503_301f,               Step,                  Boost),                  // clrex, dsb, dmb, isb, sb
    both(0xfff8_0000, 0xd508_0000,               Step),                                          // sys: dc, ic, tlbi, at
    both(0xfff8_0000, 0xd528_0000,               Step),                                          // sysl
    row (0xbfa0_7c00, 0x0820_7c00,               Refuse(&EXCLUSIVE),    Boost),                  // casp: atomic by itself
    both(0x3f80_0000, 0x0800_0000,               Refuse(&EXCLUSIVE)),                            // ldxr, stxr, ldaxr, stlxr, ldxp, stxp
    row (0xff00_0000, 0xd800_0000,               Refuse(&PREFETCH),     Compute(nothing)),       // prfm (literal)
    row (0xff00_0000, 0xdc00_0000,               Step,                  Refuse(&UNKNOWN)),       // ldr (literal), no size of vector
    row (0x3f00_0000, 0x1c00_0000,               Step,                  Compute(load_vector)),   // ldr (literal) of s, d, q: Linux loads something else
    row (0xffff_0000, 0x0000_0000,               Step,                  Refuse(&UNDEFINED)),     // udf
    row (0x1c00_0000, 0x1400_0000,               Step,                  Refuse(&UNKNOWN)),       // any other branch or system instruction
];

/// `msr` of a system register, named by the fields of the manual.
const fn msr(op0: u32, op1: u32, crn: u32, crm: u32, op2: u32) -> u32 {
    0xd500_0000 | op0 << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5
}

/// `mrs` of a system register.
const fn mrs(op0: u32, op1: u32, crn: u32, crm: u32, op2: u32) -> u32 {
    msr(op0, op1, crn, crm, op2) | 1 << 21
}

const fn hint(number: u32) -> u32 {
    0xd503_201f | number << 5
}

/// The register number in the low five bits.
fn register(word: u32) -> u8 {
    word as u8 & 31
}

fn fixed_target(insn: &Insn) -> u64 {
    insn.flow.target().unwrap_or(insn.address)
}

fn jump(insn: &Insn, _: u32) -> Computation {
    let goes: fn(u64) -> Computation = if matches!(insn.flow, Flow::Call(_)) { Computation::Call } else { Computation::Jump };
    goes(fixed_target(insn))
}

fn branch(insn: &Insn, word: u32) -> Computation {
    Computation::Branch { condition: word as u8 & 15, target: fixed_target(insn) }
}

fn compare(insn: &Insn, word: u32) -> Computation {
    let (bytes, if_not) = (4 << (word >> 31), word >> 24 & 1 != 0);
    Computation::Compare { register: register(word), bytes, if_not, target: fixed_target(insn) }
}

fn test(insn: &Insn, word: u32) -> Computation {
    let (bit, if_set) = (word >> 31 << 5 | word >> 19 & 31, word >> 24 & 1 != 0);
    Computation::Test { register: register(word), bit: bit as u8, if_set, target: fixed_target(insn) }
}

fn indirect(insn: &Insn, word: u32) -> Computation {
    let register = register(word >> 5);
    if insn.flow == Flow::IndirectCall { Computation::CallRegister(register) } else { Computation::JumpRegister(register) }
}

fn address(insn: &Insn, word: u32) -> Computation {
    Computation::Address { register: register(word), value: address_of(insn.address, word) }
}

/// Bits 31 and 30 select a word, a doubleword, or a sign-extended word.
fn load(insn: &Insn, word: u32) -> Computation {
    let (is_signed, bytes) = match word >> 30 {
        0 => (false, 4),
        1 => (false, 8),
        _ => (true, 4),
    };
    Computation::Load { register: register(word), bytes, is_signed, from: target_19(insn.address, word) }
}

fn load_vector(insn: &Insn, word: u32) -> Computation {
    Computation::LoadVector { register: register(word), bytes: 4 << (word >> 30), from: target_19(insn.address, word) }
}

fn nothing(_: &Insn, _: u32) -> Computation {
    Computation::Nothing
}

/// The mask bits (D, A, I, F) in bits 11 to 8.
fn masks(word: u32) -> u64 {
    u64::from(word >> 8 & 15) << MASKS.trailing_zeros()
}

fn mask(_: &Insn, word: u32) -> Computation {
    Computation::Mask(masks(word))
}

fn unmask(_: &Insn, word: u32) -> Computation {
    Computation::Unmask(masks(word))
}

fn read_masks(_: &Insn, word: u32) -> Computation {
    Computation::ReadMasks(register(word))
}

fn write_masks(_: &Insn, word: u32) -> Computation {
    Computation::WriteMasks(register(word))
}

/// Refuses instructions between a load-exclusive and its store-exclusive. Linux 6.1 also refuses those that the
/// exception table allows to fault.
pub fn check_context(insn: &Insn, policy: Policy, function: Range<u64>, around: &mut dyn Surroundings) -> Result<(), Refusal> {
    let at = insn.address;
    let refused = match policy {
        Policy::Best | Policy::Outside if between_exclusives(&ARM64, exclusive, &function, at, around) => &BETWEEN_EXCLUSIVES,
        Policy::Linux(_) if around.expected_fault(at..at.wrapping_add(1)).is_some() => &EXPECTED_FAULT,
        Policy::Linux(_) if linux_scan(at, function.start, around) => &BETWEEN_EXCLUSIVES,
        _ => return Ok(()),
    };
    Err(refused.refusal())
}

/// The effect of an instruction on the exclusive monitor.
fn exclusive(insn: &Insn) -> Exclusive {
    let word = word(insn);
    let is = |mask: u32, value: u32| word & mask == value;
    let pair_or_casp = is(0x3fa0_0000, 0x0820_0000);
    if is(0x3f80_0000, 0x0800_0000) && !(pair_or_casp && word >> 31 == 0) {
        // Bit 22 distinguishes loads from stores.
        return if word >> 22 & 1 != 0 { Exclusive::Load } else { Exclusive::Store };
    }
    if is(0xffff_f0ff, 0xd503_305f) { Exclusive::Clear } else { Exclusive::Neither }
}

/// The number of instructions that Linux's scan examines.
const LINUX_LOOKS_BACK: u64 = 32;

/// Whether Linux 6.1's scan finds a load-exclusive in front of an instruction. It looks at the 32 instructions before it,
/// back to the function's start, and the first exclusive decides. It ignores bit 23, so it counts `ldar`, `stlr` and `cas`
/// as exclusives too.
fn linux_scan(address: u64, start: u64, around: &mut dyn Surroundings) -> bool {
    let mut at = address;
    for _ in 0..LINUX_LOOKS_BACK {
        let Some(before) = at.checked_sub(LENGTH as u64).filter(|before| *before >= start) else { return false };
        at = before;
        let mut bytes = [0; LENGTH];
        if around.read(at, &mut bytes).is_err() {
            return false;
        }
        match u32::from_le_bytes(bytes) & 0x3f40_0000 {
            0x0800_0000 => return false,
            0x0840_0000 => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests;
