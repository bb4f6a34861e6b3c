//! Any tables, vectors and states of a guest: its exceptions end in the guest, or the guest is dead; the program goes
//! on.
//!
//! Input: a byte that chooses the ISA, then a case as `tests/src/lab/delivery.rs` reads it. Machines are behind it, so
//! this target alone is built with the CPU core (`--features machine`, as scripts/fuzz.sh does).
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use trapline_tests::lab::delivery::{ARCHES, Guest, case};

thread_local! {
    /// The machine of each ISA, once it has been wanted.
    static GUESTS: RefCell<Vec<Option<Guest>>> = RefCell::new(ARCHES.iter().map(|_| None).collect());
}

fuzz_target!(|data: &[u8]| {
    let [choice, bytes @ ..] = data else { return };
    let number = usize::from(*choice) % ARCHES.len();
    let case = case(ARCHES[number], bytes);
    GUESTS.with_borrow_mut(|guests| {
        let guest = guests[number].get_or_insert_with(|| Guest::new(ARCHES[number]));
        if let Err(why) = guest.run(&case) {
            panic!("{}: {why}: {case:x?}", ARCHES[number].name());
        }
    });
});
