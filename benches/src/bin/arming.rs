//! What arming costs: 1, 1,000 and 100,000 probes, in one batch and one by one, and the host memory that each takes.
//!
//! With `--check` the batch of 100,000 has to keep to the goals. Each row is measured by this program called anew, as `arming row COUNT HOW`.

use std::env;
use std::process::ExitCode;
use trapline::overhead::arming::{self, GOAL_BYTES, GOAL_SECONDS, ROWS, Row};
use trapline::overhead::many;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => print_all().map(|_| ()),
        ["--check"] => print_all().and_then(|over| if over.is_empty() { Ok(()) } else { Err(over.join("; ")) }),
        ["row", count, how] => arming::answer(count, how).map(|line| println!("{line}")),
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

/// What is over the goals.
fn print_all() -> Result<Vec<String>, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    println!("For each probe: microseconds of CPU time (by the clock on the wall), bytes of host memory.");
    let print = |cells: [String; 6]| {
        let [count, how, times @ .., bytes] = cells;
        println!("{count:>8} {how:>7} {} {bytes:>7}", times.map(|time| format!("{time:>21}")).join(" "));
    };
    print(Row::HEADINGS.map(String::from));
    let mut over = Vec::new();
    for (count, batch) in ROWS {
        let row = Row::measured_by(&this, &["row"], *count, *batch)?;
        print(row.cells());
        over.extend(row.over_the_goals());
    }
    let goal = format!("{:.2}", GOAL_SECONDS * 1e6 / many::MOST as f64);
    print([many::MOST.to_string(), "goal".into(), goal, "-".into(), "-".into(), format!("{GOAL_BYTES}")]);
    Ok(over)
}
