//! The kinds of memory access of IA-64: speculation, order, and the update of the base register.
//!
//! [`Early`] says whether a load may run before it is known to be needed or safe. [`Order`] is the acquire or release
//! semantics, and [`After`] is the increment of the address. Loads and stores of [`Op`](super::Op) combine them.

use super::Value;

/// The way in which a load may be early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// An ordinary load.
    No,
    /// Speculative: a fault sets NaT instead.
    Speculative,
    /// Advanced: an entry of the ALAT is made.
    Advanced,
    /// Speculative and advanced (`ld.sa`).
    SpeculativeAdvanced,
    /// A check that clears the entry: loads only if the ALAT has none.
    CheckClear,
    /// A check that keeps the entry.
    CheckKeep,
}

/// The change of the base register behind an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// None.
    Nothing,
    /// A number or register is added.
    Add(Value),
}

/// The order of an access among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// None.
    Free,
    /// Acquire.
    Acquire,
    /// Release.
    Release,
    /// A hint that a store follows.
    Bias,
}
