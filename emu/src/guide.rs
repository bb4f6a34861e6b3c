//! A page for each concept of the library. The programs on these pages are tests: they run on the built-in kernel
//! `tiny/x86_64`.
//!
//! | page | answers |
//! |---|---|
//! | [`machines`] | which kernel runs on which machine, how long, and why a run ends |
//! | [`probes`] | which probes there are, and where they may be |
//! | [`handlers`] | what a handler can read and change |
//! | [`events`] | probes from lines of `kprobe_events`, and their records |
//! | [`scripts`] | scripts in bpftrace's language |
//! | [`snapshots`] | saving a machine and going back to it |

#[doc = include_str!("guide/machines.md")]
pub mod machines {}

#[doc = include_str!("guide/probes.md")]
pub mod probes {}

#[doc = include_str!("guide/handlers.md")]
pub mod handlers {}

#[doc = include_str!("guide/events.md")]
pub mod events {}

#[doc = include_str!("guide/scripts.md")]
pub mod scripts {}

#[doc = include_str!("guide/snapshots.md")]
pub mod snapshots {}
