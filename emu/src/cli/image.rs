//! IMAGE on the command line: a file, or a kernel that is built in.

use super::Failure;
use crate::boot::Kernel;
use crate::symbols::{similar, system_map};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The arguments by which a kernel is named.
#[derive(clap::Args)]
pub struct ImageArgs {
    /// A vmlinux ELF file, or a built-in kernel such as tiny/x86_64
    pub image: String,
    #[command(flatten)]
    pub symbols: SymbolsArg,
}

/// Where symbols come from when the image has none.
#[derive(clap::Args)]
pub struct SymbolsArg {
    /// Takes the symbols from this System.map or copy of /proc/kallsyms, not from the image
    #[arg(long = "symbols", value_name = "FILE")]
    file: Option<PathBuf>,
}

/// A file larger than this is no kernel.
const MOST_BYTES: u64 = 4 << 30;

impl ImageArgs {
    /// The kernel.
    pub fn load(&self) -> Result<Kernel, Failure> {
        load(&self.image, &self.symbols)
    }
}

/// The kernel of that name, or in that file.
pub fn load(image: &str, symbols: &SymbolsArg) -> Result<Kernel, Failure> {
    let kernel = match trapline_images::find(image) {
        Some(builtin) => parse(image, builtin.bytes)?,
        None => parse(image, &read(image)?)?,
    };
    let Some(file) = &symbols.file else { return Ok(kernel) };
    let text = fs::read(file).map_err(|error| Failure::usage(format!("`{}` cannot be read: {error}", file.display())))?;
    let table = system_map::parse(&String::from_utf8_lossy(&text)).map_err(|error| {
        Failure::usage(format!("`{}`, {error}", file.display())).advise("give a System.map of this very kernel")
    })?;
    Ok(kernel.with_symbols(table))
}

fn parse(image: &str, bytes: &[u8]) -> Result<Kernel, Failure> {
    Kernel::from_bytes(bytes)
        .map_err(|error| Failure::usage(format!("`{image}` cannot be loaded: {error}")).advise(error.advice()))
}

fn read(image: &str) -> Result<Vec<u8>, Failure> {
    let path = Path::new(image);
    let size = fs::metadata(path).map_err(|error| unreadable(image, &error))?;
    if size.is_dir() {
        return Err(Failure::usage(format!("`{image}` is a directory"))
            .advise("give the kernel's own file in it, usually called vmlinux"));
    }
    if size.len() > MOST_BYTES {
        return Err(Failure::usage(format!("`{image}` has {} bytes, which is more than any kernel has", size.len())));
    }
    fs::read(path).map_err(|error| unreadable(image, &error))
}

fn unreadable(image: &str, error: &io::Error) -> Failure {
    if error.kind() != io::ErrorKind::NotFound {
        return Failure::usage(format!("`{image}` cannot be read: {error}"));
    }
    let near = similar::nearest(image, trapline_images::builtins().iter().map(|builtin| builtin.name));
    let failure = Failure::usage(format!("there is no file and no built-in kernel called `{image}`")).perhaps(&near);
    if near.is_empty() { failure.advise("`trapline images` lists the built-in kernels") } else { failure }
}
