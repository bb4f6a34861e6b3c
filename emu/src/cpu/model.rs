//! A [`Model`]: one ISA as a table of functions for the machine, as `Isa` is for the engine. The functions are grouped
//! by purpose.

use super::core_file::CoreFile;
use super::debugger::Description;
use super::moment::Moments;
use super::switched::Switched;
use super::{Access, Exception, Left, Shown, Shutdown, TaskPlace, Trap, View, WindowPlace};
use crate::boards::{At, Board};
use crate::boot::Kernel;
use crate::error::MachineError;
use crate::snapshot::registers::Values;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, InstructionContext, SyscallContext, TrapContext};
use crate::unicorn::kinds::CoreKind;
use crate::unicorn::ram::Ram;
use trapline_isa::arch::Arch;
use trapline_isa::mem::Fault;
use trapline_isa::regs::Reg;

/// The table of one ISA.
pub struct Model {
    /// The ISA.
    pub arch: Arch,
    /// The CPU models that guests can choose from.
    pub choices: &'static [Choice],
    /// Returns the name of a kernel's default CPU model.
    pub usual: fn(&Kernel) -> &'static str,
    /// Proves, once per process, that the core's private state is laid out as expected.
    pub self_check: fn() -> Result<(), String>,
    /// Traps from the core, and their delivery to the guest.
    pub exceptions: Exceptions,
    /// Interrupt masks and pins.
    pub interrupts: Interrupts,
    /// Translates a kernel address by the current page tables.
    pub translate: fn(&Handle, &Ram, address: u64, Access) -> Result<u64, Fault>,
    /// Whether an address can be a program's, as the kernel's `access_ok` decides before it reads there.
    pub is_user: fn(address: u64) -> bool,
    /// The mapping of the probe window.
    pub window: Window,
    /// The state of a CPU at a kernel's entry.
    pub entry: Entry,
    /// Access to registers.
    pub registers: Registers,
    /// Access to the running task.
    pub tasks: Tasks,
    /// Instructions that the core does not execute.
    pub instructions: Instructions,
    /// The calling convention of firmware calls.
    pub firmware: Firmware,
    /// The architectural state by register names, for snapshots.
    pub named: Named,
    /// Core dumps.
    pub core_file: CoreFile,
    /// The registers as a debugger knows them.
    pub debugger: &'static Description,
}

/// Traps from the core, and their delivery to the guest.
pub struct Exceptions {
    /// Converts an exception reported by the core into a trap.
    pub arrived: fn(&TrapContext, &mut CoreState, &Ram, vector: u32) -> Trap,
    /// Converts an invalid instruction reported by the core into a trap.
    pub arrived_invalid: fn(&TrapContext) -> Trap,
    /// The vector of system calls, if the core reports them as exceptions.
    pub system_call: Option<u32>,
    /// Whether the guest single-steps its own code, so that a trap follows the next instruction.
    pub stepping: fn(&Handle) -> bool,
    /// The exception for a single-step whose instruction the core did not execute.
    pub step: fn(&TrapContext) -> Exception,
    /// Delivers an exception or interrupt to the guest, as the CPU would.
    pub deliver: fn(&TrapContext, &mut CoreState, &Ram, Exception, resume: u64) -> Result<(), Shutdown>,
    /// Removes a reported exception from the core's state as if it had not happened. `before` is the fault address to
    /// restore.
    pub forget: fn(&TrapContext, &mut CoreState, &Ram, &Exception, before: u64),
    /// The fault address register.
    pub fault_address: fn(&Handle, &Ram) -> u64,
    /// The register whose write moves the fault address elsewhere, on ISAs that keep it in memory.
    pub moves_fault_address: Option<u32>,
    /// The place in the state of the address that a step trap reports to the guest, on ISAs that have one.
    pub stepped_at: Option<usize>,
}

impl Exceptions {
    /// The functions for a CPU that reports its exceptions by their vectors and changes nothing else.
    pub const USUAL: Exceptions = Exceptions {
        arrived: |cpu, _, _, vector| Trap::of(cpu, vector),
        arrived_invalid: |cpu| Trap::of(cpu, 0),
        system_call: None,
        stepping: |_| false,
        step: |_| Exception::of(0),
        deliver: |_, _, _, exception, _| {
            Err(Shutdown { why: format!("exception {} has no delivery on this ISA", exception.vector) })
        },
        forget: |_, _, _, _, _| (),
        fault_address: |_, _| 0,
        moves_fault_address: None,
        stepped_at: None,
    };
}

/// Interrupt masks and pins.
pub struct Interrupts {
    /// Whether the CPU can take an interrupt now.
    pub can_be_taken: fn(&Handle, &mut CoreState) -> bool,
    /// Whether interrupts are masked.
    pub are_off: fn(&Handle) -> bool,
    /// Whether interrupts are masked in a saved state.
    pub were_off: fn(&CoreState) -> bool,
    /// Whether a masked interrupt wakes a sleeping CPU, which then continues without taking it.
    pub wake_though_off: bool,
    /// The CPU's interrupt pins, on ISAs where the guest can read them.
    pub pins: Option<Pins>,
}

impl Interrupts {
    /// The functions for a CPU that takes no interrupts.
    pub const USUAL: Interrupts =
        Interrupts { can_be_taken: |_, _| false, are_off: |_| true, were_off: |_| true, wake_though_off: true, pins: None };
}

/// A CPU's interrupt pins, which the guest sees in a register.
pub struct Pins {
    /// Whether the guest's mask accepts one of these signals.
    pub let_in: fn(&Handle, signals: u64) -> bool,
    /// Writes the signals into that register.
    pub show: fn(&InstructionContext, signals: u64),
}

/// The mapping of the probe window on an ISA.
pub struct Window {
    /// Returns the window's virtual start, within branch reach of the kernel's text, for this physical start.
    pub start: fn(&Kernel, physical: u64) -> u64,
    /// Returns the largest possible size of the window in bytes.
    pub most: fn(&Kernel) -> u64,
    /// Returns the size in bytes of the machine's own page tables for a window of that size.
    pub table_bytes: fn(u64) -> u64,
    /// Fills the machine's own page tables, once.
    pub prepare: fn(&Ram, &WindowPlace),
    /// Removes the kernel's own mappings of the window's addresses and, where possible, maps the window for good.
    /// Called after the kernel has set up its page tables, before code in the window runs.
    pub clear: fn(&TrapContext, &Ram, &WindowPlace),
    /// Maps an address of the window in the current page tables. Returns `None` if they have no room for it.
    pub show: fn(&Handle, &Ram, &WindowPlace, address: u64) -> Option<Shown>,
    /// Removes that mapping.
    pub hide: fn(&Ram, &Shown),
    /// Returns an identity of the current page tables, on cores that keep fetch translations until the page tables
    /// change. A fetch whose translation was dropped anyway faults, and is mapped then. `None` means that the window is
    /// mapped at every hit.
    pub tables_in_force: Option<fn(&Handle) -> u64>,
    /// Returns the window address whose fetch raised this exception because it is not mapped. `None` for other
    /// exceptions.
    pub missed: fn(&Handle, &Exception, &WindowPlace) -> Option<u64>,
    /// The names of registers that hold the window's mapping, so their values are not the guest's own.
    pub registers: &'static [&'static str],
}

impl Window {
    /// A window of no bytes, which needs no mapping.
    pub const USUAL: Window = Window {
        start: |_, _| 0,
        most: |_| 0,
        table_bytes: |_| 0,
        prepare: |_, _| (),
        clear: |_, _, _| (),
        show: |_, _, _, _| None,
        hide: |_, _| (),
        tables_in_force: Some(|_| 0),
        missed: |_, _, _| None,
        registers: &[],
    };
}

/// The state of a CPU at a kernel's entry.
pub struct Entry {
    /// Bytes of page tables that `enter` needs.
    pub table_bytes: u64,
    /// Sets up a CPU after reset for a kernel's entry. `tables` is the physical address for its page tables, `number`
    /// the CPU's number, `info` the address of the boot information.
    pub enter: fn(&TrapContext, &Ram, tables: u64, entry: u64, number: u64, info: u64),
    /// The start of this CPU by another one.
    pub start: Start,
}

/// The start of a waiting CPU by another CPU.
pub struct Start {
    /// Whether the CPU begins in the state of a kernel's entry. Otherwise it begins in the state after reset.
    pub is_entered: bool,
    /// Sets the start address and the value from the order in that state, for the CPU of this number.
    pub set: fn(&mut CoreState, number: usize, entry: u64, argument: u64),
}

impl Start {
    /// The row of ISAs without a board that starts CPUs.
    pub const NEVER: Start = Start { is_entered: true, set: |_, _, _, _| () };
}

impl Entry {
    /// The defaults: no page tables, no set-up, and no start by another CPU.
    pub const USUAL: Entry = Entry { table_bytes: 0, enter: |_, _, _, _, _, _| (), start: Start::NEVER };
}

/// Access to registers.
pub struct Registers {
    /// The pc.
    pub pc: fn(&Handle) -> u64,
    /// The pc in a saved state.
    pub saved_pc: fn(&CoreState) -> u64,
    /// Returns the offsets in the CPU state of registers that hold an exception's return address until the guest saves
    /// them.
    pub returns: fn(&Handle) -> Vec<usize>,
    /// Whether the CPU is in kernel mode.
    pub in_kernel: fn(&Handle) -> bool,
    /// Reads a register by `isa`'s numbering. `pc` is returned for the pc.
    pub get: fn(&Handle, Reg, pc: u64) -> u64,
    /// The value of a stack word that is still in a register (SPARC's register windows).
    pub held: fn(&Handle, address: u64) -> Option<u64>,
    /// Access to many registers at once, on ISAs where single accesses are slow.
    pub many: Option<Many>,
    /// Sets a register if that is possible.
    pub set: fn(&TrapContext, Reg, u64),
    /// Registers for a report about a dead guest.
    pub dump: fn(&Handle) -> Vec<(&'static str, u64)>,
}

impl Registers {
    /// The functions for a CPU of which only the pc is known.
    pub const USUAL: Registers = Registers {
        pc: Handle::pc,
        saved_pc: |_| 0,
        returns: |_| Vec::new(),
        in_kernel: |_| true,
        get: |_, _, pc| pc,
        held: |_, _| None,
        many: None,
        set: |_, _, _| (),
        dump: |_| Vec::new(),
    };
}

/// Register names and numbers.
pub type Names<'a> = &'a [(&'a str, Reg)];

/// Access to many registers at once.
pub struct Many {
    /// Like `trapline_isa::regs::Registers::get_all`. `pc` is returned for the pc.
    pub get: fn(&Handle, Names<'_>, pc: u64, values: &mut [u64]),
    /// Like `trapline_isa::regs::Registers::put_back`.
    pub put_back: fn(&TrapContext, Names<'_>, pc: u64, values: &[u64]),
}

/// Access to the running task.
pub struct Tasks {
    /// The sources of ftrace's flags.
    pub moments: Moments,
    /// Returns the address of the running task's structure.
    pub current: fn(&mut View) -> u64,
    /// Returns that address while a program runs. `None`: only the kernel's own registers hold it, so the task is noted
    /// when the kernel switches to it.
    pub in_program: Option<fn(&mut View) -> u64>,
    /// Returns the bytes of a word of the running program, if they are fewer than the kernel's and the convention for
    /// calls depends on them.
    pub narrow_word: fn(&Handle) -> Option<usize>,
    /// Returns the number of bits of an offset in the kernel's pages.
    pub page_bits: fn(&Handle) -> u32,
    /// Whether a register holds that address in every kernel, so that no variable with it has to be found.
    pub is_in_register: bool,
    /// The registers of a task that no CPU runs. `None`: the place where its kernel keeps them is not known.
    pub switched: Option<&'static Switched>,
    /// Finds the task's fields by the kernel's code, if neither symbols nor types give them.
    pub by_code: fn(&Kernel) -> TaskPlace,
}

impl Tasks {
    /// The functions for kernels whose tasks cannot be found.
    pub const USUAL: Tasks = Tasks {
        moments: Moments::NONE,
        current: |_| 0,
        in_program: None,
        narrow_word: |_| None,
        page_bits: |_| 12,
        is_in_register: false,
        switched: None,
        by_code: |_| TaskPlace::default(),
    };
}

/// A CPU model for guests.
pub struct Choice {
    /// The name on the command line. ARM's device trees have it behind `arm,`.
    pub name: &'static str,
    /// The kind of core that behaves like this model.
    pub core: &'static CoreKind,
    /// Answers CPU identification, on cores that leave it to the machine.
    pub identify: fn(&InstructionContext, Place),
}

/// The place of a CPU on its board, as CPU identification reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The CPU's number.
    pub number: usize,
    /// The number of CPUs.
    pub cpus: usize,
    /// Whether the board has an interrupt controller per CPU.
    pub own_controller: bool,
}

impl Choice {
    /// A CPU model whose core identifies itself.
    pub const fn of(name: &'static str, core: &'static CoreKind) -> Choice {
        Choice { name, core, identify: |_, _| () }
    }
}

impl Model {
    /// A CPU that does nothing. A table names the ISA and what its CPU does, so that a new function leaves the tables of
    /// other ISAs alone.
    pub const USUAL: Model = Model {
        arch: Arch::ALL[0],
        choices: &[],
        usual: |_| "",
        self_check: || Err("this ISA has no self-check".into()),
        exceptions: Exceptions::USUAL,
        interrupts: Interrupts::USUAL,
        translate: |_, _, address, access| Err(Fault { address, write: access == Access::Write }),
        is_user: |_| true,
        window: Window::USUAL,
        entry: Entry::USUAL,
        registers: Registers::USUAL,
        tasks: Tasks::USUAL,
        instructions: Instructions::NONE,
        firmware: Firmware::NONE,
        named: Named::NONE,
        core_file: CoreFile::USUAL,
        debugger: &Description::NONE,
    };

    /// The CPU model with that name, or the kernel's default.
    pub fn choice(&self, name: Option<&str>, kernel: &Kernel) -> Result<&'static Choice, MachineError> {
        self.named_choice(name.unwrap_or_else(|| (self.usual)(kernel)))
    }

    /// The CPU model with that name.
    pub fn named_choice(&self, name: &str) -> Result<&'static Choice, MachineError> {
        let found = self.choices.iter().find(|choice| choice.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.choices.iter().map(|choice| choice.name).collect();
            let (isa, names) = (self.arch.name(), names.join(", "));
            MachineError::Config(format!("`{name}` is not a CPU for {isa} kernels; these exist: {names}"))
        })
    }
}

/// The architectural state by register names. It must be complete: a state with a value that has no name cannot be
/// saved.
pub struct Named {
    /// Saves the CPU that is on the core. The first image is a buffer, the second the core's state after reset.
    pub save: fn(&TrapContext, &mut CoreState, reset: &CoreState) -> Result<Values, String>,
    /// Checks whether [`Named::load`] would accept the values.
    pub check: fn(&Values) -> Result<(), String>,
    /// Loads the values into the core.
    pub load: fn(&TrapContext, &mut CoreState, reset: &CoreState, &Values) -> Result<(), String>,
    /// Saves state that all CPUs of a core share.
    pub save_shared: fn(&Handle) -> Values,
    /// Checks whether [`Named::load_shared`] would accept the values.
    pub check_shared: fn(&Values) -> Result<(), String>,
    /// Loads shared state into the core.
    pub load_shared: fn(&TrapContext, &Values) -> Result<(), String>,
}

impl Named {
    /// The fields for a core without shared state; the others must be filled in.
    pub const NOTHING_SHARED: Named = Named {
        save_shared: |_| Values::default(),
        check_shared: |values| values.read([].into_iter()).map(|_| ()),
        load_shared: |_, values| values.read([].into_iter()).map(|_| ()),
        ..Named::NONE
    };

    /// The table of an ISA without named registers: snapshots can neither be taken nor restored.
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

/// Instructions that the core does not execute. Cores that execute all have functions here that do nothing.
pub struct Instructions {
    /// Reads the clock, given the time in nanoseconds.
    pub read_clock: fn(&InstructionContext, u64),
    /// Executes a system call instruction.
    pub system_call: fn(&SyscallContext, &mut CoreState),
    /// Executes the instruction at the pc with the board's help. The last argument is its physical address if it is in
    /// the probe window.
    pub left: fn(&TrapContext, &Ram, &mut dyn Board, At, Option<u64>) -> Left,
    /// The value of one of the CPU's own registers, where the core's value is wrong. The number is in the board's
    /// numbering.
    pub register: fn(&Handle, u32) -> Option<u64>,
}

impl Instructions {
    /// The functions for cores that execute all instructions themselves.
    pub const NONE: Instructions = Instructions {
        read_clock: |_, _| (),
        system_call: |_, _| (),
        left: |_, _, _, _, _| Left::Dead("the CPU core left an instruction to the machine, which expects none from it".into()),
        register: |_, _| None,
    };
}

/// The registers of a firmware call, in order.
pub struct Firmware {
    /// The function number and its arguments.
    pub arguments: &'static [Reg],
    /// The registers that receive the firmware's answer.
    pub results: &'static [Reg],
}

impl Firmware {
    /// No firmware.
    pub const NONE: Firmware = Firmware { arguments: &[], results: &[] };
}
