//! The gdb server. It puts gdb's remote protocol, which the crate `gdbstub` implements, in front of a
//! [`Timeline`](crate::history::timeline::Timeline): a guest's run that can go forwards and backwards.
//!
//! [`Debugger`] (`target.rs`) answers gdb's requests, and `monitor.rs` the commands after gdb's `monitor`. [`elf`] makes a file
//! of the kernel's symbols for gdb. gdb sees each CPU as a thread. Breakpoints, watchpoints and steps write nothing into the
//! guest and do not change its run, so their number is not limited.

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
