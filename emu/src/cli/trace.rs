//! `trapline trace`: runs scripts in bpftrace's language on a guest.

use super::event_error::{self, Script as Text};
use super::file::{self, Kind};
use super::image::{self, SymbolsArg};
use super::output::{self, Paint};
use super::run::{Until, read_script};
use super::stock_guest::StockArgs;
use super::typist::Typist;
use super::{Failure, attach_points, from_boot};
use crate::boot::Kernel;
use crate::boot::btf::Btf;
use crate::machine::{Config, Stop};
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
use trapline_probes::events::set::EventSet;
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
    /// A script's file (`-` is standard input), followed by the script's parameters $1, $2 and so on; with -e all of
    /// them are parameters
    #[arg(value_name = "SCRIPT")]
    arguments: Vec<String>,
    #[command(flatten)]
    symbols: SymbolsArg,
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
    /// Lists the attach points that match, with their arguments if the kernel has type information; runs nothing
    #[arg(short, long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "*")]
    list: Option<String>,
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
    #[command(flatten)]
    stock: StockArgs,
    /// Text to append to the kernel's command line
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    append: String,
    /// The number of CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    cpus: u8,
    /// Stops at a guest time (50ms, 2s) or when the console prints a text (console:TEXT)
    #[arg(long, value_name = "LIMIT", value_parser = Until::parse)]
    until: Vec<Until>,
    /// Does not show the guest's console
    #[arg(short, long)]
    quiet: bool,
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
    let kernel = image::load(&args.image, &args.symbols)?;
    let types = args.btf.as_ref().map(|file| file::read(file, Kind::TYPES)).transpose()?;
    let facts = match &types {
        None => Facts::of(&kernel),
        Some(bytes) => {
            let btf = Btf::parse(bytes).ok_or_else(|| {
                Failure::usage("the file given with --btf has no BTF types: give a file in the format of /sys/kernel/btf/vmlinux")
            })?;
            Facts::with_types(&kernel, btf)
        }
    };
    if let Some(pattern) = &args.list {
        return attach_points::list(&facts, pattern);
    }
    let (texts, parameters) = args.texts()?;
    let options = Options {
        parameters,
        named: args
            .options
            .iter()
            .map(|option| option.split_once('=').unwrap_or((option, "true")))
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        allows_unsafe: args.allows_unsafe,
        settings: settings_of(std::env::vars()),
        process: args.pid,
        warns_of_reads: args.check_reads,
        old: args.bpftrace_output == Version::Old,
    };
    let mut scripts = Vec::new();
    for text in &texts {
        match Script::compile(&text.text, &facts, &options) {
            Ok(script) => scripts.push(script),
            Err(errors) => return Err(Failure::drawn(drawn(text, &errors, Level::ERROR))),
        }
    }
    drop(facts);
    for (text, script) in texts.iter().zip(&scripts) {
        eprint!("{}", drawn(text, &script.program().warnings, Level::WARNING));
    }
    if args.dry_run {
        let count: usize = scripts.iter().flat_map(|script| &script.program().blocks).map(|block| block.points.len()).sum();
        return output::emit(&format!("{count} probe{}\n", if count == 1 { "" } else { "s" }));
    }
    Run::begin(args, &kernel, &texts, scripts)?.until_the_end()
}

/// Settings from the environment, such as BPFTRACE_MAX_STRLEN=200. A script's `config` can make the same settings.
fn settings_of(environment: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
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

impl Args {
    /// The scripts and their parameters.
    fn texts(&self) -> Result<(Vec<Text>, Vec<String>), Failure> {
        let programs = self.programs.iter().map(|program| Ok(Text { source: "-e".into(), text: program.clone() }));
        let (first, parameters) = match self.arguments.split_first() {
            Some((file, parameters)) if self.programs.is_empty() => (Some(PathBuf::from(file)), parameters),
            _ => (None, self.arguments.as_slice()),
        };
        let texts: Vec<Text> =
            programs.chain(first.iter().chain(&self.with).map(|file| read_script(file))).collect::<Result<_, Failure>>()?;
        if texts.is_empty() {
            return Err(Failure::usage("there is no script to run")
                .advise("give a file, or a program: -e 'kprobe:vfs_read { @ = count(); }'"));
        }
        Ok((texts, parameters.to_vec()))
    }
}

impl Args {
    /// Defines and enables the events of `--event`.
    fn events(&self, session: &mut Session) -> Result<EventSet, Failure> {
        let mut events = EventSet::default();
        if self.stacktrace {
            events.leave_stacks(session.stacks());
        }
        for line in &self.events {
            for event in event_error::read_events(Text { source: "--event".into(), text: line.clone() })? {
                session
                    .with_engine(|engine, guest| events.carry_out(engine, guest, event.line.clone()))
                    .map_err(|error| event.failed(&error))?;
            }
        }
        session
            .with_engine(|engine, guest| events.enable_all(engine, guest, true))
            .map_err(|refusal| Failure::failed(format!("a probe cannot be enabled: {refusal}")))?;
        Ok(events)
    }
}

/// A guest that runs with scripts.
struct Run<'a> {
    args: &'a Args,
    session: Session,
    scripts: Vec<Tracing>,
    typist: Option<Typist>,
    out: Box<dyn Write>,
    interrupted: Arc<AtomicBool>,
    /// The events of `--event`.
    events: EventSet,
    records: Option<Records>,
}

impl<'a> Run<'a> {
    fn begin(args: &'a Args, kernel: &Kernel, texts: &[Text], scripts: Vec<Script>) -> Result<Run<'a>, Failure> {
        let builtin = trapline_images::find(&args.image);
        let stock = args.stock.guest(&args.image, kernel)?;
        let own = match &stock {
            Some(stock) => stock.command_line,
            None => builtin.map_or("", |builtin| builtin.command_line),
        };
        let config = Config {
            cpus: args.cpus.into(),
            command_line: [own, &args.append].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" "),
            initrd: stock.as_ref().map(|stock| stock.initrd.clone()),
            whole: stock.as_ref().and_then(|stock| stock.whole.clone()),
            ..Config::default()
        };
        let typed = stock.and_then(|stock| stock.from_boot);
        let cannot = |error| Failure::failed(format!("the machine cannot be made: {error}"));
        let mut session = match &typed {
            None => Session::new(kernel.clone(), &config).map_err(cannot)?,
            Some(_) => {
                let snapshot = from_boot::fetch(&args.image, kernel, &config, !args.quiet)?;
                Session::from_snapshot(kernel.clone(), &config, Default::default(), &snapshot).map_err(cannot)?
            }
        };
        let typist = typed.map(|typed| Typist::new(typed.load, typed.script.as_deref()));
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
        let mut tracings = Vec::new();
        for (text, script) in texts.iter().zip(scripts) {
            let tracing = session.start_script(script, &how).map_err(|error| {
                let title = format!("{}: {}", error.name, error.refusal);
                let part = error.at.start..error.at.end;
                Failure::probe_drawn(event_error::draw_part(text, Level::ERROR, &title, part, Paint::for_errors()))
            })?;
            tracings.push(tracing);
        }
        let events = args.events(&mut session)?;
        let format = if args.format == Format::Json { records::Format::Json } else { records::Format::Trace };
        let about = records::about(kernel.arch.isa(), args.cpus.into());
        let records = (!args.events.is_empty()).then(|| Records::new(format, args.records.as_slice(), &about)).transpose()?;
        if session.kernel().is_stock() && records.is_some() {
            super::report::say_what_is_unknown(&session.machine().unknown_columns());
        }
        let attached: usize = tracings.iter().map(Tracing::attached).sum();
        let refused: usize = tracings.iter().map(|tracing| tracing.refused().len()).sum();
        if args.bpftrace_output == Version::Current {
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
        Ok(Run { args, session, scripts: tracings, typist, out, interrupted, events, records })
    }

    fn until_the_end(mut self) -> Result<(), Failure> {
        let times = self.args.until.iter().filter_map(|until| if let Until::Time(ns) = until { Some(*ns) } else { None });
        let limit = times.min().unwrap_or(u64::MAX);
        let text =
            self.args.until.iter().find_map(|until| if let Until::Console(text) = until { Some(text.as_str()) } else { None });
        self.session.machine_mut().stop_at_console_text(text);
        // BEGIN blocks have run already, and may have ended the tracing.
        let mut stop = Stop::Limit;
        let mut status = None;
        while !self.is_over(&mut status) && stop == Stop::Limit && self.session.machine().now() < limit {
            if let Some(typist) = &mut self.typist {
                typist.look(self.session.machine_mut());
            }
            let slice = if self.records.is_some() { RECORD_SLICE } else { SLICE };
            let slice_end = self.session.machine().now().saturating_add(slice).min(limit);
            stop = self.session.trace_until(&mut self.scripts, slice_end);
            self.show()?;
        }
        for number in 0..self.scripts.len() {
            self.session.end_script(&mut self.scripts[number]);
        }
        self.show()?;
        self.out.flush().map_err(|error| Failure::output(&error))?;
        self.finish_records()?;
        self.say_losses();
        for script in &self.scripts {
            if let Some(why) = self.session.script_failure(script) {
                return Err(Failure::failed(why));
            }
        }
        match (status, stop) {
            (Some(1..), _) => Err(Failure::failed(format!("the script ended with status {}", status.unwrap_or(1)))),
            (None, Stop::PowerOff(status @ 1..)) => Err(Failure::failed(format!("the guest powered off with status {status}"))),
            (None, Stop::Panic(_)) => Err(Failure::failed("the guest's kernel panicked")),
            (None, Stop::Dead(why)) => Err(Failure::failed(format!("the guest died: {why}"))),
            _ => Ok(()),
        }
    }

    /// Whether a script called exit(), or the user pressed Ctrl-C.
    fn is_over(&mut self, status: &mut Option<u64>) -> bool {
        for script in &self.scripts {
            *status = status.or(self.session.script_exit(script));
        }
        status.is_some() || self.interrupted.load(Ordering::Relaxed)
    }

    fn finish_records(&mut self) -> Result<(), Failure> {
        let Some(records) = self.records.take() else { return Ok(()) };
        let (written, dropped) = self.session.with_engine(|engine, _| (engine.records().written(), engine.records().dropped()));
        let unknown = if self.session.kernel().is_stock() { self.session.machine().unknown_columns() } else { Vec::new() };
        let symbols = || self.session.symbols();
        let (cpus, time) = (self.args.cpus.into(), self.session.machine().now());
        records.finish(&records::Totals { made: written + dropped, cpus, time, unknown: &unknown }, &symbols)?;
        if dropped > 0 {
            eprintln!("{} {dropped} records were lost because the ring buffer was full", Paint::for_errors().advice("note:"));
        }
        Ok(())
    }

    fn show(&mut self) -> Result<(), Failure> {
        let console = self.session.machine_mut().take_console();
        if !self.args.quiet && !console.is_empty() {
            io::stderr().write_all(&console).map_err(|error| Failure::output(&error))?;
        }
        for script in &self.scripts {
            let (output, warnings) = self.session.take_script_output(script);
            io::stderr().write_all(&warnings).map_err(|error| Failure::output(&error))?;
            if !output.is_empty() {
                self.out.write_all(&output).and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))?;
            }
        }
        if let Some(records) = &mut self.records {
            let events = &self.events;
            self.session.with_engine(|engine, guest| records.take(events, engine, guest))?;
        }
        Ok(())
    }

    /// Reports every loss on standard error.
    fn say_losses(&mut self) {
        let note = Paint::for_errors().advice("note:");
        if self.args.verbose {
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
        for number in 0..self.scripts.len() {
            for (map, lost) in self.session.script_losses(&self.scripts[number]) {
                eprintln!("{note} {lost} values found no room in {map}: raise its number of keys, or remove that limit");
            }
        }
    }
}
