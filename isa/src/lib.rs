//! The ISA library: decodes an instruction, decides whether it may be probed, and makes the copy that runs at another
//! address.
//!
//! It contains no emulator, no probe engine and no I/O. Each ISA has a folder with the same file names. Other crates
//! use an ISA through its table, [`arch::Isa`].
#![no_std]
#![forbid(unsafe_code)]
// No panic is reachable from a guest, a file or a command line (SECURITY.md).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo))]

extern crate alloc;
// Unit tests use the CPU state of `tests/bench`, which names this crate from outside.
#[cfg(test)]
extern crate self as trapline_isa;

pub mod abi;
pub mod arch;
pub mod arm;
pub mod arm64;
pub mod call;
pub mod detour;
pub mod entry;
pub mod function;
pub mod ia64;
pub mod insn;
pub mod linux;
pub mod mem;
pub mod mips;
pub mod operand;
pub mod parisc;
pub mod plan;
pub mod ppc;
pub mod region;
pub mod regs;
pub mod riscv;
pub mod rows;
pub mod s390;
pub mod sparc64;
pub mod x86;

#[cfg(test)]
#[path = "../tests/bench/state.rs"]
mod testing;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
