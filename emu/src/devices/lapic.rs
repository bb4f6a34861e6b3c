//! The local APIC of a PC's CPU: messages to itself and to other CPUs, its timer, and the LINT0 pin to which the 8259 is
//! connected.
//!
//! The board delivers the messages. The initial state is that left by firmware: enabled, with the 8259 on LINT0 of the
//! first CPU.

use crate::clock::{Ticks, ticks};
use serde::{Deserialize, Serialize};

/// Period of the undivided timer, in nanoseconds.
const TIMER_NANOSECONDS: u64 = 1;
/// Version register: integrated APIC, six local vector table entries.
const VERSION: u32 = 0x0005_0014;

const ENABLED: u32 = 1 << 8;
const MASKED: u32 = 1 << 16;
const PERIODIC: u32 = 1 << 17;
const MODE: u32 = 7 << 8;
const EXTERNAL: u32 = 7 << 8;
/// Modes of a message.
const LOWEST_PRIORITY: u32 = 1 << 8;
const INIT: u32 = 5 << 8;
const STARTUP: u32 = 6 << 8;
/// The destination of a message is a mask of logical numbers.
const LOGICAL: u32 = 1 << 11;
/// A message of level kind asserts the level. INIT without it is not used by today's APICs.
const ASSERT: u32 = 1 << 14;
/// The destination that means all local APICs.
const ALL: u32 = 0xff00_0000;
/// Writable bits of a local vector table entry.
const ENTRY: u32 = 0x0003_a7ff;
const FIXED: u32 = 0;

/// Indexes of local vector table entries.
const TIMER: usize = 0;
const PIN_0: usize = 3;
const ENTRIES: usize = 6;

/// A set of vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Vectors([u32; 8]);

impl Vectors {
    fn set(&mut self, vector: u8, is_in: bool) {
        let (word, bit) = (usize::from(vector >> 5), 1 << (vector & 31));
        self.0[word] = if is_in { self.0[word] | bit } else { self.0[word] & !bit };
    }

    /// The vector with the highest priority.
    fn highest(&self) -> Option<u8> {
        let word = self.0.iter().rposition(|word| *word != 0)?;
        Some(word as u8 * 32 + (31 - self.0[word].leading_zeros()) as u8)
    }
}

/// A message on the bus of the APICs, in the layout of the interrupt command register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Vector, mode, and kind of destination.
    pub low: u32,
    /// The destination, in the upper byte.
    pub high: u32,
}

/// The meaning of a message for the CPUs that take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// An interrupt with this vector.
    Interrupt(u8),
    /// An interrupt with this vector for one of the CPUs.
    InterruptOne(u8),
    /// Resets the CPU.
    Init,
    /// Starts the CPU at this page of the first MiB.
    Startup(u8),
    /// NMI, SMI, and others that are not modelled.
    Other,
}

impl Message {
    /// The meaning of the message.
    pub fn meaning(self) -> Meaning {
        let vector = self.low as u8;
        match self.low & MODE {
            FIXED => Meaning::Interrupt(vector),
            LOWEST_PRIORITY => Meaning::InterruptOne(vector),
            INIT if self.low & ASSERT != 0 => Meaning::Init,
            STARTUP => Meaning::Startup(vector),
            _ => Meaning::Other,
        }
    }
}

/// The state of the APIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lapic {
    id: u32,
    priority: u8,
    logical: u32,
    format: u32,
    spurious: u32,
    command: [u32; 2],
    table: [u32; ENTRIES],
    requested: Vectors,
    in_service: Vectors,
    initial: u32,
    divide: u32,
    /// The time at which the timer started, while it counts.
    began: Option<Ticks>,
    /// The time at which the first of the waiting interrupts arrived.
    since: Ticks,
    #[serde(skip)]
    sent: Vec<Message>,
}

impl Default for Lapic {
    fn default() -> Lapic {
        const NON_MASKABLE: u32 = 4 << 8;
        Lapic {
            id: 0,
            priority: 0,
            logical: 0,
            format: u32::MAX,
            spurious: ENABLED | 0xff,
            command: [0; 2],
            table: [MASKED, MASKED, MASKED, EXTERNAL, NON_MASKABLE, MASKED],
            requested: Vectors::default(),
            in_service: Vectors::default(),
            initial: 0,
            divide: 0,
            began: None,
            since: 0,
            sent: Vec::new(),
        }
    }
}

impl Lapic {
    /// The APIC of the CPU with this number. The 8259 is connected to that of the first.
    pub fn of(number: usize) -> Lapic {
        let mut lapic = Lapic { id: (number as u32) << 24, ..Lapic::default() };
        if number != 0 {
            lapic.table[PIN_0] = MASKED;
        }
        lapic
    }

    /// The state after INIT. The id stays.
    pub fn reset(&mut self) {
        *self = Lapic { id: self.id, spurious: 0xff, table: [MASKED; ENTRIES], ..Lapic::default() };
    }

    /// Takes the messages that were sent since the last call.
    pub fn take_sent(&mut self) -> Vec<Message> {
        core::mem::take(&mut self.sent)
    }

    /// Whether this APIC is a destination of the message. `is_sender` says whether it sent the message.
    pub fn takes(&self, message: Message, is_sender: bool) -> bool {
        let Message { low, high } = message;
        match low >> 18 & 3 {
            0 if low & LOGICAL != 0 => high & self.logical != 0,
            0 => high == self.id || high == ALL,
            1 => is_sender,
            2 => true,
            _ => !is_sender,
        }
    }

    /// Size of its register space.
    pub const BYTES: u64 = 0x1000;

    /// Reads the register at this offset.
    pub fn read(&self, offset: u64, now: Ticks) -> u32 {
        let word = |vectors: &Vectors| vectors.0[(offset >> 4 & 7) as usize];
        match offset & 0xff0 {
            0x20 => self.id,
            0x30 => VERSION,
            0x80 => self.priority.into(),
            0xa0 => self.threshold().into(),
            0xd0 => self.logical,
            0xe0 => self.format,
            0xf0 => self.spurious,
            0x100..=0x170 => word(&self.in_service),
            0x200..=0x270 => word(&self.requested),
            0x300 => self.command[0],
            0x310 => self.command[1],
            0x320..=0x370 => self.table[Self::entry(offset)],
            0x380 => self.initial,
            0x390 => self.count(now),
            0x3e0 => self.divide,
            _ => 0,
        }
    }

    /// Writes the register at this offset. Returns the vector of the interrupt that the write has ended.
    pub fn write(&mut self, offset: u64, value: u32, now: Ticks) -> Option<u8> {
        match offset & 0xff0 {
            0x20 => self.id = value & 0xff00_0000,
            0x80 => self.priority = value as u8,
            0xb0 => {
                let vector = self.in_service.highest()?;
                self.in_service.set(vector, false);
                return Some(vector);
            }
            0xd0 => self.logical = value & 0xff00_0000,
            0xe0 => self.format = value | 0x0fff_ffff,
            0xf0 => {
                self.spurious = value & 0x1ff;
                if !self.is_enabled() {
                    self.table.iter_mut().for_each(|entry| *entry |= MASKED);
                }
            }
            0x300 => {
                self.command[0] = value & 0x000c_cfff;
                self.sent.push(Message { low: self.command[0], high: self.command[1] });
            }
            0x310 => self.command[1] = value & 0xff00_0000,
            0x320..=0x370 => {
                let forced = if self.is_enabled() { 0 } else { MASKED };
                self.table[Self::entry(offset)] = value & ENTRY | forced;
            }
            0x380 => {
                self.initial = value;
                self.began = (value != 0).then_some(now);
            }
            0x3e0 => self.divide = value & 0xb,
            _ => {}
        }
        None
    }

    fn entry(offset: u64) -> usize {
        ((offset >> 4 & 0xf) as usize).saturating_sub(2).min(ENTRIES - 1)
    }

    fn is_enabled(&self) -> bool {
        self.spurious & ENABLED != 0
    }

    /// An interrupt arrives. Vectors below 16 are invalid.
    pub fn request(&mut self, vector: u8, now: Ticks) {
        if self.is_enabled() && vector >= 16 {
            if self.requested.highest().is_none() {
                self.since = now;
            }
            self.requested.set(vector, true);
        }
    }

    /// Virtual time per count of the divided timer.
    fn timer_tick(&self) -> Ticks {
        let by = (self.divide & 3 | self.divide >> 1 & 4).wrapping_add(1) & 7;
        ticks(TIMER_NANOSECONDS) << by
    }

    fn is_periodic(&self) -> bool {
        self.table[TIMER] & PERIODIC != 0
    }

    fn period(&self) -> Ticks {
        self.timer_tick().saturating_mul(self.initial.into())
    }

    fn count(&self, now: Ticks) -> u32 {
        let Some(began) = self.began else { return 0 };
        let gone = now.saturating_sub(began) / self.timer_tick();
        match u64::from(self.initial) {
            0 => 0,
            initial if self.is_periodic() => (initial - gone % initial) as u32,
            initial => initial.saturating_sub(gone) as u32,
        }
    }

    /// Advances the timer.
    pub fn advance(&mut self, now: Ticks) {
        let Some(due) = self.due().filter(|due| *due <= now) else { return };
        let period = self.period().max(1);
        self.began = self.is_periodic().then(|| due + (now - due) / period * period);
        let entry = self.table[TIMER];
        if entry & MASKED == 0 {
            self.request(entry as u8, due);
        }
    }

    fn due(&self) -> Option<Ticks> {
        Some(self.began?.saturating_add(self.period()))
    }

    /// The time of the next timer interrupt.
    pub fn next(&self) -> Option<Ticks> {
        self.due().filter(|_| self.table[TIMER] & MASKED == 0)
    }

    /// Whether LINT0 passes interrupts of the 8259.
    pub fn lets_external_through(&self) -> bool {
        self.table[PIN_0] & (MASKED | MODE) == EXTERNAL
    }

    /// The priority that an interrupt must exceed.
    fn threshold(&self) -> u8 {
        let served = self.in_service.highest().unwrap_or(0);
        if self.priority >> 4 >= served >> 4 { self.priority } else { served & 0xf0 }
    }

    fn highest(&self) -> Option<u8> {
        self.requested.highest().filter(|vector| vector >> 4 > self.threshold() >> 4)
    }

    /// Whether an interrupt is pending that can be taken.
    pub fn asks(&self) -> bool {
        self.highest().is_some()
    }

    /// The time since which an interrupt is pending that can be taken.
    pub fn asks_since(&self) -> Option<Ticks> {
        self.asks().then_some(self.since)
    }

    /// The CPU takes the interrupt. Returns its vector.
    pub fn acknowledge(&mut self) -> Option<u8> {
        let vector = self.highest()?;
        self.requested.set(vector, false);
        self.in_service.set(vector, true);
        Some(vector)
    }

    /// Whether the APIC could be in this state before the time `last`.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.since < last && self.began.is_none_or(|began| began < last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 0xb0;
    const COMMAND: u64 = 0x300;
    const ITSELF: u32 = 1 << 18;

    /// Delivers the messages that an APIC has sent, as the board of one CPU does.
    fn deliver(lapic: &mut Lapic, now: Ticks) {
        for message in lapic.take_sent() {
            if lapic.takes(message, true)
                && let Meaning::Interrupt(vector) = message.meaning()
            {
                lapic.request(vector, now);
            }
        }
    }

    #[test]
    fn a_cpu_interrupts_itself_by_priority() {
        let mut lapic = Lapic::default();
        for vector in [0x35, 0xf6, 0x41] {
            lapic.write(COMMAND, ITSELF | vector, 0);
        }
        deliver(&mut lapic, 0);
        assert_eq!(lapic.read(0x270, 0), 1 << 22);
        assert_eq!((lapic.acknowledge(), lapic.acknowledge()), (Some(0xf6), None), "nothing above it");
        lapic.write(END, 0, 0);
        assert_eq!((lapic.acknowledge(), lapic.read(0xa0, 0), lapic.asks()), (Some(0x41), 0x40, false));
        lapic.write(0x80, 0x30, 0);
        lapic.write(END, 0, 0);
        assert!(!lapic.asks(), "its priority is that of the task");
        lapic.write(0x80, 0x20, 0);
        assert_eq!(lapic.acknowledge(), Some(0x35));
    }

    #[test]
    fn messages_go_to_this_cpu_or_are_dropped() {
        #[rustfmt::skip]
        let cases = [
            // what                 to              command             arrives
            ("itself",              0,              ITSELF | 0x50,      true),
            ("all",                 0,              2 << 18 | 0x50,     true),
            ("all others",          0,              3 << 18 | 0x50,     false),
            ("the first CPU",       0,              0x50,               true),
            ("another CPU",         1 << 24,        0x50,               false),
            ("a logical name",      1 << 24,        1 << 11 | 0x50,     true),
            ("another one",         2 << 24,        1 << 11 | 0x50,     false),
            ("no interrupt",        0,              ITSELF | 5 << 8,    false),
            ("no vector",           0,              ITSELF | 7,         false),
        ];
        for (what, to, command, arrives) in cases {
            let mut lapic = Lapic::default();
            lapic.write(0xd0, 1 << 24, 0);
            lapic.write(0x310, to, 0);
            lapic.write(COMMAND, command, 0);
            deliver(&mut lapic, 0);
            assert_eq!(lapic.asks(), arrives, "{what}");
        }
    }

    #[test]
    fn messages_reach_the_cpus_that_they_name() {
        let mut lapics = [0, 1, 2].map(Lapic::of);
        for (number, lapic) in lapics.iter_mut().enumerate() {
            lapic.write(0xd0, 1 << (24 + number), 0);
        }
        #[rustfmt::skip]
        let cases = [
            // what                 low                 high            takes, sent by CPU 0
            ("physical",            0x50,               2 << 24,        [false, false, true]),
            ("all by number",       0x50,               0xff << 24,     [true, true, true]),
            ("a logical mask",      LOGICAL | 0x50,     6 << 24,        [false, true, true]),
            ("itself",              ITSELF | 0x50,      2 << 24,        [true, false, false]),
            ("all",                 2 << 18 | 0x50,     0,              [true, true, true]),
            ("all others",          3 << 18 | 0x50,     0,              [false, true, true]),
        ];
        for (what, low, high, takes) in cases {
            let taken = [0, 1, 2].map(|cpu: usize| lapics[cpu].takes(Message { low, high }, cpu == 0));
            assert_eq!(taken, takes, "{what}");
        }
        let means = |low| Message { low, high: 0 }.meaning();
        assert_eq!(means(0x4500), Meaning::Init);
        assert_eq!((means(0x8500), means(0x0400)), (Meaning::Other, Meaning::Other), "the end of INIT's level; NMI");
        assert_eq!(means(0x0699), Meaning::Startup(0x99));
        lapics[1].reset();
        assert_eq!((lapics[1].read(0x20, 0), lapics[1].is_enabled(), lapics[1].lets_external_through()), (1 << 24, false, false));
    }

    #[test]
    fn the_timer_counts_down_once_or_for_ever() {
        const MICROSECOND: Ticks = 4000;
        for periodic in [false, true] {
            let mut lapic = Lapic::default();
            lapic.write(0x3e0, 0b1011, 0);
            lapic.write(0x320, 0xec | if periodic { PERIODIC } else { 0 }, 0);
            lapic.write(0x380, 1000, 0);
            assert_eq!((lapic.read(0x390, MICROSECOND / 4), lapic.next()), (750, Some(MICROSECOND)));
            lapic.advance(MICROSECOND - 1);
            assert!(!lapic.asks());
            lapic.advance(MICROSECOND + 40);
            assert_eq!((lapic.acknowledge(), lapic.next()), (Some(0xec), periodic.then_some(2 * MICROSECOND)));
            assert_eq!(lapic.read(0x390, MICROSECOND + 40), if periodic { 990 } else { 0 });
        }
        let mut divided = Lapic::default();
        divided.write(0x3e0, 0b0011, 0);
        divided.write(0x320, 0xec, 0);
        divided.write(0x380, 1000, 0);
        assert_eq!(divided.next(), Some(16 * MICROSECOND));
    }

    #[test]
    fn lint0_passes_the_8259_unless_masked() {
        let mut lapic = Lapic::default();
        assert!(lapic.lets_external_through());
        lapic.write(0xf0, 0xff, 0);
        assert!(!lapic.lets_external_through(), "switched off");
        lapic.write(0xf0, 0x1ff, 0);
        lapic.write(0x350, EXTERNAL, 0);
        assert!(lapic.lets_external_through());
        lapic.write(0x350, EXTERNAL | MASKED, 0);
        assert!(!lapic.lets_external_through());
    }
}
