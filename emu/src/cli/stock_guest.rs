//! The inputs of a stock kernel besides its image: a command line and an initial file system, which is built from
//! busybox unless the user gives one.

use super::attached::DeviceArgs;
use super::file::{self, Kind};
use super::pulled::{self, Pull};
use super::{Failure, image, modules};
use crate::arches;
use crate::boot::kernels;
use crate::boot::whole::Whole;
use crate::boot::{Kernel, initramfs};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trapline_images::Wanted;
use trapline_isa::arch::Arch;

/// The arguments for stock kernels.
#[derive(Clone, clap::Args, Default, Serialize, Deserialize)]
pub struct StockArgs {
    /// The initial file system of a stock kernel (cpio, optionally compressed), instead of the one built from busybox
    #[arg(long, value_name = "FILE", conflicts_with = "script")]
    initrd: Option<PathBuf>,
    /// A shell script for a stock kernel to run before it powers off, or a command of several words
    /// (--script 'ls -l /proc'); its exit status becomes the guest's
    #[arg(long, value_name = "FILE|COMMAND")]
    script: Option<PathBuf>,
    /// Starts a stock kernel at its shell: the first boot is saved as a snapshot in the user's cache, from which later
    /// runs start
    #[arg(long)]
    from_boot: bool,
    /// Boots a stock kernel's file as it is: its own decompressor runs in the guest, which takes three times as long
    #[arg(long)]
    whole: bool,
    /// A kernel module for a stock kernel to load first: a file (.ko, also compressed), a directory of modules, or the
    /// name of a module that was pulled with the kernel. May be repeated; a module comes after those that it depends
    /// on. With --from-boot it is loaded at the shell
    #[arg(long = "module", value_name = "FILE", conflicts_with = "initrd")]
    modules: Vec<PathBuf>,
    /// A file for a stock kernel's script, at this path in the guest; without a path, in the root folder. May be repeated
    #[arg(long = "push", value_name = "FILE[:PATH]", conflicts_with = "initrd")]
    pushed: Vec<String>,
    /// A file to take out of a stock kernel when its script has ended, written to FILE, by default in this folder. May be
    /// repeated
    #[arg(long = "pull", value_name = "PATH[:FILE]", requires = "script")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pulled: Vec<String>,
}

/// The inputs of a stock kernel, read from their files.
pub struct StockGuest {
    /// The kernel's command line.
    pub command_line: &'static str,
    /// The initial file system.
    pub initrd: Arc<[u8]>,
    /// The self-extracting image, if the kernel shall unpack itself.
    pub whole: Option<Arc<Whole>>,
    /// If set, the run starts at the shell, where this is typed.
    pub from_boot: Option<Typed>,
    /// The files that come out of the guest when its script has ended.
    pub pulled: Vec<Pull>,
}

/// Input for the shell of a booted guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The first line to type; empty if there is none.
    pub load: &'static str,
    /// A script that replaces the shell.
    pub script: Option<Vec<u8>>,
}

impl StockArgs {
    /// The files of the modules that are asked for.
    pub fn module_files(&self, image: &str) -> Result<Vec<PathBuf>, Failure> {
        if self.modules.is_empty() {
            return Ok(Vec::new());
        }
        let local = Wanted::parse(image).as_ref().map(image::local).transpose()?;
        modules::paths(&self.modules, local.as_ref())
    }

    /// Whether the guest runs a script and then powers off.
    pub fn has_script(&self) -> bool {
        self.script.is_some()
    }

    /// The arguments with absolute paths, and without a script that is only typed.
    pub fn for_recording(mut self) -> StockArgs {
        if self.from_boot {
            self.script = None;
        }
        // The name of a module that was pulled with the kernel is no path, and neither is a command.
        let paths = self.modules.iter_mut().chain(&mut self.script).filter(|path| path.exists());
        paths.chain(&mut self.initrd).for_each(file::make_absolute);
        self
    }

    /// Reads the inputs. `Ok(None)` for a kernel that is not a stock kernel; it accepts none of these arguments.
    pub fn guest(&self, name: &str, kernel: &Kernel, devices: &DeviceArgs) -> Result<Option<StockGuest>, Failure> {
        if !kernel.is_stock() {
            if !devices.is_empty() {
                return Err(Failure::usage(format!("`{name}` is no stock kernel: it takes no disk, no folder and no network")));
            }
            if !self.pushed.is_empty() {
                return Err(Failure::usage(format!("`{name}` is no stock kernel: it takes no file")));
            }
            return match (&self.initrd, &self.script, &self.modules[..], self.from_boot, self.whole) {
                (None, None, [], false, false) => Ok(None),
                (None, None, [], true, _) => {
                    Err(Failure::usage(format!("`{name}` is no stock kernel: it has no shell to start at, and boots at once")))
                }
                (None, None, [], false, true) => {
                    Err(Failure::usage(format!("`{name}` is no stock kernel: nothing in it is packed")))
                }
                _ => Err(Failure::usage(format!(
                    "`{name}` is no stock kernel: it takes no initial file system, no script and no module"
                ))),
            };
        }
        let board = arches::of(kernel.arch)
            .machine()
            .and_then(|machine| machine.board(kernel))
            .map_err(|error| Failure::usage(format!("`{name}` cannot be run: {error}")))?;
        let needed = devices.modules(board.name)?;
        let for_init = devices.for_init()?;
        let wanted = Wanted::parse(name);
        let architecture = kernels::of(kernel.arch).debian;
        let pulled = self.pulled.iter().map(|text| Pull::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let script = self.script.as_deref().map(script).transpose()?;
        let script = script.map(|script| if pulled.is_empty() { script } else { pulled::wrap(&script, &pulled) });
        let packed = script.as_deref().filter(|_| !self.from_boot);
        let mut has_modules = false;
        let initrd = match &self.initrd {
            Some(file) => read(file)?,
            None => {
                let local = wanted.as_ref().map(image::local).transpose()?;
                let modules = modules::read(&self.modules, &needed, kernel.arch, local.as_ref())?;
                // The snapshot is made before modules are loaded: they are only files in it, and are loaded when the
                // guest continues. Those of folders and networks are loaded at the boot, which uses them.
                let later = if self.from_boot { initramfs::MODULES_FOR_LATER } else { initramfs::MODULES };
                let first = if devices.init_uses_any() { initramfs::MODULES } else { later };
                has_modules = !modules.asked.is_empty() || first == later && !modules.for_devices.is_empty();
                let named = |folder: &str, modules: Vec<(String, Vec<u8>)>| {
                    modules.into_iter().map(|(name, bytes)| (format!("{folder}{name}"), bytes)).collect::<Vec<_>>()
                };
                let mut files = [named(first, modules.for_devices), named(later, modules.asked)].concat();
                for text in &self.pushed {
                    let (path, bytes) = pushed(text)?;
                    files.push((if for_init.has_root { format!("{}{path}", initramfs::PUSHED) } else { path }, bytes));
                }
                initramfs::with_devices(&busybox(wanted.as_ref(), architecture)?, packed, &files, &for_init)
            }
        };
        if self.from_boot && has_modules && for_init.has_root {
            return Err(Failure::usage("--from-boot: modules cannot be loaded inside a root folder")
                .advise("leave out `--from-boot`, or `--module`"));
        }
        let load = if has_modules { initramfs::LOAD_LATER } else { "" };
        let from_boot = self.from_boot.then_some(Typed { load, script });
        let whole = if self.whole { Some(Arc::new(whole(name, kernel.arch)?)) } else { None };
        let command_line = trapline_images::command_line(architecture);
        Ok(Some(StockGuest { command_line, initrd: initrd.into(), whole, from_boot, pulled }))
    }
}

/// The content of a script's file, or the command that stands in its place: a text of several words that no file has as name.
fn script(given: &Path) -> Result<Vec<u8>, Failure> {
    let command = given.to_str().filter(|text| text.trim().contains(char::is_whitespace) && !given.exists());
    match command {
        Some(command) => Ok(format!("{command}\n").into_bytes()),
        None => file::read(given, Kind::SHELL_SCRIPT)
            .map_err(|failure| failure.advise("a command of several words may stand there instead: --script 'ls -l /proc'")),
    }
}

/// A file for the guest: its path without the first slash, and its bytes.
fn pushed(text: &str) -> Result<(String, Vec<u8>), Failure> {
    let (file, path) = match text.rsplit_once(':') {
        Some((file, path)) => (file, path),
        None => (text, Path::new(text).file_name().and_then(|name| name.to_str()).unwrap_or_default()),
    };
    let inside = path.trim_start_matches('/');
    let is_path = inside.split('/').all(|part| !["", ".", ".."].contains(&part)) && inside.len() <= initramfs::LONGEST_PATH;
    if !is_path || initramfs::TAKEN.contains(&inside) {
        return Err(Failure::usage(format!("--push: `{path}` cannot be the path of a file in the guest"))
            .advise("give another one behind a colon: --push work/tool:/bin/tool"));
    }
    Ok((inside.to_string(), file::read(Path::new(file), Kind::INITRD)?))
}

/// The self-extracting image in a kernel's file.
fn whole(name: &str, arch: Arch) -> Result<Whole, Failure> {
    let found = kernels::of(arch).whole(&image::bytes(name)?);
    let found =
        found.map_err(|error| Failure::usage(format!("`{name}` cannot be booted whole: {error}")).advise(error.advice()))?;
    found.ok_or_else(|| {
        Failure::usage(format!("`{name}` cannot be booted whole: there is no decompressor in its file"))
            .advise("leave out `--whole`: the same kernel is then unpacked on the host")
    })
}

/// The busybox next to the kernel, otherwise the first one for this architecture in the folders.
fn busybox(wanted: Option<&Wanted>, architecture: &str) -> Result<Vec<u8>, Failure> {
    let beside = wanted.map(image::local).transpose()?.and_then(|local| local.busybox);
    let places: Vec<PathBuf> =
        trapline_images::folders().iter().map(|folder| trapline_images::busybox(architecture, folder)).collect();
    if let Some(file) = beside.or_else(|| places.iter().find(|file| file.is_file()).cloned()) {
        return read(&file);
    }
    let missing = format!("there is no busybox for {architecture} on this computer to make an initial file system of");
    let stock = trapline_images::stocks().iter().find(|stock| stock.architecture == architecture);
    let comes = match (stock, places.first()) {
        (Some(stock), _) => image::how_it_comes(stock, stock.name),
        (None, Some(place)) => format!("put one that is linked statically at {}", place.display()),
        (None, None) => String::new(),
    };
    Err(Failure::usage(missing).advise(comes).advise("or give an initial file system: --initrd FILE"))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    file::read(file, Kind::INITRD)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4: a script is a file, or a command of several words.
    #[test]
    fn a_script_is_a_file_or_a_command() {
        let file = std::env::temp_dir().join(format!("trapline script {}", std::process::id()));
        assert_eq!(script(&file).ok(), Some(format!("{}\n", file.display()).into_bytes()), "no such file: a command");
        std::fs::write(&file, "exit 3").expect("written");
        assert_eq!(script(&file).ok(), Some(b"exit 3".to_vec()), "a file whose name has spaces");
        std::fs::remove_file(file).expect("it is there");
        assert_eq!(script(Path::new("ls -l; exit 4")).ok(), Some(b"ls -l; exit 4\n".to_vec()));
        for one_word in ["missing", " missing ", "", "/missing/script"] {
            assert!(script(Path::new(one_word)).is_err(), "{one_word:?}");
        }
    }

    /// DV-4: files for the guest have a path inside it.
    #[test]
    fn pushed_files_have_a_path_in_the_guest() {
        let file = std::env::temp_dir().join(format!("trapline-pushed-{}", std::process::id()));
        std::fs::write(&file, "text").expect("written");
        let shown = file.display();
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        #[rustfmt::skip]
        let cases = [
            (format!("{shown}"),                Some(name)),
            (format!("{shown}:/a/b"),           Some("a/b")),
            (format!("{shown}:c"),              Some("c")),
            (format!("{shown}:"),               None),
            (format!("{shown}:/"),              None),
            (format!("{shown}:a/../b"),         None),
            (format!("{shown}:a//b"),           None),
            (format!("{shown}:/init"),          None),
            (format!("{shown}:bin/busybox"),    None),
            (format!("{shown}.missing:a"),      None),
        ];
        for (text, expected) in cases {
            assert_eq!(pushed(&text).ok(), expected.map(|path| (path.to_string(), b"text".to_vec())), "{text}");
        }
        std::fs::remove_file(file).expect("it is there");
    }
}
