//! The cost of arming 1, 1,000 and 100,000 probes (or the most that an ISA allows), in one batch and one by one, and
//! the host memory per probe.
//!
//! With `--check` the largest batches must meet the goals. Each row is measured in a new process, `arming row GUEST
//! COUNT HOW`.

use std::env;
use std::process::ExitCode;
use trapline::overhead::arming::{GOAL_BYTES, GOAL_SECONDS, Probes, Row, rows};
use trapline::overhead::many;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => print_all().map(|_| ()),
        ["--check"] => print_all().and_then(|over| if over.is_empty() { Ok(()) } else { Err(over.join("; ")) }),
        ["row", guest, count, how] => {
            Probes::read([guest, count, how]).and_then(Row::measure).map(|row| println!("{}", row.line()))
        }
        _ => Err("usage: arming [--check]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("arming: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Prints all rows. Returns those that miss the goals.
fn print_all() -> Result<Vec<String>, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    println!("For each probe: microseconds of CPU time (by the clock on the wall), bytes of host memory.");
    let print = |cells: [String; 7]| {
        let [guest, count, how, times @ .., bytes] = cells;
        println!("{guest:<12} {count:>8} {how:>7} {} {bytes:>7}", times.map(|time| format!("{time:>21}")).join(" "));
    };
    print(Row::HEADINGS.map(String::from));
    let mut over = Vec::new();
    for of in rows() {
        let row = Row::measured_by(&this, "row", of)?;
        print(row.cells(of));
        over.extend(row.over_the_goals(of));
    }
    let (count, dash) = (many::FIRST.most, || "-".to_string());
    let goal = format!("{:.2}", GOAL_SECONDS * 1e6 / count as f64);
    print(["goal".into(), count.to_string(), "batch".into(), goal, dash(), dash(), format!("{GOAL_BYTES}")]);
    Ok(over)
}
