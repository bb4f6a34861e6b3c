//! Compiles calls of functions that return a value. Actions are in `actions.rs`.

use super::ast::{Expr, Kind};
use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::operators::cut;
use super::program::{Any, Bytes, Num};
use super::types::{StackForm, Type};
use super::values::{TEXT_BYTES_A_STEP, Typed, literal, number_of};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

impl Compiler<'_> {
    /// The arguments of a call that takes exactly `N`. Fails if there are more or fewer.
    pub fn arguments<'e, const N: usize>(
        &self,
        name: &str,
        arguments: &'e [Expr],
        at: Span,
    ) -> Result<&'e [Expr; N], ScriptError> {
        arguments.try_into().map_err(|_| {
            at.error(format!("{name}() takes {N} argument{}, not {}", if N == 1 { "" } else { "s" }, arguments.len()))
        })
    }

    /// Checks that a call has `least` to `most` arguments.
    pub fn between(&self, name: &str, arguments: &[Expr], least: usize, most: usize, at: Span) -> Result<(), ScriptError> {
        if (least..=most).contains(&arguments.len()) {
            return Ok(());
        }
        Err(at.error(format!("{name}() takes {least} to {most} arguments, not {}", arguments.len())))
    }

    /// Compiles a call that returns a value.
    pub fn call(&mut self, name: &str, arguments: &[Expr], at: Span) -> Result<Typed, ScriptError> {
        self.charge_texts(arguments)?;
        if let Some(value) = self.call_on_kernel(name, arguments, at)? {
            return Ok(value);
        }
        if let Some(value) = self.call_on_text(name, arguments, at)? {
            return Ok(value);
        }
        let truth = Type::TRUTH;
        match name {
            "str" | "kstr" => self.text(arguments, at),
            "buf" => self.buffer(arguments, at),
            "ntop" => self.inet(arguments, at),
            "kstack" | "ustack" => self.stack(name, arguments, at),
            "has_key" => {
                let [map, key] = self.arguments::<2>(name, arguments, at)?;
                let map = self.whole_map(name, map)?;
                let key = self.key(map, core::slice::from_ref(key), at)?;
                Ok((Any::Num(Num::HasKey(map, key)), truth))
            }
            "delete" => Ok((Any::Num(self.delete(arguments, at)?), truth)),
            "len" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                if matches!(&of.kind, Kind::Map(_, keys) if keys.is_empty()) {
                    let map = self.whole_map(name, of)?;
                    return Ok((Any::Num(Num::Keys(map)), Type::U64));
                }
                match self.bytes(of)? {
                    (stack, Type::Stack(_)) => Ok((Any::Num(Num::Frames(Box::new(stack))), Type::U64)),
                    _ => Err(of.at.error("len() takes a map or a stack; strlen() takes a string")),
                }
            }
            "sizeof" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                let size = match self.value(of)?.1 {
                    kind if kind.is_integer() => kind.integer_size().unwrap_or(8).max(1).into(),
                    Type::Text(capacity) => capacity.into(),
                    Type::Object(kind) => self.known.size_of(&kind).unwrap_or(0),
                    _ => 8,
                };
                Ok(number_of(size))
            }
            "is_err" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                let num = self.number(of)?.0;
                let least = Num::Const((-4095_i64) as u64);
                Ok((Any::Num(Num::Binary(super::program::Op::LessEqual, Box::new([least, num]))), truth))
            }
            "last_write" | "last_writer" => self.last_write(name, arguments, at),
            "getopt" => self.option(arguments, at),
            "pid" | "tid" | "comm" | "ppid" | "pcomm" | "cpu" | "ncpus" | "nsecs" | "elapsed" | "rand" | "uid" | "gid"
            | "func" | "probe" | "username" | "jiffies" | "cgroup" | "curtask" | "numaid" | "usermode" | "retval"
                if arguments.is_empty() =>
            {
                self.value(&Expr { at, kind: Kind::Name(name.to_owned()) })
            }
            "nsecs" => self.value(&Expr { at, kind: Kind::Name(name.to_owned()) }),
            "count" | "sum" | "min" | "max" | "avg" | "stats" | "hist" | "lhist" | "tseries" => {
                Err(at.error(format!("{name}() should be assigned to a map: @name = {name}(...)")))
            }
            "uaddr" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                let symbol = literal(of).ok_or_else(|| of.at.error("uaddr() takes a function's name in quotes"))?;
                Ok((Any::Num(Num::Const(self.address_in_program(&symbol, of.at)?)), Type::U64))
            }
            "cgroup_path" => {
                Err(at.error("cgroup_path() is refused: a number alone leads to no group; cgroup is the running task's"))
            }
            _ => {
                if let Some(value) = self.look_up(name, arguments, at)? {
                    return Ok(value);
                }
                if self.action(name, arguments, at)?.is_some() {
                    return Err(at.error(format!("{name}() has no value: write it as a statement of its own")));
                }
                Err(at.error(format!("Unknown function: {name}")))
            }
        }
    }

    /// Compiles a call that asks for an address, a register or a name of the kernel. `None` if it is another call.
    fn call_on_kernel(&mut self, name: &str, arguments: &[Expr], at: Span) -> Result<Option<Typed>, ScriptError> {
        let value = match name {
            "kptr" | "uptr" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                self.value(of)
            }
            "ksym" | "usym" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                let num = self.number(of)?.0;
                Ok(if name == "ksym" { (Any::Num(num), Type::Symbol) } else { self.in_program_named(num) })
            }
            "kaddr" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                let symbol = literal(of).ok_or_else(|| of.at.error("kaddr() takes a symbol's name in quotes"))?;
                let address = self.knowledge.data(&symbol);
                let address = address.ok_or_else(|| {
                    of.at.error(format!("Failed to resolve kernel symbol: {symbol}: this kernel's own table does not have it"))
                })?;
                Ok((Any::Num(Num::Const(address)), Type::U64))
            }
            "percpu_kaddr" => {
                self.between(name, arguments, 1, 2, at)?;
                let of = &arguments[0];
                let symbol = literal(of).ok_or_else(|| of.at.error("percpu_kaddr() takes a symbol's name in quotes"))?;
                let cpu = match arguments.get(1) {
                    Some(cpu) => self.number(cpu)?.0,
                    None => Num::Cpu,
                };
                let place = self.knowledge.address(&symbol).zip(self.knowledge.address("__per_cpu_offset"));
                let (symbol, offsets) = place.ok_or_else(|| {
                    of.at.error(format!("Failed to resolve kernel symbol: {symbol}: this kernel's own table does not have it"))
                })?;
                let word = self.known.word;
                let row = super::operators::fold(super::program::Op::Multiply, cpu, Num::Const(word.into()));
                let row = super::operators::fold(super::program::Op::Add, row, Num::Const(offsets));
                let area = Num::Load { at: Box::new(row), size: word, signed: false };
                Ok((Any::Num(super::operators::fold(super::program::Op::Add, area, Num::Const(symbol))), Type::U64))
            }
            "reg" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                let wanted = literal(of).ok_or_else(|| of.at.error("reg() takes a register's name in quotes: reg(\"ip\")"))?;
                let isa = self.knowledge.isa();
                let register = isa.abi.register(&wanted);
                let register = register.ok_or_else(|| {
                    of.at.error(format!("'{wanted}' is not a valid register on this architecture ({})", isa.arch.name()))
                })?;
                Ok((Any::Num(Num::Register(register)), Type::U64))
            }
            "macaddr" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                let num = self.number(of)?.0;
                Ok((Any::Bytes(Bytes::Raw { at: Box::new(num), length: Box::new(Num::Const(6)) }), Type::Mac))
            }
            "bswap" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                let (num, kind) = self.number(of)?;
                let size = kind.integer_size().unwrap_or(8);
                Ok((Any::Num(Num::Swap(Box::new(num), size)), Type::Int(size, false)))
            }
            _ => return Ok(None),
        };
        value.map(Some)
    }

    /// Compiles a call that compares, searches or makes text. `None` if it is another call.
    fn call_on_text(&mut self, name: &str, arguments: &[Expr], at: Span) -> Result<Option<Typed>, ScriptError> {
        let text = |bytes, capacity| Ok((Any::Bytes(bytes), Type::Text(capacity)));
        let value = match name {
            "strncmp" => {
                let [one, other, most] = self.arguments::<3>(name, arguments, at)?;
                let most = self.constant(most, "the length that strncmp() compares")?;
                let (one, other) = (self.bytes(one)?.0, self.bytes(other)?.0);
                let same = Num::SameText(Box::new([one, other]), Some(most.min(u64::from(u32::MAX)) as u32));
                Ok((Any::Num(Num::Not(Box::new(same))), Type::I64))
            }
            "memcmp" => {
                let [one, other, most] = self.arguments::<3>(name, arguments, at)?;
                let most = self.constant(most, "the length that memcmp() compares")?;
                let (one, other) = (self.bytes(one)?.0, self.bytes(other)?.0);
                Ok((Any::Num(Num::Compare(Box::new([one, other]), most.min(u64::from(u32::MAX)) as u32)), Type::I64))
            }
            "strcontains" | "strstr" => {
                let [one, other] = self.arguments::<2>(name, arguments, at)?;
                let found = Num::Find(Box::new([self.bytes(one)?.0, self.bytes(other)?.0]));
                Ok(match name {
                    "strstr" => (Any::Num(found), Type::I64),
                    _ => (
                        Any::Num(Num::Not(Box::new(Num::Binary(
                            super::program::Op::Equal,
                            Box::new([found, Num::Const(u64::MAX)]),
                        )))),
                        Type::TRUTH,
                    ),
                })
            }
            "strlen" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                Ok((Any::Num(Num::Length(Box::new(self.bytes(of)?.0))), Type::U64))
            }
            "str_concat" => {
                let [one, other] = self.arguments::<2>(name, arguments, at)?;
                text(Bytes::Join(Box::new([self.bytes(one)?.0, self.bytes(other)?.0])), 0)
            }
            "strerror" => {
                let [of] = self.arguments::<1>(name, arguments, at)?;
                text(Bytes::Error(Box::new(self.number(of)?.0)), 0)
            }
            "strftime" => {
                let [format, when] = self.arguments::<2>(name, arguments, at)?;
                let Kind::Text(format) = &format.kind else {
                    return Err(format.at.error("strftime() begins with its format, in quotes"));
                };
                let num = self.number(when)?.0;
                Ok((Any::Num(num), Type::Timestamp(format.as_slice().into())))
            }
            _ => return Ok(None),
        };
        value.map(Some)
    }

    /// `str(address[, length])`: a string in guest memory. Also cuts a string value, or takes a positional parameter's text.
    fn text(&mut self, arguments: &[Expr], at: Span) -> Result<Typed, ScriptError> {
        self.between("str", arguments, 1, 2, at)?;
        // The text of a positional parameter, or a tail of it: str($1), str($1 + 2).
        let (of, skipped) = match &arguments[0].kind {
            Kind::Binary(super::ast::Binary::Add, left, right) => (&**left, Some(&**right)),
            _ => (&arguments[0], None),
        };
        if let Kind::Positional(number) = of.kind {
            let text = (number as usize)
                .checked_sub(1)
                .and_then(|number| self.options.parameters.get(number))
                .map_or("", String::as_str);
            self.charge(text.len() as u64 / TEXT_BYTES_A_STEP, of.at)?;
            let from = match skipped {
                Some(skipped) => self.constant(skipped, "the number of letters that are left out")? as usize,
                None => 0,
            };
            let rest = text.as_bytes().get(from..).unwrap_or_default();
            return Ok((Any::Bytes(Bytes::Literal(rest.into())), Type::Text(rest.len() as u32 + 1)));
        }
        let limit = match arguments.get(1) {
            Some(limit) => Some(self.number(limit)?.0),
            None => None,
        };
        match self.value(&arguments[0])? {
            (Any::Num(num), _) => {
                let capacity = self.longest_text;
                let bytes = Bytes::Text { at: Box::new(num), limit: limit.map(Box::new), capacity };
                Ok((Any::Bytes(bytes), Type::Text(capacity)))
            }
            (Any::Bytes(bytes), kind @ (Type::Text(_) | Type::Buffer)) => {
                let capacity = if let Type::Text(capacity) = kind { capacity } else { 0 };
                Ok((
                    Any::Bytes(match limit {
                        Some(limit) => {
                            let letters = Num::OneLess(Box::new(limit));
                            Bytes::Front(Box::new(bytes), Box::new(letters))
                        }
                        None => bytes,
                    }),
                    Type::Text(capacity),
                ))
            }
            (_, kind) => {
                Err(arguments[0].at.error(format!("str() takes an address or a string, not a value of type {}", kind.name())))
            }
        }
    }

    /// `buf(address[, length])`: bytes of guest memory. An array in guest memory needs no length.
    fn buffer(&mut self, arguments: &[Expr], at: Span) -> Result<Typed, ScriptError> {
        self.between("buf", arguments, 1, 2, at)?;
        let length = match arguments.get(1) {
            Some(length) => Some(self.number(length)?.0),
            None => None,
        };
        match (self.value(&arguments[0])?, length) {
            ((Any::Num(num), Type::Object(kind)), None) => {
                let size = self.known.size_of(&kind).unwrap_or(0);
                Ok((Any::Bytes(Bytes::Raw { at: Box::new(num), length: Box::new(Num::Const(size)) }), Type::Buffer))
            }
            ((Any::Num(num), _), Some(length)) => {
                Ok((Any::Bytes(Bytes::Raw { at: Box::new(num), length: Box::new(length) }), Type::Buffer))
            }
            ((Any::Bytes(bytes), _), Some(length)) => {
                Ok((Any::Bytes(Bytes::Front(Box::new(bytes), Box::new(length))), Type::Buffer))
            }
            ((Any::Bytes(bytes), _), None) => Ok((Any::Bytes(bytes), Type::Buffer)),
            ((Any::Num(_), _), None) => Err(at.error("buf() takes a length behind an address: buf(arg1, 16)")),
        }
    }

    /// `ntop([family,] address)`
    fn inet(&mut self, arguments: &[Expr], at: Span) -> Result<Typed, ScriptError> {
        self.between("ntop", arguments, 1, 2, at)?;
        let Some(of) = arguments.last() else { return Err(at.error("ntop() takes an address")) };
        let bytes = match self.value(of)? {
            (Any::Num(num), Type::Object(kind)) => {
                let size = self.known.size_of(&kind).filter(|size| matches!(size, 4 | 16));
                let size = size.ok_or_else(|| of.at.error("ntop() takes 4 or 16 bytes"))?;
                Bytes::Raw { at: Box::new(num), length: Box::new(Num::Const(size)) }
            }
            (Any::Num(num), _) => Bytes::Number(Box::new(cut(num, 4, false)), 4),
            (Any::Bytes(bytes), Type::Buffer) => bytes,
            (Any::Bytes(bytes), Type::Held(shape)) if matches!(shape.size(), 4 | 16) => bytes,
            // Elsewhere char[4] and char[16] are strings. Here they are plain bytes.
            (Any::Bytes(Bytes::Text { at: address, capacity, .. }), _) => {
                Bytes::Raw { at: address, length: Box::new(Num::Const(u64::from(capacity) - 1)) }
            }
            (_, kind) => {
                return Err(of
                    .at
                    .error(format!("ntop() takes a number or an array of 4 or 16 bytes, not a value of type {}", kind.name())));
            }
        };
        Ok((Any::Bytes(bytes), Type::Inet))
    }

    /// `kstack(mode, limit)`. Either argument may be missing.
    fn stack(&mut self, name: &str, arguments: &[Expr], at: Span) -> Result<Typed, ScriptError> {
        self.between(name, arguments, 0, 2, at)?;
        let (mut form, mut limit) = (self.stack_form, 127);
        for argument in arguments {
            match literal(argument).as_deref().and_then(StackForm::named) {
                Some(named) => form = named,
                None => {
                    let wanted = self.whole_constant(argument, "a stack's limit")?;
                    if !(0..=1024).contains(&wanted) {
                        return Err(argument
                            .at
                            .error(format!("{name}([int limit]): limit shouldn't exceed 1024, {wanted} given")));
                    }
                    limit = wanted as u16;
                }
            }
        }
        self.names_programs |= name == "ustack";
        Ok((Any::Bytes(Bytes::Stack { user: name == "ustack", form, limit }), Type::Stack(form)))
    }

    /// `getopt("name", default)`: the value of `--name=value` among the script's own parameters.
    fn option(&mut self, arguments: &[Expr], at: Span) -> Result<Typed, ScriptError> {
        self.between("getopt", arguments, 1, 3, at)?;
        let name =
            literal(&arguments[0]).ok_or_else(|| arguments[0].at.error("getopt() begins with the option's name, in quotes"))?;
        let given: Option<String> = self.options.named.iter().find(|(is, _)| *is == name).map(|(_, value)| value.clone());
        let truth = |value: bool| (Any::Num(Num::Const(value.into())), Type::TRUTH);
        let default = arguments.get(1);
        match default.map(|default| &default.kind) {
            Some(Kind::Text(default)) => {
                let text = given.map_or_else(|| default.clone(), String::into_bytes);
                let capacity = text.len() as u32 + 1;
                Ok((Any::Bytes(Bytes::Literal(text.into())), Type::Text(capacity)))
            }
            Some(Kind::Truth(default)) => Ok(truth(given.map_or(*default, |value| value != "false"))),
            Some(_) if default.is_some_and(|default| !matches!(default.kind, Kind::Number(_))) => {
                Err(at.error("the default of getopt() is a number, a string, true or false"))
            }
            Some(Kind::Number(default)) => match given {
                None => Ok(number_of(*default)),
                Some(value) if matches!(value.as_str(), "true" | "" | "false") => Ok(truth(value != "false")),
                Some(value) => {
                    super::builtins::number_in(&value).ok_or_else(|| at.error(format!("--{name} takes a number, not '{value}'")))
                }
            },
            _ => Ok(truth(given.is_some_and(|value| value != "false"))),
        }
    }
}
