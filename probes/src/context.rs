//! The view that a handler has of a hit: the stopped CPU, the probe, the function's arguments and the guest's memory.
//! User handlers, the event layer and programs all work through [`Hit`] (or [`ReturnHit`] for return probes). A hit
//! borrows the CPU and the `EngineState`, so it lives only while the handler runs. `context/backtrace.rs` has the callers of a
//! hit.

mod backtrace;
mod return_hit;

pub use backtrace::Frame;
pub use return_hit::ReturnHit;

use crate::events::watch::Watch;
use crate::guest::Cpu;
use crate::instances::Instances;
use crate::probe::Kprobe;
use crate::program::Programs;
use crate::records::{EventId, Header, Payload, Ring};
use crate::tracepoint::TracepointRecord;
use crate::user::Calls;
use crate::watch::Moves;
use trapline_isa::arch::Isa;
use trapline_isa::call::{self, Home, Type};
use trapline_isa::mem::Fault;

/// The trap number that a fault handler gets when a handler's own access to guest memory failed. It is 14, the
/// page-fault number of x86, on every ISA.
pub const PAGE_FAULT: u32 = 14;

/// The point of a hit at which a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the probed instruction. The pc is the probe's address.
    Before,
    /// After the probed instruction. The pc is the address where execution continues.
    After,
    /// At a function's return. The pc is the return address.
    Return,
}

/// A fault that a fault handler may deal with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultInfo {
    /// The exception number, as the architecture counts it.
    pub trapnr: u32,
    /// The failed access, if a handler made it. `None`: the probed instruction faulted, and the CPU's registers
    /// describe the access.
    pub access: Option<Fault>,
}

/// A hit, as its handlers see it. Changes to registers and memory take effect when the guest continues.
pub struct Hit<'a> {
    cpu: &'a mut dyn Cpu,
    probe: &'a Kprobe,
    state: &'a mut EngineState,
    address: u64,
    stage: Stage,
    in_fault_handler: bool,
}

/// The part of the engine's state that every handler can reach, whichever probe was hit.
pub(crate) struct EngineState {
    pub isa: &'static Isa,
    /// The calls that return probes follow at present.
    pub instances: Instances,
    pub records: Ring,
    pub programs: Programs,
    /// The filters and triggers of events.
    pub watch: Watch,
    /// The record that the guest's own code wrote at a tracepoint hit.
    pub record: TracepointRecord,
    /// The calls of user programs that are followed at present.
    pub calls: Calls,
    /// The addresses at which handlers have set watchpoints.
    pub moves: Moves,
}

/// A [`Phase`], plus how the CPU reached the probe: by its breakpoint or by its jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The CPU took the breakpoint.
    Before,
    /// The CPU took the jump of an optimised probe.
    BehindJump,
    After,
    Return,
}

impl<'a> Hit<'a> {
    #[inline]
    pub(crate) fn new(cpu: &'a mut dyn Cpu, probe: &'a Kprobe, address: u64, state: &'a mut EngineState, stage: Stage) -> Self {
        Hit { cpu, probe, state, address, stage, in_fault_handler: false }
    }

    /// Whether handlers must not change the stack pointer. True in a detour and at a return.
    fn keeps_stack(&self) -> bool {
        matches!(self.stage, Stage::BehindJump | Stage::Return)
    }

    /// The probe whose handler this is.
    pub fn probe(&self) -> &'a Kprobe {
        self.probe
    }

    /// The probe's address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The phase of the hit: before or after the instruction, or at a return.
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::Before | Stage::BehindJump => Phase::Before,
            Stage::After => Phase::After,
            Stage::Return => Phase::Return,
        }
    }

    /// The third argument of Linux's post-handlers. Linux always passes 0.
    pub fn flags(&self) -> u64 {
        0
    }

    /// The ISA's table of functions and constants.
    pub fn isa(&self) -> &'static Isa {
        self.state.isa
    }

    /// The CPU itself, for code that reads registers and memory through [`trapline_isa::abi::Abi`].
    pub fn machine(&mut self) -> &mut dyn Cpu {
        self.cpu
    }

    /// The pc. Before the instruction it is the probe's address, afterwards the address where execution continues, on
    /// every ISA.
    pub fn pc(&self) -> u64 {
        self.cpu.pc()
    }

    /// The pc as Linux's handlers see it on this ISA. On x86 it is one higher before the instruction.
    pub fn linux_pc(&self) -> u64 {
        let bias = if self.phase() == Phase::Before { self.state.isa.linux.pc_bias } else { 0 };
        self.cpu.pc().wrapping_add(bias)
    }

    /// Sets the address where the guest continues. It takes effect from a pre-handler that returns `Redirected`, and
    /// from a post-handler.
    pub fn set_pc(&mut self, pc: u64) {
        self.cpu.set_pc(pc);
    }

    /// The register of that name, written as in the event syntax without the `%` (`di`). `None` if the ISA has no such
    /// register.
    pub fn reg(&self, name: &str) -> Option<u64> {
        self.state.isa.abi.register(name).map(|reg| self.cpu.get(reg))
    }

    /// Sets the register of that name. Returns false if there is none. Handlers of optimised probes and of returns
    /// cannot change the stack pointer: the write is ignored.
    pub fn set_reg(&mut self, name: &str, value: u64) -> bool {
        let reg = self.state.isa.abi.register(name);
        let stays = self.keeps_stack() && reg == Some(self.state.isa.abi.sp);
        if let (Some(reg), false) = (reg, stays) {
            self.cpu.set(reg, value);
        }
        reg.is_some()
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.cpu.get(self.state.isa.abi.sp)
    }

    /// Argument number `index` (from 0) of the function, read at its entry, if it and all arguments before it are one
    /// word each. Returns 0 for an argument on a stack that cannot be read.
    #[inline]
    pub fn arg(&mut self, index: usize) -> u64 {
        let isa = self.state.isa;
        match isa.abi.arguments.get(index) {
            // All arguments are words, so this one has a register of its own.
            Some(register) => Type::Word.cut(self.cpu.get(*register), isa.word),
            None => self.typed_arg(&[], index),
        }
    }

    /// Like [`Hit::arg`], for a function whose arguments have these types. Arguments beyond `types` are words.
    pub fn typed_arg(&mut self, types: &[Type], index: usize) -> u64 {
        let isa = self.state.isa;
        call::argument(isa, types, index).read(isa, |place| match place {
            Home::Register(reg) => self.cpu.get(reg),
            Home::Stack(above) => self.read_word(self.sp().wrapping_add_signed(above)).unwrap_or(0),
        })
    }

    /// The function's result, read as a value of this type, at its return.
    pub fn typed_return_value(&self, kind: Type) -> u64 {
        let isa = self.state.isa;
        call::result(isa, kind).read(isa, |place| match place {
            Home::Register(reg) => self.cpu.get(reg),
            Home::Stack(_) => 0,
        })
    }

    /// The function's result in the first result register, at its return.
    pub fn return_value(&self) -> u64 {
        self.cpu.get(self.state.isa.abi.result)
    }

    /// Replaces the function's result, at its return.
    pub fn set_return_value(&mut self, value: u64) {
        self.cpu.set(self.state.isa.abi.result, value);
    }

    /// Reads guest memory. On a fault the probe's fault handler runs. If it returns "handled", the access is retried
    /// once.
    pub fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        match self.cpu.read(address, into) {
            Err(fault) if self.handled(fault) => self.cpu.read(address, into),
            done => done,
        }
    }

    /// Writes guest memory. Faults are treated as by [`Hit::read`].
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        match self.cpu.write(address, bytes) {
            Err(fault) if self.handled(fault) => self.cpu.write(address, bytes),
            done => done,
        }
    }

    /// Reads one machine word.
    pub fn read_word(&mut self, address: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        let size = self.state.isa.word.min(8);
        self.read(address, &mut bytes[..size])?;
        Ok(self.state.isa.order.number(&bytes[..size]))
    }

    /// Reads a string up to its terminating 0, or as much of it as fits. Returns its length without the 0.
    pub fn read_string(&mut self, address: u64, into: &mut [u8]) -> Result<usize, Fault> {
        for (index, byte) in into.iter_mut().enumerate() {
            self.read(address.wrapping_add(index as u64), core::slice::from_mut(byte))?;
            if *byte == 0 {
                return Ok(index);
            }
        }
        Ok(into.len())
    }

    /// A key that identifies the running task.
    pub fn task(&mut self) -> u64 {
        self.cpu.task()
    }

    /// The running task's pid.
    pub fn pid(&mut self) -> u32 {
        self.cpu.pid()
    }

    /// The running task's name, zero-padded.
    pub fn comm(&mut self) -> [u8; 16] {
        self.cpu.comm()
    }

    /// The CPU's number.
    pub fn cpu(&self) -> usize {
        self.cpu.number()
    }

    /// Virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.cpu.now()
    }

    /// The record that belongs to a tracepoint hit.
    pub fn record(&self) -> &TracepointRecord {
        &self.state.record
    }

    /// The followed calls of user programs.
    pub(crate) fn calls(&mut self) -> &mut Calls {
        &mut self.state.calls
    }

    /// The programs of the engine.
    #[inline]
    pub(crate) fn programs(&mut self) -> &mut Programs {
        &mut self.state.programs
    }

    /// Writes a record of this hit to the ring. `fill` writes its payload. Returns false if the ring was full; the drop
    /// is counted.
    pub fn emit(&mut self, event: EventId, fill: impl FnOnce(&mut dyn Cpu, &mut Payload<'_>)) -> bool {
        let header = self.header(event);
        let cpu = &mut *self.cpu;
        self.state.records.push(&header, |payload| fill(cpu, payload))
    }

    /// The fields that every record of this hit has.
    #[inline]
    pub(crate) fn header(&mut self, event: EventId) -> Header {
        Header {
            event,
            cpu: self.cpu.number() as u16,
            flags: self.cpu.trace_flags(),
            pid: self.cpu.pid(),
            comm: self.cpu.comm(),
            time: self.cpu.now(),
            ip: self.address,
            return_ip: if self.phase() == Phase::Return { self.cpu.pc() } else { 0 },
        }
    }

    /// The CPU and the engine's state.
    pub(crate) fn parts(&mut self) -> (&mut dyn Cpu, &mut EngineState) {
        (self.cpu, self.state)
    }

    /// Runs the probe's fault handler for a failed access of one of its handlers. Returns whether it has handled the fault.
    /// Each fault that it gets counts as a miss.
    fn handled(&mut self, fault: Fault) -> bool {
        let Some(handler) = self.probe.fault_handler().filter(|_| !self.in_fault_handler) else { return false };
        self.probe.count_missed();
        self.in_fault_handler = true;
        let handled = handler(self, &FaultInfo { trapnr: PAGE_FAULT, access: Some(fault) });
        self.in_fault_handler = false;
        handled
    }

    /// Runs the fault handler for a fault of the probed instruction itself. Returns whether it has handled the fault.
    pub(crate) fn ask_about(&mut self, trapnr: u32) -> bool {
        let Some(handler) = self.probe.fault_handler() else { return false };
        self.in_fault_handler = true;
        handler(self, &FaultInfo { trapnr, access: None })
    }
}
