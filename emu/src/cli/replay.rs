//! `trapline replay`: repeats a recorded run, with other probes.

use super::driver::{Driver, Shown, Work};
use super::end::End;
use super::file::{self, Kind};
use super::guest::{Guest, GuestArgs};
use super::output::Paint;
use super::trace::{self, TracingArgs};
use super::until::guest_time;
use super::{Failure, report, session};
use crate::boot::Kernel;
use crate::clock::nanoseconds;
use crate::history::past::Past;
use crate::history::recording::{self, Head, Recording};
use crate::history::tape::Tape;
use crate::history::timeline::Timeline;
use crate::machine::Stop;
use crate::network::door::Came;
use crate::probed::Session;
use crate::snapshot::Snapshot;
use crate::snapshot::file::Key;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trapline_isa::plan::Policy;

/// Repeats a recorded run, with other probes
///
/// FILE comes from `run --record` or `trace --record`. The guest does the same again, to the instruction, whatever is
/// probed now. On the way the replay compares its own state with the marks in the file. Without scripts and events it
/// shows the console, and repeats the commands that were typed behind Ctrl-A c.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The recording
    file: PathBuf,
    #[command(flatten)]
    tracing: TracingArgs,
    /// Attaches the probes at this guest time (50ms, 2s); the run before it is repeated without a word
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "last")]
    from: Option<u64>,
    /// Stops at this guest time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<u64>,
    /// Like --from, with a time before the end of the recording, or before --to
    #[arg(long, value_name = "TIME", value_parser = time)]
    last: Option<u64>,
    /// Does not show the guest's console
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  trapline run debian/amd64 --from-boot --record monday.rec
  trapline replay monday.rec
  trapline replay monday.rec -e 'kprobe:vfs_open { printf(\"%s\\n\", comm); }'
  trapline replay crash.rec --last 10ms -e 'kprobe:* { @[func] = count(); }'
  trapline replay monday.rec --from 2s --to 2500ms vfsstat.bt -f json

Exit status: 0 fine, 1 the run was another one, or the guest or a probe failed, 2 the command line was wrong";

/// The slice of guest time, in nanoseconds, for the part without probes.
const SLICE: u64 = 2_000_000;

/// Parses a length of guest time.
pub(super) fn time(text: &str) -> Result<u64, String> {
    match guest_time(text) {
        Some(Some(time)) => Ok(time),
        Some(None) => Err("that is longer than any run".into()),
        None => Err("write a number and its unit: 300ns, 20us, 50ms, 2s".into()),
    }
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    if args.tracing.changes_guest() {
        return Err(Failure::usage("--unsafe: a script with override() changes the guest, so it cannot be replayed")
            .advise("use `trapline trace` for such a script"));
    }
    let (recording, guest_args, kernel) = recorded(&args.file)?;
    let image = recording.head.image.clone();
    let compiled = match args.tracing.is_empty() {
        true => None,
        false => match args.tracing.compile(&kernel, &image, &guest_args, true)? {
            Some(compiled) => Some(compiled),
            None => return Ok(()),
        },
    };
    let mut guest = guest_args.guest(&image, kernel)?;
    let end = nanoseconds(recording.end());
    let to = args.to.filter(|to| *to < end);
    let from = args.last.map(|last| to.unwrap_or(end).saturating_sub(last)).or(args.from);
    if let Some(from) = from.filter(|from| *from > to.unwrap_or(end)) {
        let (from, end) = (Duration::from_nanos(from), Duration::from_nanos(to.unwrap_or(end)));
        return Err(Failure::usage(format!("--from: {from:?} lies behind the end of the replay at {end:?} of guest time")));
    }
    (guest.quiet, guest.limits) = (args.quiet, super::until::Limits { time: from, text: None });
    let has_commands = recording.commands() > 0;
    let compiled = compiled.map(|compiled| compiled.with_past(&past(recording.clone(), guest.clone())));
    let (mut session, mut tape) = ready(recording, &guest)?;
    if from.is_some() {
        let mut driver = Driver::new(session, tape, &guest, Shown::Nowhere);
        driver.run_part(&mut Plain)?;
        (session, tape) = (driver.session, driver.tape);
    }
    guest.limits.time = to;
    match compiled {
        Some(compiled) => trace::trace(&args.tracing, &guest, compiled, session, tape)?.1,
        None if has_commands => {
            let (driver, end) = session::again(&guest, session, tape)?;
            say_what_was_done(&driver, &end);
            end.result(0, driver.session.machine().board_name())
        }
        None => {
            let mut driver = Driver::new(session, tape, &guest, Shown::Output);
            let end = driver.run(&mut Plain)?;
            say_what_was_done(&driver, &end);
            if matches!(end, End::Panicked | End::Stopped(Stop::Dead(_))) {
                eprint!("\n{}", report::render(&driver.session.report()));
            }
            end.result(0, driver.session.machine().board_name())
        }
    }
}

/// Reads a recording, and loads the kernel that ran in it.
pub(super) fn recorded(file: &Path) -> Result<(Recording, GuestArgs, Kernel), Failure> {
    let recording = read(file)?;
    let args: GuestArgs = serde_json::from_value(recording.head.guest.clone()).map_err(|error| {
        Failure::usage(format!("`{}` was recorded with arguments that this trapline does not know: {error}", file.display()))
    })?;
    let kernel = args.kernel(&recording.head.image)?;
    Ok((recording, args, kernel))
}

/// Whether this file begins like a recording.
pub(super) fn is_recording(path: &Path) -> bool {
    let mut start = [0; recording::MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *recording::MAGIC
}

/// The booted guest from which a recording starts; `None` if it starts at the kernel's entry. Refuses a guest that is not the
/// recorded one.
pub(super) fn start_of(recording: &Recording, guest: &Guest) -> Result<Option<Snapshot>, Failure> {
    fits(&recording.head, &guest.key()?)?;
    let booted = guest.snapshot()?;
    starts_alike(&recording.head, booted.as_ref())?;
    if let Some(door) = guest.door() {
        let came = recording.came().map(|bytes| {
            Came::from_bytes(bytes).ok_or_else(|| Failure::failed("the recording has an event of the network that nobody knows"))
        });
        door.close_with(came.collect::<Result<_, _>>()?);
    }
    Ok(booted)
}

/// The guest at the start of its recorded run. Refuses a guest that is not the recorded one.
pub(super) fn ready(recording: Recording, guest: &Guest) -> Result<(Session, Tape), Failure> {
    let booted = start_of(&recording, guest)?;
    let session = guest.session(Policy::default(), false, booted.as_ref())?;
    say_what_is_missing(&recording);
    let tape = Tape::again(session.machine(), recording);
    Ok((session, tape))
}

fn read(path: &Path) -> Result<Recording, Failure> {
    Recording::read(&file::read(path, Kind::RECORDING)?).map_err(|error| {
        Failure::usage(format!("`{}` cannot be replayed: {error}", path.display()))
            .advise("`trapline run IMAGE --record FILE` makes a recording")
    })
}

/// Refuses another kernel, other files or another machine than those of the recording. Another build of trapline is
/// worth a note.
fn fits(head: &Head, here: &Key) -> Result<(), Failure> {
    let recorded = &head.key;
    if let Some(what) = (Key { trapline: here.trapline.clone(), ..recorded.clone() }).differs(here) {
        return Err(Failure::usage(format!("the recording is of {what} than `{}` has here", head.image))
            .advise("replay it with the files that were recorded; `trapline images` lists the kernels that are here"));
    }
    if recorded.trapline != here.trapline {
        let note = Paint::for_errors().advice("note:");
        eprintln!("{note} another build of trapline made the recording; the marks in it show whether the run is the same");
    }
    Ok(())
}

fn starts_alike(head: &Head, booted: Option<&Snapshot>) -> Result<(), Failure> {
    match head.start == booted.map(Snapshot::hash) {
        true => Ok(()),
        false => Err(Failure::failed("the booted guest from which the recording starts is another one here")
            .advise("it was recorded by a build of trapline whose guests boot differently: replay it with that build")),
    }
}

/// The past of a replay, for its scripts.
fn past(recording: Recording, guest: Guest) -> Past {
    Past::of(move || {
        let booted = guest.snapshot().map_err(|failure| failure.message().to_string())?;
        let machine = guest.observed(booted.as_ref()).map_err(|failure| failure.message().to_string())?;
        Timeline::new(machine, Some(recording)).map_err(|error| error.to_string())
    })
}

/// Notes on standard error that a recording was cut off or damaged.
pub(super) fn say_what_is_missing(recording: &Recording) {
    let note = Paint::for_errors().advice("note:");
    if !recording.has_ended() {
        let end = Duration::from_nanos(nanoseconds(recording.end()));
        eprintln!("{note} the recording was not finished: it is complete up to {end:?} of guest time");
    }
    if recording.left_over > 0 {
        eprintln!("{note} its last {} bytes are no whole frame and are not used", recording.left_over);
    }
}

fn say_what_was_done(driver: &Driver, end: &End) {
    let (done, time) = (driver.tape.done(), Duration::from_nanos(driver.session.machine().now()));
    let note = Paint::for_errors().advice("note:");
    let commands = match done.commands {
        0 => String::new(),
        count => format!("{count} commands, "),
    };
    eprintln!(
        "{note} replayed up to {time:?} of guest time: {} bytes typed, {commands}{} marks equal; {}",
        done.keys,
        done.marks,
        end.reason()
    );
}

/// A replay without probes.
pub(super) struct Plain;

impl Work for Plain {
    fn slice(&self) -> u64 {
        SLICE
    }

    fn is_unprobed(&self) -> bool {
        true
    }

    fn before(&mut self, _: &mut Session, _: &mut Tape) -> Result<Option<End>, Failure> {
        Ok(None)
    }

    fn take(&mut self, _: &mut Session) -> Result<(), Failure> {
        Ok(())
    }

    fn module_came(&mut self, _: &mut Session) {}
}
