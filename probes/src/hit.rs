//! What happens on a hit: a state machine for each CPU.
//!
//! breakpoint -> pre-handlers -> the instruction, by its plan -> post-handlers -> onwards. A hit while another probe is
//! being processed on that CPU runs no handlers; its instruction is executed all the same. Nothing here locks or
//! allocates.
//!
//! What a CPU is in the middle of is a stack of [`Level`]s: a hit pushes one, the second breakpoint (or whatever else
//! ends the instruction) pops it.
//!
//! ```text
//! nothing --hit--> Active --its copy runs--> Stepping --behind it--> nothing
//!                    |                          |
//!                    +---another is hit---------+--> Reentered on top of it --behind its copy--> as before
//! ```
//!
//! Three functions end in `_simply`. Each is the short way of its namesake for what nearly all hits are: one enabled
//! probe, the CPU in the middle of nothing, nothing to be done behind the instruction. It asks whether this is such a
//! hit before it does anything; if not, its namesake is called, which knows all cases. They differ in the number of
//! questions, never in what they do: a new case is a matter for the long ones, and one more reason for the short ones
//! to say no.

mod computed;

use crate::context::{Hit, Moment, Scene};
use crate::engine::Engine;
use crate::guest::{Answer, Cpu, Resume};
use crate::jprobe::{Saved, Started};
use crate::jump::Jump;
use crate::log::Line;
use crate::members::{Action, Member};
use crate::paused::Execution;
use crate::point::Point;
use crate::probe::Flow;
use crate::slots::unit_of;
use crate::tracepoint::{Detour, start_next};
use alloc::boxed::Box;
use trapline_isa::arch::Isa;
use trapline_isa::plan::{Plan, Then};
use trapline_isa::regs::Reg;

/// Linux has room for one probe inside another; two more cost nothing.
const DEPTH: usize = 4;

/// Where the processing of a probe stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// HIT_ACTIVE: pre-handlers, a jprobe's guest handler among them.
    Active,
    /// HIT_SS: the copy runs.
    Stepping,
    /// REENTER: the copy runs, inside another probe's processing.
    Reentered,
}

/// A probe that is being processed.
#[derive(Clone, Copy, Debug)]
struct Level {
    point: u32,
    status: Status,
    /// The breakpoint behind the copy that runs; 0 while none does.
    end: u64,
    /// The copy is that of an instruction in a delay slot: what the branch in front of it has done stands in
    /// [`CpuState::branches`].
    delayed: bool,
}

/// A branch that has been computed, while the instruction in its delay slot runs.
#[derive(Clone, Copy, Debug, Default)]
struct Branch {
    /// Where it leads.
    to: u64,
    /// What a register held before.
    undo: Option<(Reg, u64)>,
}

/// What one CPU is doing.
pub(crate) struct CpuState {
    levels: [Level; DEPTH],
    depth: usize,
    /// One for each level that is a delayed one.
    branches: [Branch; DEPTH],
    /// What a jprobe's guest handler must not change.
    pub mirror: Saved,
    /// The stack pointer when it last began to save registers in a faithful detour.
    pub saving_at: u64,
    /// Its way through the code of a tracepoint, once there is one that is watched.
    pub detour: Option<Box<Detour>>,
}

impl CpuState {
    pub fn new(isa: &Isa) -> CpuState {
        let none = Level { point: 0, status: Status::Active, end: 0, delayed: false };
        CpuState {
            levels: [none; DEPTH],
            depth: 0,
            branches: [Branch::default(); DEPTH],
            mirror: Saved::new(isa),
            saving_at: 0,
            detour: None,
        }
    }

    #[inline]
    fn top(&self) -> Option<Level> {
        self.depth.checked_sub(1).map(|top| self.levels[top])
    }

    #[inline]
    fn push(&mut self, level: Level) -> bool {
        let room = self.depth < DEPTH;
        if room {
            self.levels[self.depth] = level;
            self.depth += 1;
        }
        room
    }

    #[inline]
    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// The branch of the topmost level.
    fn branch(&mut self) -> Option<&mut Branch> {
        self.branches.get_mut(self.depth.checked_sub(1)?)
    }

    /// Whether it runs the code of a tracepoint.
    #[inline]
    fn is_on_detour(&self) -> bool {
        self.detour.as_ref().is_some_and(|detour| detour.is_running())
    }

    /// Code of the guest's that ran inside a hit has ended: what was begun inside it and did not end there never will.
    /// Gives the point.
    pub fn end_of_guest_code(&mut self) -> u32 {
        self.depth = 1;
        self.levels[0].point
    }

    /// Whether it has yet to come out of this point, or of a step that ends there.
    pub fn is_busy_with(&self, point: u32, step_end: u64) -> bool {
        self.levels[..self.depth].iter().any(|level| level.point == point || level.end == step_end)
    }
}

/// What the pre-handlers want.
enum Next {
    Execute,
    Leave,
    GuestHandler,
}

/// What runs the instruction: a hit whose post-handlers follow, or one inside another probe's processing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    AnotherHit,
}

impl Engine {
    /// A breakpoint trap in kernel mode; the pc is the breakpoint's own address.
    pub fn breakpoint(&mut self, cpu: &mut impl Cpu) -> Answer {
        let (number, pc) = (cpu.number(), cpu.pc());
        let Some(state) = self.cpus.get(number) else { return Answer::NotOurs };
        if let Some(level) = state.top().filter(|level| level.end == pc) {
            return self.step_ended(cpu, number, level);
        }
        if state.is_on_detour()
            && let Some(answer) = self.trapped_on_detour(cpu, number, pc)
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
        if self.scene.instances.trap_pad() == Some(pc) {
            return self.returned(cpu);
        }
        let Some(state) = self.cpus.get(number) else { return Answer::NotOurs };
        if state.mirror.ends_at(pc) {
            return self.mirror_returned(cpu, number);
        }
        self.unknown_breakpoint(cpu, number, pc)
    }

    /// An exception other than a breakpoint whose pc lies in the window. The pc is put back to where the guest expects
    /// it; `NotOurs` = deliver the exception there.
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

    /// An interrupt is about to be taken with the pc in a slot, as only repeated instructions allow. The pc is put back
    /// to the original; when the guest comes back there, the instruction goes on and is not hit a second time.
    pub fn interrupted(&mut self, cpu: &mut impl Cpu) {
        let (number, pc) = (cpu.number(), cpu.pc());
        let Some(point) = self.leave_slot(cpu, number, pc) else { return };
        if let Some(found) = self.points.get(point).filter(|found| found.address() == cpu.pc()) {
            let execution = Execution::of(cpu, self.isa, &found.insn, point);
            self.counts.forgotten += u64::from(self.paused.add(execution));
        }
    }

    /// What [`Engine::jumped_in`] does, where one probe stands there that is nothing special; the CPU is not
    /// [busy](Engine::is_busy). False: it is not so, and nothing has been done.
    #[inline(always)]
    pub fn jumped_in_simply(&mut self, cpu: &mut impl Cpu, point: u32) -> bool {
        let (Some(probe), address) = (self.points.lone(point), cpu.pc()) else { return false };
        self.counts.hits = self.counts.hits.wrapping_add(1);
        let handler = probe.count_hit();
        handler(&mut Hit::new(cpu, probe, address, &mut self.scene, Moment::BehindJump));
        true
    }

    /// The same where it is a return probe.
    #[inline]
    pub fn entered_simply(&mut self, cpu: &mut impl Cpu, point: u32) -> bool {
        let Some(found) = self.points.get(point) else { return false };
        let [Member { probe, action: Action::Return(pool) }] = &*found.members else { return false };
        if !probe.is_plain() {
            return false;
        }
        self.counts.hits = self.counts.hits.wrapping_add(1);
        probe.count_hit();
        let address = cpu.pc();
        self.returns.enter(cpu, *pool, address, &mut self.scene, Moment::BehindJump);
        true
    }

    /// A CPU has come to the start of a detour by the jump of an optimised probe; its pc is given as the probe's
    /// address, `point` is what [`crate::guest::Window::Detour`] said. What handlers do to the pc and the stack pointer
    /// is ignored: execution goes on in the detour.
    pub fn jumped_in(&mut self, cpu: &mut impl Cpu, point: u32) {
        let number = cpu.number();
        if self.cpus.get(number).is_none_or(|state| state.depth != 0) {
            return self.count_reentry(point);
        }
        self.counts.hits += 1;
        let Engine { points, returns, scene, .. } = self;
        let Some(found) = points.get(point) else { return };
        let address = found.address();
        for member in found.members.iter().filter(|member| !member.probe.is_disabled()) {
            let handler = member.probe.count_hit();
            match &member.action {
                Action::Handlers => {
                    handler(&mut Hit::new(cpu, &member.probe, address, scene, Moment::BehindJump));
                }
                Action::Return(pool) => returns.enter(cpu, *pool, address, scene, Moment::BehindJump),
                // A point with a jprobe is not optimised, nor is a tracepoint's.
                Action::Mirror | Action::Record(_) => {}
            }
            cpu.set_pc(address);
        }
    }

    /// A hit of a lone probe whose instruction's copy jumps back: nothing comes after it. `None`: it is not so, and
    /// nothing has been done.
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
        let flow = handler(&mut Hit::new(cpu, probe, address, &mut self.scene, Moment::Before));
        // A "redirection" to the breakpoint itself could only trap again, for ever: the instruction runs instead.
        if flow == Flow::Redirected && cpu.pc() != address {
            return Some(self.resume(number, 0, false));
        }
        cpu.set_pc(slot.boosted());
        Some(self.resume(number, 0, true))
    }

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

    /// Whether this is an instruction that an interrupt has stopped half-way, and that goes on now.
    fn goes_on(&mut self, cpu: &mut impl Cpu, point: u32) -> bool {
        let Some(found) = self.points.get(point) else { return false };
        let execution = Execution::of(cpu, self.isa, &found.insn, point);
        self.paused.take(&execution)
    }

    #[inline]
    fn count_reentry(&mut self, point: u32) {
        // The guest by itself does not come here.
        if self.cpus.iter().any(CpuState::is_on_detour) {
            return;
        }
        self.counts.reentered += 1;
        if let Some(point) = self.points.get(point) {
            point.members.iter().for_each(|member| member.probe.count_missed());
        }
    }

    fn run_pre_handlers(&mut self, cpu: &mut impl Cpu, number: usize, point: u32) -> Next {
        let Engine { points, returns, cpus, scene, tracepoints, .. } = self;
        let Some(found) = points.get(point) else { return Next::Execute };
        let address = found.address();
        let mut members = found.members.iter().filter(|member| !member.probe.is_disabled());
        let (mut flow, mut is_watched) = (Flow::Continue, false);
        for member in members.by_ref() {
            if let Action::Record(_) = member.action {
                let detour = cpus[number].detour.as_deref_mut();
                if !is_watched && start_next(detour, tracepoints, &found.members, None, cpu, scene.isa) {
                    return Next::GuestHandler;
                }
                // All of them have had their turn, and none could begin.
                is_watched = true;
                continue;
            }
            let handler = member.probe.count_hit();
            match &member.action {
                Action::Record(_) => {}
                Action::Handlers => flow = handler(&mut Hit::new(cpu, &member.probe, address, scene, Moment::Before)),
                Action::Return(pool) => returns.enter(cpu, *pool, address, scene, Moment::Before),
                Action::Mirror => {
                    let Some(mirror) = found.mirror() else { continue };
                    let saved = &mut cpus[number].mirror;
                    if saved.start(cpu, mirror, &member.probe, address, scene) == Started::InGuest {
                        return Next::GuestHandler;
                    }
                }
            }
            if flow == Flow::Redirected {
                members.for_each(|member| member.probe.count_skipped());
                // A "redirection" to the breakpoint itself could only trap again, for ever: the instruction runs
                // instead.
                return if cpu.pc() == address { Next::Execute } else { Next::Leave };
            }
        }
        Next::Execute
    }

    /// A jprobe's guest handler has ended: everything is as it was, and the probed instruction's turn comes.
    fn mirror_returned(&mut self, cpu: &mut impl Cpu, number: usize) -> Answer {
        let state = &mut self.cpus[number];
        state.mirror.restore(cpu, self.isa);
        let point = state.end_of_guest_code();
        self.execute(cpu, number, point, Inside::Nothing)
    }

    /// The probed instruction's turn, when nothing else is being processed.
    pub(crate) fn execute_alone(&mut self, cpu: &mut impl Cpu, number: usize, point: u32) -> Answer {
        self.execute(cpu, number, point, Inside::Nothing)
    }

    /// Runs the probed instruction, by its plan.
    fn execute(&mut self, cpu: &mut impl Cpu, number: usize, point: u32, inside: Inside) -> Answer {
        let Some(found) = self.points.get(point) else { return Answer::NotOurs };
        if found.shared {
            if inside == Inside::Nothing {
                self.cpus[number].pop();
            }
            return Answer::NotOurs;
        }
        let Some(slot) = found.slot else {
            // Its text went while a jprobe's handler ran: what is there now is the guest's business.
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
                match computed::emulate(self.isa, what, found, cpu) {
                    Ok(then @ (Then::Onwards | Then::Slot { .. })) => {
                        let (length, to) = (found.insn.length() as u8, cpu.pc());
                        return match self.after(cpu, number, point, inside, length) {
                            Answer::Resume(resume) => {
                                // A handler may have led it elsewhere.
                                let behind_slot = match then {
                                    Then::Slot { then } if cpu.pc() == to => Some(then),
                                    _ => None,
                                };
                                Answer::Resume(Resume { stepped, behind_slot, ..resume })
                            }
                            Answer::NotOurs => Answer::NotOurs,
                        };
                    }
                    Ok(Then::Copy { undo }) => branch = Some(Branch { to: cpu.pc(), undo }),
                    // It would fault, and has changed nothing: the copy raises the fault.
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
            self.log.push(Line::TooDeep { address: found.address() });
            return Answer::NotOurs;
        }
        if let (Some(branch), Some(place)) = (branch, state.branch()) {
            *place = branch;
        }
        cpu.set_pc(slot.stepped());
        self.resume(number, 0, true)
    }

    /// The breakpoint behind a copy.
    fn step_ended(&mut self, cpu: &mut impl Cpu, number: usize, level: Level) -> Answer {
        let Some(found) = self.points.get(level.point) else { return Answer::NotOurs };
        let (mut onwards, mut counted) = (found.insn.next(), 0);
        if level.delayed
            && let Some(branch) = self.cpus.get_mut(number).and_then(CpuState::branch)
        {
            // The branch has not been counted: its copy might have faulted.
            (onwards, counted) = (branch.to, found.insn.length().saturating_sub(found.displaced()) as u8);
        }
        found.put_note_right(cpu);
        cpu.set_pc(onwards);
        let inside = if level.status == Status::Reentered { Inside::AnotherHit } else { Inside::Nothing };
        if inside == Inside::AnotherHit {
            self.cpus[number].pop();
        }
        self.after(cpu, number, level.point, inside, counted)
    }

    /// The instruction has been executed.
    fn after(&mut self, cpu: &mut impl Cpu, number: usize, point: u32, inside: Inside, counted: u8) -> Answer {
        let Engine { points, cpus, scene, .. } = self;
        let Some(found) = points.get(point) else { return Answer::NotOurs };
        if inside == Inside::Nothing {
            if found.has_post {
                run_post_handlers(cpu, found, scene);
            }
            cpus[number].pop();
        }
        let falls_through = cpu.pc() == found.insn.next();
        self.resume(number, counted, falls_through)
    }

    /// No probe stands there.
    fn unknown_breakpoint(&mut self, cpu: &mut impl Cpu, number: usize, pc: u64) -> Answer {
        // A step's end that was not waited for: the CPU was put into the slot by something that forgot the rest.
        if let Some((point, slot)) = self.slot_around(pc)
            && slot.step_end() == pc
            && let Some(found) = self.points.get(point)
        {
            found.put_note_right(cpu);
            cpu.set_pc(found.insn.next());
            return self.resume(number, 0, true);
        }
        let mut bytes = [0; trapline_isa::insn::LONGEST];
        let now = &mut bytes[..self.isa.breakpoint.len().min(trapline_isa::insn::LONGEST)];
        let is_stale = cpu.read(pc, now).is_ok() && !(self.isa.is_breakpoint)(now);
        if is_stale { self.resume(number, 0, true) } else { Answer::NotOurs }
    }

    /// Takes a CPU out of the slot that its pc lies in: back to the original, or behind it if the copy has run. The
    /// probe is no longer being processed there. Gives the slot's point.
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
        if let Some(level) = state.top().filter(|level| level.end == slot.step_end() && unit_of(pc) == slot.stepped()) {
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

    fn ask_fault_handlers(&mut self, cpu: &mut impl Cpu, point: u32, trapnr: u32) -> bool {
        let Engine { points, scene, .. } = self;
        let Some(found) = points.get(point) else { return false };
        let mut members = found.members.iter().filter(|member| !member.probe.is_disabled());
        members.any(|member| Hit::new(cpu, &member.probe, found.address(), scene, Moment::Before).ask_about(trapnr))
    }

    /// A fault in a jprobe's guest handler is one of status HIT_ACTIVE.
    fn fault_in_guest_handler(&mut self, cpu: &mut impl Cpu, number: usize, trapnr: u32) -> Answer {
        let point = match self.cpus.get(number) {
            Some(state) if state.mirror.is_active() => state.levels[0].point,
            _ => return Answer::NotOurs,
        };
        let origin = cpu.pc();
        if !self.ask_fault_handlers(cpu, point, trapnr) {
            return Answer::NotOurs;
        }
        self.resume(number, 0, cpu.pc() == origin)
    }

    /// Whether a probe is being processed on that CPU.
    #[inline]
    pub fn is_busy(&self, number: usize) -> bool {
        self.cpus.get(number).is_some_and(|state| state.depth != 0)
    }

    /// Whether a jprobe's guest handler or the code of a tracepoint runs on that CPU.
    #[inline]
    pub(crate) fn is_frozen(&self, number: usize) -> bool {
        self.cpus.get(number).is_some_and(|state| state.mirror.is_active() || state.is_on_detour())
    }

    #[inline]
    pub(crate) fn resume(&self, number: usize, counted: u8, falls_through: bool) -> Answer {
        let frozen = self.is_frozen(number);
        // A computed instruction of a handler in guest code takes no time, like the handler's others.
        let counted = if frozen { 0 } else { counted };
        Answer::Resume(Resume { counted, falls_through, frozen, ..Resume::default() })
    }
}

#[inline]
fn run_post_handlers(cpu: &mut impl Cpu, point: &Point, scene: &mut Scene) {
    for member in point.members.iter().filter(|member| !member.probe.is_disabled()) {
        // A return probe's is not used.
        if let (Some(handler), false) = (member.probe.post_handler(), matches!(member.action, Action::Return(_))) {
            handler(&mut Hit::new(cpu, &member.probe, point.address(), scene, Moment::After));
        }
    }
}

#[cfg(test)]
mod tests;
