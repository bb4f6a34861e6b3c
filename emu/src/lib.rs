//! trapline: kernel probes on an emulated CPU.
//!
//! A [`Session`] boots a kernel in an emulated machine and probes it: kprobes, return probes and jprobes with the
//! semantics of Linux, lines of `kprobe_events`, and scripts in bpftrace's language. The probes are real breakpoints
//! and jumps in the guest's text. Virtual time counts only the guest's own code, so a probed run takes every interrupt
//! exactly where the unprobed run takes it.
//!
//! # A first program
//!
//! ```
//! use trapline::{Config, Flow, Kernel, Kprobe, Session, images};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // A small kernel that is built in. A file works as well: std::fs::read("vmlinux")?
//!     let kernel = Kernel::from_bytes(images::find("tiny/x86_64").ok_or("not built in")?.bytes)?;
//!     let mut session = Session::new(kernel, &Config::default())?;
//!
//!     let reads = Kprobe::at("vfs_read").pre(|hit| {
//!         println!("task {} reads {} bytes", hit.pid(), hit.arg(2));
//!         Flow::Continue
//!     });
//!     session.register_kprobe(&reads)?;
//!
//!     let stop = session.run_until(1_000_000_000); // nanoseconds of guest time
//!     println!("{} reads; the run ended by {stop:?}", reads.hits());
//!     assert!(reads.hits() > 0);
//!     Ok(())
//! }
//! ```
//!
//! # Concepts
//!
//! [`guide`] has a page for each: [machines](guide::machines), [probes](guide::probes), [handlers](guide::handlers),
//! [events](guide::events), [scripts](guide::scripts) and [snapshots](guide::snapshots).
//!
//! # Crates
//!
//! This crate re-exports what a program needs, so one dependency is enough: [`isa`] (instructions and ISAs), [`probes`]
//! (the probe engine), [`script`] (the script language) and [`images`] (built-in kernels). The first three are
//! `no_std`, contain no emulator, and can be used alone under MIT OR Apache-2.0. This crate is GPL-2.0-only, as the CPU
//! core is.
//!
//! Without the feature `cpu`, only the readers of files (boot, symbols, still) and the devices are built, without
//! Unicorn. The modules `cli`, `cpu`, `overhead` and `unicorn` serve the program, the benchmarks and the tests of
//! this repository. They are not part of the public interface.

// No panic is reachable from a guest, a file or a command line (SECURITY.md).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo))]

pub mod arches;
mod base64;
pub mod boards;
pub mod boot;
pub mod clock;
pub mod config;
pub mod devices;
pub mod disks;
pub mod error;
pub mod files;
#[cfg(feature = "cpu")]
pub mod folders;
mod frames;
pub mod history;
pub mod lines;
pub mod network;
pub mod outputs;
pub mod snapshot;
pub mod still;
pub mod symbols;
pub mod unpacked;
pub mod unwind;
pub mod vectors;

#[cfg(feature = "cpu")]
pub mod booted;
#[cfg(feature = "cpu")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "cpu")]
#[doc(hidden)]
pub mod cpu;
#[cfg(feature = "cpu")]
#[doc(hidden)]
pub mod debugger;
#[cfg(feature = "cpu")]
pub mod guide;
#[cfg(feature = "cpu")]
pub mod machine;
#[cfg(feature = "cpu")]
#[doc(hidden)]
pub mod overhead;
#[cfg(feature = "cpu")]
pub mod probed;
#[cfg(feature = "cpu")]
pub mod sweep;
#[cfg(feature = "cpu")]
pub mod tracefs;
#[cfg(feature = "cpu")]
#[doc(hidden)]
pub mod unicorn;
#[cfg(feature = "cpu")]
pub mod verify;

pub use boot::Kernel;
pub use clock::GuestTime;
pub use config::{Config, Draws};
#[cfg(feature = "cpu")]
pub use machine::Stop;
#[cfg(feature = "cpu")]
pub use probed::Session;
#[cfg(feature = "cpu")]
pub use trapline_images as images;
pub use trapline_isa as isa;
pub use trapline_isa::arch::Arch;
pub use trapline_probes as probes;
pub use trapline_probes::probe::{FaultInfo, Flow, Frame, Hit, Jprobe, Kprobe, Kretprobe, ReturnHit};
pub use trapline_probes::user::UserProbe;
pub use trapline_probes::{Engine, Errno, Policy, Refusal};
pub use trapline_script as script;
