//! Measures the cost of exact virtual time: the share of host instructions spent in the callback that translated code
//! calls for blocks that do not count time themselves.
//!
//! `cargo run -p trapline-benches --bin virtual_time` runs the tiny kernel's unprobed loop twice under callgrind. One
//! run counts all host instructions, the other those inside the callback, which counts time, looks up the block's
//! meaning and checks whether an event is due. The machine cannot run without it, because timers and interrupts use
//! this time. The cost of calling it from translated code is not included. `--write` puts the table into
//! docs/overhead.md.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs};
use trapline::overhead::bench_loop::BenchLoop;
use trapline::overhead::guests;
use trapline_benches::section;

/// Guest time of the warm-up and of the counted run, in nanoseconds.
const WARM: u64 = 20_000;
const LONG: u64 = 20_000;
/// The functions inside which callgrind counts, as callgrind patterns: the counted run, and the callback.
const ALL: &str = "virtual_time::counted";
const CALLBACK: &str = "trapline::unicorn::engine::block*";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", guest] => measure(guest),
        [] => table().map(|_| ()),
        ["--write"] => table().and_then(|table| section::replace("virtual-time", &table)),
        _ => Err("usage: virtual_time [--write], or virtual_time measure GUEST under callgrind".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("virtual_time: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one guest. [`instructions`] starts this in a process under callgrind.
fn measure(guest: &str) -> Result<(), String> {
    let mut bench = BenchLoop::tiny(guest)?;
    bench.run(WARM)?;
    counted(&mut bench)
}

/// The function that callgrind measures. It is found by name and must return, so it cannot be inlined.
#[inline(never)]
fn counted(bench: &mut BenchLoop) -> Result<(), String> {
    std::hint::black_box(bench.run(LONG))
}

/// Measures the table and prints it line by line.
fn table() -> Result<String, String> {
    let mut table = String::new();
    let mut put = |line: String| {
        print!("{line}");
        table.push_str(&line);
    };
    put("| guest | host instructions a guest nanosecond | of them in the callback | share |\n".into());
    put("| --- | --- | --- | --- |\n".into());
    let mut is_found = false;
    for guest in guests() {
        let (all, callback) = (instructions(guest, ALL)?, instructions(guest, CALLBACK)?);
        let each = |count: u64| count as f64 / LONG as f64;
        if callback == 0 {
            // Cores of our own do not call this function. They count time in their loop.
            put(format!("| {guest} | {:.1} | - | - |\n", each(all)));
            continue;
        }
        is_found = true;
        put(format!("| {guest} | {:.1} | {:.1} | {:.0} % |\n", each(all), each(callback), 100.0 * callback as f64 / all as f64));
    }
    if !is_found {
        return Err(format!("no instruction in the callback: is it called {CALLBACK} still?"));
    }
    Ok(table)
}

/// The host instructions that the counted run spends inside a function.
fn instructions(guest: &str, inside: &str) -> Result<u64, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let file = env::temp_dir().join(format!("trapline-virtual-time-{}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--zero-before=virtual_time::counted", "--dump-after=virtual_time::counted"])
        .arg(format!("--toggle-collect={inside}"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(this)
        .args(["measure", guest])
        .output()
        .map_err(|error| format!("valgrind cannot be run ({error}); `scripts/setup.sh budget` installs it"))?;
    let dump = file.with_extension("1");
    let total = total(&dump);
    // This is the host's temporary folder, so a failure to delete it does no harm. callgrind writes one of the two, or both.
    for written in [&file, &dump] {
        let _ = fs::remove_file(written);
    }
    match output.status.success() {
        true => total,
        false => Err(format!("{guest} under valgrind: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

fn total(file: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).map(str::trim);
    total.and_then(|total| total.parse().ok()).ok_or(format!("{} has no totals", file.display()))
}
