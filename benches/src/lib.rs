//! Shared code of the benchmark programs. The measurements themselves are in [`trapline::overhead`].

pub mod peer;
pub mod section;
pub mod user_time;
