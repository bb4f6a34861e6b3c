//! A stock kernel at its shell: booted once, kept as a snapshot, and from then on there at once.

use crate::boot::Kernel;
use crate::machine::{Config, Machine, Stop};
use crate::snapshot::file::Key;
use crate::snapshot::{Snapshot, SnapshotError, cache};
use std::path::PathBuf;

/// What the shell of our initial file system prints when it waits for a line.
pub const PROMPT: &str = "# ";
const MOMENT: &str = "the shell's first prompt";
/// In guest time, nanoseconds: far more than any boot takes.
const LONGEST_BOOT: u64 = 120_000_000_000;
/// After so much guest time what was printed is passed on.
const SLICE: u64 = 20_000_000;
/// How much of the console is shown when the guest did not get there.
const LAST_WORDS: usize = 600;

/// A booted guest.
pub struct Booted {
    /// Its state at the shell's first prompt.
    pub snapshot: Snapshot,
    /// Where it came from.
    pub origin: Origin,
}

/// A booted guest's text.
pub struct Live {
    /// The kernel with the text and data that it has at the shell's first prompt.
    pub kernel: Kernel,
    /// Where it came from.
    pub origin: Origin,
}

/// Where a booted guest's state comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was kept by an earlier run.
    Kept(Option<PathBuf>),
    /// It was booted just now, and kept, or not kept because of this.
    Made(Result<PathBuf, String>),
}

/// What to boot.
pub struct Recipe<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The bytes of its file.
    pub image: &'a [u8],
    /// The machine.
    pub config: &'a Config,
}

/// What a boot has to tell while it is on.
pub enum News<'a> {
    /// The snapshot that was kept is not used.
    NotUsed(&'a SnapshotError),
    /// The guest has printed this.
    Console(&'a [u8]),
}

impl Recipe<'_> {
    fn key(&self) -> Key {
        Key {
            trapline: cache::TRAPLINE.into(),
            image: Key::hash(self.image),
            initrd: self.config.initrd.as_deref().map(Key::hash).unwrap_or_default(),
            command_line: self.config.command_line.clone(),
            cpu: self.config.cpu.clone().unwrap_or_default(),
            cpus: self.config.cpus,
            ram: self.config.ram,
            window: self.config.window,
            // A kernel that has unpacked itself comes there later.
            moment: match self.config.whole {
                None => MOMENT.into(),
                Some(_) => format!("{MOMENT}, unpacked in the guest"),
            },
        }
    }

    /// The guest at its shell: as it was kept, or booted now.
    pub fn booted(&self, mut tell: impl FnMut(News<'_>)) -> Result<Booted, String> {
        let key = self.key();
        if let Some(snapshot) = kept(&key, &mut tell) {
            return Ok(Booted { snapshot, origin: Origin::Kept(cache::path(&key)) });
        }
        let snapshot = snapshot_of(&mut self.boot(&mut tell)?)?;
        let kept = cache::keep(&key, &snapshot);
        Ok(Booted { snapshot, origin: Origin::Made(kept) })
    }

    /// The guest's text at its shell. A machine that cannot be saved tells it too, and boots anew each time.
    pub fn live(&self, mut tell: impl FnMut(News<'_>)) -> Result<Live, String> {
        let key = self.key();
        if let Some(snapshot) = kept(&key, &mut tell) {
            return Ok(Live { kernel: snapshot.live(self.kernel), origin: Origin::Kept(cache::path(&key)) });
        }
        let mut machine = self.boot(&mut tell)?;
        let snapshot = snapshot_of(&mut machine);
        let mut kernel = self.kernel.clone();
        for segment in &mut kernel.segments {
            if !machine.ram().read(segment.physical, &mut segment.bytes) {
                return Err(format!("the text at {:#x} is in no memory of the machine", segment.virtual_address));
            }
        }
        Ok(Live { kernel, origin: Origin::Made(snapshot.and_then(|snapshot| cache::keep(&key, &snapshot))) })
    }

    fn boot(&self, tell: &mut impl FnMut(News<'_>)) -> Result<Machine<()>, String> {
        let mut machine = Machine::new(self.kernel, self.config, |_| ()).map_err(|error| error.to_string())?;
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
            return Err(format!(
                "the guest did not come to a shell that says `{PROMPT}`: {stop:?}; its last words: {}",
                String::from_utf8_lossy(&said)
            ));
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

/// Of a guest at its shell.
fn snapshot_of(machine: &mut Machine<()>) -> Result<Snapshot, String> {
    let mut snapshot = machine.snapshot().map_err(|error| error.to_string())?;
    // Linux gives them up before it starts the first program.
    snapshot.state.init_freed = true;
    Ok(snapshot)
}

impl Snapshot {
    /// The kernel with the text and data that it has in this snapshot.
    pub fn live(&self, kernel: &Kernel) -> Kernel {
        let mut live = kernel.clone();
        for segment in &mut live.segments {
            self.memory.read(segment.physical, &mut segment.bytes);
        }
        live
    }
}
