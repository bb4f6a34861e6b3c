//! What a handler sees: the stopped CPU, the probe, the function's arguments, guest memory.

use crate::guest::Cpu;
use crate::instances::Instances;
use crate::probe::Kprobe;
use crate::records::{EventId, Header, Payload, Ring};
use crate::script::attach::Scripts;
use crate::tracepoint::Record;
use core::ops::{Deref, DerefMut};
use trapline_isa::abi::ReturnAddress;
use trapline_isa::arch::Isa;
use trapline_isa::call::{self, Home, Type};
use trapline_isa::mem::Fault;

/// The trap number that a fault handler is given when a handler's own access to the guest failed: a page fault, as x86
/// and s390 number it.
pub const PAGE_FAULT: u32 = 14;

/// Where in a hit a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the instruction; the pc is the probe's address.
    Before,
    /// After it; the pc is where execution goes on.
    After,
    /// At a function's return; the pc is the address it returns to.
    Return,
}

/// A fault that a fault handler may deal with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultInfo {
    /// The architecture's number of the exception.
    pub trapnr: u32,
    /// The access, if it was one of a handler's own; what the probed instruction did is in the CPU's registers.
    pub access: Option<Fault>,
}

/// One line of a backtrace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Where on the stack the address was found; 0 for a register.
    pub slot: u64,
    /// What is there: where a return probe waits for the return, the return pad.
    pub raw: u64,
    /// The true address.
    pub address: u64,
}

/// A hit, as its handlers see it. What they do to registers and memory counts when the guest goes on.
pub struct Hit<'a> {
    cpu: &'a mut dyn Cpu,
    probe: &'a Kprobe,
    scene: &'a mut Scene,
    address: u64,
    moment: Moment,
    in_fault_handler: bool,
}

/// What all handlers get at, whatever has been hit.
pub(crate) struct Scene {
    pub isa: &'static Isa,
    /// The calls that return probes follow.
    pub instances: Instances,
    pub records: Ring,
    pub scripts: Scripts,
    /// The record that the guest's own code has made at a tracepoint's hit.
    pub record: Record,
}

/// Phases, and how the probe was come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// By a breakpoint.
    Before,
    /// By a jump.
    BehindJump,
    After,
    Return,
}

impl<'a> Hit<'a> {
    #[inline]
    pub(crate) fn new(cpu: &'a mut dyn Cpu, probe: &'a Kprobe, address: u64, scene: &'a mut Scene, moment: Moment) -> Self {
        Hit { cpu, probe, scene, address, moment, in_fault_handler: false }
    }

    /// The stack pointer is not the handlers' to change: behind a jump, and at a return.
    fn keeps_stack(&self) -> bool {
        matches!(self.moment, Moment::BehindJump | Moment::Return)
    }

    /// The probe whose handler this is.
    pub fn probe(&self) -> &'a Kprobe {
        self.probe
    }

    /// The probe's address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Where in the hit the handler runs.
    pub fn phase(&self) -> Phase {
        match self.moment {
            Moment::Before | Moment::BehindJump => Phase::Before,
            Moment::After => Phase::After,
            Moment::Return => Phase::Return,
        }
    }

    /// What Linux gives a post-handler as its third argument, and it is always 0.
    pub fn flags(&self) -> u64 {
        0
    }

    /// The ISA's table.
    pub fn isa(&self) -> &'static Isa {
        self.scene.isa
    }

    /// The CPU itself, for those who read registers and memory by [`trapline_isa::abi::Abi`].
    pub fn machine(&mut self) -> &mut dyn Cpu {
        self.cpu
    }

    /// The pc: the probe's address before the instruction, behind it where execution goes on; the same on every ISA.
    pub fn pc(&self) -> u64 {
        self.cpu.pc()
    }

    /// The pc as Linux's handlers see it on this ISA (x86: one more, before the instruction).
    pub fn linux_pc(&self) -> u64 {
        let bias = if self.phase() == Phase::Before { self.scene.isa.linux.pc_bias } else { 0 };
        self.cpu.pc().wrapping_add(bias)
    }

    /// Where to go on; counts from a pre-handler that returns `Redirected`, and from a post-handler.
    pub fn set_pc(&mut self, pc: u64) {
        self.cpu.set_pc(pc);
    }

    /// The register of that name (`di`, as the event syntax has it without the `%`).
    pub fn reg(&self, name: &str) -> Option<u64> {
        self.scene.isa.abi.register(name).map(|reg| self.cpu.get(reg))
    }

    /// Sets the register of that name; false if there is none. The stack pointer stays as it is in handlers of
    /// optimised probes and of returns.
    pub fn set_reg(&mut self, name: &str, value: u64) -> bool {
        let reg = self.scene.isa.abi.register(name);
        let stays = self.keeps_stack() && reg == Some(self.scene.isa.abi.sp);
        if let (Some(reg), false) = (reg, stays) {
            self.cpu.set(reg, value);
        }
        reg.is_some()
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.cpu.get(self.scene.isa.abi.sp)
    }

    /// A function's argument, counted from 0, at its entry, where it and those in front of it are words. 0 for one on a
    /// stack that cannot be read.
    #[inline]
    pub fn arg(&mut self, index: usize) -> u64 {
        let isa = self.scene.isa;
        match isa.abi.arguments.get(index) {
            // Each word in front of it has a register of its own.
            Some(register) => Type::Word.cut(self.cpu.get(*register), isa.word),
            None => self.typed_arg(&[], index),
        }
    }

    /// The same of a function whose arguments have these types; where there are more, they are words.
    pub fn typed_arg(&mut self, types: &[Type], index: usize) -> u64 {
        let isa = self.scene.isa;
        call::argument(isa, types, index).read(isa, |place| match place {
            Home::Register(reg) => self.cpu.get(reg),
            Home::Stack(above) => self.read_word(self.sp().wrapping_add_signed(above)).unwrap_or(0),
        })
    }

    /// A function's result of this type, at its return.
    pub fn typed_return_value(&self, kind: Type) -> u64 {
        let isa = self.scene.isa;
        call::result(isa, kind).read(isa, |place| match place {
            Home::Register(reg) => self.cpu.get(reg),
            Home::Stack(_) => 0,
        })
    }

    /// A function's result, at its return.
    pub fn return_value(&self) -> u64 {
        self.cpu.get(self.scene.isa.abi.result)
    }

    /// Changes a function's result, at its return.
    pub fn set_return_value(&mut self, value: u64) {
        self.cpu.set(self.scene.isa.abi.result, value);
    }

    /// Reads guest memory. On a fault the probe's fault handler is asked; if it says handled, the access is tried once
    /// more.
    pub fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        match self.cpu.read(address, into) {
            Err(fault) if self.handled(fault) => self.cpu.read(address, into),
            done => done,
        }
    }

    /// Writes guest memory, faults as with [`Hit::read`].
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        match self.cpu.write(address, bytes) {
            Err(fault) if self.handled(fault) => self.cpu.write(address, bytes),
            done => done,
        }
    }

    /// Reads one machine word.
    pub fn read_word(&mut self, address: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        let size = self.scene.isa.word.min(8);
        self.read(address, &mut bytes[..size])?;
        Ok(self.scene.isa.order.number(&bytes[..size]))
    }

    /// Reads a string up to its 0 or as much of it as fits; gives its length without the 0.
    pub fn read_string(&mut self, address: u64, into: &mut [u8]) -> Result<usize, Fault> {
        for (index, byte) in into.iter_mut().enumerate() {
            self.read(address.wrapping_add(index as u64), core::slice::from_mut(byte))?;
            if *byte == 0 {
                return Ok(index);
            }
        }
        Ok(into.len())
    }

    /// A key of the running task.
    pub fn task(&mut self) -> u64 {
        self.cpu.task()
    }

    /// The running task's number.
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

    /// The record of a tracepoint's hit.
    pub(crate) fn record(&self) -> &Record {
        &self.scene.record
    }

    /// The scripts that run.
    #[inline]
    pub(crate) fn scripts(&mut self) -> &mut Scripts {
        &mut self.scene.scripts
    }

    /// Leaves a record of this hit, whose payload `fill` writes. False: the ring was full; the drop is counted.
    pub fn emit(&mut self, event: EventId, fill: impl FnOnce(&mut dyn Cpu, &mut Payload<'_>)) -> bool {
        let header = Header {
            event,
            cpu: self.cpu.number() as u16,
            flags: self.cpu.moment(),
            pid: self.cpu.pid(),
            comm: self.cpu.comm(),
            time: self.cpu.now(),
            ip: self.address,
            return_ip: if self.phase() == Phase::Return { self.cpu.pc() } else { 0 },
        };
        let cpu = &mut *self.cpu;
        self.scene.records.push(&header, |payload| fill(cpu, payload))
    }

    /// Who called the function, at its entry; the true address, also where a return probe has put the return pad.
    pub fn caller(&mut self) -> Option<u64> {
        let (slot, raw) = match self.scene.isa.abi.return_address {
            ReturnAddress::OnStack => (self.sp(), self.read_word(self.sp()).ok()?),
            ReturnAddress::In(reg) => (0, self.cpu.get(reg)),
        };
        Some(self.resolve(slot, raw, &mut 0))
    }

    /// The addresses on the stack that `is_text` knows as code, innermost first, the pc in front; hijacked returns are
    /// resolved.
    ///
    /// Without unwind tables some may be left over from earlier calls. Gives how many of `into` were filled.
    pub fn backtrace(&mut self, into: &mut [Frame], is_text: impl Fn(u64) -> bool) -> usize {
        let (pc, word) = (self.pc(), self.scene.isa.word as u64);
        let mut found = 0;
        let mut pads = 0;
        let mut push = |frame| {
            if let Some(free) = into.get_mut(found) {
                *free = frame;
                found += 1;
            }
            found < into.len()
        };
        let mut go_on = push(Frame { slot: 0, raw: pc, address: pc });
        if let (ReturnAddress::In(reg), Phase::Before) = (self.scene.isa.abi.return_address, self.phase()) {
            let raw = self.cpu.get(reg);
            if go_on && (self.is_pad(raw) || is_text(raw)) {
                go_on = push(Frame { slot: 0, raw, address: self.resolve(0, raw, &mut pads) });
            }
        }
        let sp = self.sp();
        let top = (sp | (self.scene.isa.abi.stack_size.max(1) - 1)).wrapping_add(1);
        let mut slot = sp;
        while go_on && slot < top {
            let mut bytes = [0; 8];
            if self.cpu.read(slot, &mut bytes[..word as usize]).is_err() {
                break;
            }
            let raw = self.scene.isa.order.number(&bytes[..word as usize]);
            if self.is_pad(raw) || is_text(raw) {
                go_on = push(Frame { slot, raw, address: self.resolve(slot, raw, &mut pads) });
            }
            slot += word;
        }
        found
    }

    fn is_pad(&self, address: u64) -> bool {
        self.scene.instances.is_pad(address)
    }

    /// The true address behind one found at `slot`, where it is the return pad; `pads` counts those seen so far.
    pub(crate) fn resolve(&mut self, slot: u64, raw: u64, pads: &mut usize) -> u64 {
        if !self.is_pad(raw) {
            return raw;
        }
        let task = self.cpu.task();
        let at_slot = self.scene.instances.saved_in(task, slot);
        let real = at_slot.or_else(|| self.scene.instances.resolve_pad(task, *pads));
        *pads += 1;
        real.unwrap_or(raw)
    }

    /// A probe's fault handler is asked about its handlers' own accesses, and each is counted as a miss.
    fn handled(&mut self, fault: Fault) -> bool {
        let Some(handler) = self.probe.fault_handler().filter(|_| !self.in_fault_handler) else { return false };
        self.probe.count_missed();
        self.in_fault_handler = true;
        let handled = handler(self, &FaultInfo { trapnr: PAGE_FAULT, access: Some(fault) });
        self.in_fault_handler = false;
        handled
    }

    /// Asks about a fault of the probed instruction itself.
    pub(crate) fn ask_about(&mut self, trapnr: u32) -> bool {
        let Some(handler) = self.probe.fault_handler() else { return false };
        self.in_fault_handler = true;
        handler(self, &FaultInfo { trapnr, access: None })
    }
}

/// One followed call of a function, at its entry or its return: all of [`Hit`], and what belongs to this call alone.
pub struct ReturnHit<'a> {
    hit: Hit<'a>,
    data: &'a mut [u8],
    ret_addr: u64,
}

impl<'a> ReturnHit<'a> {
    #[inline]
    pub(crate) fn new(hit: Hit<'a>, data: &'a mut [u8], ret_addr: u64) -> Self {
        ReturnHit { hit, data, ret_addr }
    }

    /// The address that the function returns to.
    pub fn ret_addr(&self) -> u64 {
        self.ret_addr
    }

    /// The call's private bytes: the same in both handlers. Left as the last call that used them left them.
    pub fn data(&mut self) -> &mut [u8] {
        self.data
    }
}

impl<'a> Deref for ReturnHit<'a> {
    type Target = Hit<'a>;
    fn deref(&self) -> &Hit<'a> {
        &self.hit
    }
}

impl DerefMut for ReturnHit<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.hit
    }
}
