//! A subchannel: the guest's handle of a device on a channel (Principles of Operation, chapters 14 to 16). Functions are
//! performed at once, so no subchannel is ever busy; it is status pending until TSCH has stored its status.
//!
//! The methods are named for what the instructions do, and return condition codes.

use super::super::{AttachError, Attached};
use super::program::{self, Start, UNIT_CHECK};
use super::unit::Unit;
use crate::clock::Ticks;
use serde::{Deserialize, Serialize};
use trapline_isa::mem::Memory;

/// The words of a subchannel-information block (SCHIB).
pub const SCHIB_WORDS: usize = 13;
/// The words of an operation-request block (ORB).
pub const ORB_WORDS: usize = 8;
/// The words of an interruption-response block (IRB).
pub const IRB_WORDS: usize = 16;

// Condition codes.
const DONE: u64 = 0;
const STATUS_IS_PENDING: u64 = 1;
const NOTHING_TO_STOP: u64 = 2;
/// The condition code if there is no such subchannel, or it is not enabled.
pub const NOT_OPERATIONAL: u64 = 3;

// The first half of the second word of a SCHIB.
const ENABLED: u32 = 0x80 << 16;
const DEVICE_NUMBER_VALID: u32 = 1 << 16;
const CLASS_SHIFT: u32 = 27;
const CLASS: u32 = 7 << CLASS_SHIFT;
const RESERVED_FLAGS: u32 = 0x0700 << 16;
/// Both limits of addresses, which exclude each other.
const BOTH_LIMITS: u32 = 0x60 << 16;
/// The flags that a guest may set: class, enabled, limit mode, measurement modes, multipath mode.
const FLAGS: u32 = 0x38fc << 16;

// The seventh word.
const CONCURRENT_SENSE: u32 = 1;
const EXTENDED_MEASUREMENT: u32 = 2;
const CHARACTERISTICS: u32 = 4 | CONCURRENT_SENSE;
const RESERVED_CHARACTERISTICS: u32 = 0xff1f_fff8;

/// The only channel path: the first of eight.
const PATH: u32 = 0x80;

// The control word of the status (SCSW).
const STATUS_PENDING: u32 = 0x01;
const SECONDARY: u32 = 0x02;
const PRIMARY: u32 = 0x04;
const ALERT: u32 = 0x10;
const CLEAR: u32 = 0x1000;
const HALT: u32 = 0x2000;
const START: u32 = 0x4000;
const EXTENDED_CONTROL: u32 = 1 << 17;
const EXTENDED_STATUS: u32 = 1 << 26;
/// The settings that the status repeats from the request: key, suspension, format, prefetch and others.
const REPEATED: u32 = 0xf8f8_0000;

// The second word of a request.
const FORMAT_1: u32 = 1 << 23;
const TRANSPORT_MODE: u32 = 1 << 18;
const RESERVED_REQUEST: u32 = 0x3e;

/// The extended-report word of sense data that are in the IRB.
const SENSE_IS_HERE: u32 = 1 << 24 | (super::unit::SENSE_BYTES as u32) << 16;

/// The operand is invalid: the CPU raises an operand exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOperand;

/// An interruption that is pending at a subchannel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// The interruption subclass, 0 to 7.
    pub class: u8,
    /// The word that the guest gave to the subchannel.
    pub parameter: u32,
}

/// A subchannel with its device.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subchannel {
    unit: Unit,
    device_number: u16,
    parameter: u32,
    flags: u32,
    path_mask: u8,
    operational_paths: u8,
    last_path: u8,
    measurement_index: u16,
    measurement_block: u64,
    characteristics: u32,
    /// The subchannel-status word.
    status: [u32; 3],
    /// Whether an interruption is pending.
    asks: bool,
}

impl Subchannel {
    /// A subchannel after a reset.
    pub fn new(attached: &Attached, device_number: u16) -> Subchannel {
        Subchannel {
            unit: Unit::new(attached),
            device_number,
            parameter: 0,
            flags: 0,
            path_mask: PATH as u8,
            operational_paths: 0xff,
            last_path: 0,
            measurement_index: 0,
            measurement_block: 0,
            characteristics: 0,
            status: [0; 3],
            asks: false,
        }
    }

    /// Whether a subchannel could be in this state before the time `last`. A damaged snapshot may hold another state.
    pub fn is_sound(&self, last: Ticks) -> bool {
        self.unit.is_sound(last) && self.flags & !FLAGS == 0 && self.characteristics & !CHARACTERISTICS == 0
    }

    /// Takes over the host's side of the device that this restored one replaces. Fails if that is another device.
    pub fn adopt(&mut self, other: &Subchannel) -> Result<(), AttachError> {
        self.unit.adopt(&other.unit)
    }

    /// The device.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// Like [`Subchannel::unit`], to be changed.
    pub fn unit_mut(&mut self) -> &mut Unit {
        &mut self.unit
    }

    fn is_enabled(&self) -> bool {
        self.flags & ENABLED != 0
    }

    fn has_status(&self) -> bool {
        self.status[0] & STATUS_PENDING != 0
    }

    /// The pending interruption.
    pub fn interruption(&self) -> Option<Interruption> {
        let class = ((self.flags & CLASS) >> CLASS_SHIFT) as u8;
        self.asks.then_some(Interruption { class, parameter: self.parameter })
    }

    /// A CPU has taken the interruption. The status stays.
    pub fn clear_interruption(&mut self) {
        self.asks = false;
    }

    /// STSCH: the subchannel-information block.
    pub fn block(&self) -> [u32; SCHIB_WORDS] {
        let flags = self.flags | DEVICE_NUMBER_VALID | u32::from(self.device_number);
        let paths = u32::from(self.path_mask) << 24 | u32::from(self.last_path) << 8 | PATH;
        let available = u32::from(self.measurement_index) << 16 | u32::from(self.operational_paths) << 8 | PATH;
        let [control, address, ends] = self.status;
        let (high, low) = ((self.measurement_block >> 32) as u32, self.measurement_block as u32);
        [self.parameter, flags, paths, available, 0, 0, self.characteristics, control, address, ends, high, low, 0]
    }

    /// MSCH: sets the modifiable part of the subchannel-information block.
    pub fn modify(&mut self, block: &[u32; SCHIB_WORDS]) -> Result<u64, BadOperand> {
        let [parameter, flags, paths, available, _, _, characteristics, _, _, _, high, low, _] = *block;
        let is_reserved = flags & RESERVED_FLAGS != 0 || flags & BOTH_LIMITS == BOTH_LIMITS;
        if is_reserved || characteristics & (RESERVED_CHARACTERISTICS | EXTENDED_MEASUREMENT) != 0 {
            return Err(BadOperand);
        }
        if self.has_status() {
            return Ok(STATUS_IS_PENDING);
        }
        self.parameter = parameter;
        self.flags = flags & FLAGS;
        self.path_mask = (paths >> 24) as u8;
        self.measurement_index = (available >> 16) as u16;
        self.operational_paths = (available >> 8) as u8;
        self.characteristics = characteristics & CHARACTERISTICS;
        self.measurement_block = u64::from(high) << 32 | u64::from(low);
        Ok(DONE)
    }

    /// SSCH: runs a channel program.
    pub fn start(&mut self, request: &[u32; ORB_WORDS], memory: &mut dyn Memory) -> Result<u64, BadOperand> {
        let [parameter, settings, address, ..] = *request;
        if settings & (RESERVED_REQUEST | TRANSPORT_MODE) != 0 || address >> 31 != 0 {
            return Err(BadOperand);
        }
        if !self.is_enabled() {
            return Ok(NOT_OPERATIONAL);
        }
        if self.has_status() {
            return Ok(STATUS_IS_PENDING);
        }
        if settings >> 8 & PATH & u32::from(self.path_mask) == 0 {
            return Ok(NOT_OPERATIONAL);
        }
        self.parameter = parameter;
        self.last_path = PATH as u8;
        let ended = program::run(Start { address, is_format_1: settings & FORMAT_1 != 0 }, &mut self.unit, memory);
        let ends = u32::from_be_bytes([ended.device, ended.channel, 0, 0]) | u32::from(ended.rest);
        let is_wrong = ended.device & UNIT_CHECK != 0 || ended.channel != 0;
        let control = settings & REPEATED | START | if is_wrong { ALERT } else { 0 } | PRIMARY | SECONDARY;
        self.present([control, ended.address, ends]);
        Ok(DONE)
    }

    /// HSCH: halts the device, which does nothing.
    pub fn halt(&mut self) -> u64 {
        if !self.is_enabled() {
            return NOT_OPERATIONAL;
        }
        if self.has_status() {
            return STATUS_IS_PENDING;
        }
        self.present([HALT, 0, 0]);
        DONE
    }

    /// CSCH: clears status and interruption, and presents that it has done so.
    pub fn clear(&mut self) -> u64 {
        if !self.is_enabled() {
            return NOT_OPERATIONAL;
        }
        self.present([CLEAR, 0, 0]);
        DONE
    }

    /// RSCH and XSCH: there is never a program that is suspended or has not started.
    pub fn resume_or_cancel(&self) -> u64 {
        match () {
            () if !self.is_enabled() => NOT_OPERATIONAL,
            () if self.has_status() => STATUS_IS_PENDING,
            () => NOTHING_TO_STOP,
        }
    }

    /// TSCH: the interruption-response block. Clears a pending status.
    pub fn test(&mut self) -> (u64, [u32; IRB_WORDS]) {
        let mut block = [0; IRB_WORDS];
        if !self.is_enabled() {
            return (NOT_OPERATIONAL, block);
        }
        block[..3].copy_from_slice(&self.status);
        if !self.has_status() {
            return (STATUS_IS_PENDING, block);
        }
        let [device, ..] = self.status[2].to_be_bytes();
        if device & UNIT_CHECK != 0 && self.characteristics & CONCURRENT_SENSE != 0 {
            block[0] |= EXTENDED_STATUS | EXTENDED_CONTROL;
            block[4] = SENSE_IS_HERE;
            for (word, bytes) in block[8..].iter_mut().zip(self.unit.take_sense().chunks_exact(4)) {
                *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
            }
        }
        self.status = [0; 3];
        self.asks = false;
        (DONE, block)
    }

    /// Handles the device's requests whose time has come. The guest is interrupted if its indicators were set.
    pub fn serve(&mut self, now: Ticks, memory: &mut dyn Memory) {
        if self.unit.serve(now, memory) && self.is_enabled() && !self.has_status() {
            self.present([ALERT, 0, 0]);
        }
    }

    fn present(&mut self, [control, address, ends]: [u32; 3]) {
        self.status = [control | STATUS_PENDING, address, ends];
        self.asks = true;
    }
}
