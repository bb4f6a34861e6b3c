//! `trapline symbols`: lists the symbols of a kernel.

use super::image::ImageArgs;
use super::output::{self, Align, Cell, Paint, Table};
use super::{Failure, place};
use crate::boot::Kernel;
use crate::debugger::elf;
use crate::symbols::{Entry, pattern};
use serde::Serialize;
use std::path::PathBuf;

/// Lists the symbols of a kernel
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  trapline symbols tiny/x86_64\n  trapline symbols tiny/x86_64 'sys_*'\n  trapline symbols vmlinux '*[Rr]ead*' --text --json\n  trapline symbols debian/arm64 --elf arm64.elf"
)]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Only names that match this shell pattern (`*`, `?`, `[a-z]`)
    pattern: Option<String>,
    /// Only functions
    #[arg(long)]
    text: bool,
    /// Prints a line of JSON for each symbol
    #[arg(long)]
    json: bool,
    /// Writes all symbols as an ELF file for gdb, with call frame information where the kernel has ORC tables
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pattern", "text", "json"])]
    elf: Option<PathBuf>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    address: String,
    kind: char,
    /// Bytes up to the next symbol. `None` for absolute symbols.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<&'a str>,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let kernel = args.image.load()?;
    if let Some(path) = &args.elf {
        return std::fs::write(path, elf::of(&kernel))
            .map_err(|error| Failure::usage(format!("--elf: `{}` cannot be written: {error}", path.display())));
    }
    let symbols = &kernel.symbols;
    let wanted = |entry: &&Entry| {
        let named = args.pattern.as_deref().is_none_or(|pattern| pattern::matches(pattern, &entry.name));
        named && (!args.text || entry.is_text())
    };
    let entries: Vec<&Entry> = symbols.absolute().iter().chain(symbols.places()).filter(wanted).collect();
    if entries.is_empty() {
        return Err(nothing(&kernel, args));
    }
    let text = if args.json { json(&kernel, &entries)? } else { people(&kernel, &entries) };
    output::emit(&text)
}

fn nothing(kernel: &Kernel, args: &Args) -> Failure {
    match &args.pattern {
        Some(name) if !pattern::is_pattern(name) || kernel.symbols.is_empty() => place::unknown(&kernel.symbols, name),
        Some(pattern) => {
            Failure::failed(format!("no symbol matches `{pattern}`")).advise("`*` stands for the rest of a name, as in `vfs_*`")
        }
        None => Failure::failed("the image has no symbols").advise("give them with --symbols System.map"),
    }
}

fn size(kernel: &Kernel, entry: &Entry) -> Option<u64> {
    if entry.is_absolute() {
        return None;
    }
    kernel.symbols.containing(entry.address).filter(|symbol| symbol.start == entry.address).map(|symbol| symbol.size)
}

fn json(kernel: &Kernel, entries: &[&Entry]) -> Result<String, Failure> {
    let line = |entry: &&Entry| {
        output::json_line(&Line {
            name: &entry.name,
            address: format!("{:#x}", entry.address),
            kind: entry.kind,
            size: size(kernel, entry),
            module: entry.module.as_deref(),
        })
    };
    entries.iter().map(line).collect()
}

fn people(kernel: &Kernel, entries: &[&Entry]) -> String {
    let word = kernel.arch.isa().word;
    let mut table = Table::new(&[("address", Align::Left), ("size", Align::Right), ("", Align::Left), ("name", Align::Left)]);
    for entry in entries {
        let name = match &entry.module {
            Some(module) => format!("{} [{module}]", entry.name),
            None => entry.name.to_string(),
        };
        table.row(vec![
            Cell::styled(output::hex_address(entry.address, word), Paint::faint),
            Cell::plain(size(kernel, entry).map_or("-".into(), |size| size.to_string())),
            Cell::plain(entry.kind.to_string()),
            Cell::styled(name, Paint::name),
        ]);
    }
    table.render(Paint::for_output())
}
