//! Errors of questions about source lines and variables.

use std::fmt;

/// The reason why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinesError {
    /// The file is no ELF file that trapline knows.
    NotElf(String),
    /// The file has no DWARF.
    NoDwarf(&'static str),
    /// The debug information is malformed.
    Malformed(String),
    /// The budget of work is spent.
    TooMuchWork,
    /// A place that cannot be read or found.
    Place(String),
    /// A variable or member that cannot be fetched.
    Variable(String),
}

impl fmt::Display for LinesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinesError::NotElf(why) => write!(f, "it is no ELF file that trapline can read: {why}"),
            LinesError::NoDwarf(why) => write!(f, "it has no debug information that trapline can read: {why}"),
            LinesError::Malformed(why) => write!(f, "its debug information is malformed: {why}"),
            LinesError::TooMuchWork => {
                f.write_str("its debug information needs more work than its size allows: it refers to itself")
            }
            LinesError::Place(why) | LinesError::Variable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for LinesError {}

impl From<gimli::Error> for LinesError {
    fn from(error: gimli::Error) -> LinesError {
        LinesError::Malformed(error.to_string())
    }
}

/// The result of a question.
pub type Answer<T> = Result<T, LinesError>;
