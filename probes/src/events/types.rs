//! The types of event arguments: `u8` to `x64`, `string`, `ustring`, `symbol`, `symstr`, bit fields, and arrays of
//! these. [`Type`] is a type as written; [`Stored`] is its encoding in a record.

use super::error::{Code, EventError};
use super::text::{Piece, number};
use alloc::format;

/// The way an integer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `u8`: decimal.
    Unsigned,
    /// `s8`: decimal with a sign.
    Signed,
    /// `x8`: hexadecimal.
    Hex,
}

/// A type as written in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A machine word in hexadecimal, the type of arguments without one.
    Word,
    /// An integer of this many bytes.
    Integer(u8, Style),
    /// A bit field of an integer.
    Bits(Bits),
    /// An address, shown as symbol and offset.
    Symbol,
    /// An address, recorded as the string of symbol and offset.
    SymbolString,
    /// A 0-terminated string in kernel memory.
    String,
    /// A 0-terminated string in the memory of the running process.
    UserString,
}

/// `b<width>@<offset>/<container>`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Number of bits.
    pub width: u8,
    /// Position of the lowest bit.
    pub offset: u8,
    /// Size of the containing integer, in bytes.
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

/// The largest number of elements of an array.
pub const MAX_ARRAY: u64 = 64;

/// Parses the text after the colon: a type and, for an array, the number of elements.
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
        return Err(EventError::new(suffix, Code::BAD_ARRAY_SUFFIX, "nothing may follow the ']' of an array: remove this"));
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
            let why = format!("width and offset must be numbers, the width at least 1, and their sum at most {container}");
            Err(EventError::new(whole, Code::BAD_BITFIELD, why))
        }
    }
}

/// The encoding of a value in a record: its type on a kernel of known word size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// An integer of this many bytes, little-endian.
    Integer(u8, Style),
    /// A machine word of this many bytes.
    Symbol(u8),
    /// A machine word of this many bytes, shown in quotes.
    SymbolString(u8),
    /// Two bytes of length, then the characters.
    String,
    /// Like `String`; only the type's name differs.
    UserString,
}

impl Type {
    /// The encoding on a kernel with words of this many bytes.
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
    /// Least number of bytes that a value takes in a record.
    pub fn least(self) -> usize {
        match self {
            Stored::Integer(size, _) | Stored::Symbol(size) | Stored::SymbolString(size) => usize::from(size),
            Stored::String | Stored::UserString => 2,
        }
    }
}
