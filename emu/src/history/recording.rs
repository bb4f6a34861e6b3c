//! The file of a recording: a head, followed by frames in the order of guest time.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `traprecd` |
//! | 4 | number of the format |
//! | .. | frames, the first one of kind `head` |
//!
//! A frame has 4 bytes with the length of its payload, 1 byte for its kind, the payload, and 4 bytes of checksum. The
//! checksum covers the frame and the checksum of the frame before; that of the first frame, the bytes before it (since
//! format 3). Numbers are little-endian.
//!
//! Each frame is written by one system call and never changed. After a crash or a kill the file ends in the middle of
//! a frame at worst. Reading stops at the first frame that is not whole or whose checksum is wrong.
//!
//! A place is the limit of virtual time at which the run had stopped: a run with the same limit stops there again.

use crate::clock::Ticks;
use crate::snapshot::LAST_TIME;
use crate::snapshot::file::Key;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use thiserror::Error;

/// The first bytes of the file.
pub const MAGIC: &[u8; 8] = b"traprecd";
/// The format number. It must be increased whenever the meaning of a frame changes, or a kind is added.
const FORMAT: u32 = 3;
/// The oldest format that can be read. It lacks commands and events of the network.
const OLDEST: u32 = 1;
/// The first format whose first checksum covers the format number.
const COVERED: u32 = 3;
const FRAMES_AT: usize = 12;
const CHECKSUM: usize = 4;
/// Bytes of a frame besides its payload.
const AROUND: usize = 4 + 1 + CHECKSUM;
/// The longest payload in bytes. Longer input is written in several frames.
const LONGEST: usize = 1 << 20;

/// The facts that a replay needs before its guest runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The machine, the guest's files and the program that recorded.
    pub key: Key,
    /// BLAKE3 of the booted guest's snapshot from which the run starts. `None` for a run from the kernel's entry.
    pub start: Option<String>,
    /// The virtual time at which the recording starts.
    pub begins: Ticks,
    /// The kernel's name on the command line.
    pub image: String,
    /// The arguments that chose the guest's other files.
    pub guest: Value,
}

/// A fingerprint of the guest's state, in parts, so that a difference can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The virtual time of the running CPU.
    pub time: Ticks,
    /// The number of the running CPU.
    pub cpu: u8,
    /// Hashes of the parts that probes cannot change, in the order of [`PARTS`].
    pub parts: [Hash; PARTS.len()],
    /// A hash of the registers of all CPUs. `None` if the run has probes, which leave traces in registers.
    pub registers: Option<Hash>,
}

/// The first bytes of a BLAKE3 hash.
pub type Hash = [u8; 8];

/// The parts of a [`Mark`] that probes cannot change.
pub const PARTS: [&str; 4] = ["the clocks of the CPUs", "the counts of events", "the console", "the devices"];

/// A frame behind the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes that were typed.
    Typed {
        /// The place.
        at: Ticks,
        /// The bytes.
        keys: Vec<u8>,
    },
    /// A command that was typed on trapline's own command line, behind Ctrl-A c.
    Asked {
        /// The place.
        at: Ticks,
        /// The text of the command.
        command: String,
    },
    /// Something came from the host's sockets to a forwarded port. The network had it earlier than the run was at this place.
    Came {
        /// The place.
        at: Ticks,
        /// The event, as the network writes it.
        event: Vec<u8>,
    },
    /// The console input ended.
    Ends {
        /// The place.
        at: Ticks,
    },
    /// A fingerprint of the guest's state.
    Mark {
        /// The place.
        at: Ticks,
        /// The fingerprint.
        mark: Mark,
    },
    /// The run ended. It is the last frame.
    End {
        /// The place.
        at: Ticks,
        /// The virtual time of the running CPU.
        time: Ticks,
        /// Whether the guest itself ended the run, by powering off, panicking or dying.
        by_guest: bool,
        /// The reason as a sentence.
        reason: String,
    },
}

impl Frame {
    /// The place of this frame.
    pub fn at(&self) -> Ticks {
        match self {
            Frame::Typed { at, .. }
            | Frame::Asked { at, .. }
            | Frame::Came { at, .. }
            | Frame::Ends { at }
            | Frame::Mark { at, .. }
            | Frame::End { at, .. } => *at,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Frame::Typed { .. } => TYPED,
            Frame::Asked { .. } => ASKED,
            Frame::Came { .. } => CAME,
            Frame::Ends { .. } => ENDS,
            Frame::Mark { .. } => MARK,
            Frame::End { .. } => END,
        }
    }

    fn payload(&self) -> Vec<u8> {
        let mut payload = self.at().to_le_bytes().to_vec();
        match self {
            Frame::Typed { keys, .. } => payload.extend(keys),
            Frame::Asked { command, .. } => payload.extend(command.as_bytes()),
            Frame::Came { event, .. } => payload.extend(event),
            Frame::Ends { .. } => {}
            Frame::Mark { mark, .. } => {
                payload.extend(mark.time.to_le_bytes());
                payload.push(mark.cpu);
                payload.extend(mark.parts.as_flattened());
                payload.extend(mark.registers.iter().flatten());
            }
            Frame::End { time, by_guest, reason, .. } => {
                payload.extend(time.to_le_bytes());
                payload.push((*by_guest).into());
                payload.extend(reason.as_bytes());
            }
        }
        payload
    }

    fn parse(kind: u8, payload: &[u8]) -> Option<Frame> {
        let mut rest = payload;
        let at = number(&mut rest).filter(|at| *at < LAST_TIME)?;
        Some(match kind {
            TYPED => Frame::Typed { at, keys: rest.to_vec() },
            ASKED => Frame::Asked { at, command: std::str::from_utf8(rest).ok()?.to_string() },
            CAME => Frame::Came { at, event: rest.to_vec() },
            ENDS if rest.is_empty() => Frame::Ends { at },
            MARK => {
                let (time, cpu) = (number(&mut rest)?, take::<1>(&mut rest)?[0]);
                let mut parts = [Hash::default(); PARTS.len()];
                for part in &mut parts {
                    *part = take(&mut rest)?;
                }
                let registers = if rest.is_empty() { None } else { Some(take(&mut rest)?) };
                if !rest.is_empty() {
                    return None;
                }
                Frame::Mark { at, mark: Mark { time, cpu, parts, registers } }
            }
            END => {
                let (time, by_guest) = (number(&mut rest)?, take::<1>(&mut rest)?[0]);
                let reason = std::str::from_utf8(rest).ok()?.to_string();
                Frame::End { at, time, by_guest: by_guest == 1, reason }
            }
            _ => return None,
        })
    }
}

const HEAD: u8 = 1;
const TYPED: u8 = 2;
const ENDS: u8 = 3;
const MARK: u8 = 4;
const END: u8 = 5;
const ASKED: u8 = 6;
const CAME: u8 = 7;

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_le_bytes)
}

type Checksum = [u8; CHECKSUM];

/// The checksum of a frame: its length, kind and payload, and the checksum before.
fn checksum(before: Checksum, frame: &[u8]) -> Checksum {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before).update(frame);
    hasher.finalize().as_bytes().first_chunk().copied().unwrap_or_default()
}

/// The checksum before the first frame.
fn first(format: u32) -> Checksum {
    if format < COVERED { Checksum::default() } else { checksum(Checksum::default(), &start(format)) }
}

/// The bytes before the frames.
fn start(format: u32) -> Vec<u8> {
    [&MAGIC[..], &format.to_le_bytes()].concat()
}

fn sealed(before: Checksum, kind: u8, payload: &[u8]) -> (Vec<u8>, Checksum) {
    let mut frame = Vec::with_capacity(payload.len() + AROUND);
    frame.extend((payload.len() as u32).to_le_bytes());
    frame.push(kind);
    frame.extend(payload);
    let sum = checksum(before, &frame);
    frame.extend(sum);
    (frame, sum)
}

/// Takes a whole frame with a right checksum from the front of the bytes.
fn unsealed<'a>(bytes: &mut &'a [u8], before: &mut Checksum) -> Option<(u8, &'a [u8])> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    if length > LONGEST {
        return None;
    }
    let (frame, rest) = bytes.split_at_checked(length + AROUND)?;
    let (frame, sum) = frame.split_last_chunk::<CHECKSUM>()?;
    let expected = checksum(*before, frame);
    if *sum != expected {
        return None;
    }
    let (kind, payload) = frame.get(4..)?.split_first()?;
    (*bytes, *before) = (rest, expected);
    Some((*kind, payload))
}

/// The reason why a file cannot be replayed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordingError {
    /// Some other file.
    #[error("it is no recording of trapline")]
    Foreign,
    /// A recording in another format.
    #[error("it is a recording in format {0}, and this trapline reads formats {OLDEST} to {FORMAT}")]
    Format(u32),
    /// A recording without a whole head.
    #[error("its head is damaged or was never written")]
    NoHead,
}

/// A recording that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The machine, the guest's files and the start of the run.
    pub head: Head,
    /// Its whole frames.
    pub frames: Vec<Frame>,
    /// The number of bytes behind the last whole frame, which cannot be used.
    pub left_over: usize,
}

impl Recording {
    /// Reads a recording up to its last whole frame.
    pub fn read(file: &[u8]) -> Result<Recording, RecordingError> {
        let (start, mut rest) = file.split_at_checked(FRAMES_AT).ok_or(RecordingError::Foreign)?;
        let (magic, format) = start.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(RecordingError::Foreign);
        }
        let format = format.first_chunk().copied().map(u32::from_le_bytes).unwrap_or_default();
        if !(OLDEST..=FORMAT).contains(&format) {
            return Err(RecordingError::Format(format));
        }
        let mut sum = first(format);
        let head = unsealed(&mut rest, &mut sum).filter(|(kind, _)| *kind == HEAD);
        let head: Head = head.and_then(|(_, payload)| serde_json::from_slice(payload).ok()).ok_or(RecordingError::NoHead)?;
        let mut recording = Recording { head, frames: Vec::new(), left_over: 0 };
        let mut reached = 0;
        loop {
            let left = rest.len();
            let frame = unsealed(&mut rest, &mut sum).and_then(|(kind, payload)| Frame::parse(kind, payload));
            // Frames are in the order of their places, and nothing follows the end.
            match frame.filter(|frame| frame.at() >= reached && !recording.has_ended()) {
                Some(frame) => {
                    reached = frame.at();
                    recording.frames.push(frame);
                }
                None => {
                    recording.left_over = left;
                    return Ok(recording);
                }
            }
        }
    }

    /// Whether the run was recorded to its end.
    pub fn has_ended(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::End { .. }))
    }

    /// The number of commands that were typed on trapline's own command line.
    pub fn commands(&self) -> usize {
        self.frames.iter().filter(|frame| matches!(frame, Frame::Asked { .. })).count()
    }

    /// The events that came from the host's sockets, in the network's own form, in the order of time.
    pub fn came(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().filter_map(|frame| match frame {
            Frame::Came { event, .. } => Some(&event[..]),
            _ => None,
        })
    }

    /// The virtual time up to which the run was recorded.
    pub fn end(&self) -> Ticks {
        match self.frames.last() {
            None => self.head.begins,
            Some(Frame::End { at, time, .. }) => *at.max(time),
            Some(frame) => frame.at(),
        }
    }
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    sum: Checksum,
    /// The place of the last frame.
    reached: Ticks,
}

impl Recorder {
    /// Creates the file and writes the head. A file of this name is replaced.
    pub fn create(path: &Path, head: &Head) -> io::Result<Recorder> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        let mut recorder = Recorder { file, sum: first(FORMAT), reached: head.begins };
        recorder.file.write_all(&start(FORMAT))?;
        recorder.append(HEAD, &serde_json::to_vec(head)?)?;
        Ok(recorder)
    }

    /// The place of the last frame. The next one may not lie before it.
    pub fn reached(&self) -> Ticks {
        self.reached
    }

    /// Appends a frame.
    pub fn write(&mut self, frame: &Frame) -> io::Result<()> {
        self.reached = frame.at();
        match frame {
            // The place takes the first bytes of a payload.
            Frame::Typed { at, keys } if keys.len() > LONGEST - 8 => {
                keys.chunks(LONGEST - 8).try_for_each(|keys| self.write(&Frame::Typed { at: *at, keys: keys.to_vec() }))
            }
            frame => self.append(frame.kind(), &frame.payload()),
        }
    }

    fn append(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        if payload.len() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a frame of the recording is too long"));
        }
        let (frame, sum) = sealed(self.sum, kind, payload);
        self.file.write_all(&frame)?;
        self.sum = sum;
        Ok(())
    }
}

/// The bytes of a recording, for tests and fuzzers: each frame with a right checksum.
#[doc(hidden)]
pub fn written(head: &[u8], frames: &[(u8, &[u8])]) -> Vec<u8> {
    written_in(FORMAT, head, frames)
}

/// Like [`written`], in this format.
fn written_in(format: u32, head: &[u8], frames: &[(u8, &[u8])]) -> Vec<u8> {
    let mut file = start(format);
    let mut before = first(format);
    for (kind, payload) in [(HEAD, head)].iter().chain(frames) {
        let (frame, sum) = sealed(before, *kind, payload);
        file.extend(frame);
        before = sum;
    }
    file
}

#[cfg(test)]
mod tests;
