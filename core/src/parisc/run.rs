//! The loop that runs blocks. It finds the block at the pc, counts its bytes or calls the host, and executes its operations. The
//! state's queue is written at the end of a block, and before each call of the host.

use super::access::Data;
use super::blocks::{Code, Place, Run};
use super::decode::Op;
use super::execute::Step;
use super::straight::End;
use super::tlb::Purpose;
use super::{State, number, psw};
use crate::Host;
use alloc::rc::Rc;

/// The target of a branch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Target {
    pub to: u32,
    pub space: u32,
    pub level: u32,
}

/// A CPU with its decoded code.
#[derive(Debug)]
pub struct Core {
    pub(super) state: Rc<State>,
    pub(super) code: Code,
    pub(super) data: Data,
    pub(super) target: Target,
    /// Whether code was dropped since the flag was cleared. The rest of the running block may be stale then.
    pub(super) has_dropped: bool,
    one_by_one: bool,
    /// Whether the first block of the next run has one instruction.
    begins_alone: bool,
    /// The PSW bit P with which the cached translations were made. A change drops them.
    checks: u32,
}

impl Core {
    /// A CPU after reset, with RAM at these physical addresses.
    pub fn new(base: u64, len: u64) -> Core {
        Core {
            state: State::new(),
            code: Code::new(base, len),
            data: Data::NONE,
            target: Target::default(),
            has_dropped: false,
            one_by_one: false,
            begins_alone: false,
            checks: 0,
        }
    }

    /// The state, which stays where it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state, for a host that looks at it while the core runs.
    pub fn shared_state(&self) -> Rc<State> {
        Rc::clone(&self.state)
    }

    /// Drops all decoded code.
    pub fn drop_all(&mut self) {
        self.code.drop_all();
    }

    /// Sets whether each instruction is a block of its own, and drops all decoded code.
    pub fn set_one_by_one(&mut self, one_by_one: bool) {
        self.one_by_one = one_by_one;
        self.drop_all();
    }

    /// Makes the first block of the next run one instruction long. Decoded blocks are kept.
    pub fn begin_alone(&mut self) {
        self.begins_alone = true;
    }

    /// The number of pages with decoded code.
    pub fn pages_with_code(&self) -> usize {
        self.code.pages_with_code()
    }

    /// Drops the blocks of a page, by its physical address.
    pub(super) fn drop_page(&mut self, physical: u64) {
        self.code.drop_page(physical);
        self.has_dropped = true;
    }

    /// Drops the blocks of the pages that the host has written to.
    pub(super) fn drop_changed(&mut self, host: &mut impl Host) {
        while let Some(page) = host.dropped() {
            self.drop_page(page);
        }
    }

    /// The physical address of the instruction at the front; `Err` is the number of the exception.
    fn fetch(&mut self) -> Result<u64, u32> {
        let state = &self.state;
        let (pc, space, level) = (state.front.get(), state.front_space.get(), state.front_level.get());
        let [start, len, physical] = [0, 1, 2].map(|number| state.window[number].get());
        if pc.wrapping_sub(start) < len && space == 0 && level == 0 {
            return Ok(u64::from(physical) + u64::from(pc - start));
        }
        match state.status.get() & psw::C {
            0 => Ok(pc.into()),
            _ => self.translated(space, pc, Purpose::Fetch),
        }
    }

    /// Calls the host for an exception of the instruction at the front.
    fn raise(&mut self, host: &mut impl Host, number: u32, word: u32) {
        self.state.word.set(word);
        host.exception(number);
        self.drop_changed(host);
        self.has_dropped = false;
    }

    /// Runs until [`State::stop`] is set.
    pub fn run(&mut self, host: &mut impl Host) {
        // The host may have changed anything.
        self.data.forget_all();
        self.code.generation = self.code.generation.wrapping_add(1);
        self.drop_changed(host);
        self.has_dropped = false;
        let (mut last, mut is_alone) = (0, core::mem::take(&mut self.begins_alone));
        loop {
            if self.state.stop.replace(0) != 0 {
                return;
            }
            let state = &self.state;
            let (pc, space) = (state.front.get(), state.front_space.get());
            let mode = state.front_level.get() | state.status.get() & (psw::C | psw::P);
            if mode & psw::P != self.checks {
                self.checks = mode & psw::P;
                self.data.forget_all();
            }
            let place = self.code.place(pc, space, mode);
            let block = match self.code.linked(last, place) {
                Some(run) => run.block,
                None => {
                    let physical = match self.fetch() {
                        Ok(physical) => physical,
                        Err(number) => {
                            self.state.at_space.set(space);
                            self.state.at.set(pc);
                            self.raise(host, number, 0);
                            last = 0;
                            continue;
                        }
                    };
                    let found = match core::mem::take(&mut is_alone) {
                        true => self.code.alone_at(host, physical, pc.into()),
                        false => self.code.at(host, physical, pc.into(), self.one_by_one),
                    };
                    let Some(block) = found else {
                        // No RAM is there.
                        self.raise(host, number::ILLEGAL, 0);
                        last = 0;
                        continue;
                    };
                    self.code.link(last, place, block);
                    block
                }
            };
            last = block;
            if let Some((run, was_called)) = self.enter(host, block) {
                // The host may have changed anything, such as code or the mode.
                let place = if was_called { Place::NOWHERE } else { place };
                last = self.run_blocks(host, run, pc, place);
            }
        }
    }

    /// Counts the bytes of a block, or calls the host. Returns the block if it is to run, and whether the host was called. If a
    /// delay slot is at the front of the queue, runs only the first instruction.
    fn enter(&mut self, host: &mut impl Host, number: u32) -> Option<(Run, bool)> {
        let block = self.code.blocks.get(number as usize).copied()?;
        let state = &self.state;
        let (pc, back) = (state.front.get(), state.back.get());
        let is_straight = back == pc.wrapping_add(4)
            && state.front_space.get() == state.back_space.get()
            && state.front_level.get() == state.back_level.get();
        let len = if is_straight { block.len } else { 1 };
        let line = &state.line;
        let calls = line.count.get() >= 0 || block.always;
        if calls {
            host.block(pc.into(), 4 * len);
            if self.state.stop.get() != 0 {
                return None;
            }
            self.drop_changed(host);
            if core::mem::take(&mut self.has_dropped)
                && self.code.blocks.get(number as usize).is_none_or(|now| now.len != block.len)
            {
                return None;
            }
        } else {
            self.count(pc, len);
        }
        if !is_straight {
            self.run_single(host, block.first, pc, back);
            return None;
        }
        Some((Run { block: number, first: block.first, len }, calls))
    }

    /// Counts the bytes of a block.
    #[inline(always)]
    fn count(&self, pc: u32, len: u32) {
        let line = &self.state.line;
        line.count.set(line.count.get() + i64::from(4 * len));
        line.start.set(pc.into());
        line.size.set((4 * len).into());
    }

    /// Runs a block at `pc` that was counted, and then the linked ones that follow it in the same space and mode, until the queue
    /// must be looked at. Returns the number of the last block.
    #[inline(always)]
    fn run_blocks(&mut self, host: &mut impl Host, mut run: Run, mut pc: u32, place: Place) -> u32 {
        let mut done = self.state.nullify.replace(0);
        loop {
            match self.straight(host, run, pc, done) {
                End::Near { to, nullify } => (pc, done) = (to, nullify),
                End::Split => return run.block,
                End::Slow { place, then } => {
                    self.rest(host, run, pc, (place, then));
                    return run.block;
                }
            }
            let state = &self.state;
            let next = self.code.linked(run.block, place.moved(pc));
            let Some(next) = next.filter(|_| state.stop.get() == 0 && state.line.count.get() < 0) else {
                self.arrive_near(pc, done);
                return run.block;
            };
            run = next;
            self.count(pc, run.len);
        }
    }

    /// Runs the rest of a block, from an instruction that needs its full form.
    fn rest(&mut self, host: &mut impl Host, run: Run, pc: u32, (mut place, mut then): (u32, u32)) {
        loop {
            let Some(op) = self.code.ops.get((run.first + place) as usize).copied() else { return };
            let at = pc.wrapping_add(4 * place);
            let next = at.wrapping_add(4);
            if then != pc.wrapping_add(4 * run.len) {
                self.target = Target { to: then, space: self.state.front_space.get(), level: self.state.front_level.get() };
                return self.slot(host, op, at);
            }
            let done = match self.step(host, op, at, next) {
                Step::Next => place + 1,
                Step::Nullify => place + 2,
                Step::Branch { nullifies } => {
                    return self.branch(host, (run.first + place + 1, place + 1 < run.len), next, nullifies);
                }
                Step::Exception(number) => {
                    self.state.front.set(at);
                    self.state.back.set(next);
                    return self.raise(host, number, op.word);
                }
                Step::Leave => return,
                Step::Look => {
                    self.cut(run.len - place - 1);
                    return self.arrive_near(next, 0);
                }
            };
            match self.straight(host, run, pc, done) {
                End::Near { to, nullify } => return self.arrive_near(to, nullify),
                End::Split => return,
                End::Slow { place: slow, then: to } => (place, then) = (slow, to),
            }
        }
    }

    /// Sets the queue to an address and the one behind it. Space and level remain.
    #[inline(always)]
    pub(super) fn arrive_near(&self, to: u32, nullify: u32) {
        self.state.front.set(to);
        self.state.back.set(to.wrapping_add(4));
        self.state.nullify.set(nullify);
    }

    /// Subtracts instructions at the end of the last block from the count, because they do not run now.
    pub(super) fn cut(&self, instructions: u32) {
        let line = &self.state.line;
        if instructions != 0 {
            line.count.set(line.count.get() - i64::from(4 * instructions));
            line.size.set(line.size.get().saturating_sub(u64::from(4 * instructions)));
        }
    }

    /// Ends a block with a branch to [`Core::target`] and its delay slot at `at`. `slot` is the slot's operation, if
    /// it is in the block.
    fn branch(&mut self, host: &mut impl Host, (slot, has_slot): (u32, bool), at: u32, nullifies: bool) {
        let target = self.target;
        if nullifies {
            if has_slot {
                self.cut(1);
            }
            return self.arrive(target, 0);
        }
        let op = if has_slot { self.code.ops.get(slot as usize).copied() } else { None };
        let Some(op) = op else {
            // The slot is in the next page or holds a branch, so it is a block of its own.
            self.state.front.set(at);
            self.state.back.set(target.to);
            self.state.back_space.set(target.space);
            self.state.back_level.set(target.level);
            return;
        };
        self.slot(host, op, at);
    }

    /// Runs an instruction in the slot of a branch to [`Core::target`].
    fn slot(&mut self, host: &mut impl Host, op: Op, at: u32) {
        let target = self.target;
        // The host may be called in the slot.
        self.state.back_space.set(target.space);
        self.state.back_level.set(target.level);
        match self.step(host, op, at, target.to) {
            Step::Next | Step::Look => self.arrive(target, 0),
            Step::Nullify => self.arrive(target, 1),
            // No branch stands in a block's slot.
            Step::Leave | Step::Branch { .. } => {}
            Step::Exception(number) => {
                self.state.front.set(at);
                self.state.back.set(target.to);
                self.raise(host, number, op.word);
            }
        }
    }

    /// Sets the queue to a branch's target and the instruction behind it.
    #[inline(always)]
    fn arrive(&self, target: Target, nullify: u32) {
        let state = &self.state;
        state.front.set(target.to);
        state.back.set(target.to.wrapping_add(4));
        state.front_space.set(target.space);
        state.back_space.set(target.space);
        state.front_level.set(target.level);
        state.back_level.set(target.level);
        state.nullify.set(nullify);
    }

    /// Runs one instruction whose successor is not the next word: a delay slot that is a block of its own.
    fn run_single(&mut self, host: &mut impl Host, first: u32, pc: u32, back: u32) {
        let state = &self.state;
        let target = Target { to: back, space: state.back_space.get(), level: state.back_level.get() };
        if state.nullify.get() != 0 {
            return self.arrive(target, 0);
        }
        let Some(op) = self.code.ops.get(first as usize).copied() else { return };
        match self.step(host, op, pc, back) {
            Step::Next | Step::Look => self.arrive(target, 0),
            Step::Nullify => self.arrive(target, 1),
            Step::Branch { nullifies: true } => self.arrive(self.target, 0),
            Step::Branch { nullifies: false } => {
                let next = self.target;
                self.arrive(target, 0);
                self.state.back.set(next.to);
                self.state.back_space.set(next.space);
                self.state.back_level.set(next.level);
            }
            Step::Leave => {}
            Step::Exception(number) => {
                self.state.front.set(pc);
                self.state.back.set(back);
                self.raise(host, number, op.word);
            }
        }
    }
}
