//! A 16550 serial port, the console of a PC.
//!
//! Output leaves at once, so the transmitter is always empty. vm-superio's `Serial` does not fit: it triggers
//! interrupts, but an 8259 needs a line level, which is computed from the registers here.

use super::console::Console;
use super::wire::Wire;
use crate::clock::Ticks;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

const DATA: u16 = 0;
const INTERRUPT_ENABLE: u16 = 1;
const INTERRUPT_IDENTITY: u16 = 2;
const LINE_CONTROL: u16 = 3;
const MODEM_CONTROL: u16 = 4;
const LINE_STATUS: u16 = 5;
const MODEM_STATUS: u16 = 6;
const SCRATCH: u16 = 7;

const ENABLE_RECEIVED: u8 = 1;
const ENABLE_EMPTY: u8 = 1 << 1;
const ENABLE_ALL: u8 = 0x0f;

const IDENTITY_NONE: u8 = 1;
const IDENTITY_EMPTY: u8 = 2;
const IDENTITY_RECEIVED: u8 = 4;
const IDENTITY_FIFO: u8 = 0xc0;

/// Receive FIFO depth.
const FIFO_DEPTH: usize = 16;

const FIFO_ENABLE: u8 = 1;
const FIFO_CLEAR_RECEIVED: u8 = 1 << 1;

const CONTROL_DIVISOR: u8 = 1 << 7;

const MODEM_DTR: u8 = 1;
const MODEM_RTS: u8 = 1 << 1;
const MODEM_OUT1: u8 = 1 << 2;
const MODEM_OUT2: u8 = 1 << 3;
const MODEM_LOOP: u8 = 1 << 4;
const MODEM_ALL: u8 = 0x1f;

const STATUS_RECEIVED: u8 = 1;
const STATUS_EMPTY: u8 = 1 << 5 | 1 << 6;

const SHOWN_CTS: u8 = 1 << 4;
const SHOWN_DSR: u8 = 1 << 5;
const SHOWN_RING: u8 = 1 << 6;
const SHOWN_CARRIER: u8 = 1 << 7;

/// The port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uart {
    enabled: u8,
    line_control: u8,
    modem_control: u8,
    scratch: u8,
    divisor: [u8; 2],
    fifo: bool,
    /// The transmitter-empty interrupt is pending and was not read yet.
    emptied: bool,
    received: VecDeque<u8>,
    wire: Wire,
    sent: Vec<u8>,
}

impl Uart {
    /// A read of a register.
    pub fn read(&mut self, offset: u16) -> u8 {
        match offset {
            DATA | INTERRUPT_ENABLE if self.shows_divisor() => self.divisor[usize::from(offset)],
            DATA => self.received.pop_front().unwrap_or(0),
            INTERRUPT_ENABLE => self.enabled,
            INTERRUPT_IDENTITY => {
                let identity = self.identity();
                if identity == IDENTITY_EMPTY {
                    self.emptied = false;
                }
                identity | if self.fifo { IDENTITY_FIFO } else { 0 }
            }
            LINE_CONTROL => self.line_control,
            MODEM_CONTROL => self.modem_control,
            LINE_STATUS => STATUS_EMPTY | if self.received.is_empty() { 0 } else { STATUS_RECEIVED },
            MODEM_STATUS => self.modem_status(),
            SCRATCH => self.scratch,
            _ => u8::MAX,
        }
    }

    /// A write to a register.
    pub fn write(&mut self, offset: u16, value: u8) {
        match offset {
            DATA | INTERRUPT_ENABLE if self.shows_divisor() => self.divisor[usize::from(offset)] = value,
            DATA => {
                match self.loops() {
                    true => self.received.push_back(value),
                    false => self.sent.push(value),
                }
                self.emptied = true;
            }
            INTERRUPT_ENABLE => {
                let new = value & ENABLE_ALL & !self.enabled;
                self.enabled = value & ENABLE_ALL;
                self.emptied |= new & ENABLE_EMPTY != 0;
            }
            INTERRUPT_IDENTITY => {
                self.fifo = value & FIFO_ENABLE != 0;
                if value & FIFO_CLEAR_RECEIVED != 0 {
                    self.received.clear();
                }
            }
            LINE_CONTROL => self.line_control = value,
            MODEM_CONTROL => self.modem_control = value & MODEM_ALL,
            SCRATCH => self.scratch = value,
            _ => {}
        }
    }

    /// The level of the interrupt line. A PC gates it by OUT2.
    pub fn line(&self) -> bool {
        self.interrupts_pass() && self.identity() != IDENTITY_NONE
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

    /// Whether the guest listens. It does when its receive interrupts reach the CPU, as after a driver has opened the
    /// port. A driver would discard earlier bytes.
    fn takes_bytes(&self) -> bool {
        let depth = if self.fifo { FIFO_DEPTH } else { 1 };
        self.enabled & ENABLE_RECEIVED != 0 && self.interrupts_pass() && self.received.len() < depth
    }

    fn interrupts_pass(&self) -> bool {
        self.modem_control & (MODEM_OUT2 | MODEM_LOOP) == MODEM_OUT2
    }

    fn shows_divisor(&self) -> bool {
        self.line_control & CONTROL_DIVISOR != 0
    }

    fn loops(&self) -> bool {
        self.modem_control & MODEM_LOOP != 0
    }

    fn identity(&self) -> u8 {
        match () {
            () if self.enabled & ENABLE_RECEIVED != 0 && !self.received.is_empty() => IDENTITY_RECEIVED,
            () if self.enabled & ENABLE_EMPTY != 0 && self.emptied => IDENTITY_EMPTY,
            () => IDENTITY_NONE,
        }
    }

    /// The modem status: a connected terminal or, in loopback mode, the port's own outputs.
    fn modem_status(&self) -> u8 {
        if !self.loops() {
            return SHOWN_CTS | SHOWN_DSR | SHOWN_CARRIER;
        }
        let wires = [(MODEM_RTS, SHOWN_CTS), (MODEM_DTR, SHOWN_DSR), (MODEM_OUT1, SHOWN_RING), (MODEM_OUT2, SHOWN_CARRIER)];
        wires.iter().filter(|(from, _)| self.modem_control & from != 0).fold(0, |shown, (_, to)| shown | to)
    }
}

impl Console for Uart {
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

    /// Linux's driver detects the port by this loopback test.
    #[test]
    fn loopback_shows_the_ports_own_outputs() {
        let mut uart = Uart::default();
        uart.write(MODEM_CONTROL, MODEM_LOOP | 0x0a);
        assert_eq!(uart.read(MODEM_STATUS) & 0xf0, 0x90);
        uart.write(DATA, b'x');
        assert_eq!((uart.read(DATA), uart.take_sent()), (b'x', vec![]), "nothing leaves a port in its loop");
        uart.write(MODEM_CONTROL, 0);
        assert_eq!(uart.read(MODEM_STATUS) & 0xf0, 0xb0);
        uart.write(INTERRUPT_IDENTITY, FIFO_ENABLE);
        assert_eq!(uart.read(INTERRUPT_IDENTITY), 0xc1, "a 16550A");
    }

    #[test]
    fn an_empty_transmitter_interrupts_once_per_write_and_enable() {
        let mut uart = Uart::default();
        uart.write(MODEM_CONTROL, MODEM_OUT2);
        assert!(!uart.line());
        uart.write(INTERRUPT_ENABLE, ENABLE_EMPTY);
        assert!(uart.line(), "enabling it is enough");
        assert_eq!((uart.read(INTERRUPT_IDENTITY), uart.line()), (IDENTITY_EMPTY, false), "looking takes it back");
        uart.write(DATA, b'a');
        assert!(uart.line());
        assert_eq!(uart.take_sent(), b"a");
    }

    #[test]
    fn received_bytes_interrupt_until_they_are_read() {
        let mut uart = Uart::default();
        uart.write(MODEM_CONTROL, MODEM_OUT2);
        uart.write(INTERRUPT_ENABLE, ENABLE_RECEIVED);
        uart.receive(b"hi");
        assert!(!uart.line() && uart.next() == Some(0));
        uart.advance(0);
        assert_eq!(uart.next(), None, "without its buffer the port holds one byte");
        uart.write(INTERRUPT_IDENTITY, FIFO_ENABLE);
        let second = uart.next().expect("it holds more with it");
        uart.advance(second);
        uart.write(INTERRUPT_IDENTITY, 0);
        assert_eq!((uart.line(), uart.read(INTERRUPT_IDENTITY), uart.read(LINE_STATUS)), (true, IDENTITY_RECEIVED, 0x61));
        assert_eq!((uart.read(DATA), uart.line(), uart.read(DATA), uart.line()), (b'h', true, b'i', false));
    }

    /// A driver discards received bytes when it opens the port, so input arrives only when it listens.
    #[test]
    fn input_waits_until_the_guest_listens() {
        let mut uart = Uart::default();
        uart.receive(b"typed");
        uart.write(INTERRUPT_ENABLE, ENABLE_ALL); // the search for the port, without OUT2
        uart.advance(1 << 40);
        uart.write(INTERRUPT_IDENTITY, FIFO_ENABLE | FIFO_CLEAR_RECEIVED);
        uart.write(MODEM_CONTROL, MODEM_OUT2);
        let mut heard = Vec::new();
        while let Some(at) = uart.next() {
            uart.advance(at);
            assert_eq!(uart.read(LINE_STATUS) & STATUS_RECEIVED, STATUS_RECEIVED);
            heard.push(uart.read(DATA));
        }
        assert_eq!(heard, b"typed");
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((0u8..4, any::<u16>(), any::<u8>()), 0..300)) {
            let mut uart = Uart::default();
            for (what, offset, value) in accesses {
                let offset = if offset % 9 == 0 { offset } else { offset % 8 };
                match what {
                    0 | 1 => uart.write(offset, value),
                    2 => { uart.read(offset); }
                    _ => uart.receive(&[value]),
                }
                uart.advance(uart.next().unwrap_or(0));
                uart.line();
            }
        }
    }
}
