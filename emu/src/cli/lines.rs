//! `trapline lines`: the source lines of a function that may be probed.

use super::Failure;
use super::debug_files::Subject;
use super::dwarf::{self, DwarfArg};
use super::image::ImageArgs;
use super::output::{self, Align, Cell, Paint, Table};
use crate::lines::places::{Source, Wanted};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Shows the source lines of a function that may be probed
///
/// Lines are counted from the function's declaration, as `perf probe -L` does: line 12 of vfs_read is the place
/// `vfs_read:12`. The kernel needs debug information (DWARF).
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  trapline lines vmlinux vfs_read\n  trapline lines debian/amd64 vfs_read --dwarf vmlinux.debug --source linux-6.1\n  trapline lines vmlinux t_show@kernel/trace/trace.c --json\n  trapline lines shelf.ko shelf_put                 of a module"
)]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// FUNCTION or FUNCTION@FILE, with MODULE: in front for a module whose file is given by --dwarf
    #[arg(value_name = "FUNCTION")]
    function: String,
    #[command(flatten)]
    dwarf: DwarfArg,
    /// The folder of the kernel's source, to show the text of the lines
    #[arg(long, value_name = "FOLDER")]
    source: Option<PathBuf>,
    /// Prints a line of JSON for each source line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    function: &'a str,
    file: &'a str,
    line: u32,
    /// The line, counted from the declaration.
    place: String,
    addresses: Vec<String>,
    places: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let subject = Subject::open(&args.image, &args.dwarf)?;
    let infos = subject.files.infos()?;
    let (known, function) = subject.known(&infos, &args.function)?;
    let wanted = Wanted::parse(function).map_err(|error| Failure::usage(error.to_string()))?;
    if wanted.function.is_empty() {
        return Err(Failure::usage(format!("`{}` names no function", args.function)));
    }
    let info = known.lines.ok_or_else(|| dwarf::none_in(&args.image.image))?;
    let sources = info.sources(&wanted).map_err(|error| Failure::failed(error.to_string()))?;
    let (mut text, paint) = (String::new(), Paint::for_output());
    for source in &sources {
        let written = args.text_of(source);
        let lines = source.lines.iter().map(|(line, addresses)| Line {
            function: &source.function,
            file: &source.file,
            line: *line,
            place: format!("{}:{}", source.function, line - source.line),
            addresses: addresses.iter().map(|address| format!("{address:#x}")).collect(),
            places: addresses.iter().map(|address| known.place(*address)).collect(),
            text: written.as_ref().and_then(|written| written.get((*line as usize).checked_sub(1)?).cloned()),
        });
        if args.json {
            text += &lines.map(|line| output::json_line(&line)).collect::<Result<String, _>>()?;
            continue;
        }
        text += &format!("{}\n", paint.name(&format!("<{}@{}:{}>", source.function, source.file, source.line)));
        let lines: Vec<Line> = lines.collect();
        text += &match &written {
            Some(written) => listing(source, &lines, written, paint),
            None => table(&lines, source.line),
        };
    }
    output::emit(&text)
}

impl Args {
    /// The lines of the source file, if it is at hand.
    fn text_of(&self, source: &Source) -> Option<Vec<String>> {
        let name = Path::new(&*source.file);
        let file = match &self.source {
            Some(folder) => folder.join(name.strip_prefix("/").unwrap_or(name)),
            None => name.to_path_buf(),
        };
        let bytes = super::file::bytes(&file, super::file::Kind::SCRIPT).ok()?;
        Some(String::from_utf8_lossy(&bytes).lines().map(str::to_string).collect())
    }
}

fn table(lines: &[Line<'_>], first: u32) -> String {
    let mut table = Table::new(&[("line", Align::Right), ("in file", Align::Right), ("places", Align::Left)]);
    for line in lines {
        let places = Cell::plain(line.places.join(" "));
        table.row(vec![Cell::styled((line.line - first).to_string(), Paint::good), Cell::plain(line.line.to_string()), places]);
    }
    table.render(Paint::for_output())
}

/// The source text from the declaration to the last line. Lines that may be probed have a number, as in `perf probe -L`.
fn listing(source: &Source, lines: &[Line<'_>], written: &[String], paint: Paint) -> String {
    let last = lines.last().map_or(source.line, |line| line.line);
    let mut text = String::new();
    for number in source.line..=last {
        let Some(line) = (number as usize).checked_sub(1).and_then(|number| written.get(number)) else { break };
        let label = match lines.iter().any(|line| line.line == number) {
            true => paint.good(&format!("{:7}", number - source.line)),
            false => " ".repeat(7),
        };
        text += format!("{label}  {}", line.replace('\t', "        ")).trim_end();
        text.push('\n');
    }
    text
}
