//! The PL011 serial port, the console of the `virt` board.
//!
//! Output leaves at once, so there is always room to send. Input waits on a [`Wire`] until the guest's driver listens
//! (ARM DDI 0183G).

use super::console::Console;
use super::wire::Wire;
use crate::clock::Ticks;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

const DATA: u64 = 0x00;
const FLAGS: u64 = 0x18;
const LOW_POWER: u64 = 0x20;
const DIVISOR: u64 = 0x24;
const DIVISOR_FRACTION: u64 = 0x28;
const LINE_CONTROL: u64 = 0x2c;
const CONTROL: u64 = 0x30;
const FIFO_LEVELS: u64 = 0x34;
const INTERRUPT_MASK: u64 = 0x38;
const RAW_STATUS: u64 = 0x3c;
const MASKED_STATUS: u64 = 0x40;
const INTERRUPT_CLEAR: u64 = 0x44;
const IDENTITY: u64 = 0xfe0;

const FLAG_NOTHING_RECEIVED: u32 = 1 << 4;
const FLAG_ALL_SENT: u32 = 1 << 7;

const RECEIVED: u32 = 1 << 4;
const SENT: u32 = 1 << 5;
/// The receive timeout interrupt.
const WAITED: u32 = 1 << 6;
const INTERRUPTS: u32 = 0x7ff;

const LINE_CONTROL_FIFO: u32 = 1 << 4;
/// FIFO depth of this revision.
const FIFO_DEPTH: usize = 16;

const CONTROL_ON: u32 = 1;
const CONTROL_RECEIVES: u32 = 1 << 9;
/// Value after reset: receiver and transmitter enabled, the port itself off.
const CONTROL_AT_RESET: u32 = CONTROL_RECEIVES | 1 << 8;
const FIFO_LEVELS_AT_RESET: u32 = 0x12;

/// Identification: ARM PL011 revision 1, and the PrimeCell id.
const IDENTITIES: [u8; 8] = [0x11, 0x10, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

/// The port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pl011 {
    /// Registers that only store their value: offset, implemented bits, value.
    kept: [(u64, u32, u32); 6],
    mask: u32,
    /// Whether the transmit interrupt was set by sending and not cleared yet.
    sent_status: bool,
    received: VecDeque<u8>,
    wire: Wire,
    sent: Vec<u8>,
}

impl Default for Pl011 {
    fn default() -> Pl011 {
        let kept = [
            (LOW_POWER, 0xff, 0),
            (DIVISOR, 0xffff, 0),
            (DIVISOR_FRACTION, 0x3f, 0),
            (LINE_CONTROL, 0xff, 0),
            (CONTROL, 0xff87, CONTROL_AT_RESET),
            (FIFO_LEVELS, 0x3f, FIFO_LEVELS_AT_RESET),
        ];
        Pl011 { kept, mask: 0, sent_status: false, received: VecDeque::new(), wire: Wire::default(), sent: Vec::new() }
    }
}

impl Pl011 {
    /// Whether the port, as read from a snapshot, could be in this state.
    pub fn is_sound(&self) -> bool {
        let usual = Pl011::default().kept;
        let is_known = |((at, bits, value), (known, may, _)): (&(u64, u32, u32), &(u64, u32, u32))| {
            (at, bits) == (known, may) && value & !bits == 0
        };
        self.kept.iter().zip(&usual).all(is_known)
    }

    /// A read of a register.
    pub fn read(&mut self, offset: u64) -> u32 {
        match offset {
            DATA => self.received.pop_front().unwrap_or(0).into(),
            FLAGS => FLAG_ALL_SENT | if self.received.is_empty() { FLAG_NOTHING_RECEIVED } else { 0 },
            INTERRUPT_MASK => self.mask,
            RAW_STATUS => self.status(),
            MASKED_STATUS => self.status() & self.mask,
            IDENTITY.. => IDENTITIES.get((offset - IDENTITY) as usize / 4).copied().unwrap_or(0).into(),
            _ => self.kept(offset),
        }
    }

    fn kept(&self, offset: u64) -> u32 {
        self.kept.iter().find(|(register, ..)| *register == offset).map_or(0, |(.., value)| *value)
    }

    /// A write to a register.
    pub fn write(&mut self, offset: u64, value: u32) {
        match offset {
            DATA => {
                self.sent.push(value as u8);
                self.sent_status = true;
            }
            INTERRUPT_MASK => self.mask = value & INTERRUPTS,
            INTERRUPT_CLEAR => self.sent_status &= value & SENT == 0,
            _ => {
                if let Some((_, bits, kept)) = self.kept.iter_mut().find(|(register, ..)| *register == offset) {
                    *kept = value & *bits;
                }
            }
        }
    }

    /// The level of the interrupt line.
    pub fn line(&self) -> bool {
        self.status() & self.mask != 0
    }

    /// Receives the bytes whose time has come.
    pub fn advance(&mut self, now: Ticks) {
        while self.takes_bytes()
            && let Some(byte) = self.wire.take(now)
        {
            self.received.push_back(byte);
        }
    }

    /// The time at which the next byte arrives, if the guest listens.
    pub fn next(&self) -> Option<Ticks> {
        self.wire.next().filter(|_| self.takes_bytes())
    }

    /// Whether the guest listens. It does when the receive interrupt is enabled, as by a driver when the port is
    /// opened. A driver would discard earlier bytes.
    fn takes_bytes(&self) -> bool {
        const ON: u32 = CONTROL_ON | CONTROL_RECEIVES;
        let depth = if self.kept(LINE_CONTROL) & LINE_CONTROL_FIFO != 0 { FIFO_DEPTH } else { 1 };
        self.mask & (RECEIVED | WAITED) != 0 && self.kept(CONTROL) & ON == ON && self.received.len() < depth
    }

    /// The raw interrupt status. Received bytes keep their interrupt until they are read.
    fn status(&self) -> u32 {
        let received = if self.received.is_empty() { 0 } else { RECEIVED | WAITED };
        received | if self.sent_status { SENT } else { 0 }
    }
}

impl Console for Pl011 {
    fn sent(&mut self) -> &mut Vec<u8> {
        &mut self.sent
    }

    fn typed(&mut self) -> Option<&mut Wire> {
        Some(&mut self.wire)
    }

    fn taken(&self) -> usize {
        self.received.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sending_interrupts_until_the_interrupt_is_cleared() {
        let mut port = Pl011::default();
        port.write(DATA, u32::from(b'a'));
        assert_eq!((port.line(), port.read(RAW_STATUS), port.read(FLAGS)), (false, SENT, 0x90));
        port.write(INTERRUPT_MASK, SENT);
        assert_eq!((port.line(), port.read(MASKED_STATUS), port.take_sent()), (true, SENT, b"a".to_vec()));
        port.write(INTERRUPT_CLEAR, SENT);
        assert_eq!((port.line(), port.read(RAW_STATUS), port.take_sent()), (false, 0, vec![]));
    }

    #[test]
    fn received_bytes_interrupt_until_they_are_read() {
        let mut port = listening();
        port.receive(b"hi");
        let second = Wire::pace();
        port.advance(second);
        assert_eq!((port.line(), port.read(FLAGS), port.read(MASKED_STATUS)), (true, 0x80, RECEIVED | WAITED));
        port.advance(2 * second);
        port.write(INTERRUPT_CLEAR, INTERRUPTS);
        let read = [(); 3].map(|()| (port.read(DATA), port.line()));
        assert_eq!(read, [(b'h'.into(), true), (b'i'.into(), false), (0, false)]);
    }

    /// A port that is on, with FIFO, and with the receive interrupt enabled.
    fn listening() -> Pl011 {
        let mut port = Pl011::default();
        for (register, value) in [(LINE_CONTROL, LINE_CONTROL_FIFO), (CONTROL, 0x301), (INTERRUPT_MASK, RECEIVED | WAITED)] {
            port.write(register, value);
        }
        port
    }

    #[test]
    fn input_waits_until_the_guest_listens_and_has_room() {
        type Writes = &'static [(u64, u32)];
        #[rustfmt::skip]
        let cases: [(&str, Writes, usize); 5] = [
            ("a guest that listens",            &[],                                16),
            ("one byte at a time",              &[(LINE_CONTROL, 0)],               1),
            ("a port that is off",              &[(CONTROL, 0x300)],                0),
            ("one that does not receive",       &[(CONTROL, 0x101)],                0),
            ("a masked interrupt",              &[(INTERRUPT_MASK, SENT)],          0),
        ];
        const TYPED: usize = 20;
        for (what, writes, taken) in cases {
            let mut port = listening();
            writes.iter().for_each(|(register, value)| port.write(*register, *value));
            port.receive(&[b'x'; TYPED]);
            assert_eq!(port.next().is_some(), taken > 0, "{what}");
            (1..=TYPED as u64).for_each(|number| port.advance(number * Wire::pace()));
            assert_eq!((port.received.len(), port.unread(), port.next()), (taken, TYPED, None), "{what}");
        }
    }

    #[test]
    fn registers_store_their_implemented_bits() {
        #[rustfmt::skip]
        let cases = [
            // register         at reset  written       read
            (DIVISOR,           0,        0xffff_ffff,  0xffff),
            (DIVISOR_FRACTION,  0,        0xffff_ffff,  0x3f),
            (LINE_CONTROL,      0,        0x70,         0x70),
            (CONTROL,           0x300,    0x301,        0x301),
            (FIFO_LEVELS,       0x12,     0,            0),
            (INTERRUPT_MASK,    0,        0xffff_ffff,  0x7ff),
            (IDENTITY + 4,      0x10,     0xff,         0x10),
            (0x100,             0,        0xff,         0),
        ];
        for (register, before, written, after) in cases {
            let mut port = Pl011::default();
            assert_eq!(port.read(register), before, "{register:#x} at reset");
            port.write(register, written);
            assert_eq!(port.read(register), after, "{register:#x}");
        }
    }

    /// Linux identifies the device by these registers.
    #[test]
    fn identification_registers_can_be_read() {
        let mut port = Pl011::default();
        let identity = (0..4).fold(0, |id, byte| id | port.read(IDENTITY + 4 * byte) << (8 * byte));
        assert_eq!(identity & 0x000f_ffff, 0x0004_1011);
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((0u8..4, 0u64..0x1100, any::<u32>()), 0..300)) {
            let mut port = Pl011::default();
            for (what, offset, value) in accesses {
                let offset = if value % 3 == 0 { offset } else { offset & 0x7c };
                match what {
                    0 | 1 => port.write(offset, value),
                    2 => { port.read(offset); }
                    _ => port.receive(&value.to_le_bytes()),
                }
                port.advance(value.into());
                port.line();
            }
        }
    }
}
