//! The record of an unprobed run, with which probed runs are compared again and again. It holds no machine, so threads
//! share it, and the unprobed guest runs once for all of them.

use super::memory::{self, Accounted};
use super::registers::{self, Pad};
use super::{Run, Settings, pair};
use crate::clock::Ticks;
use crate::machine::{Happening, Stop};
use crate::probed::Session;
use crate::snapshot::memory::Memory;
use crate::snapshot::registers::Values;

/// The record.
#[derive(Debug)]
pub struct Reference {
    points: Vec<Point>,
    stop: Stop,
    registers: Option<Vec<Values>>,
    memory: Memory,
    names: Vec<&'static str>,
    console: Vec<u8>,
    hash: String,
}

/// The state of the run after an interval of guest time.
#[derive(Debug)]
struct Point {
    /// The guest time in nanoseconds until which the interval went.
    until: u64,
    /// The hash of all events and of the console up to here.
    events: blake3::Hash,
    time: Ticks,
    cpu: usize,
    pcs: Vec<u64>,
    registers: Vec<u64>,
}

/// A probed run that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differs {
    /// The guest time in nanoseconds of the comparison that saw it. The runs were equal one interval earlier.
    pub at: u64,
    /// The first difference from the recorded run.
    pub what: String,
}

/// The hash of a run's events and console output, which grows with the run.
#[derive(Clone, Default)]
struct Events(blake3::Hasher);

impl Events {
    /// Adds what has happened since the last call. Returns the console output.
    fn take(&mut self, session: &mut Session) -> Vec<u8> {
        let happenings: Vec<Happening> = session.machine_mut().take_happenings();
        for happening in &happenings {
            for word in pair::words(happening) {
                self.0.update(&word.to_le_bytes());
            }
        }
        let console = session.machine_mut().take_console();
        self.0.update(&(happenings.len() as u64).to_le_bytes());
        self.0.update(&console);
        console
    }
}

impl Reference {
    /// Runs an unprobed guest to its end, or to the limit, and records it.
    pub fn record(run: &mut dyn Run, settings: &Settings) -> Reference {
        let mut events = Events::default();
        let (mut points, mut console, mut stop) = (Vec::new(), Vec::new(), Stop::Limit);
        let mut until = run.session().machine().now();
        while stop == Stop::Limit && until < settings.limit {
            until = (until / settings.interval + 1).saturating_mul(settings.interval).min(settings.limit);
            stop = run.advance(until);
            let session = run.session();
            console.extend(events.take(session));
            let machine = session.machine_mut();
            points.push(Point {
                until,
                events: events.0.finalize(),
                time: machine.time(),
                cpu: machine.current_cpu(),
                pcs: machine.pcs(),
                registers: machine.registers().into_iter().map(|(_, value)| value).collect(),
            });
        }
        let session = run.session();
        let names = session.machine().registers().into_iter().map(|(name, _)| name).collect();
        let registers = session.machine_mut().all_registers().ok();
        let machine = session.machine();
        let mut memory = Memory::default();
        let start = machine.ram().base();
        memory.gather(start, start + machine.guest_ram_bytes(), |at, into| {
            machine.ram().read(at, into);
        });
        let mut hasher = events.0;
        hasher.update(registers.as_deref().map(registers::text).unwrap_or_default().as_bytes());
        hasher.update(format!("{stop:?} {:?}", machine.time()).as_bytes());
        memory.hash_into(&mut hasher);
        let hash = hasher.finalize().to_hex().to_string();
        Reference { points, stop, registers, memory, names, console, hash }
    }

    /// The reason why the run ended.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// All console output.
    pub fn console(&self) -> &[u8] {
        &self.console
    }

    /// The hash of the run: events, console, end, registers and memory.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Runs a probed guest and compares it with the record. It never runs longer than the unprobed one.
    pub fn compare(&self, run: &mut dyn Run) -> Result<Accounted, Differs> {
        let mut events = Events::default();
        let (last, at_end) = (self.points.len().saturating_sub(1), |stop: &Stop| pair::is_same_stop(&self.stop, stop));
        for (number, point) in self.points.iter().enumerate() {
            let stop = run.advance(point.until);
            let session = run.session();
            events.take(session);
            let differs = |what: &str| Err(Differs { at: point.until, what: what.into() });
            if events.0.finalize() != point.events {
                return differs("an interrupt, an exception, a system call, a clock read or the console");
            }
            if (number < last && stop != Stop::Limit) || (number == last && !at_end(&stop)) {
                return differs(&format!("the end of the run: {stop:?}"));
            }
            let machine = session.machine_mut();
            if (machine.time(), machine.current_cpu()) != (point.time, point.cpu) || machine.pcs() != point.pcs {
                return differs("the guest time or a pc");
            }
            let registers: Vec<u64> = machine.registers().into_iter().map(|(_, value)| value).collect();
            let pad = Pad::of(session);
            if let Some((name, ..)) = registers::differing(&self.names, [&point.registers, &registers], &pad, session).first() {
                return differs(&format!("the register {name}"));
            }
        }
        self.compare_end(run.session())
    }

    fn compare_end(&self, session: &mut Session) -> Result<Accounted, Differs> {
        let at = session.machine().now();
        let mut accounted = Accounted::default();
        let unprobed = self.registers.clone();
        let registers = match (unprobed, session.machine_mut().all_registers().ok()) {
            (Some(one), Some(other)) => registers::compare_values(&one, &other, session, &mut accounted).map(drop),
            (None, None) => Ok(()),
            _ => return Err(Differs { at, what: "the state of the CPU".into() }),
        };
        registers.map_err(|seen| Differs { at, what: format!("a register: {seen:x?}") })?;
        let read = |at: u64, into: &mut [u8]| self.memory.read(at, into);
        match memory::compare(&read, session, 1, &mut accounted).first() {
            None => Ok(accounted),
            Some(word) => Err(Differs { at, what: format!("memory at {:#x}", word.physical) }),
        }
    }
}
