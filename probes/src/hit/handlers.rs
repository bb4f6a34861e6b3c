//! Runs the handlers of a point's probes: pre-handlers at a breakpoint, those of an optimised probe behind its jump, and
//! fault handlers.
//!
//! A probe that is disabled is passed over. A handler may redirect the CPU, a return probe follows the call, and a jprobe or a
//! tracepoint first runs code of the guest ([`Next`]). The fast paths for a lone probe end in `_simply`.

use super::levels::CpuState;
use crate::context::{Hit, Stage};
use crate::engine::Engine;
use crate::guest::{Answer, Cpu};
use crate::jprobe::Started;
use crate::members::{Action, Member};
use crate::probe::Flow;
use crate::tracepoint::start_next;

/// The result of running the pre-handlers.
pub(super) enum Next {
    /// The probed instruction is executed.
    Execute,
    /// A handler has set the pc, so the instruction is not executed.
    Leave,
    /// A jprobe's handler in guest code, or a tracepoint's code, runs first.
    GuestHandler,
}

impl Engine {
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

    /// Counts a hit inside another probe's processing as a miss of the point's probes.
    #[inline]
    pub(super) fn count_reentry(&mut self, point: u32) {
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
    pub(super) fn run_pre_handlers(&mut self, cpu: &mut impl Cpu, number: usize, point: u32) -> Next {
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

    /// Offers a fault to the fault handlers of the point's probes. Returns whether one has handled it.
    pub(super) fn ask_fault_handlers(&mut self, cpu: &mut impl Cpu, point: u32, trapnr: u32) -> bool {
        let Engine { points, state, .. } = self;
        let Some(found) = points.get(point) else { return false };
        let mut members = found.members.iter().filter(|member| !member.probe.is_disabled());
        members.any(|member| Hit::new(cpu, &member.probe, found.address(), state, Stage::Before).ask_about(trapnr))
    }

    /// Offers a fault in a jprobe's guest handler to the fault handlers. Linux does so in status HIT_ACTIVE.
    pub(super) fn fault_in_guest_handler(&mut self, cpu: &mut impl Cpu, number: usize, trapnr: u32) -> Answer {
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
}
