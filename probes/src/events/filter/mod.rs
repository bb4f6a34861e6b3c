//! Filters: conditions on the fields of a record, in Linux's language (`count > 4 && comm ~ "s*"`).
//!
//! [`Filter::parse`] compiles the text for one event. [`Filter::matches`] decides at a hit, without allocation. A
//! position in a [`FilterError`] is the one that Linux reports.

pub mod glob;
mod parse;
mod set;
#[cfg(test)]
mod tests;

use super::fields::{FieldRef, Kind, Place, Sample, read_string};
use super::format::Format;
use crate::guest::Cpu;
use alloc::boxed::Box;
use core::fmt;

/// The longest text of a filter, in bytes.
pub const MOST_TEXT: usize = 4095;
/// Strings in filters are shorter than this, in bytes.
pub const TEXT_LIMIT: usize = 256;

/// A filter of one event.
#[derive(Clone, Debug)]
pub struct Filter {
    steps: Box<[Step]>,
}

/// A step of a filter's program. It works on one truth value.
#[derive(Clone, Debug)]
enum Step {
    /// Replaces the truth value by that of a comparison.
    Test(Test),
    Not,
    /// Continues at this step if the value is false.
    SkipIfFalse(usize),
    /// Continues at this step if the value is true.
    SkipIfTrue(usize),
}

/// A comparison of a field.
#[derive(Clone, Debug)]
struct Test {
    field: FieldRef,
    with: With,
}

#[derive(Clone, Debug)]
enum With {
    Number(Operator, u64),
    Text {
        pattern: Pattern,
        inverted: bool,
    },
    /// The text at the address in the field.
    TextAt {
        pattern: Pattern,
        inverted: bool,
        user: bool,
    },
}

#[derive(Clone, Debug)]
enum Pattern {
    Equal(Box<[u8]>),
    Glob(Box<[u8]>),
}

/// An operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Glob,
    NotEqual,
    Equal,
    AtMost,
    Less,
    AtLeast,
    Greater,
    CommonBit,
}

macro_rules! codes {
    ($($name:ident: $why:literal),* $(,)?) => {
        /// The rule that a filter breaks.
        #[allow(missing_docs)] // their sentences are below
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FilterCode { $($name),* }

        impl FilterCode {
            /// The reason, and what to write instead.
            pub const fn why(self) -> &'static str {
                match self { $(FilterCode::$name => $why),* }
            }
        }
    };
}

codes! {
    FieldNotFound: "the event has no field of this name: its file `format` lists the fields; CPU, COMM and common_pid are there too",
    InvalidOperator: "after the field write ==, !=, <, <=, >, >=, & or ~",
    IllegalFieldOperator: "strings are compared by ==, != and ~, numbers by all others",
    ExpectNumber: "the field is a number: write the value without quotes",
    ExpectString: "the field is a string: write the value in quotes",
    MissingQuote: "the text is not closed: write the same quote behind it",
    OperandTooLong: "a text has at most 255 bytes, and a number at most 23 characters",
    IllegalNumber: "this is no number of the field's kind: write 10, 0x1f or 017, and a minus only for signed fields",
    InvalidValue: "write a number, or a text in quotes",
    TooManyOpen: "a '(' is not closed: write a ')'",
    TooManyClosed: "this ')' closes nothing: remove it",
    TooManyTerms: "between two comparisons write && or ||",
    Meaningless: "the expression ends where a comparison is missing",
    NoFilter: "there is no comparison in it: write FIELD == VALUE, or 0 for no filter",
    Unreadable: "a comparison begins with a field's name",
    TooLong: "a filter has at most 4095 bytes",
}

/// A refused filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The broken rule.
    pub code: FilterCode,
    /// The position that Linux reports, in bytes.
    pub at: usize,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EINVAL at column {}: {}", self.at + 1, self.code.why())
    }
}

impl core::error::Error for FilterError {}

impl Filter {
    /// Compiles a filter for an event with this format, on a kernel with words of this many bytes.
    pub fn parse(text: &str, format: &Format, word: usize) -> Result<Filter, FilterError> {
        parse::filter(text, format, word).map(|steps| Filter { steps: steps.into_boxed_slice() })
    }

    /// Whether the record fulfils the filter.
    pub fn matches(&self, sample: &Sample<'_>, cpu: &mut dyn Cpu) -> bool {
        let (mut at, mut is_so) = (0, true);
        while let Some(step) = self.steps.get(at) {
            at += 1;
            match step {
                Step::Test(test) => is_so = test.holds(sample, cpu),
                Step::Not => is_so = !is_so,
                Step::SkipIfFalse(to) if !is_so => at = *to,
                Step::SkipIfTrue(to) if is_so => at = *to,
                Step::SkipIfFalse(_) | Step::SkipIfTrue(_) => {}
            }
        }
        is_so
    }
}

impl Test {
    fn holds(&self, sample: &Sample<'_>, cpu: &mut dyn Cpu) -> bool {
        match &self.with {
            With::Number(operator, value) => match self.field.kind {
                Kind::Number { size, signed } => {
                    operator.holds(cut(sample.number(&self.field), size, signed), cut(*value, size, signed), signed)
                }
                // Linux compares no arrays.
                _ => false,
            },
            With::Text { pattern, inverted } => pattern.matches(sample.text(&self.field)) != *inverted,
            With::TextAt { pattern, inverted, user } => {
                let mut into = [0; TEXT_LIMIT];
                match read_string(cpu, *user, sample.number(&self.field), &mut into) {
                    Some(text) => pattern.matches(text) != *inverted,
                    None => false,
                }
            }
        }
    }
}

/// A number in the field's own width.
fn cut(value: u64, size: u8, signed: bool) -> u64 {
    let unused = 64 - 8 * u32::from(size.clamp(1, 8));
    if signed { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused }
}

impl Operator {
    fn holds(self, field: u64, value: u64, signed: bool) -> bool {
        let order = if signed { (field as i64).cmp(&(value as i64)) } else { field.cmp(&value) };
        match self {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::AtMost => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::AtLeast => order.is_ge(),
            Operator::CommonBit => field & value != 0,
            Operator::Glob => false,
        }
    }
}

impl Pattern {
    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Pattern::Equal(wanted) => **wanted == *text,
            Pattern::Glob(pattern) => glob::matches(pattern, text),
        }
    }
}

impl FieldRef {
    /// Whether filters take the field for a string.
    fn is_text(&self) -> bool {
        self.kind == Kind::Text || self.kind == Kind::Late
    }

    /// Whether the field holds an address of its own, so that `.ustring` makes sense.
    fn is_address(&self) -> bool {
        matches!((self.place, self.kind), (Place::Value(_), Kind::Number { size: 4 | 8, .. }))
    }
}
