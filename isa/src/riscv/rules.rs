//! Decides which RISC-V instructions may be probed, and how each accepted one runs.
//!
//! One table, group by group, with a column for each policy. The first row that matches decides; an instruction in no
//! row may run anywhere. If releases of Linux differ, a row has a second decision of Linux and the first release that
//! makes it. The columns differ if Linux refuses an instruction that can be emulated or copied, or accepts one that
//! breaks the guest.

use super::decode::{moved, register, word};
use super::emulate::{Computation, Condition};
use super::slot;
use super::{COMPRESSED, LENGTH, Set};
use crate::arch::Emulation;
use crate::function::{Exclusive, between_exclusives};
use crate::insn::Insn;
use crate::linux::Release;
use crate::plan::{BRANCH_INTO_ITSELF, Errno, Plan, Policy, Refusal, Rule, check_target};
use crate::region::Surroundings;
use crate::rows::{Rows, filled};
use Errno::EINVAL;
use Verdict::{Boost, Compute, Refuse, Step};
use alloc::vec::Vec;
use core::ops::Range;

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static BETWEEN_EXCLUSIVES: Rule = Rule::new("between-exclusives", EINVAL,
        "it is between a load-reserved and its store-conditional, where a trap makes the store fail for ever; probe the instruction after the loop instead");
    pub static EXCLUSIVE: Rule = Rule::new("exclusive", EINVAL,
        "a trap between a load-reserved and its store-conditional makes the store fail for ever; probe the instruction after the loop instead");
    pub static COMPRESSED_CALL: Rule = Rule::new("compressed-call", EINVAL,
        "Linux 6.12 does not emulate c.jal; the policy `best` and Linux 7.2 do");
    pub static BREAKPOINT: Rule = Rule::new("foreign-breakpoint", EINVAL,
        "the instruction is already a breakpoint, or the trap of a BUG(); probe the next instruction instead");
    pub static EXCEPTION: Rule = Rule::new("exception", EINVAL,
        "the handler that it enters would see the copy's address as its return address; probe the handler instead");
    pub static RETURN: Rule = Rule::new("exception-return", EINVAL,
        "it returns from an exception, and a trap at this point would overwrite the saved state; probe an earlier instruction of this path instead");
    pub static WAIT: Rule = Rule::new("wait", EINVAL,
        "it waits for an interrupt, but its copy would run with interrupts off; probe the instruction before or after it instead");
    pub static STATE: Rule = Rule::new("system-state", EINVAL,
        "it changes how all later code is translated, the engine's own included; probe the instruction before it instead");
    pub static TRAP_STATE: Rule = Rule::new("trap-state", EINVAL,
        "it uses a register that the probe's trap overwrites; probe the next instruction, which sees the value, instead");
    pub static SYSTEM: Rule = Rule::new("system-instruction", EINVAL,
        "Linux refuses all system instructions here; the policy `best` accepts those that work in a copy");
    pub static ORDERING: Rule = Rule::new("fence", EINVAL,
        "Linux refuses fences and cache-block instructions here; the policy `best` accepts them");
    pub static UNDEFINED: Rule = Rule::new("undefined", EINVAL,
        "no CPU has this instruction, so it raises an exception on purpose, or is data; probe the instruction before it instead");
    pub static UNKNOWN: Rule = Rule::new("unknown", EINVAL,
        "this instruction belongs to one vendor's CPUs and may use the pc; probe another one instead");
}
pub(super) use reasons::*;

/// All reasons for a refusal.
#[rustfmt::skip]
pub static RULES: &[&Rule] = &[
    &BETWEEN_EXCLUSIVES, &EXCLUSIVE, &COMPRESSED_CALL, &BREAKPOINT, &EXCEPTION, &RETURN, &WAIT, &STATE, &TRAP_STATE, &SYSTEM, &ORDERING,
    &UNDEFINED, &UNKNOWN, &slot::OUT_OF_REACH, &BRANCH_INTO_ITSELF,
];

/// Decides whether an instruction may be probed, and how it runs.
pub fn plan(set: Set, insn: &Insn, policy: Policy) -> Result<Plan, Refusal> {
    let word = word(insn);
    let found = row_of(set, word).and_then(|row| TABLE.get(row));
    let verdict = match policy {
        Policy::Best | Policy::Outside => found.map_or(Boost, |row| row.best),
        Policy::Linux(release) => found.map_or(Step, |row| row.linux_of(release)),
    };
    if !policy.is_linux() {
        check_target(insn, slot::breakpoint_over(insn).len())?;
    }
    match verdict {
        Compute(computation) => {
            computation(set, insn, word).map(|what| Plan::Emulate(Emulation::Riscv(what))).ok_or(UNDEFINED.refusal())
        }
        Boost => Ok(Plan::Boost),
        Step => Ok(Plan::Step),
        Refuse(rule) => Err(rule.refusal()),
    }
}

/// The decision in one column of the table.
#[derive(Clone, Copy)]
enum Verdict {
    Compute(fn(Set, &Insn, u32) -> Option<Computation>),
    Boost,
    Step,
    Refuse(&'static Rule),
}

/// Instructions with `word & mask == value`, and the decision about them.
struct RuleRow {
    mask: u32,
    value: u32,
    /// The width that has this instruction; `None`: both.
    only: Option<Set>,
    linux: Verdict,
    /// The decision of a release of Linux and of all later ones, where it differs from `linux`.
    since: Option<(Release, Verdict)>,
    best: Verdict,
}

impl RuleRow {
    fn linux_of(&self, release: Release) -> Verdict {
        self.since.filter(|(since, _)| release >= *since).map_or(self.linux, |(_, verdict)| verdict)
    }
}

const fn row(mask: u32, value: u32, linux: Verdict, best: Verdict) -> RuleRow {
    RuleRow { mask, value, only: None, linux, since: None, best }
}

/// A row on which the policies agree.
const fn both(mask: u32, value: u32, verdict: Verdict) -> RuleRow {
    row(mask, value, verdict, verdict)
}

/// The rows of the table, for a width.
pub const fn rows(set: Set) -> Rows {
    match set {
        Set::Rv32 => Rows { example, of: |insn| row_of(Set::Rv32, word(insn)), flags: &[], ..Rows::NONE },
        Set::Rv64 => Rows { example, of: |insn| row_of(Set::Rv64, word(insn)), flags: &[], ..Rows::NONE },
    }
}

fn row_of(set: Set, word: u32) -> Option<usize> {
    TABLE.iter().position(|row| word & row.mask == row.value && row.only.is_none_or(|only| only == set))
}

fn example(row: usize, free: u64) -> Option<Vec<u8>> {
    let row = TABLE.get(row)?;
    let bytes = filled(row.mask, row.value, free).to_le_bytes();
    // The low bits say whether it is compressed.
    let len = if row.value & 3 == 3 { LENGTH } else { COMPRESSED };
    Some(bytes[..len].to_vec())
}

#[rustfmt::skip]
static TABLE: &[RuleRow] = &[
    //   mask         value                  Linux                     best
    // Compressed jumps.
    RuleRow { only: Some(Set::Rv32), since: Some((Release::V7_2, Compute(jump))),
    ..row(0x0000_e003, 0x0000_2001,          Refuse(&COMPRESSED_CALL), Compute(jump)) },        // c.jal
    both(0x0000_e003, 0x0000_a001,           Compute(jump)),                                    // c.j
    row (0x0000_ffff, 0x0000_8002,           Step,                     Refuse(&UNDEFINED)),     // c.jr of x0
    both(0x0000_f07f, 0x0000_8002,           Compute(compressed_by_register)),                  // c.jr
    both(0x0000_ffff, 0x0000_9002,           Refuse(&BREAKPOINT)),                              // c.ebreak
    both(0x0000_f07f, 0x0000_9002,           Compute(compressed_by_register)),                  // c.jalr
    both(0x0000_c003, 0x0000_c001,           Compute(compressed_branch)),                       // c.beqz, c.bnez
    row (0xffff_ffff, 0x0000_0000,           Step,                     Refuse(&UNDEFINED)),     // a halfword of zeros
    // Jumps, branches, auipc.
    both(0x0000_007f, 0x0000_006f,           Compute(jump)),                                    // jal
    both(0x0000_707f, 0x0000_0067,           Compute(by_register)),                             // jalr
    row (0x0000_007f, 0x0000_0067,           Step,                     Refuse(&UNDEFINED)),     // reserved
    both(0x0000_007f, 0x0000_0017,           Compute(address)),                                 // auipc
    row (0x0000_607f, 0x0000_2063,           Step,                     Refuse(&UNDEFINED)),     // reserved: Linux loops for ever
    both(0x0000_007f, 0x0000_0063,           Compute(branch)),                                  // beq, bne, blt, bge, bltu, bgeu
    // Exceptions and returns.
    both(0xffff_ffff, 0x0000_0073,           Refuse(&EXCEPTION)),                               // ecall
    both(0xffff_ffff, 0x0010_0073,           Refuse(&BREAKPOINT)),                              // ebreak
    both(0xffff_ffff, 0x0020_0073,           Refuse(&RETURN)),                                  // uret
    both(0xffff_ffff, 0x1020_0073,           Refuse(&RETURN)),                                  // sret
    both(0xffff_ffff, 0x3020_0073,           Refuse(&RETURN)),                                  // mret
    both(0xffff_ffff, 0x7020_0073,           Refuse(&RETURN)),                                  // mnret
    both(0xffff_ffff, 0x7b20_0073,           Refuse(&RETURN)),                                  // dret
    // Other system instructions.
    row (0xffff_ffff, 0x1050_0073,           Refuse(&SYSTEM),          Refuse(&WAIT)),          // wfi
    row (0xffff_ffff, 0x00d0_0073,           Refuse(&SYSTEM),          Refuse(&WAIT)),          // wrs.nto
    row (0xffff_ffff, 0x01d0_0073,           Refuse(&SYSTEM),          Refuse(&WAIT)),          // wrs.sto
    row (0xfe00_7fff, 0x1200_0073,           Refuse(&SYSTEM),          Step),                   // sfence.vma
    row (0xffff_ffff, 0x1800_0073,           Refuse(&SYSTEM),          Step),                   // sfence.w.inval
    row (0xffff_ffff, 0x1810_0073,           Refuse(&SYSTEM),          Step),                   // sfence.inval.ir
    row (0xfe00_7fff, 0x1600_0073,           Refuse(&SYSTEM),          Step),                   // sinval.vma
    row (0xfe00_7fff, 0x2200_0073,           Refuse(&SYSTEM),          Step),                   // hfence.vvma
    row (0xfe00_7fff, 0x6200_0073,           Refuse(&SYSTEM),          Step),                   // hfence.gvma
    row (0x0000_707f, 0x0000_0073,           Refuse(&SYSTEM),          Refuse(&UNDEFINED)),     // any other with a funct3 of 0
    row (0xffff_f07f, csr(0x180) | 0x2073,   Refuse(&SYSTEM),          Step),                   // csrr of satp
    row (0xfff0_007f, csr(0x180),            Refuse(&SYSTEM),          Refuse(&STATE)),         // satp
    row (0xfff0_007f, csr(0x141),            Refuse(&SYSTEM),          Refuse(&TRAP_STATE)),    // sepc
    row (0xfff0_007f, csr(0x142),            Refuse(&SYSTEM),          Refuse(&TRAP_STATE)),    // scause
    row (0xfff0_007f, csr(0x143),            Refuse(&SYSTEM),          Refuse(&TRAP_STATE)),    // stval
    row (0x0000_007f, 0x0000_0073,           Refuse(&SYSTEM),          Step),                   // any other csr*, and hlv*, hsv*
    // Memory.
    row (0x0000_007f, 0x0000_000f,           Refuse(&ORDERING),        Boost),                  // fence, fence.i, pause, cbo.*
    row (0xf9f0_007f, 0x1000_002f,           Step,                     Refuse(&EXCLUSIVE)),     // lr: Linux's loop never ends
    row (0xf800_007f, 0x1800_002f,           Step,                     Refuse(&EXCLUSIVE)),     // sc
    // Vendors' instructions, and encodings of 6 bytes and more.
    row (0x0000_007f, 0x0000_000b,           Step,                     Refuse(&UNKNOWN)),       // custom-0
    row (0x0000_007f, 0x0000_002b,           Step,                     Refuse(&UNKNOWN)),       // custom-1
    row (0x0000_007f, 0x0000_005b,           Step,                     Refuse(&UNKNOWN)),       // custom-2
    row (0x0000_007f, 0x0000_007b,           Step,                     Refuse(&UNKNOWN)),       // custom-3
    row (0x0000_007f, 0x0000_006b,           Step,                     Refuse(&UNDEFINED)),     // reserved
    row (0x0000_001f, 0x0000_001f,           Step,                     Refuse(&UNDEFINED)),     // too long
];

/// An instruction on this control and status register.
const fn csr(number: u32) -> u32 {
    number << 20 | 0x73
}

/// The register number of a compressed instruction's short field from bit `low` on: x8 to x15.
fn short_register(word: u32, low: u32) -> u8 {
    8 + (word >> low & 7) as u8
}

fn jump(_: Set, insn: &Insn, word: u32) -> Option<Computation> {
    let is_compressed = word & 3 != 3;
    let link = match is_compressed {
        true => u8::from(word & 0xe003 == 0x2001),
        false => register(word, 7),
    };
    Some(Computation::Jump { link, target: insn.flow.target()? })
}

/// `c.jalr` has bit 12 set and stores the return address in ra.
fn compressed_by_register(_: Set, _: &Insn, word: u32) -> Option<Computation> {
    Some(Computation::JumpRegister { link: (word >> 12 & 1) as u8, base: register(word, 7), offset: 0 })
}

fn by_register(_: Set, _: &Insn, word: u32) -> Option<Computation> {
    let offset = (word as i32 >> 20) as i16;
    Some(Computation::JumpRegister { link: register(word, 7), base: register(word, 15), offset })
}

fn compressed_branch(_: Set, insn: &Insn, word: u32) -> Option<Computation> {
    let condition = if word >> 13 & 1 == 0 { Condition::Equal } else { Condition::NotEqual };
    Some(Computation::Branch { condition, left: short_register(word, 7), right: 0, target: insn.flow.target()? })
}

fn branch(_: Set, insn: &Insn, word: u32) -> Option<Computation> {
    let (condition, target) = (Condition::of(word >> 12)?, insn.flow.target()?);
    Some(Computation::Branch { condition, left: register(word, 15), right: register(word, 20), target })
}

fn address(set: Set, insn: &Insn, word: u32) -> Option<Computation> {
    let value = moved(set, insn.address, (word & 0xffff_f000) as i32);
    Some(Computation::Address { register: register(word, 7), value })
}

/// Refuses instructions between a load-reserved and its store-conditional. Linux accepts them.
pub fn check_context(
    set: Set,
    insn: &Insn,
    policy: Policy,
    function: Range<u64>,
    around: &mut dyn Surroundings,
) -> Result<(), Refusal> {
    let is_between = !policy.is_linux() && between_exclusives(set.isa(), exclusive, &function, insn.address, around);
    if is_between { Err(BETWEEN_EXCLUSIVES.refusal()) } else { Ok(()) }
}

/// The effect of an instruction on the reservation.
fn exclusive(insn: &Insn) -> Exclusive {
    match word(insn) & 0xf800_007f {
        0x1000_002f => Exclusive::Load,
        0x1800_002f => Exclusive::Store,
        _ => Exclusive::Neither,
    }
}

#[cfg(test)]
mod tests;
