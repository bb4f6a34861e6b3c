//! Refusals: the errno that Linux returns, and a sentence for the user.

pub use trapline_isa::plan::{Errno, Policy, Refusal};

use crate::guest::Symbol;
use alloc::string::String;

/// Refuses with an errno and a reason that names a value.
pub(crate) fn refused<T>(errno: Errno, why: String) -> Result<T, Refusal> {
    Err(Refusal::because(errno, why))
}

/// The refusal of an operation on a probe that the engine does not know.
pub(crate) const NOT_REGISTERED: Refusal = Refusal::new(Errno::EINVAL, "this probe is not registered; register it first");

/// An address in kallsyms style: `vfs_read+0x4`.
pub(crate) fn place(symbol: &Symbol, address: u64) -> String {
    match address.wrapping_sub(symbol.start) {
        0 => symbol.name.clone(),
        offset => alloc::format!("{}+{offset:#x}", symbol.name),
    }
}
