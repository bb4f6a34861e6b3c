//! PA-RISC: code that the host changes in front of a block is seen by the blocks behind it, also if they are linked.

use std::rc::Rc;
use trapline_core::Host;
use trapline_core::parisc::{Core, State};

/// Two blocks in pages of their own, each of which goes to the other.
const ONE: u32 = 0x1000;
const OTHER: u32 = 0x2000;
/// Bytes of code between two calls of the host.
const BYTES: i64 = 1200;

/// A host that changes the other block when it is first called in front of the one block, and goes on. The second time it stops.
struct Machine {
    state: Rc<State>,
    ram: Vec<u8>,
    /// Register 4 when the code was changed.
    changed_at: Option<u32>,
    dropped: Option<u64>,
}

/// `ldo number(register),register`.
fn add(register: u32, number: u32) -> u32 {
    0x0d << 26 | register << 21 | register << 16 | number << 1
}

impl Machine {
    fn put(&mut self, at: u32, word: u32) {
        self.ram[at as usize..at as usize + 4].copy_from_slice(&word.to_be_bytes());
    }
}

impl Host for Machine {
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        let bytes = self.ram.get(physical as usize..(physical + u64::from(size)) as usize)?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }
    fn store(&mut self, _: u64, _: u32, _: u32) -> bool {
        false
    }
    fn device_in(&mut self, _: u64, _: u32) -> u32 {
        0
    }
    fn device_out(&mut self, _: u64, _: u32, _: u32) {}
    fn block(&mut self, pc: u64, size: u32) {
        let state = Rc::clone(&self.state);
        // The next call is in front of the next block, until it is the one block.
        let mut count = -1;
        if pc == u64::from(ONE) {
            if self.changed_at.is_some() {
                return state.stop.set(1);
            }
            self.changed_at = Some(state.general[4].get());
            self.put(OTHER, add(5, 1));
            self.dropped = Some(OTHER.into());
            count = -BYTES;
        }
        state.line.count.set(count + i64::from(size));
    }
    fn always_wants(&mut self, _: u64) -> bool {
        false
    }
    fn exception(&mut self, _: u32) {
        self.state.stop.set(1);
    }
    fn read_clock(&mut self) {}
    fn has_code(&mut self, _: u64) {}
    fn dropped(&mut self) -> Option<u64> {
        self.dropped.take()
    }
}

/// KP-2: the changed block runs from its next turn on.
#[test]
fn linked_blocks_see_code_that_the_host_changes() {
    let mut core = Core::new(0, 0x4000);
    let mut machine = Machine { state: core.shared_state(), ram: vec![0; 0x4000], changed_at: None, dropped: None };
    for (at, target, word) in [(ONE, OTHER, add(4, 1)), (OTHER, ONE, add(5, 0))] {
        machine.put(at, word);
        // `b target`, and `nop` in its slot.
        let branch = trapline_isa::parisc::fields::with_distance17(0x3a << 26, i64::from(target) - i64::from(at + 12));
        machine.put(at + 4, branch.expect("it is near"));
        machine.put(at + 8, 0x0800_0240);
    }
    core.state().go_to(ONE);
    core.state().line.count.set(-BYTES);
    core.run(&mut machine);
    let [turns, counted] = [4, 5].map(|register| machine.state.general[register].get());
    let changed_at = machine.changed_at.expect("the host was called");
    assert!(changed_at > 10 && turns > changed_at + 10, "{changed_at} turns, and then {}", turns - changed_at);
    assert_eq!(counted, turns - changed_at);
}
