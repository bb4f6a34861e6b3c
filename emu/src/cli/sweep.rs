//! `trapline sweep`: probes every instruction that a run executes, in waves, and compares each run with the unprobed one.

use super::guest::{Guest, GuestArgs};
use super::output::{self, Paint, thousands};
use super::sweep_table;
use super::typist::Typing;
use super::words::words_without;
use super::{Failure, PolicyName, image};
use crate::boot::Kernel;
use crate::machine::Stop;
use crate::probed::Session;
use crate::snapshot::cache::TRAPLINE;
use crate::snapshot::{Snapshot, file::Key};
use crate::sweep::emit::{self, Job, Output};
use crate::sweep::part::{Identity, PartError};
use crate::sweep::shard::Shard;
use crate::sweep::{self, Again, Guests, Kind, News, Settings};
use crate::verify::{Run, Side};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use trapline_isa::plan::Policy;

/// Probes every instruction that a run executes, and verifies each run
///
/// Runs the guest once unprobed, with coverage. Then probes every executed instruction with kprobes and with jumps, and every
/// executed function with a return probe: in waves, each of which is a run that must be the same as the unprobed one. A
/// difference is reduced to the probes that cause it. Results go into a file; a sweep that was killed goes on where it was.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A kernel file, a built-in kernel such as tiny/x86_64, or a stock kernel such as debian/amd64
    image: String,
    /// The kinds of probes
    #[arg(long = "kind", value_enum, value_delimiter = ',', default_value = "kprobe,optimised,return")]
    kinds: Vec<KindName>,
    /// The largest number of probes of a wave
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    wave: u32,
    /// The number of machines that run at the same time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// The part of the sweep to do: I/N, with I from 0 on, or `auto` for that of this task of Slurm or Kubernetes
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
    /// The file of results [default: the image's name with .part]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The rules that decide about probes
    #[arg(long, value_enum, default_value_t)]
    policy: PolicyName,
    /// Prints the result as a line of JSON
    #[arg(long)]
    json: bool,
    /// Writes a job for a cluster into a folder, and sweeps nothing: slurm DIR or kubernetes DIR
    #[arg(long, num_args = 2, value_names = ["ENGINE", "DIR"])]
    emit: Option<Vec<String>>,
    /// The number of tasks of such a job
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    shards: u64,
    #[command(flatten)]
    guest: GuestArgs,
}

const EXAMPLES: &str = "\
Examples:
  trapline sweep tiny/x86_64                                  the whole sweep, on all cores
  trapline sweep debian/amd64 --from-boot --script work.sh --out amd64.part
  trapline sweep debian/arm64 --script work.sh --shard 0/4 --out parts/0.part
  trapline merge parts
  trapline sweep debian/amd64 --script work.sh --emit slurm job --shards 100 && job/submit

Exit status: 0 all runs are the same, 1 a run differs or the guest failed, 2 the command line was wrong,
75 this computer failed: try again";

/// The kinds of probes, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KindName {
    /// Breakpoints
    Kprobe,
    /// Jumps, where they are possible
    Optimised,
    /// Return probes
    Return,
}

impl From<KindName> for Kind {
    fn from(name: KindName) -> Kind {
        match name {
            KindName::Kprobe => Kind::Kprobe,
            KindName::Optimised => Kind::Optimised,
            KindName::Return => Kind::Return,
        }
    }
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let kernel = args.guest.kernel(&args.image)?;
    let policy = args.policy.on(kernel.arch)?;
    let guest = args.guest.guest_to_compare(&args.image, kernel)?;
    if guest.kernel.is_stock() && !args.guest.has_script() && guest.limits == super::until::Limits::default() {
        return Err(Failure::usage(format!("`{}` would wait at its shell for ever", args.image))
            .advise("give it something to do, `--script FILE`, or a limit: `--until 2s`, `--until console:TEXT`"));
    }
    if let Some(emit) = &args.emit {
        return args.emit_job(emit);
    }
    let shard = args.shard()?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}.part", args.image.replace('/', "-"))));
    let mut kinds: Vec<Kind> = args.kinds.iter().map(|kind| (*kind).into()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let jobs = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, Into::into), Into::into);
    let limit = guest.limits.time.unwrap_or(u64::MAX);
    let identity = Identity {
        trapline: TRAPLINE.into(),
        name: args.image.clone(),
        image: Key::hash(&image::bytes(&args.image)?),
        guest: Key::hash(guest.fingerprint()?.as_bytes()),
        kinds: kinds.iter().map(|kind| kind.name().into()).collect(),
        policy: args.policy.name(),
        size: args.wave.into(),
        ..Identity::default()
    };
    let settings = Settings { kinds, policy, wave: args.wave as usize, limit, jobs };
    let booted = guest.snapshot()?;
    let text = booted.as_ref().map_or_else(|| guest.kernel.clone(), |snapshot| snapshot.live(&guest.kernel));
    let source = Source { guest: &guest, text, policy, booted };
    let mut progress = output::progress(0, "waves");
    let mut tell = |news: News<'_>| match news {
        News::Planned { plan, waves, known, run } => {
            progress = output::progress(waves, "waves");
            progress.set_position(known);
            progress.reset_eta();
            let (instructions, functions) = (thousands(plan.instructions as u64), thousands(plan.functions as u64));
            let note = Paint::for_errors().advice("note:");
            eprintln!(
                "{note} {instructions} instructions of {functions} functions were executed; run {run}; shard {shard}: \
                 {waves} waves, {known} known, {jobs} at a time"
            );
        }
        News::Done(wave) => {
            progress.inc(1);
            if let Some(found) = &wave.differs {
                let note = Paint::for_errors().advice("note:");
                progress.suspend(|| eprintln!("{note} wave {} differs: {}", wave.wave, found.probes.join(", ")));
            }
        }
    };
    let summary = sweep::run(&source, &settings, &identity, shard, &out, &mut tell);
    progress.finish_and_clear();
    let summary = summary.map_err(failure)?;
    output::emit(&match args.json {
        true => output::json_line(&sweep_table::totals(&summary))?,
        false => sweep_table::text(&summary, Paint::for_output()),
    })?;
    match summary.is_identical() {
        true => Ok(()),
        false => Err(Failure::failed("a probed run differs from the unprobed one")),
    }
}

/// A sweep's failure: to be tried again if the computer failed.
fn failure(why: Again) -> Failure {
    match &why {
        Again::Part(part) => part_failure(part),
        _ => Failure::again(why.to_string()),
    }
}

/// The failure of a part that cannot be used.
pub(super) fn part_failure(why: &PartError) -> Failure {
    match why {
        why if why.may_pass() => Failure::again(why.to_string()),
        PartError::Another { .. } => Failure::usage(why.to_string()).advise("remove that file, or give another name: --out FILE"),
        why => Failure::failed(why.to_string()),
    }
}

impl Args {
    fn shard(&self) -> Result<Shard, Failure> {
        let shard = match self.shard.as_deref() {
            None => Ok(Shard::WHOLE),
            Some("auto") => Shard::of_environment(&|name| std::env::var(name).ok()),
            Some(text) => text.parse(),
        };
        shard.map_err(|why| Failure::usage(why.to_string()))
    }

    /// Writes the files of a cluster's job.
    fn emit_job(&self, emit: &[String]) -> Result<(), Failure> {
        let [engine, folder] = emit else { return Err(Failure::usage("--emit takes an engine and a folder")) };
        type Files = fn(&Job<'_>) -> Vec<Output>;
        let files: Files = match engine.as_str() {
            "slurm" => emit::slurm::files,
            "kubernetes" => emit::kubernetes::files,
            other => {
                return Err(Failure::usage(format!("`{other}` is no engine of jobs that is known"))
                    .advise("give `--emit slurm DIR` or `--emit kubernetes DIR`"));
            }
        };
        if self.shard.is_some() || self.out.is_some() {
            return Err(Failure::usage("--emit chooses the shards and their files: leave --shard and --out out"));
        }
        let words = words_without(std::env::args_os(), &[("--emit", 2), ("--shards", 1), ("--jobs", 1)])?;
        let here = std::env::current_dir().map_err(|why| Failure::again(format!("the current folder is unknown: {why}")))?;
        let folder = here.join(folder);
        let job = Job { words: &words, shards: self.shards, jobs: self.jobs.unwrap_or(1).into(), here: &here, folder: &folder };
        let cannot = |what: &Path, why: std::io::Error| Failure::again(format!("`{}` cannot be written: {why}", what.display()));
        std::fs::create_dir_all(&folder).map_err(|why| cannot(&folder, why))?;
        for file in files(&job) {
            let path = folder.join(file.name);
            write(&path, &file).map_err(|why| cannot(&path, why))?;
            output::emit(&format!("{}\n", path.display()))?;
        }
        Ok(())
    }
}

fn write(path: &Path, file: &Output) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, &file.text)?;
    if file.is_program {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The guests of a sweep.
struct Source<'a> {
    guest: &'a Guest,
    text: Kernel,
    policy: Policy,
    booted: Option<Snapshot>,
}

impl Guests for Source<'_> {
    fn start(&self, side: Side, coverage: bool) -> Result<Box<dyn Run>, String> {
        let session = self.guest.compared(side, self.policy, self.booted.as_ref(), coverage);
        let mut session = session.map_err(|failure| failure.message().to_string())?;
        session.machine_mut().stop_at_console_text(self.guest.limits.text.as_deref());
        let typing = Typing::new(self.guest.typist(), &session);
        Ok(Box::new(TypedRun { session, typing }))
    }

    fn kernel(&self) -> &Kernel {
        &self.text
    }
}

/// A guest that gets its input at the same guest times in every run.
struct TypedRun {
    session: Session,
    typing: Typing,
}

impl Run for TypedRun {
    fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    fn advance(&mut self, nanoseconds: u64) -> Stop {
        loop {
            self.typing.look(&mut self.session);
            let until = nanoseconds.min(self.typing.next());
            match self.session.run_until(until) {
                Stop::Limit if until < nanoseconds && self.session.machine().now() < nanoseconds => {}
                stop => return stop,
            }
        }
    }
}
