//! Fuzzes the module parser: arbitrary guest memory in which a kernel has loaded a module, and arbitrary module files.
//! The result must be a module or none.
//!
//! Input: the address of the section headers (2 bytes), then memory from `START` on. Reads past its end fail.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trapline::boot::module::{self, About};
use trapline_isa::arch::Arch;

const START: u64 = 0x1000;

fuzz_target!(|data: &[u8]| {
    if let Some(about) = About::of(data) {
        assert!(!about.name.is_empty(), "a module without a name");
    }
    let Some((sections, memory)) = data.split_first_chunk::<2>() else { return };
    let mut read = |at: u64, into: &mut [u8]| {
        let held = usize::try_from(at.wrapping_sub(START)).ok().and_then(|at| memory.get(at..)?.get(..into.len()));
        held.map(|held| into.copy_from_slice(held)).is_some()
    };
    let sections = START + u64::from(u16::from_le_bytes(*sections));
    let Some(module) = module::read(Arch::X86_64, &mut read, START, sections) else { return };
    assert!(!module.name.is_empty(), "a module without a name");
    for text in &module.text {
        let end = text.range.end;
        assert!(
            module.image.segments.iter().any(|segment| segment.range().end == end && segment.executable),
            "code outside of every segment"
        );
    }
});
