//! The named architectural state: registers by the numbers of `isa`, and where fields lie in the core's image.

use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::surgery::CoreState;
use trapline_isa::ppc::abi;
use trapline_isa::regs::Reg;
use unicorn_engine_sys::RegisterPPC;

/// The general registers, 4 bytes each.
pub const REGS: usize = 0;
/// How many these are.
pub const GENERAL: u8 = 32;
/// The link register.
pub const LINK: usize = 256;
/// The count register.
pub const COUNT: usize = 260;
/// The condition register: eight words of four bits, the first the highest.
pub const CONDITION: usize = 264;
/// What of XER is not kept apart; then SO, OV, CA, OV32, CA32, a word each.
pub const XER: usize = 296;
/// Where these stand in XER, as far as this CPU has them.
const XER_APART: [u32; 3] = [31, 30, 29];
/// The address of the reservation, and what stood there.
pub const RESERVATION: usize = 320;
/// The machine state.
pub const MSR: usize = 332;
/// The pc.
pub const PC: usize = 352;
/// What the segments are.
pub const SEGMENTS: usize = 372;
/// How many block registers of each kind the core looks at.
pub const BLOCKS_LOOKED_AT: usize = 500;
/// The block registers of data, upper words and then lower ones, room for 8 each; behind them those of instructions.
pub const BLOCKS: usize = 504;
/// Where the latter begin.
pub const INSTRUCTION_BLOCKS: usize = 64;
/// How many of them this CPU has.
pub const BLOCK_COUNT: usize = 4;
/// The special registers by their numbers, a word each.
const SPECIAL: usize = 696;
/// The floating-point registers are the first halves of these.
pub const VECTORS: usize = 70336;
/// Status of floating-point arithmetic.
pub const FPSCR: usize = 71404;
/// What the core knows of the exception that it has reported.
pub const ERROR_CODE: usize = 71472;
/// What the translator goes by.
pub const FLAGS: usize = 71932;

/// Where a special register lies.
pub const fn special(number: usize) -> usize {
    SPECIAL + 4 * number
}

/// Why the last access failed.
pub const DSISR: usize = special(18);
/// Its address.
pub const DAR: usize = special(19);
/// The table of hashed pages.
pub const SDR1: usize = special(25);
/// Where an exception came from.
pub const SRR0: usize = special(26);
/// What the machine state was when it came.
pub const SRR1: usize = special(27);
/// Where the kernel keeps what is of this CPU alone.
pub const PER_CPU: usize = special(272);
/// The version of the CPU.
pub const PVR: usize = special(287);

/// Interrupts are taken.
pub const MSR_EE: u64 = 1 << 15;
/// A program runs.
pub const MSR_PR: u64 = 1 << 14;
/// Machine checks are taken.
pub const MSR_ME: u64 = 1 << 12;
/// Instructions are stepped.
pub const MSR_SE: u64 = 1 << 10;
/// Instructions' addresses are translated.
pub const MSR_IR: u64 = 1 << 5;
/// Data's addresses are translated.
pub const MSR_DR: u64 = 1 << 4;

/// Sets the machine state.
pub fn set_msr(cpu: &TrapContext, value: u64) {
    // The core works out what depends on it.
    cpu.write(RegisterPPC::MSR, value);
}

/// The condition register, out of its eight fields.
#[inline]
fn condition(handle: &Handle) -> u64 {
    (0..8).fold(0, |all, field| all << 4 | u64::from(handle.live32(CONDITION + 4 * field) & 15))
}

fn set_condition(cpu: &TrapContext, value: u64) {
    for field in 0..8 {
        cpu.set_live32(CONDITION + 4 * field, (value >> (28 - 4 * field)) as u32 & 15);
    }
}

/// XER, out of the pieces that the core keeps it in.
fn xer(handle: &Handle) -> u64 {
    let apart = |(place, bit): (usize, u32)| (handle.live32(XER + 4 * place) & 1) << bit;
    (handle.live32(XER) | (1..).zip(XER_APART).map(apart).sum::<u32>()).into()
}

fn set_xer(cpu: &TrapContext, value: u64) {
    for (place, bit) in (1..).zip(XER_APART) {
        cpu.set_live32(XER + 4 * place, (value >> bit & 1) as u32);
    }
    cpu.set_live32(XER, XER_APART.iter().fold(value as u32, |rest, bit| rest & !(1 << bit)));
}

/// Where half a register of vectors lies, by its number, which is not less than that of the first.
const fn vector_half(number: u8) -> usize {
    VECTORS + 8 * (number - abi::VECTORS.0) as usize % (16 * 64)
}

fn place(reg: Reg) -> Option<usize> {
    Some(match reg {
        Reg(number) if number < GENERAL => REGS + 4 * usize::from(number),
        abi::CTR => COUNT,
        abi::LR => LINK,
        abi::DAR => DAR,
        abi::DSISR => DSISR,
        _ => return None,
    })
}

/// Reads a register of `isa`'s numbering; the pc is the one given.
#[inline]
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    match reg {
        abi::NIP => pc,
        abi::MSR => handle.live32(MSR).into(),
        abi::XER => xer(handle),
        abi::CR => condition(handle),
        Reg(number) if number >= abi::VECTORS.0 => handle.live64(vector_half(number)),
        _ => place(reg).map_or(0, |at| handle.live32(at).into()),
    }
}

/// Sets a register of `isa`'s numbering; the pc not at all.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    match reg {
        abi::MSR => set_msr(cpu, value),
        abi::XER => set_xer(cpu, value),
        abi::CR => set_condition(cpu, value),
        Reg(number) if number >= abi::VECTORS.0 => cpu.set_live64(vector_half(number), value),
        _ => {
            if let Some(at) = place(reg) {
                cpu.set_live32(at, value as u32);
            }
        }
    }
}

/// The pc of a CPU that another one has displaced from the core.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get32(PC).into()
}

/// Whether such a CPU has interrupts off.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    u64::from(image.get32(MSR)) & MSR_EE == 0
}

/// Everything that a person wants to see of a CPU that has died.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let own = abi::SYSV.names.iter().filter(|(_, reg)| !matches!(*reg, abi::SOFTE | abi::TRAP));
    let special = [("srr0", SRR0), ("srr1", SRR1), ("sdr1", SDR1), ("sr0", SEGMENTS), ("fpscr", FPSCR)];
    let special = special.map(|(name, at)| (name, u64::from(handle.live32(at))));
    own.map(|(name, reg)| (*name, get(handle, *reg, handle.pc()))).chain(special).collect()
}
