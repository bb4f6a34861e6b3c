//! Benchmarks of complete machines: the boot of each stock kernel, and user programs in it, compared with QEMU. `machine
//! --help` has the options.
//!
//! The contestants (this build, another build, QEMUs) take turns, each in its own process. The median of their user times
//! counts. Kernels come from `TRAPLINE_IMAGES` and `trapline images pull`.

mod boots;
mod contest;
mod guest;
mod unpacked;
mod works;

use contest::{CONTESTS, Contest};
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trapline_benches::peer::{self, Peer};
use trapline_benches::section;
use works::{WORKS, Work};

const HELP: &str = "\
Compares trapline with QEMU in seconds of user time, for the Debian kernels on this computer. QEMU is the newest one
that `scripts/peer.sh` has downloaded, and the installed one. Measures the boot with 0, 10 and 1,000 armed probes that are never
hit, and each workload of user programs. The programs take turns, and the median of the rounds counts.

usage: machine [--only KERNEL,...] [--work WORK,...] [--rounds N] [--beside PROGRAM] [--peer-only] [--json] [--write]

  --only KERNEL,...  measure these kernels: amd64, i386, armhf, arm64, s390x, ppc64el, mipsel, mips64el, riscv64
  --work WORK,...    measure these workloads: boot, syscalls, sha, shell, pipe, fork, gzip, faults
  --rounds N         the number of rounds (default: 3)
  --beside PROGRAM   run the workloads (not the boots) with this `machine` program of another build, too, and print the
                     ratio to it in the last column
  --peer-only        of several QEMUs, measure only the newest one
  --json             print a line of JSON for each row
  --write            write the tables into docs/overhead.md; needs all kernels and workloads
  --help             print this text

While developing: machine --only amd64 --work syscalls,pipe --rounds 3";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        [guest::BOOT, folder, armed] => armed
            .parse()
            .map_err(|_| "the number of probes is missing".to_string())
            .and_then(|armed| guest::boot(Path::new(folder), armed)),
        [guest::COUNT, folder] => guest::count(Path::new(folder)),
        [guest::WORK, folder] => guest::work(Path::new(folder)),
        ["--help"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => Options::parse(&words).and_then(|options| measure(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("machine: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The options of the command line, which [`HELP`] explains.
struct Options {
    kernels: Vec<&'static Contest>,
    /// Whether boots are measured.
    boots: bool,
    works: Vec<&'static Work>,
    rounds: usize,
    /// The `machine` program of another build, which takes part.
    beside: Option<PathBuf>,
    json: bool,
    write: bool,
    /// The QEMUs that are measured, the one to compare with first.
    peers: Vec<Peer>,
}

/// The name of the boot in the option `--work`.
const BOOT: &str = "boot";

impl Options {
    fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            kernels: CONTESTS.iter().collect(),
            boots: true,
            works: WORKS.iter().collect(),
            rounds: 3,
            beside: None,
            json: false,
            write: false,
            peers: peer::all(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().copied().ok_or(format!("{word} needs a value; --help shows its form"));
            match *word {
                "--json" => options.json = true,
                "--write" => options.write = true,
                "--peer-only" => options.peers.truncate(1),
                "--rounds" => {
                    let number = value()?.parse().ok().filter(|number| *number > 0);
                    options.rounds = number.ok_or("--rounds needs a number of at least 1")?;
                }
                "--only" => {
                    let one = |name: &str| CONTESTS.iter().find(|contest| contest.short() == name || contest.kernel == name);
                    let all = value()?.split(',').map(|name| one(name).ok_or(format!("there is no kernel `{name}`")));
                    options.kernels = all.collect::<Result<_, _>>()?;
                }
                "--work" => {
                    let names = value()?.split(',');
                    options.boots = names.clone().any(|name| name == BOOT);
                    let one = |name: &str| WORKS.iter().find(|work| work.name == name);
                    let all =
                        names.filter(|name| *name != BOOT).map(|name| one(name).ok_or(format!("there is no workload `{name}`")));
                    options.works = all.collect::<Result<_, _>>()?;
                }
                "--beside" => options.beside = Some(PathBuf::from(value()?)),
                other => return Err(format!("there is no option `{other}`; --help lists the options")),
            }
        }
        let all = options.boots && options.works.len() == WORKS.len() && options.kernels.len() == CONTESTS.len();
        if options.write && (!all || options.beside.is_some()) {
            return Err("--write replaces whole tables: leave out --only, --work and --beside".into());
        }
        Ok(options)
    }
}

/// Measures and prints all chosen kernels and workloads. A measurement that fails is left out of the tables, and the
/// function fails at the end.
fn measure(options: &Options) -> Result<(), String> {
    let mut boots = Vec::new();
    let mut works = Vec::new();
    let put = |cells: Vec<String>, json: String, table: &mut Vec<Vec<String>>| {
        println!("{}", if options.json { json } else { cells.join("  ") });
        table.push(cells);
    };
    let mut left_out = 0;
    for contest in &options.kernels {
        let mut fails = |what: &str, why: String| {
            eprintln!("{}, {what}: {why}; it is left out", contest.kernel);
            left_out += 1;
        };
        if options.boots {
            match boots::measure(contest, options) {
                Ok(figures) => put(figures.cells(), figures.json(&options.peers), &mut boots),
                Err(why) => fails(BOOT, why),
            }
        }
        if !options.works.is_empty() {
            match works::measure(contest, options) {
                Ok(all) => all.iter().for_each(|figures| put(figures.cells(), figures.json(&options.peers), &mut works)),
                Err(why) => fails("works", why),
            }
        }
    }
    if options.write && left_out > 0 {
        return Err(format!("{left_out} parts could not be measured, so docs/overhead.md stays as it is"));
    }
    if options.write {
        write("machine", &boots::headings(&options.peers), &boots, options.rounds)?;
        write("works", &works::headings(&options.peers), &works, options.rounds)?;
    }
    match (boots.is_empty() && works.is_empty(), left_out) {
        (true, _) => Err("nothing was measured".into()),
        (false, 0) => Ok(()),
        (false, parts) => Err(format!("{parts} parts could not be measured")),
    }
}

/// Replaces the section `name` of docs/overhead.md by a table. Does nothing without rows.
fn write(name: &str, headings: &[String], rows: &[Vec<String>], rounds: usize) -> Result<(), String> {
    if rows.is_empty() {
        return Ok(());
    }
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut table = row(headings) + &row(&vec!["---".to_string(); headings.len()]);
    rows.iter().for_each(|cells| table.push_str(&row(cells)));
    let how = match rounds {
        1 => "Each has had one turn.".into(),
        rounds => format!("Medians of {rounds} turns each."),
    };
    table.push_str(&format!("\n{how}\n"));
    section::replace(name, &table)
}
