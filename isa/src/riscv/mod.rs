//! RISC-V, 64 and 32 bits (RV64GC and RV32GC): little-endian instructions of 2 and 4 bytes. Tables of (mask, value) rows
//! decode them.
//!
//! Instructions of the extensions B, V and Zicbo* are decoded too. Linux executes them on newer CPUs only.

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
pub mod rules;
pub mod slot;
mod usage;

use crate::arch::{Arch, Emulation, Isa, not_ours};
use crate::linux::{Linux, Program, Release, SystemCalls};
use crate::plan::{Errno, Patch};

/// Bytes in an instruction that is not compressed.
pub const LENGTH: usize = 4;
/// Bytes in a compressed instruction.
pub const COMPRESSED: usize = 2;

/// A width of RISC-V's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// 32 bits.
    Rv32,
    /// 64 bits.
    Rv64,
}

impl Set {
    /// Both widths.
    pub const ALL: [Set; 2] = [Set::Rv32, Set::Rv64];

    /// The table of this width.
    pub fn isa(self) -> &'static Isa {
        match self {
            Set::Rv32 => &RISCV32,
            Set::Rv64 => &RISCV64,
        }
    }

    /// A register's value or an address, cut to this width.
    pub const fn cut(self, value: u64) -> u64 {
        match self {
            Set::Rv32 => value & 0xffff_ffff,
            Set::Rv64 => value,
        }
    }

    /// A register's value as a signed number.
    pub const fn signed(self, value: u64) -> i64 {
        match self {
            Set::Rv32 => value as i32 as i64,
            Set::Rv64 => value as i64,
        }
    }
}

/// The table of 64-bit RISC-V.
pub static RISCV64: Isa = Isa {
    decode: |at, bytes| decode::decode(Set::Rv64, at, bytes),
    far_target: |before, insn| decode::far_target(Set::Rv64, before, insn),
    ..COMMON
};

/// The table of 32-bit RISC-V.
pub static RISCV32: Isa = Isa {
    arch: Arch::Riscv32,
    word: 4,
    linux: Linux { system_calls: SystemCalls::PLAIN, program: None, ..LINUX },
    abi: &abi::ILP32,
    decode: |at, bytes| decode::decode(Set::Rv32, at, bytes),
    far_target: |before, insn| decode::far_target(Set::Rv32, before, insn),
    plan: |insn, policy| rules::plan(Set::Rv32, insn, policy),
    rows: rules::rows(Set::Rv32),
    check_context: |insn, policy, function, around| rules::check_context(Set::Rv32, insn, policy, function, around),
    detour: Some(&detour::DETOUR_32),
    emulate: |what, insn, regs, _| match what {
        Emulation::Riscv(what) => Ok(emulate::emulate(Set::Rv32, what, insn, regs)),
        _ => Err(not_ours(insn)),
    },
    ..COMMON
};

const LINUX: Linux = Linux {
    releases: &[Release::V6_12, Release::V7_2],
    boundary_errno: Errno::EILSEQ,
    finds_boundaries: true,
    system_calls: SystemCalls {
        prefix: "__riscv_sys_",
        // The first argument is saved separately (`orig_a0`), because a0 is also the result register.
        arguments: Some([280, 88, 96, 104, 112, 120]),
        number: Some(136),
        dispatcher: None,
    },
    program: Some(Program { below_top: 288, pc: 0, frame: None }),
    ..Linux::USUAL
};

const COMMON: Isa = Isa {
    arch: Arch::Riscv64,
    longest: LENGTH,
    alignment: COMPRESSED as u64,
    breakpoint: &slot::EBREAK,
    breakpoint_over: |insn| Patch::of(slot::breakpoint_over(insn)),
    is_breakpoint: |_, bytes| slot::is_breakpoint(bytes),
    variable_length: true,
    linux: LINUX,
    switches_stacks: &["__switch_to", "call_on_irq_stack", "handle_exception", "ret_from_exception", "ret_from_fork"],
    abi: &abi::LP64,
    decode: |at, bytes| decode::decode(Set::Rv64, at, bytes),
    plan: |insn, policy| rules::plan(Set::Rv64, insn, policy),
    rows: rules::rows(Set::Rv64),
    check_context: |insn, policy, function, around| rules::check_context(Set::Rv64, insn, policy, function, around),
    rules: rules::RULES,
    copy: slot::copy,
    emulate: |what, insn, regs, _| match what {
        Emulation::Riscv(what) => Ok(emulate::emulate(Set::Rv64, what, insn, regs)),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::DETOUR_64),
    ..Isa::USUAL
};
