//! Carries out a run from its request to its summary: boots, defines the events, runs the guest, prints its console,
//! the records and the summary.

use super::commands::{self, Command, Timed};
use super::console::{Console, Input};
use super::coverage::CoverageFile;
use super::end::End;
use super::last_words::{self, LastWords};
use super::probe_row::{Armed, row};
use super::request::{Request, SummaryFormat};
use super::summary::{Count, ProbeRow, Summary, TextWork};
use super::terminal::{GREETING, Typed};
use super::typist::Typist;
use super::{Failure, from_boot, output, report};
use crate::machine::{Config, Stop};
use crate::outputs::records::{self, Format, Records};
use crate::probed::Session;
use std::io::{self, Write};
use std::time::Instant;
use trapline_probes::events::set::{Attached, EventSet, Member};

/// Nanoseconds of guest time after which records and console output are taken. Even a probe on every instruction does
/// not fill the ring buffer in that time.
const SLICE: u64 = 10_000;

/// The slice of guest time, in nanoseconds, for a run without events.
const QUIET_SLICE: u64 = 2_000_000;

/// The number of lines of the engine's log that the summary keeps. All lines are printed when they come.
const MOST_LOGGED: usize = 1000;

/// Carries out a request.
pub fn run(request: Request) -> Result<(), Failure> {
    let config = Config {
        cpus: request.cpus,
        command_line: request.command_line.clone(),
        initrd: request.initrd.clone(),
        cpu: request.cpu.clone(),
        whole: request.whole.clone(),
        coverage: request.coverage.is_some(),
        ..Config::default()
    };
    let (kernel, policy) = (request.kernel.clone(), request.policy.on(request.kernel.arch)?);
    let booted = match &request.from_boot {
        Some(_) => Some(from_boot::fetch(&request.name, &kernel, &Config { coverage: false, ..config.clone() }, !request.quiet)?),
        None => None,
    };
    if request.input == Input::Terminal {
        eprintln!("{GREETING}");
    }
    // Taken before the machine is made, so that no key is lost. `Terminal`'s drop gives the terminal back before an
    // error is printed.
    let console = Console::open(&request.input)?;
    if request.whole.is_some() && booted.is_none() {
        eprintln!(
            "{} the kernel unpacks itself in the guest; the first words come after that",
            output::Paint::for_errors().advice("note:")
        );
    }
    let session = match &booted {
        None => Session::with_policy(kernel, &config, policy),
        Some(snapshot) => Session::from_snapshot(kernel, &config, policy, snapshot),
    };
    let typist = request.from_boot.as_ref().map(|typed| Typist::new(typed.load, typed.script.as_deref()));
    let mut session = session.map_err(|error| Failure::failed(format!("the machine cannot be made: {error}")))?;
    if request.kernel.is_stock() && !request.events.is_empty() {
        report::say_what_is_unknown(&session.machine().unknown_columns());
    }
    if let Input::Text(text) = &request.input {
        session.machine_mut().console_input(text);
        session.machine_mut().console_input_ends();
    }
    let about = records::about(request.kernel.arch.isa(), request.cpus);
    let mut records = Records::new(request.format, &request.out, &about)?;
    if let Some(file) = &request.flame {
        records.also(Format::Flame, file, &about)?;
    }
    let coverage = request.coverage.as_deref().map(CoverageFile::new).transpose()?;
    let mut run = Run {
        session,
        events: EventSet::default(),
        records,
        request,
        typist,
        last_words: LastWords::default(),
        removed: Vec::new(),
        log: Vec::new(),
        refused: 0,
        armed: Armed::new(),
        coverage,
    };
    run.session.stop_at_modules(true);
    if run.request.stacktrace {
        run.events.leave_stacks(run.session.stacks());
    }
    run.attach()?;
    run.session.time_hits();
    let started = Instant::now();
    let end = run.until_the_end(console)?;
    let host_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (refused, board) = (run.refused, run.session.machine().board_name());
    run.finish(&end, host_ns)?;
    end.result(refused, board)
}

struct Run {
    session: Session,
    events: EventSet,
    records: Records,
    request: Request,
    typist: Option<Typist>,
    last_words: LastWords,
    /// Probes that were removed during the run, with their counts.
    removed: Vec<Member>,
    /// The first lines of the engine's log, for the summary.
    log: Vec<String>,
    /// The number of module probes and commands that failed.
    refused: usize,
    armed: Armed,
    coverage: Option<CoverageFile>,
}

impl Run {
    fn attach(&mut self) -> Result<(), Failure> {
        let (events, request) = (&mut self.events, &self.request);
        self.session.with_engine(|engine, guest| {
            if request.no_optimize {
                engine.set_optimization(guest, false);
            }
            let form = engine.set_detour_form(guest, request.detour.into());
            form.map_err(|refusal| Failure::failed(format!("--detour: {refusal}")))?;
            for name in &request.blacklist {
                if let Some(symbol) = guest.symbol(name) {
                    engine.blacklist_add(symbol.start..symbol.start + symbol.size, symbol.name);
                }
            }
            for event in &request.events {
                events.carry_out(engine, guest, event.line.clone()).map_err(|error| event.failed(&error))?;
            }
            events
                .enable_all(engine, guest, true)
                .map_err(|refusal| Failure::failed(format!("a probe cannot be enabled: {refusal}")))
        })?;
        self.note_armed();
        Ok(())
    }

    fn note_armed(&mut self) {
        let now = self.session.machine().now();
        for member in self.events.members().filter(|member| !matches!(member.probe, Attached::Pending)) {
            self.armed.entry((member.group().into(), member.name().into())).or_insert(now);
        }
    }

    /// Called when a module's init function is about to run: registers the probes that waited for the module.
    fn attach_to_modules(&mut self) {
        let events = &mut self.events;
        let refused = self.session.with_engine(|engine, guest| events.module_came(engine, guest));
        self.session.time_hits();
        self.note_armed();
        for (event, error) in refused {
            let name = self.events.format(event).map_or("?", |format| &format.event);
            eprintln!("{} the probe {name} cannot be made: {error}", output::Paint::for_errors().error("error:"));
            self.refused += 1;
        }
    }

    /// Runs in slices, so that no record waits long in the ring buffer. The places where a run stops do not change the
    /// guest's behaviour.
    fn until_the_end(&mut self, mut console: Console) -> Result<End, Failure> {
        let limit = self.request.time_limit.unwrap_or(u64::MAX);
        self.session.machine_mut().stop_at_console_text(self.request.console_text.as_deref());
        self.carry_out_due()?;
        loop {
            let slice = if self.events.members().len() == 0 { QUIET_SLICE } else { SLICE };
            match console.typed(self.session.machine().now()) {
                Typed::Keys(keys) => self.session.machine_mut().console_input(&keys),
                Typed::Leave => return Ok(End::Left),
            }
            if let Some(typist) = &mut self.typist {
                typist.look(self.session.machine_mut());
            }
            let next = self.request.commands.front().map_or(u64::MAX, |command| command.at);
            let slice_end = self.session.machine().now().saturating_add(slice).min(limit).min(next);
            let stop = self.session.run_until(slice_end);
            self.show_console()?;
            self.take_records()?;
            if stop == Stop::Attention {
                self.attach_to_modules();
                continue;
            }
            self.carry_out_due()?;
            if stop == Stop::Limit && self.is_silent() {
                return Ok(End::Silent);
            }
            if stop != Stop::Limit || slice_end == limit {
                return Ok(End::of(stop, &self.last_words));
            }
        }
    }

    /// Whether to give up on a stock kernel that printed nothing, unless the user set a time limit.
    fn is_silent(&self) -> bool {
        let may_be = self.request.kernel.is_stock() && self.request.time_limit.is_none() && self.request.from_boot.is_none();
        may_be && self.last_words.are_none() && self.session.machine().now() >= last_words::LONGEST_SILENCE
    }

    /// Carries out the commands of `--at` whose time has come, before the guest continues.
    fn carry_out_due(&mut self) -> Result<(), Failure> {
        let now = self.session.machine().now();
        while self.request.commands.front().is_some_and(|command| command.at <= now)
            && let Some(Timed { text, command, .. }) = self.request.commands.pop_front()
        {
            match commands::carry_out(&command, &mut self.session, &mut self.events) {
                Ok(done) => {
                    self.removed.extend(done.removed);
                    self.print(&done.text)?;
                }
                Err(failure) => {
                    eprint!("{}", failure.render(output::Paint::for_errors()));
                    eprintln!("{} `{text}` was not done", output::Paint::for_errors().error("error:"));
                    self.refused += 1;
                }
            }
            if let Command::Event(_) = command {
                self.session.time_hits();
                self.note_armed();
            }
        }
        Ok(())
    }

    /// Prints text for people: to standard error if standard output carries JSON.
    fn print(&self, text: &str) -> Result<(), Failure> {
        let written = match self.prints_json() {
            true => io::stderr().write_all(text.as_bytes()),
            false => io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()),
        };
        written.map_err(|error| Failure::output(&error))
    }

    fn show_console(&mut self) -> Result<(), Failure> {
        let console = self.session.machine_mut().take_console();
        self.last_words.listen(&console);
        if self.request.quiet || console.is_empty() {
            return Ok(());
        }
        // The guest's output must not mix with JSON on standard output.
        let written = match self.prints_json() {
            true => io::stderr().write_all(&console),
            false => io::stdout().write_all(&console).and_then(|()| io::stdout().flush()),
        };
        written.map_err(|error| Failure::output(&error))
    }

    fn prints_json(&self) -> bool {
        let records = self.request.format != Format::Trace && self.request.out.is_empty();
        records || self.request.summary == SummaryFormat::Json
    }

    fn take_records(&mut self) -> Result<(), Failure> {
        let (events, records, log) = (&self.events, &mut self.records, &mut self.log);
        self.session.with_engine(|engine, guest| {
            for line in engine.take_log_lines() {
                eprintln!("engine: {line}");
                if log.len() < MOST_LOGGED {
                    log.push(line);
                }
            }
            records.take(events, engine, guest)
        })?;
        Ok(())
    }

    fn finish(mut self, end: &End, host_ns: u64) -> Result<(), Failure> {
        let virtual_ns = self.session.machine().now();
        for missed in std::mem::take(&mut self.request.commands) {
            let note = output::Paint::for_errors().advice("note:");
            eprintln!("{note} the run ended before the time of `{}`", missed.text);
        }
        let (events, armed, removed, views) = (&self.events, &self.armed, &self.removed, &self.request.views);
        let (probes, shown, dropped, written) = self.session.with_engine(|engine, guest| {
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
        let with_time = |(address, row): (Option<u64>, ProbeRow)| ProbeRow {
            ns_per_hit: address.and_then(|address| self.session.host_ns_per_hit(address)),
            ..row
        };
        let probes = probes.into_iter().map(with_time).collect();
        let counts = self.session.engine().counts();
        let unknown = if self.request.kernel.is_stock() { self.session.machine().unknown_columns() } else { Vec::new() };
        let symbols = || self.session.symbols();
        let run = records::Totals { made: written + dropped, cpus: self.request.cpus, time: virtual_ns, unknown: &unknown };
        let records = self.records.finish(&run, &symbols)?;
        if let Some(file) = self.coverage {
            file.write(&mut self.session)?;
        }
        let losses = vec![
            Count::new("records lost because the ring buffer was full", dropped),
            Count::new("returns that belonged to no followed call", counts.mismatched_returns),
            Count::new("followed calls left without a return", counts.left_behind),
            Count::new("lines of the engine's log lost", counts.lost_lines),
            Count::new("interrupted instructions counted as two hits", counts.forgotten),
        ];
        let work = self.session.text_work().iter();
        let text_work = work
            .map(|(function, done)| TextWork { function: (*function).into(), times: done.times, virtual_ns: done.nanoseconds })
            .collect();
        let summary = Summary { ended: end.reason(), virtual_ns, host_ns, probes, records, losses, log: self.log, text_work };
        let mut text = shown;
        text += &match self.request.summary {
            SummaryFormat::Table => format!("\n{}", summary.render(output::Paint::for_output())),
            SummaryFormat::Json => output::json_line(&summary)?,
            SummaryFormat::None => String::new(),
        };
        output::emit(&text)?;
        if end.wants_report() {
            eprint!("\n{}", report::render(&self.session.report()));
        }
        Ok(())
    }
}
