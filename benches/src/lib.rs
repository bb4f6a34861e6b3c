//! Shared code of the benchmark programs: QEMU builds to compare with, sections of documents, and user times of processes.
//! [`trapline::overhead`] measures the cost of probes, and the programs in `bin/` measure all else.

pub mod peer;
pub mod section;
pub mod user_time;
