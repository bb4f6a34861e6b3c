//! Compiles operators, `?:`, `++` and `--`, and folds constants.

use super::ast::{Binary, Expr, Kind, Target, Unary};
use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::program::{Act, Any, Bytes, Num, Op};
use super::types::Type;
use super::values::Typed;
use alloc::boxed::Box;
use alloc::format;

impl Compiler<'_> {
    /// Compiles `-e`, `!e`, `~e` or `*e`.
    pub(super) fn unary(&mut self, unary: Unary, of: &Expr) -> Result<Typed, ScriptError> {
        let (num, kind) = self.number(of)?;
        Ok(match unary {
            Unary::Negate => match num {
                Num::Const(number) => (Any::Num(Num::Const(number.wrapping_neg())), Type::I64),
                num => (Any::Num(Num::Negate(Box::new(num))), Type::I64),
            },
            Unary::Not => (Any::Num(Num::Not(Box::new(num))), Type::TRUTH),
            Unary::Complement => match num {
                Num::Const(number) => (Any::Num(Num::Const(!number)), Type::U64),
                num => (Any::Num(Num::Complement(Box::new(num))), Type::Int(8, kind.is_signed())),
            },
            Unary::Load => match kind {
                Type::Pointer(to) => self.object(num, &to),
                _ => (Any::Num(Num::Load { at: Box::new(num), size: 8, signed: false }), Type::U64),
            },
        })
    }

    /// Compiles a binary operator. Integers are compared as signed if either operand is signed. Pointer arithmetic counts in
    /// objects. Strings and copies of structures have only `==` and `!=`.
    pub(super) fn binary(&mut self, binary: Binary, one: &Expr, other: &Expr, at: Span) -> Result<Typed, ScriptError> {
        let (mut left, mut right) = (self.value(one)?, self.value(other)?);
        // Arrays and structures are compared by their bytes.
        if matches!((&left.1, &right.1), (Type::Object(_), Type::Object(_) | Type::Held(_)) | (Type::Held(_), Type::Object(_))) {
            (left, right) = (self.held(left, one.at)?, self.held(right, other.at)?);
        }
        let ((left, left_kind), (right, right_kind)) = (left, right);
        let truth = Type::TRUTH;
        let (left, right) = match (left, right) {
            (Any::Num(left), Any::Num(right)) => (left, right),
            (Any::Bytes(left), Any::Bytes(right)) if matches!(binary, Binary::Equal | Binary::Unequal) => {
                let same = Num::SameText(Box::new([left, right]), None);
                let num = if binary == Binary::Equal { same } else { Num::Not(Box::new(same)) };
                return Ok((Any::Num(num), truth));
            }
            _ => {
                return Err(at.error(format!(
                    "Type mismatch: values of type '{}' and '{}' cannot be put together so{}",
                    left_kind.name(),
                    right_kind.name(),
                    if left_kind.is_number() || right_kind.is_number() { "" } else { ": strings are compared by == and !=" }
                )));
            }
        };
        let left_signed = left_kind.is_signed();
        let signed = is_signed((one, &left_kind), (other, &right_kind));
        let number = |num| Ok((Any::Num(num), Type::Int(8, signed)));
        match binary {
            Binary::And => Ok((Any::Num(Num::And(Box::new([left, right]))), truth)),
            Binary::Or => Ok((Any::Num(Num::Or(Box::new([left, right]))), truth)),
            Binary::Equal => Ok((Any::Num(fold(Op::Equal, left, right)), truth)),
            Binary::Unequal => Ok((Any::Num(fold(Op::Unequal, left, right)), truth)),
            Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
                let (less, or_equal) = if signed { (Op::LessSigned, Op::LessEqualSigned) } else { (Op::Less, Op::LessEqual) };
                Ok((
                    Any::Num(match binary {
                        Binary::Less => fold(less, left, right),
                        Binary::LessEqual => fold(or_equal, left, right),
                        Binary::Greater => fold(less, right, left),
                        _ => fold(or_equal, right, left),
                    }),
                    truth,
                ))
            }
            Binary::Add | Binary::Subtract => {
                let op = if binary == Binary::Add { Op::Add } else { Op::Subtract };
                match (left_kind, right_kind) {
                    // Pointer arithmetic counts in units of the pointed-to type.
                    (Type::Pointer(to), kind) if kind.is_integer() => {
                        let size = self.known.size_of(&to).unwrap_or(1);
                        Ok((Any::Num(fold(op, left, fold(Op::Multiply, right, Num::Const(size)))), Type::Pointer(to)))
                    }
                    _ if op == Op::Subtract => Ok((Any::Num(fold(op, left, right)), Type::I64)),
                    _ => number(fold(op, left, right)),
                }
            }
            Binary::Multiply => number(fold(Op::Multiply, left, right)),
            Binary::Divide => number(fold(Op::Divide, left, right)),
            Binary::Modulo => number(fold(Op::Modulo, left, right)),
            Binary::BitAnd => number(fold(Op::BitAnd, left, right)),
            Binary::BitOr => number(fold(Op::BitOr, left, right)),
            Binary::BitXor => number(fold(Op::BitXor, left, right)),
            Binary::ShiftLeft => Ok((Any::Num(fold(Op::ShiftLeft, left, right)), Type::Int(8, left_signed))),
            Binary::ShiftRight => Ok((Any::Num(fold(Op::ShiftRight, left, right)), Type::Int(8, left_signed))),
        }
    }

    /// Compiles `c ? a : b`, or `c ?: b` if `then` is missing.
    pub(super) fn choice(
        &mut self,
        condition: &Expr,
        then: Option<&Expr>,
        otherwise: &Expr,
        at: Span,
    ) -> Result<Typed, ScriptError> {
        let (asked, asked_kind) = self.number(condition)?;
        let (no, no_kind) = self.value(otherwise)?;
        let Some(then) = then else {
            let Any::Num(no) = no else { return Err(otherwise.at.error("both sides of ?: are numbers")) };
            return Ok((Any::Num(Num::Either(Box::new([asked, no]))), asked_kind));
        };
        let (yes, yes_kind) = self.value(then)?;
        match (yes, no) {
            (Any::Num(yes), Any::Num(no)) => {
                let kind = match (&yes_kind, &no_kind) {
                    (Type::Int(0, _), Type::Int(0, _)) => Type::TRUTH,
                    (Type::Enum(one), Type::Enum(other)) if one == other => yes_kind,
                    (one, other) if one.is_integer() && other.is_integer() => {
                        Type::Int(8, is_signed((then, one), (otherwise, other)))
                    }
                    _ => yes_kind,
                };
                Ok((Any::Num(Num::Choice(Box::new([asked, yes, no]))), kind))
            }
            (Any::Bytes(yes), Any::Bytes(no)) => {
                let kind = match (yes_kind, no_kind) {
                    (Type::Text(one), Type::Text(other)) => Type::Text(one.max(other)),
                    (kind, _) => kind,
                };
                Ok((Any::Bytes(Bytes::Choice(Box::new(asked), Box::new([yes, no]))), kind))
            }
            _ => Err(at.error(format!(
                "both sides of a choice are of one kind, and these are '{}' and '{}'",
                yes_kind.name(),
                no_kind.name()
            ))),
        }
    }

    /// Compiles `++` or `--`. `before`: the value is the one before the step.
    pub(super) fn step(&mut self, target: &Target, up: bool, before: bool, at: Span) -> Result<Typed, ScriptError> {
        let sign = |size: u64| if up { size } else { size.wrapping_neg() };
        match target {
            Target::Variable(name) => {
                let name = self.variable_name(name);
                let Some((place, kind)) = self.block.variables.get(&name).cloned() else {
                    return Err(at.error("Undefined or undeclared variable: assign it a value before it is counted up or down"));
                };
                let size = match &kind {
                    Type::Pointer(to) => self.known.size_of(to).unwrap_or(1),
                    kind if kind.is_integer() => 1,
                    kind => return Err(at.error(format!("a value of type {} cannot be counted up or down", kind.name()))),
                };
                if self.block.declared.contains(&name)
                    && let Some(width @ 1..8) = kind.integer_size()
                {
                    let moved = |op| {
                        let both = Box::new([Num::Variable(place), Num::Const(sign(size))]);
                        cut(Num::Binary(op, both), width, kind.is_signed())
                    };
                    let set = Act::Number(place, moved(Op::Add));
                    let value = if before { moved(Op::Subtract) } else { Num::Variable(place) };
                    return Ok((Any::Num(Num::Behind(Box::new([set]), Box::new(value))), kind));
                }
                Ok((Any::Num(Num::StepVariable { variable: place, by: sign(size), before }), kind))
            }
            Target::Map(name, keys) => {
                let map = self.map(name, at);
                let key = self.key(map, keys, at)?;
                self.learn_value(map, Type::I64, at)?;
                Ok((Any::Num(Num::StepMap { map, key, by: sign(1), before }), Type::I64))
            }
            Target::Nothing => Err(at.error("_ has no value that could be changed")),
        }
    }
}

/// Whether the result of two operands is signed. A literal takes the sign of the other operand. Two literals are signed if
/// both are: one above the largest signed number is not.
fn is_signed(one: (&Expr, &Type), other: (&Expr, &Type)) -> bool {
    let is_literal = |expr: &Expr| matches!(expr.kind, Kind::Number(_));
    let (left, right) = (one.1.is_signed(), other.1.is_signed());
    match (is_literal(one.0), is_literal(other.0)) {
        (true, true) => left && right,
        (true, false) => right,
        (false, true) => left,
        (false, false) => left || right,
    }
}

/// The value of a constant, by its sign.
pub(super) fn whole(number: u64, signed: bool) -> i128 {
    if signed { i128::from(number as i64) } else { i128::from(number) }
}

/// An address plus a constant offset in bytes.
pub(super) fn add(at: Num, offset: u64) -> Num {
    if offset == 0 { at } else { fold(Op::Add, at, Num::Const(offset)) }
}

/// The number truncated to `size` bytes and extended again.
pub(super) fn cut(of: Num, size: u8, signed: bool) -> Num {
    if size >= 8 { of } else { Num::Cut { of: Box::new(of), size, signed } }
}

/// A binary operation, computed now if both operands are constants. Only `+`, `-` and `*` are folded: addresses and indices.
pub(super) fn fold(op: Op, left: Num, right: Num) -> Num {
    match (op, &left, &right) {
        (Op::Add, Num::Const(one), Num::Const(other)) => Num::Const(one.wrapping_add(*other)),
        (Op::Subtract, Num::Const(one), Num::Const(other)) => Num::Const(one.wrapping_sub(*other)),
        (Op::Multiply, Num::Const(one), Num::Const(other)) => Num::Const(one.wrapping_mul(*other)),
        (Op::Multiply, _, Num::Const(1)) => left,
        _ => Num::Binary(op, Box::new([left, right])),
    }
}
