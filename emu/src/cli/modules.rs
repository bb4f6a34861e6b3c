//! `--module`: kernel modules, given by file or name, that a stock kernel loads before it does anything else.

use super::Failure;
use super::file::{self, Kind};
use crate::boot::module::About;
use crate::boot::payload;
use std::fs;
use std::path::{Path, PathBuf};
use trapline_images::Local;
use trapline_isa::arch::Arch;

/// The largest unpacked module, in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// The requested modules in loading order, each with its file name in the guest. Fails if a module is for another ISA
/// or if a module that it depends on is not loaded before it.
pub fn read(asked: &[PathBuf], arch: Arch, local: Option<&Local>) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut names: Vec<String> = Vec::new();
    let mut files = Vec::new();
    for path in paths(asked, local)? {
        let shown = path.display();
        let bytes = file::read(&path, Kind::MODULE)?;
        let bytes = payload::unpack_at_most(&bytes, MOST_BYTES)
            .map_err(|error| Failure::usage(format!("`{shown}` cannot be unpacked: {error}")))?;
        let about = About::of(&bytes).ok_or_else(|| Failure::usage(format!("`{shown}` is no kernel module")))?;
        if about.arch != Some(arch) {
            return Err(Failure::usage(format!("`{shown}` is a module for another machine than the kernel's"))
                .advise("take it out of the package that the kernel is from"));
        }
        if let Some(missing) = about.depends.iter().find(|name| !names.contains(name)) {
            return Err(Failure::usage(format!("`{shown}` needs the module {missing}"))
                .advise(format!("load that first: give `--module` with the file of {missing} before it")));
        }
        files.push((format!("{:03}-{}.ko", files.len(), about.name), bytes.into_owned()));
        names.push(about.name);
    }
    Ok(files)
}

/// The files for the arguments. A directory stands for the modules in it, sorted by name.
fn paths(asked: &[PathBuf], local: Option<&Local>) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for path in asked {
        if !path.is_dir() {
            paths.push(named(path, local)?.unwrap_or_else(|| path.clone()));
            continue;
        }
        let entries =
            fs::read_dir(path).map_err(|error| Failure::usage(format!("`{}` cannot be read: {error}", path.display())))?;
        let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| is_module(path)).collect();
        if inside.is_empty() {
            return Err(Failure::usage(format!("`{}` holds no module: no file in it ends in .ko", path.display())));
        }
        inside.sort();
        paths.extend(inside);
    }
    Ok(paths)
}

/// The file of one of the kernel's own modules. `None` if the argument is the path of a file.
fn named(path: &Path, local: Option<&Local>) -> Result<Option<PathBuf>, Failure> {
    let (Some(name), Some(local)) = (path.to_str().filter(|name| !name.contains(['/', '.'])), local) else { return Ok(None) };
    if path.exists() {
        return Ok(None);
    }
    if local.modules().is_none() {
        return Err(Failure::usage(format!(
            "there is no file `{name}`, and the modules of this kernel are not on this computer"
        ))
        .advise("`trapline images pull --modules` with the kernel's name brings them"));
    }
    let found = local.module(name);
    found.map(Some).ok_or_else(|| Failure::usage(format!("the kernel has no module called `{name}`, and there is no such file")))
}

fn is_module(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".ko") || name.rsplit_once('.').is_some_and(|(stem, _)| stem.ends_with(".ko"))
}
