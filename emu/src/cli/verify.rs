//! `trapline verify`: runs a guest unprobed and probed, and shows that both are the same run, or where they part.

use super::driver::Shown;
use super::event_error::{Event, Script as Text, read_events};
use super::guest::{Guest, GuestArgs};
use super::output::{self, Paint};
use super::run::read_script;
use super::run_events::RunEvents;
use super::trace;
use super::typist::Typing;
use super::verify_report::{self, Hits};
use super::{Failure, PolicyName, last_words};
use crate::machine::Stop;
use crate::probed::Session;
use crate::probed::scripts::{Facts, How, Script, Tracing};
use crate::snapshot::Snapshot;
use crate::verify::{self, News, Run, Settings, Side, Verdict};
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use trapline_isa::plan::Policy;
use trapline_probes::events::set::Attached;
use trapline_script::Options;

/// Shows that probes do not change a guest's run
///
/// Runs the guest twice, unprobed and probed, and compares the console, the virtual time, every interrupt, exception,
/// system call and clock read with its place and time, all registers of all CPUs, and all memory. Prints `identical`
/// with a hash of what was compared, or the instruction where the runs part.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A kernel file, a built-in kernel such as tiny/x86_64, or a stock kernel such as debian/amd64
    image: String,
    /// A file with a script in bpftrace's language, followed by the script's parameters
    #[arg(value_name = "SCRIPT")]
    arguments: Vec<String>,
    /// A script, such as 'kprobe:vfs_* { @[func] = count(); }'; may be repeated
    #[arg(long = "program", value_name = "PROGRAM")]
    programs: Vec<String>,
    /// A line of kprobe_events, such as 'p:open vfs_open'; may be repeated
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// A file with lines of kprobe_events; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Allows override(), which changes the guest's behaviour: shows where the run changes
    #[arg(long = "unsafe")]
    allows_unsafe: bool,
    /// The rules that decide about probes
    #[arg(long, value_enum, default_value_t)]
    policy: PolicyName,
    /// Does not replace breakpoints by jumps
    #[arg(long)]
    no_optimize: bool,
    /// Prints the result as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    guest: GuestArgs,
}

const EXAMPLES: &str = "\
Examples:
  trapline verify tiny/x86_64                               with the demo script of the tiny kernel
  trapline verify tiny/arm64 -e 'p vfs_read' -e 'r:done vfs_read n=$retval' --cpus 2
  trapline verify debian/amd64 --script work.sh -f probes.events --quiet
  trapline verify debian/amd64 --from-boot --script work.sh opensnoop.bt
  trapline verify debian/arm64 --until 2s --program 'kprobe:vfs_* { @[func] = count(); }' --json

Exit status: 0 the runs are identical, 1 they differ, or the guest or a probe failed, 2 the command line was wrong";

/// The probes to verify.
struct Probes {
    events: Vec<Event>,
    texts: Vec<Text>,
    options: Options,
    /// The compiled scripts, for the first run. Later runs compile them again.
    scripts: Cell<Option<Vec<Script>>>,
    policy: Policy,
    no_optimize: bool,
}

impl Probes {
    fn scripts(&self, guest: &Guest) -> Result<Vec<Script>, Failure> {
        match self.scripts.take() {
            Some(scripts) => Ok(scripts),
            None if self.texts.is_empty() => Ok(Vec::new()),
            None => {
                let mut facts = Facts::of(&guest.kernel);
                facts.know_files(guest.known_files());
                let compile = |text: &Text| Script::compile(&text.text, &facts, &self.options);
                let scripts = self.texts.iter().map(compile).collect::<Result<_, _>>();
                scripts.map_err(|_| Failure::failed("a script that was compiled before cannot be compiled again"))
            }
        }
    }
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let kernel = args.guest.kernel(&args.image)?;
    let policy = args.policy.on(kernel.arch)?;
    let (texts, parameters) = args.texts()?;
    let events = args.events(!texts.is_empty())?;
    let settings = trace::settings_of(std::env::vars());
    let options = Options { parameters, allows_unsafe: args.allows_unsafe, settings, ..Options::default() };
    let mut facts = Facts::of(&kernel);
    if texts.iter().any(trace::may_probe_programs) {
        facts.know_files(args.guest.files(&args.image, &kernel)?);
    }
    let scripts = if texts.is_empty() { Vec::new() } else { trace::compile(&texts, &facts, &options)? };
    drop(facts);
    let scripts = Cell::new(Some(scripts));
    let guest = args.guest.guest_to_compare(&args.image, kernel)?;
    if guest.kernel.is_stock() && !args.guest.has_script() && guest.limits == super::until::Limits::default() {
        return Err(Failure::usage(format!("`{}` would wait at its shell for ever", args.image))
            .advise("give it something to do, `--script FILE`, or a limit: `--until 2s`, `--until console:TEXT`"));
    }
    let probes = Probes { events, texts, options, scripts, policy, no_optimize: args.no_optimize };
    let booted = guest.snapshot()?;
    let tally = Rc::new(Tally::default());
    let settings = Settings { limit: guest.limits.time.unwrap_or(u64::MAX), ..Settings::default() };
    let mut progress = Progress::new(guest.quiet);
    let mut start = |side| -> Result<Box<dyn Run>, Failure> {
        Ok(Box::new(GuestRun::start(side, &guest, &probes, booted.as_ref(), &tally)?))
    };
    let outcome = verify::compare(&mut start, &settings, &mut |news| progress.tell(&news));
    progress.line.finish_and_clear();
    let outcome = outcome?;
    if tally.is_silent.get() {
        return Err(Failure::failed(last_words::silence("chosen")));
    }
    let hits = tally.hits.get();
    output::emit(&match args.json {
        true => output::json_line(&verify_report::json(&args.image, &outcome, hits, &guest.kernel)?)?,
        false => verify_report::text(&outcome, hits, &guest.kernel, Paint::for_output())?,
    })?;
    match outcome.verdict {
        Verdict::Identical(_) => Ok(()),
        Verdict::Different(_) => Err(Failure::failed("the probed run differs from the unprobed one")),
    }
}

impl Args {
    /// The scripts and their parameters.
    fn texts(&self) -> Result<(Vec<Text>, Vec<String>), Failure> {
        let mut texts: Vec<Text> =
            self.programs.iter().map(|program| Text { source: "--program".into(), text: program.clone() }).collect();
        let (file, parameters) = match self.arguments.split_first() {
            Some((file, parameters)) if self.programs.is_empty() => (Some(PathBuf::from(file)), parameters),
            _ => (None, self.arguments.as_slice()),
        };
        if let Some(file) = file {
            texts.push(read_script(&file)?);
        }
        Ok((texts, parameters.to_vec()))
    }

    /// The events of the command line; a built-in kernel's demo script if there are neither events nor scripts.
    fn events(&self, has_scripts: bool) -> Result<Vec<Event>, Failure> {
        let mut texts = self.files.iter().map(|file| read_script(file)).collect::<Result<Vec<_>, _>>()?;
        texts.extend(self.events.iter().map(|line| Text { source: "-e".into(), text: line.clone() }));
        if texts.is_empty() && !has_scripts {
            let Some(builtin) = trapline_images::find(&self.image) else {
                return Err(Failure::usage("there are no probes to verify").advise(
                    "give events (-e 'p vfs_read', -f FILE), a script's file, or --program 'kprobe:vfs_* { @ = count(); }'",
                ));
            };
            texts.push(Text { source: format!("the demo script of {}", builtin.name), text: builtin.demo.into() });
        }
        Ok(texts.into_iter().map(read_events).collect::<Result<Vec<_>, _>>()?.concat())
    }
}

/// Facts that the probed run reports.
#[derive(Default)]
struct Tally {
    hits: Cell<Hits>,
    /// Whether a probed run has started. Those that search for a difference count nothing.
    has_started: Cell<bool>,
    /// Whether the guest printed nothing for so long that it was given up.
    is_silent: Cell<bool>,
    /// Whether refused functions of patterns were named.
    has_said: Cell<bool>,
}

/// A side's guest, with the input and the probes of the command line.
struct GuestRun {
    session: Session,
    side: Side,
    counts_hits: bool,
    typing: Typing,
    scripts: Vec<Tracing>,
    events: RunEvents,
    may_give_up: bool,
    has_printed: bool,
    tally: Rc<Tally>,
}

impl GuestRun {
    fn start(
        side: Side,
        guest: &Guest,
        probes: &Probes,
        booted: Option<&Snapshot>,
        tally: &Rc<Tally>,
    ) -> Result<GuestRun, Failure> {
        let mut session = guest.compared(side, probes.policy, booted, false)?;
        session.machine_mut().stop_at_console_text(guest.limits.text.as_deref());
        let (mut scripts, mut events) = (Vec::new(), RunEvents::default());
        if side == Side::Probed {
            if probes.no_optimize {
                session.with_engine(|engine, guest| engine.set_optimization(guest, false));
            }
            let how = How { seed: 1, ..How::default() };
            scripts = trace::start(&mut session, &probes.texts, probes.scripts(guest)?, &how)?;
            events = RunEvents::define(&mut session, &probes.events, false)?;
            session.stop_at_modules(!probes.events.is_empty());
            say_refused(&scripts, tally);
        }
        let typing = Typing::new(guest.typist(), &session);
        Ok(GuestRun {
            may_give_up: guest.kernel.is_stock() && guest.limits.time.is_none() && !guest.is_booted(),
            has_printed: false,
            typing,
            session,
            side,
            counts_hits: side == Side::Probed && !tally.has_started.replace(true),
            scripts,
            events,
            tally: Rc::clone(tally),
        })
    }

    /// Drops what the probes have written, and counts their hits.
    fn take(&mut self) {
        if self.side == Side::Unprobed {
            return;
        }
        for script in &self.scripts {
            self.session.take_script_output(script);
        }
        self.session.with_engine(|engine, _| while engine.records().pop().is_some() {});
        for number in 0..self.scripts.len() {
            if self.session.script_exit(&self.scripts[number]).is_some() {
                // exit() ends the tracing; the guest goes on.
                self.session.end_script(&mut self.scripts[number]);
            }
        }
    }

    fn hits(&self) -> Hits {
        let mut all = Hits::default();
        let mut add = |hits: u64, missed: u64| {
            all = Hits { probes: all.probes + 1, hits: all.hits + hits, missed: all.missed + missed };
        };
        for (_, probe) in self.scripts.iter().flat_map(Tracing::probes) {
            add(probe.hits(), probe.missed());
        }
        for member in self.events.set.members() {
            let missed = match &member.probe {
                Attached::Kprobe(probe) => probe.nmissed() + probe.passed(),
                Attached::Kretprobe(probe) => probe.nmissed() + probe.kprobe().nmissed() + probe.kprobe().passed(),
                Attached::Jprobe(probe) => probe.kprobe().nmissed() + probe.kprobe().passed(),
                Attached::User(probe) => probe.missed(),
                Attached::Watchpoint(watchpoint) => watchpoint.changed_unseen(),
                Attached::Pending => 0,
            };
            add(member.hits(), missed);
        }
        all
    }
}

impl Run for GuestRun {
    fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    fn advance(&mut self, nanoseconds: u64) -> Stop {
        let stop = loop {
            self.typing.look(&mut self.session);
            let until = nanoseconds.min(self.typing.next());
            let stop = match self.scripts.is_empty() {
                true => self.session.run_until(until),
                false => self.session.trace_until(&mut self.scripts, until),
            };
            self.take();
            match stop {
                Stop::Attention => self.events.module_came(&mut self.session),
                Stop::Limit if until < nanoseconds && self.session.machine().now() < nanoseconds => {}
                stop => break stop,
            }
        };
        if self.counts_hits {
            self.tally.hits.set(self.hits());
        }
        self.has_printed |= !self.session.machine().console().is_empty();
        if stop == Stop::Limit
            && self.may_give_up
            && !self.has_printed
            && self.session.machine().now() >= last_words::LONGEST_SILENCE
        {
            self.tally.is_silent.set(true);
            return Stop::Dead("the guest printed nothing".into());
        }
        stop
    }
}

fn say_refused(scripts: &[Tracing], tally: &Tally) {
    let refused: usize = scripts.iter().map(|script| script.refused().len()).sum();
    if refused > 0 && !tally.has_said.replace(true) {
        let first = scripts.iter().flat_map(Tracing::refused).next();
        let why = first.map_or(String::new(), |(name, refusal)| format!("; the first is {name}: {refusal}"));
        let note = Paint::for_errors().advice("note:");
        eprintln!("{note} {refused} of the functions that patterns stand for may not be probed{why}");
    }
}

/// The progress on standard error: the guest's console, or a line with the guest time.
struct Progress {
    shown: Shown,
    line: indicatif::ProgressBar,
}

impl Progress {
    fn new(quiet: bool) -> Progress {
        match quiet {
            true => Progress { shown: Shown::Nowhere, line: output::spinner() },
            false => Progress { shown: Shown::Errors, line: indicatif::ProgressBar::hidden() },
        }
    }

    fn tell(&mut self, news: &News<'_>) {
        let milliseconds = |nanoseconds: u64| nanoseconds / 1_000_000;
        match news {
            News::EqualUntil(time) => {
                self.line.set_message(format!("identical up to {} ms of guest time", milliseconds(*time)));
                self.line.tick();
            }
            // A closed standard error does not stop the comparison.
            News::Console(text) => drop(self.shown.print(text)),
            News::Searching { from, to } => {
                let text = format!("the runs differ: searching from {from} to {to} ns of guest time");
                self.line.set_message(text.clone());
                self.line.tick();
                if self.shown != Shown::Nowhere {
                    eprintln!("{} {text}", Paint::for_errors().advice("note:"));
                }
            }
        }
    }
}
