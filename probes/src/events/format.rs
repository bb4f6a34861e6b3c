//! What the values in an event's records are called and how they are read out again.

use super::fetch::UNREADABLE;
use super::types::{Stored, Style};
use crate::context::Frame;
use crate::records::Payload;
use alloc::string::String;
use alloc::vec::Vec;

/// How the records of one event are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The event's group.
    pub group: String,
    /// Its name.
    pub event: String,
    /// Its records are of returns.
    pub returns: bool,
    /// They are of jprobes.
    pub mirrors: bool,
    /// Its values, in order.
    pub fields: Vec<Field>,
    /// The calls that led to a hit stand behind them.
    pub stack: Option<Stack>,
}

/// What is known of the stacks in an event's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// All but the first are addresses of code that lay on the stack, some of which earlier calls may have left.
    pub is_guessed: bool,
}

/// As many calls as a record has.
pub const DEEPEST: usize = 64;

/// Puts a stack behind an event's values: as much of it as there is room for.
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

/// One argument's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The argument's name.
    pub name: String,
    /// How each is stored.
    pub stored: Stored,
    /// How many there are, if it is an array.
    pub count: Option<u8>,
}

/// A value out of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number that is not negative, in decimal.
    Unsigned(u64),
    /// A number in decimal.
    Signed(i64),
    /// A number in hexadecimal.
    Hex(u64),
    /// An address to be shown as symbol and offset.
    Symbol(u64),
    /// The same, in quotes.
    SymbolString(u64),
    /// Characters; `None`: they could not be read.
    String(Option<&'a [u8]>),
}

/// Reads values out of a payload, in the order of the fields. What a payload is too short for is 0 or unreadable.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// At the payload's begin.
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

    /// The calls behind the last value, innermost first.
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
