//! The parsed and checked request for a run: the command line makes it, and the session carries it out.

use super::commands::{Timed, View};
use super::console::Input;
use super::event_error::Event;
use super::stock_guest::Typed;
use super::{DetourName, PolicyName};
use crate::boot::Kernel;
use crate::boot::whole::Whole;
use crate::outputs::records::Format;
use clap::ValueEnum;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

/// A request for a run. All errors that can be found without booting have been reported.
#[derive(Debug)]
pub struct Request {
    /// The image's name, for messages.
    pub name: String,
    /// The kernel to boot.
    pub kernel: Kernel,
    /// The kernel's command line.
    pub command_line: String,
    /// The initial file system.
    pub initrd: Option<Arc<[u8]>>,
    /// The self-extracting image, if the kernel shall unpack itself in the guest.
    pub whole: Option<Arc<Whole>>,
    /// If set, the run starts from a booted guest, at whose shell this is typed.
    pub from_boot: Option<Typed>,
    /// The name of the CPU model.
    pub cpu: Option<String>,
    /// The number of CPUs.
    pub cpus: usize,
    /// The console input.
    pub input: Input,
    /// The events to define, in order.
    pub events: Vec<Event>,
    /// The guest time in nanoseconds at which to stop.
    pub time_limit: Option<u64>,
    /// A console text at which to stop.
    pub console_text: Option<String>,
    /// The file for records.
    pub out: Vec<PathBuf>,
    /// The file for a flame graph.
    pub flame: Option<PathBuf>,
    /// The file for the blocks of code that ran.
    pub coverage: Option<PathBuf>,
    /// Whether records have backtraces.
    pub stacktrace: bool,
    /// The format of the records.
    pub format: Format,
    /// The format of the summary.
    pub summary: SummaryFormat,
    /// The rules that decide about probes.
    pub policy: PolicyName,
    /// The commands of `--at`, sorted by time.
    pub commands: VecDeque<Timed>,
    /// The files to show at the end.
    pub views: Vec<View>,
    /// Functions that must not be probed.
    pub blacklist: Vec<String>,
    /// Whether optimisation is forbidden.
    pub no_optimize: bool,
    /// The form of the detours.
    pub detour: DetourName,
    /// Whether to hide the console.
    pub quiet: bool,
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
