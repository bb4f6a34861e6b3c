//! The CPU core, Unicorn, behind a safe interface. All unsafe code of the crate is here.
//!
//! [`engine`] runs code and makes callbacks; start there. [`cpus`] has a file for each kind of CPU. [`ram`] is the guest's
//! memory, which the core and the machine share. [`mod@line`] is the interface to the time that translated code counts.
//! `cpu_location` finds the CPU state in the host's memory, and [`core_state`] saves, restores and edits it. `stores` keeps
//! stores on the core's fast path, [`watched`] reports accesses to watched memory, and [`crash`] contains crashes of the core.
//! [`own`] attaches CPU cores of our own. [`plain_hooks`] is Unicorn without all that, for the benches.
//!
//! The C code is in `translator/`. docs/unicorn.md gives the reasons for every design decision here.

pub mod core_state;
pub mod cpus;
pub mod crash;
pub mod engine;
pub mod kinds;
pub mod offsets;
pub mod own;
pub mod pages;
pub mod plain_hooks;
pub mod ram;
pub mod recording_events;

pub(crate) mod cpu_location;
mod ffi;
pub mod fields;
#[cfg(test)]
pub mod fills;
pub mod line;
pub(crate) mod stores;
pub mod watched;
