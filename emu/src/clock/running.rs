//! The clock of the running CPU. It computes the time from three words, which translated code mostly updates by itself.
//!
//! A line of code is the code that runs between two taken branches. Blocks are pieces of it. The three words describe
//! the current block:
//!
//! ```text
//!             start               pc                    start + size
//!   ------------[==================|=======================[=========>  the line of code
//!             time()             at(pc)                  the end
//! ```
//!
//! `count` is the time at the block's end minus `look`, the time from which on each block start must be reported to the
//! machine. The next block starts at that time, so its code only has to test the sign and add its size
//! (`translator/loop.c`). A block that calls the machine is entered here instead.
//!
//! While no block runs, the words describe an empty block: at the address where the line would continue, or at
//! `NOWHERE`.
//!
//! A copy in the probe window stands for an instruction elsewhere. Its line continues after that instruction; the field
//! `copy` stores the address.

use super::{DetourTiming, Meaning, Stopped, Ticks};
use crate::unicorn::line::Line;

/// The clock of the CPU that is on the core. It must be told of every block that has not counted itself, and of
/// everything that leaves a block early.
#[derive(Debug)]
pub struct Clock {
    line: Line,
    look: Ticks,
    /// The window block that was entered last: its start, and the address where its line continues.
    copy: (u64, u64),
}

/// An address without instructions on any ISA: not canonical on x86-64, and odd.
const NOWHERE: u64 = 1 << 63 | 1;
/// Size of a branch that has a delay slot, in bytes.
const LONGEST_BRANCH: u64 = 4;
/// A time so far in the future that it is never reached.
const FAR: Ticks = 1 << 62;

impl Clock {
    /// A clock on these words. Its time is 0, and every block is reported.
    pub fn new(line: Line) -> Clock {
        let mut clock = Clock { line, look: 0, copy: (NOWHERE, NOWHERE) };
        clock.go_on(&Stopped::default());
        clock
    }

    /// The time at the end of the block.
    #[inline(always)]
    fn end(&self) -> Ticks {
        self.look.wrapping_add_signed(self.line.count())
    }

    #[inline(always)]
    fn add_signed(&mut self, ticks: i64) {
        self.line.set_count(self.line.count().wrapping_add(ticks));
    }

    /// The time at the start of the block.
    #[inline]
    pub fn time(&self) -> Ticks {
        self.end().wrapping_sub(self.line.size())
    }

    /// The time at an instruction of the block.
    #[inline]
    pub fn at(&self, pc: u64) -> Ticks {
        self.end().wrapping_sub(self.rest_from(pc))
    }

    /// The bytes of the block from an instruction on. All bytes if the instruction is not in the block.
    #[inline(always)]
    fn rest_from(&self, pc: u64) -> u64 {
        let (into, size) = (pc.wrapping_sub(self.line.start()), self.line.size());
        if into <= size { size - into } else { size }
    }

    /// The address at which the line continues after the block.
    #[inline]
    fn next(&self) -> u64 {
        let start = self.line.start();
        if start == self.copy.0 { self.copy.1 } else { start.wrapping_add(self.line.size()) }
    }

    /// Sets the time from which on block starts are reported. Blocks that always call the machine are reported before
    /// that, too.
    pub fn look_at(&mut self, time: Ticks) {
        let end = self.end();
        self.look = time.min(end.saturating_add(FAR));
        self.line.set_count(end.wrapping_sub(self.look).cast_signed());
    }

    /// Fast path of [`Clock::enter`] for a detour that is one block and was reached by its jump. Returns false, having
    /// changed nothing, in all other cases.
    #[inline(always)]
    pub fn enter_detour(&mut self, pc: u64, size: u32, detour: &DetourTiming) -> bool {
        let (end, len, jump) = (u32::from(detour.end), u64::from(detour.len), u64::from(detour.jump));
        // The jump was counted in the block before, so take back its bytes; the displaced instructions count here. Both
        // conditions are combined into one branch.
        if (i64::from(size) - i64::from(end)) | self.line.size().wrapping_sub(jump).cast_signed() < 0 {
            return false;
        }
        let copy = pc.wrapping_add(end.into()).wrapping_sub(len);
        self.add_signed(len.wrapping_sub(jump).cast_signed());
        self.line.set_block(copy, len);
        self.copy = (copy, detour.origin.wrapping_add(len));
        true
    }

    /// Fast path of [`Clock::enter`] for [`Meaning::Copy`] after a claimed trap. Returns false, having changed nothing,
    /// if a block runs.
    #[inline(always)]
    pub fn enter_copy(&mut self, pc: u64, size: u32, origin: u64, len: u8) -> bool {
        let is_new = self.line.size() == 0;
        if is_new {
            let counted = u64::from(len).min(size.into());
            self.add_signed(counted.cast_signed());
            self.line.set_block(pc, counted);
            self.copy = (pc, origin.wrapping_add(counted));
        }
        is_new
    }

    /// Fast path of [`Clock::enter`] for [`Meaning::ReturnPad`] and other code that counts nothing.
    #[inline(always)]
    pub fn enter_nothing(&mut self, pc: u64) {
        self.line.set_block(pc, 0);
    }

    /// Enters a block that has not counted itself. Returns true if it falls through from the block before; then no
    /// interrupt and no stop may happen here.
    pub fn enter(&mut self, pc: u64, size: u64, meaning: Meaning) -> bool {
        let again = self.line.size() != 0 && pc == self.line.start();
        let mut falls_through = pc == self.next();
        // Start of the counted bytes, their number, and the address that the guest would see.
        let (mut start, mut counted, mut shown) = (pc, 0, pc);
        match meaning {
            Meaning::Guest => counted = size,
            Meaning::Copy { origin, len } => {
                // A repeated instruction returns to its own start, where interrupts are possible as in the original.
                falls_through = !again;
                // The core ends blocks after some instructions. The rest of a copy is then a block of its own.
                (shown, counted) = (origin, u64::from(len).min(size));
            }
            Meaning::WayBack { next } => {
                falls_through = true;
                shown = next;
            }
            Meaning::Detour(detour) => {
                let DetourTiming { origin, len, jump, .. } = detour;
                let lead = u64::from(detour.lead());
                falls_through = true;
                self.add_signed(-i64::from(jump));
                start = pc.wrapping_add(lead);
                (shown, counted) = (origin, u64::from(len).min(size.saturating_sub(lead)));
            }
            Meaning::Saving { jump } => {
                falls_through = true;
                self.add_signed(-i64::from(jump));
            }
            // If the core ends the block before the displaced instructions, they are a block of their own.
            Meaning::Restoring { origin, len, lead } if size > u64::from(lead) => {
                falls_through = true;
                start = pc.wrapping_add(lead.into());
                (shown, counted) = (origin, u64::from(len).min(size - u64::from(lead)));
            }
            Meaning::Nothing | Meaning::ReturnPad | Meaning::Trampoline | Meaning::Restoring { .. } => falls_through = true,
        }
        self.add_signed(counted.cast_signed());
        self.line.set_block(start, counted);
        self.copy = match meaning {
            Meaning::Guest => (NOWHERE, NOWHERE),
            _ => (start, shown.wrapping_add(counted)),
        };
        falls_through
    }

    /// Closes the block at `pc`, which has not run. If `pc` is outside of the block, the exception was raised while
    /// fetching the next block, so the block is complete.
    #[inline]
    pub fn close_at(&mut self, pc: u64) {
        let into = pc.wrapping_sub(self.line.start());
        self.close(if into <= self.line.size() { self.line.size() - into } else { 0 });
    }

    /// Closes the block at the branch at this address, after an exception in its delay slot; the branch will run again.
    /// If the block begins with the slot (at a page start), the branch's bytes are taken back, too.
    pub fn close_at_branch(&mut self, branch: u64) {
        let slot_first = self.line.start().wrapping_sub(branch);
        match self.line.size() {
            size @ 1.. if (1..=LONGEST_BRANCH).contains(&slot_first) => self.close(size + slot_first),
            _ => self.close_at(branch),
        }
    }

    /// Closes a block that ran to its end.
    pub fn close_whole(&mut self) {
        self.close(0);
    }

    /// Takes back the block that was just entered. It will be entered again.
    pub fn take_back(&mut self) {
        self.close(self.line.size());
    }

    #[inline]
    fn close(&mut self, not_run: u64) {
        self.add_signed(-not_run.cast_signed());
        self.line.set_block(NOWHERE, 0);
    }

    /// Continues after a trap that the engine has claimed. `counted` bytes of guest code were computed, and the next
    /// block may continue the line at `goes_on_at`.
    #[inline]
    pub fn resume(&mut self, counted: u64, goes_on_at: Option<u64>) {
        self.add_signed(counted.wrapping_sub(self.line.size()).cast_signed());
        self.line.set_block(goes_on_at.unwrap_or(NOWHERE), 0);
    }

    /// Adds time for an instruction that takes longer than its length.
    pub fn add(&mut self, ticks: Ticks) {
        self.add_signed(ticks.cast_signed());
    }

    /// Sleeps until a time.
    pub fn sleep_until(&mut self, time: Ticks) {
        self.add(time.saturating_sub(self.time()));
    }

    /// Whether the CPU was stopped in the middle of a line of code. No block must be running.
    #[inline]
    pub fn goes_on(&self) -> bool {
        self.line.size() == 0 && self.line.start() != NOWHERE
    }

    /// The state to continue from when this CPU is on the core again. No block must be running.
    pub fn stopped(&self) -> Stopped {
        let goes_on_at = Some(self.line.start()).filter(|at| self.line.size() == 0 && *at != NOWHERE);
        Stopped { time: self.time(), goes_on_at }
    }

    /// Puts this CPU's clock on the core.
    pub fn go_on(&mut self, from: &Stopped) {
        self.line.set_block(from.goes_on_at.unwrap_or(NOWHERE), 0);
        self.line.set_count(from.time.wrapping_sub(self.look).cast_signed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clock() -> Clock {
        Clock::new(Line::of_no_core())
    }

    /// BY-4: breakpoint, slot and way back together take the time of the instruction that they replace.
    #[test]
    fn a_probed_instruction_takes_the_time_of_the_instruction() {
        let mut plain = clock();
        plain.enter(0x100, 16, Meaning::Guest);
        let plain_falls = plain.enter(0x110, 4, Meaning::Guest);

        for boosted in [false, true] {
            let mut probed = clock();
            probed.enter(0x100, 9, Meaning::Guest); // ends with the breakpoint at 0x108
            probed.close_at(0x108);
            probed.resume(0, Some(0x9000));
            assert!(probed.enter(0x9000, 4, Meaning::Copy { origin: 0x108, len: 3 }), "no interrupt in front of the copy");
            if boosted {
                assert!(probed.enter(0x9003, 5, Meaning::WayBack { next: 0x10b }));
            } else {
                probed.close_at(0x9003);
                probed.resume(0, Some(0x10b));
            }
            assert!(probed.enter(0x10b, 5, Meaning::Guest), "the rest of the line continues it");
            let falls = probed.enter(0x110, 4, Meaning::Guest);
            assert_eq!((probed.time(), falls), (plain.time(), plain_falls), "boosted: {boosted}");
        }
    }

    /// BY-4, OP-4: jump, detour and way back together take the time of the instructions that the jump replaces. This
    /// also holds if the core splits the detour, or an instruction in it faults.
    #[test]
    fn an_optimised_region_takes_the_time_of_its_instructions() {
        let mut plain = clock();
        plain.enter(0x100, 24, Meaning::Guest);
        let plain_falls = plain.enter(0x118, 4, Meaning::Guest);
        const DETOUR: Meaning = Meaning::Detour(DetourTiming { origin: 0x108, point: 0, end: 8, len: 7, jump: 5 });
        for cut in [false, true] {
            let mut probed = clock();
            probed.enter(0x100, 13, Meaning::Guest); // ends with the jump at 0x108
            assert!(probed.enter(0x9000, if cut { 4 } else { 13 }, DETOUR), "no interrupt in front of the detour");
            assert_eq!((probed.time(), probed.at(0x9001 + 2)), (8, 10), "the time of what stands there");
            if cut {
                assert!(probed.enter(0x9004, 9, Meaning::Copy { origin: 0x10b, len: 4 }));
            }
            assert!(probed.enter(0x10f, 9, Meaning::Guest), "the rest of the line continues it");
            let falls = probed.enter(0x118, 4, Meaning::Guest);
            assert_eq!((probed.time(), falls), (plain.time(), plain_falls), "cut: {cut}");
        }
        let mut faulted = clock();
        faulted.enter(0x100, 13, Meaning::Guest);
        faulted.enter(0x9000, 13, DETOUR);
        faulted.close_at(0x9001 + 3);
        assert_eq!(faulted.time(), 11);
    }

    /// BY-4: a faithful detour saves, calls and restores in no time, whether the displaced instructions are a separate
    /// block or not.
    #[test]
    fn a_faithful_detour_takes_the_time_of_its_instructions() {
        let mut plain = clock();
        plain.enter(0x100, 24, Meaning::Guest);
        let plain_falls = plain.enter(0x118, 4, Meaning::Guest);
        for cut in [false, true] {
            let mut probed = clock();
            probed.enter(0x100, 13, Meaning::Guest); // ends with the jump at 0x108
            assert!(probed.enter(0x9000, 50, Meaning::Saving { jump: 5 }), "no interrupt in front of the detour");
            assert_eq!((probed.time(), probed.at(0x9010)), (8, 8));
            assert!(probed.enter(0xa000, 1, Meaning::Trampoline));
            assert_eq!((probed.time(), probed.at(0xa000)), (8, 8), "what handlers see");
            assert!(probed.enter(0x9032, if cut { 44 } else { 56 }, Meaning::Restoring { origin: 0x108, len: 7, lead: 44 }));
            if cut {
                assert!(probed.enter(0x905e, 12, Meaning::Copy { origin: 0x108, len: 7 }), "no interrupt in front of them");
            }
            assert_eq!((probed.time(), probed.at(0x905e + 2)), (8, 10));
            assert!(probed.enter(0x10f, 9, Meaning::Guest), "the rest of the line continues it");
            let falls = probed.enter(0x118, 4, Meaning::Guest);
            assert_eq!((probed.time(), falls), (plain.time(), plain_falls), "cut: {cut}");
        }
        let mut full = clock();
        full.enter(0x100, 13, Meaning::Guest);
        full.enter(0x9000, 50, Meaning::Saving { jump: 5 });
        full.close_at(0x9004);
        assert_eq!(full.time(), 8, "a stack that is full is found out in no time");
    }

    /// BY-4, KP-9: an exception in a delay slot has the time of its branch, also if the slot begins a block.
    #[test]
    fn an_exception_in_a_delay_slot_is_at_the_time_of_its_branch() {
        let left = |blocks: &[(u64, u64)]| {
            let mut clock = clock();
            for (start, size) in blocks {
                clock.enter(*start, *size, Meaning::Guest);
            }
            clock.close_at_branch(0xffc);
            clock.time()
        };
        assert_eq!((left(&[(0xff0, 20)]), left(&[(0xff0, 16), (0x1000, 4)])), (12, 12));
    }

    /// BY-4: each iteration of a repeated instruction counts and allows interrupts, in a slot as in place.
    #[test]
    fn each_iteration_of_a_repeated_instruction_counts() {
        let turns = |meaning: fn() -> Meaning, first: u64| {
            let mut clock = clock();
            clock.resume(0, Some(first));
            let falls: Vec<bool> = (0..3).map(|_| clock.enter(first, 2, meaning())).collect();
            clock.close_whole();
            (clock.time(), falls)
        };
        let in_place = turns(|| Meaning::Guest, 0x200);
        let in_slot = turns(|| Meaning::Copy { origin: 0x200, len: 2 }, 0x9000);
        assert_eq!(in_place, in_slot);
        assert_eq!(in_slot, (6, vec![true, false, false]));
    }

    /// BY-4: a block that modifies itself is restarted as a shorter one. The part that had run counts once.
    #[test]
    fn a_self_modifying_block_counts_once() {
        for left_at in [0x100, 0x104] {
            let mut clock = clock();
            clock.enter(0x100, 16, Meaning::Guest);
            clock.line.cut_short_as_code_does(left_at);
            assert!(clock.enter(left_at, 3, Meaning::Guest), "left at {left_at:#x}");
            assert!(clock.enter(left_at + 3, 0x110 - left_at - 3, Meaning::Guest));
            clock.close_whole();
            assert_eq!(clock.time(), 16, "left at {left_at:#x}");
        }
        let mut looping = clock();
        looping.enter(0x100, 16, Meaning::Guest);
        assert!(!looping.enter(0x100, 16, Meaning::Guest), "a true jump back is a place for interrupts");
        assert_eq!(looping.time(), 16);
    }

    #[test]
    fn a_block_that_is_taken_back_counts_once() {
        let mut clock = clock();
        clock.enter(0x100, 8, Meaning::Guest);
        clock.enter(0x300, 8, Meaning::Guest);
        clock.take_back();
        assert!(!clock.enter(0x300, 8, Meaning::Guest));
        clock.close_whole();
        assert_eq!(clock.time(), 16);
    }

    #[test]
    fn time_is_exact_inside_a_block_and_after_a_fault() {
        let mut clock = clock();
        clock.enter(0x100, 8, Meaning::Guest);
        assert_eq!(clock.at(0x103), 3);
        clock.close_at(0x105);
        assert_eq!((clock.time(), clock.at(0x105)), (5, 5));
    }

    /// One event of the model test.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// A block of this size that starts at the end of the previous one.
        On(u16),
        /// A block that starts at an address chosen by the first number.
        Jump(u8, u16),
        /// An exception at this offset in the block.
        Trap(u16),
        /// The time is read at this offset in the block.
        Ask(u16),
        /// An instruction takes longer than its length.
        Cost(u8),
        /// Blocks are reported from this distance in time on.
        Look(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1..300u16).prop_map(Step::On),
            (any::<u8>(), 1..300u16).prop_map(|(to, size)| Step::Jump(to, size)),
            any::<u16>().prop_map(Step::Trap),
            any::<u16>().prop_map(Step::Ask),
            any::<u8>().prop_map(Step::Cost),
            (0..2000u16).prop_map(Step::Look),
        ]
    }

    proptest! {
        /// BY-4: time is the same whether blocks count themselves or are reported, from any time on.
        #[test]
        fn blocks_that_count_themselves_take_the_same_time(steps in proptest::collection::vec(step(), 1..200)) {
            let (mut told, mut counting) = (clock(), clock());
            let (mut next, mut start, mut size) = (0x1000_u64, 0x1000_u64, 0_u64);
            for step in steps {
                let block = match step {
                    Step::On(bytes) => Some((next, u64::from(bytes))),
                    Step::Jump(to, bytes) => Some((0x10_0000 + 0x1000 * u64::from(to), u64::from(bytes))),
                    Step::Trap(into) => {
                        let pc = start + u64::from(into) % (size + 1);
                        told.close_at(pc);
                        counting.close_at(pc);
                        (next, start, size) = (pc, pc, 0);
                        None
                    }
                    Step::Ask(into) => {
                        let pc = start + u64::from(into) % (size + 1);
                        prop_assert_eq!(told.at(pc), counting.at(pc));
                        None
                    }
                    Step::Cost(ticks) => {
                        told.add(ticks.into());
                        counting.add(ticks.into());
                        None
                    }
                    Step::Look(ahead) => {
                        counting.look_at(counting.time() + u64::from(ahead));
                        None
                    }
                };
                if let Some((pc, bytes)) = block {
                    let due = told.end() >= counting.look;
                    let falls_through = told.enter(pc, bytes, Meaning::Guest);
                    let calls = counting.line.count_as_code_does(pc, bytes);
                    prop_assert_eq!(calls, due);
                    if calls {
                        prop_assert_eq!(counting.enter(pc, bytes, Meaning::Guest), falls_through);
                    }
                    (start, size, next) = (pc, bytes, pc + bytes);
                }
                prop_assert_eq!(told.time(), counting.time());
                prop_assert_eq!(told.end(), counting.end());
            }
        }
    }
}
