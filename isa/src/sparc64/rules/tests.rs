//! At least one case for each row of the table, for both policies.

use super::super::SPARC64;
use super::super::decode::decode;
use super::*;
use crate::region::PlainText;
use alloc::vec::Vec;

const HERE: u64 = 0x0040_1000;
const SUM: u32 = 0x9002_2001;

/// The plan for an instruction, or the name of the rule that refuses it.
fn answer(word: u32, policy: Policy) -> &'static str {
    let insn = decode(HERE, &word.to_be_bytes()).expect("a whole word");
    match plan(&insn, policy) {
        Ok(Plan::Emulate(_)) => "compute",
        Ok(Plan::Boost) => "boost",
        Ok(Plan::Step) => "step",
        Err(refusal) => SPARC64.rule_of(&refusal).expect("every refusal has a rule").name,
    }
}

/// KP-1, KP-2: each row, under both policies.
#[test]
fn every_row_of_the_table_gives_its_answer() {
    #[rustfmt::skip]
    let cases: &[(&str, u32, &str, &str)] = &[
        // what              word         Linux 6.1  best
        ("ta 0x70",          0x91d0_2070, "step",    "foreign-breakpoint"),
        ("ta 0x71",          0x91d0_2071, "step",    "foreign-breakpoint"),
        ("ta 0x72",          0x91d0_2072, "step",    "foreign-breakpoint"),
        ("ta 1",             0x91d0_2001, "step",    "foreign-breakpoint"),
        ("ta 5",             0x91d0_2005, "step",    "foreign-breakpoint"),
        ("ta 0x78",          0x91d0_2078, "step",    "foreign-breakpoint"),
        ("ta 0x79",          0x91d0_2079, "step",    "foreign-breakpoint"),
        ("ta 0x7a",          0x91d0_207a, "step",    "foreign-breakpoint"),
        ("ta 0x6d",          0x91d0_206d, "step",    "exception"),
        ("ta of a register", 0x91d0_4000, "step",    "exception"),
        ("ta 0x70 by %xcc",  0x91d0_3070, "step",    "exception"),
        ("te 0x10",          0x83d0_2010, "step",    "step"),
        ("tn 0x10",          0x81d0_2010, "step",    "step"),
        ("call",             0x4000_0010, "compute", "compute"),
        ("bn",               0x0080_0004, "compute", "compute"),
        ("bn,a",             0x2080_0004, "compute", "compute"),
        ("ba",               0x1080_0004, "compute", "compute"),
        ("ba,a",             0x3080_0004, "compute", "compute"),
        ("bne,a",            0x3280_0004, "compute", "compute"),
        ("bn %xcc",          0x0068_0004, "compute", "compute"),
        ("be,pt %xcc",       0x0268_0004, "compute", "compute"),
        ("be of no cc",      0x0250_0004, "step",    "boost"),
        ("brz",              0x02c2_0004, "compute", "compute"),
        ("brlez",            0x04c2_0004, "compute", "compute"),
        ("brlz",             0x06c2_0004, "compute", "compute"),
        ("brnz",             0x0ac2_0004, "compute", "compute"),
        ("brgz",             0x0cc2_0004, "compute", "compute"),
        ("brgez",            0x0ec2_0004, "compute", "compute"),
        ("br, no condition", 0x00c2_0004, "step",    "boost"),
        ("fbe",              0x1380_0004, "compute", "compute"),
        ("fbe %fcc1",        0x1358_0004, "compute", "compute"),
        ("retl",             0x81c3_e008, "compute", "compute"),
        ("call %g1",         0x9fc0_4000, "compute", "compute"),
        ("return",           0x81cf_e008, "compute", "compute"),
        ("done",             0x81f0_0000, "compute", "compute"),
        ("retry",            0x83f0_0000, "compute", "compute"),
        ("rd %pc",           0x9341_4000, "compute", "compute"),
        ("rd %tick",         0x9341_0000, "step",    "step"),
        ("rd %stick",        0x9346_0000, "step",    "step"),
        ("rd %y",            0x9340_0000, "step",    "boost"),
        ("membar",           0x8143_e040, "step",    "boost"),
        ("illtrap",          0x0000_0010, "step",    "illegal"),
        ("sethi",            0x1100_0400, "step",    "boost"),
        ("nop",              0x0100_0000, "step",    "boost"),
        ("save",             0x9de3_bf40, "step",    "boost"),
        ("restore",          0x81e8_0000, "step",    "boost"),
        ("flushw",           0x8158_0000, "step",    "boost"),
        ("saved",            0x8188_0000, "step",    "boost"),
        ("wrpr %pstate",     0x8190_2014, "step",    "boost"),
        ("flush",            0x81d8_0000, "step",    "boost"),
        ("casx",             0xd1f2_1009, "step",    "boost"),
        ("ldstub",           0xd06a_0000, "step",    "boost"),
        ("ldxa",             0xd0da_0b00, "step",    "boost"),
        ("ldd of a float",   0xc11a_0000, "step",    "boost"),
        ("faddd",            0x81a0_0842, "step",    "boost"),
        ("a sum",            SUM,         "step",    "boost"),
    ];
    for (what, word, linux, best) in cases {
        assert_eq!(answer(*word, Policy::LINUX_6_1), *linux, "{what}");
        assert_eq!(answer(*word, Policy::Best), *best, "{what}");
    }
}

/// The emulation of the second of two words, or the rule that refuses it.
fn behind(first: u32, second: u32, policy: Policy) -> Result<Option<Emulation>, &'static str> {
    let bytes: Vec<u8> = [first, second].iter().flat_map(|word| word.to_be_bytes()).collect();
    let insn = decode(HERE + 4, &bytes[4..]).expect("a whole word");
    let mut text = PlainText { start: HERE, bytes, ..PlainText::default() };
    // A function may start in a delay slot.
    let rule = |refusal: Refusal| SPARC64.rule_of(&refusal).expect("every refusal has a rule").name;
    check_context(&insn, policy, HERE + 4..HERE + 8, &mut text).map_err(rule)?;
    Ok(in_delay_slot(&insn, &mut text))
}

/// KP-2, KP-5: an instruction in a delay slot can be probed and continues where the branch leads. A branch there
/// cannot.
#[test]
fn a_probed_delay_slot_continues_at_the_branchs_target() {
    let in_slot = Ok(Some(Emulation::Sparc64(Computation::InDelaySlot)));
    #[rustfmt::skip]
    let cases = [
        ("behind be",             0x0280_0004, true),
        ("behind bne,a",          0x3280_0004, true),
        ("behind ba",             0x1080_0004, true),
        ("behind brz",            0x02c2_0004, true),
        ("behind brgez,a",        0x2ec2_0004, true),
        ("behind fbe %fcc1",      0x1358_0004, true),
        ("behind call",           0x4000_0010, true),
        ("behind retl",           0x81c3_e008, true),
        ("behind return",         0x81cf_e008, true),
        ("behind ba,a",           0x3080_0004, false),
        ("behind bn,a",           0x2080_0004, false),
        ("behind bn",             0x0080_0004, false),
        ("behind ta",             0x91d0_206d, false),
        ("behind retry",          0x83f0_0000, false),
        ("behind a sum",          SUM,         false),
    ];
    for (what, first, is_slot) in cases {
        for policy in [Policy::Best, Policy::LINUX_6_1] {
            assert_eq!(behind(first, SUM, policy), if is_slot { in_slot } else { Ok(None) }, "{what}");
            assert_eq!(behind(first, 0x81e8_0000, policy).is_ok_and(|found| found.is_some()), is_slot, "{what}: restore");
        }
        let reads = behind(first, 0x9341_4000, Policy::Best);
        let expected = is_slot.then_some(Emulation::Sparc64(Computation::ReadPcInDelaySlot(o(1))));
        assert_eq!(reads, Ok(expected), "{what}: rd %pc");
        for branch in [0x1280_0004, 0x81c3_e008, 0x4000_0010, 0x3080_0004] {
            let expected = if is_slot { Err("branch-in-delay-slot") } else { Ok(None) };
            assert_eq!(behind(first, branch, Policy::Best), expected, "{what}: a branch");
            assert_eq!(behind(first, branch, Policy::LINUX_6_1), Ok(None), "{what}: a branch");
        }
    }
    let mut text = PlainText { start: HERE, bytes: SUM.to_be_bytes().to_vec(), ..PlainText::default() };
    let insn = decode(HERE, &SUM.to_be_bytes()).expect("a whole word");
    assert_eq!(in_delay_slot(&insn, &mut text), None, "nothing can be read in front of it");
}
