//! `--dwarf FILE`: the debug information of the kernel and of its modules, checked by the build id, and the lines of
//! `perf probe` that it makes possible.

use super::Failure;
use super::debug_files::{DebugFiles, Infos};
use super::event_error::{Event, Expand, Script, read_lines};
use super::image;
use super::output::Paint;
use super::tracing_script::Placed;
use crate::boot::{Kernel, kernels};
use crate::lines::DebugFile;
use crate::lines::expand::{self, Expanded, Known};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// The argument `--dwarf`.
#[derive(clap::Args, Default)]
pub struct DwarfArg {
    /// A vmlinux with debug information (DWARF) of this very kernel, for source lines and variables, or a module's file
    /// (.ko, .ko.debug). May be repeated. An image or a loaded module that has it needs none
    #[arg(long, value_name = "FILE")]
    dwarf: Vec<PathBuf>,
}

impl DwarfArg {
    /// The debug information: of the files that were named, or of the image's own file, and of modules that the guest
    /// loads from these files.
    pub fn open(&self, image: &str, kernel: &Kernel, loaded: &[PathBuf]) -> Result<DebugFiles, Failure> {
        let mut files = DebugFiles::default();
        for path in &self.dwarf {
            let file = given(path)?;
            let name = path.display();
            if file.placed.is_some() {
                let elf = |arch| kernels::of(arch).elf;
                if elf(file.arch) != elf(kernel.arch) {
                    return Err(Failure::usage(format!("`{name}` is a module for another machine than the kernel's")));
                }
                files.add_module(path, file);
                continue;
            }
            if files.kernel.is_some() {
                return Err(Failure::usage(format!("`{name}` is the second kernel that is given by --dwarf: a guest has one"))
                    .advise("the other files of --dwarf are those of modules"));
            }
            check_build(path, &file, image, kernel)?;
            files.kernel = Some(file);
        }
        if files.kernel.is_none() {
            files.kernel = match pulled(image) {
                Some(path) => {
                    let file = given(&path)?;
                    check_build(&path, &file, image, kernel)?;
                    Some(file)
                }
                None => own(image),
            };
        }
        files.add_loaded(loaded);
        Ok(files)
    }

    /// The debug information, or a failure that says how to get it.
    pub fn needed(&self, image: &str, kernel: &Kernel, loaded: &[PathBuf]) -> Result<DebugFiles, Failure> {
        let files = self.open(image, kernel, loaded)?;
        if !files.is_empty() {
            return Ok(files);
        }
        Err(none_in(image))
    }
}

/// The failure of a question for which an image has no debug information.
pub fn none_in(image: &str) -> Failure {
    Failure::usage(format!("`{image}` has no debug information"))
        .advise("give a vmlinux with DWARF of the same build: --dwarf FILE; `trapline images pull --dwarf` brings that of a Debian kernel")
}

/// A module's file that stands in place of an image, and the debug information in it.
pub fn own_module(image: &str) -> Result<Option<DebugFiles>, Failure> {
    let path = Path::new(image);
    let is_module = open(path).is_ok_and(|(mut bytes, _)| {
        // The file's type stands behind the identity, for either byte order.
        let mut header = [0; 18];
        bytes.read_exact(&mut header).is_ok() && header.starts_with(b"\x7fELF") && matches!(header[16..], [1, 0] | [0, 1])
    });
    if !is_module {
        return Ok(None);
    }
    let mut files = DebugFiles::default();
    files.add_module(path, given(path)?);
    Ok(Some(files))
}

/// The debug information in a file that was named.
pub fn given(path: &Path) -> Result<DebugFile, Failure> {
    let name = path.display();
    let (mut bytes, length) = open(path).map_err(|error| Failure::usage(format!("`{name}` cannot be read: {error}")))?;
    DebugFile::read(&mut bytes, length).map_err(|error| {
        Failure::usage(format!("`{name}` cannot be used for --dwarf: {error}")).advise(
            "give a vmlinux or a module that was compiled with -g, or pull a Debian kernel's by `trapline images pull --dwarf`",
        )
    })
}

/// Fails if the file is of another build than the kernel.
fn check_build(path: &Path, file: &DebugFile, image: &str, kernel: &Kernel) -> Result<(), Failure> {
    let name = path.display();
    match file.is_of(kernel.segments.iter().map(|segment| &*segment.bytes)) {
        Some(true) => {}
        Some(false) => {
            let id = file.build_id_text().unwrap_or_default();
            return Err(Failure::usage(format!(
                "`{name}` is of another kernel than `{image}`: the image does not hold its build id {id}"
            ))
            .advise("give the vmlinux of the same build; a new version of a package is another build"));
        }
        None => {
            let note = Paint::for_errors().advice("note:");
            eprintln!("{note} `{name}` has no build id, so nothing shows that it is of this kernel");
        }
    }
    Ok(())
}

/// Opens a regular file. Opening a pipe would wait for somebody who writes it.
fn open(path: &Path) -> std::io::Result<(BufReader<File>, u64)> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok((BufReader::new(File::open(path)?), about.len()))
}

/// The file that `trapline images pull --dwarf` put beside a stock kernel.
fn pulled(name: &str) -> Option<PathBuf> {
    trapline_images::locate(&trapline_images::Wanted::parse(name)?, &trapline_images::folders())?.debug()
}

/// The debug information in the image's own file.
fn own(name: &str) -> Option<DebugFile> {
    if trapline_images::find(name).is_some() {
        let bytes = image::bytes(name).ok()?;
        return DebugFile::from_bytes(&bytes).ok();
    }
    let (mut bytes, length) = open(Path::new(name)).ok()?;
    DebugFile::read(&mut bytes, length).ok()
}

/// The events and the shell commands of scripts.
pub type Lines = (Vec<Event>, Vec<Placed>);

/// Parses all lines of the scripts. Lines of `perf probe` become lines of kprobe_events first. `open` gives the debug
/// information, and is called only if a line asks for it.
pub fn read_scripts(
    kernel: &Kernel,
    scripts: Vec<Script>,
    open: impl FnOnce() -> Result<DebugFiles, Failure>,
) -> Result<Lines, Failure> {
    let asks = |script: &Script| {
        trapline_probes::events::parse::script(&script.text).any(|line| expand::asks(&line.text, &kernel.symbols))
    };
    if !scripts.iter().any(asks) {
        return read_all(scripts, &mut |_| None);
    }
    let files = open()?;
    let infos = files.infos()?;
    read_all(scripts, &mut |line| expanded(line, kernel, &infos))
}

/// The lines of kprobe_events that a line means, or the error; `None` if it is one already.
pub fn expanded(line: &str, kernel: &Kernel, infos: &Infos<'_>) -> Option<Result<Vec<String>, String>> {
    if !expand::asks(line, &kernel.symbols) {
        return None;
    }
    let named = expand::module_of(line);
    let mut error = None;
    let expand = |known: &Known<'_, '_>| match expand::line(line, known) {
        Ok(Some(expanded)) => check_symbols(&expanded, known, kernel).map(|()| Some(expanded)),
        Ok(None) => Ok(None),
        Err(error) => Err(error.to_string()),
    };
    let found = infos.find(kernel, |known| match expand(known) {
        Ok(expanded) => expanded,
        Err(why) => {
            // The error of the module that the line names says more than the kernel's, and the kernel's more than that of
            // a module that it does not name.
            if error.is_none() || named.is_some() && named == known.module {
                error = Some(why);
            }
            None
        }
    });
    if let Some(expanded) = found {
        for note in &expanded.notes {
            eprintln!("{} {note}", Paint::for_errors().advice("note:"));
        }
        return Some(Ok(expanded.lines));
    }
    let is_known = |name: &str| infos.modules.iter().any(|module| module.name == name);
    match named.filter(|name| !is_known(name)) {
        Some(name) => Some(Err(format!(
            "source lines and variables of the module {name} need its file, compiled with -g: --module {name}.ko or --dwarf {name}.ko"
        ))),
        None => error.map(Err),
    }
}

/// Fails if lines of a module fetch at a symbol that the kernel has, too: event lines cannot tell which is meant.
fn check_symbols(expanded: &Expanded, known: &Known<'_, '_>, kernel: &Kernel) -> Result<(), String> {
    let Some(module) = known.module else { return Ok(()) };
    let names = expanded.lines.iter().flat_map(|line| line.split('@').skip(1));
    let mut names = names.map(|rest| rest.split(['+', '-', ':', ')', ' ']).next().unwrap_or_default());
    let both = |name: &&str| known.symbols.address_of(name).is_some() && kernel.symbols.address_of(name).is_some();
    match names.find(both) {
        Some(name) => Err(format!("`{name}`: the kernel and the module {module} both have this symbol: fetch it by its address")),
        None => Ok(()),
    }
}

fn read_all(scripts: Vec<Script>, expand: Expand<'_>) -> Result<Lines, Failure> {
    let (mut events, mut commands) = (Vec::new(), Vec::new());
    for script in scripts {
        let (of_script, shell) = read_lines(script, expand)?;
        events.extend(of_script);
        commands.extend(shell);
    }
    Ok((events, commands))
}
