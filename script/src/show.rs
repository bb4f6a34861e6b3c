//! Writes values as text, byte for byte as bpftrace does, and as bpftrace's JSON lines.

use super::times::format_time;
use super::types::{StackForm, Type};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::ops::Range;

/// The form of a script's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// JSON lines instead of text.
    pub json: bool,
    /// The form of bpftrace 0.17, where the present one differs.
    pub old: bool,
}

/// The kernel's symbols, for output.
pub trait Names {
    /// The symbol that contains an address, and the offset from its start.
    fn symbol(&self, address: u64) -> Option<(&str, u64)>;
    /// The function of a user program that contains an address in a mapping of that number, and the offset from its start.
    fn program_symbol(&self, mapping: u16, address: u64) -> Option<(String, u64)> {
        let _ = (mapping, address);
        None
    }
}

/// The number of bits of an address in a user program. A script keeps such an address with the number of its mapping, packed
/// into 64 bits: the tag in the upper 16 bits is that number plus the start of `TAGS`.
const ADDRESS_BITS: u32 = 48;
/// The tags. No ISA has addresses that begin so: programs end below 0x0100 (x86 with five levels of page tables), the kernel
/// of z/Architecture below 0x0020, and other kernels begin at 0x8000 (MIPS) or above.
const TAGS: Range<u64> = 0x1000..0x8000;

/// Packs an address of a program and the number of its mapping.
pub fn in_mapping(address: u64, mapping: Option<u16>) -> u64 {
    let tag = mapping.map(|number| TAGS.start + u64::from(number)).filter(|tag| TAGS.contains(tag));
    match tag {
        Some(tag) if address >> ADDRESS_BITS == 0 => tag << ADDRESS_BITS | address,
        _ => address,
    }
}

/// Unpacks the number of the mapping, if there is one, and the address. The inverse of [`in_mapping`].
pub(crate) fn apart(packed: u64) -> (Option<u16>, u64) {
    let above = packed >> ADDRESS_BITS;
    match TAGS.contains(&above) {
        true => (u16::try_from(above - TAGS.start).ok(), packed & !(u64::MAX << ADDRESS_BITS)),
        false => (None, packed),
    }
}

/// A value to be written.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// Bytes: the characters of a string, or the encoded parts of a tuple.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number. 0 if the value is bytes.
    pub fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            Value::Bytes(_) => 0,
        }
    }

    /// The bytes. Empty if the value is a number.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Value::Number(_) => &[],
            Value::Bytes(bytes) => bytes,
        }
    }
}

/// Splits an encoded tuple or key: its first part, of this type, and the rest.
pub fn part<'a>(kind: &Type, bytes: &'a [u8]) -> (Value<'a>, &'a [u8]) {
    let size = if kind.is_number() { 8 } else { 4 };
    let Some((head, rest)) = bytes.split_at_checked(size) else { return (Value::Number(0), &[]) };
    if kind.is_number() {
        return (Value::Number(head.try_into().map_or(0, u64::from_le_bytes)), rest);
    }
    let length = head.try_into().map_or(0, u32::from_le_bytes) as usize;
    let (inside, rest) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    (Value::Bytes(inside), rest)
}

/// Writes values to the output.
pub struct Show<'a> {
    /// The form of the output.
    pub style: Style,
    /// The kernel's symbols.
    pub names: &'a dyn Names,
    /// The wall-clock time at guest time 0, in nanoseconds since 1970.
    pub epoch: u64,
    /// Strings of this length were truncated.
    pub longest: u32,
    /// The text that is written after a truncated string.
    pub trailer: &'a [u8],
}

impl Show<'_> {
    /// Writes a value as `print` and `%s` do.
    pub fn value(&self, out: &mut Vec<u8>, kind: &Type, value: Value<'_>) {
        let number = value.number();
        match kind {
            Type::None => {}
            Type::Int(0, _) if !self.style.old => out.extend_from_slice(if number == 0 { b"false" } else { b"true" }),
            Type::Int(_, true) => put(out, format_args!("{}", number as i64)),
            Type::Int(_, false) => put(out, format_args!("{number}")),
            Type::Enum(of) => match of.name_of(number) {
                Some(name) if !self.style.old => out.extend_from_slice(name.as_bytes()),
                _ if of.signed => put(out, format_args!("{}", number as i64)),
                _ => put(out, format_args!("{number}")),
            },
            Type::Pointer(_) | Type::Object(_) if self.style.old => put(out, format_args!("{number}")),
            Type::Pointer(_) | Type::Object(_) => put(out, format_args!("{number:#x}")),
            Type::Text(capacity) => {
                out.extend_from_slice(value.bytes());
                if *capacity == self.longest && value.bytes().len() + 1 >= *capacity as usize {
                    out.extend_from_slice(self.trailer);
                }
            }
            Type::Held(shape) => shape.write(out, value.bytes(), false),
            Type::Buffer => buffer(out, value.bytes()),
            Type::Tuple(parts) => {
                out.push(b'(');
                self.parts(out, parts, value.bytes());
                out.push(b')');
            }
            Type::Record(members) if members.is_empty() => out.extend_from_slice(b"{}"),
            Type::Record(members) => {
                let mut bytes = value.bytes();
                for (at, (name, kind)) in members.iter().enumerate() {
                    let (value, rest) = part(kind, bytes);
                    bytes = rest;
                    put(out, format_args!("{} .{name} = ", if at == 0 { "{" } else { "," }));
                    self.value(out, kind, value);
                }
                out.extend_from_slice(b" }");
            }
            Type::Stack(form) => self.stack(out, *form, value.bytes(), 8),
            Type::Symbol => match self.names.symbol(number) {
                Some((name, _)) => out.extend_from_slice(name.as_bytes()),
                None => put(out, format_args!("{number:#x}")),
            },
            Type::UserSymbol => match self.in_program(number) {
                (_, Some((name, _))) => out.extend_from_slice(name.as_bytes()),
                (address, None) => put(out, format_args!("{address:#x}")),
            },
            Type::Inet => inet(out, value.bytes()),
            Type::Mac => {
                for (at, byte) in value.bytes().iter().enumerate() {
                    put(out, format_args!("{}{byte:02X}", if at == 0 { "" } else { ":" }));
                }
            }
            Type::Timestamp(format) => format_time(out, format, number.wrapping_add(self.epoch)),
            Type::Aggregate(_) => put(out, format_args!("{number}")),
        }
    }

    /// Writes the parts of an encoded tuple or key, separated by commas.
    pub(super) fn parts(&self, out: &mut Vec<u8>, parts: &[Type], mut bytes: &[u8]) {
        for (at, kind) in parts.iter().enumerate() {
            let (value, rest) = part(kind, bytes);
            bytes = rest;
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            self.value(out, kind, value);
        }
    }

    /// The address without the number of its mapping, and its function.
    fn in_program(&self, packed: u64) -> (u64, Option<(String, u64)>) {
        let (mapping, address) = apart(packed);
        (address, mapping.and_then(|mapping| self.names.program_symbol(mapping, address)))
    }

    /// Writes a stack, one line for each frame: eight bytes with the address, in a program with its mapping.
    fn stack(&self, out: &mut Vec<u8>, form: StackForm, bytes: &[u8], indent: usize) {
        out.push(b'\n');
        for frame in bytes.chunks_exact(8) {
            let (address, in_program) = match form {
                StackForm::Raw => (apart(frame.try_into().map_or(0, u64::from_le_bytes)).1, None),
                _ => self.in_program(frame.try_into().map_or(0, u64::from_le_bytes)),
            };
            match form {
                StackForm::Perf => put(out, format_args!("\t{address:x} ")),
                _ => put(out, format_args!("{:indent$}", "")),
            }
            match (&in_program, self.names.symbol(address)) {
                (Some((name, offset)), _) => put(out, format_args!("{name}+{offset}")),
                (None, Some((name, offset))) if form != StackForm::Raw => put(out, format_args!("{name}+{offset}")),
                _ => put(out, format_args!("{address:#x}")),
            }
            out.push(b'\n');
        }
    }

    /// Writes a value as JSON.
    pub(super) fn json_value(&self, out: &mut Vec<u8>, kind: &Type, value: Value<'_>) {
        match kind {
            Type::Int(0, _) => self.value(out, kind, value),
            Type::Int(_, signed) => self.json_number(out, value.number(), *signed),
            Type::Enum(of) => self.json_number(out, value.number(), of.signed),
            Type::Pointer(_) | Type::Object(_) => put(out, format_args!("{}", value.number())),
            Type::Held(shape) => shape.write(out, value.bytes(), true),
            Type::Record(members) => {
                out.push(b'{');
                let mut bytes = value.bytes();
                for (at, (name, kind)) in members.iter().enumerate() {
                    let (value, rest) = part(kind, bytes);
                    bytes = rest;
                    out.extend_from_slice(if at == 0 { b"" } else { b", " });
                    json_text(out, name.as_bytes());
                    out.extend_from_slice(b": ");
                    self.json_value(out, kind, value);
                }
                out.push(b'}');
            }
            Type::Tuple(parts) => {
                out.push(b'[');
                let mut bytes = value.bytes();
                for (at, kind) in parts.iter().enumerate() {
                    let (value, rest) = part(kind, bytes);
                    bytes = rest;
                    if at > 0 {
                        out.push(b',');
                    }
                    self.json_value(out, kind, value);
                }
                out.push(b']');
            }
            _ => {
                let mut text = Vec::new();
                self.value(&mut text, kind, value);
                json_text(out, &text);
            }
        }
    }

    /// Writes a number as JSON. A number that a 64-bit float cannot hold becomes a string, because many JSON readers
    /// would round it.
    pub(super) fn json_number(&self, out: &mut Vec<u8>, number: u64, signed: bool) {
        let exact = match signed {
            true => i128::from(number as i64) == (number as i64) as f64 as i128,
            false => u128::from(number) == number as f64 as u128,
        };
        let quote = if exact || self.style.old { "" } else { "\"" };
        match signed {
            true => put(out, format_args!("{quote}{}{quote}", number as i64)),
            false => put(out, format_args!("{quote}{number}{quote}")),
        }
    }

    /// Writes the output of `print(value)`.
    pub fn printed_value(&self, out: &mut Vec<u8>, kind: &Type, value: Value<'_>) {
        if self.style.json {
            out.extend_from_slice(br#"{"type": "value", "data": "#);
            self.json_value(out, kind, value);
            out.extend_from_slice(b"}\n");
        } else {
            self.value(out, kind, value);
            out.push(b'\n');
        }
    }

    /// Writes text that the script has built, such as the output of printf.
    pub fn text(&self, out: &mut Vec<u8>, what: &str, text: &[u8]) {
        if self.style.json {
            put(out, format_args!("{{\"type\": \"{what}\", \"data\": "));
            json_text(out, text);
            out.extend_from_slice(b"}\n");
        } else {
            out.extend_from_slice(text);
        }
    }

    /// Writes the first line: the number of attached probes.
    pub fn attached(&self, out: &mut Vec<u8>, probes: usize) {
        match (self.style.json, self.style.old) {
            (true, true) => put(out, format_args!("{{\"type\": \"attached_probes\", \"data\": {{\"probes\": {probes}}}}}\n")),
            (true, false) => {
                put(out, format_args!("{{\"type\": \"attached_probes\", \"count\": 1, \"data\": {{\"probes\": {probes}}}}}\n"))
            }
            (false, true) => put(out, format_args!("Attaching {probes} probe{}...\n", if probes == 1 { "" } else { "s" })),
            (false, false) => {}
        }
    }
}

/// Writes bytes as `%r` does.
pub fn buffer(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            32..=126 => out.push(*byte),
            _ => put(out, format_args!("\\x{byte:02x}")),
        }
    }
}

fn inet(out: &mut Vec<u8>, bytes: &[u8]) {
    match *bytes {
        [a, b, c, d] => put(out, format_args!("{}", core::net::Ipv4Addr::new(a, b, c, d))),
        _ => match <[u8; 16]>::try_from(bytes) {
            Ok(address) => put(out, format_args!("{}", core::net::Ipv6Addr::from(address))),
            Err(_) => buffer(out, bytes),
        },
    }
}

/// Writes a JSON string.
pub fn json_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=31 => put(out, format_args!("\\u{byte:04x}")),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// Appends formatted text. This cannot fail.
pub fn put(out: &mut Vec<u8>, text: core::fmt::Arguments<'_>) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl core::fmt::Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    let _ = Bytes(out).write_fmt(text);
}
