//! Saves the machine's state between two runs, and restores it into this machine or an equal one.
//!
//! After a save, the machine reloads the saved values and drops all translations. Therefore it continues exactly like a
//! restored machine.

use super::coverage::Coverage;
use super::{Config, Inner, Listener, Machine};
use crate::boards::At;
use crate::boot::Kernel;
use crate::cpu::WindowPlace;
use crate::error::MachineError;
use crate::snapshot::memory::{Memory, PAGE, is_zero};
use crate::snapshot::registers::Values;
use crate::snapshot::{Build, Cpu, Snapshot, SnapshotError, State};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::pages::Pages;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are examined at a time when memory is cleared.
const CHUNK: usize = 1 << 20;

impl<L: Listener> Machine<L> {
    /// Creates a machine in the state of the snapshot, from the same kernel and configuration. The kernel is not
    /// loaded, because it is in the snapshot's memory.
    pub fn from_snapshot(
        kernel: &Kernel,
        config: &Config,
        snapshot: &Snapshot,
        listener: impl FnOnce(WindowPlace) -> L,
    ) -> Result<Machine<L>, MachineError> {
        let mut machine = Machine::assemble(kernel, config, listener, false)?;
        machine.take_over(snapshot, true)?;
        Ok(machine)
    }

    /// Saves the machine between two runs. The caller must have removed the probes from the guest's text.
    pub fn snapshot(&mut self) -> Result<Snapshot, SnapshotError> {
        let state = self.state()?;
        let inner = &self.inner;
        let mut memory = Memory::default();
        for place in inner.guest_places() {
            memory.gather(place.start, place.end, |at, into| {
                inner.view.ram.read(at, into);
            });
        }
        self.load_cpus(&state)?;
        self.core.flush_translations();
        Ok(Snapshot { state, memory })
    }

    /// Everything of a snapshot except the memory. The caller loads the CPUs from it.
    pub(super) fn state(&mut self) -> Result<State, SnapshotError> {
        self.check_saveable()?;
        let (cpus, shared) = self.save_cpus()?;
        let inner = &self.inner;
        Ok(State {
            shape: inner.shape(),
            cpus,
            shared,
            current: inner.view.current,
            slice_end: inner.slice_end,
            latest: inner.turns.latest,
            counts: inner.counts,
            console: inner.console.clone(),
            console_watch: inner.console_watch.clone(),
            devices: inner.board.save().map_err(SnapshotError::NotNow)?,
            init_freed: false,
        })
    }

    /// The registers of all CPUs by name, followed by those that they share. Fails while a CPU is in a state without
    /// names.
    pub fn all_registers(&mut self) -> Result<Vec<Values>, SnapshotError> {
        let (cpus, shared) = self.save_cpus()?;
        Ok(cpus.into_iter().map(|cpu| cpu.registers).chain([shared]).collect())
    }

    /// Like [`Machine::all_registers`], without those that map the probe window: they depend on the engine.
    pub fn guest_registers(&mut self) -> Result<Vec<Values>, SnapshotError> {
        let windows = self.inner.view.model.window.registers;
        let all = self.all_registers()?.into_iter();
        Ok(all.map(|values| values.without(windows)).collect())
    }

    /// Restores the state of the snapshot and clears the log of happenings and the coverage. The time that this takes depends on
    /// what the guest has written since the snapshot was restored last. If it fails, nothing has changed.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        self.take_over(snapshot, false)
    }

    fn take_over(&mut self, snapshot: &Snapshot, fresh: bool) -> Result<(), SnapshotError> {
        let state = &snapshot.state;
        let unsound = SnapshotError::Unsound;
        state.fits(&self.inner.shape())?;
        state.check()?;
        let named = &self.inner.view.model.named;
        for cpu in &state.cpus {
            (named.check)(&cpu.registers).map_err(unsound)?;
        }
        (named.check_shared)(&state.shared).map_err(unsound)?;
        let places = self.inner.guest_places();
        if !snapshot.memory.lies_in(&places) {
            return Err(unsound("it has memory where the guest has none".into()));
        }
        self.inner.board.load(&state.devices).map_err(unsound)?;
        for (cpu, saved) in state.cpus.iter().enumerate() {
            self.inner.board.set_now(At { cpu, now: saved.clock.time });
        }

        let inner = &mut self.inner;
        let first = &places[0];
        let is_shown = shared(&snapshot.memory, first).is_some_and(|pages| inner.view.ram.show(&pages));
        // A new machine's RAM is zero except for the entry tables.
        for place in if fresh || is_shown { &places[1..] } else { &places[..] } {
            clear(inner, place.clone());
        }
        for (at, bytes) in snapshot.memory.pieces().filter(|(at, _)| !is_shown || !first.contains(at)) {
            inner.view.ram.write(at, bytes);
        }
        self.load_state(state)?;
        self.core.flush_translations();
        Ok(())
    }

    /// Sets everything that a state holds except the devices, after the memory was replaced.
    pub(super) fn load_state(&mut self, state: &State) -> Result<(), SnapshotError> {
        let inner = &mut self.inner;
        inner.shown = None;
        inner.frozen = false;
        (inner.stop_reason, inner.waiting) = (None, None);
        inner.arrival = None;
        inner.slice_end = state.slice_end;
        inner.turns.latest = state.latest;
        inner.counts = state.counts;
        inner.watchdog.forget();
        inner.console = state.console.clone();
        inner.console_watch = state.console_watch.clone();
        if let Some(log) = &mut inner.happenings {
            log.clear();
        }
        if let Some(coverage) = &mut inner.coverage {
            **coverage = Coverage::new();
        }
        self.load_cpus(state)
    }

    /// Fails if the machine is in a state that a snapshot does not hold.
    fn check_saveable(&mut self) -> Result<(), SnapshotError> {
        let inner = &mut self.inner;
        inner.hide_window();
        let not_now = |why: &str| Err(SnapshotError::NotNow(why.into()));
        if inner.board.power_off().is_some() {
            return not_now("the guest has powered off");
        }
        if inner.ties.are_there() {
            return not_now("the guest is connected to sockets of the host");
        }
        if inner.stop_reason.is_some() || inner.waiting.is_some() || inner.arrival.is_some() {
            return not_now("an event is being handled: run the machine to its next stop first");
        }
        if inner.frozen || inner.cpus.iter().enumerate().any(|(number, cpu)| number != inner.view.current && cpu.frozen) {
            return not_now("a handler is running in the guest: let it return first");
        }
        let window = inner.window;
        if self.pcs().iter().any(|pc| pc.wrapping_sub(window.start) < window.len) {
            return not_now("a CPU is in the probe window: run the machine to its next stop first");
        }
        Ok(())
    }

    /// Loads one CPU after the other into the core and saves its registers by name.
    fn save_cpus(&mut self) -> Result<(Vec<Cpu>, Values), SnapshotError> {
        let (core, inner) = (&mut self.core, &mut self.inner);
        let named = &inner.view.model.named;
        let current = inner.view.current;
        inner.cpus[current].state.save(core.handle());
        let mut cpus = Vec::new();
        let mut failed = None;
        for (number, cpu) in inner.cpus.iter().enumerate() {
            cpu.state.restore(core.handle());
            let (clock, fault_address) = match number == current {
                true => (inner.view.clock.stopped(), inner.fault_address),
                false => (cpu.clock.clone(), cpu.fault_address),
            };
            match (named.save)(&core.stopped(), &mut inner.scratch, &inner.reset) {
                Ok(registers) => cpus.push(Cpu { registers, clock, fault_address, halted: cpu.halted, parked: cpu.parked }),
                Err(why) => failed = Some(format!("CPU {number}: {why}")),
            }
        }
        inner.cpus[current].state.restore(core.handle());
        core.flush_tlb();
        match failed {
            Some(why) => Err(SnapshotError::NotNow(why)),
            None => Ok((cpus, (named.save_shared)(&core.handle()))),
        }
    }

    /// Loads the CPUs of a checked state, and flushes the TLB.
    pub(super) fn load_cpus(&mut self, state: &State) -> Result<(), SnapshotError> {
        let (core, inner) = (&mut self.core, &mut self.inner);
        let named = &inner.view.model.named;
        (named.load_shared)(&core.stopped(), &state.shared).map_err(SnapshotError::Unsound)?;
        for (cpu, saved) in inner.cpus.iter_mut().zip(&state.cpus) {
            (named.load)(&core.stopped(), &mut inner.scratch, &inner.reset, &saved.registers).map_err(SnapshotError::Unsound)?;
            cpu.state.save(core.handle());
            (cpu.clock, cpu.fault_address) = (saved.clock.clone(), saved.fault_address);
            (cpu.halted, cpu.frozen, cpu.parked) = (saved.halted, false, saved.parked);
        }
        let running = &inner.cpus[state.current];
        running.state.restore(core.handle());
        inner.view.current = state.current;
        inner.view.clock.go_on(&running.clock);
        inner.fault_address = running.fault_address;
        if let Some(places) = &mut inner.view.user_places {
            places.start_over();
        }
        core.flush_tlb();
        inner.learn_watched();
        Ok(())
    }
}

impl<L> Inner<L> {
    /// The properties that a machine must share with this one to take its snapshots.
    fn shape(&self) -> Build {
        Build {
            cpu: self.cpu.name.into(),
            arch: self.isa_name().into(),
            board: self.board_name.into(),
            cpus: self.cpus.len(),
            ram_start: self.view.ram.base(),
            ram: self.guest_ram_bytes,
            window: self.window.len,
        }
    }

    fn isa_name(&self) -> &'static str {
        self.view.model.arch.name()
    }

    /// The physical memory that belongs to the guest: reported RAM, and the page tables that its CPUs start with. The
    /// window and its tables lie between them.
    fn guest_places(&self) -> [Range<u64>; 2] {
        let start = self.view.ram.base();
        [start..start + self.guest_ram_bytes, self.entry_tables..self.view.ram.end()]
    }
}

/// The pages of a snapshot in a part of the guest's memory, in the form that all machines share.
fn shared(memory: &Memory, place: &Range<u64>) -> Option<Arc<Pages>> {
    let len = place.end - place.start;
    let make = |memory: &Memory| {
        let pieces = memory.pieces().filter(|(at, _)| place.contains(at)).map(|(at, bytes)| (at - place.start, bytes));
        Pages::of(len, pieces).ok()
    };
    memory.shared(make).filter(|pages: &Arc<Pages>| pages.len() == len)
}

/// Zeroes memory. Pages that are zero already are not written, because the host may not have allocated them.
fn clear<L>(inner: &Inner<L>, place: Range<u64>) {
    let mut chunk = vec![0; CHUNK];
    for at in place.clone().step_by(CHUNK) {
        let len = CHUNK.min((place.end - at) as usize);
        inner.view.ram.read(at, &mut chunk[..len]);
        for (number, page) in chunk[..len].chunks(PAGE).enumerate().filter(|(_, page)| !is_zero(page)) {
            inner.view.ram.write(at + (number * PAGE) as u64, &[0; PAGE][..page.len()]);
        }
    }
}

/// A saved copy of the core's present state.
pub(super) fn image(handle: crate::unicorn::engine::Handle) -> Result<CoreState, MachineError> {
    let mut image = CoreState::new(handle).map_err(MachineError::Core)?;
    image.save(handle);
    Ok(image)
}
