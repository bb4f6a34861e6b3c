//! A virtio device as the control unit and the device behind a subchannel: the commands of virtio 1.2, section 4.3.2, and
//! those that every control unit has.

use super::super::core::{CONFIGURATION_CHANGED, USED_BUFFERS, Virtio};
use super::super::queue::MOST_DESCRIPTORS;
use super::super::{AttachError, Attached};
use super::program::{Data, Device, Done, Refused};
use crate::clock::Ticks;
use serde::{Deserialize, Serialize};
use trapline_isa::mem::Memory;

// Commands of all control units.
const NO_OPERATION: u8 = 0x03;
const SENSE: u8 = 0x04;
const SENSE_ID: u8 = 0xe4;

// Commands of virtio.
const WRITE_FEATURES: u8 = 0x11;
const READ_FEATURES: u8 = 0x12;
const SET_QUEUE: u8 = 0x13;
const WRITE_CONFIGURATION: u8 = 0x21;
const READ_CONFIGURATION: u8 = 0x22;
const WRITE_STATUS: u8 = 0x31;
const READ_QUEUE: u8 = 0x32;
const RESET: u8 = 0x33;
const SET_INDICATORS: u8 = 0x43;
const SET_CONFIGURATION_INDICATORS: u8 = 0x53;
const READ_STATUS: u8 = 0x72;
const SET_REVISION: u8 = 0x83;

/// The type of the control unit. Its model is the virtio device id.
const CONTROL_UNIT: u16 = 0x3832;
/// The revisions of the transport that a driver may choose. 0 is the legacy interface.
const REVISIONS: std::ops::RangeInclusive<u16> = 1..=2;
/// The largest configuration space. Bytes behind the device's own are 0.
const CONFIGURATION_BYTES: u64 = 256;

/// The sense byte of a command that was rejected.
const COMMAND_REJECT: u8 = 0x80;
/// The number of sense bytes.
pub const SENSE_BYTES: usize = 32;

/// The control unit.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    virtio: Virtio,
    /// The guest's address of the 64 bits by which it learns which queues have completed requests; 0 if not set.
    indicators: u64,
    /// The guest's address of the bit by which it learns of changes of the configuration; 0 if not set.
    configuration_indicators: u64,
    /// The first sense byte.
    sense: u8,
}

impl Unit {
    /// A unit after a reset.
    pub fn new(attached: &Attached) -> Unit {
        Unit { virtio: Virtio::new(attached), indicators: 0, configuration_indicators: 0, sense: 0 }
    }

    /// Whether a unit could be in this state before the time `last`. A damaged snapshot may hold another state.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.virtio.is_sound(last)
    }

    /// Takes over the host's side of the unit that this restored one replaces. Fails if that is another device.
    pub fn adopt(&mut self, other: &Unit) -> Result<(), AttachError> {
        self.virtio.adopt(&other.virtio)
    }

    /// The sense data, which are then cleared.
    pub fn take_sense(&mut self) -> [u8; SENSE_BYTES] {
        let mut bytes = [0; SENSE_BYTES];
        bytes[0] = std::mem::take(&mut self.sense);
        bytes
    }

    /// The driver has made chains available in this queue. Returns false if the device has no such queue.
    pub fn notify(&mut self, queue: u64, now: Ticks) -> bool {
        let is_there = queue < self.virtio.queues() as u64;
        if is_there {
            self.virtio.notify(queue as u32, now);
        }
        is_there
    }

    /// The time at which the device must be served.
    pub fn next(&self) -> Option<Ticks> {
        self.virtio.next()
    }

    /// Handles the requests whose time has come, and sets the guest's indicators. Returns whether it set any.
    pub fn serve(&mut self, now: Ticks, memory: &mut dyn Memory) -> bool {
        self.virtio.serve(now, memory);
        let causes = self.virtio.causes();
        self.virtio.acknowledge(causes);
        let queues = if causes & USED_BUFFERS != 0 { self.virtio.take_answered() } else { 0 };
        let changed = u64::from(causes & CONFIGURATION_CHANGED != 0);
        let by_queues = indicate(memory, self.indicators, queues);
        let by_change = indicate(memory, self.configuration_indicators, changed);
        by_queues || by_change
    }

    fn reset(&mut self) {
        self.virtio.set_status(0);
        (self.indicators, self.configuration_indicators) = (0, 0);
    }

    fn read_features(&mut self, data: &mut Data<'_>) -> Result<(), Refused> {
        let [half] = taken::<1>(data, 4)?;
        self.virtio.select_offered(half.into());
        let bits = self.virtio.offered().to_le_bytes();
        data.write(0, &bits)
    }

    fn write_features(&mut self, data: &mut Data<'_>) -> Result<(), Refused> {
        let [b0, b1, b2, b3, half] = taken::<5>(data, 0)?;
        self.virtio.select_accepted(half.into());
        self.virtio.accept(u32::from_le_bytes([b0, b1, b2, b3]));
        Ok(())
    }

    fn read_configuration(&mut self, data: &mut Data<'_>) -> Result<(), Refused> {
        let bytes = data.bytes().min(CONFIGURATION_BYTES);
        let space: Vec<u8> = (0..bytes).map(|offset| self.virtio.configuration(offset, 1) as u8).collect();
        data.write(0, &space)
    }

    /// Tells the largest size of a queue, 0 if there is no such queue.
    fn read_queue(&mut self, data: &mut Data<'_>) -> Result<(), Refused> {
        let index = u16::from_be_bytes(taken(data, 0)?);
        self.virtio.select_queue(index.into());
        let most = self.virtio.queue().map_or(0, |_| MOST_DESCRIPTORS);
        data.write(2, &most.to_be_bytes())
    }

    /// Sets a queue's addresses and its size, and enables it. Without a descriptor table it disables the queue.
    fn set_queue(&mut self, data: &mut Data<'_>) -> Result<(), Refused> {
        let block = taken::<32>(data, 0)?;
        let word = |at: usize| block[at..at + 8].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let [descriptors, numbers, available, used] = [0, 8, 16, 24].map(word);
        let (index, size) = ((numbers >> 16 & 0xffff) as u32, (numbers & 0xffff) as u32);
        self.virtio.select_queue(index);
        if self.virtio.queue().is_none() {
            return Err(Refused::Rejected);
        }
        self.virtio.set_ready(false);
        if descriptors == 0 {
            return Ok(());
        }
        let Some(queue) = self.virtio.queue_mut() else { return Err(Refused::Rejected) };
        queue.resize(size);
        if u32::from(queue.size) != size {
            return Err(Refused::Rejected);
        }
        (queue.descriptors, queue.available, queue.used) = (descriptors, available, used);
        self.virtio.set_ready(true);
        Ok(())
    }

    fn execute(&mut self, code: u8, data: &mut Data<'_>) -> Result<Done, Refused> {
        match code {
            NO_OPERATION => return Ok(Done::Immediate),
            RESET => {
                self.reset();
                return Ok(Done::Immediate);
            }
            SENSE => {
                let sense = self.take_sense();
                data.write(0, &sense)?;
            }
            SENSE_ID => {
                let [high, low] = CONTROL_UNIT.to_be_bytes();
                data.write(0, &[0xff, high, low, self.virtio.id() as u8, 0, 0, 0])?;
            }
            READ_FEATURES => self.read_features(data)?,
            WRITE_FEATURES => self.write_features(data)?,
            READ_CONFIGURATION => self.read_configuration(data)?,
            // No device has a field that the driver sets.
            WRITE_CONFIGURATION => drop(taken::<1>(data, data.bytes().saturating_sub(1))?),
            READ_STATUS => data.write(0, &[self.virtio.status()])?,
            WRITE_STATUS => {
                let [status] = taken(data, 0)?;
                if status == 0 { self.reset() } else { self.virtio.set_status(status) }
            }
            READ_QUEUE => self.read_queue(data)?,
            SET_QUEUE => self.set_queue(data)?,
            SET_INDICATORS => self.indicators = u64::from_be_bytes(taken(data, 0)?),
            SET_CONFIGURATION_INDICATORS => self.configuration_indicators = u64::from_be_bytes(taken(data, 0)?),
            SET_REVISION => {
                let [high, low, _, _] = taken(data, 0)?;
                if !REVISIONS.contains(&u16::from_be_bytes([high, low])) {
                    return Err(Refused::Rejected);
                }
            }
            _ => return Err(Refused::Rejected),
        }
        Ok(Done::Transfer)
    }
}

impl Device for Unit {
    fn command(&mut self, code: u8, data: &mut Data<'_>) -> Result<Done, Refused> {
        if code != SENSE {
            self.sense = 0;
        }
        let answer = self.execute(code, data);
        if answer == Err(Refused::Rejected) {
            self.sense = COMMAND_REJECT;
        }
        answer
    }
}

/// Data that the device reads.
fn taken<const BYTES: usize>(data: &mut Data<'_>, offset: u64) -> Result<[u8; BYTES], Refused> {
    let mut bytes = [0; BYTES];
    data.read(offset, &mut bytes)?;
    Ok(bytes)
}

/// Sets bits of a doubleword of the guest. Returns whether there were any to set, and the doubleword is in RAM.
fn indicate(memory: &mut dyn Memory, address: u64, bits: u64) -> bool {
    let mut bytes = [0; 8];
    if address == 0 || bits == 0 || memory.read(address, &mut bytes).is_err() {
        return false;
    }
    memory.write(address, &(u64::from_be_bytes(bytes) | bits).to_be_bytes()).is_ok()
}
