//! `trapline images`: the kernels that need no file.

use super::Failure;
use super::output::{self, Align, Cell, Paint, Table};
use crate::boot::Kernel;
use crate::symbols::similar;
use serde::Serialize;
use std::fmt::Write;
use trapline_images::Builtin;

/// Lists the kernels that are built in
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  trapline images\n  trapline images info tiny/x86_64\n  trapline images list --json")]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Lists them
    List {
        /// Prints a line of JSON for each
        #[arg(long)]
        json: bool,
    },
    /// Says what is in one, with its demo script
    Info {
        /// Which, such as tiny/x86_64
        name: String,
        /// Prints a line of JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    match &args.command {
        None => list(false),
        Some(Command::List { json }) => list(*json),
        Some(Command::Info { name, json }) => info(name, *json),
    }
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    description: &'a str,
    bytes: usize,
}

fn list(json: bool) -> Result<(), Failure> {
    let builtins = trapline_images::builtins();
    if json {
        let line = |builtin: &Builtin| {
            output::json_line(&Line { name: builtin.name, description: builtin.description, bytes: builtin.bytes.len() })
        };
        return output::emit(&builtins.iter().map(line).collect::<Result<String, _>>()?);
    }
    let mut table = Table::new(&[("image", Align::Left), ("bytes", Align::Right), ("what it is", Align::Left)]);
    for builtin in builtins {
        let bytes = output::thousands(builtin.bytes.len() as u64);
        table.row(vec![Cell::styled(builtin.name, Paint::name), Cell::plain(bytes), Cell::plain(builtin.description)]);
    }
    output::emit(&table.render(Paint::for_output()))
}

#[derive(Serialize)]
struct Info<'a> {
    name: &'a str,
    description: &'a str,
    arch: &'a str,
    bytes: usize,
    entry: String,
    text_start: String,
    text_bytes: u64,
    symbols: usize,
    command_line: &'a str,
    demo: &'a str,
}

fn info(name: &str, json: bool) -> Result<(), Failure> {
    let Some(builtin) = trapline_images::find(name) else {
        let near = similar::nearest(name, trapline_images::builtins().iter().map(|builtin| builtin.name));
        return Err(Failure::usage(format!("no built-in kernel is called `{name}`"))
            .perhaps(&near)
            .advise("`trapline images` lists them"));
    };
    let kernel = Kernel::from_bytes(builtin.bytes)
        .map_err(|error| Failure::failed(format!("`{name}` cannot be loaded: {error}")).advise(error.advice()))?;
    let text = &kernel.tables.text;
    let info = Info {
        name: builtin.name,
        description: builtin.description,
        arch: kernel.arch.name(),
        bytes: builtin.bytes.len(),
        entry: format!("{:#x}", kernel.entry),
        text_start: format!("{:#x}", text.start),
        text_bytes: text.end - text.start,
        symbols: kernel.symbols.len(),
        command_line: builtin.command_line,
        demo: builtin.demo,
    };
    if json {
        return output::emit(&output::json_line(&info)?);
    }
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let mut row = |name: &str, value: String| table.row(vec![Cell::styled(name, Paint::faint), Cell::plain(value)]);
    row("image", info.name.into());
    row("what it is", info.description.into());
    row("runs on", info.arch.into());
    row("size", format!("{} bytes", output::thousands(info.bytes as u64)));
    row("entry", format!("{} (physical)", info.entry));
    row("text", format!("{} bytes from {}", output::thousands(info.text_bytes), info.text_start));
    row("symbols", output::thousands(info.symbols as u64));
    row("command line", if info.command_line.is_empty() { "(empty)".into() } else { info.command_line.into() });
    let paint = Paint::for_output();
    let mut text = table.render(paint);
    let _ = write!(text, "\n{}\n{}", paint.faint("demo script"), info.demo);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    output::emit(&text)
}
