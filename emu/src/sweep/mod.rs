//! A sweep probes every instruction that a run executes, in waves, and compares each probed run with the unprobed one.
//!
//! The unprobed run is recorded once, with its coverage (`verify::Reference`). `plan.rs` makes the waves of it. Machines in
//! several threads take one wave after the other (`workers.rs`). A wave whose run differs is reduced to the probes that
//! cause it (`reduce.rs`). Results are lines of JSON in a journal, so that a sweep that was killed goes on where it was;
//! a finished part is a file that appears whole (`part.rs`). `merge.rs` joins the parts of several computers.

pub mod emit;
pub mod merge;
pub mod part;
pub mod plan;
pub mod reduce;
pub mod refusal;
pub mod shard;
mod wave;
mod workers;

pub use wave::{Found, Wave};
pub use workers::{Again, News, run};

use crate::boot::Kernel;
use crate::verify::{Run, Side};
use serde::{Deserialize, Serialize};
use trapline_isa::plan::Policy;

/// The kind of the probes of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Kprobes with breakpoints.
    Kprobe,
    /// Kprobes with jumps, where they are possible.
    Optimised,
    /// Return probes, on functions.
    Return,
}

impl Kind {
    /// All kinds, in the order of their waves.
    pub const ALL: &[Kind] = &[Kind::Kprobe, Kind::Optimised, Kind::Return];

    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kprobe => "kprobe",
            Kind::Optimised => "optimised",
            Kind::Return => "return",
        }
    }
}

/// A source of equal guests at their start, for all threads of a sweep.
pub trait Guests: Sync {
    /// The guest of a side. `coverage` says whether it notes the blocks that run. An error is a reason to try again: the
    /// computer has no memory, for example.
    fn start(&self, side: Side, coverage: bool) -> Result<Box<dyn Run>, String>;

    /// The kernel with its text as it is at the start.
    fn kernel(&self) -> &Kernel;
}

/// The settings of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The kinds of probes.
    pub kinds: Vec<Kind>,
    /// The rules that decide about probes.
    pub policy: Policy,
    /// The largest number of probes of a wave.
    pub wave: usize,
    /// The guest time in nanoseconds at which all runs end at the latest.
    pub limit: u64,
    /// The number of threads, each with a machine.
    pub jobs: usize,
}
