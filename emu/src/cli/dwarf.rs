//! `--dwarf FILE`: the debug information of the kernel, checked by its build id, and the lines of `perf probe` that it
//! makes possible.

use super::Failure;
use super::event_error::{Event, Expand, Script, read_lines};
use super::image;
use super::output::Paint;
use super::tracing_script::Placed;
use crate::boot::Kernel;
use crate::boot::btf::Btf;
use crate::boot::btf::types::GuestTypes;
use crate::files;
use crate::lines::expand::{self, Known};
use crate::lines::{DebugFile, Info, LinesError};
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use trapline_script::types::Types;

/// The argument `--dwarf`.
#[derive(clap::Args, Default)]
pub struct DwarfArg {
    /// A vmlinux with debug information (DWARF) of this very kernel, for source lines and variables. An image that has
    /// it needs none
    #[arg(long, value_name = "FILE")]
    dwarf: Option<PathBuf>,
}

const HEADER: &[u8] = b"trapline names 2\n";

impl DwarfArg {
    /// The debug information: of the file that was named, or of the image's own file. `Ok(None)` if there is none.
    pub fn open(&self, image: &str, kernel: &Kernel) -> Result<Option<DebugFile>, Failure> {
        let pulled = pulled(image);
        let Some(file) = self.dwarf.as_ref().or(pulled.as_ref()) else { return Ok(own(image)) };
        let name = file.display();
        let read = |error: LinesError| {
            Failure::usage(format!("`{name}` cannot be used for --dwarf: {error}")).advise(
                "give a vmlinux that was compiled with -g, or pull that of a Debian kernel by `trapline images pull --dwarf`",
            )
        };
        let opened = open(file).map_err(|error| Failure::usage(format!("`{name}` cannot be read: {error}")))?;
        let (mut bytes, length) = opened;
        let found = DebugFile::read(&mut bytes, length).map_err(read)?;
        match found.is_of(kernel.segments.iter().map(|segment| &*segment.bytes)) {
            Some(true) => {}
            Some(false) => {
                let id = found.build_id_text().unwrap_or_default();
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
        Ok(Some(found))
    }

    /// The debug information, or a failure that says how to get it.
    pub fn needed(&self, image: &str, kernel: &Kernel) -> Result<DebugFile, Failure> {
        self.open(image, kernel)?.ok_or_else(|| {
            Failure::usage(format!("`{image}` has no debug information"))
                .advise("give a vmlinux with DWARF of the same build: --dwarf FILE; `trapline images pull --dwarf` brings that of a Debian kernel")
        })
    }
}

fn open(path: &Path) -> std::io::Result<(BufReader<File>, u64)> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok((BufReader::new(file), about.len()))
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

/// Questions about a file. The index of names comes from the cache, or is kept there.
pub fn info(file: &DebugFile) -> Result<Info<'_>, Failure> {
    let failed = |error: LinesError| Failure::failed(format!("the debug information cannot be used: {error}"));
    let info = Info::new(file).map_err(failed)?;
    let Some(path) = file.build_id_text().and_then(|id| {
        let folder = trapline_images::cache_folder()?.with_file_name("lines");
        Some(folder.join(format!("{id}.names")))
    }) else {
        return Ok(info);
    };
    if let Some(index) = cached(&path)
        && info.use_index(&index)
    {
        return Ok(info);
    }
    let index = info.index().map_err(failed)?;
    let whole = [HEADER, blake3::hash(&index).as_bytes(), &index].concat();
    if let Some(folder) = path.parent() {
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        // Without a cache the names are read again in the next run.
        let _ = fs::create_dir_all(folder).and_then(|()| files::write_whole(&path, &beside, &whole));
    }
    Ok(info)
}

/// The index in a file of the cache, if its checksum is right.
fn cached(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(1 << 28).read_to_end(&mut bytes).ok()?;
    let (sum, index) = bytes.strip_prefix(HEADER)?.split_at_checked(blake3::OUT_LEN)?;
    (blake3::hash(index).as_bytes() == sum).then(|| index.to_vec())
}

/// The events and the shell commands of scripts.
pub type Lines = (Vec<Event>, Vec<Placed>);

/// Parses all lines of the scripts. Lines of `perf probe` become lines of kprobe_events first.
pub fn read_scripts(dwarf: &DwarfArg, image: &str, kernel: &Kernel, scripts: Vec<Script>) -> Result<Lines, Failure> {
    let plain = plain(kernel);
    // The debug information is opened only if a line asks for it.
    let asks = |script: &Script| {
        trapline_probes::events::parse::script(&script.text).any(|line| expand::asks(&line.text, plain.symbols))
    };
    if !scripts.iter().any(asks) {
        return read_all(scripts, &mut |_| None);
    }
    let file = dwarf.open(image, kernel)?;
    let lines = file.as_ref().map(info).transpose()?;
    let types = if lines.is_some() { None } else { Btf::of(kernel).map(GuestTypes::new) };
    let known = Known { lines: lines.as_ref(), types: types.as_ref().map(|types| types as &dyn Types), ..plain };
    read_all(scripts, &mut |line| written_out(line, &known))
}

/// The lines of kprobe_events that a line means, or the error; `None` if it is one already.
pub fn expanded(line: &str, kernel: &Kernel, lines: Option<&Info<'_>>) -> Option<Result<Vec<String>, String>> {
    let plain = plain(kernel);
    if !expand::asks(line, plain.symbols) {
        return None;
    }
    let types = if lines.is_some() { None } else { Btf::of(kernel).map(GuestTypes::new) };
    written_out(line, &Known { lines, types: types.as_ref().map(|types| types as &dyn Types), ..plain })
}

fn plain(kernel: &Kernel) -> Known<'_, 'static> {
    Known { isa: kernel.arch.isa(), symbols: &kernel.symbols, lines: None, types: None }
}

fn written_out(line: &str, known: &Known<'_, '_>) -> Option<Result<Vec<String>, String>> {
    match expand::line(line, known) {
        Ok(None) => None,
        Ok(Some(expanded)) => {
            for note in &expanded.notes {
                eprintln!("{} {note}", Paint::for_errors().advice("note:"));
            }
            Some(Ok(expanded.lines))
        }
        Err(error) => Some(Err(error.to_string())),
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
