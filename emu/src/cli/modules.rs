//! `--module`, and the modules that disks and other devices need: kernel modules that a stock kernel loads before it does
//! anything else.

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

/// Modules in loading order, each with its file name in the guest.
#[derive(Default)]
pub struct Modules {
    /// Those that devices need.
    pub for_devices: Vec<(String, Vec<u8>)>,
    /// Those that the user asks for.
    pub asked: Vec<(String, Vec<u8>)>,
}

/// The requested modules: those that devices need, then those that the user asks for. Modules that they depend on come
/// before them, if they were pulled with the kernel. Fails if a module is for another ISA or depends on one that is
/// neither given before it nor pulled.
pub fn read(asked: &[PathBuf], for_devices: &[&str], arch: Arch, local: Option<&Local>) -> Result<Modules, Failure> {
    let mut list = List { arch, local, names: Vec::new(), files: Vec::new(), open: Vec::new() };
    for path in device_modules(for_devices, local)? {
        list.add(&path)?;
    }
    let count = list.files.len();
    for path in paths(asked, local)? {
        list.add(&path)?;
    }
    let asked = list.files.split_off(count);
    Ok(Modules { for_devices: list.files, asked })
}

/// The files of the modules that devices need. A module that the kernel does not have is taken to be built in, as are all of
/// them in a kernel of the user's own.
fn device_modules(names: &[&str], local: Option<&Local>) -> Result<Vec<PathBuf>, Failure> {
    let Some(local) = local.filter(|_| !names.is_empty()) else { return Ok(Vec::new()) };
    if local.modules().is_none() {
        return Err(Failure::usage(
            "this kernel's drivers for disks, folders and networks are modules that are not on this computer",
        )
        .advise("`trapline images pull --modules` with the kernel's name brings them"));
    }
    Ok(names.iter().filter_map(|name| local.module(name)).collect())
}

/// Modules under collection.
struct List<'a> {
    arch: Arch,
    local: Option<&'a Local>,
    names: Vec<String>,
    files: Vec<(String, Vec<u8>)>,
    /// The modules whose dependencies are being added.
    open: Vec<String>,
}

impl List<'_> {
    fn add(&mut self, path: &Path) -> Result<(), Failure> {
        let shown = path.display();
        let bytes = file::read(path, Kind::MODULE)?;
        let bytes = payload::unpack_at_most(&bytes, MOST_BYTES)
            .map_err(|error| Failure::usage(format!("`{shown}` cannot be unpacked: {error}")))?;
        let about = About::of(&bytes).ok_or_else(|| Failure::usage(format!("`{shown}` is no kernel module")))?;
        if about.arch != Some(self.arch) {
            return Err(Failure::usage(format!("`{shown}` is a module for another machine than the kernel's"))
                .advise("take it out of the package that the kernel is from"));
        }
        if self.names.contains(&about.name) {
            return Ok(());
        }
        self.open.push(about.name.clone());
        for needed in &about.depends {
            if self.names.contains(needed) {
                continue;
            }
            match self.local.and_then(|local| local.module(needed)).filter(|_| !self.open.contains(needed)) {
                Some(file) => self.add(&file)?,
                None => {
                    return Err(Failure::usage(format!("`{shown}` needs the module {needed}"))
                        .advise(format!("load that first: give `--module` with the file of {needed} before it")));
                }
            }
        }
        self.open.pop();
        self.files.push((format!("{:03}-{}.ko", self.files.len(), about.name), bytes.into_owned()));
        self.names.push(about.name);
        Ok(())
    }
}

/// The files for the arguments. A directory stands for the modules in it, sorted by name.
pub fn paths(asked: &[PathBuf], local: Option<&Local>) -> Result<Vec<PathBuf>, Failure> {
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
