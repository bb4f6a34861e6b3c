//! `--record`: writes down what comes into a run from outside, so that `trapline replay` can repeat it.

use super::guest::{Guest, GuestArgs};
use super::{Failure, file};
use crate::history::recording::{Head, Recorder};
use crate::history::tape::Tape;
use crate::machine::{Listener, Machine};
use crate::snapshot::Snapshot;
use serde_json::Value;
use std::path::PathBuf;

/// The argument `--record`.
#[derive(clap::Args)]
pub struct RecordArg {
    /// Records the run in this file: `trapline replay FILE` repeats it, with other probes. The file can be used up to
    /// the last moment, whatever ends this process
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// A recording to make.
#[derive(Debug)]
pub struct NewRecording {
    path: PathBuf,
    image: String,
    guest: Value,
}

impl NewRecording {
    /// The file.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }
}

impl RecordArg {
    /// The recording of a guest, if the user asked for one.
    pub fn of(&self, image: &str, guest: &GuestArgs) -> Result<Option<NewRecording>, Failure> {
        let Some(path) = self.record.clone() else { return Ok(None) };
        let mut image = PathBuf::from(image);
        if image.is_file() {
            file::make_absolute(&mut image);
        }
        let guest = serde_json::to_value(guest.for_recording());
        let guest = guest.map_err(|error| Failure::usage(format!("--record: the arguments cannot be written: {error}")))?;
        Ok(Some(NewRecording { path, image: image.to_string_lossy().into_owned(), guest }))
    }
}

/// The way to the console of a machine that has not run yet. Creates the file of the recording.
pub fn tape<L: Listener>(
    record: Option<&NewRecording>,
    guest: &Guest,
    booted: Option<&Snapshot>,
    machine: &Machine<L>,
) -> Result<Tape, Failure> {
    let Some(NewRecording { path, image, guest: args }) = record else { return Ok(Tape::live(machine)) };
    let head = Head {
        key: guest.key()?,
        start: booted.map(Snapshot::hash),
        begins: machine.time(),
        image: image.clone(),
        guest: args.clone(),
    };
    let recorder = Recorder::create(path, &head);
    let recorder =
        recorder.map_err(|error| Failure::usage(format!("--record: `{}` cannot be written: {error}", path.display())))?;
    Ok(Tape::recorded(machine, recorder))
}
