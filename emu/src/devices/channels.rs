//! The channel subsystem of z/Architecture (Principles of Operation, chapters 14 to 16): subchannels, one for each virtio
//! device, and their interruptions, which any CPU may take.
//!
//! There is one channel path, with number 0. It has no description: CHSC knows no command, which kernels expect of old
//! machines. Subchannels have the numbers from 0 on, devices the numbers from 1 on, as in `0.0.0001`.

use super::virtio::bank::MOST;
use super::virtio::ccw::subchannel::{IRB_WORDS, NOT_OPERATIONAL, ORB_WORDS, SCHIB_WORDS, Subchannel};
use super::virtio::{AttachError, Attached};
use crate::clock::Ticks;

pub use super::virtio::ccw::subchannel::BadOperand;
use serde::{Deserialize, Serialize};
use trapline_isa::mem::Memory;

/// The half of a subsystem-identification word that is the same for all subchannels.
const IDENTIFIER: u64 = 0x0001_0000;
/// The number of the first device.
const FIRST_DEVICE: u16 = 1;

// Instructions, by their opcodes.
/// CSCH, clear subchannel.
pub const CLEAR: u64 = 0xb230;
/// HSCH, halt subchannel.
pub const HALT: u64 = 0xb231;
/// MSCH, modify subchannel.
pub const MODIFY: u64 = 0xb232;
/// SSCH, start subchannel.
pub const START: u64 = 0xb233;
/// STSCH, store subchannel.
pub const STORE: u64 = 0xb234;
/// TSCH, test subchannel.
pub const TEST: u64 = 0xb235;
/// RSCH, resume subchannel.
pub const RESUME: u64 = 0xb238;
/// XSCH, cancel subchannel.
pub const CANCEL: u64 = 0xb276;

/// An interruption, as a CPU takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// The subsystem-identification word.
    pub identifier: u32,
    /// The word that the guest gave to the subchannel.
    pub parameter: u32,
    /// The interruption subclass, 0 to 7.
    pub class: u8,
}

/// The subchannels of a machine.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channels {
    subchannels: Vec<Subchannel>,
    /// The time since which an interruption is pending.
    since: Ticks,
}

impl Channels {
    /// Whether there is no device, and so no subchannel.
    pub fn is_empty(&self) -> bool {
        self.subchannels.is_empty()
    }

    /// The number of subchannels.
    pub fn len(&self) -> usize {
        self.subchannels.len()
    }

    /// Adds a device. Fails if there are too many.
    pub fn attach(&mut self, attached: &Attached) -> Result<(), AttachError> {
        let number = self.subchannels.len();
        if number == MOST {
            return Err(AttachError::TooMany);
        }
        self.subchannels.push(Subchannel::new(attached, FIRST_DEVICE + number as u16));
        Ok(())
    }

    /// Whether subchannels from a snapshot are possible, before the time `last`.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.since < last && self.subchannels.len() <= MOST && self.subchannels.iter().all(|one| one.is_sound(last))
    }

    /// Takes over the host's side of the devices that these restored ones replace. Fails if those are other devices.
    pub fn adopt(&mut self, other: &Channels) -> Result<(), AttachError> {
        if self.subchannels.len() != other.subchannels.len() {
            return Err(AttachError::Number(self.subchannels.len(), other.subchannels.len()));
        }
        self.subchannels.iter_mut().zip(&other.subchannels).try_for_each(|(mine, other)| mine.adopt(other))
    }

    /// Executes an instruction with the words of its operand. Returns the condition code and the words of its result.
    pub fn instruction(
        &mut self,
        (opcode, identifier): (u64, u64),
        operand: &[u64],
        memory: &mut dyn Memory,
        now: Ticks,
    ) -> Result<Vec<u64>, BadOperand> {
        let asked = self.classes() != 0;
        let answer = self.execute(opcode, identifier, operand, memory);
        self.note(asked, now);
        answer
    }

    fn execute(
        &mut self,
        opcode: u64,
        identifier: u64,
        operand: &[u64],
        memory: &mut dyn Memory,
    ) -> Result<Vec<u64>, BadOperand> {
        let number = number_of(identifier).ok_or(BadOperand)?;
        let Some(subchannel) = self.subchannels.get_mut(number) else {
            return Ok(vec![NOT_OPERATIONAL]);
        };
        Ok(match opcode {
            CLEAR => vec![subchannel.clear()],
            HALT => vec![subchannel.halt()],
            MODIFY => vec![subchannel.modify(&words::<SCHIB_WORDS>(operand))?],
            START => vec![subchannel.start(&words::<ORB_WORDS>(operand), memory)?],
            STORE => result(0, &subchannel.block()),
            TEST => {
                let (code, block): (u64, [u32; IRB_WORDS]) = subchannel.test();
                result(code, &block)
            }
            RESUME | CANCEL => vec![subchannel.resume_or_cancel()],
            _ => vec![NOT_OPERATIONAL],
        })
    }

    /// A driver has made chains available in a queue of a subchannel's device. Returns false if there is no such queue.
    pub fn notify(&mut self, identifier: u64, queue: u64, now: Ticks) -> bool {
        let subchannel = number_of(identifier).and_then(|number| self.subchannels.get_mut(number));
        subchannel.is_some_and(|subchannel| subchannel.unit_mut().notify(queue, now))
    }

    /// The interruption subclasses of pending interruptions, a bit each from bit 0 on.
    pub fn classes(&self) -> u8 {
        let classes = self.subchannels.iter().filter_map(|subchannel| subchannel.interruption());
        classes.fold(0, |classes, interruption| classes | 1 << (interruption.class & 7))
    }

    /// The time since which an interruption of one of these subclasses is pending.
    pub fn pending(&self, classes: u8) -> Option<Ticks> {
        (self.classes() & classes != 0).then_some(self.since)
    }

    /// Takes a pending interruption of one of these subclasses. The lowest subclass has priority, then the lowest
    /// subchannel.
    pub fn take(&mut self, classes: u8) -> Option<Interruption> {
        let numbered = (0..).zip(&mut self.subchannels);
        let asking =
            numbered.filter_map(|(number, one)| one.interruption().map(|interruption| (interruption.class, number, one)));
        let (class, number, one) =
            asking.filter(|(class, ..)| classes >> (class & 7) & 1 != 0).min_by_key(|(class, ..)| *class)?;
        let parameter = one.interruption()?.parameter;
        one.clear_interruption();
        Some(Interruption { identifier: IDENTIFIER as u32 | number, parameter, class })
    }

    /// The time at which a device must be served.
    pub fn next(&self) -> Option<Ticks> {
        self.subchannels.iter().filter_map(|subchannel| subchannel.unit().next()).min()
    }

    /// Handles the requests whose time has come.
    pub fn serve(&mut self, now: Ticks, memory: &mut dyn Memory) {
        let asked = self.classes() != 0;
        for subchannel in &mut self.subchannels {
            subchannel.serve(now, memory);
        }
        self.note(asked, now);
    }

    /// Notes the time of a new interruption. `asked`: there was one before.
    fn note(&mut self, asked: bool, now: Ticks) {
        if !asked && self.classes() != 0 {
            self.since = now;
        }
    }
}

/// The number of a subchannel. `None` if the subsystem-identification word is invalid.
fn number_of(identifier: u64) -> Option<usize> {
    const HALF: u64 = 0xffff;
    (identifier & 0xffff_ffff & !HALF == IDENTIFIER).then_some((identifier & HALF) as usize)
}

fn words<const WORDS: usize>(operand: &[u64]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    for (word, value) in words.iter_mut().zip(operand) {
        *word = *value as u32;
    }
    words
}

fn result(code: u64, block: &[u32]) -> Vec<u64> {
    std::iter::once(code).chain(block.iter().map(|word| u64::from(*word))).collect()
}
