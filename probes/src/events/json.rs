//! Records as JSON, one object a line.
//!
//! Numbers that an event shows in hexadecimal, and addresses, are strings (`"0x1f"`); a string that could not be read is `null`;
//! bytes that are not UTF-8 are replaced by U+FFFD.

use super::format::{Format, Reader, Value};
use super::trace::{Symbols, comm, write_symbol};
use crate::records::{Flags, Record};
use alloc::string::String;
use core::fmt::{Result, Write};

/// Writes one record and the line's end.
pub fn write(out: &mut dyn Write, record: &Record, format: &Format, symbols: Symbols<'_>) -> Result {
    let header = &record.header;
    write!(out, "{{\"time_ns\":{},\"cpu\":{},\"pid\":{},\"comm\":", header.time, header.cpu, header.pid)?;
    write_string(out, &comm(header))?;
    out.write_str(",\"group\":")?;
    write_string(out, &format.group)?;
    out.write_str(",\"event\":")?;
    write_string(out, &format.event)?;
    write!(out, ",\"ip\":\"{:#x}\",\"symbol\":", header.ip)?;
    write_place(out, header.ip, symbols)?;
    if format.returns {
        write!(out, ",\"return_ip\":\"{:#x}\",\"return_symbol\":", header.return_ip)?;
        write_place(out, header.return_ip, symbols)?;
    }
    write!(out, ",\"interrupts_off\":{}", header.flags.contains(Flags::INTERRUPTS_OFF))?;
    if header.flags.contains(Flags::TRUNCATED) {
        out.write_str(",\"truncated\":true")?;
    }
    out.write_str(",\"args\":{")?;
    let mut values = Reader::new(&record.payload);
    for (index, field) in format.fields.iter().enumerate() {
        out.write_str(if index == 0 { "" } else { "," })?;
        write_string(out, &field.name)?;
        out.write_char(':')?;
        match field.count {
            None => write_value(out, values.next(field.stored), symbols)?,
            Some(count) => {
                for index in 0..count {
                    out.write_char(if index == 0 { '[' } else { ',' })?;
                    write_value(out, values.next(field.stored), symbols)?;
                }
                out.write_char(']')?;
            }
        }
    }
    out.write_str("}}\n")
}

fn write_value(out: &mut dyn Write, value: Value<'_>, symbols: Symbols<'_>) -> Result {
    match value {
        Value::Unsigned(number) => write!(out, "{number}"),
        Value::Signed(number) => write!(out, "{number}"),
        Value::Hex(number) => write!(out, "\"{number:#x}\""),
        Value::Symbol(address) | Value::SymbolString(address) => write_place(out, address, symbols),
        Value::String(Some(text)) => write_string(out, &String::from_utf8_lossy(text)),
        Value::String(None) => out.write_str("null"),
    }
}

fn write_place(out: &mut dyn Write, address: u64, symbols: Symbols<'_>) -> Result {
    let mut place = String::new();
    write_symbol(&mut place, address, symbols)?;
    write_string(out, &place)
}

fn write_string(out: &mut dyn Write, text: &str) -> Result {
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c))?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}
