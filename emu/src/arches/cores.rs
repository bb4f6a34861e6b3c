//! Tests of the search for Unicorn's private state, on each kind of core: `stores.rs` finds the function that fills TLB entries.
//! They are here because this module knows all kinds of core.

use crate::unicorn::engine::Core;
use crate::unicorn::fills::Numbers;
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::RecordingEvents;
use crate::unicorn::stores;
use trapline_isa::arch::Arch;
use trapline_isa::mem::ByteOrder;

/// The kinds of core of every ISA that Unicorn has. A core of ours gives its state itself.
fn kinds() -> Vec<&'static CoreKind> {
    let machines = Arch::ALL.iter().filter_map(|arch| super::of(*arch).machine().ok());
    machines
        .flat_map(|machine| machine.model.choices.iter().map(|choice| choice.core))
        .filter(|kind| kind.own.is_none())
        .collect()
}

/// The search reads heap memory behind the CPU structure, whose contents are arbitrary and may change during the search. So
/// the test allocates and frees blocks of several sizes between the engines.
#[test]
fn the_function_that_fills_is_found_whatever_the_heap_holds() {
    let mut numbers = Numbers(5);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for turn in 0..10 {
        for kind in kinds() {
            for _ in 0..numbers.any() % 40 {
                let size = 1 + numbers.any() as usize % numbers.of(&[64, 300, 3_000, 70_000]);
                match numbers.one_in(2) && !kept.is_empty() {
                    true => drop(kept.swap_remove(numbers.any() as usize % kept.len())),
                    false => kept.push(vec![0x5a; size]),
                }
            }
            let ram = Ram::at(0, 1 << 20, ByteOrder::Little).unwrap();
            let core: Core<RecordingEvents> = Core::new(kind, &ram).unwrap_or_else(|why| panic!("turn {turn}: {why}"));
            assert!(stores::finds_the_fill(core.handle()), "turn {turn}");
        }
    }
}
