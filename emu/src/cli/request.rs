//! A run that is asked for, as whoever asks says it and the session reads it.

use super::commands::{Timed, View};
use super::console::Input;
use super::event_error::Event;
use super::records::Format;
use super::stock_guest::Typed;
use super::{DetourName, PolicyName};
use crate::boot::Kernel;
use crate::boot::whole::Whole;
use clap::ValueEnum;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

/// A run that is asked for; everything that can be wrong without booting has been found.
#[derive(Debug)]
pub struct Request {
    /// What people call it.
    pub name: String,
    /// What boots.
    pub kernel: Kernel,
    /// Its command line.
    pub command_line: String,
    /// Its initial file system.
    pub initrd: Option<Arc<[u8]>>,
    /// The file that unpacks itself in the guest, if it is to.
    pub whole: Option<Arc<Whole>>,
    /// It has booted already, and this is typed at its shell.
    pub from_boot: Option<Typed>,
    /// Which CPU the guest finds.
    pub cpu: Option<String>,
    /// CPUs of the machine.
    pub cpus: usize,
    /// What is typed on its console.
    pub input: Input,
    /// What to probe, in order.
    pub events: Vec<Event>,
    /// The earliest guest time at which to stop, in nanoseconds.
    pub time_limit: Option<u64>,
    /// A text of the console to stop at.
    pub console_text: Option<String>,
    /// Where records go.
    pub out: Option<PathBuf>,
    /// Records are of the calls that led to a hit, too.
    pub stacktrace: bool,
    /// How records are written.
    pub format: Format,
    /// How the summary is written.
    pub summary: SummaryFormat,
    /// Whose decisions to make.
    pub policy: PolicyName,
    /// What is done with the probes on the way, in the order of time.
    pub commands: VecDeque<Timed>,
    /// What is printed at the end.
    pub views: Vec<View>,
    /// Functions that must not be probed.
    pub blacklist: Vec<String>,
    /// No jumps.
    pub no_optimize: bool,
    /// What detours do.
    pub detour: DetourName,
    /// No console.
    pub quiet: bool,
}

/// How the summary is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// A table
    #[default]
    Table,
    /// A line of JSON
    Json,
    /// Not at all
    None,
}
