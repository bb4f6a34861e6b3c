//! At least one case for each row of the table, for both policies.

use super::super::decode::decode;
use super::*;
use crate::region::PlainText;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

const HERE: u64 = 0x10_0ff0;

/// The plan for an instruction, or the name of the rule that refuses it.
fn answer(bytes: &[u8], policy: Policy) -> &'static str {
    let insn = decode(HERE, bytes).expect("an instruction");
    match plan(&insn, policy) {
        Ok(Plan::Emulate(_)) => "compute",
        Ok(Plan::Boost) => "boost",
        Ok(Plan::Step) => "step",
        Err(refusal) => S390X.rule_of(&refusal).expect("every refusal has a rule").name,
    }
}

/// KP-1, KP-2: each row, under both policies.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_row_of_the_table_gives_its_answer() {
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], &str, &str)] = &[
        // what                     bytes                                  Linux 6.1          best
        ("pr",                      &[0x01, 0x01],                         "program-linkage", "program-linkage"),
        ("sckpf",                   &[0x01, 0x07],                         "step",            "system-state"),
        ("sam24",                   &[0x01, 0x0c],                         "step",            "system-state"),
        ("sam31",                   &[0x01, 0x0d],                         "step",            "system-state"),
        ("sam64",                   &[0x01, 0x0e],                         "step",            "system-state"),
        ("trap2",                   &[0x01, 0xff],                         "step",            "exception"),
        ("no code",                 &[0x01, 0x00],                         "undefined",       "undefined"),
        ("balr %r14,%r1",           &[0x05, 0xe1],                         "compute",         "compute"),
        ("balr %r14,0",             &[0x05, 0xe0],                         "compute",         "compute"),
        ("bctr %r1,0",              &[0x06, 0x10],                         "compute",         "compute"),
        ("br %r14",                 &[0x07, 0xfe],                         "compute",         "compute"),
        ("nopr",                    &[0x07, 0x07],                         "step",            "boost"),
        ("bcr 15,0",                &[0x07, 0xf0],                         "step",            "boost"),
        ("svc 1",                   &[0x0a, 0x01],                         "step",            "exception"),
        ("bsm %r1,0",               &[0x0b, 0x10],                         "program-linkage", "program-linkage"),
        ("bassm %r14,%r1",          &[0x0c, 0xe1],                         "program-linkage", "program-linkage"),
        ("basr %r14,%r1",           &[0x0d, 0xe1],                         "compute",         "compute"),
        ("mvcl %r2,%r4",            &[0x0e, 0x24],                         "step",            "boost"),
        ("lr %r1,%r2",              &[0x18, 0x12],                         "step",            "boost"),
        ("ex %r1,0(%r2)",           &[0x44, 0x10, 0x20, 0x00],             "execute",         "execute"),
        ("bal %r1,0(%r2)",          &[0x45, 0x10, 0x20, 0x00],             "compute",         "compute"),
        ("bct %r1,0(%r2)",          &[0x46, 0x10, 0x20, 0x00],             "compute",         "compute"),
        ("bne 0(%r2)",              &[0x47, 0x70, 0x20, 0x00],             "compute",         "compute"),
        ("nop",                     &[0x47, 0x00, 0x00, 0x00],             "step",            "boost"),
        ("bas %r1,0(%r2)",          &[0x4d, 0x10, 0x20, 0x00],             "compute",         "compute"),
        ("ssm 0(%r1)",              &[0x80, 0x00, 0x10, 0x00],             "step",            "system-state"),
        ("no code",                 &[0x81, 0x00, 0x10, 0x00],             "undefined",       "undefined"),
        ("lpsw 0(%r1)",             &[0x82, 0x00, 0x10, 0x00],             "step",            "psw-load"),
        ("diag 0,0,0x44",           &[0x83, 0x00, 0x00, 0x44],             "hypervisor",      "hypervisor"),
        ("brxh %r1,%r3,.",          &[0x84, 0x13, 0x00, 0x00],             "compute",         "compute"),
        ("brxle %r1,%r3,.",         &[0x85, 0x13, 0x00, 0x00],             "compute",         "compute"),
        ("bxh %r1,%r3,0(%r2)",      &[0x86, 0x13, 0x20, 0x00],             "compute",         "compute"),
        ("bxle %r1,%r3,0(%r2)",     &[0x87, 0x13, 0x20, 0x00],             "compute",         "compute"),
        ("tm 56(%r2),1",            &[0x91, 0x01, 0x20, 0x38],             "step",            "boost"),
        ("je .",                    &[0xa7, 0x84, 0x00, 0x00],             "compute",         "compute"),
        ("brc 0,.",                 &[0xa7, 0x04, 0x00, 0x00],             "step",            "boost"),
        ("bras %r14,.",             &[0xa7, 0xe5, 0x00, 0x00],             "compute",         "compute"),
        ("brct %r1,.",              &[0xa7, 0x16, 0x00, 0x00],             "compute",         "compute"),
        ("brctg %r1,.",             &[0xa7, 0x17, 0x00, 0x00],             "compute",         "compute"),
        ("stnsm 160(%r15),255",     &[0xac, 0xff, 0xf0, 0xa0],             "system-state",    "system-state"),
        ("stosm 160(%r15),3",       &[0xad, 0x03, 0xf0, 0xa0],             "system-state",    "system-state"),
        ("sigp %r1,%r2,0(%r3)",     &[0xae, 0x12, 0x30, 0x00],             "step",            "step"),
        ("mc 0,0",                  &[0xaf, 0x00, 0x00, 0x00],             "step",            "trap"),
        ("lctl %c0,%c0,0(%r1)",     &[0xb7, 0x00, 0x10, 0x00],             "step",            "system-state"),
        ("stidp",                   &[0xb2, 0x02, 0x10, 0x00],             "step",            "step"),
        ("no code",                 &[0xb2, 0x03, 0x10, 0x00],             "undefined",       "undefined"),
        ("sck",                     &[0xb2, 0x04, 0x10, 0x00],             "step",            "step"),
        ("stck",                    &[0xb2, 0x05, 0x10, 0x00],             "step",            "step"),
        ("sckc",                    &[0xb2, 0x06, 0x10, 0x00],             "step",            "step"),
        ("stckc",                   &[0xb2, 0x07, 0x10, 0x00],             "step",            "step"),
        ("spt",                     &[0xb2, 0x08, 0x10, 0x00],             "step",            "step"),
        ("stpt",                    &[0xb2, 0x09, 0x10, 0x00],             "step",            "step"),
        ("ptlb",                    &[0xb2, 0x0d, 0x00, 0x00],             "step",            "step"),
        ("spx",                     &[0xb2, 0x10, 0x10, 0x00],             "step",            "system-state"),
        ("stpx",                    &[0xb2, 0x11, 0x10, 0x00],             "step",            "boost"),
        ("stap",                    &[0xb2, 0x12, 0x10, 0x00],             "step",            "step"),
        ("sie",                     &[0xb2, 0x14, 0x10, 0x00],             "step",            "hypervisor"),
        ("pc",                      &[0xb2, 0x18, 0x10, 0x00],             "program-linkage", "program-linkage"),
        ("sac",                     &[0xb2, 0x19, 0x01, 0x00],             "step",            "system-state"),
        ("servc",                   &[0xb2, 0x20, 0x00, 0x12],             "step",            "step"),
        ("ipte",                    &[0xb2, 0x21, 0x00, 0x12],             "step",            "step"),
        ("pt",                      &[0xb2, 0x28, 0x00, 0x12],             "program-linkage", "program-linkage"),
        ("csch",                    &[0xb2, 0x30, 0x00, 0x00],             "step",            "step"),
        ("hsch",                    &[0xb2, 0x31, 0x00, 0x00],             "step",            "step"),
        ("msch",                    &[0xb2, 0x32, 0x10, 0x00],             "step",            "step"),
        ("ssch",                    &[0xb2, 0x33, 0x10, 0x00],             "step",            "step"),
        ("stsch",                   &[0xb2, 0x34, 0x10, 0x00],             "step",            "step"),
        ("tsch",                    &[0xb2, 0x35, 0x10, 0x00],             "step",            "step"),
        ("tpi",                     &[0xb2, 0x36, 0x10, 0x00],             "step",            "step"),
        ("sal",                     &[0xb2, 0x37, 0x00, 0x00],             "step",            "step"),
        ("rsch",                    &[0xb2, 0x38, 0x00, 0x00],             "step",            "step"),
        ("stcrw",                   &[0xb2, 0x39, 0x10, 0x00],             "step",            "step"),
        ("stcps",                   &[0xb2, 0x3a, 0x10, 0x00],             "step",            "step"),
        ("rchp",                    &[0xb2, 0x3b, 0x00, 0x00],             "step",            "step"),
        ("schm",                    &[0xb2, 0x3c, 0x00, 0x00],             "step",            "step"),
        ("bakr",                    &[0xb2, 0x40, 0x00, 0x12],             "program-linkage", "program-linkage"),
        ("csp",                     &[0xb2, 0x50, 0x00, 0x12],             "step",            "step"),
        ("bsg",                     &[0xb2, 0x58, 0x00, 0x12],             "program-linkage", "program-linkage"),
        ("bsa",                     &[0xb2, 0x5a, 0x00, 0x12],             "program-linkage", "program-linkage"),
        ("chsc",                    &[0xb2, 0x5f, 0x00, 0x10],             "step",            "step"),
        ("xsch",                    &[0xb2, 0x76, 0x00, 0x00],             "step",            "step"),
        ("rp",                      &[0xb2, 0x77, 0x10, 0x00],             "step",            "program-linkage"),
        ("stcke",                   &[0xb2, 0x78, 0x10, 0x00],             "step",            "step"),
        ("sacf",                    &[0xb2, 0x79, 0x01, 0x00],             "step",            "system-state"),
        ("stckf",                   &[0xb2, 0x7c, 0x10, 0x00],             "step",            "step"),
        ("stsi",                    &[0xb2, 0x7d, 0x10, 0x00],             "step",            "step"),
        ("stfle",                   &[0xb2, 0xb0, 0x10, 0x00],             "step",            "step"),
        ("stfl",                    &[0xb2, 0xb1, 0x10, 0x00],             "step",            "step"),
        ("lpswe",                   &[0xb2, 0xb2, 0x10, 0x00],             "step",            "psw-load"),
        ("tend",                    &[0xb2, 0xf8, 0x00, 0x00],             "transaction",     "transaction"),
        ("tabort",                  &[0xb2, 0xfc, 0x00, 0x00],             "step",            "transaction"),
        ("trap4",                   &[0xb2, 0xff, 0x10, 0x00],             "step",            "exception"),
        ("lgr %r2,%r3",             &[0xb9, 0x04, 0x00, 0x23],             "step",            "boost"),
        ("bctgr %r1,%r2",           &[0xb9, 0x46, 0x00, 0x12],             "compute",         "compute"),
        ("cspg",                    &[0xb9, 0x8a, 0x00, 0x12],             "step",            "step"),
        ("epsw %r1",                &[0xb9, 0x8d, 0x00, 0x10],             "reads-mask",      "boost"),
        ("idte",                    &[0xb9, 0x8e, 0x00, 0x12],             "step",            "step"),
        ("crdte",                   &[0xb9, 0x8f, 0x00, 0x12],             "step",            "step"),
        ("pti",                     &[0xb9, 0x9e, 0x00, 0x12],             "step",            "program-linkage"),
        ("cs %r1,%r2,0(%r3)",       &[0xba, 0x12, 0x30, 0x00],             "step",            "boost"),
        ("larl %r1,.",              &[0xc0, 0x10, 0, 0, 0, 0],             "compute",         "compute"),
        ("jgnop .",                 &[0xc0, 0x04, 0, 0, 0, 0],             "step",            "boost"),
        ("jg .",                    &[0xc0, 0xf4, 0, 0, 0, 0],             "compute",         "compute"),
        ("brasl %r14,.",            &[0xc0, 0xe5, 0, 0, 0, 0],             "compute",         "compute"),
        ("lgrl %r1,.",              &[0xc4, 0x18, 0, 0, 0, 0],             "step",            "boost"),
        ("exrl %r1,.",              &[0xc6, 0x10, 0, 0, 0, 0],             "execute",         "execute"),
        ("ectg",                    &[0xc8, 0x01, 0x10, 0, 0x20, 0],       "step",            "step"),
        ("brcth %r1,.",             &[0xcc, 0x16, 0, 0, 0, 0],             "compute",         "compute"),
        ("mvc",                     &[0xd2, 0x03, 0x10, 0, 0x20, 0],       "step",            "boost"),
        ("lg %r1,8(%r2)",           &[0xe3, 0x10, 0x20, 0x08, 0, 0x04],    "step",            "boost"),
        ("bctg %r1,0(%r2)",         &[0xe3, 0x10, 0x20, 0x00, 0, 0x46],    "compute",         "compute"),
        ("bi 0(%r2)",               &[0xe3, 0xf0, 0x20, 0x00, 0, 0x47],    "step",            "through-memory"),
        ("lasp",                    &[0xe5, 0x00, 0x10, 0, 0x20, 0],       "step",            "system-state"),
        ("tbegin",                  &[0xe5, 0x60, 0x00, 0, 0xff, 0],       "transaction",     "transaction"),
        ("tbeginc",                 &[0xe5, 0x61, 0x00, 0, 0xff, 0],       "transaction",     "transaction"),
        ("lctlg",                   &[0xeb, 0x00, 0x10, 0, 0, 0x2f],       "step",            "system-state"),
        ("bxhg",                    &[0xeb, 0x13, 0x20, 0, 0, 0x44],       "compute",         "compute"),
        ("bxleg",                   &[0xeb, 0x13, 0x20, 0, 0, 0x45],       "compute",         "compute"),
        ("lpswey",                  &[0xeb, 0x00, 0x20, 0, 0, 0x71],       "step",            "psw-load"),
        ("brxhg",                   &[0xec, 0x13, 0, 4, 0, 0x44],          "compute",         "compute"),
        ("brxlg",                   &[0xec, 0x13, 0, 4, 0, 0x45],          "compute",         "compute"),
        ("cgrje",                   &[0xec, 0x12, 0, 4, 0x80, 0x64],       "compute",         "compute"),
        ("clgrje",                  &[0xec, 0x12, 0, 4, 0x80, 0x65],       "compute",         "compute"),
        ("crje",                    &[0xec, 0x12, 0, 4, 0x80, 0x76],       "compute",         "compute"),
        ("clrje",                   &[0xec, 0x12, 0, 4, 0x80, 0x77],       "compute",         "compute"),
        ("cgije",                   &[0xec, 0x18, 0, 4, 0x05, 0x7c],       "compute",         "compute"),
        ("clgije",                  &[0xec, 0x18, 0, 4, 0x05, 0x7d],       "compute",         "compute"),
        ("cije",                    &[0xec, 0x18, 0, 4, 0x05, 0x7e],       "compute",         "compute"),
        ("clije",                   &[0xec, 0x18, 0, 4, 0x05, 0x7f],       "compute",         "compute"),
        ("cgrbe",                   &[0xec, 0x12, 0x30, 0, 0x80, 0xe4],    "compute",         "compute"),
        ("clgrbe",                  &[0xec, 0x12, 0x30, 0, 0x80, 0xe5],    "compute",         "compute"),
        ("crbe",                    &[0xec, 0x12, 0x30, 0, 0x80, 0xf6],    "compute",         "compute"),
        ("clrbe",                   &[0xec, 0x12, 0x30, 0, 0x80, 0xf7],    "compute",         "compute"),
        ("cgibe",                   &[0xec, 0x18, 0x30, 0, 0x05, 0xfc],    "compute",         "compute"),
        ("clgibe",                  &[0xec, 0x18, 0x30, 0, 0x05, 0xfd],    "compute",         "compute"),
        ("cibe",                    &[0xec, 0x18, 0x30, 0, 0x05, 0xfe],    "compute",         "compute"),
        ("clibe",                   &[0xec, 0x18, 0x30, 0, 0x05, 0xff],    "compute",         "compute"),
        ("aghik",                   &[0xec, 0x12, 0, 4, 0x00, 0xd9],       "step",            "boost"),
    ];
    for (what, bytes, linux, best) in cases {
        assert_eq!(answer(bytes, Policy::LINUX_6_1), *linux, "{what}");
        assert_eq!(answer(bytes, Policy::Best), *best, "{what}");
    }
    let rows: BTreeSet<u16> = TABLE.iter().map(|row| row.code).collect();
    let tried = cases.iter().map(|(_, bytes, ..)| code(bytes)).collect();
    assert!(rows.is_subset(&tried), "rows without a case: {:04x?}", rows.difference(&tried));
    assert_eq!(rows.len(), TABLE.len(), "a code has two rows");
}

/// KP-1: every instruction with control flow of its own is emulated or refused, never copied.
#[test]
fn branches_are_emulated_or_refused() {
    for first in 1..=255_u8 {
        for rest in 0..=255_u8 {
            let bytes = [first, 0xf3, 0x20, 0x00, 0x80, rest];
            let with_rest = [first, rest, 0x20, 0x00, 0x80, 0x00];
            for bytes in [bytes, with_rest] {
                let insn = decode(HERE, &bytes).expect("an instruction");
                let leaves = insn.flow != Flow::Next;
                let runs = matches!(plan(&insn, Policy::Best), Ok(Plan::Boost | Plan::Step));
                assert!(!leaves || !runs, "{bytes:02x?}");
            }
        }
    }
}

/// A function with `exrl` and `larl` of its own instructions, and the answer for each instruction.
#[rustfmt::skip]
const FUNCTION: &[(&[u8], &str)] = &[
    (&[0xc0, 0x10, 0x00, 0x00, 0x00, 0x00], "ok"),       // +0:  larl %r1,.
    (&[0xc6, 0x20, 0x00, 0x00, 0x00, 0x08], "ok"),       // +6:  exrl %r2,.+16 (refused by its own row)
    (&[0xc0, 0x30, 0x00, 0x00, 0x00, 0x08], "ok"),       // +12: larl %r3,.+16
    (&[0x07, 0xfe],                         "ok"),       // +18: br %r14
    (&[0x18, 0x12],                         "ok"),       // +20: lr
    (&[0xd2, 0x00, 0x10, 0x00, 0x20, 0x00], "executed"), // +22: mvc, executed
    (&[0xd5, 0x00, 0x10, 0x00, 0x20, 0x00], "executed"), // +28: clc, named
    (&[0x07, 0x07],                         "ok"),       // +34: nopr
];

/// KP-1: a breakpoint on an executed instruction would trap at the `exrl`. Linux 6.1 does not check this.
#[test]
fn targets_of_execute_instructions_are_refused() {
    let bytes: Vec<u8> = FUNCTION.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
    let function = HERE..HERE + bytes.len() as u64;
    let mut at = 0;
    for (insn, expected) in FUNCTION {
        let insn = decode(HERE + at as u64, insn).expect("an instruction");
        at += insn.bytes().len();
        let mut text = PlainText { start: HERE, bytes: bytes.clone(), ..PlainText::default() };
        for policy in [Policy::Best, Policy::LINUX_6_1] {
            let found = match check_context(&insn, policy, function.clone(), &mut text) {
                Ok(()) => "ok",
                Err(refusal) => S390X.rule_of(&refusal).expect("every refusal has a rule").name,
            };
            let expected = if !policy.is_linux() { *expected } else { "ok" };
            assert_eq!(found, expected, "{insn:x?}, {policy:?}");
        }
    }
}
