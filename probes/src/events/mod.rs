//! `kprobe_events`: defines probes by lines of text in Linux's syntax and prints their records (DV-4).
//!
//! [`parse`] parses a line and [`args`] its arguments. [`fetch`] compiles the arguments to programs for one kernel,
//! which run at a hit. [`set::EventSet`] keeps the events and their probes. [`trace`] and [`json`] print the records.
//! [`filter`], [`triggers`] and [`hist`] are the files of these names; `watch.rs` runs them at a hit.

pub mod args;
mod attach;
mod digits;
pub mod error;
pub mod fetch;
mod fields;
pub use fields::FIRST_TYPE;
pub mod file_place;
pub mod filter;
pub mod format;
pub mod hist;
pub mod json;
pub mod memory;
mod names;
pub mod parse;
pub mod places;
pub mod set;
mod text;
pub mod trace;
pub mod triggers;
pub mod types;
pub mod watch;

#[cfg(test)]
mod attach_tests;
#[cfg(test)]
mod binding_tests;
#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod output_tests;
#[cfg(test)]
mod set_tests;
mod stop;
#[cfg(test)]
mod syntax_tests;
#[cfg(test)]
mod testing;
