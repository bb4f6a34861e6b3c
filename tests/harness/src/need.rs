//! The needs of tests, and lookup of the stock kernels that meet them.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use trapline_images::{Local, Stock, Wanted, folders, locate};

/// Something that a test needs and that may be missing on a computer.
#[derive(Clone, Debug)]
pub struct Need {
    /// The kernel's release or the tool's name, for the tally.
    pub what: String,
    /// `None` if the need is met. Otherwise the missing thing, and the command that installs it.
    pub missing: Option<String>,
}

/// A stock kernel for a test.
#[derive(Clone, Debug)]
pub struct ForTest {
    /// The kernel's entry in the catalogue.
    pub stock: &'static Stock,
    /// The kernel's files.
    pub local: Local,
    /// The busybox for its initramfs.
    pub busybox: PathBuf,
}

/// The need of this stock kernel and a busybox.
pub fn kernel(name: &str) -> Need {
    complete(name, "", |_| true)
}

/// The need of this stock kernel with files that satisfy `is_complete`. `trapline images pull OPTION NAME` installs
/// them. `option` ends with a space unless it is empty.
pub fn complete(name: &str, option: &str, is_complete: impl Fn(&Local) -> bool) -> Need {
    let Some(wanted) = Wanted::parse(name) else {
        return Need { what: name.into(), missing: Some(format!("{name} is no stock kernel")) };
    };
    match find(&wanted, is_complete) {
        Some(found) => Need { what: wanted.stock.release(&found.local.version), missing: None },
        None => {
            let how = match wanted.stock.is_packed() {
                true => format!("trapline images pull {option}{name}"),
                false => wanted.stock.built_by(),
            };
            Need { what: name.into(), missing: Some(format!("{name}: {how}")) }
        }
    }
}

/// The need of a program in a folder of `PATH`. `package` is its Debian package. The program is not run: each test is a
/// process of its own, and asks for the needs of all tests of its file.
pub fn tool(name: &str, package: &str) -> Need {
    let folders = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&folders).any(|folder| folder.join(name).is_file());
    let missing = (!is_there).then(|| format!("{name}: apt-get install {package}"));
    Need { what: name.into(), missing }
}

/// A Python that can import the module: that of `scripts/setup.sh readers`, or the computer's own. Each module is imported
/// once in a process.
pub fn python(module: &str) -> Option<PathBuf> {
    static KNOWN: Mutex<BTreeMap<String, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(module.into()).or_insert_with(|| python_with(module)).clone()
}

fn python_with(module: &str) -> Option<PathBuf> {
    let ours = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/readers/bin/python3"));
    [ours, "python3".into()].into_iter().find(|program| {
        let mut command = Command::new(program);
        command.args(["-c", &format!("import {module}")]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// The need of a Python module.
pub fn python_module(module: &str) -> Need {
    let missing = python(module).is_none().then(|| format!("Python's module {module}: scripts/setup.sh readers"));
    Need { what: module.into(), missing }
}

/// The stock kernel of this name, for a test that has declared the need.
///
/// # Panics
///
/// If the kernel is not on this computer, because the test's `main` does not declare the need.
pub fn stock(name: &str) -> ForTest {
    stock_with(name, |_| true)
}

/// The stock kernel of this name with files that satisfy `is_complete`, for a test that has declared the need.
///
/// # Panics
///
/// If the kernel is not on this computer, because the test's `main` does not declare the need.
pub fn stock_with(name: &str, is_complete: impl Fn(&Local) -> bool) -> ForTest {
    let wanted = Wanted::parse(name).unwrap_or_else(|| panic!("{name} is no stock kernel"));
    find(&wanted, is_complete)
        .unwrap_or_else(|| panic!("{name} is not on this computer, and the test does not say that it needs it"))
}

fn find(wanted: &Wanted, is_complete: impl Fn(&Local) -> bool) -> Option<ForTest> {
    let each = folders().into_iter().filter_map(|folder| locate(wanted, &[folder]));
    let (local, busybox) =
        each.filter(|local| is_complete(local)).find_map(|local| local.busybox.clone().map(|busybox| (local, busybox)))?;
    Some(ForTest { stock: wanted.stock, local, busybox })
}
