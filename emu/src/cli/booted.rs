//! A stock kernel at its shell, for `run --from-boot` and `check --booted`: what is said while it is fetched or made.

use super::output::Paint;
use super::{Failure, image};
use crate::boot::Kernel;
use crate::booted::{News, Origin, Recipe};
use crate::machine::Config;
use crate::snapshot::Snapshot;
use std::io::{self, Write};

/// The guest at its shell, from the cache, or booted now with its console shown if that is wanted. Says where it came from if asked to.
pub fn fetch(name: &str, kernel: &Kernel, config: &Config, shows_console: bool, says_origin: bool) -> Result<Snapshot, Failure> {
    let note = |text: String| eprintln!("{} {text}", Paint::for_errors().advice("note:"));
    let bytes = image::bytes(name)?;
    let recipe = Recipe { kernel, image: &bytes, config };
    let mut said = false;
    let booted = recipe.booted(|news| match news {
        News::NotUsed(error) => note(format!("the snapshot of `{name}` that was kept is not used, it is made anew: {error}")),
        News::Console(bytes) => {
            if !said {
                said = true;
                note(format!("`{name}` boots to its shell; next time it starts there"));
            }
            if shows_console {
                // A console that nobody can see is no reason to stop.
                let _ = io::stderr().write_all(bytes);
            }
        }
    });
    let booted = booted.map_err(|why| Failure::failed(format!("`{name}` was not booted to its shell: {why}")))?;
    match &booted.origin {
        Origin::Made(Err(why)) => note(format!("its snapshot is not kept: {why}")),
        Origin::Made(Ok(path)) => note(format!("its snapshot is kept in {}", path.display())),
        Origin::Kept(Some(path)) if says_origin => note(format!("the guest at its shell comes from {}", path.display())),
        Origin::Kept(_) => {}
    }
    Ok(booted.snapshot)
}
