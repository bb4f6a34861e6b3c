//! Jump optimisation: which points get a jump instead of their breakpoint, when they get it, and when they lose it.
//!
//! A point is plain, optimising or optimised ([`Jump`]). The worker is [`Engine::tick`], driven by virtual time. After
//! a delay it writes the jumps of all waiting points. A point waits longer if a CPU or an interrupted task stands under
//! its jump. Linux's states "unoptimising" and "freeing" do not exist here: all CPUs are stopped while the text
//! changes, so a jump is removed at once.

use crate::engine::Engine;
use crate::errno::{Errno, Refusal};
use crate::guest::{Cpu, Guest, WINDOW_UNIT, WindowUse};
use crate::jump::{Jump, Obstacle};
use crate::point::{Point, Postponed};
use crate::slots::{DetourSetup, FULL};
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;
use trapline_isa::detour::{self, Detour, Form, NO_FAITHFUL};
use trapline_isa::mem::Fault;
use trapline_isa::region::Rule;

/// The longest region, in bytes.
const LONGEST: u64 = detour::LONGEST as u64;
/// The delay before a batch, in nanoseconds of virtual time. Linux waits 5 jiffies to collect a batch. Here all probes
/// registered while the machine is stopped form one batch, so a short delay is enough.
const DELAY: u64 = 100_000;
/// Shortest wait before a postponed region is tried again, in nanoseconds. Each try scans all of the guest's memory.
const LEAST_WAIT: u64 = 100_000;
/// The most times that the wait is doubled. It is doubled because a word that only looks like an address may stay in
/// memory for ever, and the scans must become rare then.
const MOST_DOUBLINGS: u32 = 14;

/// The state of the optimizer's worker.
pub(crate) struct Optimizer {
    /// Whether the switch `debug.kprobes-optimization` is on.
    allowed: bool,
    /// The guest is early in its boot, when jumps are not yet made.
    early: bool,
    /// The delay before a batch. This and the next two are virtual times in nanoseconds.
    delay: u64,
    /// The latest time that [`Engine::tick`] was called with.
    now: u64,
    /// The time at which the worker must run. `None` if no point waits.
    due: Option<u64>,
    /// The detours of points made from now on.
    pub detours: DetourSetup,
    /// The number of regions that were postponed because a CPU or a saved address pointed into them.
    pub postponed: u64,
}

impl Optimizer {
    pub fn new() -> Optimizer {
        Optimizer { allowed: true, early: false, delay: DELAY, now: 0, due: None, detours: DetourSetup::default(), postponed: 0 }
    }

    /// Schedules the worker after the delay, unless it is scheduled already.
    fn kick(&mut self, now: u64) {
        self.due = self.due.or(Some(now.saturating_add(self.delay)));
    }
}

impl Engine {
    /// Sets `debug.kprobes-optimization`. Off removes all jumps and prevents new ones. On tries all points again.
    pub fn set_optimization(&mut self, guest: &mut dyn Guest, allowed: bool) {
        if self.optimizer.allowed == allowed {
            return;
        }
        self.optimizer.allowed = allowed;
        for number in self.points.numbers() {
            self.consider(guest, number);
        }
        self.log.say(if allowed {
            "kprobe jump-optimization is enabled. All kprobes are optimized if possible."
        } else {
            "kprobe jump-optimization is disabled. All kprobes are based on software breakpoint."
        });
    }

    /// The last value given to [`Engine::set_early`].
    pub fn is_early(&self) -> bool {
        self.optimizer.early
    }

    /// Sets whether the guest is early in its boot, when it patches its own text. The optimizer writes no jumps then.
    pub fn set_early(&mut self, guest: &mut dyn Guest, early: bool) {
        if core::mem::replace(&mut self.optimizer.early, early) != early {
            for number in self.points.numbers() {
                self.consider(guest, number);
            }
        }
    }

    /// The value of `debug.kprobes-optimization`.
    pub fn optimization(&self) -> bool {
        self.optimizer.allowed
    }

    /// Sets the detour form for addresses probed from now on. Addresses that have a probe keep their form.
    pub fn set_detour_form(&mut self, guest: &mut dyn Guest, form: Form) -> Result<(), Refusal> {
        let mut trampoline = self.optimizer.detours.trampoline;
        if form == Form::Faithful && trampoline.is_none() {
            let code = self.isa.detour.and_then(|table| table.faithful).ok_or(NO_FAITHFUL)?.trampoline;
            let near = guest.symbol("_stext").map_or(0, |symbol| symbol.start);
            let at = guest.window_take(near, WINDOW_UNIT).ok_or(FULL)?;
            guest.window_write(at, code, WindowUse::Trampoline);
            trampoline = Some(at);
        }
        self.optimizer.detours = DetourSetup { form, trampoline };
        Ok(())
    }

    /// The form set by [`Engine::set_detour_form`].
    pub fn detour_form(&self) -> Form {
        self.optimizer.detours.form
    }

    /// Sets how long a probe waits before it is optimised, in nanoseconds of virtual time.
    pub fn set_optimization_delay(&mut self, nanoseconds: u64) {
        self.optimizer.delay = nanoseconds;
        let soonest = self.optimizer.now.saturating_add(nanoseconds);
        self.optimizer.due = self.optimizer.due.map(|due| due.min(soonest));
    }

    /// The virtual time at which [`Engine::tick`] should be called.
    pub fn wants_attention_at(&self) -> Option<u64> {
        self.optimizer.due
    }

    /// Runs the worker, and makes room for more followed calls. All CPUs must be stopped. `now` is virtual time in
    /// nanoseconds.
    pub fn tick(&mut self, guest: &mut dyn Guest, now: u64) {
        self.returns.make_room(&mut self.state.instances);
        // Each CPU has its own clock. A CPU that is behind must not turn the time back.
        let now = self.optimizer.now.max(now);
        self.optimizer.now = now;
        if self.optimizer.due.is_none_or(|due| now < due) {
            return;
        }
        self.optimizer.due = None;
        let mut waiting = Vec::new();
        for number in self.points.numbers() {
            let is_due = |point: &Point| point.jump == Jump::Optimising && point.postponed().not_before <= now;
            // Check the point again, because the guest may have changed its text since.
            if self.points.get(number).is_some_and(is_due) && self.make_ready(guest, number) {
                waiting.push(number);
            }
        }
        self.write_jumps(guest, &waiting, now);
        let waits = |point: &Point| point.jump == Jump::Optimising && !point.region.is_nothing();
        let waiting = self.points.iter().map(|(_, point)| point).filter(|point| waits(point));
        self.optimizer.due = waiting.map(|point| point.postponed().not_before.max(now + LEAST_WAIT)).min();
    }

    /// Guest time went back because a snapshot was restored: caps all deadlines at `now`.
    pub fn time_starts_over(&mut self, now: u64) {
        self.optimizer.now = now;
        for number in self.points.numbers() {
            if let Some(point) = self.points.get_mut(number) {
                let Postponed { not_before, tries } = point.postponed();
                point.set_postponed(Postponed { not_before: not_before.min(now), tries });
            }
        }
        let soonest = now.saturating_add(self.optimizer.delay);
        self.optimizer.due = self.optimizer.due.map(|due| due.min(soonest));
    }

    /// Writes the jumps of the waiting points. Postpones those whose bytes a CPU or a saved address points into.
    fn write_jumps(&mut self, guest: &mut dyn Guest, waiting: &[u32], now: u64) {
        let Some(table) = self.isa.detour else { return };
        let under = |number: &u32| {
            let point = self.points.get(*number);
            let start = point.map_or(0, Point::address);
            start + 1..start + table.length_through(point.and_then(|point| point.region.through()))
        };
        let ranges: Vec<Range<u64>> = waiting.iter().map(under).collect();
        let held = guest.remembers_addresses(&ranges);
        for ((number, range), held) in waiting.iter().zip(ranges).zip(held) {
            let delay = self.optimizer.delay.max(LEAST_WAIT);
            let Some(point) = self.points.get_mut(*number) else { continue };
            if held || guest.any_cpu_inside(range) {
                let tries = point.postponed().tries;
                let wait = delay.saturating_mul(1 << tries.min(MOST_DOUBLINGS));
                // Round up to a multiple of the wait, so that one scan serves many points.
                let not_before = now.saturating_add(wait).checked_next_multiple_of(wait).unwrap_or(u64::MAX);
                point.set_postponed(Postponed { not_before, tries: tries + 1 });
                self.optimizer.postponed += 1;
                continue;
            }
            point.set_postponed(Postponed::default());
            if let Err(refusal) = write_jump(guest, table, point) {
                point.jump = Jump::Plain;
                point.set_obstacle_found(refusal);
            }
        }
    }

    /// Brings the optimisation of a point into agreement with its state. Must be called whenever that state has
    /// changed.
    pub(crate) fn consider(&mut self, guest: &mut dyn Guest, number: u32) {
        let Some(point) = self.points.get(number) else { return };
        if let Some(obstacle) = self.obstacle(point) {
            self.unoptimise(guest, number, obstacle);
        } else if point.jump == Jump::Plain && self.make_ready(guest, number) {
            let now = self.optimizer.now;
            if let Some(point) = self.points.get_mut(number) {
                point.jump = Jump::Optimising;
                point.set_postponed(Postponed::default());
            }
            self.optimizer.kick(now);
        }
    }

    /// The first reason that prevents the optimisation at present.
    fn obstacle(&self, point: &Point) -> Option<Obstacle> {
        let found = [
            (!self.optimizer.allowed, Obstacle::Knob),
            (self.optimizer.early, Obstacle::Early),
            (!point.armed, Obstacle::Unarmed),
            (point.members.iter().all(|member| member.probe.is_internal()), Obstacle::Internal),
            (point.shared, Obstacle::Shared),
            (point.has_post, Obstacle::Post),
            (point.has_mirror(), Obstacle::Mirror),
            (point.uses_ftrace, Obstacle::Ftrace),
        ];
        found.into_iter().find(|(is_so, _)| *is_so).map(|(_, obstacle)| obstacle)
    }

    /// Removes a point's jump, or takes the point out of the queue. The breakpoint stays.
    pub(crate) fn unoptimise(&mut self, guest: &mut dyn Guest, number: u32, obstacle: Obstacle) {
        let Some(table) = self.isa.detour else { return };
        let isa = self.isa;
        let Some(point) = self.points.get_mut(number) else { return };
        point.set_obstacle(obstacle);
        if core::mem::take(&mut point.jump) == Jump::Optimised
            && let Err(refusal) = take_jump_back(guest, table, &(isa.breakpoint_over)(&point.insn), point)
        {
            self.log.say(refusal.why);
        }
    }

    /// Removes the jumps over an address that is about to get a breakpoint.
    pub(crate) fn make_way(&mut self, guest: &mut dyn Guest, address: u64) {
        for number in self.around(address) {
            self.unoptimise(guest, number, Obstacle::Neighbour);
        }
    }

    /// Tries the points again whose jump would cover an address that has just lost its breakpoint.
    pub(crate) fn retry_around(&mut self, guest: &mut dyn Guest, address: u64) {
        for number in self.around(address) {
            self.consider(guest, number);
        }
    }

    /// The points whose region contains this address, other than as its start.
    fn around(&self, address: u64) -> Vec<u32> {
        let before = self.points.within(address.saturating_sub(LONGEST)..address);
        let covers =
            |number: &u32| self.points.get(*number).is_some_and(|point| point.address() + u64::from(point.covers) > address);
        before.filter(covers).collect()
    }

    /// Removes a jump after an instruction of the region, other than the first, has faulted in the detour. The guest
    /// will return to the original address, where the jump must not be. The jump is written again when no saved pc is
    /// that address.
    pub(crate) fn give_way_to_fault(&mut self, cpu: &mut dyn Cpu, number: u32) {
        let Some(table) = self.isa.detour else { return };
        let breakpoint_over = self.isa.breakpoint_over;
        let Some(point) = self.points.get_mut(number) else { return };
        if point.jump != Jump::Optimised || point.region.is_nothing() {
            return;
        }
        let breakpoint = breakpoint_over(&point.insn);
        let length = table.length_through(point.region.through()) as usize;
        let rest = &point.region.bytes()[breakpoint.len()..length];
        let at = point.address();
        let written = cpu.patch_text(at, &breakpoint).and_then(|()| cpu.patch_text(at + breakpoint.len() as u64, rest));
        if written.is_ok() {
            let now = cpu.now();
            // An earlier postponement does not apply any more.
            point.jump = Jump::Optimising;
            self.optimizer.kick(now);
        }
    }
}

/// Writes a jump over the breakpoint: first the bytes behind the breakpoint, then the jump's first bytes.
fn write_jump(guest: &mut dyn Guest, table: &Detour, point: &mut Point) -> Result<(), Refusal> {
    let (false, Some(slot)) = (point.region.is_nothing(), point.slot) else { return Ok(()) };
    let region = &point.region;
    let jump = table.jump_through(&point.insn, slot.detour(), region.through()).ok_or(Rule::OutOfReach.refusal())?;
    let breakpoint = (guest.isa().breakpoint_over)(&point.insn);
    let split = breakpoint.len();
    let mut now = [0; LONGEST as usize];
    let now = &mut now[..region.bytes().len()];
    let unchanged =
        guest.read_text(point.address(), now).is_ok() && now[..split] == *breakpoint && now[split..] == region.bytes()[split..];
    if !unchanged {
        return Err(Refusal::new(Errno::EBUSY, "the guest has changed the text under the jump"));
    }
    let length = table.length_through(region.through()) as usize;
    let fault = |fault: Fault| Refusal::because(Errno::EINVAL, format!("the text cannot be changed: {fault}"));
    guest.patch_text(point.address() + split as u64, &jump[split..length]).map_err(fault)?;
    guest.patch_text(point.address(), &jump[..split]).map_err(fault)?;
    point.jump = Jump::Optimised;
    Ok(())
}

/// Removes a jump: first writes the breakpoint, then the original bytes behind it.
fn take_jump_back(guest: &mut dyn Guest, table: &Detour, breakpoint: &[u8], point: &Point) -> Result<(), Refusal> {
    let (false, Some(slot)) = (point.region.is_nothing(), point.slot) else { return Ok(()) };
    let region = &point.region;
    let length = table.length_through(region.through()) as usize;
    let (at, split) = (point.address(), breakpoint.len());
    let mut now = [0; detour::JUMP_MOST];
    let now = &mut now[..length];
    let jump = table.jump_through(&point.insn, slot.detour(), region.through());
    let unchanged = guest.read_text(at, now).is_ok() && jump.is_some_and(|jump| now[..] == jump[..length]);
    if !unchanged {
        let why = format!("the guest has changed the text at {at:#x} under an optimised probe; it stays as it is");
        return Err(Refusal::because(Errno::EBUSY, why));
    }
    let fault = |fault: Fault| Refusal::because(Errno::EINVAL, format!("the text cannot be changed: {fault}"));
    guest.patch_text(at, breakpoint).map_err(fault)?;
    guest.patch_text(at + split as u64, &region.bytes()[split..length]).map_err(fault)
}

#[cfg(test)]
mod tests;
