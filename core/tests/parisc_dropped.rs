//! PA-RISC: code that the host changes in front of a block is seen by the blocks behind it, also if they are linked.

#[path = "parisc/host.rs"]
mod host;

use host::{Extra, Machine, Ram};
use trapline_core::parisc::State;

/// Two blocks in pages of their own, each of which goes to the other.
const ONE: u32 = 0x1000;
const OTHER: u32 = 0x2000;
/// Bytes of code between two calls of the host.
const BYTES: i64 = 1200;

/// `ldo number(register),register`.
fn add(register: u32, number: u32) -> u32 {
    0x0d << 26 | register << 21 | register << 16 | number << 1
}

/// Changes the other block when the core is first in front of the one block. The second time it stops the core.
#[derive(Default)]
struct Changes {
    /// Register 4 when the code was changed.
    changed_at: Option<u32>,
    dropped: Option<u64>,
}

impl Extra for Changes {
    fn block(&mut self, state: &State, ram: &mut Ram, pc: u64, size: u32) {
        // The next call is in front of the next block, until it is the one block.
        let mut count = -1;
        if pc == u64::from(ONE) {
            if self.changed_at.is_some() {
                return state.stop.set(1);
            }
            self.changed_at = Some(state.general[4].get());
            ram.put(OTHER, add(5, 1));
            self.dropped = Some(OTHER.into());
            count = -BYTES;
        }
        state.line.count.set(count + i64::from(size));
    }
    fn dropped(&mut self) -> Option<u64> {
        self.dropped.take()
    }
}

/// KP-2: the changed block runs from its next turn on.
#[test]
fn linked_blocks_see_code_that_the_host_changes() {
    let (mut core, mut machine) = Machine::new(0x4000, Changes::default());
    for (at, target, word) in [(ONE, OTHER, add(4, 1)), (OTHER, ONE, add(5, 0))] {
        machine.ram.put(at, word);
        // `b target`, and `nop` in its slot.
        let branch = trapline_isa::parisc::fields::with_distance17(0x3a << 26, i64::from(target) - i64::from(at + 12));
        machine.ram.put(at + 4, branch.expect("it is near"));
        machine.ram.put(at + 8, 0x0800_0240);
    }
    core.state().go_to(ONE);
    core.state().line.count.set(-BYTES);
    core.run(&mut machine);
    let [turns, counted] = [4, 5].map(|register| machine.state.general[register].get());
    let changed_at = machine.extra.changed_at.expect("the host was called");
    assert!(changed_at > 10 && turns > changed_at + 10, "{changed_at} turns, and then {}", turns - changed_at);
    assert_eq!(counted, turns - changed_at);
}
