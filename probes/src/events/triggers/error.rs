//! The error of a refused trigger: its filter, its histogram or another reason, with the errno that Linux returns.
//!
//! Writing a trigger returns a [`TriggerError`]. Its text is for users.

use crate::events::filter::FilterError;
use crate::events::hist::{HistCode, HistError};
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use core::fmt;
use trapline_isa::plan::{Errno, Refusal};

/// A refused trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerError {
    /// Its filter is wrong.
    Filter {
        /// The text of the filter.
        text: String,
        /// The error in it.
        error: FilterError,
    },
    /// Its histogram is wrong.
    Hist(HistError),
    /// Another reason.
    Refused(Errno, Cow<'static, str>),
}

impl TriggerError {
    /// The errno that Linux returns.
    pub fn errno(&self) -> Errno {
        match self {
            TriggerError::Hist(HistError { code: HistCode::Exists, .. }) => Errno::EEXIST,
            TriggerError::Hist(HistError { code: HistCode::DoesNotExist, .. }) => Errno::ENOENT,
            TriggerError::Filter { .. } | TriggerError::Hist(_) => Errno::EINVAL,
            TriggerError::Refused(errno, _) => *errno,
        }
    }
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TriggerError::Filter { text, error } => write!(f, "the filter `{text}`: {error}"),
            TriggerError::Hist(error) => write!(f, "{}: {error}", self.errno().name()),
            TriggerError::Refused(errno, why) => write!(f, "{}: {why}", errno.name()),
        }
    }
}

impl core::error::Error for TriggerError {}

impl From<HistError> for TriggerError {
    fn from(error: HistError) -> Self {
        TriggerError::Hist(error)
    }
}

/// Fails with an errno and a sentence.
pub(super) fn refused<T>(errno: Errno, why: impl Into<Cow<'static, str>>) -> Result<T, TriggerError> {
    Err(TriggerError::Refused(errno, why.into()))
}

/// The refusal of a probe, as an error of the trigger that needs it.
pub(super) fn of_probe(refusal: Refusal) -> TriggerError {
    TriggerError::Refused(refusal.errno, refusal.to_string().into())
}
