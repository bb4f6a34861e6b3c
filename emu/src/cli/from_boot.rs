//! A stock kernel at its shell, for `run --from-boot` and `check --booted`: what is said while it is fetched or made.

use super::output::{self, Paint};
use super::{Failure, image};
use crate::boot::Kernel;
use crate::booted::{Live, News, Origin, Recipe};
use crate::machine::Config;
use crate::snapshot::Snapshot;
use indicatif::ProgressBar;
use std::io::{self, Write};

/// The guest at its shell, from the cache, or booted now with its console shown if that is wanted. Says where it came
/// from if asked to.
pub fn fetch(name: &str, kernel: &Kernel, config: &Config, shows_console: bool) -> Result<Snapshot, Failure> {
    let bytes = image::bytes(name)?;
    let mut teller = Teller { name, shown: if shows_console { Shown::Console } else { Shown::Nothing }, said: false };
    let booted = Recipe { kernel, image: &bytes, config }.booted(|news| teller.tell(&news));
    let booted = booted.map_err(|why| teller.failure(&why))?;
    teller.origin(&booted.origin, false);
    Ok(booted.snapshot)
}

/// The kernel as it is at its shell, from the cache, or booted now, with the last line of its console shown meanwhile.
/// Says where it came from.
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

/// What is shown of the console while the guest boots.
enum Shown {
    Nothing,
    Console,
    LastLine(ProgressBar),
}

/// Tells a person what comes of it.
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
            News::NotUsed(error) => note(format!("the snapshot of `{name}` that was kept is not used, it is made anew: {error}")),
            News::Console(bytes) => {
                if !self.said {
                    self.said = true;
                    note(format!("`{name}` boots to its shell"));
                }
                match &self.shown {
                    Shown::Nothing => {}
                    // A console that nobody can see is no reason to stop.
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

    fn failure(&self, why: &str) -> Failure {
        Failure::failed(format!("`{}` was not booted to its shell: {why}", self.name))
    }

    fn origin(&self, origin: &Origin, says_kept: bool) {
        match origin {
            Origin::Made(Err(why)) => note(format!("its snapshot is not kept, it boots each time: {why}")),
            Origin::Made(Ok(path)) => note(format!("its snapshot is kept in {}; next time it starts there", path.display())),
            Origin::Kept(Some(path)) if says_kept => note(format!("the guest at its shell comes from {}", path.display())),
            Origin::Kept(_) => {}
        }
    }
}
