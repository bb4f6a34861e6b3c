//! What is done where a block of guest code starts, beside counting its time: a probe's detour, copy or return pad,
//! what is due, the end of a run.
//!
//! Blocks arrive in `block` (`hooks.rs`), which is called more often than anything else. What is to be done with one
//! depends on facts that seldom change, so a block does not ask for them: whoever changes one calls `set_gate` or
//! `settle_gate`, which leaves the answer in two fields, the addresses that the gate catches and the function that gets
//! what it has caught:
//!
//! | what is so | the gate catches | `at_gate` |
//! |---|---|---|
//! | guest code of a handler runs, the window's entry is shown, or all blocks are to be told | everything | `odd_block` |
//! | the engine is in the middle of something on this CPU, or takes times | the window | `at_another` |
//! | else | the window | `at_detour` |
//!
//! `odd_block` is right for every block. The other two are guesses in front of it that are fast where they come true,
//! and have changed nothing where they do not: `at_detour` guesses the start of a detour, then `at_another` the return
//! pad or a copy. What the gate does not catch is the guest's own code: `guest_block`.

use super::gate::Gate;
use super::{FROZEN_MOST, Inner, Listener, Wish};
use crate::boards::At;
use crate::clock::{Meaning, Ticks};
use crate::unicorn::engine::BlockContext;

impl<L: Listener> Inner<L> {
    /// A block in the probe window, so far behind its start, where detours are nothing special: most likely the start
    /// of one.
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

    /// The CPU is at the start of a detour that is not quite as usual: most likely that of a return probe.
    #[inline(never)]
    fn enter_function(&mut self, origin: u64, point: u32) {
        let (listener, view) = self.show(origin);
        if !listener.entered_simply(view, point) {
            self.jump_in(origin, point);
        }
    }

    /// A block in the probe window that is no detour, or where these take no short way.
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

    /// A block of the guest's own that has not counted itself: something may be due, or its address is special.
    #[inline(never)]
    pub(super) fn guest_block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>) {
        let falls_through = self.view.clock.enter(pc, size.into(), Meaning::Guest);
        if !falls_through && self.is_to_look(pc) {
            self.look_up(cpu, pc);
        }
    }

    /// Whether something may have to be done at this block start.
    fn is_to_look(&self, pc: u64) -> bool {
        self.view.is_asking || self.view.clock.time() >= self.next_look || self.arrival == Some(pc) || self.listener.watches(pc)
    }

    /// Something may be due: the next block that starts is looked at.
    #[inline]
    pub(super) fn look_soon(&mut self) {
        self.set_next_look(0);
    }

    /// From that time on block starts are looked at.
    pub(super) fn set_next_look(&mut self, time: Ticks) {
        let time = if self.view.is_asking { 0 } else { time };
        self.next_look = time;
        // While the gate is wide all blocks are told, whatever the time is.
        self.view.clock.look_at(if self.gate.is_wide() { 0 } else { time });
    }

    /// What the gate is to catch and what is done with that, after a change of what that depends on.
    pub(super) fn set_gate(&mut self) {
        let wide = self.every_block || self.frozen || self.shown.is_some() || self.listener.follows();
        self.gate = if wide { Gate::wide() } else { Gate::round(&self.window) };
        self.set_next_look(self.next_look);
        self.set_at_gate();
    }

    fn set_at_gate(&mut self) {
        self.was_busy = self.listener.is_busy(self.view.current);
        self.at_gate = if self.gate.is_wide() {
            Self::odd_block
        } else if self.was_busy || self.listener.times() {
            Self::at_another
        } else {
            Self::at_detour
        };
    }

    /// After what may have made the listener busy, or idle again.
    #[inline]
    pub(super) fn settle_gate(&mut self) {
        if self.listener.is_busy(self.view.current) != self.was_busy {
            self.set_at_gate();
        }
    }

    /// A block in the probe window, the first one behind it, one of a handler in guest code, or one that the listener
    /// follows.
    pub(super) fn odd_block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>, _: u64) {
        if let Some(Wish::Shutdown(_)) = self.wish {
            cpu.stop();
            return;
        }
        // The core has looked this block up. A displaced instruction that reads or writes page tables must not meet our
        // entry either.
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
        if !falls_through && self.is_to_look(pc) && self.look_up(cpu, pc) {
            return;
        }
        if self.listener.follows() {
            let (listener, view) = self.show(pc);
            listener.passed(view, pc..pc.wrapping_add(size.into()));
        }
        match meaning {
            Meaning::Detour(detour) => self.jump_in(detour.origin, detour.point),
            Meaning::ReturnPad => self.returned(pc, size, cpu),
            Meaning::Saving { .. } => self.saving(pc),
            Meaning::Trampoline => self.called(pc),
            _ => {}
        }
    }

    /// A block start at which something may be due; the only place where a run is ended. True: it is.
    fn look_up(&mut self, cpu: BlockContext<'_>, pc: u64) -> bool {
        if !cpu.handle().goes_straight_on(pc) {
            return false;
        }
        let now = self.view.clock.time();
        self.board.advance(At { cpu: self.view.current, now });
        if self.wish.is_none() && core::mem::take(&mut self.view.is_asking) {
            self.wish = Some(Wish::Attention);
        }
        if self.wish.is_none() && self.arrival == Some(pc) {
            self.arrival = None;
            self.wish = Some(Wish::Attention);
        }
        if self.wish.is_none() && self.listener.watches(pc) {
            let (listener, view) = self.show(pc);
            if listener.arrived(view) {
                self.wish = Some(Wish::Attention);
            }
            // It may follow blocks from now on, or no more.
            self.set_gate();
        }
        if self.wish.is_none()
            && self.board.pending(self.view.current).is_some()
            && self.lets_in(&cpu.handle())
            && (self.view.model.interrupts.can_be_taken)(&cpu.handle(), &mut self.scratch)
        {
            self.wish = Some(Wish::Interrupt);
        }
        if self.wish.is_none() && now >= self.limit {
            self.wish = Some(Wish::Limit);
        }
        if self.wish.is_none() && now >= self.slice_end {
            self.wish = Some(Wish::Switch);
        }
        if self.wish.is_none() && self.listener.attention_at().is_some_and(|at| now >= at) {
            self.wish = Some(Wish::Attention);
        }
        if self.wish.is_some() {
            self.view.clock.take_back();
            cpu.stop();
            true
        } else {
            self.set_next_look(self.when_to_look());
            false
        }
    }

    /// The next time at which a block start must be looked at: at once while an interrupt waits for the guest to let it
    /// in.
    pub(super) fn when_to_look(&self) -> u64 {
        if self.wish.is_some() || self.board.pending(self.view.current).is_some() {
            return 0;
        }
        let due = [self.board.next_event(self.view.current), self.listener.attention_at()].into_iter().flatten().min();
        due.unwrap_or(u64::MAX).min(self.limit).min(self.slice_end)
    }

    fn frozen_block(&mut self) {
        self.frozen_blocks += 1;
        if self.frozen_blocks > FROZEN_MOST {
            self.wish = Some(Wish::Shutdown(format!("a handler in guest code ran for {FROZEN_MOST} blocks without returning")));
        }
    }

    /// The CPU is at the return pad: return handlers run, on live registers. Where the pad leads is in the guest's
    /// memory or registers.
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
        self.wish = Some(Wish::Shutdown("a function under a return probe has returned on a stack that cannot be written".into()));
        cpu.stop();
    }

    /// The CPU is at the start of a detour: the handlers of its probe run, on live registers. The pc is not theirs to
    /// set.
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

    /// The CPU is at the trampoline: the handlers run, on the registers that the detour has saved.
    #[inline(never)]
    fn called(&mut self, pc: u64) {
        let (listener, view) = self.show(pc);
        listener.called(view);
        self.look_at_listener();
    }
}
