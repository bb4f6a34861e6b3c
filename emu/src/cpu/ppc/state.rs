//! The architectural state: registers in `isa`'s numbering, and offsets of fields in the core's state.

use crate::cpu::{Layout, Word};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::offsets::ppc64 as offset;
use trapline_isa::arch::Isa;
use trapline_isa::ppc::abi;
use trapline_isa::regs::Reg;
use unicorn_engine_sys::RegisterPPC;

/// Offset of the general registers.
pub const REGS: usize = offset::REGS;
/// The number of general registers.
pub const GENERAL: u8 = 32;
/// Offset of the link register.
const LINK: usize = offset::LINK;
/// Offset of the count register.
const COUNT: usize = offset::COUNT;
/// Offset of the condition register: eight words of four bits, the most significant field first.
const CONDITION: usize = offset::CONDITION;
/// Offset of the bits of XER that are not stored separately. Then SO, OV, CA, OV32 and CA32, a doubleword each.
const XER: usize = offset::XER;
/// The positions of these in XER.
const XER_APART: [u32; 5] = [31, 30, 29, 19, 18];
/// Offset of the reservation's address. All ones mean that there is none.
pub const RESERVATION: usize = offset::RESERVATION;
/// Offset of MSR.
pub const MSR: usize = offset::MSR;
/// Offset of the pc.
pub const PC: usize = offset::PC;
/// Offset of the special-purpose registers (SPRs) by number, a doubleword each.
const SPECIAL: usize = offset::SPECIAL;
/// Offset of VSCR, the status of vector arithmetic.
pub const VSCR: usize = offset::VSCR;
/// Offset of the vector registers (VSRs). The first half of them contains the floating-point registers.
pub const VECTORS: usize = offset::VECTORS;
/// Offset of VSCR's saturation flag.
pub const VSCR_SAT: usize = offset::VSCR_SAT;
/// Offset of FPSCR, the status of floating-point arithmetic.
pub const FPSCR: usize = offset::FPSCR;
/// Offset of the translator's flags.
pub const FLAGS: usize = offset::FLAGS;
/// Offset of the error code of the exception being reported.
pub const ERROR_CODE: usize = super::check::ERROR_CODE;

/// A number behind the SPRs' numbers, by which an instruction's request for a random number arrives
/// (`translator/loop.c`).
pub const RANDOM: u32 = 1024;

/// The offset of an SPR.
pub const fn special(number: usize) -> usize {
    SPECIAL + 8 * number
}

/// The cause of the last data storage fault.
pub const DSISR: usize = special(18);
/// The address of the last data storage fault.
pub const DAR: usize = special(19);
/// The decrementer.
pub const DEC: usize = special(22);
/// The return address of an exception.
pub const SRR0: usize = special(26);
/// The MSR saved by an exception.
pub const SRR1: usize = special(27);
/// The process ID, which selects the address space.
pub const PID: usize = special(48);
/// HSPRG0, in which Linux stores the address of its per-CPU data (the PACA) in hypervisor state.
pub const PER_CPU: usize = special(304);
/// The hypervisor's control of the logical partition, such as the place of the vectors.
pub const LPCR: usize = special(318);
/// The partition table's address.
pub const PTCR: usize = special(464);
/// The version of the CPU.
pub const PVR: usize = special(287);
/// The return address of an exception to the hypervisor.
pub const HSRR0: usize = special(314);
/// The MSR saved by an exception to the hypervisor.
pub const HSRR1: usize = special(315);
/// TAR: the target of bctar.
const TARGET: usize = special(815);

/// 64-bit mode.
pub const MSR_SF: u64 = 1 << 63;
/// Hypervisor state.
pub const MSR_HV: u64 = 1 << 60;
/// External interrupts are enabled.
pub const MSR_EE: u64 = 1 << 15;
/// Problem state: a user program runs.
pub const MSR_PR: u64 = 1 << 14;
/// Machine checks are enabled.
pub const MSR_ME: u64 = 1 << 12;
/// An interrupt is recoverable.
pub const MSR_RI: u64 = 1 << 1;
/// Single-step trace is enabled.
pub const MSR_SE: u64 = 1 << 10;
/// Instruction addresses are translated.
pub const MSR_IR: u64 = 1 << 5;
/// Data addresses are translated.
pub const MSR_DR: u64 = 1 << 4;
/// Little-endian mode.
pub const MSR_LE: u64 = 1;

/// Sets MSR with its HV bit, which Unicorn's register interface does not change.
pub fn set_msr(cpu: &TrapContext, value: u64) {
    cpu.set_live64(MSR, value);
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
    let apart = |(place, bit): (usize, u32)| (handle.live64(XER + 8 * place) & 1) << bit;
    handle.live64(XER) | (1..).zip(XER_APART).map(apart).sum::<u64>()
}

fn set_xer(cpu: &TrapContext, value: u64) {
    for (place, bit) in (1..).zip(XER_APART) {
        cpu.set_live64(XER + 8 * place, value >> bit & 1);
    }
    cpu.set_live64(XER, XER_APART.iter().fold(value, |rest, bit| rest & !(1 << bit)));
}

/// The offset of half a vector register, by its number in `isa`'s numbering (at least `abi::VECTORS`).
const fn vector_half(number: u8) -> usize {
    VECTORS + 8 * (number - abi::VECTORS.0) as usize % (16 * 64)
}

/// Reads a register in `isa`'s numbering. `pc` is returned for the pc.
#[inline]
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    match reg {
        Reg(number) if number < GENERAL => handle.live64(REGS + 8 * usize::from(number)),
        abi::NIP => pc,
        abi::MSR => handle.live64(MSR),
        abi::CTR => handle.live64(COUNT),
        abi::LR => handle.live64(LINK),
        abi::XER => xer(handle),
        abi::CR => condition(handle),
        abi::DAR => handle.live64(DAR),
        abi::DSISR => handle.live64(DSISR) & 0xffff_ffff,
        abi::TAR => handle.live64(TARGET),
        abi::CFAR => handle.live64(offset::CFAR),
        Reg(number) if number >= abi::VECTORS.0 => handle.live64(vector_half(number)),
        _ => 0,
    }
}

/// Sets a register in `isa`'s numbering. The pc is not changed.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    match reg {
        Reg(number) if number < GENERAL => cpu.set_live64(REGS + 8 * usize::from(number), value),
        abi::MSR => set_msr(cpu, value),
        abi::CTR => cpu.set_live64(COUNT, value),
        abi::LR => cpu.set_live64(LINK, value),
        abi::XER => set_xer(cpu, value),
        abi::CR => set_condition(cpu, value),
        abi::DAR => cpu.set_live64(DAR, value),
        abi::DSISR => cpu.set_live64(DSISR, value),
        abi::TAR => cpu.set_live64(TARGET, value),
        abi::CFAR => cpu.set_live64(offset::CFAR, value),
        Reg(number) if number >= abi::VECTORS.0 => cpu.set_live64(vector_half(number), value),
        _ => {}
    }
}

/// Starts a CPU at this address, with its number in r3 and in the processor identification register.
pub fn start(image: &mut CoreState, _number: usize, entry: u64, number: u64) {
    const PIR: usize = 1023;
    const PHYSICAL: u64 = 0x0fff_ffff_ffff_ffff;
    image.set64(PC, entry & PHYSICAL);
    image.set64(REGS + 8 * 3, number);
    image.set64(special(PIR), number);
}

/// The pc in a saved state.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get64(PC)
}

/// Whether interrupts are masked in a saved state.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    image.get64(MSR) & MSR_EE == 0
}

/// Registers for a report about a dead guest.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let own = abi::ELF_V2.names.iter().filter(|(_, reg)| !matches!(*reg, abi::SOFTE | abi::TRAP));
    let special = [
        ("srr0", SRR0),
        ("srr1", SRR1),
        ("hsrr0", HSRR0),
        ("hsrr1", HSRR1),
        ("lpcr", LPCR),
        ("pid", PID),
        ("ptcr", PTCR),
        ("fpscr", FPSCR),
        ("cfar", offset::CFAR),
    ];
    let special = special.map(|(name, at)| (name, handle.live64(at)));
    own.map(|(name, reg)| (*name, get(handle, *reg, handle.pc()))).chain(special).collect()
}

/// The registers of core dumps: `pt_regs` with `orig_gpr3` behind MSR, in 48 words.
pub fn core_layout(isa: &Isa) -> Layout {
    let (first, others) = isa.abi.names.split_at(usize::from(GENERAL) + 2);
    let named = |names: &'static [(&str, Reg)]| names.iter().map(|(_, reg)| Word::Of(*reg));
    Layout::words(isa, named(first).chain([Word::Empty]).chain(named(others)), 48)
}
