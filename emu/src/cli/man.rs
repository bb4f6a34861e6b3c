//! `trapline man`: writes the manual pages.

use super::{Cli, Failure};
use clap::CommandFactory;
use std::path::PathBuf;

/// Writes the manual pages, one for each sub-command, into a folder
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  trapline man ~/.local/share/man/man1\n  man trapline-run")]
pub struct Args {
    /// The folder; it is made if it does not exist
    folder: PathBuf,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("`{}` cannot be written: {error}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(failed)
}
