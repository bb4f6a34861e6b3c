//! `make budget`: compares the host instructions that a hit adds, counted by callgrind, with the budgets in
//! `benches/budgets.tsv`.
//!
//! The program runs itself under valgrind as `budget measure GUEST [LETTERS...]`. It puts one mechanism after another
//! on the benchmark loop and runs each for a short and a long guest time. Callgrind dumps its counts after each run.
//! The difference is the cost of the hits in between, and the cost of the unprobed loop is subtracted.
//!
//! After the guest's timer interrupt come a task switch and a TLB flush. So each pair of runs begins after one interrupt
//! and ends before the next. The program repeats each pair [`ROUNDS`] times and takes medians. It pins the C library's
//! string functions to the same variants on every CPU ([`TUNABLES`]). So the counts are exactly reproducible on any
//! x86-64 host, in every folder and environment, with the same compiler and the same kind of build.
//!
//! Guests named `loops/...` have no probes. Their rows count all host instructions per guest instruction, system call
//! or address space switch.
//!
//! For a guest with many functions the arguments are numbers of probes. 100,000 probes take long under callgrind, so
//! they are measured on the first such guest only, and on the others with `budget all`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};
use trapline::overhead::bench_loop::{BenchLoop, SETTLED};
use trapline::overhead::many::{self, Many, loops};
use trapline::overhead::records::{FORMATS, Recorded};
use trapline::overhead::scripts;
use trapline::overhead::watched;
use trapline::overhead::{Mechanism, SHAPE};
use trapline_benches::user_time::median;

/// Guest time of the two runs of a guest without a timer, in nanoseconds.
const SHORT: u64 = 4_000;
const LONG: u64 = 24_000;
/// The number of pairs of runs of each mechanism. It is odd, so that one of them is the median.
const ROUNDS: usize = 5;
/// The C library chooses its string functions by the CPU, and callgrind counts each byte of a REP STOSB: with it a flush
/// of the core's TLB costs 160,000 instructions, without it a tenth. With all these features masked the choice is the
/// same on every CPU. Each version of the library ignores the names that it does not know.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX2,-AVX2_Usable,-AVX,-AVX_Usable,-ERMS,-FSRM,-RTM,-BMI1,\
    -BMI2,-LZCNT,-MOVBE,-POPCNT,-SSSE3,-SSE4_1,-SSE4_2,-AVX_Fast_Unaligned_Load,-Fast_Unaligned_Copy,-Fast_Unaligned_Load,\
    -Fast_Copy_Backward,-Slow_BSF,-Prefer_ERMS,-Prefer_FSRM,-Prefer_No_AVX512_Probing,-Prefer_No_VZEROUPPER,-Fast_Rep_String";
/// Prefix of a guest: the cost of writing its records as text.
const RECORDS: &str = "records/";
/// Prefix of an ISA: the cost of a script at a hit, compared with an empty handler.
const SCRIPTS: &str = "scripts/";
/// Prefix of an ISA: the cost of a hit of a probe in a program.
const PROGRAMS: &str = "programs/";
/// Prefix of an ISA: the cost of a hit on a branch with a delay slot.
const BRANCHES: &str = "branches/";
/// The two runs of a guest whose timer interrupts it, in nanoseconds: the tiny kernel's does every 12,000.
const BETWEEN_INTERRUPTS: [u64; 2] = [1_000, 7_000];
/// Guest time in nanoseconds of the warm-up, in which code is translated and probes are optimised.
const WARM: u64 = 20_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", guest, ref rest @ ..] => measure(guest, rest),
        [] => check(false, &[]),
        ["all"] => check(true, &[]),
        ["vary"] => vary(&UNSTABLE_ONCE),
        ["vary", "all"] => vary_all(),
        ["vary", guest, ref rest @ ..] => vary(&[(guest, rest)]),
        ref guests if guests.iter().all(|guest| guest.contains('/')) => check(false, guests),
        _ => Err("usage: budget [all or GUEST...], budget vary [all or GUEST LETTERS...], or budget measure GUEST [LETTERS or NUMBERS...] under callgrind".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("budget: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The part that runs under callgrind: runs the rows of one guest, all rows if `rest` is empty. Prints a line for each
/// counted run: the name of the row and the number of hits.
fn measure(guest: &str, rest: &[&str]) -> Result<(), String> {
    if let Some(many) = many::find(guest) {
        let number = |text: &&str| {
            let asked = text.parse().ok().filter(|count| (1..=many.most).contains(count));
            asked.ok_or_else(|| format!("`{text}` is not a number of probes; {guest} takes 1 to {}", many.most))
        };
        return rest.iter().try_for_each(|text| measure_among(many, number(text)?));
    }
    if let Some(guest) = guest.strip_prefix(RECORDS) {
        let wanted = FORMATS.iter().filter(|(name, _)| rest.is_empty() || rest.contains(name));
        return wanted.into_iter().try_for_each(|(name, format)| {
            let mut recorded = Recorded::new(guest, *format)?;
            recorded.make(WARM)?;
            recorded.take()?;
            lengths().try_for_each(|nanoseconds| {
                let made = recorded.make(nanoseconds)?;
                counted(&mut || recorded.take())?;
                println!("{name} {made}");
                Ok(())
            })
        });
    }
    if let Some(guest) = guest.strip_prefix(SCRIPTS) {
        return measure_scripts(guest, rest);
    }
    if let Some(guest) = guest.strip_prefix(BRANCHES) {
        return measure_branches(guest);
    }
    if let Some(guest) = guest.strip_prefix(PROGRAMS) {
        return measure_program(guest);
    }
    if let Some(guest) = guest.strip_prefix(watched::PREFIX) {
        return measure_watched(guest);
    }
    if let Some(loops) = loops::of(guest) {
        return loops.all.iter().filter(|chosen| rest.is_empty() || rest.contains(&chosen.what)).try_for_each(|chosen| {
            let mut bench = loops.bench_loop(chosen)?;
            count_two(&mut bench, chosen.what, |bench| chosen.units_in(bench.session().machine().time()))
        });
    }
    let mut bench = BenchLoop::tiny(guest)?;
    let arch = bench.session().kernel().arch;
    for mechanism in Mechanism::all_of(arch).filter(|mechanism| rest.is_empty() || rest.contains(&mechanism.letters)) {
        let planted = bench.plant(mechanism)?;
        count_two(&mut bench, mechanism.letters, |_| planted.hits())?;
        bench.take_away(planted);
    }
    Ok(())
}

/// Runs the loop with an optimised probe that has an empty handler, then with one that runs a script.
fn measure_scripts(guest: &str, rest: &[&str]) -> Result<(), String> {
    let mut bench = BenchLoop::tiny(&format!("tiny/{guest}"))?;
    let empty = bench.plant(scripts::mechanism()?)?;
    count_two(&mut bench, UNPROBED, |_| empty.hits())?;
    bench.take_away(empty);
    let wanted = scripts::SCRIPTS.iter().filter(|(name, _)| rest.is_empty() || rest.contains(name));
    for (name, block) in wanted {
        let mut tracing = scripts::start(&mut bench, block)?;
        count_two(&mut bench, name, |_| scripts::hits(&tracing))?;
        bench.session().end_script(&mut tracing);
    }
    Ok(())
}

/// Runs a loop of branches without a probe, then with a probe on a branch.
fn measure_branches(guest: &str) -> Result<(), String> {
    let branches = loops::of(&format!("loops/{guest}")).and_then(|loops| loops.branches());
    let (mut bench, probe) = branches.ok_or_else(|| format!("{guest} has no loop of branches"))??;
    count_two(&mut bench, UNPROBED, |_| 0)?;
    bench.session().register_kprobe(&probe).map_err(|refusal| refusal.to_string())?;
    count_two(&mut bench, "slot", |_| probe.hits())
}

/// A program's loop without a probe, then with a probe on it, then after the probe's removal.
fn measure_program(guest: &str) -> Result<(), String> {
    let program = loops::of(&format!("loops/{guest}")).and_then(|loops| Some((loops, loops.program()?)));
    let (loops, made) = program.ok_or_else(|| format!("{guest} has no loop that is a program"))?;
    let (mut bench, probe) = made?;
    count_two(&mut bench, UNPROBED, |_| 0)?;
    bench.session().register_user(&probe).map_err(|refusal| refusal.to_string())?;
    count_two(&mut bench, "hit", |_| probe.hits())?;
    bench.session().unregister_user(&probe);
    count_two(&mut bench, "removed", |bench| loops.program_rounds_in(bench.session().machine().time()))
}

/// Runs the loop of loads and stores without a watchpoint, then with each kind of watchpoint, then after the last removal.
fn measure_watched(guest: &str) -> Result<(), String> {
    let mut watched = watched::Bench::start(guest).ok_or_else(|| format!("{guest} has no loop of loads and stores"))??;
    let chosen = watched.chosen();
    count_two(&mut watched.bench, UNPROBED, |_| 0)?;
    for row in watched::ROWS {
        let watchpoint = watched.watch(row)?;
        match row.what {
            "beside" => count_two(&mut watched.bench, row.what, |bench| watched::Bench::accesses(bench, chosen))?,
            _ => count_two(&mut watched.bench, row.what, |_| watchpoint.hits())?,
        }
        watched.end(&watchpoint);
    }
    count_two(&mut watched.bench, "removed", |bench| watched::Bench::accesses(bench, chosen))
}

/// Runs the loop without a probe, then with a probe on each of `count` functions.
fn measure_among(many: &Many, count: usize) -> Result<(), String> {
    let mut bench = many.bench_loop(count)?;
    count_two(&mut bench, UNPROBED, |_| 0)?;
    let probes = many.probes(count);
    let registered = bench.session().with_engine(|engine, guest| engine.register_kprobes(guest, &probes));
    registered.map_err(|refusal| refusal.to_string())?;
    count_two(&mut bench, &format!("{AMONG}{count}"), |_| probes[0].hits())
}

/// Prefix of a number of probes: the cost of an optimised probe among this many.
const AMONG: char = 'o';

/// Runs the loop for the short and for the long time, and prints the hits of each run. A pair of runs of a guest with a
/// timer begins when the guest has just dealt with an interrupt and ends before the next one.
fn count_two(bench: &mut BenchLoop, name: &str, hits: impl Fn(&mut BenchLoop) -> u64) -> Result<(), String> {
    bench.run(WARM)?;
    let lengths = if bench.interrupts() == 0 { [SHORT, LONG] } else { BETWEEN_INTERRUPTS };
    for _ in 0..ROUNDS {
        bench.run_past_interrupt()?;
        let quiet = bench.interrupts();
        for nanoseconds in lengths {
            let before = hits(bench);
            counted(&mut || bench.run(nanoseconds))?;
            println!("{name} {}", hits(bench) - before);
        }
        if bench.interrupts() != quiet {
            return Err(format!("{name}: two interrupts came within {} ns", SETTLED + lengths.iter().sum::<u64>()));
        }
    }
    Ok(())
}

/// The guest times of all runs of one row, in nanoseconds: short and long in turn.
fn lengths() -> impl Iterator<Item = u64> {
    std::iter::repeat_n([SHORT, LONG], ROUNDS).flatten()
}

/// The function that callgrind measures. It is found by name and must return, so it cannot be inlined.
#[inline(never)]
fn counted(work: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> {
    std::hint::black_box(work())
}

/// Host instructions that a hit adds, by the name of the row.
type Added = BTreeMap<String, f64>;

/// The name of the run without a probe. Its cost is subtracted from the runs after it.
const UNPROBED: &str = "none";

/// Measures rows of a guest under callgrind. `numbers` are the arguments of [`measure`] behind the guest.
fn added(guest: &str, numbers: &[String], variation: &Variation) -> Result<Added, String> {
    let folder = env::temp_dir().join(format!("trapline-budget-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let answer = run_callgrind(guest, numbers, &folder, variation).and_then(|said| read_counts(&said, &folder));
    // This is the host's temporary folder, so a failure to delete it does no harm.
    let _ = fs::remove_dir_all(&folder);
    answer
}

/// Runs `budget measure` under callgrind, which writes its counts to `folder`. Returns the output of [`measure`].
fn run_callgrind(guest: &str, numbers: &[String], folder: &Path, variation: &Variation) -> Result<String, String> {
    let mut this = env::current_exe().map_err(|error| error.to_string())?;
    if variation.elsewhere {
        let elsewhere = folder.join("a".repeat(200));
        let failed = |error| format!("{}: {error}", elsewhere.display());
        fs::create_dir(&elsewhere).map_err(failed)?;
        let copy = elsewhere.join("budget");
        fs::copy(&this, &copy).map_err(failed)?;
        this = copy;
    }
    let mut command = Command::new("valgrind");
    if variation.without_environment {
        command.env_clear().envs(env::var_os("PATH").map(|path| ("PATH", path)));
    }
    if variation.pins {
        command.env("GLIBC_TUNABLES", TUNABLES);
    }
    command.envs(variation.environment.iter().map(|(name, value, times)| (name, value.repeat(*times))));
    let output = command
        .args(["--tool=callgrind", "--quiet", "--toggle-collect=budget::counted", "--dump-after=budget::counted"])
        .args(variation.arguments)
        .arg(format!("--callgrind-out-file={}", folder.join("counts").display()))
        .arg(this)
        .args(["measure", guest])
        .args(numbers)
        .output()
        .map_err(|error| format!("valgrind cannot be run ({error}); `scripts/setup.sh budget` installs it"))?;
    if !output.status.success() {
        return Err(format!("{guest} under valgrind: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// One way in which two computers or folders may differ.
struct Variation {
    name: &'static str,
    /// Whether the program runs from a folder with a long name.
    elsewhere: bool,
    /// Whether the environment holds only `PATH` and the variables below.
    without_environment: bool,
    /// Whether the C library's string functions are pinned ([`TUNABLES`]).
    pins: bool,
    /// Environment variables: a name, and a value that is repeated this many times.
    environment: &'static [(&'static str, &'static str, usize)],
    /// Arguments of valgrind.
    arguments: &'static [&'static str],
}

const USUAL: Variation =
    Variation { name: "usual", elsewhere: false, without_environment: false, pins: true, environment: &[], arguments: &[] };

/// The variations of `budget vary`. Budgets are measured under the first one.
const VARIATIONS: [Variation; 7] = [
    USUAL,
    Variation { name: "no environment", without_environment: true, ..USUAL },
    Variation { name: "60 kB environment", environment: &[("TRAPLINE_BALLAST", "x", 60_000)], ..USUAL },
    Variation { name: "long path", elsewhere: true, ..USUAL },
    Variation {
        name: "other heap",
        environment: &[("MALLOC_TOP_PAD_", "5000000", 1), ("MALLOC_MMAP_THRESHOLD_", "4096", 1)],
        ..USUAL
    },
    Variation { name: "other addresses", arguments: &["--aspace-minaddr=0x200000000"], ..USUAL },
    // With the string functions that the C library chooses for the host's CPU: for information only, because figures may
    // differ by a few instructions.
    Variation { name: "this CPU's strings", pins: false, ..USUAL },
];

/// The rows that `budget vary` measures by default. Their figures once differed between two computers.
const UNSTABLE_ONCE: [(&str, &[&str]); 3] =
    [("tiny/ppc64le", &[UNPROBED, "j", "jr"]), ("tiny/arm", &[UNPROBED, "b", "o"]), ("scripts/x86_64", &["count-by-comm"])];

/// Measures rows under each variation, and fails if a figure differs under one that pins the string functions.
fn vary(rows: &[(&str, &[&str])]) -> Result<(), String> {
    let mut differ = String::new();
    for (guest, letters) in rows {
        let letters: Vec<String> = letters.iter().map(|word| word.to_string()).collect();
        let mut usual = Added::new();
        for variation in &VARIATIONS {
            let added = added(guest, &letters, variation)?;
            if variation.name == USUAL.name {
                usual = added.clone();
            }
            for what in usual.keys().filter(|what| !added.contains_key(*what)) {
                let _ = write!(differ, "\n  {guest} {what}, {}: no figure", variation.name);
            }
            for (what, value) in &added {
                println!("{guest:<20}{what:<16}{:<22}{value:>10.2}", variation.name);
                // Another path through the code of a hit differs by at least one instruction.
                if variation.pins && usual.get(what).is_none_or(|usual| (usual - value).abs() >= 0.5) {
                    let _ = write!(differ, "\n  {guest} {what}, {}: {value:.2}", variation.name);
                }
            }
        }
    }
    if differ.is_empty() { Ok(()) } else { Err(format!("not the same everywhere:{differ}")) }
}

/// Measures every row of `budget` under each variation of the host.
fn vary_all() -> Result<(), String> {
    let budgets: Vec<Budget> = budgets()?.into_iter().filter(|budget| !budget.takes_long()).collect();
    let mut guests: Vec<&str> = budgets.iter().map(|budget| budget.guest.as_str()).collect();
    guests.dedup();
    let numbers: Vec<Vec<&str>> = guests.iter().map(|guest| numbers_of(&budgets, guest)).collect();
    let rows: Vec<(&str, &[&str])> = guests.into_iter().zip(numbers.iter().map(Vec::as_slice)).collect();
    vary(&rows)
}

/// The numbers of probes in the rows of a guest with many functions, in ascending order.
fn numbers_of<'a>(budgets: &'a [Budget], guest: &str) -> Vec<&'a str> {
    let rows = budgets.iter().filter(|budget| budget.guest == guest);
    let mut numbers: Vec<&str> = rows.flat_map(Budget::numbers).collect();
    numbers.sort_by_key(|number| number.parse::<usize>().ok());
    numbers.dedup();
    numbers
}

/// Combines the output of [`measure`] with callgrind's dumps, which are numbered by run. For each row: the median, over all
/// pairs, of the instructions that the long run took more than the short one, minus those of the unprobed loop, per hit.
fn read_counts(said: &str, folder: &Path) -> Result<Added, String> {
    let mut runs = Vec::new();
    for (number, line) in said.lines().enumerate() {
        let (letters, hits) = line.split_once(' ').ok_or(format!("no run: {line}"))?;
        let hits: u64 = hits.parse().map_err(|_| format!("no number of hits: {line}"))?;
        runs.push((letters, hits, instructions(&folder.join(format!("counts.{}", number + 1)))?));
    }
    let mut added = Added::new();
    let mut unprobed = 0.0;
    for rounds in runs.chunks_exact(2 * ROUNDS) {
        let Some((letters, _, _)) = rounds.first() else { continue };
        if let Some((other, _, _)) = rounds.iter().find(|(name, _, _)| name != letters) {
            return Err(format!("{letters} was run less than {ROUNDS} times before {other}"));
        }
        let pairs = rounds.chunks_exact(2).filter_map(|pair| if let [short, long] = pair { Some((short, long)) } else { None });
        // The difference may be negative, because the short run may have translated code.
        let costs = pairs.map(|((_, few, short), (_, many, long))| (many.saturating_sub(*few), *long as f64 - *short as f64));
        if *letters == UNPROBED {
            unprobed = median(costs.map(|(_, cost)| cost));
        } else {
            let each = costs.filter(|(hits, _)| *hits != 0).map(|(hits, cost)| (cost - unprobed) / hits as f64);
            let middle = median(each);
            if !middle.is_nan() {
                added.insert(letters.to_string(), middle);
            }
        }
    }
    Ok(added)
}

/// The number of instructions in a dump of callgrind.
fn instructions(file: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).map(str::trim);
    total.and_then(|total| total.parse().ok()).ok_or(format!("{} has no totals", file.display()))
}

/// One line of budgets.tsv.
struct Budget {
    /// A kernel's name such as `tiny/arm`, or a name with one of the prefixes above.
    guest: String,
    /// The row: the letters of a mechanism, another name that [`measure`] prints, or `one/other` for a ratio.
    what: String,
    /// The limit of the host instructions per hit, or of the ratio.
    most: f64,
    /// The goal as text, printed only; `-` if the project has set none.
    goal: String,
}

/// Reads budgets.tsv.
fn budgets() -> Result<Vec<Budget>, String> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("budgets.tsv");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            [guest, what, most, goal] => {
                let number = |text: &str| text.parse().map_err(|_| format!("budgets.tsv: no number: {line}"));
                Ok(Budget { guest: guest.into(), what: what.into(), most: number(most)?, goal: goal.into() })
            }
            _ => Err(format!("budgets.tsv: not four columns: {line}")),
        })
        .collect()
}

impl Budget {
    /// The numbers of probes in this row. Empty for a guest without many functions.
    fn numbers(&self) -> impl Iterator<Item = &str> {
        let among = many::find(&self.guest).map(|_| self.what.split('/').filter_map(|what| what.strip_prefix(AMONG)));
        among.into_iter().flatten()
    }

    /// Whether only `budget all` measures the row.
    fn takes_long(&self) -> bool {
        /// The largest number of probes that callgrind measures in a few seconds.
        const QUICK: usize = 10_000;
        self.guest != many::FIRST.name && self.numbers().any(|number| number.parse().is_ok_and(|number: usize| number > QUICK))
    }
}

/// The value of `CARGO_INCREMENTAL` when this program was compiled.
const INCREMENTAL: Option<&str> = option_env!("CARGO_INCREMENTAL");

/// Checks the budgets of these guests, or of all guests if none is given.
fn check(all: bool, of: &[&str]) -> Result<(), String> {
    if INCREMENTAL != Some("0") {
        return Err("budgets hold for builds that are not incremental, which divide crates otherwise and inline less: \
                    run `make budget`, or set CARGO_INCREMENTAL=0"
            .into());
    }
    let budgets: Vec<Budget> = budgets()?.into_iter().filter(|budget| all || !budget.takes_long()).collect();
    let mut guests: Vec<&str> = budgets.iter().map(|budget| budget.guest.as_str()).collect();
    guests.dedup();
    if let Some(unknown) = of.iter().find(|guest| !guests.contains(guest)) {
        return Err(format!("there is no budget for {unknown}; there are some for {}", guests.join(", ")));
    }
    guests.retain(|guest| of.is_empty() || of.contains(guest));
    let mut over = String::new();
    println!("{:<20}{:<12}{:>10}{:>10}{:>10}", "guest", "what", "measured", "at most", "goal");
    for guest in guests {
        let rows = || budgets.iter().filter(|budget| budget.guest == guest);
        let numbers: Vec<String> = numbers_of(&budgets, guest).into_iter().map(String::from).collect();
        let added = added(guest, &numbers, &USUAL)?;
        for budget in rows() {
            let value = value_of(&added, &budget.what).ok_or(format!("{guest}: nothing measures {}", budget.what))?;
            println!("{guest:<20}{:<12}{value:>10.2}{:>10}{:>10}", budget.what, budget.most, budget.goal);
            if value > budget.most {
                let _ = write!(over, "\n  {guest} {}: {value:.2}, at most {}", budget.what, budget.most);
            }
        }
        out_of_shape(guest, &added, &mut over);
    }
    if over.is_empty() { Ok(()) } else { Err(format!("over budget:{over}")) }
}

/// Checks that the mechanisms of a guest cost less in the order of [`SHAPE`]. The kernel's document about kprobes
/// (Documentation/trace/kprobes.rst) has the same order, and it must hold on every ISA. Adds errors to `over`.
fn out_of_shape(guest: &str, added: &Added, over: &mut String) {
    for (less, more) in SHAPE {
        if let (Some(one), Some(other)) = (added.get(*less), added.get(*more))
            && one >= other
        {
            let _ = write!(over, "\n  {guest}: {less} ({one:.2}) does not cost less than {more} ({other:.2})");
        }
    }
}

/// The cost of a mechanism, or for `one/other` the ratio of two costs.
fn value_of(added: &Added, what: &str) -> Option<f64> {
    match what.split_once('/') {
        Some((one, other)) => Some(added.get(one)? / added.get(other)?),
        None => added.get(what).copied(),
    }
}
