//! The real-time clock of a PC with its battery-backed memory (MC146818).
//!
//! Its time is virtual time since a fixed date, so that every run sees the same. The clock cannot be set and has no
//! alarm.

use crate::clock::{Ticks, nanoseconds};
use serde::{Deserialize, Serialize};

const INDEX: u16 = 0x70;
const DATA: u16 = 0x71;

const SECONDS: u8 = 0x00;
const MINUTES: u8 = 0x02;
const HOURS: u8 = 0x04;
const WEEKDAY: u8 = 0x06;
const DAY: u8 = 0x07;
const MONTH: u8 = 0x08;
const YEAR: u8 = 0x09;
const STATUS_A: u8 = 0x0a;
const STATUS_B: u8 = 0x0b;
const STATUS_C: u8 = 0x0c;
const STATUS_D: u8 = 0x0d;
const CENTURY: u8 = 0x32;

/// Status A: divider running, no update in progress.
const A_RUNNING: u8 = 0x26;
const A_UPDATE_IN_PROGRESS: u8 = 1 << 7;
/// Duration of an update, including the time for which it is announced.
const UPDATE_NANOSECONDS: u64 = 1_984_000 + 244_000;
const SECOND: u64 = 1_000_000_000;
const B_24_HOURS: u8 = 1 << 1;
const B_BINARY: u8 = 1 << 2;
/// Status D: the battery is good.
const D_VALID: u8 = 1 << 7;

const CELLS: usize = 128;

/// The date at power-on of every machine: 2026-01-01, a Thursday.
const FIRST_YEAR: u64 = 2026;
const FIRST_WEEKDAY: u64 = 4;

/// The clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rtc {
    index: u8,
    cells: Cells,
}

/// The memory, one byte per cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
struct Cells([u8; CELLS]);

impl TryFrom<Vec<u8>> for Cells {
    type Error = String;
    fn try_from(bytes: Vec<u8>) -> Result<Cells, String> {
        let len = bytes.len();
        bytes.try_into().map(Cells).map_err(|_| format!("the clock's memory has {CELLS} bytes, not {len}"))
    }
}

impl From<Cells> for Vec<u8> {
    fn from(cells: Cells) -> Vec<u8> {
        cells.0.to_vec()
    }
}

impl Default for Rtc {
    fn default() -> Self {
        let mut cells = [0; CELLS];
        cells[usize::from(STATUS_B)] = B_24_HOURS;
        Rtc { index: 0, cells: Cells(cells) }
    }
}

impl Rtc {
    /// Whether this port belongs to it.
    pub fn has_port(port: u16) -> bool {
        matches!(port, INDEX | DATA)
    }

    /// Whether the clock could be in this state.
    pub fn is_sound(&self) -> bool {
        usize::from(self.index) < CELLS
    }

    /// A read of one of its ports.
    pub fn read(&self, port: u16, now: Ticks) -> u8 {
        match port {
            DATA => self.cell(now),
            _ => u8::MAX,
        }
    }

    /// The update-in-progress flag, for boards whose kernels wait for it. It is set at the end of each second.
    pub fn update_in_progress(&self, port: u16, now: Ticks) -> u8 {
        let is_on = nanoseconds(now) % SECOND >= SECOND - UPDATE_NANOSECONDS;
        if port == DATA && self.index == STATUS_A && is_on { A_UPDATE_IN_PROGRESS } else { 0 }
    }

    /// A write to one of its ports.
    pub fn write(&mut self, port: u16, value: u8) {
        match port {
            // The highest bit masks NMIs on hardware.
            INDEX => self.index = value & 0x7f,
            DATA => self.cells.0[usize::from(self.index)] = value,
            _ => {}
        }
    }

    fn cell(&self, now: Ticks) -> u8 {
        let date = Date::at(nanoseconds(now) / SECOND);
        let value = match self.index {
            SECONDS => date.second,
            MINUTES => date.minute,
            HOURS => return self.hour(date.hour),
            WEEKDAY => date.weekday,
            DAY => date.day,
            MONTH => date.month,
            YEAR => date.year % 100,
            CENTURY => date.year / 100,
            STATUS_A => return A_RUNNING,
            STATUS_C => return 0,
            STATUS_D => return D_VALID,
            index => return self.cells.0[usize::from(index)],
        };
        self.coded(value)
    }

    fn hour(&self, hour: u64) -> u8 {
        if self.cells.0[usize::from(STATUS_B)] & B_24_HOURS != 0 {
            return self.coded(hour);
        }
        let afternoon = if hour >= 12 { 0x80 } else { 0 };
        self.coded((hour + 11) % 12 + 1) | afternoon
    }

    fn coded(&self, value: u64) -> u8 {
        let binary = self.cells.0[usize::from(STATUS_B)] & B_BINARY != 0;
        if binary { value as u8 } else { (((value / 10) << 4) | (value % 10)) as u8 }
    }
}

struct Date {
    second: u64,
    minute: u64,
    hour: u64,
    weekday: u64,
    day: u64,
    month: u64,
    year: u64,
}

impl Date {
    /// The date this many seconds after power-on.
    fn at(seconds: u64) -> Date {
        let days = seconds / 86_400;
        let (mut year, mut left) = (FIRST_YEAR, days % (400 * 365 + 97));
        while left >= year_length(year) {
            left -= year_length(year);
            year += 1;
        }
        let mut month = 1;
        while left >= month_length(year, month) {
            left -= month_length(year, month);
            month += 1;
        }
        Date {
            second: seconds % 60,
            minute: seconds / 60 % 60,
            hour: seconds / 3600 % 24,
            weekday: (FIRST_WEEKDAY + days) % 7 + 1,
            day: left + 1,
            month,
            year,
        }
    }
}

fn is_leap(year: u64) -> bool {
    (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
}

fn year_length(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn month_length(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ticks;
    use proptest::prelude::*;

    fn shown(rtc: &mut Rtc, now: Ticks) -> Vec<u8> {
        [CENTURY, YEAR, MONTH, DAY, WEEKDAY, HOURS, MINUTES, SECONDS]
            .iter()
            .map(|index| {
                rtc.write(INDEX, *index);
                rtc.read(DATA, now)
            })
            .collect()
    }

    #[test]
    fn it_starts_on_a_fixed_date_and_follows_virtual_time() {
        let mut rtc = Rtc::default();
        assert_eq!(shown(&mut rtc, 0), [0x20, 0x26, 1, 1, 5, 0, 0, 0], "a Thursday, Sunday being 1");
        let later = ticks(1_000_000_000) * (86_400 * (365 + 365 + 59) + 13 * 3600 + 62);
        assert_eq!(shown(&mut rtc, later), [0x20, 0x28, 2, 0x29, 3, 0x13, 1, 2], "the 29th of February, a Tuesday");
        rtc.write(INDEX, STATUS_B);
        rtc.write(DATA, B_BINARY);
        assert_eq!(shown(&mut rtc, later), [20, 28, 2, 29, 3, 0x81, 1, 2], "binary, and one in the afternoon");
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((any::<bool>(), any::<u16>(), any::<u8>(), any::<u64>()), 0..200)) {
            let mut rtc = Rtc::default();
            for (write, port, value, now) in accesses {
                let port = [INDEX, DATA, port][usize::from(port) % 3];
                if write { rtc.write(port, value) } else { rtc.read(port, now); }
            }
        }
    }
}
