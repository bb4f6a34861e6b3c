//! Compiles functions that look something up: `signal_name`, `syscall_name`, `pton`, `path`, `find`, and the variable
//! `username`. Also compiles copies of structures and arrays of the guest, which a script can store in maps: a `Shape`
//! describes the bytes of a copy.

use super::ast::{Expr, Kind, Tag};
use super::compile::{Compiler, no_types};
use super::error::{ScriptError, Span};
use super::program::{Act, Any, Bytes, Num, PathPlaces};
use super::shape::Shape;
use super::types::{CType, Type};
use super::values::Typed;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

impl Compiler<'_> {
    /// Compiles a call of one of the functions of this file. `None` if `name` is another function.
    pub fn look_up(&mut self, name: &str, arguments: &[Expr], at: Span) -> Result<Option<Typed>, ScriptError> {
        Ok(Some(match name {
            "signal_name" => {
                let names = self.knowledge.isa().linux.signals.iter().map(|name| (*name).into()).collect();
                self.name_of(name, arguments, names, at)?
            }
            "syscall_name" => {
                let names = self.knowledge.system_call_names();
                if names.is_empty() {
                    return Err(
                        at.error("this kernel's table of system calls is not found: the probe's name tells which call it is")
                    );
                }
                self.name_of(name, arguments, names, at)?
            }
            "pton" => self.network_address(arguments, at)?,
            "path" => self.path(arguments, at)?,
            "find" => self.find(arguments, at)?,
            _ => return Ok(None),
        }))
    }

    /// Compiles a table look-up: the number `arguments[0]` becomes `names[number]` at a hit. A number without a name becomes
    /// its digits.
    fn name_of(&mut self, name: &str, arguments: &[Expr], names: Arc<[String]>, at: Span) -> Result<Typed, ScriptError> {
        let [of] = self.arguments::<1>(name, arguments, at)?;
        let of = Box::new(self.number(of)?.0);
        Ok((Any::Bytes(Bytes::Name { of, names }), Type::Text(0)))
    }

    /// `pton("1.2.3.4")`: 4 or 16 bytes, computed at compile time.
    fn network_address(&mut self, arguments: &[Expr], at: Span) -> Result<Typed, ScriptError> {
        let [of] = self.arguments::<1>("pton", arguments, at)?;
        let Kind::Text(text) = &of.kind else {
            return Err(of.at.error("pton() takes an address in quotes: pton(\"127.0.0.1\")"));
        };
        let text = String::from_utf8_lossy(text);
        let bytes: Vec<u8> = match (text.parse::<Ipv4Addr>(), text.parse::<Ipv6Addr>()) {
            (Ok(address), _) => address.octets().into(),
            (_, Ok(address)) => address.octets().into(),
            _ => return Err(of.at.error(format!("'{text}' is no address of the internet: 127.0.0.1 and ::1 are such"))),
        };
        let order = self.knowledge.isa().order;
        let byte = Shape::Number { size: 1, signed: false, bits: None, order };
        let shape = Shape::Array(Box::new(byte), bytes.len() as u64);
        Ok((Any::Bytes(Bytes::Literal(bytes.into())), Type::Held(Arc::new(shape))))
    }

    /// `path(p, length)`: the path of a `struct path`, across mount points up to the root. `length` limits its bytes.
    fn path(&mut self, arguments: &[Expr], at: Span) -> Result<Typed, ScriptError> {
        self.between("path", arguments, 1, 2, at)?;
        let of = &arguments[0];
        let (value, kind) = self.value(of)?;
        let is_path =
            matches!(&kind, Type::Pointer(CType::Struct(_, name)) | Type::Object(CType::Struct(_, name)) if name == "path");
        let (Any::Num(start), true) = (value, is_path) else {
            return Err(of.at.error(format!(
                "path() takes a struct path or its address, such as args.file->f_path, not a value of type {}",
                kind.name()
            )));
        };
        let limit = match arguments.get(1) {
            Some(limit) => self.constant(limit, "the longest path")?.clamp(1, 65_536) as u32,
            None => 4096,
        };
        let places = self.path_places().ok_or_else(|| {
            at.error(format!("a path is found by struct dentry and struct mount, and: {}", no_types(self.knowledge)))
        })?;
        Ok((Any::Bytes(Bytes::Path { start: Box::new(start), places: Box::new(places), limit }), Type::Text(limit)))
    }

    /// The field offsets that `Runner::path` (`strings.rs`) follows. `None` if the kernel's types lack one of them.
    fn path_places(&self) -> Option<PathPlaces> {
        let at = |structure: &str, path: &[&str]| {
            let mut kind = self.known.named(Some(Tag::Struct), structure)?;
            let mut bits = 0;
            for name in path {
                let CType::Struct(number, _) = kind else { return None };
                let field = self.known.field(number, name)?;
                bits = field.bit.saturating_add(bits);
                kind = field.kind;
            }
            Some(bits / 8)
        };
        Some(PathPlaces {
            mount: at("path", &["mnt"])?,
            entry: at("path", &["dentry"])?,
            parent: at("dentry", &["d_parent"])?,
            name: at("dentry", &["d_name", "name"])?,
            root: at("vfsmount", &["mnt_root"])?,
            inside: at("mount", &["mnt"])?,
            mounted_in: at("mount", &["mnt_parent"])?,
            mounted_at: at("mount", &["mnt_mountpoint"])?,
        })
    }

    /// `find(@m, key, $v)`: 1 if the map has the key, and then `$v` is set to its value; otherwise 0, and `$v` keeps its
    /// value. The key is compiled twice, for the test and for the read of the value; one that must not be evaluated twice is
    /// kept in hidden variables first.
    fn find(&mut self, arguments: &[Expr], at: Span) -> Result<Typed, ScriptError> {
        let [map_expr, key, variable] = self.arguments::<3>("find", arguments, at)?;
        let map = self.whole_map("find", map_expr)?;
        let Kind::Variable(name) = &variable.kind else {
            return Err(variable.at.error("find() takes a variable behind the key: find(@name, key, $value)"));
        };
        let Kind::Map(map_name, _) = &map_expr.kind else { return Err(at.error("find() takes a map first")) };
        let (keys, kept) = self.evaluated_once(core::slice::from_ref(key))?;
        let (asked, read) = (self.key(map, &keys, at)?, Kind::Map(map_name.clone(), keys));
        let (value, kind) = self.value(&Expr { at, kind: read })?;
        // A hit without the key skips the assignment, so it does not count as one that always runs.
        let set = self.passed_over(|compiler| compiler.set_variable(name, value, kind, at))?;
        let found = Num::Behind(Box::new([set]) as Box<[Act]>, Box::new(Num::Const(1)));
        let answer = Num::Choice(Box::new([Num::HasKey(map, asked), found, Num::Const(0)]));
        let answer = if kept.is_empty() { answer } else { Num::Behind(kept.into(), Box::new(answer)) };
        Ok((Any::Num(answer), Type::TRUTH))
    }

    /// Turns a structure or array in guest memory into an expression that copies its bytes at a hit. Returns other values
    /// unchanged. Fails if the type is unknown or larger than `MOST_HELD`.
    pub fn held(&self, (any, kind): Typed, at: Span) -> Result<Typed, ScriptError> {
        let (Any::Num(_), Type::Object(of)) = (&any, &kind) else { return Ok((any, kind)) };
        let Some(shape) = self.shape_of(of) else {
            return Err(
                at.error(format!("{} is not copied as a whole, it is too large or not known: name its fields", of.name()))
            );
        };
        let Any::Num(start) = any else { return Ok((any, kind)) };
        let length = Box::new(Num::Const(shape.size()));
        Ok((Any::Bytes(Bytes::Raw { at: Box::new(start), length }), Type::Held(shape)))
    }

    /// The layout of a structure or array, which is made once. `None` if it is unknown or too large to be copied.
    pub(super) fn shape_of(&self, of: &CType) -> Option<Arc<Shape>> {
        if let Some(known) = self.shapes.borrow().get(of) {
            return known.clone();
        }
        let mut left = MOST_MEMBERS;
        let shape = self.shape(of, DEEPEST, &mut left).filter(|shape| (1..=MOST_HELD).contains(&shape.size())).map(Arc::new);
        self.shapes.borrow_mut().insert(of.clone(), shape.clone());
        shape
    }

    /// The layout of a type. `depth` and `left` bound the nesting and the number of members, because the kernel's types may
    /// be damaged.
    fn shape(&self, of: &CType, depth: usize, left: &mut usize) -> Option<Shape> {
        *left = left.checked_sub(1)?;
        self.charge(STEPS_A_MEMBER, Span::default()).ok()?;
        let order = self.knowledge.isa().order;
        Some(match of {
            CType::Int(size, signed) => Shape::Number { size: *size, signed: *signed, bits: None, order },
            CType::Enum(size, signed, number) => match self.known.enumeration(*number) {
                Some(names) => Shape::Named(names, *size, order),
                None => Shape::Number { size: *size, signed: *signed, bits: None, order },
            },
            CType::Char(signed) => Shape::Number { size: 1, signed: *signed, bits: None, order },
            CType::Pointer(_) => Shape::Address(self.known.word, order),
            CType::Array(of, count) if matches!(**of, CType::Char(_)) => Shape::Text(*count),
            CType::Array(of, count) => Shape::Array(Box::new(self.shape(of, depth.checked_sub(1)?, left)?), *count),
            CType::Struct(number, name) => {
                let depth = depth.checked_sub(1)?;
                let mut members = Vec::new();
                let end = self.known.size_of(of)?;
                for (name, field) in self.known.fields(*number) {
                    let (place, shape) = match field.width {
                        None => (field.bit / 8, self.shape(&field.kind, depth, left)?),
                        Some(width) => {
                            let signed = super::objects::bit_unit(&field.kind).1;
                            let (start, size, shift) = super::objects::bit_place(&field, width, end, order)?;
                            (start, Shape::Number { size, signed, bits: Some((shift, width)), order })
                        }
                    };
                    members.push((name, place, shape));
                }
                Shape::Struct { name: name.clone(), size: end, members }
            }
            CType::Void | CType::Function => return None,
        })
    }

    /// The member with this layout, `at` bytes from the start of a copy: a number, or a smaller copy.
    pub fn piece(&self, of: Bytes, at: Num, shape: &Shape) -> Typed {
        let (of, at) = (Box::new(of), Box::new(at));
        match shape {
            Shape::Number { size, signed, bits, .. } => {
                let whole = Num::Inside { of, at, size: *size };
                let num = match bits {
                    Some((shift, width)) => Num::Bits { of: Box::new(whole), shift: *shift, width: *width, signed: *signed },
                    None => Num::Cut { of: Box::new(whole), size: *size, signed: *signed },
                };
                // A bit field may lie in three bytes, for example.
                (Any::Num(num), Type::Int(size.next_power_of_two(), *signed))
            }
            Shape::Named(names, size, _) => {
                let whole = Box::new(Num::Inside { of, at, size: *size });
                (Any::Num(Num::Cut { of: whole, size: *size, signed: names.signed }), Type::Enum(Arc::clone(names)))
            }
            Shape::Address(size, _) => (Any::Num(Num::Inside { of, at, size: *size }), Type::Pointer(CType::Void)),
            Shape::Text(count) => {
                (Any::Bytes(Bytes::Piece { of, at, length: *count, is_text: true }), Type::Text((*count).min(65_535) as u32))
            }
            shape => {
                // Spending the budget ends the compiler after this statement.
                let _ = self.charge(STEPS_A_MEMBER * shape.count_of_members(), Span::default());
                let piece = Bytes::Piece { of, at, length: shape.size(), is_text: false };
                (Any::Bytes(piece), Type::Held(Arc::new(shape.clone())))
            }
        }
    }

    /// `username`: the uid of the running task in digits, because the engine cannot read the guest's /etc/passwd.
    pub fn user_name(&self, at: Span) -> Result<Typed, ScriptError> {
        let id = self.of_credentials("uid");
        let id =
            id.ok_or_else(|| at.error(format!("username is found by the kernel's types, and: {}", no_types(self.knowledge))))?;
        Ok((Any::Bytes(Bytes::Name { of: Box::new(id), names: Arc::new([]) }), Type::Text(0)))
    }
}

/// The largest structure that is copied, in bytes.
const MOST_HELD: u64 = 65_536;
/// The limit of structures and arrays inside one another.
const DEEPEST: usize = 12;
/// The limit of a structure's members, with those of inner structures.
const MOST_MEMBERS: usize = 4096;
/// The steps of making or copying the layout of a member, which takes about 100 bytes of memory.
const STEPS_A_MEMBER: u64 = 32;
