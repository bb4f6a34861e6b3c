//! A function's bytes and a place in it: where the checker says that a jump may stand, the function does the same with
//! it, from every place at which it can be entered or resumed (the brute force of `isa/tests/detour_soundness.rs`).
#![no_main]

use libfuzzer_sys::fuzz_target;
use trapline_isa::region::PlainText;

#[path = "../../isa/tests/soundness/mod.rs"]
#[allow(dead_code, reason = "the test tries every place, this one")]
mod soundness;
use soundness::{Function, START, difference};

/// Longer ones show nothing new, and each is run from every instruction.
const MOST_BYTES: usize = 96;
/// Bits of the fourth byte.
const WITH_FIXUP: u8 = 1;
const WITH_PATCHED: u8 = 2;

// Bytes: which instruction gets the jump, which one faults, where execution goes on then, what else there is; then the
// function.
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
    // Sites are instructions of five bytes.
    let site = nth(faulty);
    if with & WITH_PATCHED != 0 && places.get(site + 1).is_some_and(|next| next - places[site] == 5) {
        text.patched.push(places[site]);
    }
    let function = Function::new(text);
    if let Some(what) = difference(&function, places[nth(place)], &|_| true, &mut 0) {
        panic!("{what}");
    }
});
