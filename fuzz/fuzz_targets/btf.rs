//! Fuzzes the BTF parser with arbitrary bytes. Every query must be answered in bounded time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trapline::boot::btf::Btf;

/// Number of structures to query for each input, so that the fuzzer stays fast.
const MOST_STRUCTURES: usize = 8;

fuzz_target!(|data: &[u8]| {
    let Some(btf) = Btf::parse(data) else { return };
    for structure in btf.structures().take(MOST_STRUCTURES) {
        for member in ["pid", "comm", "x", "", "no such member"] {
            if let Some(offset) = btf.offset_of(structure, member) {
                assert!(offset <= 17 * u64::from(u32::MAX / 8), "{structure}.{member} at {offset}: further than a member can be");
            }
        }
    }
});
