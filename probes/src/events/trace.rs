//! Writes records in the format of ftrace's `trace` file of Linux 6.1.

use super::digits;
use super::format::{Format, Reader, Value};
use super::places::{Places, Symbols};
use super::watch::KERNEL_STACK;
use crate::records::{Flags, Header, Record};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

/// The header of the file: records shown, records written (the difference was lost), number of CPUs. Linux has no line for
/// columns that are not known.
pub fn header(shown: u64, made: u64, cpus: usize, unknown: &[&str]) -> String {
    let counts = format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {shown}/{made}   #P:{cpus}\n#\n");
    let unknown = match unknown {
        [] => String::new(),
        columns => format!("# not known on this kernel: {}\n#\n", columns.join("; ")),
    };
    counts + &unknown + COLUMNS
}

const COLUMNS: &str = "\
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";

/// Appends one record and a newline.
pub fn write(out: &mut String, record: &Record, format: &Format, places: &mut Places, symbols: Symbols<'_>) {
    if record.header.event == KERNEL_STACK {
        return write_stack(out, record, format, Reader::new(&record.payload), places, symbols);
    }
    write_context(out, &record.header);
    out.push_str(&format.event);
    out.push_str(": (");
    if format.in_program {
        digits::hexadecimal(out, if format.returns { record.header.return_ip } else { record.header.ip });
        if format.returns {
            out.push_str(" <- ");
            digits::hexadecimal(out, record.header.ip);
        }
    } else if format.returns {
        out.push_str(places.text(record.header.return_ip, symbols));
        out.push_str(" <- ");
        out.push_str(places.name(record.header.ip, symbols));
    } else {
        out.push_str(places.text(record.header.ip, symbols));
    }
    out.push(')');
    let mut values = Reader::new(&record.payload);
    for field in &format.fields {
        out.push(' ');
        out.push_str(&field.name);
        out.push('=');
        match field.count {
            None => write_value(out, values.next(field.stored), places, symbols),
            Some(count) => {
                for index in 0..count {
                    out.push(if index == 0 { '{' } else { ',' });
                    write_value(out, values.next(field.stored), places, symbols);
                }
                out.push('}');
            }
        }
    }
    out.push('\n');
    write_stack(out, record, format, values, places, symbols);
}

fn write_stack(
    out: &mut String,
    record: &Record,
    format: &Format,
    values: Reader<'_>,
    places: &mut Places,
    symbols: Symbols<'_>,
) {
    if let Some(stack) = format.stack {
        write_context(out, &record.header);
        out.push_str("<stack trace>\n");
        for (number, address) in values.stack().enumerate() {
            // ftrace marks frames that it is not sure of by `?`. The first frame is the probe's address and always
            // sure.
            out.push_str(if stack.is_guessed && number > 0 { " => ? " } else { " => " });
            out.push_str(places.name(address, symbols));
            out.push('\n');
        }
    }
}

fn write_context(out: &mut String, header: &Header) {
    let comm = comm(header);
    let microseconds = header.time / 1000 + u64::from(header.time % 1000 >= 500);
    digits::fill(out, 16_usize.saturating_sub(comm.chars().count()), digits::BLANKS);
    out.push_str(&comm);
    out.push('-');
    digits::left(out, header.pid.into(), 7);
    out.push_str(" [");
    digits::right(out, header.cpu.into(), 3, digits::ZEROS);
    out.push_str("] ");
    write_flags(out, header.flags);
    out.push(' ');
    digits::right(out, microseconds / 1_000_000, 5, digits::BLANKS);
    out.push('.');
    digits::right(out, microseconds % 1_000_000, 6, digits::ZEROS);
    out.push_str(": ");
}

/// Appends ftrace's five context letters. A dot means "no" or "unknown".
fn write_flags(out: &mut String, flags: Flags) {
    let is = |flag| flags.contains(flag);
    out.push(match (is(Flags::INTERRUPTS_OFF), is(Flags::BOTTOM_HALVES_OFF)) {
        (true, true) => 'D',
        (true, false) => 'd',
        (false, true) => 'b',
        (false, false) => '.',
    });
    out.push(match (is(Flags::NEED_RESCHED), is(Flags::LAZY_RESCHED), is(Flags::PREEMPT_RESCHED)) {
        (true, true, true) => 'B',
        (true, true, false) => 'b',
        (true, false, true) => 'N',
        (true, false, false) => 'n',
        (false, true, true) => 'L',
        (false, true, false) => 'l',
        (false, false, true) => 'p',
        (false, false, false) => '.',
    });
    out.push(match (is(Flags::NMI), is(Flags::HARD_INTERRUPT), is(Flags::SOFT_INTERRUPT)) {
        (true, true, _) => 'Z',
        (true, false, _) => 'z',
        (false, true, true) => 'H',
        (false, true, false) => 'h',
        (false, false, true) => 's',
        (false, false, false) => '.',
    });
    for depth in flags.depths_of() {
        out.push(char::from_digit(depth.into(), 16).filter(|_| depth > 0).unwrap_or('.'));
    }
}

/// The task's name as ftrace shows it.
pub(super) fn comm(header: &Header) -> Cow<'_, str> {
    let name = header.comm.split(|byte| *byte == 0).next().unwrap_or_default();
    match header.pid {
        // Without a name the task is unknown, as for ftrace.
        _ if name.is_empty() => "<...>".into(),
        0 => "<idle>".into(),
        _ => String::from_utf8_lossy(name),
    }
}

fn write_value(out: &mut String, value: Value<'_>, places: &mut Places, symbols: Symbols<'_>) {
    match value {
        Value::Unsigned(number) => digits::decimal(out, number),
        Value::Signed(number) => digits::signed(out, number),
        Value::Hex(number) => digits::hexadecimal(out, number),
        Value::Symbol(address) => out.push_str(places.text(address, symbols)),
        Value::SymbolString(address) => quoted(out, places.text(address, symbols)),
        Value::String(Some(text)) => quoted(out, &String::from_utf8_lossy(text)),
        Value::String(None) => out.push_str("(fault)"),
    }
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    out.push_str(text);
    out.push('"');
}
