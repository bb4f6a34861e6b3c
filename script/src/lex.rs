//! Splits a script into words (tokens) and handles `#` lines on the way.
//!
//! The parser asks for one word at a time, because an attach point has a syntax of its own: `kprobe:vfs_*` is read by
//! [`Lexer::attach_part`]. A name from a `#define` is replaced by the words of its definition.

use super::error::{ScriptError, Span};
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
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

const OPEN_STRING: &str = "this string does not end in its line: write \" behind it";

/// The longest name, in bytes. No symbol of a kernel has a longer one. Each macro expansion copies the names of its
/// variables.
pub(super) const LONGEST_NAME: usize = 512;

/// The number of steps that a word from a `#define` costs. Reading the script itself costs one step per byte.
const STEPS_A_WORD: u64 = 16;

/// A branch of an `#if`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Branch {
    /// Its text is read.
    Read,
    /// Its text is skipped, and no branch before it was read.
    Waits,
    /// Its text is skipped, and so are all branches after it: one was read, or the whole `#if` is in skipped text.
    Over,
}

impl Branch {
    /// The branch behind the first condition that may hold.
    fn of(condition: bool) -> Branch {
        if condition { Branch::Read } else { Branch::Waits }
    }
}

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

    /// Whether the text here is used: the conditions of all open `#if`s are true.
    fn counts(&self) -> bool {
        self.passed_over == 0
    }

    /// Enters a branch of an `#if`.
    fn open(&mut self, branch: Branch) {
        self.conditions.push(branch);
        self.passed_over += usize::from(branch != Branch::Read);
    }

    /// Leaves the branch of the innermost `#if` and returns it. `None` if none is open.
    fn close(&mut self) -> Option<Branch> {
        let branch = self.conditions.pop()?;
        self.passed_over -= usize::from(branch != Branch::Read);
        Some(branch)
    }

    /// The branch behind an `#if` or `#elif` with this condition. `whole` is the line, for errors.
    fn branch(&self, condition: &str, whole: Span) -> Result<Branch, ScriptError> {
        let condition = condition.split("//").next().and_then(|rest| rest.split("/*").next()).unwrap_or(condition).trim();
        let (turned, asked) = condition.strip_prefix('!').map_or((false, condition), |rest| (true, rest.trim()));
        match defined_name(asked) {
            Some(name) => Ok(Branch::of(self.defined.contains_key(name) != turned)),
            None if matches!(condition, "0" | "1") => Ok(Branch::of(condition == "1")),
            None => Err(whole.error("an #if asks `defined(NAME)` or `!defined(NAME)` here, nothing else")),
        }
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

    /// Executes a `#` line: conditions, `#define` and `#undef`. `#include` and `#pragma` are ignored.
    fn directive(&mut self) -> Result<(), ScriptError> {
        let start = self.at;
        self.skip_line();
        let whole = self.since(start);
        let line = self.text[start + 1..self.at].trim();
        let (command, rest) = line.split_at(line.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(line.len()));
        let rest = rest.trim();
        let name = rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default();
        let is_defined = self.defined.contains_key(name);
        match command {
            "if" | "ifdef" | "ifndef" if !self.counts() => self.open(Branch::Over),
            "ifdef" => self.open(Branch::of(is_defined)),
            "ifndef" => self.open(Branch::of(!is_defined)),
            "if" => self.open(self.branch(rest, whole)?),
            "elif" | "else" => match self.close() {
                Some(Branch::Waits) if command == "elif" => match self.branch(rest, whole) {
                    Ok(branch) => self.open(branch),
                    Err(error) => {
                        self.open(Branch::Over);
                        return Err(error);
                    }
                },
                Some(Branch::Waits) => self.open(Branch::Read),
                Some(Branch::Read | Branch::Over) => self.open(Branch::Over),
                None => return Err(whole.error(format!("this #{command} has no #if: take it away"))),
            },
            "endif" => {
                if self.close().is_none() {
                    return Err(whole.error("this #endif has no #if: take it away"));
                }
            }
            _ if !self.counts() => {}
            // `#include` is ignored, because the guest's type information replaces headers.
            "include" | "pragma" | "" => {}
            "undef" => {
                self.defined.remove(name);
            }
            "define" => {
                if name.is_empty() {
                    return Err(whole.error("#define is followed by a name and what it stands for"));
                }
                let body = &rest[name.len()..];
                if body.starts_with('(') {
                    return Err(whole.error("a #define with parameters is not read: write the expression where it is needed"));
                }
                let mut words = Vec::new();
                let mut inner = Lexer::of_line(body, self.budget);
                loop {
                    match inner.next() {
                        Ok(Token { word: Word::End, .. }) => break,
                        Ok(token) => words.push(token.word),
                        Err(error) => return Err(whole.error(error.message)),
                    }
                }
                self.defined.insert(name.to_owned(), words);
            }
            _ => {
                return Err(
                    whole.error(format!("there is no #{command} here: #include, #define, #undef and #if to #endif are read"))
                );
            }
        }
        Ok(())
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

    fn number(&mut self) -> Result<Word, ScriptError> {
        let start = self.at;
        let written = self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let at = self.since(start);
        let plain: String = written.chars().filter(|c| *c != '_').collect();
        time(&plain).map(Word::Number).ok_or_else(|| {
            at.error(format!("'{written}' is no number: write it decimal, 0x.., 0b.., 1e6, or as a time such as 10ms"))
        })
    }

    fn string(&mut self) -> Result<Vec<u8>, ScriptError> {
        let start = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek_byte() {
                b'"' => {
                    self.at += 1;
                    return Ok(bytes);
                }
                b'\n' | 0 => return Err(self.since(start).error(OPEN_STRING)),
                b'\\' => bytes.push(self.escape()?),
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// Decodes an escape sequence, with its backslash. Fails if the escape is unknown or does not fit in a byte.
    fn escape(&mut self) -> Result<u8, ScriptError> {
        let start = self.at;
        self.at += 1;
        let Some(letter) = self.rest().chars().next() else { return Err(self.since(start).error(OPEN_STRING)) };
        self.at += letter.len_utf8();
        let wrong = |lexer: &Self, why: String| Err(lexer.since(start).error(why));
        match letter {
            'n' => Ok(b'\n'),
            't' => Ok(b'\t'),
            'r' => Ok(b'\r'),
            '"' => Ok(b'"'),
            '\\' => Ok(b'\\'),
            'x' => {
                let rest = self.rest();
                let digits = rest.bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
                let value = u8::from_str_radix(&rest[..digits], 16);
                self.at += digits;
                value.or_else(|_| wrong(self, "one or two hexadecimal digits follow \\x".into()))
            }
            '0'..='7' => {
                self.at -= 1;
                let rest = self.rest();
                let digits = rest.bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                let value = u8::from_str_radix(&rest[..digits], 8);
                self.at += digits;
                value.or_else(|_| wrong(self, "an octal escape is at most \\377".into()))
            }
            other => {
                wrong(self, format!("invalid escape character '\\{other}': \\n \\t \\r \\\" \\\\ \\x41 and \\101 are known"))
            }
        }
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

/// The name in `defined NAME` or `defined(NAME)`. `None` if the condition is another one.
fn defined_name(condition: &str) -> Option<&str> {
    let asked = condition.strip_prefix("defined").filter(|rest| rest.starts_with(['(', ' ', '\t']))?.trim();
    let name = asked.strip_prefix('(').map_or(Some(asked), |inside| inside.strip_suffix(')'))?.trim();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(name)
}

/// Parses a number as C and bpftrace write it. Suffixes of C are ignored. Suffixes of time multiply the number to
/// nanoseconds.
pub(super) fn time(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let binary = text.strip_prefix("0b").or_else(|| text.strip_prefix("0B"));
    let unsigned = |text: &str| text.trim_end_matches(['u', 'U', 'l', 'L']).to_owned();
    if let Some(digits) = hex {
        return u64::from_str_radix(&unsigned(digits), 16).ok();
    }
    if let Some(digits) = binary {
        return u64::from_str_radix(&unsigned(digits), 2).ok();
    }
    const TIMES: [(&str, u64); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ];
    for (unit, factor) in TIMES {
        if let Some(count) = text.strip_suffix(unit).and_then(|digits| digits.parse::<u64>().ok()) {
            return count.checked_mul(factor);
        }
    }
    let plain = unsigned(text);
    if let Some((mantissa, exponent)) = plain.split_once('e') {
        return mantissa.parse::<u64>().ok()?.checked_mul(10_u64.checked_pow(exponent.parse().ok()?)?);
    }
    match plain.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        _ => plain.parse().ok(),
    }
}
