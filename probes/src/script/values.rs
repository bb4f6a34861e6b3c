//! Expressions to numbers and bytes, each with its type.

use super::ast::{self, Binary, Expr, Kind, Target, TypeName, Unary};
use super::compile::{Compiler, no_types};
use super::error::{ScriptError, Span};
use super::program::{Act, Any, Bytes, Num, Op};
use super::shape::Shape;
use super::types::{CType, Field, StackForm, Type};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use trapline_isa::mem::ByteOrder;

/// A value and what it is.
pub(super) type Typed = (Any, Type);

impl Compiler<'_> {
    /// A number; an error where the expression is none.
    pub fn number(&mut self, expr: &Expr) -> Result<(Num, Type), ScriptError> {
        match self.value(expr)? {
            (Any::Num(num), kind) => Ok((num, kind)),
            // What a program without a value does, for a filter or a condition, is not 0.
            (Any::Bytes(_), kind) => Err(expr.at.error(format!("a number is needed here, and this is of type {}", kind.name()))),
        }
    }

    /// Bytes; an error where the expression is a number.
    pub fn bytes(&mut self, expr: &Expr) -> Result<(Bytes, Type), ScriptError> {
        match self.value(expr)? {
            (Any::Bytes(bytes), kind) => Ok((bytes, kind)),
            (Any::Num(_), kind) => Err(expr.at.error(format!("a string is needed here, and this is of type {}", kind.name()))),
        }
    }

    /// A number that is known before the script runs.
    pub fn constant(&mut self, expr: &Expr, what: &str) -> Result<u64, ScriptError> {
        match self.number(expr)? {
            (Num::Const(number), _) => Ok(number),
            _ => Err(expr.at.error(format!("{what} is a number that is known before the script runs"))),
        }
    }

    /// What an expression does; its value is dropped.
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
                if let Some(act) = self.macro_acts(name, &[], expr.at)? {
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

    fn macro_acts(&mut self, name: &str, arguments: &[Expr], at: Span) -> Result<Option<Act>, ScriptError> {
        let Some(body) = self.enter_macro(name, arguments, at)? else { return Ok(None) };
        let acts = self.acts(body);
        self.frames.pop();
        Ok(Some(Act::Block(acts)))
    }

    /// The value of a block that has one: a macro's, or one in braces.
    fn block_value(&mut self, block: &ast::Block, at: Span) -> Result<Typed, ScriptError> {
        let before = ast::Block { statements: block.statements.clone(), value: None };
        let acts = self.acts(&before);
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

    /// An expression's value.
    pub fn value(&mut self, expr: &Expr) -> Result<Typed, ScriptError> {
        let at = expr.at;
        match &expr.kind {
            Kind::Number(number) => Ok(number_of(*number)),
            Kind::Text(text) => Ok((Any::Bytes(Bytes::Literal(text.as_slice().into())), Type::Text(text.len() as u32 + 1))),
            Kind::Variable(name) => {
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
                        let shown = name.split('#').next().unwrap_or_default();
                        Err(at.error(format!("Undefined or undeclared variable: ${shown}: assign it a value first")))
                    }
                }
            }
            Kind::Map(name, keys) => {
                let map = self.map(name);
                let key = self.key(map, keys, at)?;
                let kind = self.facts[usize::from(map)].value.clone().unwrap_or(Type::U64);
                Ok(match kind {
                    Type::Aggregate(aggregate) => {
                        use super::types::Aggregate as A;
                        let signed =
                            matches!(aggregate, A::Sum(true) | A::Min(true) | A::Max(true) | A::Average(true) | A::Stats(true));
                        (Any::Num(Num::Map(map, key)), Type::Int(8, signed))
                    }
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
            Kind::Tuple(parts) => {
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
                    let field = self.member(&kind, name, at)?;
                    bits += field.bit;
                    kind = field.kind;
                }
                Ok(number_of(bits / 8))
            }
            Kind::Step(target, up, before) => self.step(target, *up, *before, at),
        }
    }

    fn positional(&mut self, number: u32, at: Span) -> Result<Typed, ScriptError> {
        let text = (number as usize).checked_sub(1).and_then(|number| self.options.parameters.get(number));
        let Some(text) = text else { return Ok(number_of(0)) };
        let (negative, digits) = text.strip_prefix('-').map_or((false, text.as_str()), |digits| (true, digits));
        match super::lex::time(digits) {
            Some(value) if negative => Ok((Any::Num(Num::Const(value.wrapping_neg())), Type::I64)),
            Some(value) => Ok(number_of(value)),
            None => Err(at.error(format!("${number} used numerically but given \"{text}\". Try using str(${number})."))),
        }
    }

    /// A builtin, an enumerator, a macro, or what a macro was given.
    fn named(&mut self, name: &str, at: Span) -> Result<Typed, ScriptError> {
        if let Some((expr, depth)) = self.frames.last().and_then(|frame| frame.expressions.get(name).cloned()) {
            let above = self.frames.split_off(depth);
            let value = self.value(&expr);
            self.frames.extend(above);
            return value;
        }
        if let Some(body) = self.enter_macro(name, &[], at)? {
            let value = self.block_value(body, at);
            self.frames.pop();
            return value;
        }
        if let Some(value) = self.builtin(name, at)? {
            return Ok(value);
        }
        if let Some(value) = self.known.enumerator(name) {
            return Ok(number_of(value));
        }
        Err(at.error(format!("Unknown identifier: '{name}': it is no builtin, no macro, and no enumerator of the guest's types")))
    }

    fn builtin(&mut self, name: &str, at: Span) -> Result<Option<Typed>, ScriptError> {
        let kinds = self.block.kinds;
        let u32 = Type::Int(4, false);
        let numbered =
            |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).and_then(|rest| rest.parse::<u8>().ok());
        if let Some(number) = numbered("arg") {
            if kinds.returns || kinds.others || !kinds.entries {
                return Err(at.error(format!("{name} can only be used with kprobes: at other places there are no arguments")));
            }
            return Ok(Some((Any::Num(Num::Argument(number)), Type::U64)));
        }
        if let Some(number) = numbered("sarg") {
            return Ok(Some((Any::Num(Num::StackWord(number)), Type::U64)));
        }
        Ok(Some(match name {
            "tid" => (Any::Num(Num::Pid), u32),
            "pid" => (Any::Num(Num::Tgid), u32),
            "ppid" => (Any::Num(self.of_parent("tgid").unwrap_or(Num::Const(0))), u32),
            "comm" => (Any::Bytes(Bytes::Comm), Type::Text(16)),
            "uid" | "gid" => {
                let id = self.of_credentials(name).ok_or_else(|| {
                    at.error(format!("{name} is found by the kernel's types, and: {}", no_types(self.knowledge)))
                })?;
                (Any::Num(id), Type::U64)
            }
            "cpu" => (Any::Num(Num::Cpu), Type::U64),
            "ncpus" => (Any::Num(Num::Cpus), Type::U64),
            "numaid" => number_of(0),
            "nsecs" => (Any::Num(Num::Now), Type::U64),
            "elapsed" => (Any::Num(Num::Elapsed), Type::U64),
            "rand" => (Any::Num(Num::Random), Type::U64),
            "usermode" => (Any::Num(Num::InUser), Type::Int(1, false)),
            "func" => (Any::Num(Num::Function), Type::Symbol),
            "probe" => (Any::Bytes(Bytes::Probe), Type::Text(0)),
            "kstack" | "ustack" => (
                Any::Bytes(Bytes::Stack { user: name == "ustack", form: StackForm::Bpftrace, limit: 127 }),
                Type::Stack(StackForm::Bpftrace),
            ),
            "curtask" => {
                let kind = match self.known.named(Some(ast::Tag::Struct), "task_struct") {
                    Some(kind) => Type::Pointer(kind),
                    None => Type::U64,
                };
                (Any::Num(Num::Task), kind)
            }
            "retval" => {
                if !kinds.returns || kinds.entries || kinds.others {
                    return Err(at.error("The retval builtin can only be used with 'kretprobe' and 'fexit' probes"));
                }
                let typed =
                    self.block.function.clone().filter(|_| kinds.typed).and_then(|name| self.known.guest?.function(&name));
                match typed.map(|prototype| prototype.result) {
                    Some(kind) => self.loaded(Num::Result, &kind),
                    None => (Any::Num(Num::Result), Type::U64),
                }
            }
            "args" => return Err(at.error("args stands in front of a parameter's name: args.file, in fentry and fexit probes")),
            "jiffies" => {
                let place = ["jiffies_64", "jiffies"].iter().find_map(|name| self.knowledge.data(name));
                let place = place
                    .ok_or_else(|| at.error("jiffies are not there: this kernel's own table does not have their address"))?;
                let size = if self.knowledge.data("jiffies_64").is_some() { 8 } else { self.known.word };
                (Any::Num(Num::Load { at: Box::new(Num::Const(place)), size, signed: false }), Type::U64)
            }
            "cgroup" => {
                let id = self.of_chain(&["cgroups", "dfl_cgrp", "kn", "id"]);
                let id = id.ok_or_else(|| {
                    at.error(format!("cgroup is found by the kernel's types, and: {}", no_types(self.knowledge)))
                })?;
                (Any::Num(id), Type::U64)
            }
            "pcomm" => {
                let (place, _) = self.task_field(&["comm"]).ok_or_else(|| {
                    at.error(format!("pcomm is found by the kernel's types, and: {}", no_types(self.knowledge)))
                })?;
                let parent = self.of_chain(&["real_parent"]).unwrap_or(Num::Const(0));
                (Any::Bytes(Bytes::Text { at: Box::new(add(parent, place)), limit: None, capacity: 16 }), Type::Text(16))
            }
            "username" => self.user_name(at)?,
            "ctx" => {
                return Err(at.error("ctx is refused: registers are not in the guest's memory at a hit; reg(\"NAME\") reads one"));
            }
            "cpid" => {
                return Err(at.error("cpid is refused: no program is started from here, so there is no number of its process"));
            }
            _ => return Ok(None),
        }))
    }

    fn task_field(&self, path: &[&str]) -> Option<(u64, CType)> {
        let mut kind = self.known.named(Some(ast::Tag::Struct), "task_struct")?;
        let mut bits = 0;
        for name in path {
            let CType::Struct(number, _) = kind else { return None };
            let field = self.known.field(number, name)?;
            bits += field.bit;
            kind = field.kind;
        }
        Some((bits / 8, kind))
    }

    /// What is at the end of a chain of pointers that begins in the running task.
    fn of_chain(&self, path: &[&str]) -> Option<Num> {
        let mut kind = self.known.named(Some(ast::Tag::Struct), "task_struct")?;
        let mut at = Num::Task;
        for name in path {
            let structure = if let CType::Pointer(to) = kind { *to } else { kind };
            let CType::Struct(number, _) = structure else { return None };
            let field = self.known.field(number, name)?;
            at = self.load(add(at, field.bit / 8), &field.kind);
            kind = field.kind;
        }
        Some(at)
    }

    fn of_parent(&self, name: &str) -> Option<Num> {
        let (offset, kind) = self.task_field(&["real_parent"])?;
        let parent = self.load(add(Num::Task, offset), &kind);
        let (offset, kind) = self.task_field(&[name])?;
        Some(self.load(add(parent, offset), &kind))
    }

    pub fn of_credentials(&self, name: &str) -> Option<Num> {
        let (offset, kind) = self.task_field(&["cred"])?;
        let credentials = self.load(add(Num::Task, offset), &kind);
        let CType::Pointer(to) = kind else { return None };
        let CType::Struct(number, _) = *to else { return None };
        let field = self.known.field(number, name)?;
        Some(Num::Load { at: Box::new(add(credentials, field.bit / 8)), size: 4, signed: false })
    }

    fn load(&self, at: Num, kind: &CType) -> Num {
        let (size, signed) = match kind {
            CType::Int(size, signed) | CType::Enum(size, signed) => (*size, *signed),
            CType::Char(signed) => (1, *signed),
            _ => (self.known.word, false),
        };
        Num::Load { at: Box::new(at), size, signed }
    }

    /// A number that already is a value of this C type.
    pub fn loaded(&self, num: Num, kind: &CType) -> Typed {
        match kind {
            CType::Int(size, signed) | CType::Enum(size, signed) => {
                (Any::Num(Num::Cut { of: Box::new(num), size: *size, signed: *signed }), Type::Int(*size, *signed))
            }
            CType::Char(signed) => (Any::Num(Num::Cut { of: Box::new(num), size: 1, signed: *signed }), Type::Int(1, *signed)),
            CType::Pointer(to) => (Any::Num(num), Type::Pointer((**to).clone())),
            CType::Array(..) | CType::Struct(..) => (Any::Num(num), Type::Object(kind.clone())),
            CType::Void | CType::Function => (Any::Num(num), Type::U64),
        }
    }

    /// What lies at an address in the guest.
    fn object(&self, at: Num, kind: &CType) -> Typed {
        match kind {
            CType::Int(size, signed) | CType::Enum(size, signed) => (Any::Num(self.load(at, kind)), Type::Int(*size, *signed)),
            CType::Char(signed) => (Any::Num(self.load(at, kind)), Type::Int(1, *signed)),
            CType::Pointer(to) => (Any::Num(self.load(at, kind)), Type::Pointer((**to).clone())),
            CType::Array(of, count) if matches!(**of, CType::Char(_)) && *count > 0 => {
                let capacity = (*count).min(65_535) as u32;
                (Any::Bytes(Bytes::Text { at: Box::new(at), limit: None, capacity: capacity + 1 }), Type::Text(capacity))
            }
            CType::Array(..) | CType::Struct(..) => (Any::Num(at), Type::Object(kind.clone())),
            CType::Void | CType::Function => (Any::Num(Num::Load { at: Box::new(at), size: 8, signed: false }), Type::U64),
        }
    }

    fn member(&self, kind: &CType, name: &str, at: Span) -> Result<Field, ScriptError> {
        let CType::Struct(number, structure) = kind else {
            return Err(at.error(format!("{} is no structure, so it has no field '{name}'", kind.name())));
        };
        self.known
            .field(*number, name)
            .ok_or_else(|| at.error(format!("Struct/union of type 'struct {structure}' does not contain a field named '{name}'")))
    }

    fn field(&mut self, of: &Expr, name: &str, at: Span) -> Result<Typed, ScriptError> {
        if matches!(&of.kind, Kind::Name(of) if of == "args") {
            return self.parameter(name, at);
        }
        let (any, kind) = self.value(of)?;
        if let (Type::Held(shape), Any::Bytes(_)) = (&kind, &any)
            && let Shape::Struct { members, .. } = &**shape
        {
            let Some((_, place, inner)) = members.iter().find(|(is, ..)| is == name) else {
                return Err(at.error(format!("{} has no field '{name}'", shape.name())));
            };
            let Any::Bytes(bytes) = any else { return Err(at.error("this has no fields")) };
            return Ok(self.piece(bytes, Num::Const(*place), inner));
        }
        let (Type::Pointer(structure) | Type::Object(structure)) = kind else {
            return Err(of.at.error(format!(
                "Can not access field '{name}' on expression of type '{}': cast it to (struct NAME *)",
                kind.name()
            )));
        };
        let Any::Num(address) = any else { return Err(of.at.error("this has no fields")) };
        self.field_at(address, &structure, name, at)
    }

    /// A field of the record that a tracepoint has made; a string in it is a distance and a length, where the string stands.
    fn record_field(&mut self, record: &CType, name: &str, at: Span) -> Result<Typed, ScriptError> {
        let start = || Num::Argument(0);
        let CType::Struct(number, _) = record else { return Err(at.error("this tracepoint has no fields")) };
        if let Some(place) = self.known.field(*number, &format!("__data_loc_{name}")) {
            let place = Num::Load { at: Box::new(add(start(), place.bit / 8)), size: 4, signed: false };
            let distance = Num::Cut { of: Box::new(place), size: 2, signed: false };
            let capacity = self.longest_text;
            let text = Bytes::Text { at: Box::new(fold(Op::Add, start(), distance)), limit: None, capacity };
            return Ok((Any::Bytes(text), Type::Text(capacity)));
        }
        self.field_at(start(), record, name, at)
    }

    /// A field of the structure that lies at an address.
    fn field_at(&mut self, address: Num, structure: &CType, name: &str, at: Span) -> Result<Typed, ScriptError> {
        let field = self.member(structure, name, at)?;
        let Some(width) = field.width else { return Ok(self.object(add(address, field.bit / 8), &field.kind)) };
        let (size, signed) = bit_unit(&field.kind);
        let (start, shift) = bit_place(&field, width, size, self.knowledge.isa().order);
        let whole = Num::Load { at: Box::new(add(address, start / 8)), size, signed: false };
        Ok((Any::Num(Num::Bits { of: Box::new(whole), shift, width, signed }), Type::Int(size, signed)))
    }

    /// `args.name`
    fn parameter(&mut self, name: &str, at: Span) -> Result<Typed, ScriptError> {
        if self.block.event.is_some() {
            return self.event_field(name, at);
        }
        if let Some(record) = self.block.record.clone() {
            return self.record_field(&record, name, at);
        }
        if !self.block.kinds.typed {
            return Err(at.error("args has names in fentry and fexit probes: here the arguments are arg0, arg1 and so on"));
        }
        let function = self.block.function.clone().unwrap_or_default();
        let own = usize::from(self.block.is_raw);
        let plain = function.rsplit(':').next().unwrap_or_default();
        let prototype = self.known.guest.and_then(|guest| guest.function(plain));
        let mut parameters = prototype.map(|prototype| prototype.parameters).unwrap_or_default();
        parameters.drain(..own.min(parameters.len()));
        let Some(number) = parameters.iter().position(|(is, _)| is == name) else {
            let names = parameters.iter().map(|(name, _)| name.as_str()).collect::<alloc::vec::Vec<_>>().join(", ");
            return Err(
                at.error(format!("{plain} has no parameter '{name}': it has {}", if names.is_empty() { "none" } else { &names }))
            );
        };
        Ok(self.loaded(Num::Argument(number.min(255) as u8), &parameters[number].1))
    }

    fn part(&mut self, of: &Expr, number: u64, at: Span) -> Result<Typed, ScriptError> {
        let (bytes, kind) = self.bytes(of)?;
        let Type::Tuple(types) = kind else {
            return Err(of.at.error(format!("only a tuple has parts with numbers, and this is of type {}", kind.name())));
        };
        let Some((kind, at_part)) = usize::try_from(number).ok().and_then(|at| Some((types.get(at)?.clone(), at))) else {
            return Err(at.error(format!("the tuple has {} parts, the first of them is .0", types.len())));
        };
        let behind: Box<[bool]> = types[..at_part].iter().map(Type::is_number).collect();
        Ok(match kind.is_number() {
            true => (Any::Num(Num::Part { of: Box::new(bytes), behind }), kind),
            false => (Any::Bytes(Bytes::Part { of: Box::new(bytes), behind }), kind),
        })
    }

    fn index(&mut self, of: &Expr, index: &Expr, at: Span) -> Result<Typed, ScriptError> {
        let (any, kind) = self.value(of)?;
        if let Type::Tuple(_) = kind {
            let number = self.constant(index, "the number of a tuple's part")?;
            return self.part(of, number, at);
        }
        let (index_num, _) = self.number(index)?;
        if let Type::Held(shape) = &kind
            && let Shape::Array(element, count) = &**shape
        {
            if let Num::Const(index) = index_num
                && index >= *count
            {
                return Err(at.error(format!("the index {index} is out of bounds for array of size {count}")));
            }
            let Any::Bytes(bytes) = any else { return Err(of.at.error("this has no elements")) };
            return Ok(self.piece(bytes, fold(Op::Multiply, index_num, Num::Const(element.size())), element));
        }
        let (element, count) = match kind {
            Type::Pointer(to) => (to, None),
            Type::Object(CType::Array(of, count)) => (*of, Some(count)),
            kind => {
                return Err(of.at.error(format!("only arrays and pointers have an index, and this is of type {}", kind.name())));
            }
        };
        if let (Some(count), Num::Const(index)) = (count, &index_num)
            && *index >= count
        {
            return Err(at.error(format!("the index {index} is out of bounds for array of size {count}")));
        }
        let Any::Num(base) = any else { return Err(of.at.error("this has no elements")) };
        let size = self.known.size_of(&element).unwrap_or(1);
        let offset = fold(Op::Multiply, index_num, Num::Const(size));
        Ok(self.object(fold(Op::Add, base, offset), &element))
    }

    /// A type of C by its name.
    pub fn c_type(&self, name: &TypeName) -> Result<CType, ScriptError> {
        let Some(mut kind) = self.known.named(name.tag, &name.name) else {
            let what = match name.tag {
                Some(ast::Tag::Struct | ast::Tag::Union) => format!("Unknown struct/union: 'struct {}'", name.name),
                _ => format!("Unknown type: '{}'", name.name),
            };
            return Err(name.at.error(format!("{what}: {}", no_types(self.knowledge))));
        };
        for _ in 0..name.pointers {
            kind = CType::Pointer(Box::new(kind));
        }
        Ok(match name.array {
            Some(count) => CType::Array(Box::new(kind), count),
            None => kind,
        })
    }

    /// The type of values that a name of a type stands for.
    pub fn type_named(&self, name: &TypeName) -> Result<Type, ScriptError> {
        if name.tag.is_none() && name.pointers == 0 {
            match name.name.as_str() {
                "string" => return Ok(Type::Text(name.array.unwrap_or(0) as u32)),
                "buffer" => return Ok(Type::Buffer),
                _ => {}
            }
        }
        Ok(match self.c_type(name)? {
            CType::Int(size, signed) | CType::Enum(size, signed) => Type::Int(size, signed),
            CType::Char(signed) => Type::Int(1, signed),
            CType::Pointer(to) => Type::Pointer(*to),
            CType::Void | CType::Function => return Err(name.at.error("void is no type of a value")),
            kind => Type::Object(kind),
        })
    }

    fn cast(&mut self, name: &TypeName, of: &Expr) -> Result<Typed, ScriptError> {
        let kind = self.type_named(name)?;
        let (any, is) = self.value(of)?;
        let Any::Num(num) = any else {
            if matches!((&kind, &is), (Type::Text(_), Type::Text(_))) {
                return Ok((any, kind));
            }
            return Err(of.at.error(format!("a value of type {} cannot be cast to {}", is.name(), kind.name())));
        };
        Ok(match kind {
            Type::Int(size, signed) => (Any::Num(cut(num, size, signed)), Type::Int(size, signed)),
            // `(struct x)e` reads as the structure that lies there.
            kind => (Any::Num(num), kind),
        })
    }

    fn unary(&mut self, unary: Unary, of: &Expr) -> Result<Typed, ScriptError> {
        let (num, kind) = self.number(of)?;
        Ok(match unary {
            Unary::Negate => match num {
                Num::Const(number) => (Any::Num(Num::Const(number.wrapping_neg())), Type::I64),
                num => (Any::Num(Num::Negate(Box::new(num))), Type::I64),
            },
            Unary::Not => (Any::Num(Num::Not(Box::new(num))), Type::Int(1, false)),
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

    fn binary(&mut self, binary: Binary, one: &Expr, other: &Expr, at: Span) -> Result<Typed, ScriptError> {
        let (mut left, mut right) = (self.value(one)?, self.value(other)?);
        // Arrays and structures are compared by what is in them.
        if matches!((&left.1, &right.1), (Type::Object(_), Type::Object(_) | Type::Held(_)) | (Type::Held(_), Type::Object(_))) {
            (left, right) = (self.held(left, one.at)?, self.held(right, other.at)?);
        }
        let ((left, left_kind), (right, right_kind)) = (left, right);
        let truth = Type::Int(1, false);
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
        // A literal that is not negative has the sign of the other operand.
        let plain = |expr: &Expr| matches!(expr.kind, Kind::Number(_));
        let (left_signed, right_signed) = (left_kind.is_signed(), right_kind.is_signed());
        let signed = match (plain(one), plain(other)) {
            (true, false) => right_signed,
            (false, true) => left_signed,
            _ => left_signed || right_signed,
        };
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
                    // A pointer moves by what it points at.
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

    fn choice(&mut self, condition: &Expr, then: Option<&Expr>, otherwise: &Expr, at: Span) -> Result<Typed, ScriptError> {
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
                    (Type::Int(..), Type::Int(..)) => Type::Int(8, yes_kind.is_signed() || no_kind.is_signed()),
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

    fn step(&mut self, target: &Target, up: bool, before: bool, at: Span) -> Result<Typed, ScriptError> {
        let sign = |size: u64| if up { size } else { size.wrapping_neg() };
        match target {
            Target::Variable(name) => {
                let name = self.variable_name(name);
                let Some((place, kind)) = self.block.variables.get(&name).cloned() else {
                    return Err(at.error("Undefined or undeclared variable: assign it a value before it is counted up or down"));
                };
                let size = match &kind {
                    Type::Pointer(to) => self.known.size_of(to).unwrap_or(1),
                    Type::Int(..) => 1,
                    kind => return Err(at.error(format!("a value of type {} cannot be counted up or down", kind.name()))),
                };
                Ok((Any::Num(Num::StepVariable { variable: place, by: sign(size), before }), kind))
            }
            Target::Map(name, keys) => {
                let map = self.map(name);
                let key = self.key(map, keys, at)?;
                self.learn_value(map, Type::I64, at)?;
                Ok((Any::Num(Num::StepMap { map, key, by: sign(1), before }), Type::I64))
            }
            Target::Nothing => Err(at.error("_ has no value that could be changed")),
        }
    }
}

/// The integer that a bit field is part of: its bytes and sign.
pub(super) fn bit_unit(kind: &CType) -> (u8, bool) {
    match kind {
        CType::Int(size, signed) | CType::Enum(size, signed) => ((*size).max(1), *signed),
        _ => (1, false),
    }
}

/// Where that integer begins, in bits, and how many bits of it are below the field.
pub(super) fn bit_place(field: &Field, width: u8, size: u8, order: ByteOrder) -> (u64, u8) {
    let unit = u64::from(size.max(1)) * 8;
    let start = field.bit / unit * unit;
    let within = (field.bit - start) as u8;
    let from_above = (unit as u8).saturating_sub(within).saturating_sub(width);
    (start, if order == ByteOrder::Big { from_above } else { within })
}

/// A literal: signed as long as it fits.
pub(super) fn number_of(number: u64) -> Typed {
    (Any::Num(Num::Const(number)), Type::Int(8, number <= i64::MAX as u64))
}

pub(super) fn add(at: Num, offset: u64) -> Num {
    if offset == 0 { at } else { fold(Op::Add, at, Num::Const(offset)) }
}

pub(super) fn cut(of: Num, size: u8, signed: bool) -> Num {
    if size >= 8 { of } else { Num::Cut { of: Box::new(of), size, signed } }
}

/// Both operands known: what is known of the result (sums and products of addresses and indices, mostly).
pub(super) fn fold(op: Op, left: Num, right: Num) -> Num {
    match (op, &left, &right) {
        (Op::Add, Num::Const(one), Num::Const(other)) => Num::Const(one.wrapping_add(*other)),
        (Op::Subtract, Num::Const(one), Num::Const(other)) => Num::Const(one.wrapping_sub(*other)),
        (Op::Multiply, Num::Const(one), Num::Const(other)) => Num::Const(one.wrapping_mul(*other)),
        (Op::Multiply, _, Num::Const(1)) => left,
        _ => Num::Binary(op, Box::new([left, right])),
    }
}

/// A name out of an expression that is a literal string, as some calls take it.
pub(super) fn literal(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Kind::Name(name) => Some(name.to_owned()),
        _ => None,
    }
}
