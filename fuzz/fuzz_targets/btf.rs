//! Any bytes as a kernel's type information: every question about it has an answer, in bounded time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trapline::boot::btf::Btf;

/// Questions for each input, so that a second has many tries in it.
const MOST_STRUCTURES: usize = 8;

fuzz_target!(|data: &[u8]| {
    let Some(btf) = Btf::parse(data) else { return };
    for structure in btf.structures().take(MOST_STRUCTURES) {
        for member in ["pid", "comm", "x", "", "no such member"] {
            if let Some(offset) = btf.offset_of(structure, member) {
                assert!(offset <= 17 * u64::from(u32::MAX / 8), "{structure}.{member} at {offset}: further than members can be");
            }
        }
    }
});
