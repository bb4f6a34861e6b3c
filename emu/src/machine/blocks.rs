//! The work at the start of a block besides counting its time: entering a detour, a copy or the return pad, handling
//! due events, ending a run.
//!
//! Blocks arrive in `block` (`hooks.rs`), the most frequent call of all. The work for a block depends on facts that
//! change seldom, so they are not tested for each block. Code that changes one of them calls `set_gate` or
//! `settle_gate`. These update two fields: the gate's address range, and `at_gate`, the function that handles blocks in
//! that range:
//!
//! | condition | range of the gate | `at_gate` |
//! |---|---|---|
//! | instructions are recorded | everything | `recorded_block` |
//! | runs stop at exact places | everything | `exact_block` |
//! | coverage is collected | everything | `covered_block` |
//! | a handler in guest code runs, the window's entry is mapped, or all blocks are reported | everything | `odd_block` |
//! | a hit is in progress on this CPU, or hits are timed | the window | `at_another` |
//! | otherwise | the window | `at_detour` |
//!
//! The first row that applies decides. `odd_block` is correct for every block, and the handlers above it do its work, too.
//! The other two are fast paths that fall back to it without having changed anything: `at_detour` expects the start of a
//! detour, `at_another` the return pad or a copy. Blocks outside the gate's range are the guest's own code: `guest_block`.

use super::gate::Gate;
use super::{AtGate, FROZEN_MOST, Inner, Listener, StopReason};
use crate::boards::At;
use crate::clock::{DetourTiming, Meaning, Ticks};
use crate::unicorn::engine::BlockContext;

impl<L: Listener> Inner<L> {
    /// A block in the probe window, `offset` bytes behind its start, while detours may take the fast path. Most likely
    /// it starts a detour.
    fn at_detour(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>, offset: u64) {
        if let Some(detour) = self.listener.detour(offset)
            && self.view.clock.enter_detour(pc, size, detour)
        {
            let (origin, point) = (detour.origin, detour.point);
            let (listener, view) = self.show(origin);
            return match listener.jumped_in_simply(view, point) {
                true => {}
                false => self.enter_function(origin, point),
            };
        }
        self.at_another(pc, size, cpu, offset);
    }

    /// The fast path for the start of a detour did not apply. Most likely the detour belongs to a return probe.
    #[inline(never)]
    fn enter_function(&mut self, origin: u64, point: u32) {
        let (listener, view) = self.show(origin);
        if !listener.entered_simply(view, point) {
            self.jump_in(origin, point);
        }
    }

    /// A block in the probe window that is not the start of a detour, or that the fast path does not take.
    #[inline(never)]
    fn at_another(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>, offset: u64) {
        if self.listener.returns_at(pc) {
            self.view.clock.enter_nothing(pc);
            return self.returned(pc, size, cpu);
        }
        if let Some((origin, len)) = self.listener.copy(pc)
            && self.view.clock.enter_copy(pc, size, origin, len)
        {
            return;
        }
        self.odd_block(pc, size, cpu, offset);
    }

    /// A block of the guest's own that has not counted itself: an event may be due, or its address is special.
    #[inline(never)]
    pub(super) fn guest_block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>) {
        let falls_through = self.view.clock.enter(pc, size.into(), Meaning::Guest);
        if self.is_due(pc, size, falls_through) {
            self.handle_due_events(cpu, pc);
        }
    }

    /// Whether events must be handled at this block start. A block that falls through defers them, unless the guest has
    /// run for more than 4 MiB without a taken branch.
    #[inline]
    fn is_due(&mut self, pc: u64, size: u32, falls_through: bool) -> bool {
        match falls_through {
            true => self.view.clock.time() >= self.next_look && self.slides(pc, size),
            false => self.is_to_look(pc),
        }
    }

    /// Counts a block that falls through while an event is due. Returns true, and ends the run, after 4 MiB of them.
    #[cold]
    fn slides(&mut self, pc: u64, size: u32) -> bool {
        let is_too_long = self.watchdog.slides(pc, size);
        if is_too_long {
            self.stop_reason =
                Some(StopReason::Shutdown(format!("it ran through more than 4 MiB without a branch, up to {pc:#x}")));
        }
        is_too_long
    }

    /// Whether an event may be due at this block start.
    fn is_to_look(&self, pc: u64) -> bool {
        self.view.is_asking || self.view.clock.time() >= self.next_look || self.arrival == Some(pc) || self.listener.watches(pc)
    }

    /// Makes the next block call the machine.
    #[inline]
    pub(super) fn look_soon(&mut self) {
        self.set_next_look(0);
    }

    /// Sets the time from which on block starts are examined.
    pub(super) fn set_next_look(&mut self, time: Ticks) {
        let time = if self.view.is_asking { 0 } else { time };
        self.next_look = time;
        self.view.clock.look_at(if self.reports_every_block { 0 } else { time });
    }

    /// Recomputes the gate's range and its handler. Call it after any input of either has changed.
    pub(super) fn set_gate(&mut self) {
        self.reports_every_block = self.every_block
            || self.steps.is_some()
            || self.frozen
            || self.shown.is_some()
            || self.listener.follows()
            || self.awaits_programs()
            || self.exact.as_ref().is_some_and(|exact| exact.steps);
        self.gate = if self.reports_every_block || self.exact.is_some() { Gate::wide() } else { Gate::round(&self.window) };
        self.set_next_look(self.next_look);
        self.set_at_gate();
    }

    fn set_at_gate(&mut self) {
        self.was_busy = self.listener.is_busy(self.view.current);
        self.at_gate = if self.gate.is_wide() {
            self.at_wide_gate()
        } else if self.was_busy || self.listener.times() {
            Self::at_another
        } else {
            Self::at_detour
        };
    }

    /// The handler of a gate that covers everything, as it does while instructions are recorded or coverage is collected.
    #[cold]
    fn at_wide_gate(&self) -> AtGate<L> {
        if self.steps.is_some() {
            Self::recorded_block
        } else if self.exact.is_some() {
            Self::exact_block
        } else if self.coverage.is_some() {
            Self::covered_block
        } else {
            Self::odd_block
        }
    }

    /// Recomputes the handler. Call it after the listener may have become busy or idle.
    #[inline]
    pub(super) fn settle_gate(&mut self) {
        if self.listener.is_busy(self.view.current) != self.was_busy {
            self.set_at_gate();
        }
    }

    /// The general handler: a block in the probe window, the first block outside it, a block of a handler in guest
    /// code, or a block that the listener follows.
    pub(super) fn odd_block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>, _: u64) {
        let _ = self.any_block(pc, size, cpu);
    }

    /// The gate's handler while instructions are recorded: any block, which is one instruction.
    fn recorded_block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>, _: u64) {
        let handle = cpu.handle();
        let is_guests = !self.window.holds(pc) && !self.frozen;
        if self.any_block(pc, size, cpu).is_some() && is_guests {
            self.note_step(&handle, pc);
        }
    }

    /// The gate's handler while coverage is collected: any block.
    fn covered_block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>, _: u64) {
        let in_kernel = (self.view.model.registers.in_kernel)(&cpu.handle());
        let (start, len) = match self.window.holds(pc).then(|| self.listener.meaning(pc)) {
            None => (pc, size),
            Some(Meaning::Copy { origin, len } | Meaning::Restoring { origin, len, .. }) => (origin, len.into()),
            Some(Meaning::Detour(DetourTiming { origin, len, .. })) => (origin, len.into()),
            Some(_) => (pc, 0),
        };
        if self.any_block(pc, size, cpu).is_some()
            && in_kernel
            && let Some(coverage) = &mut self.coverage
        {
            coverage.note(start, len);
        }
    }

    /// Does the work that every block needs. Returns whether the block falls through; `None` if the CPU stops in front of it.
    pub(super) fn any_block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>) -> Option<bool> {
        if let Some(StopReason::Shutdown(_)) = self.stop_reason {
            cpu.stop();
            return None;
        }
        // The core has already translated the fetch address, so it needs our page-table entry no more. A displaced
        // instruction that reads or writes page tables must not see that entry.
        self.hide_window();
        let meaning = if self.window.holds(pc) {
            self.listener.meaning(pc)
        } else if self.frozen {
            self.frozen_block();
            Meaning::Nothing
        } else {
            Meaning::Guest
        };
        let counts_as = if self.frozen { Meaning::Nothing } else { meaning };
        let falls_through = self.view.clock.enter(pc, size.into(), counts_as);
        if self.is_due(pc, size, falls_through) && self.handle_due_events(cpu, pc) {
            return None;
        }
        if self.listener.follows() {
            let (listener, view) = self.show(pc);
            listener.passed(view, pc..pc.wrapping_add(size.into()));
        }
        if self.awaits_programs() {
            self.look_for_awaited(pc);
        }
        match meaning {
            Meaning::Detour(detour) => self.jump_in(detour.origin, detour.point),
            Meaning::ReturnPad => self.returned(pc, size, cpu),
            Meaning::Saving { .. } => self.saving(pc),
            Meaning::Trampoline => self.called(pc),
            _ => {}
        }
        Some(falls_through)
    }

    /// Handles due events at a block start; only here a run can end. Returns true if it ends.
    fn handle_due_events(&mut self, cpu: BlockContext<'_>, pc: u64) -> bool {
        let now = self.view.clock.time();
        if !cpu.handle().goes_straight_on(pc) {
            return false;
        }
        self.advance_if_due(At { cpu: self.view.current, now });
        if self.stop_reason.is_none() && core::mem::take(&mut self.view.is_asking) {
            self.stop_reason = Some(StopReason::Attention);
        }
        if self.stop_reason.is_none() && self.arrival == Some(pc) {
            self.arrival = None;
            self.stop_reason = Some(StopReason::Attention);
        }
        if self.stop_reason.is_none() && self.listener.watches(pc) {
            let (listener, view) = self.show(pc);
            if listener.arrived(view) {
                self.stop_reason = Some(StopReason::Attention);
            }
            // The listener may have started or stopped following blocks.
            self.set_gate();
        }
        if self.stop_reason.is_none()
            && self.board.pending(self.view.current).is_some()
            && self.lets_in(&cpu.handle())
            && (self.view.model.interrupts.can_be_taken)(&cpu.handle(), &mut self.scratch)
        {
            self.stop_reason = Some(StopReason::Interrupt);
        }
        if self.stop_reason.is_none() && now >= self.limit {
            self.stop_reason = Some(StopReason::Limit);
        }
        if self.stop_reason.is_none() && now >= self.slice_end {
            self.stop_reason = Some(StopReason::Switch);
        }
        if self.stop_reason.is_none() && self.listener.attention_at().is_some_and(|at| now >= at) {
            self.stop_reason = Some(StopReason::Attention);
        }
        if self.stop_reason.is_some() {
            self.view.clock.take_back();
            cpu.stop();
            true
        } else {
            self.set_next_look(self.when_to_look());
            false
        }
    }

    /// The next time at which block starts must be examined. It is 0 while the guest masks a pending interrupt.
    pub(super) fn when_to_look(&self) -> u64 {
        if self.stop_reason.is_some() || self.board.pending(self.view.current).is_some() {
            return 0;
        }
        let due = [self.board.next_event(self.view.current), self.listener.attention_at()].into_iter().flatten().min();
        due.unwrap_or(u64::MAX).min(self.limit).min(self.slice_end)
    }

    fn frozen_block(&mut self) {
        self.frozen_blocks += 1;
        if self.frozen_blocks > FROZEN_MOST {
            self.stop_reason =
                Some(StopReason::Shutdown(format!("a handler in guest code did not return within {FROZEN_MOST} blocks")));
        }
    }

    /// The CPU is at the return pad: runs the return handlers on live registers. The listener sets the true return
    /// address in the guest's memory or registers.
    #[inline(never)]
    fn returned(&mut self, pc: u64, _size: u32, cpu: BlockContext<'_>) {
        let (listener, view) = self.show(pc);
        if !listener.returned(view) {
            return self.returned_nowhere(cpu);
        }
        self.look_at_listener();
    }

    #[cold]
    fn returned_nowhere(&mut self, cpu: BlockContext<'_>) {
        self.stop_reason =
            Some(StopReason::Shutdown("a function under a return probe returned on a stack that cannot be written".into()));
        cpu.stop();
    }

    /// The CPU is at the start of a detour: runs the probe's handlers on live registers. They may not set the pc.
    #[inline(never)]
    fn jump_in(&mut self, origin: u64, point: u32) {
        let (listener, view) = self.show(origin);
        listener.jumped_in(view, point);
        self.look_at_listener();
    }

    /// The CPU is at the start of a faithful detour.
    #[inline(never)]
    fn saving(&mut self, pc: u64) {
        let (listener, view) = self.show(pc);
        listener.saving(view);
    }

    /// The CPU is at the trampoline: runs the handlers on the registers that the detour saved.
    #[inline(never)]
    fn called(&mut self, pc: u64) {
        let (listener, view) = self.show(pc);
        listener.called(view);
        self.look_at_listener();
    }
}
