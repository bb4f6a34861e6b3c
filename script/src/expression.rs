//! Parses expressions by precedence climbing. The precedences are those of C.

use super::ast::*;
use super::error::{ScriptError, Span};
use super::lex::Word;
use super::parse::{Parser, shown};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The precedence of each binary operator, loosest first. All are left-associative.
const BINARY: &[(&str, u8, Binary)] = &[
    ("||", 1, Binary::Or),
    ("&&", 2, Binary::And),
    ("|", 3, Binary::BitOr),
    ("^", 4, Binary::BitXor),
    ("&", 5, Binary::BitAnd),
    ("==", 6, Binary::Equal),
    ("!=", 6, Binary::Unequal),
    ("<", 7, Binary::Less),
    ("<=", 7, Binary::LessEqual),
    (">", 7, Binary::Greater),
    (">=", 7, Binary::GreaterEqual),
    ("<<", 8, Binary::ShiftLeft),
    (">>", 8, Binary::ShiftRight),
    ("+", 9, Binary::Add),
    ("-", 9, Binary::Subtract),
    ("*", 10, Binary::Multiply),
    ("/", 10, Binary::Divide),
    ("%", 10, Binary::Modulo),
];

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Result<Expr, ScriptError> {
        self.deeper(Self::choice)
    }

    /// `c ? a : b`
    fn choice(&mut self) -> Result<Expr, ScriptError> {
        let condition = self.binary(1)?;
        if !self.take("?")? {
            return Ok(condition);
        }
        let then = if self.is(":")? { None } else { Some(Box::new(self.expression()?)) };
        self.demand(":", "a choice is written c ? a : b")?;
        let otherwise = self.expression()?;
        let at = condition.at.to(otherwise.at);
        Ok(Expr { at, kind: Kind::Choice(Box::new(condition), then, Box::new(otherwise)) })
    }

    fn binary(&mut self, least: u8) -> Result<Expr, ScriptError> {
        let mut left = self.deeper(Self::unary)?;
        loop {
            let Word::Sign(sign) = *self.peek()? else { return Ok(left) };
            let Some((_, binds, binary)) = BINARY.iter().find(|(name, binds, _)| *name == sign && *binds >= least) else {
                return Ok(left);
            };
            // A `/` in front of `{` ends the filter and is no division.
            if sign == "/" && matches!(self.peek_at(1)?, Word::Sign("{")) {
                return Ok(left);
            }
            self.next()?;
            let right = self.deeper(|parser| parser.binary(binds + 1))?;
            self.one_higher()?;
            let at = left.at.to(right.at);
            left = Expr { at, kind: Kind::Binary(*binary, Box::new(left), Box::new(right)) };
        }
    }

    fn unary(&mut self) -> Result<Expr, ScriptError> {
        let start = self.place()?;
        let Word::Sign(sign) = *self.peek()? else { return self.postfix() };
        let unary = match sign {
            "!" => Unary::Not,
            "~" => Unary::Complement,
            "-" => Unary::Negate,
            "*" => Unary::Load,
            "++" | "--" => {
                self.next()?;
                let operand = self.deeper(Self::unary)?;
                return step(operand, sign == "++", false, start);
            }
            "&" => return Err(start.error("addresses of variables and maps cannot be taken here: nothing takes them")),
            "(" if self.is_cast()? => {
                self.next()?;
                let kind = self.type_name()?;
                self.demand(")", "a cast is written (type)value")?;
                let of = self.deeper(Self::unary)?;
                return Ok(Expr { at: start.to(of.at), kind: Kind::Cast(kind, Box::new(of)) });
            }
            _ => return self.postfix(),
        };
        self.next()?;
        let operand = self.deeper(Self::unary)?;
        Ok(Expr { at: start.to(operand.at), kind: Kind::Unary(unary, Box::new(operand)) })
    }

    /// Whether the next parenthesis begins a cast and not an expression. `(struct ...` does. `(name)` does if the name is no
    /// builtin and a value follows.
    fn is_cast(&mut self) -> Result<bool, ScriptError> {
        let Word::Name(name) = self.peek_at(1)?.clone() else { return Ok(false) };
        if matches!(name.as_str(), "struct" | "union" | "enum" | "unsigned" | "signed" | "const") {
            return Ok(true);
        }
        if is_builtin(&name) {
            return Ok(false);
        }
        let mut at = 2;
        while is_type_word(self.peek_at(at)?) {
            at += 1;
        }
        let mut stars = false;
        while matches!(self.peek_at(at)?, Word::Sign("*")) {
            stars = true;
            at += 1;
        }
        if matches!(self.peek_at(at)?, Word::Sign("[")) {
            while !matches!(self.peek_at(at)?, Word::Sign("]") | Word::End) && at < 6 {
                at += 1;
            }
            return Ok(matches!(self.peek_at(at)?, Word::Sign("]"))
                && matches!(self.peek_at(at + 1)?, Word::Sign(")"))
                && is_integer(&name));
        }
        if !matches!(self.peek_at(at)?, Word::Sign(")")) {
            return Ok(false);
        }
        let begins_a_value = match self.peek_at(at + 1)? {
            Word::Sign(sign) => *sign == "(" || is_integer(&name) && matches!(*sign, "-" | "!" | "~" | "*" | "++" | "--"),
            Word::End => false,
            _ => true,
        };
        Ok(stars || begins_a_value)
    }

    fn postfix(&mut self) -> Result<Expr, ScriptError> {
        let mut expr = self.primary()?;
        loop {
            let Word::Sign(sign) = *self.peek()? else { return Ok(expr) };
            if matches!(sign, "." | "->" | "[" | "++" | "--") {
                self.one_higher()?;
            }
            match sign {
                "." | "->" => {
                    self.next()?;
                    let token = self.next()?;
                    let at = expr.at.to(token.at);
                    let kind = match token.word {
                        Word::Name(name) => Kind::Field(Box::new(expr), name, token.at),
                        Word::Number(number) if sign == "." => Kind::Part(Box::new(expr), number),
                        other => {
                            return Err(token
                                .at
                                .error(format!("unexpected {}: a field's name stands behind {sign}", shown(&other))));
                        }
                    };
                    expr = Expr { at, kind };
                }
                "[" => {
                    self.next()?;
                    let index = self.expression()?;
                    let end = self.demand("]", "it ends an index")?;
                    expr = Expr { at: expr.at.to(end), kind: Kind::Index(Box::new(expr), Box::new(index)) };
                }
                "++" | "--" => {
                    self.next()?;
                    let at = expr.at.to(self.last);
                    expr = step(expr, sign == "++", true, at)?;
                }
                _ => return Ok(expr),
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, ScriptError> {
        let token = self.next()?;
        let start = token.at;
        let kind = match token.word {
            Word::Number(number) => Kind::Number(number),
            Word::Text(text) => Kind::Text(text),
            Word::Positional(number) => Kind::Positional(number),
            Word::PositionalCount => Kind::PositionalCount,
            Word::Variable(name) => Kind::Variable(name),
            Word::Map(name) => {
                let keys = if self.take("[")? { self.list("]")? } else { Vec::new() };
                Kind::Map(name, keys)
            }
            Word::Name(name) => self.named(name, start)?,
            Word::Sign("(") if self.is_member()? => {
                let mut members = Vec::new();
                while !self.is(")")? {
                    let (name, at) = self.expect_name("a member's name")?;
                    self.demand("=", "a member is written name = value")?;
                    if members.iter().any(|(is, _): &(String, Expr)| *is == name) {
                        return Err(at.error(format!("there is a member '{name}' already: give this one another name")));
                    }
                    members.push((name, self.expression()?));
                    if !self.take(",")? {
                        break;
                    }
                }
                self.demand(")", "a bracket is still open")?;
                Kind::Record(members)
            }
            Word::Sign("(") => {
                let first = self.expression()?;
                if self.take(",")? {
                    let mut parts = alloc::vec![first];
                    parts.extend(self.list(")")?);
                    Kind::Tuple(parts)
                } else {
                    self.demand(")", "a bracket is still open")?;
                    return Ok(Expr { at: start.to(self.last), kind: first.kind });
                }
            }
            Word::Sign("{") => {
                // `block` parses the opening brace itself.
                return self.deeper(|parser| parser.block_behind_brace(start));
            }
            other => return Err(start.error(format!("syntax error, unexpected {}: a value stands here", shown(&other)))),
        };
        Ok(Expr { at: start.to(self.last), kind })
    }

    /// The arguments of `offsetof`: `struct name, member.member)`.
    fn member_of(&mut self, written: &str) -> Result<(TypeName, Vec<String>), ScriptError> {
        let of = self.type_name()?;
        self.demand(",", written)?;
        let mut path = Vec::new();
        loop {
            path.push(self.expect_name("a field's name")?.0);
            if !self.take(".")? {
                self.demand(")", "it ends what is asked about")?;
                return Ok((of, path));
            }
        }
    }

    /// `container_of(pointer, struct name, member)`: the structure that contains the member at this address.
    fn container(&mut self, at: Span) -> Result<Kind, ScriptError> {
        let written = "container_of is written container_of(pointer, struct name, member)";
        let inner = self.expression()?;
        self.demand(",", written)?;
        let (of, path) = self.member_of(written)?;
        let expr = |kind| Box::new(Expr { at, kind });
        let word = TypeName { tag: None, name: "uint64".into(), pointers: 0, array: None, at };
        let (inner, distance) = (expr(Kind::Cast(word, Box::new(inner))), expr(Kind::OffsetOf(of.clone(), path)));
        let whole = TypeName { pointers: of.pointers.saturating_add(1), ..of };
        Ok(Kind::Cast(whole, expr(Kind::Binary(Binary::Subtract, inner, distance))))
    }

    /// A call or a bare name.
    fn named(&mut self, name: String, at: Span) -> Result<Kind, ScriptError> {
        if name == "container_of" && self.take("(")? {
            return self.container(at);
        }
        if matches!(name.as_str(), "sizeof" | "offsetof") && self.take("(")? {
            let kind = if name == "sizeof" {
                if !self.is_type()? {
                    let of = self.expression()?;
                    self.demand(")", "sizeof is written sizeof(type)")?;
                    return Ok(Kind::Call(name, [of].into()));
                }
                Kind::SizeOf(self.type_name()?)
            } else {
                let (of, path) = self.member_of("offsetof is written offsetof(struct name, field)")?;
                return Ok(Kind::OffsetOf(of, path));
            };
            self.demand(")", "it ends what is asked about")?;
            return Ok(kind);
        }
        if matches!(name.as_str(), "true" | "false") {
            return Ok(Kind::Truth(name == "true"));
        }
        if name == "if" {
            let (condition, then, otherwise) = self.deeper(Self::branches)?;
            let Some(otherwise) = otherwise else {
                return Err(at.error("an `if` that is a value has an else: if c { a } else { b }"));
            };
            let value = |block| Box::new(Expr { at, kind: Kind::Block(Box::new(block)) });
            return Ok(Kind::Choice(Box::new(condition), Some(value(then)), value(otherwise)));
        }
        Ok(match self.take("(")? {
            true => Kind::Call(name, self.list(")")?.into()),
            false => Kind::Name(name),
        })
    }

    /// Whether a name and `=` come next. They begin a tuple with named fields.
    fn is_member(&mut self) -> Result<bool, ScriptError> {
        Ok(matches!(self.peek()?, Word::Name(_)) && matches!(self.peek_at(1)?, Word::Sign("=")))
    }

    fn is_type(&mut self) -> Result<bool, ScriptError> {
        let Word::Name(name) = self.peek()?.clone() else { return Ok(false) };
        Ok(matches!(name.as_str(), "struct" | "union" | "enum") || is_type_word(&Word::Name(name.clone())) || is_integer(&name))
    }

    /// A comma-separated list of expressions that ends at this token.
    fn list(&mut self, end: &'static str) -> Result<Vec<Expr>, ScriptError> {
        let mut list = Vec::new();
        while !self.is(end)? {
            list.push(self.expression()?);
            if !self.take(",")? {
                break;
            }
        }
        self.demand(end, "a list is still open")?;
        Ok(list)
    }
}

fn step(operand: Expr, up: bool, value_before: bool, start: Span) -> Result<Expr, ScriptError> {
    let at = start.to(operand.at);
    let target = match operand.kind {
        Kind::Variable(name) => Target::Variable(name),
        Kind::Map(name, keys) => Target::Map(name, keys),
        _ => return Err(operand.at.error("++ and -- change a variable ($name) or a map (@name)")),
    };
    Ok(Expr { at, kind: Kind::Step(Box::new(target), up, value_before) })
}

fn is_type_word(word: &Word) -> bool {
    matches!(word, Word::Name(name) if matches!(name.as_str(), "unsigned" | "signed" | "long" | "short" | "int" | "char" | "const"))
}

/// Whether this is an integer type: `uint8`, `int64_t`, `u32` and the like.
pub(super) fn is_integer(name: &str) -> bool {
    super::types::integer_named(name).is_some()
}

/// Whether this is the name of a builtin. Builtins are values, so `(pid) * 2` is no cast.
pub(super) fn is_builtin(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "pid",
        "tid",
        "comm",
        "uid",
        "gid",
        "username",
        "curtask",
        "cpu",
        "nsecs",
        "elapsed",
        "rand",
        "args",
        "retval",
        "func",
        "probe",
        "kstack",
        "ustack",
        "ctx",
        "cgroup",
        "numaid",
        "cpid",
        "ppid",
        "pcomm",
        "jiffies",
        "ncpus",
        "probetype",
        "usermode",
    ];
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    NAMES.contains(&name) || numbered("arg") || numbered("sarg")
}
