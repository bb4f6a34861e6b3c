//! Fuzzes the safety checker for jumps. If it allows a jump in a function, the function must behave the same with it,
//! from every point at which it can be entered or resumed (the brute-force test of `isa/tests/detour_soundness.rs`).
#![no_main]

use libfuzzer_sys::fuzz_target;
use trapline_isa::region::PlainText;

#[path = "../../isa/tests/soundness/mod.rs"]
#[allow(dead_code, reason = "the test tries every place, this one")]
mod soundness;
use soundness::{Function, START, difference};

/// The largest function in bytes. Longer ones show nothing new, and each is run from every instruction.
const MOST_BYTES: usize = 96;
/// Flags in the fourth byte of the input.
const WITH_FIXUP: u8 = 1;
const WITH_PATCHED: u8 = 2;

// Input: index of the instruction that gets the jump, index of the faulting instruction, index of its fixup, flags.
// Then the function's bytes.
fuzz_target!(|data: &[u8]| {
    let [place, faulty, fixup, with, code @ ..] = data else { return };
    let bytes = code[..code.len().min(MOST_BYTES)].to_vec();
    let plain = PlainText { start: START, bytes, ..PlainText::default() };
    let places = Function::new(plain.clone()).boundaries;
    if places.is_empty() {
        return;
    }
    let nth = |number: &u8| usize::from(*number) % places.len();
    let mut text = plain;
    if with & WITH_FIXUP != 0 {
        text.fixups.push((places[nth(faulty)], places[nth(fixup)]));
    }
    // Patched sites are five-byte instructions.
    let site = nth(faulty);
    if with & WITH_PATCHED != 0 && places.get(site + 1).is_some_and(|next| next - places[site] == 5) {
        text.patched.push(places[site]);
    }
    let function = Function::new(text);
    if let Some(what) = difference(&function, places[nth(place)], &|_| true, &mut 0) {
        panic!("{what}");
    }
});
