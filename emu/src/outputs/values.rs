//! The values of a record as text, for formats that have no types of their own.

use std::fmt::Write;
use trapline_probes::events::format::{Field, Reader, Value};
use trapline_probes::events::places::{Places, Symbols};
use trapline_probes::records::Header;

/// The text of an unreadable string, as in ftrace's text.
pub const UNREADABLE: &str = "(fault)";

/// Appends a value as ftrace's text shows it, without quotes around strings.
pub fn put(out: &mut String, value: Value<'_>, places: &mut Places, symbols: Symbols<'_>) {
    match value {
        Value::Unsigned(number) => drop(write!(out, "{number}")),
        Value::Signed(number) => drop(write!(out, "{number}")),
        Value::Hex(number) => drop(write!(out, "{number:#x}")),
        Value::Symbol(address) | Value::SymbolString(address) => out.push_str(places.text(address, symbols)),
        Value::String(Some(text)) => out.push_str(&String::from_utf8_lossy(text)),
        Value::String(None) => out.push_str(UNREADABLE),
    }
}

/// Appends all values of an argument: one, or `{1,2,3}` for an array.
pub fn put_field(out: &mut String, field: &Field, values: &mut Reader<'_>, places: &mut Places, symbols: Symbols<'_>) {
    let Some(count) = field.count else { return put(out, values.next(field.stored), places, symbols) };
    for index in 0..count {
        out.push(if index == 0 { '{' } else { ',' });
        put(out, values.next(field.stored), places, symbols);
    }
    out.push('}');
}

/// The task's name as ftrace shows it.
pub fn comm(header: &Header) -> String {
    let name = header.comm.split(|byte| *byte == 0).next().unwrap_or_default();
    match header.pid {
        _ if name.is_empty() => "<...>".into(),
        0 => "<idle>".into(),
        _ => String::from_utf8_lossy(name).into_owned(),
    }
}
