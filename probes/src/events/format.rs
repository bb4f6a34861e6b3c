//! The layout of an event's records: names and types of the values, and the reader that decodes them.

use super::fetch::UNREADABLE;
use super::types::{Stored, Style};
use crate::context::Frame;
use crate::records::Payload;
use alloc::string::String;
use alloc::vec::Vec;

/// The layout of one event's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The event's group.
    pub group: String,
    /// The event's name in its group.
    pub event: String,
    /// Whether its records are of function returns.
    pub returns: bool,
    /// Whether its records are of jprobes.
    pub mirrors: bool,
    /// Whether its addresses are those of user programs.
    pub in_program: bool,
    /// Its values, in order.
    pub fields: Vec<Field>,
    /// `Some` if a call chain follows the values.
    pub stack: Option<Stack>,
}

/// Facts about the call chains in an event's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// All frames but the first come from scanning the stack, so some may be stale.
    pub is_guessed: bool,
}

/// The largest number of frames of a call chain in a record.
pub const DEEPEST: usize = 64;

/// Appends a call chain to the values. Frames that do not fit are dropped and the record is marked.
pub fn put_stack(payload: &mut Payload<'_>, frames: &[Frame]) {
    let fits = frames.len().min(DEEPEST).min(payload.room().saturating_sub(1) / 8);
    payload.put(&[fits as u8]);
    for frame in &frames[..fits] {
        payload.put(&frame.address.to_le_bytes());
    }
    if fits < frames.len() {
        payload.mark_truncated();
    }
}

/// The values of one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The argument's name.
    pub name: String,
    /// The encoding of each value.
    pub stored: Stored,
    /// The number of values, if it is an array.
    pub count: Option<u8>,
}

/// A decoded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An unsigned number, shown in decimal.
    Unsigned(u64),
    /// A signed number, shown in decimal.
    Signed(i64),
    /// A number shown in hexadecimal.
    Hex(u64),
    /// An address, shown as symbol and offset.
    Symbol(u64),
    /// An address, shown as symbol and offset in quotes.
    SymbolString(u64),
    /// A string. `None` if it could not be read.
    String(Option<&'a [u8]>),
}

/// Decodes values from a payload, in the order of the fields. Past the payload's end numbers are 0 and strings
/// unreadable.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of the payload.
    pub fn new(payload: &'a [u8]) -> Self {
        Reader { rest: payload }
    }

    /// The next value.
    pub fn next(&mut self, stored: Stored) -> Value<'a> {
        match stored {
            Stored::Integer(size, Style::Unsigned) => Value::Unsigned(self.number(size)),
            Stored::Integer(size, Style::Hex) => Value::Hex(self.number(size)),
            Stored::Integer(size, Style::Signed) => Value::Signed(sign_extended(self.number(size), size)),
            Stored::Symbol(size) => Value::Symbol(self.number(size)),
            Stored::SymbolString(size) => Value::SymbolString(self.number(size)),
            Stored::String | Stored::UserString => Value::String(self.string()),
        }
    }

    /// The call chain after the last value, innermost first.
    pub fn stack(mut self) -> impl Iterator<Item = u64> + 'a {
        let count = self.number(1);
        let rest = self.rest;
        rest.chunks_exact(8).take(count as usize).map(|frame| frame.try_into().map_or(0, u64::from_le_bytes))
    }

    fn number(&mut self, size: u8) -> u64 {
        let mut bytes = [0; 8];
        let taken = self.take(usize::from(size).min(8));
        bytes[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bytes)
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        match *self.take(2) {
            [low, high] if u16::from_le_bytes([low, high]) != UNREADABLE => {
                Some(self.take(usize::from(u16::from_le_bytes([low, high]))))
            }
            _ => None,
        }
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }
}

fn sign_extended(value: u64, size: u8) -> i64 {
    let unused = 64 - 8 * u32::from(size.clamp(1, 8));
    (value << unused) as i64 >> unused
}
