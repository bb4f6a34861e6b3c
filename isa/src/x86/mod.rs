//! i386 and x86_64. Both use the code in this folder; a [`Mode`] tells them apart. [`I386`] and [`X86_64`] are their
//! tables.

pub mod abi;
pub mod decode;
pub mod detour;
pub mod emulate;
mod faithful;
mod linux;
pub mod rows;
pub mod rules;
pub mod shape;
pub mod slot;

use crate::arch::{Arch, Emulation, Isa, not_ours};
use crate::insn::LONGEST;
use crate::linux::{Dispatcher, Linux, Program, SystemCalls};
use crate::plan::{Errno, Patch, Then};
use crate::rows::Rows;

/// CF, PF, AF, ZF, SF, DF and OF may vary; bit 1 is always set.
const FLAGS: &[(&str, u64, u64)] = &[("flags", 0xcd5, 2)];

/// The word size that an instruction is decoded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 32-bit protected mode.
    Bits32,
    /// 64-bit mode.
    Bits64,
}

impl Mode {
    /// Bits in a word.
    pub const fn bits(self) -> u32 {
        match self {
            Mode::Bits32 => 32,
            Mode::Bits64 => 64,
        }
    }

    /// Bytes in a word.
    pub const fn word(self) -> usize {
        self.bits() as usize / 8
    }

    /// The bits of a register or address that this mode has.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }
}

/// The table of 64-bit x86.
pub static X86_64: Isa = LONG;

/// A new task begins at `ret_from_fork`, and an early exception at `early_idt_handler_*` or `vc_*_ghcb`: the stack holds no
/// return address there, but words of the CPU or of the entry code.
#[rustfmt::skip]
const SWITCHES_STACKS: &[&str] = &[
    "__switch_to_asm", "ret_from_fork", "ret_from_fork_asm", "early_idt_handler_array", "early_idt_handler_common",
    "early_ignore_irq", "xen_early_idt_handler_array", "vc_boot_ghcb", "vc_no_ghcb",
];

/// The table of 32-bit x86.
pub static I386: Isa = Isa {
    arch: Arch::I386,
    word: Mode::Bits32.word(),
    entry: abi::entry_32,
    switches_stacks: SWITCHES_STACKS,
    abi: &abi::I386,
    decode: |address, bytes| decode::decode(Mode::Bits32, address, bytes),
    plan: |insn, policy| rules::plan(Mode::Bits32, insn, policy),
    rows: Rows {
        example: |row, free| rows::example(Mode::Bits32, row, free),
        of: |insn| rows::number_of(Mode::Bits32, insn),
        flags: FLAGS,
        ..Rows::NONE
    },
    address_register: |insn| rules::address_register(Mode::Bits32, insn),
    copy: |insn, at, tail| slot::copy(Mode::Bits32, insn, at, tail),
    emulate: |what, insn, regs, mem| match what {
        Emulation::X86(what) => emulate::emulate(Mode::Bits32, what, insn, regs, mem).map(|()| Then::Onwards),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::BITS_32),
    linux: Linux {
        system_calls: SystemCalls {
            prefix: "__ia32_sys_",
            arguments: Some([0, 4, 8, 12, 16, 20]),
            number: Some(44),
            dispatcher: None,
        },
        // `pt_regs` ends 8 bytes below the top of the stack; 16 in kernels with vm86 mode, which stock kernels do not
        // have.
        program: Some(Program { below_top: 76, pc: 48, frame: Some((20, "bp")) }),
        ..LONG.linux
    },
    ..LONG
};

/// The facts of 64-bit x86, on which both tables are built.
const LONG: Isa = Isa {
    arch: Arch::X86_64,
    word: Mode::Bits64.word(),
    longest: LONGEST,
    alignment: 1,
    breakpoint: &[slot::INT3],
    breakpoint_over: |_| Patch::of(&[slot::INT3]),
    is_breakpoint: |_, bytes| bytes.starts_with(&[slot::INT3]),
    variable_length: true,
    entry: abi::entry_64,
    progress: abi::progress,
    address_register: |insn| rules::address_register(Mode::Bits64, insn),
    linux: Linux {
        pc_bias: 1,
        boundary_errno: Errno::EILSEQ,
        finds_boundaries: true,
        ftrace_carries: true,
        no_return_probes: &["__switch_to"],
        system_calls: SystemCalls {
            prefix: "__x64_sys_",
            arguments: Some([112, 104, 96, 56, 72, 64]),
            number: Some(120),
            dispatcher: Some(Dispatcher { name: "x64_sys_call", registers: 0, number: 1, returns: true }),
        },
        program: Some(Program { below_top: 168, pc: 128, frame: Some((32, "bp")) }),
        ..Linux::USUAL
    },
    switches_stacks: SWITCHES_STACKS,
    abi: &abi::X86_64,
    decode: |address, bytes| decode::decode(Mode::Bits64, address, bytes),
    plan: |insn, policy| rules::plan(Mode::Bits64, insn, policy),
    rows: Rows {
        example: |row, free| rows::example(Mode::Bits64, row, free),
        of: |insn| rows::number_of(Mode::Bits64, insn),
        flags: FLAGS,
        ..Rows::NONE
    },
    rules: rules::RULES,
    copy: |insn, at, tail| slot::copy(Mode::Bits64, insn, at, tail),
    emulate: |what, insn, regs, mem| match what {
        Emulation::X86(what) => emulate::emulate(Mode::Bits64, what, insn, regs, mem).map(|()| Then::Onwards),
        _ => Err(not_ours(insn)),
    },
    detour: Some(&detour::BITS_64),
    ..Isa::USUAL
};
