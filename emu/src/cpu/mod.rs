//! A virtual CPU for the machine, independent of its ISA: the traps that arrive from the core, and the exceptions that
//! go to the guest. A [`Model`] describes an ISA; handlers get a CPU as a [`View`].

pub mod arm;
pub mod arm64;
mod check;
pub mod core_file;
pub mod debugger;
pub mod ia64;
pub mod mappings;
pub mod members;
pub mod mips;
pub mod model;
pub mod moment;
pub mod named;
pub mod parisc;
pub mod ppc;
pub mod program_names;
pub mod riscv;
pub mod s390;
pub mod sparc64;
pub mod switched;
pub mod tasks;
pub mod user_places;
pub mod view;
pub mod window;
pub mod x86;

use crate::boards::Interrupt;
use crate::unicorn::engine::TrapContext;

pub use core_file::{CoreFile, Layout, Word};
pub use model::{
    Choice, Entry, Exceptions, Firmware, Instructions, Interrupts, Many, Model, Named, Pins, Place, Registers, Start, Tasks,
    Window,
};
pub use tasks::TaskPlace;
pub use view::View;
pub use window::{Shown, WindowPlace};

/// A trap that the CPU core reported, corrected for the core's quirks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// The kind of trap.
    pub kind: TrapKind,
    /// The exception that the guest gets if nobody claims the trap.
    pub exception: Exception,
    /// The address of the trapping instruction.
    pub pc: u64,
    /// The address where execution continues: behind a software interrupt, or at an instruction that faulted.
    pub resume: u64,
}

impl Trap {
    /// An exception for the guest at the pc, with nothing corrected.
    fn of(cpu: &TrapContext, vector: u32) -> Trap {
        let pc = cpu.handle().pc();
        Trap { kind: TrapKind::Exception, exception: Exception::of(vector), pc, resume: pc }
    }
}

/// The kind of a trap that the core has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapKind {
    /// The ISA's breakpoint, in kernel mode.
    Breakpoint,
    /// A firmware call, which the board handles.
    FirmwareCall,
    /// A hint instruction, which has been executed.
    Hint,
    /// An instruction that the core does not execute, so the machine must.
    LeftToUs,
    /// The guest's own single-step trap.
    Step,
    /// Any other exception.
    Exception,
}

/// An exception or interrupt that goes to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The vector number.
    pub vector: u32,
    /// The error code that the CPU pushes.
    pub error: Option<u32>,
    /// Whether a software interrupt instruction raised it, whose gate checks the privilege.
    pub software: bool,
    /// Whether the fetch of the next instruction failed. The block before it is then complete.
    pub fetch: bool,
    /// Whether it is an interrupt from a device.
    pub external: bool,
    /// More data for the delivery. Its meaning is private to the ISA's `trap.rs` and `deliver.rs`.
    pub detail: u64,
    /// Whether the instruction is in a delay slot. `detail` is then the target of the branch.
    pub delayed: bool,
}

impl Exception {
    /// An interrupt from a device.
    pub fn external(interrupt: Interrupt) -> Exception {
        Exception { external: true, detail: interrupt.detail, ..Exception::of(interrupt.number) }
    }

    /// An exception that an instruction raised.
    pub const fn of(vector: u32) -> Exception {
        Exception { vector, error: None, software: false, fetch: false, external: false, detail: 0, delayed: false }
    }
}

/// The outcome of an instruction that the machine executed for the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// It was executed, and the next instruction follows.
    Done {
        /// The instruction's length in bytes.
        length: u64,
        /// Whether it read a clock.
        reads_clock: bool,
    },
    /// It was executed and has set the pc.
    Went {
        /// The instruction's length in bytes.
        length: u64,
        /// Whether the CPU now waits for an interrupt.
        waits: bool,
    },
    /// It raised this exception and had no other effect.
    Raises(Exception),
    /// The guest cannot continue, for this reason.
    Dead(String),
}

/// The reason why a guest can take no more exceptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// The exception that could not be delivered, and why.
    pub why: String,
}

/// The purpose of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read with the kernel's rights, of kernel or user memory.
    Read,
    /// A write with the kernel's rights.
    Write,
    /// A read of the running program's memory, on ISAs where that is another address space than the kernel's.
    User,
    /// A translation only, for the machine's own use.
    Look,
}
