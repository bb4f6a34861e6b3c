//! The kernel's tracing files for probes: `kprobe_events`, `events/GROUP/EVENT/filter`, `trace` and so on. Reading and
//! writing them does what Linux does, with Linux's errors.

mod files;
mod log;
mod texts;

pub use files::Path;

use crate::outputs::kept::Kept;
use crate::outputs::tracedat::format_text;
use crate::probed::Session;
use log::Log;
use std::collections::BTreeMap;
use std::fmt;
use trapline_isa::mem::ByteOrder;
use trapline_probes::Errno;
use trapline_probes::events::hist::Lookup;
use trapline_probes::events::parse::{self, EventCommand};
use trapline_probes::events::places::Places;
use trapline_probes::events::set::{EventSet, Member};
use trapline_probes::events::trace;
use trapline_probes::events::triggers::TriggerError;
use trapline_probes::events::triggers::parse::COMMANDS;
use trapline_probes::records::EventId;

/// The number of the first event in the files `id` and `format`.
const FIRST_ID: u32 = trapline_probes::events::FIRST_TYPE;

/// The file `README`. Scripts look in it for what is supported, so it has the words of Linux's grammar.
const README: &str = "\
trapline's tracing files; docs/events.md describes them

kprobe_events: Create/append/remove/show the events of kernel probes
\t  p[:[<group>/][<event>]] <place> [<args>]
\t  r[maxactive][:[<group>/][<event>]] <place> [<args>]
\t  -:[<group>/][<event>]
\t    place: [<module>:]<symbol>[+<offset>]|<memaddr>
\t    place (kretprobe): [<module>:]<symbol>[+<offset>]%return|<memaddr>
\t     args: <name>=fetcharg[:type]
\t fetcharg: %<register>, @<address>, @<symbol>[+|-<offset>],
\t           $stack<index>, $stack, $retval, $comm, $arg<N>,
\t           +|-[u]<offset>(<fetcharg>), \\imm-value, \\\"imm-string\"
\t     type: s8/16/32/64, u8/16/32/64, x8/16/32/64, string, symbol,
\t           b<bit-width>@<bit-offset>/<container-size>, ustring,
\t           symstr, <type>\\[<array-size>\\]
events/<group>/<event>/filter: a condition on the fields; 0 removes it
events/<group>/<event>/trigger: traceon, traceoff, snapshot, stacktrace, enable_event,
\t           disable_event, enable_hist, disable_hist, hist
events/<group>/<event>/hist: the counts of hist triggers
";

/// The state of the files that is nowhere else.
#[derive(Debug, Default)]
pub struct Tracefs {
    log: Log,
    /// The texts of filters that were refused.
    refused_filters: BTreeMap<EventId, String>,
    /// The names of system calls, once they were needed.
    system_calls: Option<Vec<String>>,
    /// Events removed by writing, with their counts.
    removed: Vec<Member>,
}

/// The guest and the events that the files are about.
pub struct About<'a> {
    /// The guest.
    pub session: &'a mut Session,
    /// The events that the guest's probes belong to.
    pub events: &'a mut EventSet,
    /// The records of the files `trace` and `snapshot`.
    pub kept: &'a mut Kept,
}

/// A refused access to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The errno that Linux returns.
    pub errno: Errno,
    /// The reason, and what to write instead.
    pub why: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.errno.name(), self.why)
    }
}

impl std::error::Error for FileError {}

fn refused<T>(errno: Errno, why: impl Into<String>) -> Result<T, FileError> {
    Err(FileError { errno, why: why.into() })
}

fn no_file<T>(path: &str) -> Result<T, FileError> {
    let why = format!(
        "there is no file `{path}`: kprobe_events, kprobe_profile, tracing_on, trace, snapshot, error_log and events/ with \
         enable, filter, trigger, hist, format and id are there"
    );
    refused(Errno::ENOENT, why)
}

impl Tracefs {
    /// The probes that were removed by writing to `kprobe_events`, with their counts.
    pub fn take_removed(&mut self) -> Vec<Member> {
        std::mem::take(&mut self.removed)
    }

    /// Writes a text to a file. Without `appends` the file is emptied first, as the shell's `>` does.
    pub fn write(&mut self, about: &mut About<'_>, name: &str, text: &str, appends: bool) -> Result<(), FileError> {
        match Path::parse(name) {
            Some(Path::KprobeEvents) => {
                if !appends {
                    self.remove_all(about)?;
                }
                text.lines().try_for_each(|line| self.event_line(about, line))
            }
            Some(Path::TracingOn) => {
                let on = switch(text)?;
                about.session.with_engine(|engine, _| engine.records().switch(on));
                Ok(())
            }
            Some(Path::Trace) => {
                about.kept.clear();
                Ok(())
            }
            Some(Path::Snapshot) => match text.trim() {
                "" => Ok(()),
                "0" => {
                    about.kept.clear_snapshot(true);
                    Ok(())
                }
                "1" => {
                    about.kept.swap();
                    Ok(())
                }
                _ => {
                    about.kept.clear_snapshot(false);
                    Ok(())
                }
            },
            Some(Path::ErrorLog) => {
                self.log.clear();
                Ok(())
            }
            Some(Path::CurrentTracer) if text.trim() == "nop" => Ok(()),
            Some(Path::CurrentTracer) => refused(Errno::EINVAL, "there are no tracers here: nop is the only one"),
            Some(Path::ProbesEnabled) => {
                let on = switch(text)?;
                about.session.with_engine(|engine, guest| engine.set_enabled(guest, on));
                Ok(())
            }
            Some(Path::Enable { group, event }) => {
                let on = switch(text)?;
                let chosen = chosen(about.events, group, event, name)?;
                let events = &mut *about.events;
                about.session.with_engine(|engine, guest| {
                    chosen.into_iter().try_for_each(|event| {
                        let switched = events.enable(engine, guest, event, on);
                        switched.or_else(|refusal| refused(refusal.errno, refusal.to_string()))
                    })
                })
            }
            Some(Path::Filter { group, event }) => {
                let chosen = chosen(about.events, group, event, name)?;
                let written: Vec<_> = chosen.into_iter().map(|event| self.filter(about, event, text)).collect();
                // A group's filter is in force for those events that have its fields, and is refused if none has.
                if written.iter().any(Result::is_ok) { Ok(()) } else { written.into_iter().collect() }
            }
            Some(Path::Trigger { group, event }) => {
                let chosen = chosen(about.events, Some(group), Some(event), name)?;
                chosen.into_iter().try_for_each(|id| self.trigger(about, (id, group, event), text, appends))
            }
            Some(
                Path::Readme
                | Path::Profile
                | Path::Hist { .. }
                | Path::Format { .. }
                | Path::Id { .. }
                | Path::ProbesList
                | Path::Blacklist,
            ) => refused(Errno::EINVAL, format!("`{name}` can only be read")),
            None => no_file(name),
        }
    }

    /// Reads a file.
    pub fn read(&mut self, about: &mut About<'_>, name: &str) -> Result<String, FileError> {
        let text = match Path::parse(name) {
            Some(Path::KprobeEvents) => about.events.text(),
            Some(Path::Profile) => about.events.profile(),
            Some(Path::TracingOn) => {
                let on = about.session.with_engine(|engine, _| engine.records().is_on());
                format!("{}\n", u8::from(on))
            }
            Some(Path::Trace) => trace_text(about, false),
            Some(Path::Snapshot) if about.kept.has_snapshot() => trace_text(about, true),
            Some(Path::Snapshot) => {
                "# tracer: nop\n#\n# no snapshot was taken: the trigger `snapshot` or `echo 1 > snapshot` takes one\n".into()
            }
            Some(Path::ErrorLog) => self.log.text(),
            Some(Path::Readme) => README.into(),
            Some(Path::CurrentTracer) => "nop\n".into(),
            Some(Path::ProbesList) => about.session.with_engine(|engine, guest| engine.list(guest)),
            Some(Path::Blacklist) => about.session.with_engine(|engine, guest| engine.blacklist_view(guest)),
            Some(Path::ProbesEnabled) => return refused(Errno::EINVAL, format!("`{name}` can only be written here")),
            Some(Path::Enable { group, event }) => {
                let chosen = chosen(about.events, group, event, name)?;
                let states: Vec<&str> = chosen.iter().map(|id| about.events.enable_text(about.session.engine(), *id)).collect();
                let state = match states[..] {
                    [one] if event.is_some() => one,
                    [] => "?",
                    _ if states.iter().all(|state| state.starts_with('1')) => "1",
                    _ if states.iter().all(|state| state.starts_with('0')) => "0",
                    _ => "X",
                };
                format!("{state}\n")
            }
            Some(Path::Filter { event: None, .. }) => {
                "### global filter ###\n# Use this to set filters for multiple events.\n".into()
            }
            Some(Path::Filter { group, event }) => {
                let chosen = chosen(about.events, group, event, name)?;
                chosen.into_iter().map(|id| self.filter_text(about, id)).collect()
            }
            Some(Path::Trigger { group, event }) => {
                let id = one(about.events, group, event, name)?;
                let text = about.events.triggers_text(about.session.engine(), id);
                if text.is_empty() { format!("# Available triggers:\n# {COMMANDS}\n") } else { text }
            }
            Some(Path::Hist { group, event }) => {
                let id = one(about.events, group, event, name)?;
                self.hist_text(about, id)
            }
            Some(Path::Id { group, event }) => format!("{}\n", one(about.events, group, event, name)?.0 + FIRST_ID),
            Some(Path::Format { group, event }) => {
                let id = one(about.events, group, event, name)?;
                let isa = about.session.engine().isa();
                let number = u16::try_from(id.0 + FIRST_ID).unwrap_or(u16::MAX);
                about
                    .events
                    .format(id)
                    .map(|format| format_text(number, format, isa.order == ByteOrder::Big, isa.word))
                    .unwrap_or_default()
            }
            None => return no_file(name),
        };
        Ok(text)
    }

    /// The files and folders that exist, as paths.
    pub fn list(about: &About<'_>) -> Vec<String> {
        let files = [
            "kprobe_events",
            "kprobe_profile",
            "tracing_on",
            "trace",
            "snapshot",
            "error_log",
            "current_tracer",
            "README",
            "events/enable",
        ];
        let mut all: Vec<String> = files.iter().map(|file| (*file).into()).collect();
        for event in about.events.named(None, None) {
            let Some(format) = about.events.format(event) else { continue };
            let folder = format!("events/{}/{}", format.group, format.event);
            all.extend(["enable", "filter", "trigger", "hist", "format", "id"].iter().map(|file| format!("{folder}/{file}")));
            all.extend(["enable", "filter"].iter().map(|file| format!("events/{}/{file}", format.group)));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    fn remove_all(&mut self, about: &mut About<'_>) -> Result<(), FileError> {
        let events = &mut *about.events;
        if events.named(None, None).iter().any(|event| events.is_enabled(*event)) {
            return refused(Errno::EBUSY, "an event is enabled, or has triggers: disable it first, or append by >>");
        }
        self.removed.extend(events.members().cloned());
        about.session.with_engine(|engine, guest| events.clear(engine, guest));
        Ok(())
    }

    fn event_line(&mut self, about: &mut About<'_>, line: &str) -> Result<(), FileError> {
        let now = about.session.machine().now();
        let events = &mut *about.events;
        let done = match parse::line(line) {
            Ok(None) => return Ok(()),
            Ok(Some(command)) => {
                let removes = matches!(command, EventCommand::Remove(_));
                let done = about.session.with_engine(|engine, guest| events.carry_out(engine, guest, command));
                done.map(|applied| (removes, applied.removed))
            }
            Err(error) => Err(error),
        };
        match done {
            Ok((_, removed)) => {
                self.removed.extend(removed);
                Ok(())
            }
            Err(error) => {
                if let Some(text) = texts::of_event(error.code) {
                    self.log.add(
                        now,
                        "trace_kprobe",
                        text,
                        line.trim(),
                        error.column.saturating_sub(line.len() - line.trim_start().len()),
                    );
                }
                refused(error.errno, format!("`{}`, column {}: {}", line.trim(), error.column + 1, error.message))
            }
        }
    }

    fn filter(&mut self, about: &mut About<'_>, event: EventId, text: &str) -> Result<(), FileError> {
        let now = about.session.machine().now();
        self.refused_filters.remove(&event);
        let events = &mut *about.events;
        let written = about.session.with_engine(|engine, _| events.write_filter(engine, event, text));
        written.or_else(|error| {
            let text = text.trim();
            let shown = match texts::of_filter(error.code) {
                Some(why) => {
                    self.log.add(now, "event filter parse error", why, text, error.at.min(text.len()));
                    let at = error.at.min(text.len());
                    format!("{text}\n{}^\nparse_error: {why}\n", " ".repeat(at))
                }
                None => format!("{text}\nError: (0)\n"),
            };
            self.refused_filters.insert(event, shown);
            refused(Errno::EINVAL, format!("`{text}`, column {}: {}", error.at + 1, error.code.why()))
        })
    }

    fn filter_text(&self, about: &About<'_>, event: EventId) -> String {
        match (self.refused_filters.get(&event), about.events.filter_text(about.session.engine(), event)) {
            (Some(refused), _) => format!("{refused}\n"),
            (None, Some(text)) => format!("{text}\n"),
            (None, None) => "none\n".into(),
        }
    }

    /// Writes an event's file `trigger`. Opening it without appending removes the histograms and keeps other triggers. Errors of
    /// Linux's grammar also go to the file `error_log`.
    fn trigger(
        &mut self,
        about: &mut About<'_>,
        (event, group, name): (EventId, &str, &str),
        text: &str,
        appends: bool,
    ) -> Result<(), FileError> {
        let now = about.session.machine().now();
        let events = &mut *about.events;
        let stacks = about.session.stacks();
        let text = text.trim();
        let written = about.session.with_engine(|engine, guest| {
            events.stacks_for_triggers(engine, stacks);
            if !appends {
                events.clear_hists(engine, guest, event)?;
            }
            match text {
                "" => Ok(()),
                text => events.write_trigger(engine, guest, event, text),
            }
        });
        written.or_else(|error| {
            match &error {
                TriggerError::Hist(hist) => {
                    if let Some(why) = texts::of_hist(hist.code) {
                        let at = text.find(&hist.about).filter(|_| !hist.about.is_empty()).unwrap_or(0);
                        self.log.add(now, &format!("hist:{group}:{name}"), why, text.trim_start_matches('!'), at);
                    }
                }
                TriggerError::Filter { text, error } => {
                    if let Some(why) = texts::of_filter(error.code) {
                        self.log.add(now, "event filter parse error", why, text, error.at.min(text.len()));
                    }
                }
                TriggerError::Refused(..) => {}
            }
            refused(error.errno(), format!("`{text}`: {error}"))
        })
    }

    fn hist_text(&mut self, about: &mut About<'_>, event: EventId) -> String {
        let names = self.system_calls.get_or_insert_with(|| crate::boot::system_calls::names(about.session.kernel()));
        let name = |number: u64| {
            let name = names.get(usize::try_from(number).ok()?).filter(|name| !name.is_empty())?;
            Some(format!("sys_{name}"))
        };
        let events = &*about.events;
        about.session.with_engine(|engine, guest| {
            let symbols = |address| guest.symbol_at(address);
            events.hist_text(engine, event, &Lookup { symbols: &symbols, system_call: &name })
        })
    }
}

/// A file's `0` or `1`.
fn switch(text: &str) -> Result<bool, FileError> {
    match text.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        other => refused(Errno::EINVAL, format!("`{other}`: write 0 or 1")),
    }
}

/// The events of a path, at least one if it names one.
fn chosen(events: &EventSet, group: Option<&str>, event: Option<&str>, path: &str) -> Result<Vec<EventId>, FileError> {
    let chosen = events.named(group, event);
    if chosen.is_empty() && group.is_some() { no_file(path) } else { Ok(chosen) }
}

fn one(events: &EventSet, group: &str, event: &str, path: &str) -> Result<EventId, FileError> {
    events.find(group, event).map_or_else(|| no_file(path), Ok)
}

fn trace_text(about: &mut About<'_>, of_snapshot: bool) -> String {
    let unknown = if about.session.kernel().is_stock() { about.session.machine().unknown_columns() } else { Vec::new() };
    let (records, made) = about.kept.records(of_snapshot);
    let events = &*about.events;
    about.session.with_engine(|engine, guest| {
        let lost = engine.records().dropped();
        let mut text = trace::header(records.len() as u64, made + lost, guest.cpus(), &unknown);
        let symbols = |address| guest.symbol_at(address);
        let mut places = Places::default();
        for record in records {
            if let Some(format) = events.format(record.header.event) {
                trace::write(&mut text, record, format, &mut places, &symbols);
            }
        }
        text
    })
}
