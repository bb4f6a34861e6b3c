//! The callbacks of the CPU core: block starts, traps, device accesses. A breakpoint hit starts in `interrupt`.

use super::watchdog::Sign;
use super::{Excepted, Happening, Inner, Listener, Place, StopReason, What};
use crate::boards::{At, Bus};
use crate::clock::{Meaning, Ticks, nanoseconds, ticks};
use crate::cpu::{Exception, Shown, Trap, TrapKind, View};
use crate::unicorn::engine::{BlockContext, Events, Handle, InstructionContext, SyscallContext, TrapContext};
use crate::unicorn::watched::Access;
use trapline_isa::regs::Registers;
use trapline_probes::guest::{Answer, Resume};
use trapline_probes::watch::By;

/// Virtual time that reading a clock costs, so that polling loops end.
pub(super) const CLOCK_READ_NANOSECONDS: u64 = 20;

/// The limit of device accesses before the kernel's first function. A decompressor that prints progress needs far
/// fewer.
const MOST_EARLY_ACCESSES: u32 = 100_000;

impl<L: Listener> Events for Inner<L> {
    #[inline]
    fn block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>) {
        // Both calls are tail calls, so this function needs neither callee-saved registers nor stack.
        if let Some(offset) = self.gate.catches(pc) {
            return (self.at_gate)(self, pc, size, cpu, offset);
        }
        self.guest_block(pc, size, cpu)
    }

    fn always_wants(&self, pc: u64) -> bool {
        self.window.holds(pc) || self.arrival == Some(pc) || self.listener.watches(pc) || self.breaks_at(pc)
    }

    fn breaks_at(&self, pc: u64) -> bool {
        self.exact.as_ref().is_some_and(|exact| exact.breaks.contains(&pc))
    }

    fn is_window(&self, pc: u64) -> bool {
        self.window.holds(pc)
    }

    fn answers(&self, cpu: &Handle, register: u32) -> bool {
        self.board.has_register(register)
            || self.board.identity(self.view.current, register).is_some()
            || (self.view.model.instructions.register)(cpu, register).is_some()
    }

    fn no_memory(&mut self) {
        self.look_soon();
    }

    fn interrupt(&mut self, cpu: &TrapContext, vector: u32) {
        let trap = (self.view.model.exceptions.arrived)(cpu, &mut self.scratch, &self.view.ram, vector);
        self.trapped(cpu, trap);
    }

    fn invalid_instruction(&mut self, cpu: &TrapContext) {
        let trap = (self.view.model.exceptions.arrived_invalid)(cpu);
        self.trapped(cpu, trap);
    }

    fn memory_in(&mut self, cpu: &InstructionContext, physical: u64, size: u32) -> u64 {
        self.view.clock.add(self.board.read_takes(Bus::Memory, physical));
        let at = self.access(cpu.device_access_pc());
        let value = self.board.read(at, Bus::Memory, physical, size);
        self.show_pins(cpu);
        value
    }

    fn memory_out(&mut self, cpu: &InstructionContext, physical: u64, size: u32, value: u64) {
        let pc = cpu.device_access_pc();
        let at = self.access(pc);
        self.board.write(at, Bus::Memory, physical, size, value);
        self.attribute_writes(Some(By::Device), pc.unwrap_or_else(|| cpu.handle().pc()));
        self.show_pins(cpu);
        self.after_access(at);
    }

    fn port_in(&mut self, cpu: &InstructionContext, port: u64, size: u32) -> u64 {
        self.view.clock.add(self.board.read_takes(Bus::Ports, port));
        let at = self.access(Some(cpu.handle().pc()));
        self.board.read(at, Bus::Ports, port, size)
    }

    fn port_out(&mut self, cpu: &InstructionContext, port: u64, size: u32, value: u64) {
        let at = self.access(Some(cpu.handle().pc()));
        self.board.write(at, Bus::Ports, port, size, value);
        self.after_access(at);
    }

    fn identify(&mut self, cpu: &InstructionContext) {
        (self.cpu.identify)(cpu, self.place());
    }

    fn read_clock(&mut self, cpu: &InstructionContext) {
        if !self.frozen {
            self.view.clock.add(ticks(CLOCK_READ_NANOSECONDS));
        }
        let pc = cpu.handle().pc();
        let time = self.time_at(pc);
        let shown = self.turns.never_back(time);
        (self.view.model.instructions.read_clock)(cpu, nanoseconds(shown));
        if !self.frozen {
            self.record(What::ClockRead, self.origin_of(pc), time);
        }
    }

    fn system_call(&mut self, cpu: &SyscallContext) {
        let pc = cpu.handle().pc();
        self.counts.system_calls += 1;
        self.record(What::SystemCall, pc, self.view.clock.at(pc));
        (self.view.model.instructions.system_call)(cpu, &mut self.scratch);
    }

    fn register_in(&mut self, cpu: &InstructionContext, register: u32) -> Option<u64> {
        if let Some(value) = (self.view.model.instructions.register)(&cpu.handle(), register) {
            return Some(value);
        }
        if let Some(value) = self.board.identity(self.view.current, register) {
            return Some(value);
        }
        let pc = cpu.handle().pc();
        let at = At { cpu: self.view.current, now: self.time_at(pc) };
        let shown = At { now: self.turns.never_back(at.now), ..at };
        let value = self.board.register_read(shown, register)?;
        if !self.frozen {
            self.view.clock.add(ticks(CLOCK_READ_NANOSECONDS));
            self.record(What::ClockRead, self.origin_of(pc), at.now);
        }
        self.show_pins(cpu);
        Some(value)
    }

    fn register_out(&mut self, cpu: &InstructionContext, register: u32, value: u64) -> bool {
        // On s390x, SPX has moved the lowcore, which holds the fault address.
        if self.view.model.exceptions.moves_fault_address == Some(register) {
            self.fault_address = (self.view.model.exceptions.fault_address)(&cpu.handle(), &self.view.ram);
            return true;
        }
        let at = At { cpu: self.view.current, now: self.time_at(cpu.handle().pc()) };
        let taken = self.board.register_write(at, register, value);
        if taken {
            self.look_soon();
            self.show_pins(cpu);
            self.after_access(at);
        }
        taken
    }

    fn points(&mut self, _: &InstructionContext, page: u64, pc: u64) -> Option<&[u32]> {
        self.view.user_points(self.view.ram.physical_at(page)?, pc)
    }

    fn user_hit(&mut self, pc: u64, point: u32) {
        self.user_instruction(pc, point);
    }

    fn pauses(&mut self, cpu: &InstructionContext) {
        self.wait_for_others(cpu.handle().pc());
    }

    fn accessed(&mut self, cpu: &InstructionContext, range: u32, access: &Access, pc: Option<u64>) {
        self.core_accessed(cpu, range, access, pc);
    }

    fn walked(&mut self, cpu: &InstructionContext, pc: Option<u64>) {
        self.core_walked(cpu, pc);
    }

    fn each_access(&mut self, _: &InstructionContext, address: u64, size: u32, is_store: bool, pc: u64) {
        let time = nanoseconds(self.time_at(pc));
        self.listener.each_access(self.origin_of(pc), time, address, size, is_store);
    }
}

impl<L: Listener> Inner<L> {
    /// Handles a trap by its kind, then lets the watchdog count it.
    fn trapped(&mut self, cpu: &TrapContext, trap: Trap) {
        let (sign, pc) = (Sign::Trap(trap.kind, trap.exception.vector), trap.pc);
        match trap.kind {
            TrapKind::Breakpoint => self.breakpoint(cpu, trap),
            TrapKind::Exception | TrapKind::Step => self.exception(cpu, trap),
            TrapKind::FirmwareCall => self.firmware_call(cpu, trap),
            TrapKind::LeftToUs => self.left_to_us(cpu, trap),
            TrapKind::Hint => {
                self.view.clock.close_at(trap.resume);
                cpu.set_pc(trap.resume);
                self.wait_for_others(trap.resume);
            }
        }
        self.watch_trap(cpu, sign, pc);
    }

    /// Sets the pc of the listener's view, and returns the listener with that view.
    #[inline]
    pub(super) fn show(&mut self, pc: u64) -> (&mut L, &mut View) {
        self.view.pc = pc;
        (&mut self.listener, &mut self.view)
    }

    /// Offers a breakpoint to the listener: continues as it says if it claims the breakpoint, otherwise delivers the
    /// exception to the guest.
    fn breakpoint(&mut self, cpu: &TrapContext, trap: Trap) {
        self.view.clock.close_at(trap.pc);
        let (listener, view) = self.show(trap.pc);
        let answer = listener.breakpoint(view);
        let pc = view.pc();
        // The engine takes this for a breakpoint that was just removed. This machine leaves no stale breakpoints, so it
        // is another instruction with the same vector (`CD 03` on x86).
        let other = matches!(answer, Answer::Resume(Resume { counted: 0, frozen: false, .. }))
            && pc == trap.pc
            && !view.holds_breakpoint(pc);
        self.settle_gate();
        match answer {
            Answer::Resume(resume) if !other => {
                self.counts.claimed += 1;
                self.freeze(resume.frozen);
                if resume.stepped {
                    self.view.clock.resume(resume.counted.into(), None);
                    let exception = (self.view.model.exceptions.step)(cpu);
                    self.give(cpu, exception, pc);
                    return self.look_at_listener();
                }
                self.view.clock.resume(resume.counted.into(), resume.falls_through.then_some(pc));
                self.show_window(cpu, pc);
                cpu.set_pc(pc);
                if let Some(next) = resume.behind_slot {
                    cpu.set_next_pc(next);
                }
                self.look_at_listener();
            }
            // A displaced copy that is an undefined instruction, on ISAs where that traps like a breakpoint.
            Answer::NotOurs if self.window.holds(trap.pc) => self.exception(cpu, trap),
            _ => {
                let resume = if pc == trap.pc { trap.resume } else { pc };
                self.view.clock.resume(trap.resume.wrapping_sub(trap.pc) & self.view.mask, None);
                self.give(cpu, trap.exception, resume);
            }
        }
    }

    /// Notes that a handler in guest code starts or has ended.
    #[inline]
    fn freeze(&mut self, frozen: bool) {
        if self.frozen != frozen {
            (self.frozen, self.frozen_blocks) = (frozen, 0);
            self.set_gate();
        }
    }

    /// Handles an exception: drops a fetch fault for which it maps the window, lets the listener handle one in the window
    /// or in a handler in guest code, and delivers all others to the guest.
    pub(super) fn exception(&mut self, cpu: &TrapContext, trap: Trap) {
        if self.view.user_places.is_some() {
            self.note_user_fault(&trap);
        }
        let mut exception = trap.exception;
        let known = self.fault_address;
        if let Some(shown) = self.show_missed(cpu, &exception, known) {
            self.counts.window_faults += 1;
            self.hide_window();
            self.shown = Some(shown);
            self.set_gate();
            return;
        }
        let mut resume = trap.resume;
        if exception.fetch || trap.kind == TrapKind::Step {
            self.view.clock.close_whole()
        } else if exception.delayed {
            self.view.clock.close_at_branch(resume)
        } else {
            self.view.clock.close_at(resume)
        };
        if trap.kind == TrapKind::Step
            && let Some(at) = self.view.model.exceptions.stepped_at
        {
            cpu.set_live64(at, self.origin_of(cpu.handle().live64(at)));
        }
        let in_window = self.window.holds(trap.pc);
        // The listener handles every fault of a handler in guest code.
        if in_window || self.frozen {
            let answer = match trap.kind {
                TrapKind::Step => self.stepped(trap.pc),
                _ => {
                    let (listener, view) = self.show(trap.pc);
                    listener.fault(view, exception.vector)
                }
            };
            resume = self.view.pc();
            if let Some(then) = self.view.delayed.take() {
                (exception.delayed, exception.detail) = (true, then);
            }
            self.settle_gate();
            // The time at which the listener wants attention may have changed.
            self.look_soon();
            if let Answer::Resume(how) = answer {
                self.view.clock.resume(how.counted.into(), how.falls_through.then_some(resume));
                self.freeze(how.frozen);
                (self.view.model.exceptions.forget)(cpu, &mut self.scratch, &self.view.ram, &exception, self.fault_address);
                self.show_window(cpu, resume);
                cpu.set_pc(resume);
                return;
            }
            if in_window && exception.fetch && !self.window.holds(resume) {
                // The fetch failed because the instruction before it lowered the privilege in the window. The guest
                // continues at the original address and takes its own fault there.
                self.view.clock.resume(0, None);
                (self.view.model.exceptions.forget)(cpu, &mut self.scratch, &self.view.ram, &exception, self.fault_address);
                cpu.set_pc(resume);
                return;
            }
        }
        self.give(cpu, exception, resume);
    }

    /// A single-step has ended in the window. If it ended at a detour's start, the detour's displaced code was counted
    /// by the jump.
    fn stepped(&mut self, pc: u64) -> Answer {
        let meaning = self.listener.meaning(pc);
        if let Meaning::Detour(_) | Meaning::Saving { .. } = meaning {
            self.view.clock.enter(pc, 0, meaning);
        }
        let (listener, view) = self.show(pc);
        listener.stepped(view)
    }

    /// Maps the window for a fetch that faulted there. Returns `None` if the fault has another cause; otherwise the
    /// exception is dropped.
    fn show_missed(&mut self, cpu: &TrapContext, exception: &Exception, fault_address: u64) -> Option<Shown> {
        let (model, handle) = (self.view.model, cpu.handle());
        let address = (model.window.missed)(&handle, exception, &self.window)?;
        let shown = (model.window.show)(&handle, &self.view.ram, &self.window, address)?;
        (model.exceptions.forget)(cpu, &mut self.scratch, &self.view.ram, exception, fault_address);
        Some(shown)
    }

    /// Delivers an exception to the guest. If the guest cannot take it, the run ends.
    pub(super) fn give(&mut self, cpu: &TrapContext, exception: Exception, resume: u64) {
        if Some(exception.vector) == self.view.model.exceptions.system_call {
            self.counts.system_calls += 1;
            self.record(What::SystemCall, resume, self.view.clock.time());
        } else {
            self.counts.exceptions += 1;
            self.record(What::Exception(exception.vector, exception.error), resume, self.view.clock.time());
            self.settle_walk(resume);
        }
        let is_watched = !self.watched.is_empty();
        if is_watched {
            self.attribute_writes(None, resume);
        }
        let noted = (self.listener.wants_exceptions() && self.view.in_kernel()).then(|| self.place_at(resume));
        let vector = exception.vector;
        let answer = (self.view.model.exceptions.deliver)(cpu, &mut self.scratch, &self.view.ram, exception, resume);
        if is_watched {
            self.attribute_writes(Some(By::Delivery), resume);
        }
        self.fault_address = (self.view.model.exceptions.fault_address)(&cpu.handle(), &self.view.ram);
        if let Some(place) = noted {
            self.listener.excepted(&Excepted { place, vector, address: self.fault_address });
        }
        if let Err(shutdown) = answer {
            self.shut_down(cpu, shutdown.why);
        }
    }

    fn place_at(&self, pc: u64) -> Place {
        let view = &self.view;
        Place { turn: view.turn, cpu: view.current, ticks: view.clock.time(), pc: pc & view.mask }
    }

    pub(super) fn shut_down(&mut self, cpu: &TrapContext, why: String) {
        self.stop_reason = Some(StopReason::Shutdown(why));
        cpu.stop();
    }

    /// Maps the window before the CPU goes there.
    fn show_window(&mut self, cpu: &TrapContext, pc: u64) {
        if self.window.holds(pc) {
            if let Some(tables) = self.view.model.window.tables_in_force
                && self.fetched.again(tables(&cpu.handle()), pc)
            {
                return;
            }
            self.hide_window();
            self.shown = (self.view.model.window.show)(&cpu.handle(), &self.view.ram, &self.window, pc);
            self.set_gate();
            if self.shown.is_none() {
                self.has_no_room(cpu);
            }
        }
    }

    #[cold]
    fn has_no_room(&mut self, cpu: &TrapContext) {
        let at = self.window.start..self.window.start + self.window.len;
        self.shut_down(
            cpu,
            format!(
                "a probe was hit, but the guest's page tables have no room for the probe window ({at:#x?}): they map guest \
                 memory there, or have no table for that part of the address space"
            ),
        );
    }

    /// Removes the window's mapping after the CPU has left it, before guest code can see it.
    #[inline]
    pub(super) fn hide_window(&mut self) {
        if let Some(shown) = self.shown.take() {
            (self.view.model.window.hide)(&self.view.ram, &shown);
            self.set_gate();
        }
    }

    /// Stops the machine at the next possible block start if the listener wants attention.
    pub(super) fn look_at_listener(&mut self) {
        if self.stop_reason.is_none() && self.listener.wants_attention() {
            self.stop_reason = Some(StopReason::Attention);
            self.look_soon();
        }
    }

    /// Prepares a device access by the instruction at `pc`: advances timers to this instruction's time, and has the
    /// next block start examined.
    fn access(&mut self, pc: Option<u64>) -> At {
        self.look_soon();
        if self.arrival.is_some() {
            self.count_early_access();
        }
        let now = pc.map_or_else(|| self.view.clock.time(), |pc| self.time_at(pc));
        let at = At { cpu: self.view.current, now };
        self.advance(at);
        at
    }

    /// The virtual time at an instruction of the running block.
    pub(super) fn time_at(&self, pc: u64) -> Ticks {
        let in_front = if self.window.holds(pc) { self.listener.in_front(pc) } else { 0 };
        self.view.clock.at(pc) + in_front
    }

    /// Counts device accesses before the kernel's first function. A kernel that polls a missing device takes little
    /// virtual time but much host time.
    #[cold]
    fn count_early_access(&mut self) {
        self.early_accesses += 1;
        if self.early_accesses >= MOST_EARLY_ACCESSES && self.stop_reason.is_none() {
            self.stop_reason =
                Some(StopReason::Shutdown(format!("the kernel accessed devices {MOST_EARLY_ACCESSES} times before it was up")));
        }
    }

    /// Updates the interrupt pins that the guest can read.
    fn show_pins(&self, cpu: &InstructionContext) {
        if let Some(pins) = &self.view.model.interrupts.pins
            && let Some(signals) = self.board.pins(self.view.current)
        {
            (pins.show)(cpu, signals);
        }
    }

    /// Whether the CPU accepts one of its pending interrupt pins. True on boards without pins.
    pub(super) fn lets_in(&self, cpu: &Handle) -> bool {
        let (pins, signals) = (&self.view.model.interrupts.pins, self.board.pins(self.view.current));
        pins.as_ref().zip(signals).is_none_or(|(pins, signals)| (pins.let_in)(cpu, signals))
    }

    /// Checks for the effects of a device access: a woken CPU, sleep, console output, power-off.
    pub(super) fn after_access(&mut self, at: At) {
        self.shorten_turn(at);
        self.obey_orders(at);
        if self.board.goes_to_sleep(self.view.current) {
            self.stop_reason.get_or_insert(StopReason::Sleep);
        }
        self.collect_console();
        if let Some(status) = self.board.power_off() {
            self.stop_reason = Some(StopReason::PowerOff(status));
        }
    }

    /// Takes new console output from the board, and stops the machine if the awaited text is complete.
    fn collect_console(&mut self) {
        let new = self.board.console().take_sent();
        if new.is_empty() {
            return;
        }
        let known = self.console.len();
        self.console.extend_from_slice(&new);
        // The text may have begun in output that arrived before.
        let is_there = |text: &Vec<u8>| {
            let from = (known + 1).saturating_sub(text.len());
            !text.is_empty() && self.console[from..].windows(text.len()).any(|part| part == text.as_slice())
        };
        if self.console_watch.as_ref().is_some_and(is_there) {
            self.console_watch = None;
            self.stop_reason = Some(StopReason::ConsoleText);
        }
    }

    /// The pc as the guest would see it: a copy's address is replaced by the original one.
    pub(super) fn origin_of(&self, pc: u64) -> u64 {
        if !self.window.holds(pc) {
            return pc;
        }
        match self.listener.meaning(pc) {
            Meaning::Copy { origin, .. } => origin.wrapping_add(self.listener.in_front(pc)),
            _ => pc,
        }
    }

    /// Adds an event to the log, if one is kept.
    pub(super) fn record(&mut self, what: What, pc: u64, time: u64) {
        if let Some(log) = &mut self.happenings {
            log.push(Happening { cpu: self.view.current, what, pc, time });
        }
    }
}
