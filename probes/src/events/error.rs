//! What is wrong with a line, where in it, and what to write instead.

use super::text::Piece;
use alloc::borrow::Cow;
use trapline_isa::plan::Errno;

/// A "no" to a line. `line[column..column + length]` is what it is about; a length of 0 means that something is missing
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventError {
    /// Bytes from the line's start: where Linux's `error_log` puts its caret.
    pub column: usize,
    /// How many bytes from there are wrong.
    pub length: usize,
    /// Which rule is broken.
    pub code: Code,
    /// One sentence: why, and what to write instead.
    pub message: Cow<'static, str>,
    /// What writing the line to the kernel's file gives.
    pub errno: Errno,
}

impl EventError {
    pub(super) fn new(about: Piece<'_>, code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        let (column, length) = (about.column, about.text.len());
        EventError { column, length, code, message: message.into(), errno: Errno::EINVAL }
    }

    pub(super) fn with_errno(self, errno: Errno) -> Self {
        EventError { errno, ..self }
    }
}

impl core::fmt::Display for EventError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({} at column {}): {}", self.errno.name(), self.code.name(), self.column + 1, self.message)
    }
}

impl core::error::Error for EventError {}

/// A part of a line. Two are always equal: where something was written does not change what it means.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// Bytes from the line's start.
    pub column: usize,
    /// How many bytes the part has.
    pub length: usize,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

impl Span {
    pub(super) fn of(piece: Piece<'_>) -> Span {
        Span { column: piece.column, length: piece.text.len() }
    }

    pub(super) fn error(self, code: Code, message: impl Into<Cow<'static, str>>) -> EventError {
        EventError { column: self.column, length: self.length, code, message: message.into(), errno: Errno::EINVAL }
    }
}

macro_rules! codes {
    ($($name:ident),* $(,)?) => {
        /// The rules that a line can break, by the names that Linux has for them; those at the end are our own.
        #[allow(missing_docs, non_camel_case_types)] // their names are their meaning
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($name),* }

        impl Code {
            /// `BAD_MAXACT`
            pub const fn name(self) -> &'static str {
                match self { $(Code::$name => stringify!($name)),* }
            }
        }
    };
}

codes! {
    MAXACT_NO_KPROBE, BAD_MAXACT, MAXACT_TOO_BIG, BAD_PROBE_ADDR, NON_UNIQ_SYMBOL, BAD_RETPROBE, BAD_ADDR_SUFFIX, NO_GROUP_NAME,
    GROUP_TOO_LONG, BAD_GROUP_NAME, NO_EVENT_NAME, EVENT_TOO_LONG, BAD_EVENT_NAME, EVENT_TOO_BIG, RETVAL_ON_PROBE, BAD_STACK_NUM,
    BAD_ARG_NUM, BAD_VAR, BAD_REG_NAME, BAD_MEM_ADDR, BAD_IMM, IMMSTR_NO_CLOSE, FILE_ON_KPROBE, TOO_MANY_OPS, DEREF_NEED_BRACE,
    BAD_DEREF_OFFS, DEREF_OPEN_BRACE, COMM_CANT_DEREF, BAD_FETCH_ARG, ARRAY_NO_CLOSE, BAD_ARRAY_SUFFIX, BAD_ARRAY_NUM,
    ARRAY_TOO_BIG, BAD_TYPE, BAD_STRING, BAD_SYMSTRING, BAD_BITFIELD, NEED_STRING_TYPE, TOO_MANY_ARGS, ARG_NAME_TOO_LONG,
    NO_ARG_NAME, BAD_ARG_NAME, USED_ARG_NAME, ARG_TOO_LONG, NO_ARG_BODY, BAD_INSN_BNDRY, FAIL_REG_PROBE, DIFF_PROBE_TYPE,
    DIFF_ARG_TYPE, SAME_PROBE,
    // Linux refuses these without a word.
    BAD_COMMAND, NO_PROBE_ADDR, NO_SUCH_EVENT, EVENT_IN_USE,
    // Linux has no such events.
    BAD_JPROBE,
}
