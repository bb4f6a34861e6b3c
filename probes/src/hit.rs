//! The hit path: a state machine for each CPU that runs the handlers and the probed instruction.
//!
//! breakpoint -> pre-handlers -> the instruction, by its plan -> post-handlers -> continue. A hit while another probe
//! is being processed on the same CPU runs no handlers, but its instruction is still executed. Nothing here locks or
//! allocates.
//!
//! Each CPU has a stack of [`Level`]s, one per probe being processed. A hit pushes a level. The second breakpoint, or
//! whatever else ends the instruction, pops it.
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

use crate::context::{EngineState, Hit, Stage};
use crate::engine::Engine;
use crate::guest::{Answer, Cpu, Resume};
use crate::jprobe::{Saved, Started};
use crate::jump::Jump;
use crate::log::Message;
use crate::members::{Action, Member};
use crate::paused::Execution;
use crate::point::Point;
use crate::probe::Flow;
use crate::tracepoint::{TracepointRun, start_next};
use crate::watch::Computed;
use alloc::boxed::Box;
use trapline_isa::arch::Isa;
use trapline_isa::insn::LONGEST_GROUP;
use trapline_isa::plan::{Plan, Then};
use trapline_isa::regs::Reg;

/// Linux allows one probe inside another. Two more levels cost nothing.
const DEPTH: usize = 4;

/// The state of a probe that is being processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// HIT_ACTIVE: the pre-handlers run, or a jprobe's handler in guest code.
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
    /// The address of the breakpoint behind the running copy, or 0 if no copy runs.
    end: u64,
    /// The copy is that of an instruction in a delay slot. [`CpuState::branches`] holds the result of the computed
    /// branch in front of it.
    delayed: bool,
}

/// A computed branch whose delay slot is still to run.
#[derive(Clone, Copy, Debug, Default)]
struct Branch {
    /// The branch target.
    to: u64,
    /// The register that the branch changed, and its old value.
    undo: Option<(Reg, u64)>,
}

/// The processing state of one CPU.
pub(crate) struct CpuState {
    levels: [Level; DEPTH],
    depth: usize,
    /// The computed branch of each level that is a delayed one.
    branches: [Branch; DEPTH],
    /// The registers and stack that a jprobe's guest handler must not change.
    pub mirror: Saved,
    /// The stack pointer when the CPU last entered a faithful detour.
    pub saving_at: u64,
    /// The state of a run through a tracepoint's own code. Allocated when the first tracepoint is watched.
    pub tracepoint_run: Option<Box<TracepointRun>>,
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
            tracepoint_run: None,
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

    /// The computed branch of the topmost level.
    fn branch(&mut self) -> Option<&mut Branch> {
        self.branches.get_mut(self.depth.checked_sub(1)?)
    }

    /// Whether the CPU runs the code of a tracepoint.
    #[inline]
    fn runs_tracepoint(&self) -> bool {
        self.tracepoint_run.as_ref().is_some_and(|run| run.is_running())
    }

    /// Ends guest code that ran inside a hit. Levels that were pushed inside it and not popped are dropped. Returns the
    /// point of the outer hit.
    pub fn end_of_guest_code(&mut self) -> u32 {
        self.depth = 1;
        self.levels[0].point
    }

    /// Whether a level on this CPU belongs to this point or ends at this step's breakpoint.
    pub fn is_busy_with(&self, point: u32, step_end: u64) -> bool {
        self.levels[..self.depth].iter().any(|level| level.point == point || level.end == step_end)
    }
}

/// The result of running the pre-handlers.
enum Next {
    /// The probed instruction is executed.
    Execute,
    /// A handler has set the pc, so the instruction is not executed.
    Leave,
    /// A jprobe's handler in guest code, or a tracepoint's code, runs first.
    GuestHandler,
}

/// Whether an instruction runs inside another probe's processing. If not, its post-handlers follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    AnotherHit,
}

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

    /// Fast path of [`Engine::jumped_in`], for a lone probe on a CPU that is not [busy](Engine::is_busy). Returns
    /// false, having done nothing, in all other cases.
    #[inline(always)]
    pub fn jumped_in_simply(&mut self, cpu: &mut impl Cpu, point: u32) -> bool {
        let (Some(probe), address) = (self.points.lone(point), cpu.pc()) else { return false };
        self.counts.hits = self.counts.hits.wrapping_add(1);
        let handler = probe.count_hit();
        handler(&mut Hit::new(cpu, probe, address, &mut self.state, Stage::BehindJump));
        true
    }

    /// Like [`Engine::jumped_in_simply`], for a lone return probe.
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
        self.returns.enter(cpu, *pool, address, &mut self.state, Stage::BehindJump);
        true
    }

    /// Runs the handlers of an optimised probe. Called when its jump has brought a CPU to the start of the detour, with
    /// the pc set to the probe's address and `point` from [`crate::guest::WindowUse::Detour`]. Changes of pc and stack
    /// pointer by handlers are ignored; execution continues in the detour.
    pub fn jumped_in(&mut self, cpu: &mut impl Cpu, point: u32) {
        let number = cpu.number();
        if self.cpus.get(number).is_none_or(|state| state.depth != 0) {
            return self.count_reentry(point);
        }
        self.counts.hits += 1;
        let Engine { points, returns, state, .. } = self;
        let Some(found) = points.get(point) else { return };
        let address = found.address();
        for member in found.members.iter().filter(|member| !member.probe.is_disabled()) {
            let handler = member.probe.count_hit();
            match &member.action {
                Action::Handlers => {
                    handler(&mut Hit::new(cpu, &member.probe, address, state, Stage::BehindJump));
                }
                Action::Return(pool) => returns.enter(cpu, *pool, address, state, Stage::BehindJump),
                // Points with a jprobe or a tracepoint are never optimised.
                Action::Mirror | Action::Record(_) => {}
            }
            cpu.set_pc(address);
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

    /// Counts a hit inside another probe's processing as a miss of the point's probes.
    #[inline]
    fn count_reentry(&mut self, point: u32) {
        // While tracepoint code runs, the guest would not have come here by itself, so nothing is counted.
        if self.cpus.iter().any(CpuState::runs_tracepoint) {
            return;
        }
        self.counts.reentered += 1;
        if let Some(point) = self.points.get(point) {
            point.members.iter().for_each(|member| member.probe.count_missed());
        }
    }

    /// Runs the pre-handlers of the point's enabled probes, in order, until one redirects the CPU.
    fn run_pre_handlers(&mut self, cpu: &mut impl Cpu, number: usize, point: u32) -> Next {
        let Engine { points, returns, cpus, state, tracepoints, .. } = self;
        let Some(found) = points.get(point) else { return Next::Execute };
        let address = found.address();
        let mut members = found.members.iter().filter(|member| !member.probe.is_disabled());
        let (mut flow, mut is_watched) = (Flow::Continue, false);
        for member in members.by_ref() {
            if let Action::Record(_) = member.action {
                let run = cpus[number].tracepoint_run.as_deref_mut();
                if !is_watched && start_next(run, tracepoints, &found.members, None, cpu, state.isa) {
                    return Next::GuestHandler;
                }
                // Every tracepoint at this point has been tried, and none could start.
                is_watched = true;
                continue;
            }
            let handler = member.probe.count_hit();
            match &member.action {
                Action::Record(_) => {}
                Action::Handlers => flow = handler(&mut Hit::new(cpu, &member.probe, address, state, Stage::Before)),
                Action::Return(pool) => returns.enter(cpu, *pool, address, state, Stage::Before),
                Action::Mirror => {
                    let Some(mirror) = found.mirror() else { continue };
                    let saved = &mut cpus[number].mirror;
                    if saved.start(cpu, mirror, &member.probe, address, state) == Started::InGuest {
                        return Next::GuestHandler;
                    }
                }
            }
            if flow == Flow::Redirected {
                members.for_each(|member| member.probe.count_skipped());
                // A redirection to the breakpoint itself would trap again for ever, so the instruction runs instead.
                return if cpu.pc() == address { Next::Execute } else { Next::Leave };
            }
        }
        Next::Execute
    }

    /// Ends a jprobe's handler in guest code: restores registers and stack, then runs the probed instruction.
    fn mirror_returned(&mut self, cpu: &mut impl Cpu, number: usize) -> Answer {
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
    fn execute(&mut self, cpu: &mut impl Cpu, number: usize, point: u32, inside: Inside) -> Answer {
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
    fn step_ended(&mut self, cpu: &mut impl Cpu, number: usize, level: Level) -> Answer {
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

    /// Offers a fault to the fault handlers of the point's probes. Returns whether one has handled it.
    fn ask_fault_handlers(&mut self, cpu: &mut impl Cpu, point: u32, trapnr: u32) -> bool {
        let Engine { points, state, .. } = self;
        let Some(found) = points.get(point) else { return false };
        let mut members = found.members.iter().filter(|member| !member.probe.is_disabled());
        members.any(|member| Hit::new(cpu, &member.probe, found.address(), state, Stage::Before).ask_about(trapnr))
    }

    /// Offers a fault in a jprobe's guest handler to the fault handlers. Linux does so in status HIT_ACTIVE.
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

#[inline]
fn run_post_handlers(cpu: &mut impl Cpu, point: &Point, state: &mut EngineState) {
    for member in point.members.iter().filter(|member| !member.probe.is_disabled()) {
        // A return probe's post-handler is never used.
        if let (Some(handler), false) = (member.probe.post_handler(), matches!(member.action, Action::Return(_))) {
            handler(&mut Hit::new(cpu, &member.probe, point.address(), state, Stage::After));
        }
    }
}

#[cfg(test)]
mod tests;
