//! Records as the text of ftrace's `trace` file, as Linux 6.1 writes it.

use super::format::{Format, Reader, Value};
use crate::guest::Symbol;
use crate::records::{Flags, Header, Record};
use alloc::format;
use alloc::string::String;
use core::fmt::{Result, Write};

/// Says which symbol covers an address.
pub type Symbols<'a> = &'a dyn Fn(u64) -> Option<Symbol>;

/// What stands above the lines: how many records there are, how many were made (the rest was lost), how many CPUs.
pub fn header(shown: u64, made: u64, cpus: usize) -> String {
    let counts = format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: {shown}/{made}   #P:{cpus}\n#\n");
    counts + COLUMNS
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

/// Writes one record and the line's end.
pub fn write(out: &mut dyn Write, record: &Record, format: &Format, symbols: Symbols<'_>) -> Result {
    write_context(out, &record.header)?;
    write!(out, "{}: (", format.event)?;
    if format.returns {
        write_symbol(out, record.header.return_ip, symbols)?;
        out.write_str(" <- ")?;
        write_name(out, record.header.ip, symbols)?;
    } else {
        write_symbol(out, record.header.ip, symbols)?;
    }
    out.write_char(')')?;
    let mut values = Reader::new(&record.payload);
    for field in &format.fields {
        write!(out, " {}=", field.name)?;
        match field.count {
            None => write_value(out, values.next(field.stored), symbols)?,
            Some(count) => {
                for index in 0..count {
                    out.write_char(if index == 0 { '{' } else { ',' })?;
                    write_value(out, values.next(field.stored), symbols)?;
                }
                out.write_char('}')?;
            }
        }
    }
    out.write_char('\n')
}

fn write_context(out: &mut dyn Write, header: &Header) -> Result {
    let comm = comm(header);
    let interrupts = if header.flags.contains(Flags::INTERRUPTS_OFF) { 'd' } else { '.' };
    let microseconds = header.time / 1000 + u64::from(header.time % 1000 >= 500);
    let (seconds, fraction) = (microseconds / 1_000_000, microseconds % 1_000_000);
    write!(out, "{comm:>16}-{:<7} [{:03}] {interrupts}.... {seconds:>5}.{fraction:06}: ", header.pid, header.cpu)
}

/// The task's name as ftrace shows it.
pub(super) fn comm(header: &Header) -> String {
    let name = header.comm.split(|byte| *byte == 0).next().unwrap_or_default();
    match header.pid {
        // The machine cannot tell, or Linux could not.
        _ if name.is_empty() => String::from("<...>"),
        0 => String::from("<idle>"),
        _ => String::from_utf8_lossy(name).into_owned(),
    }
}

fn write_value(out: &mut dyn Write, value: Value<'_>, symbols: Symbols<'_>) -> Result {
    match value {
        Value::Unsigned(number) => write!(out, "{number}"),
        Value::Signed(number) => write!(out, "{number}"),
        Value::Hex(number) => write!(out, "{number:#x}"),
        Value::Symbol(address) => write_symbol(out, address, symbols),
        Value::SymbolString(address) => {
            out.write_char('"')?;
            write_symbol(out, address, symbols)?;
            out.write_char('"')
        }
        Value::String(Some(text)) => write!(out, "\"{}\"", String::from_utf8_lossy(text)),
        Value::String(None) => out.write_str("(fault)"),
    }
}

/// `vfs_read+0x4/0x1a0 [module]`
pub(super) fn write_symbol(out: &mut dyn Write, address: u64, symbols: Symbols<'_>) -> Result {
    let Some(symbol) = symbols(address) else { return write!(out, "{address:#x}") };
    write!(out, "{}+{:#x}/{:#x}", symbol.name, address.wrapping_sub(symbol.start), symbol.size)?;
    symbol.module.map_or(Ok(()), |module| write!(out, " [{module}]"))
}

fn write_name(out: &mut dyn Write, address: u64, symbols: Symbols<'_>) -> Result {
    match symbols(address) {
        Some(symbol) => out.write_str(&symbol.name),
        None => write!(out, "{address:#x}"),
    }
}
