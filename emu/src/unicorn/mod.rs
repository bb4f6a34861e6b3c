//! The CPU core, Unicorn: the only unsafe code of the house, behind a face that cannot be used wrongly.
//!
//! [`engine`] runs code and calls back, [`plain_hooks`] is what the benches compare with, [`ram`] is the memory both
//! sides see, [`crash`] contains what would end the process, [`surgery`] does what Unicorn's API lacks, `live` and `stores` what it does too slowly, [`mod@line`]
//! counts time. The facts behind every choice here are in docs/unicorn.md.

pub mod arm;
pub mod arm64;
pub mod crash;
pub mod engine;
pub mod kinds;
pub mod mips;
pub mod plain_hooks;
pub mod ppc;
pub mod ram;
pub mod s390;
pub mod sparc64;
pub mod surgery;
pub mod witness;
pub mod x86;

mod ffi;
pub mod fields;
#[cfg(test)]
pub mod fills;
pub mod line;
mod live;
mod stores;
