//! The named architectural state: registers by the numbers of `isa`, and where fields lie in the core's state.

use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::surgery::CoreState;
use trapline_isa::regs::Reg;
use trapline_isa::s390::abi;
use unicorn_engine_sys::RegisterS390X;

/// The general registers.
pub const REGS: usize = 0;
/// How many these are.
pub const GENERAL: u8 = 16;
/// The condition code, or how it is to be worked out.
const CONDITION: usize = 760;
/// The mask of the PSW; the condition code in it is an old one.
pub const MASK: usize = 784;
/// The address in the PSW.
pub const PC: usize = 792;
/// An instruction that EXECUTE is about to execute; 0: none.
pub const EXECUTED: usize = 824;
/// The prefix: where the lowcore of this CPU lies.
pub const PREFIX: usize = 840;
/// The program interruption being reported.
pub const PROGRAM_CODE: usize = 848;
/// Bytes of the instruction that has raised it.
pub const PROGRAM_LENGTH: usize = 852;
/// The number of the system call being reported.
pub const CALL_NUMBER: usize = 856;
/// Bytes of the instruction that has made it.
pub const CALL_LENGTH: usize = 860;
/// What was recorded last: the address of the instruction, and why; 0: nothing.
pub const RECORDED_ADDRESS: usize = 864;
/// Two bytes.
pub const RECORDED: usize = 872;
/// The control registers.
pub const CONTROL: usize = 880;

/// The control register that says what is recorded.
pub const CONTROL_RECORDING: usize = CONTROL + 8 * 9;
/// In it: each instruction that is fetched.
pub const RECORDS_FETCHES: u64 = 1 << 30;

/// What control register 9 asks for is recorded.
pub const RECORDS: u64 = 1 << 62;
/// Addresses are translated.
pub const TRANSLATES: u64 = 1 << 58;
/// Interrupts of channels are let in.
const LETS_CHANNELS_IN: u64 = 1 << 57;
/// External interrupts are let in, of the kinds that control register 0 says.
pub const LETS_IN: u64 = 1 << 56;
/// Machine checks are let in.
const LETS_CHECKS_IN: u64 = 1 << 50;
/// Anything may end a wait.
pub const LETS_ANY_IN: u64 = LETS_CHANNELS_IN | LETS_IN | LETS_CHECKS_IN;
/// The CPU waits.
pub const WAITS: u64 = 1 << 49;
/// A program of the user's runs.
pub const PROBLEM: u64 = 1 << 48;
/// By which tables addresses are translated; none of these bits: those of the primary space, the program's.
pub const SPACE: u64 = 3 << 46;
/// Those of the secondary space.
pub const SECONDARY: u64 = 2 << 46;
/// Those of the home space, which is the kernel's.
pub const HOME: u64 = 3 << 46;
/// 64-bit mode.
pub const WIDE: u64 = 3 << 31;
/// What no PSW has.
const NEVER: u64 = 0xb808_007e_7fff_ffff;
/// The condition code in the mask.
const CC_BIT: u32 = 44;
const CC: u64 = 3 << CC_BIT;

/// The condition code, 0 to 3. Behind most instructions the core keeps what it follows from instead, and works it out
/// when it is asked.
#[inline]
pub fn condition(handle: &Handle) -> u64 {
    match handle.live32(CONDITION) {
        known @ 0..=3 => known.into(),
        _ => handle.read(RegisterS390X::PSWM) >> CC_BIT & 3,
    }
}

/// The mask of the PSW without the condition code.
#[inline]
pub fn mask(handle: &Handle) -> u64 {
    handle.live64(MASK) & !CC
}

/// Whether a CPU can go on with a PSW of this mask.
pub fn is_sound(mask: u64) -> bool {
    // The wider of the two modes' bits does not stand alone.
    mask & NEVER == 0 && mask & WIDE != 1 << 32
}

/// Loads the PSW.
pub fn set_psw(cpu: &TrapContext, mask: u64, address: u64) {
    cpu.write(RegisterS390X::PSWM, mask);
    cpu.set_pc(address);
}

/// Reads a register of `isa`'s numbering; none of them is the pc.
#[inline]
pub fn get(handle: &Handle, reg: Reg, _pc: u64) -> u64 {
    match reg {
        Reg(number) if number < GENERAL => handle.live64(REGS + 8 * usize::from(number)),
        abi::MASK => mask(handle),
        abi::CC => condition(handle),
        _ => 0,
    }
}

/// Sets one; the mask not at all.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    match reg {
        Reg(number) if number < GENERAL => cpu.set_live64(REGS + 8 * usize::from(number), value),
        abi::CC => cpu.set_live32(CONDITION, value as u32 & 3),
        _ => {}
    }
}

/// The pc of a CPU that another one has displaced from the core.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get64(PC)
}

/// Whether such a CPU has interrupts off.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    image.get64(MASK) & LETS_IN == 0
}

/// Everything that a person wants to see of a CPU that has died.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let own = abi::ELF.names.iter().map(|(name, reg)| (*name, get(handle, *reg, 0)));
    let psw = [("psw.mask", handle.read(RegisterS390X::PSWM)), ("psw.addr", handle.pc()), ("prefix", handle.live64(PREFIX))];
    let control = [("cr0", 0), ("cr1", 1), ("cr13", 13)].map(|(name, number)| (name, handle.live64(CONTROL + 8 * number)));
    own.chain(psw).chain(control).collect()
}

/// Writes known values one way and looks for them the other; the error names the field that is not where it should be.
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
