//! What is wrong with a script, where in it, and what to write instead.

use alloc::borrow::Cow;

/// A part of a script, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// Behind the last one.
    pub end: usize,
}

impl Span {
    /// From the start of the one to the end of the other.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }

    /// A "no" about this part.
    pub fn error(self, message: impl Into<Cow<'static, str>>) -> ScriptError {
        ScriptError { at: self, message: message.into() }
    }
}

/// A "no" to a script, or a warning about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// What it is about; an empty part: something is missing there.
    pub at: Span,
    /// One sentence: why, and what to write instead.
    pub message: Cow<'static, str>,
}

impl core::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "byte {}: {}", self.at.start, self.message)
    }
}

impl core::error::Error for ScriptError {}
