//! The `#` lines of a script: conditions (`#if`, `#ifdef`), `#define` and `#undef`.
//!
//! [`Lexer::directive`] executes a line when the lexer meets it. Conditions nest, and each open one is a [`Branch`], whose text
//! is read or skipped. Definitions are kept as words, and the lexer puts them in the place of their names.

use super::{Lexer, Token, Word};
use crate::error::{ScriptError, Span};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;

/// A branch of an `#if`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Branch {
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

impl Lexer<'_> {
    /// Whether the text here is used: the conditions of all open `#if`s are true.
    pub(super) fn counts(&self) -> bool {
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

    /// Executes a `#` line: conditions, `#define` and `#undef`. `#include` and `#pragma` are ignored.
    pub(super) fn directive(&mut self) -> Result<(), ScriptError> {
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
                let words = self.words_of(body, whole)?;
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

    /// The words of a `#define`. `whole` is its line, for errors.
    fn words_of(&self, body: &str, whole: Span) -> Result<Vec<Word>, ScriptError> {
        let mut words = Vec::new();
        let mut inner = Lexer::of_line(body, self.budget);
        loop {
            match inner.next() {
                Ok(Token { word: Word::End, .. }) => return Ok(words),
                Ok(token) => words.push(token.word),
                Err(error) => return Err(whole.error(error.message)),
            }
        }
    }
}

/// The name in `defined NAME` or `defined(NAME)`. `None` if the condition is another one.
fn defined_name(condition: &str) -> Option<&str> {
    let asked = condition.strip_prefix("defined").filter(|rest| rest.starts_with(['(', ' ', '\t']))?.trim();
    let name = asked.strip_prefix('(').map_or(Some(asked), |inside| inside.strip_suffix(')'))?.trim();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(name)
}
