//! The named architectural state: registers by the numbers of `isa`, and where fields lie in the core's image.

use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::kinds::CoprocessorRegister;
use crate::unicorn::surgery::Image;
use std::sync::LazyLock;
use trapline_isa::arm::abi;
use trapline_isa::regs::Reg;
use unicorn_engine_sys::RegisterARM;

/// The pc, without the bit that says Thumb.
pub const PC: usize = 60;
/// The exception masks, as in CPSR.
pub const MASKS: usize = 560;
/// The exception being reported: its syndrome, its status as in DFSR and IFSR, its address.
pub const SYNDROME: usize = 0xbd0;
/// As in DFSR and IFSR.
pub const FAULT_STATUS: usize = SYNDROME + 4;
/// The address of the access that faulted.
pub const FAULT_ADDRESS: usize = SYNDROME + 8;

/// The mode.
pub const CPSR_MODE: u64 = 0x1f;
/// Thumb code runs.
pub const CPSR_THUMB: u64 = 1 << 5;
/// Interrupts are masked.
pub const CPSR_IRQ_MASKED: u64 = 1 << 7;
/// Asynchronous aborts are masked.
pub const CPSR_ABORT_MASKED: u64 = 1 << 8;
/// Data accesses are big-endian.
pub const CPSR_BIG_ENDIAN: u64 = 1 << 9;
/// The state of an IT block, and Jazelle's bit.
pub const CPSR_IT_JAZELLE: u64 = 0x0700_fc00;
/// What a handler or a computed instruction may set: flags, the IT block's state, masks, Thumb.
const CPSR_SETTABLE: u64 = 0xfe0f_fde0;

/// Modes.
pub const USER: u64 = 0x10;
/// Interrupts.
pub const IRQ: u64 = 0x12;
/// The kernel.
pub const SUPERVISOR: u64 = 0x13;
/// Aborts.
pub const ABORT: u64 = 0x17;
/// Undefined instructions.
pub const UNDEFINED: u64 = 0x1b;

pub(super) const fn cp15(crn: u32, opc1: u32, crm: u32, opc2: u32) -> CoprocessorRegister {
    CoprocessorRegister { cp: 15, crn, opc1, crm, opc2 }
}

/// Control.
pub const SCTLR: CoprocessorRegister = cp15(1, 0, 0, 0);
/// The vectors are at 0xffff0000.
pub const SCTLR_HIGH_VECTORS: u64 = 1 << 13;
/// Exceptions are taken in big-endian state.
pub const SCTLR_EXCEPTION_ENDIAN: u64 = 1 << 25;
/// Exceptions are taken in Thumb state.
pub const SCTLR_THUMB_EXCEPTIONS: u64 = 1 << 30;
/// The vectors, when they are not high.
pub const VBAR: CoprocessorRegister = cp15(12, 0, 0, 0);
/// Translation tables of the low part of the address space, or of all of it.
pub const TTBR0: CoprocessorRegister = cp15(2, 0, 0, 0);
/// Translation tables of the rest.
pub const TTBR1: CoprocessorRegister = cp15(2, 0, 0, 1);
/// How the address space is parted.
pub const TTBCR: CoprocessorRegister = cp15(2, 0, 0, 2);
/// Status of a data fault.
pub const DFSR: CoprocessorRegister = cp15(5, 0, 0, 0);
/// Status of a fetch fault.
pub const IFSR: CoprocessorRegister = cp15(5, 0, 0, 1);
/// Address of a data fault.
pub const DFAR: CoprocessorRegister = cp15(6, 0, 0, 0);
/// Address of a fetch fault.
pub const IFAR: CoprocessorRegister = cp15(6, 0, 0, 2);
/// A register that user code may only read; kernels keep the running task in it.
pub const TPIDRURO: CoprocessorRegister = cp15(13, 0, 0, 3);

#[rustfmt::skip]
const NAMES: &[(&str, RegisterARM)] = &[
    ("r0", RegisterARM::R0), ("r1", RegisterARM::R1), ("r2", RegisterARM::R2), ("r3", RegisterARM::R3),
    ("r4", RegisterARM::R4), ("r5", RegisterARM::R5), ("r6", RegisterARM::R6), ("r7", RegisterARM::R7),
    ("r8", RegisterARM::R8), ("r9", RegisterARM::R9), ("r10", RegisterARM::R10), ("fp", RegisterARM::R11),
    ("ip", RegisterARM::R12), ("sp", RegisterARM::SP), ("lr", RegisterARM::LR), ("pc", RegisterARM::PC),
    ("cpsr", RegisterARM::CPSR),
];

/// The core's registers by the numbers of `isa`.
static REGISTERS: LazyLock<[RegisterARM; 256]> = LazyLock::new(|| {
    let mut table = [RegisterARM::INVALID; 256];
    for (name, reg) in abi::AAPCS.names {
        if let Some((_, register)) = NAMES.iter().find(|(known, _)| known == name) {
            table[usize::from(reg.0)] = *register;
        }
    }
    table
});

/// How many vector registers there are.
pub const VECTORS: u8 = 32;

/// Which vector register a number means.
fn vector(reg: Reg) -> Option<u8> {
    reg.0.checked_sub(abi::D0.0).filter(|number| *number < VECTORS)
}

/// Reads a register of `isa`'s numbering; the pc is the one given.
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    match REGISTERS[usize::from(reg.0)] {
        RegisterARM::INVALID => vector(reg).map_or(0, |number| handle.double(number)),
        RegisterARM::PC => pc,
        register => handle.read(register),
    }
}

/// Sets a register of `isa`'s numbering; of CPSR not the mode, and the pc not at all.
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    match REGISTERS[usize::from(reg.0)] {
        RegisterARM::INVALID => {
            if let Some(number) = vector(reg) {
                cpu.set_double(number, value);
            }
        }
        RegisterARM::PC => {}
        RegisterARM::CPSR => {
            let kept = cpu.handle().read(RegisterARM::CPSR) & !CPSR_SETTABLE;
            cpu.write(RegisterARM::CPSR, kept | value & CPSR_SETTABLE);
        }
        register => cpu.write(register, value),
    }
}

/// The pc of a CPU that another one has displaced from the core.
pub fn saved_pc(image: &Image) -> u64 {
    image.get32(PC).into()
}

/// Whether such a CPU has interrupts off.
pub fn saved_interrupts_off(image: &Image) -> bool {
    image.get64(MASKS) & CPSR_IRQ_MASKED != 0
}

/// Everything that a person wants to see of a CPU that has died.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let system = [("sctlr", SCTLR), ("ttbr0", TTBR0), ("dfar", DFAR), ("dfsr", DFSR), ("ifar", IFAR), ("ifsr", IFSR)];
    let own = NAMES.iter().chain(&[("fpscr", RegisterARM::FPSCR)]).map(|(name, register)| (*name, handle.read(*register)));
    own.chain(system.map(|(name, register)| (name, handle.coprocessor(register)))).collect()
}

/// Writes known values one way and looks for them the other; the error names the field that is not where it should be.
pub fn self_check(cpu: &TrapContext, image: &mut Image) -> Result<(), &'static str> {
    for mark in [0x1111_2220, 0x8555_6664] {
        for masks in [0, CPSR_IRQ_MASKED] {
            cpu.write(RegisterARM::CPSR, SUPERVISOR | masks);
            cpu.set_pc(mark);
            image.save(cpu.handle());
            if saved_pc(image) != mark {
                return Err("pc");
            }
            if saved_interrupts_off(image) != (masks != 0) {
                return Err("interrupt mask");
            }
        }
    }
    Ok(())
}
