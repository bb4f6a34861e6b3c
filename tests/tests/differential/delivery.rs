//! The delivery of exceptions on PowerPC, z/Architecture, MIPS and SPARC against models of the manuals, by random cases.
//! `lab/delivery/model.rs` has the models.

use std::collections::BTreeMap;
use trapline_harness::Test;
use trapline_isa::arch::Arch;
use trapline_tests::lab::delivery::model::{MODELLED, run};

/// Random bytes by their number (SplitMix64).
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    (0..128).flat_map(|_| next().to_le_bytes()).collect()
}

/// After each exception, all registers and the memory that the CPU writes are those of the manual's model.
fn an_exception_is_delivered_as_the_manual_says(arch: Arch) {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    let (mut seen, mut wrong) = (BTreeMap::<String, u32>::new(), Vec::new());
    for seed in 0..asked {
        match run(arch, &bytes(seed)) {
            Ok(name) => *seen.entry(name.split([',', ' ']).next().unwrap_or_default().into()).or_default() += 1,
            Err(why) => wrong.push(format!("case {seed}, {why}")),
        }
    }
    println!("{}: {} cases: {seen:?}", arch.name(), seen.values().sum::<u32>());
    assert!(wrong.is_empty(), "{}: {} of {asked} differ:\n{}", arch.name(), wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(seen.len() > 8, "{}: {seen:?}", arch.name());
}

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    super::each_of(MODELLED, &[("an_exception_is_delivered_as_the_manual_says", an_exception_is_delivered_as_the_manual_says)])
}
