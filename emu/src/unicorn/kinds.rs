//! The kinds of core that the library has been built with: what to ask it for, and what it calls in its own code for each.

use super::engine::Handle;
use super::ffi;
use super::live;
use super::stores::Layout;
use crate::cpu::{arm, arm64, x86};
use core::ffi::{c_int, c_void};
use std::sync::OnceLock;
use unicorn_engine_sys::{Arch, Mode, RegisterARM, RegisterARM64, RegisterX86};

/// A register by the library's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(pub(super) c_int);

impl From<RegisterX86> for Register {
    fn from(register: RegisterX86) -> Register {
        Register(register as c_int)
    }
}

impl From<RegisterARM> for Register {
    fn from(register: RegisterARM) -> Register {
        Register(register as c_int)
    }
}

impl From<RegisterARM64> for Register {
    fn from(register: RegisterARM64) -> Register {
        Register(register as c_int)
    }
}

/// A register behind AArch64's MRS and MSR, by the fields of these instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SystemRegister {
    /// 2 or 3.
    pub op0: u32,
    /// Who may use it, roughly.
    pub op1: u32,
    /// Group.
    pub crn: u32,
    /// Register.
    pub crm: u32,
    /// Which of a few.
    pub op2: u32,
}

/// A register behind 32-bit ARM's MRC and MCR, by the fields of these instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoprocessorRegister {
    /// The coprocessor.
    pub cp: u32,
    /// Group.
    pub crn: u32,
    /// First operation.
    pub opc1: u32,
    /// Register.
    pub crm: u32,
    /// Second operation.
    pub opc2: u32,
}

/// Instructions that the core leaves to us, each by a callback of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    /// IN, OUT, CPUID, RDTSC, SYSCALL.
    X86,
    /// MRS and MSR.
    SystemRegisters,
    /// None.
    None,
}

/// A kind of core.
pub struct Kind {
    pub(super) arch: Arch,
    pub(super) mode: Mode,
    pub(super) model: c_int,
    pub(super) pc: Register,
    pub(super) instructions: Instructions,
    /// What the library wants to be given as a pc, where that is not the address alone.
    pub(super) encode_pc: fn(&Handle, u64) -> u64,
    pub(super) invalidate: unsafe extern "C" fn(*mut c_void, usize, usize),
    pub(super) ram_address: unsafe extern "C" fn(*mut c_void, *mut c_void) -> usize,
    /// Where the state of such a core lies, once that has been looked for.
    pub(super) live: OnceLock<live::Place>,
    /// Where the pc lies in it, as wide as an address: writing it there is all that a callback of an exception has to do.
    pub(super) live_pc: usize,
    /// How far in front of it the cache of translations lies that a kernel's accesses go by.
    pub(super) live_translations: usize,
    /// Where its general registers begin, and how many there are, in the order of their numbers in `isa`; each as wide as an address.
    pub(super) live_general: (usize, u8),
    /// Where its cached address translations lie.
    pub(super) stores: Layout,
}

fn plain_pc(_: &Handle, pc: u64) -> u64 {
    pc
}

/// Bit 0 says that it is Thumb code; what the flags say now goes on.
fn pc_with_mode(handle: &Handle, pc: u64) -> u64 {
    const THUMB: u64 = 1 << 5;
    pc & !1 | u64::from(handle.read(RegisterARM::CPSR) & THUMB != 0)
}

// Numbers of CPU models in the library's own lists.
const QEMU64: c_int = 0;
const CORTEX_A8: c_int = 15;
const CORTEX_A72: c_int = 2;

/// A 64-bit x86 core; both widths run on it (docs/unicorn.md, "one core for both widths").
pub static X86: Kind = Kind {
    arch: Arch::X86,
    mode: Mode::MODE_64,
    model: QEMU64,
    pc: Register(RegisterX86::RIP as c_int),
    instructions: Instructions::X86,
    encode_pc: plain_pc,
    invalidate: ffi::tb_invalidate_phys_range_x86_64,
    ram_address: ffi::qemu_ram_addr_from_host_x86_64,
    live: OnceLock::new(),
    live_pc: x86::state::EIP,
    live_translations: 32,
    live_general: (x86::state::REGS, x86::state::GENERAL),
    stores: Layout {
        modes: 3,
        smallest_page_bits: 12,
        address_bytes: 8,
        guard: ffi::tlb_reset_dirty_x86_64,
        place: OnceLock::new(),
    },
};

/// A 32-bit ARM core without a generic timer: that of the library reads the host's clock.
pub static ARM: Kind = Kind {
    arch: Arch::ARM,
    mode: Mode::LITTLE_ENDIAN,
    model: CORTEX_A8,
    pc: Register(RegisterARM::PC as c_int),
    instructions: Instructions::None,
    encode_pc: pc_with_mode,
    invalidate: ffi::tb_invalidate_phys_range_arm,
    ram_address: ffi::qemu_ram_addr_from_host_arm,
    live: OnceLock::new(),
    live_pc: arm::state::PC,
    live_translations: 176,
    live_general: (arm::state::REGS, arm::state::GENERAL),
    stores: Layout {
        modes: 12,
        smallest_page_bits: 10,
        address_bytes: 4,
        guard: ffi::tlb_reset_dirty_arm,
        place: OnceLock::new(),
    },
};

/// A 64-bit ARM core; its generic timer is answered by us.
pub static ARM64: Kind = Kind {
    arch: Arch::ARM64,
    mode: Mode::LITTLE_ENDIAN,
    model: CORTEX_A72,
    pc: Register(RegisterARM64::PC as c_int),
    instructions: Instructions::SystemRegisters,
    encode_pc: plain_pc,
    invalidate: ffi::tb_invalidate_phys_range_aarch64,
    ram_address: ffi::qemu_ram_addr_from_host_aarch64,
    live: OnceLock::new(),
    live_pc: arm64::state::PC,
    live_translations: 176,
    live_general: (arm64::state::REGS, arm64::state::GENERAL),
    stores: Layout {
        modes: 12,
        smallest_page_bits: 10,
        address_bytes: 8,
        guard: ffi::tlb_reset_dirty_aarch64,
        place: OnceLock::new(),
    },
};
