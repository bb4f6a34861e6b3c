//! Compiles statements to [`Act`]s: assignments, branches and loops. Also manages variables.

use super::ast::{self, Do, Target};
use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::numbers::extend;
use super::operators::{cut, whole};
use super::program::{Act, Any, Bytes, Num, Op};
use super::types::Type;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Compiler<'_> {
    /// Compiles the statements of a block. An error in one is noted, and the others are compiled as well.
    pub fn acts(&mut self, block: &ast::Block) -> Box<[Act]> {
        self.acts_of(&block.statements, block.value.as_deref())
    }

    /// Compiles statements, and an expression as the last one.
    pub(super) fn acts_of(&mut self, statements: &[ast::Statement], value: Option<&ast::Expr>) -> Box<[Act]> {
        let mut acts = Vec::new();
        self.block.depth = self.block.depth.saturating_add(1);
        for statement in statements {
            match self.one_level(statement.at, |compiler| compiler.act(statement)) {
                Ok(act) => acts.push(act),
                Err(error) => self.wrong(error),
            }
            if self.is_hopeless() {
                break;
            }
        }
        if let Some(value) = value {
            match self.effect(value) {
                Ok(act) => acts.push(act),
                Err(error) => self.wrong(error),
            }
        }
        self.block.depth = self.block.depth.saturating_sub(1);
        acts.into()
    }

    pub(super) fn act(&mut self, statement: &ast::Statement) -> Result<Act, ScriptError> {
        Ok(match &statement.kind {
            Do::Expr(expr) => self.effect(expr)?,
            Do::Block(block) => Act::Block(self.acts(block)),
            Do::Assign(target, operator, value) => self.assign(target, *operator, value, statement.at)?,
            Do::Let(name, kind, value) => self.declare(name, kind.as_ref(), value.as_ref(), statement.at)?,
            Do::If(condition, then, otherwise) => {
                let condition = self.number(condition)?.0;
                let then = self.acts(then);
                let otherwise = otherwise.as_ref().map_or_else(Box::default, |block| self.acts(block));
                Act::If(condition, then, otherwise)
            }
            Do::While(condition, body) => {
                let before = self.budget.spent();
                let condition = self.number(condition)?.0;
                let body = self.in_loop(body);
                Act::While(condition, body, Box::default(), self.steps_since(before))
            }
            Do::Unroll(count, body) => self.unroll(count, body, statement.at)?,
            Do::ForRange(name, from, to, body) => self.for_range(name, [from, to], body, statement.at)?,
            Do::ForMap(name, map, body) => self.for_map(name, map, body, statement.at)?,
            Do::Return => Act::Return,
            Do::Break if self.block.loops > 0 => Act::Break,
            Do::Continue if self.block.loops > 0 => Act::Continue,
            Do::Break => return Err(statement.at.error("break statement outside of a loop: take it away, or write return")),
            Do::Continue => {
                return Err(statement.at.error("continue statement outside of a loop: take it away, or write return"));
            }
        })
    }

    /// `let $name: kind = value`.
    fn declare(
        &mut self,
        name: &str,
        kind: Option<&ast::TypeName>,
        value: Option<&ast::Expr>,
        at: Span,
    ) -> Result<Act, ScriptError> {
        let declared = match kind {
            Some(kind) if kind.tag.is_none() && kind.pointers == 0 && kind.name == "bool" => Some(Type::TRUTH),
            Some(kind) => Some(self.type_named(kind)?),
            None => None,
        };
        let given = match value {
            Some(value) => Some(self.value(value)?),
            None => None,
        };
        let Some(kind) = declared else {
            // The type is that of the first value.
            return match given {
                Some((any, kind)) => self.set_variable(name, any, kind, at),
                None => Ok(Act::Block(Box::default())),
            };
        };
        let (place, _) = self.variable(name, kind.clone(), at)?;
        let unique = self.variable_name(name);
        self.block.variables.insert(unique.clone(), (place, kind.clone()));
        self.block.declared.insert(unique);
        match given {
            Some((any, is)) => self.set_variable(name, any, is, at),
            None if kind.is_number() => Ok(Act::Number(place, Num::Const(0))),
            None => Ok(Act::Bytes(place, Bytes::Literal(Box::default()))),
        }
    }

    /// `unroll (count) { ... }`, which runs as a loop.
    fn unroll(&mut self, count: &ast::Expr, body: &ast::Block, at: Span) -> Result<Act, ScriptError> {
        let (count, _) = self.number(count)?;
        let Num::Const(times @ 1..=100) = count else {
            return Err(at.error("unroll takes a number from 1 to 100 that is known before the script runs"));
        };
        let counter = self.hidden();
        let step = Act::Eval(Num::StepVariable { variable: counter, by: 1, before: true });
        let going = Num::Binary(Op::Less, Box::new([Num::Variable(counter), Num::Const(times)]));
        let before = self.budget.spent();
        let body = self.in_loop(body);
        Ok(Act::Block(Box::new([
            Act::Number(counter, Num::Const(0)),
            Act::While(going, body, Box::new([step]), self.steps_since(before)),
        ])))
    }

    /// `for ($name : from..to) { ... }`.
    fn for_range(&mut self, name: &str, [from, to]: [&ast::Expr; 2], body: &ast::Block, at: Span) -> Result<Act, ScriptError> {
        let ((first, kind), (last, _)) = (self.number(from)?, self.number(to)?);
        let (counter, end) = (self.hidden(), self.hidden());
        let set = self.passed_over(|compiler| compiler.set_variable(name, Any::Num(Num::Variable(counter)), kind, at))?;
        let step = Act::Eval(Num::StepVariable { variable: counter, by: 1, before: true });
        let going = Num::Binary(Op::LessSigned, Box::new([Num::Variable(counter), Num::Variable(end)]));
        let before = self.budget.spent();
        let body = Act::Block(self.in_loop(body));
        let steps = self.steps_since(before);
        Ok(Act::Block(Box::new([
            Act::Number(counter, first),
            Act::Number(end, last),
            Act::While(going, Box::new([set, body]), Box::new([step]), steps),
        ])))
    }

    /// `for ($name : @map) { ... }`.
    fn for_map(&mut self, name: &str, map: &str, body: &ast::Block, at: Span) -> Result<Act, ScriptError> {
        let map = self.map(map, at);
        let facts = self.facts[usize::from(map)].clone();
        let key = match facts.keys {
            Some(keys) if keys.len() > 1 => Type::Tuple(keys),
            Some(keys) if keys.is_empty() => {
                return Err(at.error("this map has no keys: only a map with keys (@name[key]) can be gone over"));
            }
            keys => keys.and_then(|keys| keys.into_iter().next()).unwrap_or(Type::U64),
        };
        let value = match facts.value {
            Some(Type::Aggregate(_)) | None => Type::I64,
            Some(value) => value,
        };
        let pair = Type::Tuple(alloc::vec![key, value]);
        self.check_parts(&pair, at)?;
        let (variable, _) = self.passed_over(|compiler| compiler.variable(name, pair, at))?;
        let before = self.budget.spent();
        let body = self.in_loop(body);
        Ok(Act::ForMap(map, variable, body, self.steps_since(before)))
    }

    /// Compiles code that a hit may skip, such as a filter. A variable whose first assignment is in it is emptied at each hit.
    pub(super) fn passed_over<T>(&mut self, compile: impl FnOnce(&mut Self) -> T) -> T {
        self.block.depth = self.block.depth.saturating_add(1);
        let made = compile(self);
        self.block.depth = self.block.depth.saturating_sub(1);
        made
    }

    /// The number of compile steps since `before`. One execution of the compiled code costs as many.
    fn steps_since(&self, before: u64) -> u32 {
        u32::try_from(self.budget.spent() - before).unwrap_or(u32::MAX)
    }

    /// Compiles the body of a loop, in which `break` and `continue` are allowed.
    pub(super) fn in_loop(&mut self, body: &ast::Block) -> Box<[Act]> {
        self.block.loops += 1;
        let body = self.acts(body);
        self.block.loops -= 1;
        body
    }

    /// Compiles an assignment. One to a map teaches the compiler the types of the map's key and value.
    pub(super) fn assign(
        &mut self,
        target: &Target,
        operator: Option<ast::Binary>,
        value: &ast::Expr,
        at: Span,
    ) -> Result<Act, ScriptError> {
        match (target, operator) {
            (Target::Nothing, _) => self.effect(value),
            (Target::Variable(name), None) => {
                let (any, kind) = self.value(value)?;
                self.set_variable(name, any, kind, at)
            }
            (Target::Map(name, keys), None) => {
                if let ast::Kind::Call(function, arguments) = &value.kind
                    && let Some((aggregate, num)) = self.aggregate(function, arguments, value.at)?
                {
                    let map = self.map(name, at);
                    let key = self.key(map, keys, at)?;
                    self.learn_value(map, Type::Aggregate(aggregate), at)?;
                    // All values of a map are compared and added up in one way, signed if one of them is.
                    let aggregate = match &self.facts[usize::from(map)].value {
                        Some(Type::Aggregate(whole)) => *whole,
                        _ => aggregate,
                    };
                    return Ok(Act::Collect(map, key, aggregate, num));
                }
                let typed = self.value(value)?;
                let is_unknown = self.is_unknown(value);
                let (any, kind) = self.held(typed, value.at)?;
                let map = self.map(name, at);
                let key = self.key(map, keys, at)?;
                match is_unknown {
                    // A later line assigns to the other map, and the next pass knows its type.
                    true => self.facts[usize::from(map)].is_assigned = true,
                    false => self.learn_value(map, kind, at)?,
                }
                Ok(Act::Map(map, key, any))
            }
            // `target op= value` means `target = target op value`.
            (target, Some(operator)) => {
                // A key with side effects is evaluated once, and before the value.
                let (target, mut kept) = match target {
                    Target::Map(name, keys) => {
                        let (keys, kept) = self.evaluated_once(keys)?;
                        (Target::Map(name.clone(), keys), kept)
                    }
                    target => (target.clone(), Vec::new()),
                };
                let read = match target.clone() {
                    Target::Variable(name) => ast::Kind::Variable(name),
                    Target::Map(name, keys) => ast::Kind::Map(name, keys),
                    Target::Nothing => return Err(at.error("_ has no value that could be changed")),
                };
                if let Target::Map(name, _) = &target {
                    // `@m += 1` may be the first assignment to a map.
                    let map = self.map(name, at);
                    self.facts[usize::from(map)].is_assigned = true;
                }
                let read = ast::Expr { at, kind: read };
                let whole = ast::Expr { at, kind: ast::Kind::Binary(operator, Box::new(read), Box::new(value.clone())) };
                let set = self.assign(&target, None, &whole, at)?;
                if kept.is_empty() {
                    return Ok(set);
                }
                kept.push(set);
                Ok(Act::Block(kept.into()))
            }
        }
    }

    /// Whether this is the value of a map whose type is not known yet.
    fn is_unknown(&mut self, value: &ast::Expr) -> bool {
        let ast::Kind::Map(name, _) = &value.kind else { return false };
        let map = self.map(name, value.at);
        self.facts[usize::from(map)].value.is_none()
    }

    /// A map's key for a statement that uses it twice: the key itself if it always has the same value and no side effects.
    /// Otherwise its parts are hidden variables, with the assignments that must run before.
    pub(super) fn evaluated_once(&mut self, keys: &[ast::Expr]) -> Result<(Vec<ast::Expr>, Vec<Act>), ScriptError> {
        // @m[(a, b)] is @m[a, b].
        let keys = match keys {
            [ast::Expr { kind: ast::Kind::Tuple(parts), .. }] => parts.as_slice(),
            keys => keys,
        };
        if keys.iter().all(|key| self.is_repeatable(key)) {
            return Ok((keys.to_vec(), Vec::new()));
        }
        let (mut parts, mut kept) = (Vec::new(), Vec::new());
        for key in keys {
            // No name in a script has a space.
            let name = format!("part {}", self.hidden());
            let typed = self.value(key)?;
            let (value, kind) = self.held(typed, key.at)?;
            if kind == Type::None {
                return Err(key.at.error("this has no value that could be a key"));
            }
            kept.push(self.set_variable(&name, value, kind, key.at)?);
            parts.push(ast::Expr { at: key.at, kind: ast::Kind::Variable(name) });
        }
        Ok((parts, kept))
    }

    /// Whether evaluating this expression twice in a statement is as good as once. It is not if that changes something, as
    /// some calls and blocks do, nor for `rand`. A name may be that of a macro or of its parameter, which stand for any
    /// expression.
    fn is_repeatable(&self, of: &ast::Expr) -> bool {
        use ast::Kind;
        match &of.kind {
            Kind::Name(name) => {
                let is_parameter = self.frames.last().is_some_and(|frame| frame.expressions.contains_key(name));
                name != "rand" && !is_parameter && !self.by_name.contains_key(name.as_str())
            }
            Kind::Number(_) | Kind::Truth(_) | Kind::Text(_) | Kind::Variable(_) => true,
            Kind::Positional(_) | Kind::PositionalCount | Kind::SizeOf(_) | Kind::OffsetOf(..) => true,
            Kind::Unary(_, of) | Kind::Cast(_, of) | Kind::Field(of, ..) | Kind::Part(of, _) => self.is_repeatable(of),
            Kind::Binary(_, one, other) | Kind::Index(one, other) => self.is_repeatable(one) && self.is_repeatable(other),
            Kind::Map(_, parts) | Kind::Tuple(parts) => parts.iter().all(|part| self.is_repeatable(part)),
            Kind::Choice(..) | Kind::Call(..) | Kind::Record(_) | Kind::Step(..) | Kind::Block(_) => false,
        }
    }

    /// Compiles the assignment of a compiled value to a variable, which is created if it is new.
    pub fn set_variable(&mut self, name: &str, any: Any, kind: Type, at: Span) -> Result<Act, ScriptError> {
        let signed = kind.is_signed();
        let (variable, is) = self.variable(name, kind, at)?;
        Ok(match any {
            Any::Num(num) => Act::Number(variable, self.narrowed(name, num, signed, &is, at)?),
            Any::Bytes(bytes) => Act::Bytes(variable, bytes),
        })
    }

    /// A number for a variable of the type `is`, narrowed if the type was declared. Fails if it is a constant that does not
    /// fit. `signed` is the number's sign.
    fn narrowed(&self, name: &str, num: Num, signed: bool, is: &Type, at: Span) -> Result<Num, ScriptError> {
        let Some(size @ 1..) = is.integer_size() else { return Ok(num) };
        if !self.block.declared.contains(&self.variable_name(name)) {
            return Ok(num);
        }
        if let Num::Const(number) = num {
            let value = whole(number, signed);
            if value != whole(extend(number, size, is.is_signed()), is.is_signed()) {
                return Err(at.error(format!(
                    "Type mismatch for ${name}: trying to assign value '{value}' which does not fit into the variable of type '{}'",
                    is.name()
                )));
            }
        }
        Ok(cut(num, size, is.is_signed()))
    }

    /// The number and the type of a variable. A new variable gets the type `kind`. Fails if an existing one has a type that
    /// does not agree with `kind`.
    pub(super) fn variable(&mut self, name: &str, kind: Type, at: Span) -> Result<(u16, Type), ScriptError> {
        let name = self.variable_name(name);
        if let Some((place, is)) = self.block.variables.get(&name) {
            let same = is.is_number() == kind.is_number() && (is.is_integer() == kind.is_integer() || !is.is_number())
                || is.is_integer() && matches!(kind, Type::Pointer(_))
                || kind.is_integer() && matches!(is, Type::Pointer(_));
            let same = same && matches!(is, Type::Text(_) | Type::Buffer) == matches!(kind, Type::Text(_) | Type::Buffer);
            let same = same && (*is != Type::TRUTH || kind == *is || !self.block.declared.contains(&name));
            if !same {
                return Err(at.error(format!(
                    "Type mismatch for ${}: trying to assign value of type '{}' when variable already contains a value of type '{}'",
                    shown_name(&name),
                    kind.name(),
                    is.name()
                )));
            }
            let (place, is) = (*place, is.clone());
            // A variable that gets both booleans and other numbers becomes a number.
            if is == Type::TRUTH && kind != is {
                self.block.variables.insert(name, (place, kind.clone()));
            }
            return Ok((place, is));
        }
        let place = self.hidden();
        self.block.variables.insert(name, (place, kind.clone()));
        // If the first assignment may be skipped, the variable is emptied at each hit. Otherwise a read could return
        // the previous hit's value.
        if self.block.depth != 1 {
            self.block.emptied.push(place);
        }
        Ok((place, kind))
    }

    /// Creates a variable without a name.
    pub fn hidden(&mut self) -> u16 {
        self.block.count = self.block.count.saturating_add(1);
        self.most_variables = self.most_variables.max(self.block.count);
        self.block.count - 1
    }

    /// The unique name of a variable. Inside a macro a local name gets a suffix, and a parameter becomes the argument.
    pub fn variable_name(&self, name: &str) -> String {
        match self.frames.last() {
            Some(frame) => frame.variables.get(name).cloned().unwrap_or_else(|| format!("{name}#{}", frame.suffix)),
            None => name.to_owned(),
        }
    }
}

/// The name of a variable as the script writes it: its unique name without the suffix of a macro.
pub(super) fn shown_name(unique: &str) -> &str {
    unique.split('#').next().unwrap_or_default()
}
