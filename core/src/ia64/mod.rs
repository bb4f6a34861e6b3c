//! IA-64: an interpreter of decoded bundles. It has all integer, branch, memory and system instructions, the register
//! stack with its backing store, rotation, NaT bits, the ALAT, regions and TLB, and interruptions with banked registers.
//! It has the floating-point loads, stores, moves and merges, and the multiplication of integers. Other floating-point
//! instructions and parallel ones raise a general exception as illegal instructions.
//!
//! The pc is a bundle's address and a slot, which is `psr.ri`. Data is little-endian. The VHPT walker is off, so a
//! TLB miss raises the alternate miss. A speculative load that misses the TLB defers if the guest has asked for it.

mod alat;
mod blocks;
mod bundles;
mod execute;
mod frame;
mod interrupt;
mod memory;
mod quick;
mod run;
mod seen;
mod single;
mod stack;
mod state;
mod tlb;

pub use alat::{Alat, Claim, FLOATS};
pub use run::Core;
pub use state::{Real, SAVED, SLOT_STEP, STACKED, State};
pub use tlb::{Entry, Half, Tlb};

use crate::Access;

/// The machine around a CPU. Functions with a body are for machines that count time by blocks.
pub trait Host {
    /// Whether the core calls [`Host::accesses`] and [`Host::accessed`]. If false, no code for the calls is compiled.
    const TELLS: bool = false;
    /// The instruction at `pc` is about to load from a virtual address or store to it. The address was translated.
    fn accesses(&mut self, pc: u64, address: u64, size: u32, is_store: bool) {
        let _ = (pc, address, size, is_store);
    }
    /// A load or a store of RAM was made.
    fn accessed(&mut self, access: &Access) {
        let _ = access;
    }
    /// Whether a block must end in front of this address. Asked when the block is decoded.
    fn breaks_at(&mut self, pc: u64) -> bool {
        let _ = pc;
        false
    }
    /// A block is about to run. The core has not counted its `size` bytes.
    fn block(&mut self, pc: u64, size: u32) {
        let _ = (pc, size);
    }
    /// Whether the block at this address must call [`Host::block`] at each run, whatever the count is. Asked when the
    /// block is decoded.
    fn always_wants(&mut self, pc: u64) -> bool {
        let _ = pc;
        false
    }
    /// A block was decoded from the page at this physical address. From now on [`Host::dropped`] must return the page after
    /// each write to it by anyone but this core.
    fn has_code(&mut self, page: u64) {
        let _ = page;
    }
    /// Takes the physical address of a page with blocks that anyone but this core has written to; `None` if there is no
    /// other one.
    fn dropped(&mut self) -> Option<u64> {
        None
    }
    /// Reads 1, 2, 4 or 8 bytes of RAM as a little-endian number; `None` where no RAM is.
    fn load(&mut self, physical: u64, size: u32) -> Option<u64>;
    /// Writes 1, 2, 4 or 8 bytes of RAM; false where no RAM is.
    fn store(&mut self, physical: u64, size: u32, value: u64) -> bool;
    /// Reads from a device, at an address without RAM.
    fn device_in(&mut self, physical: u64, size: u32) -> u64;
    /// Writes to a device, at an address without RAM.
    fn device_out(&mut self, physical: u64, size: u32, value: u64);
    /// The interval time counter.
    fn clock(&mut self) -> u64;
    /// The instruction at the pc has raised an interruption, whose details are in the state. The host delivers it by
    /// [`State::interrupt`], or changes the state in its own way.
    fn exception(&mut self, state: &State, vector: u32);
}

/// Bits of the processor status register.
pub mod psr {
    /// Unaligned accesses raise an interruption.
    pub const AC: u64 = 1 << 3;
    /// Registers f2 to f31 were written.
    pub const MFL: u64 = 1 << 4;
    /// Registers f32 to f127 were written.
    pub const MFH: u64 = 1 << 5;
    /// Interruptions write the registers with their details.
    pub const IC: u64 = 1 << 13;
    /// External interrupts are enabled.
    pub const I: u64 = 1 << 14;
    /// Data addresses are translated.
    pub const DT: u64 = 1 << 17;
    /// Registers f2 to f31 are disabled.
    pub const DFL: u64 = 1 << 18;
    /// Registers f32 to f127 are disabled.
    pub const DFH: u64 = 1 << 19;
    /// Addresses of the register stack engine are translated.
    pub const RT: u64 = 1 << 27;
    /// The lowest bit of the privilege level.
    pub const CPL: u32 = 32;
    /// Addresses of instructions are translated.
    pub const IT: u64 = 1 << 36;
    /// The lowest bit of the slot's number.
    pub const RI: u32 = 41;
    /// The next speculative load defers its interruption.
    pub const ED: u64 = 1 << 43;
    /// The second bank of registers 16 to 31 is in use.
    pub const BN: u64 = 1 << 44;
    /// Bits that `sum`, `rum` and `mov psr.um` change.
    pub const USER_MASK: u64 = 0x3e;
    /// Bits that `ssm` and `rsm` change: all of the lowest 24 that exist.
    pub const SYSTEM_MASK: u64 = 0xfe_e03e;
    /// Bits that an interruption keeps.
    pub const KEPT: u64 = 1 << 2 | MFL | MFH | 1 << 15 | DT | RT | 1 << 35 | IT;
}

/// Vectors: the offsets of interruption handlers from `cr.iva`.
pub mod vector {
    /// No translation of an instruction's address.
    pub const CODE_MISS: u32 = 0x0c00;
    /// No translation of a data address.
    pub const DATA_MISS: u32 = 0x1000;
    /// No translation of a data address while `psr.ic` is 0.
    pub const NESTED_MISS: u32 = 0x1400;
    /// A store to a page whose dirty bit is clear.
    pub const DIRTY: u32 = 0x2000;
    /// The access bit of an instruction's page is clear.
    pub const CODE_ACCESS: u32 = 0x2400;
    /// The access bit of a data page is clear.
    pub const DATA_ACCESS: u32 = 0x2800;
    /// `break`.
    pub const BREAK: u32 = 0x2c00;
    /// An external interrupt.
    pub const EXTERNAL: u32 = 0x3000;
    /// The page is not present.
    pub const NOT_PRESENT: u32 = 0x5000;
    /// The page's rights forbid to execute it.
    pub const CODE_RIGHTS: u32 = 0x5200;
    /// The page's rights forbid the access.
    pub const DATA_RIGHTS: u32 = 0x5300;
    /// An illegal or privileged instruction, or a reserved register.
    pub const GENERAL: u32 = 0x5400;
    /// A disabled floating-point register.
    pub const DISABLED_FLOAT: u32 = 0x5500;
    /// A NaT bit where a number is needed.
    pub const NAT: u32 = 0x5600;
    /// An address that is no multiple of the access's size.
    pub const UNALIGNED: u32 = 0x5a00;
}

/// Bits of the interruption status register.
pub mod isr {
    /// Codes of the general exception: an illegal operation, a privileged one, a privileged and a reserved register.
    pub const ILLEGAL: u64 = 0x00;
    /// A privileged operation in a program.
    pub const PRIVILEGED: u64 = 0x10;
    /// A privileged register in a program.
    pub const PRIVILEGED_REGISTER: u64 = 0x20;
    /// A reserved register, or a value that a register cannot have.
    pub const RESERVED: u64 = 0x30;
    /// The instruction's address is the cause.
    pub const X: u64 = 1 << 32;
    /// A write.
    pub const W: u64 = 1 << 33;
    /// A read.
    pub const R: u64 = 1 << 34;
    /// Neither a load nor a store: `probe`, `fc`, `tpa` and the like.
    pub const NA: u64 = 1 << 35;
    /// A speculative load.
    pub const SP: u64 = 1 << 36;
    /// The register stack engine.
    pub const RS: u64 = 1 << 37;
    /// The current frame is incomplete.
    pub const IR: u64 = 1 << 38;
    /// `psr.ic` was 0 or in flight.
    pub const NI: u64 = 1 << 39;
    /// The lowest bit of the slot's number.
    pub const EI: u32 = 41;
}

/// Numbers of application registers.
pub mod ar {
    /// The register stack's configuration.
    pub const RSC: u8 = 16;
    /// The address of the frame in the backing store.
    pub const BSP: u8 = 17;
    /// The address of the next store.
    pub const BSPSTORE: u8 = 18;
    /// The NaT bits of the next collection.
    pub const RNAT: u8 = 19;
    /// The value that `cmpxchg` compares with.
    pub const CCV: u8 = 32;
    /// The NaT bits of spilled registers.
    pub const UNAT: u8 = 36;
    /// The floating-point status.
    pub const FPSR: u8 = 40;
    /// The interval time counter.
    pub const ITC: u8 = 44;
    /// The previous function's state.
    pub const PFS: u8 = 64;
    /// The loop count.
    pub const LC: u8 = 65;
    /// The epilogue count.
    pub const EC: u8 = 66;
}

/// Numbers of control registers.
pub mod cr {
    /// Default control.
    pub const DCR: usize = 0;
    /// The interval timer's match.
    pub const ITM: usize = 1;
    /// The address of the vectors.
    pub const IVA: usize = 2;
    /// The interrupted status.
    pub const IPSR: usize = 16;
    /// The interruption's status.
    pub const ISR: usize = 17;
    /// The interrupted bundle.
    pub const IIP: usize = 19;
    /// The address at fault.
    pub const IFA: usize = 20;
    /// The page size and key of an insertion.
    pub const ITIR: usize = 21;
    /// The last bundle with a completed instruction.
    pub const IIPA: usize = 22;
    /// The interrupted frame.
    pub const IFS: usize = 23;
    /// The number of a `break`.
    pub const IIM: usize = 24;
    /// The vector of the highest pending interrupt.
    pub const IVR: usize = 65;
    /// The task priority.
    pub const TPR: usize = 66;
    /// The end of an interrupt.
    pub const EOI: usize = 67;
    /// The first word of pending interrupts.
    pub const IRR: usize = 68;
}

/// An interruption that an instruction raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The vector's offset from `cr.iva`: one of [`vector`].
    pub vector: u32,
    /// Bits of the interruption status, without the slot's number.
    pub status: u64,
    /// The address at fault.
    pub address: u64,
    /// The number of a `break`.
    pub number: u64,
}

impl Fault {
    /// A general exception with this code.
    pub(crate) const fn general(code: u64) -> Fault {
        Fault { vector: vector::GENERAL, status: code, address: 0, number: 0 }
    }

    /// An illegal instruction.
    pub(crate) const ILLEGAL: Fault = Fault::general(isr::ILLEGAL);

    /// A NaT bit of a register whose number is needed.
    pub(crate) const fn nat(status: u64) -> Fault {
        // Code 0x10: a register, not a page.
        Fault { vector: vector::NAT, status: status | 0x10, address: 0, number: 0 }
    }
}
