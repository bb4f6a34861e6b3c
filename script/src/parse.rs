//! The parser: a recursive descent from the text to the syntax tree in `ast`. This file parses a script's definitions and
//! probes. Statements are parsed in `parse_statements`, expressions in `expression`, C types in `parse_types`.

use super::ast::{Ast, Macro, MapKind, Parameter, Point, Probe, Setting};
use super::error::{ScriptError, Span};
use super::lex::{Lexer, Token, Word};
use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trapline_probes::budget::Budget;

/// The largest nesting depth. The parser is recursive.
const DEEPEST: usize = 100;

/// Parses a script. `defined` has names with values for `#ifdef` and for use as constants.
pub fn parse(text: &str, defined: &[(&str, u64)], budget: &Budget) -> Result<Ast, ScriptError> {
    let mut parser =
        Parser { lexer: Lexer::new(text, defined, budget), ahead: VecDeque::new(), last: Span::default(), depth: 0, height: 0 };
    parser.script()
}

/// The largest height of a syntax tree: `1 + 1 + 1` has height two.
const TALLEST: usize = 600;

/// The state of the parser: the lexer, and tokens that were read ahead.
pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    /// Tokens that were read ahead. Empty before an attach point, which the lexer reads by rules of its own.
    ahead: VecDeque<Token>,
    /// The position of the last token that was taken.
    pub(super) last: Span,
    /// The recursion depth of the parser.
    depth: usize,
    /// The height of the subtree that was parsed last. Later passes recurse that deep.
    height: usize,
}

impl Parser<'_> {
    /// The token at this distance from the next one (0). It is read, but not taken.
    pub(super) fn peek_at(&mut self, number: usize) -> Result<&Word, ScriptError> {
        while self.ahead.len() <= number {
            let token = self.lexer.next()?;
            self.ahead.push_back(token);
        }
        Ok(&self.ahead[number].word)
    }

    pub(super) fn peek(&mut self) -> Result<&Word, ScriptError> {
        self.peek_at(0)
    }

    /// The position of the next token.
    pub(super) fn place(&mut self) -> Result<Span, ScriptError> {
        self.peek()?;
        Ok(self.ahead[0].at)
    }

    /// Takes the next token.
    pub(super) fn next(&mut self) -> Result<Token, ScriptError> {
        let token = match self.ahead.pop_front() {
            Some(token) => token,
            None => self.lexer.next()?,
        };
        self.last = token.at;
        Ok(token)
    }

    pub(super) fn is(&mut self, sign: &'static str) -> Result<bool, ScriptError> {
        Ok(matches!(self.peek()?, Word::Sign(is) if *is == sign))
    }

    pub(super) fn is_name(&mut self, name: &str) -> Result<bool, ScriptError> {
        Ok(matches!(self.peek()?, Word::Name(is) if is == name))
    }

    /// Takes this token if it comes next, and returns whether it did.
    pub(super) fn take(&mut self, sign: &'static str) -> Result<bool, ScriptError> {
        let is = self.is(sign)?;
        if is {
            self.next()?;
        }
        Ok(is)
    }

    pub(super) fn take_name(&mut self, name: &str) -> Result<bool, ScriptError> {
        let is = self.is_name(name)?;
        if is {
            self.next()?;
        }
        Ok(is)
    }

    /// Takes this token. Fails if another comes next; `why` ends the error message.
    pub(super) fn demand(&mut self, sign: &'static str, why: &str) -> Result<Span, ScriptError> {
        let token = self.next()?;
        match token.word {
            Word::Sign(is) if is == sign => Ok(token.at),
            other => Err(token.at.error(format!("syntax error, unexpected {}, expecting {sign}: {why}", shown(&other)))),
        }
    }

    pub(super) fn expect_name(&mut self, what: &str) -> Result<(String, Span), ScriptError> {
        let token = self.next()?;
        match token.word {
            Word::Name(name) => Ok((name, token.at)),
            other => Err(token.at.error(format!("syntax error, unexpected {}, expecting {what}", shown(&other)))),
        }
    }

    pub(super) fn expect_number(&mut self, what: &str) -> Result<u64, ScriptError> {
        let token = self.next()?;
        match token.word {
            Word::Number(number) => Ok(number),
            other => Err(token.at.error(format!("syntax error, unexpected {}, expecting {what}", shown(&other)))),
        }
    }

    /// Parses something one level deeper. Fails at the largest depth.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, ScriptError>) -> Result<T, ScriptError> {
        if self.depth == DEEPEST {
            let at = self.place()?;
            return Err(at.error("this is nested deeper than a hundred levels: take it apart"));
        }
        self.depth += 1;
        let beside = core::mem::take(&mut self.height);
        let read = read(self);
        self.depth -= 1;
        self.one_higher()?;
        self.height = self.height.max(beside);
        read
    }

    /// Notes that the last subtree becomes part of a larger one. Fails at the largest height.
    pub(super) fn one_higher(&mut self) -> Result<(), ScriptError> {
        self.height = self.height.saturating_add(1);
        if self.height <= TALLEST {
            return Ok(());
        }
        let why = "this has more operators one inside the other than can be followed: put parts of it into variables";
        Err(self.last.error(why))
    }

    fn script(&mut self) -> Result<Ast, ScriptError> {
        let mut ast = Ast::default();
        loop {
            // The lexer reads attach points by their own rules, so no token may have been read ahead.
            if self.ahead.is_empty() {
                self.lexer.skip_space()?;
                let ahead = self.lexer.ahead();
                let word: String = ahead.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                let behind = ahead[word.len()..].trim_start();
                match word.as_str() {
                    "struct" | "union" => {
                        let structure = self.structure()?;
                        self.demand(";", "it ends a definition")?;
                        ast.structures.push(structure);
                    }
                    "enum" => self.enumeration(&mut ast.enums)?,
                    "config" if behind.starts_with('=') => self.settings(&mut ast.settings)?,
                    "import" => {
                        self.next()?;
                        return Err(self.last.error("nothing can be imported here: what the standard library holds is built in"));
                    }
                    "fn" => {
                        self.next()?;
                        return Err(self.last.error("functions of a script's own are not read here: write a macro"));
                    }
                    "let" => self.map_kind(&mut ast.maps)?,
                    "macro" => self.macro_definition(&mut ast.macros)?,
                    "" if ahead.is_empty() => return Ok(ast),
                    "" if ahead.starts_with(';') => {
                        self.lexer.take_byte(b';');
                    }
                    _ => ast.probes.push(self.probe()?),
                }
            } else {
                let at = self.place()?;
                return Err(at.error("a probe begins here: write its attach point, such as kprobe:vfs_read"));
            }
        }
    }

    fn probe(&mut self) -> Result<Probe, ScriptError> {
        let mut points = Vec::new();
        loop {
            self.lexer.skip_space()?;
            if matches!(self.lexer.ahead().as_bytes().first(), Some(b'{' | b'/')) && !points.is_empty() {
                break; // a comma behind the last one
            }
            points.push(self.point()?);
            self.lexer.skip_space()?;
            if !self.lexer.take_byte(b',') {
                break;
            }
        }
        let mut filter = None;
        if self.lexer.take_byte(b'/') {
            filter = Some(self.expression()?);
            self.demand("/", "it ends a filter")?;
        }
        let body = self.block()?;
        Ok(Probe { points, filter, body })
    }

    fn point(&mut self) -> Result<Point, ScriptError> {
        let mut parts = alloc::vec![self.lexer.attach_part()?];
        while self.lexer.take_byte(b':') {
            parts.push(self.lexer.attach_part()?);
        }
        let at = parts[0].1.to(parts[parts.len() - 1].1);
        if parts[0].0.is_empty() {
            let letter = self.lexer.ahead().chars().next();
            return Err(match letter {
                None => {
                    at.error("syntax error, unexpected end of file: a probe begins with an attach point such as kprobe:vfs_read")
                }
                Some(letter) => at.error(format!(
                    "syntax error, unexpected {letter}: a probe begins with an attach point such as kprobe:vfs_read"
                )),
            });
        }
        Ok(Point { parts, at })
    }

    /// Parses `config = { name = value; ... }`.
    fn settings(&mut self, into: &mut Vec<(String, Span, Setting)>) -> Result<(), ScriptError> {
        self.next()?;
        self.demand("=", "settings are written config = { name = value; }")?;
        self.demand("{", "settings are written config = { name = value; }")?;
        while !self.is("}")? {
            let (name, at) = self.expect_name("the name of a setting")?;
            self.demand("=", "a setting is written name = value")?;
            let token = self.next()?;
            let value = match token.word {
                Word::Number(number) => Setting::Number(number),
                Word::Name(name) if name == "true" => Setting::Number(1),
                Word::Name(name) if name == "false" => Setting::Number(0),
                Word::Name(name) => Setting::Text(name),
                Word::Text(text) => Setting::Text(String::from_utf8_lossy(&text).into_owned()),
                other => {
                    return Err(token
                        .at
                        .error(format!("unexpected {}: a setting's value is a number, a word or a string", shown(&other))));
                }
            };
            into.push((name, at.to(token.at), value));
            while self.take(";")? || self.take(",")? {}
        }
        self.next()?;
        Ok(())
    }

    /// Parses `let @name = kind(N);`.
    fn map_kind(&mut self, into: &mut Vec<MapKind>) -> Result<(), ScriptError> {
        self.next()?;
        let token = self.next()?;
        let Word::Map(name) = token.word else {
            return Err(token.at.error("outside of a probe `let` is followed by a map: let @name = hash(1000);"));
        };
        self.demand("=", "a map's kind is written let @name = hash(1000);")?;
        let (kind, at) = self.expect_name("hash, lruhash, percpuhash or percpulruhash")?;
        let evicts = match kind.as_str() {
            "hash" | "percpuhash" => false,
            "lruhash" | "percpulruhash" => true,
            _ => {
                return Err(
                    at.error(format!("there is no map of kind '{kind}': hash, lruhash, percpuhash and percpulruhash are known"))
                );
            }
        };
        self.demand("(", "the number of keys follows in brackets")?;
        let limit = self.expect_number("the number of keys")?;
        self.demand(")", "the number of keys stands in brackets")?;
        self.demand(";", "it ends a map's declaration")?;
        into.push(MapKind { name, evicts, limit });
        Ok(())
    }

    /// Parses `macro name(parameters) { ... }`.
    fn macro_definition(&mut self, into: &mut Vec<Macro>) -> Result<(), ScriptError> {
        self.next()?;
        let (name, _) = self.expect_name("the macro's name")?;
        let mut parameters = Vec::new();
        if self.take("(")? {
            while !self.is(")")? {
                let token = self.next()?;
                parameters.push(match token.word {
                    Word::Variable(name) => Parameter::Variable(name),
                    Word::Map(name) => Parameter::Map(name),
                    Word::Name(name) => Parameter::Expression(name),
                    other => {
                        return Err(token
                            .at
                            .error(format!("unexpected {}: a macro takes $variables, @maps and names", shown(&other))));
                    }
                });
                if !self.take(",")? {
                    break;
                }
            }
            self.demand(")", "it ends a macro's parameters")?;
        }
        let body = self.block()?;
        into.push(Macro { name, parameters, body });
        Ok(())
    }
}

/// The name of a token in error messages.
pub(super) fn shown(word: &Word) -> String {
    match word {
        Word::Name(name) => name.clone(),
        Word::Variable(name) => format!("${name}"),
        Word::Map(name) => format!("@{name}"),
        Word::Positional(number) => format!("${number}"),
        Word::PositionalCount => "$#".to_owned(),
        Word::Number(number) => format!("{number}"),
        Word::Text(_) => "a string".to_owned(),
        Word::Sign(sign) => (*sign).to_owned(),
        Word::End => "end of file".to_owned(),
    }
}
