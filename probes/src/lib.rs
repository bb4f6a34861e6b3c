//! The probe engine: registration, hits, jump optimisation, return probes, jprobes, tracepoints and events. It contains
//! no emulator and names no ISA. A program of another crate, such as a script, runs at hits through
//! [`program::HitProgram`].
//!
//! [`Engine`] holds the probes of one guest. It registers them through the trait [`guest::Guest`] and handles hits
//! through [`guest::Cpu`]. Both are implemented by the user of this crate, which also passes each trap to the engine.
#![no_std]
#![forbid(unsafe_code)]
// No panic is reachable from a guest, a file or a command line (SECURITY.md).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod blacklist;
mod breakpoint;
pub mod budget;
pub mod context;
mod counter;
mod decoded;
mod engine;
mod errno;
pub mod events;
mod faithful;
mod forward;
pub mod guest;
mod hash;
mod hit;
mod index;
mod instances;
mod jprobe;
mod jump;
mod lifecycle;
mod log;
mod members;
#[cfg(test)]
mod notes;
mod optimizer;
mod order;
mod paused;
mod place;
pub mod point;
pub mod probe;
pub mod program;
mod ready;
pub mod records;
mod register;
mod retprobe;
#[cfg(test)]
mod seams;
mod slots;
mod stepped;
mod surroundings;
mod take_out;
#[cfg(any(test, feature = "toy"))]
pub mod toy;
pub mod tracepoint;
pub mod unwind;
pub mod user;
mod views;
pub mod watch;
pub mod withdraw;

pub use engine::{Counts, Engine};
pub use errno::{Errno, Policy, Refusal};
pub use retprobe::Calls;
pub use take_out::TakenOut;
pub use views::{Misses, ProbeSummary};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
