//! `trapline doctor`: says what is missing on this computer, what it is for, and how to get it.

use super::Failure;
use super::output::{self, Align, Cell, Paint, Table};
use crate::symbols::similar;
use serde::Serialize;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use trapline_images::{Stock, Wanted};

/// Says what is missing on this computer, and how to get it
///
/// trapline itself needs nothing but a folder for its cache. The rest are stock kernels, and programs that bring them or
/// open what trapline writes. Named ones count as needed: the exit status is 1 if one is missing.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Looks for these only, such as gdb or debian/amd64, and fails if one is missing
    names: Vec<String>,
    /// Prints a line of JSON for each
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  trapline doctor                         everything, with the commands that bring what is missing
  trapline doctor debian/amd64 drgn       fails if one of them is missing
  trapline doctor --json";

/// The way to find something.
enum Find {
    /// A program in one of the folders of PATH.
    Program(&'static str),
    /// A module of the Python in PATH.
    Python(&'static str),
}

/// A program or Python module that trapline can use.
struct Part {
    name: &'static str,
    find: Find,
    purpose: &'static str,
    /// The command that brings it.
    how: &'static str,
}

#[rustfmt::skip]
const PARTS: &[Part] = &[
    Part { name: "apt-get",   find: Find::Program("apt-get"),   purpose: "finds Debian's kernels (trapline images pull)",
           how: "a Debian-like system; elsewhere copy kernels into a folder and name it in TRAPLINE_IMAGES" },
    Part { name: "dpkg-deb",  find: Find::Program("dpkg-deb"),  purpose: "unpacks Debian's kernels (trapline images pull)",
           how: "apt-get install dpkg" },
    Part { name: "trace-cmd", find: Find::Program("trace-cmd"), purpose: "reads --out FILE.dat",
           how: "apt-get install trace-cmd" },
    Part { name: "kernelshark", find: Find::Program("kernelshark"), purpose: "shows --out FILE.dat",
           how: "apt-get install kernelshark" },
    Part { name: "gdb",       find: Find::Program("gdb"),       purpose: "opens --vmcore FILE",
           how: "apt-get install gdb" },
    Part { name: "crash",     find: Find::Program("crash"),     purpose: "opens --vmcore FILE",
           how: "apt-get install crash" },
    Part { name: "drgn",      find: Find::Python("drgn"),       purpose: "opens --vmcore FILE",
           how: "pip install drgn" },
    Part { name: "perf",      find: Find::Program("perf"),      purpose: "prints probe lines for -e (perf probe -D)",
           how: "apt-get install linux-perf" },
    Part { name: "genhtml",   find: Find::Program("genhtml"),   purpose: "shows --coverage FILE.info",
           how: "apt-get install lcov" },
    Part { name: "sbatch",    find: Find::Program("sbatch"),    purpose: "runs sweeps on a cluster (Slurm)",
           how: "apt-get install slurm-client" },
    Part { name: "kubectl",   find: Find::Program("kubectl"),   purpose: "runs sweeps on a cluster (Kubernetes)",
           how: "https://kubernetes.io/docs/tasks/tools" },
    Part { name: "qemu-img",  find: Find::Program("qemu-img"),  purpose: "makes images for --disk",
           how: "apt-get install qemu-utils" },
];

/// The name of the row about the cache.
const CACHE: &str = "cache";

/// The answer about the cache, a kernel, a program or a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Row {
    name: String,
    /// Whether it is there.
    found: bool,
    /// Whether the exit status depends on it.
    needed: bool,
    /// Its place or its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    purpose: String,
    /// Advice on how to install it. `None` if it is not missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<String>,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let rows = rows(&args.names)?;
    let missing: Vec<&str> = rows.iter().filter(|row| row.needed && !row.found).map(|row| &*row.name).collect();
    let text = match args.json {
        true => rows.iter().map(output::json_line).collect::<Result<String, _>>()?,
        false => render(&rows, Paint::for_output()),
    };
    output::emit(&text)?;
    match missing[..] {
        [] => Ok(()),
        _ => Err(Failure::failed(format!("missing: {}", missing.join(", ")))),
    }
}

fn rows(names: &[String]) -> Result<Vec<Row>, Failure> {
    let all: Vec<&str> = [CACHE]
        .into_iter()
        .chain(trapline_images::stocks().iter().map(|stock| stock.name))
        .chain(PARTS.iter().map(|part| part.name))
        .collect();
    if let Some(wrong) = names.iter().find(|name| !all.contains(&name.as_str()) && Wanted::parse(name).is_none()) {
        let near = similar::nearest(wrong, all.iter().copied());
        let advice = match near[..] {
            [] => format!("known: {}", all.join(", ")),
            _ => format!("did you mean {}?", near.join(" or ")),
        };
        return Err(Failure::usage(format!("doctor knows nothing of `{wrong}`")).advise(advice));
    }
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let named: Vec<&str> = names.iter().map(String::as_str).filter(|name| !all.contains(name)).collect();
    let kernels = trapline_images::stocks().iter().map(|stock| stock.name).filter(|name| is_wanted(name)).chain(named);
    let mut rows: Vec<Row> = is_wanted(CACHE).then(cache).into_iter().collect();
    rows.extend(kernels.filter_map(kernel));
    rows.extend(PARTS.iter().filter(|part| is_wanted(part.name)).map(Part::row));
    let is_named = !names.is_empty();
    rows.iter_mut().for_each(|row| row.needed |= is_named);
    Ok(rows)
}

/// The row about the folder for kernels and snapshots. It counts as found if it, or its nearest parent that exists, can be
/// written.
fn cache() -> Row {
    let folder = trapline_images::cache_folder();
    let is_writable = folder.as_deref().is_some_and(can_write);
    let place = folder.as_deref().map(|folder| folder.display().to_string());
    let how = match &place {
        None => "set HOME or XDG_CACHE_HOME to a folder of yours".to_string(),
        Some(place) => format!("make `{place}` writable, or set XDG_CACHE_HOME to a folder that is"),
    };
    let purpose = "the folder for stock kernels and snapshots";
    row(CACHE, place.filter(|_| is_writable), true, purpose, how)
}

fn can_write(folder: &Path) -> bool {
    let there = folder.ancestors().find(|folder| folder.exists());
    let Some(there) = there else { return false };
    let probe = there.join(format!(".trapline-doctor-{}", std::process::id()));
    let is_made = fs::File::create_new(&probe).is_ok();
    is_made && fs::remove_file(&probe).is_ok()
}

fn row(name: &str, place: Option<String>, needed: bool, purpose: &str, how: impl Into<String>) -> Row {
    let how = if place.is_some() { None } else { Some(how.into()) };
    Row { name: name.into(), found: place.is_some(), needed, place, purpose: purpose.into(), how }
}

fn kernel(name: &str) -> Option<Row> {
    let wanted = Wanted::parse(name)?;
    let stock: &Stock = wanted.stock;
    let place = trapline_images::locate(&wanted, &trapline_images::folders()).map(|local| match &local.busybox {
        Some(_) => local.version,
        None => format!("{}, without a busybox for its shell", local.version),
    });
    let how = match stock.is_packed() {
        true => format!("trapline images pull {name}"),
        false => stock.built_by(),
    };
    Some(row(name, place, false, stock.description, how))
}

impl Part {
    fn row(&self) -> Row {
        let place = match self.find {
            Find::Program(name) => program(name),
            Find::Python(module) => python_module(module),
        };
        row(self.name, place.map(|place| place.display().to_string()), false, self.purpose, self.how)
    }
}

/// The first executable file of that name in the folders of PATH.
fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// The Python in PATH, if it can import the module. The module is looked for, not run.
fn python_module(module: &str) -> Option<PathBuf> {
    let python = program("python3")?;
    let ask = format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)");
    let mut command = std::process::Command::new(&python);
    command.args(["-I", "-c", &ask]).stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.status().is_ok_and(|status| status.success()).then_some(python)
}

fn render(rows: &[Row], paint: Paint) -> String {
    let mut table = Table::new(&[("", Align::Left), ("what", Align::Left), ("for", Align::Left), ("here", Align::Left)]);
    for row in rows {
        let mark = match (row.found, row.needed) {
            (true, _) => Cell::styled("ok", Paint::good),
            (false, true) => Cell::styled("missing", Paint::error),
            (false, false) => Cell::styled("absent", Paint::faint),
        };
        let here = row.place.as_deref().or(row.how.as_deref()).unwrap_or_default();
        let here = if row.found { Cell::plain(here) } else { Cell::styled(format!("get it: {here}"), Paint::advice) };
        table.row(vec![mark, Cell::styled(&*row.name, Paint::name), Cell::plain(&*row.purpose), here]);
    }
    table.render(paint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AN-3: what is missing has a command that brings it, and named things are needed.
    #[test]
    fn doctor_prints_how_to_install_missing_things() {
        let all = rows(&[]).expect("answers");
        assert!(all.iter().all(|row| row.found == row.how.is_none() && row.found == row.place.is_some()), "{all:?}");
        assert!(all.iter().all(|row| !row.purpose.is_empty()));
        assert_eq!(all.iter().filter(|row| row.needed).map(|row| &*row.name).collect::<Vec<_>>(), [CACHE]);
        let some = rows(&["gdb".into(), "debian/amd64@1.2.3-4".into()]).expect("answers");
        let named: Vec<(&str, bool)> = some.iter().map(|row| (&*row.name, row.needed)).collect();
        assert_eq!(named, [("debian/amd64@1.2.3-4", true), ("gdb", true)]);
        assert!(!some[0].found && some[0].how.as_deref().is_some_and(|how| how.contains("images pull debian/amd64@1.2.3-4")));
        let wrong = rows(&["gbd".into()]).expect_err("no such thing").render(Paint::none());
        assert!(wrong.contains("`gbd`") && wrong.contains("gdb"), "{wrong}");
    }

    /// AN-3: a program counts only if it can be run.
    #[test]
    fn a_file_that_cannot_be_run_is_no_program() {
        use std::os::unix::fs::PermissionsExt;
        let folder = env::temp_dir().join(format!("trapline-doctor-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("tool");
        fs::write(&file, "").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("its rights");
        assert!(!is_executable(&file) && !is_executable(&folder));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its rights");
        assert!(is_executable(&file));
        assert!(can_write(&folder.join("not/yet/there")) && !can_write(Path::new("/proc/none")));
        fs::remove_dir_all(&folder).expect("our folder");
    }
}
