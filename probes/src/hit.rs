//! The hit path: a state machine for each CPU that runs the handlers and the probed instruction.
//!
//! breakpoint -> pre-handlers -> the instruction, by its plan -> post-handlers -> continue. A hit while another probe
//! is being processed on the same CPU runs no handlers, but its instruction is still executed. Nothing here locks or
//! allocates.
//!
//! Each CPU has a stack of [`Level`]s, one per probe being processed (`hit/levels.rs`). A hit pushes a level. The second
//! breakpoint, or whatever else ends the instruction, pops it. `hit/handlers.rs` runs handlers, and `hit/execute.rs` the
//! instruction.
//!
//! ```text
//! nothing --hit--> Active --its copy runs--> Stepping --copy done--> nothing
//!                    |                          |
//!                    +-----another hit----------+--> Reentered above it --copy done--> as before
//! ```
//!
//! Three functions end in `_simply`. Each is the fast path of its namesake for almost all hits: one enabled probe, an
//! idle CPU, no post-handler. It first tests for this case and otherwise returns without having changed anything; the
//! caller then uses the namesake. Fast and slow path must behave alike. Handle a new case in the slow path, and make
//! the fast path refuse it.

mod computed;
mod execute;
mod handlers;
mod levels;

pub(crate) use levels::CpuState;

use crate::context::{Hit, Stage};
use crate::engine::Engine;
use crate::guest::{Answer, Cpu, Resume};
use crate::jump::Jump;
use crate::paused::Execution;
use crate::probe::Flow;
use execute::Inside;
use handlers::Next;
use levels::{Level, Status};
use trapline_isa::insn::LONGEST_GROUP;
use trapline_isa::plan::Plan;

impl Engine {
    /// Handles a breakpoint trap in kernel mode. The pc is the breakpoint's own address.
    pub fn breakpoint(&mut self, cpu: &mut impl Cpu) -> Answer {
        let (number, pc) = (cpu.number(), cpu.pc());
        let Some(state) = self.cpus.get(number) else { return Answer::NotOurs };
        if let Some(level) = state.top().filter(|level| level.end == pc) {
            return self.step_ended(cpu, number, level);
        }
        if state.runs_tracepoint()
            && let Some(answer) = self.trapped_in_tracepoint(cpu, number, pc)
        {
            return answer;
        }
        if let Some(point) = self.points.at(pc)
            && self.points.get(point).is_some_and(|found| found.armed)
        {
            return match self.hit_simply(cpu, number, point) {
                Some(answer) => answer,
                None => self.hit(cpu, number, point),
            };
        }
        if self.state.instances.trap_pad() == Some(pc) {
            return self.returned(cpu);
        }
        let Some(state) = self.cpus.get(number) else { return Answer::NotOurs };
        if state.mirror.ends_at(pc) {
            return self.mirror_returned(cpu, number);
        }
        self.unknown_breakpoint(cpu, number, pc)
    }

    /// Handles an exception other than a breakpoint with the pc in the window. Sets the pc back to the original
    /// address. `NotOurs` means that the machine must deliver the exception there.
    pub fn fault(&mut self, cpu: &mut impl Cpu, trapnr: u32) -> Answer {
        let (number, pc) = (cpu.number(), cpu.pc());
        if let Some(answer) = self.frame_found_no_room(cpu, number, pc) {
            return answer;
        }
        let Some(point) = self.leave_slot(cpu, number, pc) else { return self.fault_in_guest_handler(cpu, number, trapnr) };
        self.counts.faults += 1;
        let inside_another = self.cpus.get(number).is_some_and(|state| state.depth != 0);
        let origin = cpu.pc();
        if self.points.get(point).is_some_and(|found| found.address() != origin) {
            self.give_way_to_fault(cpu, point);
        }
        let handled = !inside_another && self.ask_fault_handlers(cpu, point, trapnr);
        if !handled {
            return Answer::NotOurs;
        }
        self.resume(number, 0, cpu.pc() == origin)
    }

    /// Called when an interrupt is about to be taken with the pc in a slot. Only repeated instructions (x86 `rep`)
    /// allow that. Sets the pc back to the original. When the guest returns there, the instruction continues and is not
    /// hit again.
    pub fn interrupted(&mut self, cpu: &mut impl Cpu) {
        let (number, pc) = (cpu.number(), cpu.pc());
        let Some(point) = self.leave_slot(cpu, number, pc) else { return };
        if let Some(found) = self.points.get(point).filter(|found| found.address() == cpu.pc()) {
            let execution = Execution::of(cpu, self.isa, &found.insn, point);
            self.counts.forgotten += u64::from(self.paused.add(execution));
        }
    }

    /// Fast path of [`Engine::hit`], for a lone probe whose copy jumps back, so that nothing follows the copy. `None`,
    /// having done nothing, in all other cases.
    #[inline]
    fn hit_simply(&mut self, cpu: &mut impl Cpu, number: usize, point: u32) -> Option<Answer> {
        let (probe, found) = (self.points.lone(point)?, self.points.get(point)?);
        let (slot, address) = (found.slot?, found.address());
        let jumps_back = matches!(found.plan, Plan::Boost) && !found.has_post && !found.shared;
        let has_detour = found.jump != Jump::Plain && !found.region.is_nothing();
        if !jumps_back || has_detour || self.cpus.get(number)?.depth != 0 || !self.paused.is_empty() {
            return None;
        }
        self.counts.hits += 1;
        let handler = probe.count_hit();
        let flow = handler(&mut Hit::new(cpu, probe, address, &mut self.state, Stage::Before));
        // A redirection to the breakpoint itself would trap again for ever, so the instruction runs instead.
        if flow == Flow::Redirected && cpu.pc() != address {
            return Some(self.resume(number, 0, false));
        }
        cpu.set_pc(slot.boosted());
        Some(self.resume(number, 0, true))
    }

    /// Handles the hit of an armed point by its breakpoint: runs the pre-handlers, unless another probe is being processed on
    /// this CPU, then the instruction.
    fn hit(&mut self, cpu: &mut impl Cpu, number: usize, point: u32) -> Answer {
        let goes_on = !self.paused.is_empty() && self.goes_on(cpu, point);
        let inside = if self.cpus[number].depth == 0 { Inside::Nothing } else { Inside::AnotherHit };
        match (goes_on, inside) {
            (true, _) => self.counts.continued += 1,
            (false, Inside::Nothing) => self.counts.hits += 1,
            (false, Inside::AnotherHit) => self.count_reentry(point),
        }
        if inside == Inside::AnotherHit {
            return self.execute(cpu, number, point, inside);
        }
        self.cpus[number].push(Level { point, status: Status::Active, end: 0, delayed: false });
        if goes_on {
            return self.execute(cpu, number, point, inside);
        }
        match self.run_pre_handlers(cpu, number, point) {
            Next::Execute => self.execute(cpu, number, point, inside),
            Next::Leave => {
                self.cpus[number].pop();
                self.resume(number, 0, false)
            }
            Next::GuestHandler => self.resume(number, 0, false),
        }
    }

    /// Whether this is a repeated instruction that an interrupt stopped half-way and that now continues.
    fn goes_on(&mut self, cpu: &mut impl Cpu, point: u32) -> bool {
        let Some(found) = self.points.get(point) else { return false };
        let execution = Execution::of(cpu, self.isa, &found.insn, point);
        self.paused.take(&execution)
    }

    /// Handles a breakpoint at an address without an armed probe: a leftover of ours, or the guest's own.
    fn unknown_breakpoint(&mut self, cpu: &mut impl Cpu, number: usize, pc: u64) -> Answer {
        // The end of a step that no level expects: something put the CPU into the slot and lost the level.
        if let Some((point, slot)) = self.slot_around(pc)
            && slot.step_end() == pc
            && let Some(found) = self.points.get(point)
        {
            found.fix_address_register(cpu);
            cpu.set_pc(found.insn.next());
            return self.resume(number, 0, true);
        }
        let mut bytes = [0; LONGEST_GROUP];
        let start = self.isa.group_start(pc);
        // Nothing need be mapped behind a breakpoint that is shorter than others of the ISA.
        let most = self.isa.breakpoint.len().min(LONGEST_GROUP);
        let readable = (1..=most).rev().find(|len| cpu.read(start, &mut bytes[..*len]).is_ok());
        let is_stale = readable.is_some_and(|len| !(self.isa.is_breakpoint)(pc, &bytes[..len]));
        if is_stale { self.resume(number, 0, true) } else { Answer::NotOurs }
    }

    /// Whether a probe is being processed on that CPU.
    #[inline]
    pub fn is_busy(&self, number: usize) -> bool {
        self.cpus.get(number).is_some_and(|state| state.depth != 0)
    }

    /// Whether a jprobe's guest handler or the code of a tracepoint runs on that CPU.
    #[inline]
    pub(crate) fn is_frozen(&self, number: usize) -> bool {
        self.cpus.get(number).is_some_and(|state| state.mirror.is_active() || state.runs_tracepoint())
    }

    #[inline]
    pub(crate) fn resume(&self, number: usize, counted: u8, falls_through: bool) -> Answer {
        let frozen = self.is_frozen(number);
        // Instructions of a handler in guest code take no time, so a computed one takes none either.
        let counted = if frozen { 0 } else { counted };
        Answer::Resume(Resume { counted, falls_through, frozen, ..Resume::default() })
    }
}

#[cfg(test)]
mod tests;
