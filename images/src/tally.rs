//! What tests on stock kernels did, and could not do: for the last line of `make test`. A test that finds no kernel
//! passes all the same, for not every computer has them; here it leaves a line, so that nobody takes it for one that
//! ran.
//!
//! The file is that of `TRAPLINE_TALLY`; without it only the test's own output tells.

use super::stock::{Local, Stock, Wanted, folders, locate};
use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::thread;

/// The file's name is there.
const FILE: &str = "TRAPLINE_TALLY";

/// This test runs on that kernel.
pub fn runs_on(kernel: &str) {
    note("ran", kernel);
}

/// This test cannot run, or not all of it, for want of that.
pub fn lacks(what: &str) {
    println!("{what}; nothing was tested");
    note("lacks", what);
}

/// A line is written in one go, so that tests that run at the same time do not meet in it.
fn note(kind: &str, what: &str) {
    let Some(file) = env::var_os(FILE).filter(|file| !file.is_empty()) else { return };
    let test = thread::current().name().unwrap_or("main").to_string();
    let file = OpenOptions::new().create(true).append(true).open(&file);
    let written = file.and_then(|mut file| file.write_all(format!("{kind}\t{what}\t{test}\n").as_bytes()));
    if let Err(error) = written {
        panic!("{FILE}: {error}");
    }
}

/// A stock kernel for a test.
#[derive(Clone, Debug)]
pub struct ForTest {
    /// As the catalogue has it.
    pub stock: &'static Stock,
    /// Its file, and where that lies.
    pub local: Local,
    /// The program for its initial file system.
    pub busybox: PathBuf,
}

/// The stock kernel of that name, with a busybox, for this test, which is counted as one that ran on it; or as one that
/// lacks it.
pub fn stock(name: &str) -> Option<ForTest> {
    stock_with(name, "", |_| true)
}

/// The same; the kernel must have something more, which `pull` brings when it is asked as `option` says.
pub fn stock_with(name: &str, option: &str, is_complete: impl Fn(&Local) -> bool) -> Option<ForTest> {
    let wanted = Wanted::parse(name)?;
    let each = folders().into_iter().filter_map(|folder| locate(&wanted, &[folder]));
    let whole = each.filter(|local| is_complete(local)).find_map(|local| local.busybox.clone().map(|busybox| (local, busybox)));
    let Some((local, busybox)) = whole else {
        let how = match wanted.stock.is_packed() {
            true => format!("`trapline images pull {option}{name}` brings it"),
            false => format!("{} builds it", wanted.stock.built_by()),
        };
        lacks(&format!("{name} is not on this computer: {how}"));
        return None;
    };
    runs_on(&wanted.stock.release(&local.version));
    Some(ForTest { stock: wanted.stock, local, busybox })
}
