//! What the CPU core calls: blocks that start, traps, port accesses. The road of a hit begins in `interrupt`.

use super::gate::Gate;
use super::{FROZEN_MOST, Happening, Inner, Listener, What, Wish};
use crate::boards::At;
use crate::clock::{Place, nanoseconds, ticks};
use crate::cpu::{Exception, Trap, TrapKind, View};
use crate::unicorn::engine::{BlockContext, Events, Handle, InstructionContext, SyscallContext, TrapContext};
use crate::unicorn::kinds::SystemRegister;
use trapline_isa::regs::Registers;
use trapline_probes::guest::{Answer, Resume};

/// What reading the time stamp counter costs, so that polling loops end.
const CLOCK_READ_NANOSECONDS: u64 = 20;

impl<L: Listener> Events for Inner<L> {
    #[inline]
    fn block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>) {
        // Every call below is the last thing done: so this needs no registers of its caller's, nor a stack.
        if let Some(offset) = self.gate.catches(pc) {
            return (self.at_gate)(self, pc, size, cpu, offset);
        }
        if self.view.clock.goes_on(pc, size) {
            return;
        }
        if !self.view.clock.enter_guest(pc, size) {
            return self.near_block(pc, size, cpu);
        }
        if self.view.clock.time() >= self.next_look || self.listener.watches(pc) {
            self.look(pc, size, cpu);
        }
    }

    fn interrupt(&mut self, cpu: &TrapContext, vector: u32) {
        let trap = (self.view.model.trap)(cpu, &mut self.scratch, vector);
        self.trapped(cpu, trap);
    }

    fn invalid_instruction(&mut self, cpu: &TrapContext) {
        let trap = (self.view.model.invalid)(cpu);
        self.trapped(cpu, trap);
    }

    fn memory_in(&mut self, _cpu: &InstructionContext, physical: u64, size: u32) -> u64 {
        let at = self.access_in_line();
        self.board.memory_read(at, physical, size)
    }

    fn memory_out(&mut self, _cpu: &InstructionContext, physical: u64, size: u32, value: u64) {
        let at = self.access_in_line();
        self.board.memory_write(at, physical, size, value);
        self.after_access();
    }

    fn port_in(&mut self, cpu: &InstructionContext, port: u16, size: u32) -> u32 {
        self.view.clock.add(self.board.read_takes(port));
        let at = self.access(&cpu.handle());
        self.board.advance(at);
        self.board.port_read(at, port, size)
    }

    fn port_out(&mut self, cpu: &InstructionContext, port: u16, size: u32, value: u32) {
        let at = self.access(&cpu.handle());
        self.board.advance(at);
        self.board.port_write(at, port, size, value);
        self.after_access();
    }

    fn cpuid(&mut self, cpu: &InstructionContext) {
        (self.view.model.instructions.identify)(cpu);
    }

    fn rdtsc(&mut self, cpu: &InstructionContext) {
        self.view.clock.add(ticks(CLOCK_READ_NANOSECONDS));
        let pc = cpu.handle().pc();
        let time = self.view.clock.at(pc);
        (self.view.model.instructions.read_clock)(cpu, nanoseconds(time));
        self.record(What::ClockRead, self.origin_of(pc), time);
    }

    fn syscall(&mut self, cpu: &SyscallContext) {
        let pc = cpu.handle().pc();
        self.counts.system_calls += 1;
        self.record(What::SystemCall, pc, self.view.clock.at(pc));
        (self.view.model.instructions.system_call)(cpu, &mut self.scratch);
    }

    fn system_in(&mut self, cpu: &InstructionContext, register: SystemRegister) -> Option<u64> {
        let pc = cpu.handle().pc();
        let at = At { cpu: self.view.current, now: self.view.clock.at(pc) };
        let value = self.board.system_read(at, register)?;
        self.view.clock.add(ticks(CLOCK_READ_NANOSECONDS));
        self.record(What::ClockRead, self.origin_of(pc), at.now);
        Some(value)
    }

    fn system_out(&mut self, cpu: &InstructionContext, register: SystemRegister, value: u64) -> bool {
        let at = At { cpu: self.view.current, now: self.view.clock.at(cpu.handle().pc()) };
        let taken = self.board.system_write(at, register, value);
        if taken {
            self.next_look = 0;
            self.after_access();
        }
        taken
    }
}

impl<L: Listener> Inner<L> {
    fn trapped(&mut self, cpu: &TrapContext, trap: Trap) {
        match trap.kind {
            TrapKind::Breakpoint => self.breakpoint(cpu, trap),
            TrapKind::Exception => self.exception(cpu, trap),
            TrapKind::FirmwareCall => self.firmware_call(cpu, trap),
            TrapKind::Hint => {
                self.view.clock.close_at(trap.resume);
                cpu.set_pc(trap.resume);
            }
        }
    }

    /// The board answers as firmware does: function and arguments in the registers of a call, the result in that of a result.
    fn firmware_call(&mut self, cpu: &TrapContext, trap: Trap) {
        self.view.clock.close_at(trap.resume);
        self.next_look = 0;
        let abi = self.view.isa.abi;
        let at = At { cpu: self.view.current, now: self.view.clock.time() };
        let mut call = [0; 4];
        for (value, register) in call.iter_mut().zip(abi.arguments) {
            *value = (self.view.model.get)(&cpu.handle(), *register, trap.pc);
        }
        let answer = self.board.firmware_call(at, call);
        (self.view.model.set)(cpu, abi.result, answer);
        cpu.set_pc(trap.resume);
        self.after_access();
    }

    /// A block in the probe window, so far behind its start, where detours are nothing special: most likely the start of one.
    fn at_detour(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>, offset: u64) {
        if let Some(detour) = self.listener.detour(offset)
            && self.view.clock.enter_detour(pc, size, detour)
        {
            let (origin, point) = (detour.origin, detour.point);
            let (listener, view) = self.show(origin);
            return match listener.escaped_simply(view, point) {
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
            self.escape(origin, point);
        }
    }

    /// A block in the probe window that is no detour, or where these take no short way.
    #[inline(never)]
    fn at_another(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>, offset: u64) {
        if self.listener.returns_at(pc) && self.view.clock.enter_nothing(pc) {
            return self.returned(pc, size, cpu);
        }
        if let Some((origin, len)) = self.listener.copy(pc)
            && self.view.clock.enter_copy(pc, size, origin, len)
        {
            return;
        }
        self.odd_block(pc, size, cpu, offset);
    }

    /// A block of the guest's own that the clock has to think about: the first one behind a trap, one that starts inside the one before.
    #[inline(never)]
    fn near_block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>) {
        let falls_through = self.view.clock.enter(pc, size.into(), Place::Guest);
        if !falls_through && (self.view.clock.time() >= self.next_look || self.listener.watches(pc)) {
            self.look_up(cpu, pc);
        }
    }

    /// A block start at which something may be due.
    #[inline(never)]
    fn look(&mut self, pc: u64, _size: u32, cpu: BlockContext<'_>) {
        self.look_up(cpu, pc);
    }

    /// What the gate is to catch and what is done with that, after a change of what that depends on.
    pub(super) fn set_gate(&mut self) {
        let wide = self.frozen || self.shown.is_some() || self.arrival.is_some() || self.listener.follows();
        self.gate = if wide { Gate::wide() } else { Gate::round(&self.window) };
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
    fn settle_gate(&mut self) {
        if self.listener.is_busy(self.view.current) != self.was_busy {
            self.set_at_gate();
        }
    }

    /// A block in the probe window, the first one behind it, one of a handler in guest code, or one that the listener follows.
    pub(super) fn odd_block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>, _: u64) {
        if let Some(Wish::Shutdown(_)) = self.wish {
            cpu.stop();
            return;
        }
        // The core has looked this block up. A displaced instruction that reads or writes page tables must not meet our entry either.
        self.hide_window();
        let place = if self.window.holds(pc) {
            self.listener.place(pc)
        } else if self.frozen {
            self.frozen_block();
            Place::Nothing
        } else {
            Place::Guest
        };
        let counts_as = if self.frozen { Place::Nothing } else { place };
        let falls_through = self.view.clock.enter(pc, size.into(), counts_as);
        if !falls_through
            && (self.view.clock.time() >= self.next_look || self.arrival == Some(pc) || self.listener.watches(pc))
            && self.look_up(cpu, pc)
        {
            return;
        }
        if self.listener.follows() {
            self.listener.passed(pc..pc.wrapping_add(size.into()));
        }
        match place {
            Place::Detour(detour) => self.escape(detour.origin, detour.point),
            Place::ReturnPad => self.returned(pc, size, cpu),
            Place::Saving { .. } => self.saving(pc),
            Place::Trampoline => self.called(pc),
            _ => {}
        }
    }

    /// A block start at which something may be due; the only place where a run is ended. True: it is.
    fn look_up(&mut self, cpu: BlockContext<'_>, pc: u64) -> bool {
        let now = self.view.clock.time();
        self.board.advance(At { cpu: self.view.current, now });
        if self.wish.is_none() && self.arrival == Some(pc) {
            self.arrival = None;
            self.wish = Some(Wish::Attention);
        }
        if self.wish.is_none() && self.listener.watches(pc) {
            let (listener, view) = self.show(pc);
            if listener.arrived(view) {
                self.wish = Some(Wish::Attention);
            }
        }
        if self.wish.is_none()
            && self.board.pending(self.view.current).is_some()
            && (self.view.model.interruptible)(&cpu.handle(), &mut self.scratch)
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
            self.next_look = self.when_to_look();
            false
        }
    }

    /// The next time at which a block start must be looked at: at once while an interrupt waits for the guest to let it in.
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

    /// The listener, and the CPU as it is shown to it.
    #[inline]
    pub(super) fn show(&mut self, pc: u64) -> (&mut L, &mut View) {
        self.view.pc = pc;
        (&mut self.listener, &mut self.view)
    }

    fn breakpoint(&mut self, cpu: &TrapContext, trap: Trap) {
        self.view.clock.close_at(trap.pc);
        let (listener, view) = self.show(trap.pc);
        let answer = listener.breakpoint(view);
        let pc = view.pc();
        // Taken for a breakpoint that has just been removed; this machine leaves none behind, so it was another instruction of
        // the same vector (`CD 03` on x86).
        let other = matches!(answer, Answer::Resume(Resume { counted: 0, frozen: false, .. }))
            && pc == trap.pc
            && !view.holds_breakpoint(pc);
        self.settle_gate();
        match answer {
            Answer::Resume(resume) if !other => {
                self.counts.claimed += 1;
                self.freeze(resume.frozen);
                self.view.clock.resume(resume.counted.into(), resume.falls_through);
                self.show_window(cpu, pc);
                cpu.set_pc(pc);
                self.look_at_listener();
            }
            // Where any undefined instruction traps as the breakpoint does: a copy that is one.
            Answer::NotOurs if self.window.holds(trap.pc) => self.exception(cpu, trap),
            _ => {
                let resume = if pc == trap.pc { trap.resume } else { pc };
                self.view.clock.resume(trap.resume - trap.pc, false);
                self.give(cpu, trap.exception, resume);
            }
        }
    }

    /// The CPU is at the return pad: return handlers run, on live registers. Where the pad leads is in the guest's memory or registers.
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

    /// The CPU is at the start of a detour: the handlers of its probe run, on live registers. The pc is not theirs to set.
    #[inline(never)]
    fn escape(&mut self, origin: u64, point: u32) {
        let (listener, view) = self.show(origin);
        listener.escaped(view, point);
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

    /// A handler in guest code begins, or has ended.
    #[inline]
    fn freeze(&mut self, frozen: bool) {
        self.frozen_blocks = 0;
        if self.frozen != frozen {
            self.frozen = frozen;
            self.set_gate();
        }
    }

    fn exception(&mut self, cpu: &TrapContext, trap: Trap) {
        let exception = trap.exception;
        let known = self.fault_address;
        if let Some(shown) =
            (self.view.model.window_fault)(cpu, &mut self.scratch, &self.view.ram, &exception, &self.window, known)
        {
            self.counts.window_faults += 1;
            self.hide_window();
            self.shown = Some(shown);
            self.set_gate();
            return;
        }
        let mut resume = trap.resume;
        if exception.fetch {
            self.view.clock.close_whole()
        } else {
            self.view.clock.close_at(resume)
        };
        if self.window.holds(trap.pc) {
            let (listener, view) = self.show(trap.pc);
            let answer = listener.fault(view, exception.vector);
            resume = view.pc();
            self.settle_gate();
            // It may want to be called at another time from now on.
            self.next_look = 0;
            if let Answer::Resume(how) = answer {
                self.view.clock.resume(how.counted.into(), how.falls_through);
                self.freeze(how.frozen);
                (self.view.model.forget)(cpu, &mut self.scratch, &exception, self.fault_address);
                cpu.set_pc(resume);
                return;
            }
            if exception.fetch && !self.window.holds(resume) {
                // What has run there was the last that this privilege may run in the window: the guest finds out by itself how it goes on.
                self.view.clock.resume(0, false);
                (self.view.model.forget)(cpu, &mut self.scratch, &exception, self.fault_address);
                cpu.set_pc(resume);
                return;
            }
        }
        self.give(cpu, exception, resume);
    }

    /// Delivers, or notes that the guest is past help.
    pub(super) fn give(&mut self, cpu: &TrapContext, exception: Exception, resume: u64) {
        if Some(exception.vector) == self.view.model.system_call_vector {
            self.counts.system_calls += 1;
            self.record(What::SystemCall, resume, self.view.clock.time());
        } else {
            self.counts.exceptions += 1;
            self.record(What::Exception(exception.vector, exception.error), resume, self.view.clock.time());
        }
        let answer = (self.view.model.deliver)(cpu, &mut self.scratch, &self.view.ram, exception, resume);
        self.fault_address = (self.view.model.fault_address)(&cpu.handle());
        if let Err(shutdown) = answer {
            self.shut_down(cpu, shutdown.why);
        } else if self.is_storm() {
            self.shut_down(
                cpu,
                format!("it takes exception {} at {resume:#x} without end, executing nothing between", exception.vector),
            );
        }
    }

    /// Exceptions whose handlers fault at their first instruction, for ever: no time passes, so no limit would end them.
    fn is_storm(&mut self) -> bool {
        const STORM: u32 = 10_000;
        let time = self.view.clock.time();
        self.exceptions_now = if time == self.last_exception { self.exceptions_now + 1 } else { 0 };
        self.last_exception = time;
        self.exceptions_now > STORM
    }

    fn shut_down(&mut self, cpu: &TrapContext, why: String) {
        self.wish = Some(Wish::Shutdown(why));
        cpu.stop();
    }

    /// Before the CPU goes to the window: it must be mapped there under the page tables in force.
    fn show_window(&mut self, cpu: &TrapContext, pc: u64) {
        if self.window.holds(pc) {
            if let Some(tables) = self.view.model.tables_in_force
                && self.fetched.again(tables(&cpu.handle()), pc)
            {
                return;
            }
            self.hide_window();
            self.shown = (self.view.model.show_window)(&cpu.handle(), &self.view.ram, &self.window, pc);
            self.set_gate();
        }
    }

    /// The CPU has left the window: its mapping goes before code of the guest's own can see it.
    #[inline]
    pub(super) fn hide_window(&mut self) {
        if let Some(shown) = self.shown.take() {
            (self.view.model.hide_window)(&self.view.ram, &shown);
            self.set_gate();
        }
    }

    fn look_at_listener(&mut self) {
        if self.wish.is_none() && self.listener.wants_attention() {
            self.wish = Some(Wish::Attention);
            self.next_look = 0;
        }
    }

    /// A device access: timers move on to exactly now, and the next block start looks again.
    fn access(&mut self, handle: &Handle) -> At {
        self.next_look = 0;
        At { cpu: self.view.current, now: self.view.clock.at(handle.pc()) }
    }

    /// The same where the core does not say at which instruction it is: as of the start of its line of code, which is the same place
    /// whether something in it is displaced or not.
    fn access_in_line(&mut self) -> At {
        self.next_look = 0;
        let at = At { cpu: self.view.current, now: self.view.clock.line() };
        self.board.advance(at);
        at
    }

    /// What an access may have led to.
    fn after_access(&mut self) {
        if (0..self.cpus.len()).any(|other| other != self.view.current && self.board.pending(other).is_some()) {
            // Whom this has woken gets a turn.
            self.slice_end = self.slice_end.min(self.view.clock.time() + super::slice());
        }
        self.collect_console();
        if let Some(status) = self.board.power_off() {
            self.wish = Some(Wish::PowerOff(status));
        }
    }

    fn collect_console(&mut self) {
        let new = self.board.take_console();
        if new.is_empty() {
            return;
        }
        self.console.extend_from_slice(&new);
        if self.console_watch.as_ref().is_some_and(|text| self.console.ends_with(text)) {
            self.console_watch = None;
            self.wish = Some(Wish::ConsoleText);
        }
    }

    /// A pc as the guest would see it.
    fn origin_of(&self, pc: u64) -> u64 {
        if !self.window.holds(pc) {
            return pc;
        }
        match self.listener.place(pc) {
            Place::Copy { origin, .. } => origin,
            _ => pc,
        }
    }

    pub(super) fn record(&mut self, what: What, pc: u64, time: u64) {
        if let Some(log) = &mut self.happenings {
            log.push(Happening { cpu: self.view.current, what, pc, time });
        }
    }
}
