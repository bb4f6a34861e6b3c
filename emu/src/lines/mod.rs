//! Source lines and variables of a kernel, out of DWARF or BTF: which addresses a source line has, which lines and
//! inlined calls an address has, and where a variable or a member of it lies, as an argument of `kprobe_events`.
//!
//! [`DebugFile`] reads a file, [`Info`] answers questions about it, [`expand`] turns the lines of `perf probe` into lines
//! of `kprobe_events`. Any bytes give an answer or an error: each question has a budget of work.

pub mod chains;
pub mod coverage;
pub mod error;
pub mod expand;
pub mod file;
pub mod locations;
pub mod names;
pub mod packed;
pub mod placed;
pub mod places;
pub mod ranges;
pub mod rows;
pub mod scopes;
pub mod types;
pub mod units;
pub mod variables;

pub use error::{Answer, LinesError};
pub use file::DebugFile;
pub use scopes::Frame;
pub use units::Info;
