//! Virtual time: bytes of the guest's own code executed, exact at every trap, hook and clock read.
//!
//! What the engine adds (traps, slots, pads) takes no time, and a place in the probe window counts as the place that it
//! stands for; so a probed and an unprobed run see the same time everywhere. The rules are those of lab/exact-clock.md.

use serde::{Deserialize, Serialize};

/// Virtual time, in bytes of guest code.
pub type Ticks = u64;

/// Four bytes of code take a nanosecond.
const SHIFT: u32 = 2;

/// Nanoseconds of virtual time.
pub fn nanoseconds(ticks: Ticks) -> u64 {
    ticks >> SHIFT
}

/// The time that so many nanoseconds are.
pub fn ticks(nanoseconds: u64) -> Ticks {
    nanoseconds.saturating_mul(1 << SHIFT)
}

/// What a block of code is, for the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Code of the guest's own.
    Guest,
    /// The start of a displaced copy of `len` bytes, which stands for the instruction at `origin`.
    Copy {
        /// The probed address.
        origin: u64,
        /// Bytes of the instruction.
        len: u8,
    },
    /// What follows the copy and leads back to the address `next`.
    WayBack {
        /// The address behind the probed instruction.
        next: u64,
    },
    /// The start of a detour.
    Detour(Detour),
    /// The start of a faithful detour, come to by a jump of `jump` bytes: what saves the registers counts nothing.
    Saving {
        /// Bytes of the jump.
        jump: u8,
    },
    /// Further on in it: `lead` bytes that count nothing, then the displaced copy of the `len` bytes at `origin`.
    Restoring {
        /// The probed address.
        origin: u64,
        /// Bytes of the displaced instructions.
        len: u8,
        /// Bytes in front of them.
        lead: u8,
    },
    /// What faithful detours call: code of the engine's too.
    Trampoline,
    /// Where hijacked functions return to: code of the engine's too.
    ReturnPad,
    /// Code of the engine's: counts nothing, takes no interrupt.
    Nothing,
}

/// A detour, come to by a jump at `origin`: bytes that count nothing, then the displaced copy of those at `origin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    /// The probed address.
    pub origin: u64,
    /// What it is to whom it belongs.
    pub point: u32,
    /// Bytes up to the end of the displaced instructions: of a block that has them all, at least.
    pub end: u16,
    /// Bytes of the displaced instructions.
    pub len: u8,
    /// Bytes of the jump.
    pub jump: u8,
}

impl Detour {
    /// An end that no block comes to.
    pub const NEVER: u16 = u16::MAX;

    /// Bytes in front of the displaced instructions.
    #[inline]
    pub fn lead(&self) -> u8 {
        self.end.wrapping_sub(self.len.into()) as u8
    }
}

/// One CPU's clock, told of every block that starts and of everything that leaves one early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Time at the start of the current block.
    time: Ticks,
    /// The block's real start.
    start: u64,
    /// Where the line of code goes on behind it, as the guest would see it; [`NOWHERE`] while no block is open.
    next: u64,
    /// Bytes that count, of those from its start on. While no block is open, all there are: one comparison tells both.
    size: u64,
    /// The block was entered and is not known to have been left.
    open: bool,
    /// The next block continues the line of code before it.
    fold: bool,
    /// Time at the start of that line.
    line: Ticks,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { time: 0, start: 0, next: NOWHERE, size: u64::MAX, open: false, fold: false, line: 0 }
    }
}

/// No instruction stands there, on any ISA: x86-64 has no such address, and the others have none that is odd.
const NOWHERE: u64 = 1 << 63 | 1;

impl Clock {
    /// A block of the guest's own code starts: [`Clock::enter`] for one that is the fall-through of the one before. False: it is not, and
    /// nothing has changed.
    #[inline(always)]
    pub fn goes_on(&mut self, pc: u64, size: u32) -> bool {
        let goes_on = pc == self.next;
        if goes_on {
            let size = u64::from(size);
            self.time = self.time.wrapping_add(self.size);
            (self.start, self.next, self.size) = (pc, pc.wrapping_add(size), size);
        }
        goes_on
    }

    /// A block of the guest's own code starts: [`Clock::enter`] for almost all that [`Clock::goes_on`] says no of. False: it takes
    /// [`Clock::enter`], and nothing has changed.
    #[inline(always)]
    pub fn enter_guest(&mut self, pc: u64, size: u32) -> bool {
        // One that starts inside the block before it, or none is open.
        if pc.wrapping_sub(self.start) < self.size {
            return false;
        }
        let size = u64::from(size);
        self.time = self.time.wrapping_add(self.size);
        (self.start, self.next, self.size) = (pc, pc.wrapping_add(size), size);
        self.line = self.time;
        true
    }

    /// The start of a detour, in one piece and come to by the jump: [`Clock::enter`] for almost all of them. False: it is not so, nothing
    /// has changed.
    #[inline(always)]
    pub fn enter_detour(&mut self, pc: u64, size: u32, detour: &Detour) -> bool {
        let (end, len) = (u32::from(detour.end), u64::from(detour.len));
        // The jump has been counted where it stands; what it stands for is counted here.
        let before_jump = self.size.wrapping_sub(detour.jump.into());
        // Where no block is open, that is beyond all sizes. Two signs together are one branch.
        if (i64::from(size) - i64::from(end)) | before_jump.cast_signed() < 0 {
            return false;
        }
        self.time = self.time.wrapping_add(before_jump);
        let copy = pc.wrapping_add(end.into()).wrapping_sub(len);
        (self.start, self.next, self.size) = (copy, detour.origin.wrapping_add(len), len);
        true
    }

    /// The start of a copy behind a trap that was claimed: [`Clock::enter`] for [`Place::Copy`]. False: a block is open, nothing has changed.
    #[inline(always)]
    pub fn enter_copy(&mut self, pc: u64, size: u32, origin: u64, len: u8) -> bool {
        let is_new = !self.open;
        if is_new {
            let counted = u64::from(len).min(size.into());
            (self.open, self.fold) = (true, false);
            (self.start, self.next, self.size) = (pc, origin.wrapping_add(counted), counted);
        }
        is_new
    }

    /// A block that counts nothing, come to by a jump: [`Clock::enter`] for [`Place::ReturnPad`]. False: no block is open, nothing has changed.
    #[inline(always)]
    pub fn enter_nothing(&mut self, pc: u64) -> bool {
        if self.open {
            self.time = self.time.wrapping_add(self.size);
            (self.start, self.next, self.size) = (pc, pc, 0);
        }
        self.open
    }

    /// A block starts. True: it is the fall-through of the one before, and nothing may be taken or stopped here.
    #[inline]
    pub fn enter(&mut self, pc: u64, size: u64, place: Place) -> bool {
        let again = self.open && pc == self.start;
        let mut falls_through;
        if self.open {
            let into = pc.wrapping_sub(self.start);
            if pc == self.next {
                self.time += self.size;
                falls_through = true;
            } else if into < self.size && into.wrapping_add(size) < self.size {
                // Left without an exception: it wrote into itself, and goes on in a shorter block. (A jump back runs on to the same end.)
                self.time += into;
                falls_through = true;
            } else {
                self.time += self.size;
                falls_through = false;
            }
        } else {
            falls_through = self.fold;
            self.fold = false;
            self.open = true;
        }
        let mut shown = pc;
        (self.start, self.size) = (pc, size);
        match place {
            Place::Guest => {}
            Place::Copy { origin, len } => {
                // A repeated instruction comes back to its start: a place for interrupts, as in the original.
                falls_through = !again;
                // The core ends blocks behind some instructions; what is left of the copy is offered by itself.
                (shown, self.size) = (origin, u64::from(len).min(size));
            }
            Place::WayBack { next } => {
                falls_through = true;
                (shown, self.size) = (next, 0);
            }
            Place::Detour(detour) => {
                let Detour { origin, len, jump, .. } = detour;
                let lead = detour.lead();
                falls_through = true;
                // The jump has been counted where it stands; what it stands for is counted here.
                self.time = self.time.saturating_sub(jump.into());
                self.start = pc.wrapping_add(lead.into());
                (shown, self.size) = (origin, u64::from(len).min(size.saturating_sub(lead.into())));
            }
            Place::Saving { jump } => {
                falls_through = true;
                self.size = 0;
                self.time = self.time.saturating_sub(jump.into());
            }
            // Where the core ends the block in front of the displaced instructions, they are offered by themselves.
            Place::Restoring { origin, len, lead } if size > u64::from(lead) => {
                falls_through = true;
                self.start = pc.wrapping_add(lead.into());
                (shown, self.size) = (origin, u64::from(len).min(size - u64::from(lead)));
            }
            Place::Nothing | Place::ReturnPad | Place::Trampoline | Place::Restoring { .. } => {
                falls_through = true;
                self.size = 0;
            }
        }
        self.next = shown.wrapping_add(self.size);
        if !falls_through {
            self.line = self.time;
        }
        falls_through
    }

    /// The time at an instruction of the current block.
    pub fn at(&self, pc: u64) -> Ticks {
        let into = pc.wrapping_sub(self.start);
        if self.open && into <= self.size { self.time + into } else { self.time }
    }

    /// The time at the start of the line of code that the current block continues.
    pub fn line(&self) -> Ticks {
        self.line
    }

    /// The time at the start of the current block.
    #[inline]
    pub fn time(&self) -> Ticks {
        self.time
    }

    /// The current block was left at `pc`, which has not run.
    #[inline]
    pub fn close_at(&mut self, pc: u64) {
        if self.open {
            let into = pc.wrapping_sub(self.start);
            // Elsewhere: the exception came while the next block was looked for, so this one is complete.
            self.time += if into <= self.size { into } else { self.size };
        }
        self.close(false);
    }

    /// The current block ran to its end.
    pub fn close_whole(&mut self) {
        if self.open {
            self.time += self.size;
        }
        self.close(false);
    }

    #[inline]
    fn close(&mut self, fold: bool) {
        (self.open, self.fold, self.start, self.next, self.size) = (false, fold, 0, NOWHERE, u64::MAX);
    }

    /// The block that was just offered is not going to run now; it will be offered again.
    pub fn take_back(&mut self) {
        self.close(false);
    }

    /// The engine has claimed a trap: so many bytes of guest code were computed, and the next block may continue the line.
    #[inline]
    pub fn resume(&mut self, counted: u64, falls_through: bool) {
        self.time += counted;
        self.close(falls_through);
    }

    /// An instruction costs more than its length.
    pub fn add(&mut self, ticks: Ticks) {
        self.time += ticks;
    }

    /// Whether it could be a clock's state before that time.
    pub fn is_sound(&self, last: Ticks) -> bool {
        // Blocks are short; a state that says otherwise would let time run over.
        const LONGEST: u64 = 1 << 32;
        self.time < last
            && if self.open { self.size < LONGEST } else { (self.start, self.next, self.size) == (0, NOWHERE, u64::MAX) }
    }

    /// Sleeps until then.
    pub fn sleep_until(&mut self, time: Ticks) {
        self.time = self.time.max(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BY-4: breakpoint, slot and way back count as the one instruction that they stand for.
    #[test]
    fn a_probed_instruction_takes_the_time_of_the_instruction() {
        let mut plain = Clock::default();
        plain.enter(0x100, 16, Place::Guest);
        let plain_falls = plain.enter(0x110, 4, Place::Guest);

        for boosted in [false, true] {
            let mut probed = Clock::default();
            probed.enter(0x100, 9, Place::Guest); // ends with the breakpoint at 0x108
            probed.close_at(0x108);
            probed.resume(0, true);
            assert!(probed.enter(0x9000, 4, Place::Copy { origin: 0x108, len: 3 }), "no interrupt in front of the copy");
            if boosted {
                assert!(probed.enter(0x9003, 5, Place::WayBack { next: 0x10b }));
            } else {
                probed.close_at(0x9003);
                probed.resume(0, true);
            }
            assert!(probed.enter(0x10b, 5, Place::Guest), "the rest of the line continues it");
            let falls = probed.enter(0x110, 4, Place::Guest);
            assert_eq!((probed.time(), falls), (plain.time(), plain_falls), "boosted: {boosted}");
        }
    }

    /// BY-4, OP-4: jump, detour and way back count as the instructions that the jump has taken the place of, also where the core cuts
    /// the detour in two, or something in it faults.
    #[test]
    fn an_optimised_region_takes_the_time_of_its_instructions() {
        let mut plain = Clock::default();
        plain.enter(0x100, 24, Place::Guest);
        let plain_falls = plain.enter(0x118, 4, Place::Guest);
        const DETOUR: Place = Place::Detour(Detour { origin: 0x108, point: 0, end: 8, len: 7, jump: 5 });
        for cut in [false, true] {
            let mut probed = Clock::default();
            probed.enter(0x100, 13, Place::Guest); // ends with the jump at 0x108
            assert!(probed.enter(0x9000, if cut { 4 } else { 13 }, DETOUR), "no interrupt in front of the detour");
            assert_eq!((probed.time(), probed.at(0x9001 + 2)), (8, 10), "the time of what stands there");
            if cut {
                assert!(probed.enter(0x9004, 9, Place::Copy { origin: 0x10b, len: 4 }));
            }
            assert!(probed.enter(0x10f, 9, Place::Guest), "the rest of the line continues it");
            let falls = probed.enter(0x118, 4, Place::Guest);
            assert_eq!((probed.time(), falls), (plain.time(), plain_falls), "cut: {cut}");
        }
        let mut faulted = Clock::default();
        faulted.enter(0x100, 13, Place::Guest);
        faulted.enter(0x9000, 13, DETOUR);
        faulted.close_at(0x9001 + 3);
        assert_eq!(faulted.time(), 11);
    }

    /// BY-4: a faithful detour saves, calls and restores in no time, be the displaced instructions a block of their own or not.
    #[test]
    fn a_faithful_detour_takes_the_time_of_its_instructions() {
        let mut plain = Clock::default();
        plain.enter(0x100, 24, Place::Guest);
        let plain_falls = plain.enter(0x118, 4, Place::Guest);
        for cut in [false, true] {
            let mut probed = Clock::default();
            probed.enter(0x100, 13, Place::Guest); // ends with the jump at 0x108
            assert!(probed.enter(0x9000, 50, Place::Saving { jump: 5 }), "no interrupt in front of the detour");
            assert_eq!((probed.time(), probed.at(0x9010)), (8, 8));
            assert!(probed.enter(0xa000, 1, Place::Trampoline));
            assert_eq!((probed.time(), probed.at(0xa000)), (8, 8), "what handlers see");
            assert!(probed.enter(0x9032, if cut { 44 } else { 56 }, Place::Restoring { origin: 0x108, len: 7, lead: 44 }));
            if cut {
                assert!(probed.enter(0x905e, 12, Place::Copy { origin: 0x108, len: 7 }), "no interrupt in front of them");
            }
            assert_eq!((probed.time(), probed.at(0x905e + 2)), (8, 10));
            assert!(probed.enter(0x10f, 9, Place::Guest), "the rest of the line continues it");
            let falls = probed.enter(0x118, 4, Place::Guest);
            assert_eq!((probed.time(), falls), (plain.time(), plain_falls), "cut: {cut}");
        }
        let mut full = Clock::default();
        full.enter(0x100, 13, Place::Guest);
        full.enter(0x9000, 50, Place::Saving { jump: 5 });
        full.close_at(0x9004);
        assert_eq!(full.time(), 8, "a stack that is full is found out in no time");
    }

    /// BY-4: what is dated by the start of its line of code has the same date however the line is cut.
    #[test]
    fn a_line_of_code_starts_at_the_same_time_with_and_without_a_probe_in_it() {
        let mut plain = Clock::default();
        plain.enter(0x100, 16, Place::Guest);
        plain.enter_guest(0x200, 16);
        let mut probed = Clock::default();
        probed.enter(0x100, 16, Place::Guest);
        probed.enter(0x200, 12, Place::Guest); // ends with the breakpoint at 0x208
        probed.close_at(0x208);
        probed.resume(0, true);
        probed.enter(0x9000, 8, Place::Copy { origin: 0x208, len: 4 });
        assert_eq!((plain.line(), probed.line()), (16, 16), "in the copy");
        probed.close_at(0x9004);
        probed.resume(0, true);
        probed.enter(0x20c, 4, Place::Guest);
        assert_eq!(probed.line(), 16, "behind it");
        assert!(plain.goes_on(0x210, 4));
        probed.enter(0x210, 4, Place::Guest);
        assert_eq!((plain.line(), probed.line()), (16, 16), "the line goes on where no branch is taken");
        plain.enter_guest(0x300, 4);
        probed.enter(0x300, 4, Place::Guest);
        assert_eq!((plain.line(), probed.line()), (36, 36), "and ends at one that is");
    }

    /// BY-4: each turn of a repeated instruction counts and is a place for interrupts, in a slot as in place.
    #[test]
    fn a_repeated_instruction_counts_every_turn() {
        let turns = |place: fn() -> Place, first: u64| {
            let mut clock = Clock::default();
            clock.resume(0, true);
            let falls: Vec<bool> = (0..3).map(|_| clock.enter(first, 2, place())).collect();
            clock.close_whole();
            (clock.time(), falls)
        };
        let in_place = turns(|| Place::Guest, 0x200);
        let in_slot = turns(|| Place::Copy { origin: 0x200, len: 2 }, 0x9000);
        assert_eq!(in_place, in_slot);
        assert_eq!(in_slot, (6, vec![true, false, false]));
    }

    /// BY-4: a block that writes into itself starts over in a shorter one; what had run counts once, be it nothing.
    #[test]
    fn a_block_that_writes_into_itself_counts_once() {
        for left_at in [0x100, 0x104] {
            let mut clock = Clock::default();
            clock.enter(0x100, 16, Place::Guest);
            assert!(clock.enter(left_at, 3, Place::Guest), "left at {left_at:#x}");
            assert!(clock.enter(left_at + 3, 0x110 - left_at - 3, Place::Guest));
            clock.close_whole();
            assert_eq!(clock.time(), 16, "left at {left_at:#x}");
        }
        let mut looping = Clock::default();
        looping.enter(0x100, 16, Place::Guest);
        assert!(!looping.enter(0x100, 16, Place::Guest), "a true jump back is a place for interrupts");
        assert_eq!(looping.time(), 16);
    }

    #[test]
    fn a_block_that_is_taken_back_counts_once() {
        let mut clock = Clock::default();
        clock.enter(0x100, 8, Place::Guest);
        clock.enter(0x300, 8, Place::Guest);
        clock.take_back();
        assert!(!clock.enter(0x300, 8, Place::Guest));
        clock.close_whole();
        assert_eq!(clock.time(), 16);
    }

    #[test]
    fn time_is_exact_inside_a_block_and_after_a_fault() {
        let mut clock = Clock::default();
        clock.enter(0x100, 8, Place::Guest);
        assert_eq!(clock.at(0x103), 3);
        clock.close_at(0x105);
        assert_eq!((clock.time(), clock.at(0x105)), (5, 5));
    }
}
