//! Any program in kernel mode, of privileged instructions and extreme values: it ends in the guest, and the CPU core goes
//! on.
//!
//! Input: a byte that chooses the ISA, then a program as `tests/src/lab/hostile/` reads it. Machines are behind it, so this
//! target is built with the CPU core (`--features machine`, as scripts/fuzz.sh does).
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
