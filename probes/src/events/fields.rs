//! The fields of an event's records as filters, triggers and histograms name them: the event's own values, and the
//! fields that every record has, such as `common_pid` and `CPU`.

use super::format::{Format, Reader, Value};
use super::types::{Stored, Style};
use crate::context::Frame;
use crate::guest::Cpu;
use crate::records::Header;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;

/// The number of the first event in `common_type`. Numbers below belong to the kernel's own events.
pub const FIRST_TYPE: u32 = 100;

/// A field of one event's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRef {
    /// The name by which filters and keys call it.
    pub name: String,
    /// The place of its value.
    pub place: Place,
    /// The type of its value.
    pub kind: Kind,
}

/// The place of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The value of this number in the record.
    Value(usize),
    /// The number of the event.
    Type,
    /// The context flags.
    Flags,
    /// The depths of disabled preemption and migration.
    PreemptCount,
    /// The task's pid.
    Pid,
    /// The CPU's number.
    Cpu,
    /// The task's name.
    Comm,
    /// The probed address.
    Ip,
    /// The return address.
    ReturnIp,
}

/// The kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of this many bytes.
    Number {
        /// Its size in bytes.
        size: u8,
        /// Whether it has a sign.
        signed: bool,
    },
    /// A string.
    Text,
    /// An array that has no value as a whole.
    Array,
    /// A string that is made from an address when the record is printed, so that it does not exist at a hit.
    Late,
}

const COMMON: &[(&str, Place, u8, bool)] = &[
    ("CPU", Place::Cpu, 4, true),
    ("cpu", Place::Cpu, 4, true),
    ("common_cpu", Place::Cpu, 4, true),
    ("common_type", Place::Type, 2, false),
    ("common_flags", Place::Flags, 1, false),
    ("common_preempt_count", Place::PreemptCount, 1, false),
    ("common_pid", Place::Pid, 4, true),
];

/// Finds a field by its name, as Linux does: the event's own fields first.
pub fn find(name: &str, format: &Format, word: usize) -> Option<FieldRef> {
    let (place, kind) = own(name, format, word).or_else(|| common(name))?;
    Some(FieldRef { name: name.to_owned(), place, kind })
}

fn own(name: &str, format: &Format, word: usize) -> Option<(Place, Kind)> {
    let address = Kind::Number { size: word as u8, signed: false };
    match (name, format.returns) {
        ("__probe_ip", false) | ("__probe_func", true) => return Some((Place::Ip, address)),
        ("__probe_ret_ip", true) => return Some((Place::ReturnIp, address)),
        _ => {}
    }
    let number = format.fields.iter().position(|field| field.name == name)?;
    let field = format.fields.get(number)?;
    let kind = match (field.stored, field.count) {
        (_, Some(_)) => Kind::Array,
        (Stored::Integer(size, style), None) => Kind::Number { size, signed: style == Style::Signed },
        (Stored::Symbol(size), None) => Kind::Number { size, signed: false },
        (Stored::SymbolString(_), None) => Kind::Late,
        (Stored::String | Stored::UserString, None) => Kind::Text,
    };
    Some((Place::Value(number), kind))
}

fn common(name: &str) -> Option<(Place, Kind)> {
    if matches!(name, "COMM" | "comm") {
        return Some((Place::Comm, Kind::Text));
    }
    let (_, place, size, signed) = COMMON.iter().find(|(known, ..)| *known == name)?;
    Some((*place, Kind::Number { size: *size, signed: *signed }))
}

/// The encoding of each value of an event.
pub type Layout = Box<[(Stored, u8)]>;

/// The encoding of an event's values.
pub fn layout(format: &Format) -> Layout {
    format.fields.iter().map(|field| (field.stored, field.count.unwrap_or(1))).collect()
}

/// One record at a hit, before it is in the ring buffer.
pub struct Sample<'a> {
    /// The fields that every record has.
    pub header: &'a Header,
    /// The encoded values of the event's own fields.
    pub values: &'a [u8],
    /// The encoding of the values.
    pub layout: &'a [(Stored, u8)],
    /// The call chain, if a trigger or a key needs it.
    pub stack: &'a [Frame],
}

impl<'a> Sample<'a> {
    /// The value of a numeric field, extended to 64 bits by its sign.
    pub fn number(&self, field: &FieldRef) -> u64 {
        match field.place {
            Place::Value(number) => match self.value(number) {
                Value::Unsigned(value) | Value::Hex(value) | Value::Symbol(value) | Value::SymbolString(value) => value,
                Value::Signed(value) => value as u64,
                Value::String(_) => 0,
            },
            Place::Type => u64::from(self.header.event.0 + FIRST_TYPE),
            Place::Flags => u64::from(self.header.flags.of_linux()),
            Place::PreemptCount => u64::from(self.header.flags.depth_byte()),
            Place::Pid => i64::from(self.header.pid as i32) as u64,
            Place::Cpu => u64::from(self.header.cpu),
            Place::Ip => self.header.ip,
            Place::ReturnIp => self.header.return_ip,
            Place::Comm => 0,
        }
    }

    /// The value of a string field. An unreadable string is `(fault)`, as in Linux.
    pub fn text(&self, field: &FieldRef) -> &[u8] {
        match field.place {
            Place::Comm => self.header.comm.split(|byte| *byte == 0).next().unwrap_or_default(),
            Place::Value(number) => match self.value(number) {
                Value::String(Some(text)) => text,
                _ => b"(fault)",
            },
            _ => b"",
        }
    }

    fn value(&self, number: usize) -> Value<'a> {
        let mut reader = Reader::new(self.values);
        for (index, (stored, count)) in self.layout.iter().enumerate() {
            if index == number {
                return reader.next(*stored);
            }
            for _ in 0..*count {
                reader.next(*stored);
            }
        }
        Value::Unsigned(0)
    }
}

/// Reads a string of at most `into.len()` bytes in kernel or user memory. `None` if it cannot be read.
pub fn read_string<'a>(cpu: &mut dyn Cpu, user: bool, address: u64, into: &'a mut [u8]) -> Option<&'a [u8]> {
    let most = into.len();
    for at in 0..most {
        let byte = into.get_mut(at..=at)?;
        let from = address.wrapping_add(at as u64);
        let read = if user { cpu.read_user(from, byte) } else { cpu.read(from, byte) };
        read.ok()?;
        if byte == [0] {
            return into.get(..at);
        }
    }
    into.get(..most)
}
