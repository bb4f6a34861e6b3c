//! `trapline completions`: prints the completion script for a shell.

use super::{Cli, Failure, output};
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints a completion script for a shell
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  trapline completions bash > ~/.local/share/bash-completion/completions/trapline\n  trapline completions zsh > \"${fpath[1]}/_trapline\""
)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "trapline", &mut script);
    output::emit(&String::from_utf8_lossy(&script))
}
