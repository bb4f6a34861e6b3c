//! The instructions for channels and their devices: the subchannel instructions, TPI, CHSC, and the hypervisor call by which
//! drivers of virtio devices notify them. The subchannels themselves are the board's (`devices/channels.rs`).

use super::left::{Doing, Not};
use super::state::PREFIX;
use super::trap;
use crate::boards::s390ccw::{BAD_OPERAND, IRB_WORDS, ORB_WORDS, SCHIB_WORDS, call, channels};
use trapline_isa::s390::abi::{CC, r};

/// Operand exception: the subsystem-identification word or a block is invalid.
const OPERAND: u32 = 0x15;
const SPECIFICATION: u32 = 6;

/// The offset in the lowcore of the description of an I/O interruption.
pub const INTERRUPTION: u64 = 0xb8;
/// The position of the subclass in the interruption-identification word.
pub const CLASS_SHIFT: u32 = 27;

/// CHSC's response block: unknown command.
const NO_SUCH_COMMAND: [u8; 8] = [0, 8, 0, 4, 0, 0, 0, 0];

/// The hypervisor call that notifies a virtio device.
const NOTIFY: u64 = 3;

impl Doing<'_> {
    /// Executes a channel instruction.
    pub(super) fn channel(&mut self, code: u16) -> Result<(), Not> {
        let subchannels = self.ask(&[call::SUBCHANNELS]).first().copied().unwrap_or(0);
        if subchannels == 0 {
            return self.without_channels(code);
        }
        match u64::from(code) {
            channels::CLEAR | channels::HALT | channels::RESUME | channels::CANCEL => self.at_subchannel(code, &[], 0),
            channels::MODIFY => {
                let block = self.words(SCHIB_WORDS)?;
                self.at_subchannel(code, &block, 0)
            }
            channels::START => {
                let request = self.words(ORB_WORDS)?;
                self.at_subchannel(code, &request, 0)
            }
            channels::STORE => self.at_subchannel(code, &[], SCHIB_WORDS),
            channels::TEST => self.at_subchannel(code, &[], IRB_WORDS),
            call::INTERRUPTION => self.test_pending(),
            _ => self.without_channels(code),
        }
    }

    /// Executes a channel instruction on a machine without channels, or one that has no effect.
    fn without_channels(&mut self, code: u16) -> Result<(), Not> {
        match code {
            // TPI, STCRW: nothing is pending. SAL, SCHM, STCPS: accepted without an effect.
            0xb236 => self.set(CC, 0),
            0xb239 => {
                self.store(self.operand(), &[0; 4])?;
                self.set(CC, 1);
            }
            0xb23a => self.store(self.operand(), &[0; 4])?,
            0xb237 | 0xb23c => {}
            0xb25f => {
                let block = self.general(self.bytes[3] >> 4);
                let mut length = [0; 2];
                self.read(block, &mut length)?;
                self.store(block.wrapping_add(u16::from_be_bytes(length).into()), &NO_SUCH_COMMAND)?;
                self.set(CC, 0);
            }
            _ => self.set(CC, 3),
        }
        Ok(())
    }

    /// Executes an instruction on the subchannel in register 1, and stores the words of its result. The subchannel changes
    /// only if they can be stored.
    fn at_subchannel(&mut self, code: u16, operand: &[u64], result: usize) -> Result<(), Not> {
        let place = self.operand();
        if result > 0 {
            self.is_whole(place)?;
            self.can_store(place, 4 * result)?;
        }
        let arguments = [&[code.into(), self.general(1)], operand].concat();
        let answer = self.ask(&arguments);
        let (code, words) = answer.split_first().map_or((3, &[][..]), |(code, words)| (*code, words));
        if code == BAD_OPERAND {
            return Err(Not::Raises(OPERAND));
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| (*word as u32).to_be_bytes()).collect();
        if code < 3 && !bytes.is_empty() {
            self.store(place, &bytes)?;
        }
        self.set(CC, code.min(3));
        Ok(())
    }

    /// TPI: takes a pending interruption whose subclass is enabled. An operand address of 0 means the lowcore.
    fn test_pending(&mut self) -> Result<(), Not> {
        let place = self.operand();
        self.is_whole(place)?;
        if place != 0 {
            self.can_store(place, 8)?;
        }
        let answer = self.ask(&[call::INTERRUPTION, trap::enabled_classes(&self.handle).into()]);
        let [identifier, parameter, class] = *answer else {
            self.set(CC, 0);
            return Ok(());
        };
        let words = [identifier as u32, parameter as u32, (class as u32) << CLASS_SHIFT].map(u32::to_be_bytes).concat();
        if place == 0 {
            self.ram.write(self.handle.live64(PREFIX) + INTERRUPTION, &words);
        } else {
            self.store(place, &words[..8])?;
        }
        self.set(CC, 1);
        Ok(())
    }

    /// DIAGNOSE 0x500, a hypervisor call: notifies a virtio device. The result is a token of the host, or an error number.
    pub(super) fn hypervisor(&mut self) -> Result<(), Not> {
        const NO_SUCH_QUEUE: i64 = -22;
        let subchannels = self.ask(&[call::SUBCHANNELS]).first().copied().unwrap_or(0);
        if subchannels == 0 || self.general(1) != NOTIFY {
            return Err(Not::Raises(SPECIFICATION));
        }
        let answer = self.ask(&[call::NOTIFY, self.general(2), self.general(3)]);
        let is_done = answer.first().is_some_and(|code| *code == 0);
        self.set(r(2), if is_done { 0 } else { NO_SUCH_QUEUE as u64 });
        Ok(())
    }

    /// The words of the first storage operand.
    fn words(&mut self, count: usize) -> Result<Vec<u64>, Not> {
        let place = self.operand();
        self.is_whole(place)?;
        let mut bytes = [0; 4 * SCHIB_WORDS];
        let block = bytes.get_mut(..4 * count).unwrap_or_default();
        self.read(place, block)?;
        Ok(block.chunks_exact(4).map(|word| word.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))).collect())
    }

    /// Raises a specification exception for an address that is no multiple of a word's length.
    fn is_whole(&self, place: u64) -> Result<(), Not> {
        if place.is_multiple_of(4) { Ok(()) } else { Err(Not::Raises(SPECIFICATION)) }
    }
}
