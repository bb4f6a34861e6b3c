//! A guest's run in which one can go to any place, forwards and backwards ([`Timeline`]).
//!
//! The run is repeated from *checkpoints*: registers, devices and the pages that were written since the checkpoint before. A
//! checkpoint flushes the TLB, which can be seen in the marks of page tables. So checkpoints lie on a grid of virtual time,
//! and every pass over a place of the grid does the same there, whether the checkpoint is known already or not. In a recorded
//! run the grid is that of its marks, which are compared on every pass.

mod known;
mod moving;
mod near;
mod origins;
mod searching;

use super::mark::Printed;
use super::observer::Observer;
use super::pages::Pages;
use super::recording::{Frame, Recording};
use super::tape::TapeError;
use crate::clock::{GuestTime, Ticks, nanoseconds};
use crate::cpu::View;
use crate::machine::{Checkpoint, Machine, Place, StopsAt};
use crate::snapshot::SnapshotError;
use known::Sets;
use near::Near;
use std::collections::BTreeSet;
use thiserror::Error;
use trapline_probes::watch::Area;

pub use super::observer::{Seen, Touched};
pub use moving::Reached;
pub use origins::{Origin, Source};
pub use searching::{Ended, Found};

/// The least and the most virtual time between two checkpoints of a run that is not recorded.
const INTERVALS: (Ticks, Ticks) = (200_000, 40_000_000);
/// The default for [`Timeline::keep_pages`]: 512 MiB.
const MOST_PAGES: usize = 131_072;

/// The reason why a timeline cannot go somewhere.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The guest's state cannot be saved at the start.
    #[error("the guest's state cannot be saved: {0}")]
    Unsaved(#[from] SnapshotError),
    /// The replayed run is another one than the recorded run.
    #[error(transparent)]
    Differs(#[from] TapeError),
    /// The run never comes to that place.
    #[error("the run does not come to {0:?}")]
    NoSuchPlace(Place),
    /// The guest cannot go on.
    #[error("the run cannot be repeated up to that place: {0}")]
    Dead(String),
}

/// A guest's run, with a present place.
///
/// ```
/// use trapline::history::observer::Observer;
/// use trapline::history::timeline::{Ended, Timeline};
/// use trapline::machine::Machine;
/// use trapline::probes::watch::Area;
/// use trapline::{Config, Kernel, images};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let kernel = Kernel::from_bytes(images::find("tiny/x86_64").ok_or("not built in")?.bytes)?;
///     let machine = Machine::new(&kernel, &Config::default(), |_| Observer::default())?;
///     let mut timeline = Timeline::new(machine, None)?;
///
///     // On to the end of the guest's run, and back to the last call of a function.
///     let vfs_read = kernel.symbols.find("vfs_read").ok_or("no such function")?.start;
///     assert!(matches!(timeline.forward(|| true)?, Ended::End(_)));
///     timeline.set_breaks([vfs_read].into());
///     assert!(matches!(timeline.backward(|| true)?, Ended::Found(_)));
///     let call = timeline.place();
///     assert_eq!(call.pc, vfs_read);
///
///     // One instruction back, and the same one again.
///     timeline.step_back()?;
///     timeline.step()?;
///     assert_eq!(timeline.place(), call);
///
///     // Who had written this variable last?
///     let tasks = kernel.symbols.find("tasks").ok_or("no such variable")?.start;
///     let write = timeline.last_write(Area { start: tasks, len: 8, ..Area::default() }, call)?.ok_or("nobody")?;
///     println!("{:#x} became {:#x} at {:#x}", write.access.old, write.access.value, write.place.pc);
///     assert!(call.is_behind(&write.place));
///     Ok(())
/// }
/// ```
///
/// The guest is changed by [`Timeline::keys`] and through [`Timeline::change`] only. A change begins another future.
pub struct Timeline {
    machine: Machine<Observer>,
    pages: Pages,
    /// The saved checkpoints, in the order of the run. The first one is the start.
    saved: Vec<Saved>,
    /// The number of the saved checkpoint that the run has passed last, in `saved`.
    passed: usize,
    /// The pages that were written since then.
    written: BTreeSet<u32>,
    /// The place of the grid that was passed last.
    grid: Ticks,
    begins: Ticks,
    /// The input from outside and the marks of a recorded run. Live input is added here.
    frames: Vec<Frame>,
    next_frame: usize,
    is_recorded: bool,
    /// The end of the recorded run.
    end: Ticks,
    printed: Printed,
    /// Bytes that the guest has printed up to the present place, and up to the furthest place.
    printed_bytes: (u64, u64),
    console: Vec<u8>,
    stops: StopsAt,
    areas: Vec<Area>,
    /// The sets of breakpoints and watched memory that were looked for already (`known.rs`).
    sets: Sets,
    most_pages: usize,
    next_number: u32,
    near: Option<Near>,
    /// Whether steps back make a checkpoint of their own near their place.
    wants_near: bool,
    /// Whether the TLB was flushed at a place that is not on the grid, since the last place of the grid.
    is_off_grid: bool,
}

/// A checkpoint.
struct Saved {
    number: u32,
    place: Place,
    grid: Ticks,
    checkpoint: Checkpoint,
    /// The pages that were written between the checkpoint before and this one, in order.
    written: Vec<u32>,
    next_frame: usize,
    printed: Printed,
    printed_bytes: u64,
    /// The numbers of the sets that do not occur between this checkpoint and the next one.
    searched: Vec<u32>,
}

impl Timeline {
    /// A timeline that begins at the present state of the machine, which was made with [`Observer::default`]. Without a
    /// recording the guest gets no input except [`Timeline::keys`].
    pub fn new(mut machine: Machine<Observer>, recording: Option<Recording>) -> Result<Timeline, TimelineError> {
        let start = machine.snapshot()?;
        let pages = Pages::new(start.memory, machine.ram().base());
        machine.note_pages(true);
        let checkpoint = machine.checkpoint()?;
        let begins = machine.time();
        let is_recorded = recording.is_some();
        let end = recording.as_ref().map_or(Ticks::MAX, Recording::end);
        let frames = recording.map(|recording| recording.frames).unwrap_or_default();
        let first = Saved {
            number: 0,
            place: machine.place(),
            grid: begins,
            checkpoint,
            written: Vec::new(),
            next_frame: 0,
            printed: Printed::default(),
            printed_bytes: 0,
            searched: Vec::new(),
        };
        Ok(Timeline {
            machine,
            pages,
            saved: vec![first],
            passed: 0,
            written: BTreeSet::new(),
            grid: begins,
            begins,
            frames,
            next_frame: 0,
            is_recorded,
            end,
            printed: Printed::default(),
            printed_bytes: (0, 0),
            console: Vec::new(),
            stops: StopsAt::default(),
            areas: Vec::new(),
            sets: Sets::default(),
            most_pages: MOST_PAGES,
            next_number: 1,
            near: None,
            wants_near: false,
            is_off_grid: false,
        })
    }

    /// A timeline that begins at the present state of the machine, and gets the input that a tape has kept. If there are marks
    /// among it, checkpoints lie at these, and the marks are compared.
    pub fn with_input(machine: Machine<Observer>, frames: Vec<Frame>) -> Result<Timeline, TimelineError> {
        let mut timeline = Timeline::new(machine, None)?;
        timeline.is_recorded = frames.iter().any(|frame| matches!(frame, Frame::Mark { .. }));
        timeline.frames = frames;
        Ok(timeline)
    }

    /// The machine at the present place.
    pub fn machine(&self) -> &Machine<Observer> {
        &self.machine
    }

    /// The machine at the present place, to look at it. Use [`Timeline::change`] to change anything.
    pub fn look(&mut self) -> &mut Machine<Observer> {
        &mut self.machine
    }

    /// Gives access to a CPU at the present place as in a handler.
    pub fn look_at<R>(&mut self, cpu: usize, with: impl FnOnce(&mut View) -> R) -> R {
        self.machine.look_at(cpu, with)
    }

    /// The present place.
    pub fn place(&self) -> Place {
        self.machine.place()
    }

    /// The place where the timeline begins.
    pub fn start(&self) -> Place {
        self.saved[0].place
    }

    /// The guest time of the running CPU.
    pub fn now(&self) -> GuestTime {
        nanoseconds(self.machine.time()).into()
    }

    /// The end of a recorded run.
    pub fn end(&self) -> Option<GuestTime> {
        self.is_recorded.then(|| nanoseconds(self.end).into())
    }

    /// The places and guest times of the checkpoints.
    pub fn checkpoints(&self) -> impl Iterator<Item = Place> + '_ {
        self.saved.iter().map(|saved| saved.place)
    }

    /// Takes the console output that was not taken yet. Output that was taken once is not given again when the run is
    /// repeated.
    pub fn take_console(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.console)
    }

    /// Sets the number of page versions, of 4096 bytes each, that the checkpoints may keep. Above it the timeline forgets every
    /// second checkpoint, except for the last ones.
    pub fn keep_pages(&mut self, most: usize) {
        self.most_pages = most;
    }

    /// The number of versions of pages that are kept.
    pub fn kept_pages(&self) -> usize {
        self.pages.stored()
    }

    /// Types bytes on the guest's console at the next place where it takes events. The old future is forgotten.
    pub fn keys(&mut self, keys: &[u8]) {
        self.forget_future();
        // All CPUs are in front of it, so the run comes to the same place for it again.
        let at = self.machine.clocks().into_iter().flatten().max().unwrap_or(self.machine.time()) + 1;
        self.frames.push(Frame::Typed { at, keys: keys.to_vec() });
    }

    /// Lends the machine to a function that changes registers or memory. The timeline then starts again at this place,
    /// without its past and its known future. Fails, and changes nothing, if the state cannot be saved.
    pub fn change<R>(&mut self, with: impl FnOnce(&mut Machine<Observer>) -> R) -> Result<R, TimelineError> {
        self.machine.checkpoint()?;
        self.forget_future();
        let answer = with(&mut self.machine);
        let checkpoint = self.machine.checkpoint()?;
        self.save(checkpoint);
        self.saved.drain(..self.passed);
        self.passed = 0;
        Ok(answer)
    }

    /// Forgets everything behind the present place.
    fn forget_future(&mut self) {
        self.near = None;
        self.saved.truncate(self.passed + 1);
        if let Some(last) = self.saved.last_mut() {
            last.searched.clear();
            self.pages.cut_behind(last.number);
        }
        self.frames.truncate(self.next_frame);
        self.end = Ticks::MAX;
        self.is_recorded = false;
        self.printed_bytes.1 = self.printed_bytes.0;
    }

    /// Appends the present state as a checkpoint.
    fn save(&mut self, checkpoint: Checkpoint) {
        let number = self.next_number;
        self.next_number += 1;
        self.take_written();
        let written: Vec<u32> = core::mem::take(&mut self.written).into_iter().collect();
        let ram = self.machine.ram();
        for page in &written {
            let mut bytes = Box::new([0; super::pages::PAGE]);
            ram.read(ram.base() + u64::from(*page) * super::pages::PAGE as u64, &mut bytes[..]);
            self.pages.add(*page, number, bytes);
        }
        self.saved.push(Saved {
            number,
            place: self.machine.place(),
            grid: self.grid,
            checkpoint,
            written,
            next_frame: self.next_frame,
            printed: self.printed.clone(),
            printed_bytes: self.printed_bytes.0,
            searched: Vec::new(),
        });
        self.passed = self.saved.len() - 1;
        self.thin();
    }

    /// Takes the pages that were written.
    fn take_written(&mut self) {
        self.written.extend(self.machine.take_noted_pages());
    }

    /// Forgets every second checkpoint, except the first and the last ones, if there are too many pages.
    fn thin(&mut self) {
        const LAST: usize = 8;
        let count = self.saved.len();
        if self.pages.stored() <= self.most_pages || count < 2 * LAST {
            return;
        }
        let (mut kept, mut left): (Vec<Saved>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut all = core::mem::take(&mut self.saved).into_iter().enumerate().peekable();
        while let Some((at, mut saved)) = all.next() {
            match all.peek() {
                Some((_, next)) if at % 2 == 1 && at + LAST < count => {
                    self.pages.merge(saved.number, next.number);
                    if let Some(last) = kept.last_mut() {
                        last.searched.retain(|set| saved.searched.contains(set));
                    }
                    left = saved.written;
                }
                _ => {
                    saved.written.append(&mut left);
                    saved.written.sort_unstable();
                    saved.written.dedup();
                    kept.push(saved);
                }
            }
        }
        self.saved = kept;
        self.passed = self.saved.len() - 1;
    }
}
