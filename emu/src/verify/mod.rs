//! Compares an unprobed and a probed run of one guest, and finds the first difference.
//!
//! Both runs advance side by side (`pair.rs`). After each interval of guest time the console, every interrupt,
//! exception, system call, sleep and clock read with its place and time, the clock and the running CPU's registers must
//! be equal. At the end all registers of all CPUs and all of the guest's memory must be equal, too (`memory.rs`). Only
//! what the probes are known to change may differ, and each such place is counted by its name.
//!
//! If the runs differ, `locate.rs` runs both again and bisects guest time with complete comparisons, down to a line of
//! code without a branch. The instructions of this line are then recorded one by one in both runs.

mod locate;
mod memory;
mod pair;
mod reference;
mod registers;

pub use crate::clock::nanoseconds;
pub use memory::{Accounted, Word};
pub use reference::{Differs, Reference};

use crate::clock::Ticks;
use crate::machine::{Happening, Stop};
use crate::probed::Session;
use pair::Pair;

/// One of the two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The run without probes.
    Unprobed,
    /// The run with probes.
    Probed,
}

/// A guest that runs.
pub trait Run {
    /// The machine, with its probes' engine.
    fn session(&mut self) -> &mut Session;

    /// Runs until this guest time in nanoseconds, or until another reason to stop. It must give the guest the same
    /// input at the same guest time on both sides, whatever the times of the calls are.
    fn advance(&mut self, nanoseconds: u64) -> Stop {
        self.session().run_until(nanoseconds)
    }
}

impl Run for Session {
    fn session(&mut self) -> &mut Session {
        self
    }
}

/// The settings of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The guest time in nanoseconds at which both runs end at the latest.
    pub limit: u64,
    /// The guest time in nanoseconds between two comparisons.
    pub interval: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { limit: u64::MAX, interval: 10_000_000 }
    }
}

/// A report from a comparison in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News<'a> {
    /// Both runs are equal up to this guest time in nanoseconds.
    EqualUntil(u64),
    /// Console output of the unprobed run.
    Console(&'a [u8]),
    /// The runs differ. The place is searched for between these guest times in nanoseconds.
    Searching {
        /// Both runs are equal here.
        from: u64,
        /// They differ here.
        to: u64,
    },
}

/// The amounts that were compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Guest time at the end: bytes of guest code that ran, and sleep.
    pub ticks: Ticks,
    /// Bytes of console output.
    pub console: u64,
    /// The number of interrupts.
    pub interrupts: u64,
    /// Exceptions without system calls.
    pub exceptions: u64,
    /// The number of system calls.
    pub system_calls: u64,
    /// All events with their places and times: the three above, sleeps and clock reads.
    pub events: u64,
    /// The number of CPUs.
    pub cpus: usize,
    /// Registers of all CPUs.
    pub registers: u64,
    /// Bytes of memory.
    pub memory: u64,
}

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The reason why the unprobed run ended, or where it was when the difference was seen.
    pub stop: Stop,
    /// The amounts that were compared.
    pub compared: Compared,
    /// Differences that the probes are known to make, by name.
    pub accounted: Accounted,
    /// The equal runs' hash, or the first difference.
    pub verdict: Verdict,
}

/// Whether the runs are equal.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Both are the same run. The hash is that of everything that was compared, in hexadecimal; it does not depend on
    /// the probes.
    Identical(String),
    /// They differ.
    Different(Box<Difference>),
}

/// The first difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The first observed difference.
    pub seen: Seen,
    /// The guest time in nanoseconds of the comparison that saw it.
    pub at: u64,
    /// The place where the runs part.
    pub parted: Parted,
}

/// The place where two runs part.
#[derive(Clone, Debug)]
pub enum Parted {
    /// The runs are equal when they are run again.
    Nowhere,
    /// The guests differ before they run.
    AtStart(Seen),
    /// The runs part at an instruction.
    At(Box<Place>),
}

/// A difference. The first of two values is the unprobed run's.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// The reason to stop.
    Stop(Stop, Stop),
    /// The guest time, in ticks, or the running CPU.
    Time([Ticks; 2], [usize; 2]),
    /// An event, by its number.
    Event(u64, Option<Happening>, Option<Happening>),
    /// The console, at this byte.
    Console(u64),
    /// The pcs of the CPUs.
    Places(Vec<u64>, Vec<u64>),
    /// A register of a CPU. The number of CPUs stands for the registers that they share.
    Register {
        /// The CPU's number.
        cpu: usize,
        /// The register.
        name: String,
        /// The values in the unprobed and in the probed run.
        values: [u128; 2],
    },
    /// Registers that only one of the runs can name.
    Registers([Option<String>; 2]),
    /// A word of memory.
    Memory(Word),
}

/// The instruction where the runs part.
#[derive(Clone, Debug)]
pub struct Place {
    /// The number of the CPU that runs the instruction.
    pub cpu: usize,
    /// The guest time in ticks in front of the instruction.
    pub time: Ticks,
    /// The instruction: the last point at which both runs are equal.
    pub here: Instruction,
    /// The next instruction of each run, unprobed and probed, if it was recorded.
    pub next: [Option<Instruction>; 2],
    /// Whether this is exactly the instruction. Otherwise the difference arises in it or in one of the `line` behind it.
    pub is_exact: bool,
    /// The instructions of the line of code in which the difference arises, if the instruction is not known exactly.
    pub line: Vec<Instruction>,
    /// The registers that differ behind the instruction: the name, and the values of both runs.
    pub registers: Vec<(&'static str, u64, u64)>,
    /// A word of memory that differs behind it.
    pub memory: Option<Word>,
}

impl Place {
    /// The guest time in nanoseconds.
    pub fn nanoseconds(&self) -> u64 {
        nanoseconds(self.time)
    }
}

/// An instruction of the guest's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The address in the guest's own text.
    pub address: u64,
    /// The bytes from which it is decoded, at most as many as the longest instruction has; empty if they cannot be read.
    pub code: Vec<u8>,
    /// Whether there is a probe.
    pub is_probed: bool,
}

/// Compares the memory of an unprobed and a probed guest at one point of their runs. Returns the first words that differ
/// for no known reason, at most `most`, and the differences that the probes are known to make.
pub fn different_memory(unprobed: &Session, probed: &mut Session, most: usize) -> (Vec<Word>, Accounted) {
    let mut accounted = Accounted::default();
    let words = memory::compare(&memory::reader(unprobed), probed, most, &mut accounted);
    (words, accounted)
}

/// Runs a guest unprobed and probed, and compares both runs. `start` makes the guest of a side at its start; it is
/// called again if the first difference has to be found.
pub fn compare<E>(
    start: &mut dyn FnMut(Side) -> Result<Box<dyn Run>, E>,
    settings: &Settings,
    tell: &mut dyn FnMut(News<'_>),
) -> Result<Outcome, E> {
    let mut pair = Pair::new(start)?;
    let first = pair.time();
    let mut seen = None;
    let mut until = first;
    while seen.is_none() && !pair.has_ended() && until < settings.limit {
        until = (until / settings.interval + 1).saturating_mul(settings.interval).min(settings.limit);
        seen = pair.advance(until).err();
        let console = pair.take_console();
        if !console.is_empty() {
            tell(News::Console(&console));
        }
        if seen.is_none() {
            tell(News::EqualUntil(until));
        }
    }
    let seen = match seen {
        Some(seen) => seen,
        None => match pair.compare_all() {
            Ok(()) => {
                let (hash, compared) = pair.hash();
                let (stop, accounted) = (pair.stop().clone(), pair.accounted);
                return Ok(Outcome { stop, compared, accounted, verdict: Verdict::Identical(hash) });
            }
            Err(seen) => seen,
        },
    };
    let at = pair.time();
    let (stop, compared, accounted) = (pair.stop().clone(), pair.compared().clone(), pair.accounted);
    drop(pair);
    let parted = locate::place(start, first..until, tell)?;
    let difference = Difference { seen, at, parted };
    Ok(Outcome { stop, compared, accounted, verdict: Verdict::Different(Box::new(difference)) })
}
