//! PA-RISC 1.1, and 2.0's 32-bit instructions: integer and system instructions, address translation by a TLB that the
//! guest fills, interruptions. Floating point and coprocessors raise the assist emulation trap.
//!
//! The CPU has a queue of two program counters. `front` runs now, `back` runs next; a branch changes what enters the
//! queue behind back. An instruction can nullify the next one.

mod access;
mod blocks;
mod decode;
mod execute;
#[cfg(test)]
mod protection_tests;
mod quick;
#[cfg(test)]
mod quick_tests;
mod run;
mod state;
mod straight;
mod system;
mod tlb;

pub use run::Core;
pub use state::{SAVED, State, number};
pub use tlb::{BLOCKS, Block, Blocks, ENTRIES, Entry, Purpose, Tlb};

/// Bits of the PSW, by the architecture's letters.
pub mod psw {
    /// External interrupts are enabled.
    pub const I: u32 = 1;
    /// Data addresses are translated.
    pub const D: u32 = 1 << 1;
    /// Protection identifiers are checked.
    pub const P: u32 = 1 << 2;
    /// Interruptions save the state.
    pub const Q: u32 = 1 << 3;
    /// The carry bits.
    pub const CARRIES: u32 = 0xff00;
    /// Code addresses are translated.
    pub const C: u32 = 1 << 18;
    /// The divide step's bit.
    pub const V: u32 = 1 << 17;
    /// The next instruction is nullified.
    pub const N: u32 = 1 << 21;
    /// The interval timer is secret: only the kernel reads it.
    pub const S: u32 = 1 << 25;
    /// Bits that `ssm`, `rsm` and `mtsm` change.
    pub const SYSTEM_MASK: u32 = 0xff;
}
