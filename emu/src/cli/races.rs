//! `trapline races`: runs a guest with turns drawn from one seed after the other, until one run fails.

use super::driver::{Driver, Shown, Work};
use super::end::End;
use super::event_error::Script as Text;
use super::guest::{Guest, GuestArgs, USUAL_LONGEST_TURN, turn_length};
use super::output::{self, thousands};
use super::words::words_without;
use super::{Failure, trace};
use crate::history::tape::Tape;
use crate::machine::{Draws, Stop};
use crate::probed::Session;
use crate::probed::scripts::{Facts, How, Tracing};
use crate::snapshot::Snapshot;
use crate::sweep::emit;
use crossbeam_channel::bounded;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use trapline_isa::plan::Policy;
use trapline_script::Options;

/// Searches for a race by running a guest on several CPUs with many seeds
///
/// Each seed draws the order and the lengths of the CPUs' turns. A run fails if the guest's script fails, its kernel panics, it
/// does not end before `--until`, or a program of `-e` calls exit(). The lowest seed that fails is printed with the command that
/// repeats it: the same seed is the same run, also with other probes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A kernel file, a built-in kernel such as tiny/x86_64, or a stock kernel such as debian/amd64
    image: String,
    /// The number of seeds to try
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first: u64,
    /// The longest turn, from 100ns to 1ms [default: 20us]
    #[arg(long, value_name = "LENGTH", value_parser = turn_length)]
    length: Option<u64>,
    /// A script in bpftrace's language whose exit() is a failure, such as 'kprobe:f /arg0 == 0/ { exit(); }'; may be repeated
    #[arg(short = 'e', long = "program", value_name = "PROGRAM")]
    programs: Vec<String>,
    /// The number of machines that run at the same time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Prints the result as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    guest: GuestArgs,
}

const EXAMPLES: &str = "\
Examples:
  trapline races debian/amd64 --cpus 2 --from-boot --script work.sh
                                      the guest boots once; each seed runs the script from the shell
  trapline races debian/arm64 --cpus 4 --script work.sh --seeds 200 --length 100us --jobs 8
  trapline races debian/amd64 --cpus 2 --from-boot --script work.sh -e 'kprobe:warn_slowpath_fmt { exit(); }'
  trapline run debian/amd64 --cpus 2 --from-boot --script work.sh --turns 17:20us
                                      repeats seed 17

Exit status: 0 no seed failed, 1 a seed failed, 2 the command line was wrong";

/// The limit of guest time for a run, in nanoseconds, unless the user gives one. A guest that is deadlocked takes as long.
const LONGEST_RUN: u64 = 120_000_000_000;
/// Nanoseconds of guest time between two looks at a run.
const SLICE: u64 = 1_000_000;
/// The options of this command, with the number of words behind each.
const LEFT_OUT: &[(&str, usize)] = &[("--seeds", 1), ("--first", 1), ("--length", 1), ("--jobs", 1), ("--json", 0)];
/// The number that means "no seed yet".
const NONE: u64 = u64::MAX;

/// The result of a search.
#[derive(Debug, Serialize)]
struct Found {
    /// The lowest seed that fails.
    seed: Option<u64>,
    /// The reason why that run ended.
    ended: Option<String>,
    /// The command that repeats it.
    repeat: Option<String>,
    /// The number of runs.
    runs: u64,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let kernel = args.guest.kernel(&args.image)?;
    if args.guest.has_turns() {
        return Err(Failure::usage("`trapline races` draws the turns from many seeds")
            .advise("leave `--turns` out, or give the first seed and the longest turn: --first 7 --length 50us"));
    }
    let mut guest = args.guest.guest_to_compare(&args.image, kernel)?;
    if guest.cpus == 1 {
        return Err(Failure::usage("one CPU takes no turns").advise("give the guest several: --cpus 2"));
    }
    if guest.kernel.is_stock() && !args.guest.has_script() && guest.limits.text.is_none() {
        return Err(Failure::usage(format!("`{}` would wait at its shell for ever", args.image))
            .advise("give it something to do: `--script FILE`"));
    }
    guest.limits.time.get_or_insert(LONGEST_RUN);
    let texts: Vec<Text> = args.programs.iter().map(|program| Text { source: "-e".into(), text: program.clone() }).collect();
    // Errors in a program are reported before the guest boots.
    drop(trace::compile(&texts, &Facts::of(&guest.kernel), &options())?);
    let booted = guest.snapshot()?;
    guest.quiet = true;
    let length = args.length.unwrap_or(USUAL_LONGEST_TURN);
    let search = Search { guest: &guest, texts: &texts, booted: booted.as_ref(), length };
    let last = args.first.saturating_add(args.seeds - 1).min(NONE - 1);
    let jobs = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, Into::into), usize::from);
    let found = search.run(args.first, last, jobs)?;
    let repeat = |seed| Ok::<_, Failure>(repeat(&words_without(std::env::args_os(), LEFT_OUT)?, seed, length));
    let result = Found {
        seed: found.first.as_ref().map(|(seed, _)| *seed),
        ended: found.first.as_ref().map(|(_, ended)| ended.clone()),
        repeat: found.first.as_ref().map(|(seed, _)| repeat(*seed)).transpose()?,
        runs: found.runs,
    };
    output::emit(&if args.json { output::json_line(&result)? } else { text(&result, args) })?;
    match result.seed {
        None => Ok(()),
        Some(seed) => Err(Failure::failed(format!("the run of seed {seed} fails"))),
    }
}

fn text(result: &Found, args: &Args) -> String {
    match (&result.seed, &result.ended, &result.repeat) {
        (Some(seed), Some(ended), Some(repeat)) => format!("seed {seed}: {ended}\n  {repeat}\n"),
        _ => format!("none of {} seeds fails, from {} on\n", thousands(result.runs), args.first),
    }
}

/// The options of programs: none of them may change the guest.
fn options() -> Options {
    Options { settings: trace::settings_of(std::env::vars()), ..Options::default() }
}

/// The guest whose runs are tried.
struct Search<'a> {
    guest: &'a Guest,
    texts: &'a [Text],
    booted: Option<&'a Snapshot>,
    length: u64,
}

/// The lowest seed that fails, with the reason why its run ended, and the number of runs.
#[derive(Debug, Default)]
struct Tried {
    first: Option<(u64, String)>,
    runs: u64,
}

impl Search<'_> {
    /// Runs seeds in their order on several threads. After a failure only lower seeds are still run, so the answer does not
    /// depend on the number of threads.
    fn run(&self, first: u64, last: u64, jobs: usize) -> Result<Tried, Failure> {
        let (next, lowest) = (AtomicU64::new(first), AtomicU64::new(NONE));
        let count = last - first + 1;
        let progress = output::progress(count, "seeds");
        let (send, results) = bounded::<Result<(u64, Option<String>), Failure>>(jobs);
        let mut tried = Tried::default();
        let mut outcome = Ok(());
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, usize::try_from(count).unwrap_or(usize::MAX)) {
                let (send, next, lowest) = (send.clone(), &next, &lowest);
                scope.spawn(move || {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed > last || seed > lowest.load(Ordering::Relaxed) {
                            break;
                        }
                        let result = self.ended(seed);
                        if !matches!(result, Ok(None)) {
                            lowest.fetch_min(seed, Ordering::Relaxed);
                        }
                        if send.send(result.map(|ended| (seed, ended))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            for result in results {
                tried.runs += 1;
                progress.inc(1);
                match result {
                    Ok((seed, Some(ended))) if tried.first.as_ref().is_none_or(|(lowest, _)| seed < *lowest) => {
                        tried.first = Some((seed, ended));
                    }
                    Ok(_) => {}
                    Err(failure) => outcome = Err(failure),
                }
            }
        });
        progress.finish_and_clear();
        outcome.map(|()| tried)
    }

    /// Runs a seed. Returns the reason why the run ended if it failed.
    fn ended(&self, seed: u64) -> Result<Option<String>, Failure> {
        let guest = self.guest.drawn(Draws { seed, longest: self.length });
        let mut session = guest.session(Policy::default(), false, self.booted)?;
        let scripts = trace::compile(self.texts, &Facts::of(&guest.kernel), &options())?;
        let scripts = trace::start(&mut session, self.texts, scripts, &How::default())?;
        let tape = Tape::live(session.machine());
        let mut driver = Driver::new(session, tape, &guest, Shown::Nowhere);
        let mut run = Run { scripts };
        let end = driver.run(&mut run)?;
        // A program may have called exit() in the slice in which the guest ended.
        let end = run.exit(&mut driver.session).unwrap_or(end);
        Ok(is_failure(&end).then(|| end.reason()))
    }
}

/// Whether a run that ended like this has failed.
fn is_failure(end: &End) -> bool {
    match end {
        End::Stopped(stop) => matches!(stop, Stop::PowerOff(1..) | Stop::Dead(_) | Stop::Limit),
        End::Panicked | End::Silent | End::Script(_) => true,
        End::Halted | End::Left | End::Recorded | End::Interrupted => false,
    }
}

/// The programs of a run.
struct Run {
    scripts: Vec<Tracing>,
}

impl Run {
    fn exit(&self, session: &mut Session) -> Option<End> {
        self.scripts.iter().find_map(|script| session.script_exit(script)).map(End::Script)
    }
}

impl Work for Run {
    fn slice(&self) -> u64 {
        SLICE
    }

    fn before(&mut self, session: &mut Session, _: &mut Tape) -> Result<Option<End>, Failure> {
        Ok(self.exit(session))
    }

    fn advance(&mut self, session: &mut Session, until: u64) -> Stop {
        session.trace_until(&mut self.scripts, until)
    }

    fn take(&mut self, session: &mut Session) -> Result<(), Failure> {
        for script in &self.scripts {
            session.take_script_output(script);
        }
        Ok(())
    }

    fn module_came(&mut self, _session: &mut Session) {}
}

/// The command that repeats a seed, from the words of this command. Programs run by `trapline trace`.
fn repeat(words: &[String], seed: u64, length: u64) -> String {
    let has_programs = words.iter().any(|word| word == "-e" || word.starts_with("--program"));
    let command = if has_programs { "trace" } else { "run" };
    let same = words.iter().skip(1).cloned();
    let all: Vec<String> = ["trapline".into(), command.into()]
        .into_iter()
        .chain(same)
        .chain(["--turns".into(), format!("{seed}:{length}ns")])
        .collect();
    emit::words(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CP-7: the command that repeats a seed has the guest's options, quoted.
    #[test]
    fn the_command_that_repeats_a_seed_is_complete() {
        let words = |text: &str| text.split('|').map(Into::into).collect::<Vec<String>>();
        #[rustfmt::skip]
        let cases = [
            ("races|debian/amd64|--cpus|2|--script|a b", "trapline run debian/amd64 --cpus 2 --script 'a b' --turns 17:20000ns"),
            ("races|tiny/x86_64|-e|kprobe:f { exit(); }", "trapline trace tiny/x86_64 -e 'kprobe:f { exit(); }' --turns 17:20000ns"),
        ];
        for (given, expected) in cases {
            assert_eq!(repeat(&words(given), 17, 20_000), expected);
        }
    }

    /// CP-7
    #[test]
    fn a_run_fails_by_status_panic_program_or_limit() {
        for end in [End::Stopped(Stop::PowerOff(1)), End::Stopped(Stop::Limit), End::Panicked, End::Silent, End::Script(0)] {
            assert!(is_failure(&end), "{}", end.reason());
        }
        for end in [End::Stopped(Stop::PowerOff(0)), End::Stopped(Stop::ConsoleText), End::Halted] {
            assert!(!is_failure(&end), "{}", end.reason());
        }
    }
}
