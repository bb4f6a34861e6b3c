//! The architectural state: registers in `isa`'s numbering, and offsets of fields in the core's state.

use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::arm64::SystemRegister;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::offsets::aarch64 as offset;
use trapline_isa::arm64::abi;
use trapline_isa::regs::Reg;
use unicorn_engine_sys::RegisterARM64;

/// Offset of the general registers and the current stack pointer.
pub const REGS: usize = offset::REGS;
/// The number of these registers.
pub const GENERAL: u8 = 32;
/// Offset of the pc.
pub const PC: usize = offset::PC;
/// Offset of the part of PSTATE that is not stored elsewhere: exception level and stack selection, or a 32-bit program's CPSR.
pub const PSTATE_REST: usize = offset::PSTATE_REST;
/// Offset of a word that is 1 in 64-bit state.
pub const IS_64_BIT: usize = offset::IS_64_BIT;
/// Offset of the condition flags C, V, N, Z, a word each: C is bit 0, V and N are bit 31, Z is set if its word is 0.
const FLAGS: usize = offset::FLAGS;
/// Offset of PSTATE.BTYPE, the kind of branch that was taken last.
const BRANCH_TYPE: usize = offset::BRANCH_TYPE;
/// Offset of the exception masks, in PSTATE's layout.
pub const DAIF: usize = offset::DAIF;
/// Offset of SP_EL0 while another stack pointer is current.
pub const STACK_EL0: usize = offset::STACK_EL0;
/// Offset of SCTLR_EL1.
pub const SCTLR: usize = offset::SCTLR;
/// Offset of TTBR0_EL1: the tables of the lower half.
pub const TTBR0: usize = offset::TTBR0;
/// Offset of TTBR1_EL1: the tables of the upper half.
pub const TTBR1: usize = offset::TTBR1;
/// Offset of TCR_EL1: the layout of both.
pub const TCR: usize = offset::TCR;
/// The bit in TCR_EL1 from which on two bits say which half's addresses have tags.
const TCR_TAGS: u32 = 37;
/// Offset of the syndrome of the exception being reported. Its address follows 8 bytes later.
pub const SYNDROME: usize = offset::SYNDROME;
/// Offset of the address of the access that faulted.
pub const FAULT_ADDRESS: usize = offset::FAULT_ADDRESS;

/// Interrupts are masked.
pub const PSTATE_IRQ_MASKED: u64 = 1 << 7;
/// Debug exceptions are masked.
pub const PSTATE_DEBUG_MASKED: u64 = 1 << 9;
/// PSTATE.SS: the next instruction is single-stepped.
pub const PSTATE_STEP: u32 = 1 << 21;
/// The exception level.
pub const PSTATE_EL: u64 = 3 << 2;
/// PSTATE.nRW: a 32-bit program. The other bits are then those of its CPSR.
pub const PSTATE_NARROW: u64 = 1 << 4;
/// CPSR.T: Thumb code.
pub const CPSR_THUMB: u64 = 1 << 5;
/// The level's own stack pointer is current.
pub const PSTATE_SP_EL: u64 = 1;
/// Condition flags, exception masks, and whether the next instruction is stepped.
const PSTATE_SETTABLE: u64 = 0xf000_03c0 | PSTATE_STEP as u64;
/// The settable bits of a 32-bit program's CPSR: NZCV, Q, GE, the IT state, E, T. The program may not mask exceptions.
const NARROW_SETTABLE: u64 = 0xfe0f_fe20 | PSTATE_STEP as u64;
/// The bits of PSTATE that the core keeps in fields of their own while a 32-bit program runs: NZCV, and the masks A, I and F.
const NARROW_ELSEWHERE: u64 = 0xf000_01c0;
/// PSTATE after an exception or at a kernel's entry: EL1 with its own stack pointer, everything masked.
pub const PSTATE_ENTRY: u64 = 0x3c5;

const fn system(op0: u32, op1: u32, crn: u32, crm: u32, op2: u32) -> SystemRegister {
    SystemRegister { op0, op1, crn, crm, op2 }
}

/// The control register of EL1.
pub const SCTLR_EL1: SystemRegister = system(3, 0, 1, 0, 0);
/// ID_AA64MMFR0_EL1: the supported memory sizes and granules.
pub const ID_MEMORY: SystemRegister = system(3, 0, 0, 7, 0);
/// TPIDR_EL1: the distance from a per-CPU variable to the running CPU's.
pub const PER_CPU: SystemRegister = system(3, 0, 13, 0, 4);
/// Control of translation.
pub const TCR_EL1: SystemRegister = system(3, 0, 2, 0, 2);
/// The control of debugging.
pub const MDSCR_EL1: SystemRegister = system(2, 0, 0, 2, 2);
/// The status that ERET restores.
pub const SPSR_EL1: SystemRegister = system(3, 0, 4, 0, 0);
/// The hypervisor's configuration of EL1.
pub const HCR_EL2: SystemRegister = system(3, 4, 1, 1, 0);
/// The secure monitor's configuration of lower levels.
pub const SCR_EL3: SystemRegister = system(3, 6, 1, 1, 0);

#[rustfmt::skip]
/// The general registers' names and Unicorn's numbers.
pub const NAMES: &[(&str, RegisterARM64)] = &[
    ("x0", RegisterARM64::X0), ("x1", RegisterARM64::X1), ("x2", RegisterARM64::X2), ("x3", RegisterARM64::X3),
    ("x4", RegisterARM64::X4), ("x5", RegisterARM64::X5), ("x6", RegisterARM64::X6), ("x7", RegisterARM64::X7),
    ("x8", RegisterARM64::X8), ("x9", RegisterARM64::X9), ("x10", RegisterARM64::X10), ("x11", RegisterARM64::X11),
    ("x12", RegisterARM64::X12), ("x13", RegisterARM64::X13), ("x14", RegisterARM64::X14), ("x15", RegisterARM64::X15),
    ("x16", RegisterARM64::X16), ("x17", RegisterARM64::X17), ("x18", RegisterARM64::X18), ("x19", RegisterARM64::X19),
    ("x20", RegisterARM64::X20), ("x21", RegisterARM64::X21), ("x22", RegisterARM64::X22), ("x23", RegisterARM64::X23),
    ("x24", RegisterARM64::X24), ("x25", RegisterARM64::X25), ("x26", RegisterARM64::X26), ("x27", RegisterARM64::X27),
    ("x28", RegisterARM64::X28), ("x29", RegisterARM64::X29), ("x30", RegisterARM64::X30),
    ("sp", RegisterARM64::SP), ("pc", RegisterARM64::PC), ("pstate", RegisterARM64::PSTATE),
];

/// Whether the CPU runs a 32-bit program.
#[inline]
pub fn is_narrow(handle: &Handle) -> bool {
    u64::from(handle.live32(PSTATE_REST)) & PSTATE_NARROW != 0
}

/// The number of vector registers.
const VECTORS: u8 = 32;

/// The vector register and its half (0: low) for a number in `isa`'s numbering.
fn vector_half(reg: Reg) -> Option<(u8, usize)> {
    let number = reg.0.checked_sub(abi::V0.0).filter(|number| *number < 2 * VECTORS)?;
    Some((number % VECTORS, usize::from(number / VECTORS)))
}

/// PSTATE, assembled from the fields in which the core stores it.
#[inline]
pub fn pstate(handle: &Handle) -> u64 {
    let [carry_overflow, negative_zero] = handle.live_words(FLAGS);
    let (carry, overflow) = (carry_overflow & 1, carry_overflow >> 63);
    let (negative, zero) = (negative_zero >> 31 & 1, u64::from(negative_zero >> 32 == 0));
    let flags = negative << 31 | zero << 30 | carry << 29 | overflow << 28;
    let branch_type = u64::from(handle.live32(BRANCH_TYPE)) << 10;
    flags | branch_type | handle.live64(DAIF) | u64::from(handle.live32(PSTATE_REST))
}

/// Reads a register in `isa`'s numbering. `pc` is returned for the pc.
#[inline]
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    match reg {
        Reg(number) if number < GENERAL => handle.live64(REGS + 8 * usize::from(number)),
        abi::PSTATE => pstate(handle),
        abi::PC => pc,
        abi::TAGS => handle.live64(TCR) >> TCR_TAGS & 3,
        _ => vector_half(reg).map_or(0, |(number, half)| handle.vector(number)[half]),
    }
}

/// Sets a register in `isa`'s numbering. In PSTATE, only flags, masks and single-step change; the pc does not.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    match reg {
        Reg(number) if number < GENERAL => cpu.set_live64(REGS + 8 * usize::from(number), value),
        abi::PSTATE if is_narrow(&cpu.handle()) => {
            set_narrow_pstate(cpu, pstate(&cpu.handle()) & !NARROW_SETTABLE | value & NARROW_SETTABLE);
        }
        abi::PSTATE => {
            let before = pstate(&cpu.handle());
            cpu.write(RegisterARM64::PSTATE, before & !PSTATE_SETTABLE | value & PSTATE_SETTABLE);
            if (before ^ value) & PSTATE_DEBUG_MASKED != 0 || value & u64::from(PSTATE_STEP) != 0 {
                // A write through the system-register interface makes the core re-evaluate single-stepping.
                cpu.set_system(SPSR_EL1, cpu.handle().system(SPSR_EL1));
            }
        }
        _ => {
            if let Some((number, half)) = vector_half(reg) {
                let mut halves = cpu.handle().vector(number);
                halves[half] = value;
                cpu.set_vector(number, halves);
            }
        }
    }
}

/// Sets PSTATE to that of a 32-bit program. It takes effect when the next run begins.
pub fn set_narrow_pstate(cpu: &TrapContext, value: u64) {
    cpu.write(RegisterARM64::PSTATE, value & NARROW_ELSEWHERE);
    cpu.set_live32(PSTATE_REST, (value & !NARROW_ELSEWHERE) as u32);
}

/// Starts a CPU at this address, with this value in x0.
pub fn start(image: &mut CoreState, _number: usize, entry: u64, argument: u64) {
    image.set64(PC, entry);
    image.set64(REGS, argument);
}

/// The pc in a saved state.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get64(PC)
}

/// Whether interrupts are masked in a saved state.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    image.get64(DAIF) & PSTATE_IRQ_MASKED != 0
}

/// Registers for a report about a dead guest.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let own = NAMES.iter().map(|(name, register)| (*name, handle.read(*register)));
    let system = [
        ("sp_el0", RegisterARM64::SP_EL0),
        ("elr", RegisterARM64::ELR_EL1),
        ("esr", RegisterARM64::ESR_EL1),
        ("far", RegisterARM64::FAR_EL1),
        ("vbar", RegisterARM64::VBAR_EL1),
        ("ttbr0", RegisterARM64::TTBR0_EL1),
        ("ttbr1", RegisterARM64::TTBR1_EL1),
    ];
    own.chain(system.map(|(name, register)| (name, handle.read(register)))).chain([("sctlr", handle.system(SCTLR_EL1))]).collect()
}

/// Writes values through the register interface and reads them at their offsets, and the reverse. The error names the
/// field that differs.
pub fn self_check(cpu: &TrapContext, image: &mut CoreState) -> Result<(), &'static str> {
    for mark in [0xffff_1111_2222_3330, 0x0000_5555_6666_7774] {
        cpu.set_pc(mark);
        for masks in [0, PSTATE_IRQ_MASKED] {
            cpu.write(RegisterARM64::PSTATE, PSTATE_ENTRY & !PSTATE_IRQ_MASKED | masks);
            image.save(cpu.handle());
            if saved_pc(image) != mark || cpu.handle().read(RegisterARM64::PC) != mark {
                return Err("pc");
            }
            if saved_interrupts_off(image) != (masks != 0) {
                return Err("interrupt mask");
            }
        }
    }
    if image.get32(IS_64_BIT) != 1 {
        return Err("width of code");
    }
    check_live_registers(cpu)?;
    check_live_pstate(cpu)
}

/// Checks every register that is accessed by its offset.
fn check_live_registers(cpu: &TrapContext) -> Result<(), &'static str> {
    let handle = cpu.handle();
    let own = NAMES.iter().zip(0..GENERAL).map(|((name, register), number)| (*name, *register, REGS + 8 * usize::from(number)));
    #[rustfmt::skip]
    let system = [
        ("sp_el0", RegisterARM64::SP_EL0, STACK_EL0), ("ttbr0_el1", RegisterARM64::TTBR0_EL1, TTBR0),
        ("ttbr1_el1", RegisterARM64::TTBR1_EL1, TTBR1),
    ];
    for (number, (name, register, offset)) in (1..).zip(own.chain(system)) {
        for mark in [0x1234_5678_9abc_de00 + number, 0xf0f1_f2f3_0000_0000 - number] {
            cpu.write(register, mark);
            let seen = handle.live64(offset);
            cpu.set_live64(offset, !mark);
            if (seen, handle.read(register)) != (mark, !mark) {
                return Err(name);
            }
            cpu.write(register, 0);
        }
    }
    for (name, register, offset) in [("sctlr_el1", SCTLR_EL1, SCTLR), ("tcr_el1", TCR_EL1, TCR)] {
        let before = handle.system(register);
        for mark in [before, before ^ 0x10_0000_0004] {
            cpu.set_system(register, mark);
            if handle.system(register) != mark || handle.live64(offset) != mark {
                return Err(name);
            }
        }
        cpu.set_system(register, before);
    }
    Ok(())
}

/// Checks the assembled PSTATE against Unicorn's.
fn check_live_pstate(cpu: &TrapContext) -> Result<(), &'static str> {
    let handle = cpu.handle();
    let levels = [0, 0x4, 0x5];
    let bits = [28, 29, 30, 31, 6, 7, 8, 9, 10, 11];
    let patterns =
        (0..1u64 << bits.len()).map(|pattern| bits.iter().enumerate().fold(0, |all, (n, bit)| all | (pattern >> n & 1) << bit));
    for wanted in patterns.flat_map(|pattern| levels.map(|level| pattern | level)) {
        cpu.write(RegisterARM64::PSTATE, wanted);
        if pstate(&handle) != wanted || handle.read(RegisterARM64::PSTATE) & 0xffff_ffff != wanted {
            return Err("pstate");
        }
    }
    cpu.write(RegisterARM64::PSTATE, PSTATE_ENTRY);
    Ok(())
}
