//! Stock kernels at their shell. The first test that needs one boots it; later tests restore it from a snapshot in the
//! user's cache.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use trapline::arches;
use trapline::boot::module::About;
use trapline::boot::{Kernel, initramfs, payload};
use trapline::booted::Recipe;
use trapline::machine::Config;
use trapline::probed::Session;
use trapline::snapshot::Snapshot;
use trapline_images::{Local, Stock};
use trapline_isa::plan::Policy;

/// RAM of their machines. Enough to boot, and small enough to compare quickly.
const RAM: u64 = 128 << 20;

/// A stock kernel that has booted to its shell.
pub struct AtShell {
    /// The kernel as in its file.
    pub kernel: Kernel,
    /// The configuration of its machine, which logs all events.
    pub config: Config,
    /// The state of the machine at the shell.
    pub snapshot: Snapshot,
}

/// The kernel of that name, for a test that has declared the need.
pub fn at_shell(name: &str) -> AtShell {
    let found = trapline_harness::stock(name);
    AtShell::of(found.stock, &found.local.kernel, &found.busybox)
}

/// A kernel with its text as it is at the shell. A kernel whose CPU cannot be saved is booted each time.
pub fn live(stock: &Stock, kernel: &Kernel, file: &Path, busybox: &Path) -> Kernel {
    let (image, config) = (read(file), config(stock, kernel, busybox));
    let live = Recipe { kernel, image: &image, config: &config }.live(|_| ());
    live.unwrap_or_else(|why| panic!("{}: {why}", file.display())).kernel
}

/// The files of an initial file system that loads these modules of a kernel, each behind those that it depends on. A module
/// that the kernel does not have is built into it.
pub fn modules_of(local: &Local, names: &[&str]) -> Vec<(String, Vec<u8>)> {
    let mut modules = Vec::new();
    names.iter().for_each(|name| add_module(local, name, &mut modules));
    let file = |(number, (_, bytes))| (format!("{}{number:03}.ko", initramfs::MODULES), bytes);
    modules.into_iter().enumerate().map(file).collect()
}

fn add_module(local: &Local, name: &str, modules: &mut Vec<(String, Vec<u8>)>) {
    let Some(file) = local.module(name) else { return };
    let bytes = payload::unpack_at_most(&read(&file), 1 << 28).expect("a module").into_owned();
    let about = About::of(&bytes).expect("a module");
    if modules.iter().any(|(known, _)| *known == about.name) {
        return;
    }
    about.depends.iter().for_each(|needed| add_module(local, needed, modules));
    modules.push((about.name, bytes));
}

fn read(file: &Path) -> Vec<u8> {
    fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn config(stock: &Stock, kernel: &Kernel, busybox: &Path) -> Config {
    let initrd: Arc<[u8]> = initramfs::with_busybox(&read(busybox), None, &[]).into();
    let command_line = stock.command_line.into();
    let board = arches::of(kernel.arch).machine().and_then(|machine| machine.board(kernel));
    let board = board.unwrap_or_else(|error| panic!("{}: {error}", stock.name));
    let ram = Some(RAM.max(board.least_ram));
    Config { command_line, initrd: Some(initrd), ram, record_events: true, ..Config::default() }
}

impl AtShell {
    /// The kernel in that file, with that busybox.
    pub fn of(stock: &Stock, file: &Path, busybox: &Path) -> AtShell {
        let image = read(file);
        let kernel = Kernel::from_bytes(&image).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let config = config(stock, &kernel, busybox);
        let booted = Recipe { kernel: &kernel, image: &image, config: &config }.booted(|_| ());
        let snapshot = booted.unwrap_or_else(|why| panic!("{}: {why}", file.display())).snapshot;
        AtShell { kernel, config, snapshot }
    }

    /// A session that starts at the shell.
    pub fn session(&self) -> Session {
        Session::from_snapshot(self.kernel.clone(), &self.config, Policy::Best, &self.snapshot).expect("it was made for it")
    }
}
