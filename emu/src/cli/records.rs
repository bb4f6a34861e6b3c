//! Where records go: ftrace's text, which begins with counts and so is kept to the end, or JSON lines as they come.
//!
//! Kept lines take no more memory than [`MOST_KEPT`]: from there on they wait in a file without a name, in pieces that
//! are put in order when they are read.

use super::Failure;
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

/// How records are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// As ftrace's `trace` file
    #[default]
    Trace,
    /// A line of JSON for each
    Json,
}

/// Bytes of lines that are kept in memory.
const MOST_KEPT: usize = 32 << 20;
/// Bytes of a piece that are in memory while it is read.
const READ_AHEAD: usize = 256 << 10;
/// In front of each line of a piece: its time and its length.
const HEAD: usize = 12;

/// Takes records and prints them.
pub struct Records {
    format: Format,
    to: BufWriter<Box<dyn Write>>,
    name: String,
    /// Room for one.
    record: Record,
    places: Places,
    /// The lines that are kept: those of several CPUs are put in order at the end, as ftrace merges its buffers. One
    /// JSON line.
    text: String,
    lines: Vec<Line>,
    most_kept: usize,
    pieces: Option<Pieces>,
    shown: u64,
}

/// A line in the text that is kept.
#[derive(Clone, Copy)]
struct Line {
    time: u64,
    start: usize,
    bytes: u32,
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

    /// All that wait in the engine.
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

    /// The end: `made` were made, those that were not shown were lost.
    pub fn finish(mut self, made: u64, cpus: usize) -> Result<u64, Failure> {
        if self.format == Format::Trace && (made > 0 || !self.name.is_empty()) {
            let header = trace::header(self.shown, made, cpus);
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

    /// Lines that are kept become a piece.
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

/// The lines by their times; those of one time as they came.
fn in_order<'a>(lines: &'a mut [Line], text: &'a str) -> impl Iterator<Item = &'a [u8]> {
    lines.sort_by_key(|line| line.time);
    lines.iter().map(|line| text.as_bytes().get(line.start..line.start + line.bytes as usize).unwrap_or_default())
}

/// A file in which lines wait, in pieces each of which is in order.
struct Pieces {
    file: File,
    /// Where each ends.
    ends: Vec<u64>,
}

impl Pieces {
    fn new() -> io::Result<Pieces> {
        let path = env::temp_dir().join(format!("trapline-records-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        // Nobody else needs its name, and so it goes away with this process however that ends.
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

    /// All lines by their times; those of one time as they came, which is by their pieces.
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

/// One of them while it is read.
struct Piece<'a> {
    file: &'a File,
    /// What has not been read yet.
    at: u64,
    end: u64,
    ahead: Vec<u8>,
    /// How much of what was read ahead is done with.
    used: usize,
}

impl Piece<'_> {
    /// That of the next line; `None`: there is none.
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

    /// So many bytes, or none where the piece ends.
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

    /// DV-4: what does not fit in memory is written as if it had, line for line, with several CPUs' lines put in order.
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
                // Both CPUs' turns are of the same time, so that each other piece begins before the last one's end.
                let time = (turn * 100 + number % 100) * 1000 / 3;
                let (comm, flags) = (*b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0", Flags::NONE);
                let header = Header { event: EventId(0), cpu, flags, pid: number as u32, comm, time, ip: number, return_ip: 0 };
                let record = Record { header, payload: Vec::new() };
                assert!(records.add(&record, &fields, &|_| None).is_ok());
            }
            assert_eq!(records.finish(10_003, 2).ok(), Some(10_000));
            fs::read_to_string(&path).expect("it was written")
        };
        let (all, pieces) = (written(usize::MAX), written(5_000));
        let _ = fs::remove_dir_all(&folder);
        assert!(all.contains("entries-in-buffer/entries-written: 10000/10003"), "{}", &all[..200]);
        assert!(all == pieces, "they differ");
    }
}
