//! Decides which x86 instructions may be probed, and how each accepted one runs ([`plan`]).
//!
//! This file has the rules of the policy `Best`, which decides by iced-x86's decoding. The first row of `REFUSED` that matches
//! refuses. Branches and instructions for the interrupt flag are emulated. All others run as a copy, which is stepped or boosted.
//! The rules of Linux 6.1 are in `linux.rs`: unlike Linux, this file never takes a vector instruction (VEX, EVEX, XOP) for
//! the legacy instruction with the same opcode byte.

use super::abi::X87_IP;
use super::emulate::{Computation, LoopKind, Operand, Segment};
use super::shape::{Map, Shape, address_size};
use super::{Mode, decode, linux};
use crate::arch::Emulation;
use crate::insn::{Flow, Insn};
use crate::plan::{Errno, Plan, Policy, Refusal, Rule};
use crate::regs::Reg;
use iced_x86::{Instruction, Mnemonic, Register};

use Errno::{EINVAL, ENOSPC, EOPNOTSUPP};

#[rustfmt::skip]
mod reasons {
    use super::*;
    pub static MARKER: Rule = Rule::new("hypervisor-marker", EINVAL,
        "a marker in front of this instruction asks a hypervisor to emulate it, and the hypervisor finds it by its address; probe the next instruction instead");
    pub static BREAKPOINT: Rule = Rule::new("foreign-breakpoint", EINVAL,
        "the instruction is already a breakpoint; probe the next instruction instead");
    pub static MASKING: Rule = Rule::new("exception-masking", EINVAL,
        "loading ss delays interrupts and traps until after the next instruction, which would be the engine's; probe the instruction after the next one instead");
    pub static FAR: Rule = Rule::new("far-transfer", EOPNOTSUPP,
        "a far call, jump or return also loads the code segment, which the engine does not emulate; probe its target instead");
    pub static RETURN: Rule = Rule::new("privileged-return", EOPNOTSUPP,
        "it returns from an interrupt or a system call, and a trap at this point would destroy state; probe an earlier instruction of this path instead");
    pub static HYPERVISOR: Rule = Rule::new("hypervisor-call", EOPNOTSUPP,
        "it enters a hypervisor, a guest or an enclave, which would see the copy's address; probe the instruction before or after it instead");
    pub static THROUGH_MEMORY: Rule = Rule::new("indirect-through-memory", EOPNOTSUPP,
        "Linux 6.1 does not emulate calls and jumps through memory or with another address size; the policy `best` does");
    pub static TOO_LONG: Rule = Rule::new("too-long", ENOSPC,
        "an instruction of 15 bytes leaves no room for a breakpoint in Linux's slots of 15 bytes; the policy `best` has longer slots");
    pub static SOFTWARE_INTERRUPT: Rule = Rule::new("software-interrupt", EOPNOTSUPP,
        "the handler that it enters would see the copy's address as its return address; probe the handler instead");
    pub static HALT: Rule = Rule::new("halt", EOPNOTSUPP,
        "it waits for an interrupt, but its copy would run with interrupts off; probe the instruction before or after it instead");
    pub static TRANSACTION: Rule = Rule::new("transaction", EOPNOTSUPP,
        "a trap aborts the transaction that it begins, and the abort address is relative to this instruction; probe the abort path instead");
    pub static UNDEFINED: Rule = Rule::new("undefined", EINVAL,
        "it raises the invalid-opcode exception on purpose, and the kernel looks up its address; probe the instruction before it instead");
    pub static UNKNOWN: Rule = Rule::new("unknown", EINVAL,
        "no CPU has an instruction with these bytes, so it is data or is never executed; probe code that runs instead");
    pub static NARROW: Rule = Rule::new("narrow-branch", EOPNOTSUPP,
        "Intel and AMD CPUs treat branches with an operand size prefix differently; probe its target instead");
}
pub(super) use reasons::*;

/// All reasons for a refusal.
#[rustfmt::skip]
pub static RULES: &[&Rule] = &[
    &MARKER, &BREAKPOINT, &MASKING, &super::slot::OUT_OF_REACH, &FAR, &RETURN, &HYPERVISOR, &THROUGH_MEMORY, &TOO_LONG,
    &SOFTWARE_INTERRUPT, &HALT, &TRANSACTION, &UNDEFINED, &UNKNOWN, &NARROW,
];

/// Decides whether an instruction may be probed, and how it runs.
pub fn plan(mode: Mode, insn: &Insn, policy: Policy) -> Result<Plan, Refusal> {
    let verdict = match policy {
        Policy::Best | Policy::Outside => best(mode, insn),
        Policy::Linux(_) => linux::verdict(mode, insn),
    };
    verdict.map_err(Rule::refusal)
}

/// Instructions with these mnemonics are refused if `only` is true for them.
struct RefusalRow {
    mnemonics: &'static [Mnemonic],
    only: fn(&Instruction) -> bool,
    rule: &'static Rule,
}

const fn row(mnemonics: &'static [Mnemonic], only: fn(&Instruction) -> bool, rule: &'static Rule) -> RefusalRow {
    RefusalRow { mnemonics, only, rule }
}

#[rustfmt::skip]
static REFUSED: &[RefusalRow] = {
    use Mnemonic::*;
    &[
        row(&[Int3],                                                                ALWAYS,   &BREAKPOINT),
        row(&[Mov, Pop],                                                            INTO_SS,  &MASKING),
        row(&[Call, Jmp],                                                           IS_FAR,   &FAR),
        row(&[Retf],                                                                ALWAYS,   &FAR),
        row(&[Iret, Iretd, Iretq, Sysret, Sysretq, Sysexit, Sysexitq],              ALWAYS,   &RETURN),
        row(&[Rsm, Eretu, Erets, Uiret],                                            ALWAYS,   &RETURN),
        row(&[Vmcall, Vmmcall, Vmgexit, Vmlaunch, Vmresume, Vmrun, Vmfunc, Skinit], ALWAYS,   &HYPERVISOR),
        row(&[Tdcall, Seamcall, Seamret, Seamops, Encls, Enclu, Enclv, Getsec],     ALWAYS,   &HYPERVISOR),
        row(&[Int, Int1, Into, Syscall, Sysenter],                                  ALWAYS,   &SOFTWARE_INTERRUPT),
        row(&[Hlt, Mwait, Mwaitx, Umwait, Tpause],                                  ALWAYS,   &HALT),
        row(&[Xbegin],                                                              ALWAYS,   &TRANSACTION),
        row(&[Ud0, Ud1, Ud2],                                                       ALWAYS,   &UNDEFINED),
    ]
};

const ALWAYS: fn(&Instruction) -> bool = |_| true;
const INTO_SS: fn(&Instruction) -> bool = |instruction| instruction.op0_register() == Register::SS;
const IS_FAR: fn(&Instruction) -> bool = |instruction| {
    let far =
        [Instruction::is_call_far, Instruction::is_call_far_indirect, Instruction::is_jmp_far, Instruction::is_jmp_far_indirect];
    far.iter().any(|is| is(instruction))
};

/// Instructions whose result the machine may provide, which depends on the pc. They are stepped, so that the engine learns when
/// they have run.
const ANSWERED: &[Mnemonic] = {
    use Mnemonic::*;
    &[Rdtsc, Rdtscp, Rdpmc, Cpuid, Rdrand, Rdseed, Rdpid, Xgetbv, Xabort, Xend]
};

/// x87 instructions that leave the last instruction pointer (FIP) unchanged.
const NOT_NOTED: &[Mnemonic] = {
    use Mnemonic::*;
    &[Fldenv, Fldcw, Fnstenv, Fnstcw, Frstor, Fnsave, Fnstsw, Fnclex, Fninit]
};

/// The register that holds the address of the instruction after it has run: FIP for x87 instructions, except those of
/// `NOT_NOTED`. `None` for all other instructions.
pub fn address_register(mode: Mode, insn: &Insn) -> Option<Reg> {
    let shape = Shape::of(mode, insn.bytes()).ok()?;
    let of_x87 = shape.map == Map::One && matches!(shape.opcode, 0xd8..=0xdf);
    let known = of_x87.then(|| decode::known(mode, insn))??;
    (!NOT_NOTED.contains(&known.mnemonic())).then_some(X87_IP)
}

/// The plan under the policy `Best`, or the rule that refuses.
fn best(mode: Mode, insn: &Insn) -> Result<Plan, &'static Rule> {
    let shape = Shape::of(mode, insn.bytes()).map_err(|_| &UNKNOWN)?;
    if shape.marker {
        return Err(&MARKER);
    }
    let known = decode::known(mode, insn).ok_or(&UNKNOWN)?;
    let is = |row: &&RefusalRow| row.mnemonics.contains(&known.mnemonic()) && (row.only)(&known);
    if let Some(row) = REFUSED.iter().find(is) {
        return Err(row.rule);
    }
    if insn.flow != Flow::Next && shape.prefixes.has(0x66) {
        return Err(&NARROW);
    }
    if !matches!(shape.map, Map::Vector(_))
        && let Some(computation) = computation(mode, insn, &shape).or_else(|| through_memory(&shape, &known))
    {
        return Ok(Plan::Emulate(Emulation::X86(computation)));
    }
    // Every branch that may be probed was emulated above. The rest raises an exception, like a software interrupt.
    if insn.flow != Flow::Next {
        return Err(&SOFTWARE_INTERRUPT);
    }
    // An interrupt can suspend a repeated string instruction. Only a step tells the engine that it has completed.
    let repeated = known.is_string_instruction() && (known.has_rep_prefix() || known.has_repne_prefix());
    // The engine corrects FIP after the copy has run.
    let noted = address_register(mode, insn).is_some();
    let steps = repeated || noted || known.is_privileged() || ANSWERED.contains(&known.mnemonic());
    Ok(if steps { Plan::Step } else { Plan::Boost })
}

/// The emulation of an instruction that Linux emulates too. `None` if it is another one. Decides by the opcode bytes alone, as
/// Linux does, so the caller must exclude vector instructions where that is wrong.
pub(super) fn computation(mode: Mode, insn: &Insn, shape: &Shape) -> Option<Computation> {
    let immediate = &insn.bytes()[shape.immediate.min(insn.bytes().len())..];
    let target = insn.next().wrapping_add_signed(sign_extended(immediate)) & mode.mask();
    let flags_size = match (shape.prefixes.has(0x66), mode) {
        (true, _) if shape.rex & 8 == 0 => 2,
        (_, mode) => mode.word() as u8,
    };
    Some(match (shape.first_opcode(), shape.opcode) {
        (0x70..=0x7f, condition) => Computation::Branch(condition & 15, target),
        (0x0f, condition @ 0x80..=0x8f) if shape.map == Map::Two => Computation::Branch(condition & 15, target),
        (0x9c, _) => Computation::PushFlags(flags_size),
        (0x9d, _) => Computation::PopFlags(flags_size),
        (0xc2 | 0xc3, _) => Computation::Return(released(immediate)),
        (0xe0..=0xe3, opcode) => {
            let kind = match opcode & 3 {
                0 => LoopKind::WhileNotZero,
                1 => LoopKind::WhileZero,
                2 => LoopKind::Always,
                _ => LoopKind::IfCounterIsZero,
            };
            Computation::Loop { kind, counter: address_size(mode, shape.prefixes) as u8, target }
        }
        (0xe8, _) => Computation::Call(target),
        (0xe9 | 0xeb, _) => Computation::Jump(target),
        (0xfa, _) => Computation::ClearInterrupts,
        (0xfb, _) => Computation::SetInterrupts,
        (0xff, _) if shape.is_register() => {
            let register = Reg(shape.modrm.unwrap_or(0) & 7 | (shape.rex & 1) << 3);
            match shape.reg() {
                2 => Computation::CallRegister(register),
                4 => Computation::JumpRegister(register),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// The emulation of calls and jumps through memory, which Linux 6.1 refuses.
fn through_memory(shape: &Shape, known: &Instruction) -> Option<Computation> {
    let through: fn(Operand) -> Computation = match (shape.first_opcode(), shape.reg()) {
        (0xff, 2) => Computation::CallMemory,
        (0xff, 4) => Computation::JumpMemory,
        _ => return None,
    };
    // A pc-relative operand has no base here, because iced-x86 has already added the pc to the displacement.
    let number = |register: Register| match register {
        Register::None | Register::RIP | Register::EIP => None,
        register => Some(Reg(register.number() as u8)),
    };
    let wide = [known.memory_base(), known.memory_index()].into_iter().find(|register| *register != Register::None);
    let width = wide.map_or(known.memory_displ_size() as usize, |register| register.size());
    let segment = match known.memory_segment() {
        Register::FS => Segment::Fs,
        Register::GS => Segment::Gs,
        _ => Segment::Flat,
    };
    Some(through(Operand {
        base: number(known.memory_base()),
        index: number(known.memory_index()),
        scale: known.memory_index_scale().trailing_zeros() as u8,
        width: width as u8,
        segment,
        displacement: known.memory_displacement64(),
    }))
}

/// The number of stack bytes that `ret` releases besides the return address.
fn released(immediate: &[u8]) -> u16 {
    immediate.try_into().map_or(0, u16::from_le_bytes)
}

/// The value of an immediate of 1, 2 or 4 bytes; 0 for any other length.
pub(super) fn sign_extended(immediate: &[u8]) -> i64 {
    match *immediate {
        [byte] => i64::from(byte as i8),
        [low, high] => i64::from(i16::from_le_bytes([low, high])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
