//! bpftrace's language over probes, with no BPF in it (BY-1): a script is compiled once, and runs at hits on the guest's own registers
//! and memory.
//!
//! `lex`, `parse` and `expression` read it into an `ast`; [`compile()`] makes a [`Program`] of that, by what
//! [`compile::Knowledge`] knows of the guest; [`run::State`] runs it at a [`run::Moment`] and keeps its maps; [`show`] writes them.

mod ast;
pub mod attach;
mod calls;
mod cat;
pub mod compile;
pub mod error;
mod expression;
mod facts;
mod format;
mod lex;
mod lookups;
mod map;
mod parse;
mod program;
pub mod run;
pub mod shape;
pub mod show;
mod software;
mod stored;
mod system_calls;
pub mod types;
mod values;

#[cfg(test)]
mod tests;

pub use compile::{Knowledge, Options, compile};
pub use error::ScriptError;
pub use program::{Block, MapFacts, Point, PointKind, Program};
pub use system_calls::Shown as SystemCallShown;
