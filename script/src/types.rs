//! Types of script values and of C, and the trait [`Types`] by which the compiler reads the guest's type information.

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
    /// No value. Actions have this type.
    None,
    /// An integer of this size in bytes, signed or not. All arithmetic uses 64 bits; the size matters where a value is
    /// truncated to it.
    Int(u8, bool),
    /// A string of at most this many bytes, with its 0.
    Text(u32),
    /// Bytes of any value, as `buf` makes them.
    Buffer,
    /// A pointer to guest memory, and its target's type.
    Pointer(CType),
    /// A structure or array in guest memory. Its value is its address.
    Object(CType),
    /// A copy of a structure or array. Its value is its bytes.
    Held(Arc<Shape>),
    /// A tuple, with the types of its parts.
    Tuple(Vec<Type>),
    /// A tuple with named fields, such as `args`.
    Record(Vec<(String, Type)>),
    /// A number of a C enum, which is printed by its name.
    Enum(Arc<Enumeration>),
    /// A stack, innermost frame first.
    Stack(StackForm),
    /// An address of kernel code, printed by name (`ksym`).
    Symbol,
    /// An address of user code (`usym`).
    UserSymbol,
    /// An IP address of 4 or 16 bytes.
    Inet,
    /// A MAC address.
    Mac,
    /// A time with its strftime format.
    Timestamp(Box<[u8]>),
    /// An aggregation, which only maps hold.
    Aggregate(Aggregate),
}

/// The form in which stacks are printed.
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
    /// The form with this name in scripts.
    pub fn named(name: &str) -> Option<StackForm> {
        match name {
            "bpftrace" => Some(StackForm::Bpftrace),
            "perf" => Some(StackForm::Perf),
            "raw" | "build_id" => Some(StackForm::Raw),
            _ => None,
        }
    }
}

/// The aggregations of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The number of values.
    Count,
    /// The sum. The flag says whether values are signed, here and below.
    Sum(bool),
    /// The smallest value.
    Min(bool),
    /// The largest value.
    Max(bool),
    /// The arithmetic mean.
    Average(bool),
    /// Count, average and total.
    Stats(bool),
    /// A logarithmic histogram. Each power of two has `1 << n` buckets.
    Histogram(u8),
    /// A linear histogram.
    Linear {
        /// The lower bound of the first bucket.
        min: u64,
        /// The upper bound of the last bucket.
        max: u64,
        /// The width of a bucket.
        step: u64,
    },
}

impl Type {
    /// An unsigned 64-bit number.
    pub const U64: Type = Type::Int(8, false);
    /// A signed 64-bit number.
    pub const I64: Type = Type::Int(8, true);
    /// A boolean, the result of a comparison, printed as true or false. Its size is 0, which sets it apart from other
    /// integers.
    pub const TRUTH: Type = Type::Int(0, false);

    /// Whether values of this type are numbers at run time. All others are bytes.
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

    /// The number of its parts with those of inner tuples. 0 for a type that is no tuple.
    pub(super) fn count_of_parts(&self) -> usize {
        match self {
            Type::Tuple(parts) => parts.iter().map(|part| 1 + part.count_of_parts()).sum(),
            Type::Record(parts) => parts.iter().map(|(_, part)| 1 + part.count_of_parts()).sum(),
            _ => 0,
        }
    }

    /// Whether it is an integer.
    pub fn is_integer(&self) -> bool {
        matches!(self, Type::Int(..) | Type::Enum(_))
    }

    /// Whether it is a signed integer.
    pub fn is_signed(&self) -> bool {
        match self {
            Type::Int(_, signed) => *signed,
            Type::Enum(of) => of.signed,
            _ => false,
        }
    }

    /// The size of an integer in bytes. `None` for other types.
    pub fn integer_size(&self) -> Option<u8> {
        match self {
            Type::Int(size, _) => Some(*size),
            Type::Enum(of) => Some(of.size),
            _ => None,
        }
    }

    /// The types of a tuple's parts. `None` for other types.
    pub fn parts(&self) -> Option<Vec<Type>> {
        match self {
            Type::Tuple(parts) => Some(parts.clone()),
            Type::Record(parts) => Some(parts.iter().map(|(_, kind)| kind.clone()).collect()),
            _ => None,
        }
    }

    /// Its name in messages.
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
            Type::Timestamp(_) => "timestamp".to_owned(),
            Type::Aggregate(aggregate) => aggregate.name().to_owned(),
        }
    }
}

impl Aggregate {
    /// Whether its value is signed.
    pub fn is_signed(&self) -> bool {
        use Aggregate::{Average, Max, Min, Stats, Sum};
        matches!(self, Sum(true) | Min(true) | Max(true) | Average(true) | Stats(true))
    }

    /// Lets a map with this aggregation take the values of another one of the same function. If one of them is signed, both
    /// are. Fails if their histograms have different buckets.
    pub fn join(&mut self, more: Aggregate) -> Result<(), &'static str> {
        use Aggregate::{Histogram, Linear};
        match (*self, more) {
            (Linear { .. }, Linear { .. }) if *self != more => {
                Err("Different lhist bounds in a single map unsupported: give each of them a map")
            }
            (Histogram(_), Histogram(_)) if *self != more => {
                Err("Different bits in a single hist unsupported: give each of them a map")
            }
            _ => {
                if more.is_signed() {
                    *self = more;
                }
                Ok(())
            }
        }
    }

    /// The function that makes it, such as `count`.
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

/// A C enum of the guest: its name and the names of its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumeration {
    /// Its name. Empty for an anonymous enum.
    pub name: String,
    /// Its size in bytes.
    pub size: u8,
    /// Whether it is signed.
    pub signed: bool,
    /// Its values and their names. Those in a script's types are sorted by value, and names of one value stay in the order of
    /// their definition. [`Types`] may return them in any order.
    pub names: Vec<(u64, String)>,
}

impl Enumeration {
    /// Sorts the names by value, for [`Enumeration::name_of`].
    pub(super) fn sorted(mut self) -> Enumeration {
        self.names.sort_by_key(|(value, _)| *value);
        self
    }

    /// The name of a value: of several, the one that is defined first. The names must be sorted.
    pub fn name_of(&self, value: u64) -> Option<&str> {
        let at = self.names.partition_point(|(is, _)| *is < value);
        self.names.get(at).filter(|(is, _)| *is == value).map(|(_, name)| name.as_str())
    }
}

/// A C type of the guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CType {
    /// `void`.
    Void,
    /// An integer: its size in bytes, and whether it is signed.
    Int(u8, bool),
    /// A character, signed or not. Arrays of characters are strings.
    Char(bool),
    /// An enum: its size in bytes, whether it is signed, and its number in [`Types`].
    Enum(u8, bool, u32),
    /// A pointer to values of this type.
    Pointer(Box<CType>),
    /// An array: the type of its elements, and their number.
    Array(Box<CType>, u64),
    /// A structure or union: its number in [`Types`] and its name.
    Struct(u32, String),
    /// A function, which only a pointer can refer to.
    Function,
}

impl CType {
    /// Its name as C writes it.
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
    /// The type of the member.
    pub kind: CType,
    /// Its offset in bits.
    pub bit: u64,
    /// The width of a bit field, in bits.
    pub width: Option<u8>,
}

/// The guest's type information.
pub trait Types {
    /// The type with this name. With a tag it is a structure, union or enum, otherwise a typedef or base type.
    fn named(&self, tag: Option<Tag>, name: &str) -> Option<CType>;
    /// A member of a structure or of its anonymous members.
    fn field(&self, structure: u32, name: &str) -> Option<Field>;
    /// All members of a structure in order. Anonymous members are replaced by their own members.
    fn fields(&self, structure: u32) -> Vec<(String, Field)> {
        let _ = structure;
        Vec::new()
    }
    /// The size of a structure, in bytes.
    fn size(&self, structure: u32) -> Option<u64>;
    /// The value of an enumerator.
    fn enumerator(&self, name: &str) -> Option<u64>;
    /// The number of the enum that an enumerator belongs to.
    fn enum_of(&self, name: &str) -> Option<u32> {
        let _ = name;
        None
    }
    /// The enum with this number.
    fn enumeration(&self, number: u32) -> Option<Enumeration> {
        let _ = number;
        None
    }
    /// The prototype of a function.
    fn function(&self, name: &str) -> Option<Prototype>;
    /// The work of all look-ups so far: members that were looked at, and bytes of names that were copied. The compiler
    /// charges it to its budget, because the types may be a stranger's.
    fn work(&self) -> u64 {
        0
    }
}

/// The parameters and the result type of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// The parameters, in order.
    pub parameters: Vec<(String, CType)>,
    /// The type of the result.
    pub result: CType,
}

/// Integer types whose size is the same in every guest: the language's own and some of C.
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

/// Integer types as wide as the guest's words.
pub(super) fn word_named(name: &str, word: u8) -> Option<(u8, bool)> {
    match name {
        "long" | "long int" | "ssize_t" | "intptr_t" | "ptrdiff_t" => Some((word, true)),
        "unsigned long" | "long unsigned" | "unsigned long int" | "size_t" | "uintptr_t" => Some((word, false)),
        _ => None,
    }
}
