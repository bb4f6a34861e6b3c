//! The stopped CPU, as the engine and its handlers see it.

use super::mappings::MappingPlace;
use super::moment::{MomentPlace, PerCpu};
use super::user_places::UserPlaces;
use super::{Access, Model, TaskPlace};
use crate::clock::nanoseconds;
use crate::clock::running::Clock;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::line::Line;
use crate::unicorn::ram::Ram;
use trapline_isa::arch::Isa;
use trapline_isa::insn::LONGEST_GROUP;
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers, get_each, put_back_each};
use trapline_probes::guest::{Cpu, Instant};
use trapline_probes::records::Flags;

/// The stopped CPU, as the engine and its handlers see it.
pub struct View {
    /// The pc that they see and may set.
    pub(crate) pc: u64,
    pub(super) trap: TrapContext,
    pub(crate) model: &'static Model,
    pub(crate) isa: &'static Isa,
    /// Set if the engine moved the pc to a branch in whose delay slot the exception occurred: the branch's target.
    pub(crate) delayed: Option<u64>,
    /// A mask of the bits of an address or a register.
    pub(crate) mask: u64,
    pub(crate) ram: Ram,
    pub(crate) tasks: TaskPlace,
    pub(crate) moment: MomentPlace,
    /// The CPU's number.
    pub(crate) current: usize,
    /// The number of turns of CPUs that have begun so far.
    pub(crate) turn: u64,
    /// The CPU's clock.
    pub(crate) clock: Clock,
    /// Whether the run shall end at the next possible block start.
    pub(crate) is_asking: bool,
    /// Returns the running task: a function of the model.
    pub(crate) task_by: fn(&mut View) -> u64,
    /// Whether an address can be a program's. Kernels of our own let their threads pass any address.
    pub(crate) is_user: fn(u64) -> bool,
    /// The kernel's structures of a program's mappings, if they are known.
    pub(crate) mapping: Option<MappingPlace>,
    /// The observed instructions of user programs. `None` until there is one.
    pub(crate) user_places: Option<Box<UserPlaces>>,
}

impl View {
    /// Read access to the core.
    pub(crate) fn trap_handle(&self) -> Handle {
        self.trap.handle()
    }

    /// Whether the CPU is in kernel mode.
    pub fn in_kernel(&self) -> bool {
        (self.model.registers.in_kernel)(&self.trap.handle())
    }

    /// A view of a core on which nothing has run.
    pub(crate) fn new(
        trap: TrapContext,
        line: Line,
        model: &'static Model,
        ram: Ram,
        (tasks, moment): (TaskPlace, MomentPlace),
    ) -> View {
        let isa = model.arch.isa();
        let mask = u64::MAX >> (64 - 8 * isa.word);
        View {
            pc: 0,
            trap,
            model,
            isa,
            delayed: None,
            mask,
            ram,
            tasks,
            moment,
            current: 0,
            turn: 0,
            clock: Clock::new(line),
            is_asking: false,
            task_by: model.tasks.current,
            is_user: |_| true,
            mapping: None,
            user_places: None,
        }
    }
}

impl View {
    fn page_by_page(
        &mut self,
        address: u64,
        len: usize,
        access: Access,
        mut each: impl FnMut(&Ram, u64, usize, usize),
    ) -> Result<(), Fault> {
        // Two passes if several pages are accessed, so that a fault leaves no partial write.
        let crosses = !in_one_page(address, len);
        for dry in if crosses { &[true, false][..] } else { &[false] } {
            let mut done = 0;
            while done < len {
                let at = address.wrapping_add(done as u64) & self.mask;
                let part = (len - done).min((PAGE - at % PAGE) as usize);
                let physical = (self.model.translate)(&self.trap.handle(), &self.ram, at, access)?;
                if !self.ram.holds(physical, part) {
                    return Err(Fault { address: at, write: access == Access::Write });
                }
                if !dry {
                    each(&self.ram, physical, done, part);
                }
                done += part;
            }
        }
        Ok(())
    }

    /// Whether a write of `len` bytes would succeed.
    pub(crate) fn can_write(&mut self, address: u64, len: usize) -> bool {
        self.page_by_page(address, len, Access::Write, |_, _, _, _| ()).is_ok()
    }

    /// The physical address of a kernel address.
    pub(crate) fn physical(&mut self, address: u64) -> Option<u64> {
        (self.model.translate)(&self.trap.handle(), &self.ram, address, Access::Look).ok()
    }

    /// Whether a breakpoint of the ISA, of any length, is at this address. The memory behind it need not be mapped.
    pub(crate) fn holds_breakpoint(&mut self, pc: u64) -> bool {
        let isa = self.isa;
        let (mut bytes, start) = ([0; LONGEST_GROUP], isa.group_start(pc));
        let readable = (1..=isa.breakpoint.len().min(LONGEST_GROUP)).rev().find(|len| {
            let into = &mut bytes[..*len];
            let read = self.page_by_page(start, into.len(), Access::Look, |ram, physical, done, part| {
                ram.read(physical, &mut into[done..done + part]);
            });
            read.is_ok()
        });
        readable.is_some_and(|len| (isa.is_breakpoint)(pc, &bytes[..len]))
    }
}

/// Fast access to words through the core's TLB. `None` means that the TLB has no translation.
impl View {
    #[inline(always)]
    fn word(&self, address: u64, size: usize) -> Option<u64> {
        let (handle, ram) = (self.trap.handle(), &self.ram);
        match size {
            8 => ram.get64(handle.cached_physical(ram, address, 8, false)?),
            4 => ram.get32(handle.cached_physical(ram, address, 4, false)?).map(u64::from),
            _ => None,
        }
    }

    #[inline(always)]
    fn exchange_word(&self, address: u64, value: u64, size: usize) -> Option<u64> {
        let (handle, ram) = (self.trap.handle(), &self.ram);
        match size {
            8 => handle.exchange_cached64(ram, address, value),
            4 => handle.exchange_cached32(ram, address, value as u32).map(u64::from),
            _ => None,
        }
    }

    #[inline(never)]
    fn read_slowly(&mut self, address: u64, size: usize) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..size.min(8)];
        self.read(address, bytes)?;
        Ok(self.isa.order.number(bytes))
    }

    #[inline(never)]
    fn exchange_slowly(&mut self, address: u64, value: u64, size: usize) -> Result<u64, Fault> {
        let before = self.read_slowly(address, size)?;
        self.write_slowly(address, value, size)?;
        Ok(before)
    }

    #[inline(never)]
    fn write_slowly(&mut self, address: u64, value: u64, size: usize) -> Result<(), Fault> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..size.min(8)];
        self.isa.order.put(value, bytes);
        self.write(address, bytes)
    }
}

const PAGE: u64 = 4096;

#[inline]
fn in_one_page(address: u64, len: usize) -> bool {
    address % PAGE + len as u64 <= PAGE
}

impl Memory for View {
    #[inline]
    fn order(&self) -> ByteOrder {
        self.isa.order
    }

    #[inline]
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        if in_one_page(address, into.len()) {
            let physical = (self.model.translate)(&self.trap.handle(), &self.ram, address & self.mask, Access::Read)?;
            return if self.ram.read(physical, into) {
                Ok(())
            } else {
                Err(Fault { address: address & self.mask, write: false })
            };
        }
        self.page_by_page(address, into.len(), Access::Read, |ram, physical, done, part| {
            ram.read(physical, &mut into[done..done + part]);
        })
    }

    #[inline]
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if in_one_page(address, bytes.len()) {
            let physical = (self.model.translate)(&self.trap.handle(), &self.ram, address & self.mask, Access::Write)?;
            return if self.ram.write(physical, bytes) {
                Ok(())
            } else {
                Err(Fault { address: address & self.mask, write: true })
            };
        }
        self.page_by_page(address, bytes.len(), Access::Write, |ram, physical, done, part| {
            ram.write(physical, &bytes[done..done + part]);
        })
    }

    #[inline]
    fn read_number(&mut self, address: u64, size: usize) -> Result<u64, Fault> {
        match self.word(address, size) {
            Some(value) => Ok(value),
            None => self.read_slowly(address, size),
        }
    }

    #[inline]
    fn write_number(&mut self, address: u64, value: u64, size: usize) -> Result<(), Fault> {
        match self.exchange_word(address, value, size) {
            Some(_) => Ok(()),
            None => self.write_slowly(address, value, size),
        }
    }

    #[inline]
    fn exchange_number(&mut self, address: u64, value: u64, size: usize) -> Result<u64, Fault> {
        match self.exchange_word(address, value, size) {
            Some(before) => Ok(before),
            None => self.exchange_slowly(address, value, size),
        }
    }
}

impl Registers for View {
    #[inline]
    fn get(&self, reg: Reg) -> u64 {
        if let Some(value) = self.trap.handle().general(reg.0) {
            return value & self.mask;
        }
        (self.model.registers.get)(&self.trap.handle(), reg, self.pc) & self.mask
    }
    fn set(&mut self, reg: Reg, value: u64) {
        (self.model.registers.set)(&self.trap, reg, value & self.mask);
    }
    fn get_all(&self, names: &[(&str, Reg)], values: &mut [u64]) {
        match &self.model.registers.many {
            Some(many) => (many.get)(&self.trap.handle(), names, self.pc, values),
            None => get_each(self, names, values),
        }
    }
    fn put_back(&mut self, names: &[(&str, Reg)], values: &[u64]) {
        match &self.model.registers.many {
            Some(many) => (many.put_back)(&self.trap, names, self.pc, values),
            None => put_back_each(self, names, values),
        }
    }
    #[inline]
    fn pc(&self) -> u64 {
        self.pc
    }
    #[inline]
    fn set_pc(&mut self, pc: u64) {
        self.pc = pc & self.mask;
    }
}

impl Cpu for View {
    #[inline]
    fn number(&self) -> usize {
        self.current
    }
    fn task(&mut self) -> u64 {
        (self.task_by)(self)
    }
    fn pid(&mut self) -> u32 {
        let task = self.task();
        let place = self.tasks.pid;
        place.and_then(|at| self.read_number(task.wrapping_add(at), 4).ok()).unwrap_or(0) as u32
    }
    fn process(&mut self) -> u32 {
        // In every Linux, the task's own number is followed by the number of its process (thread group).
        let task = self.task();
        let place = self.tasks.pid.map(|at| at.wrapping_add(4)).filter(|_| self.tasks.has_process);
        match place {
            Some(at) => self.read_number(task.wrapping_add(at), 4).unwrap_or(0) as u32,
            None => self.pid(),
        }
    }
    fn comm(&mut self) -> [u8; 16] {
        let mut name = [0; 16];
        let task = self.task();
        if let Some(at) = self.tasks.comm {
            let at = task.wrapping_add(at);
            match (self.word(at, 8), self.word(at.wrapping_add(8), 8)) {
                (Some(first), Some(last)) => {
                    self.isa.order.put(first, &mut name[..8]);
                    self.isa.order.put(last, &mut name[8..]);
                }
                // A task that cannot be read has no name: all zeros.
                _ => drop(self.read(at, &mut name)),
            }
        }
        name
    }
    fn now(&self) -> u64 {
        nanoseconds(self.clock.time())
    }
    fn interrupts_off(&self) -> bool {
        (self.model.interrupts.are_off)(&self.trap.handle())
    }
    fn trace_flags(&mut self) -> Flags {
        self.linux_moment()
    }
    #[inline]
    fn is_stepped(&self) -> bool {
        (self.model.exceptions.stepping)(&self.trap.handle())
    }
    fn stopped_in_delay_slot(&mut self, then: u64) {
        self.delayed = Some(then);
    }
    fn stack_word(&mut self, address: u64, size: usize) -> Option<u64> {
        (self.model.registers.held)(&self.trap.handle(), address).or_else(|| self.read_number(address, size).ok())
    }
    fn read_user(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let address = address & self.mask;
        let last = address.wrapping_add(into.len().saturating_sub(1) as u64) & self.mask;
        if !(self.is_user)(address) || !(self.is_user)(last) {
            return Err(Fault { address, write: false });
        }
        self.page_by_page(address, into.len(), Access::User, |ram, physical, done, part| {
            ram.read(physical, &mut into[done..done + part]);
        })
    }
    fn narrow_word(&self) -> Option<usize> {
        (self.model.tasks.narrow_word)(&self.trap.handle())
    }
    fn mapping_at(&mut self, address: u64) -> Option<u16> {
        View::mapping_at(self, address)
    }
    fn observe_arrival(&mut self, address: u64) -> bool {
        self.add_arrival(address)
    }
    fn note_running_task(&mut self) {
        View::note_running_task(self);
    }
    fn preemptions(&mut self) -> Option<(u64, usize)> {
        Some((self.moment_count()?, self.moment.form.0))
    }
    fn per_cpu(&mut self) -> Option<u64> {
        match self.model.tasks.moments.per_cpu? {
            // A kernel for one CPU has ordinary variables.
            _ if self.tasks.is_variable => Some(0),
            PerCpu::Register(read) => Some(read(&self.trap.handle())),
            PerCpu::Member { area, .. } => {
                let at = area(&self.trap.handle()).wrapping_add(self.moment.per_cpu?);
                self.read_number(at, self.isa.word).ok()
            }
        }
    }
    fn physical_of(&mut self, address: u64) -> Option<u64> {
        self.physical(address)
    }
    fn instant(&self) -> Option<Instant> {
        Some(Instant { turn: self.turn, cpu: self.current, ticks: self.clock.at(self.pc), pc: self.pc })
    }
    fn look_soon(&mut self) {
        self.is_asking = true;
        self.clock.look_at(0);
    }
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.page_by_page(address, bytes.len(), Access::Look, |ram, physical, done, part| {
            ram.write(physical, &bytes[done..done + part]);
        })
    }
}
