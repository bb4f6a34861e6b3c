//! The IO-APIC: sends the interrupts of a PC's devices to local APICs, as its redirection table says (Intel 82093AA).

use super::lapic::Message;
use serde::{Deserialize, Serialize};

const PINS: usize = 24;
const VERSION: u32 = 0x11;

// Bits of a redirection entry. The lower word's mode, vector and destination kind are those of a message.
const REMOTE_IRR: u64 = 1 << 14;
const LEVEL: u64 = 1 << 15;
const MASKED: u64 = 1 << 16;
const MESSAGE: u64 = 0xfff;
/// The writable bits of an entry.
const WRITABLE: u64 = 0xff00_0000_0001_afff;

// Offsets in memory.
const SELECT: u64 = 0;
const WINDOW: u64 = 0x10;
const END: u64 = 0x40;

/// The state of the IO-APIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoApic {
    selected: u32,
    id: u32,
    table: [u64; PINS],
    levels: u32,
    #[serde(skip)]
    sent: Vec<Message>,
}

impl Default for IoApic {
    fn default() -> IoApic {
        IoApic { selected: 0, id: 0, table: [MASKED; PINS], levels: 0, sent: Vec::new() }
    }
}

impl IoApic {
    /// Size of its register space.
    pub const BYTES: u64 = 0x1000;

    /// Reads the register at this offset.
    pub fn read(&self, offset: u64) -> u32 {
        match (offset, self.selected) {
            (SELECT, selected) => selected,
            (WINDOW, 0 | 2) => self.id,
            (WINDOW, 1) => (PINS as u32 - 1) << 16 | VERSION,
            (WINDOW, register) => self.entry(register).map_or(0, |(pin, shift)| (self.table[pin] >> shift) as u32),
            _ => 0,
        }
    }

    /// Writes the register at this offset.
    pub fn write(&mut self, offset: u64, value: u32) {
        match (offset, self.selected) {
            (SELECT, _) => self.selected = value & 0xff,
            (WINDOW, 0) => self.id = value & 0x0f00_0000,
            (WINDOW, register) => {
                let Some((pin, shift)) = self.entry(register) else { return };
                let writes = WRITABLE & 0xffff_ffff << shift;
                let entry = &mut self.table[pin];
                *entry = *entry & !writes | u64::from(value) << shift & writes;
                if *entry & LEVEL == 0 {
                    *entry &= !REMOTE_IRR;
                }
                self.send_level(pin);
            }
            (END, _) => self.end(value as u8),
            _ => {}
        }
    }

    /// The pin and the first bit of a register of the redirection table.
    fn entry(&self, register: u32) -> Option<(usize, u32)> {
        let number = register.checked_sub(0x10)?;
        let pin = number as usize / 2;
        (pin < PINS).then_some((pin, 32 * (number & 1)))
    }

    /// Whether an edge at this pin would interrupt a CPU.
    pub fn would_ask(&self, pin: u8) -> bool {
        self.table.get(usize::from(pin)).is_some_and(|entry| entry & MASKED == 0)
    }

    /// Sets the level of a pin.
    pub fn set_line(&mut self, pin: u8, level: bool) {
        let bit = 1u32.checked_shl(pin.into()).unwrap_or(0);
        let rises = level && self.levels & bit == 0;
        self.levels = if level { self.levels | bit } else { self.levels & !bit };
        if rises {
            self.pulse(pin);
        }
        self.send_level(pin.into());
    }

    /// A rising edge at a pin. It is lost while the pin is masked.
    pub fn pulse(&mut self, pin: u8) {
        if let Some(entry) = self.table.get(usize::from(pin)).filter(|entry| **entry & (MASKED | LEVEL) == 0) {
            self.sent.push(message(*entry));
        }
    }

    /// Sends the interrupt of a level-triggered pin, unless a CPU is handling it.
    fn send_level(&mut self, pin: usize) {
        let is_up = self.levels >> pin.min(31) & 1 != 0;
        if let Some(entry) = self.table.get_mut(pin).filter(|entry| is_up && **entry & (MASKED | LEVEL | REMOTE_IRR) == LEVEL) {
            *entry |= REMOTE_IRR;
            self.sent.push(message(*entry));
        }
    }

    /// A CPU has handled the interrupt with this vector.
    pub fn end(&mut self, vector: u8) {
        for pin in 0..PINS {
            if self.table[pin] & REMOTE_IRR != 0 && self.table[pin] as u8 == vector {
                self.table[pin] &= !REMOTE_IRR;
                self.send_level(pin);
            }
        }
    }

    /// Takes the messages to local APICs since the last call.
    pub fn take_sent(&mut self) -> Vec<Message> {
        core::mem::take(&mut self.sent)
    }
}

fn message(entry: u64) -> Message {
    Message { low: (entry & MESSAGE) as u32, high: (entry >> 32) as u32 & 0xff00_0000 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(ioapic: &mut IoApic, pin: u32, low: u32, high: u32) {
        for (register, value) in [(0x11 + 2 * pin, high), (0x10 + 2 * pin, low)] {
            ioapic.write(SELECT, register);
            ioapic.write(WINDOW, value);
        }
    }

    #[test]
    fn an_edge_sends_one_message_unless_masked() {
        let mut ioapic = IoApic::default();
        ioapic.pulse(4);
        assert!(ioapic.take_sent().is_empty() && !ioapic.would_ask(4), "masked after reset");
        set(&mut ioapic, 4, 0x0834, 0x0200_0000);
        ioapic.set_line(4, true);
        ioapic.set_line(4, true);
        assert_eq!(ioapic.take_sent(), [Message { low: 0x834, high: 0x0200_0000 }]);
        ioapic.set_line(4, false);
        set(&mut ioapic, 4, 1 << 16 | 0x0834, 0x0200_0000);
        ioapic.set_line(4, true);
        set(&mut ioapic, 4, 0x0834, 0x0200_0000);
        assert!(ioapic.take_sent().is_empty(), "an edge while masked is lost");
        ioapic.write(SELECT, 1);
        assert_eq!(ioapic.read(WINDOW), 23 << 16 | 0x11);
    }

    #[test]
    fn a_level_is_sent_again_after_its_end() {
        let mut ioapic = IoApic::default();
        ioapic.set_line(9, true);
        set(&mut ioapic, 9, LEVEL as u32 | 0x39, 0);
        assert_eq!(ioapic.take_sent().len(), 1, "the line was up when it was unmasked");
        ioapic.set_line(9, true);
        assert!(ioapic.take_sent().is_empty());
        ioapic.end(0x39);
        assert_eq!(ioapic.take_sent().len(), 1);
        ioapic.set_line(9, false);
        ioapic.end(0x39);
        assert!(ioapic.take_sent().is_empty());
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(writes in proptest::collection::vec((any::<u8>(), any::<u32>(), 0u8..40), 0..200)) {
            let mut ioapic = IoApic::default();
            for (offset, value, pin) in writes {
                ioapic.write(u64::from(offset & 0x70), value);
                ioapic.read(u64::from(offset & 0x70));
                ioapic.set_line(pin, value & 1 != 0);
                ioapic.pulse(pin);
                ioapic.end(value as u8);
                ioapic.take_sent();
            }
        }
    }
}
