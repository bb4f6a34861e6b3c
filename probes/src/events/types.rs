//! What an argument is fetched and shown as: `u8` .. `x64`, `string`, `ustring`, `symbol`, `symstr`, bit fields, arrays
//! of these.

use super::error::{Code, EventError};
use super::text::{Piece, number};
use alloc::format;

/// How an integer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `u8`: decimal.
    Unsigned,
    /// `s8`: decimal with a sign.
    Signed,
    /// `x8`: hexadecimal.
    Hex,
}

/// A type as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A machine word in hexadecimal: what an argument without a type is.
    Word,
    /// So many bytes.
    Integer(u8, Style),
    /// Some bits of an integer.
    Bits(Bits),
    /// The address of a name in the kernel, shown as symbol and offset.
    Symbol,
    /// The same, shown as a string.
    SymbolString,
    /// Characters up to a 0, in kernel memory.
    String,
    /// Characters up to a 0, in the memory of the running process.
    UserString,
}

/// `b<width>@<offset>/<container>`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// How many bits there are.
    pub width: u8,
    /// How many less significant ones are skipped.
    pub offset: u8,
    /// Bytes of the integer that holds them.
    pub container: u8,
}

#[rustfmt::skip]
const NAMES: &[(&str, Type)] = &[
    ("u8", Type::Integer(1, Style::Unsigned)), ("u16", Type::Integer(2, Style::Unsigned)),
    ("u32", Type::Integer(4, Style::Unsigned)), ("u64", Type::Integer(8, Style::Unsigned)),
    ("s8", Type::Integer(1, Style::Signed)), ("s16", Type::Integer(2, Style::Signed)),
    ("s32", Type::Integer(4, Style::Signed)), ("s64", Type::Integer(8, Style::Signed)),
    ("x8", Type::Integer(1, Style::Hex)), ("x16", Type::Integer(2, Style::Hex)),
    ("x32", Type::Integer(4, Style::Hex)), ("x64", Type::Integer(8, Style::Hex)),
    ("string", Type::String), ("ustring", Type::UserString), ("symbol", Type::Symbol), ("symstr", Type::SymbolString),
];

/// The longest array.
pub const MAX_ARRAY: u64 = 64;

/// Reads what stands behind the colon: a type, and how many of it if it is an array.
pub(super) fn parse(text: Piece<'_>) -> Result<(Type, Option<u8>), EventError> {
    match text.split_at_first('[') {
        None => Ok((parse_one(text)?, None)),
        Some((name, count)) => {
            let count = parse_count(count)?;
            Ok((parse_one(name)?, Some(count)))
        }
    }
}

fn parse_count(text: Piece<'_>) -> Result<u8, EventError> {
    let Some((count, suffix)) = text.split_at_first(']') else {
        return Err(EventError::new(text.end(), Code::ARRAY_NO_CLOSE, "the array's length ends with ']': write it here"));
    };
    if !suffix.text.is_empty() {
        return Err(EventError::new(suffix, Code::BAD_ARRAY_SUFFIX, "nothing may follow the ']' of an array: take this away"));
    }
    match number(count.text) {
        Some(length @ 1..=MAX_ARRAY) => Ok(length as u8),
        Some(1..) => Err(EventError::new(
            count,
            Code::ARRAY_TOO_BIG,
            "an array has at most 64 elements: ask for fewer, or for several arrays",
        )),
        _ => Err(EventError::new(count, Code::BAD_ARRAY_NUM, "an array's length is a number from 1 to 64")),
    }
}

fn parse_one(text: Piece<'_>) -> Result<Type, EventError> {
    if let Some((_, known)) = NAMES.iter().find(|(name, _)| *name == text.text) {
        return Ok(*known);
    }
    if let Some(bits) = text.strip_prefix("b") {
        return parse_bits(text, bits);
    }
    let why = format!(
        "there is no type '{}': use u8..u64, s8..s64, x8..x64, string, ustring, symbol, symstr, or bits such as b4@0/8",
        text.text
    );
    Err(EventError::new(text, Code::BAD_TYPE, why))
}

fn parse_bits(whole: Piece<'_>, text: Piece<'_>) -> Result<Type, EventError> {
    let container = match text.split_at_first('/').and_then(|(_, container)| number(container.text)) {
        Some(bits @ (8 | 16 | 32 | 64)) => bits,
        _ => {
            let why = "a bit field is b<width>@<offset>/<container>, the container being 8, 16, 32 or 64";
            return Err(EventError::new(whole, Code::BAD_TYPE, why));
        }
    };
    let fits = |width: u64, offset: u64| width >= 1 && width.checked_add(offset).is_some_and(|end| end <= container);
    let parts = text.split_at_first('/').and_then(|(field, _)| field.split_at_first('@'));
    match parts.and_then(|(width, offset)| Some((number(width.text)?, number(offset.text)?))) {
        Some((width, offset)) if fits(width, offset) => {
            Ok(Type::Bits(Bits { width: width as u8, offset: offset as u8, container: (container / 8) as u8 }))
        }
        _ => {
            let why = format!("width and offset are numbers, the width at least 1, and both together at most {container}");
            Err(EventError::new(whole, Code::BAD_BITFIELD, why))
        }
    }
}

/// What an argument is in a record: its type on a kernel of a known word size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// So many bytes.
    Integer(u8, Style),
    /// A machine word of so many bytes.
    Symbol(u8),
    /// The same, shown in quotes.
    SymbolString(u8),
    /// Two bytes of length and the bytes.
    String,
    /// Likewise; only the type's name differs.
    UserString,
}

impl Type {
    /// What it is on a kernel whose words have so many bytes.
    pub fn stored(self, word: usize) -> Stored {
        match self {
            Type::Word => Stored::Integer(word as u8, Style::Hex),
            Type::Integer(size, style) => Stored::Integer(size, style),
            Type::Bits(bits) => Stored::Integer(bits.container, Style::Unsigned),
            Type::Symbol => Stored::Symbol(word as u8),
            Type::SymbolString => Stored::SymbolString(word as u8),
            Type::String => Stored::String,
            Type::UserString => Stored::UserString,
        }
    }
}

impl Stored {
    /// How many bytes of a record it takes at least.
    pub fn least(self) -> usize {
        match self {
            Stored::Integer(size, _) | Stored::Symbol(size) | Stored::SymbolString(size) => usize::from(size),
            Stored::String | Stored::UserString => 2,
        }
    }
}
