//! gdb's view of a guest: a [`Timeline`](crate::history::timeline::Timeline) behind gdb's remote protocol, which the crate `gdbstub` speaks.
//!
//! A CPU is a thread. Breakpoints and watchpoints write nothing into the guest, so there may be any number of them, and
//! steps and stops change nothing. [`elf`] makes a file of the kernel's symbols for gdb.

mod callers;
pub mod cause;
pub mod elf;
mod files;
pub mod lists;
mod module_symbols;
mod monitor;
mod server;
mod sleepers;
mod target;

pub use server::{Patience, ServeError, Served, Streams, serve};
pub use target::Debugger;
