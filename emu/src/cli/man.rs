//! `trapline man`: writes the manual pages.

use super::{Cli, Failure};
use clap::CommandFactory;
use clap_mangen::Man;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Writes the manual pages, one for each sub-command, into a folder
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  trapline man ~/.local/share/man/man1\n  man trapline-run")]
pub struct Args {
    /// The folder; it is made if it does not exist
    folder: PathBuf,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("`{}` cannot be written: {error}", args.folder.display()));
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    fs::create_dir_all(&args.folder).and_then(|()| write(&command, &args.folder)).map_err(failed)
}

/// Writes the pages of a command and of its sub-commands.
fn write(command: &clap::Command, folder: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_string();
    let mut page = Vec::new();
    Man::new(command.clone()).title(name.clone()).render(&mut page)?;
    fs::write(folder.join(format!("{name}.1")), with_examples(&String::from_utf8_lossy(&page)))?;
    command.get_subcommands().try_for_each(|inner| write(inner, folder))
}

/// Gives the examples a section of their own, whose lines are not filled.
fn with_examples(page: &str) -> String {
    let Some((before, behind)) = page.split_once(".SH EXTRA\n") else { return page.into() };
    let end = behind.find("\n.SH ").map_or(behind.len(), |at| at + 1);
    let (examples, rest) = behind.split_at(end);
    format!("{before}.SH EXAMPLES\n.nf\n{examples}.fi\n{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AN-3: lines of examples stay as they are.
    #[test]
    fn lines_of_examples_are_not_filled() {
        let page = ".SH NAME\nrun\n.SH EXTRA\nExamples:\n  trapline run\n.SH VERSION\nv1\n";
        let expected = ".SH NAME\nrun\n.SH EXAMPLES\n.nf\nExamples:\n  trapline run\n.fi\n.SH VERSION\nv1\n";
        assert_eq!(with_examples(page), expected);
        assert_eq!(with_examples(".SH NAME\nrun\n"), ".SH NAME\nrun\n");
    }
}
