//! One file for each kind of CPU: its [`Library`](super::kinds::Library), which is a build of Unicorn or a core of our own,
//! and access to registers that only this kind has. No other Rust file of `unicorn/` names a kind of CPU.

pub mod arm;
pub mod arm64;
pub mod ia64;
pub mod mips;
pub mod parisc;
pub mod ppc;
pub mod riscv;
pub mod s390;
pub mod sparc64;
pub mod x86;
