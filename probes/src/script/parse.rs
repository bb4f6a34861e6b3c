//! Words to a script: probes, blocks and statements. Expressions are read in [`super::expression`].

use super::ast::*;
use super::error::{ScriptError, Span};
use super::lex::{Lexer, Token, Word};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Deeper than this no script nests; the parser calls itself for each level.
const DEEPEST: usize = 100;

/// Reads a script. `defined`: names that have a value from the start, for `#ifdef` and as constants.
pub fn parse(text: &str, defined: &[(&str, u64)]) -> Result<Ast, ScriptError> {
    let mut parser = Parser { lexer: Lexer::new(text, defined), ahead: VecDeque::new(), last: Span::default(), depth: 0 };
    parser.script()
}

/// Reads words and looks up to three ahead.
pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    ahead: VecDeque<Token>,
    /// Where the last word taken stands.
    pub(super) last: Span,
    depth: usize,
}

impl Parser<'_> {
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

    /// Where the next word stands.
    pub(super) fn place(&mut self) -> Result<Span, ScriptError> {
        self.peek()?;
        Ok(self.ahead[0].at)
    }

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

    /// Takes this sign if it comes next.
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

    /// One level deeper, as long as that is allowed.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, ScriptError>) -> Result<T, ScriptError> {
        if self.depth == DEEPEST {
            let at = self.place()?;
            return Err(at.error("this is nested deeper than a hundred levels: take it apart"));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn script(&mut self) -> Result<Ast, ScriptError> {
        let mut ast = Ast::default();
        loop {
            // An attach point is read letter by letter, so no word may have been looked at before it.
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
                    "enum" => self.enumeration(&mut ast.constants)?,
                    "config" if behind.starts_with('=') => self.settings(&mut ast.settings)?,
                    "import" => {
                        self.next()?;
                        return Err(self.last.error("nothing can be imported here: what the standard library holds is built in"));
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

    pub(super) fn block(&mut self) -> Result<Block, ScriptError> {
        self.demand("{", "a block begins with it")?;
        self.deeper(Self::block_inside)
    }

    fn block_inside(&mut self) -> Result<Block, ScriptError> {
        let mut block = Block::default();
        loop {
            while self.take(";")? {}
            if self.is("}")? {
                // Nothing behind it is looked at: an attach point may follow.
                self.next()?;
                return Ok(block);
            }
            if matches!(self.peek()?, Word::End) {
                let at = self.place()?;
                return Err(at.error("syntax error, unexpected end of file, expecting }: a block is still open"));
            }
            let statement = self.statement()?;
            let ends_in_brace = matches!(
                statement.kind,
                Do::If(..) | Do::While(..) | Do::Unroll(..) | Do::ForMap(..) | Do::ForRange(..) | Do::Block(_)
            );
            if self.is("}")? {
                if let (false, Do::Expr(expr)) = (ends_in_brace, &statement.kind) {
                    // The value of the block, should anybody ask for it; otherwise a statement like the others.
                    block.value = Some(Box::new(expr.clone()));
                    continue;
                }
            } else if !ends_in_brace {
                self.demand(";", "it stands between statements")?;
            }
            block.statements.push(statement);
        }
    }

    /// A block as an expression, its brace taken.
    pub(super) fn block_behind_brace(&mut self, start: Span) -> Result<Expr, ScriptError> {
        let block = self.block_inside()?;
        Ok(Expr { at: start.to(self.last), kind: Kind::Block(Box::new(block)) })
    }

    fn statement(&mut self) -> Result<Statement, ScriptError> {
        let start = self.place()?;
        let kind = self.deeper(Self::statement_kind)?;
        Ok(Statement { at: start.to(self.last), kind })
    }

    fn statement_kind(&mut self) -> Result<Do, ScriptError> {
        let word = self.peek()?.clone();
        match &word {
            Word::Sign("{") => return Ok(Do::Block(self.block()?)),
            Word::Name(name) => match name.as_str() {
                "if" => {
                    self.next()?;
                    return self.conditional();
                }
                "while" => {
                    self.next()?;
                    return Ok(Do::While(self.condition()?, self.block()?));
                }
                "unroll" => {
                    self.next()?;
                    return Ok(Do::Unroll(self.condition()?, self.block()?));
                }
                "for" => {
                    self.next()?;
                    return self.for_loop();
                }
                "return" => {
                    self.next()?;
                    if !self.is(";")? && !self.is("}")? {
                        self.expression()?;
                    }
                    return Ok(Do::Return);
                }
                "break" => {
                    self.next()?;
                    return Ok(Do::Break);
                }
                "continue" => {
                    self.next()?;
                    return Ok(Do::Continue);
                }
                "let" => {
                    self.next()?;
                    return self.let_variable();
                }
                "_" if matches!(self.peek_at(1)?, Word::Sign("=")) => {
                    self.next()?;
                    self.next()?;
                    return Ok(Do::Assign(Target::Nothing, None, self.expression()?));
                }
                _ => {}
            },
            _ => {}
        }
        let expr = self.expression()?;
        let assigned = match self.peek()? {
            Word::Sign("=") => Some(None),
            Word::Sign(sign) => ASSIGNING.iter().find(|(name, _)| name == sign).map(|(_, binary)| Some(*binary)),
            _ => None,
        };
        let Some(operator) = assigned else { return Ok(Do::Expr(expr)) };
        let target = match expr.kind {
            Kind::Variable(name) => Target::Variable(name),
            Kind::Map(name, keys) => Target::Map(name, keys),
            Kind::Part(..) => {
                return Err(expr
                    .at
                    .error("Tuples are immutable once created. Consider creating a new tuple and assigning it instead."));
            }
            _ => return Err(expr.at.error("only variables ($name) and maps (@name) can be assigned to")),
        };
        self.next()?;
        Ok(Do::Assign(target, operator, self.expression()?))
    }

    /// Behind `if`.
    fn conditional(&mut self) -> Result<Do, ScriptError> {
        let condition = self.condition()?;
        let then = self.block()?;
        let mut otherwise = None;
        if self.take_name("else")? {
            otherwise = Some(if self.is_name("if")? {
                let start = self.place()?;
                self.next()?;
                let kind = self.deeper(Self::conditional)?;
                let at = start.to(self.last);
                Block { statements: alloc::vec![Statement { at, kind }], value: None }
            } else {
                self.block()?
            });
        }
        Ok(Do::If(condition, then, otherwise))
    }

    /// With parentheses or without.
    fn condition(&mut self) -> Result<Expr, ScriptError> {
        self.expression()
    }

    fn for_loop(&mut self) -> Result<Do, ScriptError> {
        let bracketed = self.take("(")?;
        let token = self.next()?;
        let Word::Variable(name) = token.word else {
            return Err(token.at.error("a loop's variable stands here: for ($kv : @map) or for ($i : 0..10)"));
        };
        self.demand(":", "it stands between the variable and what it goes over")?;
        let over_map = matches!(self.peek()?, Word::Map(_))
            && matches!(self.peek_at(1)?, Word::Sign(sign) if *sign == if bracketed { ")" } else { "{" });
        let kind = if over_map {
            let token = self.next()?;
            let Word::Map(map) = token.word else { return Err(token.at.error("a map stands here: for ($kv : @map)")) };
            Err(map)
        } else {
            let from = self.expression()?;
            self.demand("..", "it stands between the first number and the one behind the last")?;
            Ok((from, self.expression()?))
        };
        if bracketed {
            self.demand(")", "it ends what the loop goes over")?;
        }
        let body = self.block()?;
        Ok(match kind {
            Err(map) => Do::ForMap(name, map, body),
            Ok((from, to)) => Do::ForRange(name, from, to, body),
        })
    }

    fn let_variable(&mut self) -> Result<Do, ScriptError> {
        let token = self.next()?;
        let Word::Variable(name) = token.word else {
            return Err(token.at.error("`let` is followed by a variable here: let $name = value"));
        };
        let kind = if self.take(":")? { Some(self.type_name()?) } else { None };
        let value = if self.take("=")? { Some(self.expression()?) } else { None };
        Ok(Do::Let(name, kind, value))
    }

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

    /// `let @name = kind(N);`
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

    /// A type's name: `uint64`, `struct task_struct *`, `uint8[4]`, `char *`, `unsigned long`.
    pub(super) fn type_name(&mut self) -> Result<TypeName, ScriptError> {
        let start = self.place()?;
        while self.take_name("const")? || self.take_name("volatile")? {}
        let tag = match self.peek()? {
            Word::Name(name) if name == "struct" => Some(Tag::Struct),
            Word::Name(name) if name == "union" => Some(Tag::Union),
            Word::Name(name) if name == "enum" => Some(Tag::Enum),
            _ => None,
        };
        if tag.is_some() {
            self.next()?;
        }
        let (mut name, _) = self.expect_name("the name of a type")?;
        // C's types of several words.
        while tag.is_none() && is_c_word(&name) && matches!(self.peek()?, Word::Name(more) if is_c_word(more)) {
            let (more, _) = self.expect_name("the name of a type")?;
            name = format!("{name} {more}");
        }
        let mut pointers = 0_u8;
        loop {
            if self.take("*")? {
                pointers = pointers.saturating_add(1);
            } else if !self.take_name("const")? {
                break;
            }
        }
        let mut array = None;
        if self.is("[")?
            && (matches!(self.peek_at(1)?, Word::Number(_)) && matches!(self.peek_at(2)?, Word::Sign("]"))
                || matches!(self.peek_at(1)?, Word::Sign("]")))
        {
            self.next()?;
            array = Some(match self.next()?.word {
                Word::Number(count) => {
                    self.demand("]", "it ends an array's length")?;
                    count
                }
                _ => 0,
            });
        }
        Ok(TypeName { tag, name, pointers, array, at: start.to(self.last) })
    }

    /// `struct name { ... }`, up to its closing brace and attributes.
    fn structure(&mut self) -> Result<Structure, ScriptError> {
        self.deeper(|parser| {
            let token = parser.next()?;
            let is_union = matches!(&token.word, Word::Name(name) if name == "union");
            let name = match parser.peek()?.clone() {
                Word::Name(name) => {
                    parser.next()?;
                    name
                }
                _ => String::new(),
            };
            parser.demand("{", "the members of a structure stand in braces")?;
            let mut members = Vec::new();
            while !parser.take("}")? {
                parser.member(&mut members)?;
            }
            let packed = parser.attributes()?;
            Ok(Structure { name, is_union, packed, members })
        })
    }

    /// `__attribute__((...))`: whether one of them is `packed`.
    fn attributes(&mut self) -> Result<bool, ScriptError> {
        let mut packed = false;
        while self.take_name("__attribute__")? {
            let mut open = 0_usize;
            loop {
                let token = self.next()?;
                match token.word {
                    Word::Sign("(") => open += 1,
                    Word::Sign(")") => open = open.saturating_sub(1),
                    Word::Name(name) => packed |= matches!(name.as_str(), "packed" | "__packed__"),
                    Word::End => return Err(token.at.error("an attribute stands in double brackets: __attribute__((packed))")),
                    _ => {}
                }
                if open == 0 {
                    break;
                }
            }
        }
        Ok(packed)
    }

    fn member(&mut self, members: &mut Vec<Member>) -> Result<(), ScriptError> {
        let opens = |word: &Word| matches!(word, Word::Sign("{"));
        let has_tag = self.is_name("struct")? || self.is_name("union")?;
        if has_tag && (opens(self.peek_at(1)?) || opens(self.peek_at(2)?)) {
            let inside = self.structure()?;
            let (mut name, mut count) = (String::new(), None);
            if let Word::Name(found) = self.peek()?.clone() {
                self.next()?;
                name = found;
                count = self.array_length()?;
            }
            self.demand(";", "it ends a member")?;
            members.push(Member { name, kind: MemberKind::Inside(inside, count), bits: None });
            return Ok(());
        }
        let mut kind = self.type_name()?;
        loop {
            let mut this = kind.clone();
            if self.take("(")? {
                // A pointer to a function.
                self.demand("*", "a pointer to a function is written (*name)(...)")?;
                let (name, _) = self.expect_name("the member's name")?;
                self.demand(")", "a pointer to a function is written (*name)(...)")?;
                let mut open = 0_usize;
                while !(open == 0 && self.is(";")?) {
                    let token = self.next()?;
                    match token.word {
                        Word::Sign("(") => open += 1,
                        Word::Sign(")") => open = open.saturating_sub(1),
                        Word::End => return Err(token.at.error("a member ends with ;")),
                        _ => {}
                    }
                }
                members.push(Member { name, kind: MemberKind::Word, bits: None });
                break;
            }
            while self.take("*")? {
                this.pointers = this.pointers.saturating_add(1);
            }
            let (name, _) = self.expect_name("the member's name")?;
            let mut bits = None;
            if self.take(":")? {
                bits = Some(self.expect_number("the number of bits")?);
            } else {
                this.array = self.array_length()?.or(this.array);
            }
            members.push(Member { name, kind: MemberKind::Named(this), bits });
            kind.array = None;
            if !self.take(",")? {
                break;
            }
            kind.pointers = 0;
        }
        self.attributes()?;
        self.demand(";", "it ends a member")?;
        Ok(())
    }

    fn array_length(&mut self) -> Result<Option<u64>, ScriptError> {
        let mut length = None;
        while self.take("[")? {
            let count = if self.is("]")? { 0 } else { self.expect_number("an array's length")? };
            self.demand("]", "it ends an array's length")?;
            length = Some(length.unwrap_or(1_u64).saturating_mul(count));
        }
        Ok(length)
    }

    /// `enum name { A, B = 3 };`
    fn enumeration(&mut self, into: &mut Vec<(String, u64)>) -> Result<(), ScriptError> {
        self.next()?;
        if matches!(self.peek()?, Word::Name(_)) {
            self.next()?;
        }
        self.demand("{", "enumerators stand in braces")?;
        let mut value = 0_u64;
        while !self.is("}")? {
            let (name, _) = self.expect_name("an enumerator")?;
            if self.take("=")? {
                let negative = self.take("-")?;
                let number = self.expect_number("an enumerator's value")?;
                value = if negative { number.wrapping_neg() } else { number };
            }
            into.push((name, value));
            value = value.wrapping_add(1);
            if !self.take(",")? {
                break;
            }
        }
        self.demand("}", "it ends the enumerators")?;
        self.demand(";", "it ends a definition")?;
        Ok(())
    }
}

const ASSIGNING: &[(&str, Binary)] = &[
    ("+=", Binary::Add),
    ("-=", Binary::Subtract),
    ("*=", Binary::Multiply),
    ("/=", Binary::Divide),
    ("%=", Binary::Modulo),
    ("&=", Binary::BitAnd),
    ("|=", Binary::BitOr),
    ("^=", Binary::BitXor),
    ("<<=", Binary::ShiftLeft),
    (">>=", Binary::ShiftRight),
];

fn is_c_word(name: &str) -> bool {
    matches!(name, "unsigned" | "signed" | "long" | "short" | "int" | "char")
}

/// A word as messages name it.
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
