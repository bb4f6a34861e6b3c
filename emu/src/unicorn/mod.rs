//! The CPU core, Unicorn: all unsafe code of the crate, behind a safe interface.
//!
//! [`engine`] runs code and makes callbacks, [`plain_hooks`] is what the benches compare with, [`ram`] is the memory
//! that the core and the machine share, [`crash`] contains what would end the process, [`surgery`] adds operations that
//! Unicorn's API lacks, [`cpus`] has the facts of each kind of CPU, `live` and `stores` make some operations faster, [`watched`]
//! reports accesses to memory, [`mod@line`] counts time. The facts behind
//! every design decision here are in docs/unicorn.md.

pub mod cpus;
pub mod crash;
pub mod engine;
pub mod kinds;
pub mod offsets;
pub mod own;
pub mod pages;
pub mod plain_hooks;
pub mod ram;
pub mod surgery;
pub mod witness;

mod ffi;
pub mod fields;
#[cfg(test)]
pub mod fills;
pub mod line;
pub(crate) mod live;
pub(crate) mod stores;
pub mod watched;
