//! gdb's view of a guest: a [`Timeline`](crate::history::timeline::Timeline) behind gdb's remote protocol, which the crate `gdbstub` speaks.
//!
//! A CPU is a thread. Breakpoints and watchpoints write nothing into the guest, so there may be any number of them, and
//! steps and stops change nothing. [`elf`] makes a file of the kernel's symbols for gdb.

mod callers;
pub mod cause;
pub mod elf;
pub mod lists;
mod monitor;
mod server;
mod target;

pub use server::{Patience, ServeError, Served, Streams, serve};
pub use target::Debugger;
