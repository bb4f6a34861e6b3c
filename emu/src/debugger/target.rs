//! Answers gdb's requests: implements the traits of gdbstub for a guest whose run can go forwards and backwards.

use super::files::Files;
use super::monitor;
use super::sleepers::{self, Sleepers};
use crate::boot::Kernel;
use crate::cpu::debugger::{Description, Register, Settable};
use crate::cpu::switched::Kept;
use crate::history::timeline::{Ended, Found, Reached, Seen, Timeline, TimelineError};
use crate::machine::Place;
use core::num::NonZeroUsize;
use gdbstub::arch::{Arch, RegId, Registers};
use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps};
use gdbstub::target::ext::base::single_register_access::{SingleRegisterAccess, SingleRegisterAccessOps};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint, SwBreakpointOps,
    WatchKind,
};
use gdbstub::target::ext::host_io::HostIoOps;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps, outputln};
use gdbstub::target::ext::target_description_xml_override::{TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use std::collections::{BTreeMap, BTreeSet};
use trapline_isa::mem::{ByteOrder, Memory};
use trapline_isa::regs::Registers as _;
use trapline_probes::watch::Area;

/// The architecture as gdbstub sees it, one for all ISAs. [`Description`] says which registers a guest has.
#[derive(Debug)]
pub enum Guest {}

/// The bytes of all registers, in gdb's order. `None`: unavailable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bytes(Vec<Option<u8>>);

/// The number of a register in gdb's order.
#[derive(Debug)]
pub struct Number(usize);

impl RegId for Number {
    fn from_raw_id(id: usize) -> Option<(Number, Option<NonZeroUsize>)> {
        Some((Number(id), None))
    }
}

impl Registers for Bytes {
    type ProgramCounter = u64;

    /// Returns 0. gdbstub does not call it.
    fn pc(&self) -> u64 {
        0
    }

    fn gdb_serialize(&self, write_byte: impl FnMut(Option<u8>)) {
        self.0.iter().copied().for_each(write_byte);
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.0 = bytes.iter().map(|byte| Some(*byte)).collect();
        Ok(())
    }
}

impl Arch for Guest {
    type Usize = u64;
    type Registers = Bytes;
    type BreakpointKind = usize;
    type RegId = Number;
}

/// The resumption that gdb has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wanted {
    #[default]
    Continue,
    /// One instruction of this CPU. Other CPUs run as long as it is not this CPU's turn.
    Step(usize),
    ReverseContinue,
    ReverseStep(usize),
}

/// The result of [`Debugger::step`].
enum Walk {
    /// The stop to report. `None` if `goes_on` has returned false.
    Stopped(Option<MultiThreadStopReason<u64>>),
    /// The run has stopped for another reason: a watched access, a breakpoint of another CPU, or its end.
    Ended(Ended),
}

/// A guest under gdb.
pub struct Debugger {
    pub(super) timeline: Timeline,
    pub(super) kernel: Kernel,
    description: &'static Description,
    registers: Vec<Register>,
    xml: String,
    order: ByteOrder,
    wanted: Wanted,
    /// The number of breakpoints that gdb has set at each address.
    breaks: BTreeMap<u64, usize>,
    /// The places that `monitor checkpoint` has saved, with their guest times.
    pub(super) kept: Vec<(Place, u64)>,
    /// The guest's tasks, if gdb shall list them as threads.
    pub(super) sleepers: Option<Sleepers>,
    /// The files that gdb has opened.
    pub(super) files: Files,
    /// Sentences for the user. The next `monitor` command prints them, because other answers to gdb have no text.
    pub(super) notes: Vec<String>,
}

impl Debugger {
    /// A guest at the present place of a timeline.
    pub fn new(timeline: Timeline, kernel: Kernel) -> Debugger {
        let description = timeline.machine().description();
        Debugger {
            registers: description.registers().collect(),
            xml: description.xml(),
            order: kernel.arch.isa().order,
            description,
            timeline,
            kernel,
            wanted: Wanted::default(),
            breaks: BTreeMap::new(),
            kept: Vec::new(),
            sleepers: None,
            files: Files::default(),
            notes: Vec::new(),
        }
    }

    /// gdb's name of the architecture.
    pub fn architecture(&self) -> &'static str {
        self.description.architecture
    }

    /// Resumes the guest as gdb has asked, while `goes_on` returns true. Returns the stop to report, or `None` if `goes_on`
    /// has returned false.
    pub(super) fn resume_for(
        &mut self,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<MultiThreadStopReason<u64>>, TimelineError> {
        let ended = match self.wanted {
            Wanted::Continue => self.timeline.forward(goes_on)?,
            Wanted::ReverseContinue => self.timeline.backward(goes_on)?,
            Wanted::Step(cpu) => match self.step(cpu, goes_on)? {
                Walk::Stopped(stop) => return Ok(stop),
                Walk::Ended(ended) => ended,
            },
            Wanted::ReverseStep(cpu) => match self.timeline.step_back_of(cpu)? {
                true => return Ok(Some(stepped(self.tid()))),
                false => Ended::Start,
            },
        };
        Ok(match ended {
            Ended::Found(Found::Break(_)) => Some(MultiThreadStopReason::SwBreak(self.tid())),
            Ended::Found(Found::Access(seen)) => {
                self.stand_where_gdb_expects(&seen)?;
                Some(self.accessed(&seen))
            }
            Ended::Start => Some(self.at_end(ReplayLogPosition::Begin)),
            Ended::End(reached) => {
                self.notes.push(match reached {
                    Reached::Ended(stop) => format!("the guest's run ends here: {stop:?}"),
                    _ => "the recording ends here".into(),
                });
                Some(self.at_end(ReplayLogPosition::End))
            }
            Ended::Given => None,
        })
    }

    /// Executes one instruction of a CPU. Other CPUs may have their turns before, and stop at their breakpoints.
    fn step(&mut self, cpu: usize, goes_on: &mut dyn FnMut() -> bool) -> Result<Walk, TimelineError> {
        loop {
            let from = self.timeline.place();
            let (reached, seen) = self.timeline.step_and_see()?;
            if let Some(seen) = seen {
                return Ok(Walk::Ended(Ended::Found(Found::Access(seen))));
            }
            if reached.is_end() {
                return Ok(Walk::Ended(Ended::End(reached)));
            }
            if from.cpu == cpu {
                return Ok(Walk::Stopped(Some(stepped(tid_of(cpu)))));
            }
            let here = self.timeline.place();
            if here.cpu != cpu && self.breaks.contains_key(&here.pc) {
                return Ok(Walk::Ended(Ended::Found(Found::Break(here))));
            }
            if !goes_on() {
                return Ok(Walk::Stopped(None));
            }
        }
    }

    /// Moves to the place at which gdb expects a CPU after a watchpoint. For some ISAs (`watches_in_front`) gdb then steps
    /// once in the direction of the run. So the guest must stand before the access, or behind it if it runs backwards.
    fn stand_where_gdb_expects(&mut self, seen: &Seen) -> Result<(), TimelineError> {
        let is_backward = matches!(self.wanted, Wanted::ReverseContinue | Wanted::ReverseStep(_));
        match (self.description.watches_in_front, is_backward) {
            (true, false) => self.timeline.go_to_or_before(seen.place).map(|_| ()),
            (true, true) => self.timeline.step().map(|_| ()),
            (false, _) => Ok(()),
        }
    }

    /// Removes the breakpoints and watchpoints of an earlier session with gdb.
    pub(super) fn begin_session(&mut self) {
        self.breaks.clear();
        self.set_breaks();
        self.timeline.set_areas(Vec::new());
        self.sleepers = None;
        self.files = Files::default();
        self.wanted = Wanted::Continue;
    }

    /// The stop after the user has interrupted the run.
    pub(super) fn interrupted(&self) -> MultiThreadStopReason<u64> {
        MultiThreadStopReason::SignalWithThread { tid: self.tid(), signal: Signal::SIGINT }
    }

    fn at_end(&self, pos: ReplayLogPosition) -> MultiThreadStopReason<u64> {
        MultiThreadStopReason::ReplayLog { tid: Some(self.tid()), pos }
    }

    fn accessed(&self, seen: &Seen) -> MultiThreadStopReason<u64> {
        let area = self.timeline.areas().get(seen.area).copied().unwrap_or_default();
        let kind = match (area.reads, area.writes) {
            (true, true) => WatchKind::ReadWrite,
            (true, false) => WatchKind::Read,
            _ => WatchKind::Write,
        };
        MultiThreadStopReason::Watch { tid: tid_of(seen.place.cpu), kind, addr: area.start }
    }

    /// The running CPU's thread.
    fn tid(&self) -> Tid {
        tid_of(self.timeline.place().cpu)
    }

    /// The bytes of a value in the guest's byte order.
    fn in_order(&self, value: u128, bytes: usize) -> Vec<u8> {
        let mut all = value.to_le_bytes()[..bytes.min(16)].to_vec();
        if self.order == ByteOrder::Big {
            all.reverse();
        }
        all
    }

    fn number(&self, bytes: &[u8]) -> u128 {
        let put = |value: u128, byte: &u8| value << 8 | u128::from(*byte);
        match self.order {
            ByteOrder::Big => bytes.iter().fold(0, put),
            ByteOrder::Little => bytes.iter().rev().fold(0, put),
        }
    }

    fn value(&mut self, register: Register, tid: Tid) -> Option<u128> {
        if sleepers::is_task(tid) {
            return register.kept(&self.registers_of_task(tid)?);
        }
        self.timeline.look_at(cpu_of(tid), |view| register.value(view))
    }

    /// The registers of a task that sleeps. `None`: there is no such task.
    fn registers_of_task(&mut self, tid: Tid) -> Option<Kept> {
        let sleepers = self.sleepers.as_mut()?;
        let task = sleepers.all(&mut self.timeline).iter().find(|task| sleepers::tid_of(task) == tid)?.clone();
        sleepers.registers(&task, &mut self.timeline)
    }

    /// The CPU of a thread. For a sleeping task it is the running CPU: kernel memory is the same on all CPUs.
    fn cpu(&self, tid: Tid) -> usize {
        if sleepers::is_task(tid) { self.timeline.place().cpu } else { cpu_of(tid) }
    }

    /// Notes that a change of the guest has replaced the recorded run.
    fn says_that_it_changed(&mut self) {
        if let Some(sleepers) = &mut self.sleepers {
            sleepers.forget();
        }
        self.notes.push("the guest was changed: its run begins anew here, and what was before is forgotten".into());
    }

    fn cannot_change(&mut self, error: &TimelineError) -> TargetError<TimelineError> {
        self.notes.push(format!("the guest cannot be changed at this place: {error}"));
        TargetError::NonFatal
    }

    fn set_breaks(&mut self) {
        self.timeline.set_breaks(self.breaks.keys().copied().collect::<BTreeSet<u64>>());
    }

    /// Truncates an address to the width of the guest's registers. On 32-bit ISAs gdb may sign-extend addresses.
    fn address(&self, address: u64) -> u64 {
        address & u64::MAX >> (64 - 8 * self.kernel.arch.isa().word.clamp(1, 8))
    }

    /// The address of the instruction that gdb names. On IA-64 gdb adds the number of a slot to the bundle's address.
    fn place(&self, address: u64) -> u64 {
        (self.kernel.arch.isa().named_by)(self.address(address))
    }

    fn add_break(&mut self, address: u64) {
        let address = self.place(address);
        *self.breaks.entry(address).or_default() += 1;
        self.set_breaks();
    }

    fn remove_break(&mut self, address: u64) -> bool {
        let address = self.place(address);
        let Some(count) = self.breaks.get_mut(&address) else { return false };
        *count -= 1;
        if *count == 0 {
            self.breaks.remove(&address);
            self.set_breaks();
        }
        true
    }
}

fn stepped(tid: Tid) -> MultiThreadStopReason<u64> {
    MultiThreadStopReason::SignalWithThread { tid, signal: Signal::SIGTRAP }
}

fn tid_of(cpu: usize) -> Tid {
    NonZeroUsize::new(cpu + 1).unwrap_or(NonZeroUsize::MIN)
}

fn cpu_of(tid: Tid) -> usize {
    tid.get() - 1
}

impl Target for Debugger {
    type Arch = Guest;
    type Error = TimelineError;

    fn base_ops(&mut self) -> BaseOps<'_, Guest, TimelineError> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(&mut self) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl TargetDescriptionXmlOverride for Debugger {
    fn target_description_xml(&self, annex: &[u8], offset: u64, length: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let rest = usize::try_from(offset).ok().and_then(|offset| self.xml.as_bytes().get(offset..)).unwrap_or_default();
        let len = rest.len().min(length).min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

impl MultiThreadBase for Debugger {
    fn read_registers(&mut self, regs: &mut Bytes, tid: Tid) -> TargetResult<(), Self> {
        regs.0.clear();
        let kept = match sleepers::is_task(tid) {
            true => Some(self.registers_of_task(tid).ok_or(TargetError::NonFatal)?),
            false => None,
        };
        for register in self.registers.clone() {
            let value = match &kept {
                Some(kept) => register.kept(kept),
                None => self.value(register, tid),
            };
            match value {
                Some(value) => regs.0.extend(self.in_order(value, register.bytes()).into_iter().map(Some)),
                None => regs.0.extend(core::iter::repeat_n(None, register.bytes())),
            }
        }
        Ok(())
    }

    fn write_registers(&mut self, _: &Bytes, _: Tid) -> TargetResult<(), Self> {
        // gdb calls `write_register` instead, because single registers can be set.
        Err(TargetError::NonFatal)
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        let start = self.address(start);
        let cpu = self.cpu(tid);
        let read = self.timeline.look_at(cpu, |view| {
            let mut done = 0;
            while done < data.len() {
                let at = start.wrapping_add(done as u64);
                let part = (data.len() - done).min((4096 - at % 4096) as usize);
                if view.read(at, &mut data[done..done + part]).is_err() {
                    break;
                }
                done += part;
            }
            done
        });
        if read == 0 && !data.is_empty() { Err(TargetError::NonFatal) } else { Ok(read) }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        let start = self.address(start);
        // gdb asks with an empty write whether it may write bytes as they are.
        if data.is_empty() {
            return Ok(());
        }
        // `change` forgets the run ahead, so a write that fails has to fail in front of it.
        let cpu = self.cpu(tid);
        if !self.timeline.look_at(cpu, |view| view.can_write(start, data.len())) {
            return Err(TargetError::NonFatal);
        }
        let written = self.timeline.change(|machine| machine.look_at(cpu, |view| view.write(start, data).is_ok()));
        match written {
            Ok(true) => {
                self.says_that_it_changed();
                Ok(())
            }
            Ok(false) => Err(TargetError::NonFatal),
            Err(error) => Err(self.cannot_change(&error)),
        }
    }

    fn is_thread_alive(&mut self, tid: Tid) -> Result<bool, TimelineError> {
        if !sleepers::is_task(tid) {
            return Ok(cpu_of(tid) < self.timeline.machine().clocks().len());
        }
        let tasks = self.sleepers.as_mut().map(|sleepers| sleepers.all(&mut self.timeline)).unwrap_or_default();
        Ok(tasks.iter().any(|task| sleepers::tid_of(task) == tid))
    }

    fn list_active_threads(&mut self, thread_is_active: &mut dyn FnMut(Tid)) -> Result<(), TimelineError> {
        let tasks = self.sleepers.as_mut().map(|sleepers| sleepers.all(&mut self.timeline)).unwrap_or_default();
        let tasks: Vec<Tid> = tasks.iter().map(sleepers::tid_of).collect();
        (0..self.timeline.machine().clocks().len()).map(tid_of).chain(tasks).for_each(thread_is_active);
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Debugger {
    fn thread_extra_info(&self, tid: Tid, buf: &mut [u8]) -> Result<usize, TimelineError> {
        let (cpu, clocks) = (cpu_of(tid), self.timeline.machine().clocks());
        let tasks = self.sleepers.as_ref().map(Sleepers::known).unwrap_or_default();
        let task = tasks.iter().find(|task| sleepers::tid_of(task) == tid);
        let text = match clocks.get(cpu) {
            _ if sleepers::is_task(tid) => task.map_or(String::new(), sleepers::describe),
            _ if cpu == self.timeline.place().cpu => format!("CPU {cpu}, running"),
            Some(Some(_)) => format!("CPU {cpu}"),
            _ => format!("CPU {cpu}, asleep"),
        };
        let len = text.len().min(buf.len());
        buf[..len].copy_from_slice(&text.as_bytes()[..len]);
        Ok(len)
    }
}

impl SingleRegisterAccess<Tid> for Debugger {
    fn read_register(&mut self, tid: Tid, Number(number): Number, buf: &mut [u8]) -> TargetResult<usize, Self> {
        let register = *self.registers.get(number).ok_or(TargetError::NonFatal)?;
        let value = self.value(register, tid).ok_or(TargetError::NonFatal)?;
        let bytes = self.in_order(value, register.bytes());
        buf.get_mut(..bytes.len()).ok_or(TargetError::NonFatal)?.copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_register(&mut self, tid: Tid, Number(number): Number, val: &[u8]) -> TargetResult<(), Self> {
        let register = self.registers.get(number).ok_or(TargetError::NonFatal)?;
        let settable = register.settable().ok_or(TargetError::NonFatal)?;
        if cpu_of(tid) != self.timeline.place().cpu {
            self.notes.push("only registers of the running CPU can be set".into());
            return Err(TargetError::NonFatal);
        }
        let value = self.number(val) as u64;
        let set = self.timeline.change(|machine| match settable {
            Settable::Pc => machine.set_pc(value),
            Settable::Reg(reg) => machine.look(|view| view.set(reg, value)),
        });
        set.map_err(|error| self.cannot_change(&error))?;
        self.says_that_it_changed();
        Ok(())
    }
}

impl MultiThreadResume for Debugger {
    fn resume(&mut self) -> Result<(), TimelineError> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), TimelineError> {
        self.wanted = Wanted::Continue;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> Result<(), TimelineError> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Debugger {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), TimelineError> {
        self.wanted = Wanted::Step(self.cpu(tid));
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Debugger {
    /// Does nothing: CPUs always have the turns that they have in the recorded run, or it would be another run.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), TimelineError> {
        Ok(())
    }
}

impl ReverseCont<Tid> for Debugger {
    fn reverse_cont(&mut self) -> Result<(), TimelineError> {
        self.wanted = Wanted::ReverseContinue;
        Ok(())
    }
}

impl ReverseStep<Tid> for Debugger {
    fn reverse_step(&mut self, tid: Tid) -> Result<(), TimelineError> {
        self.wanted = Wanted::ReverseStep(self.cpu(tid));
        Ok(())
    }
}

impl Breakpoints for Debugger {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debugger {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.add_break(addr);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.remove_break(addr))
    }
}

impl HwBreakpoint for Debugger {
    fn add_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.add_break(addr);
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.remove_break(addr))
    }
}

impl HwWatchpoint for Debugger {
    fn add_hw_watchpoint(&mut self, addr: u64, len: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let Some(area) = area(self.address(addr), len, kind) else { return Ok(false) };
        let areas = self.timeline.areas().iter().copied().chain([area]).collect();
        self.timeline.set_areas(areas);
        Ok(true)
    }

    fn remove_hw_watchpoint(&mut self, addr: u64, len: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let (mut areas, wanted) = (self.timeline.areas().to_vec(), area(self.address(addr), len, kind));
        let Some(at) = areas.iter().position(|known| wanted == Some(*known)) else { return Ok(false) };
        areas.remove(at);
        self.timeline.set_areas(areas);
        Ok(true)
    }
}

fn area(start: u64, len: u64, kind: WatchKind) -> Option<Area> {
    let (reads, writes) = match kind {
        WatchKind::Write => (false, true),
        WatchKind::Read => (true, false),
        WatchKind::ReadWrite => (true, true),
    };
    (1..=trapline_probes::watch::MOST_BYTES).contains(&len).then_some(Area { start, len, reads, writes, ..Area::default() })
}

impl MonitorCmd for Debugger {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), TimelineError> {
        let command = String::from_utf8_lossy(command).into_owned();
        for line in monitor::answer(self, &command)? {
            outputln!(out, "{line}");
        }
        Ok(())
    }
}
