//! A stock kernel at its shell prompt: it is booted once and kept as a snapshot, which later runs restore.

use crate::boot::Kernel;
use crate::devices::virtio::{AttachError, Attached};
use crate::error::MachineError;
use crate::machine::{Config, Machine, Stop};
use crate::snapshot::cache::{self, NotKept};
use crate::snapshot::file::Key;
use crate::snapshot::{Snapshot, SnapshotError};
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// The prompt of the shell in our initial file system.
pub const PROMPT: &str = "# ";
/// The point of its run at which a booted guest is saved.
pub const MOMENT: &str = "the shell's first prompt";
/// The limit in nanoseconds of guest time. It is far longer than any boot takes.
const LONGEST_BOOT: u64 = 120_000_000_000;
/// Nanoseconds of guest time after which new console output is passed on.
const SLICE: u64 = 20_000_000;
/// Bytes of console output in the error message when the guest did not reach its shell.
const LAST_WORDS: usize = 600;

/// A booted guest.
pub struct Booted {
    /// The machine's state at the shell's first prompt.
    pub snapshot: Snapshot,
    /// The snapshot cache or a fresh boot.
    pub origin: Origin,
}

/// The kernel as it is after its boot.
pub struct Live {
    /// The kernel with its text and data at the shell's first prompt.
    pub kernel: Kernel,
    /// The snapshot cache or a fresh boot.
    pub origin: Origin,
}

/// The source of a booted guest's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The snapshot cache, with the file's path if it is known.
    Kept(Option<PathBuf>),
    /// A fresh boot, with the path of the snapshot that was saved, or the reason why none was.
    Made(Result<PathBuf, NotKept>),
}

/// The reason why a guest is not at its shell.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BootedError {
    /// The machine cannot be made.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The guest did not print the shell's prompt.
    #[error("the guest did not reach a shell with the prompt `{PROMPT}` ({stop:?}); the console ended with: {console}")]
    NoShell {
        /// The reason why the run ended.
        stop: Stop,
        /// The end of the console output.
        console: String,
    },
    /// The guest at its shell cannot be saved as a snapshot.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A disk cannot be read.
    #[error(transparent)]
    Attached(#[from] AttachError),
    /// A part of the kernel is not in the machine's memory.
    #[error("the text at {0:#x} is not in the machine's memory")]
    NotInMemory(u64),
}

/// A guest to boot.
pub struct Recipe<'a> {
    /// The kernel to boot.
    pub kernel: &'a Kernel,
    /// The bytes of the kernel's file.
    pub image: &'a [u8],
    /// The machine's configuration.
    pub config: &'a Config,
}

/// A report from a boot in progress.
pub enum News<'a> {
    /// The cached snapshot cannot be used.
    NotUsed(&'a SnapshotError),
    /// Console output of the guest.
    Console(&'a [u8]),
}

impl Recipe<'_> {
    /// Identifies the guest at its shell.
    fn key(&self) -> Result<Key, BootedError> {
        self.key_at(MOMENT)
    }

    /// Identifies the guest at this moment of its run. Fails if a disk cannot be read.
    pub fn key_at(&self, moment: &str) -> Result<Key, BootedError> {
        Ok(Key {
            trapline: cache::TRAPLINE.into(),
            image: Key::hash(self.image),
            initrd: self.config.initrd.as_deref().map(Key::hash).unwrap_or_default(),
            command_line: self.config.command_line.clone(),
            cpu: self.config.cpu.clone().unwrap_or_default(),
            cpus: self.config.cpus,
            ram: self.config.ram,
            window: self.config.window,
            attached: self.config.attached.iter().map(Attached::identity).collect::<Result<_, _>>()?,
            // A kernel that unpacks itself in the guest reaches the prompt later.
            moment: match self.config.whole {
                None => moment.into(),
                Some(_) => format!("{moment}, unpacked in the guest"),
            },
        })
    }

    /// Returns the guest at its shell, from the cache or by a boot. Fails if the guest does not reach its
    /// shell or cannot be saved as a snapshot.
    pub fn booted(&self, mut tell: impl FnMut(News<'_>)) -> Result<Booted, BootedError> {
        let key = self.key()?;
        if let Some(snapshot) = kept(&key, &mut tell) {
            return Ok(Booted { snapshot, origin: Origin::Kept(cache::path(&key)) });
        }
        let snapshot = snapshot_of(&mut self.boot(&mut tell)?)?;
        let kept = cache::keep(&key, &snapshot);
        Ok(Booted { snapshot, origin: Origin::Made(kept) })
    }

    /// Returns the kernel's text and data at its shell, from the cache or by a boot. Unlike [`Recipe::booted`], it also
    /// works for a machine that cannot be saved as a snapshot; such a machine is booted each time.
    pub fn live(&self, mut tell: impl FnMut(News<'_>)) -> Result<Live, BootedError> {
        let key = self.key()?;
        if let Some(snapshot) = kept(&key, &mut tell) {
            return Ok(Live { kernel: snapshot.live(self.kernel), origin: Origin::Kept(cache::path(&key)) });
        }
        let mut machine = self.boot(&mut tell)?;
        let snapshot = snapshot_of(&mut machine);
        let mut kernel = self.kernel.clone();
        for segment in Arc::make_mut(&mut kernel.segments) {
            let mut bytes = vec![0; segment.bytes.len()];
            if !machine.ram().read(segment.physical, &mut bytes) {
                return Err(BootedError::NotInMemory(segment.virtual_address));
            }
            segment.bytes = bytes.into();
        }
        let kept = snapshot.map_err(NotKept::Snapshot).and_then(|snapshot| cache::keep(&key, &snapshot));
        Ok(Live { kernel, origin: Origin::Made(kept) })
    }

    fn boot(&self, tell: &mut impl FnMut(News<'_>)) -> Result<Machine<()>, BootedError> {
        let mut machine = Machine::new(self.kernel, self.config, |_| ())?;
        machine.stop_at_console_text(Some(PROMPT));
        let mut said = Vec::new();
        let stop = loop {
            let until = machine.now().saturating_add(SLICE).min(LONGEST_BOOT);
            let stop = machine.run_until(until);
            let last = machine.console().iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let lines = machine.take_console_bytes(last);
            tell(News::Console(&lines));
            said.extend_from_slice(&lines);
            said.drain(..said.len().saturating_sub(LAST_WORDS));
            if stop != Stop::Limit || until == LONGEST_BOOT {
                break stop;
            }
        };
        if stop != Stop::ConsoleText {
            said.extend(machine.take_console());
            return Err(BootedError::NoShell { stop, console: String::from_utf8_lossy(&said).into_owned() });
        }
        Ok(machine)
    }
}

fn kept(key: &Key, tell: &mut impl FnMut(News<'_>)) -> Option<Snapshot> {
    const MOST_MEMORY: u64 = 8 << 30;
    match cache::find(key, MOST_MEMORY) {
        Ok(kept) => kept,
        Err(error) => {
            tell(News::NotUsed(&error));
            None
        }
    }
}

/// The snapshot of a guest at its shell.
fn snapshot_of(machine: &mut Machine<()>) -> Result<Snapshot, SnapshotError> {
    let mut snapshot = machine.snapshot()?;
    // Linux frees its init memory before it starts the first program.
    snapshot.state.init_freed = true;
    Ok(snapshot)
}

impl Snapshot {
    /// Returns the kernel with its text and data as they are in this snapshot.
    pub fn live(&self, kernel: &Kernel) -> Kernel {
        let mut live = kernel.clone();
        for segment in Arc::make_mut(&mut live.segments) {
            let mut bytes = vec![0; segment.bytes.len()];
            self.memory.read(segment.physical, &mut bytes);
            segment.bytes = bytes.into();
        }
        live
    }
}
