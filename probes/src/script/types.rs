//! What values are: integers, strings, pointers into the guest, structures; and who knows the guest's own types.

use super::ast::Structure;
pub use super::ast::Tag;
use super::shape::Shape;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The type of a value in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// No value: what an action has.
    None,
    /// So many bytes, with a sign or without. All is computed in 64 bits; the size counts where a value is cut to it.
    Int(u8, bool),
    /// Bytes up to a 0, at most so many with it.
    Text(u32),
    /// Bytes as they are.
    Buffer,
    /// An address in the guest, and what lies there.
    Pointer(CType),
    /// A structure in the guest's memory: its address.
    Object(CType),
    /// A copy of one, or of an array: its bytes.
    Held(Arc<Shape>),
    /// Some values together.
    Tuple(Vec<Type>),
    /// Addresses of calls, innermost first.
    Stack(StackForm),
    /// An address of kernel code, shown by name.
    Symbol,
    /// An address of user code.
    UserSymbol,
    /// An address of the internet: 4 or 16 bytes.
    Inet,
    /// An address of a network card.
    Mac,
    /// A moment, shown as this format says.
    Moment(Box<[u8]>),
    /// What a map collects: see `map`.
    Aggregate(Aggregate),
}

/// How stacks are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackForm {
    /// Name and offset.
    Bpftrace,
    /// Address, name and offset.
    Perf,
    /// The address alone.
    Raw,
}

/// What a map collects over hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// How many.
    Count,
    /// Their sum; signed or not.
    Sum(bool),
    /// The least.
    Min(bool),
    /// The greatest.
    Max(bool),
    /// Their average.
    Average(bool),
    /// Number, average and total.
    Stats(bool),
    /// Powers of two, each in so many parts (as a power of two).
    Histogram(u8),
    /// Equal steps.
    Linear {
        /// The first one's least value.
        min: u64,
        /// Behind the last one.
        max: u64,
        /// Each one's width.
        step: u64,
    },
}

impl Type {
    /// A 64-bit number without a sign.
    pub const U64: Type = Type::Int(8, false);
    /// One with a sign.
    pub const I64: Type = Type::Int(8, true);
    /// What a comparison gives: 1 or 0, shown as a word. It has no bytes of its own.
    pub const TRUTH: Type = Type::Int(0, false);

    /// Whether a value of this type is a number while a script runs; the others are bytes.
    pub fn is_number(&self) -> bool {
        !matches!(
            self,
            Type::None
                | Type::Text(_)
                | Type::Buffer
                | Type::Tuple(_)
                | Type::Stack(_)
                | Type::Inet
                | Type::Mac
                | Type::Held(_)
                | Type::Aggregate(_)
        )
    }

    /// Whether it is an integer.
    pub fn is_integer(&self) -> bool {
        matches!(self, Type::Int(..))
    }

    /// Whether it is an integer with a sign.
    pub fn is_signed(&self) -> bool {
        matches!(self, Type::Int(_, true))
    }

    /// As messages name it.
    pub fn name(&self) -> String {
        match self {
            Type::None => "none".to_owned(),
            Type::Int(0, _) => "bool".to_owned(),
            Type::Int(size, signed) => alloc::format!("{}int{}", if *signed { "" } else { "u" }, u32::from(*size) * 8),
            Type::Text(0) => "string".to_owned(),
            Type::Text(capacity) => alloc::format!("string[{capacity}]"),
            Type::Buffer => "buffer".to_owned(),
            Type::Pointer(to) => alloc::format!("{} *", to.name()),
            Type::Object(of) => of.name(),
            Type::Held(shape) => shape.name(),
            Type::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(Type::name).collect();
                alloc::format!("({})", parts.join(","))
            }
            Type::Stack(_) => "kstack".to_owned(),
            Type::Symbol => "ksym_t".to_owned(),
            Type::UserSymbol => "usym_t".to_owned(),
            Type::Inet => "inet".to_owned(),
            Type::Mac => "mac_address".to_owned(),
            Type::Moment(_) => "timestamp".to_owned(),
            Type::Aggregate(aggregate) => aggregate.name().to_owned(),
        }
    }
}

impl Aggregate {
    /// The call that makes it.
    pub fn name(&self) -> &'static str {
        match self {
            Aggregate::Count => "count",
            Aggregate::Sum(_) => "sum",
            Aggregate::Min(_) => "min",
            Aggregate::Max(_) => "max",
            Aggregate::Average(_) => "avg",
            Aggregate::Stats(_) => "stats",
            Aggregate::Histogram(_) => "hist",
            Aggregate::Linear { .. } => "lhist",
        }
    }
}

/// A type of C, as the guest's own are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CType {
    /// No type: what `void *` leads to.
    Void,
    /// An integer: bytes and sign.
    Int(u8, bool),
    /// A character: arrays of it are strings.
    Char(bool),
    /// An integer whose values have names.
    Enum(u8, bool),
    /// An address.
    Pointer(Box<CType>),
    /// So many of a type.
    Array(Box<CType>, u64),
    /// A structure or union, by the number that whoever knows it gave it.
    Struct(u32, String),
    /// A function.
    Function,
}

impl CType {
    /// As C writes it.
    pub fn name(&self) -> String {
        match self {
            CType::Void | CType::Function => "void".to_owned(),
            CType::Int(size, signed) | CType::Enum(size, signed) => Type::Int(*size, *signed).name(),
            CType::Char(_) => "char".to_owned(),
            CType::Pointer(to) => alloc::format!("{} *", to.name()),
            CType::Array(of, count) => alloc::format!("{}[{count}]", of.name()),
            CType::Struct(_, name) => alloc::format!("struct {name}"),
        }
    }
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// What it is.
    pub kind: CType,
    /// Bits from the structure's start.
    pub bit: u64,
    /// Of a bit field: how many.
    pub width: Option<u8>,
}

/// Who knows the types of the guest.
pub trait Types {
    /// A type by its name: `struct NAME` with a tag, a typedef or base type without.
    fn named(&self, tag: Option<Tag>, name: &str) -> Option<CType>;
    /// A member of a structure, those of nameless structures inside it included.
    fn field(&self, structure: u32, name: &str) -> Option<Field>;
    /// All members of a structure in their order, those of nameless structures inside it in its stead.
    fn fields(&self, structure: u32) -> Vec<(String, Field)> {
        let _ = structure;
        Vec::new()
    }
    /// How many bytes a structure has.
    fn size(&self, structure: u32) -> Option<u64>;
    /// The value of an enumerator.
    fn enumerator(&self, name: &str) -> Option<u64>;
    /// The parameters of a function, by name, and its result.
    fn function(&self, name: &str) -> Option<Prototype>;
}

/// What a function takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// In order.
    pub parameters: Vec<(String, CType)>,
    /// Its result.
    pub result: CType,
}

/// Integer types that need no guest to be known: the language's own, and those of C whose size is the same everywhere.
pub(super) fn integer_named(name: &str) -> Option<(u8, bool)> {
    Some(match name {
        "int8" | "int8_t" | "s8" | "__s8" | "signed char" => (1, true),
        "uint8" | "uint8_t" | "u8" | "__u8" | "unsigned char" | "bool" | "_Bool" => (1, false),
        "int16" | "int16_t" | "s16" | "__s16" | "short" | "short int" => (2, true),
        "uint16" | "uint16_t" | "u16" | "__u16" | "unsigned short" | "__be16" | "__le16" => (2, false),
        "int32" | "int32_t" | "s32" | "__s32" | "int" | "pid_t" => (4, true),
        "uint32" | "uint32_t" | "u32" | "__u32" | "unsigned int" | "unsigned" | "__be32" | "__le32" | "uid_t" | "gid_t"
        | "dev_t" => (4, false),
        "int64" | "int64_t" | "s64" | "__s64" | "long long" | "long long int" | "loff_t" => (8, true),
        "uint64"
        | "uint64_t"
        | "u64"
        | "__u64"
        | "unsigned long long"
        | "unsigned long long int"
        | "__be64"
        | "__le64"
        | "sector_t" => (8, false),
        _ => return None,
    })
}

/// The same for those as wide as the guest's words.
pub(super) fn word_named(name: &str, word: u8) -> Option<(u8, bool)> {
    match name {
        "long" | "long int" | "ssize_t" | "intptr_t" | "ptrdiff_t" => Some((word, true)),
        "unsigned long" | "long unsigned" | "unsigned long int" | "size_t" | "uintptr_t" => Some((word, false)),
        _ => None,
    }
}

/// The types that a script defines itself, in front of the guest's.
pub(super) struct Known<'a> {
    pub own: Vec<Laid>,
    pub constants: &'a [(String, u64)],
    pub guest: Option<&'a dyn Types>,
    /// Bytes of a word.
    pub word: u8,
}

/// A structure of the script's with its members' places.
pub(super) struct Laid {
    pub name: String,
    pub fields: Vec<(String, Field)>,
    pub size: u64,
    pub align: u64,
}

/// Structures of the script have numbers from here on.
const OWN: u32 = 1 << 31;

impl Known<'_> {
    pub fn named(&self, tag: Option<Tag>, name: &str) -> Option<CType> {
        if tag.is_none() {
            if name == "char" {
                return Some(CType::Char(true));
            }
            if name == "void" {
                return Some(CType::Void);
            }
            if let Some((size, signed)) = integer_named(name).or_else(|| word_named(name, self.word)) {
                return Some(CType::Int(size, signed));
            }
        } else if tag == Some(Tag::Enum) && self.guest.is_none() {
            return Some(CType::Enum(4, false));
        }
        if let Some(at) = self.own.iter().position(|laid| laid.name == name && tag != Some(Tag::Enum)) {
            return Some(CType::Struct(OWN + at as u32, name.to_owned()));
        }
        self.guest.and_then(|guest| guest.named(tag, name))
    }

    pub fn field(&self, structure: u32, name: &str) -> Option<Field> {
        match structure.checked_sub(OWN) {
            Some(own) => self.own_field(self.own.get(own as usize)?, name),
            None => self.guest?.field(structure, name),
        }
    }

    fn own_field(&self, laid: &Laid, name: &str) -> Option<Field> {
        if let Some((_, field)) = laid.fields.iter().find(|(is, _)| is == name) {
            return Some(field.clone());
        }
        laid.fields.iter().filter(|(name, _)| name.is_empty()).find_map(|(_, outer)| {
            let CType::Struct(number, _) = &outer.kind else { return None };
            let inner = self.field(*number, name)?;
            Some(Field { bit: outer.bit + inner.bit, ..inner })
        })
    }

    pub fn fields(&self, structure: u32) -> Vec<(String, Field)> {
        match structure.checked_sub(OWN) {
            Some(own) => self.own.get(own as usize).map_or_else(Vec::new, |laid| self.own_fields(laid)),
            None => self.guest.map_or_else(Vec::new, |guest| guest.fields(structure)),
        }
    }

    fn own_fields(&self, laid: &Laid) -> Vec<(String, Field)> {
        let mut fields = Vec::new();
        for (name, field) in &laid.fields {
            match (name.is_empty(), &field.kind) {
                (true, CType::Struct(number, _)) => {
                    let inside = self.fields(*number).into_iter();
                    fields.extend(inside.map(|(name, inner)| (name, Field { bit: field.bit + inner.bit, ..inner })));
                }
                (true, _) => {}
                _ => fields.push((name.clone(), field.clone())),
            }
        }
        fields
    }

    pub fn enumerator(&self, name: &str) -> Option<u64> {
        let own = self.constants.iter().find(|(is, _)| is == name).map(|(_, value)| *value);
        own.or_else(|| self.guest?.enumerator(name))
    }

    pub fn size_of(&self, kind: &CType) -> Option<u64> {
        Some(match kind {
            CType::Void | CType::Function => return None,
            CType::Int(size, _) | CType::Enum(size, _) => u64::from(*size),
            CType::Char(_) => 1,
            CType::Pointer(_) => u64::from(self.word),
            CType::Array(of, count) => self.size_of(of)?.checked_mul(*count)?,
            CType::Struct(number, _) => match number.checked_sub(OWN) {
                Some(own) => self.own.get(own as usize)?.size,
                None => self.guest?.size(*number)?,
            },
        })
    }

    fn align_of(&self, kind: &CType) -> u64 {
        match kind {
            CType::Array(of, _) => self.align_of(of),
            CType::Struct(number, _) => match number.checked_sub(OWN) {
                Some(own) => self.own.get(own as usize).map_or(1, |laid| laid.align),
                None => u64::from(self.word),
            },
            // i386 aligns 64 bits to 32, as no other ISA does; its words are the only 32-bit ones of such guests with
            // BTF or without.
            _ => self.size_of(kind).unwrap_or(1).clamp(1, 8),
        }
    }

    /// Finds each member's place, by the guest's rules; the name of a type that nobody knows where there is one.
    pub fn lay_out(&mut self, structure: &Structure) -> Result<CType, (super::error::Span, String)> {
        use super::ast::MemberKind;
        let mut fields = Vec::new();
        let (mut bit, mut size, mut align) = (0_u64, 0_u64, 1_u64);
        for member in &structure.members {
            let kind = match &member.kind {
                MemberKind::Word => CType::Pointer(Box::new(CType::Function)),
                MemberKind::Inside(inside, count) => {
                    let kind = self.lay_out(inside)?;
                    count.map_or(kind.clone(), |count| CType::Array(Box::new(kind), count))
                }
                MemberKind::Named(name) => {
                    let mut kind = match self.named(name.tag, &name.name) {
                        Some(kind) => kind,
                        None if name.pointers > 0 => CType::Void,
                        None => return Err((name.at, name.name.clone())),
                    };
                    for _ in 0..name.pointers {
                        kind = CType::Pointer(Box::new(kind));
                    }
                    name.array.map_or(kind.clone(), |count| CType::Array(Box::new(kind), count))
                }
            };
            let bytes = self.size_of(&kind).unwrap_or(0);
            let this_align = if structure.packed { 1 } else { self.align_of(&kind) };
            align = align.max(this_align);
            if structure.is_union {
                bit = 0;
            }
            let width = member.bits.map(|width| width.min(64) as u8);
            match width {
                // A bit field begins anew where it would cross the boundary of its own type.
                Some(width) => {
                    let unit = (bytes * 8).max(8);
                    if width == 0 || bit / unit != (bit + u64::from(width).max(1) - 1) / unit {
                        bit = bit.next_multiple_of(unit);
                    }
                }
                None => bit = bit.next_multiple_of(8).next_multiple_of(this_align * 8),
            }
            fields.push((member.name.clone(), Field { kind, bit, width }));
            bit = bit.saturating_add(width.map_or(bytes.saturating_mul(8), u64::from));
            size = size.max(bit.div_ceil(8));
        }
        self.own.push(Laid { name: structure.name.clone(), fields, size: size.next_multiple_of(align), align });
        Ok(CType::Struct(OWN + self.own.len() as u32 - 1, structure.name.clone()))
    }
}
