//! `kprobe_events`: probes made out of lines of text, and records printed as text (DV-4).
//!
//! A line is read by [`parse`], its arguments by [`args`]; [`fetch`] turns them into programs for one kernel, which run
//! at a hit. [`set::EventSet`] keeps the events and their probes, [`trace`] and [`json`] print what they recorded.

pub mod args;
mod attach;
mod digits;
pub mod error;
pub mod fetch;
pub mod format;
pub mod json;
pub mod parse;
pub mod places;
pub mod set;
mod text;
pub mod trace;
pub mod types;

#[cfg(test)]
mod attach_tests;
#[cfg(test)]
mod binding_tests;
#[cfg(test)]
mod output_tests;
#[cfg(test)]
mod set_tests;
#[cfg(test)]
mod syntax_tests;
#[cfg(test)]
mod testing;
