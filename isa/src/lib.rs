//! What each instruction is, whether it may be probed, and how it may run somewhere else.
//!
//! Pure: no emulator, no engine, no I/O. One folder per ISA with the same rooms in each; [`arch::Isa`] is the table
//! through which everyone else sees one.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// Tests here and in `tests/` have one state of a CPU.
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
pub mod insn;
pub mod linux;
pub mod mem;
pub mod mips;
pub mod plan;
pub mod ppc;
pub mod region;
pub mod regs;
pub mod s390;
pub mod sparc64;
pub mod x86;

#[cfg(test)]
#[path = "../tests/bench/state.rs"]
mod testing;
