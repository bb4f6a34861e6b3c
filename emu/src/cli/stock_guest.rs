//! What a stock kernel needs beside itself: a command line, and an initial file system made of busybox unless one is
//! given.

use super::{Failure, image, modules};
use crate::arches;
use crate::boot::whole::Whole;
use crate::boot::{Kernel, initramfs};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trapline_images::Wanted;
use trapline_isa::arch::Arch;

/// What the guest finds, on the command line.
#[derive(clap::Args, Default)]
pub struct StockArgs {
    /// The initial file system (cpio, compressed as the kernel likes) of a stock kernel, instead of one made of busybox
    #[arg(long, value_name = "FILE", conflicts_with = "script")]
    initrd: Option<PathBuf>,
    /// A shell script for a stock kernel to run, which is then switched off; its exit status is the guest's
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Starts a stock kernel at its shell: it boots there once, a snapshot is kept in the user's cache, and the next
    /// run begins with that
    #[arg(long)]
    from_boot: bool,
    /// Boots a stock kernel's file whole: its own decompressor runs in the guest, which takes three times as long as a
    /// boot without
    #[arg(long)]
    whole: bool,
    /// A kernel module for a stock kernel to load first: a file (.ko, also compressed), a directory of such, or the
    /// name of one that was pulled with the kernel; may be repeated, in the order in which they need one another. With
    /// --from-boot it is loaded when the guest is at its shell
    #[arg(long = "module", value_name = "FILE", conflicts_with = "initrd")]
    modules: Vec<PathBuf>,
}

/// The same, read.
pub struct StockGuest {
    /// The command line that such a kernel boots with.
    pub command_line: &'static str,
    /// Its initial file system.
    pub initrd: Arc<[u8]>,
    /// The file that unpacks itself, if it is to.
    pub whole: Option<Arc<Whole>>,
    /// The run begins at the shell, where this is typed.
    pub from_boot: Option<Typed>,
}

/// What is typed at the shell of a guest that has booted already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// A line that comes first; empty: there is none.
    pub load: &'static str,
    /// A script, which takes the shell's place.
    pub script: Option<Vec<u8>>,
}

impl StockArgs {
    /// Whether the guest has a script to run, after which it is switched off.
    pub fn has_script(&self) -> bool {
        self.script.is_some()
    }

    /// `None` for a kernel that is no stock one, which takes none of this.
    pub fn guest(&self, name: &str, kernel: &Kernel) -> Result<Option<StockGuest>, Failure> {
        if !kernel.is_stock() {
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
        arches::of(kernel.arch)
            .machine()
            .and_then(|machine| machine.board(kernel))
            .map_err(|error| Failure::usage(format!("`{name}` cannot be run: {error}")))?;
        let wanted = Wanted::parse(name);
        let architecture = arches::of(kernel.arch).debian;
        let script = self.script.as_deref().map(read).transpose()?;
        let packed = script.as_deref().filter(|_| !self.from_boot);
        let initrd = match &self.initrd {
            Some(file) => read(file)?,
            None => {
                let local = wanted.as_ref().map(image::local).transpose()?;
                let modules = modules::read(&self.modules, kernel.arch, local.as_ref())?;
                // A snapshot knows nothing of modules: they are in it as files, and are loaded when the guest goes on.
                let folder = if self.from_boot { initramfs::MODULES_FOR_LATER } else { initramfs::MODULES };
                let files: Vec<_> = modules.into_iter().map(|(name, bytes)| (format!("{folder}{name}"), bytes)).collect();
                initramfs::with_busybox(&busybox(wanted.as_ref(), architecture)?, packed, &files)
            }
        };
        let load = if self.modules.is_empty() { "" } else { initramfs::LOAD_LATER };
        let from_boot = self.from_boot.then_some(Typed { load, script });
        let whole = if self.whole { Some(Arc::new(whole(name, kernel.arch)?)) } else { None };
        let command_line = trapline_images::command_line(architecture);
        Ok(Some(StockGuest { command_line, initrd: initrd.into(), whole, from_boot }))
    }
}

/// What unpacks itself in the file of that name.
fn whole(name: &str, arch: Arch) -> Result<Whole, Failure> {
    let found = arches::of(arch).whole(&image::bytes(name)?);
    let found =
        found.map_err(|error| Failure::usage(format!("`{name}` cannot be booted whole: {error}")).advise(error.advice()))?;
    found.ok_or_else(|| {
        Failure::usage(format!("`{name}` cannot be booted whole: there is no decompressor in its file"))
            .advise("leave `--whole` away: the kernel is unpacked here, and is the same")
    })
}

/// Beside the kernel when it was named, otherwise in the first folder that has one; never another architecture's.
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
    fs::read(file).map_err(|error| Failure::usage(format!("`{}` cannot be read: {error}", file.display())))
}
