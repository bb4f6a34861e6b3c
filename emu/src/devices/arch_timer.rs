//! The architected timer of arm64: a counter shared by all CPUs and two comparators per CPU, accessed by MRS and MSR.
//!
//! The core's own timer returns host time and never interrupts, so every access is handled here. The virtual count
//! equals the physical one, because there is no hypervisor.

use crate::clock::{Ticks, ticks};
use serde::{Deserialize, Serialize};

/// Counter frequency in Hz.
pub const FREQUENCY: u32 = 62_500_000;
const COUNT_NANOSECONDS: u64 = 1_000_000_000 / FREQUENCY as u64;

/// The interrupt number of the physical comparator among a CPU's private interrupts.
pub const PHYSICAL_LINE: u32 = 30;
/// The interrupt number of the virtual comparator.
pub const VIRTUAL_LINE: u32 = 27;

/// A system register with op0 3 and CRn 14, by its other fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// op1
    pub op1: u8,
    /// CRm
    pub crm: u8,
    /// op2
    pub op2: u8,
}

impl Register {
    /// The register with this number, as encoded in MRS and MSR: op0, op1, CRn, CRm, op2 from the highest bits down.
    pub fn of(number: u32) -> Option<Register> {
        let field = |low: u32, bits: u32| (number >> low & ((1 << bits) - 1)) as u8;
        let is_timer = number >> 14 == 3 && field(7, 4) == 14;
        is_timer.then(|| Register { op1: field(11, 3), crm: field(3, 4), op2: field(0, 3) })
    }
}

/// The function of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Frequency,
    Count,
    /// The signed number of counts until the comparator expires (TVAL).
    Remaining(usize),
    Control(usize),
    Compare(usize),
}

const PHYSICAL: usize = 0;
const VIRTUAL: usize = 1;

#[rustfmt::skip]
const REGISTERS: &[((u8, u8, u8), Meaning)] = &[
    // op1, CRm, op2
    ((3, 0, 0), Meaning::Frequency),            // CNTFRQ_EL0
    ((3, 0, 1), Meaning::Count),                // CNTPCT_EL0
    ((3, 0, 2), Meaning::Count),                // CNTVCT_EL0
    ((3, 2, 0), Meaning::Remaining(PHYSICAL)),  // CNTP_TVAL_EL0
    ((3, 2, 1), Meaning::Control(PHYSICAL)),    // CNTP_CTL_EL0
    ((3, 2, 2), Meaning::Compare(PHYSICAL)),    // CNTP_CVAL_EL0
    ((3, 3, 0), Meaning::Remaining(VIRTUAL)),   // CNTV_TVAL_EL0
    ((3, 3, 1), Meaning::Control(VIRTUAL)),     // CNTV_CTL_EL0
    ((3, 3, 2), Meaning::Compare(VIRTUAL)),     // CNTV_CVAL_EL0
];

const ENABLE: u64 = 1;
const MASK: u64 = 1 << 1;
const EXPIRED: u64 = 1 << 2;

/// One CPU's timer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchTimer {
    comparators: [Comparator; 2],
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Comparator {
    control: u64,
    compare: u64,
}

impl ArchTimer {
    /// Reads a register. `None` if it is not the timer's.
    pub fn read(&self, register: Register, now: Ticks) -> Option<u64> {
        Some(match meaning(register)? {
            Meaning::Frequency => FREQUENCY.into(),
            Meaning::Count => count(now),
            Meaning::Remaining(which) => self.comparators[which].compare.wrapping_sub(count(now)) & u64::from(u32::MAX),
            Meaning::Control(which) => {
                let comparator = &self.comparators[which];
                comparator.control | if comparator.expired(now) { EXPIRED } else { 0 }
            }
            Meaning::Compare(which) => self.comparators[which].compare,
        })
    }

    /// Writes a register. Returns false if it is not the timer's.
    pub fn write(&mut self, register: Register, value: u64, now: Ticks) -> bool {
        match meaning(register) {
            Some(Meaning::Remaining(which)) => {
                let counts = i64::from(value as u32 as i32);
                self.comparators[which].compare = count(now).wrapping_add_signed(counts);
            }
            Some(Meaning::Control(which)) => self.comparators[which].control = value & (ENABLE | MASK),
            Some(Meaning::Compare(which)) => self.comparators[which].compare = value,
            // Frequency and count are read-only.
            Some(Meaning::Frequency | Meaning::Count) => {}
            None => return false,
        }
        true
    }

    /// The level of each interrupt line, with its number among the private interrupts.
    pub fn lines(&self, now: Ticks) -> [(u32, bool); 2] {
        let level = |which: usize| self.comparators[which].control & MASK == 0 && self.comparators[which].expired(now);
        [(PHYSICAL_LINE, level(PHYSICAL)), (VIRTUAL_LINE, level(VIRTUAL))]
    }

    /// The time when a line next rises by itself.
    pub fn next_event(&self, now: Ticks) -> Option<Ticks> {
        self.comparators.iter().filter_map(|comparator| comparator.rises_after(now)).min()
    }
}

impl Comparator {
    fn expired(&self, now: Ticks) -> bool {
        self.control & ENABLE != 0 && count(now) >= self.compare
    }

    fn rises_after(&self, now: Ticks) -> Option<Ticks> {
        let at = self.compare.saturating_mul(ticks(COUNT_NANOSECONDS));
        (self.control & (ENABLE | MASK) == ENABLE && at > now && at < Ticks::MAX).then_some(at)
    }
}

fn meaning(register: Register) -> Option<Meaning> {
    let fields = (register.op1, register.crm, register.op2);
    REGISTERS.iter().find(|(known, _)| *known == fields).map(|(_, meaning)| *meaning)
}

fn count(now: Ticks) -> u64 {
    now / ticks(COUNT_NANOSECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Virtual time per count.
    const COUNT: Ticks = 64;

    const FREQUENCY_REGISTER: Register = Register { op1: 3, crm: 0, op2: 0 };
    const VIRTUAL_COUNT: Register = Register { op1: 3, crm: 0, op2: 2 };
    const REMAINING: Register = Register { op1: 3, crm: 3, op2: 0 };
    const CONTROL: Register = Register { op1: 3, crm: 3, op2: 1 };
    const COMPARE: Register = Register { op1: 3, crm: 3, op2: 2 };

    fn level(timer: &ArchTimer, line: u32, now: Ticks) -> bool {
        timer.lines(now).contains(&(line, true))
    }

    #[test]
    fn it_counts_virtual_time() {
        let timer = ArchTimer::default();
        assert_eq!(timer.read(FREQUENCY_REGISTER, 5), Some(62_500_000));
        assert_eq!(
            [0, COUNT - 1, COUNT, 1_000_000 * COUNT].map(|now| timer.read(VIRTUAL_COUNT, now)),
            [0, 0, 1, 1_000_000].map(Some)
        );
    }

    #[test]
    fn it_interrupts_from_the_compared_count_on() {
        let mut timer = ArchTimer::default();
        assert!(timer.write(COMPARE, 100, 0) && timer.write(CONTROL, ENABLE, 0));
        assert_eq!(timer.next_event(0), Some(100 * COUNT));
        assert_eq!([100 * COUNT - 1, 100 * COUNT].map(|now| level(&timer, VIRTUAL_LINE, now)), [false, true]);
        assert!(!level(&timer, PHYSICAL_LINE, 100 * COUNT));
        assert_eq!((timer.read(CONTROL, 100 * COUNT), timer.next_event(100 * COUNT)), (Some(ENABLE | EXPIRED), None));
        timer.write(CONTROL, ENABLE | MASK, 0);
        assert_eq!((level(&timer, VIRTUAL_LINE, 200 * COUNT), timer.next_event(0)), (false, None), "masked");
        assert_eq!(timer.read(CONTROL, 200 * COUNT), Some(ENABLE | MASK | EXPIRED));
    }

    #[test]
    fn the_timer_value_is_a_signed_32_bit_distance() {
        #[rustfmt::skip]
        let cases = [
            // at count     written         compared with   read 10 later
            (1000,          50u64,          1050,           40),
            (1000,          0,              1000,           0xffff_fff6),
            (1000,          0xffff_fffe,    998,            0xffff_fff4),
            (1000,          0x1_0000_0005,  1005,           0xffff_fffb),
        ];
        for (at, written, compared, later) in cases {
            let mut timer = ArchTimer::default();
            timer.write(REMAINING, written, at * COUNT);
            assert_eq!(timer.read(COMPARE, 0), Some(compared), "{written:#x}");
            assert_eq!(timer.read(REMAINING, (at + 10) * COUNT), Some(later), "{written:#x}");
        }
    }

    #[test]
    fn other_registers_are_not_its_own() {
        let mut timer = ArchTimer::default();
        for (op1, crm, op2) in [(0, 1, 0), (3, 0, 3), (4, 0, 3), (3, 3, 3), (7, 2, 1)] {
            let register = Register { op1, crm, op2 };
            assert_eq!((timer.read(register, 0), timer.write(register, 1, 0)), (None, false), "{register:?}");
        }
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((any::<bool>(), 0usize..REGISTERS.len(), any::<u64>(), any::<u32>()), 0..200)) {
            let mut timer = ArchTimer::default();
            let mut now = 0u64;
            for (write, which, value, later) in accesses {
                now = now.saturating_add(u64::from(later) << (later % 30));
                let (op1, crm, op2) = REGISTERS[which].0;
                let register = Register { op1, crm, op2 };
                let value = if value % 3 == 0 { value } else { value >> 40 };
                if write { timer.write(register, value, now); } else { timer.read(register, now); }
                if let Some(next) = timer.next_event(now) {
                    prop_assert!(next > now);
                    prop_assert!(timer.lines(next).iter().any(|(_, level)| *level));
                }
            }
        }
    }
}
