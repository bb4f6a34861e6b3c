//! A virtual CPU as the machine knows it, whatever its ISA: how things arrive, what can be delivered, and the view that
//! handlers get of it.

pub mod arm;
pub mod arm64;
pub mod tasks;
pub mod x86;

use crate::boards::Interrupt;
use crate::boot::Kernel;
use crate::clock::nanoseconds;
use crate::clock::running::Clock;
use crate::snapshot::registers::Values;
use crate::unicorn::engine::{Handle, InstructionContext, SyscallContext, TrapContext};
use crate::unicorn::kinds::Kind;
use crate::unicorn::line::Line;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::{Image, drop_translations};
use trapline_isa::arch::{Arch, Isa};
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::{Reg, Registers};
use trapline_probes::guest::Cpu;

/// What the CPU core has reported, its quirks taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// What it is.
    pub kind: TrapKind,
    /// What the guest is to be given when nobody claims it.
    pub exception: Exception,
    /// The instruction that it belongs to: the breakpoint itself, the one that faulted.
    pub pc: u64,
    /// Where execution would go on: behind a software interrupt, at an instruction that faulted.
    pub resume: u64,
}

/// Kinds of trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapKind {
    /// The ISA's breakpoint, in code of the kernel's privilege.
    Breakpoint,
    /// A call of the firmware, which the board answers.
    FirmwareCall,
    /// An instruction that only hints at something, and has run.
    Hint,
    /// The guest steps its own code, and an instruction has run.
    Step,
    /// Everything else.
    Exception,
}

/// An exception, or an interrupt, on its way to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Its number.
    pub vector: u32,
    /// The error code that the CPU pushes with it.
    pub error: Option<u32>,
    /// Raised by an instruction made for it: gates check its privilege.
    pub software: bool,
    /// The next instruction could not be fetched: the block before it is complete.
    pub fetch: bool,
    /// An interrupt of a device.
    pub external: bool,
    /// What else the CPU is told with it, as the ISA's `trap.rs` and `deliver.rs` agree.
    pub detail: u64,
}

impl Exception {
    /// An interrupt of a device.
    pub fn external(interrupt: Interrupt) -> Exception {
        Exception { external: true, detail: interrupt.detail, ..Exception::of(interrupt.number) }
    }

    /// One that an instruction has raised by what it did.
    pub const fn of(vector: u32) -> Exception {
        Exception { vector, error: None, software: false, fetch: false, external: false, detail: 0 }
    }
}

/// A guest that can take no exception any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// What could not be delivered, and why.
    pub why: String,
}

/// One ISA as the machine uses it: a table of functions, as `Isa` is for the engine.
pub struct Model {
    /// Which ISA.
    pub arch: Arch,
    /// The kind of core that runs it.
    pub core: &'static Kind,
    /// Proves, once, that such a core can be operated on as it is done here.
    pub self_check: fn() -> Result<(), String>,
    /// What arrived, in an exception's callback.
    pub trap: fn(&TrapContext, &mut Image, vector: u32) -> Trap,
    /// The vector with which system calls arrive there, if they do.
    pub system_call_vector: Option<u32>,
    /// What arrived, in the callback of an invalid instruction.
    pub invalid: fn(&TrapContext) -> Trap,
    /// Gives an exception or interrupt to the guest, as the CPU would.
    pub deliver: fn(&TrapContext, &mut Image, &Ram, Exception, resume: u64) -> Result<(), Shutdown>,
    /// The core is to forget the exception that it has reported: it never happened, and the fault address is what it was before.
    pub forget: fn(&TrapContext, &mut Image, &Exception, before: u64),
    /// Whether an interrupt can be taken now.
    pub interruptible: fn(&Handle, &mut Image) -> bool,
    /// The guest steps its own code: a trap comes behind the next instruction.
    pub stepping: fn(&Handle) -> bool,
    /// What is then to be given to it, where that instruction was not executed by the core.
    pub step: fn(&TrapContext) -> Exception,
    /// Where a kernel address lies under the page tables in force.
    pub translate: fn(&Handle, &Ram, address: u64, Access) -> Result<u64, Fault>,
    /// Where the probe window lies, and what it needs.
    pub window: WindowRow,
    /// Makes an address of the probe window visible under the page tables in force; `None` when they have no room for it.
    pub show_window: fn(&Handle, &Ram, &WindowPlace, address: u64) -> Option<Shown>,
    /// Which page tables are in force, where the core keeps the translations of fetches until these change; a fetch that it has forgotten all
    /// the same faults, and is shown then. `None`: the window is shown for every hit.
    pub tables_in_force: Option<fn(&Handle) -> u64>,
    /// Takes it out again.
    pub hide_window: fn(&Ram, &Shown),
    /// Whether this exception is a fetch from the window that those page tables do not show; then it is shown, and the exception never
    /// happened.
    pub window_fault: fn(&TrapContext, &mut Image, &Ram, &Exception, &WindowPlace, before: u64) -> Option<Shown>,
    /// The address register of the last memory fault.
    pub fault_address: fn(&Handle) -> u64,
    /// Whether code of the kernel's privilege runs.
    pub in_kernel: fn(&Handle) -> bool,
    /// A sleeping CPU wakes for an interrupt that it has switched off, too, and goes on without taking it.
    pub wakes_masked: bool,
    /// Whether interrupts are switched off.
    pub interrupts_off: fn(&Handle) -> bool,
    /// The pc.
    pub pc: fn(&Handle) -> u64,
    /// The pc in a saved state.
    pub saved_pc: fn(&Image) -> u64,
    /// Whether interrupts are off in a saved state.
    pub saved_interrupts_off: fn(&Image) -> bool,
    /// Bytes of tables that `enter` needs.
    pub entry_tables: u64,
    /// Puts a CPU from its reset state to a kernel's entry: tables of its own at a physical address, entry, number of the CPU, boot information.
    pub enter: fn(&TrapContext, &mut Image, &Ram, tables: u64, entry: u64, number: u64, info: u64),
    /// A register by the numbers of `isa`; the pc is the one given.
    pub get: fn(&Handle, Reg, pc: u64) -> u64,
    /// Sets one, where that is possible.
    pub set: fn(&TrapContext, Reg, u64),
    /// The running task.
    pub current_task: fn(&mut View) -> u64,
    /// Instructions that the core leaves to us.
    pub instructions: Instructions,
    /// How firmware is called.
    pub firmware: Firmware,
    /// Where the running task is found, where neither symbols nor types say it.
    pub tasks_by_code: fn(&Kernel) -> TaskPlace,
    /// Register values for a report about a guest that has died.
    pub dump: fn(&Handle) -> Vec<(&'static str, u64)>,
    /// The architectural state by names, for snapshots.
    pub named: Named,
}

/// The architectural state by names. Everything that a CPU holds is in it, or it is not given.
pub struct Named {
    /// What the CPU on the core holds; the images are room for a state, and the core's state after a reset.
    pub save: fn(&TrapContext, &mut Image, reset: &Image) -> Result<Values, String>,
    /// Whether [`Named::load`] would take them.
    pub check: fn(&Values) -> Result<(), String>,
    /// Puts them on the core.
    pub load: fn(&TrapContext, &mut Image, reset: &Image, &Values) -> Result<(), String>,
    /// What the core holds once for all its CPUs.
    pub save_shared: fn(&Handle) -> Values,
    /// Whether [`Named::load_shared`] would take them.
    pub check_shared: fn(&Values) -> Result<(), String>,
    /// Puts them on the core.
    pub load_shared: fn(&TrapContext, &Values) -> Result<(), String>,
}

impl Named {
    /// For an ISA without such a table: no snapshot is taken or restored.
    pub const NONE: Named = Named {
        save: |_, _, _| Err(NO_NAMES.into()),
        check: |_| Err(NO_NAMES.into()),
        load: |_, _, _, _| Err(NO_NAMES.into()),
        save_shared: |_| Values::default(),
        check_shared: |_| Err(NO_NAMES.into()),
        load_shared: |_, _| Err(NO_NAMES.into()),
    };
}

const NO_NAMES: &str = "CPUs of this ISA cannot be saved yet";

/// Instructions that the core leaves to us; a core that never asks has functions here that do nothing.
pub struct Instructions {
    /// Which CPU this is.
    pub identify: fn(&InstructionContext),
    /// The clock is read: nanoseconds.
    pub read_clock: fn(&InstructionContext, u64),
    /// A system call that the core does nothing of.
    pub system_call: fn(&SyscallContext, &mut Image),
}

impl Instructions {
    /// For cores that never ask.
    pub const NONE: Instructions = Instructions { identify: |_| (), read_clock: |_, _| (), system_call: |_, _| () };
}

/// The registers of a call of the firmware, each in order.
pub struct Firmware {
    /// Of the function's number and what it is given.
    pub arguments: &'static [Reg],
    /// Of what it gives back.
    pub results: &'static [Reg],
}

impl Firmware {
    /// There is none that could be called.
    pub const NONE: Firmware = Firmware { arguments: &[], results: &[] };
}

/// The probe window's place under an ISA.
pub struct WindowRow {
    /// Guest-virtual start: within branch reach of the kernel's text.
    pub start: u64,
    /// The most that it may hold there.
    pub most: u64,
    /// Bytes of page tables of our own for a window of that size.
    pub table_bytes: fn(u64) -> u64,
    /// Fills these, once.
    pub prepare: fn(&Ram, &WindowPlace),
}

/// What an access wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read with the kernel's rights, of kernel or user memory.
    Read,
    /// A write with the kernel's rights.
    Write,
    /// Only where it lies; used by the machine for itself.
    Look,
}

/// Where the probe window lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowPlace {
    /// Guest-virtual start.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Physical start, in RAM that the guest was not told of.
    pub physical: u64,
    /// Physical memory for page tables of our own, in such RAM too.
    pub tables: u64,
}

impl WindowPlace {
    /// Whether a guest-virtual address lies in it.
    #[inline]
    pub fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.len
    }
}

/// A page-table entry of ours in a table of the guest's, and what stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The entry's physical address.
    pub at: u64,
    /// What it was.
    pub before: u64,
    /// Its size.
    pub bytes: usize,
}

/// Where the running task is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskPlace {
    /// Offset of the pointer to it in the per-CPU area.
    pub current: Option<u64>,
    /// Offsets in the task structure.
    pub pid: Option<u64>,
    /// Its name, 16 bytes.
    pub comm: Option<u64>,
}

/// The CPU that runs, as the engine and its handlers see it while it stands still.
pub struct View {
    /// The pc as it is shown to them, and where they leave it.
    pub(crate) pc: u64,
    trap: TrapContext,
    pub(crate) model: &'static Model,
    pub(crate) isa: &'static Isa,
    /// The bits that an address or a register has.
    pub(crate) mask: u64,
    pub(crate) ram: Ram,
    pub(crate) tasks: TaskPlace,
    /// The number of the CPU.
    pub(crate) current: usize,
    /// Its clock.
    pub(crate) clock: Clock,
}

impl View {
    /// Of a core on which nothing has run.
    pub(crate) fn new(trap: TrapContext, line: Line, model: &'static Model, ram: Ram, tasks: TaskPlace) -> View {
        let isa = model.arch.isa();
        let mask = u64::MAX >> (64 - 8 * isa.word);
        View { pc: 0, trap, model, isa, mask, ram, tasks, current: 0, clock: Clock::new(line) }
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
        // Two passes over more than one page, so that a fault leaves nothing half done.
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

    /// Where an address of the kernel lies in memory.
    pub(crate) fn physical(&mut self, address: u64) -> Option<u64> {
        (self.model.translate)(&self.trap.handle(), &self.ram, address, Access::Look).ok()
    }

    /// Whether the ISA's breakpoint stands there.
    pub(crate) fn holds_breakpoint(&mut self, pc: u64) -> bool {
        let breakpoint = self.isa.breakpoint;
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..breakpoint.len().min(8)];
        self.read(pc, bytes).is_ok() && bytes == breakpoint
    }
}

/// Words in pages that the core has just accessed, as it has its stack and the data of its CPU. `None`: it takes the long way.
impl View {
    #[inline(always)]
    fn word(&self, address: u64, size: usize) -> Option<u64> {
        let (handle, ram, order) = (self.trap.handle(), &self.ram, self.isa.order);
        match size {
            8 => ram.get64(handle.cached_physical(ram, address, 8, false)?).map(|word| in_order64(order, word)),
            4 => ram.get32(handle.cached_physical(ram, address, 4, false)?).map(|word| in_order32(order, word).into()),
            _ => None,
        }
    }

    #[inline(always)]
    fn exchange_word(&self, address: u64, value: u64, size: usize) -> Option<u64> {
        let (handle, ram, order) = (self.trap.handle(), &self.ram, self.isa.order);
        match size {
            8 => {
                let physical = handle.cached_physical(ram, address, 8, true)?;
                let before = ram.get64(physical)?;
                ram.set_word64(physical, in_order64(order, value));
                Some(in_order64(order, before))
            }
            4 => {
                let physical = handle.cached_physical(ram, address, 4, true)?;
                let before = ram.get32(physical)?;
                ram.set_word32(physical, in_order32(order, value as u32));
                Some(in_order32(order, before).into())
            }
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

/// A little-endian word of RAM as the guest means it, or the other way round.
#[inline(always)]
fn in_order64(order: ByteOrder, word: u64) -> u64 {
    if order == ByteOrder::Big { word.swap_bytes() } else { word }
}

/// The same of 4 bytes.
#[inline(always)]
fn in_order32(order: ByteOrder, word: u32) -> u32 {
    if order == ByteOrder::Big { word.swap_bytes() } else { word }
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
        (self.model.get)(&self.trap.handle(), reg, self.pc) & self.mask
    }
    fn set(&mut self, reg: Reg, value: u64) {
        (self.model.set)(&self.trap, reg, value & self.mask);
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
        (self.model.current_task)(self)
    }
    fn pid(&mut self) -> u32 {
        let task = self.task();
        let place = self.tasks.pid;
        place.and_then(|at| self.read_number(task.wrapping_add(at), 4).ok()).unwrap_or(0) as u32
    }
    fn comm(&mut self) -> [u8; 16] {
        let mut name = [0; 16];
        let task = self.task();
        if let Some(at) = self.tasks.comm {
            // A task that cannot be read has no name: the zeros stay.
            let _ = self.read(task.wrapping_add(at), &mut name);
        }
        name
    }
    fn now(&self) -> u64 {
        nanoseconds(self.clock.time())
    }
    fn interrupts_off(&self) -> bool {
        (self.model.interrupts_off)(&self.trap.handle())
    }
    #[inline]
    fn is_stepped(&self) -> bool {
        (self.model.stepping)(&self.trap.handle())
    }
    fn patch_text(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let handle = self.trap.handle();
        self.page_by_page(address, bytes.len(), Access::Look, |ram, physical, done, part| {
            ram.write(physical, &bytes[done..done + part]);
            drop_translations(handle, ram, physical, part);
        })
    }
}
