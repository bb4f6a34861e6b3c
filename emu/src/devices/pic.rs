//! The pair of 8259 interrupt controllers of a PC: fifteen lines, which are edge-triggered unless the board makes some of
//! them level-triggered. The second chip is connected to line 2 of the first.

use serde::{Deserialize, Serialize};

const MASTER_COMMAND: u16 = 0x20;
const MASTER_DATA: u16 = 0x21;
const SLAVE_COMMAND: u16 = 0xa0;
const SLAVE_DATA: u16 = 0xa1;

/// The line of the first chip that the second chip drives.
const CASCADE: u8 = 2;
/// The line reported for an interrupt that went away before it was taken.
const SPURIOUS: u8 = 7;

// Command bytes: bit 4 starts the initialisation, bit 3 selects a register to read. Otherwise the upper three bits are
// the kind of end of interrupt.
const COMMAND_INITIALISE: u8 = 1 << 4;
const COMMAND_REGISTER: u8 = 1 << 3;
const INITIALISE_WITH_FOURTH: u8 = 1;
const INITIALISE_SINGLE: u8 = 1 << 1;
const FOURTH_AUTOMATIC_END: u8 = 1 << 1;
const REGISTER_SELECT: u8 = 1 << 1;
const REGISTER_IN_SERVICE: u8 = 1;
const END: u8 = 0b001;
const END_OF_ONE: u8 = 0b011;
const END_AND_ROTATE: u8 = 0b101;
const END_OF_ONE_AND_ROTATE: u8 = 0b111;

/// Both chips.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pic {
    master: Chip,
    slave: Chip,
    levels: u16,
    /// The level-triggered lines, a bit for each.
    #[serde(default, skip_serializing_if = "is_zero")]
    level_triggered: u16,
}

/// Lines that are edge-triggered on every board: the timer, the keyboard, the cascade, the clock and the coprocessor.
const EDGES_ONLY: u16 = 1 << 0 | 1 << 1 | 1 << CASCADE | 1 << 8 | 1 << 13;

impl Pic {
    /// Whether the chips could be in this state.
    pub fn is_sound(&self) -> bool {
        self.level_triggered & EDGES_ONLY == 0
    }

    /// The level-triggered lines, a bit for each.
    pub fn level_triggered(&self) -> u16 {
        self.level_triggered
    }

    /// Sets the level-triggered lines. A few lines stay edge-triggered.
    pub fn set_level_triggered(&mut self, lines: u16) {
        self.level_triggered = lines & !EDGES_ONLY;
        self.cascade();
    }

    /// Whether this port belongs to them.
    pub fn has_port(port: u16) -> bool {
        matches!(port, MASTER_COMMAND | MASTER_DATA | SLAVE_COMMAND | SLAVE_DATA)
    }

    /// A read of one of their ports.
    pub fn read(&self, port: u16) -> u8 {
        match port {
            MASTER_COMMAND => self.master.shown(),
            MASTER_DATA => self.master.masked,
            SLAVE_COMMAND => self.slave.shown(),
            SLAVE_DATA => self.slave.masked,
            _ => u8::MAX,
        }
    }

    /// A write to one of their ports.
    pub fn write(&mut self, port: u16, value: u8) {
        match port {
            MASTER_COMMAND => self.master.command(value),
            MASTER_DATA => self.master.data(value),
            SLAVE_COMMAND => self.slave.command(value),
            SLAVE_DATA => self.slave.data(value),
            _ => {}
        }
        self.cascade();
    }

    /// Sets the level of a line. A rising edge requests an interrupt, and a level-triggered line does while it is high.
    pub fn set_line(&mut self, line: u8, level: bool) {
        let bit = 1 << (line & 15);
        let rises = level && self.levels & bit == 0;
        self.levels = if level { self.levels | bit } else { self.levels & !bit };
        let (chip, bit) = if line < 8 { (&mut self.master, 1 << line) } else { (&mut self.slave, 1 << (line & 7)) };
        if rises {
            chip.requested |= bit;
        } else if !level {
            chip.requested &= !bit;
        }
        self.cascade();
    }

    /// Requests an interrupt by a short pulse on a line.
    pub fn pulse(&mut self, line: u8) {
        match line {
            0..8 => self.master.requested |= 1 << line,
            _ => self.slave.requested |= 1 << (line & 7),
        }
        self.cascade();
    }

    /// Whether an interrupt is pending for the CPU.
    pub fn asks(&self) -> bool {
        self.master.next().is_some()
    }

    /// Whether a rising edge on this line of the first chip would interrupt the CPU.
    pub fn would_ask(&self, line: u8) -> bool {
        self.master.lets_through(1 << (line & 7)).is_some()
    }

    /// The CPU takes the interrupt. Returns its vector.
    pub fn acknowledge(&mut self) -> Option<u8> {
        let line = self.master.next()?;
        self.master.take(line);
        let vector = if line == CASCADE {
            let behind = self.slave.next();
            if let Some(behind) = behind {
                self.slave.take(behind);
            }
            self.slave.vector(behind.unwrap_or(SPURIOUS))
        } else {
            self.master.vector(line)
        };
        self.cascade();
        Some(vector)
    }

    fn cascade(&mut self) {
        let [of_master, of_slave] = (self.levels & self.level_triggered).to_le_bytes();
        self.master.requested |= of_master;
        self.slave.requested |= of_slave;
        match self.slave.next() {
            Some(_) => self.master.requested |= 1 << CASCADE,
            None => self.master.requested &= !(1 << CASCADE),
        }
    }
}

fn is_zero(lines: &u16) -> bool {
    *lines == 0
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chip {
    requested: u8,
    in_service: u8,
    masked: u8,
    base: u8,
    /// The initialisation word that is expected next, during an initialisation.
    awaited: Option<Word>,
    wants_third: bool,
    wants_fourth: bool,
    ends_by_itself: bool,
    shows_in_service: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Word {
    Second,
    Third,
    Fourth,
}

impl Chip {
    fn shown(&self) -> u8 {
        if self.shows_in_service { self.in_service } else { self.requested }
    }

    fn vector(&self, line: u8) -> u8 {
        self.base & !7 | line
    }

    /// The line to serve: the lowest one requested, unless one of equal or higher priority is in service.
    fn next(&self) -> Option<u8> {
        self.lets_through(self.requested)
    }

    fn lets_through(&self, requested: u8) -> Option<u8> {
        let line = (requested & !self.masked).trailing_zeros();
        (line < self.in_service.trailing_zeros().min(8)).then_some(line as u8)
    }

    fn take(&mut self, line: u8) {
        self.requested &= !(1 << line);
        if !self.ends_by_itself {
            self.in_service |= 1 << line;
        }
    }

    fn command(&mut self, value: u8) {
        if value & COMMAND_INITIALISE != 0 {
            *self = Chip {
                awaited: Some(Word::Second),
                wants_third: value & INITIALISE_SINGLE == 0,
                wants_fourth: value & INITIALISE_WITH_FOURTH != 0,
                ..Chip::default()
            };
        } else if value & COMMAND_REGISTER != 0 {
            if value & REGISTER_SELECT != 0 {
                self.shows_in_service = value & REGISTER_IN_SERVICE != 0;
            }
        } else {
            match value >> 5 {
                END | END_AND_ROTATE => self.in_service &= self.in_service.wrapping_sub(1),
                END_OF_ONE | END_OF_ONE_AND_ROTATE => self.in_service &= !(1 << (value & 7)),
                _ => {}
            }
        }
    }

    fn data(&mut self, value: u8) {
        let fourth = self.wants_fourth.then_some(Word::Fourth);
        match self.awaited {
            None => self.masked = value,
            Some(Word::Second) => {
                self.base = value;
                self.awaited = if self.wants_third { Some(Word::Third) } else { fourth };
            }
            Some(Word::Third) => self.awaited = fourth,
            Some(Word::Fourth) => {
                self.ends_by_itself = value & FOURTH_AUTOMATIC_END != 0;
                self.awaited = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The initialisation that Linux does: vectors 0x30 and 0x38, all lines unmasked.
    fn ready() -> Pic {
        let mut pic = Pic::default();
        for (command, data, base, wiring) in [(MASTER_COMMAND, MASTER_DATA, 0x30, 4), (SLAVE_COMMAND, SLAVE_DATA, 0x38, 2)] {
            pic.write(command, 0x11);
            for word in [base, wiring, 1, 0] {
                pic.write(data, word);
            }
        }
        pic
    }

    #[test]
    fn a_lower_line_has_priority_over_higher_ones() {
        let mut pic = ready();
        pic.set_line(4, true);
        pic.pulse(0);
        assert_eq!((pic.acknowledge(), pic.asks()), (Some(0x30), false), "line 4 waits for the end of line 0");
        pic.write(MASTER_COMMAND, 0x20);
        assert_eq!(pic.acknowledge(), Some(0x34));
        assert_eq!((pic.would_ask(0), pic.would_ask(7)), (true, false));
        pic.pulse(0);
        assert_eq!(pic.acknowledge(), Some(0x30), "line 0 breaks in on line 4");
        pic.write(MASTER_COMMAND, 0x64);
        pic.write(MASTER_COMMAND, 0x60);
        pic.set_line(4, true);
        assert!(!pic.asks(), "a line that stays up asks once");
        pic.set_line(4, false);
        pic.set_line(4, true);
        assert!(pic.asks());
        pic.write(MASTER_DATA, 0x10);
        assert!(!pic.asks(), "masked");
    }

    #[test]
    fn the_second_chip_interrupts_through_line_2() {
        let mut pic = ready();
        pic.set_line(8, true);
        assert_eq!(pic.acknowledge(), Some(0x38));
        pic.write(MASTER_COMMAND, 0x0b);
        pic.write(SLAVE_COMMAND, 0x0b);
        assert_eq!((pic.read(MASTER_COMMAND), pic.read(SLAVE_COMMAND)), (4, 1));
        pic.write(SLAVE_COMMAND, 0x60);
        pic.write(MASTER_COMMAND, 0x62);
        assert_eq!((pic.read(MASTER_COMMAND), pic.read(SLAVE_COMMAND), pic.asks()), (0, 0, false));
        pic.set_line(8, false);
        pic.set_line(8, true);
        pic.set_line(8, false);
        assert_eq!(pic.acknowledge(), None, "withdrawn before it was taken");
    }

    #[test]
    fn a_level_triggered_line_asks_while_it_is_high() {
        let mut pic = ready();
        pic.set_level_triggered(u16::MAX);
        assert_eq!((pic.level_triggered(), pic.is_sound()), (!EDGES_ONLY, true));
        let ends = |pic: &mut Pic| {
            pic.write(SLAVE_COMMAND, 0x60 | 2);
            pic.write(MASTER_COMMAND, 0x60 | CASCADE);
        };
        pic.set_line(10, true);
        assert_eq!((pic.acknowledge(), pic.asks()), (Some(0x3a), false), "it is in service");
        ends(&mut pic);
        assert_eq!((pic.asks(), pic.acknowledge()), (true, Some(0x3a)), "another device holds the line");
        pic.set_line(10, false);
        ends(&mut pic);
        assert!(!pic.asks());
        pic.pulse(0);
        assert_eq!(pic.acknowledge(), Some(0x30), "the timer's line stays edge-triggered");
        pic.set_line(0, true);
        pic.write(MASTER_COMMAND, 0x20);
        assert_eq!((pic.acknowledge(), pic.write(MASTER_COMMAND, 0x20), pic.asks()), (Some(0x30), (), false));
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((0u8..6, any::<u16>(), any::<u8>()), 0..300)) {
            let mut pic = Pic::default();
            for (what, port, value) in accesses {
                let port = [MASTER_COMMAND, MASTER_DATA, SLAVE_COMMAND, SLAVE_DATA, port][usize::from(port) % 5];
                match what {
                    0 => pic.write(port, value),
                    1 => { pic.read(port); }
                    2 => pic.set_line(value, port & 256 != 0),
                    3 => pic.pulse(value),
                    4 => pic.set_level_triggered(port),
                    _ => prop_assert_eq!(pic.asks(), pic.acknowledge().is_some()),
                }
            }
        }
    }
}
