//! 32-bit ARM: every row of its tables, and every condition with flags for which it holds and for which it fails.

use super::{Labs, spread};
use std::collections::BTreeMap;
use trapline_isa::arch::Arch;
use trapline_isa::arm::{LENGTH, Set, emulate, rules};
use trapline_isa::plan::Policy;
use trapline_tests::lab::{Before, place};

/// What a test has found out about many cases; all that went wrong is told at once.
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
        if let Err(why) = self.labs.compare(&Before { bytes, registers, flags, seed }) {
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

/// How many cases each row gets.
fn each() -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse::<u64>().ok()).map_or(6, |cases| cases.div_ceil(160))
}

/// KP-2, KP-6, OP-4: words of every row of the A32 tables, on conditions that hold and on ones that fail.
#[test]
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

/// KP-2, OP-4: a probe on a conditional instruction is hit where that does something; what it leaves is the same on each condition with
/// each outcome.
#[test]
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
