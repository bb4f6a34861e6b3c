//! At least one case for each row of the table, for both policies.

use super::super::decode::decode;
use super::*;
use crate::region::PlainText;
use alloc::vec::Vec;

const HERE: u64 = 0xc000_0000_0101_0ff0;
const SETS: [Set; 3] = [Set::Big32, Set::Big64, Set::Little64];

/// The plan for an instruction, or the name of the rule that refuses it.
fn answer(set: Set, words: &[u32], policy: Policy) -> &'static str {
    let bytes: Vec<u8> = words.iter().flat_map(|word| set.bytes(*word)).collect();
    let insn = decode(set, set.cut(HERE), &bytes).expect("whole words");
    match plan(set, &insn, policy) {
        Ok(Plan::Emulate(_)) => "compute",
        Ok(Plan::Boost) => "boost",
        Ok(Plan::Step) => "step",
        Err(refusal) => set.isa().rule_of(&refusal).expect("every refusal has a rule").name,
    }
}

/// KP-1, KP-2: each row, under both policies, in all three variants.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_row_of_the_table_gives_its_answer() {
    #[rustfmt::skip]
    let cases: &[(&str, u32, &str, &str)] = &[
        // what                        word         Linux 6.1             best
        ("tdnei r3,0",                 0x0b03_0000, "foreign-breakpoint", "foreign-breakpoint"),
        ("twui r3,1",                  0x0fe3_0001, "foreign-breakpoint", "foreign-breakpoint"),
        ("sc",                         0x4400_0002, "exception",          "exception"),
        ("scv 0",                      0x4400_0001, "exception",          "exception"),
        ("rfid",                       0x4c00_0024, "exception-return",   "exception-return"),
        ("rfmci",                      0x4c00_004c, "exception-return",   "exception-return"),
        ("rfdi",                       0x4c00_004e, "exception-return",   "exception-return"),
        ("rfi",                        0x4c00_0064, "exception-return",   "exception-return"),
        ("rfci",                       0x4c00_0066, "exception-return",   "exception-return"),
        ("rfscv",                      0x4c00_00a4, "exception-return",   "exception-return"),
        ("hrfid",                      0x4c00_0224, "exception-return",   "exception-return"),
        ("urfid",                      0x4c00_0264, "exception-return",   "exception-return"),
        ("stop",                       0x4c00_02e4, "wait",               "wait"),
        ("doze",                       0x4c00_0324, "wait",               "wait"),
        ("nap",                        0x4c00_0364, "wait",               "wait"),
        ("sleep",                      0x4c00_03a4, "wait",               "wait"),
        ("rvwinkle",                   0x4c00_03e4, "wait",               "wait"),
        ("trap",                       0x7fe0_0008, "foreign-breakpoint", "foreign-breakpoint"),
        ("tweq r3,r4",                 0x7c83_2008, "foreign-breakpoint", "foreign-breakpoint"),
        ("td 31,r4,r3",                0x7fe4_1888, "foreign-breakpoint", "foreign-breakpoint"),
        ("mtmsr r10",                  0x7d40_0124, "system-state",       "system-state"),
        ("mtmsrd r10,1",               0x7d41_0164, "system-state",       "system-state"),
        ("b .+8",                      0x4800_0008, "compute",            "compute"),
        ("bl .+8",                     0x4800_0009, "compute",            "compute"),
        ("ba 0x100",                   0x4800_0102, "compute",            "compute"),
        ("bne .+8",                    0x4082_0008, "compute",            "compute"),
        ("bcl 20,31,.+4",              0x429f_0005, "compute",            "compute"),
        ("blr",                        0x4e80_0020, "compute",            "compute"),
        ("bnelrl",                     0x4c82_0021, "compute",            "compute"),
        ("bctr",                       0x4e80_0420, "compute",            "compute"),
        ("bctrl",                      0x4e80_0421, "compute",            "compute"),
        ("bdnzctr: invalid form",      0x4e00_0420, "compute",            "invalid-form"),
        ("rfebb 1",                    0x4c00_0924, "step",               "exception-return"),
        ("lwarx",                      0x7c60_2028, "step",               "exclusive"),
        ("lwarx with a hint",          0x7c60_2029, "step",               "exclusive"),
        ("lbarx",                      0x7c60_2068, "step",               "exclusive"),
        ("ldarx",                      0x7c60_20a8, "step",               "exclusive"),
        ("lharx",                      0x7c60_20e8, "step",               "exclusive"),
        ("lqarx",                      0x7c60_2228, "step",               "exclusive"),
        ("stwcx.",                     0x7c60_212d, "step",               "exclusive"),
        ("stqcx.",                     0x7c60_216d, "step",               "exclusive"),
        ("stdcx.",                     0x7c60_21ad, "step",               "exclusive"),
        ("stbcx.",                     0x7c60_256d, "step",               "exclusive"),
        ("sthcx.",                     0x7c60_25ad, "step",               "exclusive"),
        ("wait",                       0x7c00_003c, "step",               "wait"),
        ("wait of ISA 2.07",           0x7c00_007c, "step",               "wait"),
        ("mfxer r3",                   0x7c61_02a6, "boost",              "boost"),
        ("mflr r0",                    0x7c08_02a6, "boost",              "boost"),
        ("mfctr r3",                   0x7c69_02a6, "boost",              "boost"),
        ("mtxer r3",                   0x7c61_03a6, "boost",              "boost"),
        ("mtlr r0",                    0x7c08_03a6, "boost",              "boost"),
        ("mtctr r12",                  0x7d89_03a6, "boost",              "boost"),
        ("mfsrr0 r3",                  0x7c7a_02a6, "step",               "trap-state"),
        ("mfsrr1 r3",                  0x7c7b_02a6, "step",               "trap-state"),
        ("mtsrr0 r3",                  0x7c7a_03a6, "step",               "trap-state"),
        ("mtsrr1 r3",                  0x7c7b_03a6, "step",               "trap-state"),
        ("mfdec r3",                   0x7c76_02a6, "step",               "step"),
        ("mfspr r3,TB",                0x7c6c_42a6, "step",               "step"),
        ("mfspr r3,TBU",               0x7c6d_42a6, "step",               "step"),
        ("mfspurr r3",                 0x7c74_4aa6, "step",               "step"),
        ("mfpurr r3",                  0x7c75_4aa6, "step",               "step"),
        ("mfvtb r3",                   0x7c71_d2a6, "step",               "step"),
        ("mfdar r3",                   0x7c73_02a6, "step",               "boost"),
        ("mfhsrr0 r3",                 0x7c7a_4aa6, "step",               "boost"),
        ("mftb r3",                    0x7c6c_42e6, "step",               "step"),
        ("mtsdr1 r3",                  0x7c79_03a6, "step",               "system-state"),
        ("mthrmor r3",                 0x7c79_4ba6, "step",               "system-state"),
        ("mtlpcr r3",                  0x7c7e_4ba6, "step",               "system-state"),
        ("mtlpidr r3",                 0x7c7f_4ba6, "step",               "system-state"),
        ("mtptcr r3",                  0x7c70_73a6, "step",               "system-state"),
        ("mtibatu 0,r3",               0x7c70_83a6, "step",               "system-state"),
        ("mtdbatl 3,r3",               0x7c7f_83a6, "step",               "system-state"),
        ("mtibatu 4,r3",               0x7c70_8ba6, "step",               "system-state"),
        ("mtdbatl 7,r3",               0x7c7f_8ba6, "step",               "system-state"),
        ("mtdec r3",                   0x7c76_03a6, "step",               "step"),
        ("mtspr SPRG3",                0x7c73_43a6, "step",               "step"),
        ("mfmsr r3",                   0x7c60_00a6, "boost",              "boost"),
        ("mtsr 0,r3",                  0x7c60_01a4, "step",               "step"),
        ("mtsrin r3,r4",               0x7c60_21e4, "step",               "step"),
        ("tlbiel r3",                  0x7c00_1a24, "step",               "step"),
        ("tlbie r3",                   0x7c00_1a64, "step",               "step"),
        ("slbmte r3,r4",               0x7c60_2324, "step",               "step"),
        ("slbie r3",                   0x7c00_1b64, "step",               "step"),
        ("slbieg r3,r4",               0x7c60_23a4, "step",               "step"),
        ("slbia",                      0x7c00_03e4, "step",               "step"),
        ("tlbsync",                    0x7c00_046c, "step",               "step"),
        ("tlbld r3",                   0x7c00_1fa4, "step",               "step"),
        ("tlbli r3",                   0x7c00_1fe4, "step",               "step"),
        ("darn r3,1",                  0x7c61_05e6, "step",               "step"),
        ("no instruction",             0x0000_0000, "step",               "undefined"),
        ("attn",                       0x0000_0200, "step",               "undefined"),
        ("nop",                        0x6000_0000, "step",               "boost"),
        ("stdu r1,-48(r1)",            0xf821_ffd1, "step",               "boost"),
        ("isync",                      0x4c00_012c, "step",               "boost"),
        ("lwsync",                     0x7c20_04ac, "step",               "boost"),
        ("dcbz 0,r3",                  0x7c00_1fec, "step",               "boost"),
        ("vaddubm v0,v1,v2",           0x1001_1000, "step",               "boost"),
    ];
    for (what, word, linux, best) in cases {
        for set in SETS {
            assert_eq!(answer(set, &[*word], Policy::LINUX_6_1), *linux, "{what}, {set:?}");
            assert_eq!(answer(set, &[*word], Policy::Best), *best, "{what}, {set:?}");
        }
    }
}

/// KP-2: 64-bit instructions are emulated on 64-bit CPUs. A 32-bit CPU raises its exception wherever they run.
#[test]
fn instructions_of_64_bits_are_emulated_only_there() {
    for (what, word) in [("bctar", 0x4e80_0460), ("bctarl", 0x4e80_0461), ("addpcis r3,1", 0x4c60_0005)] {
        for (policy, narrow) in [(Policy::LINUX_6_1, "step"), (Policy::Best, "boost")] {
            let answers = SETS.map(|set| answer(set, &[word], policy));
            assert_eq!(answers, [narrow, "compute", "compute"], "{what}, {policy:?}");
        }
    }
}

/// KP-1: prefix and suffix run together. On 32-bit CPUs the prefix alone is illegal.
#[test]
fn a_prefixed_instruction_runs_anywhere() {
    for words in [[0x0600_0000, 0x3860_0010], [0x0410_0000, 0xe460_0010], [0x0500_0000, 0x8006_0000]] {
        for set in [Set::Big64, Set::Little64] {
            assert_eq!((answer(set, &words, Policy::LINUX_6_1), answer(set, &words, Policy::Best)), ("step", "boost"));
        }
        assert_eq!(answer(Set::Big32, &words, Policy::Best), "undefined");
    }
}

fn standing(set: Set, words: &[u32], at: usize, start: u64, policy: Policy) -> &'static str {
    let bytes: Vec<u8> = words.iter().flat_map(|word| set.bytes(*word)).collect();
    let function = start..start + bytes.len() as u64;
    let insn = decode(set, start + 4 * at as u64, &bytes[4 * at..]).expect("whole words");
    let mut text = PlainText { start, bytes, ..PlainText::default() };
    match check_context(set, &insn, policy, function, &mut text) {
        Ok(()) => "ok",
        Err(refusal) => set.isa().rule_of(&refusal).expect("every refusal has a rule").name,
    }
}

/// KP-5: the word behind a prefix is not an instruction of its own, except at the start of a page.
#[test]
fn the_second_word_of_a_prefixed_instruction_is_refused() {
    const TEXT: &[u32] = &[0x6000_0000, 0x0600_0000, 0x3860_0010, 0x6000_0000];
    for set in [Set::Big64, Set::Little64] {
        for policy in [Policy::LINUX_6_1, Policy::Best] {
            let answers = [0, 1, 2, 3].map(|at| standing(set, TEXT, at, 0xc000_0000_0001_0000, policy));
            assert_eq!(answers, ["ok", "ok", "second-word", "ok"], "{set:?}, {policy:?}");
        }
        let at_page = standing(set, TEXT, 2, 0xc000_0000_0001_0000 - 8, Policy::LINUX_6_1);
        assert_eq!(at_page, "ok", "nothing is looked at behind the start of a page");
    }
    assert_eq!(standing(Set::Big32, TEXT, 2, 0xc001_0000, Policy::LINUX_6_1), "ok", "no prefixes there");
    assert_eq!(standing(Set::Little64, &TEXT[2..], 0, 0xc000_0000_0001_0008, Policy::Best), "ok", "its function begins here");
}

/// KP-1: a trap between a load-and-reserve and its store-conditional makes the store fail for ever. Linux 6.1 does not
/// check.
#[test]
fn probes_between_load_and_reserve_and_store_are_refused() {
    #[rustfmt::skip]
    const LOOP: &[(u32, &str)] = &[
        (0x7c69_1b78, "ok"),                 // mr r9,r3
        (0x7d40_4828, "ok"),                 // lwarx r10,0,r9 (refused by its own row)
        (0x2c0a_0000, "between-exclusives"), // cmpwi r10,0
        (0x4182_0018, "between-exclusives"), // beq to the end
        (0x4d86_0020, "between-exclusives"), // beqlr cr1: may go on behind
        (0x394a_0001, "between-exclusives"), // addi r10,r10,1
        (0x7d40_492d, "between-exclusives"), // stwcx. r10,0,r9
        (0x40c2_ffe8, "ok"),                 // bne- to the lwarx
        (0x7c00_04ac, "ok"),                 // sync
        (0x4e80_0020, "ok"),                 // blr
    ];
    let words: Vec<u32> = LOOP.iter().map(|(word, _)| *word).collect();
    for set in SETS {
        let start = set.cut(0xc000_0000_0001_0000);
        for (at, (_, expected)) in LOOP.iter().enumerate() {
            assert_eq!(standing(set, &words, at, start, Policy::Best), *expected, "{set:?}, word {at}");
            assert_eq!(standing(set, &words, at, start, Policy::LINUX_6_1), "ok", "{set:?}, word {at}");
        }
    }
}
