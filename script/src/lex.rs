//! Splits a script into words (tokens) and handles `#` lines on the way.
//!
//! The parser asks for one word at a time, because an attach point has a syntax of its own: `kprobe:vfs_*` is read by
//! [`Lexer::attach_part`]. A name from a `#define` is replaced by the words of its definition.
//!
//! This file reads words ([`Token`]). `lex/literals.rs` has numbers and strings, and `lex/directives.rs` the `#` lines.

mod directives;
mod literals;

pub(super) use literals::time;

use super::error::{ScriptError, Span};
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use directives::Branch;
use trapline_probes::budget::Budget;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A name or a keyword.
    Name(String),
    /// A variable, `$name`.
    Variable(String),
    /// A map, `@name`. The name of `@` is empty.
    Map(String),
    /// A positional parameter, `$1`.
    Positional(u32),
    /// The number of positional parameters, `$#`.
    PositionalCount,
    /// A number. A suffix of time is already multiplied: `1ms` is 1,000,000.
    Number(u64),
    /// A string, with its escapes decoded.
    Text(Vec<u8>),
    /// An operator or a bracket.
    Sign(&'static str),
    /// The end of the script.
    End,
}

impl Word {
    /// The length of its text, in bytes.
    fn bytes(&self) -> usize {
        match self {
            Word::Name(name) | Word::Variable(name) | Word::Map(name) => name.len(),
            Word::Text(text) => text.len(),
            _ => 0,
        }
    }
}

/// A token and its position.
#[derive(Clone, Debug)]
pub struct Token {
    pub word: Word,
    pub at: Span,
}

/// The operators and brackets, longest first, so that the first match is the right one.
const SIGNS: &[&str] = &[
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=",
    "|=", "^=", "..", "{", "}", "(", ")", "[", "]", ",", ";", ":", "?", ".", "=", "<", ">", "+", "-", "*", "/", "%", "&", "|",
    "^", "!", "~",
];

/// The message for a script that has spent its budget.
pub(super) const TOO_MUCH: &str =
    "this script takes more work than a script of its length may: write less into its macros, #defines and patterns";

/// The longest name, in bytes. No symbol of a kernel has a longer one. Each macro expansion copies the names of its
/// variables.
pub(super) const LONGEST_NAME: usize = 512;

/// The number of steps that a word from a `#define` costs. Reading the script itself costs one step per byte.
const STEPS_A_WORD: u64 = 16;

/// The lexer: a position in the script's text and the state of its `#` lines.
pub struct Lexer<'a> {
    text: &'a str,
    /// The offset of the next byte to be read.
    at: usize,
    /// Whether only white space has been seen in this line so far.
    line_starts: bool,
    /// The names from `#define`, with the words of their definitions.
    defined: BTreeMap<String, Vec<Word>>,
    /// Words of a `#define` that are still to be returned.
    expanded: VecDeque<Token>,
    budget: &'a Budget,
    /// For each open `#if`, whether its condition is true.
    conditions: Vec<Branch>,
    /// The number of entries in `conditions` that skip text.
    passed_over: usize,
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of a script. `defined` has the names that are defined from the start, with their values.
    pub fn new(text: &'a str, defined: &[(&str, u64)], budget: &'a Budget) -> Lexer<'a> {
        let mut lexer = Lexer::of_line(text, budget);
        lexer.line_starts = true;
        lexer.defined = defined.iter().map(|(name, value)| ((*name).to_owned(), alloc::vec![Word::Number(*value)])).collect();
        // Some editors write a byte-order mark at the start of a file.
        let mark = text.len() - text.trim_start_matches('\u{feff}').len();
        lexer.at = mark;
        if text[mark..].starts_with("#!") {
            lexer.skip_line();
        }
        lexer
    }

    /// A lexer for the text of a `#define`. A `#` in it is no directive.
    fn of_line(text: &'a str, budget: &'a Budget) -> Lexer<'a> {
        Lexer {
            text,
            at: 0,
            line_starts: false,
            defined: BTreeMap::new(),
            expanded: VecDeque::new(),
            budget,
            conditions: Vec::new(),
            passed_over: 0,
        }
    }

    /// Charges the budget for steps of reading the script.
    fn charge(&self, steps: usize) -> Result<(), ScriptError> {
        self.budget.charge(steps as u64).map_err(|_| self.here().error(TOO_MUCH))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next byte. 0 at the end of the text.
    fn peek_byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn here(&self) -> Span {
        Span { start: self.at, end: self.at }
    }

    /// The range from `start` to the present position.
    fn since(&self, start: usize) -> Span {
        Span { start, end: self.at }
    }

    fn skip_line(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    /// Skips white space and comments, and executes `#` lines.
    pub fn skip_space(&mut self) -> Result<(), ScriptError> {
        loop {
            self.charge(1)?;
            let rest = self.rest();
            match self.peek_byte() {
                b'\n' => {
                    self.line_starts = true;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                _ if rest.starts_with("//") => self.skip_line(),
                _ if rest.starts_with("/*") => {
                    let start = self.at;
                    let Some(length) = rest.find("*/") else {
                        self.at = self.text.len();
                        return Err(self.since(start).error("this comment does not end: write */ behind it"));
                    };
                    self.at += length + 2;
                }
                b'#' if self.line_starts => self.directive()?,
                0 if rest.is_empty() => {
                    if !self.conditions.is_empty() {
                        self.conditions.clear();
                        self.passed_over = 0;
                        return Err(self.here().error("an #if or #ifdef is open at the end of the script: write #endif"));
                    }
                    return Ok(());
                }
                _ if !self.counts() => {
                    self.skip_line();
                }
                _ => {
                    self.line_starts = false;
                    return Ok(());
                }
            }
        }
    }

    /// The next token. A defined name yields the first token of its definition.
    pub fn next(&mut self) -> Result<Token, ScriptError> {
        loop {
            let token = match self.expanded.pop_front() {
                Some(token) => token,
                None => self.written()?,
            };
            let Word::Name(name) = &token.word else { return Ok(token) };
            let Some(words) = self.defined.get(name) else { return Ok(token) };
            let bytes: usize = words.iter().map(Word::bytes).sum();
            let steps = STEPS_A_WORD * (words.len() as u64 + 1) + bytes as u64;
            if self.budget.charge(steps).is_err() {
                let why = format!("the definition of '{name}' comes back to itself or grows without end: write less of it");
                return Err(token.at.error(why));
            }
            for word in words.iter().rev() {
                self.expanded.push_front(Token { word: word.clone(), at: token.at });
            }
        }
    }

    /// The next token of the text, without replacing defined names.
    fn written(&mut self) -> Result<Token, ScriptError> {
        self.skip_space()?;
        let start = self.at;
        let first = self.peek_byte();
        self.charge(1)?;
        let word = match first {
            0 if self.rest().is_empty() => Word::End,
            b'"' => Word::Text(self.string()?),
            b'0'..=b'9' => self.number()?,
            b'$' => {
                self.at += 1;
                if self.peek_byte() == b'#' {
                    self.at += 1;
                    Word::PositionalCount
                } else if self.peek_byte().is_ascii_digit() {
                    let digits = self.take_while(|byte| byte.is_ascii_digit());
                    Word::Positional(digits.parse().map_err(|_| self.since(start).error("there is no such parameter"))?)
                } else {
                    let name = self.name()?;
                    if name.is_empty() {
                        return Err(self.since(start).error("a name follows the $ of a variable, a number that of a parameter"));
                    }
                    Word::Variable(name)
                }
            }
            b'@' => {
                self.at += 1;
                Word::Map(self.name()?)
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' => Word::Name(self.name()?),
            _ => {
                let sign = SIGNS.iter().find(|sign| self.rest().starts_with(**sign));
                let Some(sign) = sign else {
                    let strange = self.rest().chars().next().unwrap_or(' ');
                    self.at += strange.len_utf8();
                    return Err(self.since(start).error(format!("'{strange}' has no meaning here")));
                };
                self.at += sign.len();
                Word::Sign(sign)
            }
        };
        Ok(Token { word, at: self.since(start) })
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let length = self.rest().bytes().take_while(|byte| wanted(*byte)).count();
        let taken = &self.rest()[..length];
        self.at += length;
        taken
    }

    /// Reads a name. Fails if it is too long.
    fn name(&mut self) -> Result<String, ScriptError> {
        let start = self.at;
        let name = self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if name.len() > LONGEST_NAME {
            return Err(self
                .since(start)
                .error(format!("a name has at most {LONGEST_NAME} bytes, and this one has {}", name.len())));
        }
        Ok(name.to_owned())
    }

    /// Reads a part of an attach point, up to the next `:`, `,`, `{` or white space. A `/` ends it too, except in a
    /// path, which starts with one. A quoted part may contain anything.
    pub fn attach_part(&mut self) -> Result<(String, Span), ScriptError> {
        let start = self.at;
        if self.peek_byte() == b'"' {
            let text = self.string()?;
            return Ok((String::from_utf8_lossy(&text).into_owned(), self.since(start)));
        }
        let is_path = self.peek_byte() == b'/';
        let part = self.take_while(|byte| {
            !matches!(byte, b':' | b',' | b'{' | b'}' | b';' | b'(' | b'"')
                && !byte.is_ascii_whitespace()
                && (is_path || byte != b'/')
        });
        Ok((part.to_owned(), self.since(start)))
    }

    /// Takes this byte if it comes next, and returns whether it did.
    pub fn take_byte(&mut self, byte: u8) -> bool {
        let is = self.peek_byte() == byte;
        self.at += usize::from(is);
        is
    }

    /// The rest of the text, which has not been read.
    pub fn ahead(&self) -> &'a str {
        self.rest()
    }
}
