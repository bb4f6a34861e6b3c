//! Parses blocks and statements. A last expression without a `;` is the value of its block, as in Rust.

use super::ast::{Binary, Block, Do, Expr, Kind, Statement, Target};
use super::error::{ScriptError, Span};
use super::lex::Word;
use super::parse::Parser;
use alloc::boxed::Box;

/// The operators of compound assignments, such as `+=`.
pub(super) const ASSIGNING: &[(&str, Binary)] = &[
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

impl Parser<'_> {
    pub(super) fn block(&mut self) -> Result<Block, ScriptError> {
        self.demand("{", "a block begins with it")?;
        self.deeper(Self::block_inside)
    }

    pub(super) fn block_inside(&mut self) -> Result<Block, ScriptError> {
        let mut block = Block::default();
        loop {
            while self.take(";")? {}
            if self.is("}")? {
                // No token is read ahead here, because an attach point may follow.
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
                end(&mut block, statement);
                continue;
            } else if !ends_in_brace {
                self.demand(";", "it stands between statements")?;
            }
            block.statements.push(statement);
        }
    }

    /// Parses a block expression after its opening brace.
    pub(super) fn block_behind_brace(&mut self, start: Span) -> Result<Expr, ScriptError> {
        let block = self.block_inside()?;
        Ok(Expr { at: start.to(self.last), kind: Kind::Block(Box::new(block)) })
    }

    pub(super) fn statement(&mut self) -> Result<Statement, ScriptError> {
        let start = self.place()?;
        let kind = self.deeper(Self::statement_kind)?;
        Ok(Statement { at: start.to(self.last), kind })
    }

    pub(super) fn statement_kind(&mut self) -> Result<Do, ScriptError> {
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

    /// Parses an `if` statement after the keyword.
    pub(super) fn conditional(&mut self) -> Result<Do, ScriptError> {
        let (condition, then, otherwise) = self.branches()?;
        Ok(Do::If(condition, then, otherwise))
    }

    /// Parses the condition and both blocks. `else if` becomes a block with one statement.
    pub(super) fn branches(&mut self) -> Result<(Expr, Block, Option<Block>), ScriptError> {
        let condition = self.condition()?;
        let then = self.block()?;
        let mut otherwise = None;
        if self.take_name("else")? {
            otherwise = Some(if self.is_name("if")? {
                let start = self.place()?;
                self.next()?;
                let kind = self.deeper(Self::conditional)?;
                let at = start.to(self.last);
                let mut block = Block::default();
                end(&mut block, Statement { at, kind });
                block
            } else {
                self.block()?
            });
        }
        Ok((condition, then, otherwise))
    }

    /// Parses a condition, with or without parentheses.
    pub(super) fn condition(&mut self) -> Result<Expr, ScriptError> {
        self.expression()
    }

    pub(super) fn for_loop(&mut self) -> Result<Do, ScriptError> {
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

    pub(super) fn let_variable(&mut self) -> Result<Do, ScriptError> {
        let token = self.next()?;
        let Word::Variable(name) = token.word else {
            return Err(token.at.error("`let` is followed by a variable here: let $name = value"));
        };
        let kind = if self.take(":")? { Some(self.type_name()?) } else { None };
        let value = if self.take("=")? { Some(self.expression()?) } else { None };
        Ok(Do::Let(name, kind, value))
    }
}

/// Ends a block with its last statement. An expression becomes the block's value, and so does an `if` whose two blocks
/// have values. Other statements are appended.
fn end(block: &mut Block, Statement { at, kind }: Statement) {
    let value = match kind {
        Do::Expr(expr) => expr,
        Do::If(condition, then, Some(otherwise)) if then.value.is_some() && otherwise.value.is_some() => {
            let block = |block| Box::new(Expr { at, kind: Kind::Block(Box::new(block)) });
            Expr { at, kind: Kind::Choice(Box::new(condition), Some(block(then)), block(otherwise)) }
        }
        kind => return block.statements.push(Statement { at, kind }),
    };
    block.value = Some(Box::new(value));
}
