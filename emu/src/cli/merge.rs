//! `trapline merge`: joins the parts of a sweep and prints its table.

use super::Failure;
use super::output::{self, Paint};
use super::sweep::part_failure;
use super::sweep_table;
use crate::sweep::merge::{self, MergeError};
use crate::sweep::part::write_whole;
use std::path::PathBuf;

/// Joins the parts of a sweep
///
/// Checks that all parts are of one sweep, that no shard is missing, and that two parts of one shard are equal. Prints the
/// table of the whole sweep.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folders with parts (files that end in .part), or parts
    #[arg(required = true)]
    parts: Vec<PathBuf>,
    /// Writes the whole sweep as one part, as a sweep without shards does
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Prints the result as a line of JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  trapline merge parts
  trapline merge parts/0.part parts/1.part --out whole.part --json

Exit status: 0 all runs are the same, 1 a run differs or a shard is missing, 2 the command line was wrong,
75 this computer failed: try again";

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let parts = args.parts.iter().map(|place| merge::parts(place)).collect::<Result<Vec<_>, _>>().map_err(failure)?.concat();
    let whole = merge::merge(&parts).map_err(failure)?;
    if let Some(out) = &args.out {
        write_whole(out, whole.file().as_bytes()).map_err(|why| part_failure(&why))?;
    }
    output::emit(&match args.json {
        true => output::json_line(&sweep_table::totals(&whole))?,
        false => sweep_table::text(&whole, Paint::for_output()),
    })?;
    match whole.is_identical() {
        true => Ok(()),
        false => Err(Failure::failed("a probed run differs from the unprobed one")),
    }
}

fn failure(why: MergeError) -> Failure {
    match &why {
        MergeError::Part(part) => part_failure(part),
        _ => Failure::failed(why.to_string()),
    }
}
