//! The host of the tests that run short programs of PA-RISC: big-endian RAM at address 0, without devices. The first exception
//! ends a run.
//!
//! [`Machine`] is the host. A test that watches or changes the run adds its own state as [`Extra`].

// Each test uses a part of it.
#![allow(dead_code)]

use std::rc::Rc;
use trapline_core::Host;
use trapline_core::parisc::{Core, State};

/// The part of a host that a test adds. It is asked in front of blocks.
pub trait Extra {
    /// The core is in front of a block at `pc`, which has `size` bytes of code.
    fn block(&mut self, state: &State, ram: &mut Ram, pc: u64, size: u32) {
        let _ = (state, ram, pc, size);
    }
    /// The address of code that has changed, once.
    fn dropped(&mut self) -> Option<u64> {
        None
    }
}

impl Extra for () {}

/// Memory from address 0 on.
pub struct Ram(Vec<u8>);

impl Ram {
    pub fn put(&mut self, at: u32, word: u32) {
        self.0[at as usize..at as usize + 4].copy_from_slice(&word.to_be_bytes());
    }
}

/// The external interrupts that the machine requests.
pub const REQUESTED: u32 = 0x8000_0000;

pub struct Machine<E = ()> {
    pub state: Rc<State>,
    pub ram: Ram,
    /// The number of the last exception. 0: there was none.
    pub exception: u32,
    /// The writes of cr16 and EIRR that the core reported: register, value, the instruction's address.
    pub written: Vec<(u32, u32, u32)>,
    pub extra: E,
}

impl<E: Extra> Machine<E> {
    /// A core, and its host with this many bytes of RAM.
    pub fn new(ram: usize, extra: E) -> (Core, Machine<E>) {
        let core = Core::new(0, ram as u64);
        let (state, ram) = (core.shared_state(), Ram(vec![0; ram]));
        let machine = Machine { state, ram, exception: 0, written: Vec::new(), extra };
        (core, machine)
    }
}

impl<E: Extra> Host for Machine<E> {
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        let bytes = self.ram.0.get(physical as usize..(physical + u64::from(size)) as usize)?;
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
        self.extra.block(&self.state, &mut self.ram, pc, size);
    }
    fn always_wants(&mut self, _: u64) -> bool {
        false
    }
    fn exception(&mut self, number: u32) {
        self.exception = number;
        self.state.stop.set(1);
    }
    fn read_clock(&mut self) {
        self.state.general[self.state.clock_to.get() as usize].set(0x1234);
    }
    fn external_interrupts(&mut self) -> u32 {
        REQUESTED
    }
    fn writes_control(&mut self, register: u32, value: u32) {
        self.written.push((register, value, self.state.front.get()));
    }
    fn has_code(&mut self, _: u64) {}
    fn dropped(&mut self) -> Option<u64> {
        self.extra.dropped()
    }
}
