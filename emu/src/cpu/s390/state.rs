//! The architectural state: registers in `isa`'s numbering, and offsets of fields in the core's state.

use crate::cpu::{Layout, Word};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::offsets::s390x as offset;
use trapline_isa::arch::Isa;
use trapline_isa::regs::Reg;
use trapline_isa::s390::abi;
use unicorn_engine_sys::RegisterS390X;

/// Offset of the general registers.
pub const REGS: usize = offset::REGS;
/// The number of general registers.
pub const GENERAL: u8 = 16;
/// Offset of the condition code, or of the operation that determines it.
const CONDITION: usize = offset::CONDITION;
/// Offset of the PSW mask. The condition code in it is outdated.
pub const MASK: usize = offset::MASK;
/// Offset of the PSW address.
pub const PC: usize = offset::PC;
/// Offset of the instruction that EXECUTE is about to execute; 0 if there is none.
pub const EXECUTED: usize = offset::EXECUTED;
/// Offset of the prefix register: the address of the CPU's lowcore.
pub const PREFIX: usize = offset::PREFIX;
/// Offset of the program interruption being reported.
pub const PROGRAM_CODE: usize = offset::PROGRAM_CODE;
/// Offset of the length of the instruction that raised it.
pub const PROGRAM_LENGTH: usize = offset::PROGRAM_LENGTH;
/// Offset of the number of the system call being reported.
pub const CALL_NUMBER: usize = offset::CALL_NUMBER;
/// Offset of the length of the instruction that made it.
pub const CALL_LENGTH: usize = offset::CALL_LENGTH;
/// Offset of the address of the last PER event.
pub const RECORDED_ADDRESS: usize = offset::RECORDED_ADDRESS;
/// Offset of the kind of the last PER event, two bytes; 0 if there is none.
pub const RECORDED: usize = offset::RECORDED;
/// Offset of the control registers.
pub const CONTROL: usize = offset::CONTROL;

/// Offset of control register 9, which selects PER events.
pub const CONTROL_RECORDING: usize = CONTROL + 8 * 9;
/// The bit of control register 9 for instruction fetches.
pub const RECORDS_FETCHES: u64 = 1 << 30;

/// PSW: PER is enabled.
pub const RECORDS: u64 = 1 << 62;
/// PSW: DAT is on, so addresses are translated.
pub const TRANSLATES: u64 = 1 << 58;
/// PSW: channel (I/O) interrupts are enabled.
pub const LETS_CHANNELS_IN: u64 = 1 << 57;
/// PSW: external interrupts are enabled, those that control register 0 selects.
pub const LETS_IN: u64 = 1 << 56;
/// PSW: machine checks are enabled.
const LETS_CHECKS_IN: u64 = 1 << 50;
/// Any of the bits for interrupts that can end a wait.
pub const LETS_ANY_IN: u64 = LETS_CHANNELS_IN | LETS_IN | LETS_CHECKS_IN;
/// PSW: the CPU waits.
pub const WAITS: u64 = 1 << 49;
/// PSW: problem state, a user program runs.
pub const PROBLEM: u64 = 1 << 48;
/// PSW: the bits that select the address space. Both are 0 for the primary space.
pub const SPACE: u64 = 3 << 46;
/// PSW: the secondary space.
pub const SECONDARY: u64 = 2 << 46;
/// PSW: the home space, which is the kernel's.
pub const HOME: u64 = 3 << 46;
/// 64-bit mode.
pub const WIDE: u64 = 3 << 31;
/// Bits that are 0 in every valid PSW.
const NEVER: u64 = 0xb808_007e_7fff_ffff;
/// The position of the condition code in the PSW mask.
const CC_BIT: u32 = 44;
const CC: u64 = 3 << CC_BIT;

/// The condition code, 0 to 3. After most instructions the core stores the operation instead, and computes the code
/// when asked.
#[inline]
pub fn condition(handle: &Handle) -> u64 {
    match handle.live32(CONDITION) {
        known @ 0..=3 => known.into(),
        _ => handle.read(RegisterS390X::PSWM) >> CC_BIT & 3,
    }
}

/// The PSW mask without the condition code.
#[inline]
pub fn mask(handle: &Handle) -> u64 {
    handle.live64(MASK) & !CC
}

/// Whether a PSW mask is valid.
pub fn is_sound(mask: u64) -> bool {
    // The bit for 64-bit mode alone is not a valid mode.
    mask & NEVER == 0 && mask & WIDE != 1 << 32
}

/// Loads the PSW.
pub fn set_psw(cpu: &TrapContext, mask: u64, address: u64) {
    cpu.write(RegisterS390X::PSWM, mask);
    cpu.set_pc(address);
}

/// Reads a register in `isa`'s numbering. The pc is not among them.
#[inline]
pub fn get(handle: &Handle, reg: Reg, _pc: u64) -> u64 {
    match reg {
        Reg(number) if number < GENERAL => handle.live64(REGS + 8 * usize::from(number)),
        abi::MASK => mask(handle),
        abi::CC => condition(handle),
        _ => 0,
    }
}

/// Sets a register. The PSW mask is not changed.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    match reg {
        Reg(number) if number < GENERAL => cpu.set_live64(REGS + 8 * usize::from(number), value),
        abi::CC => cpu.set_live32(CONDITION, value as u32 & 3),
        _ => {}
    }
}

/// The pc in a saved state.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get64(PC)
}

/// Whether interrupts are masked in a saved state.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    image.get64(MASK) & (LETS_IN | LETS_CHANNELS_IN) == 0
}

/// Restarts a CPU at this address. The argument is the mask of the new PSW with the prefix in its lower half.
pub fn start(image: &mut CoreState, _number: usize, entry: u64, argument: u64) {
    const PREFIX_BITS: u64 = 0x7fff_ffff;
    image.set64(MASK, argument & !PREFIX_BITS);
    image.set64(PC, entry);
    image.set64(PREFIX, argument & PREFIX_BITS);
    image.set32(CONDITION, 0);
}

/// Registers for a report about a dead guest.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let own = abi::ELF.names.iter().map(|(name, reg)| (*name, get(handle, *reg, 0)));
    let psw = [("psw.mask", handle.read(RegisterS390X::PSWM)), ("psw.addr", handle.pc()), ("prefix", handle.live64(PREFIX))];
    let control = [("cr0", 0), ("cr1", 1), ("cr13", 13)].map(|(name, number)| (name, handle.live64(CONTROL + 8 * number)));
    own.chain(psw).chain(control).collect()
}

/// Writes values through the register interface and reads them at their offsets, and the reverse. The error names the
/// field that differs.
pub fn self_check(cpu: &TrapContext) -> Result<(), &'static str> {
    let handle = cpu.handle();
    for (number, register) in (0..).zip(GENERALS) {
        for mark in [0x1234_5678_9abc_de00 + u64::from(number), 0xf0f1_f2f3_0000_0000 - u64::from(number)] {
            cpu.write(register, mark);
            let seen = get(&handle, Reg(number), 0);
            set(cpu, Reg(number), !mark);
            if (seen, handle.read(register)) != (mark, !mark) {
                return Err("general registers");
            }
            cpu.write(register, 0);
        }
    }
    for (number, register) in [(0, RegisterS390X::CR0), (1, RegisterS390X::CR1), (13, RegisterS390X::CR13)] {
        let before = handle.read(register);
        cpu.write(register, before ^ 0x5a00);
        let seen = handle.live64(CONTROL + 8 * number);
        cpu.write(register, before);
        if seen != before ^ 0x5a00 {
            return Err("control registers");
        }
    }
    for wanted in [PROBLEM | WIDE, TRANSLATES | HOME | WIDE, WIDE] {
        for cc in 0..4 {
            cpu.write(RegisterS390X::PSWM, wanted | cc << CC_BIT);
            let seen = (mask(&handle), condition(&handle));
            set(cpu, abi::CC, cc ^ 1);
            if seen != (wanted, cc) || handle.read(RegisterS390X::PSWM) != wanted | (cc ^ 1) << CC_BIT {
                return Err("the PSW");
            }
        }
    }
    cpu.set_pc(0x1_2345_6788);
    if handle.read(RegisterS390X::PC) != 0x1_2345_6788 {
        return Err("the address in the PSW");
    }
    Ok(())
}

#[rustfmt::skip]
const GENERALS: [RegisterS390X; GENERAL as usize] = [
    RegisterS390X::R0, RegisterS390X::R1, RegisterS390X::R2, RegisterS390X::R3, RegisterS390X::R4, RegisterS390X::R5, RegisterS390X::R6,
    RegisterS390X::R7, RegisterS390X::R8, RegisterS390X::R9, RegisterS390X::R10, RegisterS390X::R11, RegisterS390X::R12, RegisterS390X::R13,
    RegisterS390X::R14, RegisterS390X::R15,
];

/// The registers of core dumps: the PSW, general registers, access registers (which the kernel does not use) and
/// `orig_gpr2`.
pub fn core_layout(isa: &Isa) -> Layout {
    let general = (0..GENERAL).map(|number| Word::Of(abi::r(number)));
    Layout::words(isa, [Word::Of(abi::MASK), Word::Pc].into_iter().chain(general), 0).with_room(16 * 4 + 8)
}
