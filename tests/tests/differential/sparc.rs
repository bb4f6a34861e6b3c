//! SPARC V9: every opcode; every branch with each outcome and every instruction in its delay slot, probed at the branch
//! and in the slot; register windows at each edge; returns from traps; and accesses across a page end.

use super::z::Wrong;
use super::{Labs, spread};
use trapline_harness::{Test, tests};
use trapline_isa::arch::Arch;
use trapline_isa::sparc64::abi::WINDOWS;
use trapline_tests::lab::{Before, DATA, DATA_BYTES, PLACE, bench};

const V9: Arch = Arch::Sparc64;

/// The random bits of a case from which the bench makes a common state: the condition codes, the number of free windows,
/// and the current window.
fn plain(codes: u64, free: u64, window: u64) -> u64 {
    let chosen = if free == WINDOWS - 2 { 0 } else { free + 2 };
    codes | window << 12 | chosen << 16
}

/// The index of a register's value in a case, which has one for each register except %g0.
const fn place_of(number: usize) -> usize {
    number - 1
}

fn seen(at: u64) -> u64 {
    bench(V9).seen_from + at
}

/// A case of these words: some in front of the probed one, and some behind it.
fn case(front: &[u32], word: u32, rest: &[u32], flags: u64, seed: u64) -> Before {
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let registers = (0..32).map(|register| spread(V9, seed, register)).collect();
    Before { bytes: bytes(&[word]), front: bytes(front), rest: bytes(rest), registers, flags, seed, ..Before::default() }
}

const NOP: u32 = 0x0100_0000;
/// add %l0,1,%l0
const ADD: u32 = 0xa004_2001;

/// KP-2, KP-6, KP-9, OP-4: each opcode, with each opcode of its extension field, in random states.
fn every_operation_code_of_v9_does_the_same_out_of_line_as_in_place() {
    let turns =
        std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse::<u64>().ok()).map_or(3, |cases| cases / 500 + 1);
    let (mut labs, mut wrong) = (Labs::new(V9), Wrong::default());
    // For formats with a second opcode: both forms of the second operand; for those with a third, all values of it.
    let short = (0..8).map(|op2| op2 << 22).collect::<Vec<u32>>();
    let long = (2..4).flat_map(|op| (0..64).flat_map(move |op3| [0, 1 << 13].map(|form| op << 30 | op3 << 19 | form)));
    let by_third = [0x34, 0x35, 0x36].into_iter().flat_map(|op3| (0..512).map(move |opf| 2 << 30 | op3 << 19 | opf << 5));
    let mut number = 0;
    for (fixed, varies) in short
        .into_iter()
        .map(|word| (word, 0x3e0f_c0ff))
        .chain(long.map(|word| (word, if word >> 13 & 1 != 0 { 0x3e07_d03f } else { 0x3e07_d01f })))
        .chain(by_third.map(|word| (word, 0x3e07_c01f)))
    {
        for _ in 0..turns {
            number += 1;
            let word = fixed | (spread(V9, number, 97) ^ spread(V9, number, 98) >> 20) as u32 & varies;
            wrong.compare(&mut labs, &format!("{word:08x}"), &case(&[], word, &[], spread(V9, number, 99), number));
        }
    }
    println!("{} compared, {} by a jump, {} left out", labs.compared, labs.jumped, labs.refused);
    assert!(labs.compared > 4 * labs.refused, "{} compared, {} left out", labs.compared, labs.refused);
    wrong.end();
}

/// A branch with the state that it depends on: the word in front of it, its own word, the condition codes, register
/// values, FSR.
struct Branch {
    what: String,
    word: u32,
    codes: u64,
    value: u64,
    /// Floating-point conditions, and whether they matter.
    fsr: Option<u64>,
}

/// Every kind of branch, with each outcome of its condition, annulling or not. All targets are 0x40 bytes ahead.
fn branches() -> Vec<Branch> {
    const ON: u32 = 0x10;
    let mut all = Vec::new();
    let mut put = |what: &str, word: u32, codes: u64, value: u64, fsr: Option<u64>| {
        all.push(Branch { what: format!("{what} {word:08x}, {codes:x}, {value:x}, {fsr:x?}"), word, codes, value, fsr });
    };
    for (condition, annuls) in (0..16).flat_map(|condition| [0, 1].map(|annuls| (condition, annuls))) {
        let bits = condition << 25 | annuls << 29 | ON;
        // Codes that meet it and codes that do not, for both sets.
        for codes in [0x0, 0x4, 0x1, 0x8, 0x2, 0xa, 0x40, 0x10, 0x80, 0x20, 0xa0, 0x5b] {
            put("Bicc", 0x0080_0000 | bits, codes, 0, None);
            put("BPcc", 0x0048_0000 | bits, codes, 0, None);
            put("BPcc %xcc", 0x0060_0000 | bits, codes, 0, None);
        }
        for value in 0..4u64 {
            put("FBfcc", 0x0180_0000 | bits, 0, 0, Some(value << 10));
            put("FBPfcc", 0x0148_0000 | bits, 0, 0, Some(value << 10));
            put("FBPfcc %fcc2", 0x0160_0000 | bits, 0, 0, Some(value << 34));
        }
    }
    for (condition, annuls) in [1, 2, 3, 5, 6, 7].into_iter().flat_map(|condition| [0, 1].map(|annuls| (condition, annuls))) {
        for value in [0, 1, u64::MAX, 1 << 40] {
            put("BPr %g2", 0x00c8_8000 | condition << 25 | annuls << 29 | ON, 0, value, None);
        }
    }
    put("call", 0x4000_0000 | ON, 0, 0, None);
    for to in [seen(PLACE) + 0x40, seen(PLACE) + 0x42, seen(DATA)] {
        put("jmp %g2", 0x81c0_a000, 0, to, None);
        put("jmpl %g2,%o7", 0x9fc0_8000, 0, to, None);
        put("jmpl %g2+4,%g2", 0x85c0_a004, 0, to, None);
        put("return %g2", 0x81c8_a000, 0, to, None);
    }
    all
}

/// The case of a branch. The code in front of it sets its condition.
fn of(branch: &Branch, at_slot: bool, slot: u32, free: u64, seed: u64) -> Before {
    // ldx [%g1],%fsr
    const LOAD_CONDITIONS: u32 = 0xc308_4000;
    let mut front = Vec::from_iter(branch.fsr.map(|_| LOAD_CONDITIONS));
    let flags = plain(branch.codes, free, seed & 7);
    let mut case = if at_slot {
        front.push(branch.word);
        case(&front, slot, &[ADD, ADD], flags, seed)
    } else {
        case(&front, branch.word, &[slot, ADD, ADD], flags, seed)
    };
    case.registers[place_of(1)] = seen(DATA);
    case.registers[place_of(2)] = branch.value;
    case.registers[place_of(8)] = seen(DATA) + 0x100;
    case.registers[place_of(9)] = seen(DATA + DATA_BYTES) + 0x100;
    case.memory = vec![(DATA, branch.fsr.unwrap_or(0).to_be_bytes().to_vec())];
    case
}

/// Instructions for a delay slot: some that run, that fault, that change the window, that read the pc, that return from
/// a trap, and other branches.
#[rustfmt::skip]
const IN_SLOTS: &[(&str, u32)] = &[
    ("a sum",                  ADD),
    ("nop",                    NOP),
    ("a comparison",           0x80a4_2005),
    ("a load",                 0xd05a_2008),
    ("a store",                0xd072_2010),
    ("a load from nowhere",    0xd05a_6000),
    ("a store to nowhere",     0xd072_6000),
    ("a load from an odd place", 0xd05a_2001),
    ("a swap",                 0xd07a_2020),
    ("rd %pc",                 0x9141_4000),
    ("save",                   0x9de3_bf40),
    ("restore",                0x81e8_0000),
    ("restore with a sum",     0x91ee_2009),
    ("flushw",                 0x8158_0000),
    ("a trap that is taken",   0x91d0_2010),
    ("a trap by condition",    0x83d0_2010),
    ("no instruction",         0x0000_0000),
    ("of floating point",      0x81a0_0842),
    ("a load of a float",      0xc51a_2008),
    ("wr %ccr",                0x8580_2005),
    ("wrpr %pstate",           0x8d90_2016),
    ("done",                   0x81f0_0000),
    ("retry",                  0x83f0_0000),
    ("ba",                     0x1080_0008),
    ("be,a",                   0x2280_0008),
    ("call",                   0x4000_0008),
    ("return",                 0x81cf_e008),
];

/// KP-2, KP-9: each branch with each outcome. The instruction in its slot runs once or is annulled, then the branch's
/// target runs.
fn every_branch_of_v9_with_each_outcome_does_the_same_out_of_line_as_in_place() {
    let (mut labs, mut wrong) = (Labs::new(V9), Wrong::default());
    for (number, branch) in (1..).zip(&branches()) {
        labs.may_miss(false);
        wrong.compare(&mut labs, &branch.what, &of(branch, false, ADD, 3, number));
        // The slot may not be reached.
        labs.may_miss(true);
        wrong.compare(&mut labs, &format!("in the slot of {}", branch.what), &of(branch, true, ADD, 3, number));
    }
    println!("{} compared, {} left out", labs.compared, labs.refused);
    assert!(labs.compared > 2000, "{} compared", labs.compared);
    wrong.end();
}

/// KP-2, KP-9: each kind of instruction in the slot of each kind of branch, probed in the slot and at the branch, with
/// and without free windows. Exceptions have the pc of the slot and the branch's target as npc.
fn everything_in_a_delay_slot_does_the_same_out_of_line_as_in_place() {
    let all = branches();
    let (mut labs, mut wrong) = (Labs::new(V9), Wrong::default());
    labs.may_miss(true);
    // One in some of those that only differ in their condition.
    let some = all.iter().enumerate().filter(|(number, branch)| number % 29 == 0 || branch.word >> 30 != 0);
    let mut seed = 0;
    for (_, branch) in some {
        for (what, slot) in IN_SLOTS {
            for (free, at_slot) in [0, 3, WINDOWS - 2].into_iter().flat_map(|free| [false, true].map(|at_slot| (free, at_slot))) {
                seed += 1;
                let case = of(branch, at_slot, *slot, free, seed);
                let probed = if at_slot { "probed" } else { "behind the probe" };
                wrong.compare(&mut labs, &format!("{what} in the slot of {}, {probed}, {free} free", branch.what), &case);
            }
        }
    }
    println!("{} compared, {} left out", labs.compared, labs.refused);
    assert!(labs.compared > 5 * labs.refused && labs.compared > 3000, "{} compared, {} left out", labs.compared, labs.refused);
    wrong.end();
}

/// KP-2, KP-9: instructions that open and close windows, from each window, with each number of free windows, with a
/// window that must be cleaned, and with windows of another address space. If the instruction traps, the trap is
/// delivered unchanged, and the probe is not hit.
fn windows_of_v9_at_their_edges_are_the_same_out_of_line_as_in_place() {
    #[rustfmt::skip]
    const WORDS: &[(&str, u32)] = &[
        ("save", 0x9de3_bf40), ("save to %g1", 0x83e2_2001), ("restore", 0x81e8_0000), ("restore with a sum", 0x91ee_2009),
        ("return", 0x81c8_a000), ("flushw", 0x8158_0000), ("saved", 0x8188_0000), ("restored", 0x8388_0000),
        ("wrpr %cwp", 0x9390_2005), ("rdpr %cwp", 0x9152_4000), ("rdpr %canrestore", 0x9152_c000),
    ];
    /// wrpr %g0,N of %cleanwin, %otherwin, %wstate
    const CLEAN: u32 = 0x9990_2000;
    const OTHERS: u32 = 0x9b90_2000;
    const HANDLERS_OF: u32 = 0x9d90_2000;
    let (mut labs, mut wrong) = (Labs::new(V9), Wrong::default());
    let mut seed = 0;
    for (what, word) in WORDS {
        for (free, window) in (0..WINDOWS - 1).flat_map(|free| (0..WINDOWS).map(move |window| (free, window))) {
            let dirty = CLEAN | (WINDOWS - 2 - free) as u32;
            let fronts: &[&[u32]] = if window == 2 {
                &[&[], &[dirty], &[HANDLERS_OF | 0x2b], &[OTHERS | 1, HANDLERS_OF | 0x2b], &[OTHERS | 1, dirty]]
            } else {
                &[&[]]
            };
            for front in fronts {
                seed += 1;
                let mut case = case(front, *word, &[ADD, ADD], plain(0x5a, free, window), seed);
                case.registers[place_of(2)] = seen(PLACE) + 0x40;
                labs.may_miss(!front.is_empty());
                wrong.compare(&mut labs, &format!("{what}, {free} free, in {window}, {front:x?}"), &case);
            }
        }
    }
    println!("{} compared", labs.compared);
    assert!(labs.compared > 700, "{} compared", labs.compared);
    wrong.end();
}

/// KP-2, KP-9: `done` and `retry` from each trap level, to code of a program and of the kernel, with each set of %g
/// registers, with interrupts on and off, to a delay slot and elsewhere. At trap level 0 they are illegal.
fn ends_of_traps_do_the_same_out_of_line_as_in_place() {
    /// wrpr of %g1 to %tl, of %g2 to %tpc, %g3 to %tnpc, %g4 to %tstate
    const FRONT: [u32; 4] = [0x8f90_4000, 0x8190_8000, 0x8390_c000, 0x8591_0000];
    let (mut labs, mut wrong) = (Labs::new(V9), Wrong::default());
    labs.may_miss(true);
    let here = seen(PLACE);
    let places = [
        (here + 0x40, here + 0x44),
        (here + 0x40, here + 0x80),
        (here + 4, here + 8),
        (here + 0x42, here + 0x46),
        (seen(DATA), here + 0x40),
    ];
    // The kernel's with all sets, without the floating-point unit, with interrupts, with the low byte first; a program's.
    let states = [0x14, 0x15, 0x414, 0x814, 0x04, 0x16, 0x214, 0x1c, 0x10, 0x12];
    let mut seed = 0;
    for (what, word) in [("done", 0x81f0_0000), ("retry", 0x83f0_0000)] {
        for level in 0..=5 {
            for (from, next) in places {
                for (state, window) in states.into_iter().flat_map(|state| [0, 3, 7, 9].map(|window| (state, window))) {
                    seed += 1;
                    let mut case = case(&FRONT, word, &[ADD], plain(0x5a, 3, 3), seed);
                    let saved = 0x69 << 32 | 0x80 << 24 | state << 8 | window;
                    for (number, value) in [(1, level), (2, from), (3, next), (4, saved)] {
                        case.registers[place_of(number)] = value;
                    }
                    let told = format!("{what} at {level}, to {from:x} and {next:x}, with {saved:x}");
                    wrong.compare(&mut labs, &told, &case);
                }
            }
        }
    }
    println!("{} compared", labs.compared);
    assert!(labs.compared > 2000, "{} compared", labs.compared);
    wrong.end();
}

/// KP-9: accesses at each distance from the end of mapped memory. Misaligned addresses come first. Each faults as in
/// place, with the same fault address in the MMU.
fn an_access_of_v9_at_the_end_of_a_page_faults_out_of_line_as_in_place() {
    let (mut labs, mut wrong) = (Labs::new(V9), Wrong::default());
    // Each load and store, plain, by %asi, and by a number of the space: %g1 points there.
    for op3 in 0..64u32 {
        for distance in [1, 2, 4, 8, 16, 24, 0, 64] {
            for form in [1 << 13, if op3 & 0x10 != 0 { 0x80 << 5 } else { 0 }] {
                let word = 3 << 30 | 8 << 25 | op3 << 19 | 1 << 14 | form;
                let mut case = case(&[], word, &[], plain(0, 3, 3), u64::from(op3) * 31 + distance);
                case.registers[place_of(1)] = seen(DATA + DATA_BYTES) - distance;
                wrong.compare(&mut labs, &format!("{word:08x}, {distance} bytes before the end"), &case);
            }
        }
    }
    println!("{} compared, {} left out", labs.compared, labs.refused);
    assert!(labs.compared > 900, "{} compared", labs.compared);
    wrong.end();
}

/// KP-2, BY-4: additions and subtractions with carry after an instruction that clears the carry. The condition codes
/// are the same with and without a probe between the two.
fn sums_with_the_carry_behind_logic_do_the_same_out_of_line_as_in_place() {
    // andcc, orcc, xnorcc, udivcc of %l0 and 3 into %g0; addccc, subccc of %g2 and %g3 into %l1
    let (mut labs, mut wrong) = (Labs::new(V9), Wrong::default());
    for (what, front) in [("andcc", 0x808c_2003), ("orcc", 0x8094_2003), ("xnorcc", 0x80bc_2003), ("udivcc", 0x80f4_2003)] {
        for (number, word) in [0xa2c0_8003, 0xa2e0_8003].into_iter().enumerate() {
            for (one, other) in [(0, 5), (u64::MAX << 32, 5), (1 << 31, 1 << 31), (u64::MAX, 1), (1 << 63, 1)] {
                let mut case = case(&[front], word, &[ADD], plain(0x11, 3, 0), number as u64);
                case.registers[place_of(2)] = one;
                case.registers[place_of(3)] = other;
                wrong.compare(&mut labs, &format!("{word:08x} of {one:x} and {other:x} behind {what}"), &case);
            }
        }
    }
    println!("{} compared", labs.compared);
    wrong.end();
}

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        every_operation_code_of_v9_does_the_same_out_of_line_as_in_place,
        every_branch_of_v9_with_each_outcome_does_the_same_out_of_line_as_in_place,
        everything_in_a_delay_slot_does_the_same_out_of_line_as_in_place,
        windows_of_v9_at_their_edges_are_the_same_out_of_line_as_in_place,
        ends_of_traps_do_the_same_out_of_line_as_in_place,
        an_access_of_v9_at_the_end_of_a_page_faults_out_of_line_as_in_place,
        sums_with_the_carry_behind_logic_do_the_same_out_of_line_as_in_place,
    ]
}
