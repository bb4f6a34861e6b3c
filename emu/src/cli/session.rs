//! Carries out a run from its request to its summary: boots, defines the events, runs the guest, prints its console,
//! the records and the summary.

use super::ask::{self, Asker};
use super::commands::{self, Command, Timed};
use super::console::{Console, Input};
use super::coverage::CoverageFile;
use super::driver::{Driver, Shown, Work};
use super::end::End;
use super::guest::Guest;
use super::page::PageFile;
use super::pane::{Pane, Reading};
use super::probe_row::row;
use super::record::NewRecording;
use super::request::{Outputs, Request, SummaryFormat, Wanted};
use super::run_events::RunEvents;
use super::source_lines::SourceLines;
use super::summary::{Count, FollowedCalls, ProbeRow, Summary, TextWork};
use super::terminal::{GREETING, Typed};
use super::tracing_script::TracingScript;
use super::vmcore::VmcoreFile;
use super::{Failure, output, record, report};
use crate::history::tape::Tape;
use crate::outputs::Lines;
use crate::outputs::kept::Kept;
use crate::outputs::records::{self, Format, Records};
use crate::probed::Session;
use crate::tracefs::About;
use std::collections::VecDeque;
use std::time::Instant;
use trapline_probes::events::set::{EventSet, Member};

mod asking;

/// Nanoseconds of guest time after which records and console output are taken. Even a probe on every instruction does
/// not fill the ring buffer in that time.
const SLICE: u64 = 10_000;

/// The slice of guest time, in nanoseconds, for a run without events.
const QUIET_SLICE: u64 = 2_000_000;

/// The number of lines of the engine's log that the summary keeps. All lines are printed when they come.
const MOST_LOGGED: usize = 1000;

/// Carries out a request.
pub fn run(request: Request) -> Result<(), Failure> {
    let Request { guest, input, record, on_panic, probes, commands, outputs } = request;
    let policy = probes.policy.on(guest.kernel.arch)?;
    let booted = guest.snapshot()?;
    if input == Input::Terminal {
        eprintln!("{GREETING}");
    }
    // Taken before the machine is made, so that no key is lost. `Terminal`'s drop gives the terminal back before an
    // error is printed.
    let console = Console::open(&input)?;
    let mut session = guest.session(policy, outputs.coverage.is_some(), booted.as_ref())?;
    let mut tape = record::tape(record.as_ref(), &guest, booted.as_ref(), session.machine())?;
    on_panic.prepare(&mut tape);
    drop(booted);
    if guest.kernel.is_stock() && !probes.events.is_empty() {
        report::say_what_is_unknown(&session.machine().unknown_columns());
    }
    if let Input::Text(text) = &input {
        tape.keys(text);
        tape.input_ends();
    }
    settle(&mut session, &probes)?;
    let (mut driver, end, refused) = carry_on(Started { guest: &guest, session, tape, console }, probes, commands, outputs)?;
    on_panic.report(&driver.session, &mut driver.tape, &guest, record.as_ref().map(NewRecording::path))?;
    driver.with_pulled(end.result(refused, driver.session.machine().board_name()))
}

/// Repeats a recorded run with the commands that were typed on trapline's own command line.
pub fn again(guest: &Guest, session: Session, tape: Tape) -> Result<(Driver, End), Failure> {
    let console = Console::open(&Input::Nothing)?;
    let started = Started { guest, session, tape, console };
    let outputs = Outputs { summary: SummaryFormat::None, ..Outputs::default() };
    let (driver, end, _) = carry_on(started, Wanted::default(), VecDeque::new(), outputs)?;
    Ok((driver, end))
}

/// A guest that can run.
struct Started<'g> {
    guest: &'g Guest,
    session: Session,
    tape: Tape,
    console: Console,
}

/// Defines the events and runs the guest to its end. Returns the number of refused commands, too.
fn carry_on(
    Started { guest, mut session, tape, console }: Started<'_>,
    probes: Wanted,
    commands: VecDeque<Timed>,
    mut outputs: Outputs,
) -> Result<(Driver, End, usize), Failure> {
    let takes_commands = console.has_terminal() || tape.is_again();
    let about = records::about(guest.kernel.arch.isa(), guest.cpus);
    let mut records = Records::new(outputs.format, &outputs.out, &about)?;
    if let Some(file) = &outputs.flame {
        records.also(Format::Flame, file, &about)?;
    }
    // The file is taken out, since its lines are borrowed while `outputs` moves.
    let debug_file = outputs.lines.take();
    let lines = debug_file.as_ref().map(SourceLines::new).transpose()?;
    let coverage = outputs.coverage.as_deref().map(CoverageFile::new).transpose()?;
    let page = outputs.report.as_deref().map(PageFile::new).transpose()?;
    if page.is_some() {
        records.collect();
    }
    let mut vmcore = outputs.vmcore.as_deref().map(VmcoreFile::new).transpose()?;
    session.stop_at_modules(true);
    let script = TracingScript::new(probes.script);
    let mut events = RunEvents::define(&mut session, &probes.events, outputs.stacktrace)?;
    if let (Some(file), Some(event)) = (&mut vmcore, &outputs.vmcore_at) {
        file.wait_for(event, &mut session, &mut events.set)?;
    }
    if script.next() < u64::MAX {
        let stacks = session.stacks();
        session.with_engine(|engine, _| events.set.stacks_for_triggers(engine, stacks));
    }
    if script.needs_records() || takes_commands {
        records.keep();
    }
    session.time_hits();
    let shown = if outputs.takes_standard_output() { Shown::Errors } else { Shown::Output };
    let mut driver = Driver::new(session, tape, guest, shown).pulling(guest)?;
    let mut run = Run {
        console,
        events,
        records,
        commands,
        script,
        pane: None,
        reading: Reading::default(),
        asker: None,
        outputs,
        removed: Vec::new(),
        log: Vec::new(),
        refused: 0,
        coverage,
        vmcore,
        lines: lines.as_ref(),
        page,
        shown,
    };
    let started = Instant::now();
    let end = driver.run(&mut run)?;
    let host_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    run.run_script(&mut driver.session, true)?;
    let refused = run.refused + run.events.refused + run.script.refused;
    run.finish(&mut driver.session, guest, &end, host_ns)?;
    Ok((driver, end, refused))
}

/// The texts of the histograms of all events, each with its event.
fn histograms(script: &mut TracingScript, session: &mut Session, events: &mut EventSet) -> Vec<(String, String)> {
    let names: Vec<String> = events.members().map(|member| format!("{}/{}", member.group(), member.name())).collect();
    let mut kept = Kept::default();
    let mut about = About { session, events, kept: &mut kept };
    let mut texts: Vec<(String, String)> = Vec::new();
    for name in names {
        let text = script.files.read(&mut about, &format!("events/{name}/hist")).unwrap_or_default();
        if text.contains("trigger info") && texts.iter().all(|(known, _)| *known != name) {
            texts.push((name, text));
        }
    }
    texts
}

/// Makes the settings of the engine that hold for all probes.
fn settle(session: &mut Session, probes: &Wanted) -> Result<(), Failure> {
    session.with_engine(|engine, guest| {
        if probes.no_optimize {
            engine.set_optimization(guest, false);
        }
        let form = engine.set_detour_form(guest, probes.detour.into());
        form.map_err(|refusal| Failure::failed(format!("--detour: {refusal}")))?;
        for name in &probes.blacklist {
            if let Some(symbol) = guest.symbol(name) {
                engine.blacklist_add(symbol.start..symbol.start + symbol.size, symbol.name);
            }
        }
        Ok(())
    })
}

struct Run<'l> {
    console: Console,
    events: RunEvents,
    records: Records,
    commands: VecDeque<Timed>,
    script: TracingScript,
    /// The pane that shows records as they come, on a terminal that has room.
    pane: Option<Pane>,
    /// Whether the console is between whole control sequences of the guest, where the pane may be drawn.
    reading: Reading,
    /// The command line, once it was opened.
    asker: Option<Asker>,
    outputs: Outputs,
    /// Probes that were removed during the run, with their counts.
    removed: Vec<Member>,
    /// The first lines of the engine's log, for the summary.
    log: Vec<String>,
    /// The number of commands that failed.
    refused: usize,
    coverage: Option<CoverageFile>,
    /// The core dump, until it is written.
    vmcore: Option<VmcoreFile>,
    lines: Option<&'l SourceLines<'l>>,
    /// The report's page.
    page: Option<PageFile>,
    /// The destination of text for people.
    shown: Shown,
}

impl Work for Run<'_> {
    fn slice(&self) -> u64 {
        if self.events.set.members().len() == 0 { QUIET_SLICE } else { SLICE }
    }

    fn is_unprobed(&self) -> bool {
        self.events.set.members().len() == 0 && self.removed.is_empty()
    }

    fn next(&self) -> u64 {
        self.commands.front().map_or(u64::MAX, |command| command.at).min(self.script.next())
    }

    fn before(&mut self, session: &mut Session, tape: &mut Tape) -> Result<Option<End>, Failure> {
        match self.console.typed(session.machine().now()) {
            Typed::Keys(keys) => tape.keys(&keys),
            Typed::Leave => return Ok(Some(End::Left)),
            Typed::Wants(wish) => return self.grant(wish, session, tape),
        }
        Ok(None)
    }

    fn heard(&mut self, console: &[u8]) {
        self.reading = self.reading.follow(console);
    }

    fn repeat(&mut self, session: &mut Session, command: &str) -> Result<(), Failure> {
        self.with_asked(session, |asked, _| ask::repeat(command, asked))
    }

    fn take(&mut self, session: &mut Session) -> Result<(), Failure> {
        let (events, records, log) = (&self.events.set, &mut self.records, &mut self.log);
        let text = self.lines.filter(|_| self.outputs.shows_lines).map(|lines| |address| lines.text(address));
        let text = text.as_ref().map(|text| text as Lines<'_>);
        session.with_engine(|engine, guest| {
            for line in engine.take_log_lines() {
                eprintln!("engine: {line}");
                if log.len() < MOST_LOGGED {
                    log.push(line);
                }
            }
            records.take_with(events, engine, guest, text)
        })?;
        self.show_live()?;
        if let Some(file) = self.vmcore.take_if(|file| file.is_due(session, &mut self.events.set)) {
            file.write(session)?;
        }
        Ok(())
    }

    fn module_came(&mut self, session: &mut Session) {
        if let Some(lines) = self.lines {
            lines.modules_are_those_of(session);
        }
        self.events.module_came(session);
        session.time_hits();
    }

    /// Carries out the commands of `--at` whose time has come, before the guest continues.
    fn carry_out_due(&mut self, session: &mut Session) -> Result<(), Failure> {
        self.run_script(session, false)?;
        let now = session.machine().now();
        while self.commands.front().is_some_and(|command| command.at <= now)
            && let Some(Timed { text, command, .. }) = self.commands.pop_front()
        {
            match commands::carry_out(&command, session, &mut self.events.set) {
                Ok(done) => {
                    self.removed.extend(done.removed);
                    self.shown.print(done.text.as_bytes())?;
                }
                Err(failure) => {
                    eprint!("{}", failure.render(output::Paint::for_errors()));
                    eprintln!("{} `{text}` was not done", output::Paint::for_errors().error("error:"));
                    self.refused += 1;
                }
            }
            if let Command::Event(_) = command {
                self.events.note_armed(session);
                session.time_hits();
            }
        }
        Ok(())
    }
}

impl Run<'_> {
    /// Carries out the shell commands that are due.
    fn run_script(&mut self, session: &mut Session, is_end: bool) -> Result<(), Failure> {
        let now = session.machine().now();
        if self.script.next() > now && !is_end {
            return Ok(());
        }
        let mut none = Kept::default();
        let kept = self.records.kept().as_mut().unwrap_or(&mut none);
        let text = self.script.carry_out(&mut About { session, events: &mut self.events.set, kept }, now, is_end);
        self.removed.extend(self.script.files.take_removed());
        if is_end && self.script.left() > 0 {
            let note = output::Paint::for_errors().advice("note:");
            eprintln!("{note} the run ended before {} commands of the event file", self.script.left());
        }
        self.events.note_armed(session);
        session.time_hits();
        self.shown.print(text.as_bytes())
    }

    fn finish(mut self, session: &mut Session, guest: &Guest, end: &End, host_ns: u64) -> Result<(), Failure> {
        // The terminal is given back before the summary is printed.
        drop(self.pane);
        drop(self.console);
        session.compare_watched();
        let texts = if self.page.is_some() { histograms(&mut self.script, session, &mut self.events.set) } else { Vec::new() };
        let collected = self.records.take_collected();
        let virtual_ns = session.machine().now();
        for missed in std::mem::take(&mut self.commands) {
            let note = output::Paint::for_errors().advice("note:");
            eprintln!("{note} the run ended before the time of `{}`", missed.text);
        }
        let (events, armed, removed, views) = (&self.events.set, &self.events.armed, &self.removed, &self.outputs.views);
        let (probes, shown, dropped, written) = session.with_engine(|engine, guest| {
            let summaries = engine.summary(guest);
            let gone = removed.iter().map(|member| {
                let (address, row) = row(member, armed, &[]);
                (address, ProbeRow { mode: "removed".into(), ..row })
            });
            let rows: Vec<(Option<u64>, ProbeRow)> =
                events.members().map(|member| row(member, armed, &summaries)).chain(gone).collect();
            let shown: String = views.iter().map(|view| commands::show(*view, events, engine, guest)).collect();
            (rows, shown, engine.records().dropped(), engine.records().written())
        });
        let lines = self.lines.filter(|_| self.outputs.shows_lines);
        let source = |address| Some(lines?.text(address)).filter(|source: &String| !source.is_empty());
        let with_time = |(address, row): (Option<u64>, ProbeRow)| ProbeRow {
            ns_per_hit: address.and_then(|address| session.host_ns_per_hit(address)),
            source: address.and_then(source),
            ..row
        };
        let probes = probes.into_iter().map(with_time).collect();
        let counts = session.engine().counts();
        let unknown = if guest.kernel.is_stock() { session.machine().unknown_columns() } else { Vec::new() };
        let symbols = || session.symbols();
        let run = records::Totals { made: written + dropped, cpus: guest.cpus, time: virtual_ns, unknown: &unknown, events };
        let records = self.records.finish(&run, &symbols)?;
        if let Some(file) = self.coverage {
            file.write(session, self.lines)?;
        }
        if let Some(file) = self.vmcore {
            file.end(session)?;
        }
        let losses = vec![
            Count::new("records lost because the ring buffer was full", dropped),
            Count::new("returns that belonged to no followed call", counts.mismatched_returns),
            Count::new("followed calls left without a return", counts.left_behind),
            Count::new("lines of the engine's log lost", counts.lost_lines),
            Count::new("interrupted instructions counted as two hits", counts.forgotten),
        ];
        let work = session.text_work().iter();
        let text_work = work
            .map(|(function, done)| TextWork { function: (*function).into(), times: done.times, virtual_ns: done.nanoseconds })
            .collect();
        let calls = FollowedCalls::of(session.engine().calls());
        let summary =
            Summary { ended: end.reason(), virtual_ns, host_ns, probes, records, calls, losses, log: self.log, text_work };
        if let (Some(page), Some(collected)) = (self.page, collected) {
            page.write((guest, session.machine().board_name()), &summary, texts, &collected)?;
        }
        let mut text = shown;
        text += &match self.outputs.summary {
            SummaryFormat::Table => format!("\n{}", summary.render(output::Paint::for_output())),
            SummaryFormat::Json => output::json_line(&summary)?,
            SummaryFormat::None => String::new(),
        };
        output::emit(&text)?;
        if end.wants_report() {
            eprint!(
                "\n{}",
                report::render_with_lines(&session.report(), &|address| self
                    .lines
                    .map(|lines| lines.text(address))
                    .unwrap_or_default())
            );
        }
        Ok(())
    }
}
