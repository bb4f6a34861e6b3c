//! CPU cores in safe Rust, for ISAs that no emulator library has.
//!
//! A core is a state of named fields and an interpreter of decoded blocks. It runs until it is told to stop, and leaves
//! everything outside of the CPU to its [`Host`]: memory, devices, exceptions, and the clock.
//!
//! A block is a straight run of instructions in one page, with a branch and its delay slot at the end. Before a block
//! runs, the core counts its bytes, or calls the host if the count says so. The state is exact whenever the host is called.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo))]

extern crate alloc;

pub mod parisc;

use core::cell::Cell;

/// The words in which blocks count time.
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

/// A load or a store of RAM that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address of the instruction.
    pub pc: u32,
    /// The data address.
    pub address: u32,
    /// The physical address.
    pub physical: u64,
    /// The number of bytes: 1, 2 or 4.
    pub size: u32,
    /// Whether it is a store.
    pub is_store: bool,
    /// The number in memory before it.
    pub before: u32,
    /// The number that was loaded or stored.
    pub value: u32,
}

/// Everything that is not the CPU.
pub trait Host {
    /// Whether the core calls [`Host::accesses`] and [`Host::accessed`]. If false, they cost nothing.
    const TELLS: bool = false;
    /// The instruction at `pc` is about to load from an address or to store to it. No exception prevents that.
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
    /// Reads from a device. The front of the queue is the address of the instruction.
    fn device_in(&mut self, physical: u64, size: u32) -> u32;
    /// Writes to a device.
    fn device_out(&mut self, physical: u64, size: u32, value: u32);
    /// A block is about to run. The core has not counted its `size` bytes in the [`Line`].
    fn block(&mut self, pc: u64, size: u32);
    /// Whether the block at this address must call [`Host::block`] at each run, whatever the count is. Asked when the
    /// block is decoded.
    fn always_wants(&mut self, pc: u64) -> bool;
    /// An exception was raised. The state says where and why. The host delivers it by changing the state.
    fn exception(&mut self, number: u32);
    /// A read of the clock: the host sets the register whose number is in the state.
    fn read_clock(&mut self);
    /// A block was decoded from the page at this physical address. From now on [`Host::dropped`] must report writes to
    /// the page by anyone but this core.
    fn has_code(&mut self, page: u64);
    /// Takes a page of RAM that anyone but this core may have written to, by its physical address. `None` if no such
    /// page is left. The core then drops the page's blocks.
    fn dropped(&mut self) -> Option<u64>;
}
