//! Ends a run in an endless loop without progress: traps, faults and turns that repeat while no virtual time passes. It
//! is called at traps and at the start of turns, so code that runs pays nothing.
//!
//! It also ends a straight line that is longer than any code: events wait for a taken branch, so a guest that slides
//! through gigabytes of zeros, which x86 and MIPS execute, would keep every limit waiting.

use super::{Inner, Listener};
use crate::clock::{Ticks, nanoseconds};
use crate::cpu::TrapKind;
use crate::unicorn::engine::TrapContext;

/// The number of the last events that are recorded for the message.
const NOTED: u32 = 64;
/// The largest number of different events that the message names.
const NAMED: usize = 6;
/// The bytes that may run without a taken branch while an event is due. Functions and BPF programs of this length
/// without a loop or a call do not exist.
const STRAIGHT_MOST: u64 = 4 << 20;

/// Counts events since virtual time last advanced.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// The number of events at one time that ends the run. The default exceeds a chain of a hundred thousand probes of
    /// which each leads to the next.
    most: u32,
    time: Ticks,
    count: u32,
    noted: Vec<(Sign, u64)>,
    /// Bytes of blocks that fell through one after the other while an event was due.
    slid: u64,
    /// The address behind the last of these blocks.
    behind: u64,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// A trap, with its vector.
    Trap(TrapKind, u32),
    /// A CPU starts a turn: it wakes, or continues after the machine handled something.
    Turn,
}

impl Watchdog {
    /// A watchdog that fires after `most` events at one time.
    pub fn new(most: u32) -> Watchdog {
        Watchdog { most: most.max(NOTED + 1), time: 0, count: 0, noted: Vec::new(), slid: 0, behind: 0 }
    }

    /// Forgets all events.
    pub fn forget(&mut self) {
        *self = Watchdog::new(self.most);
    }

    /// Counts an event. Returns true if the count is so high that the caller must [record](Watchdog::note) the event.
    #[inline]
    pub fn sees(&mut self, time: Ticks) -> bool {
        if time != self.time {
            (self.time, self.count) = (time, 0);
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.count > self.most - NOTED
    }

    /// Records the event. Returns true if the run must end.
    #[cold]
    pub fn note(&mut self, sign: Sign, pc: u64) -> bool {
        if self.count <= self.most - NOTED + 1 {
            self.noted.clear();
        }
        if !self.noted.contains(&(sign, pc)) {
            self.noted.push((sign, pc));
        }
        self.count >= self.most
    }

    /// Notes a block that falls through while an event is due. Returns true if the run must end. A block that does not
    /// lie behind the one noted before begins a new line: most lines end without a call, when the event is handled.
    pub fn slides(&mut self, pc: u64, size: u32) -> bool {
        if pc != self.behind {
            self.slid = 0;
        }
        self.slid += u64::from(size);
        self.behind = pc.wrapping_add(size.into());
        self.slid > STRAIGHT_MOST
    }

    /// The message. `name` describes an address.
    fn words(&self, name: impl Fn(u64) -> String) -> String {
        let sign = |(sign, pc): &(Sign, u64)| match sign {
            Sign::Trap(TrapKind::Breakpoint, _) => format!("the breakpoint at {}", name(*pc)),
            Sign::Trap(_, vector) => format!("exception {vector} at {}", name(*pc)),
            Sign::Turn => format!("a turn that begins at {}", name(*pc)),
        };
        let mut signs: Vec<String> = self.noted.iter().take(NAMED).map(sign).collect();
        if self.noted.len() > NAMED {
            signs.push("others".into());
        }
        let (time, count) = (nanoseconds(self.time), self.count);
        format!("it goes round and round and no time passes: {count} times at {time} ns it came to {}", signs.join(", then to "))
    }
}

impl<L: Listener> Inner<L> {
    /// Counts a trap that was handled, and ends the run if there were too many.
    #[inline]
    pub(super) fn watch_trap(&mut self, cpu: &TrapContext, sign: Sign, pc: u64) {
        if self.watchdog.sees(self.view.clock.time())
            && let Some(why) = self.bites(sign, pc)
        {
            self.shut_down(cpu, why);
        }
    }

    /// Counts the start of a turn. Returns the message if the run must end.
    pub(super) fn watch_turn(&mut self, pc: u64) -> Option<String> {
        if self.watchdog.sees(self.view.clock.time()) { self.bites(Sign::Turn, pc) } else { None }
    }

    #[cold]
    fn bites(&mut self, sign: Sign, pc: u64) -> Option<String> {
        self.watchdog.note(sign, pc).then(|| self.watchdog.words(|pc| self.listener.name(pc)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = 1_000_000;
    const BREAKPOINT: Sign = Sign::Trap(TrapKind::Breakpoint, 3);

    /// The number of the trap at which the watchdog fires, of `traps` traps. `time` gives each trap's virtual time.
    fn bites(dog: &mut Watchdog, traps: u32, time: impl Fn(u32) -> Ticks) -> Option<u32> {
        (0..traps).find(|number| dog.sees(time(*number)) && dog.note(BREAKPOINT, u64::from(number % 2)))
    }

    #[test]
    fn it_bites_when_time_stands_still_and_not_before() {
        let mut dog = Watchdog::new(MOST);
        assert_eq!(bites(&mut dog, 10 * MOST, |number| 1 + u64::from(number)), None, "time passes");
        assert_eq!(bites(&mut dog, 4 * MOST, |number| 1 + u64::from(number / 900_000)), None, "in steps");
        assert_eq!(bites(&mut dog, 2 * MOST, |_| 7), Some(MOST));
        assert_eq!(
            dog.words(|pc| format!("f+{pc}")),
            "it goes round and round and no time passes: 1000000 times at 1 ns it came to the breakpoint at f+1, then to the breakpoint at f+0"
        );
    }

    #[test]
    fn a_straight_line_ends_and_many_short_ones_do_not() {
        const BLOCK: u32 = 1 << 10;
        const BLOCKS: u64 = STRAIGHT_MOST / BLOCK as u64;
        let mut dog = Watchdog::new(MOST);
        let mut slides = |from: u64, blocks: u64| (0..blocks).any(|number| dog.slides(from + number * u64::from(BLOCK), BLOCK));
        assert!(!slides(0x1000, BLOCKS));
        // An event is due in the same code again and again, as in front of an idle loop's HLT.
        for _ in 0..3 * BLOCKS {
            assert!(!slides(0x1000, 2));
        }
        assert!(slides(0x8000, BLOCKS + 1));
    }

    #[test]
    fn a_report_has_only_recent_events() {
        let mut dog = Watchdog::new(MOST);
        bites(&mut dog, MOST - 10, |_| 1);
        bites(&mut dog, MOST - 10, |_| 2);
        for _ in 0..20 {
            if dog.sees(2) {
                dog.note(Sign::Turn, 9);
            }
        }
        let words = dog.words(|pc| pc.to_string());
        assert!(words.contains("breakpoint at 0") && words.contains("a turn that begins at 9"), "{words}");
    }
}
