//! Parser of event arguments such as `name=+8($arg1):string`. It works without a kernel: names of registers and symbols
//! are resolved later, in `fetch.rs`. `parse` returns one [`Argument`] per word, each with a [`Fetch`] that says
//! where its value comes from.

use super::error::{Code, EventError, Span};
use super::text::{Piece, is_identifier, number, signed_number};
use super::types::{self, Type};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// One argument of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The name as given, or `arg1`, `arg2`...
    pub name: String,
    /// The text after the `=`, type included. `kprobe_events` shows it again.
    pub body: String,
    /// The source of the value.
    pub fetch: Fetch,
    /// The type of the value.
    pub kind: Type,
    /// The number of elements, if it is an array.
    pub count: Option<u8>,
    /// The argument's position in the line.
    pub at: Span,
}

/// The source of a value: a base value and a chain of dereferences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The base value.
    pub base: Base,
    /// The position of the base in the line.
    pub base_at: Span,
    /// The dereferences, in the order in which they are done. Each uses the previous value as an address.
    pub hops: Vec<Hop>,
}

/// The base value of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// `%di`
    Register(String),
    /// `$arg1`, counted from 1.
    Argument(u64),
    /// `$retval`
    Result,
    /// `$stack`
    StackPointer,
    /// `$stack3`
    StackWord(u64),
    /// `$comm`
    Comm,
    /// `@0x1234`. The dereference is a hop of its own.
    Address(u64),
    /// `@+0x1234`: an offset in the program's file. The dereference is a hop of its own.
    FileOffset(u64),
    /// `@jiffies+4`. The dereference is a hop of its own.
    Symbol(String, i64),
    /// `$addr`, `$value`, `$old`, `$size`: of the access, in a watch event.
    Access(Part),
    /// `$who`, `$rw`: text about the access.
    AccessText(Part),
    /// `\-1`
    Immediate(i128),
    /// `\"text"`
    Text(String),
}

/// A part of an access to watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The accessed address.
    Address,
    /// The number that was loaded or stored.
    Value,
    /// The number that was there before.
    Old,
    /// The number of bytes.
    Size,
    /// The party that made the access.
    Who,
    /// `r` or `w`.
    Kind,
}

/// One dereference: reads memory at the previous value plus an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Whether the address is in user space.
    pub user: bool,
    /// Added to the previous value, in bytes.
    pub offset: i64,
}

/// The largest number of arguments of an event.
pub const MAX_ARGUMENTS: usize = 128;
/// Longest body of an argument, in bytes.
pub const MAX_BODY: usize = 63;
/// Longest name of an argument, in bytes.
pub const MAX_NAME: usize = 32;
/// The largest number of Linux's fetch operations that an argument may need, not counting the end marker.
const MAX_OPERATIONS: usize = 15;

#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid",
    "__probe_ip", "__probe_ret_ip", "__probe_func",
];

/// Parses all arguments of an event. `returns`: the event is at a function's return. `renames`: a name that is taken
/// gets a number, otherwise it is an error.
pub(super) fn parse<'a>(
    words: impl Iterator<Item = Piece<'a>>,
    returns: bool,
    renames: bool,
) -> Result<Vec<Argument>, EventError> {
    let mut arguments: Vec<Argument> = Vec::new();
    for word in words {
        if arguments.len() == MAX_ARGUMENTS {
            let why = "an event has at most 128 arguments: put the others in a second event at the same place";
            return Err(EventError::new(word, Code::TOO_MANY_ARGS, why).with_errno(trapline_isa::plan::Errno::E2BIG));
        }
        let (name, body) = named(word, &arguments, renames)?;
        let (fetch, kind, count) = parse_body(body, returns)?;
        arguments.push(Argument { name, body: body.text.to_owned(), fetch, kind, count, at: Span::of(word) });
    }
    Ok(arguments)
}

fn named<'a>(word: Piece<'a>, others: &[Argument], renames: bool) -> Result<(String, Piece<'a>), EventError> {
    let (name, body) = match word.split_at_first('=') {
        None => (format!("arg{}", others.len() + 1), word),
        Some((name, body)) => {
            let wrong = |code, why| Err(EventError::new(name, code, why));
            match name.text {
                "" => return wrong(Code::NO_ARG_NAME, "write a name in front of the '=', or leave the '=' out"),
                text if text.len() > MAX_NAME => {
                    return wrong(Code::ARG_NAME_TOO_LONG, "an argument's name has at most 32 characters");
                }
                text if !is_identifier(text) => {
                    return wrong(
                        Code::BAD_ARG_NAME,
                        "an argument's name consists of letters, digits and '_', and does not begin with a digit",
                    );
                }
                text => (text.to_owned(), body),
            }
        }
    };
    let is_taken = |name: &str| others.iter().any(|other| other.name == name);
    if renames && is_taken(&name) {
        let numbered = (2_usize..).map(|number| numbered(&name, number));
        if let Some(free) = numbered.take(MAX_ARGUMENTS + 1).find(|name| !is_taken(name)) {
            return Ok((free, body));
        }
    }
    if RESERVED.contains(&name.as_str()) || is_taken(&name) {
        let why = format!("the name '{name}' is taken, by another argument or by a field that every event has: choose another");
        let about = if body.column == word.column { word } else { word.take(name.len()) };
        return Err(EventError::new(about, Code::USED_ARG_NAME, why));
    }
    Ok((name, body))
}

/// `buf_2`: the name with a number behind it, cut to the longest name.
fn numbered(name: &str, number: usize) -> String {
    let suffix = format!("_{number}");
    // Names are ASCII.
    format!("{}{suffix}", &name[..name.len().min(MAX_NAME - suffix.len())])
}

fn parse_body(body: Piece<'_>, returns: bool) -> Result<(Fetch, Type, Option<u8>), EventError> {
    if body.text.is_empty() {
        return Err(EventError::new(body, Code::NO_ARG_BODY, "say what to fetch: $arg1, %di, +8($arg1)..."));
    }
    if body.text.len() > MAX_BODY {
        let why = "an argument has at most 63 characters after its '=': use fewer dereferences or shorter numbers";
        return Err(EventError::new(body, Code::ARG_TOO_LONG, why));
    }
    let (what, type_text) = match body.split_at_first(':') {
        Some((what, type_text)) => (what, Some(type_text)),
        None => (body, None),
    };
    let (kind, count) = type_text.map_or(Ok((Type::Word, None)), types::parse)?;
    let about_type = type_text.unwrap_or(what);
    let is_text = matches!(what.text, "$comm" | "$COMM" | "$who" | "$rw") || what.text.starts_with("\\\"");
    if is_text && (count.is_some() || type_text.is_some_and(|text| text.text != "string")) {
        return Err(EventError::new(about_type, Code::NEED_STRING_TYPE, "$comm and text are strings: leave the type out"));
    }
    let kind = if is_text { Type::String } else { kind };
    let fetch = parse_fetch(what, returns)?;
    fits_type(&fetch, kind, count, about_type)?;
    if fetch.operations() + operations_of_type(&fetch, kind, count) > MAX_OPERATIONS {
        return Err(too_many_operations(body));
    }
    Ok((fetch, kind, count))
}

fn fits_type(fetch: &Fetch, kind: Type, count: Option<u8>, about: Piece<'_>) -> Result<(), EventError> {
    let from_memory = !fetch.hops.is_empty();
    if count.is_some() && !from_memory {
        return Err(EventError::new(about, Code::BAD_STRING, "an array must be in memory: write +0(...) around its address"));
    }
    let is_address = matches!(fetch.base, Base::Immediate(_) | Base::Comm | Base::AccessText(_) | Base::Text(_));
    if matches!(kind, Type::String | Type::UserString) && !from_memory && !is_address {
        return Err(EventError::new(about, Code::BAD_STRING, "a string must be in memory: write +0(...) around its address"));
    }
    Ok(())
}

/// The operations that the type adds: storing the value, extracting bits, and the loop over an array.
fn operations_of_type(fetch: &Fetch, kind: Type, count: Option<u8>) -> usize {
    let is_string = matches!(kind, Type::String | Type::UserString);
    let own_store = fetch.hops.is_empty() || kind == Type::SymbolString || (is_string && count.is_some());
    usize::from(own_store) + usize::from(matches!(kind, Type::Bits(_))) + usize::from(count.is_some())
}

impl Fetch {
    fn operations(&self) -> usize {
        let base = if matches!(self.base, Base::Symbol(..)) { 2 } else { 1 };
        base + self.hops.len()
    }
}

fn too_many_operations(about: Piece<'_>) -> EventError {
    EventError::new(about, Code::TOO_MANY_OPS, "an argument may need at most 16 fetch operations: dereference fewer times")
}

fn parse_fetch(text: Piece<'_>, returns: bool) -> Result<Fetch, EventError> {
    let fetch = |base| Fetch { base, base_at: Span::of(text), hops: Vec::new() };
    match text.text.chars().next() {
        Some('$') => parse_variable(text, returns).map(fetch),
        Some('%') => Ok(fetch(Base::Register(text.skip(1).text.to_owned()))),
        Some('@') => Ok(Fetch { hops: Vec::from([Hop { user: false, offset: 0 }]), ..fetch(parse_memory(text)?) }),
        Some('+' | '-') => parse_dereference(text, returns),
        Some('\\') => parse_immediate(text).map(fetch),
        _ => {
            let why = "a fetch begins with $ (variable), % (register), @ (memory), + or - (dereference) or \\ (constant)";
            Err(EventError::new(text, Code::BAD_FETCH_ARG, why))
        }
    }
}

fn parse_variable(text: Piece<'_>, returns: bool) -> Result<Base, EventError> {
    let numbered = |prefix| text.strip_prefix(prefix).filter(|digits| digits.text.bytes().all(|digit| digit.is_ascii_digit()));
    match text.text {
        "$retval" if returns => return Ok(Base::Result),
        "$retval" => {
            let why = "$retval exists only at a function's return: use an 'r' event, or write %return after the symbol";
            return Err(EventError::new(text, Code::RETVAL_ON_PROBE, why));
        }
        "$comm" | "$COMM" => return Ok(Base::Comm),
        "$stack" => return Ok(Base::StackPointer),
        "$addr" => return Ok(Base::Access(Part::Address)),
        "$value" => return Ok(Base::Access(Part::Value)),
        "$old" => return Ok(Base::Access(Part::Old)),
        "$size" => return Ok(Base::Access(Part::Size)),
        "$who" => return Ok(Base::AccessText(Part::Who)),
        "$rw" => return Ok(Base::AccessText(Part::Kind)),
        _ => {}
    }
    if let Some(index) = numbered("$stack").and_then(|digits| digits.text.parse().ok()) {
        return Ok(Base::StackWord(index));
    }
    if let Some(index) = numbered("$arg").and_then(|digits| digits.text.parse().ok()) {
        return Ok(Base::Argument(index));
    }
    let why = format!("there is no variable '{}': use $arg1..., $retval, $stack, $stack0... or $comm", text.text);
    Err(EventError::new(text, Code::BAD_VAR, why))
}

fn parse_memory(text: Piece<'_>) -> Result<Base, EventError> {
    let place = text.skip(1);
    let bad = |why: &'static str| Err(EventError::new(text, Code::BAD_MEM_ADDR, why));
    if place.starts_with_digit() {
        return number(place.text)
            .map_or_else(|| bad("after '@' write an address such as 0xc0100000, or a symbol"), |a| Ok(Base::Address(a)));
    }
    if let Some(offset) = place.strip_prefix("+") {
        return number(offset.text).map_or_else(
            || bad("after '@+' write an offset in the program's file, such as 0x1234"),
            |at| Ok(Base::FileOffset(at)),
        );
    }
    let (name, offset) = split_offset(place.text);
    match signed_number(offset) {
        _ if name.is_empty() => bad("write an address or a symbol after the '@'"),
        Some(offset) => Ok(Base::Symbol(name.to_owned(), offset)),
        None if offset.is_empty() => Ok(Base::Symbol(name.to_owned(), 0)),
        None => bad("after the symbol write +NUMBER or -NUMBER"),
    }
}

/// Splits `name+4` or `name-4` in front of the sign.
pub(super) fn split_offset(text: &str) -> (&str, &str) {
    text.split_at(text.find(['+', '-']).unwrap_or(text.len()))
}

fn parse_dereference(text: Piece<'_>, returns: bool) -> Result<Fetch, EventError> {
    let negative = text.text.starts_with('-');
    let (user, rest) = match text.skip(1).strip_prefix("u") {
        Some(rest) => (true, rest),
        None => (false, text.skip(1)),
    };
    let Some((offset_text, inner)) = rest.split_at_first('(') else {
        return Err(EventError::new(
            text,
            Code::DEREF_NEED_BRACE,
            "a dereference is +OFFSET(WHAT): write what to dereference in ( )",
        ));
    };
    let offset = if negative {
        number(offset_text.text).and_then(|n| 0_i64.checked_sub_unsigned(n))
    } else {
        signed_number(offset_text.text)
    };
    let Some(offset) = offset else {
        let about = text.take(offset_text.column + offset_text.text.len() - text.column);
        return Err(EventError::new(
            about,
            Code::BAD_DEREF_OFFS,
            "write a number between the sign and the '(': +0(...), -8(...), +u16(...)",
        ));
    };
    let Some(close) = inner.text.rfind(')') else {
        return Err(EventError::new(inner.end(), Code::DEREF_OPEN_BRACE, "this '(' is not closed: write a ')' here"));
    };
    let (inner, behind) = (inner.take(close), inner.skip(close + 1));
    if !behind.text.is_empty() {
        return Err(EventError::new(behind, Code::BAD_FETCH_ARG, "only ':' and a type may follow the ')': remove this"));
    }
    let mut fetch = parse_fetch(inner, returns)?;
    if fetch.hops.is_empty() && matches!(fetch.base, Base::Comm | Base::AccessText(_) | Base::Text(_)) {
        return Err(EventError::new(
            inner,
            Code::COMM_CANT_DEREF,
            "this is text, not an address: fetch it without the +OFFSET()",
        ));
    }
    fetch.hops.push(Hop { user, offset });
    if fetch.operations() > MAX_OPERATIONS {
        return Err(too_many_operations(inner));
    }
    Ok(fetch)
}

fn parse_immediate(text: Piece<'_>) -> Result<Base, EventError> {
    let value = text.skip(1);
    if let Some(quoted) = value.strip_prefix("\"") {
        let Some(inside) = quoted.text.strip_suffix('"') else {
            return Err(EventError::new(
                text.end(),
                Code::IMMSTR_NO_CLOSE,
                "the text is not closed: write a '\"' here, and no spaces in it",
            ));
        };
        return Ok(Base::Text(inside.to_owned()));
    }
    // perf writes a constant in hexadecimal without a prefix: \deade12d.
    let of_perf = || {
        let is_hex = value.text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let has_letter = value.text.bytes().any(|digit| digit.is_ascii_alphabetic());
        (is_hex && has_letter).then(|| u64::from_str_radix(value.text, 16).ok()).flatten()
    };
    let known = number(value.text).map(i128::from).or_else(|| signed_number(value.text).map(i128::from));
    match known.or_else(|| of_perf().map(i128::from)) {
        Some(value) => Ok(Base::Immediate(value)),
        None => Err(EventError::new(
            value,
            Code::BAD_IMM,
            "after the '\\' write a number, or a text in quotes: \\1, \\-0x10, \\\"text\"",
        )),
    }
}
