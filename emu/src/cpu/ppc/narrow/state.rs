//! The architectural state: registers in `isa`'s numbering, and offsets of fields in the core's state.

use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::offsets::ppc as offset;
use trapline_isa::ppc::abi;
use trapline_isa::regs::Reg;
use unicorn_engine_sys::RegisterPPC;

/// Offset of the general registers, 4 bytes each.
pub const REGS: usize = offset::REGS;
/// The number of general registers.
pub const GENERAL: u8 = 32;
/// Offset of the link register.
pub const LINK: usize = offset::LINK;
/// Offset of the count register.
pub const COUNT: usize = offset::COUNT;
/// Offset of the condition register: eight words of four bits, the most significant field first.
pub const CONDITION: usize = offset::CONDITION;
/// Offset of the bits of XER that are not stored separately. Then SO, OV, CA, OV32 and CA32, a word each.
pub const XER: usize = offset::XER;
/// The positions in XER of those that this CPU has.
const XER_APART: [u32; 3] = [31, 30, 29];
/// Offset of the reservation's address. The reserved value follows.
pub const RESERVATION: usize = offset::RESERVATION;
/// Offset of MSR.
pub const MSR: usize = offset::MSR;
/// Offset of the pc.
pub const PC: usize = offset::PC;
/// Offset of the segment registers.
pub const SEGMENTS: usize = offset::SEGMENTS;
/// Offset of the number of BATs of each kind that the core searches.
pub const BLOCKS_LOOKED_AT: usize = offset::BLOCKS_LOOKED_AT;
/// Offset of the data BATs, 8 upper words and then 8 lower words. The instruction BATs follow.
pub const BLOCKS: usize = offset::BLOCKS;
/// Distance from the data BATs to the instruction BATs.
pub const INSTRUCTION_BLOCKS: usize = offset::INSTRUCTION_BLOCKS - BLOCKS;
/// The number of BATs of each kind that this CPU has.
pub const BLOCK_COUNT: usize = 4;
/// Offset of the special-purpose registers (SPRs) by number, a word each.
const SPECIAL: usize = offset::SPECIAL;
/// Offset of the vector registers. Their first halves are the floating-point registers.
pub const VECTORS: usize = offset::VECTORS;
/// Offset of FPSCR, the status of floating-point arithmetic.
pub const FPSCR: usize = offset::FPSCR;
/// Offset of the error code of the exception being reported.
pub const ERROR_CODE: usize = offset::ERROR_CODE;
/// Offset of the translator's flags.
pub const FLAGS: usize = offset::FLAGS;

/// The offset of an SPR.
pub const fn special(number: usize) -> usize {
    SPECIAL + 4 * number
}

/// The cause of the last data storage fault.
pub const DSISR: usize = special(18);
/// The address of the last data storage fault.
pub const DAR: usize = special(19);
/// The address and size of the hashed page table.
pub const SDR1: usize = special(25);
/// The return address of an exception.
pub const SRR0: usize = special(26);
/// The MSR saved by an exception.
pub const SRR1: usize = special(27);
/// SPRG0, in which the tiny kernel stores the address of its per-CPU data.
pub const PER_CPU: usize = special(272);
/// The version of the CPU.
pub const PVR: usize = special(287);

/// External interrupts are enabled.
pub const MSR_EE: u64 = 1 << 15;
/// Problem state: a user program runs.
pub const MSR_PR: u64 = 1 << 14;
/// Machine checks are enabled.
pub const MSR_ME: u64 = 1 << 12;
/// Single-step trace is enabled.
pub const MSR_SE: u64 = 1 << 10;
/// Instruction addresses are translated.
pub const MSR_IR: u64 = 1 << 5;
/// Data addresses are translated.
pub const MSR_DR: u64 = 1 << 4;

/// Sets MSR.
pub fn set_msr(cpu: &TrapContext, value: u64) {
    // The core derives other state from it.
    cpu.write(RegisterPPC::MSR, value);
}

/// The condition register, assembled from its eight fields.
#[inline]
fn condition(handle: &Handle) -> u64 {
    (0..8).fold(0, |all, field| all << 4 | u64::from(handle.live32(CONDITION + 4 * field) & 15))
}

fn set_condition(cpu: &TrapContext, value: u64) {
    for field in 0..8 {
        cpu.set_live32(CONDITION + 4 * field, (value >> (28 - 4 * field)) as u32 & 15);
    }
}

/// XER, assembled from the fields in which the core stores it.
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

/// The offset of half a vector register, by its number in `isa`'s numbering (at least `abi::VECTORS`).
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

/// Reads a register in `isa`'s numbering. `pc` is returned for the pc.
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

/// Sets a register in `isa`'s numbering. The pc is not changed.
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

/// The pc in a saved state.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get32(PC).into()
}

/// Whether interrupts are masked in a saved state.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    u64::from(image.get32(MSR)) & MSR_EE == 0
}

/// Registers for a report about a dead guest.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let own = abi::SYSV.names.iter().filter(|(_, reg)| !matches!(*reg, abi::SOFTE | abi::TRAP));
    let special = [("srr0", SRR0), ("srr1", SRR1), ("sdr1", SDR1), ("sr0", SEGMENTS), ("fpscr", FPSCR)];
    let special = special.map(|(name, at)| (name, u64::from(handle.live32(at))));
    own.map(|(name, reg)| (*name, get(handle, *reg, handle.pc()))).chain(special).collect()
}
