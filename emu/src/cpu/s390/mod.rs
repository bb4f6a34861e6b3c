//! z/Architecture: the core, where it keeps its state, and the proof that both do what they are used for.

pub mod check;
pub mod core;
pub mod state;
