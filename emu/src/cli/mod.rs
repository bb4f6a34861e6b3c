//! The command line: one file for each sub-command, and the list of them here.

mod ask;
mod assembly;
mod attach_points;
mod attached;
mod bench;
mod check;
mod commands;
mod completions;
mod console;
mod coverage;
mod cpu;
mod debug_files;
mod disasm;
mod doctor;
mod driver;
mod dwarf;
mod end;
mod event_error;
mod failure;
mod file;
mod forwards;
mod from_boot;
mod gdb;
mod guest;
mod guest_files;
mod image;
mod images;
mod last_words;
mod line_editor;
mod lines;
mod man;
mod merge;
mod modules;
mod on_panic;
mod out_file;
mod output;
mod page;
mod paint;
mod pane;
mod place;
mod policy;
mod probe_row;
mod pulled;
mod races;
mod record;
mod replay;
mod report;
mod request;
mod run;
mod run_events;
mod session;
mod shell;
mod source_lines;
mod stock_guest;
mod summary;
mod sweep;
mod sweep_table;
mod symbols;
mod terminal;
mod totals;
mod trace;
mod tracing_script;
mod tsv;
mod typist;
mod until;
mod vars;
mod vectors;
mod verdict;
mod verify;
mod verify_report;
mod vmcore;
mod who;
mod words;

pub use failure::Failure;

use crate::unicorn::crash;
use clap::{Parser, Subcommand, ValueEnum};
use output::Paint;
use policy::PolicyName;
use std::process::ExitCode;
use trapline_isa::detour::Form;

/// Probes kernels with breakpoints in a simulated CPU.
///
/// Boots a real kernel and probes it with breakpoints in its own text, or says without booting where it may be probed.
#[derive(Parser)]
#[command(name = "trapline", version, propagate_version = true, max_term_width = 120, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  trapline run                                the tiny kernel with a demo script
  trapline check tiny/x86_64                  how much of its text may be probed
  trapline disasm tiny/x86_64 vfs_read        a function, each instruction with its verdict

Exit status: 0 fine, 1 the guest or a probe failed, 2 usage";

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Trace(Box<trace::Args>),
    Replay(Box<replay::Args>),
    Who(who::Args),
    Gdb(Box<gdb::Args>),
    Verify(Box<verify::Args>),
    Sweep(Box<sweep::Args>),
    Races(Box<races::Args>),
    Merge(merge::Args),
    Check(check::Args),
    Disasm(disasm::Args),
    Lines(lines::Args),
    Vars(vars::Args),
    Symbols(symbols::Args),
    Vectors(vectors::Args),
    Images(images::Args),
    Bench(bench::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Parses and carries out the command line.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help counts as an error for clap, which knows the right exit code: 2 for usage errors.
        Err(told) => {
            let _ = told.print();
            return ExitCode::from(told.exit_code() as u8);
        }
    };
    let outcome = crash::contain(|| carry_out(&cli.command)).unwrap_or_else(|crash| {
        terminal::give_back();
        Err(Failure::failed(format!("the CPU core failed: {crash}")))
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{}", failure.render(Paint::for_errors()));
            ExitCode::from(failure.status())
        }
    }
}

fn carry_out(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::main(args),
        Command::Trace(args) => trace::main(args),
        Command::Replay(args) => replay::main(args),
        Command::Who(args) => who::main(args),
        Command::Gdb(args) => gdb::main(args),
        Command::Verify(args) => verify::main(args),
        Command::Sweep(args) => sweep::main(args),
        Command::Races(args) => races::main(args),
        Command::Merge(args) => merge::main(args),
        Command::Check(args) => check::main(args),
        Command::Disasm(args) => disasm::main(args),
        Command::Lines(args) => lines::main(args),
        Command::Vars(args) => vars::main(args),
        Command::Symbols(args) => symbols::main(args),
        Command::Vectors(args) => vectors::main(args),
        Command::Images(args) => images::main(args),
        Command::Bench(args) => bench::main(args),
        Command::Doctor(args) => doctor::main(args),
        Command::Completions(args) => completions::main(args),
        Command::Man(args) => man::main(args),
    }
}

/// The names of the forms of detours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DetourName {
    /// The handlers get the live registers
    #[default]
    Lean,
    /// Like Linux: saves the registers on the guest's stack, calls the handlers, and restores the registers
    Faithful,
}

impl From<DetourName> for Form {
    fn from(name: DetourName) -> Form {
        match name {
            DetourName::Lean => Form::Lean,
            DetourName::Faithful => Form::Faithful,
        }
    }
}
