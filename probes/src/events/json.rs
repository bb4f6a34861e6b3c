//! Writes records as JSON, one object per line.
//!
//! Addresses, and numbers that the event shows in hexadecimal, are strings (`"0x1f"`). An unreadable string is `null`.
//! Bytes that are not UTF-8 are replaced by U+FFFD.

use super::digits;
use super::format::{Format, Reader, Value};
use super::places::{Places, Symbols};
use super::trace::comm;
use crate::records::{Flags, Record};
use alloc::string::String;
use core::fmt::Write;

/// Appends one record and a newline.
pub fn write(out: &mut String, record: &Record, format: &Format, places: &mut Places, symbols: Symbols<'_>) {
    let header = &record.header;
    out.push_str("{\"time_ns\":");
    digits::decimal(out, header.time);
    out.push_str(",\"cpu\":");
    digits::decimal(out, header.cpu.into());
    out.push_str(",\"pid\":");
    digits::decimal(out, header.pid.into());
    out.push_str(",\"comm\":");
    write_string(out, &comm(header));
    out.push_str(",\"group\":");
    write_string(out, &format.group);
    out.push_str(",\"event\":");
    write_string(out, &format.event);
    out.push_str(",\"ip\":");
    write_hexadecimal(out, header.ip);
    if !format.in_program {
        out.push_str(",\"symbol\":");
        write_string(out, places.text(header.ip, symbols));
    }
    if format.returns {
        out.push_str(",\"return_ip\":");
        write_hexadecimal(out, header.return_ip);
    }
    if format.returns && !format.in_program {
        out.push_str(",\"return_symbol\":");
        write_string(out, places.text(header.return_ip, symbols));
    }
    out.push_str(",\"interrupts_off\":");
    out.push_str(if header.flags.contains(Flags::INTERRUPTS_OFF) { "true" } else { "false" });
    if header.flags.contains(Flags::TRUNCATED) {
        out.push_str(",\"truncated\":true");
    }
    out.push_str(",\"args\":{");
    let mut values = Reader::new(&record.payload);
    for (index, field) in format.fields.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        write_string(out, &field.name);
        out.push(':');
        match field.count {
            None => write_value(out, values.next(field.stored), places, symbols),
            Some(count) => {
                for index in 0..count {
                    out.push(if index == 0 { '[' } else { ',' });
                    write_value(out, values.next(field.stored), places, symbols);
                }
                out.push(']');
            }
        }
    }
    out.push('}');
    if let Some(stack) = format.stack {
        out.push_str(",\"stack\":[");
        for (number, address) in values.stack().enumerate() {
            out.push_str(if number == 0 { "" } else { "," });
            write_string(out, places.text(address, symbols));
        }
        out.push_str(if stack.is_guessed { "],\"stack_is_guessed\":true" } else { "]" });
    }
    out.push_str("}\n");
}

fn write_value(out: &mut String, value: Value<'_>, places: &mut Places, symbols: Symbols<'_>) {
    match value {
        Value::Unsigned(number) => digits::decimal(out, number),
        Value::Signed(number) => digits::signed(out, number),
        Value::Hex(number) => write_hexadecimal(out, number),
        Value::Symbol(address) | Value::SymbolString(address) => write_string(out, places.text(address, symbols)),
        Value::String(Some(text)) => write_string(out, &String::from_utf8_lossy(text)),
        Value::String(None) => out.push_str("null"),
    }
}

fn write_hexadecimal(out: &mut String, number: u64) {
    out.push('"');
    digits::hexadecimal(out, number);
    out.push('"');
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    match text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        true => out.push_str(text),
        false => text.chars().for_each(|letter| write_letter(out, letter)),
    }
    out.push('"');
}

fn write_letter(out: &mut String, letter: char) {
    match letter {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        // Writing to a String cannot fail.
        letter if letter.is_control() => drop(write!(out, "\\u{:04x}", u32::from(letter))),
        letter => out.push(letter),
    }
}
