//! Writes records, as ftrace's text or as JSON lines. JSON lines are written at once. ftrace's text begins with counts,
//! so it is collected until the end.
//!
//! Up to [`MOST_KEPT`] bytes are collected in memory. Beyond that, sorted runs of lines go to an unnamed temporary
//! file, and are merged at the end.

use super::Failure;
use super::output::Paint;
use clap::ValueEnum;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use trapline_probes::Engine;
use trapline_probes::events::format::Format as Fields;
use trapline_probes::events::places::{Places, Symbols};
use trapline_probes::events::set::EventSet;
use trapline_probes::events::{json, trace};
use trapline_probes::guest::Guest;
use trapline_probes::records::Record;

/// The format of the records
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The format of ftrace's `trace` file
    #[default]
    Trace,
    /// A line of JSON for each record
    Json,
}

/// The largest number of bytes of text collected in memory.
const MOST_KEPT: usize = 32 << 20;
/// Bytes of a run that are read at a time.
const READ_AHEAD: usize = 256 << 10;
/// Size of the header in front of each line in the file: 8 bytes of time, 4 bytes of length.
const HEAD: usize = 12;

/// Takes records out of the ring buffer and writes them.
pub struct Records {
    format: Format,
    to: BufWriter<Box<dyn Write>>,
    name: String,
    /// A buffer for one record.
    record: Record,
    places: Places,
    /// The collected text, or one JSON line. Lines of several CPUs are sorted by time at the end, as ftrace merges its
    /// buffers.
    text: String,
    lines: Vec<Line>,
    most_kept: usize,
    pieces: Option<Pieces>,
    shown: u64,
}

/// The position of a line in the collected text.
#[derive(Clone, Copy)]
struct Line {
    time: u64,
    start: usize,
    bytes: u32,
}

impl Records {
    /// Writes to a file, or to standard output.
    pub fn new(format: Format, file: Option<&Path>) -> Result<Records, Failure> {
        let (to, name): (Box<dyn Write>, String) = match file {
            Some(path) => {
                let name = path.display().to_string();
                let file = File::create(path).map_err(|error| Failure::usage(format!("`{name}` cannot be written: {error}")))?;
                (Box::new(file), name)
            }
            None => (Box::new(io::stdout()), String::new()),
        };
        Ok(Records {
            format,
            to: BufWriter::new(to),
            name,
            record: Record::default(),
            places: Places::default(),
            text: String::new(),
            lines: Vec::new(),
            most_kept: MOST_KEPT,
            pieces: None,
            shown: 0,
        })
    }

    /// Takes all records out of the engine's ring buffer.
    pub fn take(&mut self, events: &EventSet, engine: &mut Engine, guest: &dyn Guest) -> Result<(), Failure> {
        let mut record = std::mem::take(&mut self.record);
        while engine.records().pop_into(&mut record) {
            if let Some(fields) = events.format(record.header.event) {
                self.add(&record, fields, &|address| guest.symbol_at(address))?;
            }
        }
        self.record = record;
        Ok(())
    }

    /// Adds one more record.
    fn add(&mut self, record: &Record, fields: &Fields, symbols: Symbols<'_>) -> Result<(), Failure> {
        self.shown += 1;
        match self.format {
            Format::Trace => {
                let start = self.text.len();
                trace::write(&mut self.text, record, fields, &mut self.places, symbols);
                let bytes = u32::try_from(self.text.len() - start).unwrap_or(u32::MAX);
                self.lines.push(Line { time: record.header.time, start, bytes });
                if self.text.len() >= self.most_kept {
                    self.put_away()?;
                }
                Ok(())
            }
            Format::Json => {
                self.text.clear();
                json::write(&mut self.text, record, fields, &mut self.places, symbols);
                self.to.write_all(self.text.as_bytes()).map_err(|error| failed(&self.name, &error))
            }
        }
    }

    /// Writes the collected text. `made` counts all records, including lost ones. The header names the columns that are not
    /// known. Returns the number of records written.
    pub fn finish(mut self, made: u64, cpus: usize, unknown: &[&str]) -> Result<u64, Failure> {
        if self.format == Format::Trace && (made > 0 || !self.name.is_empty()) {
            let header = trace::header(self.shown, made, cpus, unknown);
            self.to.write_all(header.as_bytes()).map_err(|error| failed(&self.name, &error))?;
            self.put_all()?;
        }
        self.to.flush().map_err(|error| failed(&self.name, &error))?;
        Ok(self.shown)
    }

    fn put_all(&mut self) -> Result<(), Failure> {
        if self.pieces.is_some() {
            self.put_away()?;
        }
        let (to, name) = (&mut self.to, &self.name);
        let put = |line: &[u8]| to.write_all(line).map_err(|error| failed(name, &error));
        match &self.pieces {
            None => in_order(&mut self.lines, &self.text).try_for_each(put),
            Some(pieces) => pieces.in_order(put),
        }
    }

    /// Writes the collected lines to the temporary file as a sorted run.
    fn put_away(&mut self) -> Result<(), Failure> {
        let pieces = match &mut self.pieces {
            Some(pieces) => pieces,
            none => none.insert(Pieces::new().map_err(|error| unkept(&error))?),
        };
        pieces.add(&mut self.lines, &self.text).map_err(|error| unkept(&error))?;
        self.lines.clear();
        self.text.clear();
        Ok(())
    }
}

/// The lines sorted by time. Lines of the same time keep their order.
fn in_order<'a>(lines: &'a mut [Line], text: &'a str) -> impl Iterator<Item = &'a [u8]> {
    lines.sort_by_key(|line| line.time);
    lines.iter().map(|line| text.as_bytes().get(line.start..line.start + line.bytes as usize).unwrap_or_default())
}

/// A temporary file with sorted runs of lines.
struct Pieces {
    file: File,
    /// The offset of each run's end.
    ends: Vec<u64>,
}

impl Pieces {
    fn new() -> io::Result<Pieces> {
        let path = env::temp_dir().join(format!("trapline-records-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        // Without a name, the file is deleted by the operating system when this process ends.
        fs::remove_file(&path)?;
        Ok(Pieces { file, ends: Vec::new() })
    }

    fn add(&mut self, lines: &mut [Line], text: &str) -> io::Result<()> {
        let mut written = self.ends.last().copied().unwrap_or(0);
        lines.sort_by_key(|line| line.time);
        let mut to = BufWriter::new(&self.file);
        for line in lines.iter() {
            let bytes = text.as_bytes().get(line.start..line.start + line.bytes as usize).unwrap_or_default();
            to.write_all(&line.time.to_le_bytes())?;
            to.write_all(&(bytes.len() as u32).to_le_bytes())?;
            to.write_all(bytes)?;
            written += (HEAD + bytes.len()) as u64;
        }
        to.flush()?;
        self.ends.push(written);
        Ok(())
    }

    /// Merges all runs by time. Lines of the same time come in the order of their runs, which is the order of arrival.
    fn in_order(&self, mut put: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let mut pieces: Vec<Piece> = starts
            .zip(&self.ends)
            .map(|(at, end)| Piece { file: &self.file, at, end: *end, ahead: Vec::new(), used: 0 })
            .collect();
        loop {
            let mut first: Option<(u64, usize)> = None;
            for (number, piece) in pieces.iter_mut().enumerate() {
                let time = piece.time().map_err(|error| unkept(&error))?;
                if let Some(time) = time.filter(|time| first.is_none_or(|(earliest, _)| *time < earliest)) {
                    first = Some((time, number));
                }
            }
            let Some(piece) = first.and_then(|(_, number)| pieces.get_mut(number)) else { return Ok(()) };
            put(piece.line().map_err(|error| unkept(&error))?)?;
        }
    }
}

/// A run that is being read.
struct Piece<'a> {
    file: &'a File,
    /// The file offset of the next byte to read.
    at: u64,
    end: u64,
    ahead: Vec<u8>,
    /// The number of bytes in `ahead` that are done.
    used: usize,
}

impl Piece<'_> {
    /// The time of the next line. `None` at the end of the run.
    fn time(&mut self) -> io::Result<Option<u64>> {
        Ok(self.next(HEAD)?.first_chunk().map(|time| u64::from_le_bytes(*time)))
    }

    fn line(&mut self) -> io::Result<&[u8]> {
        let length = self.next(HEAD)?.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let all = HEAD + length as usize;
        self.next(all)?;
        self.used += all;
        Ok(&self.ahead[self.used - length as usize..self.used])
    }

    /// The next bytes, without consuming them; empty at the end of the run.
    fn next(&mut self, bytes: usize) -> io::Result<&[u8]> {
        if self.ahead.len() - self.used < bytes && self.at < self.end {
            self.ahead.drain(..self.used);
            self.used = 0;
            let kept = self.ahead.len();
            let more = (self.end - self.at).min(READ_AHEAD.max(bytes) as u64) as usize;
            self.ahead.resize(kept + more, 0);
            self.file.read_exact_at(&mut self.ahead[kept..], self.at)?;
            self.at += more as u64;
        }
        Ok(self.ahead.get(self.used..self.used + bytes).unwrap_or_default())
    }
}

/// Says on standard error which columns hold nothing on this kernel.
pub fn say_what_is_unknown(columns: &[&str]) {
    if let [_, ..] = columns {
        let note = Paint::for_errors().advice("note:");
        eprintln!("{note} not known on this kernel, so these columns of the trace are empty: {}", columns.join("; "));
    }
}

fn failed(name: &str, error: &io::Error) -> Failure {
    match name {
        "" => Failure::output(error),
        name => Failure::failed(format!("`{name}` cannot be written: {error}")),
    }
}

fn unkept(error: &io::Error) -> Failure {
    let folder = env::temp_dir();
    Failure::failed(format!(
        "there are too many records to keep in memory, and no room for them in {}: {error}",
        folder.display()
    ))
    .advise("let TMPDIR name a folder with room, or take the records as they come: --format json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_probes::records::{EventId, Flags, Header};

    /// DV-4: lines that went through the file come out as those kept in memory.
    #[test]
    fn lines_that_wait_in_a_file_come_out_as_those_in_memory() {
        let folder = env::temp_dir().join(format!("trapline-records-test-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let fields = Fields {
            group: "kprobes".into(),
            event: "read".into(),
            returns: false,
            fields: Vec::new(),
            mirrors: false,
            stack: None,
        };
        let written = |most_kept: usize| {
            let path = folder.join(most_kept.to_string());
            let mut records = Records::new(Format::Trace, Some(&path)).expect("a file");
            records.most_kept = most_kept;
            for number in 0..10_000_u64 {
                let (cpu, turn) = ((number / 100 % 2) as u16, number / 200);
                // Both CPUs' lines have the same times, so every second run begins before the previous run's end.
                let time = (turn * 100 + number % 100) * 1000 / 3;
                let (comm, flags) = (*b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0", Flags::NONE);
                let header = Header { event: EventId(0), cpu, flags, pid: number as u32, comm, time, ip: number, return_ip: 0 };
                let record = Record { header, payload: Vec::new() };
                assert!(records.add(&record, &fields, &|_| None).is_ok());
            }
            assert_eq!(records.finish(10_003, 2, &[]).ok(), Some(10_000));
            fs::read_to_string(&path).expect("it was written")
        };
        let (all, pieces) = (written(usize::MAX), written(5_000));
        let _ = fs::remove_dir_all(&folder);
        assert!(all.contains("entries-in-buffer/entries-written: 10000/10003"), "{}", &all[..200]);
        assert!(all == pieces, "they differ");
    }
}
