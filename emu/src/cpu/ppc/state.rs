//! The named architectural state: registers by the numbers of `isa`, and where fields lie in the core's image.

use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::surgery::CoreState;
use trapline_isa::ppc::abi;
use trapline_isa::regs::Reg;
use unicorn_engine_sys::RegisterPPC;

/// The general registers.
pub const REGS: usize = 0;
/// How many these are.
pub const GENERAL: u8 = 32;
/// The link register.
const LINK: usize = 512;
/// The count register.
const COUNT: usize = 520;
/// The condition register: eight words of four bits, the first the highest.
const CONDITION: usize = 528;
/// What of XER is not kept apart; then SO, OV, CA, OV32, CA32, a doubleword each.
const XER: usize = 568;
/// Where these stand in XER.
const XER_APART: [u32; 5] = [31, 30, 29, 19, 18];
/// The address of the reservation; all ones: there is none.
pub const RESERVATION: usize = 616;
/// The machine state.
pub const MSR: usize = 640;
/// The pc.
pub const PC: usize = 680;
/// The special registers by their numbers, a doubleword each.
const SPECIAL: usize = 2840;
/// Status of vectors; the vectors, of which the first half holds the floating-point registers; whether something was
/// cut off.
pub const VSCR: usize = 76568;
/// The vectors.
pub const VECTORS: usize = 76576;
/// Whether something was cut off.
pub const VSCR_SAT: usize = VECTORS + 16 * 64;
/// Status of floating-point arithmetic.
pub const FPSCR: usize = 77648;
/// What the translator goes by.
pub const FLAGS: usize = 78616;
/// What the core knows of the exception that it has reported.
pub const ERROR_CODE: usize = super::check::ERROR_CODE;

/// The number behind those of the special registers by which an instruction's wish for a random number arrives
/// (`translator/loop.c`).
pub const RANDOM: u32 = 1024;

/// Where a special register lies.
pub const fn special(number: usize) -> usize {
    SPECIAL + 8 * number
}

/// Why the last access failed.
pub const DSISR: usize = special(18);
/// Its address.
pub const DAR: usize = special(19);
/// The decrementer.
pub const DEC: usize = special(22);
/// Where an exception came from.
pub const SRR0: usize = special(26);
/// What the machine state was when it came.
pub const SRR1: usize = special(27);
/// Whose memory a program sees.
pub const PID: usize = special(48);
/// Where the kernel keeps what is of this CPU alone.
pub const PER_CPU: usize = special(304);
/// What the hypervisor has set for all that runs: where exceptions go, among others.
pub const LPCR: usize = special(318);
/// The tables of translation.
pub const PTCR: usize = special(464);
/// The version of the CPU.
pub const PVR: usize = special(287);
/// The same for the hypervisor's exceptions.
pub const HSRR0: usize = special(314);
/// What the machine state was when such a one came.
pub const HSRR1: usize = special(315);
/// The target of bctar.
const TARGET: usize = special(815);

/// 64 bits.
pub const MSR_SF: u64 = 1 << 63;
/// The hypervisor's state.
pub const MSR_HV: u64 = 1 << 60;
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
/// The low byte comes first.
pub const MSR_LE: u64 = 1;

/// Sets the machine state, the hypervisor's bit too, which the library's own door leaves as it is.
pub fn set_msr(cpu: &TrapContext, value: u64) {
    cpu.set_live64(MSR, value);
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
    let apart = |(place, bit): (usize, u32)| (handle.live64(XER + 8 * place) & 1) << bit;
    handle.live64(XER) | (1..).zip(XER_APART).map(apart).sum::<u64>()
}

fn set_xer(cpu: &TrapContext, value: u64) {
    for (place, bit) in (1..).zip(XER_APART) {
        cpu.set_live64(XER + 8 * place, value >> bit & 1);
    }
    cpu.set_live64(XER, XER_APART.iter().fold(value, |rest, bit| rest & !(1 << bit)));
}

/// Where half a register of vectors lies, by its number, which is not less than that of the first.
const fn vector_half(number: u8) -> usize {
    VECTORS + 8 * (number - abi::VECTORS.0) as usize % (16 * 64)
}

/// Reads a register of `isa`'s numbering; the pc is the one given.
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
        Reg(number) if number >= abi::VECTORS.0 => handle.live64(vector_half(number)),
        _ => 0,
    }
}

/// Sets a register of `isa`'s numbering; the pc not at all.
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
        Reg(number) if number >= abi::VECTORS.0 => cpu.set_live64(vector_half(number), value),
        _ => {}
    }
}

/// The pc of a CPU that another one has displaced from the core.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get64(PC)
}

/// Whether such a CPU has interrupts off.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    image.get64(MSR) & MSR_EE == 0
}

/// Everything that a person wants to see of a CPU that has died.
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
    ];
    let special = special.map(|(name, at)| (name, handle.live64(at)));
    own.map(|(name, reg)| (*name, get(handle, *reg, handle.pc()))).chain(special).collect()
}
