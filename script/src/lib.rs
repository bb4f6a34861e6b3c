//! bpftrace's language over probes, with no BPF in it (BY-1): a script is compiled once, and runs at hits on the
//! guest's own registers and memory.
//!
//! `lex`, the rooms that begin with `parse`, and `expression` read it into an `ast`. [`compile()`] makes a [`Program`]
//! of that, by what [`compile::Knowledge`] knows of the guest: attach points in `points`, statements in `statements`,
//! values in `values` and what it calls. [`run::State`] runs it at one of the `moments` and keeps its maps: `acts`,
//! `numbers` and `strings` do what a program says. [`show`] and `show_maps` write what comes of it.

#![no_std]
#![forbid(unsafe_code)]

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
pub mod error;
mod expression;
mod facts;
mod format;
mod known;
mod lex;
mod lookups;
mod map;
mod map_types;
mod moments;
mod numbers;
mod objects;
mod operators;
mod parse;
mod parse_statements;
mod parse_types;
mod points;
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
mod values;

#[cfg(test)]
mod tests;

pub use compile::{Knowledge, Options, budget, compile, compile_within};
pub use error::ScriptError;
pub use program::{Block, MapFacts, Point, PointKind, Program};
pub use system_calls::Shown as SystemCallShown;
