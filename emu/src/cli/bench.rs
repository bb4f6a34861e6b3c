//! `trapline bench`: the cost of a hit on this computer, next to the figures of the Kprobes document.

use super::Failure;
use super::output;
use crate::overhead::guests;
use crate::overhead::table::Measurement;
use serde::Serialize;
use std::fmt::Write;

/// Measures the cost of a hit on this computer, next to the overhead tables of the Kprobes document
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The guests: built-in kernels with a benchmark loop
    #[arg(default_values_t = guests().map(String::from))]
    guests: Vec<String>,
    /// Prints tables (the default)
    #[arg(long)]
    table: bool,
    /// Prints a line of JSON for each mechanism
    #[arg(long, conflicts_with = "table")]
    json: bool,
    /// The number of measurements of each mechanism; the fastest one counts
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

const EXAMPLES: &str = "\
Examples:
  trapline bench --table
  trapline bench tiny/x86_64 --json --rounds 20

Letters: k kprobe, b boosted, o optimised, j jprobe, r return probe; rb, ro: a return probe whose entry is boosted or optimised;
kr, jr: both at once. The time of the loop without a probe is subtracted.";

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    for guest in &args.guests {
        if trapline_images::find(guest).is_none() {
            return Err(Failure::usage(format!(
                "`{guest}` is not built in, and the benchmark's loop is in the built-in kernels only"
            ))
            .advise(format!("measure one of {}", guests().collect::<Vec<_>>().join(", "))));
        }
        let measured = Measurement::of(guest, args.rounds).map_err(Failure::failed)?;
        output::emit(&if args.json { lines_of_json(guest, &measured)? } else { table(guest, &measured) })?;
    }
    Ok(())
}

fn table(guest: &str, measured: &Measurement) -> String {
    let mut text = format!("{guest}: a call without a probe takes {:.1} ns\n", measured.unprobed);
    let lines: Vec<Vec<String>> = std::iter::once(measured.headings()).chain(measured.lines()).collect();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..measured.headings().len()).map(width).collect();
    for line in &lines {
        for (number, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Text is left-aligned, numbers are right-aligned.
            let _ = match number {
                0 => write!(text, "  {cell:<width$}"),
                _ if number + 1 == line.len() => write!(text, "  {cell}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Line<'a> {
    guest: &'a str,
    mechanism: &'a str,
    what: &'a str,
    hits: u64,
    microseconds: f64,
    ratio_to_k: Option<f64>,
    unprobed_call_ns: f64,
}

fn lines_of_json(guest: &str, measured: &Measurement) -> Result<String, Failure> {
    let line = |row: &crate::overhead::table::Row| {
        output::json_line(&Line {
            guest,
            mechanism: row.mechanism.letters,
            what: row.mechanism.what,
            hits: row.hits,
            microseconds: row.microseconds(),
            ratio_to_k: measured.ratio(row.mechanism.letters),
            unprobed_call_ns: measured.unprobed,
        })
    };
    measured.rows.iter().map(line).collect()
}
