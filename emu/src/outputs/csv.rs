//! Records as CSV (RFC 4180, lines end in LF). The first columns are the same for all events. Then comes a column for
//! each argument name, in the order of the events. The last column has the arguments of events that were added later.

use super::values::{comm, put_field};
use super::{End, Seen, Sink};
use std::io::{self, Write};
use trapline_probes::events::format::Reader;
use trapline_probes::events::places::Places;
use trapline_probes::events::set::EventSet;
use trapline_probes::records::Flags;

/// The columns that every record has.
const FIXED: &str = "time_ns,cpu,pid,comm,group,event,ip,symbol,return_ip,return_symbol,interrupts_off";

/// Writes CSV.
pub struct Csv<W> {
    to: W,
    /// The argument columns. `None` before the header was written.
    columns: Option<Vec<String>>,
    places: Places,
    line: String,
    cells: Vec<String>,
}

impl<W: Write> Csv<W> {
    /// A sink that writes to `to`.
    pub fn new(to: W) -> Csv<W> {
        Csv { to, columns: None, places: Places::default(), line: String::new(), cells: Vec::new() }
    }

    fn write_header(&mut self, events: &EventSet) -> io::Result<()> {
        let mut columns: Vec<String> = Vec::new();
        for field in events.members().filter_map(|member| events.format(member.event)).flat_map(|format| &format.fields) {
            if !columns.contains(&field.name) {
                columns.push(field.name.clone());
            }
        }
        let names: String = columns.iter().map(|name| format!(",{name}")).collect();
        self.cells = vec![String::new(); columns.len() + 1];
        self.columns = Some(columns);
        writeln!(self.to, "{FIXED}{names},more")
    }
}

impl<W: Write> Sink for Csv<W> {
    fn record(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        if self.columns.is_none() {
            self.write_header(seen.events)?;
        }
        let Csv { to, columns, places, line, cells } = self;
        let (header, format) = (&seen.record.header, seen.format);
        line.clear();
        let mut cell = |text: &str| {
            if !line.is_empty() {
                line.push(',');
            }
            put_cell(line, text);
        };
        cell(&header.time.to_string());
        cell(&header.cpu.to_string());
        cell(&header.pid.to_string());
        cell(&comm(header));
        cell(&format.group);
        cell(&format.event);
        cell(&format!("{:#x}", header.ip));
        cell(places.text(header.ip, seen.symbols));
        match format.returns {
            true => {
                cell(&format!("{:#x}", header.return_ip));
                cell(places.text(header.return_ip, seen.symbols));
            }
            false => {
                cell("");
                cell("");
            }
        }
        cell(if header.flags.contains(Flags::INTERRUPTS_OFF) { "1" } else { "0" });

        cells.iter_mut().for_each(String::clear);
        let columns = columns.as_deref().unwrap_or_default();
        let mut values = Reader::new(&seen.record.payload);
        for field in &format.fields {
            let column = columns.iter().position(|name| *name == field.name);
            let Some(into) = cells.get_mut(column.unwrap_or(columns.len())) else { continue };
            if column.is_none() {
                into.push_str(if into.is_empty() { "" } else { " " });
                into.push_str(&field.name);
                into.push('=');
            }
            put_field(into, field, &mut values, places, seen.symbols);
        }
        for text in cells.iter() {
            line.push(',');
            put_cell(line, text);
        }
        line.push('\n');
        to.write_all(line.as_bytes())
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> io::Result<()> {
        if self.columns.is_none() {
            self.write_header(end.events)?;
        }
        self.to.flush()
    }
}

/// Appends a cell, in quotes where it needs them.
fn put_cell(line: &mut String, text: &str) {
    if !text.contains(['"', ',', '\n', '\r']) {
        return line.push_str(text);
    }
    line.push('"');
    line.push_str(&text.replace('"', "\"\""));
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::put_cell;

    /// DV-4: a cell with a comma, quote or line end is quoted, and its quotes are doubled.
    #[test]
    fn cells_are_quoted_where_they_must_be() {
        #[rustfmt::skip]
        let cases = [
            ("",             ""),
            ("vfs_read",     "vfs_read"),
            ("a b",          "a b"),
            ("a,b",          "\"a,b\""),
            ("say \"hi\"",   "\"say \"\"hi\"\"\""),
            ("two\nlines",   "\"two\nlines\""),
            ("cr\rhere",     "\"cr\rhere\""),
        ];
        for (text, expected) in cases {
            let mut line = String::new();
            put_cell(&mut line, text);
            assert_eq!(line, expected, "{text:?}");
        }
    }
}
