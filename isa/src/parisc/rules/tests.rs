//! At least one case for each row of the table, for both policies.

use super::super::PARISC;
use super::super::decode::decode;
use super::*;
use crate::region::PlainText;
use alloc::vec::Vec;

const HERE: u64 = 0x0010_1000;
const SUM: u32 = 0x0a05_0604;

/// The plan for an instruction, or the name of the rule that refuses it.
fn answer(word: u32, policy: Policy) -> &'static str {
    let insn = decode(HERE, &word.to_be_bytes()).expect("a whole word");
    match plan(&insn, policy) {
        Ok(Plan::Emulate(_)) => "compute",
        Ok(Plan::Boost) => "boost",
        Ok(Plan::Step) => "step",
        Err(refusal) => PARISC.rule_of(&refusal).expect("every refusal has a rule").name,
    }
}

/// KP-1, KP-2: each row, under both policies.
#[test]
fn every_row_of_the_table_gives_its_answer() {
    #[rustfmt::skip]
    let cases: &[(&str, u32, &str, &str)] = &[
        // what                word         Linux 6.1  best
        ("a probe",            0x03ff_801f, "step",    "foreign-breakpoint"),
        ("the end of a step",  0x03ff_801e, "step",    "foreign-breakpoint"),
        ("our end of a step",  0x03ff_801d, "step",    "foreign-breakpoint"),
        ("BUG()",              0x03ff_e01f, "step",    "foreign-breakpoint"),
        ("break 4,8",          0x0001_0004, "step",    "foreign-breakpoint"),
        ("break 0,0",          0x0000_0000, "step",    "exception"),
        ("break 5,0x100",      0x0020_0005, "step",    "exception"),
        ("rfi",                0x0000_0c00, "compute", "compute"),
        ("rfi,r",              0x0000_0ca0, "compute", "compute"),
        ("mfia",               0x0000_14a4, "compute", "compute"),
        ("mfctl cr16",         0x0200_08a4, "step",    "step"),
        ("mtctl cr16",         0x0204_1840, "step",    "step"),
        ("mfctl cr19",         0x0260_08a4, "step",    "boost"),
        ("mtctl sar",          0x0164_1840, "step",    "boost"),
        ("ssm",                0x0001_0d60, "step",    "boost"),
        ("mtsp",               0x0004_1820, "step",    "boost"),
        ("sync",               0x0000_0400, "step",    "boost"),
        ("idtlba",             0x0604_1040, "step",    "boost"),
        ("fic",                0x0640_0280, "step",    "boost"),
        ("add",                SUM,         "step",    "boost"),
        ("add,=",              0x0a05_2604, "step",    "boost"),
        ("add,tr",             0x0a05_1604, "step",    "boost"),
        ("cmpclr,<<",          0x0a05_8884, "step",    "boost"),
        ("cmpiclr",            0x9085_0004, "step",    "boost"),
        ("cmpiclr,=",          0x9085_2004, "step",    "boost"),
        ("subi",               0x9485_0004, "step",    "boost"),
        ("subi,<",             0x9485_4004, "step",    "boost"),
        ("addi,tc",            0xb085_0004, "step",    "boost"),
        ("addi,tc,=",          0xb085_2004, "step",    "boost"),
        ("addi",               0xb485_0004, "step",    "boost"),
        ("addi,=",             0xb485_2004, "step",    "boost"),
        ("shrpw",              0xd0a4_0be6, "step",    "boost"),
        ("extrw,u,=",          0xd085_3bf0, "step",    "boost"),
        ("depw",               0xd485_0ff0, "step",    "boost"),
        ("depw,<>",            0xd485_afe0, "step",    "boost"),
        ("extrd",              0xd885_0000, "step",    "step"),
        ("depd",               0xf085_0000, "step",    "step"),
        ("depdi",              0xf485_0000, "step",    "step"),
        ("ftest",              0x3000_2420, "step",    "step"),
        ("spop0",              0x1000_0000, "step",    "step"),
        ("fadd",               0x3885_0604, "step",    "step"),
        ("ldil",               0x2080_1000, "step",    "boost"),
        ("ldw",                0x4885_0000, "step",    "boost"),
        ("stw",                0x6885_0000, "step",    "boost"),
        ("ldcw",               0x0c80_11c5, "step",    "boost"),
        ("b,gate",             0xe800_2000, "step",    "gate"),
        ("cmpb",               0x80a4_2010, "compute", "compute"),
        ("cmpib,n",            0x84a4_2012, "compute", "compute"),
        ("cmpb, negated",      0x88a4_2010, "compute", "compute"),
        ("addb",               0xa085_2010, "compute", "compute"),
        ("addib, negated",     0xac85_2010, "compute", "compute"),
        ("bb of sar",          0xc004_4010, "compute", "compute"),
        ("bb",                 0xc4a4_4010, "compute", "compute"),
        ("movb",               0xc885_2010, "compute", "compute"),
        ("movib",              0xcc85_2010, "compute", "compute"),
        ("be",                 0xe020_2000, "compute", "compute"),
        ("be,l",               0xe420_2000, "compute", "compute"),
        ("b,l",                0xe840_0010, "compute", "compute"),
        ("b,l of 22 bits",     0xe800_a010, "compute", "compute"),
        ("blr",                0xe804_4000, "compute", "compute"),
        ("bv",                 0xe840_c000, "compute", "compute"),
        ("bve",                0xe840_d000, "compute", "compute"),
        ("no branch",          0xe840_6000, "step",    "step"),
        ("no instruction",     0xffff_ffff, "step",    "boost"),
    ];
    for (what, word, linux, best) in cases {
        assert_eq!(answer(*word, Policy::LINUX_6_1), *linux, "{what}");
        assert_eq!(answer(*word, Policy::Best), *best, "{what}");
        assert_eq!(answer(*word, Policy::Outside), *best, "{what}");
    }
}

/// The emulation of the second of two words, or the rule that refuses it.
fn behind(first: u32, second: u32, policy: Policy) -> Result<Option<Emulation>, &'static str> {
    let bytes: Vec<u8> = [first, second].iter().flat_map(|word| word.to_be_bytes()).collect();
    let insn = decode(HERE + 4, &bytes[4..]).expect("a whole word");
    let mut text = PlainText { start: HERE, bytes, ..PlainText::default() };
    let rule = |refusal: Refusal| PARISC.rule_of(&refusal).expect("every refusal has a rule").name;
    check_context(&insn, policy, HERE + 4..HERE + 8, &mut text).map_err(rule)?;
    Ok(in_delay_slot(&insn, &mut text))
}

/// KP-2, KP-5: a copied instruction in a delay slot continues where the branch leads; far branches refuse it.
#[test]
fn a_probed_delay_slot_continues_at_the_branchs_target() {
    let in_slot = Some(Emulation::Parisc(Computation::InDelaySlot));
    #[rustfmt::skip]
    let cases = [
        ("cmpb",             0x80a4_2010, Ok(in_slot)),
        ("cmpb,n forwards",  0x80a4_2012, Ok(None)),
        ("cmpb,n back",      0x80a4_3fd7, Ok(in_slot)),
        ("b",                0xe800_0010, Ok(in_slot)),
        ("b,n",              0xe800_0012, Ok(None)),
        ("bv",               0xe840_c000, Ok(in_slot)),
        ("bv,n",             0xe840_c002, Ok(None)),
        ("be",               0xe020_2000, Err("slot-of-far-branch")),
        ("be,n",             0xe020_2002, Ok(None)),
        ("be,l",             0xe420_2000, Err("slot-of-far-branch")),
        ("bve",              0xe840_d000, Err("slot-of-far-branch")),
        ("b,gate",           0xe800_2000, Err("slot-of-far-branch")),
        ("a sum",            SUM,         Ok(None)),
        ("add,=",            0x0a05_2604, Ok(None)),
        ("rfi",              0x0000_0c00, Ok(None)),
    ];
    for (what, first, expected) in cases {
        assert_eq!(behind(first, SUM, Policy::Best), expected, "{what}");
        let linux = expected.or(Ok(in_slot));
        assert_eq!(behind(first, SUM, Policy::LINUX_6_1), linux, "{what}");
        for computed in [0xe840_c000, 0x0000_14a4] {
            let found = behind(first, computed, Policy::Best).expect("it is no copy");
            assert_eq!(found.is_some(), linux == Ok(in_slot), "{what}");
            assert_ne!(found, in_slot, "{what}");
        }
    }
    let mut text = PlainText { start: HERE, bytes: SUM.to_be_bytes().to_vec(), ..PlainText::default() };
    let insn = decode(HERE, &SUM.to_be_bytes()).expect("a whole word");
    assert_eq!(in_delay_slot(&insn, &mut text), None, "nothing can be read in front of it");
}
