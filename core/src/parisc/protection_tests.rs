//! Protection identifiers, and the instructions that ask about addresses.

use super::{Core, Entry, State, number, psw};
use crate::Host;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

/// The address of the page that the tests access. Its physical address is the same.
const PAGE: u32 = 0x4000;
/// The space of the page.
const SPACE: u32 = 7;
/// A data page that all levels read and write, with its dirty bit set.
const OPEN: u32 = 1 << 28 | 1 << 24 | 3 << 22 | 3 << 20;

/// Memory, and the number of the exception that stopped the core.
struct Board {
    state: Rc<State>,
    memory: Vec<u8>,
    exception: Option<u32>,
}

impl Host for Board {
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        let bytes = self.memory.get(physical as usize..(physical + u64::from(size)) as usize)?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }
    fn store(&mut self, physical: u64, size: u32, value: u32) -> bool {
        let Some(bytes) = self.memory.get_mut(physical as usize..(physical + u64::from(size)) as usize) else { return false };
        bytes.copy_from_slice(&value.to_be_bytes()[4 - size as usize..]);
        true
    }
    fn device_in(&mut self, _: u64, _: u32) -> u32 {
        0
    }
    fn device_out(&mut self, _: u64, _: u32, _: u32) {}
    fn block(&mut self, _: u64, _: u32) {}
    fn always_wants(&mut self, _: u64) -> bool {
        false
    }
    fn exception(&mut self, number: u32) {
        self.exception = Some(number);
        self.state.stop.set(1);
    }
    fn read_clock(&mut self) {}
    fn has_code(&mut self, _: u64) {}
    fn dropped(&mut self) -> Option<u64> {
        None
    }
}

/// A core with translation of data, and one page.
fn core_with_page(rights: u32) -> Core {
    let core = Core::new(0, 0x8000);
    let state = core.state();
    state.status.set(psw::D | psw::P);
    state.spaces[1].set(SPACE);
    let entry: &Entry = &state.tlb.0[0];
    entry.space.set(SPACE);
    // The entry has an address and rights.
    entry.page.set(PAGE | 3);
    entry.physical.set(PAGE);
    entry.rights.set(rights);
    state.general[3].set(PAGE);
    core
}

/// Runs one instruction and `break` behind it. Returns the number of the exception: `break` if the instruction raised none.
fn run(core: &mut Core, word: u32) -> u32 {
    let mut memory = vec![0; 0x8000];
    memory[0x100..0x104].copy_from_slice(&word.to_be_bytes());
    let state = core.shared_state();
    state.go_to(0x100);
    let mut board = Board { state, memory, exception: None };
    core.drop_all();
    core.run(&mut board);
    board.exception.expect("an exception")
}

/// `ldw 0(sr1,r3),r4`.
const LOAD: u32 = 0x12 << 26 | 3 << 21 | 4 << 16 | 1 << 14;
/// `stw r4,0(sr1,r3)`.
const STORE: u32 = 0x1a << 26 | 3 << 21 | 4 << 16 | 1 << 14;
/// `probe,r (sr1,r3),r5,r4`; register 5 has the privilege level.
const PROBE_LOAD: u32 = 1 << 26 | 3 << 21 | 5 << 16 | 1 << 14 | 0x46 << 6 | 4;
/// `probe,w (sr1,r3),r5,r4`.
const PROBE_STORE: u32 = 1 << 26 | 3 << 21 | 5 << 16 | 1 << 14 | 0x47 << 6 | 4;
/// `lci r5(sr1,r3),r4`.
const COHERENCE: u32 = 1 << 26 | 3 << 21 | 5 << 16 | 1 << 14 | 0x4c << 6 | 4;
/// `lpa r5(sr1,r3),r4`.
const PHYSICAL: u32 = 1 << 26 | 3 << 21 | 5 << 16 | 1 << 14 | 0x4d << 6 | 4;

/// KP-9: a protection identifier has 18 bits, in the TLB and in the protection registers.
#[test]
fn protection_identifiers_have_18_bits() {
    for identifier in [1, 0x7fff, 0x8000, 0x1_2345, 0x3_ffff_u32] {
        for register in [8, 9, 12, 13] {
            let mut core = core_with_page(OPEN | identifier << 1);
            assert_eq!(run(&mut core, LOAD), number::DATA_IDENTIFIER, "{identifier:#x}: no register has it");
            core.state().control[register].set(identifier << 1);
            assert_eq!(run(&mut core, LOAD), number::BREAK, "{identifier:#x} in register {register}");
            assert_eq!(run(&mut core, STORE), number::BREAK, "{identifier:#x} in register {register}");
            core.state().control[register].set(identifier << 1 | 1);
            assert_eq!(run(&mut core, STORE), number::DATA_IDENTIFIER, "{identifier:#x}: its register forbids stores");
            core.state().control[register].set((identifier ^ 1 << 15) << 1);
            assert_eq!(run(&mut core, LOAD), number::DATA_IDENTIFIER, "{identifier:#x} is not {:#x}", identifier ^ 1 << 15);
        }
    }
}

/// KP-9: `probe` answers as a load or a store would be decided: by rights and by protection identifiers.
#[test]
fn probe_checks_protection_identifiers() {
    let mut core = core_with_page(OPEN | 0x1_2345 << 1);
    let mut answers = |register: u32, checks: u32| {
        core.state().control[9].set(register);
        core.state().status.set(psw::D | checks);
        [PROBE_LOAD, PROBE_STORE].map(|word| {
            assert_eq!(run(&mut core, word), number::BREAK);
            core.state().general[4].get()
        })
    };
    assert_eq!(answers(0, psw::P), [0, 0], "no register has the identifier");
    assert_eq!(answers(0x1_2345 << 1, psw::P), [1, 1]);
    assert_eq!(answers(0x1_2345 << 1 | 1, psw::P), [1, 0], "its register forbids stores");
    assert_eq!(answers(0, 0), [1, 1], "PSW P is 0");
}

/// KP-9: the kernel may ask for the coherence index, which is 0 for all addresses: there is no cache.
#[test]
fn the_coherence_index_is_0() {
    let mut core = core_with_page(OPEN);
    core.state().general[4].set(99);
    assert_eq!(run(&mut core, COHERENCE), number::BREAK);
    assert_eq!(core.state().general[4].get(), 0);
    core.state().front_level.set(3);
    assert_eq!(run(&mut core, COHERENCE), number::PRIVILEGED);
}

/// KP-9: the kernel may ask for a physical address, whatever the page's rights and identifier.
#[test]
fn the_physical_address_of_a_page_is_loaded() {
    let mut core = core_with_page(0x1_2345 << 1);
    core.state().general[5].set(0x123);
    assert_eq!(run(&mut core, PHYSICAL), number::BREAK);
    assert_eq!(core.state().general[4].get(), PAGE + 0x123);
    core.state().general[5].set(0x1000);
    assert_eq!(run(&mut core, PHYSICAL), number::OTHER_MISS);
    core.state().front_level.set(3);
    assert_eq!(run(&mut core, PHYSICAL), number::PRIVILEGED);
}
