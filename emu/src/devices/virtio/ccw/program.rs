//! Channel programs (Principles of Operation, chapter 15): channel-command words (CCWs) in guest memory, which a
//! [`Device`] executes one after the other.
//!
//! A guest may write anything into its CCWs. A program ends after [`MOST_CCWS`] of them, and a CCW that is invalid or
//! outside of RAM ends it with a program check. Indirect addresses and suspension are not supported and end it too.

use trapline_isa::mem::{Fault, Memory};

/// The largest number of CCWs that are fetched in one program.
pub const MOST_CCWS: usize = 256;
const CCW_BYTES: u32 = 8;

// Device status.
/// The channel path is not needed any more.
pub const CHANNEL_END: u8 = 0x08;
/// The device has finished.
pub const DEVICE_END: u8 = 0x04;
/// The device has sense data.
pub const UNIT_CHECK: u8 = 0x02;

// Subchannel status.
/// The data were longer or shorter than the CCW's count.
pub const INCORRECT_LENGTH: u8 = 0x40;
/// The program is invalid.
pub const PROGRAM_CHECK: u8 = 0x20;

// CCW flags.
const CHAIN_DATA: u8 = 0x80;
const CHAIN_COMMAND: u8 = 0x40;
const SUPPRESS_LENGTH: u8 = 0x20;
const SKIP: u8 = 0x10;
/// Suspension, indirect data addresses, and modified ones.
const NOT_SUPPORTED: u8 = 0x07;

/// The code of a transfer in channel, a jump.
const TRANSFER_IN_CHANNEL: u8 = 0x08;
/// No address of a CCW or of data has this bit.
const NO_ADDRESS: u32 = 1 << 31;

/// The reason why a command was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The device does not know the command, or not with these data.
    Rejected,
    /// The data are not in RAM.
    Outside,
}

impl From<Fault> for Refused {
    fn from(_: Fault) -> Refused {
        Refused::Outside
    }
}

/// An executed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Data went to the device or came from it.
    Transfer,
    /// The command has no data, so the count has no meaning.
    Immediate,
}

/// The executor of commands.
pub trait Device {
    /// Executes a command.
    fn command(&mut self, code: u8, data: &mut Data<'_>) -> Result<Done, Refused>;
}

/// The first CCW of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its address.
    pub address: u32,
    /// Whether CCWs have format 1, with addresses of 31 bits.
    pub is_format_1: bool,
}

/// The end of a program, in the terms of the subchannel-status word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Device status.
    pub device: u8,
    /// Subchannel status.
    pub channel: u8,
    /// The address behind the last CCW.
    pub address: u32,
    /// The part of its count that was not used.
    pub rest: u16,
}

/// A CCW with its data.
#[derive(Clone, Copy, Debug)]
struct Ccw {
    code: u8,
    flags: u8,
    count: u16,
    data: u32,
    /// The address of the next CCW.
    next: u32,
}

/// The data areas of a command: those of its CCW and of those that are chained to it.
pub struct Data<'a> {
    memory: &'a mut dyn Memory,
    areas: &'a [Ccw],
    /// The end of the part that the device has used.
    used: u64,
    /// Whether the device had more data than there is room.
    is_short: bool,
}

impl Data<'_> {
    /// The number of bytes in all areas.
    pub fn bytes(&self) -> u64 {
        self.areas.iter().map(|area| u64::from(area.count)).sum()
    }

    /// Reads data for the device. Refused if the areas end before.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Refused> {
        let end = offset.saturating_add(into.len() as u64);
        if end > self.bytes() {
            return Err(Refused::Rejected);
        }
        self.used = self.used.max(end);
        let mut rest = into;
        let memory = &mut *self.memory;
        each(self.areas, offset, rest.len() as u64, |_, address, length| {
            let (part, behind) = std::mem::take(&mut rest).split_at_mut_checked(length).unwrap_or_default();
            rest = behind;
            memory.read(address, part)
        })
    }

    /// Writes data of the device, as many as there is room for.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Refused> {
        let room = self.bytes().saturating_sub(offset).min(bytes.len() as u64);
        self.is_short |= room < bytes.len() as u64;
        self.used = self.used.max(offset + room);
        let mut rest = bytes;
        let memory = &mut *self.memory;
        each(self.areas, offset, room, |area, address, length| {
            let (part, behind) = rest.split_at_checked(length).unwrap_or_default();
            rest = behind;
            if area.flags & SKIP == 0 { memory.write(address, part) } else { Ok(()) }
        })
    }
}

/// Calls `act` with each part of a range of the data: its area, its address and its length.
fn each(
    areas: &[Ccw],
    offset: u64,
    length: u64,
    mut act: impl FnMut(&Ccw, u64, usize) -> Result<(), Fault>,
) -> Result<(), Refused> {
    let (mut skipped, mut rest) = (offset, length);
    for area in areas {
        let bytes = u64::from(area.count);
        let part = bytes.saturating_sub(skipped).min(rest);
        if part > 0 {
            act(area, u64::from(area.data) + skipped, part as usize)?;
            rest -= part;
        }
        skipped = skipped.saturating_sub(bytes);
    }
    Ok(())
}

/// Runs a program to its end.
pub fn run(start: Start, device: &mut dyn Device, memory: &mut dyn Memory) -> Ended {
    let mut fetcher = Fetcher { at: start.address, is_format_1: start.is_format_1, left: MOST_CCWS, has_jumped: true };
    let checked = |at: u32| Ended { device: 0, channel: PROGRAM_CHECK, address: at.wrapping_add(CCW_BYTES), rest: 0 };
    loop {
        let Ok(areas) = fetcher.command(memory) else { return checked(fetcher.at) };
        let Some(first) = areas.first().copied() else { return checked(fetcher.at) };
        let mut data = Data { memory, areas: &areas, used: 0, is_short: false };
        let answer = device.command(first.code, &mut data);
        let (used, is_short) = (data.used, data.is_short);
        let (last, rest, has_more) = position(&areas, used);
        let ended = Ended { device: CHANNEL_END | DEVICE_END, channel: 0, address: last.next, rest };
        match answer {
            Err(Refused::Rejected) => {
                return Ended { device: ended.device | UNIT_CHECK, address: first.next, rest: first.count, ..ended };
            }
            Err(Refused::Outside) => return Ended { channel: PROGRAM_CHECK, ..ended },
            Ok(done) => {
                let differs = done == Done::Transfer && (rest > 0 || has_more || is_short);
                if differs && (last.flags & SUPPRESS_LENGTH == 0 || last.flags & CHAIN_DATA != 0) {
                    return Ended { channel: INCORRECT_LENGTH, ..ended };
                }
                if areas.last().is_none_or(|last| last.flags & CHAIN_COMMAND == 0) {
                    return ended;
                }
            }
        }
    }
}

/// The area in which the used part ends, the unused part of it, and whether an area follows.
fn position(areas: &[Ccw], used: u64) -> (Ccw, u16, bool) {
    let mut behind = used;
    for (number, area) in areas.iter().enumerate() {
        let count = u64::from(area.count);
        let is_last = number + 1 == areas.len();
        if behind <= count || is_last {
            return (*area, count.saturating_sub(behind) as u16, !is_last);
        }
        behind -= count;
    }
    (Ccw { code: 0, flags: 0, count: 0, data: 0, next: 0 }, 0, false)
}

/// A program check.
struct Invalid;

impl From<Fault> for Invalid {
    fn from(_: Fault) -> Invalid {
        Invalid
    }
}

/// Fetches a program's CCWs.
struct Fetcher {
    /// The address of the CCW that is fetched.
    at: u32,
    is_format_1: bool,
    /// The number of CCWs that may still be fetched.
    left: usize,
    /// Whether the last CCW was a transfer in channel, which must not be followed by another one. True at the start.
    has_jumped: bool,
}

impl Fetcher {
    /// Fetches a command: a CCW and those that are chained to it by their data.
    fn command(&mut self, memory: &mut dyn Memory) -> Result<Vec<Ccw>, Invalid> {
        let mut areas: Vec<Ccw> = Vec::new();
        loop {
            let is_first = areas.is_empty();
            let ccw = self.ccw(memory, is_first)?;
            if ccw.count == 0 && (!self.is_format_1 || !is_first || ccw.flags & CHAIN_DATA != 0) {
                return Err(Invalid);
            }
            areas.push(ccw);
            self.at = ccw.next;
            if ccw.flags & CHAIN_DATA == 0 {
                return Ok(areas);
            }
        }
    }

    /// Fetches the next CCW that is no transfer in channel. `at` stays at it.
    fn ccw(&mut self, memory: &mut dyn Memory, is_first: bool) -> Result<Ccw, Invalid> {
        loop {
            let limit = if self.is_format_1 { NO_ADDRESS } else { 1 << 24 };
            if self.left == 0 || !self.at.is_multiple_of(CCW_BYTES) || self.at >= limit {
                return Err(Invalid);
            }
            self.left -= 1;
            let mut bytes = [0; CCW_BYTES as usize];
            memory.read(self.at.into(), &mut bytes)?;
            let ccw = self.decoded(bytes);
            let is_jump = ccw.code & 0xf == TRANSFER_IN_CHANNEL;
            if !is_jump {
                let is_code = ccw.code & 0xf != 0 || !is_first;
                self.has_jumped = false;
                return if is_code && ccw.flags & NOT_SUPPORTED == 0 && ccw.data & NO_ADDRESS == 0 {
                    Ok(ccw)
                } else {
                    Err(Invalid)
                };
            }
            let is_plain = !self.is_format_1 || (ccw.code, ccw.flags, ccw.count) == (TRANSFER_IN_CHANNEL, 0, 0);
            if self.has_jumped || !is_plain {
                return Err(Invalid);
            }
            (self.at, self.has_jumped) = (ccw.data, true);
        }
    }

    fn decoded(&self, bytes: [u8; CCW_BYTES as usize]) -> Ccw {
        let [b0, b1, b2, b3, b4, b5, b6, b7] = bytes;
        let next = self.at.wrapping_add(CCW_BYTES);
        if self.is_format_1 {
            let (count, data) = (u16::from_be_bytes([b2, b3]), u32::from_be_bytes([b4, b5, b6, b7]));
            Ccw { code: b0, flags: b1, count, data, next }
        } else {
            let (count, data) = (u16::from_be_bytes([b6, b7]), u32::from_be_bytes([0, b1, b2, b3]));
            Ccw { code: b0, flags: b4, count, data, next }
        }
    }
}
