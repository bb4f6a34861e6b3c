//! CPU cores in safe Rust, for ISAs that no emulator library has.
//!
//! A core is a state of named fields and an interpreter of decoded blocks. It runs until its host stops it, and leaves
//! everything outside of the CPU to that [`Host`]: memory, devices, exceptions, and the clock. The crate `trapline`
//! implements the host (`emu/src/unicorn/own.rs`).
//!
//! A block is a straight run of instructions in one page, with a branch and its delay slot at the end. Before a block
//! runs, the core counts its bytes, or calls the host if the count says so. The state is exact whenever the host is called.
//!
//! The core of IA-64 has a host of its own, [`ia64::Host`], because its words are wider. It also runs single instructions.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo))]

extern crate alloc;

pub mod ia64;
pub mod parisc;

use core::cell::Cell;

/// The words in which blocks count executed bytes. The host's clock is computed from them.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Line {
    /// The address of the last block that was counted.
    pub start: Cell<u64>,
    /// Each block adds its bytes. While the count is 0 or more, the core calls [`Host::block`] instead of adding.
    pub count: Cell<i64>,
    /// The bytes that the last counted block added.
    pub size: Cell<u64>,
}

/// A load or store of RAM, after it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address of the instruction.
    pub pc: u64,
    /// The virtual data address.
    pub address: u64,
    /// The physical address.
    pub physical: u64,
    /// The number of bytes: 1, 2, 4 or 8.
    pub size: u32,
    /// Whether it is a store.
    pub is_store: bool,
    /// The number in memory before the access.
    pub before: u64,
    /// The number that was loaded or stored.
    pub value: u64,
}

/// The machine around a CPU core.
pub trait Host {
    /// Whether the core calls [`Host::accesses`] and [`Host::accessed`]. If false, no code for the calls is compiled.
    const TELLS: bool = false;
    /// The instruction at `pc` is about to load from a virtual address or store to it. The address was translated, so no
    /// exception follows.
    fn accesses(&mut self, pc: u32, address: u32, size: u32, is_store: bool) {
        let _ = (pc, address, size, is_store);
    }
    /// A load or a store of RAM was made. The registers are those before the instruction.
    fn accessed(&mut self, access: &Access) {
        let _ = access;
    }
    /// Whether a block must end in front of this address. Asked when the block is decoded.
    fn breaks_at(&mut self, pc: u64) -> bool {
        let _ = pc;
        false
    }
    /// Reads 1, 2 or 4 bytes of RAM as a big-endian number; `None` where no RAM is.
    fn load(&mut self, physical: u64, size: u32) -> Option<u32>;
    /// Writes 1, 2 or 4 bytes of RAM; false where no RAM is.
    fn store(&mut self, physical: u64, size: u32, value: u32) -> bool;
    /// Reads from a device, at an address without RAM. The pc in the state is that of the accessing instruction.
    fn device_in(&mut self, physical: u64, size: u32) -> u32;
    /// Writes to a device, at an address without RAM. The pc in the state is that of the accessing instruction.
    fn device_out(&mut self, physical: u64, size: u32, value: u32);
    /// A block is about to run. The core has not counted its `size` bytes in the [`Line`].
    fn block(&mut self, pc: u64, size: u32);
    /// Whether the block at this address must call [`Host::block`] at each run, whatever the count is. Asked when the
    /// block is decoded.
    fn always_wants(&mut self, pc: u64) -> bool;
    /// The exception with this number was raised. The state has the pc, and the data address if there is one. The host
    /// delivers the exception by changing the state.
    fn exception(&mut self, number: u32);
    /// An instruction reads the clock. The host writes the time to the general register whose number is in the state
    /// (`clock_to`).
    fn read_clock(&mut self);
    /// PA-RISC: the external interrupts that the machine requests, as bits of EIRR. Asked when an instruction reads EIRR.
    fn external_interrupts(&mut self) -> u32 {
        0
    }
    /// PA-RISC: an instruction writes control register 16, the comparator of the interval timer, or 23 (EIRR). `register` is the
    /// word of `mtctl r0` to it. The state has the instruction's pc and the register's old value.
    fn writes_control(&mut self, register: u32, value: u32) {
        let _ = (register, value);
    }
    /// A block was decoded from the page at this physical address. From now on [`Host::dropped`] must return the page after
    /// each write to it by anyone but this core.
    fn has_code(&mut self, page: u64);
    /// Takes the physical address of a page with blocks that anyone but this core has written to; `None` if there is no
    /// other one. The core drops the page's blocks (self-modifying code).
    fn dropped(&mut self) -> Option<u64>;
}
