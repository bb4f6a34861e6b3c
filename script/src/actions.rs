//! Compiles calls that are actions (`printf`, `exit`, `delete`, ...) and the aggregations that are assigned to maps
//! (`count()`, `hist()`, ...).

use super::ast::{Expr, Kind};
use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::format::Format;
use super::prints::MOST_VALUES;
use super::program::{Act, Num, Printf, Stream};
use super::stored::linear_buckets;
use super::types::Aggregate;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// The largest number of buckets of a linear histogram.
pub(super) const MOST_BUCKETS: usize = 1000;

impl Compiler<'_> {
    /// The aggregation that a call names. `None` if it is another call.
    pub fn aggregate(&mut self, name: &str, arguments: &[Expr], at: Span) -> Result<Option<(Aggregate, Num)>, ScriptError> {
        if !matches!(name, "count" | "sum" | "min" | "max" | "avg" | "stats" | "hist" | "lhist" | "tseries") {
            return Ok(None);
        }
        if name == "count" {
            self.arguments::<0>(name, arguments, at)?;
            return Ok(Some((Aggregate::Count, Num::Const(0))));
        }
        let Some(first) = arguments.first() else { return Err(at.error(format!("{name}() takes the value that is collected"))) };
        let (num, kind) = self.number(first)?;
        // A literal that is not negative leaves the sign to the map's other values.
        let signed = kind.is_signed() && !matches!(num, Num::Const(number) if number <= i64::MAX as u64);
        let aggregate = match name {
            "sum" => Aggregate::Sum(signed),
            "min" => Aggregate::Min(signed),
            "max" => Aggregate::Max(signed),
            "avg" => Aggregate::Average(signed),
            "stats" => Aggregate::Stats(signed),
            "hist" => {
                self.between(name, arguments, 1, 2, at)?;
                let parts = match arguments.get(1) {
                    Some(parts) => self.constant(parts, "the number of parts of each power of two, from 0 to 5,")?,
                    None => 0,
                };
                if parts > 5 {
                    return Err(at.error("hist() splits each power of two into at most 2^5 parts: give a number from 0 to 5"));
                }
                Aggregate::Histogram(parts as u8)
            }
            "lhist" => {
                let [_, min, max, step] = self.arguments::<4>(name, arguments, at)?;
                let (min, max) = (self.whole_constant(min, "min")?, self.whole_constant(max, "max")?);
                let step = self.constant(step, "step")?;
                if min < 0 {
                    return Err(at.error(format!("lhist() min must be non-negative (provided {min})")));
                }
                if min >= max {
                    return Err(at.error(format!("lhist() min must be less than max (provided min {min} and max {max})")));
                }
                if max > i128::from(i64::MAX) {
                    return Err(at.error(format!("lhist() max must be at most {} (provided {max})", i64::MAX)));
                }
                let (min, max) = (min as u64, max as u64);
                if step == 0 || step > max - min {
                    return Err(at.error("lhist() step must be at least 1 and at most max - min"));
                }
                let needed = (max - min) / step;
                if needed > MOST_BUCKETS as u64 || linear_buckets(min, max, step) > MOST_BUCKETS + 2 {
                    return Err(at.error(format!("lhist() too many buckets, must be <= 1000 (would need {needed})")));
                }
                return Ok(Some((Aggregate::Linear { min, max, step }, num)));
            }
            _ => {
                let why = "tseries() is refused, for its output is not settled yet: collect by avg() or sum(), and print at an interval";
                return Err(at.error(why));
            }
        };
        if name != "hist" {
            self.arguments::<1>(name, arguments, at)?;
        }
        Ok(Some((aggregate, num)))
    }

    /// Compiles a call of an action. `None` if the function returns a value or does not exist.
    pub fn action(&mut self, name: &str, arguments: &[Expr], at: Span) -> Result<Option<Act>, ScriptError> {
        Ok(Some(match name {
            "printf" | "debugf" => self.printf(name, arguments, Stream::Output, at)?,
            "errorf" | "warnf" => self.printf(name, arguments, Stream::Warnings, at)?,
            "fail" => self.printf(name, arguments, Stream::Failure, at)?,
            "assert" => {
                let [condition, message] = self.arguments::<2>(name, arguments, at)?;
                let condition = self.number(condition)?.0;
                let fail = self.printf(name, core::slice::from_ref(message), Stream::Failure, at)?;
                Act::If(condition, Box::default(), Box::new([fail]))
            }
            "print" => self.print(arguments, at)?,
            "clear" | "zero" => {
                let [map] = self.arguments::<1>(name, arguments, at)?;
                let map = self.whole_map(name, map)?;
                if name == "clear" { Act::Clear(map) } else { Act::Zero(map) }
            }
            "delete" => Act::Eval(self.delete(arguments, at)?),
            "exit" => {
                self.between(name, arguments, 0, 1, at)?;
                let status = match arguments.first() {
                    Some(status) => self.number(status)?.0,
                    None => Num::Const(0),
                };
                Act::Exit(status)
            }
            "time" => {
                self.charge_texts(arguments)?;
                self.between(name, arguments, 0, 1, at)?;
                let format = match arguments.first() {
                    Some(Expr { kind: Kind::Text(format), .. }) => format.clone(),
                    Some(other) => {
                        return Err(other.at.error("time() takes a format of strftime in quotes: time(\"%H:%M:%S\\n\")"));
                    }
                    None => b"%H:%M:%S\n".to_vec(),
                };
                Act::Time(format.into())
            }
            "join" => {
                self.charge_texts(arguments)?;
                self.between(name, arguments, 1, 2, at)?;
                let (num, _) = self.number(&arguments[0])?;
                let separator = match arguments.get(1) {
                    Some(Expr { kind: Kind::Text(separator), .. }) => separator.clone(),
                    Some(other) => return Err(other.at.error("join() takes its separator in quotes: join(argv, \",\")")),
                    None => b" ".to_vec(),
                };
                Act::Join { at: num, separator: separator.into() }
            }
            "override" => {
                let [value] = self.arguments::<1>(name, arguments, at)?;
                if !self.options.allows_unsafe {
                    return Err(at.error("override() is an unsafe function being used in safe mode: it changes what the guest does; allow it by --unsafe"));
                }
                if !self.block.kinds.entries || self.block.kinds.others || self.block.kinds.returns {
                    return Err(at.error("override() is for kprobes at a function's entry: elsewhere there is no call to answer"));
                }
                self.block.overrides = true;
                Act::Override(self.number(value)?.0)
            }
            "cat" => self.cat(arguments, at)?,
            "unwatch" => {
                let [address] = self.arguments::<1>(name, arguments, at)?;
                Act::Unwatch(self.number(address)?.0)
            }
            "system" | "signal" | "write_user" | "cgroupid" | "skboutput" => {
                let why = match name {
                    "system" => "it would run a program on this computer: let the guest's own script do what is needed",
                    "signal" | "write_user" => "it would make the guest do what it does not do by itself",
                    "cgroupid" => "the guest's files are out of reach: let the guest's own script print them",
                    _ => "there is nothing here that it could act on",
                };
                return Err(at.error(format!("{name}() is refused: {why}")));
            }
            _ => return Ok(None),
        }))
    }

    /// Compiles a call of a function that takes a format and its values. Fails if a value does not fit its conversion.
    pub(super) fn printf(&mut self, name: &str, arguments: &[Expr], stream: Stream, at: Span) -> Result<Act, ScriptError> {
        let Some((Expr { kind: Kind::Text(text), at: format_at }, values)) = arguments.split_first() else {
            return Err(at.error(format!("{name}() begins with its format, in quotes: {name}(\"%d %s\\n\", pid, comm)")));
        };
        self.charge_texts(arguments)?;
        let format = Format::parse(text).map_err(|why| format_at.error(why))?;
        let wanted = format.conversions().count();
        if wanted != values.len() {
            let which = if values.len() < wanted { "Not enough" } else { "Too many" };
            return Err(
                at.error(format!("{name}: {which} arguments for format string ({} supplied, {wanted} expected)", values.len()))
            );
        }
        if wanted > MOST_VALUES {
            return Err(at.error(format!("{name}() takes at most {MOST_VALUES} values: print the others by another one")));
        }
        let mut made = Vec::new();
        for (conversion, value) in format.conversions().zip(values) {
            let mut typed = self.value(value)?;
            if conversion.is_text() {
                typed = self.held(typed, value.at)?;
            }
            let (any, kind) = typed;
            conversion.takes(&kind, self.options.old).map_err(|why| value.at.error(format!("{name}: {why}")))?;
            made.push((any, kind));
        }
        Ok(Act::Printf(Box::new(Printf { format, values: made.into() }), stream))
    }

    /// Compiles `print(@map[, top[, div]])`, `print(@map[key])` or `print(value)`.
    pub(super) fn print(&mut self, arguments: &[Expr], at: Span) -> Result<Act, ScriptError> {
        self.between("print", arguments, 1, 3, at)?;
        if let Kind::Map(name, keys) = &arguments[0].kind {
            let map = self.map(name, arguments[0].at);
            if !keys.is_empty() {
                let key = self.key(map, keys, at)?;
                if self.options.old {
                    return Err(arguments[0].at.error("The map passed to print() should not be indexed by a key"));
                }
                return Ok(Act::PrintEntry { map, key });
            }
            let mut number = |at: usize| match arguments.get(at) {
                Some(number) => self.number(number).map(|(num, _)| num),
                None => Ok(Num::Const(if at == 1 { 0 } else { 1 })),
            };
            return Ok(Act::PrintMap { map, top: number(1)?, div: number(2)? });
        }
        if arguments.len() > 1 {
            return Err(at.error("print() takes the number of entries and a divisor for a map only"));
        }
        let value = self.value(&arguments[0])?;
        let (any, kind) = self.held(value, arguments[0].at)?;
        Ok(Act::PrintValue(Box::new((any, kind))))
    }

    /// The number of a map that is an argument of `function`. Fails if the argument is no map, or has a key.
    pub fn whole_map(&mut self, function: &str, expr: &Expr) -> Result<u16, ScriptError> {
        match &expr.kind {
            Kind::Map(name, keys) if keys.is_empty() => Ok(self.map(name, expr.at)),
            Kind::Map(..) => Err(expr.at.error(format!("The map passed to {function}() should not be indexed by a key"))),
            _ => Err(expr.at.error(format!("{function}() takes a map: {function}(@name)"))),
        }
    }

    /// `delete(@m[k])`, `delete(@m, k)`, `delete(@m)`
    pub(super) fn delete(&mut self, arguments: &[Expr], at: Span) -> Result<Num, ScriptError> {
        self.between("delete", arguments, 1, 2, at)?;
        let Kind::Map(name, keys) = &arguments[0].kind else {
            return Err(arguments[0].at.error("delete() takes an entry of a map: delete(@name, key)"));
        };
        let map = self.map(name, arguments[0].at);
        let keys = match (arguments.get(1), keys.is_empty()) {
            (Some(key), true) => core::slice::from_ref(key),
            (None, _) => keys.as_slice(),
            (Some(_), false) => return Err(at.error("the key stands in one place: delete(@name, key)")),
        };
        let key = self.key(map, keys, at)?;
        Ok(Num::Delete(map, key))
    }
}
