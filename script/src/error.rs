//! Errors of scripts: the message and the position.

use alloc::borrow::Cow;

/// A range of the script's text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The end: one past the last byte.
    pub end: usize,
}

impl Span {
    /// The range from the start of the first span to the end of the second.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }

    /// An error about this range.
    pub fn error(self, message: impl Into<Cow<'static, str>>) -> ScriptError {
        ScriptError { at: self, message: message.into() }
    }
}

/// An error in a script, or a warning about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The range it is about. An empty range means that something is missing there.
    pub at: Span,
    /// One sentence that says what is wrong and what to write instead.
    pub message: Cow<'static, str>,
}

impl core::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "byte {}: {}", self.at.start, self.message)
    }
}

impl core::error::Error for ScriptError {}
