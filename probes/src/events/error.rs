//! Errors of event lines: the position, the error code that Linux uses, and what to write instead.

use super::text::Piece;
use alloc::borrow::Cow;
use trapline_isa::plan::Errno;

/// A refused line. `line[column..column + length]` is the faulty part. A length of 0 means that something is missing
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventError {
    /// Offset in bytes from the line's start. Linux's `error_log` puts its caret there.
    pub column: usize,
    /// Number of faulty bytes.
    pub length: usize,
    /// The rule that was broken.
    pub code: Code,
    /// One sentence: the reason, and what to write instead.
    pub message: Cow<'static, str>,
    /// The errno that Linux returns when the line is written to `kprobe_events`.
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

/// A part of a line. All spans compare equal, so that definitions are equal if only positions differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// Offset in bytes from the line's start.
    pub column: usize,
    /// Length in bytes.
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
        /// The error codes of event lines, under Linux's names. The last ones are our own.
        #[allow(missing_docs, non_camel_case_types)] // their names are their meaning
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($name),* }

        impl Code {
            /// The name, such as `BAD_MAXACT`.
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
    BAD_DEREF_OFFS, DEREF_OPEN_BRACE, COMM_CANT_DEREF, SYM_ON_UPROBE, BAD_REFCNT, BAD_FETCH_ARG, ARRAY_NO_CLOSE, BAD_ARRAY_SUFFIX, BAD_ARRAY_NUM,
    ARRAY_TOO_BIG, BAD_TYPE, BAD_STRING, BAD_SYMSTRING, BAD_BITFIELD, NEED_STRING_TYPE, TOO_MANY_ARGS, ARG_NAME_TOO_LONG,
    NO_ARG_NAME, BAD_ARG_NAME, USED_ARG_NAME, ARG_TOO_LONG, NO_ARG_BODY, BAD_INSN_BNDRY, FAIL_REG_PROBE, DIFF_PROBE_TYPE,
    DIFF_ARG_TYPE, SAME_PROBE,
    // Linux refuses these without an error code.
    BAD_COMMAND, NO_PROBE_ADDR, NO_SUCH_EVENT, EVENT_IN_USE,
    // Linux has no jprobe events.
    BAD_JPROBE,
    // Errors of watch events.
    BAD_ACCESS, BAD_ACCESS_LEN,
}
