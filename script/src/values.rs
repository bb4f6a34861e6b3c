//! Compiles expressions: each becomes a [`Num`] or a [`Bytes`] with its type. The parts of the language are spread over
//! files: `builtins`, `calls`, `operators`, `objects` (members and casts) and `lookups`.

use super::ast::{self, Expr, Kind};
use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::operators::whole;
use super::program::{Act, Any, Bytes, Num};
use super::statements::shown_name;
use super::types::Type;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

/// The largest recursion depth of the compiler, with macros expanded.
const DEEPEST: u32 = 1000;

/// The largest number of parts of a tuple, with those of inner tuples.
const MOST_PARTS: usize = 1000;
/// The steps of copying the type of a tuple's part.
const STEPS_A_PART: u64 = 16;

/// Copying this many bytes of a string costs one step.
pub(super) const TEXT_BYTES_A_STEP: u64 = 4;

/// A compiled value and its type.
pub(super) type Typed = (Any, Type);

impl Compiler<'_> {
    /// Compiles an expression that must be a number.
    pub fn number(&mut self, expr: &Expr) -> Result<(Num, Type), ScriptError> {
        match self.value(expr)? {
            (Any::Num(num), kind) => Ok((num, kind)),
            // A filter or condition must be a number.
            (Any::Bytes(_), kind) => Err(expr.at.error(format!("a number is needed here, and this is of type {}", kind.name()))),
        }
    }

    /// Compiles an expression that must be bytes.
    pub fn bytes(&mut self, expr: &Expr) -> Result<(Bytes, Type), ScriptError> {
        match self.value(expr)? {
            (Any::Bytes(bytes), kind) => Ok((bytes, kind)),
            (Any::Num(_), kind) => Err(expr.at.error(format!("a string is needed here, and this is of type {}", kind.name()))),
        }
    }

    /// Compiles an expression that must be a constant. `what` names it in the error message.
    pub fn constant(&mut self, expr: &Expr, what: &str) -> Result<u64, ScriptError> {
        Ok(self.whole_constant(expr, what)? as u64)
    }

    /// Like [`Compiler::constant`], with the number's sign: messages show it as the script writes it.
    pub(super) fn whole_constant(&mut self, expr: &Expr, what: &str) -> Result<i128, ScriptError> {
        match self.number(expr)? {
            (Num::Const(number), kind) => Ok(whole(number, kind.is_signed())),
            _ => Err(expr.at.error(format!("{what} is a number that is known before the script runs"))),
        }
    }

    /// Compiles an expression for its side effects. Its value is dropped.
    pub fn effect(&mut self, expr: &Expr) -> Result<Act, ScriptError> {
        match &expr.kind {
            Kind::Call(name, arguments) => {
                if let Some(act) = self.action(name, arguments, expr.at)? {
                    return Ok(act);
                }
                if let Some(act) = self.macro_acts(name, arguments, expr.at)? {
                    return Ok(act);
                }
            }
            Kind::Name(name) => {
                if let Some(act) = self.macro_acts(name, &Arc::default(), expr.at)? {
                    return Ok(act);
                }
            }
            // `c ? printf("a") : exit();`
            Kind::Choice(condition, Some(then), otherwise) => {
                let condition = self.number(condition)?.0;
                let (then, otherwise) = (self.effect(then)?, self.effect(otherwise)?);
                return Ok(Act::If(condition, Box::new([then]), Box::new([otherwise])));
            }
            Kind::Block(block) => return Ok(Act::Block(self.acts(block))),
            _ => {}
        }
        Ok(match self.value(expr)?.0 {
            Any::Num(num) => Act::Eval(num),
            Any::Bytes(bytes) => Act::Drop(bytes),
        })
    }

    /// Compiles a macro as a statement. `None` if there is no such macro.
    fn macro_acts(&mut self, name: &str, arguments: &Arc<[Expr]>, at: Span) -> Result<Option<Act>, ScriptError> {
        let Some(body) = self.enter_macro(name, arguments, at)? else { return Ok(None) };
        let acts = self.acts(body);
        self.frames.pop();
        Ok(Some(Act::Block(acts)))
    }

    /// Compiles a block that has a value: the body of a macro, or a block expression.
    pub(super) fn block_value(&mut self, block: &ast::Block, at: Span) -> Result<Typed, ScriptError> {
        let acts = self.acts_of(&block.statements, None);
        let Some(value) = &block.value else {
            return Err(at.error("this block has no value: let its last statement be one, without a ;"));
        };
        let (any, kind) = self.value(value)?;
        if acts.is_empty() {
            return Ok((any, kind));
        }
        Ok(match any {
            Any::Num(num) => (Any::Num(Num::Behind(acts, Box::new(num))), kind),
            Any::Bytes(bytes) => (Any::Bytes(Bytes::Behind(acts, Box::new(bytes))), kind),
        })
    }

    /// Compiles an expression.
    pub fn value(&mut self, expr: &Expr) -> Result<Typed, ScriptError> {
        let (any, kind) = self.one_level(expr.at, |compiler| compiler.value_of(expr))?;
        self.check_parts(&kind, expr.at)?;
        Ok((any, kind))
    }

    /// Charges the copy of a tuple's type. Fails if it has too many parts: a tuple of two equal tuples has twice as many, so
    /// a few lines could make a type of any size.
    pub(super) fn check_parts(&self, kind: &Type, at: Span) -> Result<(), ScriptError> {
        let parts = kind.count_of_parts();
        if parts > MOST_PARTS {
            return Err(
                at.error("a tuple has at most 1,000 parts, with those of the tuples in it: keep parts in variables or maps")
            );
        }
        self.charge(parts as u64 * STEPS_A_PART, at)
    }

    /// Charges the strings among a call's arguments, which the call may copy. In a macro they are copied by each expansion.
    pub(super) fn charge_texts(&self, arguments: &[Expr]) -> Result<(), ScriptError> {
        arguments.iter().try_for_each(|argument| match &argument.kind {
            Kind::Text(text) => self.charge(text.len() as u64 / TEXT_BYTES_A_STEP, argument.at),
            _ => Ok(()),
        })
    }

    /// Compiles something one level deeper and charges a step. Fails at the depth limit, which nested macros can reach
    /// even if the script is short.
    pub(super) fn one_level<T>(
        &mut self,
        at: Span,
        compile: impl FnOnce(&mut Self) -> Result<T, ScriptError>,
    ) -> Result<T, ScriptError> {
        if self.level == DEEPEST {
            return Err(at.error(
                "this comes to more operators one inside the other than can be followed: put parts of it into variables",
            ));
        }
        self.charge(1, at)?;
        self.level += 1;
        let compiled = compile(self);
        self.level -= 1;
        compiled
    }

    fn value_of(&mut self, expr: &Expr) -> Result<Typed, ScriptError> {
        let at = expr.at;
        match &expr.kind {
            Kind::Number(number) => Ok(number_of(*number)),
            Kind::Truth(is) => Ok((Any::Num(Num::Const((*is).into())), Type::TRUTH)),
            Kind::Text(text) => {
                self.charge(text.len() as u64 / TEXT_BYTES_A_STEP, at)?;
                Ok((Any::Bytes(Bytes::Literal(text.as_slice().into())), Type::Text(text.len() as u32 + 1)))
            }
            Kind::Variable(name) => self.variable_value(name, at),
            Kind::Map(name, keys) => {
                let map = self.map(name, at);
                let key = self.key(map, keys, at)?;
                let kind = self.facts[usize::from(map)].value.clone().unwrap_or(Type::U64);
                Ok(match kind {
                    Type::Aggregate(aggregate) => (Any::Num(Num::Map(map, key)), Type::Int(8, aggregate.is_signed())),
                    kind if kind.is_number() => (Any::Num(Num::Map(map, key)), kind),
                    kind => (Any::Bytes(Bytes::Map(map, key)), kind),
                })
            }
            Kind::Positional(number) => self.positional(*number, at),
            Kind::PositionalCount => Ok(number_of(self.options.parameters.len() as u64)),
            Kind::Name(name) => self.named(name, at),
            Kind::Call(name, arguments) => {
                if let Some(body) = self.enter_macro(name, arguments, at)? {
                    let value = self.block_value(body, at);
                    self.frames.pop();
                    return value;
                }
                self.call(name, arguments, at)
            }
            Kind::Block(block) => self.block_value(block, at),
            Kind::Unary(unary, of) => self.unary(*unary, of),
            Kind::Binary(binary, one, other) => self.binary(*binary, one, other, at),
            Kind::Choice(condition, then, otherwise) => self.choice(condition, then.as_deref(), otherwise, at),
            Kind::Field(of, name, name_at) => self.field(of, name, *name_at),
            Kind::Part(of, number) => self.part(of, *number, at),
            Kind::Index(of, index) => self.index(of, index, at),
            Kind::Cast(kind, of) => self.cast(kind, of),
            Kind::Tuple(parts) => self.tuple(parts),
            Kind::Record(members) => {
                let mut parts = alloc::vec::Vec::new();
                for (name, member) in members {
                    let typed = self.value(member)?;
                    parts.push((name.clone(), self.held(typed, member.at)?));
                }
                self.record(parts, at)
            }
            Kind::SizeOf(name) => {
                let kind = self.c_type(name)?;
                let size =
                    self.known.size_of(&kind).ok_or_else(|| at.error(format!("the size of {} is not known", name.name)))?;
                Ok(number_of(size))
            }
            Kind::OffsetOf(name, path) => {
                let mut kind = self.c_type(name)?;
                let mut bits = 0;
                for name in path {
                    self.charge(1, at)?;
                    let field = self.member(&kind, name, at)?;
                    bits = field.bit.saturating_add(bits);
                    kind = field.kind;
                }
                Ok(number_of(bits / 8))
            }
            Kind::Step(target, up, before) => self.step(target, *up, *before, at),
        }
    }
}

impl Compiler<'_> {
    /// A variable that was assigned before.
    fn variable_value(&self, name: &str, at: Span) -> Result<Typed, ScriptError> {
        let name = self.variable_name(name);
        match self.block.variables.get(&name) {
            Some((place, kind)) => {
                let kind = kind.clone();
                Ok(match kind.is_number() {
                    true => (Any::Num(Num::Variable(*place)), kind),
                    false => (Any::Bytes(Bytes::Variable(*place)), kind),
                })
            }
            None => {
                let shown = shown_name(&name);
                Err(at.error(format!("Undefined or undeclared variable: ${shown}: assign it a value first")))
            }
        }
    }

    /// A tuple of values.
    fn tuple(&mut self, parts: &[Expr]) -> Result<Typed, ScriptError> {
        let mut types = alloc::vec::Vec::new();
        let mut values = alloc::vec::Vec::new();
        for part in parts {
            let typed = self.value(part)?;
            let (any, kind) = self.held(typed, part.at)?;
            if matches!(kind, Type::None) {
                return Err(part.at.error("this has no value that could stand in a tuple"));
            }
            values.push(any);
            types.push(kind);
        }
        Ok((Any::Bytes(Bytes::Tuple(values.into())), Type::Tuple(types)))
    }

    /// A tuple with named fields.
    pub(super) fn record(&mut self, members: alloc::vec::Vec<(String, Typed)>, at: Span) -> Result<Typed, ScriptError> {
        let (mut values, mut types) = (alloc::vec::Vec::new(), alloc::vec::Vec::new());
        for (name, (any, kind)) in members {
            if matches!(kind, Type::None) {
                return Err(at.error(format!("the member '{name}' has no value")));
            }
            values.push(any);
            types.push((name, kind));
        }
        Ok((Any::Bytes(Bytes::Tuple(values.into())), Type::Record(types)))
    }
}

/// The type of a literal. It is signed if its value fits.
pub(super) fn number_of(number: u64) -> Typed {
    (Any::Num(Num::Const(number)), Type::Int(8, number <= i64::MAX as u64))
}

/// The text of an expression that must be a literal string.
pub(super) fn literal(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Kind::Name(name) => Some(name.to_owned()),
        _ => None,
    }
}
