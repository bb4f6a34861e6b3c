//! Return probes: registration, the function's entry, and its return. At the entry, the return address is replaced by
//! that of the return pad: a jump and a breakpoint in the probe window, to which all followed functions return.
//!
//! Each followed call uses an instance from its probe's pool (`retprobe/pools.rs`). The pool is allocated at registration
//! and, if the probe has no limit, grows between runs (`retprobe/grow.rs`). `retprobe/returned.rs` handles the return, and
//! `instances.rs` finds the instance that it belongs to. This file registers return probes and answers questions about calls.

mod calls;
mod grow;
mod pools;
mod returned;

pub use calls::Calls;
pub(crate) use pools::Returns;

use crate::engine::Engine;
use crate::errno::{Errno, Refusal, refused};
use crate::guest::{Guest, WINDOW_UNIT, WindowUse};
use crate::members::Action;
use crate::probe::Kretprobe;
use crate::register::refuse_none;
use alloc::format;
use alloc::vec::Vec;
use trapline_isa::arch::TRACER_CODE;

/// The suffix that compilers give to the cold part that they split off a function.
pub(crate) const SPLIT_OFF: &str = ".cold";
/// Largest size of a call's private data, in bytes.
const MOST_DATA: usize = 4096;

impl Engine {
    /// Registers a return probe. The checks come in Linux's order.
    pub fn register_kretprobe(&mut self, guest: &mut dyn Guest, probe: &Kretprobe) -> Result<(), Refusal> {
        let place = self.resolve(guest, probe.kprobe(), true)?;
        if !place.on_entry {
            let why = format!(
                "{} is not the first instruction of a function; a return probe takes the return address there",
                place.name()
            );
            return refused(Errno::EINVAL, why);
        }
        self.refuse_twice(probe.kprobe())?;
        let name = place.symbol.name.as_str();
        let is_best = !self.policy.is_linux();
        let is_no_function = || {
            let is_entry = (self.isa.linux.is_entered_by_exceptions)(name);
            self.isa.switches_stacks.contains(&name) || TRACER_CODE.contains(&name) || is_entry
        };
        if self.isa.linux.no_return_probes.contains(&name) || is_best && is_no_function() {
            let why = format!(
                "{} returns on another stack than it was called on, or does not return like a function, so its return cannot be followed",
                place.name()
            );
            return refused(Errno::EINVAL, why);
        }
        if is_best && name.ends_with(SPLIT_OFF) {
            let why = format!(
                "{} is a part split off a function: it is jumped to and finds no return address; follow the function itself",
                place.name()
            );
            return refused(Errno::EINVAL, why);
        }
        if let Some(listed) = self.forbidden_by_linux(guest, &place).filter(|_| self.policy == crate::Policy::Outside) {
            let why = format!(
                "{} is part of {}, on the kernel's list of code without probes: there the stack or the current task may not be known, so its return cannot be followed; a kprobe works",
                place.name(),
                listed.name
            );
            return refused(Errno::EINVAL, why);
        }
        if probe.wanted_data_size() > MOST_DATA {
            let why = format!("{} bytes of private data are more than {MOST_DATA}", probe.wanted_data_size());
            return refused(Errno::E2BIG, why);
        }
        self.returns.collect(&mut self.state.instances);
        self.make_pad(guest, place.address)?;
        let pool = self.returns.open(&mut self.state.instances, probe, place.address, self.cpus.len(), is_best)?;
        let added = self.add(guest, probe.kprobe(), Action::Return(pool), place);
        if added.is_err() {
            self.returns.disown(&mut self.state.instances, pool);
        }
        added
    }

    /// Writes the return pad, before the first return probe.
    fn make_pad(&mut self, guest: &mut dyn Guest, near: u64) -> Result<(), Refusal> {
        if self.state.instances.pad.is_none() {
            let at = guest.window_take(near, WINDOW_UNIT);
            let at = at.ok_or(Refusal::new(Errno::ENOMEM, "the probe window has no room for the return pad"))?;
            let jump = self.isa.detour.map_or(&[][..], |detour| detour.return_pad);
            guest.window_write(at, &[jump, self.isa.breakpoint].concat(), WindowUse::ReturnPad { jump: jump.len() as u8 });
            self.state.instances.pad = Some(at);
        }
        Ok(())
    }

    /// Registers all of them or none.
    pub fn register_kretprobes(&mut self, guest: &mut dyn Guest, probes: &[Kretprobe]) -> Result<(), Refusal> {
        refuse_none(probes.len())?;
        for (done, probe) in probes.iter().enumerate() {
            if let Err(refusal) = self.register_kretprobe(guest, probe) {
                self.unregister_kretprobes(guest, &probes[..done]);
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Unregisters a return probe. Calls in flight return correctly, without its handler.
    pub fn unregister_kretprobe(&mut self, guest: &mut dyn Guest, probe: &Kretprobe) {
        self.unregister_kprobe(guest, probe.kprobe());
    }

    /// Unregisters several return probes at once.
    pub fn unregister_kretprobes(&mut self, guest: &mut dyn Guest, probes: &[Kretprobe]) {
        self.unregister_all(guest, probes.iter().map(Kretprobe::kprobe));
    }

    /// Disables it: its handlers do not run until it is enabled again. Calls in flight are still followed to their
    /// return.
    pub fn disable_kretprobe(&mut self, guest: &mut dyn Guest, probe: &Kretprobe) -> Result<(), Refusal> {
        self.disable_kprobe(guest, probe.kprobe())
    }

    /// Undoes [`Engine::disable_kretprobe`].
    pub fn enable_kretprobe(&mut self, guest: &mut dyn Guest, probe: &Kretprobe) -> Result<(), Refusal> {
        self.enable_kprobe(guest, probe.kprobe())
    }

    /// Forgets the calls in flight of a task that is exiting on this CPU. No handler runs for them. Calls that the task
    /// still makes before it is switched away are forgotten later: when the next task dies there, when an instance is
    /// needed, or by [`Engine::task_exited`].
    pub fn task_dies(&mut self, cpu: usize, task: u64) {
        self.returns.task_dies(&mut self.state.instances, cpu, task);
        self.paused.forget_task(task);
        self.user_task_exited(task);
    }

    /// Forgets the calls in flight of a task that no longer exists. No handler runs for them.
    pub fn task_exited(&mut self, task: u64) {
        self.returns.task_exited(&mut self.state.instances, task);
        self.paused.forget_task(task);
        self.user_task_exited(task);
    }

    /// The true return address of a call of `task`. `frame` is the address of the stack word that held the return
    /// address, or the stack pointer at entry on link-register ISAs.
    pub fn real_return_address(&self, task: u64, frame: u64) -> Option<u64> {
        self.state.instances.real_return_address(task, frame)
    }

    /// The true return address for the stack word at `slot`, in which the pad's address is found now.
    pub fn saved_return_address(&self, task: u64, slot: u64) -> Option<u64> {
        self.state.instances.saved_in(task, slot)
    }

    /// The followed calls, as pairs of frame key (see [`Engine::real_return_address`]) and true return address. Each
    /// task's calls are ordered newest first.
    pub fn followed_calls(&self) -> Vec<(u64, u64)> {
        self.state.instances.followed()
    }

    /// The true address for the task's return pad number `nth`, counted from the innermost call.
    pub fn resolve_pad(&self, task: u64, nth: usize) -> Option<u64> {
        self.state.instances.resolve_pad(task, nth)
    }

    /// The address of the return pad. `None` before the first return probe.
    pub fn return_pad(&self) -> Option<u64> {
        self.state.instances.pad
    }
}

#[cfg(test)]
mod tests;
