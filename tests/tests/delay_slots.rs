//! MIPS: every kind of branch with every kind of instruction in its delay slot, taken and not taken, in all four
//! instruction sets. The probed run must equal the unprobed one. Some slot instructions fault; the handler repairs the
//! cause and restarts the branch, or skips both.

use trapline::machine::{Stop, What};
use trapline::probed::Session;
use trapline_isa::mips::Set;
use trapline_probes::probe::{Flow, Kprobe};
use trapline_tests::mips::*;
use trapline_tests::{Run, assert_same, run};

const T3: u32 = 11;
/// The checksum of the run so far.
const SUM: u32 = 16;
/// The address of a page that is not in the TLB, a different one for each case.
const UNKNOWN: u32 = 17;
/// The address of existing memory.
const MEMORY: u32 = 18;
/// The sum of the values that handlers have seen.
const SEEN_BY_HANDLERS: u32 = 19;
const T9: u32 = 25;

/// An add-immediate of the set's word size, for addresses.
fn add_to(set: Set, register: u32, value: i32) -> u32 {
    immediate(if set.isa().word == 8 { 0x19 } else { 0x09 }, register, register, value)
}

/// Builds a branch: relative by `over` words, or absolute to word `to` of the text.
type Branch = fn(over: i32, to: u32) -> u32;

/// A kind of branch, and the values of t0 and t1 with which it is not taken, then taken. An unconditional branch has
/// one pair.
type Kind = (&'static str, Branch, &'static [(i32, i32)]);

#[rustfmt::skip]
const BRANCHES: &[Kind] = &[
    ("beq",     |over, _| immediate(0x04, T0, T1, over),    &[(1, 2), (5, 5)]),
    ("bne",     |over, _| immediate(0x05, T0, T1, over),    &[(5, 5), (1, 2)]),
    ("blez",    |over, _| immediate(0x06, T0, 0, over),     &[(1, 0), (0, 0)]),
    ("bgtz",    |over, _| immediate(0x07, T0, 0, over),     &[(0, 0), (1, 0)]),
    ("bltz",    |over, _| immediate(0x01, T0, 0x00, over),  &[(0, 0), (-1, 0)]),
    ("bgez",    |over, _| immediate(0x01, T0, 0x01, over),  &[(-1, 0), (0, 0)]),
    ("bltzal",  |over, _| immediate(0x01, T0, 0x10, over),  &[(0, 0), (-1, 0)]),
    ("bgezal",  |over, _| immediate(0x01, T0, 0x11, over),  &[(-1, 0), (0, 0)]),
    ("beql",    |over, _| immediate(0x14, T0, T1, over),    &[(1, 2), (5, 5)]),
    ("bnel",    |over, _| immediate(0x15, T0, T1, over),    &[(5, 5), (1, 2)]),
    ("blezl",   |over, _| immediate(0x16, T0, 0, over),     &[(1, 0), (0, 0)]),
    ("bgtzl",   |over, _| immediate(0x17, T0, 0, over),     &[(0, 0), (1, 0)]),
    ("bltzl",   |over, _| immediate(0x01, T0, 0x02, over),  &[(0, 0), (-1, 0)]),
    ("bgezl",   |over, _| immediate(0x01, T0, 0x03, over),  &[(-1, 0), (0, 0)]),
    ("bltzall", |over, _| immediate(0x01, T0, 0x12, over),  &[(0, 0), (-1, 0)]),
    ("bgezall", |over, _| immediate(0x01, T0, 0x13, over),  &[(-1, 0), (0, 0)]),
    ("b",       |over, _| immediate(0x04, 0, 0, over),      &[(0, 0)]),
    ("bal",     |over, _| immediate(0x01, 0, 0x11, over),   &[(0, 0)]),
    ("j",       |_, to| 0x0800_0000 | to,                   &[(0, 0)]),
    ("jal",     |_, to| 0x0c00_0000 | to,                   &[(0, 0)]),
    ("jr",      |_, _| three(0x08, T9, 0, 0),               &[(0, 0)]),
    ("jalr",    |_, _| three(0x09, T9, 0, RA),              &[(0, 0)]),
    ("jalr v0", |_, _| three(0x09, T9, 0, V0),              &[(0, 0)]),
];

/// The instructions in the delay slot.
#[rustfmt::skip]
const SLOTS: &[(&str, u32)] = &[
    ("nothing",                             NOP),
    ("what the branch has looked at",       9 << 26 | T0 << 21 | T0 << 16 | 3),
    ("where it leads",                      9 << 26 | T9 << 21 | T9 << 16 | 64),
    ("the return address is read",          RA << 21 | T2 << 11 | 0x21),
    ("the return address is written",       9 << 26 | RA << 21 | RA << 16 | 8),
    ("a load",                              0x23 << 26 | MEMORY << 21 | T2 << 16 | 8),
    ("a store",                             0x2b << 26 | MEMORY << 21 | T0 << 16 | 8),
    ("a product",                           T0 << 21 | T1 << 16 | 0x18),
    ("the clock",                           0x4000_0000 | T2 << 16 | 9 << 11),
    ("a device is written",                 0x28 << 26 | PORTS << 21 | T0 << 16 | 0x300),
    ("a load that the TLB misses",          0x23 << 26 | UNKNOWN << 21 | T2 << 16),
    ("a store that the TLB misses",         0x2b << 26 | UNKNOWN << 21 | T0 << 16 | 4),
    ("a load that is not aligned",          0x23 << 26 | MEMORY << 21 | T2 << 16 | 2),
    ("a store that is not aligned",         0x2b << 26 | MEMORY << 21 | T2 << 16 | 1),
    ("a sum that overflows",                T3 << 21 | T3 << 16 | T2 << 11 | 0x20),
    ("a trap that is sprung",               0x34),
    ("no instruction of any CPU",           0x7000_003e),
];

/// The exception handlers. A TLB miss maps the page to memory. Any other exception adds the visible registers to the
/// checksum and skips the instruction with its branch.
fn vectors() -> Vec<u32> {
    let mut words = vec![
        0x401a_2000,         // mfc0 k0,context: some work
        0x341a_8000,         // ori k0,zero: the page frame
        addiu(K1, K0, 0x1e), // cached, writable, valid
        0x409b_1000,         // mtc0 k1,entrylo0
        0x409b_1800,         // mtc0 k1,entrylo1
        0x0000_00c0,         // ehb
        0x4200_0006,         // tlbwr
        ERET,
    ];
    let refill = words.clone();
    words.resize(0x80 / 4, NOP);
    words.extend(refill);
    words.resize(0x180 / 4, NOP);
    words.extend([
        0x401a_6800, // mfc0 k0,cause
        addu(SEEN_BY_HANDLERS, SEEN_BY_HANDLERS, K0),
        0x401b_4000, // mfc0 k1,badvaddr
        addu(SEEN_BY_HANDLERS, SEEN_BY_HANDLERS, K1),
        0x401b_7000, // mfc0 k1,epc
        addu(SEEN_BY_HANDLERS, SEEN_BY_HANDLERS, K1),
        addu(SEEN_BY_HANDLERS, SEEN_BY_HANDLERS, RA),
        immediate(0x01, K0, 1, 2), // bgez k0, +2: not in a delay slot
        addiu(K1, K1, 4),
        addiu(K1, K1, 4),
        0x409b_7000, // mtc0 k1,epc
        ERET,
    ]);
    words
}

/// Indexes of the slots that are also tested across a page boundary: a load that misses, an unaligned load, an add, a
/// clock read.
const SPLIT: &[usize] = &[10, 12, 14, 8];
const PAGE_WORDS: usize = 1024;
/// Number of words in front of a branch that set its operands.
const OPERANDS: usize = 6;

fn case(set: Set, text: &mut Vec<u32>, branch: Branch, slot: u32, (t0, t1): (i32, i32)) {
    // The branch skips three words after its delay slot.
    let target = TEXT as u32 / 4 + (text.len() + OPERANDS) as u32 + 5;
    text.extend([
        addiu(T0, ZERO, t0),
        addiu(T1, ZERO, t1),
        addu(T2, ZERO, ZERO),
        addiu(RA, ZERO, 0x123),
        immediate(0x0f, 0, T9, 0x8010),
        immediate(0x0d, T9, T9, (target << 2) as u16 as i32), // ori
        branch(4, target),
        slot,
        addiu(SUM, SUM, 1),
        addu(SUM, SUM, SUM),
        addiu(SUM, SUM, 3),
    ]);
    text.extend([T0, T2, RA, V0, T9].map(|register| addu(SUM, SUM, register)));
    text.push(add_to(set, UNKNOWN, 0x2000));
}

fn program(set: Set) -> Vec<u32> {
    let mut text = vec![
        FIND_PORTS,
        immediate(0x0f, 0, MEMORY, 0x8020), // lui memory
        immediate(0x0f, 0, UNKNOWN, 0x10),  // lui unknown
        immediate(0x0f, 0, T3, 0x7000),     // lui t3: twice this value overflows
        addu(SUM, ZERO, ZERO),
        addu(SEEN_BY_HANDLERS, ZERO, ZERO),
    ];
    for (_, branch, values) in BRANCHES {
        for (_, slot) in SLOTS {
            for values in *values {
                case(set, &mut text, *branch, *slot, *values);
            }
        }
    }
    // Place the branch at the end of a page and its slot in the next one.
    for (slot, (_, branch, values)) in SPLIT.iter().zip(BRANCHES) {
        while text.len() % PAGE_WORDS != PAGE_WORDS - 1 - OPERANDS {
            text.push(NOP);
        }
        let (_, slot) = SLOTS[*slot];
        case(set, &mut text, *branch, slot, values[1]);
    }
    text.push(addu(SUM, SUM, SEEN_BY_HANDLERS));
    text.extend(print(SUM));
    text.extend(power_off());
    text
}

fn session(set: Set) -> Session {
    let text = program(set);
    assert!(4 * text.len() < 0x1_0000, "an address in it has its lower half alone to differ: {}", text.len());
    trapline_tests::mips::session(set, &vectors(), &text, &[(0, "vectors"), (TEXT, "main")])
}

fn count(run: &Run, wanted: fn(&What) -> bool) -> usize {
    run.happenings.iter().filter(|happening| wanted(&happening.what)).count()
}

/// KP-1, KP-2, KP-9, BY-4: branches are computed and their slots run out of line exactly once. A fault in a slot is
/// raised at the branch, with the return address unchanged.
#[test]
fn every_branch_with_every_slot_runs_as_unprobed() {
    let mut ends = Vec::new();
    for set in Set::ALL {
        let plain = run(&mut session(set));
        assert_eq!(plain.stop, Stop::PowerOff(0), "{set:?}: {:x?}", plain.happenings.last());
        let cases: usize = BRANCHES.iter().map(|(_, _, values)| values.len()).sum();
        // A likely branch that is not taken skips its slot.
        let executed = cases - 8;
        let misses = count(&plain, |what| matches!(what, What::Exception(26 | 27, _)));
        let faults = count(&plain, |what| matches!(what, What::Exception(..))) - misses;
        assert_eq!((misses, faults), (2 * executed + 1, 5 * executed + 2), "{set:?}");
        assert_eq!(count(&plain, |what| matches!(what, What::ClockRead)), executed + 1, "{set:?}");
        ends.push(plain.time);
        for post in [false, true] {
            let mut probed = session(set);
            let mut probes = Vec::new();
            for number in 0..program(set).len() as u64 {
                let probe = Kprobe::at_address(set.cut(SEEN + TEXT + 4 * number)).pre(|_| Flow::Continue);
                let probe = if post { probe.post(|_| {}) } else { probe };
                match probed.register_kprobe(&probe) {
                    Ok(()) => probes.push(probe),
                    Err(refusal) => assert!(refusal.why.contains("delay slot"), "{refusal}"),
                }
            }
            assert_eq!(
                probes.len(),
                program(set).len() - cases * SLOTS.len() - SPLIT.len() - 2,
                "{set:?}: all but what is in slots"
            );
            assert_same(&format!("{set:?}, post-handlers: {post}"), &plain, &run(&mut probed));
        }
    }
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
}

const T4: u32 = 12;
const T8: u32 = 24;
/// The values added to the sum: in a slot, if the branch is not taken, and at the branch target.
const ADDED: [i32; 3] = [1, 3, 16];

/// A program whose branches are the last word of a page in the TLB, each with its slot in another page.
fn split_program() -> Vec<u32> {
    let mut text = vec![
        FIND_PORTS,
        immediate(0x0f, 0, MEMORY, 0x8020), // lui memory: all pages of the TLB map to it
        immediate(0x0f, 0, UNKNOWN, 0x10),  // lui unknown
        addu(SUM, ZERO, ZERO),
        addu(SEEN_BY_HANDLERS, ZERO, ZERO),
    ];
    let put = |text: &mut Vec<u32>, at: i32, word: u32| {
        text.extend([immediate(0x0f, 0, T0, (word >> 16) as i32), immediate(0x0d, T0, T0, word as u16 as i32)]);
        text.push(immediate(0x2b, MEMORY, T0, at)); // sw
    };
    let add = |value: i32| addiu(SUM, SUM, value);
    let back = three(0x08, T8, 0, 0); // jr t8
    let page = [add(ADDED[0]), add(ADDED[1]), back, NOP, add(ADDED[2]), back, NOP];
    for (at, word) in (0..).step_by(4).zip(page) {
        put(&mut text, at, word);
    }
    let mut entered = 0x10_1ffc;
    for (_, branch, values) in BRANCHES {
        for (t0, t1) in *values {
            let target = entered + 0x14;
            put(&mut text, 0xffc, branch(4, target >> 2));
            text.extend([addiu(T0, ZERO, *t0), addiu(T1, ZERO, *t1)]);
            for (register, value) in [(T9, target), (T4, entered), (T8, 0x8000_0000 + TEXT as u32 + 4 * text.len() as u32 + 32)] {
                text.extend([
                    immediate(0x0f, 0, register, (value >> 16) as i32),
                    immediate(0x0d, register, register, value as u16 as i32),
                ]);
            }
            text.extend([three(0x08, T4, 0, 0), NOP]); // jr t4
            entered += 0x4000;
        }
    }
    text.push(addu(SUM, SUM, SEEN_BY_HANDLERS));
    text.extend(print(SUM));
    text.extend(power_off());
    text
}

/// KP-2, KP-9, BY-4: if the slot's page misses the TLB, the miss is raised at the branch. The branch then runs again
/// and its slot once, or not at all after a likely branch that is not taken.
#[test]
fn a_slot_on_a_page_that_misses_the_tlb_runs_once() {
    for set in Set::ALL {
        let text = split_program();
        let names = [(0, "vectors"), (TEXT, "main")];
        let plain = run(&mut trapline_tests::mips::session(set, &vectors(), &text, &names));
        assert_eq!(plain.stop, Stop::PowerOff(0), "{set:?}: {:x?}", plain.happenings.last());
        let (mut cases, mut sum) = (0, 0);
        for (_, branch, values) in BRANCHES {
            let is_likely = match branch(0, 0) >> 26 {
                0x01 => branch(0, 0) >> 16 & 2 != 0,
                op => (0x14..0x18).contains(&op),
            };
            for number in 1..=values.len() {
                let is_taken = number == values.len();
                sum += if is_taken || !is_likely { ADDED[0] } else { 0 } + if is_taken { ADDED[2] } else { ADDED[1] };
                cases += 1;
            }
        }
        let digit = |place: i32| char::from(b'A' + (sum >> (4 * place) & 15) as u8);
        let digits: String = (0..8).rev().map(digit).collect();
        assert_eq!(plain.console, digits, "{set:?}: {cases} cases");
        let misses = count(&plain, |what| matches!(what, What::Exception(26 | 27, _)));
        // The branch's page and the slot's page. The second may replace the first in the TLB, which then misses again.
        assert!((2 * cases..2 * cases + 5).contains(&misses), "{set:?}: {misses} of {cases} cases");
        let mut probed = trapline_tests::mips::session(set, &vectors(), &text, &names);
        let places = (0..text.len() as u64).map(|number| set.cut(SEEN + TEXT + 4 * number));
        let probes: Vec<Kprobe> = places.map(|place| Kprobe::at_address(place).pre(|_| Flow::Continue)).collect();
        let standing = probes.iter().filter(|probe| probed.register_kprobe(probe).is_ok()).count();
        assert_eq!(standing, text.len() - cases - 2, "{set:?}: all but what is in slots");
        assert_same(&format!("{set:?}"), &plain, &run(&mut probed));
    }
}
