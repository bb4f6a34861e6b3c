//! The machine: a simulated CPU, a board around it, the kernel that it runs, and the connection to the probe engine.
//!
//! Without the feature `cpu`, only the readers of files (boot, symbols, still) and the devices are built, without
//! Unicorn.

pub mod arches;
pub mod boards;
pub mod boot;
pub mod clock;
pub mod config;
pub mod devices;
pub mod error;
pub mod files;
pub mod snapshot;
pub mod still;
pub mod symbols;
pub mod unpacked;
pub mod unwind;

#[cfg(feature = "cpu")]
pub mod booted;
#[cfg(feature = "cpu")]
pub mod cli;
#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(feature = "cpu")]
pub mod machine;
#[cfg(feature = "cpu")]
pub mod overhead;
#[cfg(feature = "cpu")]
pub mod probed;
#[cfg(feature = "cpu")]
pub mod unicorn;
