//! Delivers exceptions through random descriptor tables and vectors. Whatever a guest's tables contain, only the guest may
//! crash, not trapline. The fuzz target `delivery` makes its cases with the same function.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::RefCell;
use trapline::machine::What;
use trapline_isa::arch::Arch;
use trapline_tests::lab::delivery::model::{self, MODELLED};
use trapline_tests::lab::delivery::{ARCHES, Guest, case};
use trapline_tests::lab::{Before, How, LAST_PAGE, Lab};

/// Random descriptor tables, vectors and CPU states may crash the guest, but not the test.
#[test]
fn random_tables_crash_only_the_guest() {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    for arch in ARCHES {
        // A vector without a handler faults again and again until the machine's watchdog ends the run, which takes time.
        let count = if matches!(arch, Arch::X86_64 | Arch::I386) { asked } else { asked / 10 };
        let config = Config { cases: count, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let (guest, seen) = (RefCell::new(Guest::new(*arch)), RefCell::new((0, 0)));
        let outcome = runner.run(&prop::collection::vec(any::<u8>(), 800), |bytes| {
            let outcome = guest.borrow_mut().run(&case(*arch, &bytes)).map_err(TestCaseError::fail)?;
            let mut seen = seen.borrow_mut();
            *seen = (seen.0 + u32::from(outcome.delivered), seen.1 + outcome.hits);
            Ok(())
        });
        let (delivered, probed) = seen.into_inner();
        println!("{}: {count} cases, an exception in {delivered}, {probed} hits", arch.name());
        outcome.unwrap_or_else(|failure| panic!("{}: {failure}", arch.name()));
        assert!(delivered > count / 2 && probed > u64::from(count) / 50, "{}: {delivered}, {probed}", arch.name());
    }
}

/// Runs the saved inputs of the fuzz target `delivery`, as it does: the first byte of an input chooses the ISA.
#[test]
fn saved_fuzzer_inputs_crash_only_the_guest() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/delivery");
    let mut guests: Vec<Guest> = ARCHES.iter().map(|arch| Guest::new(*arch)).collect();
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the corpus is in the repository") {
        let path = file.expect("a file of the corpus").path();
        let data = std::fs::read(&path).expect("a file of the corpus");
        let Some((choice, bytes)) = data.split_first() else { continue };
        count += 1;
        if let Some(choice) = choice.checked_sub(128) {
            let arch = MODELLED[usize::from(choice) % MODELLED.len()];
            if let Err(why) = model::run(arch, bytes) {
                panic!("{}: {}: {why}", path.display(), arch.name());
            }
            continue;
        }
        let number = usize::from(*choice) % ARCHES.len();
        if let Err(why) = guests[number].run(&case(ARCHES[number], bytes)) {
            panic!("{}: {why}", path.display());
        }
    }
    assert!(count >= 25, "{count} cases");
}

/// The guest receives a breakpoint in the last byte of the address space. The next instruction is at address 0.
#[test]
fn a_breakpoint_in_the_last_byte_of_the_address_space_is_the_guests_to_take() {
    for (arch, last) in [(Arch::X86_64, u64::MAX), (Arch::I386, 0xffff_ffff)] {
        let mut lab = Lab::new(arch);
        let memory = vec![(LAST_PAGE + 0xfff, vec![0xcc])];
        // jmp *%bx
        let case = Before { bytes: vec![0xff, 0xe3], registers: vec![last; 16], seed: 1, memory, ..Before::default() };
        let after = lab.run(&case, How::InPlace).expect("it runs");
        let first = after.happened.first().map(|event| (event.what, event.pc, event.time));
        assert_eq!(first, Some((What::Exception(3, None), 0, 3)), "{}: {:x?}", arch.name(), after.happened);
    }
}
