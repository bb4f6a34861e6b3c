//! Compiles access to guest memory by C types: members, array elements, casts and `args`.

use super::ast::{self, Expr, Kind, TypeName};
use super::compile::{Compiler, no_types};
use super::error::{ScriptError, Span};
use super::operators::{add, cut, fold, whole};
use super::program::{Any, Bytes, Num, Op};
use super::shape::Shape;
use super::types::{CType, Field, Type};
use super::values::Typed;
use alloc::boxed::Box;
use alloc::format;
use trapline_isa::mem::ByteOrder;

impl Compiler<'_> {
    /// A load of a C type's number from an address. Types that are no integers are loaded as words.
    pub(super) fn load(&self, at: Num, kind: &CType) -> Num {
        let (size, signed) = match kind {
            CType::Int(size, signed) | CType::Enum(size, signed, _) => (*size, *signed),
            CType::Char(signed) => (1, *signed),
            _ => (self.known.word, false),
        };
        Num::Load { at: Box::new(at), size, signed }
    }

    /// The script type of a C integer or enum.
    fn integer(&self, kind: &CType) -> Type {
        match kind {
            CType::Enum(size, signed, number) => self.known.enumeration(*number).map_or(Type::Int(*size, *signed), Type::Enum),
            CType::Int(size, signed) => Type::Int(*size, *signed),
            _ => Type::U64,
        }
    }

    /// A value of this C type that is already in a number, such as an argument.
    pub fn loaded(&self, num: Num, kind: &CType) -> Typed {
        match kind {
            CType::Int(size, signed) | CType::Enum(size, signed, _) => {
                (Any::Num(Num::Cut { of: Box::new(num), size: *size, signed: *signed }), self.integer(kind))
            }
            CType::Char(signed) => (Any::Num(Num::Cut { of: Box::new(num), size: 1, signed: *signed }), Type::Int(1, *signed)),
            CType::Pointer(to) => (Any::Num(num), Type::Pointer((**to).clone())),
            CType::Array(..) | CType::Struct(..) => (Any::Num(num), Type::Object(kind.clone())),
            CType::Void | CType::Function => (Any::Num(num), Type::U64),
        }
    }

    /// The value of this C type at an address.
    pub(super) fn object(&self, at: Num, kind: &CType) -> Typed {
        match kind {
            CType::Int(..) | CType::Enum(..) => (Any::Num(self.load(at, kind)), self.integer(kind)),
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

    /// The offset and the type of a structure's member.
    pub(super) fn member(&self, kind: &CType, name: &str, at: Span) -> Result<Field, ScriptError> {
        let CType::Struct(number, structure) = kind else {
            return Err(at.error(format!("{} is no structure, so it has no field '{name}'", kind.name())));
        };
        self.known
            .field(*number, name)
            .ok_or_else(|| at.error(format!("Struct/union of type 'struct {structure}' does not contain a field named '{name}'")))
    }

    /// Compiles `of.name` and `of->name`, which mean the same. `of` may be a structure in guest memory or its address, a copy of
    /// a structure, a tuple with names, or `args`.
    pub(super) fn field(&mut self, of: &Expr, name: &str, at: Span) -> Result<Typed, ScriptError> {
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
        if let (Type::Record(members), Any::Bytes(_)) = (&kind, &any) {
            let Some(number) = members.iter().position(|(is, _)| is == name) else {
                let names = members.iter().map(|(name, _)| name.as_str()).collect::<alloc::vec::Vec<_>>().join(", ");
                return Err(at.error(format!("this has no member '{name}': it has {names}")));
            };
            return self.part(of, number as u64, at);
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

    /// A field of a tracepoint's record. A field `__data_loc_*` holds the offset and the length of a string in the
    /// record.
    pub(super) fn record_field(&mut self, record: &CType, name: &str, at: Span) -> Result<Typed, ScriptError> {
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

    /// A field of the structure at an address.
    pub(super) fn field_at(&mut self, address: Num, structure: &CType, name: &str, at: Span) -> Result<Typed, ScriptError> {
        let field = self.member(structure, name, at)?;
        let Some(width) = field.width else { return Ok(self.object(add(address, field.bit / 8), &field.kind)) };
        let (size, signed) = bit_unit(&field.kind);
        let end = self.known.size_of(structure).unwrap_or(u64::MAX);
        let Some((start, bytes, shift)) = bit_place(&field, width, end, self.knowledge.isa().order) else {
            return Err(at.error(format!("the bits of '{name}' lie in nine bytes: cast their address and put them together")));
        };
        let whole = Num::Load { at: Box::new(add(address, start)), size: bytes, signed: false };
        let kind = if let CType::Enum(..) = field.kind { self.integer(&field.kind) } else { Type::Int(size, signed) };
        Ok((Any::Num(Num::Bits { of: Box::new(whole), shift, width, signed }), kind))
    }

    /// `args.name`: a parameter of the function, or a field of the tracepoint.
    pub(super) fn parameter(&mut self, name: &str, at: Span) -> Result<Typed, ScriptError> {
        if self.block.event.is_some() {
            return self.event_field(name, at);
        }
        if let Some(record) = self.block.record.clone() {
            return self.record_field(&record, name, at);
        }
        if !self.block.kinds.typed {
            return Err(at.error("args has names in fentry and fexit probes: here the arguments are arg0, arg1 and so on"));
        }
        let parameters = self.typed_parameters();
        let Some(number) = parameters.iter().position(|(is, _)| is == name) else {
            let names = parameters.iter().map(|(name, _)| name.as_str()).collect::<alloc::vec::Vec<_>>().join(", ");
            let function = self.block.function.as_deref().unwrap_or_default();
            let plain = function.rsplit(':').next().unwrap_or_default();
            return Err(
                at.error(format!("{plain} has no parameter '{name}': it has {}", if names.is_empty() { "none" } else { &names }))
            );
        };
        Ok(self.loaded(Num::Argument(number.min(255) as u8), &parameters[number].1))
    }

    /// The layout of an element in an array of integers of `size` bytes.
    fn element_shape(&self, element: &CType, size: u64) -> Shape {
        let signed = matches!(element, CType::Int(_, true));
        Shape::Number { size: size as u8, signed, bits: None, order: self.knowledge.isa().order }
    }

    /// `args` as a whole: all parameters, or all fields of the record.
    pub(super) fn all_parameters(&mut self, at: Span) -> Result<Typed, ScriptError> {
        let names: alloc::vec::Vec<alloc::string::String> = if self.block.event.is_some() {
            self.event_fields()
        } else if let Some(CType::Struct(record, _)) = &self.block.record {
            let names = self.known.fields(*record).into_iter().map(|(name, _)| name);
            let names = names.filter(|name| !matches!(name.as_str(), "ent" | "__data"));
            names.map(|name| name.strip_prefix("__data_loc_").map_or(name.clone(), Into::into)).collect()
        } else if self.block.kinds.typed {
            self.typed_parameters().into_iter().map(|(name, _)| name).collect()
        } else {
            return Err(at.error("args is for tracepoint, fentry and fexit probes: here the arguments are arg0, arg1 and so on"));
        };
        let mut members = alloc::vec::Vec::new();
        for name in names {
            let typed = self.parameter(&name, at)?;
            // A structure that cannot be copied is shown by its address.
            let held = match typed {
                (Any::Num(num), Type::Object(of)) if self.shape_of(&of).is_none() => (Any::Num(num), Type::Pointer(of)),
                typed => self.held(typed, at)?,
            };
            members.push((name, held));
        }
        self.record(members, at)
    }

    /// The parameters of the probed function, from its prototype.
    fn typed_parameters(&self) -> alloc::vec::Vec<(alloc::string::String, CType)> {
        let function = self.block.function.as_deref().unwrap_or_default();
        let plain = function.rsplit(':').next().unwrap_or_default();
        let prototype = self.known.guest.and_then(|guest| guest.function(plain));
        let mut parameters = prototype.map(|prototype| prototype.parameters).unwrap_or_default();
        // The first parameter of a tracepoint's function is its private data.
        let own = usize::from(self.block.is_raw);
        parameters.drain(..own.min(parameters.len()));
        parameters
    }

    /// Compiles `of.0`: a part of a tuple.
    pub(super) fn part(&mut self, of: &Expr, number: u64, at: Span) -> Result<Typed, ScriptError> {
        let (bytes, kind) = self.bytes(of)?;
        let Some(types) = kind.parts() else {
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

    /// Compiles `of[index]`: an element of an array, or memory at a pointer, or a part of a tuple.
    pub(super) fn index(&mut self, of: &Expr, index: &Expr, at: Span) -> Result<Typed, ScriptError> {
        let (any, kind) = self.value(of)?;
        if kind.parts().is_some() {
            let number = self.constant(index, "the number of a tuple's part")?;
            return self.part(of, number, at);
        }
        let (index_num, index_kind) = self.number(index)?;
        let out_of_bounds = |index: u64, count: u64| {
            let index = whole(index, index_kind.is_signed());
            Err(at.error(format!("the index {index} is out of bounds for array of size {count}")))
        };
        if let Type::Held(shape) = &kind
            && let Shape::Array(element, count) = &**shape
        {
            if let Num::Const(index) = index_num
                && index >= *count
            {
                return out_of_bounds(index, *count);
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
            return out_of_bounds(*index, count);
        }
        let Any::Num(base) = any else { return Err(of.at.error("this has no elements")) };
        let size = self.known.size_of(&element).unwrap_or(1);
        let offset = fold(Op::Multiply, index_num, Num::Const(size));
        Ok(self.object(fold(Op::Add, base, offset), &element))
    }

    /// Resolves the name of a C type.
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

    /// Resolves the name of a type to a type of script values.
    pub fn type_named(&self, name: &TypeName) -> Result<Type, ScriptError> {
        if name.tag.is_none() && name.pointers == 0 {
            match name.name.as_str() {
                "string" => return Ok(Type::Text(name.array.unwrap_or(0) as u32)),
                "buffer" => return Ok(Type::Buffer),
                _ => {}
            }
        }
        Ok(match self.c_type(name)? {
            kind @ (CType::Int(..) | CType::Enum(..)) => self.integer(&kind),
            CType::Char(signed) => Type::Int(1, signed),
            CType::Pointer(to) => Type::Pointer(*to),
            CType::Void | CType::Function => return Err(name.at.error("void is no type of a value")),
            kind => Type::Object(kind),
        })
    }

    /// Compiles `(type)of`.
    pub(super) fn cast(&mut self, name: &TypeName, of: &Expr) -> Result<Typed, ScriptError> {
        let kind = self.type_named(name)?;
        let (any, is) = self.value(of)?;
        let Any::Num(num) = any else {
            if matches!((&kind, &is), (Type::Text(_), Type::Text(_))) {
                return Ok((any, kind));
            }
            return Err(of.at.error(format!("a value of type {} cannot be cast to {}", is.name(), kind.name())));
        };
        if name.tag.is_none() && name.pointers == 0 && name.name == "bool" {
            return Ok((Any::Num(Num::Not(Box::new(Num::Not(Box::new(num))))), Type::TRUTH));
        }
        // `(uint8[4])e` takes the bytes of a number. `[]` takes as many as its type has.
        if let (Type::Object(CType::Array(element, count)), true) = (&kind, is.is_integer())
            && let (Some(size), CType::Int(..) | CType::Char(_)) = (self.known.size_of(element), &**element)
        {
            let has = is.integer_size().map_or(8, |size| u64::from(size.max(1)));
            let count = if *count == 0 { (has / size).max(1) } else { *count };
            let shape = self.element_shape(element, size);
            let bytes = size.saturating_mul(count);
            if bytes > 8 {
                return Err(name.at.error(format!("a number has at most 8 bytes, and {}[{count}] has {bytes}", name.name)));
            }
            let held = Type::Held(alloc::sync::Arc::new(Shape::Array(Box::new(shape), count)));
            return Ok((Any::Bytes(Bytes::Number(Box::new(num), bytes as u8)), held));
        }
        Ok(match kind {
            Type::Int(size, signed) => (Any::Num(cut(num, size, signed)), Type::Int(size, signed)),
            Type::Enum(of) => (Any::Num(cut(num, of.size, of.signed)), Type::Enum(of)),
            // `(struct x)e` means the structure at address e.
            kind => (Any::Num(num), kind),
        })
    }
}

/// The integer that contains a bit field: size in bytes and sign.
pub(super) fn bit_unit(kind: &CType) -> (u8, bool) {
    match kind {
        CType::Int(size, signed) | CType::Enum(size, signed, _) => ((*size).max(1), *signed),
        _ => (1, false),
    }
}

/// The integer from which a bit field is read: its offset in the structure, its size in bytes, and the number of its bits
/// below the field. It is the field's [`bit_unit`], or, if the field of a packed structure is not inside of it or the
/// structure ends before it, the bytes that have a bit of the field. `end` is the structure's size. `None` if these bytes
/// are nine.
pub(super) fn bit_place(field: &Field, width: u8, end: u64, order: ByteOrder) -> Option<(u64, u8, u8)> {
    let unit = u64::from(bit_unit(&field.kind).0);
    let (first, last) = (field.bit / 8, field.bit.saturating_add(u64::from(width.max(1)) - 1) / 8);
    let aligned = first / unit * unit;
    let is_inside = last - aligned < unit && aligned.saturating_add(unit) <= end;
    let (start, size) = if is_inside { (aligned, unit) } else { (first, last - first + 1) };
    let size = u8::try_from(size).ok().filter(|size| *size <= 8)?;
    let within = (field.bit - start * 8) as u8;
    let from_above = (8 * size).saturating_sub(within).saturating_sub(width);
    Some((start, size, if order == ByteOrder::Big { from_above } else { within }))
}
