//! Executes the probed instruction behind the pre-handlers: computed by the engine, or in its copy, by the point's plan.
//!
//! [`Engine::execute`] starts it. A copy that jumps back needs nothing more. A stepped copy ends at the breakpoint behind it
//! ([`Engine::step_ended`]), where the post-handlers run. [`Engine::leave_slot`] takes a CPU out of a copy when an exception or
//! an interrupt stops it there.

use super::computed;
use super::levels::{Branch, CpuState, Level, Status};
use crate::context::{EngineState, Hit, Stage};
use crate::engine::Engine;
use crate::guest::{Answer, Cpu, Resume};
use crate::jump::Jump;
use crate::log::Message;
use crate::members::Action;
use crate::point::Point;
use crate::watch::Computed;
use trapline_isa::plan::{Plan, Then};

/// Whether an instruction runs inside another probe's processing. If not, its post-handlers follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// It runs in no other probe's processing.
    Nothing,
    /// It runs while another probe is being processed on the CPU.
    AnotherHit,
}

impl Engine {
    /// Ends a jprobe's handler in guest code: restores registers and stack, then runs the probed instruction.
    pub(super) fn mirror_returned(&mut self, cpu: &mut impl Cpu, number: usize) -> Answer {
        let state = &mut self.cpus[number];
        state.mirror.restore(cpu, self.isa);
        let point = state.end_of_guest_code();
        self.execute(cpu, number, point, Inside::Nothing)
    }

    /// Runs the probed instruction when no other probe is being processed.
    pub(crate) fn execute_alone(&mut self, cpu: &mut impl Cpu, number: usize, point: u32) -> Answer {
        self.execute(cpu, number, point, Inside::Nothing)
    }

    /// Runs the probed instruction, by its plan.
    pub(super) fn execute(&mut self, cpu: &mut impl Cpu, number: usize, point: u32, inside: Inside) -> Answer {
        let Some(found) = self.points.get(point) else { return Answer::NotOurs };
        if found.shared {
            if inside == Inside::Nothing {
                self.cpus[number].pop();
            }
            return Answer::NotOurs;
        }
        let Some(slot) = found.slot else {
            // Its text was freed while a jprobe's handler ran. The guest executes whatever is there now.
            cpu.set_pc(found.address());
            if inside == Inside::Nothing {
                self.cpus[number].pop();
            }
            return self.resume(number, 0, true);
        };
        if found.jump != Jump::Plain && !found.region.is_nothing() {
            cpu.set_pc(slot.detoured());
            if inside == Inside::Nothing {
                self.cpus[number].pop();
            }
            return self.resume(number, 0, true);
        }
        let mut branch = None;
        match &found.plan {
            Plan::Emulate(what) => {
                let stepped = cpu.is_stepped();
                let length = found.insn.length() as u8;
                let mut watched = (!self.watch.is_empty()).then(|| Computed::at(found.address()));
                let done = match &mut watched {
                    None => computed::emulate(self.isa, what, found, cpu),
                    Some(watched) => computed::emulate_recorded(self.isa, what, found, cpu, watched),
                };
                if let (Ok(_), Some(watched)) = (&done, &watched) {
                    self.watch.computed(cpu, &mut self.state, watched);
                }
                match done {
                    Ok(then @ (Then::Onwards | Then::DelaySlot { .. })) => {
                        let to = cpu.pc();
                        return match self.after(cpu, number, point, inside, length) {
                            Answer::Resume(resume) => {
                                // A post-handler may have changed the pc.
                                let behind_slot = match then {
                                    Then::DelaySlot { then } if cpu.pc() == to => Some(then),
                                    _ => None,
                                };
                                Answer::Resume(Resume { stepped, behind_slot, ..resume })
                            }
                            Answer::NotOurs => Answer::NotOurs,
                        };
                    }
                    Ok(Then::Copy { undo }) => branch = Some(Branch { to: cpu.pc(), undo }),
                    // The instruction would fault, and nothing has changed. Run the copy, which raises the fault.
                    Err(_) => {}
                }
            }
            Plan::Boost if inside == Inside::AnotherHit || !found.has_post => {
                cpu.set_pc(slot.boosted());
                if inside == Inside::Nothing {
                    self.cpus[number].pop();
                }
                return self.resume(number, 0, true);
            }
            Plan::Boost | Plan::Step => {}
        }
        let state = &mut self.cpus[number];
        if inside == Inside::Nothing {
            state.pop();
        }
        let status = if inside == Inside::Nothing { Status::Stepping } else { Status::Reentered };
        if !state.push(Level { point, status, end: slot.step_end(), delayed: branch.is_some() }) {
            self.log.push(Message::TooDeep { address: found.address() });
            return Answer::NotOurs;
        }
        if let (Some(branch), Some(place)) = (branch, state.branch()) {
            *place = branch;
        }
        cpu.set_pc(slot.stepped());
        self.resume(number, 0, true)
    }

    /// Handles the breakpoint behind a copy.
    pub(super) fn step_ended(&mut self, cpu: &mut impl Cpu, number: usize, level: Level) -> Answer {
        let Some(found) = self.points.get(level.point) else { return Answer::NotOurs };
        let (mut onwards, mut counted) = (found.insn.next(), 0);
        if level.delayed
            && let Some(branch) = self.cpus.get_mut(number).and_then(CpuState::branch)
        {
            // Account for the branch only now, because the copy in its delay slot might have faulted.
            (onwards, counted) = (branch.to, found.insn.length().saturating_sub(found.displaced()) as u8);
        }
        found.fix_address_register(cpu);
        cpu.set_pc(onwards);
        let inside = if level.status == Status::Reentered { Inside::AnotherHit } else { Inside::Nothing };
        if inside == Inside::AnotherHit {
            self.cpus[number].pop();
        }
        self.after(cpu, number, level.point, inside, counted)
    }

    /// Runs the post-handlers and pops the level, after the instruction has been executed.
    fn after(&mut self, cpu: &mut impl Cpu, number: usize, point: u32, inside: Inside, counted: u8) -> Answer {
        let Engine { points, cpus, state, .. } = self;
        let Some(found) = points.get(point) else { return Answer::NotOurs };
        if inside == Inside::Nothing {
            if found.has_post {
                run_post_handlers(cpu, found, state);
            }
            cpus[number].pop();
        }
        let falls_through = cpu.pc() == found.insn.next();
        self.resume(number, counted, falls_through)
    }

    /// Moves a CPU out of the slot that its pc lies in: to the original instruction, or behind it if the copy has run.
    /// Pops the probe's level. Returns the slot's point.
    pub(crate) fn leave_slot(&mut self, cpu: &mut impl Cpu, number: usize, pc: u64) -> Option<u32> {
        let (point, slot) = self.slot_around(pc)?;
        let found = self.points.get(point)?;
        if pc >= slot.detour() {
            let into = pc.saturating_sub(slot.detoured()).min(found.covers.into());
            cpu.set_pc(found.address() + into);
            return Some(point);
        }
        let has_run = slot.is_behind_copy(pc);
        cpu.set_pc(if has_run { found.insn.next() } else { found.address() });
        let state = self.cpus.get_mut(number)?;
        if let Some(level) = state.top().filter(|level| level.end == slot.step_end() && slot.is_stepped_unit(pc)) {
            if has_run {
                self.step_ended(cpu, number, level);
            } else {
                if let Some(branch) = state.branch().filter(|_| level.delayed) {
                    if let Some((reg, value)) = branch.undo {
                        cpu.set(reg, value);
                    }
                    cpu.stopped_in_delay_slot(branch.to);
                }
                state.pop();
            }
        }
        Some(point)
    }
}

#[inline]
fn run_post_handlers(cpu: &mut impl Cpu, point: &Point, state: &mut EngineState) {
    for member in point.members.iter().filter(|member| !member.probe.is_disabled()) {
        // A return probe's post-handler is never used.
        if let (Some(handler), false) = (member.probe.post_handler(), matches!(member.action, Action::Return(_))) {
            handler(&mut Hit::new(cpu, &member.probe, point.address(), state, Stage::After));
        }
    }
}
