//! `trapline trace`: runs scripts in bpftrace's language on a guest.

use super::driver::{Driver, Shown, Work};
use super::end::End;
use super::event_error::{self, Event, Script as Text};
use super::file::{self, Kind};
use super::guest::{Guest, GuestArgs};
use super::on_panic::OnPanicArg;
use super::output::{self, Paint};
use super::record::{self, NewRecording, RecordArg};
use super::run::read_script;
use super::run_events::RunEvents;
use super::summary::FollowedCalls;
use super::{Failure, attach_points, report};
use crate::boot::Kernel;
use crate::boot::btf::Btf;
use crate::history::past::{MOST_QUESTIONS, Past};
use crate::history::tape::Tape;
use crate::machine::Stop;
use crate::outputs::records::{self, Records};
use crate::probed::Session;
use crate::probed::scripts::{Facts, How, Script, Tracing};
use annotate_snippets::Level;
use clap::ValueEnum;
use signal_hook::consts::SIGINT;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trapline_isa::plan::Policy;
use trapline_script::show::Style;
use trapline_script::{Options, ScriptError};

/// Runs scripts in bpftrace's language on a guest
///
/// The scripts are those of bpftrace, on a kernel of any architecture. The guest needs no root and no BPF, there is no
/// verifier, and the output is the same every time. Times are guest times. The guest's console output goes to standard
/// error.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A kernel file, a built-in kernel such as tiny/x86_64, or a stock kernel such as debian/amd64
    image: String,
    #[command(flatten)]
    tracing: TracingArgs,
    /// Lists the attach points that match, with their arguments if the kernel has type information; runs nothing
    #[arg(short, long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "*")]
    list: Option<String>,
    #[command(flatten)]
    guest: GuestArgs,
    #[command(flatten)]
    record: RecordArg,
    #[command(flatten)]
    on_panic: OnPanicArg,
}

/// The scripts, and the form of their output.
#[derive(clap::Args)]
pub struct TracingArgs {
    /// A script's file (`-` is standard input), followed by the script's parameters $1, $2 and so on; with -e all of
    /// them are parameters
    #[arg(value_name = "SCRIPT")]
    arguments: Vec<String>,
    /// A script, such as 'kprobe:vfs_read { @[comm] = count(); }'; may be repeated, all run together
    #[arg(short = 'e', long = "program", value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Another script's file, which runs together with the others; may be repeated
    #[arg(long = "with", value_name = "FILE")]
    with: Vec<PathBuf>,
    /// A line of kprobe_events, such as 'p:open vfs_open', to run with the scripts; its records are printed after the
    /// scripts' output
    #[arg(long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// Adds a backtrace to each record of --event, like ftrace's option `stacktrace`
    #[arg(long)]
    stacktrace: bool,
    /// The file for records of --event, instead of standard output. Its ending chooses the format, as with `run --out`
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// The format of the output
    #[arg(short = 'f', long, value_enum, default_value_t)]
    format: Format,
    /// The file for output, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compiles the scripts and prints their number of probes; runs nothing
    #[arg(long)]
    dry_run: bool,
    /// Prints at the end the hits of each probe, and the functions matched by patterns that may not be probed, with the
    /// reasons
    #[arg(short, long)]
    verbose: bool,
    /// Counts only this process, by its PID in the guest
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,
    /// Warns when a script reads memory that is not mapped (such reads give 0)
    #[arg(short = 'k', long)]
    check_reads: bool,
    /// Accepted for compatibility with bpftrace and ignored: the types come from the kernel
    #[arg(short = 'I', long = "include", value_name = "PATH", hide_short_help = true)]
    include: Vec<PathBuf>,
    /// Allows override(), which changes the guest's behaviour
    #[arg(long = "unsafe")]
    allows_unsafe: bool,
    /// The version of bpftrace whose output format to use
    #[arg(long, value_enum, default_value_t, value_name = "VERSION")]
    bpftrace_output: Version,
    /// Takes the kernel's types from this file (such as /sys/kernel/btf/vmlinux) instead of the image
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,
    /// The seed of `rand`
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A value for getopt(NAME)
    #[arg(long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  trapline trace tiny/x86_64 -e 'kprobe:vfs_read { @bytes = hist(arg2); }'
  trapline trace tiny/x86_64 -e 'kretprobe:vfs_read /retval > 0/ { @[comm] = sum(retval); }' --quiet
  trapline trace debian/amd64 vfscount.bt --script work.sh
  trapline trace debian/amd64 --from-boot --script work.sh -e 'fentry:vfs_open { printf(\"%s\\n\", comm); }' -f json
  trapline trace debian/amd64 vfscount.bt --with vfsstat.bt --event 'p:open vfs_open' --script work.sh
  trapline trace debian/amd64 -l 'kprobe:vfs_*'

Exit status: 0 fine, 1 the guest or a probe failed, 2 the command line or a script was wrong";

/// The format of the output
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// bpftrace's text
    #[default]
    Text,
    /// bpftrace's lines of JSON
    Json,
}

/// The version of bpftrace whose output format to use
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Version {
    /// The current version
    #[default]
    Current,
    /// The version of Debian 12
    #[value(name = "0.17")]
    Old,
}

/// Nanoseconds of guest time between two looks at the output.
const SLICE: u64 = 100_000;
/// The slice, in nanoseconds, for a run with `--event`: no probe can fill the ring buffer in that time.
const RECORD_SLICE: u64 = 10_000;

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let kernel = args.guest.kernel(&args.image)?;
    if let Some(pattern) = &args.list {
        return args.tracing.with_facts(&kernel, |facts| attach_points::list(facts, pattern));
    }
    let Some(compiled) = args.tracing.compile(&kernel, &args.image, &args.guest, false)? else { return Ok(()) };
    let record = args.record.of(&args.image, &args.guest)?;
    if record.is_some() && args.tracing.allows_unsafe {
        return Err(Failure::usage("--record: a script with override() changes the guest, so a replay would be another run")
            .advise("leave out --unsafe, or --record"));
    }
    let guest = args.guest.guest(&args.image, kernel)?;
    let booted = guest.snapshot()?;
    let session = guest.session(Policy::default(), false, booted.as_ref())?;
    let mut tape = record::tape(record.as_ref(), &guest, booted.as_ref(), session.machine())?;
    args.on_panic.prepare(&mut tape);
    drop(booted);
    let (mut driver, ended) = trace(&args.tracing, &guest, compiled, session, tape)?;
    let file = record.as_ref().map(NewRecording::path);
    args.on_panic.report(&driver.session, &mut driver.tape, &guest, file)?;
    driver.with_pulled(ended)
}

/// Scripts with their texts.
pub(super) struct Compiled {
    texts: Vec<Text>,
    scripts: Vec<Script>,
}

impl Compiled {
    /// Gives the scripts the past of their run.
    pub(super) fn with_past(self, past: &Past) -> Compiled {
        let scripts = self.scripts.into_iter().map(|script| script.with_past(past.clone()));
        Compiled { scripts: scripts.collect(), ..self }
    }
}

impl TracingArgs {
    /// Whether there is something to attach.
    pub(super) fn is_empty(&self) -> bool {
        self.arguments.is_empty() && self.programs.is_empty() && self.with.is_empty() && self.events.is_empty()
    }

    /// Whether override() is allowed, which changes the guest.
    pub(super) fn changes_guest(&self) -> bool {
        self.allows_unsafe
    }

    fn with_facts<R>(&self, kernel: &Kernel, with: impl FnOnce(&mut Facts<'_>) -> Result<R, Failure>) -> Result<R, Failure> {
        let types = self.btf.as_ref().map(|file| file::read(file, Kind::TYPES)).transpose()?;
        let Some(bytes) = &types else { return with(&mut Facts::of(kernel)) };
        let btf = Btf::parse(bytes).ok_or_else(|| {
            Failure::usage("the file given with --btf has no BTF types: give a file in the format of /sys/kernel/btf/vmlinux")
        })?;
        with(&mut Facts::with_types(kernel, btf))
    }

    /// Compiles the scripts, which may ask for the past of their run if it has one. With `--dry-run` prints their number of
    /// probes and returns `None`.
    pub(super) fn compile(
        &self,
        kernel: &Kernel,
        image: &str,
        guest: &GuestArgs,
        has_past: bool,
    ) -> Result<Option<Compiled>, Failure> {
        let (texts, parameters) = self.texts()?;
        let named = self.options.iter().map(|option| option.split_once('=').unwrap_or((option, "true")));
        let options = Options {
            parameters,
            named: named.map(|(name, value)| (name.into(), value.into())).collect(),
            allows_unsafe: self.allows_unsafe,
            settings: settings_of(std::env::vars()),
            process: self.pid,
            warns_of_reads: self.check_reads,
            has_past,
            old: self.bpftrace_output == Version::Old,
        };
        let scripts = self.with_facts(kernel, |facts| {
            if texts.iter().any(may_probe_programs) {
                facts.know_files(guest.files(image, kernel)?);
            }
            compile(&texts, facts, &options)
        })?;
        if self.dry_run {
            let count: usize = scripts.iter().flat_map(|script| &script.program().blocks).map(|block| block.points.len()).sum();
            output::emit(&format!("{count} probe{}\n", if count == 1 { "" } else { "s" }))?;
            return Ok(None);
        }
        Ok(Some(Compiled { texts, scripts }))
    }
}

/// Whether the script may have attach points in programs. They name a path, or a program or library without its folder.
pub(super) fn may_probe_programs(text: &Text) -> bool {
    [":/", "uprobe:", "uretprobe:", "usdt:", "u:", "ur:", "U:"].iter().any(|sign| text.text.contains(sign))
}

/// Compiles scripts, and prints their warnings.
pub(super) fn compile(texts: &[Text], facts: &Facts<'_>, options: &Options) -> Result<Vec<Script>, Failure> {
    let mut scripts = Vec::new();
    for text in texts {
        match Script::compile(&text.text, facts, options) {
            Ok(script) => scripts.push(script),
            Err(errors) => return Err(Failure::drawn(drawn(text, &errors, Level::ERROR))),
        }
    }
    for (text, script) in texts.iter().zip(&scripts) {
        eprint!("{}", drawn(text, &script.program().warnings, Level::WARNING));
    }
    Ok(scripts)
}

/// Settings from the environment, such as BPFTRACE_MAX_STRLEN=200. A script's `config` can make the same settings.
pub(super) fn settings_of(environment: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    const OLD_NAMES: [(&str, &str); 2] = [("strlen", "max_strlen"), ("map_keys_max", "max_map_keys")];
    let ours = environment.filter_map(|(name, value)| Some((name.strip_prefix("BPFTRACE_")?.to_lowercase(), value)));
    let known = |name: String| OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| (*new).into());
    let mut settings: Vec<(String, String)> = ours.map(|(name, value)| (known(name), value)).collect();
    // bpftrace's paths for type information do not apply: types come from the image or `--btf`.
    settings.retain(|(name, _)| !matches!(name.as_str(), "btf" | "vmlinux" | "kernel_source" | "kernel_build" | "have_btf"));
    settings.sort();
    settings
}

fn drawn(text: &Text, errors: &[ScriptError], level: Level<'static>) -> String {
    let paint = Paint::for_errors();
    errors
        .iter()
        .map(|error| event_error::draw_part(text, level.clone(), &error.message, error.at.start..error.at.end, paint))
        .collect()
}

impl TracingArgs {
    /// The scripts and their parameters.
    fn texts(&self) -> Result<(Vec<Text>, Vec<String>), Failure> {
        let programs = self.programs.iter().map(|program| Ok(Text { source: "-e".into(), text: program.clone() }));
        let (first, parameters) = match self.arguments.split_first() {
            Some((file, parameters)) if self.programs.is_empty() => (Some(PathBuf::from(file)), parameters),
            _ => (None, self.arguments.as_slice()),
        };
        let texts: Vec<Text> =
            programs.chain(first.iter().chain(&self.with).map(|file| read_script(file))).collect::<Result<_, Failure>>()?;
        if texts.is_empty() && self.events.is_empty() {
            return Err(Failure::usage("there is no script to run")
                .advise("give a file, or a program: -e 'kprobe:vfs_read { @ = count(); }'"));
        }
        Ok((texts, parameters.to_vec()))
    }
}

impl TracingArgs {
    /// The lines of `--event`.
    fn events(&self) -> Result<Vec<Event>, Failure> {
        let texts = self.events.iter().map(|line| Text { source: "--event".into(), text: line.clone() });
        Ok(texts.map(event_error::read_events).collect::<Result<Vec<_>, _>>()?.concat())
    }
}

/// Runs the scripts on the guest. Returns what has run, and the result of the process.
pub(super) fn trace(
    args: &TracingArgs,
    guest: &Guest,
    Compiled { texts, scripts }: Compiled,
    mut session: Session,
    tape: Tape,
) -> Result<(Driver, Result<(), Failure>), Failure> {
    let lines = args.events()?;
    let out: Box<dyn Write> = match &args.output {
        None => Box::new(io::stdout()),
        Some(file) => Box::new(BufWriter::new(
            File::create(file).map_err(|error| Failure::usage(format!("`{}` cannot be written: {error}", file.display())))?,
        )),
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::clone(&interrupted))
        .map_err(|error| Failure::failed(format!("Ctrl-C cannot be watched for: {error}")))?;
    let how = How {
        style: Style { json: args.format == Format::Json, old: args.bpftrace_output == Version::Old },
        seed: args.seed,
        secret: None,
    };
    let tracings = start(&mut session, &texts, scripts, &how)?;
    let events = RunEvents::define(&mut session, &lines, args.stacktrace)?;
    session.stop_at_modules(!lines.is_empty());
    let format = if args.format == Format::Json { records::Format::Json } else { records::Format::Trace };
    let about = records::about(guest.kernel.arch.isa(), guest.cpus);
    let records = (!lines.is_empty()).then(|| Records::new(format, args.records.as_slice(), &about)).transpose()?;
    if guest.kernel.is_stock() && records.is_some() {
        report::say_what_is_unknown(&session.machine().unknown_columns());
    }
    args.say_how_many(&tracings);
    let mut driver = Driver::new(session, tape, guest, Shown::Errors).pulling(guest)?;
    let mut run = Run { verbose: args.verbose, scripts: tracings, out, interrupted, events, records };
    let end = driver.run(&mut run)?;
    // A script may have called exit() in the slice in which the guest ended.
    let end = run.exit(&mut driver.session).unwrap_or(end);
    run.finish(&mut driver.session, guest)?;
    if matches!(end, End::Panicked | End::Stopped(Stop::Dead(_))) {
        eprint!("\n{}", report::render(&driver.session.report()));
    }
    let ended = end.result(run.events.refused, driver.session.machine().board_name());
    Ok((driver, ended))
}

/// Starts the scripts. Their BEGIN blocks run.
pub(super) fn start(session: &mut Session, texts: &[Text], scripts: Vec<Script>, how: &How) -> Result<Vec<Tracing>, Failure> {
    let mut tracings = Vec::new();
    for (text, script) in texts.iter().zip(scripts) {
        let tracing = session.start_script(script, how).map_err(|error| {
            let title = format!("{}: {}", error.name, error.refusal);
            let part = error.at.start..error.at.end;
            Failure::probe_drawn(event_error::draw_part(text, Level::ERROR, &title, part, Paint::for_errors()))
        })?;
        tracings.push(tracing);
    }
    Ok(tracings)
}

impl TracingArgs {
    /// Says how many probes the scripts have, and whether functions were left out.
    fn say_how_many(&self, tracings: &[Tracing]) {
        let attached: usize = tracings.iter().map(Tracing::attached).sum();
        let refused: usize = tracings.iter().map(|tracing| tracing.refused().len()).sum();
        if self.bpftrace_output == Version::Current {
            eprintln!("Attached {attached} probe{}", if attached == 1 { "" } else { "s" });
        }
        if refused > 0 {
            let first = tracings.iter().flat_map(Tracing::refused).next();
            let why = first.map_or(String::new(), |(name, refusal)| format!("; the first is {name}: {refusal}"));
            eprintln!(
                "{} {refused} of the functions that patterns stand for may not be probed{why}",
                Paint::for_errors().advice("note:")
            );
        }
    }
}

/// The scripts of a run, and where their output goes.
struct Run {
    verbose: bool,
    scripts: Vec<Tracing>,
    out: Box<dyn Write>,
    interrupted: Arc<AtomicBool>,
    /// The events of `--event`, beside the script's probes.
    events: RunEvents,
    records: Option<Records>,
}

impl Work for Run {
    fn slice(&self) -> u64 {
        if self.records.is_some() { RECORD_SLICE } else { SLICE }
    }

    /// A script may have called exit(), in a BEGIN block already.
    fn before(&mut self, session: &mut Session, _: &mut Tape) -> Result<Option<End>, Failure> {
        let is_interrupted = self.interrupted.load(Ordering::Relaxed);
        Ok(self.exit(session).or(is_interrupted.then_some(End::Interrupted)))
    }

    fn advance(&mut self, session: &mut Session, until: u64) -> Stop {
        session.trace_until(&mut self.scripts, until)
    }

    fn take(&mut self, session: &mut Session) -> Result<(), Failure> {
        for script in &self.scripts {
            let (output, warnings) = session.take_script_output(script);
            io::stderr().write_all(&warnings).map_err(|error| Failure::output(&error))?;
            if !output.is_empty() {
                self.out.write_all(&output).and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))?;
            }
        }
        if let Some(records) = &mut self.records {
            let events = &self.events.set;
            session.with_engine(|engine, guest| records.take(events, engine, guest))?;
        }
        Ok(())
    }

    fn module_came(&mut self, session: &mut Session) {
        self.events.module_came(session);
    }
}

impl Run {
    /// The end by a script's exit(), if one has called it.
    fn exit(&self, session: &mut Session) -> Option<End> {
        self.scripts.iter().find_map(|script| session.script_exit(script)).map(End::Script)
    }

    /// Runs the END blocks, and writes what is left.
    fn finish(&mut self, session: &mut Session, guest: &Guest) -> Result<(), Failure> {
        session.compare_watched();
        let calls = FollowedCalls::of(session.engine().calls());
        for script in &mut self.scripts {
            session.end_script(script);
        }
        self.take(session)?;
        self.out.flush().map_err(|error| Failure::output(&error))?;
        self.finish_records(session, guest)?;
        self.say_losses(session);
        if let Some(calls) = calls.filter(|_| self.verbose) {
            eprintln!("{} {}", Paint::for_errors().advice("note:"), calls.sentence());
        }
        match self.scripts.iter().find_map(|script| session.script_failure(script)) {
            Some(why) => Err(Failure::failed(why)),
            None => Ok(()),
        }
    }

    fn finish_records(&mut self, session: &mut Session, guest: &Guest) -> Result<(), Failure> {
        let Some(records) = self.records.take() else { return Ok(()) };
        let (written, dropped) = session.with_engine(|engine, _| (engine.records().written(), engine.records().dropped()));
        let unknown = if guest.kernel.is_stock() { session.machine().unknown_columns() } else { Vec::new() };
        let symbols = || session.symbols();
        let time = session.machine().now();
        records.finish(
            &records::Totals { made: written + dropped, cpus: guest.cpus, time, unknown: &unknown, events: &self.events.set },
            &symbols,
        )?;
        if dropped > 0 {
            eprintln!("{} {dropped} records were lost because the ring buffer was full", Paint::for_errors().advice("note:"));
        }
        Ok(())
    }

    /// Reports every loss on standard error.
    fn say_losses(&mut self, session: &mut Session) {
        let note = Paint::for_errors().advice("note:");
        if self.verbose {
            for (name, probe) in self.scripts.iter().flat_map(Tracing::probes) {
                eprintln!("{note} {name}: {} hits", probe.hits());
            }
            for (name, refusal) in self.scripts.iter().flat_map(Tracing::refused) {
                eprintln!("{note} {name}: not probed: {refusal}");
            }
        }
        for script in &self.scripts {
            for (name, probe) in script.probes() {
                let missed = probe.missed();
                if missed > 0 {
                    eprintln!("{note} {name} missed {missed} hits");
                }
            }
        }
        for script in &self.scripts {
            for (map, lost) in session.script_losses(script) {
                eprintln!("{note} {lost} values found no room in {map}: raise its number of keys, or remove that limit");
            }
            let unanswered = session.script_unanswered(script);
            if unanswered > 0 {
                eprintln!(
                    "{note} {unanswered} questions for the last write were not answered: a replay answers {MOST_QUESTIONS}; ask at fewer hits, by a filter or by --from"
                );
            }
        }
    }
}
