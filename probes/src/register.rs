//! Registration of kprobes. The address is found and checked (`place.rs`), decoded and given a slot. A point takes the
//! probe, and `lifecycle.rs` arms the point. Other kinds of probes call [`Engine::add`] for this part of their
//! registration.

use crate::engine::Engine;
use crate::errno::{Errno, Refusal, refused};
use crate::guest::Guest;
use crate::jump::Under;
use crate::members::{Action, Member};
use crate::place::Place;
use crate::point::Point;
use crate::probe::Kprobe;
use alloc::format;

/// Refuses an empty array, as Linux does.
pub(crate) fn refuse_none(count: usize) -> Result<(), Refusal> {
    if count == 0 { refused(Errno::EINVAL, "there is nothing to register".into()) } else { Ok(()) }
}

/// Limit for the number of probes that share an address.
const MOST_MEMBERS: usize = 8192;

impl Engine {
    /// Registers a probe. It is armed when this returns, unless it or everything is disabled.
    pub fn register_kprobe(&mut self, guest: &mut dyn Guest, probe: &Kprobe) -> Result<(), Refusal> {
        let place = self.resolve(guest, probe, false)?;
        self.add(guest, probe, Action::Handlers, place)
    }

    /// Registers all of them or none.
    pub fn register_kprobes(&mut self, guest: &mut dyn Guest, probes: &[Kprobe]) -> Result<(), Refusal> {
        refuse_none(probes.len())?;
        self.points.reserve(probes.len());
        for (done, probe) in probes.iter().enumerate() {
            if let Err(refusal) = self.register_kprobe(guest, probe) {
                self.unregister_kprobes(guest, &probes[..done]);
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Refuses a probe object that is already registered, as Linux does.
    pub(crate) fn refuse_twice(&self, probe: &Kprobe) -> Result<(), Refusal> {
        match self.find(probe) {
            Some(_) => refused(Errno::EINVAL, format!("{probe} is registered already; register another probe object there")),
            None => Ok(()),
        }
    }

    /// The second half of every registration: all checks after the address is known.
    pub(crate) fn add(&mut self, guest: &mut dyn Guest, probe: &Kprobe, action: Action, place: Place) -> Result<(), Refusal> {
        self.collect(guest);
        self.refuse_twice(probe)?;
        let is_internal = probe.is_internal();
        let uses_ftrace = self.by_policy(is_internal, |policy| self.check_place(guest, &place, action, policy))?;
        let number = match self.points.at(place.address) {
            Some(number) => {
                self.make_joinable(guest, number, action, &place, is_internal)?;
                number
            }
            None => {
                let (insn, plan, slot) = self.by_policy(is_internal, |policy| self.prepare(guest, &place, policy))?;
                self.points.insert(Point::new(self.isa, insn, plan, slot, uses_ftrace))
            }
        };
        probe.begin(place.address);
        if let Some(point) = self.points.get_mut(number) {
            let member = Member { probe: probe.clone(), action };
            // Newest first. A jprobe runs last.
            let at = if action == Action::Mirror { point.members.len() } else { 0 };
            point.members.insert(at, member);
        }
        if let Err(refusal) = self.settle(guest, number) {
            self.leave(guest, number, probe);
            self.collect(guest);
            return Err(refusal);
        }
        Ok(())
    }

    /// Checks that an existing point can take another probe, and prepares it again if its text was freed. A second
    /// jprobe is refused, and so is a place that the policy forbids and that has internal probes only.
    fn make_joinable(
        &mut self,
        guest: &mut dyn Guest,
        number: u32,
        action: Action,
        place: &Place,
        is_internal: bool,
    ) -> Result<(), Refusal> {
        let Some(point) = self.points.get(number) else { return Ok(()) };
        if point.members.len() >= MOST_MEMBERS {
            let why =
                format!("{} has {MOST_MEMBERS} probes already, and each of its hits runs them all: take some away", place.name());
            return refused(Errno::ENOMEM, why);
        }
        if action == Action::Mirror && point.has_mirror() {
            return refused(Errno::EEXIST, format!("{} has a jprobe already, and one function takes one", place.name()));
        }
        if !is_internal && !point.gone && point.members.iter().all(|member| member.probe.is_internal()) {
            self.decide(guest, place, self.policy)?;
        }
        if point.gone {
            let (insn, plan, slot) = self.by_policy(is_internal, |policy| self.prepare(guest, place, policy))?;
            self.points.set_slot(number, Some(slot));
            if let Some(point) = self.points.get_mut(number) {
                point.set_instruction(self.isa, insn, plan);
                (point.gone, point.shared) = (false, false);
                (point.region, point.covers) = (Under::NOTHING, 0);
                point.set_waits(None);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
