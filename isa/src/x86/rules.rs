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
mod tests {
    use super::Mode::{Bits32, Bits64};
    use super::*;
    use crate::insn::LONGEST;
    use crate::x86::X86_64;

    /// The plan for an instruction, or the name of the rule that refuses it.
    fn answer(mode: Mode, bytes: &[u8], policy: Policy) -> &'static str {
        let insn = decode::decode(mode, 0x1000, bytes).unwrap_or_else(|error| panic!("{bytes:x?}: {error:?}"));
        assert_eq!(insn.bytes(), bytes, "its length");
        match plan(mode, &insn, policy) {
            Ok(Plan::Emulate(_)) => "emulate",
            Ok(Plan::Boost) => "boost",
            Ok(Plan::Step) => "step",
            Err(refusal) => X86_64.rule_of(&refusal).expect("every refusal is a named rule").name,
        }
    }

    fn check(cases: &[(&str, Mode, &[u8], &str, &str)]) {
        for (what, mode, bytes, best, linux) in cases {
            assert_eq!(answer(*mode, bytes, Policy::Best), *best, "{what}, best");
            assert_eq!(answer(*mode, bytes, Policy::LINUX_6_1), *linux, "{what}, Linux 6.1");
        }
    }

    /// KP-1: the rules, row by row.
    #[test]
    fn instructions_that_cannot_run_elsewhere_are_refused_by_a_rule() {
        #[rustfmt::skip]
        check(&[
            // what                         mode    bytes                                       best                   Linux 6.1
            ("Xen's mark before cpuid",     Bits64, &[0x0f, 0x0b, 0x78, 0x65, 0x6e, 0x0f, 0xa2], "hypervisor-marker",  "hypervisor-marker"),
            ("KVM's mark before a nop",     Bits32, &[0x0f, 0x0b, 0x6b, 0x76, 0x6d, 0x90],      "hypervisor-marker",  "hypervisor-marker"),
            ("int3",                        Bits64, &[0xcc],                                    "foreign-breakpoint", "foreign-breakpoint"),
            ("mov %eax,%ss",                Bits64, &[0x8e, 0xd0],                              "exception-masking",  "exception-masking"),
            ("mov (%rax),%ss",              Bits64, &[0x8e, 0x10],                              "exception-masking",  "exception-masking"),
            ("mov %eax,%ds",                Bits64, &[0x8e, 0xd8],                              "boost",              "boost"),
            ("mov %ss,%eax",                Bits64, &[0x8c, 0xd0],                              "boost",              "boost"),
            ("pop %ss: 17, not 1f",         Bits32, &[0x17],                                    "exception-masking",  "boost"),
            ("pop %ds: taken for pop %ss",  Bits32, &[0x1f],                                    "boost",              "exception-masking"),
            ("lcall",                       Bits32, &[0x9a, 0, 0, 0, 0, 8, 0],                  "far-transfer",       "far-transfer"),
            ("ljmp",                        Bits32, &[0xea, 0, 0, 0, 0, 8, 0],                  "far-transfer",       "far-transfer"),
            ("lcall *(%rax)",               Bits64, &[0xff, 0x18],                              "far-transfer",       "far-transfer"),
            ("rex.W ljmp *(%rax)",          Bits64, &[0x48, 0xff, 0x28],                        "far-transfer",       "far-transfer"),
            ("lret",                        Bits64, &[0xcb],                                    "far-transfer",       "emulate"),
            ("lret $8",                     Bits32, &[0xca, 8, 0],                              "far-transfer",       "emulate"),
            ("iret",                        Bits32, &[0xcf],                                    "privileged-return",  "privileged-return"),
            ("iretq",                       Bits64, &[0x48, 0xcf],                              "privileged-return",  "privileged-return"),
            ("sysretq",                     Bits64, &[0x48, 0x0f, 0x07],                        "privileged-return",  "step"),
            ("sysexit",                     Bits32, &[0x0f, 0x35],                              "privileged-return",  "step"),
            ("vmcall",                      Bits64, &[0x0f, 0x01, 0xc1],                        "hypervisor-call",    "hypervisor-call"),
            ("vmlaunch",                    Bits64, &[0x0f, 0x01, 0xc2],                        "hypervisor-call",    "hypervisor-call"),
            ("vmresume",                    Bits64, &[0x0f, 0x01, 0xc3],                        "hypervisor-call",    "hypervisor-call"),
            ("vmxoff: runs anywhere",       Bits64, &[0x0f, 0x01, 0xc4],                        "step",               "hypervisor-call"),
            ("vmmcall: not in that group",  Bits64, &[0x0f, 0x01, 0xd9],                        "hypervisor-call",    "step"),
            ("jmp *%rax",                   Bits64, &[0xff, 0xe0],                              "emulate",            "emulate"),
            ("jmp *(%rax)",                 Bits64, &[0xff, 0x20],                              "emulate",            "indirect-through-memory"),
            ("call *8(%esp)",               Bits32, &[0xff, 0x54, 0x24, 0x08],                  "emulate",            "indirect-through-memory"),
            ("call *%gs:0x10(%rip)",        Bits64, &[0x65, 0xff, 0x15, 0x10, 0, 0, 0],         "emulate",            "indirect-through-memory"),
            ("addr32 call *%rax",           Bits64, &[0x67, 0xff, 0xd0],                        "emulate",            "indirect-through-memory"),
            ("push (%rax): same opcode",    Bits64, &[0xff, 0x30],                              "boost",              "step"),
            ("int $0x80",                   Bits64, &[0xcd, 0x80],                              "software-interrupt", "step"),
            ("int1",                        Bits64, &[0xf1],                                    "software-interrupt", "step"),
            ("into",                        Bits32, &[0xce],                                    "software-interrupt", "step"),
            ("syscall",                     Bits64, &[0x0f, 0x05],                              "software-interrupt", "step"),
            ("sysenter",                    Bits32, &[0x0f, 0x34],                              "software-interrupt", "step"),
            ("hlt",                         Bits64, &[0xf4],                                    "halt",               "step"),
            ("mwait",                       Bits64, &[0x0f, 0x01, 0xc9],                        "halt",               "step"),
            ("xbegin",                      Bits64, &[0xc7, 0xf8, 0, 0, 0, 0],                  "transaction",        "boost"),
            ("ud2",                         Bits64, &[0x0f, 0x0b],                              "undefined",          "step"),
            ("ud1 %eax,%eax",               Bits32, &[0x0f, 0xb9, 0xc0],                        "undefined",          "step"),
            ("lea of a register",           Bits64, &[0x8d, 0xc0],                              "unknown",            "boost"),
            ("push %es, gone from 64-bit",  Bits64, &[0x06],                                    "unknown",            "boost"),
            ("data16 jmp",                  Bits64, &[0x66, 0xe9, 0, 0, 0, 0],                  "narrow-branch",      "emulate"),
            ("data16 ret",                  Bits32, &[0x66, 0xc3],                              "narrow-branch",      "emulate"),
            ("data16 jmp *%ax",             Bits32, &[0x66, 0xff, 0xe0],                        "narrow-branch",      "emulate"),
        ]);
    }

    /// KP-2: emulated instructions.
    #[test]
    fn branches_and_interrupt_flag_instructions_are_emulated() {
        #[rustfmt::skip]
        let both: &[(&str, Mode, &[u8])] = &[
            ("cli",            Bits64, &[0xfa]),                   ("sti",             Bits32, &[0xfb]),
            ("pushf",          Bits64, &[0x9c]),                   ("popf",            Bits32, &[0x9d]),
            ("pushfw",         Bits64, &[0x66, 0x9c]),             ("popfw",           Bits32, &[0x66, 0x9d]),
            ("ret",            Bits64, &[0xc3]),                   ("repz ret",        Bits64, &[0xf3, 0xc3]),
            ("ret $8",         Bits32, &[0xc2, 8, 0]),             ("call",            Bits64, &[0xe8, 0, 0, 0, 0]),
            ("jmp rel32",      Bits32, &[0xe9, 0, 0, 0, 0]),       ("jmp rel8",        Bits64, &[0xeb, 0xfe]),
            ("jg rel8",        Bits64, &[0x7f, 0]),                ("jo rel32",        Bits64, &[0x0f, 0x80, 0, 0, 0, 0]),
            ("predicted jne",  Bits64, &[0x2e, 0x75, 0]),          ("loop",            Bits64, &[0xe2, 0]),
            ("addr32 loopne",  Bits64, &[0x67, 0xe0, 0]),          ("loope",           Bits32, &[0xe1, 0]),
            ("jrcxz",          Bits64, &[0xe3, 0]),                ("jcxz",            Bits32, &[0x67, 0xe3, 0]),
            ("call *%rsp",     Bits64, &[0xff, 0xd4]),             ("jmp *%r15",       Bits64, &[0x41, 0xff, 0xe7]),
            ("notrack jmp",    Bits64, &[0x3e, 0xff, 0xe0]),       ("call *%ebx",      Bits32, &[0xff, 0xd3]),
        ];
        for (what, mode, bytes) in both {
            check(&[(what, *mode, bytes, "emulate", "emulate")]);
        }
    }

    /// KP-2: Linux 6.1 takes a vector instruction for the legacy one with its opcode; `best` does not.
    #[test]
    fn vector_instructions_are_not_taken_for_legacy_ones() {
        #[rustfmt::skip]
        check(&[
            // what                        mode    bytes                                       best     Linux 6.1
            ("vpor, jmp's opcode",         Bits64, &[0xc5, 0xe9, 0xeb, 0xc2],                  "boost", "emulate"),
            ("vpshufd, jo's opcode",       Bits64, &[0xc5, 0xf9, 0x70, 0xc1, 0x1b],            "boost", "emulate"),
            ("vpsubsb, call's opcode",     Bits32, &[0xc5, 0xe9, 0xe8, 0xc2],                  "boost", "emulate"),
            ("vpminsw, ljmp's opcode",     Bits64, &[0xc5, 0xe9, 0xea, 0xc2],                  "boost", "far-transfer"),
            ("vfmsub132ps, lcall's",       Bits64, &[0xc4, 0xe2, 0x71, 0x9a, 0xc2],            "boost", "far-transfer"),
            ("vpabsw, pop %ds' opcode",    Bits64, &[0xc4, 0xe2, 0x79, 0x1d, 0xc1],            "boost", "boost"),
            ("vpabsq, with 1f",            Bits64, &[0x62, 0xf2, 0xfd, 0x48, 0x1f, 0xc1],      "boost", "exception-masking"),
            ("vpaddd, incdec's opcode",    Bits64, &[0xc5, 0xe9, 0xfe, 0xc2],                  "boost", "step"),
            ("les, not a vector",          Bits32, &[0xc4, 0x00],                              "boost", "boost"),
            ("bound, not a vector",        Bits32, &[0x62, 0x00],                              "boost", "step"),
            ("vzeroupper, jnbe's opcode",  Bits64, &[0xc5, 0xf8, 0x77],                        "boost", "emulate"),
            ("xop vpcmov",                 Bits64, &[0x8f, 0xe8, 0x78, 0xa2, 0xc1, 0x20],      "boost", "boost"),
        ]);
    }

    /// KP-2: all others run as a copy, boosted if possible.
    #[test]
    fn the_rest_is_boosted_or_stepped() {
        #[rustfmt::skip]
        check(&[
            // what                        mode    bytes                                             best     Linux 6.1
            ("push %rbp",                  Bits64, &[0x55],                                          "boost", "boost"),
            ("an ftrace nop",              Bits64, &[0x0f, 0x1f, 0x44, 0, 0],                        "boost", "boost"),
            ("mov 0(%rip),%rax",           Bits64, &[0x48, 0x8b, 0x05, 0, 0, 0, 0],                  "boost", "boost"),
            ("test $1,%al",                Bits64, &[0xf6, 0xc0, 0x01],                              "boost", "step"),
            ("shl $3,%eax",                Bits64, &[0xc1, 0xe0, 0x03],                              "boost", "step"),
            ("lock incl (%rax)",           Bits64, &[0xf0, 0xff, 0x00],                              "boost", "step"),
            ("mov %cs:(%eax),%eax",        Bits32, &[0x2e, 0x8b, 0x00],                              "boost", "step"),
            ("addr32 mov (%eax),%eax",     Bits64, &[0x67, 0x8b, 0x00],                              "boost", "step"),
            ("movbe",                      Bits64, &[0x0f, 0x38, 0xf0, 0x00],                        "boost", "step"),
            ("11 bytes",                   Bits64, &[0x48, 0xc7, 0x84, 0x24, 0, 1, 0, 0, 1, 0, 0, 0], "boost", "step"),
            ("endbr64",                    Bits64, &[0xf3, 0x0f, 0x1e, 0xfa],                        "boost", "step"),
            ("rep movsb",                  Bits64, &[0xf3, 0xa4],                                    "step",  "boost"),
            ("repnz scasb",                Bits32, &[0xf2, 0xae],                                    "step",  "boost"),
            ("movsb",                      Bits64, &[0xa4],                                          "boost", "boost"),
            ("in (%dx),%al",               Bits64, &[0xec],                                          "step",  "boost"),
            ("cpuid",                      Bits64, &[0x0f, 0xa2],                                    "step",  "step"),
            ("rdtsc",                      Bits64, &[0x0f, 0x31],                                    "step",  "boost"),
            ("rdmsr",                      Bits64, &[0x0f, 0x32],                                    "step",  "step"),
            ("swapgs",                     Bits64, &[0x0f, 0x01, 0xf8],                              "step",  "step"),
            ("mov %rax,%cr3",              Bits64, &[0x0f, 0x22, 0xd8],                              "step",  "boost"),
            ("lgdt (%rax)",                Bits64, &[0x0f, 0x01, 0x10],                              "step",  "step"),
            ("xend",                       Bits64, &[0x0f, 0x01, 0xd5],                              "step",  "step"),
            ("flds (%rbx): saves its pc",  Bits64, &[0xd9, 0x03],                                    "step",  "step"),
            ("fldcw (%ebx): does not",     Bits32, &[0xd9, 0x2b],                                    "boost", "step"),
            ("fnstenv (%rbx): does not",   Bits64, &[0xd9, 0x33],                                    "boost", "step"),
            ("fwait: does not",            Bits32, &[0x9b],                                          "boost", "boost"),
            ("vpsubusb: a vector's d8",    Bits64, &[0xc5, 0xe9, 0xd8, 0xc2],                        "boost", "step"),
        ]);
        let mut longest = [0x2e; LONGEST];
        longest[9..].copy_from_slice(&[0x81, 0x00, 1, 0, 0, 0]);
        check(&[("15 bytes", Bits64, &longest, "boost", "too-long")]);
    }

    /// KP-1: a refusal can be identified by its sentence, and each sentence says what to do instead.
    #[test]
    fn no_two_rules_have_the_same_name_or_sentence() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(X86_64.rule_of(&rule.refusal()), Some(*rule));
            assert!(RULES[..index].iter().all(|other| other.name != rule.name && other.why != rule.why), "{}", rule.name);
            assert!(rule.why.contains(';'), "{}: why, and behind the semicolon what instead", rule.name);
        }
    }
}
