//! The two runs side by side.

use super::memory::{self, Accounted};
use super::registers::{self, Pad};
use super::{Compared, Run, Seen, Side, Word};
use crate::machine::{Happening, Stop, What};
use crate::probed::Session;

/// The two runs. Everything that the guests do is compared whenever they have advanced.
pub(super) struct Pair {
    pub unprobed: Box<dyn Run>,
    pub probed: Box<dyn Run>,
    /// Known differences that the last comparison has met.
    pub accounted: Accounted,
    compared: Compared,
    /// The hash of the unprobed run's console and events.
    hasher: blake3::Hasher,
    console: Vec<u8>,
    stop: Stop,
}

impl Pair {
    /// Both guests at their start.
    pub fn new<E>(start: &mut dyn FnMut(Side) -> Result<Box<dyn Run>, E>) -> Result<Pair, E> {
        Ok(Pair {
            unprobed: start(Side::Unprobed)?,
            probed: start(Side::Probed)?,
            accounted: Accounted::default(),
            compared: Compared::default(),
            hasher: blake3::Hasher::new(),
            console: Vec::new(),
            stop: Stop::Limit,
        })
    }

    /// Both sessions.
    pub fn sessions(&mut self) -> (&mut Session, &mut Session) {
        (self.unprobed.session(), self.probed.session())
    }

    /// The unprobed run's guest time in nanoseconds.
    pub fn time(&mut self) -> u64 {
        self.unprobed.session().machine().now()
    }

    /// The reason why the unprobed run stopped last.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Whether the runs have ended before their limit.
    pub fn has_ended(&self) -> bool {
        self.stop != Stop::Limit
    }

    /// The amounts that were compared so far.
    pub fn compared(&self) -> &Compared {
        &self.compared
    }

    /// Takes the console output that both runs have printed.
    pub fn take_console(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.console)
    }

    /// Runs both guests until this guest time in nanoseconds, or to their end, and compares what they did and where
    /// they are. The error is the first difference.
    pub fn advance(&mut self, nanoseconds: u64) -> Result<(), Seen> {
        let stops = [self.unprobed.advance(nanoseconds), self.probed.advance(nanoseconds)];
        self.stop = stops[0].clone();
        self.compare_events()?;
        self.compare_consoles()?;
        let [one, other] = stops;
        if !is_same_stop(&one, &other) {
            return Err(Seen::Stop(one, other));
        }
        self.compare_places()
    }

    fn compare_events(&mut self) -> Result<(), Seen> {
        let (unprobed, probed) = self.sessions();
        let (one, other) = (unprobed.machine_mut().take_happenings(), probed.machine_mut().take_happenings());
        let first = one.iter().zip(&other).position(|(one, other)| one != other);
        let first = first.or((one.len() != other.len()).then_some(one.len().min(other.len())));
        for happening in &one[..first.unwrap_or(one.len())] {
            self.note(happening);
        }
        match first {
            None => Ok(()),
            Some(at) => Err(Seen::Event(self.compared.events, one.get(at).copied(), other.get(at).copied())),
        }
    }

    fn note(&mut self, happening: &Happening) {
        let compared = &mut self.compared;
        compared.events += 1;
        match happening.what {
            What::Interrupt(_) => compared.interrupts += 1,
            What::Exception(..) => compared.exceptions += 1,
            What::SystemCall => compared.system_calls += 1,
            What::Halt | What::ClockRead => {}
        }
        for word in words(happening) {
            self.hasher.update(&word.to_le_bytes());
        }
    }

    fn compare_consoles(&mut self) -> Result<(), Seen> {
        let (unprobed, probed) = self.sessions();
        let (one, other) = (unprobed.machine_mut().take_console(), probed.machine_mut().take_console());
        let first = one.iter().zip(&other).position(|(one, other)| one != other);
        let first = first.or((one.len() != other.len()).then_some(one.len().min(other.len())));
        if let Some(at) = first {
            return Err(Seen::Console(self.compared.console + at as u64));
        }
        self.compared.console += one.len() as u64;
        self.hasher.update(&one);
        self.console.extend(one);
        Ok(())
    }

    /// Compares the clock, the pcs, and the running CPU's registers.
    fn compare_places(&mut self) -> Result<(), Seen> {
        let (unprobed, probed) = self.sessions();
        let (one, other) = (unprobed.machine_mut(), probed.machine_mut());
        let (times, cpus) = ([one.time(), other.time()], [one.current_cpu(), other.current_cpu()]);
        if times[0] != times[1] || cpus[0] != cpus[1] {
            return Err(Seen::Time(times, cpus));
        }
        let pcs = [one.pcs(), other.pcs()];
        let values = [one.registers(), other.registers()];
        self.compared.ticks = times[0];
        if pcs[0] != pcs[1] {
            let [one, other] = pcs;
            return Err(Seen::Places(one, other));
        }
        let names: Vec<&'static str> = values[0].iter().map(|(name, _)| *name).collect();
        let values = values.map(|values| values.into_iter().map(|(_, value)| value).collect::<Vec<_>>());
        let probed = self.probed.session();
        let pad = Pad::of(probed);
        match registers::differing(&names, [&values[0], &values[1]], &pad, probed).first() {
            None => Ok(()),
            Some((name, one, other)) => {
                let values = [(*one).into(), (*other).into()];
                Err(Seen::Register { cpu: cpus[0], name: (*name).into(), values })
            }
        }
    }

    /// Compares all registers of all CPUs, and all memory.
    pub fn compare_all(&mut self) -> Result<(), Seen> {
        let (unprobed, probed) = (self.unprobed.session(), self.probed.session());
        self.accounted = Accounted::default();
        self.compared.registers = registers::compare_all(unprobed, probed, &mut self.accounted)?;
        self.compared.cpus = unprobed.machine_mut().pcs().len();
        self.compared.memory = unprobed.machine().guest_ram_bytes();
        match memory::compare(&memory::reader(unprobed), probed, 1, &mut self.accounted).first() {
            None => Ok(()),
            Some(word) => Err(Seen::Memory(*word)),
        }
    }

    /// The first words of memory that differ.
    pub fn different_words(&mut self, most: usize) -> Vec<Word> {
        let (unprobed, probed) = (self.unprobed.session(), self.probed.session());
        memory::compare(&memory::reader(unprobed), probed, most, &mut Accounted::default())
    }

    /// The hash of the unprobed run, and the amounts that were compared.
    pub fn hash(&mut self) -> (String, Compared) {
        let mut hasher = self.hasher.clone();
        let session = self.unprobed.session();
        let registers = session.machine_mut().all_registers().map(|all| registers::text(&all)).unwrap_or_default();
        hasher.update(registers.as_bytes());
        hasher.update(format!("{:?} {:?}", self.stop, session.machine().time()).as_bytes());
        memory::hash(session, &mut hasher);
        (hasher.finalize().to_hex().to_string(), self.compared.clone())
    }
}

/// An event as numbers, for a hash.
pub(super) fn words(happening: &Happening) -> [u64; 6] {
    let (kind, number, error) = match happening.what {
        What::Interrupt(number) => (0, number, None),
        What::Exception(vector, error) => (1, vector, error),
        What::SystemCall => (2, 0, None),
        What::Halt => (3, 0, None),
        What::ClockRead => (4, 0, None),
    };
    let error = error.map_or(u64::MAX, u64::from);
    [happening.cpu as u64, kind, number.into(), error, happening.pc, happening.time]
}

/// Whether two runs stopped for the same reason. The sentence about a dead guest may name a probe; the clock, the pcs
/// and the registers are compared anyway.
pub(super) fn is_same_stop(one: &Stop, other: &Stop) -> bool {
    match (one, other) {
        (Stop::Dead(_), Stop::Dead(_)) => true,
        // Only a session with probes notices a panic.
        (Stop::Panic(one), Stop::Panic(other)) => is_same_stop(one, other),
        (one, other) => one == other,
    }
}
