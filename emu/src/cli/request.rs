//! A request for a run: the command line makes it, and the session carries it out.

use super::commands::{Chosen, Timed, View};
use super::console::Input;
use super::debug_files::DebugFiles;
use super::event_error::Event;
use super::guest::Guest;
use super::on_panic::OnPanicArg;
use super::record::NewRecording;
use super::tracing_script::Placed;
use super::{DetourName, PolicyName};
use crate::outputs::records::Format;
use clap::ValueEnum;
use std::collections::VecDeque;
use std::path::PathBuf;

/// A request for a run. All errors that can be found without booting have been reported.
#[derive(Debug)]
pub struct Request {
    /// The guest to run, with its limits.
    pub guest: Guest,
    /// The console input.
    pub input: Input,
    /// The file to record the run in.
    pub record: Option<NewRecording>,
    /// Whether a panic is explained.
    pub on_panic: OnPanicArg,
    /// The probes to register.
    pub probes: Wanted,
    /// The commands of `--at`, sorted by time.
    pub commands: VecDeque<Timed>,
    /// The records, the summary and the other outputs.
    pub outputs: Outputs,
}

/// The probes of a run.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The events to define, in order.
    pub events: Vec<Event>,
    /// The shell commands on tracing files, in order.
    pub script: Vec<Placed>,
    /// The rules that decide about probes.
    pub policy: PolicyName,
    /// Functions that must not be probed.
    pub blacklist: Vec<String>,
    /// Whether optimisation is forbidden.
    pub no_optimize: bool,
    /// The form of the detours.
    pub detour: DetourName,
}

/// The outputs of a run.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The files for records.
    pub out: Vec<PathBuf>,
    /// The format of the records.
    pub format: Format,
    /// Whether records have backtraces.
    pub stacktrace: bool,
    /// The file for a flame graph.
    pub flame: Option<PathBuf>,
    /// The file for the blocks of code that ran.
    pub coverage: Option<PathBuf>,
    /// The file for a report.
    pub report: Option<PathBuf>,
    /// The file for a core dump.
    pub vmcore: Option<PathBuf>,
    /// The event at whose first hit the core dump is made. `None`: it is made at the end.
    pub vmcore_at: Option<Chosen>,
    /// The debug information, for source lines in records, in coverage and on the command line of Ctrl-A c.
    pub lines: Option<DebugFiles>,
    /// Whether records have source lines.
    pub shows_lines: bool,
    /// The format of the summary.
    pub summary: SummaryFormat,
    /// The tracing files to print at the end.
    pub views: Vec<View>,
}

impl Outputs {
    /// Whether standard output carries JSON or records, which the guest's output must not mix with.
    pub fn takes_standard_output(&self) -> bool {
        let records = self.format != Format::Trace && self.out.is_empty();
        records || self.summary == SummaryFormat::Json
    }
}

/// The format of the summary
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// A table
    #[default]
    Table,
    /// A line of JSON
    Json,
    /// No summary
    None,
}
