//! Fuzzes the machine with hostile guests: random programs in kernel mode, of privileged instructions and extreme
//! values. They may crash the guest, but the CPU core must continue to work.
//!
//! Input: a byte that selects the ISA, then a program as decoded by `tests/src/lab/hostile/`. Because it runs machines,
//! this target is built with the CPU core (`--features machine`, as in scripts/fuzz.sh).
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use trapline_tests::lab::hostile::{ARCHES, Guest};

thread_local! {
    /// The machine of each ISA, once it has been wanted.
    static GUESTS: RefCell<Vec<Option<Guest>>> = RefCell::new(ARCHES.iter().map(|_| None).collect());
}

fuzz_target!(|data: &[u8]| {
    let [choice, bytes @ ..] = data else { return };
    let number = usize::from(*choice) % ARCHES.len();
    GUESTS.with_borrow_mut(|guests| {
        let guest = guests[number].get_or_insert_with(|| Guest::new(ARCHES[number]));
        if let Err(why) = guest.run(bytes) {
            panic!("{}: {why}", ARCHES[number].name());
        }
    });
});
