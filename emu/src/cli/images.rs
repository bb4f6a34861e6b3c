//! `trapline images`: lists the kernels that have a name, and pulls or removes stock kernels.

use super::Failure;
use super::image;
use super::output::{self, Align, Cell, Paint, Table};
use crate::symbols::similar;
use indicatif::ProgressBar;
use serde::Serialize;
use std::path::Path;
use trapline_images::{Builtin, Local, Progress, Puller, Stock, Wanted};

/// Lists the kernels that have a name, and pulls stock kernels into a cache
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  trapline images
  trapline images info tiny/x86_64
  trapline images pull debian/amd64           the newest kernel of Debian 12, through this computer's apt
  trapline images pull --dwarf debian/amd64   its debug information too, for source lines and variables
  trapline images pull debian/amd64@sid       the kernel of another suite: bullseye, trixie, sid, trixie-backports ...
  trapline images rm debian/amd64@6.1.0-50

Stock kernels are searched in the folders of TRAPLINE_IMAGES (<release>/vmlinuz-<release>[.xz], busybox/busybox-<architecture>),
then in the cache. This computer's own apt configuration and packages are not changed.";

#[derive(clap::Subcommand)]
enum Command {
    /// Lists all kernels that have a name
    List {
        /// Prints a line of JSON for each
        #[arg(long)]
        json: bool,
    },
    /// Shows details of a kernel, and the demo script of a built-in one
    Info {
        /// The kernel, such as tiny/x86_64
        name: String,
        /// Prints a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Downloads a stock kernel and its busybox into the cache
    Pull {
        /// The kernel, such as debian/amd64, debian/i386@6.1.0-50 or debian/arm64@trixie
        name: String,
        /// Downloads its modules too, for `trapline run --module NAME`
        #[arg(long)]
        modules: bool,
        /// Downloads its debug information too (DWARF), for source lines and variables. The size is printed before: it is
        /// several hundred megabytes
        #[arg(long)]
        dwarf: bool,
    },
    /// Removes a stock kernel from the cache
    Rm {
        /// The kernel; without a version, all its versions
        name: String,
    },
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    match &args.command {
        None => list(false),
        Some(Command::List { json }) => list(*json),
        Some(Command::Info { name, json }) => info(name, *json),
        Some(Command::Pull { name, modules, dwarf }) => pull(name, *modules, *dwarf),
        Some(Command::Rm { name }) => rm(name),
    }
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    /// For a stock kernel, the versions on this computer, the newest last.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<String>>,
}

fn lines() -> Vec<Line<'static>> {
    let builtin =
        |it: &'static Builtin| Line { name: it.name, description: it.description, bytes: Some(it.bytes.len()), versions: None };
    let stock = |it: &'static Stock| {
        let versions = there(it).into_iter().map(|local| local.version).collect();
        Line { name: it.name, description: it.description, bytes: None, versions: Some(versions) }
    };
    trapline_images::builtins().iter().map(builtin).chain(trapline_images::stocks().iter().map(stock)).collect()
}

/// The versions of a stock kernel on this computer, without duplicates, in search order.
fn there(stock: &Stock) -> Vec<Local> {
    let mut found: Vec<Local> = Vec::new();
    for local in trapline_images::folders().iter().flat_map(|folder| trapline_images::versions(stock, folder)) {
        if found.iter().all(|known| known.version != local.version) {
            found.push(local);
        }
    }
    found
}

/// The word in the table for a stock kernel that is not on this computer.
fn absent(name: &str) -> &'static str {
    let is_packed = Wanted::parse(name).is_some_and(|wanted| wanted.stock.is_packed());
    if is_packed { "not pulled" } else { "not built" }
}

fn list(json: bool) -> Result<(), Failure> {
    let lines = lines();
    if json {
        return output::emit(&lines.iter().map(output::json_line).collect::<Result<String, _>>()?);
    }
    let mut table = Table::new(&[("image", Align::Left), ("here", Align::Left), ("what it is", Align::Left)]);
    for line in lines {
        let here = match (&line.versions, line.bytes) {
            (Some(versions), _) if versions.is_empty() => absent(line.name).to_string(),
            (Some(versions), _) => versions.join(", "),
            (None, bytes) => format!("built in, {} bytes", output::thousands(bytes.unwrap_or(0) as u64)),
        };
        table.row(vec![Cell::styled(line.name, Paint::name), Cell::plain(here), Cell::plain(line.description)]);
    }
    output::emit(&table.render(Paint::for_output()))
}

#[derive(Serialize)]
struct Info<'a> {
    name: String,
    description: &'a str,
    arch: &'a str,
    bytes: usize,
    entry: String,
    text_start: String,
    text_bytes: u64,
    symbols: usize,
    command_line: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    demo: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    busybox: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_tables: Vec<&'static str>,
}

/// The catalogue entry of a kernel.
struct Known {
    name: String,
    description: &'static str,
    command_line: &'static str,
    demo: Option<&'static str>,
    local: Option<Local>,
}

fn known(name: &str) -> Result<Known, Failure> {
    if let Some(Builtin { name, description, command_line, demo, .. }) = trapline_images::find(name) {
        return Ok(Known { name: name.to_string(), description, command_line, demo: Some(demo), local: None });
    }
    let wanted = stock(name)?;
    let Stock { description, command_line, .. } = *wanted.stock;
    let local = image::local(&wanted)?;
    let name = format!("{}@{}", wanted.stock.name, local.version);
    Ok(Known { name, description, command_line, demo: None, local: Some(local) })
}

/// Parses the name of a stock kernel.
fn stock(name: &str) -> Result<Wanted, Failure> {
    Wanted::parse(name).ok_or_else(|| {
        let near = similar::nearest(name, image::names());
        match trapline_images::find(name) {
            Some(_) => Failure::usage(format!("`{name}` is built in: it is always there")),
            None => image::of_no_debian(name).unwrap_or_else(|| {
                Failure::usage(format!("no kernel is called `{name}`")).perhaps(&near).advise("`trapline images` lists them")
            }),
        }
    })
}

fn info(name: &str, json: bool) -> Result<(), Failure> {
    let known = known(name)?;
    let bytes = image::bytes(&known.name)?;
    let kernel = image::parse(name, &bytes, None)?;
    let path = |path: &Path| path.display().to_string();
    let text = &kernel.tables.text;
    let info = Info {
        name: known.name,
        description: known.description,
        arch: kernel.arch.name(),
        bytes: bytes.len(),
        entry: format!("{:#x}", kernel.entry),
        text_start: format!("{:#x}", text.start),
        text_bytes: text.end - text.start,
        symbols: kernel.symbols.len(),
        command_line: known.command_line,
        demo: known.demo,
        file: known.local.as_ref().map(|local| path(&local.kernel)),
        busybox: known.local.as_ref().and_then(|local| local.busybox.as_deref()).map(path),
        missing_tables: kernel.tables.missing.clone(),
    };
    output::emit(&if json { output::json_line(&info)? } else { people(info) })
}

fn people(info: Info<'_>) -> String {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let mut row = |name: &str, value: String| table.row(vec![Cell::styled(name, Paint::faint), Cell::plain(value)]);
    row("image", info.name);
    row("what it is", info.description.into());
    row("runs on", info.arch.into());
    for (name, file) in [("file", info.file), ("busybox", info.busybox)] {
        if let Some(file) = file {
            row(name, file);
        }
    }
    row("size", format!("{} bytes", output::thousands(info.bytes as u64)));
    row("entry", format!("{} (physical)", info.entry));
    row("text", format!("{} bytes from {}", output::thousands(info.text_bytes), info.text_start));
    row("symbols", output::thousands(info.symbols as u64));
    if !info.missing_tables.is_empty() {
        row("tables not found", info.missing_tables.join(", "));
    }
    row("command line", if info.command_line.is_empty() { "(empty)".into() } else { info.command_line.into() });
    let paint = Paint::for_output();
    let mut text = table.render(paint);
    if let Some(demo) = info.demo {
        text += &format!("\n{}\n{demo}", paint.faint("demo script"));
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn cache() -> Result<std::path::PathBuf, Failure> {
    trapline_images::cache_folder().ok_or_else(|| {
        Failure::failed("there is no folder for caches: neither XDG_CACHE_HOME nor HOME is set").advise("set XDG_CACHE_HOME")
    })
}

fn pull(name: &str, modules: bool, dwarf: bool) -> Result<(), Failure> {
    let wanted = stock(name)?;
    let puller = Puller { modules, ..Puller::new(cache()?) };
    let mut bar = ProgressBar::hidden();
    let mut report = |progress| match progress {
        Progress::Step(step) => {
            bar.finish_and_clear();
            bar = output::progress(100, "%");
            bar.println(format!("{step} ..."));
        }
        Progress::Percent(percent) => bar.set_position(percent as u64),
        Progress::Note(note) => eprintln!("{} {note}", Paint::for_errors().advice("note:")),
    };
    let pulled = puller.pull(&wanted, &mut report).and_then(|pulled| {
        let debug = dwarf.then(|| {
            let exactly = Wanted { stock: wanted.stock, version: Some(pulled.local.version.clone()) };
            puller.pull_debug(&exactly, &pulled.local, &mut report)
        });
        Ok((pulled, debug.transpose()?))
    });
    bar.finish_and_clear();
    let (pulled, debug) = pulled.map_err(|error| Failure::failed(error.to_string()).advise(error.advice()))?;
    if let Some(debug) = debug {
        output::emit(&format!("its debug information is in {}\n", debug.display()))?;
    }
    let was = if pulled.was_there { "was already in the cache" } else { "is now in the cache" };
    output::emit(&format!("{}@{} {was}: {}\n", wanted.stock.name, pulled.local.version, pulled.local.kernel.display()))
}

fn rm(name: &str) -> Result<(), Failure> {
    let wanted = stock(name)?;
    let cache = cache()?;
    let gone = trapline_images::remove(&wanted, &cache)
        .map_err(|error| Failure::failed(format!("`{name}` cannot be removed from {}: {error}", cache.display())))?;
    if gone.is_empty() {
        return Err(Failure::failed(format!("`{}` is not in the cache {}", wanted.name(), cache.display())));
    }
    output::emit(&format!("{} {} was removed\n", wanted.stock.name, gone.join(", ")))
}
