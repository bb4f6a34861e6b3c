//! Registers by the numbers of `isa`, and where they lie in the core's state.

use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::mips::Place;
use crate::unicorn::surgery::CoreState;
use trapline_isa::mips::abi;
use trapline_isa::regs::Reg;

/// How many general registers there are; they come first in the state.
pub const GENERAL: u8 = 32;
/// The pc, where registers have 32 bits.
pub const PC_32: usize = 128;
/// The pc, where they have 64.
pub const PC_64: usize = 256;

/// Interrupts are let in.
pub const STATUS_IE: u64 = 1;
/// An exception is being handled.
pub const STATUS_EXL: u64 = 1 << 1;
/// An error is.
pub const STATUS_ERL: u64 = 1 << 2;
/// Which interrupts are let in.
pub const STATUS_MASK: u64 = 0xff00;
/// Addresses of 64 bits in the kernel.
pub const STATUS_KX: u64 = 1 << 7;
/// The system coprocessor may be used.
pub const STATUS_CU0: u64 = 1 << 28;
/// What comes by a pin: all that can wait but the two that software asks for, and the word that Compare asks.
pub const CAUSE_PINS: u64 = 0xfc00 | 1 << 30;
/// The flags of the core for the privilege of the code that runs: 0 is the kernel's.
pub const FLAGS_PRIVILEGE: u64 = 3;
/// Those for a branch in whose delay slot the CPU is.
pub const FLAGS_BRANCH: u64 = 0x87_f800;

/// Where a special register lies.
fn place(reg: Reg) -> Option<Place> {
    Some(match reg {
        abi::STATUS => Place::Status,
        abi::HI => Place::Hi,
        abi::LO => Place::Lo,
        abi::BADVADDR => Place::BadVAddr,
        abi::CAUSE => Place::Cause,
        _ => return None,
    })
}

/// Reads a register of `isa`'s numbering; the pc is the one given.
#[inline]
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    match reg {
        Reg(number) if number < GENERAL => general(handle, number),
        abi::EPC => pc,
        _ => place(reg).map_or(0, |place| handle.at_place(place)),
    }
}

#[inline]
fn general(handle: &Handle, number: u8) -> u64 {
    let value = handle.general(number).unwrap_or(0);
    if handle.is_wide() { value } else { value & 0xffff_ffff }
}

/// Sets a register of `isa`'s numbering; what says how exceptions went not at all.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    match reg {
        Reg(0) => {}
        Reg(number) if number < GENERAL => match cpu.handle().is_wide() {
            true => cpu.set_live64(8 * usize::from(number), value),
            false => cpu.set_live32(4 * usize::from(number), value as u32),
        },
        abi::STATUS => cpu.set_status(value),
        abi::HI => cpu.set_place(Place::Hi, value),
        abi::LO => cpu.set_place(Place::Lo, value),
        _ => {}
    }
}

/// A state with registers of 64 bits has more bytes than this, one with 32 less.
const BYTES_OF_WIDE: usize = 14_000;
/// Status in a state with 32 and with 64 bits.
pub const STATUS_IN: [usize; 2] = [1340, 1676];

/// The pc of a CPU that another one has displaced from the core.
pub fn saved_pc(image: &CoreState) -> u64 {
    if image.len() > BYTES_OF_WIDE { image.get64(PC_64) } else { image.get32(PC_32).into() }
}

/// Whether such a CPU has interrupts off.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    interrupts_are_off(image.get32(STATUS_IN[usize::from(image.len() > BYTES_OF_WIDE)]).into())
}

/// Whether interrupts are off with this Status.
pub fn interrupts_are_off(status: u64) -> bool {
    status & (STATUS_IE | STATUS_EXL | STATUS_ERL) != STATUS_IE
}

/// Everything that a person wants to see of a CPU that has died.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    const NAMES: [&str; 32] = [
        "zero", "at", "v0", "v1", "a0", "a1", "a2", "a3", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "s0", "s1", "s2", "s3",
        "s4", "s5", "s6", "s7", "t8", "t9", "k0", "k1", "gp", "sp", "fp", "ra",
    ];
    let general = NAMES.iter().zip(0..).map(|(name, number)| (*name, general(handle, number)));
    let system = [
        ("pc", None),
        ("status", Some(Place::Status)),
        ("cause", Some(Place::Cause)),
        ("epc", Some(Place::Epc)),
        ("badvaddr", Some(Place::BadVAddr)),
        ("entryhi", Some(Place::EntryHi)),
    ];
    general.chain(system.map(|(name, place)| (name, place.map_or_else(|| handle.pc(), |place| handle.at_place(place))))).collect()
}
