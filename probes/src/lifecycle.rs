//! What becomes of registered probes: armed and disarmed, enabled and disabled, gone, unregistered.
//!
//! One rule decides what the guest's text holds: [`Engine::settle`] arms a point exactly if the global switch is on,
//! its text exists, and one of its probes is enabled. Every change of state ends there.

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
use trapline_isa::insn::LONGEST;

/// A slot that is no longer wanted, until no CPU is inside.
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

    /// Makes the text what the state of things wants it to be.
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
            // The byte is the guest's.
            point.armed = wanted;
            return Ok(());
        }
        let address = point.address();
        let breakpoint = (isa.breakpoint_over)(&point.insn);
        let original = &point.insn.bytes()[..breakpoint.len().min(point.insn.bytes().len())];
        let expected = if wanted { point.insn.bytes() } else { breakpoint };
        match (holds(guest, address, expected), wanted) {
            (true, _) => {
                let bytes = if wanted { breakpoint } else { original };
                if let Err(fault) = guest.patch_text(address, bytes) {
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

    fn may_stand(&self, point: &Point) -> bool {
        !self.all_disarmed && point.wants_to_be_armed() && !self.is_withdrawn(point)
    }

    /// As [`Engine::settle`], where there is nobody to refuse.
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

    /// The probe's handlers do not run until it is enabled again. A probe that is disabled or gone already stays so.
    pub fn disable_kprobe(&mut self, guest: &mut dyn Guest, probe: &Kprobe) -> Result<(), Refusal> {
        let number = self.find(probe).ok_or(NOT_REGISTERED)?;
        if probe.is_disabled() {
            return Ok(());
        }
        self.set_disabled(guest, number, probe, true)
    }

    /// Undoes [`Engine::disable_kprobe`]. While the global switch is off this is remembered (Linux forgets it for a
    /// probe alone at its address).
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

    /// The global switch, debugfs `enabled`. Each probe's own state survives.
    pub fn set_enabled(&mut self, guest: &mut dyn Guest, enabled: bool) {
        if self.all_disarmed != enabled {
            return;
        }
        self.all_disarmed = !enabled;
        self.settle_all(guest);
        self.log.say(if enabled { "Kprobes globally enabled" } else { "Kprobes globally disabled" });
    }

    /// What debugfs `enabled` shows.
    pub fn enabled(&self) -> bool {
        !self.all_disarmed
    }

    /// The text in this range is no more: its probes are gone. Nothing is written there; they stay listed until
    /// unregistered.
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

    /// Takes a probe away. Its handlers do not run any more when this returns; one that is not registered gets its
    /// address cleared.
    pub fn unregister_kprobe(&mut self, guest: &mut dyn Guest, probe: &Kprobe) {
        self.unregister_all(guest, core::iter::once(probe));
    }

    /// Takes several away, with one wait for CPUs to leave their slots.
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

    /// Takes a member out of its point; a point without members leaves the table.
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
            self.returns.disown(&mut self.scene.instances, pool);
        }
        if is_empty {
            self.paused.forget_point(number);
            self.points.leave_table(number);
            if let Some(point) = self.points.get_mut(number) {
                // It keeps its slot: a jprobe's handler in the guest may yet come back to it.
                point.dying = true;
            }
            match slot {
                Some(slot) => self.dirty.push(Dirty { slot, point: number }),
                None => self.drop_if_dead(number),
            }
        }
    }

    /// Gives back the slots that no CPU is inside of. Called by every registration and unregistration; a machine may
    /// call it too.
    pub fn collect(&mut self, guest: &mut dyn Guest) {
        let (Some(first), Some(end)) =
            (self.dirty.iter().map(|dirty| dirty.slot.at()).min(), self.dirty.iter().map(|dirty| dirty.slot.range().end).max())
        else {
            return;
        };
        // One look for all; only if it finds something, one for each.
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

    /// How many slots wait for a CPU to leave them.
    pub fn slots_in_use_by_leavers(&self) -> usize {
        self.dirty.len()
    }

    fn drop_if_dead(&mut self, number: u32) {
        let waits = self.dirty.iter().any(|dirty| dirty.point == number);
        if !waits && self.points.get(number).is_some_and(|point| point.dying) {
            self.points.drop(number);
        }
    }

    /// The slot that a pc lies in, and its point; also one that waits to be given back.
    pub(crate) fn slot_around(&self, pc: u64) -> Option<(u32, Slot)> {
        if let Some(point) = self.points.of_unit(crate::slots::unit_of(pc)) {
            return Some((point, self.points.get(point)?.slot?));
        }
        let dirty = self.dirty.iter().find(|dirty| dirty.slot.range().contains(&pc))?;
        Some((dirty.point, dirty.slot))
    }
}

/// Whether the text holds these bytes.
pub(crate) fn holds(guest: &dyn Guest, address: u64, bytes: &[u8]) -> bool {
    let mut now = [0; LONGEST];
    let now = &mut now[..bytes.len().min(LONGEST)];
    guest.read_text(address, now).is_ok() && *now == *bytes
}

#[cfg(test)]
mod tests;
