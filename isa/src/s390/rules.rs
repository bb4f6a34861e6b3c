//! Decides which s390x instructions may be probed, and how each accepted one runs.
//!
//! One table with a column for each policy; an operation code that is not in it may run anywhere. The columns differ
//! where Linux 6.1 accepts an instruction that a trap or step breaks, refuses one that works, or needs a second trap
//! for nothing. Branches, which Linux steps and then corrects, are emulated under both policies.

use super::abi::r;
use super::emulate::{Computation, Condition, Second, Target, Width};
use super::fields::{base, byte, displacement, long_displacement, r1, r2};
use super::opcodes::{code, is_known, with_code};
use super::slot;
use super::{S390X, decode};
use crate::arch::Emulation;
use crate::function::walk_around;
use crate::insn::{Flow, Insn};
use crate::plan::{Errno, Plan, Policy, Refusal, Rule};
use crate::region::Surroundings;
use crate::regs::Reg;
use crate::rows::Rows;
use Errno::EINVAL;
use Verdict::{Boost, Compute, Refuse, Step};
use core::ops::Range;

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static UNDEFINED: Rule = Rule::new("undefined", EINVAL,
        "no machine has this instruction: it raises an exception on purpose, or is data; probe the instruction before it instead");
    pub static EXECUTE: Rule = Rule::new("execute", EINVAL,
        "it executes an instruction at another address, and a trap does not tell which of the two raised it; probe the instruction before or after it instead");
    pub static EXECUTED: Rule = Rule::new("executed", EINVAL,
        "another instruction executes it (exrl), or may do so by its address (larl), and a breakpoint here would trap at that instruction; probe the executing instruction, or a neighbour, instead");
    pub static LINKAGE: Rule = Rule::new("program-linkage", EINVAL,
        "it switches the program, address space or addressing mode, and the engine's code would run in the new one; probe the instruction before it instead");
    pub static TRANSACTION: Rule = Rule::new("transaction", EINVAL,
        "a trap ends the transaction that it begins or completes, which then fails for ever; probe the transaction's abort path instead");
    pub static STATE: Rule = Rule::new("system-state", EINVAL,
        "it changes how all later code is translated, interrupted or trapped, the engine's own included; probe the instruction before it instead");
    pub static READS_MASK: Rule = Rule::new("reads-mask", EINVAL,
        "it reads the PSW, which has other bits while Linux 6.1 steps; probe the next instruction instead");
    pub static EXCEPTION: Rule = Rule::new("exception", EINVAL,
        "the handler that it enters would see the copy's address as its return address; probe the handler instead");
    pub static TRAP: Rule = Rule::new("trap", EINVAL,
        "it is the trap of a BUG() or WARN(), which the kernel finds by its address; probe the instruction before or after it instead");
    pub static RETURN: Rule = Rule::new("psw-load", EINVAL,
        "it loads the PSW to return from an exception or to wait for one, and a trap at this point would overwrite the saved state; probe an earlier instruction of this path instead");
    pub static HYPERVISOR: Rule = Rule::new("hypervisor", EINVAL,
        "it calls the hypervisor, whose effects are unknown; probe the instruction before or after it instead");
    pub static THROUGH_MEMORY: Rule = Rule::new("through-memory", EINVAL,
        "it branches to an address in memory, which the engine does not emulate; probe the instruction before it instead");
}
pub(super) use reasons::*;

/// All reasons for a refusal.
#[rustfmt::skip]
pub static RULES: &[&Rule] = &[
    &UNDEFINED, &EXECUTE, &EXECUTED, &LINKAGE, &TRANSACTION, &STATE, &READS_MASK, &EXCEPTION, &TRAP, &RETURN, &HYPERVISOR, &THROUGH_MEMORY,
    &slot::OUT_OF_REACH,
];

/// Decides whether an instruction may be probed, and how it runs.
pub fn plan(insn: &Insn, policy: Policy) -> Result<Plan, Refusal> {
    let code = code(insn.bytes());
    if !is_known(code) {
        return Err(UNDEFINED.refusal());
    }
    let found = TABLE.iter().find(|row| row.code == code);
    let verdict = match policy {
        Policy::Best | Policy::Outside => found.map_or(Boost, |row| row.best),
        Policy::Linux(_) => found.map_or(Step, |row| row.linux),
    };
    match verdict {
        // A branch that is never taken is a no-op, which may run anywhere.
        Compute(_) if insn.flow == Flow::Next && is_conditional(code) => {
            Ok(if !policy.is_linux() { Plan::Boost } else { Plan::Step })
        }
        Compute(computation) => Ok(Plan::Emulate(Emulation::S390(computation(insn, insn.bytes())))),
        Boost => Ok(Plan::Boost),
        Step => Ok(Plan::Step),
        Refuse(rule) => Err(rule.refusal()),
    }
}

/// Whether the instruction is a plain conditional branch, with no other effect.
fn is_conditional(code: u16) -> bool {
    matches!(code, 0x0700 | 0x4700 | 0xa704 | 0xc004)
}

/// Whether the instruction is `larl`, which only computes an address.
pub(super) fn is_address(insn: &Insn) -> bool {
    code(insn.bytes()) == LARL
}

const LARL: u16 = 0xc000;
const EXRL: u16 = 0xc600;

/// The decision in one column of the table.
#[derive(Clone, Copy)]
enum Verdict {
    Compute(fn(&Insn, &[u8]) -> Computation),
    Boost,
    Step,
    Refuse(&'static Rule),
}

/// Instructions with an operation code, and the decision about them.
struct RuleRow {
    code: u16,
    linux: Verdict,
    best: Verdict,
}

const fn row(code: u16, linux: Verdict, best: Verdict) -> RuleRow {
    RuleRow { code, linux, best }
}

/// A row on which the policies agree.
const fn both(code: u16, verdict: Verdict) -> RuleRow {
    row(code, verdict, verdict)
}

/// The rows of the table.
pub const ROWS: Rows = Rows {
    example: |row, free| TABLE.get(row).map(|row| with_code(row.code, free)),
    of: |insn| TABLE.iter().position(|row| row.code == code(insn.bytes())),
    flags: &[("cc", 3, 0)],
    ..Rows::NONE
};

#[rustfmt::skip]
static TABLE: &[RuleRow] = &[
    //   code    Linux 6.1             best
    both(0x0101, Refuse(&LINKAGE)),                           // pr
    row (0x0107, Step,                 Refuse(&STATE)),       // sckpf
    row (0x010c, Step,                 Refuse(&STATE)),       // sam24
    row (0x010d, Step,                 Refuse(&STATE)),       // sam31
    row (0x010e, Step,                 Refuse(&STATE)),       // sam64
    row (0x01ff, Step,                 Refuse(&EXCEPTION)),   // trap2
    both(0x0500, Compute(link_by_register)),                  // balr
    both(0x0600, Compute(count_by_register)),                 // bctr
    both(0x0700, Compute(condition_by_register)),             // bcr
    row (0x0a00, Step,                 Refuse(&EXCEPTION)),   // svc
    both(0x0b00, Refuse(&LINKAGE)),                           // bsm
    both(0x0c00, Refuse(&LINKAGE)),                           // bassm
    both(0x0d00, Compute(link_by_register)),                  // basr
    both(0x4400, Refuse(&EXECUTE)),                           // ex
    both(0x4500, Compute(link)),                              // bal
    both(0x4600, Compute(count)),                             // bct
    both(0x4700, Compute(condition)),                         // bc
    both(0x4d00, Compute(link)),                              // bas
    row (0x8000, Step,                 Refuse(&STATE)),       // ssm
    row (0x8200, Step,                 Refuse(&RETURN)),      // lpsw
    both(0x8300, Refuse(&HYPERVISOR)),                        // diag
    both(0x8400, Compute(|insn, bytes| step(true, Width::Low, insn, bytes))),        // brxh
    both(0x8500, Compute(|insn, bytes| step(false, Width::Low, insn, bytes))),         // brxle
    both(0x8600, Compute(|insn, bytes| step(true, Width::Low, insn, bytes))),        // bxh
    both(0x8700, Compute(|insn, bytes| step(false, Width::Low, insn, bytes))),         // bxle
    both(0xa704, Compute(condition)),                         // brc
    both(0xa705, Compute(link)),                              // bras
    both(0xa706, Compute(count)),                             // brct
    both(0xa707, Compute(count_wide)),                        // brctg
    both(0xac00, Refuse(&STATE)),                             // stnsm
    both(0xad00, Refuse(&STATE)),                             // stosm
    both(0xae00, Step),                                       // sigp
    row (0xaf00, Step,                 Refuse(&TRAP)),        // mc
    row (0xb700, Step,                 Refuse(&STATE)),       // lctl
    both(0xb202, Step),                                       // stidp: emulated by the machine
    both(0xb204, Step),                                       // sck: like the following, reads or sets a clock
    both(0xb205, Step),                                       // stck
    both(0xb206, Step),                                       // sckc
    both(0xb207, Step),                                       // stckc
    both(0xb208, Step),                                       // spt
    both(0xb209, Step),                                       // stpt
    both(0xb20d, Step),                                       // ptlb: changes address translation
    row (0xb210, Step,                 Refuse(&STATE)),       // spx
    both(0xb212, Step),                                       // stap
    row (0xb214, Step,                 Refuse(&HYPERVISOR)),  // sie
    both(0xb218, Refuse(&LINKAGE)),                           // pc
    row (0xb219, Step,                 Refuse(&STATE)),       // sac
    both(0xb220, Step),                                       // servc
    both(0xb221, Step),                                       // ipte
    both(0xb228, Refuse(&LINKAGE)),                           // pt
    both(0xb230, Step),                                       // csch
    both(0xb231, Step),                                       // hsch
    both(0xb232, Step),                                       // msch
    both(0xb233, Step),                                       // ssch
    both(0xb234, Step),                                       // stsch
    both(0xb235, Step),                                       // tsch
    both(0xb236, Step),                                       // tpi
    both(0xb237, Step),                                       // sal
    both(0xb238, Step),                                       // rsch
    both(0xb239, Step),                                       // stcrw
    both(0xb23a, Step),                                       // stcps
    both(0xb23b, Step),                                       // rchp
    both(0xb23c, Step),                                       // schm
    both(0xb240, Refuse(&LINKAGE)),                           // bakr
    both(0xb250, Step),                                       // csp
    both(0xb258, Refuse(&LINKAGE)),                           // bsg
    both(0xb25a, Refuse(&LINKAGE)),                           // bsa
    both(0xb25f, Step),                                       // chsc
    both(0xb276, Step),                                       // xsch
    row (0xb277, Step,                 Refuse(&LINKAGE)),     // rp
    both(0xb278, Step),                                       // stcke
    row (0xb279, Step,                 Refuse(&STATE)),       // sacf
    both(0xb27c, Step),                                       // stckf
    both(0xb27d, Step),                                       // stsi
    both(0xb2b0, Step),                                       // stfle
    both(0xb2b1, Step),                                       // stfl
    row (0xb2b2, Step,                 Refuse(&RETURN)),      // lpswe
    both(0xb2f8, Refuse(&TRANSACTION)),                       // tend
    row (0xb2fc, Step,                 Refuse(&TRANSACTION)), // tabort
    row (0xb2ff, Step,                 Refuse(&EXCEPTION)),   // trap4
    both(0xb946, Compute(count_wide_by_register)),            // bctgr
    both(0xb98a, Step),                                       // cspg
    row (0xb98d, Refuse(&READS_MASK),  Boost),                // epsw
    both(0xb98e, Step),                                       // idte
    both(0xb98f, Step),                                       // crdte
    row (0xb99e, Step,                 Refuse(&LINKAGE)),     // pti
    both(LARL,   Compute(address)),
    both(0xc004, Compute(condition)),                         // brcl
    both(0xc005, Compute(link)),                              // brasl
    both(EXRL,   Refuse(&EXECUTE)),
    both(0xc801, Step),                                       // ectg
    both(0xcc06, Compute(count_high)),                        // brcth
    both(0xe346, Compute(count_wide)),                        // bctg
    row (0xe347, Step,                 Refuse(&THROUGH_MEMORY)), // bic: 6.1 treats its target as pc-relative
    row (0xe500, Step,                 Refuse(&STATE)),       // lasp
    both(0xe560, Refuse(&TRANSACTION)),                       // tbegin
    both(0xe561, Refuse(&TRANSACTION)),                       // tbeginc
    row (0xeb2f, Step,                 Refuse(&STATE)),       // lctlg
    both(0xeb44, Compute(|insn, bytes| step(true, Width::Whole, insn, bytes))), // bxhg
    both(0xeb45, Compute(|insn, bytes| step(false, Width::Whole, insn, bytes))),  // bxleg
    row (0xeb71, Step,                 Refuse(&RETURN)),      // lpswey: 6.1 corrects the loaded pc by a distance
    both(0xec44, Compute(|insn, bytes| step(true, Width::Whole, insn, bytes))), // brxhg
    both(0xec45, Compute(|insn, bytes| step(false, Width::Whole, insn, bytes))),  // brxlg
    both(0xec64, Compute(|insn, bytes| compare(Width::Whole, true, insn, bytes))),                     // cgrj
    both(0xec65, Compute(|insn, bytes| compare(Width::Whole, false, insn, bytes))),          // clgrj
    both(0xec76, Compute(|insn, bytes| compare(Width::Low, true, insn, bytes))),                        // crj
    both(0xec77, Compute(|insn, bytes| compare(Width::Low, false, insn, bytes))),                 // clrj
    both(0xec7c, Compute(|insn, bytes| compare_number(Width::Whole, true, insn, bytes))),              // cgij
    both(0xec7d, Compute(|insn, bytes| compare_number(Width::Whole, false, insn, bytes))),   // clgij
    both(0xec7e, Compute(|insn, bytes| compare_number(Width::Low, true, insn, bytes))),                 // cij
    both(0xec7f, Compute(|insn, bytes| compare_number(Width::Low, false, insn, bytes))),          // clij
    both(0xece4, Compute(|insn, bytes| compare(Width::Whole, true, insn, bytes))),                     // cgrb
    both(0xece5, Compute(|insn, bytes| compare(Width::Whole, false, insn, bytes))),          // clgrb
    both(0xecf6, Compute(|insn, bytes| compare(Width::Low, true, insn, bytes))),                        // crb
    both(0xecf7, Compute(|insn, bytes| compare(Width::Low, false, insn, bytes))),                 // clrb
    both(0xecfc, Compute(|insn, bytes| compare_number(Width::Whole, true, insn, bytes))),              // cgib
    both(0xecfd, Compute(|insn, bytes| compare_number(Width::Whole, false, insn, bytes))),   // clgib
    both(0xecfe, Compute(|insn, bytes| compare_number(Width::Low, true, insn, bytes))),                 // cib
    both(0xecff, Compute(|insn, bytes| compare_number(Width::Low, false, insn, bytes))),          // clib
];

/// The target of a branch: fixed, or a sum of registers and a displacement.
fn target(insn: &Insn, bytes: &[u8]) -> Target {
    match (insn.flow.target(), code(bytes) >> 8) {
        (Some(_), _) => Target::Written,
        (None, 0x45..=0x47 | 0x4d) => Target::Made(part(base(bytes)), part(r2(bytes)), displacement(bytes)),
        (None, 0xe3) => Target::Made(part(base(bytes)), part(r2(bytes)), long_displacement(bytes)),
        (None, 0xeb) => Target::Made(part(base(bytes)), None, long_displacement(bytes)),
        (None, _) => Target::Made(part(base(bytes)), None, displacement(bytes)),
    }
}

/// A base or index register; number 0 means none.
fn part(register: u8) -> Option<Reg> {
    (register != 0).then_some(r(register))
}

/// The target in a register. With register 0 execution continues behind the instruction.
fn target_by(register: u8) -> Target {
    part(register).map_or(Target::Written, |register| Target::Made(Some(register), None, 0))
}

fn condition(insn: &Insn, bytes: &[u8]) -> Computation {
    Computation::Branch(Condition::Code(r1(bytes)), target(insn, bytes))
}

fn condition_by_register(_: &Insn, bytes: &[u8]) -> Computation {
    Computation::Branch(Condition::Code(r1(bytes)), target_by(r2(bytes)))
}

fn link(insn: &Insn, bytes: &[u8]) -> Computation {
    Computation::Branch(Condition::Links(r(r1(bytes))), target(insn, bytes))
}

fn link_by_register(_: &Insn, bytes: &[u8]) -> Computation {
    Computation::Branch(Condition::Links(r(r1(bytes))), target_by(r2(bytes)))
}

fn count(insn: &Insn, bytes: &[u8]) -> Computation {
    Computation::Branch(Condition::Counts(r(r1(bytes)), Width::Low), target(insn, bytes))
}

fn count_wide(insn: &Insn, bytes: &[u8]) -> Computation {
    Computation::Branch(Condition::Counts(r(r1(bytes)), Width::Whole), target(insn, bytes))
}

fn count_high(insn: &Insn, bytes: &[u8]) -> Computation {
    Computation::Branch(Condition::Counts(r(r1(bytes)), Width::High), target(insn, bytes))
}

fn count_by_register(_: &Insn, bytes: &[u8]) -> Computation {
    Computation::Branch(Condition::Counts(r(r1(bytes)), Width::Low), target_by(r2(bytes)))
}

/// Its registers are in the fourth byte.
fn count_wide_by_register(_: &Insn, bytes: &[u8]) -> Computation {
    let registers = byte(bytes, 3);
    Computation::Branch(Condition::Counts(r(registers >> 4), Width::Whole), target_by(registers & 15))
}

/// The limit is in the step's register if that is odd, otherwise in the next one.
fn step(higher: bool, width: Width, insn: &Insn, bytes: &[u8]) -> Computation {
    let (sum, step, limit) = (r(r1(bytes)), r(r2(bytes)), r(r2(bytes) | 1));
    Computation::Branch(Condition::Steps { sum, step, limit, width, higher }, target(insn, bytes))
}

/// The mask is in the fifth byte.
fn compare(width: Width, signed: bool, insn: &Insn, bytes: &[u8]) -> Computation {
    let (first, second, mask) = (r(r1(bytes)), Second::Register(r(r2(bytes))), byte(bytes, 4) >> 4);
    Computation::Branch(Condition::Compares { first, second, width, signed, mask }, target(insn, bytes))
}

/// The mask is in the R2 field, the immediate in the fifth byte.
fn compare_number(width: Width, signed: bool, insn: &Insn, bytes: &[u8]) -> Computation {
    let (first, second, mask) = (r(r1(bytes)), Second::Number(byte(bytes, 4)), r2(bytes));
    Computation::Branch(Condition::Compares { first, second, width, signed, mask }, target(insn, bytes))
}

fn address(insn: &Insn, bytes: &[u8]) -> Computation {
    Computation::Address(r(r1(bytes)), decode::far(insn.address, bytes))
}

/// Refuses instructions that another instruction of the function executes (`exrl`), or whose address one loads
/// (`larl`). Linux 6.1 does not check this.
pub fn check_context(insn: &Insn, policy: Policy, function: Range<u64>, around: &mut dyn Surroundings) -> Result<(), Refusal> {
    if policy.is_linux() {
        return Ok(());
    }
    let start = function.start;
    let names_it = |other: &Insn| {
        // `larl` of the function's first instruction takes the function's address.
        let names = match code(other.bytes()) {
            EXRL => true,
            LARL => insn.address != start,
            _ => false,
        };
        names && decode::far(other.address, other.bytes()) == insn.address
    };
    let is_named = walk_around(&S390X, function, around).map_while(Result::ok).any(|other| names_it(&other));
    if is_named { Err(EXECUTED.refusal()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
