//! Where records go: ftrace's text, which begins with counts and so is kept to the end, or JSON lines as they come.

use super::Failure;
use super::run::Format;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use trapline_probes::events::format::Format as Fields;
use trapline_probes::events::trace::Symbols;
use trapline_probes::events::{json, trace};
use trapline_probes::records::Record;

/// Takes records and prints them.
pub struct Records {
    format: Format,
    to: BufWriter<Box<dyn Write>>,
    name: String,
    /// Lines with their times: those of several CPUs are put in order at the end, as ftrace merges its buffers.
    lines: Vec<(u64, String)>,
    shown: u64,
}

impl Records {
    /// To a file, or to standard output.
    pub fn new(format: Format, file: Option<&Path>) -> Result<Records, Failure> {
        let (to, name): (Box<dyn Write>, String) = match file {
            Some(path) => {
                let name = path.display().to_string();
                let file = File::create(path).map_err(|error| Failure::usage(format!("`{name}` cannot be written: {error}")))?;
                (Box::new(file), name)
            }
            None => (Box::new(io::stdout()), String::new()),
        };
        Ok(Records { format, to: BufWriter::new(to), name, lines: Vec::new(), shown: 0 })
    }

    /// One more.
    pub fn add(&mut self, record: &Record, fields: &Fields, symbols: Symbols<'_>) -> Result<(), Failure> {
        self.shown += 1;
        let mut line = String::new();
        // Writing to a String cannot fail.
        let _ = match self.format {
            Format::Trace => trace::write(&mut line, record, fields, symbols),
            Format::Json => json::write(&mut line, record, fields, symbols),
        };
        match self.format {
            Format::Trace => self.lines.push((record.header.time, line)),
            Format::Json => self.put(&line)?,
        }
        Ok(())
    }

    /// The end: `made` were made, those that were not shown were lost.
    pub fn finish(mut self, made: u64, cpus: usize) -> Result<u64, Failure> {
        if self.format == Format::Trace && (made > 0 || !self.name.is_empty()) {
            let header = trace::header(self.shown, made, cpus);
            self.put(&header)?;
            let mut lines = std::mem::take(&mut self.lines);
            lines.sort_by_key(|(time, _)| *time);
            lines.iter().try_for_each(|(_, line)| self.put(line))?;
        }
        self.to.flush().map_err(|error| failed(&self.name, &error))?;
        Ok(self.shown)
    }

    fn put(&mut self, text: &str) -> Result<(), Failure> {
        self.to.write_all(text.as_bytes()).map_err(|error| failed(&self.name, &error))
    }
}

fn failed(name: &str, error: &io::Error) -> Failure {
    match name {
        "" => Failure::output(error),
        name => Failure::failed(format!("`{name}` cannot be written: {error}")),
    }
}
