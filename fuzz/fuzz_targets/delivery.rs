//! Fuzzes exception delivery with arbitrary descriptor tables, vectors and CPU states. Exceptions must end in the
//! guest, or the guest must be reported as dead. The program must survive. On ISAs that have a model of the manual's,
//! every register must be what the model says.
//!
//! Input: a byte that selects the ISA, then a case as decoded by `tests/src/lab/delivery.rs` or, from 128 on, by
//! `tests/src/lab/delivery/model.rs`. Because it runs machines, this target is built with the CPU core
//! (`--features machine`, as in scripts/fuzz.sh).
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use trapline_tests::lab::delivery::model::{self, MODELLED};
use trapline_tests::lab::delivery::{ARCHES, Guest, case};

thread_local! {
    /// The machine of each ISA, made on first use.
    static GUESTS: RefCell<Vec<Option<Guest>>> = RefCell::new(ARCHES.iter().map(|_| None).collect());
}

fuzz_target!(|data: &[u8]| {
    let [choice, bytes @ ..] = data else { return };
    if let Some(choice) = choice.checked_sub(128) {
        let arch = MODELLED[usize::from(choice) % MODELLED.len()];
        if let Err(why) = model::run(arch, bytes) {
            panic!("{}: {why}", arch.name());
        }
        return;
    }
    let number = usize::from(*choice) % ARCHES.len();
    let case = case(ARCHES[number], bytes);
    GUESTS.with_borrow_mut(|guests| {
        let guest = guests[number].get_or_insert_with(|| Guest::new(ARCHES[number]));
        if let Err(why) = guest.run(&case) {
            panic!("{}: {why}: {case:x?}", ARCHES[number].name());
        }
    });
});
