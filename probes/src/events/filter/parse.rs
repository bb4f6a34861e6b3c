//! The parser of filters: compiles the text to [`Step`]s. It reads the text once, with a stack of open brackets instead of
//! recursion, so that deeply nested brackets cannot overflow the host's stack. `&&` and `||` become conditional skips, whose
//! targets are filled in when the end of the term or of the bracket is reached.

use super::super::fields::{self, FieldRef};
use super::super::format::Format;
use super::super::text::{number, signed_number};
use super::{FilterCode, FilterError, MOST_TEXT, Operator, Pattern, Step, TEXT_LIMIT, Test, With};
use alloc::borrow::ToOwned;
use alloc::vec::Vec;

/// The operators in the order in which they are tried: `<=` before `<`.
const OPERATORS: &[(&str, Operator)] = &[
    ("~", Operator::Glob),
    ("!=", Operator::NotEqual),
    ("==", Operator::Equal),
    ("<=", Operator::AtMost),
    ("<", Operator::Less),
    (">=", Operator::AtLeast),
    (">", Operator::Greater),
    ("&", Operator::CommonBit),
];

/// The most characters of a number.
const NUMBER_LIMIT: usize = 24;

/// An expression that is being read: the whole text, or the inside of a bracket.
#[derive(Default)]
struct Open {
    /// Whether the bracket stands behind an odd number of `!`.
    inverted: bool,
    /// The `&&` of the present term that wait for the term's end.
    ands: Vec<usize>,
    /// The `||` that wait for the end of the expression.
    ors: Vec<usize>,
}

struct Parser<'a> {
    text: &'a [u8],
    format: &'a Format,
    word: usize,
    steps: Vec<Step>,
    open: Vec<Open>,
}

/// Compiles the text of a filter for an event with this format.
pub(super) fn filter(text: &str, format: &Format, word: usize) -> Result<Vec<Step>, FilterError> {
    if text.len() > MOST_TEXT {
        return Err(FilterError { code: FilterCode::TooLong, at: MOST_TEXT });
    }
    let text = text.as_bytes();
    balanced(text)?;
    let mut parser = Parser { text, format, word, steps: Vec::new(), open: Vec::from([Open::default()]) };
    parser.expression()?;
    Ok(parser.steps)
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn error<T>(code: FilterCode, at: usize) -> Result<T, FilterError> {
    Err(FilterError { code, at })
}

/// Checks quotes and brackets of the whole text first, as Linux does.
fn balanced(text: &[u8]) -> Result<(), FilterError> {
    let mut quote: Option<(u8, usize)> = None;
    let mut open = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        match (quote, byte) {
            (Some((end, _)), byte) if *byte == end => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some((*byte, at)),
            (None, b'(') => open.push(at),
            (None, b')') if open.pop().is_none() => return error(FilterCode::TooManyClosed, at),
            (None, _) => {}
        }
    }
    match (quote, open.last()) {
        (Some((_, at)), _) => error(FilterCode::MissingQuote, at),
        (None, Some(at)) => error(FilterCode::TooManyOpen, *at),
        (None, None) => Ok(()),
    }
}

impl Parser<'_> {
    fn at(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn expression(&mut self) -> Result<(), FilterError> {
        let (mut at, mut inverted, mut terms) = (0, false, 0_usize);
        loop {
            // A term, `!` or an opening bracket must follow.
            match self.at(at) {
                0 if at >= self.text.len() => {
                    let code = if terms == 0 { FilterCode::NoFilter } else { FilterCode::Meaningless };
                    return error(code, at);
                }
                byte if is_space(byte) => at += 1,
                b'(' => {
                    self.open.push(Open { inverted, ..Open::default() });
                    inverted = false;
                    at += 1;
                }
                b'!' if !matches!(self.at(at + 1), b'=' | b' ' | b'\t' | b'\n') => {
                    inverted = !inverted;
                    at += 1;
                }
                _ => {
                    at = self.test(at)?;
                    terms += 1;
                    if core::mem::take(&mut inverted) {
                        self.steps.push(Step::Not);
                    }
                    match self.behind_a_term(at)? {
                        Some(next) => at = next,
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    /// Reads `)`, and then `&&` or `||`. Returns the position of the next term, `None` at the end.
    fn behind_a_term(&mut self, mut at: usize) -> Result<Option<usize>, FilterError> {
        loop {
            match self.at(at) {
                0 if at >= self.text.len() => {
                    let last = self.open.pop();
                    self.close(last);
                    return Ok(None);
                }
                byte if is_space(byte) => at += 1,
                b')' => {
                    let inner = self.open.pop();
                    if self.open.is_empty() {
                        return error(FilterCode::TooManyClosed, at);
                    }
                    self.close(inner);
                    at += 1;
                }
                byte @ (b'&' | b'|') if self.at(at + 1) == byte => {
                    let step = self.steps.len();
                    let Some(open) = self.open.last_mut() else { return error(FilterCode::TooManyClosed, at) };
                    if byte == b'&' {
                        open.ands.push(step);
                        self.steps.push(Step::SkipIfFalse(usize::MAX));
                    } else {
                        // A false term goes on behind this `||`: here.
                        let ands = core::mem::take(&mut open.ands);
                        open.ors.push(step);
                        self.lead(&ands, step);
                        self.steps.push(Step::SkipIfTrue(usize::MAX));
                    }
                    return Ok(Some(at + 2));
                }
                _ => return error(FilterCode::TooManyTerms, at),
            }
        }
    }

    /// The end of an expression: all skips that wait for it lead here.
    fn close(&mut self, open: Option<Open>) {
        let Some(open) = open else { return };
        let end = self.steps.len();
        self.lead(&open.ands, end);
        self.lead(&open.ors, end);
        if open.inverted {
            self.steps.push(Step::Not);
        }
    }

    /// Sets the target of these skips.
    fn lead(&mut self, skips: &[usize], to: usize) {
        for skip in skips {
            if let Some(Step::SkipIfFalse(target) | Step::SkipIfTrue(target)) = self.steps.get_mut(*skip) {
                *target = to;
            }
        }
    }

    /// Reads a comparison. Returns the position behind it. The positions of errors count from 1, as Linux's do.
    fn test(&mut self, start: usize) -> Result<usize, FilterError> {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let mut at = self.skip(start, is_of_name);
        if at == start {
            return error(FilterCode::Unreadable, 0);
        }
        let name = core::str::from_utf8(self.text.get(start..at).unwrap_or_default()).unwrap_or_default();
        let Some(field) = fields::find(name, self.format, self.word) else {
            return error(FilterCode::FieldNotFound, at + 1);
        };
        let user = self.text.get(at..).is_some_and(|rest| rest.starts_with(b".ustring"));
        at = self.skip(if user { at + ".ustring".len() } else { at }, is_space);
        let rest = self.text.get(at..).unwrap_or_default();
        let Some((name, operator)) = OPERATORS.iter().find(|(name, _)| rest.starts_with(name.as_bytes())) else {
            return error(FilterCode::InvalidOperator, at + 1);
        };
        at = self.skip(at + name.len(), is_space);
        let (with, end) = match self.at(at) {
            b'"' | b'\'' => self.text_value(at, *operator, &field, user)?,
            b'-' | b'0'..=b'9' => self.number_value(at, *operator, &field)?,
            _ => return error(FilterCode::InvalidValue, at + 1),
        };
        self.steps.push(Step::Test(Test { field, with }));
        Ok(end)
    }

    fn skip(&self, mut at: usize, is_skipped: impl Fn(u8) -> bool) -> usize {
        while self.text.get(at).is_some_and(|byte| is_skipped(*byte)) {
            at += 1;
        }
        at
    }

    fn text_value(&self, at: usize, operator: Operator, field: &FieldRef, user: bool) -> Result<(With, usize), FilterError> {
        let mut inverted = match operator {
            Operator::NotEqual => true,
            Operator::Equal | Operator::Glob => false,
            _ => return error(FilterCode::IllegalFieldOperator, at + 1),
        };
        let is_at_address = user && field.is_address();
        if !field.is_text() && !is_at_address {
            return error(FilterCode::ExpectNumber, at + 1);
        }
        if field.kind == fields::Kind::Late {
            return error(FilterCode::IllegalFieldOperator, at + 1);
        }
        let quote = self.at(at);
        let end = self.skip(at + 1, |byte| byte != quote);
        let Some(text) = self.text.get(at + 1..end).filter(|_| end < self.text.len()) else {
            return error(FilterCode::MissingQuote, end + 1);
        };
        if text.len() >= TEXT_LIMIT {
            return error(FilterCode::OperandTooLong, end + 1);
        }
        let pattern = match (operator, text) {
            (Operator::Glob, [b'!', pattern @ ..]) => {
                inverted = true;
                Pattern::Glob(pattern.to_owned().into_boxed_slice())
            }
            (Operator::Glob, pattern) => Pattern::Glob(pattern.to_owned().into_boxed_slice()),
            _ => Pattern::Equal(text.to_owned().into_boxed_slice()),
        };
        let with = match is_at_address {
            true => With::TextAt { pattern, inverted, user },
            false => With::Text { pattern, inverted },
        };
        Ok((with, end + 1))
    }

    fn number_value(&self, at: usize, operator: Operator, field: &FieldRef) -> Result<(With, usize), FilterError> {
        if field.is_text() {
            return error(FilterCode::ExpectString, at + 1);
        }
        if operator == Operator::Glob {
            return error(FilterCode::IllegalFieldOperator, at + 1);
        }
        let digits = if self.at(at) == b'-' { at + 1 } else { at };
        let end = self.skip(digits, |byte| byte.is_ascii_alphanumeric());
        if end - at >= NUMBER_LIMIT {
            return error(FilterCode::OperandTooLong, end + 1);
        }
        let text = core::str::from_utf8(self.text.get(at..end).unwrap_or_default()).unwrap_or_default();
        let signed = matches!(field.kind, fields::Kind::Number { signed: true, .. });
        let value = if signed { signed_number(text).map(|value| value as u64) } else { number(text) };
        match value {
            Some(value) => Ok((With::Number(operator, value), end)),
            None => error(FilterCode::IllegalNumber, at + 1),
        }
    }
}
