//! What values are: integers, strings, pointers into the guest, structures; and who knows the guest's own types.

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
    /// The same with names, as `args` is.
    Record(Vec<(String, Type)>),
    /// An integer whose values have names.
    Enum(Arc<Enumeration>),
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

impl StackForm {
    /// By the name that scripts give it.
    pub fn named(name: &str) -> Option<StackForm> {
        match name {
            "bpftrace" => Some(StackForm::Bpftrace),
            "perf" => Some(StackForm::Perf),
            "raw" | "build_id" => Some(StackForm::Raw),
            _ => None,
        }
    }
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
                | Type::Record(_)
                | Type::Stack(_)
                | Type::Inet
                | Type::Mac
                | Type::Held(_)
                | Type::Aggregate(_)
        )
    }

    /// Whether it is an integer.
    pub fn is_integer(&self) -> bool {
        matches!(self, Type::Int(..) | Type::Enum(_))
    }

    /// Whether it is an integer with a sign.
    pub fn is_signed(&self) -> bool {
        match self {
            Type::Int(_, signed) => *signed,
            Type::Enum(of) => of.signed,
            _ => false,
        }
    }

    /// How many bytes an integer has; `None`: it is none.
    pub fn integer_size(&self) -> Option<u8> {
        match self {
            Type::Int(size, _) => Some(*size),
            Type::Enum(of) => Some(of.size),
            _ => None,
        }
    }

    /// The types of a tuple's parts, with names or without; `None`: it is none.
    pub fn parts(&self) -> Option<Vec<Type>> {
        match self {
            Type::Tuple(parts) => Some(parts.clone()),
            Type::Record(parts) => Some(parts.iter().map(|(_, kind)| kind.clone()).collect()),
            _ => None,
        }
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
            Type::Record(parts) => {
                let parts: Vec<String> = parts.iter().map(|(name, kind)| alloc::format!("{name}={}", kind.name())).collect();
                alloc::format!("({})", parts.join(","))
            }
            Type::Enum(of) => alloc::format!("enum {}", of.name),
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
    /// Whether its number has a sign.
    pub fn is_signed(&self) -> bool {
        use Aggregate::{Average, Max, Min, Stats, Sum};
        matches!(self, Sum(true) | Min(true) | Max(true) | Average(true) | Stats(true))
    }

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

/// An integer's values that have names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumeration {
    /// Its own name; empty where it has none.
    pub name: String,
    /// Bytes.
    pub size: u8,
    /// It has negative ones.
    pub signed: bool,
    /// Each value with its name, in the order in which they are written.
    pub names: Vec<(u64, String)>,
}

impl Enumeration {
    /// What a value is called.
    pub fn name_of(&self, value: u64) -> Option<&str> {
        self.names.iter().find(|(is, _)| *is == value).map(|(_, name)| name.as_str())
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
    /// An integer whose values have names: its bytes, its sign, and the number that whoever knows it gave it.
    Enum(u8, bool, u32),
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
            CType::Int(size, signed) | CType::Enum(size, signed, _) => Type::Int(*size, *signed).name(),
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
    /// The number of the enum that an enumerator belongs to.
    fn enum_of(&self, name: &str) -> Option<u32> {
        let _ = name;
        None
    }
    /// An enum by its number.
    fn enumeration(&self, number: u32) -> Option<Enumeration> {
        let _ = number;
        None
    }
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
