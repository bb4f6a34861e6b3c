//! Gets a stock kernel at its shell, for `run --from-boot` and `check --booted`, and reports progress on standard
//! error.

use super::output::{self, Paint};
use super::{Failure, image};
use crate::boot::Kernel;
use crate::booted::{BootedError, Live, News, Origin, Recipe};
use crate::machine::Config;
use crate::snapshot::Snapshot;
use indicatif::ProgressBar;
use std::io::{self, Write};

/// Returns the guest at its shell, from the cache or by a boot, whose console is shown if `shows_console`. Says where a
/// new snapshot was saved.
pub fn fetch(name: &str, kernel: &Kernel, config: &Config, shows_console: bool) -> Result<Snapshot, Failure> {
    let bytes = image::bytes(name)?;
    let mut teller = Teller { name, shown: if shows_console { Shown::Console } else { Shown::Nothing }, said: false };
    let booted = Recipe { kernel, image: &bytes, config }.booted(|news| teller.tell(&news));
    let booted = booted.map_err(|why| teller.failure(&why))?;
    teller.origin(&booted.origin, false);
    Ok(booted.snapshot)
}

/// Returns the kernel with its text at its shell, from the cache or by a boot, during which the last console line is
/// shown. Says where the snapshot comes from.
pub fn live(name: &str, kernel: &Kernel, config: &Config) -> Result<Kernel, Failure> {
    let bytes = image::bytes(name)?;
    let mut teller = Teller { name, shown: Shown::LastLine(output::spinner()), said: false };
    let live = Recipe { kernel, image: &bytes, config }.live(|news| teller.tell(&news));
    if let Shown::LastLine(line) = &teller.shown {
        line.finish_and_clear();
    }
    let Live { kernel, origin } = live.map_err(|why| teller.failure(&why))?;
    teller.origin(&origin, true);
    Ok(kernel)
}

/// The part of the console that is shown while the guest boots.
enum Shown {
    Nothing,
    Console,
    LastLine(ProgressBar),
}

/// Reports a boot's progress and result on standard error.
struct Teller<'a> {
    name: &'a str,
    shown: Shown,
    said: bool,
}

fn note(text: String) {
    eprintln!("{} {text}", Paint::for_errors().advice("note:"));
}

impl Teller<'_> {
    fn tell(&mut self, news: &News<'_>) {
        let name = self.name;
        match news {
            News::NotUsed(error) => note(format!("the cached snapshot of `{name}` is not used, the guest boots again: {error}")),
            News::Console(bytes) => {
                if !self.said {
                    self.said = true;
                    note(format!("`{name}` boots to its shell"));
                }
                match &self.shown {
                    Shown::Nothing => {}
                    // A closed standard error does not stop the boot.
                    Shown::Console => drop(io::stderr().write_all(bytes)),
                    Shown::LastLine(line) => {
                        if let Some(text) = String::from_utf8_lossy(bytes).lines().rfind(|text| !text.trim().is_empty()) {
                            line.set_message(text.trim().to_string());
                        }
                    }
                }
            }
        }
    }

    fn failure(&self, why: &BootedError) -> Failure {
        Failure::failed(format!("`{}` was not booted to its shell: {why}", self.name))
    }

    fn origin(&self, origin: &Origin, says_kept: bool) {
        match origin {
            Origin::Made(Err(why)) => note(format!("its snapshot cannot be saved, so it boots each time: {why}")),
            Origin::Made(Ok(path)) => note(format!("its snapshot is saved in {}; the next run starts there", path.display())),
            Origin::Kept(Some(path)) if says_kept => note(format!("the guest at its shell comes from {}", path.display())),
            Origin::Kept(_) => {}
        }
    }
}
