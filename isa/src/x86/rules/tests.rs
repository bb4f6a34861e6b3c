//! The answer to each kind of instruction: its rule, or the way in which it runs.

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
