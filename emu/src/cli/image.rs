//! The argument IMAGE: a file, a built-in kernel, or a stock kernel that was pulled.

use super::Failure;
use super::file::{self, Kind};
use super::output::Paint;
use crate::boot::Kernel;
use crate::boot::kernels;
use crate::symbols::{Symbols, similar, system_map};
use crate::unpacked::Unpacked;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use trapline_images::{Local, Stock, Wanted};
use trapline_isa::arch::Arch;

/// The arguments that select a kernel and its symbols.
#[derive(clap::Args)]
pub struct ImageArgs {
    /// A kernel file (vmlinux, vmlinuz, bzImage), a built-in kernel such as tiny/x86_64, or a stock kernel such as
    /// debian/amd64
    pub image: String,
    #[command(flatten)]
    pub symbols: SymbolsArg,
}

/// The argument `--symbols`.
#[derive(Clone, clap::Args, Serialize, Deserialize)]
pub struct SymbolsArg {
    /// Takes the symbols from this System.map or copy of /proc/kallsyms instead of the image
    #[arg(long = "symbols", value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
}

impl ImageArgs {
    /// Loads the kernel.
    pub fn load(&self) -> Result<Kernel, Failure> {
        load(&self.image, &self.symbols)
    }
}

/// Loads a kernel by name or file. Prints a note if some of its tables were not found.
pub fn load(image: &str, symbols: &SymbolsArg) -> Result<Kernel, Failure> {
    let bytes = bytes(image)?;
    let given = symbols.read()?;
    let own = given.is_none();
    let kernel = parse(image, &bytes, given)?;
    if own {
        say_what_is_missing(image, &kernel);
    }
    Ok(kernel)
}

impl SymbolsArg {
    /// The symbols in the file that was named, if one was.
    fn read(&self) -> Result<Option<Symbols>, Failure> {
        let Some(file) = &self.file else { return Ok(None) };
        let text = file::read(file, Kind::SYMBOLS)?;
        let table = system_map::parse(&String::from_utf8_lossy(&text)).map_err(|error| {
            Failure::usage(format!("`{}`, {error}", file.display())).advise("give a System.map of this very kernel")
        })?;
        Ok(Some(table))
    }
}

/// A sentence that says how to get a stock kernel onto this computer.
pub fn how_it_comes(stock: &Stock, name: &str) -> String {
    if stock.is_packed() {
        format!("`trapline images pull {name}` brings it")
    } else {
        format!("{} in trapline's sources builds it", stock.built_by())
    }
}

/// The bytes of a kernel, by name or file.
pub fn bytes(image: &str) -> Result<Cow<'static, [u8]>, Failure> {
    if let Some(builtin) = trapline_images::find(image) {
        return Ok(Cow::Borrowed(builtin.bytes));
    }
    match Wanted::parse(image) {
        Some(wanted) => read(&local(&wanted)?.kernel.to_string_lossy()).map(Cow::Owned),
        None => read(image).map(Cow::Owned),
    }
}

/// The files of a stock kernel on this computer.
pub fn local(wanted: &Wanted) -> Result<Local, Failure> {
    let folders = trapline_images::folders();
    trapline_images::locate(wanted, &folders).ok_or_else(|| {
        let searched: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let name = wanted.name();
        Failure::usage(format!("`{name}` is not on this computer"))
            .advise(how_it_comes(wanted.stock, &name))
            .advise(format!("folders searched (TRAPLINE_IMAGES, then the cache): {}", searched.join(", ")))
    })
}

/// Parses the bytes of a kernel. `image` is its name in errors. Given symbols replace those of the image.
pub fn parse(image: &str, bytes: &[u8], given: Option<Symbols>) -> Result<Kernel, Failure> {
    let shelf = trapline_images::cache_folder().map(|images| Unpacked::within(&images.with_file_name("unpacked")));
    let kernel = match &shelf {
        Some(shelf) => Kernel::from_shelf_with(shelf, bytes, given),
        None => Kernel::from_shelf_with(&(), bytes, given),
    };
    kernel.map_err(|error| Failure::usage(format!("`{image}` cannot be loaded: {error}")).advise(error.advice()))
}

/// Prints a note about tables that were not found, because answers about the kernel may then be incomplete.
fn say_what_is_missing(image: &str, kernel: &Kernel) {
    if let [_, ..] = kernel.tables.missing[..] {
        let paint = Paint::for_errors();
        let missing = kernel.tables.missing.join(", ");
        eprintln!("{} trapline did not find these tables in `{image}`: {missing}", paint.advice("note:"));
    }
}

fn read(image: &str) -> Result<Vec<u8>, Failure> {
    file::bytes(Path::new(image), Kind::KERNEL).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => {
            Failure::usage(format!("`{image}` is a directory")).advise("give the kernel's own file in it, usually called vmlinux")
        }
        _ => unreadable(image, &error),
    })
}

fn unreadable(image: &str, error: &io::Error) -> Failure {
    if error.kind() != io::ErrorKind::NotFound {
        return Failure::usage(format!("`{image}` cannot be read: {error}"));
    }
    if let Some(failure) = of_no_debian(image) {
        return failure;
    }
    let near = similar::nearest(image, names());
    let failure = Failure::usage(format!("there is no file and no built-in kernel called `{image}`")).perhaps(&near);
    if near.is_empty() { failure.advise("`trapline images` lists the kernels that have a name") } else { failure }
}

/// A failure with advice if the name asks for an ISA that Debian has no kernel for; otherwise `None`.
pub fn of_no_debian(name: &str) -> Option<Failure> {
    let asked = name.strip_prefix("debian/")?.split('@').next()?;
    let arch = *Arch::ALL.iter().find(|arch| kernels::of(**arch).debian == asked)?;
    if trapline_images::stocks().iter().any(|stock| stock.architecture == asked && stock.is_packed()) {
        return None;
    }
    let failure = Failure::usage(format!("Debian 12 has no kernel for {asked}"));
    let ours = format!("tiny/{}", arch.name());
    let failure = match trapline_images::find(&ours) {
        Some(_) => failure.advise(format!("`trapline run {ours}` runs a kernel of our own for it")),
        None => failure,
    };
    let built = trapline_images::stocks().iter().find(|stock| stock.architecture == asked);
    let failure = built.into_iter().fold(failure, |failure, stock| {
        failure.advise(format!("`trapline run {}` runs a Linux for it: {}", stock.name, how_it_comes(stock, stock.name)))
    });
    Some(failure.advise("`trapline check FILE` and `trapline disasm FILE` answer about a vmlinux from elsewhere"))
}

/// The names of all built-in and stock kernels.
pub fn names() -> impl Iterator<Item = &'static str> {
    let builtins = trapline_images::builtins().iter().map(|builtin| builtin.name);
    builtins.chain(trapline_images::stocks().iter().map(|stock| stock.name))
}
