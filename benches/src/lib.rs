//! Benches, budgets and the document of overheads; what they measure is in [`trapline::overhead`].

pub mod section;
pub mod user_time;
