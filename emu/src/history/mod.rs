//! Recorded runs, and the same runs again.
//!
//! A guest's run depends on its start and on the bytes that are typed on its console, and on nothing else. A recording
//! holds both ([`recording`]): a file of frames that is only ever appended to. [`tape`] is the one way to the console:
//! it types live input, or types again what a recording has, at exactly the same places. [`mark`] has the fingerprints
//! of the guest's state that a recording holds at intervals, and that its replay compares. [`timeline`] goes to any place of a
//! run, backwards too. [`past`] answers questions of scripts by one.

#[cfg(feature = "cpu")]
pub mod mark;
#[cfg(feature = "cpu")]
pub mod observer;
#[cfg(feature = "cpu")]
mod pages;
#[cfg(feature = "cpu")]
pub mod past;
pub mod recording;
#[cfg(feature = "cpu")]
pub mod tape;
#[cfg(feature = "cpu")]
pub mod timeline;
