//! bpftrace's language on the probe engine of `trapline-probes`, without BPF (BY-1). A script is compiled once. Its
//! blocks run as handlers of probes, on the guest's registers and memory. The engine knows nothing of scripts:
//! [`attach::Running`] implements the trait [`trapline_probes::program::HitProgram`].
//!
//! Parsing: `lex` and the files whose names begin with `parse`, and `expression`, read the text into an `ast`.
//! Compiling: [`compile()`] makes a [`Program`] of the `ast`, with what [`Knowledge`] says about the guest. Attach
//! points are compiled in `points`, statements in `statements`, expressions in `values` and the files that it calls.
//! Running: [`run::State`] runs a block in one of the `contexts` and keeps the maps. `acts`, `numbers` and `strings`
//! execute the program. Output: [`show`] and `show_maps` write values and maps as text or JSON.

#![no_std]
#![forbid(unsafe_code)]
// No panic is reachable from a guest, a file or a command line (SECURITY.md).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod actions;
mod acts;
mod ast;
pub mod attach;
mod builtins;
mod calls;
mod cat;
pub mod compile;
mod contexts;
pub mod error;
mod expression;
mod facts;
mod format;
mod known;
mod lex;
mod lookups;
mod map;
mod map_types;
mod numbers;
mod objects;
mod operators;
mod parse;
mod parse_statements;
mod parse_types;
pub mod past;
mod points;
mod prints;
mod program;
pub mod run;
pub mod shape;
pub mod show;
mod show_maps;
mod software;
mod statements;
mod stored;
mod strings;
mod system_calls;
mod times;
pub mod types;
mod user_points;
mod values;
mod watchpoints;

#[cfg(test)]
mod tests;

pub use compile::{Knowledge, Options, budget, compile, compile_within};
pub use error::ScriptError;
pub use program::{Block, MapFacts, Point, PointKind, Program};
pub use system_calls::Shown as SystemCallShown;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
