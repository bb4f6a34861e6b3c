//! The loop around the core: delivers due interrupts, schedules the CPUs, and ends the run.
//!
//! All of this happens only at block starts that were reached by a taken branch. So the place where a run stops depends
//! on the guest alone.

use super::turns::first_of;
use super::{Listener, Machine, StopReason, What};
use crate::boards::At;
use crate::boot::{Kernel, dead_ends};
use crate::clock::GuestTime;
use crate::clock::{Ticks, ticks};
use crate::cpu::Exception;
use crate::error::MachineError;
use crate::unicorn::crash;
use crate::unicorn::engine::Ended;
use trapline_isa::regs::Registers;
use trapline_probes::watch::By;

/// The limit of virtual time from the kernel's entry to its first function. No kernel needs nearly as much, and the
/// host reaches it soon if a kernel hangs.
const ARRIVAL_NANOSECONDS: u64 = 2_000_000_000;
/// The limit for a kernel that unpacks itself.
const UNPACKED_ARRIVAL_NANOSECONDS: u64 = 30_000_000_000;
/// A CPU that waits for an interrupt with interrupts masked (WFI), while one has been pending for 4,096 ns, wakes only at the
/// next multiple of this time. It applies to machines with several CPUs. A real CPU wakes at once. But a kernel that stops its
/// CPUs in an endless WFI loop (riscv64 after a panic) would then run 500 million rounds of the loop for each second.
const STALL: Ticks = 4096 << 2;
/// The number of bytes of console output in the error message if the kernel does not reach its first function.
const LAST_WORDS: usize = 1200;

/// The reason why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The limit of virtual time was reached.
    Limit,
    /// The console printed the awaited text.
    ConsoleText,
    /// The guest powered off with this status.
    PowerOff(u8),
    /// The guest's kernel panicked, and then the machine stopped for this reason: [`Stop::PowerOff`] or [`Stop::Dead`].
    /// Only a [session](crate::probed::Session) notices panics.
    Panic(Box<Stop>),
    /// The listener needs attention; the run may continue after that.
    Attention,
    /// A place was reached that [`Machine::stop_at_places`] asked for.
    Place,
    /// The guest cannot continue: it can take no more exceptions, all CPUs sleep forever, or the core failed.
    Dead(String),
}

impl<L: Listener> Machine<L> {
    /// Runs until this virtual time in nanoseconds, or until another reason to stop. If the core crashes, the guest is
    /// dead.
    pub fn run_until(&mut self, time: impl Into<GuestTime>) -> Stop {
        self.run_to(ticks(time.into().nanoseconds()))
    }

    /// Runs until this virtual time, or until another reason to stop.
    pub(super) fn run_to(&mut self, limit: Ticks) -> Stop {
        if let Some(why) = &self.crashed {
            return Stop::Dead(why.clone());
        }
        crash::contain(|| self.run_uncontained(limit)).unwrap_or_else(|crash| {
            let why = format!("the CPU core failed: {crash}");
            self.crashed = Some(why.clone());
            self.core.abandon();
            Stop::Dead(why)
        })
    }

    fn run_uncontained(&mut self, limit: Ticks) -> Stop {
        self.inner.limit = limit;
        self.settle_user_code();
        loop {
            if let Err(stop) = self.choose_cpu() {
                return stop;
            }
            if let Err(stop) = self.turn() {
                self.leave_window();
                return stop;
            }
        }
    }

    /// Runs to the entry of a function. No breakpoint is needed, because a call starts a block; and the guest's own
    /// patching of its text could not cope with one.
    pub(super) fn arrive(&mut self, kernel: &Kernel, address: u64, unpacks_itself: bool) -> Result<(), MachineError> {
        self.inner.arrival = Some(address);
        let stop = self.run_until(if unpacks_itself { UNPACKED_ARRIVAL_NANOSECONDS } else { ARRIVAL_NANOSECONDS });
        if self.inner.arrival.take().is_none() {
            return Ok(());
        }
        let console = self.take_console();
        let last = String::from_utf8_lossy(&console[console.len().saturating_sub(LAST_WORDS)..]).into_owned();
        let pc = (self.inner.view.model.registers.pc)(&self.core.handle());
        let why = match stop {
            Stop::Dead(why) => why,
            Stop::Limit => format!("it did not arrive within {} s of guest time", self.now() / 1_000_000_000),
            other => format!("{other:?}"),
        };
        let words = if last.is_empty() { "it has printed nothing".into() } else { format!("the console ended with: {last}") };
        let place = dead_ends::describe(kernel, pc, self.inner.cpu.name);
        Err(MachineError::Config(format!(
            "the kernel did not get from its entry to {address:#x}, where Linux first runs at its own addresses: {why}. It was {place}; {words}"
        )))
    }

    /// Runs one CPU until something is due.
    fn turn(&mut self) -> Result<(), Stop> {
        if let Some(why) = self.inner.watch_turn((self.inner.view.model.registers.pc)(&self.core.handle())) {
            return Err(Stop::Dead(why));
        }
        self.inner.next_look = self.inner.when_to_look();
        self.inner.set_gate();
        if let Some(reason) = self.inner.stop_reason.take() {
            // A callback set it, after which the core put itself to sleep.
            return self.act_on(reason);
        }
        if let Some(reason) = self.inner.waiting.take() {
            self.inner.stop_reason = Some(reason);
            self.inner.set_next_look(0);
        }
        if self.inner.exact.as_ref().is_some_and(|exact| exact.steps) {
            self.core.begin_alone();
        }
        let ended = self.core.run(&mut self.inner);
        if self.inner.listener.follows() {
            let pc = (self.inner.view.model.registers.pc)(&self.core.handle());
            let (listener, view) = self.inner.show(pc);
            listener.rests(view);
        }
        if let Ended::Failed(why) = ended {
            return Err(Stop::Dead(format!("the CPU core gave up: {why}")));
        }
        match self.inner.stop_reason.take() {
            Some(reason) => self.act_on(reason),
            None => {
                self.halt();
                Ok(())
            }
        }
    }

    /// Does what the core stopped for. Returns an error if that ends the run.
    fn act_on(&mut self, reason: StopReason) -> Result<(), Stop> {
        match reason {
            StopReason::Interrupt => {
                self.deliver_interrupt();
                Ok(())
            }
            StopReason::Switch => Ok(()),
            StopReason::Sleep => {
                self.sleep();
                Ok(())
            }
            StopReason::Limit => Err(Stop::Limit),
            StopReason::ConsoleText => Err(Stop::ConsoleText),
            StopReason::Attention => Err(Stop::Attention),
            StopReason::Place => Err(Stop::Place),
            StopReason::PowerOff(status) => {
                self.inner.view.clock.close_at((self.inner.view.model.registers.pc)(&self.core.handle()));
                Err(Stop::PowerOff(status))
            }
            StopReason::Shutdown(why) => Err(Stop::Dead(why)),
        }
    }

    /// The CPU executed HLT: it sleeps until an interrupt.
    fn halt(&mut self) {
        self.inner.view.clock.close_whole();
        self.sleep();
    }

    /// Puts the CPU to sleep.
    fn sleep(&mut self) {
        let inner = &mut self.inner;
        let pc = (inner.view.model.registers.pc)(&self.core.handle());
        inner.record(What::Halt, pc, inner.view.clock.time());
        inner.cpus[inner.view.current].halted = true;
    }

    /// Takes a pending interrupt from the board and enters the guest's handler for it.
    fn deliver_interrupt(&mut self) {
        let cpu = self.core.stopped();
        let inner = &mut self.inner;
        let (handle, pins) = (cpu.handle(), &inner.view.model.interrupts.pins);
        let accepts = |kinds| pins.as_ref().is_none_or(|pins| (pins.let_in)(&handle, kinds));
        let Some(interrupt) = inner.board.acknowledge_accepted(inner.view.current, &accepts) else { return };
        inner.counts.interrupts += 1;
        let pc = self.pc_outside_window();
        let inner = &mut self.inner;
        if inner.listener.follows() {
            let (listener, view) = inner.show(pc);
            if listener.gives_way(view) {
                inner.stop_reason = Some(StopReason::Attention);
            }
        }
        inner.record(What::Interrupt(interrupt.number), pc, inner.view.clock.time());
        let answer =
            (inner.view.model.exceptions.deliver)(&cpu, &mut inner.scratch, &inner.view.ram, Exception::external(interrupt), pc);
        inner.attribute_writes(Some(By::Delivery), pc);
        if let Err(shutdown) = answer {
            inner.stop_reason = Some(StopReason::Shutdown(shutdown.why));
        }
    }

    /// The pc as the guest may see it: the listener replaces an address in the window by the original one.
    fn pc_outside_window(&mut self) -> u64 {
        let cpu = self.core.stopped();
        let pc = (self.inner.view.model.registers.pc)(&cpu.handle());
        if !self.inner.window.holds(pc) {
            return pc;
        }
        let (listener, view) = self.inner.show(pc);
        listener.interrupted(view);
        view.pc()
    }

    /// Moves the CPU out of the window, so that between runs the text may be changed and slots freed.
    fn leave_window(&mut self) {
        let pc = self.pc_outside_window();
        if pc != (self.inner.view.model.registers.pc)(&self.core.handle()) {
            self.core.stopped().set_pc(pc);
        }
        self.inner.hide_window();
    }

    /// Selects the CPU whose turn is next, and wakes it if it sleeps: the one that is furthest behind in time, or one that is
    /// drawn. A turn that was only stopped continues, so that stops do not change the guest.
    fn choose_cpu(&mut self) -> Result<(), Stop> {
        while !self.chooses_awake_cpu()? {
            let pc = (self.inner.view.model.registers.pc)(&self.core.handle());
            if let Some(why) = self.inner.watch_turn(pc) {
                return Err(Stop::Dead(why));
            }
        }
        Ok(())
    }

    /// Selects a CPU. Returns false if the CPU woke without an interrupt to take.
    fn chooses_awake_cpu(&mut self) -> Result<bool, Stop> {
        let inner = &mut self.inner;
        let current = inner.view.current;
        let time = inner.view.clock.time();
        if inner.view.clock.goes_on() && !inner.cpus[current].halted {
            // It was stopped in the middle of a line of code, where nothing else can happen.
            return Ok(true);
        }
        if !inner.cpus[current].halted && !inner.cpus[current].parked && time < inner.slice_end {
            return if time < inner.limit { Ok(true) } else { Err(Stop::Limit) };
        }
        inner.cpus[current].clock = inner.view.clock.stopped();
        let ready: Vec<Option<Ticks>> = (0..inner.cpus.len()).map(|number| self.ready_at(number)).collect();
        let next = first_of(&ready).zip(self.inner.turns.next(&ready));
        let Some(((first, _), (at, number))) = next else {
            let limit = self.inner.limit;
            if limit != Ticks::MAX && self.inner.cpus.iter().any(|cpu| cpu.halted) {
                self.inner.view.clock.sleep_until(limit);
            }
            return Err(Stop::Dead(
                "every CPU sleeps and nothing will wake one (HLT with interrupts off, or no timer set)".into(),
            ));
        };
        if first >= self.inner.limit {
            let limit = self.inner.limit;
            self.inner.view.clock.sleep_until(limit);
            return Err(Stop::Limit);
        }
        let stops = self.ends_turn(number);
        self.inner.view.turn += 1;
        self.switch_to(number);
        let inner = &mut self.inner;
        let others = (0..ready.len()).filter(|other| *other != number).filter_map(|other| ready[other]).min();
        inner.slice_end = others.map_or(Ticks::MAX, |other| {
            let from = other.max(at);
            from.saturating_add(inner.turns.length(number, from))
        });
        if inner.cpus[number].halted {
            inner.view.clock.sleep_until(at);
            inner.advance(At { cpu: number, now: at });
            if let Some(since) = inner.board.pending(number) {
                // The board's devices may be ahead of this CPU, which must not wake in the past.
                inner.view.clock.sleep_until(since.max(at));
                inner.cpus[number].halted = false;
                let handle = self.core.handle();
                if !(inner.view.model.interrupts.are_off)(&handle) && inner.lets_in(&handle) {
                    self.deliver_interrupt();
                }
            } else {
                return Ok(false);
            }
        }
        if stops {
            self.leave_window();
            return Err(Stop::Attention);
        }
        Ok(true)
    }

    /// Announces to the listener that another CPU's turn begins. Returns whether the listener wants to change text before.
    fn ends_turn(&mut self, next: usize) -> bool {
        if self.inner.cpus.len() == 1 {
            return false;
        }
        self.inner.listener.turns(next)
    }

    /// The time at which a CPU can next execute something. `None` if nothing can wake it.
    fn ready_at(&self, number: usize) -> Option<Ticks> {
        let inner = &self.inner;
        let cpu = &inner.cpus[number];
        let time = cpu.clock.time;
        if cpu.parked {
            return None;
        }
        if !cpu.halted {
            return Some(time);
        }
        let off = match number == inner.view.current {
            true => (inner.view.model.interrupts.are_off)(&self.core.handle()),
            false => (inner.view.model.interrupts.were_off)(&cpu.state),
        };
        if off && !inner.view.model.interrupts.wake_though_off || self.is_deaf(number) {
            return None;
        }
        let pending = inner.board.pending(number);
        if off && inner.cpus.len() > 1 && pending.is_some_and(|since| since.saturating_add(STALL) <= time) {
            return Some((time / STALL + 1).saturating_mul(STALL));
        }
        let wake = [pending, inner.board.next_event(number)].into_iter().flatten().min()?;
        Some(time.max(wake))
    }

    /// Whether the running CPU masks all interrupt pins, so that none can wake it.
    fn is_deaf(&self, number: usize) -> bool {
        let inner = &self.inner;
        let pins = inner.view.model.interrupts.pins.as_ref().filter(|_| inner.board.pins(number).is_some());
        number == inner.view.current && pins.is_some_and(|pins| !(pins.let_in)(&self.core.handle(), u64::MAX))
    }

    /// Saves the running CPU's state and loads that of another CPU into the core. The caller has saved the running CPU's clock.
    pub(super) fn switch_to(&mut self, number: usize) {
        let inner = &mut self.inner;
        if number == inner.view.current {
            return;
        }
        let from = inner.view.current;
        let handle = self.core.handle();
        let leaving = &mut inner.cpus[from];
        leaving.state.save(handle);
        (leaving.fault_address, leaving.frozen) = (inner.fault_address, inner.frozen);
        let entering = &inner.cpus[number];
        entering.state.restore(handle);
        inner.view.clock.go_on(&entering.clock);
        (inner.fault_address, inner.frozen) = (entering.fault_address, entering.frozen);
        inner.view.current = number;
        self.core.switched();
    }
}
