//! Watchpoints: handlers that run when the guest accesses some bytes of memory ([`Watchpoint`]).
//!
//! The machine watches the areas of [`Engine::areas`] and passes each access to [`Engine::accessed`]. Nothing is written to
//! the guest. An access is reported after it was made, at its exact pc and time. `watch/watchpoint.rs` has the watchpoint itself,
//! and `watch/moves.rs` those that handlers set and move.

mod area;
mod computed;
mod inside;
mod moves;
mod watchpoint;

pub use area::{Access, Area, By};
pub(crate) use computed::{Computed, Recorder};
pub(crate) use moves::{Asked, Moves};
pub use watchpoint::Watchpoint;

use crate::context::{EngineState, Hit, Stage};
use crate::engine::Engine;
use crate::errno::{Errno, Refusal};
use crate::guest::{Cpu, Guest};
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;
use inside::Inside;

/// The largest number of bytes of one watchpoint.
pub const MOST_BYTES: u64 = 16 << 20;
/// The largest number of watchpoints of an engine.
pub const MOST_WATCHPOINTS: usize = 65_536;

/// An access, as a watchpoint's handler sees it. Registers can be read but not set: the CPU is in the middle of its code.
/// [`Hit::pc`] is the address of the accessing instruction.
pub struct WatchHit<'a> {
    hit: Hit<'a>,
    access: &'a Access,
    watchpoint: &'a Watchpoint,
}

impl WatchHit<'_> {
    /// The access that has hit the watchpoint, with the values before and after it.
    pub fn access(&self) -> &Access {
        self.access
    }

    /// The watchpoint that was hit, for its counters and areas.
    pub fn watchpoint(&self) -> &Watchpoint {
        self.watchpoint
    }
}

impl<'a> Deref for WatchHit<'a> {
    type Target = Hit<'a>;
    fn deref(&self) -> &Hit<'a> {
        &self.hit
    }
}

impl DerefMut for WatchHit<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.hit
    }
}

/// The watchpoints of an engine.
#[derive(Default)]
pub(crate) struct Watchpoints {
    list: Vec<Watchpoint>,
    /// The list as the machine got it last. The machine reports an access with its watchpoint's index in this list.
    told: Vec<Watchpoint>,
    /// Whether `list` has changed since then.
    has_changed: bool,
    /// Watchpoints that handlers use as templates: they set copies of them at addresses.
    templates: Vec<Watchpoint>,
}

impl Watchpoints {
    /// Whether the machine watches nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Reports the accesses of an instruction that was computed.
    #[cold]
    pub fn computed(&self, cpu: &mut impl Cpu, state: &mut EngineState, computed: &Computed) {
        let after = cpu.pc();
        cpu.set_pc(computed.pc());
        for access in computed.accesses(cpu.now()) {
            for watchpoint in self.told.iter().filter(|watchpoint| watchpoint.is_enabled()) {
                let area = watchpoint.area();
                let address = if area.physical { cpu.physical_of(access.address) } else { Some(access.address) };
                let is_wanted = if access.is_write { area.writes } else { area.reads };
                let is_touched = address.is_some_and(|address| area.touches(address, access.size));
                if is_wanted && is_touched && area.process.is_none_or(|process| cpu.process() == process) {
                    run(watchpoint, cpu, state, &Access { address: address.unwrap_or(access.address), ..access });
                }
            }
        }
        cpu.set_pc(after);
    }
}

impl Engine {
    /// Makes a watchpoint ready for [`Hit::watch_at`]: clears its counters. Nothing is watched yet.
    pub fn prepare_watchpoint(&mut self, template: &Watchpoint) {
        template.begin();
        self.watch.templates.push(template.clone());
    }

    /// Registers a watchpoint. It watches from the machine's next run on.
    pub fn register_watchpoint(&mut self, guest: &mut dyn Guest, watchpoint: &Watchpoint) -> Result<(), Refusal> {
        let area = watchpoint.area();
        if !guest.can_watch() {
            return Err(Refusal::new(Errno::EOPNOTSUPP, "this guest cannot report accesses to its memory"));
        }
        if area.len == 0 {
            return Err(Refusal::new(Errno::EINVAL, "a watchpoint without bytes: give it a length of at least 1"));
        }
        let is_too_long = area.len > MOST_BYTES || area.start.checked_add(area.len - 1).is_none();
        let last = u64::MAX >> (64 - 8 * self.isa.word.clamp(1, 8));
        if is_too_long || !area.physical && area.start.saturating_add(area.len - 1) > last {
            return Err(Refusal::new(
                Errno::E2BIG,
                "a watchpoint has at most 16 MiB, and ends with the address space: watch fewer bytes",
            ));
        }
        if self.watch.list.iter().any(|known| known.is(watchpoint)) {
            return Err(Refusal::new(Errno::EEXIST, "this watchpoint is registered already"));
        }
        if self.watch.list.len() >= MOST_WATCHPOINTS {
            return Err(Refusal::new(Errno::ENOSPC, "there are 65,536 watchpoints already: remove some"));
        }
        if area.process.is_some() {
            self.follow_tasks(guest);
        }
        if !self.watch.list.iter().any(|known| known.is_of(watchpoint))
            && !self.watch.templates.iter().any(|known| known.is_of(watchpoint))
        {
            watchpoint.begin();
        }
        self.watch.list.push(watchpoint.clone());
        self.watch.has_changed = true;
        Ok(())
    }

    /// Removes a watchpoint, at all addresses where handlers have put it. Its counters stay.
    pub fn unregister_watchpoint(&mut self, watchpoint: &Watchpoint) {
        let before = self.watch.list.len();
        self.watch.list.retain(|known| !known.is_of(watchpoint));
        self.watch.templates.retain(|known| !known.is_of(watchpoint));
        self.state.moves.forget(watchpoint);
        self.watch.has_changed |= self.watch.list.len() != before;
    }

    /// Sets whether a watchpoint watches.
    pub fn enable_watchpoint(&mut self, watchpoint: &Watchpoint, enabled: bool) {
        let was_enabled = watchpoint.is_enabled();
        watchpoint.0.shared.is_enabled.store(enabled, Ordering::Relaxed);
        self.watch.has_changed |= was_enabled != enabled;
    }

    /// The registered watchpoints.
    pub fn watchpoints(&self) -> &[Watchpoint] {
        &self.watch.list
    }

    /// Whether the machine must watch other areas than before.
    #[inline]
    pub fn has_new_areas(&self) -> bool {
        self.watch.has_changed || !self.state.moves.is_done()
    }

    /// The areas that the machine must watch from now on. An access is passed on by its area's number in this list.
    pub fn areas(&mut self) -> Vec<Area> {
        self.watch.has_changed = false;
        self.watch.told.clone_from(&self.watch.list);
        self.state.moves.know(&self.watch.list);
        let area = |watchpoint: &Watchpoint| match watchpoint.is_enabled() {
            true => watchpoint.area(),
            false => Area { reads: false, writes: false, ..watchpoint.area() },
        };
        self.watch.list.iter().map(area).collect()
    }

    /// An access to the area of this number was made. The pc of `cpu` is that of the accessing instruction, in the guest's
    /// own code.
    pub fn accessed(&mut self, cpu: &mut impl Cpu, number: usize, access: &Access) {
        let Some(watchpoint) = self.watch.told.get(number) else { return };
        run(watchpoint, cpu, &mut self.state, access);
    }

    /// The bytes of the area of this number have changed without an access that was reported.
    pub fn changed_unseen(&mut self, number: usize) {
        if let Some(watchpoint) = self.watch.told.get(number) {
            watchpoint.count_unseen();
        }
    }
}

/// Counts an access and calls the watchpoint's handler.
fn run(watchpoint: &Watchpoint, cpu: &mut impl Cpu, state: &mut EngineState, access: &Access) {
    if access.unseen {
        watchpoint.count_unseen();
    }
    if !watchpoint.is_enabled() {
        return;
    }
    watchpoint.0.shared.probe.count_hit();
    let pc = cpu.pc();
    let mut inside = Inside::new(cpu, access.time);
    let hit = Hit::new(&mut inside, &watchpoint.0.shared.probe, pc, state, Stage::After);
    (watchpoint.0.shared.handler)(&mut WatchHit { hit, access, watchpoint });
}
