//! Takes records out of the ring buffer and gives them to sinks, each with a file: [`Records`]. A [`Format`] makes the sink
//! of a file.

use super::csv::Csv;
use super::folded::{Form, Stacks};
use super::json::Json;
use super::kept::Kept;
use super::perfetto::Perfetto;
use super::report::Collected;
use super::text::Text;
use super::tracedat::TraceDat;
use super::{About, End, Lines, Seen, Sink};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use trapline_isa::arch::Isa;
use trapline_isa::mem::ByteOrder;
use trapline_probes::Engine;
use trapline_probes::events::places::Places;
use trapline_probes::events::set::EventSet;
use trapline_probes::events::trace;
use trapline_probes::events::watch;
use trapline_probes::guest::{Guest, Symbol};
use trapline_probes::records::Record;

/// The format of the records
// The program shows these sentences in its help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cpu", derive(clap::ValueEnum))]
pub enum Format {
    /// The format of ftrace's `trace` file
    #[default]
    Trace,
    /// A line of JSON for each record
    Json,
    /// Comma-separated values, with a column for each argument
    Csv,
    /// trace.dat, for trace-cmd and KernelShark
    Dat,
    /// Perfetto's format, for ui.perfetto.dev
    Perfetto,
    /// Backtraces as folded stacks, each with its number of records
    Folded,
    /// Backtraces as a flame graph (SVG)
    Flame,
}

/// File names whose ending names a format.
const ENDINGS: &[(&str, Format)] = &[
    ("dat", Format::Dat),
    ("perfetto", Format::Perfetto),
    ("pftrace", Format::Perfetto),
    ("perfetto-trace", Format::Perfetto),
    ("csv", Format::Csv),
    ("folded", Format::Folded),
    ("svg", Format::Flame),
];

impl Format {
    /// The format that the file's name asks for, otherwise this one.
    pub fn of_file(self, file: &Path) -> Format {
        let ending = file.extension().and_then(|ending| ending.to_str());
        ENDINGS.iter().find(|(name, _)| Some(*name) == ending).map_or(self, |(_, format)| *format)
    }

    /// Whether it shows nothing but backtraces.
    pub fn needs_stacks(self) -> bool {
        matches!(self, Format::Folded | Format::Flame)
    }

    /// Whether it cannot be printed on a terminal.
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Dat | Format::Perfetto)
    }

    fn sink(self, to: Box<dyn Write>, about: &About, has_file: bool) -> Box<dyn Sink> {
        let to = BufWriter::new(to);
        match self {
            Format::Trace => Box::new(Text::new(to, has_file)),
            Format::Json => Box::new(Json::new(to)),
            Format::Csv => Box::new(Csv::new(to)),
            Format::Dat => Box::new(TraceDat::new(to, about.clone())),
            Format::Perfetto => Box::new(Perfetto::new(to)),
            Format::Folded => Box::new(Stacks::new(to, Form::Folded)),
            Format::Flame => Box::new(Stacks::new(to, Form::Flame)),
        }
    }
}

/// An output that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file cannot be made.
    #[error("`{name}` cannot be written: {error}")]
    Create {
        /// The file's name.
        name: String,
        /// The reason.
        error: io::Error,
    },
    /// A file or its temporary files cannot be written any more.
    #[error("`{name}` cannot be written: {error}")]
    Write {
        /// The file's name.
        name: String,
        /// The reason.
        error: io::Error,
    },
    /// Standard output cannot be written.
    #[error("the output cannot be written: {0}")]
    Stdout(io::Error),
}

/// Takes records out of the ring buffer and writes them.
pub struct Records {
    outputs: Vec<Output>,
    /// A buffer for one record.
    record: Record,
    shown: u64,
    /// The ring buffer's count of dropped records when it was last emptied.
    dropped: u64,
    /// The newest records, if a file or a page needs them.
    kept: Option<Kept>,
    /// The text of the records since [`Records::take_live`], if it is shown during the run.
    live: Option<Live>,
    /// The records that a report shows. `None` without a report.
    report: Option<Box<Collected>>,
}

#[derive(Default)]
struct Live {
    places: Places,
    text: String,
}

struct Output {
    sink: Box<dyn Sink>,
    /// The file's name. Empty for standard output.
    name: String,
}

/// The facts about the guest that file formats need.
pub fn about(isa: &Isa, cpus: usize) -> About {
    About { word: isa.word, big_endian: isa.order == ByteOrder::Big, isa: isa.arch.name(), cpus }
}

/// Facts about a run that has ended.
pub struct Totals<'a> {
    /// All records that were made, including lost ones.
    pub made: u64,
    /// The number of CPUs.
    pub cpus: usize,
    /// The guest's time, in nanoseconds.
    pub time: u64,
    /// Columns that are not known on this kernel.
    pub unknown: &'a [&'a str],
    /// The events of the run.
    pub events: &'a EventSet,
}

impl Records {
    /// Writes to files, each in the format that its name asks for, or to standard output.
    pub fn new(format: Format, files: &[PathBuf], about: &About) -> Result<Records, OutputError> {
        let mut outputs =
            files.iter().map(|file| Output::file(format.of_file(file), file, about)).collect::<Result<Vec<_>, _>>()?;
        if outputs.is_empty() {
            outputs.push(Output { sink: format.sink(Box::new(io::stdout()), about, false), name: String::new() });
        }
        Ok(Records { outputs, record: Record::default(), shown: 0, dropped: 0, kept: None, live: None, report: None })
    }

    /// Writes to one more file.
    pub fn also(&mut self, format: Format, file: &Path, about: &About) -> Result<(), OutputError> {
        self.outputs.push(Output::file(format, file, about)?);
        Ok(())
    }

    /// Keeps the newest records from now on, for the files `trace` and `snapshot`.
    pub fn keep(&mut self) {
        self.kept.get_or_insert_with(Kept::default);
    }

    /// Collects for a report from now on.
    pub fn collect(&mut self) {
        self.report.get_or_insert_with(Box::default);
    }

    /// Takes the records that were collected for a report.
    pub fn take_collected(&mut self) -> Option<Box<Collected>> {
        self.report.take()
    }

    /// Makes a text of records as they come, or no longer. The other outputs get these records, too.
    pub fn set_live(&mut self, live: bool) {
        self.live = if live { self.live.take().or_else(|| Some(Live::default())) } else { None };
    }

    /// Takes the text of the records that came.
    pub fn take_live(&mut self) -> String {
        self.live.as_mut().map(|live| std::mem::take(&mut live.text)).unwrap_or_default()
    }

    /// Whether a text is made of records as they come.
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// The newest records. Empty unless [`Records::keep`] was called.
    pub fn kept(&mut self) -> &mut Option<Kept> {
        &mut self.kept
    }

    /// Takes all records out of the engine's ring buffer.
    pub fn take(&mut self, events: &EventSet, engine: &mut Engine, guest: &dyn Guest) -> Result<(), OutputError> {
        self.take_with(events, engine, guest, None)
    }

    /// Takes all records, and shows their source lines.
    pub fn take_with(
        &mut self,
        events: &EventSet,
        engine: &mut Engine,
        guest: &dyn Guest,
        lines: Option<Lines<'_>>,
    ) -> Result<(), OutputError> {
        let mut record = std::mem::take(&mut self.record);
        let symbols = |address| guest.symbol_at(address);
        while engine.records().pop_into(&mut record) {
            if record.header.event == watch::SNAPSHOT {
                if let Some(kept) = &mut self.kept {
                    kept.swap();
                }
                continue;
            }
            if let Some(kept) = &mut self.kept {
                kept.add(&record);
            }
            if let Some(format) = events.format(record.header.event) {
                self.shown += 1;
                if let Some(Live { places, text }) = &mut self.live {
                    trace::write(text, &record, format, places, &symbols);
                }
                let seen = Seen { record: &record, format, events, symbols: &symbols, lines };
                if let Some(report) = &mut self.report {
                    report.record(&seen);
                }
                for Output { sink, name } in &mut self.outputs {
                    sink.record(&seen).map_err(|error| failed(name, error))?;
                }
            }
        }
        self.record = record;
        // The ring drops new records while it is full, so the lost ones are younger than all that were in it.
        let lost = engine.records().dropped() - self.dropped;
        self.dropped += lost;
        if lost > 0 {
            if let Some(report) = &mut self.report {
                report.lost(lost);
            }
            for Output { sink, name } in &mut self.outputs {
                sink.lost(lost).map_err(|error| failed(name, error))?;
            }
        }
        Ok(())
    }

    /// Completes all outputs. Returns the number of records written.
    pub fn finish(self, run: &Totals<'_>, symbols: &dyn Fn() -> Vec<Symbol>) -> Result<u64, OutputError> {
        let Totals { made, cpus, time, unknown, events } = *run;
        let end = End { shown: self.shown, made, time, cpus, unknown, events, symbols };
        for Output { sink, name } in self.outputs {
            sink.finish(&end).map_err(|error| failed(&name, error))?;
        }
        Ok(self.shown)
    }
}

impl Output {
    fn file(format: Format, file: &Path, about: &About) -> Result<Output, OutputError> {
        let name = file.display().to_string();
        let to = File::create(file).map_err(|error| OutputError::Create { name: name.clone(), error })?;
        Ok(Output { sink: format.sink(Box::new(to), about, true), name })
    }
}

fn failed(name: &str, error: io::Error) -> OutputError {
    match name {
        "" => OutputError::Stdout(error),
        name => OutputError::Write { name: name.into(), error },
    }
}

#[cfg(test)]
mod tests {
    use super::Format;
    use std::path::Path;

    /// DV-4: the end of a file's name chooses the format, otherwise --format does.
    #[test]
    fn the_ending_of_a_file_chooses_its_format() {
        #[rustfmt::skip]
        let cases = [
            ("a.dat",             Format::Json,  Format::Dat),
            ("a.perfetto",        Format::Trace, Format::Perfetto),
            ("a.pftrace",         Format::Trace, Format::Perfetto),
            ("dir.dat/a.csv",     Format::Trace, Format::Csv),
            ("a.folded",          Format::Trace, Format::Folded),
            ("a.svg",             Format::Trace, Format::Flame),
            ("a.txt",             Format::Trace, Format::Trace),
            ("a.txt",             Format::Dat,   Format::Dat),
            ("dir.dat/a",         Format::Json,  Format::Json),
            ("dat",               Format::Json,  Format::Json),
        ];
        for (name, asked, expected) in cases {
            assert_eq!(asked.of_file(Path::new(name)), expected, "{name}");
        }
    }
}
