//! A virtual CPU as the machine knows it, whatever its ISA: what arrives from the core, and what is on its way to the
//! guest. An ISA is a [`Model`]; handlers see a CPU as a [`View`].

pub mod arm;
pub mod arm64;
mod check;
pub mod mips;
pub mod model;
pub mod moment;
pub mod named;
pub mod ppc;
pub mod s390;
pub mod sparc64;
pub mod tasks;
pub mod view;
pub mod window;
pub mod x86;

use crate::boards::Interrupt;

pub use model::{
    Choice, Entry, Exceptions, Firmware, Instructions, Interrupts, Many, Model, Named, Pins, Registers, Tasks, Window,
};
pub use tasks::TaskPlace;
pub use view::View;
pub use window::{Shown, WindowPlace};

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
    /// An instruction that the core has not done, and we are to do.
    LeftToUs,
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
    /// The instruction stands in the delay slot of the branch at the pc, or is itself at the pc and in one; then the
    /// detail says where that branch leads.
    pub delayed: bool,
}

impl Exception {
    /// An interrupt of a device.
    pub fn external(interrupt: Interrupt) -> Exception {
        Exception { external: true, detail: interrupt.detail, ..Exception::of(interrupt.number) }
    }

    /// One that an instruction has raised by what it did.
    pub const fn of(vector: u32) -> Exception {
        Exception { vector, error: None, software: false, fetch: false, external: false, detail: 0, delayed: false }
    }
}

/// How an instruction went that the core has left to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// It is done, and the next one follows.
    Done {
        /// Its bytes.
        length: u64,
        /// It has asked what time it is.
        reads_clock: bool,
    },
    /// It has put the CPU elsewhere.
    Went {
        /// Its bytes.
        length: u64,
        /// The CPU now waits for an interrupt.
        waits: bool,
    },
    /// It could not be done, and nothing has happened but this.
    Raises(Exception),
    /// The guest cannot go on.
    Dead(String),
}

/// A guest that can take no exception any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// What could not be delivered, and why.
    pub why: String,
}

/// What an access wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read with the kernel's rights, of kernel or user memory.
    Read,
    /// A write with the kernel's rights.
    Write,
    /// A read of the running program's memory, where that is another address space than the kernel's.
    User,
    /// Only where it lies; used by the machine for itself.
    Look,
}
