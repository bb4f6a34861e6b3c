//! Records as the text of ftrace's file `trace`. The text begins with counts, so it is collected until the end.
//! Up to 32 MiB are collected in memory. Beyond that, sorted runs of lines go to an unnamed temporary
//! file, and are merged at the end.

use super::spool::spool;
use super::{End, Lines, Seen, Sink};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use trapline_probes::events::places::Places;
use trapline_probes::events::trace;

/// The largest number of bytes of text collected in memory.
const MOST_KEPT: usize = 32 << 20;
/// Bytes of a run that are read at a time.
const READ_AHEAD: usize = 256 << 10;
/// Size of the header in front of each line in the file: 8 bytes of time, 4 bytes of length.
const HEAD: usize = 12;

/// Writes ftrace's text.
pub struct Text<W> {
    to: W,
    /// Whether the header is written even if no record was made.
    always: bool,
    /// The collected text. Lines of several CPUs are sorted by time at the end, as ftrace merges its buffers.
    text: String,
    lines: Vec<Line>,
    most_kept: usize,
    pieces: Option<Pieces>,
    places: Places,
}

/// The position of a line in the collected text.
#[derive(Clone, Copy)]
struct Line {
    time: u64,
    start: usize,
    bytes: u32,
}

impl<W: Write> Text<W> {
    /// A sink that writes to `to`. Without records it writes nothing, unless `always` is set.
    pub fn new(to: W, always: bool) -> Text<W> {
        let (text, lines, pieces) = (String::new(), Vec::new(), None);
        Text { to, always, text, lines, most_kept: MOST_KEPT, pieces, places: Places::default() }
    }

    /// Writes the collected lines to the temporary file as a sorted run.
    fn put_away(&mut self) -> io::Result<()> {
        let pieces = match &mut self.pieces {
            Some(pieces) => pieces,
            none => none.insert(Pieces::new()?),
        };
        pieces.add(&mut self.lines, &self.text)?;
        self.lines.clear();
        self.text.clear();
        Ok(())
    }
}

impl<W: Write> Sink for Text<W> {
    fn record(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let start = self.text.len();
        trace::write(&mut self.text, seen.record, seen.format, &mut self.places, seen.symbols);
        if let Some(lines) = seen.lines {
            add_lines(&mut self.text, start, seen, lines);
        }
        let bytes = u32::try_from(self.text.len() - start).unwrap_or(u32::MAX);
        self.lines.push(Line { time: seen.record.header.time, start, bytes });
        if self.text.len() >= self.most_kept {
            self.put_away()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> io::Result<()> {
        if self.always || end.made > 0 {
            self.to.write_all(trace::header(end.shown, end.made, end.cpus, end.unknown).as_bytes())?;
            if self.pieces.is_some() {
                self.put_away()?;
            }
            let Text { to, lines, text, pieces, .. } = &mut *self;
            match pieces {
                None => in_order(lines, text).try_for_each(|line| to.write_all(line))?,
                Some(pieces) => pieces.in_order(|line| to.write_all(line))?,
            }
        }
        self.to.flush()
    }
}

/// Adds the source line of each address to the record that begins at byte `start`.
pub(super) fn add_lines(text: &mut String, start: usize, seen: &Seen<'_>, lines: Lines<'_>) {
    let written = text.split_off(start);
    let (own, stack) = seen.addresses();
    let mut frames = stack.into_iter();
    for (number, line) in written.lines().enumerate() {
        let address = match line.starts_with(" => ") {
            true => frames.next(),
            false => Some(own).filter(|_| number == 0 && !line.ends_with("<stack trace>")),
        };
        text.push_str(line);
        let source = address.map(lines).unwrap_or_default();
        if !source.is_empty() {
            text.push_str(" at ");
            text.push_str(&source);
        }
        text.push('\n');
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
        Ok(Pieces { file: spool()?, ends: Vec::new() })
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
    fn in_order(&self, mut put: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let mut pieces: Vec<Piece> = starts
            .zip(&self.ends)
            .map(|(at, end)| Piece { file: &self.file, at, end: *end, ahead: Vec::new(), used: 0 })
            .collect();
        loop {
            let mut first: Option<(u64, usize)> = None;
            for (number, piece) in pieces.iter_mut().enumerate() {
                let time = piece.time()?;
                if let Some(time) = time.filter(|time| first.is_none_or(|(earliest, _)| *time < earliest)) {
                    first = Some((time, number));
                }
            }
            let Some(piece) = first.and_then(|(_, number)| pieces.get_mut(number)) else { return Ok(()) };
            put(piece.line()?)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_probes::events::format::Format;
    use trapline_probes::events::set::EventSet;
    use trapline_probes::records::{EventId, Flags, Header, Record};

    /// DV-4: lines that went through the file come out as those kept in memory.
    #[test]
    fn lines_that_wait_in_a_file_come_out_as_those_in_memory() {
        let format = Format {
            group: "kprobes".into(),
            event: "read".into(),
            returns: false,
            fields: Vec::new(),
            mirrors: false,
            in_program: false,
            stack: None,
        };
        let written = |most_kept: usize| {
            let mut out = Vec::new();
            let mut text = Box::new(Text::new(&mut out, true));
            text.most_kept = most_kept;
            for number in 0..10_000_u64 {
                let (cpu, turn) = ((number / 100 % 2) as u16, number / 200);
                // Both CPUs' lines have the same times, so every second run begins before the previous run's end.
                let time = (turn * 100 + number % 100) * 1000 / 3;
                let (comm, flags) = (*b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0", Flags::NONE);
                let header = Header { event: EventId(0), cpu, flags, pid: number as u32, comm, time, ip: number, return_ip: 0 };
                let record = Record { header, payload: Vec::new() };
                let seen =
                    Seen { record: &record, format: &format, events: &EventSet::default(), symbols: &|_| None, lines: None };
                assert!(text.record(&seen).is_ok());
            }
            let end = End {
                shown: 10_000,
                made: 10_003,
                time: 0,
                cpus: 2,
                unknown: &[],
                events: &EventSet::default(),
                symbols: &Vec::new,
            };
            assert!(text.finish(&end).is_ok());
            String::from_utf8(out).expect("text")
        };
        let (all, pieces) = (written(usize::MAX), written(5_000));
        assert!(all.contains("entries-in-buffer/entries-written: 10000/10003"), "{}", &all[..200]);
        assert!(all == pieces, "they differ");
    }
}
