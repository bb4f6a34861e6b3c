//! At least one case for each row of the table, for both policies.

use super::super::decode::decode;
use super::*;
use crate::region::PlainText;
use alloc::vec::Vec;

const HERE: u64 = 0xffff_ffff_8010_0ff0;
const SUM: u32 = 0x2442_0001;

/// The plan for an instruction, or the name of the rule that refuses it.
fn answer(set: Set, words: [u32; 2], policy: Policy) -> &'static str {
    let bytes: Vec<u8> = words.iter().flat_map(|word| set.bytes(*word)).collect();
    let insn = decode(set, set.cut(HERE), &bytes).expect("whole words");
    match plan(set, &insn, policy) {
        Ok(Plan::Emulate(_)) => "compute",
        Ok(Plan::Boost) => "boost",
        Ok(Plan::Step) => "step",
        Err(refusal) => set.isa().rule_of(&refusal).expect("every refusal has a rule").name,
    }
}

/// KP-1, KP-2: each row, under both policies, in all four variants.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_row_of_the_table_gives_its_answer() {
    #[rustfmt::skip]
    let cases: &[(&str, u32, &str, &str)] = &[
        // what                     word         Linux 6.1             best
        ("ll v0,0(a0)",             0xc082_0000, "exclusive",          "exclusive"),
        ("sc v0,0(a0)",             0xe082_0000, "exclusive",          "exclusive"),
        ("lld v0,0(a0)",            0xd082_0000, "exclusive",          "exclusive"),
        ("scd v0,0(a0)",            0xf082_0000, "exclusive",          "exclusive"),
        ("ll of release 6",         0x7c82_0036, "step",               "exclusive"),
        ("sc of release 6",         0x7c82_0026, "step",               "exclusive"),
        ("lld of release 6",        0x7c82_0037, "step",               "exclusive"),
        ("scd of release 6",        0x7c82_0027, "step",               "exclusive"),
        ("lle",                     0x7c82_002e, "step",               "exclusive"),
        ("sce",                     0x7c82_001e, "step",               "exclusive"),
        ("pause",                   0x0000_0140, "step",               "wait"),
        ("jr ra",                   0x03e0_0008, "compute",            "compute"),
        ("jr.hb ra",                0x03e0_0408, "compute",            "compute"),
        ("jr ra, another hint",     0x03e0_0088, "compute",            "jump-hint"),
        ("jalr t9",                 0x0320_f809, "compute",            "compute"),
        ("jalr.hb t9",              0x0320_fc09, "compute",            "compute"),
        ("jalr t9, another hint",   0x0320_fa09, "compute",            "jump-hint"),
        ("jalr t9,t9",              0x0320_c809, "compute",            "invalid-form"),
        ("syscall",                 0x0000_000c, "step",               "exception"),
        ("break 512",               0x0200_000d, "step",               "foreign-breakpoint"),
        ("sdbbp",                   0x7000_003f, "step",               "foreign-breakpoint"),
        ("bltz v0",                 0x0440_0004, "compute",            "compute"),
        ("bgez v0",                 0x0441_0004, "compute",            "compute"),
        ("bltzl v0",                0x0442_0004, "compute",            "compute"),
        ("bgezl v0",                0x0443_0004, "compute",            "compute"),
        ("bltzal v0",               0x0450_0004, "compute",            "compute"),
        ("bgezal v0",               0x0451_0004, "compute",            "compute"),
        ("bal",                     0x0411_0004, "compute",            "compute"),
        ("bgezal ra",               0x07f1_0004, "compute",            "invalid-form"),
        ("bltzall v0",              0x0452_0004, "compute",            "compute"),
        ("bgezall v0",              0x0453_0004, "compute",            "compute"),
        ("bposge32",                0x041c_0004, "coprocessor-branch", "coprocessor-branch"),
        ("j",                       0x0804_0000, "compute",            "compute"),
        ("jal",                     0x0c04_0000, "compute",            "compute"),
        ("jalx",                    0x7404_0000, "step",               "other-mode"),
        ("beq v0,v1",               0x1043_0004, "compute",            "compute"),
        ("bne v0,v1",               0x1443_0004, "compute",            "compute"),
        ("blez v0",                 0x1840_0004, "compute",            "compute"),
        ("bgtz v0",                 0x1c40_0004, "compute",            "compute"),
        ("beql v0,v1",              0x5043_0004, "compute",            "compute"),
        ("bnel v0,v1",              0x5443_0004, "compute",            "compute"),
        ("blezl v0",                0x5840_0004, "compute",            "compute"),
        ("bgtzl v0",                0x5c40_0004, "compute",            "compute"),
        ("bgeuc v0,v1",             0x1843_0004, "step",               "release-6"),
        ("bltuc v0,v1",             0x1c43_0004, "step",               "release-6"),
        ("bgec v0,v1",              0x5843_0004, "step",               "release-6"),
        ("bltc v0,v1",              0x5c43_0004, "step",               "release-6"),
        ("bc",                      0xc800_0004, "step",               "release-6"),
        ("balc",                    0xe800_0004, "step",               "release-6"),
        ("beqzc",                   0xd840_0004, "step",               "release-6"),
        ("bnezc",                   0xf840_0004, "step",               "release-6"),
        ("auipc",                   0xec5e_0004, "step",               "release-6"),
        ("bc1t",                    0x4501_0004, "coprocessor-branch", "coprocessor-branch"),
        ("bc1any2f",                0x4520_0004, "coprocessor-branch", "coprocessor-branch"),
        ("bc1any4f",                0x4540_0004, "coprocessor-branch", "coprocessor-branch"),
        ("bz.v",                    0x4560_0004, "coprocessor-branch", "coprocessor-branch"),
        ("bc1nez",                  0x45a0_0004, "coprocessor-branch", "coprocessor-branch"),
        ("bnz.v",                   0x45e0_0004, "coprocessor-branch", "coprocessor-branch"),
        ("bnz.w",                   0x47c0_0004, "coprocessor-branch", "coprocessor-branch"),
        ("bc2f",                    0x4900_0004, "coprocessor-branch", "coprocessor-branch"),
        ("bc2eqz",                  0x4920_0004, "coprocessor-branch", "coprocessor-branch"),
        ("bc2nez",                  0x49a0_0004, "coprocessor-branch", "coprocessor-branch"),
        ("eret",                    0x4200_0018, "step",               "exception-return"),
        ("deret",                   0x4200_001f, "step",               "exception-return"),
        ("wait",                    0x4200_0020, "step",               "wait"),
        ("mfc0 v0,count",           0x4002_4800, "step",               "step"),
        ("dmfc0 v0,count",          0x4022_4800, "step",               "step"),
        ("mtc0 v0,count",           0x4082_4800, "step",               "step"),
        ("dmtc0 v0,count",          0x40a2_4800, "step",               "step"),
        ("mtc0 v0,compare",         0x4082_5800, "step",               "step"),
        ("dmtc0 v0,compare",        0x40a2_5800, "step",               "step"),
        ("rdhwr v0,cc",             0x7c02_103b, "step",               "step"),
        ("rdhwr v0,ulr",            0x7c02_e83b, "step",               "boost"),
        ("mfc0 v0,status",          0x4002_6000, "step",               "boost"),
        ("mtc0 v0,status",          0x4082_6000, "step",               "boost"),
        ("ei",                      0x4160_6020, "step",               "boost"),
        ("tlbwr",                   0x4200_0006, "step",               "boost"),
        ("cache",                   0xbc80_0000, "step",               "boost"),
        ("teq v0,zero",             0x0040_0034, "step",               "boost"),
        ("sync",                    0x0000_000f, "step",               "boost"),
        ("lw",                      0x8fbf_001c, "step",               "boost"),
        ("swl",                     0xa882_0000, "step",               "boost"),
        ("mult",                    0x0043_0018, "step",               "boost"),
        ("add.d",                   0x4622_0000, "step",               "boost"),
        ("nop",                     0x0000_0000, "step",               "boost"),
    ];
    for (what, word, linux, best) in cases {
        for set in Set::ALL {
            assert_eq!(answer(set, [*word, SUM], Policy::LINUX_6_1), *linux, "{what}, {set:?}");
            assert_eq!(answer(set, [*word, SUM], Policy::Best), *best, "{what}, {set:?}");
        }
    }
}

/// KP-1, KP-2: a branch is refused if its delay slot may not be probed. Linux 6.1 does not check that.
#[test]
fn a_branch_is_refused_if_its_delay_slot_is() {
    #[rustfmt::skip]
    let cases = [
        ("a sum",          SUM,         "compute"),
        ("a nop",          0x0000_0000, "compute"),
        ("a clock",        0x4002_4800, "compute"),
        ("another branch", 0x1000_0004, "unfit-delay-slot"),
        ("a jump",         0x03e0_0008, "unfit-delay-slot"),
        ("jalx",           0x7404_0000, "unfit-delay-slot"),
        ("eret",           0x4200_0018, "exception-return"),
        ("syscall",        0x0000_000c, "exception"),
        ("break",          0x0000_000d, "foreign-breakpoint"),
        ("ll",             0xc082_0000, "exclusive"),
        ("wait",           0x4200_0020, "wait"),
    ];
    for (what, slot, best) in cases {
        for branch in [0x1443_0004, 0x0320_f809, 0x5043_0004] {
            for set in Set::ALL {
                assert_eq!(answer(set, [branch, slot], Policy::Best), best, "{what}, {set:?}");
                assert_eq!(answer(set, [branch, slot], Policy::LINUX_6_1), "compute", "{what}, {set:?}");
            }
        }
    }
}

/// KP-5, BY-4: a delay slot in the next page may miss the TLB. Out of line, nobody would refill it.
#[test]
fn a_branch_with_its_delay_slot_in_another_page_is_refused() {
    let (branch, other) = ([0x1000_0004, 0x2442_0001], [0x2442_0001, 0x2442_0001]);
    #[rustfmt::skip]
    let cases = [
        ("a module's",              0xffff_ffff_c000_1ffc, branch, "slot-apart", "slot-apart"),
        ("no branch",               0xffff_ffff_c000_1ffc, other,  "ok",         "ok"),
        ("within a page",           0xffff_ffff_c000_1ff8, branch, "ok",         "ok"),
        ("the kernel's",            0xffff_ffff_8000_1ffc, branch, "ok",         "ok"),
        ("the same without caches", 0xffff_ffff_a000_1ffc, branch, "ok",         "ok"),
        ("wherever memory is",      0x9800_0001_c000_1ffc, branch, "slot-apart", "ok"),
    ];
    for (what, at, words, narrow, wide) in cases {
        for (set, expected) in [(Set::Little32, narrow), (Set::Big32, narrow), (Set::Little64, wide), (Set::Big64, wide)] {
            let start = set.cut(at) - 4;
            let bytes: Vec<u8> = [0x2442_0001, words[0], words[1]].iter().flat_map(|word| set.bytes(*word)).collect();
            let insn = decode(set, start + 4, &bytes[4..]).expect("whole words");
            for (policy, expected) in [(Policy::Best, expected), (Policy::LINUX_6_1, "ok")] {
                let mut text = PlainText { start, bytes: bytes.clone(), ..PlainText::default() };
                let said = match check_context(set, &insn, policy, start..start + 12, &mut text) {
                    Ok(()) => "ok",
                    Err(refusal) => set.isa().rule_of(&refusal).expect("every refusal has a rule").name,
                };
                assert_eq!(said, expected, "{what}, {set:?}, {policy:?}");
            }
        }
    }
}

fn standing(set: Set, words: &[u32], at: usize, function: Range<usize>, policy: Policy) -> &'static str {
    let start = set.cut(0xffff_ffff_8010_0000);
    let bytes: Vec<u8> = words.iter().flat_map(|word| set.bytes(*word)).collect();
    let insn = decode(set, start + 4 * at as u64, &[&bytes[4 * at..], &[0; 4]].concat()).expect("whole words");
    let mut text = PlainText { start, bytes, ..PlainText::default() };
    let function = start + 4 * function.start as u64..start + 4 * function.end as u64;
    match check_context(set, &insn, policy, function, &mut text) {
        Ok(()) => "ok",
        Err(refusal) => set.isa().rule_of(&refusal).expect("every refusal has a rule").name,
    }
}

/// KP-5: a delay slot belongs to its branch, in whatever function it is. Linux 6.1 takes more instructions for
/// branches.
#[test]
fn a_delay_slot_is_refused() {
    const NO: &str = "delay-slot";
    #[rustfmt::skip]
    let cases = [
        ("behind jr",             0x03e0_0008, NO,   NO),
        ("behind beq",            0x1043_0004, NO,   NO),
        ("behind bgezall",        0x0453_0004, NO,   NO),
        ("behind bc1t",           0x4501_0004, NO,   NO),
        ("behind add.d",          0x4622_0000, NO,   "ok"),
        ("behind jalx",           0x7404_0000, "ok", NO),
        ("behind bc2t",           0x4901_0004, "ok", NO),
        ("behind syscall",        0x0000_000c, "ok", "ok"),
        ("behind eret",           0x4200_0018, "ok", "ok"),
        ("behind a sum",          SUM,         "ok", "ok"),
    ];
    for (what, before, linux, best) in cases {
        for set in Set::ALL {
            for function in [0..3, 1..3] {
                let answer = |policy| standing(set, &[before, SUM, SUM], 1, function.clone(), policy);
                assert_eq!((answer(Policy::LINUX_6_1), answer(Policy::Best)), (linux, best), "{what}, {set:?}");
            }
            assert_eq!(standing(set, &[before, SUM, SUM], 0, 0..3, Policy::Best), "ok", "nothing can be read in front of it");
            assert_eq!(standing(set, &[before, SUM, SUM], 2, 0..3, Policy::Best), "ok", "{what}");
        }
    }
}

/// KP-1: a trap between a load-linked and its store-conditional makes the store fail for ever. Delay slots count too.
/// Linux 6.1 does not check this.
#[test]
fn probes_between_load_linked_and_store_conditional_are_refused() {
    #[rustfmt::skip]
    const LOOP: &[(u32, &str, &str)] = &[
        (SUM,         "ok",                 "ok"),         // in front of the loop
        (0xc082_0000, "ok",                 "ok"),         // ll v0,0(a0): refused by its own row
        (0x2442_0001, "between-exclusives", "ok"),         // addiu v0,v0,1
        (0x1460_0003, "between-exclusives", "ok"),         // bnez v1, out of it
        (0x0000_0000, "delay-slot",         "delay-slot"), // nop
        (0xe082_0000, "between-exclusives", "ok"),         // sc v0,0(a0)
        (0x1040_fffa, "ok",                 "ok"),         // beqz v0, to the ll
        (0x0000_0000, "delay-slot",         "delay-slot"), // nop
        (0x0000_000f, "ok",                 "ok"),         // sync
    ];
    const STORE_IN_SLOT: &[(u32, &str, &str)] = &[
        (0xc082_0000, "ok", "ok"),                 // ll v0,0(a0)
        (0x2442_0001, "between-exclusives", "ok"), // addiu v0,v0,1
        (0x1000_0001, "between-exclusives", "ok"), // b, with the store in its slot
        (0xe082_0000, "delay-slot", "delay-slot"), // sc v0,0(a0)
        (0x0000_000f, "ok", "ok"),                 // sync
    ];
    for text in [LOOP, STORE_IN_SLOT] {
        let words: Vec<u32> = text.iter().map(|(word, ..)| *word).collect();
        for set in Set::ALL {
            for (at, (_, best, linux)) in text.iter().enumerate() {
                assert_eq!(standing(set, &words, at, 0..words.len(), Policy::Best), *best, "{set:?}, word {at}");
                assert_eq!(standing(set, &words, at, 0..words.len(), Policy::LINUX_6_1), *linux, "{set:?}, word {at}");
            }
        }
    }
}
