//! 32-bit ARM: every row of its tables, every condition with flags for which it holds and for which it fails, and every
//! shape of IT block with a probe at each of its places.

use super::{Labs, spread};
use std::collections::BTreeMap;
use trapline_harness::{Test, tests};
use trapline_isa::arch::Arch;
use trapline_isa::arm::{LENGTH, Set, emulate, rules};
use trapline_isa::plan::Policy;
use trapline_tests::lab::arm::{thumb_bytes, thumb_rows};
use trapline_tests::lab::{Before, place};

/// The results of a test over many cases; all failures are reported together.
struct Tally {
    arch: Arch,
    labs: Labs,
    wrong: Vec<String>,
}

impl Tally {
    fn new(arch: Arch) -> Tally {
        Tally { arch, labs: Labs::new(arch), wrong: Vec::new() }
    }

    fn compare(&mut self, what: &str, bytes: Vec<u8>, flags: u64, seed: u64) {
        let registers = (0..15).map(|register| spread(self.arch, seed, register)).collect();
        self.compare_case(what, &Before { bytes, registers, flags, seed, ..Before::default() });
    }

    fn compare_case(&mut self, what: &str, case: &Before) {
        if let Err(why) = self.labs.compare(case) {
            self.wrong.push(format!("{what}: {why}"));
        }
    }

    fn end(self) {
        let Labs { compared, refused, jumped, .. } = self.labs;
        println!("{}: {compared} compared, {jumped} by a jump, {refused} left out", self.arch.name());
        assert!(self.wrong.is_empty(), "{} went wrong:\n{}", self.wrong.len(), self.wrong.join("\n"));
    }
}

/// Flags for which a condition holds, or fails; other bits as the seed has them.
fn flags_for(condition: u32, holds: bool, seed: u64) -> Option<u64> {
    let rest = spread(Arch::Arm, seed, 7) & 0x0fff_ffff;
    let first = seed % 16;
    (first..first + 16)
        .map(|flags| (flags % 16) << 28 | rest)
        .find(|flags| emulate::holds(condition as u8, *flags as u32) == holds)
}

/// The number of cases for each row.
fn each() -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse::<u64>().ok()).map_or(6, |cases| cases.div_ceil(160))
}

/// KP-2, KP-6, OP-4: words of every row of the A32 tables, on conditions that hold and on ones that fail.
fn every_row_of_the_a32_tables_does_the_same_out_of_line_as_in_place() {
    let isa = Arch::Arm.isa();
    let mut tally = Tally::new(Arch::Arm);
    let mut met = BTreeMap::new();
    for (number, (mask, value)) in rules::rows(Set::A32, LENGTH).enumerate() {
        for turn in 0..each() {
            let seed = number as u64 * 7919 + turn * 104_729 + 1;
            let word = |salt: u64| {
                let random = spread(Arch::Arm, seed, salt) as u32 ^ (seed as u32).rotate_left(salt as u32) ^ (salt as u32) << 28;
                value | random & !mask
            };
            let accepted = |word: &u32| {
                (isa.decode)(place(Arch::Arm), &word.to_le_bytes()).is_ok_and(|insn| (isa.plan)(&insn, Policy::Best).is_ok())
            };
            let Some(word) = (0..40).map(word).find(accepted) else { continue };
            let holds = turn % 4 != 0;
            let Some(flags) = flags_for(word >> 28, holds, seed) else { continue };
            let bytes = word.to_le_bytes().to_vec();
            tally.compare(&format!("row {mask:#010x} {value:#010x}"), bytes, flags, seed);
            *met.entry((mask, value)).or_insert(0) += 1;
        }
    }
    println!("{} rows", met.len());
    assert!(met.len() > 100, "{} rows", met.len());
    tally.end();
}

/// A32 instructions of each plan, with a condition that always holds.
#[rustfmt::skip]
const OF_EACH_PLAN: &[(&str, u32)] = &[
    ("adds r0, r1, r2",            0xe091_0002),
    ("ldr r2, [r3]",               0xe593_2000),
    ("stm r3!, {r0, r1, r2}",      0xe8a3_0007),
    ("add pc, pc, r2, lsl #2",     0xe08f_f102),
    ("adcs r0, pc, r1, rrx",       0xe0bf_0061),
    ("ldr r2, [pc, #64]",          0xe59f_2040),
    ("pop {r4, pc}",               0xe8bd_8010),
    ("b",                          0xea00_0008),
    ("bl",                         0xeb00_0008),
    ("msr cpsr_fs, r1",            0xe12c_f001),
    ("vadd.f64 d2, d1, d3",        0xee31_2b03),
    ("mrs r3, cpsr",               0xe10f_3000),
];

/// KP-2, OP-4: conditional A32 instructions, on each condition, with flags for which it holds and flags for which it
/// fails. The probe is hit only if the condition holds, and registers and memory are the same as without a probe.
fn every_condition_does_the_same_out_of_line_as_in_place() {
    let mut tally = Tally::new(Arch::Arm);
    for (number, (what, word)) in OF_EACH_PLAN.iter().enumerate() {
        for condition in 0..15 {
            for turn in 0..4 {
                let seed = (number * 60 + condition as usize * 4) as u64 + turn + 1;
                let Some(flags) = flags_for(condition, turn % 2 == 0, seed) else { continue };
                let bytes = (word & 0x0fff_ffff | condition << 28).to_le_bytes().to_vec();
                tally.compare(&format!("{what} on condition {condition}"), bytes, flags, seed);
            }
        }
    }
    assert!(tally.labs.compared > 600, "{} compared", tally.labs.compared);
    tally.end();
}

/// KP-2, KP-6: words of every row of the tables for Thumb code.
fn every_row_of_the_thumb_tables_does_the_same_out_of_line_as_in_place() {
    let isa = Arch::Thumb2.isa();
    let mut tally = Tally::new(Arch::Thumb2);
    let mut met = 0;
    for (number, (mask, value)) in thumb_rows().into_iter().enumerate() {
        let mut count = 0;
        for turn in 0..each() {
            let seed = number as u64 * 7919 + turn * 104_729 + 1;
            let word = |salt: u64| {
                let random =
                    spread(Arch::Thumb2, seed, salt) as u32 ^ (seed as u32).rotate_left(salt as u32) ^ (salt as u32) << 12;
                thumb_bytes(value | random & !mask)
            };
            let accepted = |bytes: &Vec<u8>| {
                (isa.decode)(place(Arch::Thumb2), bytes)
                    .is_ok_and(|insn| insn.bytes() == bytes.as_slice() && (isa.plan)(&insn, Policy::Best).is_ok())
            };
            let Some(bytes) = (0..40).map(word).find(accepted) else { continue };
            tally.compare(&format!("row {mask:#010x} {value:#010x}"), bytes, spread(Arch::Thumb2, seed, 77) << 28, seed);
            count += 1;
        }
        met += u32::from(count > 0);
    }
    println!("{met} rows");
    assert!(met > 120, "{met} rows");
    tally.end();
}

/// Thumb instructions that may stand anywhere in an IT block: narrow ones, which set no flags there, wide ones that do,
/// ones that may fault, ones that are computed, and one that reads the flags.
#[rustfmt::skip]
const INSIDE: &[u32] = &[
    0x3001,      // add r0, #1
    0xf111_0101, // adds.w r1, r1, #1
    0x2b07,      // cmp r3, #7
    0xf1b4_0f05, // cmp.w r4, #5
    0x6829,      // ldr r1, [r5]
    0x447a,      // add r2, pc
    0xa301,      // adr r3
    0x4c04,      // ldr r4, literal
    0xeb57_0608, // adcs.w r6, r7, r8
    0xf3ef_8700, // mrs r7, cpsr
    0xbf00,      // nop
    0xee31_2b03, // vadd.f64 d2, d1, d3
];

/// Instructions that are allowed at the end of the block only.
#[rustfmt::skip]
const LAST: &[u32] = &[
    0xe006,      // b
    0x4770,      // bx lr
    0xbd10,      // pop {r4, pc}
    0xf8df_f010, // ldr.w pc, literal
    0x449f,      // add pc, r3
    0xf000_f80c, // bl
];

/// KP-2, KP-6: every shape of IT block, with a probe on the IT instruction and on each instruction in the block, for
/// conditions that hold and conditions that fail. Registers, memory and time are the same as without a probe. A probe is
/// hit only if its instruction runs.
fn every_shape_of_it_block_does_the_same_with_a_probe_at_each_place() {
    let mut tally = Tally::new(Arch::Thumb2);
    let (mut shapes, mut hits) = (0, 0);
    for (condition, mask) in (0..15u32).flat_map(|condition| (1..16u32).map(move |mask| (condition, mask))) {
        // A condition that always holds has no opposite.
        let length = 4 - mask.trailing_zeros() as usize;
        if condition == 14 && mask.count_ones() != 1 {
            continue;
        }
        shapes += 1;
        for place in 0..=length {
            for holds in [false, true] {
                let seed = u64::from(condition * 1009 + mask * 31) * 11 + place as u64 * 2 + u64::from(holds) + 1;
                let pick = |from: &[u32], salt: u64| from[(spread(Arch::Arm, seed, 40 + salt) >> 7) as usize % from.len()];
                let inside = (1..=length).map(|at| match at == length && seed.is_multiple_of(3) {
                    true => pick(LAST, 0),
                    false => pick(INSIDE, at as u64),
                });
                let block: Vec<Vec<u8>> = [0xbf00 | condition << 4 | mask].into_iter().chain(inside).map(thumb_bytes).collect();
                let flags = flags_for(condition, holds, seed).unwrap_or(seed << 28) & 0xf00f_0000;
                let case = Before {
                    front: block[..place].concat(),
                    bytes: block[place].clone(),
                    rest: block[place + 1..].concat(),
                    registers: (0..15).map(|register| spread(Arch::Thumb2, seed, register)).collect(),
                    flags,
                    seed,
                    ..Before::default()
                };
                tally.compare_case(&format!("condition {condition}, mask {mask:04b}, place {place}, {holds}"), &case);
                let hit = tally.labs.hits;
                // No instruction in front of the first two can have changed the flags, so it is known whether they run.
                if place == 0 || place == 1 {
                    let expected = place == 0 || holds || condition == 14;
                    if (hit > 0) != expected {
                        tally.wrong.push(format!("condition {condition}, mask {mask:04b}, place {place}, {holds}: {hit} hits"));
                    }
                }
                hits += hit.min(1);
            }
        }
    }
    println!("{shapes} shapes, {hits} probes hit");
    assert_eq!(shapes, 14 * 15 + 4);
    assert!(hits > 700 && tally.labs.compared > 1400, "{hits} hits, {} compared", tally.labs.compared);
    tally.end();
}

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        every_row_of_the_a32_tables_does_the_same_out_of_line_as_in_place,
        every_condition_does_the_same_out_of_line_as_in_place,
        every_row_of_the_thumb_tables_does_the_same_out_of_line_as_in_place,
        every_shape_of_it_block_does_the_same_with_a_probe_at_each_place,
    ]
}
