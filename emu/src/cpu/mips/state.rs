//! Registers in `isa`'s numbering, and their offsets in the core's state.

use crate::cpu::{Layout, Word};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::mips::Place;
use crate::unicorn::engine::{Handle, TrapContext};
use trapline_isa::arch::Isa;
use trapline_isa::mips::abi;
use trapline_isa::regs::Reg;

/// The number of general registers. They come first in the state.
pub const GENERAL: u8 = 32;
/// Offset of the pc on 32-bit cores.
pub const PC_32: usize = 128;
/// Offset of the pc on 64-bit cores.
pub const PC_64: usize = 256;

/// Interrupts are enabled.
pub const STATUS_IE: u64 = 1;
/// Exception level: an exception is being handled.
pub const STATUS_EXL: u64 = 1 << 1;
/// Error level: an error is being handled.
pub const STATUS_ERL: u64 = 1 << 2;
/// The interrupt mask.
pub const STATUS_MASK: u64 = 0xff00;
/// 64-bit addresses in kernel mode.
pub const STATUS_KX: u64 = 1 << 7;
/// 64-bit addresses in user mode.
pub const STATUS_UX: u64 = 1 << 5;
/// Exceptions enter the boot vectors.
pub const STATUS_BEV: u64 = 1 << 22;
/// The kernel may use coprocessor 0.
pub const STATUS_CU0: u64 = 1 << 28;
/// The bits of Cause that come from pins: the hardware interrupts and the timer's bit (TI). The two software interrupts
/// are not among them.
pub const CAUSE_PINS: u64 = 0xfc00 | 1 << 30;
/// The core's flags for the privilege of the running code. 0 means kernel mode.
pub const FLAGS_PRIVILEGE: u64 = 3;
/// The core's flags for a branch whose delay slot is executing.
pub const FLAGS_BRANCH: u64 = 0x87_f800;

/// The place of a special register.
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

/// Reads a register in `isa`'s numbering. `pc` is returned for the pc.
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

/// Sets a register in `isa`'s numbering. Registers that describe exceptions are not changed.
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

/// States of 64-bit cores are larger than this, those of 32-bit cores are smaller.
const BYTES_OF_WIDE: usize = 14_000;
/// Offset of Status in the state of a 32-bit and of a 64-bit core.
pub const STATUS_IN: [usize; 2] = [1340, 1676];

/// The pc in a saved state.
pub fn saved_pc(image: &CoreState) -> u64 {
    if image.len() > BYTES_OF_WIDE { image.get64(PC_64) } else { image.get32(PC_32).into() }
}

/// Whether interrupts are masked in a saved state.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    interrupts_are_off(image.get32(STATUS_IN[usize::from(image.len() > BYTES_OF_WIDE)]).into())
}

/// Whether this value of Status masks interrupts.
pub fn interrupts_are_off(status: u64) -> bool {
    status & (STATUS_IE | STATUS_EXL | STATUS_ERL) != STATUS_IE
}

/// Registers for a report about a dead guest.
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

/// The registers of core dumps, in 45 words. On 32 bits six words for arguments are in front.
pub fn core_layout(isa: &Isa) -> Layout {
    let general = (0..GENERAL).map(|number| Word::Of(abi::r(number)));
    let special =
        [Word::Of(abi::LO), Word::Of(abi::HI), Word::Pc, Word::Of(abi::BADVADDR), Word::Of(abi::STATUS), Word::Of(abi::CAUSE)];
    Layout::words(isa, general.chain(special), 45).behind(if isa.word == 4 { 6 } else { 0 }, isa)
}
