//! State changes of registered probes: armed and disarmed, enabled and disabled, gone, unregistered.
//!
//! One rule decides what the guest's text holds. [`Engine::settle`] arms a point exactly if the global switch is on,
//! its text exists, and one of its probes is enabled. Every change of state ends with a call of it.

use crate::breakpoint;
use crate::engine::Engine;
use crate::errno::{Errno, NOT_REGISTERED, Refusal, refused};
use crate::guest::Guest;
use crate::jump::{Jump, Obstacle};
use crate::members::Action;
use crate::point::Point;
use crate::probe::Kprobe;
use crate::slots::Slot;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

/// A slot of a removed probe, kept until no CPU is inside.
pub(crate) struct Dirty {
    pub(crate) slot: Slot,
    pub(crate) point: u32,
}

impl Engine {
    /// The point that a probe is registered at.
    pub(crate) fn find(&self, probe: &Kprobe) -> Option<u32> {
        let number = self.points.at(probe.address()?)?;
        let is_member = self.points.get(number)?.members.iter().any(|member| member.probe.is(probe));
        is_member.then_some(number)
    }

    /// Brings the text at a point into agreement with the state of its probes: writes or removes its breakpoint or
    /// jump.
    pub(crate) fn settle(&mut self, guest: &mut dyn Guest, number: u32) -> Result<(), Refusal> {
        let Some(point) = self.points.get(number) else { return Ok(()) };
        let (address, was_armed) = (point.address(), point.armed);
        match self.may_stand(point) {
            true if !was_armed => self.make_way(guest, address),
            false if was_armed => self.unoptimise(guest, number, Obstacle::Unarmed),
            _ => {}
        }
        self.settle_breakpoint(guest, number)?;
        self.consider(guest, number);
        if was_armed && self.points.get(number).is_none_or(|point| !point.armed) {
            self.retry_around(guest, address);
        }
        Ok(())
    }

    /// Writes the breakpoint of a point, or restores the original bytes. Fails, and changes nothing, if the guest has changed
    /// the instruction there.
    fn settle_breakpoint(&mut self, guest: &mut dyn Guest, number: u32) -> Result<(), Refusal> {
        let isa = self.isa;
        self.points.settle_lone(number);
        let wanted = self.points.get(number).is_some_and(|point| self.may_stand(point));
        let Some(point) = self.points.get_mut(number) else { return Ok(()) };
        let mut enabled = point.members.iter().filter(|member| !member.probe.is_disabled());
        point.has_post =
            enabled.any(|member| !matches!(member.action, Action::Return(_)) && member.probe.post_handler().is_some());
        if wanted == point.armed {
            return Ok(());
        }
        if point.shared {
            // The breakpoint is the guest's own.
            point.armed = wanted;
            return Ok(());
        }
        let address = point.address();
        match (breakpoint::stands(guest, isa, &point.insn, !wanted), wanted) {
            (true, _) => {
                if let Err(fault) = breakpoint::put(guest, isa, &point.insn, wanted) {
                    return refused(Errno::EINVAL, format!("the text cannot be changed: {fault}"));
                }
            }
            (false, true) => {
                let why = format!("the guest has changed the text at {address:#x} since the probe was made; register it anew");
                return refused(Errno::EINVAL, why);
            }
            (false, false) => {
                self.log.say(format!("the guest has changed the text at {address:#x} under a probe; it stays as it is"))
            }
        }
        point.armed = wanted;
        Ok(())
    }

    /// Whether the point's breakpoint or jump must be in the text.
    fn may_stand(&self, point: &Point) -> bool {
        !self.all_disarmed && point.wants_to_be_armed() && !self.is_withdrawn(point)
    }

    /// Like [`Engine::settle`], but logs a refusal, for callers that cannot return it.
    pub(crate) fn settle_or_log(&mut self, guest: &mut dyn Guest, number: u32) {
        if let Err(refusal) = self.settle(guest, number) {
            self.log.say(format!("{refusal}"));
        }
    }

    pub(crate) fn settle_all(&mut self, guest: &mut dyn Guest) {
        for number in self.points.numbers() {
            self.settle_or_log(guest, number);
        }
    }

    /// Disables a probe: its handlers do not run until it is enabled again. No effect on a probe that is disabled or
    /// gone.
    pub fn disable_kprobe(&mut self, guest: &mut dyn Guest, probe: &Kprobe) -> Result<(), Refusal> {
        let number = self.find(probe).ok_or(NOT_REGISTERED)?;
        if probe.is_disabled() {
            return Ok(());
        }
        self.set_disabled(guest, number, probe, true)
    }

    /// Enables a probe again. Works while the global switch is off, too. (Linux forgets it for a probe that is alone at
    /// its address.)
    pub fn enable_kprobe(&mut self, guest: &mut dyn Guest, probe: &Kprobe) -> Result<(), Refusal> {
        let number = self.find(probe).ok_or(NOT_REGISTERED)?;
        if probe.is_gone() {
            return refused(Errno::EINVAL, format!("{probe} is gone: its text was freed; it can only be unregistered"));
        }
        self.set_disabled(guest, number, probe, false)
    }

    fn set_disabled(&mut self, guest: &mut dyn Guest, number: u32, probe: &Kprobe, disabled: bool) -> Result<(), Refusal> {
        let was = probe.is_disabled();
        probe.set_disabled(disabled);
        self.settle(guest, number).inspect_err(|_| {
            probe.set_disabled(was);
            self.points.settle_lone(number);
        })
    }

    /// Sets the global switch, debugfs `enabled`. Each probe keeps its own state.
    pub fn set_enabled(&mut self, guest: &mut dyn Guest, enabled: bool) {
        if self.all_disarmed != enabled {
            return;
        }
        self.all_disarmed = !enabled;
        self.settle_all(guest);
        self.log.say(if enabled { "Kprobes globally enabled" } else { "Kprobes globally disabled" });
    }

    /// The value of debugfs `enabled`.
    pub fn enabled(&self) -> bool {
        !self.all_disarmed
    }

    /// Marks the probes in this range as gone because their text was freed. Nothing is written there. They stay listed
    /// until they are unregistered.
    pub fn kill_range(&mut self, guest: &mut dyn Guest, range: Range<u64>) {
        let numbers: Vec<u32> = self.points.within(range).collect();
        for number in numbers {
            let Some(point) = self.points.get_mut(number) else { continue };
            (point.gone, point.armed, point.has_post, point.jump) = (true, false, false, Jump::Plain);
            point.members.iter().for_each(|member| member.probe.set_gone());
            self.points.settle_lone(number);
            if let Some(slot) = self.points.set_slot(number, None) {
                self.dirty.push(Dirty { slot, point: number });
            }
        }
        self.collect(guest);
    }

    /// Unregisters a probe. Its handlers do not run any more when this returns. If the probe is not registered, only
    /// its address is cleared.
    pub fn unregister_kprobe(&mut self, guest: &mut dyn Guest, probe: &Kprobe) {
        self.unregister_all(guest, core::iter::once(probe));
    }

    /// Unregisters several probes, waiting only once for CPUs to leave their slots.
    pub fn unregister_kprobes(&mut self, guest: &mut dyn Guest, probes: &[Kprobe]) {
        self.unregister_all(guest, probes.iter());
    }

    pub(crate) fn unregister_all<'a>(&mut self, guest: &mut dyn Guest, probes: impl Iterator<Item = &'a Kprobe>) {
        for probe in probes {
            match self.find(probe) {
                Some(number) => self.leave(guest, number, probe),
                None => probe.clear_address(),
            }
        }
        self.collect(guest);
    }

    /// Removes a probe from its point. A point without probes leaves the table.
    pub(crate) fn leave(&mut self, guest: &mut dyn Guest, number: u32, probe: &Kprobe) {
        let Some(point) = self.points.get_mut(number) else { return };
        let Some(at) = point.members.iter().position(|member| member.probe.is(probe)) else { return };
        let Some(member) = point.members.remove(at) else { return };
        if member.action == Action::Mirror {
            point.set_mirror(None);
        }
        let (is_empty, slot) = (point.members.is_empty(), point.slot);
        self.settle_or_log(guest, number);
        if let Action::Return(pool) = member.action {
            self.returns.disown(&mut self.state.instances, pool);
        }
        if is_empty {
            self.paused.forget_point(number);
            self.points.leave_table(number);
            if let Some(point) = self.points.get_mut(number) {
                // The point keeps its slot: a jprobe's handler in the guest may still return to it.
                point.dying = true;
            }
            match slot {
                Some(slot) => self.dirty.push(Dirty { slot, point: number }),
                None => self.drop_if_dead(number),
            }
        }
    }

    /// Frees the dirty slots that no CPU is in. Every registration and unregistration calls this, and the machine may.
    pub fn collect(&mut self, guest: &mut dyn Guest) {
        let (Some(first), Some(end)) =
            (self.dirty.iter().map(|dirty| dirty.slot.at()).min(), self.dirty.iter().map(|dirty| dirty.slot.range().end).max())
        else {
            return;
        };
        // Check all slots with one scan. Scan for each slot only if that finds a CPU.
        let all_left = guest.drain(first..end);
        let dirty = core::mem::take(&mut self.dirty);
        for Dirty { slot, point } in dirty {
            let is_busy = self.cpus.iter().any(|cpu| cpu.is_busy_with(point, slot.step_end()));
            if is_busy || (!all_left && guest.any_cpu_inside(slot.range())) {
                self.dirty.push(Dirty { slot, point });
                continue;
            }
            if self.points.get(point).is_some_and(|found| found.slot == Some(slot)) {
                self.points.set_slot(point, None);
            }
            guest.window_give(slot.at(), slot.len());
            self.drop_if_dead(point);
        }
    }

    /// Number of slots that wait for a CPU to leave them.
    pub fn slots_in_use_by_leavers(&self) -> usize {
        self.dirty.len()
    }

    /// Frees the number of an unregistered point when none of its slots waits for a CPU any more.
    fn drop_if_dead(&mut self, number: u32) {
        let waits = self.dirty.iter().any(|dirty| dirty.point == number);
        if !waits && self.points.get(number).is_some_and(|point| point.dying) {
            self.points.drop(number);
        }
    }

    /// The slot that a pc lies in, and its point. Includes slots that wait to be freed.
    pub(crate) fn slot_around(&self, pc: u64) -> Option<(u32, Slot)> {
        if let Some(point) = self.points.of_unit(crate::slots::unit_of(pc)) {
            return Some((point, self.points.get(point)?.slot?));
        }
        let dirty = self.dirty.iter().find(|dirty| dirty.slot.range().contains(&pc))?;
        Some((dirty.point, dirty.slot))
    }
}

#[cfg(test)]
mod tests;
