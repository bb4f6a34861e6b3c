//! The rules, row by row, for both policies; and code with exclusive loads and stores.

#![allow(clippy::type_complexity)] // tables of cases

use super::super::decode::decode;
use super::*;
use crate::region::PlainText;
use alloc::vec::Vec;

const HERE: u64 = 0xffff_8000_0801_0000;

/// The plan for an instruction, or the name of the rule that refuses it.
fn answer(word: u32, policy: Policy) -> &'static str {
    let insn = decode(HERE, &word.to_le_bytes()).expect("a whole word");
    match plan(&insn, policy) {
        Ok(Plan::Emulate(_)) => "compute",
        Ok(Plan::Boost) => "boost",
        Ok(Plan::Step) => "step",
        Err(refusal) => ARM64.rule_of(&refusal).expect("every refusal is a named rule").name,
    }
}

fn check(cases: &[(&str, u32, &str, &str)]) {
    for (what, word, linux, best) in cases {
        assert_eq!(answer(*word, Policy::LINUX_6_1), *linux, "{what}, Linux 6.1");
        assert_eq!(answer(*word, Policy::Best), *best, "{what}, best");
    }
}

/// KP-1, KP-2: instructions that use the pc.
#[test]
fn instructions_that_use_the_pc_are_emulated_or_refused() {
    #[rustfmt::skip]
    check(&[
        // what                      word         Linux 6.1               best
        ("ldr w1, .",                0x1800_0001, "compute",              "compute"),
        ("ldr x1, .",                0x5800_0001, "compute",              "compute"),
        ("ldrsw x1, .",              0x9800_0001, "compute",              "compute"),
        ("prfm pldl1keep, .",        0xd800_0000, "literal-prefetch",     "compute"),
        ("ldr s1, .",                0x1c00_0001, "step",                 "compute"),
        ("ldr d1, .",                0x5c00_0001, "step",                 "compute"),
        ("ldr q1, .",                0x9c00_0001, "step",                 "compute"),
        ("ldr, reserved size",       0xdc00_0001, "step",                 "unknown"),
        ("ldr x1, [x2]: register",   0xf940_0041, "step",                 "boost"),
        ("b .",                      0x1400_0000, "compute",              "compute"),
        ("bl .",                     0x9400_0000, "compute",              "compute"),
        ("b.eq .",                   0x5400_0000, "compute",              "compute"),
        ("b.nv .",                   0x5400_000f, "compute",              "compute"),
        ("bc.eq .",                  0x5400_0010, "step",                 "compute"),
        ("cbz w0, .",                0x3400_0000, "compute",              "compute"),
        ("cbnz x0, .",               0xb500_0000, "compute",              "compute"),
        ("tbz w0, #0, .",            0x3600_0000, "compute",              "compute"),
        ("tbnz x0, #63, .",          0xb7f8_0000, "compute",              "compute"),
        ("br x16",                   0xd61f_0200, "compute",              "compute"),
        ("blr x8",                   0xd63f_0100, "compute",              "compute"),
        ("ret",                      0xd65f_03c0, "compute",              "compute"),
        ("ret x5",                   0xd65f_00a0, "compute",              "compute"),
        ("adr x0, .",                0x1000_0000, "compute",              "compute"),
        ("adrp x0, .",               0x9000_0000, "compute",              "compute"),
        ("braa x0, x1",              0xd71f_0801, "authenticated-branch", "authenticated-branch"),
        ("brabz x0",                 0xd61f_0c1f, "authenticated-branch", "authenticated-branch"),
        ("blraa x0, sp",             0xd73f_081f, "authenticated-branch", "authenticated-branch"),
        ("blraaz x0",                0xd63f_081f, "authenticated-branch", "authenticated-branch"),
        ("retaa",                    0xd65f_0bff, "authenticated-branch", "authenticated-branch"),
        ("retab",                    0xd65f_0fff, "authenticated-branch", "authenticated-branch"),
        ("eretaa",                   0xd69f_0bff, "exception-return",     "exception-return"),
        ("eretab",                   0xd69f_0fff, "exception-return",     "exception-return"),
        ("eret",                     0xd69f_03e0, "exception-return",     "exception-return"),
        ("drps",                     0xd6bf_03e0, "step",                 "exception-return"),
        ("cbgt: newer CPUs only",    0x7400_0000, "step",                 "unknown"),
    ]);
}

/// KP-1
#[test]
fn instructions_that_raise_an_exception_are_refused() {
    #[rustfmt::skip]
    check(&[
        // what                   word         Linux 6.1             best
        ("brk #4: kprobes",       0xd420_0080, "foreign-breakpoint", "foreign-breakpoint"),
        ("brk #6: kprobes' step", 0xd420_00c0, "foreign-breakpoint", "foreign-breakpoint"),
        ("brk #0x800: BUG()",     0xd421_0000, "foreign-breakpoint", "foreign-breakpoint"),
        ("brk #0xffff",           0xd43f_ffe0, "foreign-breakpoint", "foreign-breakpoint"),
        ("svc #0",                0xd400_0001, "exception",          "exception"),
        ("hvc #0",                0xd400_0002, "exception",          "exception"),
        ("smc #0",                0xd400_0003, "exception",          "exception"),
        ("hlt #0",                0xd440_0000, "exception",          "exception"),
        ("dcps1",                 0xd4a0_0001, "exception",          "exception"),
        ("udf #0",                0x0000_0000, "step",               "undefined"),
        ("udf #0xffff",           0x0000_ffff, "step",               "undefined"),
    ]);
}

/// KP-1, KP-2
#[test]
fn system_instructions_are_copied_or_refused() {
    #[rustfmt::skip]
    check(&[
        // what                    word         Linux 6.1          best
        ("msr daifset, #2",        0xd503_42df, "interrupt-masks", "compute"),
        ("msr daifclr, #15",       0xd503_4fff, "interrupt-masks", "compute"),
        ("msr daif, x0",           0xd51b_4220, "interrupt-masks", "compute"),
        ("mrs x0, daif",           0xd53b_4220, "interrupt-masks", "compute"),
        ("msr spsel, #0",          0xd500_40bf, "system-state",    "system-state"),
        ("msr allint, #1",         0xd501_411f, "system-state",    "system-state"),
        ("msr pan, #1",            0xd500_419f, "system-state",    "step"),
        ("msr uao, #1",            0xd500_417f, "system-state",    "step"),
        ("msr ssbs, #1",           0xd503_413f, "system-state",    "step"),
        ("msr dit, #1",            0xd503_415f, "system-state",    "step"),
        ("msr tco, #1",            0xd503_419f, "system-state",    "step"),
        ("cfinv",                  0xd500_401f, "system-state",    "boost"),
        ("xaflag",                 0xd500_403f, "system-state",    "boost"),
        ("axflag",                 0xd500_405f, "system-state",    "boost"),
        ("msr nzcv, x0",           0xd51b_4200, "system-state",    "step"),
        ("msr fpcr, x0",           0xd51b_4400, "system-state",    "step"),
        ("msr fpsr, x0",           0xd51b_4420, "system-state",    "step"),
        ("msr pan, x0",            0xd518_4260, "system-state",    "step"),
        ("msr tpidr_el0, x0",      0xd51b_d040, "system-state",    "step"),
        ("msr tpidrro_el0, x0",    0xd51b_d060, "system-state",    "step"),
        ("msr tpidr_el1, x0",      0xd518_d080, "system-state",    "step"),
        ("msr contextidr_el1, x0", 0xd518_d020, "system-state",    "step"),
        ("msr cntkctl_el1, x0",    0xd518_e100, "system-state",    "step"),
        ("msr cntp_tval_el0, x0",  0xd51b_e200, "system-state",    "step"),
        ("msr cntv_ctl_el0, x0",   0xd51b_e320, "system-state",    "step"),
        ("msr cntv_cval_el0, x0",  0xd51b_e340, "system-state",    "step"),
        ("msr icc_eoir1_el1, x0",  0xd518_cc20, "system-state",    "step"),
        ("msr vbar_el1, x0",       0xd518_c000, "system-state",    "system-state"),
        ("msr sctlr_el1, x0",      0xd518_1000, "system-state",    "system-state"),
        ("msr ttbr0_el1, x0",      0xd518_2000, "system-state",    "system-state"),
        ("msr sp_el0, x0",         0xd518_4100, "system-state",    "system-state"),
        ("msr elr_el1, x0",        0xd518_4020, "system-state",    "system-state"),
        ("mrs x0, elr_el1",        0xd538_4020, "step",            "trap-state"),
        ("mrs x0, spsr_el1",       0xd538_4000, "step",            "trap-state"),
        ("mrs x0, esr_el1",        0xd538_5200, "step",            "trap-state"),
        ("mrs x0, far_el1",        0xd538_6000, "step",            "step"),
        ("mrs x0, sp_el0",         0xd538_4100, "step",            "step"),
        ("mrs x0, tpidr_el1",      0xd538_d080, "step",            "step"),
        ("mrs x0, cntvct_el0",     0xd53b_e040, "step",            "step"),
        ("mrs x0, nzcv",           0xd53b_4200, "step",            "step"),
        ("dc civac, x0",           0xd50b_7e20, "step",            "step"),
        ("ic ialluis",             0xd508_711f, "step",            "step"),
        ("tlbi vmalle1is",         0xd508_831f, "step",            "step"),
        ("at s1e1r, x0",           0xd508_7800, "step",            "step"),
        ("sysl x0, ..",            0xd528_0000, "step",            "step"),
        ("dmb ish",                0xd503_3bbf, "step",            "boost"),
        ("dsb sy",                 0xd503_3f9f, "step",            "boost"),
        ("isb",                    0xd503_3fdf, "step",            "boost"),
        ("sb",                     0xd503_30ff, "step",            "boost"),
        ("clrex",                  0xd503_3f5f, "step",            "boost"),
        ("wfet x0",                0xd503_1000, "step",            "wait"),
        ("wfit x0",                0xd503_1020, "step",            "wait"),
        ("mrrs: newer CPUs only",  0xd570_0000, "step",            "unknown"),
    ]);
}

/// KP-1: hints that Linux 6.1 accepts, and hints that it refuses.
#[test]
fn hints_run_elsewhere_unless_they_wait() {
    #[rustfmt::skip]
    check(&[
        // what        word         Linux 6.1  best
        ("nop",        0xd503_201f, "step",    "boost"),
        ("xpaclri",    0xd503_20ff, "step",    "boost"),
        ("pacia1716",  0xd503_211f, "step",    "boost"),
        ("pacib1716",  0xd503_215f, "step",    "boost"),
        ("paciaz",     0xd503_231f, "step",    "boost"),
        ("paciasp",    0xd503_233f, "step",    "boost"),
        ("pacibz",     0xd503_235f, "step",    "boost"),
        ("pacibsp",    0xd503_237f, "step",    "boost"),
        ("bti",        0xd503_241f, "step",    "boost"),
        ("bti c",      0xd503_245f, "step",    "boost"),
        ("bti j",      0xd503_249f, "step",    "boost"),
        ("bti jc",     0xd503_24df, "step",    "boost"),
        ("yield",      0xd503_203f, "hint",    "boost"),
        ("wfe",        0xd503_205f, "hint",    "wait"),
        ("wfi",        0xd503_207f, "hint",    "wait"),
        ("sev",        0xd503_209f, "hint",    "boost"),
        ("sevl",       0xd503_20bf, "hint",    "boost"),
        ("dgh",        0xd503_20df, "hint",    "boost"),
        ("autia1716",  0xd503_219f, "hint",    "boost"),
        ("autiasp",    0xd503_23bf, "hint",    "boost"),
        ("autibz",     0xd503_23df, "hint",    "boost"),
        ("esb",        0xd503_221f, "hint",    "boost"),
        ("csdb",       0xd503_229f, "hint",    "boost"),
        ("one unused", 0xd503_2fff, "hint",    "boost"),
    ]);
}

/// KP-1
#[test]
fn exclusives_are_refused_and_atomics_are_not() {
    #[rustfmt::skip]
    check(&[
        // what                     word         Linux 6.1    best
        ("ldxr x0, [x1]",           0xc85f_7c20, "exclusive", "exclusive"),
        ("ldaxrb w0, [x1]",         0x085f_fc20, "exclusive", "exclusive"),
        ("stxr w2, x0, [x1]",       0xc802_7c20, "exclusive", "exclusive"),
        ("stlxrh w2, w0, [x1]",     0x4802_fc20, "exclusive", "exclusive"),
        ("ldxp x0, x3, [x1]",       0xc87f_0c20, "exclusive", "exclusive"),
        ("stlxp w2, x0, x3, [x1]",  0xc822_8c20, "exclusive", "exclusive"),
        ("casp x0, x1, x2, x3",     0x4820_7c82, "exclusive", "boost"),
        ("caspal w0, w1, w2, w3",   0x0860_fc82, "exclusive", "boost"),
        ("ldar x0, [x1]",           0xc8df_fc20, "step",      "boost"),
        ("stlr x0, [x1]",           0xc89f_fc20, "step",      "boost"),
        ("cas x0, x1, [x2]",        0xc8a0_7c41, "step",      "boost"),
        ("ldadd x0, x1, [x2]",      0xf820_0041, "step",      "boost"),
        ("stp x29, x30, [sp, -16]", 0xa9bf_7bfd, "step",      "boost"),
        ("ldtr x0, [x1]",           0xf840_0820, "step",      "boost"),
        ("add x0, x0, #1",          0x9100_0400, "step",      "boost"),
    ]);
}

/// KP-1: a refusal can be identified by its sentence, and each sentence says what to do instead.
#[test]
fn no_two_rules_have_the_same_name_or_sentence() {
    for (index, rule) in RULES.iter().enumerate() {
        assert_eq!(ARM64.rule_of(&rule.refusal()), Some(*rule));
        assert!(RULES[..index].iter().all(|other| other.name != rule.name && other.why != rule.why), "{}", rule.name);
        assert!(rule.why.contains(';'), "{}: why, and behind the semicolon what instead", rule.name);
    }
}

/// KP-1: every row is reached by some instruction.
#[test]
fn every_row_of_the_table_is_reached() {
    for (number, row) in TABLE.iter().enumerate() {
        assert_eq!(row.value & !row.mask, 0, "row {number}: {:08x}", row.value);
        let free = !row.mask;
        let mut words = (0..4096u32).map(|spread| row.value | free & spread.wrapping_mul(0x9e37_79b1));
        let reached = |word: u32| TABLE.iter().position(|row| word & row.mask == row.value) == Some(number);
        assert!(words.any(reached), "row {number}: {:08x}/{:08x}", row.mask, row.value);
    }
}

const LDXR: u32 = 0xc85f_7c20;
const STXR: u32 = 0xc802_7c20;
const LDAR: u32 = 0xc8df_fc20;
const STLR: u32 = 0xc89f_fc20;
const CAS: u32 = 0xc8a0_7c41;
const CLREX: u32 = 0xd503_3f5f;
const NOP: u32 = 0xd503_201f;
const RET: u32 = 0xd65f_03c0;
/// `cbnz w2, .-8`: the end of the loop.
const AGAIN: u32 = 0x35ff_ffc2;
/// `cbnz x0, .+12`: leaves the loop.
const OUT: u32 = 0xb500_0060;

fn refused(words: &[u32], at: usize, faults: &[usize], policy: Policy) -> Option<&'static str> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let function = HERE..HERE + bytes.len() as u64;
    let address = |number: usize| HERE + 4 * number as u64;
    let insn = decode(address(at), &bytes[4 * at..]).expect("a whole word");
    let fixups = faults.iter().map(|number| (address(*number), HERE)).collect();
    let mut text = PlainText { start: HERE, bytes, fixups, ..PlainText::default() };
    let refusal = check_context(&insn, policy, function, &mut text).err()?;
    Some(ARM64.rule_of(&refusal).expect("every refusal is a named rule").name)
}

/// KP-1: Linux's scan, and the real rule.
#[test]
fn probes_inside_an_exclusive_loop_are_refused() {
    const INSIDE: Option<&str> = Some("between-exclusives");
    const FREE: Option<&str> = None;
    let apart = |count: usize| -> Vec<u32> {
        let between = core::iter::repeat_n(NOP, count);
        core::iter::once(LDXR).chain(between).chain([STXR, RET]).collect()
    };
    let (near, far) = (apart(32), apart(33));
    #[rustfmt::skip]
    let cases: &[(&str, &[u32], usize, Option<&str>, Option<&str>)] = &[
        // what                                      text                                           at  Linux 6.1  best
        ("before the load",                          &[NOP, LDXR, NOP, STXR, AGAIN, RET],           0,  FREE,      FREE),
        ("in between",                               &[NOP, LDXR, NOP, STXR, AGAIN, RET],           2,  INSIDE,    INSIDE),
        ("behind the store",                         &[NOP, LDXR, NOP, STXR, AGAIN, RET],           4,  FREE,      FREE),
        ("without a store after it",                 &[LDXR, NOP, RET],                             1,  INSIDE,    FREE),
        ("the way out, behind the store",            &[LDXR, OUT, STXR, AGAIN, NOP, RET],           4,  FREE,      FREE),
        ("the way out, with a clrex",                &[LDXR, OUT, NOP, STXR, CLREX, NOP, RET],      5,  FREE,      FREE),
        ("behind a clrex",                           &[LDXR, CLREX, NOP, STXR, RET],                2,  INSIDE,    FREE),
        ("come to by a jump back over the store",    &[NOP, STXR, RET, LDXR, 0x17ff_fffc],          0,  FREE,      INSIDE),
        ("behind a function's end",                  &[LDXR, NOP, RET, NOP, STXR],                  3,  INSIDE,    FREE),
        ("ldar opens nothing",                       &[LDAR, NOP, STXR, RET],                       1,  INSIDE,    FREE),
        ("stlr closes nothing",                      &[LDXR, STLR, NOP, STXR, RET],                 2,  FREE,      INSIDE),
        ("cas closes nothing",                       &[LDXR, CAS, NOP, STXR, RET],                  2,  FREE,      INSIDE),
        ("a call between",                           &[LDXR, 0x9400_0000, NOP, STXR, RET],          2,  INSIDE,    INSIDE),
        ("32 instructions behind the load",          &near,                                         32, INSIDE,    INSIDE),
        ("33 instructions behind it",                &far,                                          33, FREE,      INSIDE),
        ("at the start of a function",               &[NOP, STXR, RET],                             0,  FREE,      FREE),
    ];
    for (what, words, at, linux, best) in cases {
        assert_eq!(refused(words, *at, &[], Policy::LINUX_6_1), *linux, "{what}, Linux 6.1");
        assert_eq!(refused(words, *at, &[], Policy::Best), *best, "{what}, best");
    }
}

/// KP-1, KP-9: a fault in a copy is reported at the original's address, so the exception table finds it. Linux refuses
/// such instructions nevertheless.
#[test]
fn only_linux_refuses_instructions_that_may_fault() {
    let words = [0xf840_0820, 0xf840_0820, RET];
    for (at, linux) in [(0, None), (1, Some("expected-fault")), (2, None)] {
        assert_eq!(refused(&words, at, &[1], Policy::LINUX_6_1), linux, "+{at}");
        assert_eq!(refused(&words, at, &[1], Policy::Best), None, "+{at}");
    }
}
