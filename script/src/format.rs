//! printf formats: parsed once by the compiler, and written with their values at a hit.

use super::show::{Show, Value, buffer, put};
use super::types::Type;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A parsed format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The pieces, in order.
    pub pieces: Box<[Piece]>,
}

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Literal text.
    Text(Box<[u8]>),
    /// A conversion, which takes one value.
    Value(Conversion),
}

/// A conversion such as `%-8d`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversion {
    /// The flag `-`: pads on the right.
    left: bool,
    /// The flag `+`: writes the sign of numbers that are not negative.
    plus: bool,
    /// The flag ` `: writes a space in place of that sign.
    space: bool,
    /// The flag `#`: writes `0x` or `0` in front.
    alternate: bool,
    /// The flag `0`: pads numbers with zeros.
    zero: bool,
    /// The smallest number of columns.
    width: u16,
    precision: Option<u16>,
    /// The size to which a number is truncated, in bytes.
    bytes: u8,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Signed,
    Unsigned,
    Octal,
    Hex,
    UpperHex,
    Character,
    Pointer,
    Text,
    /// `%r`: a buffer with printable bytes as they are.
    Raw,
    /// `%rx`: a buffer with each byte as `\x41`.
    RawEscaped,
    /// `%rh`: a buffer with each byte as `41`, separated by spaces.
    RawHex,
}

impl Format {
    /// Parses a format. Fails with a sentence that says what is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Format, String> {
        let (mut pieces, mut plain) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            at += 1;
            if *byte != b'%' {
                plain.push(*byte);
                continue;
            }
            if text.get(at) == Some(&b'%') {
                plain.push(b'%');
                at += 1;
                continue;
            }
            let (conversion, length) = conversion(&text[at..]).ok_or_else(|| {
                let shown = String::from_utf8_lossy(&text[at - 1..(at + 4).min(text.len())]).into_owned();
                format!("'{shown}' begins no conversion: %d %i %u %x %X %o %c %p %s %r %rx %rh and %% are known, with flags, width and length in front")
            })?;
            at += length;
            if !plain.is_empty() {
                pieces.push(Piece::Text(core::mem::take(&mut plain).into()));
            }
            pieces.push(Piece::Value(conversion));
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain.into()));
        }
        Ok(Format { pieces: pieces.into() })
    }

    /// The conversions of a format, in order.
    pub fn conversions(&self) -> impl Iterator<Item = &Conversion> {
        self.pieces.iter().filter_map(|piece| if let Piece::Value(conversion) = piece { Some(conversion) } else { None })
    }
}

/// Parses a conversion behind its `%`. Returns it with its length in bytes. `None` if it is unknown.
fn conversion(text: &[u8]) -> Option<(Conversion, usize)> {
    let mut made = Conversion { bytes: 4, ..Conversion::default() };
    let mut at = 0;
    let number = |at: &mut usize| {
        let mut value = 0_u16;
        while let Some(digit) = text.get(*at).filter(|byte| byte.is_ascii_digit()) {
            value = value.saturating_mul(10).saturating_add(u16::from(digit - b'0')).min(4096);
            *at += 1;
        }
        value
    };
    loop {
        match text.get(at)? {
            b'-' => made.left = true,
            b'+' => made.plus = true,
            b' ' => made.space = true,
            b'#' => made.alternate = true,
            b'0' => made.zero = true,
            _ => break,
        }
        at += 1;
    }
    made.width = number(&mut at);
    if text.get(at) == Some(&b'.') {
        at += 1;
        made.precision = Some(number(&mut at));
    }
    let lengths: [(&[u8], u8); 7] = [(b"hh", 1), (b"h", 2), (b"ll", 8), (b"l", 8), (b"j", 8), (b"z", 8), (b"t", 8)];
    if let Some((length, bytes)) = lengths.iter().find(|(length, _)| text[at..].starts_with(length)) {
        at += length.len();
        made.bytes = *bytes;
    }
    let letter = *text.get(at)?;
    at += 1;
    made.kind = match letter {
        b'd' | b'i' => Kind::Signed,
        b'u' => Kind::Unsigned,
        b'o' => Kind::Octal,
        b'x' => Kind::Hex,
        b'X' => Kind::UpperHex,
        b'c' => Kind::Character,
        b'p' => Kind::Pointer,
        b's' => Kind::Text,
        b'r' => match text.get(at) {
            Some(b'x') => {
                at += 1;
                Kind::RawEscaped
            }
            Some(b'h') => {
                at += 1;
                Kind::RawHex
            }
            _ => Kind::Raw,
        },
        _ => return None,
    };
    Some((made, at))
}

impl Conversion {
    /// Whether it is `%s`, which takes values of all types.
    pub fn is_text(&self) -> bool {
        self.kind == Kind::Text
    }

    /// Checks that the conversion can write values of this type. Fails with what it takes instead.
    pub fn takes(&self, kind: &Type, old: bool) -> Result<(), String> {
        let (letter, wanted, fits) = match self.kind {
            Kind::Text => ("s", "string", !old || !matches!(kind, Type::Int(..) | Type::Enum(_) | Type::Pointer(_))),
            Kind::Raw | Kind::RawEscaped | Kind::RawHex => ("r", "buffer", matches!(kind, Type::Buffer)),
            Kind::Signed => ("d", "integer", is_numeric(kind)),
            Kind::Unsigned => ("u", "integer", is_numeric(kind)),
            Kind::Octal => ("o", "integer", is_numeric(kind)),
            Kind::Hex | Kind::UpperHex => ("x", "integer", is_numeric(kind)),
            Kind::Character => ("c", "integer", is_numeric(kind)),
            Kind::Pointer => ("p", "pointer", is_numeric(kind)),
        };
        let is = match kind {
            Type::Int(..) | Type::Enum(_) => "integer".to_owned(),
            Type::Text(_) => "string".to_owned(),
            other => other.name(),
        };
        if fits { Ok(()) } else { Err(format!("%{letter} specifier expects a value of type {wanted} ({is} supplied)")) }
    }

    /// Appends a value as text.
    pub fn write(&self, show: &Show<'_>, out: &mut Vec<u8>, kind: &Type, value: Value<'_>) {
        let start = out.len();
        let number = value.number();
        match self.kind {
            Kind::Text => {
                show.value(out, kind, value);
                if let Some(most) = self.precision {
                    out.truncate(out.len().min(start + usize::from(most)));
                }
            }
            Kind::Raw => buffer(out, value.bytes()),
            Kind::RawEscaped => value.bytes().iter().for_each(|byte| put(out, format_args!("\\x{byte:02x}"))),
            Kind::RawHex => {
                for (at, byte) in value.bytes().iter().enumerate() {
                    put(out, format_args!("{}{byte:02x}", if at == 0 { "" } else { " " }));
                }
            }
            Kind::Character => out.push(number as u8),
            _ => self.write_number(out, number),
        }
        self.pad(out, start);
    }

    fn write_number(&self, out: &mut Vec<u8>, number: u64) {
        let shift = 64 - 8 * u32::from(self.bytes);
        let unsigned = number << shift >> shift;
        let signed = (number << shift) as i64 >> shift;
        let least = usize::from(self.precision.unwrap_or(1));
        let digits_start = |out: &mut Vec<u8>, negative: bool| {
            if negative {
                out.push(b'-');
            } else if self.plus && self.kind == Kind::Signed {
                out.push(b'+');
            } else if self.space && self.kind == Kind::Signed {
                out.push(b' ');
            }
        };
        let sign_at = out.len();
        match self.kind {
            Kind::Signed => {
                digits_start(out, signed < 0);
                put(out, format_args!("{:0least$}", signed.unsigned_abs()));
            }
            Kind::Unsigned => put(out, format_args!("{unsigned:0least$}")),
            Kind::Octal => put(out, format_args!("{}{unsigned:0least$o}", if self.alternate { "0" } else { "" })),
            Kind::Hex => put(out, format_args!("{}{unsigned:0least$x}", if self.alternate && unsigned != 0 { "0x" } else { "" })),
            Kind::UpperHex => {
                put(out, format_args!("{}{unsigned:0least$X}", if self.alternate && unsigned != 0 { "0X" } else { "" }))
            }
            _ => put(out, format_args!("{number:#x}")),
        }
        // With the flag `0`, zeros go between the sign and the digits, unless there is a precision.
        let width = usize::from(self.width);
        if self.zero && !self.left && self.precision.is_none() && out.len() - sign_at < width {
            let zeros = width - (out.len() - sign_at);
            let sign = match out.get(sign_at) {
                Some(b'-' | b'+' | b' ') => 1,
                Some(b'0') if matches!(out.get(sign_at + 1), Some(b'x' | b'X')) => 2,
                _ => 0,
            };
            let at = sign_at + sign;
            out.splice(at..at, core::iter::repeat_n(b'0', zeros));
        }
    }

    /// Pads the text from `start` on with spaces to the conversion's width.
    fn pad(&self, out: &mut Vec<u8>, start: usize) {
        let missing = usize::from(self.width).saturating_sub(out.len() - start);
        if missing == 0 {
            return;
        }
        out.resize(out.len() + missing, b' ');
        if !self.left {
            out[start..].rotate_right(missing);
        }
    }
}

/// Whether `%d` takes values of this type: numbers, and aggregations that have one number.
fn is_numeric(kind: &Type) -> bool {
    kind.is_number() && !matches!(kind, Type::None)
        || matches!(kind, Type::Aggregate(aggregate) if !matches!(aggregate, super::types::Aggregate::Histogram(_) | super::types::Aggregate::Linear { .. } | super::types::Aggregate::Stats(_)))
}
