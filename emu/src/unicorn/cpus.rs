//! Unicorn's builds for each kind of CPU: the names of its functions, and state that only this kind has. No other file of
//! `unicorn/` names a kind of CPU.

pub mod arm;
pub mod arm64;
pub mod mips;
pub mod parisc;
pub mod ppc;
pub mod riscv;
pub mod s390;
pub mod sparc64;
pub mod x86;
