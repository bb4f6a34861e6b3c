//! One ISA as the machine uses it: a table of functions, as `Isa` is for the engine, in the groups in which they are
//! asked for.

use super::moment::Moments;
use super::{Access, Exception, Left, Shown, Shutdown, TaskPlace, Trap, View, WindowPlace};
use crate::boards::{At, Board};
use crate::boot::Kernel;
use crate::error::MachineError;
use crate::snapshot::registers::Values;
use crate::unicorn::engine::{Handle, InstructionContext, SyscallContext, TrapContext};
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;
use trapline_isa::arch::Arch;
use trapline_isa::mem::Fault;
use trapline_isa::regs::Reg;

/// One ISA.
pub struct Model {
    /// Which ISA.
    pub arch: Arch,
    /// The CPUs that its guests can find here.
    pub choices: &'static [Choice],
    /// The name of the one that a kernel finds unless somebody chooses.
    pub usual: fn(&Kernel) -> &'static str,
    /// Proves, once, that such a core can be operated on as it is done here.
    pub self_check: fn() -> Result<(), String>,
    /// What arrives, and how it is given to the guest.
    pub exceptions: Exceptions,
    /// When a CPU takes interrupts.
    pub interrupts: Interrupts,
    /// Where a kernel address lies under the page tables in force.
    pub translate: fn(&Handle, &Ram, address: u64, Access) -> Result<u64, Fault>,
    /// The probe window.
    pub window: Window,
    /// From reset to a kernel's entry.
    pub entry: Entry,
    /// What the CPU holds.
    pub registers: Registers,
    /// The running task.
    pub tasks: Tasks,
    /// Instructions that the core leaves to us.
    pub instructions: Instructions,
    /// How firmware is called.
    pub firmware: Firmware,
    /// The architectural state by names, for snapshots.
    pub named: Named,
}

/// What arrives, and how it is given to the guest.
pub struct Exceptions {
    /// What arrived, in an exception's callback.
    pub arrived: fn(&TrapContext, &mut CoreState, &Ram, vector: u32) -> Trap,
    /// What arrived, in the callback of an invalid instruction.
    pub arrived_invalid: fn(&TrapContext) -> Trap,
    /// The vector with which system calls arrive, if they do.
    pub system_call: Option<u32>,
    /// The guest steps its own code: a trap comes behind the next instruction.
    pub stepping: fn(&Handle) -> bool,
    /// What is then to be given to it, where that instruction was not executed by the core.
    pub step: fn(&TrapContext) -> Exception,
    /// Gives an exception or interrupt to the guest, as the CPU would.
    pub deliver: fn(&TrapContext, &mut CoreState, &Ram, Exception, resume: u64) -> Result<(), Shutdown>,
    /// The core is to forget the exception that it has reported: it never happened, and the fault address is what it
    /// was before.
    pub forget: fn(&TrapContext, &mut CoreState, &Ram, &Exception, before: u64),
    /// The address register of the last memory fault.
    pub fault_address: fn(&Handle, &Ram) -> u64,
}

/// When a CPU takes interrupts.
pub struct Interrupts {
    /// Whether one can be taken now.
    pub can_be_taken: fn(&Handle, &mut CoreState) -> bool,
    /// Whether they are switched off.
    pub are_off: fn(&Handle) -> bool,
    /// Whether they are in a saved state.
    pub were_off: fn(&CoreState) -> bool,
    /// A sleeping CPU wakes for one that it has switched off, too, and goes on without taking it.
    pub wake_though_off: bool,
    /// The pins by which they come, where the guest sees these.
    pub pins: Option<Pins>,
}

/// A CPU's pins for interrupts, whose signals the guest sees in a register.
pub struct Pins {
    /// Whether one with a signal is let in, as far as the guest chooses among them.
    pub let_in: fn(&Handle, signals: u64) -> bool,
    /// Puts them into that register.
    pub show: fn(&InstructionContext, signals: u64),
}

/// The probe window under an ISA.
pub struct Window {
    /// Guest-virtual start of one that lies there in physical memory: within branch reach of the kernel's text.
    pub start: fn(&Kernel, physical: u64) -> u64,
    /// The most that it may hold there.
    pub most: fn(&Kernel) -> u64,
    /// Bytes of page tables of our own for a window of that size.
    pub table_bytes: fn(u64) -> u64,
    /// Fills these, once.
    pub prepare: fn(&Ram, &WindowPlace),
    /// Takes out what a kernel maps there itself, and lets the CPU see the window for good where it can, once the kernel
    /// has its page tables and before anything of the window runs.
    pub clear: fn(&TrapContext, &Ram, &WindowPlace),
    /// Makes an address of it visible under the page tables in force; `None` when they have no room for it.
    pub show: fn(&Handle, &Ram, &WindowPlace, address: u64) -> Option<Shown>,
    /// Takes it out again.
    pub hide: fn(&Ram, &Shown),
    /// Which page tables are in force, where the core keeps the translations of fetches until these change; a fetch
    /// that it has forgotten all the same faults, and is shown then. `None`: the window is shown for every hit.
    pub tables_in_force: Option<fn(&Handle) -> u64>,
    /// The address in it whose fetch has raised this exception because those page tables do not show it; `None`: it was
    /// something else.
    pub missed: fn(&Handle, &Exception, &WindowPlace) -> Option<u64>,
}

/// From reset to a kernel's entry.
pub struct Entry {
    /// Bytes of tables that `enter` needs.
    pub table_bytes: u64,
    /// Puts a CPU from its reset state to a kernel's entry: tables of its own at a physical address, entry, number of
    /// the CPU, boot information.
    pub enter: fn(&TrapContext, &mut CoreState, &Ram, tables: u64, entry: u64, number: u64, info: u64),
}

/// What the CPU holds.
pub struct Registers {
    /// The pc.
    pub pc: fn(&Handle) -> u64,
    /// The pc in a saved state.
    pub saved_pc: fn(&CoreState) -> u64,
    /// Where in a state lie the registers by which exceptions return, which no memory of the guest's holds yet when one
    /// has come.
    pub returns: fn(&Handle) -> Vec<usize>,
    /// Whether code of the kernel's privilege runs.
    pub in_kernel: fn(&Handle) -> bool,
    /// A register by the numbers of `isa`; the pc is the one given.
    pub get: fn(&Handle, Reg, pc: u64) -> u64,
    /// The word that belongs to this address of a stack and is still in a register.
    pub held: fn(&Handle, address: u64) -> Option<u64>,
    /// The same for many at once, where one by one takes too long.
    pub many: Option<Many>,
    /// Sets one, where that is possible.
    pub set: fn(&TrapContext, Reg, u64),
    /// Values for a report about a guest that has died.
    pub dump: fn(&Handle) -> Vec<(&'static str, u64)>,
}

/// Registers with their names.
pub type Names<'a> = &'a [(&'a str, Reg)];

/// Many registers at once.
pub struct Many {
    /// As `trapline_isa::regs::Registers::get_all`; the pc is the one given.
    pub get: fn(&Handle, Names<'_>, pc: u64, values: &mut [u64]),
    /// As `trapline_isa::regs::Registers::put_back`.
    pub put_back: fn(&TrapContext, Names<'_>, pc: u64, values: &[u64]),
}

/// The running task.
pub struct Tasks {
    /// What kernels know of the moment.
    pub moments: Moments,
    /// Its address.
    pub current: fn(&mut View) -> u64,
    /// Where it is found, where neither symbols nor types say it.
    pub by_code: fn(&Kernel) -> TaskPlace,
}

/// A CPU that guests can find.
pub struct Choice {
    /// What it is called on the command line. Behind `arm,` it is what device trees say.
    pub name: &'static str,
    /// The kind of core that is it.
    pub core: &'static CoreKind,
    /// What it answers when it is asked which CPU it is, where the core leaves that to us; it may have an interrupt
    /// controller of its own.
    pub identify: fn(&InstructionContext, own_controller: bool),
}

impl Choice {
    /// A core that says itself what it is.
    pub const fn of(name: &'static str, core: &'static CoreKind) -> Choice {
        Choice { name, core, identify: |_, _| () }
    }
}

impl Model {
    /// The CPU of that name, or the usual one of this kernel.
    pub fn choice(&self, name: Option<&str>, kernel: &Kernel) -> Result<&'static Choice, MachineError> {
        self.named_choice(name.unwrap_or_else(|| (self.usual)(kernel)))
    }

    /// The CPU of that name.
    pub fn named_choice(&self, name: &str) -> Result<&'static Choice, MachineError> {
        let found = self.choices.iter().find(|choice| choice.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.choices.iter().map(|choice| choice.name).collect();
            let (isa, names) = (self.arch.name(), names.join(", "));
            MachineError::Config(format!("`{name}` is no CPU for {isa} kernels; there is: {names}"))
        })
    }
}

/// The architectural state by names. Everything that a CPU holds is in it, or it is not given.
pub struct Named {
    /// What the CPU on the core holds; the images are room for a state, and the core's state after a reset.
    pub save: fn(&TrapContext, &mut CoreState, reset: &CoreState) -> Result<Values, String>,
    /// Whether [`Named::load`] would take them.
    pub check: fn(&Values) -> Result<(), String>,
    /// Puts them on the core.
    pub load: fn(&TrapContext, &mut CoreState, reset: &CoreState, &Values) -> Result<(), String>,
    /// What the core holds once for all its CPUs.
    pub save_shared: fn(&Handle) -> Values,
    /// Whether [`Named::load_shared`] would take them.
    pub check_shared: fn(&Values) -> Result<(), String>,
    /// Puts them on the core.
    pub load_shared: fn(&TrapContext, &Values) -> Result<(), String>,
}

impl Named {
    /// What is left to fill in where the core holds nothing once for all its CPUs.
    pub const NOTHING_SHARED: Named = Named {
        save_shared: |_| Values::default(),
        check_shared: |values| values.read([].into_iter()).map(|_| ()),
        load_shared: |_, values| values.read([].into_iter()).map(|_| ()),
        ..Named::NONE
    };

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
    /// The clock is read: nanoseconds.
    pub read_clock: fn(&InstructionContext, u64),
    /// A system call that the core does nothing of.
    pub system_call: fn(&SyscallContext, &mut CoreState),
    /// The instruction at the pc, of which the core does nothing, is to be done with the help of the board; where it lies
    /// in memory, if that is the probe window.
    pub left: fn(&TrapContext, &Ram, &mut dyn Board, At, Option<u64>) -> Left,
    /// What one of the CPU's own registers says, by the number that the board's have, where the core's own value is not
    /// it.
    pub register: fn(&Handle, u32) -> Option<u64>,
}

impl Instructions {
    /// For cores that never ask.
    pub const NONE: Instructions = Instructions {
        read_clock: |_, _| (),
        system_call: |_, _| (),
        left: |_, _, _, _, _| Left::Dead("the CPU core has left an instruction to nobody".into()),
        register: |_, _| None,
    };
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
