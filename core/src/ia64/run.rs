//! The loop that runs blocks. It loads the registers of an incomplete frame, finds the block at the pc, counts its bytes or
//! calls the host, and executes the slots of its bundles.

use super::blocks::{Block, Blocks};
use super::bundles::Bundles;
use super::execute::{Done, Next};
use super::frame::View;
use super::memory::CodePage;
use super::seen::{Pages, Starts};
use super::state::State;
use super::{Fault, Host, psr};
use alloc::rc::Rc;
use trapline_isa::ia64::bundle::Unit;
use trapline_isa::ia64::decode::Instruction;

/// A CPU with its decoded code.
#[derive(Debug)]
pub struct Core {
    pub(super) state: Rc<State>,
    pub(super) bundles: Bundles,
    pub(super) blocks: Blocks,
    pub(super) data: Pages,
    starts: Starts,
    pub(super) code: CodePage,
    /// The virtual and the physical address of the last data access.
    pub(super) accessed: (u64, u64),
    /// Whether each instruction is a block of its own.
    pub(super) one_by_one: bool,
    /// Whether the first block of the next run has one instruction.
    begins_alone: bool,
    /// Whether code was dropped since the flag was cleared.
    pub(super) has_dropped: bool,
    /// Whether the code that runs is in the probe window. It does not count as completed instructions of the guest.
    pub(super) in_window: bool,
}

impl Default for Core {
    fn default() -> Core {
        Core::new()
    }
}

impl Core {
    /// A CPU after reset, which keeps no blocks.
    pub fn new() -> Core {
        Core::with_ram(0, 0)
    }

    /// A CPU after reset, with RAM at these physical addresses.
    pub fn with_ram(base: u64, len: u64) -> Core {
        Core {
            state: State::new(),
            bundles: Bundles::new(),
            blocks: Blocks::new(base, len),
            data: Pages::NONE,
            starts: Starts::new(),
            code: CodePage::default(),
            accessed: (0, 0),
            one_by_one: false,
            begins_alone: false,
            has_dropped: false,
            in_window: false,
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
        self.bundles.forget_all();
        self.blocks.drop_all();
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

    /// The number of pages in which blocks start.
    pub fn pages_with_code(&self) -> usize {
        self.blocks.pages_with_code()
    }

    pub(super) fn raise(&mut self, host: &mut impl Host, fault: Fault) {
        self.state.note(fault);
        let state = Rc::clone(&self.state);
        host.exception(&state, fault.vector);
        self.drop_changed(host);
        self.has_dropped = false;
    }

    /// Runs until [`State::stop`] is set. Blocks are counted in the state's line.
    pub fn run(&mut self, host: &mut impl Host) {
        let state = self.shared_state();
        // The host may have changed anything.
        state.has_changed();
        self.drop_changed(host);
        let mut is_alone = core::mem::take(&mut self.begins_alone);
        while state.stop.get() == 0 {
            if state.loads.get() != 0
                && let Err(fault) = self.complete_frame(host)
            {
                self.raise(host, fault);
                continue;
            }
            let found = match core::mem::take(&mut is_alone) {
                true => self.fetch().map(|physical| self.block(host, physical, true).map(|block| (physical, block))),
                false => self.next_block(host, &state),
            };
            match found {
                Ok(Some((physical, block))) => self.run_block(host, &state, physical, block),
                Ok(None) => self.raise(host, Fault::ILLEGAL),
                Err(fault) => self.raise(host, fault),
            }
        }
        state.stop.set(0);
    }

    /// The mode in which a block is looked up at the pc. Bit 0 is always set.
    #[inline(always)]
    fn mode(&mut self, state: &State) -> u32 {
        let status = state.status.get();
        let level = status >> psr::CPL & 3;
        self.in_window = state.ip().wrapping_sub(state.window[0].get()) < state.window[1].get() && level == 0;
        1 | u32::from(status & psr::IT != 0) << 1 | u32::from(self.in_window) << 2 | (level as u32) << 3
    }

    /// The block at the pc, with its physical address. `None` where no RAM is.
    fn next_block(&mut self, host: &mut impl Host, state: &State) -> Result<Option<(u64, Block)>, Fault> {
        let (pc, mode) = (state.pc.get(), self.mode(state));
        let changes = state.changes.get().wrapping_add(self.blocks.changes);
        if let Some(found) = self.starts.find(pc, mode, changes) {
            return Ok(Some(found));
        }
        let physical = self.fetch()?;
        let found = self.block(host, physical, false).map(|block| (physical, block));
        // A block outside of RAM is not remembered: a store to its page does not drop it.
        if let Some(found) = found
            && self.blocks.has_code(physical)
        {
            // Old blocks may have been dropped to make room.
            let changes = state.changes.get().wrapping_add(self.blocks.changes);
            self.starts.keep(pc, mode, changes, found);
        }
        Ok(found)
    }

    /// The block that follows the one that has run, if nothing has to be done before it runs. It is counted.
    #[inline(always)]
    fn following(&mut self, state: &State, view: &View, nats: bool) -> Option<(u64, Block)> {
        let is_complete = state.loads.get() == 0 || state.dirty.get() >= 0;
        if state.stop.get() != 0 || !is_complete || !(view.is_plain || nats) {
            return None;
        }
        let (pc, mode) = (state.pc.get(), self.mode(state));
        let changes = state.changes.get().wrapping_add(self.blocks.changes);
        let found = self.starts.find(pc, mode, changes)?;
        if state.line.count.get() >= 0 || found.1.always {
            return None;
        }
        state.loads.set(0);
        self.has_dropped = false;
        count_block(state, pc, found.1);
        Some(found)
    }

    /// Counts a block, and runs it to its end or to the first instruction that leads elsewhere.
    #[inline(always)]
    fn run_block(&mut self, host: &mut impl Host, state: &State, physical: u64, mut block: Block) {
        let (pc, size) = (state.pc.get(), u64::from(block.size));
        self.has_dropped = false;
        if state.line.count.get() >= 0 || block.always {
            host.block(pc, size as u32);
            if state.stop.get() != 0 {
                return;
            }
            self.drop_changed(host);
            if self.has_dropped {
                match self.block(host, physical, false) {
                    Some(now) if now.counts_like(&block) => block = now,
                    _ => return,
                }
                self.has_dropped = false;
            }
        } else {
            count_block(state, pc, block);
        }
        let view = View::of(state);
        match view.is_plain {
            true => self.run_quick::<_, false>(host, state, view, (physical, block)),
            false => self.run_quick::<_, true>(host, state, view, (physical, block)),
        }
    }

    /// Runs a block and those that follow it, until the host or the engine of the register stack has to do something.
    #[inline(never)]
    fn run_quick<H: Host, const NATS: bool>(&mut self, host: &mut H, state: &State, start: View, found: (u64, Block)) {
        let (mut view, mut found) = (start, found);
        while self.run_instructions::<H, NATS>(host, state, view, found) {
            view = View::of(state);
            let Some(next) = self.following(state, &view, NATS) else { return };
            found = next;
        }
    }

    /// Runs the instructions of a block. The pc and the number of executed instructions are written at the end of the block,
    /// and in front of each instruction that runs from its full form. Without `NATS`, instructions run from there as soon as
    /// a general register has a NaT bit. Returns whether another block may follow.
    #[inline(always)]
    fn run_instructions<H: Host, const NATS: bool>(
        &mut self,
        host: &mut H,
        state: &State,
        start: View,
        (physical, block): (u64, Block),
    ) -> bool {
        let (pc, mut view) = (state.pc.get(), start);
        let range = block.first as usize..block.first as usize + usize::from(block.len);
        let Some(mut instructions) = self.blocks.quick.get(range.clone()) else { return false };
        // The number of instructions that are counted in the state.
        let (mut counted, mut index) = (0, 0);
        while let Some(quick) = instructions.get(index) {
            let at = pc.wrapping_add_signed(quick.offset.into());
            let done = if quick.predicate != 0 && !view.p(state, quick.predicate) {
                if quick.acts { Done::Not } else { Done::Slot }
            } else if view.is_plain || NATS && view.is_usual {
                self.quick::<H, NATS>(host, state, view, &quick.what, at & !15)
            } else {
                Done::Not
            };
            index += 1;
            if done == Done::Slot {
                continue;
            }
            let before = quick.place;
            match done {
                Done::Bundle(to) => {
                    self.count(state, before + 1 - counted, at.wrapping_add(1));
                    state.go_to(to);
                    return true;
                }
                Done::Not => {
                    if before > counted {
                        self.count(state, before - counted, at);
                    }
                    state.pc.set(at);
                    let Some(instruction) = self.blocks.full.get(range.start + index - 1).copied() else { return false };
                    match self.step_full(host, state, instruction.as_ref()) {
                        Err(fault) => {
                            self.raise(host, fault);
                            return false;
                        }
                        Ok(Next::Slot) => {}
                        Ok(_) => return !self.has_dropped,
                    }
                    if self.has_dropped {
                        self.run_rest(host, physical, (pc, block), range.start + index);
                        return false;
                    }
                    counted = before + 1;
                    let Some(same) = self.blocks.quick.get(range.clone()) else { return false };
                    instructions = same;
                    view = View::of(state);
                }
                Done::Frame => view = View::of(state),
                Done::Slot => {}
            }
        }
        if block.total > counted {
            let end = pc.wrapping_add(block.size.into());
            self.count(state, block.total - counted, end);
            state.pc.set(end);
        }
        true
    }

    /// Counts executed instructions, the last of which ends at this pc.
    #[inline(always)]
    fn count(&self, state: &State, instructions: u8, end: u64) {
        state.executed.set(state.executed.get().wrapping_add(instructions.into()));
        if !self.in_window {
            state.last.set(end.wrapping_sub(1) & !15);
        }
    }

    /// Executes the instruction at the pc from its full form, and sets the pc behind it.
    fn step_full(&mut self, host: &mut impl Host, state: &State, instruction: Option<&Instruction>) -> Result<Next, Fault> {
        let Some(instruction) = instruction else { return Err(Fault::ILLEGAL) };
        // A long instruction is named by slot 1.
        let slot = if instruction.unit == Unit::X { 2 } else { state.slot() };
        self.step_in(host, state, instruction, slot)
    }

    /// Runs the rest of a block, whose code may have changed. The bundles behind the present one are decoded again. `next` is
    /// the index of the next instruction.
    #[cold]
    fn run_rest(&mut self, host: &mut impl Host, physical: u64, (start, block): (u64, Block), next: usize) {
        let end = start.wrapping_add(block.size.into());
        let state = self.shared_state();
        let mut next = next;
        let behind = block.first as usize + usize::from(block.len);
        while state.slot() != 0 && state.pc.get() != end {
            let quick = self.blocks.quick.get(next).filter(|_| next < behind);
            let is_next = quick.is_some_and(|quick| start.wrapping_add_signed(quick.offset.into()) == state.pc.get());
            if !is_next {
                // An instruction that does nothing.
                self.count(&state, 1, state.pc.get().wrapping_add(1));
                match state.slot() {
                    1 => state.set_slot(2),
                    _ => state.go_to(state.ip().wrapping_add(16)),
                }
                continue;
            }
            let Some(instruction) = self.blocks.full.get(next).copied() else { return };
            next += 1;
            match self.step_full(host, &state, instruction.as_ref()) {
                Err(fault) => return self.raise(host, fault),
                Ok(Next::Slot) => {}
                Ok(_) => return,
            }
        }
        let mut physical = physical.wrapping_add(state.ip().wrapping_sub(start & !15));
        while state.pc.get() != end {
            let Some(bundle) = self.decoded(host, physical) else { return self.raise(host, Fault::ILLEGAL) };
            loop {
                match self.step(host, &bundle) {
                    Err(fault) => return self.raise(host, fault),
                    Ok(Next::Slot | Next::Look) if state.pc.get() == end => return,
                    Ok(Next::Slot) if state.slot() == 0 => break,
                    Ok(Next::Slot) => {}
                    Ok(_) => return,
                }
            }
            physical += 16;
        }
    }
}

/// Counts the bytes of a block that is about to run.
#[inline(always)]
fn count_block(state: &State, pc: u64, block: Block) {
    let (line, size) = (&state.line, u64::from(block.size));
    line.count.set(line.count.get() + size as i64);
    line.start.set(pc);
    line.size.set(size);
}
