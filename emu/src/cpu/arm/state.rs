//! The architectural state: registers in `isa`'s numbering, and offsets of fields in the core's state.

use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::arm::CoprocessorRegister;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::offsets::arm as offset;
use trapline_isa::arm::abi;
use trapline_isa::regs::Reg;
use unicorn_engine_sys::RegisterARM;

/// Offset of the general registers of the current mode.
pub const REGS: usize = offset::REGS;
/// The number of general registers. The pc follows them.
pub const GENERAL: u8 = 15;
/// Offset of the pc, without the Thumb bit.
pub const PC: usize = offset::PC;
/// Offset of the part of CPSR that is not stored elsewhere: the mode.
const CPSR_REST: usize = offset::CPSR_REST;
/// Offset of the condition flags C, V, N, Z, a word each: C is bit 0, V and N are bit 31, Z is set if its word is 0.
/// Then Q as 0 or 1, GE, Thumb as 0 or 1, and the IT state.
const FLAGS: usize = offset::FLAGS;
/// Offset of the exception masks, in CPSR's layout.
pub const MASKS: usize = offset::MASKS;
/// Offset of SCTLR.
pub const CONTROL: usize = offset::CONTROL;
/// Offset of TTBR0.
pub const TABLES_LOW: usize = offset::TABLES_LOW;
/// Offset of TTBR1.
pub const TABLES_HIGH: usize = offset::TABLES_HIGH;
/// Offset of TTBCR, which says how TTBR0 and TTBR1 split the address space.
pub const PARTED: usize = offset::PARTED;
/// Offset of CONTEXTIDR.
pub const ADDRESS_SPACE: usize = offset::ADDRESS_SPACE;
/// Offset of TPIDRURO.
pub const THREAD: usize = offset::THREAD;
/// Offset of DFAR.
pub const FAULT_REGISTER: usize = offset::FAULT_REGISTER;
/// Offset of the syndrome of the exception being reported. Its status and address follow.
pub const SYNDROME: usize = offset::SYNDROME;
/// Offset of the status of the exception being reported, in DFSR's and IFSR's layout.
pub const FAULT_STATUS: usize = offset::FAULT_STATUS;
/// Offset of the address of the access that faulted.
pub const FAULT_ADDRESS: usize = offset::FAULT_ADDRESS;

/// The mode's bits.
pub const CPSR_MODE: u64 = 0x1f;
/// Thumb state.
pub const CPSR_THUMB: u64 = 1 << 5;
/// All exception masks.
const CPSR_MASKS: u64 = 7 << 6;
/// Interrupts are masked.
pub const CPSR_IRQ_MASKED: u64 = 1 << 7;
/// Asynchronous aborts are masked.
pub const CPSR_ABORT_MASKED: u64 = 1 << 8;
/// Data accesses are big-endian.
pub const CPSR_BIG_ENDIAN: u64 = 1 << 9;
/// The IT state, and Jazelle's bit.
pub const CPSR_IT_JAZELLE: u64 = 0x0700_fc00;
/// The bits that a handler or a computed instruction may set: flags, IT state, masks, Thumb.
const CPSR_SETTABLE: u64 = 0xfe0f_fde0;

/// User mode, as in the status register. The other modes follow.
pub const USER: u64 = 0x10;
/// Interrupt mode.
pub const IRQ: u64 = 0x12;
/// Supervisor mode, in which the kernel runs.
pub const SUPERVISOR: u64 = 0x13;
/// Abort mode.
pub const ABORT: u64 = 0x17;
/// Undefined mode.
pub const UNDEFINED: u64 = 0x1b;
/// Fast interrupt mode.
pub const FAST: u64 = 0x11;
/// System mode: privileged, with the registers of user mode.
pub const SYSTEM: u64 = 0x1f;
/// All modes in use here.
pub(super) const MODES: [u64; 7] = [USER, FAST, IRQ, ABORT, UNDEFINED, SYSTEM, SUPERVISOR];

pub(super) const fn cp15(crn: u32, opc1: u32, crm: u32, opc2: u32) -> CoprocessorRegister {
    CoprocessorRegister { cp: 15, crn, opc1, crm, opc2 }
}

/// The control register.
pub const SCTLR: CoprocessorRegister = cp15(1, 0, 0, 0);
/// The vectors are at 0xffff0000.
pub const SCTLR_HIGH_VECTORS: u64 = 1 << 13;
/// Exceptions are taken in big-endian state.
pub const SCTLR_EXCEPTION_ENDIAN: u64 = 1 << 25;
/// Exceptions are taken in Thumb state.
pub const SCTLR_THUMB_EXCEPTIONS: u64 = 1 << 30;
/// The base of the vectors if they are not high.
pub const VBAR: CoprocessorRegister = cp15(12, 0, 0, 0);
/// The page tables of the low part of the address space, or of all of it.
pub const TTBR0: CoprocessorRegister = cp15(2, 0, 0, 0);
/// The page tables of the upper part of the address space.
pub const TTBR1: CoprocessorRegister = cp15(2, 0, 0, 1);
/// The split of the address space between TTBR0 and TTBR1.
pub const TTBCR: CoprocessorRegister = cp15(2, 0, 0, 2);
/// The status of a data fault.
pub const DFSR: CoprocessorRegister = cp15(5, 0, 0, 0);
/// The status of a fetch fault.
pub const IFSR: CoprocessorRegister = cp15(5, 0, 0, 1);
/// The address of a data fault.
pub const DFAR: CoprocessorRegister = cp15(6, 0, 0, 0);
/// The address of a fetch fault.
pub const IFAR: CoprocessorRegister = cp15(6, 0, 0, 2);
/// The ASID.
pub const CONTEXTIDR: CoprocessorRegister = cp15(13, 0, 0, 1);
/// A register that is read-only for user code. Linux stores the running task in it.
pub const TPIDRURO: CoprocessorRegister = cp15(13, 0, 0, 3);

#[rustfmt::skip]
pub(super) const NAMES: &[(&str, RegisterARM)] = &[
    ("r0", RegisterARM::R0), ("r1", RegisterARM::R1), ("r2", RegisterARM::R2), ("r3", RegisterARM::R3),
    ("r4", RegisterARM::R4), ("r5", RegisterARM::R5), ("r6", RegisterARM::R6), ("r7", RegisterARM::R7),
    ("r8", RegisterARM::R8), ("r9", RegisterARM::R9), ("r10", RegisterARM::R10), ("fp", RegisterARM::R11),
    ("ip", RegisterARM::R12), ("sp", RegisterARM::SP), ("lr", RegisterARM::LR), ("pc", RegisterARM::PC),
    ("cpsr", RegisterARM::CPSR),
];

/// The number of vector registers.
pub const VECTORS: u8 = 32;

/// The vector register with this number in `isa`'s numbering.
fn vector(reg: Reg) -> Option<u8> {
    reg.0.checked_sub(abi::D0.0).filter(|number| *number < VECTORS)
}

/// CPSR, assembled from the fields in which the core stores it.
#[inline]
pub fn cpsr(handle: &Handle) -> u64 {
    let [carry_overflow, negative_zero, saturated_ge, thumb_it] = handle.live_words(FLAGS);
    let (carry, overflow) = (carry_overflow & 1, carry_overflow >> 63);
    let (negative, zero) = (negative_zero >> 31 & 1, u64::from(negative_zero >> 32 == 0));
    let (saturated, ge) = (saturated_ge & 1, saturated_ge >> 32);
    let (thumb, it) = (thumb_it & 1, thumb_it >> 32);
    let flags = negative << 31 | zero << 30 | carry << 29 | overflow << 28 | saturated << 27 | ge << 16;
    let block = (it & 3) << 25 | (it & 0xfc) << 8;
    flags | block | thumb << 5 | handle.live64(MASKS) & CPSR_MASKS | u64::from(handle.live32(CPSR_REST))
}

/// The mode, in CPSR's layout.
#[inline]
pub fn mode(handle: &Handle) -> u64 {
    u64::from(handle.live32(CPSR_REST)) & CPSR_MODE
}

/// Reads a register in `isa`'s numbering. `pc` is returned for the pc.
#[inline]
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    match reg {
        Reg(number) if number < GENERAL => handle.live32(REGS + 4 * usize::from(number)).into(),
        abi::PC => pc,
        abi::CPSR => cpsr(handle),
        _ => vector(reg).map_or(0, |number| handle.double(number)),
    }
}

/// Sets a register in `isa`'s numbering. The mode in CPSR and the pc are not changed.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    match reg {
        Reg(number) if number < GENERAL => cpu.set_live32(REGS + 4 * usize::from(number), value as u32),
        abi::CPSR => {
            let kept = cpsr(&cpu.handle()) & !CPSR_SETTABLE;
            cpu.write(RegisterARM::CPSR, kept | value & CPSR_SETTABLE);
        }
        _ => {
            if let Some(number) = vector(reg) {
                cpu.set_double(number, value);
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
    image.get64(MASKS) & CPSR_IRQ_MASKED != 0
}

/// Registers for a report about a dead guest.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let system = [("sctlr", SCTLR), ("ttbr0", TTBR0), ("dfar", DFAR), ("dfsr", DFSR), ("ifar", IFAR), ("ifsr", IFSR)];
    let own = NAMES.iter().chain(&[("fpscr", RegisterARM::FPSCR)]).map(|(name, register)| (*name, handle.read(*register)));
    own.chain(system.map(|(name, register)| (name, handle.coprocessor(register)))).collect()
}

/// Writes values through the register interface and reads them at their offsets, and the reverse. The error names the
/// field that differs.
pub fn self_check(cpu: &TrapContext, image: &mut CoreState) -> Result<(), &'static str> {
    for mark in [0x1111_2220, 0x8555_6664] {
        for masks in [0, CPSR_IRQ_MASKED] {
            cpu.write(RegisterARM::CPSR, SUPERVISOR | masks);
            cpu.set_pc(mark);
            image.save(cpu.handle());
            if saved_pc(image) != mark || cpu.handle().read(RegisterARM::PC) != mark {
                return Err("pc");
            }
            if saved_interrupts_off(image) != (masks != 0) {
                return Err("interrupt mask");
            }
        }
    }
    for mode in MODES {
        cpu.write(RegisterARM::CPSR, mode);
        check_live_registers(cpu)?;
        check_live_cpsr(cpu, mode)?;
    }
    check_live_control(cpu)
}

/// Checks the general registers of the current mode.
fn check_live_registers(cpu: &TrapContext) -> Result<(), &'static str> {
    let handle = cpu.handle();
    for (number, (name, register)) in (0..GENERAL).zip(NAMES) {
        let offset = REGS + 4 * usize::from(number);
        for mark in [0x8765_4300 + u32::from(number), 0x1234_5678 - u32::from(number)] {
            cpu.write(*register, mark.into());
            let seen = handle.live32(offset);
            cpu.set_live32(offset, !mark);
            if (seen, handle.read(*register)) != (mark, u64::from(!mark)) {
                return Err(name);
            }
            cpu.write(*register, 0);
        }
    }
    Ok(())
}

/// Checks the assembled CPSR against Unicorn's.
fn check_live_cpsr(cpu: &TrapContext, mode: u64) -> Result<(), &'static str> {
    let handle = cpu.handle();
    let flags = (0..16).map(|flags| flags << 28);
    let others = (5..=26).chain([27]).filter(|bit| !matches!(bit, 20..=24)).map(|bit| 1 << bit);
    for wanted in flags.chain(others).flat_map(|bits| [bits, bits ^ CPSR_SETTABLE]) {
        cpu.write(RegisterARM::CPSR, wanted | mode);
        if cpsr(&handle) != handle.read(RegisterARM::CPSR) || self::mode(&handle) != mode {
            return Err("cpsr");
        }
    }
    cpu.write(RegisterARM::CPSR, mode);
    Ok(())
}

/// Checks the system registers that are read by their offsets.
fn check_live_control(cpu: &TrapContext) -> Result<(), &'static str> {
    #[rustfmt::skip]
    let fields = [
        ("sctlr", SCTLR, CONTROL, 1 << 13), ("ttbr0", TTBR0, TABLES_LOW, 0x4123_4000), ("ttbr1", TTBR1, TABLES_HIGH, 0x4567_8000),
        ("ttbcr", TTBCR, PARTED, 7), ("tpidruro", TPIDRURO, THREAD, 0x89ab_cdef), ("dfar", DFAR, FAULT_REGISTER, 0x7654_3210),
        ("contextidr", CONTEXTIDR, ADDRESS_SPACE, 0x1357_9bdf),
    ];
    for (name, register, offset, change) in fields {
        let before = cpu.handle().coprocessor(register);
        for mark in [before, before ^ change] {
            cpu.set_coprocessor(register, mark);
            if cpu.handle().coprocessor(register) != mark || u64::from(cpu.handle().live32(offset)) != mark {
                return Err(name);
            }
        }
        cpu.set_coprocessor(register, before);
    }
    Ok(())
}
