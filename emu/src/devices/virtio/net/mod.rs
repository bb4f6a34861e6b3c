//! A network card (virtio 1.2, section 5.1): queue 0 brings frames to the guest, queue 1 takes frames from it.
//!
//! The network behind the card is a [`World`], which changes only by the guest's frames and by virtual time. So a snapshot
//! does not hold the world's state. It holds these frames with their times, and a world that begins anew is given them again.
//! A world that was reached from outside remembers itself what came, or cannot be saved.

mod journal;

use super::AttachError;
use super::core::LATENCY_NANOSECONDS;
use super::queue::Chain;
use crate::clock::{Ticks, nanoseconds, ticks};
use journal::Journal;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use trapline_isa::mem::Memory;

/// The card's Ethernet address: the usual one of QEMU's guests.
pub const ADDRESS: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
/// The largest packet, in bytes.
pub const MTU: usize = 1500;
/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Bytes of the longest frame.
pub const LONGEST_FRAME: usize = MTU + ETHERNET_BYTES;
/// The number of the queue that brings frames to the guest.
pub const RECEIVE: usize = 0;

const HAS_ADDRESS: u64 = 1 << 5;
/// Bytes of the header before each frame, and the offset of its number of buffers, which is always 1.
const HEADER_BYTES: usize = 12;
const BUFFERS_AT: usize = 10;
/// The most frames that wait for the guest. Others are dropped, as on a real network.
const MOST_WAITING: usize = 1024;

/// A network that a card can be in.
pub trait Network: Debug + Send + Sync {
    /// The network at its beginning.
    fn world(&self) -> Box<dyn World>;
    /// A text that identifies what the network shows to the guest.
    fn identity(&self) -> io::Result<String>;
    /// Whether the guest is connected to something outside of the machine, which a snapshot cannot hold.
    fn is_tied(&self) -> bool {
        false
    }
}

/// A network on which a guest acts. Its state depends only on the steps that it has made.
pub trait World: Debug + Send {
    /// Takes a frame from the guest, or only lets time pass, until the time `now` in nanoseconds. Returns the frames to the guest.
    fn step(&mut self, now: u64, frame: Option<&[u8]>) -> Vec<Vec<u8>>;
    /// The time in nanoseconds at which the world acts by itself.
    fn next(&self) -> Option<u64>;
    /// Whether the guest would not notice that the world begins anew.
    fn is_at_rest(&self) -> bool;
    /// Begins anew.
    fn begin_anew(&mut self);
    /// Whether its steps depend on more than the guest's frames. Then it begins anew as soon as it is at rest.
    fn was_reached(&self) -> bool {
        false
    }
    /// Says whether the next steps were made before, by another world: then they have no effect outside.
    fn repeats(&mut self, _is_repeated: bool) {}
}

/// A card to attach.
#[derive(Clone, Debug)]
pub struct Card {
    /// The network behind it.
    pub network: Arc<dyn Network>,
}

impl Card {
    /// The identity of the network, for the key of a snapshot.
    pub fn identity(&self) -> Result<String, AttachError> {
        name(&*self.network).map(|name| format!("network {name}"))
    }
}

fn name(network: &dyn Network) -> Result<String, AttachError> {
    network.identity().map_err(|error| AttachError::Unreadable(error.to_string()))
}

/// The card as a device.
#[derive(Debug)]
pub struct Net {
    origin: Origin,
    journal: Journal,
    /// Frames that wait for buffers of the guest.
    waiting: VecDeque<Vec<u8>>,
    /// The time at which the network acts by itself.
    timer: Option<Ticks>,
    /// The number of frames that have come from the network.
    arrived: u64,
    dropped: u64,
}

#[derive(Debug)]
enum Origin {
    Here(Arc<dyn Network>, Box<dyn World>),
    /// The identity of the network that a snapshot refers to.
    Named(String),
}

impl Net {
    /// A card that the guest has not used.
    pub fn new(card: Card) -> Net {
        let world = card.network.world();
        let origin = Origin::Here(card.network, world);
        Net { origin, journal: Journal::new(), waiting: VecDeque::new(), timer: None, arrived: 0, dropped: 0 }
    }

    /// Whether a card could be in this state before the time `last`. A damaged snapshot may hold another state.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.journal.is_sound(last) && self.waiting.len() <= MOST_WAITING
    }

    /// Takes over the network of the card that this restored one replaces. Fails if that is another network.
    pub fn adopt(&mut self, other: &Net) -> Result<(), AttachError> {
        let Origin::Here(network, _) = &other.origin else { return Err(AttachError::Kind) };
        if self.name()? != name(&**network)? {
            return Err(AttachError::Contents);
        }
        let (mut world, mut timer) = (network.world(), None);
        world.repeats(true);
        for (at, frame) in self.journal.steps() {
            world.step(nanoseconds(at), frame);
            timer = next(&*world, at);
        }
        world.repeats(false);
        self.timer = timer;
        self.origin = Origin::Here(network.clone(), world);
        Ok(())
    }

    fn name(&self) -> Result<String, AttachError> {
        match &self.origin {
            Origin::Here(network, _) => name(&**network),
            Origin::Named(name) => Ok(name.clone()),
        }
    }

    /// Begins anew: the driver has reset the card.
    pub fn reset(&mut self) {
        if let Origin::Here(_, world) = &mut self.origin {
            world.begin_anew();
        }
        (self.journal, self.timer) = (Journal::new(), None);
        self.waiting.clear();
    }

    /// The feature bits.
    pub fn features(&self) -> u64 {
        HAS_ADDRESS
    }

    /// The configuration space: the address, the state of the link, the number of pairs of queues, the MTU.
    pub fn configuration(&self) -> Vec<u8> {
        [&ADDRESS[..], &1u16.to_le_bytes(), &1u16.to_le_bytes(), &(MTU as u16).to_le_bytes()].concat()
    }

    /// The time at which the network acts by itself.
    pub fn timer(&self) -> Option<Ticks> {
        self.timer
    }

    /// The number of frames that have come from the network.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// The number of frames that were dropped: the guest's that are too long, too short or not in RAM, and those for which it
    /// had no room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether a frame waits for the guest.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Lets the network act by itself, if its time has come.
    pub fn pass_time(&mut self, now: Ticks) {
        if self.timer.is_some_and(|due| due <= now) {
            self.step(now, None);
        }
    }

    /// Takes a frame from the guest.
    pub fn send(&mut self, chain: &Chain, memory: &mut dyn Memory, now: Ticks) {
        let mut frame = [0; LONGEST_FRAME];
        let given = chain.readable.bytes().checked_sub(HEADER_BYTES as u64).and_then(|bytes| usize::try_from(bytes).ok());
        let frame = given.filter(|bytes| *bytes >= ETHERNET_BYTES).and_then(|bytes| frame.get_mut(..bytes));
        let frame = frame.and_then(|frame| {
            chain.readable.read(memory, HEADER_BYTES as u64, frame).ok()?;
            Some(&*frame)
        });
        match frame {
            Some(frame) => self.step(now, Some(frame)),
            None => self.dropped += 1,
        }
    }

    /// Brings a frame to the guest. Returns the number of bytes written to its buffers. A frame without room is dropped.
    pub fn receive(&mut self, chain: &Chain, memory: &mut dyn Memory) -> u32 {
        let Some(frame) = self.waiting.pop_front() else { return 0 };
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[BUFFERS_AT] = 1;
        bytes.extend(frame);
        match chain.writable.write(memory, 0, &bytes) {
            Ok(()) => bytes.len() as u32,
            Err(_) => {
                self.dropped += 1;
                0
            }
        }
    }

    fn step(&mut self, now: Ticks, frame: Option<&[u8]>) {
        let Origin::Here(_, world) = &mut self.origin else { return };
        self.journal.note(now, frame);
        let answers = world.step(nanoseconds(now), frame);
        self.timer = next(&**world, now);
        if (self.journal.is_long() || world.was_reached()) && world.is_at_rest() {
            world.begin_anew();
            (self.journal, self.timer) = (Journal::new(), None);
        }
        for answer in answers {
            self.arrived += 1;
            if self.waiting.len() < MOST_WAITING && answer.len() <= LONGEST_FRAME {
                self.waiting.push_back(answer);
            } else {
                self.dropped += 1;
            }
        }
    }
}

/// The time at which a world acts by itself, behind a step at `now`.
fn next(world: &dyn World, now: Ticks) -> Option<Ticks> {
    world.next().map(|next| ticks(next).max(now.saturating_add(ticks(LATENCY_NANOSECONDS))))
}

/// The form in a snapshot.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    network: String,
    journal: String,
    waiting: String,
    arrived: u64,
    dropped: u64,
}

impl Serialize for Net {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let too_long = "a snapshot cannot be made while the guest has network connections over which it has sent this much";
        let mut waiting = Journal::new();
        self.waiting.iter().for_each(|frame| waiting.note(0, Some(frame)));
        let network = self.name().map_err(S::Error::custom)?;
        let text = |journal: &Journal| journal.text().ok_or_else(|| S::Error::custom(too_long));
        let (journal, waiting) = (text(&self.journal)?, text(&waiting)?);
        Saved { network, journal, waiting, arrived: self.arrived, dropped: self.dropped }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Net {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Net, D::Error> {
        let Saved { network, journal, waiting, arrived, dropped } = Saved::deserialize(deserializer)?;
        let read = |text: &str| Journal::from_text(text).ok_or_else(|| D::Error::custom("the frames of a network are damaged"));
        let (journal, waiting) = (read(&journal)?, read(&waiting)?);
        if !waiting.is_sound(1) {
            return Err(D::Error::custom("the frames that wait for a network card are damaged"));
        }
        let waiting = waiting.steps().filter_map(|(_, frame)| frame.map(<[u8]>::to_vec)).collect();
        Ok(Net { origin: Origin::Named(network), journal, waiting, timer: None, arrived, dropped })
    }
}

#[cfg(test)]
mod tests;
